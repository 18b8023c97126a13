/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a remount changes. mount(8) hands on all options of fstab(5), or of the mount table, and not only
 * those that are to be changed. So what counts is which fields have another value than before.
 */
#include "options_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool same_ends(const struct opt_ends *a, const struct opt_ends *b)
{
	for (unsigned i = 0; i < a->n && i < b->n; i++)
		if (strcmp(a->text[i], b->text[i]) != 0)
			return false;
	return a->n == b->n;
}

/* Is r the row of a field that has changed, and that has r's value now? */
static bool is_changed(const struct row *r, struct options *was, struct options *is)
{
	if (!r->off || r->same_as)
		return false;
	switch (r->kind) {
	case FLAG:
		return *(bool *)opt_field(was, r) != *(bool *)opt_field(is, r) && *(bool *)opt_field(is, r) == r->value;
	case TRI:
		return *(int *)opt_field(was, r) != *(int *)opt_field(is, r) && *(int *)opt_field(is, r) == r->value;
	case CHOICE:
		return *(int *)opt_field(was, r) != *(int *)opt_field(is, r);
	case UINT:
		return *(unsigned *)opt_field(was, r) != *(unsigned *)opt_field(is, r);
	default:
		return false;
	}
}

static int refuse_change(const char *name, struct errbuf *eb)
{
	return err_set(eb, -EINVAL, "option %s cannot be changed while the mount is there; unmount it, and mount it "
		       "again with the new options", name);
}

static int look_at_changes(struct options *was, struct options *is, bool *kernel, struct errbuf *eb)
{
	if (!same_ends(&was->remoteports, &is->remoteports))
		return refuse_change("remoteports", eb);
	if (!same_ends(&was->localports, &is->localports))
		return refuse_change("localports", eb);
	for (size_t i = 0; i < opt_rows; i++) {
		const struct row *r = &opt_table[i];

		if (!is_changed(r, was, is))
			continue;
		if (r->remount == OPT_BY_NOBODY)
			return refuse_change(r->name, eb);
		if (kernel && r->remount == OPT_BY_KERNEL)
			*kernel = true;
	}
	return 0;
}

static bool is_string(const struct row *r)
{
	return r->kind == STRING && !r->same_as && r->off;
}

/* Then those that a list brings are the only ones. */
static void forget_strings(struct options *o)
{
	for (size_t i = 0; i < opt_rows; i++)
		if (is_string(&opt_table[i]))
			*(char **)opt_field(o, &opt_table[i]) = NULL;
}

/* What a list has brought is freed. 0, or -EINVAL with eb set: it was another one. */
static int take_back_strings(struct options *was, struct options *is, struct errbuf *eb)
{
	int err = 0;

	for (size_t i = 0; i < opt_rows; i++) {
		const struct row *r = &opt_table[i];
		char **at = opt_field(is, r), *before;

		if (!is_string(r))
			continue;
		before = *(char **)opt_field(was, r);
		if (!err && *at && (!before || strcmp(*at, before) != 0))
			err = refuse_change(r->name, eb);
		free(*at);
		*at = before;
	}
	return err;
}

/* What the list does not say is what it was. A minor version, if there is one, says more than vers. */
static int settle_again(struct options *to, const struct options *was, struct errbuf *eb)
{
	int err;

	if (to->vers == OPT_VERS_4 || (to->vers != OPT_VERS_3 && to->minorversion != UINT_UNSET))
		to->vers = was->vers;
	if (to->minorversion == UINT_UNSET)
		to->minorversion = was->minorversion;
	/* The mount table has allow_other for allow_root. */
	if (to->allow_root)
		to->allow_other = was->allow_other;
	err = opt_settle_times(&to->acregmin, was->acregmin, &to->acregmax, was->acregmax, "reg", eb);
	if (!err)
		err = opt_settle_times(&to->acdirmin, was->acdirmin, &to->acdirmax, was->acdirmax, "dir", eb);
	return err ? err : opt_settle_caching(to, eb);
}

int options_remount(const struct options *o, const char *list, struct options *to, bool *kernel, struct errbuf *eb)
{
	struct options was = *o;
	int err, strings;

	*to = *o;
	forget_strings(to);
	to->minorversion = to->acregmin = to->acregmax = to->acdirmin = to->acdirmax = UINT_UNSET;
	err = opt_take_list(to, list, eb);
	to->sloppy = o->sloppy;
	to->remount = o->remount;
	if (!err)
		err = settle_again(to, o, eb);
	strings = take_back_strings(&was, to, err ? NULL : eb);
	if (kernel)
		*kernel = false;
	return err ? err : strings ? strings : look_at_changes(&was, to, kernel, eb);
}
