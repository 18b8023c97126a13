/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ugid.h. */
#include "fuse/ugid.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

bool ugid_find_there(const struct ugid_map *m, uint32_t here, uint32_t *there)
{
	*there = here;
	for (unsigned i = 0; i < m->n; i++) {
		if (here - m->range[i].here < m->range[i].count) {
			*there = m->range[i].there + (here - m->range[i].here);
			return true;
		}
	}
	return !m->n;
}

uint32_t ugid_there(const struct ugid_map *m, uint32_t here)
{
	uint32_t there;

	return ugid_find_there(m, here, &there) ? there : UGID_NOBODY;
}

uint32_t ugid_here(const struct ugid_map *m, uint32_t there)
{
	for (unsigned i = 0; i < m->n; i++)
		if (there - m->range[i].there < m->range[i].count)
			return m->range[i].here + (there - m->range[i].there);
	return m->n ? UGID_NOBODY : there;
}

static bool overlaps(uint32_t a, uint32_t b, const struct ugid_range *r, const struct ugid_range *s)
{
	return a - b < s->count || b - a < r->count;
}

/* NULL; or what is wrong with it. */
static const char *add_range(struct ugid_map *m, const struct ugid_range *r)
{
	if (!r->count)
		return "a range of 0 numbers";
	if (r->count - 1 > UINT32_MAX - r->here || r->count - 1 > UINT32_MAX - r->there)
		return "a range that goes beyond 4294967295";
	if (m->n == UGID_RANGES)
		return "one range too many: 340 are allowed";
	for (unsigned i = 0; i < m->n; i++)
		if (overlaps(r->here, m->range[i].here, r, &m->range[i]) ||
		    overlaps(r->there, m->range[i].there, r, &m->range[i]))
			return "a number that another line has as well";
	m->range[m->n++] = *r;
	return NULL;
}

/* ---- a user namespace ---- */

/* Everything as it is outside: no table is needed. */
static bool is_identity(const struct ugid_map *m)
{
	return m->n == 1 && m->range[0].here == 0 && m->range[0].there == 0 && m->range[0].count == UINT32_MAX;
}

static int of_kernel(struct ugid_map *m, const char *proc, const char *name, struct errbuf *eb)
{
	struct ugid_range r;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	f = fopen(path, "re");
	if (!f)
		return err_set(eb, -errno, "cannot read %s: %s", path, strerror(errno));
	while (fscanf(f, "%" SCNu32 " %" SCNu32 " %" SCNu32, &r.here, &r.there, &r.count) == 3)
		add_range(m, &r);
	fclose(f);
	if (is_identity(m))
		m->n = 0;
	return 0;
}

int ugid_of_namespace(struct ugid *out, const char *proc, struct errbuf *eb)
{
	int rc;

	out->user.n = out->group.n = 0;
	rc = of_kernel(&out->user, proc, "uid_map", eb);
	return rc ? rc : of_kernel(&out->group, proc, "gid_map", eb);
}

/* ---- a file ---- */

/* A whole number of 32 bits, and behind it space or the end. */
static bool take_number(char **at, uint32_t *out)
{
	unsigned long long v;
	char *end;

	*at += strspn(*at, " \t");
	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	v = strtoull(*at, &end, 10);
	if (errno || v > UINT32_MAX || (*end && !isspace((unsigned char)*end)))
		return false;
	*out = (uint32_t)v;
	*at = end;
	return true;
}

/* NULL; or what is wrong with it. */
static const char *take_line(struct ugid *out, char *line)
{
	struct ugid_range r = { .count = 1 };
	char *at = line + strspn(line, " \t"), kind;

	line[strcspn(line, "#\n")] = '\0';
	if (at[strspn(at, " \t\r")] == '\0')
		return NULL;
	kind = *at++;
	if ((kind != 'u' && kind != 'g') || !isspace((unsigned char)*at))
		return "not 'u' or 'g' at its beginning";
	if (!take_number(&at, &r.here) || !take_number(&at, &r.there))
		return "not two whole numbers, up to 4294967295, behind that";
	if (at[strspn(at, " \t\r")] && !take_number(&at, &r.count))
		return "no whole number as its third";
	if (at[strspn(at, " \t\r")])
		return "more than three numbers";
	return add_range(kind == 'u' ? &out->user : &out->group, &r);
}

int ugid_of_file(struct ugid *out, const char *path, struct errbuf *eb)
{
	const char *wrong = NULL;
	char *line = NULL;
	size_t size = 0;
	unsigned n = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return err_set(eb, -errno, "cannot read the file of idmap, '%s': %s", path, strerror(errno));
	out->user.n = out->group.n = 0;
	while (!wrong && getline(&line, &size, f) > 0) {
		n++;
		wrong = take_line(out, line);
	}
	free(line);
	fclose(f);
	if (wrong)
		return err_set(eb, -EINVAL, "'%s', line %u has %s; a line is 'u HERE THERE [COUNT]' or 'g HERE THERE [COUNT]'",
			       path, n, wrong);
	return out->user.n && out->group.n ? 0 : err_set(eb, -EINVAL, "'%s' has no line for %s: nobody would be anybody",
							 path, out->user.n ? "groups (g)" : "users (u)");
}
