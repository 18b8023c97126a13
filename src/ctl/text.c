/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/text.h"

#include <libsmartcols.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "ctl/proto.h"

/* ---- members ---- */

struct json_object *ctl_member_of(struct json_object *o, const char *name, enum json_type type)
{
	struct json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, name, &v))
		return NULL;
	return json_object_is_type(v, type) ? v : NULL;
}

const char *ctl_text_of(struct json_object *o, const char *name)
{
	struct json_object *v = ctl_member_of(o, name, json_type_string);

	return v ? json_object_get_string(v) : "";
}

uint64_t ctl_number_of(struct json_object *o, const char *name)
{
	struct json_object *v = ctl_member_of(o, name, json_type_int);

	return v ? json_object_get_uint64(v) : 0;
}

double ctl_double_of(struct json_object *o, const char *name)
{
	struct json_object *v = ctl_member_of(o, name, json_type_double);

	return v ? json_object_get_double(v) : 0;
}

/* ---- control characters ---- */

char *ctl_escape(const char *text, char *out)
{
	size_t at = 0;

	while (*text) {
		if (*text == '\\')
			out[at++] = '\\';
		at += text_show(&text, out + at);
	}
	out[at] = '\0';
	return out;
}

void ctl_clean(char *text)
{
	size_t n;

	for (; *text; text += n ? n : 1) {
		n = text_printable(text);
		if (!n)
			*text = '?';
	}
}

void ctl_put(FILE *f, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return;
	ctl_clean(copy);
	fputs(copy, f);
	free(copy);
}

/* ---- numbers ---- */

static const char *unit_text(double n, double step, const char *units, char out[CTL_UNIT_MAX])
{
	unsigned i = 0;

	if (n < 1000) {
		snprintf(out, CTL_UNIT_MAX, "%.0f", n);
		return out;
	}
	/* 999.95 would be printed as 1000.0. */
	for (n /= step; n >= 999.95 && units[i + 1]; i++)
		n /= step;
	snprintf(out, CTL_UNIT_MAX, "%.1f%c", n, units[i]);
	return out;
}

const char *ctl_count_text(double n, char out[CTL_UNIT_MAX])
{
	return unit_text(n, 1000, "kMGTPE", out);
}

const char *ctl_bytes_text(double n, char out[CTL_UNIT_MAX])
{
	return unit_text(n, 1024, "KMGTPE", out);
}

const char *ctl_time_text(uint64_t ns, char out[CTL_UNIT_MAX])
{
	double us = (double)ns / 1000;

	if (!ns)
		snprintf(out, CTL_UNIT_MAX, "-");
	else if (us < 999.5)
		snprintf(out, CTL_UNIT_MAX, "%.0fus", us);
	else if (us < 999950)
		snprintf(out, CTL_UNIT_MAX, "%.1fms", us / 1000);
	else
		snprintf(out, CTL_UNIT_MAX, "%.1fs", us / 1e6);
	return out;
}

const char *ctl_clock_text(uint64_t ns, char out[CTL_CLOCK_MAX])
{
	time_t t = (time_t)(ns / 1000000000u);
	struct tm tm;

	if (!localtime_r(&t, &tm))
		memset(&tm, 0, sizeof(tm));
	snprintf(out, CTL_CLOCK_MAX, "%02d:%02d:%02d.%06u", tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100,
		 (unsigned)(ns % 1000000000u / 1000u));
	return out;
}

/* ---- tables ---- */

static double text_number(struct json_object *o, const char *name)
{
	return json_object_get_double(json_object_object_get(o, name));
}

static void text_cell(struct libscols_line *line, size_t i, const struct ctl_column *c,
		      struct json_object *o)
{
	char text[CTL_UNIT_MAX], both[64];

	switch (c->kind) {
	case CTL_LONG_WORD:
	case CTL_WORD:
		scols_line_set_data(line, i, ctl_text_of(o, c->member));
		break;
	case CTL_COUNT:
		scols_line_set_data(line, i, ctl_count_text(text_number(o, c->member), text));
		break;
	case CTL_NUMBER:
		snprintf(both, sizeof(both), "%ju", (uintmax_t)ctl_number_of(o, c->member));
		scols_line_set_data(line, i, both);
		break;
	case CTL_BYTES:
		scols_line_set_data(line, i, ctl_bytes_text(text_number(o, c->member), text));
		break;
	case CTL_TIME:
		scols_line_set_data(line, i, ctl_time_text(ctl_number_of(o, c->member), text));
		break;
	case CTL_OF:
		snprintf(both, sizeof(both), "%ju/%ju", (uintmax_t)ctl_number_of(o, c->member),
			 (uintmax_t)ctl_number_of(o, c->of));
		scols_line_set_data(line, i, both);
		break;
	}
}

void ctl_print_table(FILE *f, const struct ctl_column *columns, size_t n, struct json_object *rows,
		     unsigned width)
{
	struct libscols_table *table = scols_new_table();
	struct libscols_line *line;

	if (!table)
		return;
	scols_table_set_stream(table, f);
	scols_table_set_termforce(table, width ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
	scols_table_set_termwidth(table, width);
	for (size_t i = 0; i < n; i++)
		scols_table_new_column(table, columns[i].title, 0,
				       columns[i].kind == CTL_LONG_WORD ? SCOLS_FL_WRAP :
				       columns[i].kind == CTL_WORD ? 0 : SCOLS_FL_RIGHT);
	for (size_t r = 0; rows && r < json_object_array_length(rows); r++) {
		line = scols_table_new_line(table, NULL);
		for (size_t i = 0; line && i < n; i++)
			text_cell(line, i, &columns[i], json_object_array_get_idx(rows, r));
	}
	scols_print_table(table);
	scols_unref_table(table);
}

void ctl_print_path_table(FILE *f, struct json_object *paths)
{
	static const struct ctl_column columns[] = {
		{ "ID", CTL_COUNT, "id", NULL },
		{ "SERVER", CTL_LONG_WORD, "server", NULL },
		{ "LOCAL", CTL_LONG_WORD, "local", NULL },
		{ "STATE", CTL_WORD, "state", NULL },
		{ "CONN", CTL_OF, "connections", "wanted" },
		{ "FLIGHT", CTL_COUNT, "in_flight", NULL },
		{ "CALLS", CTL_COUNT, "calls", NULL },
		{ "READ", CTL_BYTES, "rx_bytes", NULL },
		{ "WRITTEN", CTL_BYTES, "tx_bytes", NULL },
		{ "LATENCY", CTL_TIME, "latency_ns", NULL },
		{ "RECONN", CTL_COUNT, "reconnects", NULL },
		{ "FAILOV", CTL_COUNT, "failovers", NULL },
		{ "MISSED", CTL_COUNT, "missed", NULL },
	};

	ctl_print_table(f, columns, sizeof(columns) / sizeof(columns[0]), paths, 0);
	for (size_t i = 0; i < json_object_array_length(paths); i++) {
		struct json_object *p = json_object_array_get_idx(paths, i);

		if (!*ctl_text_of(p, "why"))
			continue;
		fprintf(f, "path %ju: ", (uintmax_t)ctl_number_of(p, "id"));
		ctl_put(f, ctl_text_of(p, "why"));
		fputc('\n', f);
	}
}

void ctl_print_program_table(FILE *f, struct json_object *programs)
{
	static const struct ctl_column columns[] = {
		{ "PID", CTL_NUMBER, "pid", NULL },
		{ "UID", CTL_NUMBER, "uid", NULL },
		{ "RINGS", CTL_COUNT, "rings", NULL },
		{ "FILES", CTL_COUNT, "files", NULL },
		{ "MEMORY", CTL_BYTES, "memory_bytes", NULL },
		{ "READS", CTL_COUNT, "reads", NULL },
		{ "READ", CTL_BYTES, "read_bytes", NULL },
		{ "WRITES", CTL_COUNT, "writes", NULL },
		{ "WRITTEN", CTL_BYTES, "written_bytes", NULL },
	};

	ctl_print_table(f, columns, sizeof(columns) / sizeof(columns[0]), programs, 0);
}

static void add_averages(struct json_object *rows, const char *ns)
{
	for (size_t i = 0; rows && i < json_object_array_length(rows); i++) {
		struct json_object *o = json_object_array_get_idx(rows, i);
		uint64_t n = ctl_number_of(o, "count");

		if (json_object_is_type(o, json_type_object))
			json_object_object_add(o, "average_ns", json_object_new_uint64(n ? ctl_number_of(o, ns) / n : 0));
	}
}

void ctl_print_op_tables(FILE *f, struct json_object *reply)
{
	static const struct ctl_column ops[] = {
		{ "REQUEST", CTL_WORD, "name", NULL },
		{ "COUNT", CTL_NUMBER, "count", NULL },
		{ "ERRORS", CTL_NUMBER, "errors", NULL },
		{ "UNTIMED", CTL_NUMBER, "untimed", NULL },
		{ "AVERAGE", CTL_TIME, "average_ns", NULL },
	}, calls[] = {
		{ "CALL", CTL_WORD, "name", NULL },
		{ "COUNT", CTL_NUMBER, "count", NULL },
		{ "ERRORS", CTL_NUMBER, "errors", NULL },
		{ "AGAIN", CTL_NUMBER, "again", NULL },
		{ "TIMEOUTS", CTL_NUMBER, "timeouts", NULL },
		{ "SENT", CTL_BYTES, "tx_bytes", NULL },
		{ "RECEIVED", CTL_BYTES, "rx_bytes", NULL },
		{ "QUEUED", CTL_TIME, "queue_ns", NULL },
		{ "AVERAGE", CTL_TIME, "average_ns", NULL },
	};
	struct json_object *o = ctl_member_of(reply, "ops", json_type_array),
		*c = ctl_member_of(reply, "calls", json_type_array), *some = json_object_new_array();

	for (size_t i = 0; c && some && i < json_object_array_length(c); i++)
		if (ctl_number_of(json_object_array_get_idx(c, i), "made"))
			json_object_array_add(some, json_object_get(json_object_array_get_idx(c, i)));
	add_averages(o, "time_ns");
	add_averages(some, "rtt_ns");
	ctl_print_table(f, ops, sizeof(ops) / sizeof(ops[0]), o, 0);
	fputc('\n', f);
	ctl_print_table(f, calls, sizeof(calls) / sizeof(calls[0]), some, 0);
	json_object_put(some);
}

void ctl_print_call_table(FILE *f, struct json_object *kept, struct json_object *running)
{
	static const struct ctl_column columns[] = {
		{ "TIME", CTL_WORD, "time", NULL },
		{ "LANE", CTL_NUMBER, "lane", NULL },
		{ "XID", CTL_WORD, "xid", NULL },
		{ "CALL", CTL_WORD, "name", NULL },
		{ "HANDLE", CTL_WORD, "handle", NULL },
		{ "PATH", CTL_NUMBER, "path", NULL },
		{ "SENDS", CTL_NUMBER, "sends", NULL },
		{ "SENT", CTL_BYTES, "tx_bytes", NULL },
		{ "RECEIVED", CTL_BYTES, "rx_bytes", NULL },
		{ "QUEUED", CTL_TIME, "queue_ns", NULL },
		{ "SERVER", CTL_TIME, "rtt_ns", NULL },
		{ "ALL", CTL_TIME, "all_ns", NULL },
		{ "RESULT", CTL_WORD, "result", NULL },
	};

	for (size_t i = 0; kept && running && i < json_object_array_length(running); i++) {
		struct json_object *o = json_object_array_get_idx(running, i);

		if (!json_object_is_type(o, json_type_object))
			continue;
		ctl_add_text(o, "result", "under way");
		json_object_array_add(kept, json_object_get(o));
	}
	for (size_t i = 0; kept && i < json_object_array_length(kept); i++) {
		struct json_object *o = json_object_array_get_idx(kept, i);
		char text[CTL_CLOCK_MAX];

		if (json_object_is_type(o, json_type_object))
			ctl_add_text(o, "time", ctl_clock_text(ctl_number_of(o, "time_ns"), text));
	}
	ctl_print_table(f, columns, sizeof(columns) / sizeof(columns[0]), kept, 0);
}
