/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What top makes of lines of the command log (ctl/busy.h): sums, their order, and the bound on how many there are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/busy.h"
#include "ctl/proto.h"
#include "ctl/text.h"

static struct busy *b;

static void setup(void)
{
	b = busy_new();
}

static void teardown(void)
{
	busy_free(b);
}

TestSuite(ctl_busy, .init = setup, .fini = teardown, .timeout = 60);

static void line(const char *name, unsigned pid, const char *op, unsigned size, unsigned took, int status)
{
	struct json_object *o = json_object_new_object();

	ctl_add_text(o, "name", name);
	ctl_add_number(o, "pid", pid);
	ctl_add_text(o, "op", op);
	if (size)
		ctl_add_number(o, "size", size);
	ctl_add_number(o, "took_ns", took);
	json_object_object_add(o, "status", json_object_new_int(status));
	busy_add(b, o);
	json_object_put(o);
}

static struct json_object *taken(void)
{
	struct json_object *o = json_object_new_object();

	busy_take(b, o);
	return o;
}

static void expect_row(struct json_object *o, const char *list, size_t i, const char *name, const char *numbers)
{
	struct json_object *row = json_object_array_get_idx(ctl_member_of(o, list, json_type_array), i);
	char text[128];

	snprintf(text, sizeof(text), "%ju %ju %ju %ju %ju", (uintmax_t)ctl_number_of(row, "reads"),
		 (uintmax_t)ctl_number_of(row, "writes"), (uintmax_t)ctl_number_of(row, "bytes"),
		 (uintmax_t)ctl_number_of(row, "others"), (uintmax_t)ctl_number_of(row, "latency_ns"));
	cr_assert_str_eq(text, numbers, "%s", json_object_to_json_string(o));
	if (name)
		cr_assert_str_eq(ctl_text_of(row, "name"), name);
}

/* A process is there, and one that is not has no name. */
Test(ctl_busy, sums)
{
	unsigned self = (unsigned)getpid();
	struct json_object *o, *row;

	line("/b", 0, "WRITE", 300, 100, 0);
	line("/a", self, "READ", 100, 10, 0);
	line("/a", self, "READ", 100, 20, -5);
	line("/a", self, "LOOKUP", 0, 30, 0);
	line("/c", 0, "FALLOCATE", 1000, 100, 0);
	o = taken();
	expect_row(o, "files", 0, "/a", "2 0 100 1 20");
	expect_row(o, "files", 1, "/b", "0 1 300 0 100");
	expect_row(o, "files", 2, "/c", "0 0 0 1 100");
	expect_row(o, "processes", 0, NULL, "2 0 100 1 20");
	expect_row(o, "processes", 1, "", "0 1 300 1 100");
	row = json_object_array_get_idx(ctl_member_of(o, "processes", json_type_array), 0);
	cr_assert_eq(ctl_number_of(row, "pid"), self);
	cr_assert(strncmp(ctl_text_of(row, "name"), "test_ctl_busy", 13) == 0 || *ctl_text_of(row, "name"));
	json_object_put(o);
	/* It begins again. */
	o = taken();
	cr_assert_eq(json_object_array_length(ctl_member_of(o, "files", json_type_array)), 0);
	cr_assert_eq(json_object_array_length(ctl_member_of(o, "processes", json_type_array)), 0);
	json_object_put(o);
}

/* What is lost is said once. Lines of another kind than the daemon's do no harm. */
Test(ctl_busy, lost_and_odd_lines)
{
	struct json_object *lost = json_tokener_parse("{\"lost\":7}"), *odd = json_tokener_parse("[1]"), *o;

	busy_add(b, lost);
	busy_add(b, lost);
	busy_add(b, odd);
	o = taken();
	cr_assert_eq(ctl_number_of(o, "lost"), 14);
	json_object_put(o);
	o = taken();
	cr_assert_eq(ctl_number_of(o, "lost"), 0);
	json_object_put(o);
	json_object_put(lost);
	json_object_put(odd);
}

Test(ctl_busy, bound)
{
	char name[32], *text;
	struct json_object *o;
	size_t len;
	FILE *f;

	for (unsigned i = 0; i < BUSY_MOST + 5; i++) {
		snprintf(name, sizeof(name), "/%u", i);
		line(name, 1u << 30 | i, "READ", 1, 1, 0);
	}
	line("/0", 1u << 30, "READ", 1, 1, 0);
	o = taken();
	cr_assert_eq(ctl_number_of(o, "further_files"), 5);
	cr_assert_eq(ctl_number_of(o, "further_processes"), 5);
	cr_assert_eq(json_object_array_length(ctl_member_of(o, "files", json_type_array)), BUSY_SHOWN);
	expect_row(o, "files", 0, "/0", "2 0 2 0 1");
	f = open_memstream(&text, &len);
	busy_print(f, o, 2);
	fclose(f);
	cr_assert(strstr(text, " FILE\n      2       0       2       0      0us /0\n      1 "), "%s", text);
	cr_assert(strstr(text, "# 5 requests of further ones\n\n"), "%s", text);
	free(text);
	json_object_put(o);
}

/* What a terminal may take for a command is not what it gets, whatever the daemon says. */
Test(ctl_busy, names_on_a_terminal)
{
	struct json_object *o;
	size_t len;
	char *text;
	FILE *f;

	line("/\x1b[2Ja\nb\xff", 0, "READ", 1, 1, 0);
	o = taken();
	ctl_add_number(o, "lost", 3);
	f = open_memstream(&text, &len);
	busy_print(f, o, 9);
	fclose(f);
	cr_assert(strstr(text, " /?[2Ja?b?\n"), "%s", text);
	cr_assert(strstr(text, "# 3 requests are missing"), "%s", text);
	free(text);
	json_object_put(o);
}
