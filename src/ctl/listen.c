/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"
#include "ctl/proto.h"
#include "ctl/text.h"

#define SLOWER_MOST_MS 3600000u          /* what the daemon takes */

static void print_line(struct json_object *o, void *to)
{
	char clock[CTL_CLOCK_MAX], range[64] = "-";
	int status = (int)json_object_get_int(ctl_member_of(o, "status", json_type_int));

	if (*(bool *)to) {
		ctl_put(stdout, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
		putchar('\n');
	} else if (ctl_member_of(o, "lost", json_type_int)) {
		printf("# %ju lines are lost\n", (uintmax_t)ctl_number_of(o, "lost"));
	} else {
		if (ctl_member_of(o, "size", json_type_int))
			snprintf(range, sizeof(range), "%ju+%ju", (uintmax_t)ctl_number_of(o, "offset"),
				 (uintmax_t)ctl_number_of(o, "size"));
		printf("%s %ju ", ctl_clock_text(ctl_number_of(o, "time_ns"), clock), (uintmax_t)ctl_number_of(o, "pid"));
		ctl_put(stdout, ctl_text_of(o, "op"));
		printf(" %s %juus %juus %s ", range, (uintmax_t)(ctl_number_of(o, "took_ns") / 1000u),
		       (uintmax_t)(ctl_number_of(o, "server_ns") / 1000u), status ? strerror(-status) : "OK");
		ctl_put(stdout, ctl_text_of(o, "name"));
		putchar('\n');
	}
	/* Whoever reads this sees each line when it is there. */
	if (fflush(stdout))
		exit(CTL_REFUSED);
}

/* JSON has no other bytes than those of UTF-8: the others become what lines have for them. */
static int add_pattern(struct json_object *q, const char *pattern, struct errbuf *eb)
{
	char *text = malloc(CTL_ESCAPED(strlen(pattern)));
	size_t n = 0;

	if (!text)
		return err_set(eb, CTL_GONE, "out of memory");
	while (*pattern)
		n += text_show(&pattern, text + n);
	ctl_add_text(q, "name", text);
	free(text);
	return CTL_OK;
}

static int add_filter(struct json_object *q, const char *filter, struct errbuf *eb)
{
	const char *value = strchr(filter, '=');
	size_t n = value ? (size_t)(value - filter) : 0;
	char *end;
	double number;

	if (!value || !value[1])
		return err_set(eb, CTL_USAGE, "'%s' is no filter: op=, pid=, uid=, name= or slower= with a value is", filter);
	value++;
	number = strtod(value, &end);
	if (n == 2 && strncmp(filter, "op", n) == 0) {
		ctl_add_text(q, "op", value);
	} else if (n == 4 && strncmp(filter, "name", n) == 0) {
		return add_pattern(q, value, eb);
	} else if (*end || !(number >= 0 && number <= 4294967295.0)) {
		return err_set(eb, CTL_USAGE, "'%s' is not a filter with a number", filter);
	} else if (n == 3 && (strncmp(filter, "pid", n) == 0 || strncmp(filter, "uid", n) == 0)) {
		json_object_object_add(q, *filter == 'p' ? "pid" : "uid", json_object_new_uint64((uint64_t)number));
	} else if (n == 6 && strncmp(filter, "slower", n) == 0) {
		if (number > SLOWER_MOST_MS)
			return err_set(eb, CTL_USAGE, "'%s' is not a filter with a time from 0 to %u milliseconds", filter,
				       SLOWER_MOST_MS);
		json_object_object_add(q, "slower_us", json_object_new_uint64((uint64_t)(number * 1000 + 0.5)));
	} else {
		return err_set(eb, CTL_USAGE, "'%s' is no filter: op=, pid=, uid=, name= or slower= is", filter);
	}
	return CTL_OK;
}

int ctl_listen_log(const struct ctl_peer *p, char **filters, unsigned n, bool json, struct errbuf *eb)
{
	struct json_object *q = json_object_new_object();
	struct ctl_lines l = { .fd = -1 };
	int status = CTL_OK;

	ctl_add_text(q, "command", "log");
	for (unsigned i = 0; i < n && !status; i++)
		status = add_filter(q, filters[i], eb);
	if (!status)
		status = ctl_lines_open(&l, p, q, eb);
	if (!status)
		status = ctl_lines_take(&l, -1, print_line, &json, eb);
	ctl_lines_close(&l);
	json_object_put(q);
	return status;
}
