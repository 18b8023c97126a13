/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the parts of the command line share: the table of options and its rows.
 *
 *   options_table.c   the table, and texts about its rows
 *   options_store.c   one option from -o to where it belongs
 *   options_help.c    --help, and the table as the test of the man page sees it
 *   options.c         the command line; what depends on several options
 *
 * Where a row stores its value depends on its kind:
 *
 *   FLAG    bool    one of two values that the name stands for; no "=value"
 *   TRI     int     the same for what has a default that depends on others
 *   UINT    unsigned
 *   STRING  char *
 *   CHOICE  int     the number that belongs to the word; off SIZE_MAX: nowhere
 *   IGNORE  -       words that fstab and mount(8) have for themselves; to mount(8)'s
 *                   helper some of them mean something (apply)
 *   REFUSE  -       known from nfs(5), but not there yet: says so
 *
 * Later options override earlier ones. What depends on several options
 * (version, allow_other) is worked out in settle(), options.c, when all are read.
 */
#ifndef OPTIONS_IMPL_H
#define OPTIONS_IMPL_H

#include <limits.h>
#include "options.h"

enum kind { FLAG, TRI, UINT, STRING, CHOICE, IGNORE, REFUSE };

struct choice {
	const char *word;
	int value;
	const char *refuse;     /* not NULL: why the word cannot be had */
};

struct row {
	const char *name;
	enum kind kind;
	size_t off;
	unsigned min, max, def; /* UINT */
	unsigned multiple;      /* UINT: rounded down to it */
	const char *def_text;   /* what --help says instead of def */
	int value;              /* FLAG, TRI; CHOICE: the default */
	const struct choice *choices;
	const char *meta;       /* STRING, UINT: what --help writes after '=' */
	/* STRING: checks the value; UINT, IGNORE: further fields to set. */
	int (*apply)(struct options *o, const struct row *r, const char *value,
		     struct errbuf *eb);
	const char *group;
	const char *help;
	const char *same_as;    /* another name of that row: copied from it */
};

#define UINT_UNSET UINT_MAX

extern const struct row opt_table[];
extern const size_t opt_rows;
extern const char opt_usage_line[];

/* NULL: there is none. */
const struct row *opt_row_named(const char *name);
/* The row that holds what `r` means: its own, or that of its other name. */
const struct row *opt_meaning(const struct row *r);

/* "3 or 4.1": the words that can be had. Returns buf. */
const char *opt_words_text(const struct row *r, char *buf, size_t len);
/* "4096 to 1048576 in steps of 4096". Returns buf. */
const char *opt_range_text(const struct row *r, char *buf, size_t len);

static inline void *opt_field(struct options *o, const struct row *r)
{
	return (char *)o + r->off;
}

/* ---- options_store.c ---- */

/* list: the argument of one -o. A backslash takes a comma into a value. */
int opt_take_list(struct options *o, const char *list, struct errbuf *eb);
/* Replaces *at by a copy. 0 or -ENOMEM. */
int opt_store_string(char **at, const char *value);
int opt_no_memory(struct errbuf *eb);
/* An absolute path for a daemon whose directory will be "/". NULL and errno. */
char *opt_absolute(const char *path);

/* Rows' `apply`. */
int opt_apply_actimeo(struct options *o, const struct row *r, const char *value,
		      struct errbuf *eb);
int opt_apply_localaddr(struct options *o, const struct row *r, const char *value,
			struct errbuf *eb);
int opt_apply_group(struct options *o, const struct row *r, const char *value,
		    struct errbuf *eb);
int opt_apply_user(struct options *o, const struct row *r, const char *value,
		   struct errbuf *eb);
int opt_apply_path(struct options *o, const struct row *r, const char *value,
		   struct errbuf *eb);

#endif
