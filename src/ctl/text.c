/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* The length of the UTF-8 character at p that a terminal may get, or 0. */
static size_t printable(const unsigned char *p)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 :
		   p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if (n == 1 && (p[0] < 0x20 || p[0] == 0x7f))
		return 0;
	return n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? 0 : n;
}

void ctl_clean(char *text)
{
	size_t n;

	for (; *text; text += n ? n : 1) {
		n = printable((unsigned char *)text);
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

/* ---- tables ---- */

bool ctl_table_row(struct ctl_table *t)
{
	if (t->rows == CTL_ROWS)
		return false;
	t->rows++;
	t->cols = 0;
	return true;
}

void ctl_table_cell(struct ctl_table *t, const char *fmt, ...)
{
	char *cell = t->cell[t->rows - 1][t->cols];
	va_list ap;

	if (t->cols == CTL_COLS)
		return;
	va_start(ap, fmt);
	vsnprintf(cell, CTL_CELL, fmt, ap);
	va_end(ap);
	ctl_clean(cell);
	t->cols++;
}

static unsigned width_of(const struct ctl_table *t, unsigned col)
{
	size_t max = 0;

	for (unsigned r = 0; r < t->rows; r++)
		if (strlen(t->cell[r][col]) > max)
			max = strlen(t->cell[r][col]);
	return (unsigned)max;
}

/* Which columns leave their rows. */
static unsigned leaves(const struct ctl_table *t, unsigned width)
{
	unsigned moved = 0, sum = 0;

	for (unsigned c = 0; c < t->cols; c++)
		sum += width_of(t, c) + (c ? 1 : 0);
	for (unsigned c = t->cols; c-- > 0 && sum > width; ) {
		if (!(t->moved & 1u << c))
			continue;
		moved |= 1u << c;
		sum -= width_of(t, c) + 1;
	}
	return moved;
}

static void print_below(FILE *f, const struct ctl_table *t, unsigned row, unsigned moved)
{
	for (unsigned c = 0; c < t->cols && row; c++)
		if (moved & 1u << c)
			fprintf(f, "   %s %s\n", t->cell[0][c], t->cell[row][c]);
	if (!t->below[row] || !*t->below[row])
		return;
	fputs("   ", f);
	ctl_put(f, t->below[row]);
	fputc('\n', f);
}

void ctl_table_print(FILE *f, const struct ctl_table *t, unsigned width)
{
	unsigned moved = leaves(t, width);

	for (unsigned r = 0; r < t->rows; r++) {
		bool first = true;

		for (unsigned c = 0; c < t->cols; c++) {
			int w = (int)width_of(t, c);

			if (moved & 1u << c)
				continue;
			fprintf(f, "%s%*s", first ? "" : " ", t->left & 1u << c ? -w : w, t->cell[r][c]);
			first = false;
		}
		fputc('\n', f);
		print_below(f, t, r, moved);
	}
}

/* ---- the paths ---- */

static void path_row(struct ctl_table *t, struct json_object *p)
{
	static const char *const counts[] = { "in_flight", "calls" };
	static const char *const bytes[] = { "rx_bytes", "tx_bytes" };
	static const char *const rare[] = { "reconnects", "failovers", "missed" };
	char text[CTL_UNIT_MAX];

	ctl_table_cell(t, "%ju", (uintmax_t)ctl_number_of(p, "id"));
	ctl_table_cell(t, "%s", ctl_text_of(p, "server"));
	ctl_table_cell(t, "%s", ctl_text_of(p, "local"));
	ctl_table_cell(t, "%s", ctl_text_of(p, "state"));
	ctl_table_cell(t, "%ju/%ju", (uintmax_t)ctl_number_of(p, "connections"),
		       (uintmax_t)ctl_number_of(p, "wanted"));
	for (unsigned i = 0; i < 2; i++)
		ctl_table_cell(t, "%s", ctl_count_text((double)ctl_number_of(p, counts[i]), text));
	for (unsigned i = 0; i < 2; i++)
		ctl_table_cell(t, "%s", ctl_bytes_text((double)ctl_number_of(p, bytes[i]), text));
	ctl_table_cell(t, "%s", ctl_time_text(ctl_number_of(p, "latency_ns"), text));
	for (unsigned i = 0; i < 3; i++)
		ctl_table_cell(t, "%s", ctl_count_text((double)ctl_number_of(p, rare[i]), text));
	t->below[t->rows - 1] = ctl_text_of(p, "why");
}

void ctl_print_path_table(FILE *f, struct json_object *paths)
{
	static const char *const titles[] = {
		"ID", "SERVER", "LOCAL", "STATE", "CONN", "FLIGHT", "CALLS", "READ", "WRITTEN",
		"LATENCY", "RECONN", "FAILOV", "MISSED",
	};
	struct ctl_table *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	t->left = 1u << 1 | 1u << 2 | 1u << 3;
	t->moved = 1u << 1 | 1u << 2;
	ctl_table_row(t);
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		ctl_table_cell(t, "%s", titles[i]);
	for (size_t i = 0; i < json_object_array_length(paths) && ctl_table_row(t); i++)
		path_row(t, json_object_array_get_idx(paths, i));
	ctl_table_print(f, t, CTL_WIDTH);
	free(t);
}
