/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the parts of the command line share: the table of options and its rows.
 *
 *   options_table.c   the table, and texts about its rows
 *   options_store.c   stores one option from -o
 *   options_paths.c   the options that name ends of paths
 *   options_help.c    --help
 *   options_remount.c what changes while the mount is there
 *   options.c         the command line; what depends on several options
 *
 * A row stores its value at `off`; the type depends on its kind. off 0: nowhere, but `apply` may
 * store it.
 *
 *   FLAG    bool    `value`, which the name stands for; no "=value"
 *   TRI     int     the same, for an option whose default depends on others
 *   UINT    unsigned
 *   STRING  char *
 *   CHOICE  int     the number of the word
 *   IGNORE  -       words for fstab and mount(8) only; some of them mean something when
 *                   mount(8) calls us (apply)
 *   REFUSE  -       nfs(5) has it, we do not: refused with a reason
 *
 * Later options override earlier ones. Values that depend on several options (version,
 * allow_other) are worked out in options_settle(), when all options are read.
 */
#pragma once

#include <limits.h>
#include "options.h"

enum kind { FLAG, TRI, UINT, STRING, CHOICE, IGNORE, REFUSE };

struct choice {
	const char *word;
	int value;
	const char *refuse;     /* why the word is refused; "": allowed, not listed */
};

/* Who changes it while the mount is there; nobody, if it is one of those that a mount is made with. */
enum opt_remount { OPT_BY_NOBODY, OPT_BY_DAEMON, OPT_BY_KERNEL };

struct row;
typedef int opt_apply(struct options *o, const struct row *r, const char *value, struct errbuf *eb);

struct row {
	const char *name, *group, *help;
	enum kind kind;
	size_t off;
	unsigned min, max, def; /* UINT; FLAG: def is true for the default of two */
	unsigned multiple;      /* UINT: the value is rounded down to a multiple of this */
	const char *def_text;   /* --help says this instead of def */
	int value;              /* FLAG, TRI: what is stored; CHOICE: the default */
	const struct choice *choices;
	const char *meta;       /* STRING, UINT: --help writes this after '=' */
	/* STRING: checks and stores the value; UINT, IGNORE: sets further fields. */
	opt_apply *apply;
	const char *same_as;    /* this row is another name of the row with that name */
	enum opt_remount remount;
};

#define UINT_UNSET UINT_MAX

_Static_assert(offsetof(struct options, action) == 0, "no option is stored at 0");

extern const struct row opt_table[];
extern const size_t opt_rows;
extern const char opt_usage_line[];

/* The row with that name. NULL: there is none. */
const struct row *opt_row_named(const char *name);
/* The row that says what r means: r itself, or the row of r->same_as. */
const struct row *opt_meaning(const struct row *r);

/* "3 or 4.1": the words that are allowed. Returns buf. */
const char *opt_words_text(const struct row *r, char *buf, size_t len);
/* The word of a CHOICE that has the default's value. */
const char *opt_default_word(const struct row *r);
/* "4096 to 1048576 in steps of 4096". Returns buf. */
const char *opt_range_text(const struct row *r, char *buf, size_t len);

static inline void *opt_field(struct options *o, const struct row *r)
{
	return (char *)o + r->off;
}

/* ---- options_store.c ---- */

/* list: the argument of one -o. A comma after a backslash belongs to the value. 0 or -errno
 * with eb set. */
int opt_take_list(struct options *o, const char *list, struct errbuf *eb);
/* Replaces *at by a copy of value. 0 or -ENOMEM. */
int opt_store_string(char **at, const char *value);
/* -ENOMEM with eb set. */
int opt_no_memory(struct errbuf *eb);
/* path made absolute, because the daemon's directory will be "/". NULL: see errno. */
char *opt_absolute(const char *path);

/* Functions for rows' `apply`. */
opt_apply opt_apply_actimeo, opt_apply_group, opt_apply_user, opt_apply_path;

/* ---- options.c ---- */

/* A pair of cache times (kind: "reg", "dir"). If only one was given, the default of the other one gives way:
 * acregmax=1 alone lowers acregmin, too. 0 or -errno with eb set. */
int opt_settle_times(unsigned *min, unsigned def_min, unsigned *max, unsigned def_max, const char *kind,
		     struct errbuf *eb);
/* What depends on several options, all of caches; allow_other and default_permissions are settled. 0 or -errno
 * with eb set. */
int opt_settle_caching(struct options *o, struct errbuf *eb);

/* ---- options_paths.c ---- */

opt_apply opt_apply_remoteports, opt_apply_localports;
/* Of options_settle(): the heartbeat's default. */
void opt_settle_paths(struct options *o);
