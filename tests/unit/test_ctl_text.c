/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the command prints for people. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/mountstats.h"
#include "ctl/text.h"
#include "ctl/rates.h"
#include "ctl/top.h"

TestSuite(ctl_text, .timeout = 60);

static void expect_clean(const char *from, const char *to)
{
	char text[64];

	strcpy(text, from);
	ctl_clean(text);
	cr_assert_str_eq(text, to);
}

Test(ctl_text, control_characters)
{
	expect_clean("plain text", "plain text");
	expect_clean("", "");
	expect_clean("a\033[2Jb\n\tc\x7f", "a?[2Jb??c?");
	/* U+009B, as UTF-8 and as a byte. */
	expect_clean("a\xc2\x9b" "2J", "a??2J");
	expect_clean("a\x9b" "2J", "a?2J");
	expect_clean("\xc2\xa0 \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc2\xa0 \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
	/* Cut, too long, stray. */
	expect_clean("\xe2\x82", "??");
	expect_clean("\xc0\x9b\xff", "???");
	expect_clean("\xc2", "?");
	expect_clean("\xf0\x9f\033", "???");
	/* Longer than need be, half a pair, behind the last one; and their neighbours, which are characters. */
	expect_clean("\xe0\x9f\xbf \xf0\x8f\xbf\xbf", "??? ????");
	expect_clean("\xed\xa0\x80 \xed\xbf\xbf \xf4\x90\x80\x80", "??? ??? ????");
	expect_clean("\xe0\xa0\x80\xed\x9f\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
		     "\xe0\xa0\x80\xed\x9f\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

Test(ctl_text, units)
{
	char t[CTL_UNIT_MAX];

	cr_assert_str_eq(ctl_count_text(0, t), "0");
	cr_assert_str_eq(ctl_count_text(999, t), "999");
	cr_assert_str_eq(ctl_count_text(1000, t), "1.0k");
	cr_assert_str_eq(ctl_count_text(999949, t), "999.9k");
	cr_assert_str_eq(ctl_count_text(999999, t), "1.0M");
	cr_assert_str_eq(ctl_count_text(1.8446744e19, t), "18.4E");
	cr_assert_str_eq(ctl_bytes_text(1023, t), "1.0K");
	cr_assert_str_eq(ctl_bytes_text(1024 * 1024 * 1.5, t), "1.5M");
	cr_assert_str_eq(ctl_bytes_text(1.8446744e19, t), "16.0E");
	cr_assert_str_eq(ctl_time_text(0, t), "-");
	cr_assert_str_eq(ctl_time_text(499, t), "0us");
	cr_assert_str_eq(ctl_time_text(999400, t), "999us");
	cr_assert_str_eq(ctl_time_text(999600, t), "1.0ms");
	cr_assert_str_eq(ctl_time_text(999999999, t), "1.0s");
	cr_assert_leq(strlen(ctl_time_text(UINT64_MAX, t)), 14);
}

/* ---- tables ---- */

#define BIG "18446744073709551615"

static char *path_table(const char *json)
{
	struct json_object *o = json_tokener_parse(json);
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert(o);
	ctl_print_path_table(f, o);
	fclose(f);
	json_object_put(o);
	return text;
}

static void expect_narrow(const char *text, size_t width)
{
	for (const char *l = text; *l; l += strcspn(l, "\n") + 1)
		cr_assert_leq(strcspn(l, "\n"), width, "%s", text);
}

Test(ctl_text, path_table)
{
	char *text = path_table("[{\"id\":0,\"server\":\"10.0.0.1\",\"local\":\"any\",\"state\":\"connected\","
				"\"connections\":2,\"wanted\":4,\"in_flight\":3,\"calls\":1234567,"
				"\"rx_bytes\":2048,\"tx_bytes\":1024,\"latency_ns\":12000,\"reconnects\":5,"
				"\"failovers\":6,\"missed\":7,\"why\":\"\"},"
				"{\"id\":1,\"server\":\"a\\u001b[2J\",\"state\":\"refused\","
				"\"why\":\"no\\u001b\\nway\"}]");
	static const char *const words[] = {
		"ID", "0", "10.0.0.1", "any", "connected", "2/4", "3", "1.2M", "2.0K", "1.0K", "12us", "5",
		"6", "7", "a\\x1b[2J", "refused", "\npath 1: no??way\n",
	};
	const char *at = text;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		at = strstr(at, words[i]);
		cr_assert(at, "%s is not in its place: %s", words[i], text);
	}
	cr_assert_null(strchr(text, '\033'));
	free(text);
}

/* Whatever the width of a terminal, the longest addresses are in one piece. */
Test(ctl_text, path_table_is_whole)
{
	static const char v6[] = "fe80:1111:2222:3333:4444:5555:6666:7777%enp129s0f0np0";
	char json[2048], row[256], *text;

	snprintf(json, sizeof(json), "[{\"id\":7,\"server\":\"%s\",\"local\":\"%s\",\"state\":\"reconnecting\","
		 "\"connections\":99,\"wanted\":99,\"in_flight\":" BIG ",\"calls\":" BIG ",\"rx_bytes\":" BIG
		 ",\"tx_bytes\":" BIG ",\"latency_ns\":999000000000,\"reconnects\":" BIG ",\"failovers\":" BIG
		 ",\"missed\":7}]", v6, v6);
	text = path_table(json);
	snprintf(row, sizeof(row), "\n 7 %s %s reconnecting 99/99 ", v6, v6);
	cr_assert(strstr(text, row) && strstr(text, " 7\n"), "%s", text);
	free(text);
}

/* What is no list of paths at all. */
Test(ctl_text, odd_replies)
{
	free(path_table("[]"));
	free(path_table("[null,7,\"x\",[],{\"id\":\"x\",\"server\":7,\"why\":{},\"calls\":-1}]"));
	free(path_table("[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]"));
}

/* ---- rates ---- */

static const char before[] =
	"{\"stats\":{\"rpc.calls\":100,\"rpc.replies\":5,\"rpc.READ\":10,\"rpc.WRITE\":20,\"rpc.OLD\":9,"
	"\"read.placed_bytes\":1000,\"read.inline_bytes\":0,\"write.chunk_bytes\":0},"
	"\"paths\":[{\"id\":0,\"generation\":1,\"calls\":100,\"rx_bytes\":7},"
	"{\"id\":1,\"generation\":1,\"calls\":50}]}";
static const char after[] =
	"{\"policy\":\"min-latency\",\"stats\":{\"rpc.calls\":300,\"rpc.replies\":500,\"rpc.READ\":110,"
	"\"rpc.WRITE\":70,\"rpc.OLD\":9,\"rpc.NEW\":4,\"read.placed_bytes\":3000,\"read.inline_bytes\":1000,"
	"\"write.chunk_bytes\":2000,\"write.inline_bytes\":2000},"
	"\"paths\":[{\"id\":0,\"generation\":1,\"calls\":300,\"rx_bytes\":3,\"server\":\"10.0.0.1\","
	"\"in_flight\":3,\"credits\":64,\"latency_ns\":12000,\"state\":\"connected\"},"
	"{\"id\":1,\"generation\":2,\"calls\":80}]}";

static struct json_object *rates_of(const char *from, const char *to)
{
	struct json_object *a = json_tokener_parse(from), *b = json_tokener_parse(to), *r;

	cr_assert(a && b);
	r = ctl_rates(a, b, 2);
	json_object_put(a);
	json_object_put(b);
	cr_assert(r);
	return r;
}

Test(ctl_text, rates)
{
	struct json_object *r = rates_of(before, after), *kinds, *paths, *p;

	cr_assert_eq(ctl_double_of(r, "calls"), 100);
	cr_assert_eq(ctl_double_of(r, "read_bytes"), 1500);
	cr_assert_eq(ctl_double_of(r, "written_bytes"), 2000);
	kinds = ctl_member_of(r, "kinds", json_type_object);
	cr_assert_eq(ctl_double_of(kinds, "READ"), 50);
	cr_assert_eq(ctl_double_of(kinds, "WRITE"), 25);
	cr_assert_eq(ctl_double_of(kinds, "NEW"), 2);
	cr_assert_eq(json_object_object_length(kinds), 3, "neither counters nor what has not happened");
	paths = ctl_member_of(r, "paths", json_type_array);
	p = json_object_array_get_idx(paths, 0);
	cr_assert_eq(ctl_double_of(p, "calls"), 100);
	cr_assert_eq(ctl_double_of(p, "rx_bytes"), 0, "a counter that went back");
	cr_assert_eq(ctl_number_of(p, "credits"), 64);
	/* Another path in the place of the one before. */
	p = json_object_array_get_idx(paths, 1);
	cr_assert_eq(ctl_double_of(p, "calls"), 40);
	json_object_put(r);
}

static char *print_rates(struct json_object *r, unsigned width, unsigned height)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	ctl_rates_print(f, r, width, height);
	fclose(f);
	return text;
}

Test(ctl_text, rates_for_people)
{
	struct json_object *r = rates_of(before, after);
	char *text = print_rates(r, 0, UINT_MAX);
	unsigned lines = 0;

	cr_assert(strstr(text, "100 calls/s   read 1.5K/s   written 2.0K/s   policy min-latency\n"), "%s", text);
	cr_assert(strstr(text, "calls/s by kind: READ 50, WRITE 25, NEW 2\n"), "%s", text);
	cr_assert(strstr(text, "3/64"), "%s", text);
	cr_assert(strstr(text, "12us"), "%s", text);
	free(text);
	/* An address is broken before anything else is. */
	text = print_rates(r, 70, UINT_MAX);
	cr_assert(strstr(text, "connected") && strstr(text, " 3/64\n") && !strstr(text, "10.0.0.1"), "%s", text);
	free(text);
	text = print_rates(r, 30, 3);
	expect_narrow(text, 30);
	for (const char *l = text; *l; l++)
		lines += *l == '\n';
	cr_assert_eq(lines, 3);
	free(text);
	json_object_put(r);
}

Test(ctl_text, most_frequent_kinds)
{
	struct json_object *r = rates_of("{\"stats\":{}}", "{\"stats\":{\"rpc.C\":6,\"rpc.A\":2,\"rpc.E\":10,"
					 "\"rpc.B\":4,\"rpc.D\":8,\"rpc.J\":20,\"rpc.F\":12,\"rpc.I\":18,"
					 "\"rpc.G\":14,\"rpc.H\":16}}");
	char *text = print_rates(r, 0, UINT_MAX);

	cr_assert(strstr(text, "kind: J 10, I 9, H 8, G 7, F 6, E 5, D 4, C 3\n"), "%s", text);
	free(text);
	json_object_put(r);
	r = rates_of("{\"stats\":{}}", "{\"stats\":{\"rpc.A\":16,\"rpc.B\":14,\"rpc.C\":12,\"rpc.D\":10,"
		     "\"rpc.E\":8,\"rpc.F\":6,\"rpc.G\":4,\"rpc.H\":2}}");
	text = print_rates(r, 0, UINT_MAX);
	cr_assert(strstr(text, "kind: A 8, B 7, C 6, D 5, E 4, F 3, G 2, H 1\n"), "%s", text);
	free(text);
	json_object_put(r);
	r = rates_of("{}", "{\"stats\":7,\"paths\":{}}");
	text = print_rates(r, 0, UINT_MAX);
	cr_assert(strstr(text, "kind: none\n"), "%s", text);
	free(text);
	json_object_put(r);
}

/* ---- replies of a process that only says that it is a daemon of ours ---- */

Test(ctl_text, rows_that_are_no_objects)
{
	static const char *const replies[] = {
		"{\"ops\":[1],\"calls\":[]}", "{\"ops\":[null],\"calls\":[null]}", "{\"ops\":[\"x\"],\"calls\":[\"x\"]}",
		"{\"ops\":[1.5],\"calls\":[1.5]}", "{\"ops\":[[]],\"calls\":[[]]}",
	};

	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		struct json_object *reply = json_tokener_parse(replies[i]);
		FILE *f = tmpfile();

		ctl_print_op_tables(f, reply);
		ctl_mountstats(f, reply, false);
		fclose(f);
		json_object_put(reply);
	}
}

Test(ctl_text, mountstats_have_no_commands_for_a_terminal)
{
	struct json_object *reply = json_tokener_parse("{\"source\":\"s:/a b\\n\\u001b[2J\",\"mountpoint\":\"/m\\t\\u009b\","
						       "\"calls\":[{\"name\":\"READ\\u001b[2J\"}]}");
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	ctl_mountstats(f, reply, false);
	fclose(f);
	cr_assert(strstr(text, "device s:/a\\040b\\012?[2J mounted on /m\\011?? with"), "%s", text);
	cr_assert(strstr(text, " READ?[2J: 0"), "%s", text);
	free(text);
	json_object_put(reply);
}
