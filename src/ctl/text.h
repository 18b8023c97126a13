/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command: texts for people. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Members of an object that the daemon sent; "" and 0 if there is none of that type. */
const char *ctl_text_of(struct json_object *o, const char *name);
uint64_t ctl_number_of(struct json_object *o, const char *name);
double ctl_double_of(struct json_object *o, const char *name);
struct json_object *ctl_member_of(struct json_object *o, const char *name, enum json_type type);

/* What is not ASCII or UTF-8, and what would end a line, as C has it. out has room for CTL_ESCAPED(bytes of text
 * with its end). Returns out. */
#define CTL_ESCAPED(room) (4 * (room) + 1)
char *ctl_escape(const char *text, char *out);
/* Replaces what a terminal may take for a command, and what is not UTF-8, by '?': control
 * characters, also U+0080 to U+009F. */
void ctl_clean(char *text);
/* The same, of a copy, to a file. */
void ctl_put(FILE *f, const char *text);

#define CTL_UNIT_MAX 16u
/* "999", "12.3k", "4.5M": at most six characters. Returns out. */
const char *ctl_count_text(double n, char out[CTL_UNIT_MAX]);
/* "999", "12.3K", "4.5G": the same by 1,024. */
const char *ctl_bytes_text(double n, char out[CTL_UNIT_MAX]);
/* "-" for 0, "999us", "12.3ms", "4.5s". */
const char *ctl_time_text(uint64_t ns, char out[CTL_UNIT_MAX]);

#define CTL_CLOCK_MAX 64u
/* "12:34:56.123456" of this day or another, from nanoseconds since 1970. */
const char *ctl_clock_text(uint64_t ns, char out[CTL_CLOCK_MAX]);

/* ---- tables ---- */

struct ctl_column {
	const char *title;
	enum {
		CTL_LONG_WORD,          /* broken where lines are too long */
		CTL_WORD, CTL_COUNT, CTL_BYTES, CTL_TIME,
		CTL_NUMBER,             /* all of its digits */
		CTL_OF                  /* member/of */
	} kind;
	const char *member, *of;        /* of the row's object */
};

/* A line for each object of the array `rows`, under the titles. If lines are longer than `width`,
 * and that is not 0, the long words in them are broken. */
void ctl_print_table(FILE *f, const struct ctl_column *columns, size_t n, struct json_object *rows,
		     unsigned width);
/* Of a reply's "paths"; and why those that are not connected are not. */
void ctl_print_path_table(FILE *f, struct json_object *paths);
/* Of a reply's "ops" and "calls". It gets a member "average_ns" in each row. */
void ctl_print_op_tables(FILE *f, struct json_object *reply);
/* Of a reply's "kept" and "running", which may be NULL. Objects get members "time" and "result", and kept gets all. */
void ctl_print_call_table(FILE *f, struct json_object *kept, struct json_object *running);
/* Of a reply's "programs". */
void ctl_print_program_table(FILE *f, struct json_object *programs);
