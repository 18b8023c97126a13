/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options_impl.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

/* The least number of insertions, deletions, replacements and swaps that make b of a. Words
 * longer than MAX are cut, which only makes a suggestion less apt. */
static unsigned store_distance(const char *a, const char *b)
{
	enum { MAX = 32 };
	unsigned d[MAX + 1][MAX + 1];
	size_t la = strnlen(a, MAX), lb = strnlen(b, MAX);

	for (size_t i = 0; i <= la; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++)
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[la][lb];
}

static const char *store_nearest(const char *name)
{
	const char *best = NULL;
	/* Up to a third of the letters may be wrong. With more it is not a typing error. So a
	 * word of less than three letters gets no suggestion. */
	unsigned best_d = (unsigned)strlen(name) / 3 + 1;

	for (size_t i = 0; i < opt_rows; i++) {
		unsigned d = store_distance(name, opt_table[i].name);

		if (d < best_d) {
			best_d = d;
			best = opt_table[i].name;
		}
	}
	return best;
}

/* ---- Storing one option ---------------------------------------------------- */

int opt_store_string(char **at, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*at);
	*at = copy;
	return 0;
}

int opt_no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory while reading the options");
}

char *opt_absolute(const char *path)
{
	char *cwd, *abs = NULL;

	if (path[0] == '/')
		return strdup(path);
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return NULL;
	if (asprintf(&abs, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path) < 0)
		abs = NULL;
	free(cwd);
	return abs;
}

int opt_apply_path(struct options *o, const struct row *r, const char *value,
		      struct errbuf *eb)
{
	char **at = opt_field(o, r);
	char *abs = opt_absolute(value);

	if (!abs)
		return err_set(eb, -errno, "option %s: cannot make '%s' an absolute path: %s",
			       r->name, value, strerror(errno));
	free(*at);
	*at = abs;
	return 0;
}

int opt_apply_actimeo(struct options *o, const struct row *r, const char *value,
			 struct errbuf *eb)
{
	unsigned sec = (unsigned)strtoul(value, NULL, 10);     /* store_uint() has checked it */

	o->acregmin = o->acregmax = o->acdirmin = o->acdirmax = sec;
	return 0;
}

/* As in mount(8): a user who is allowed to mount this must not bring in set-user-ID programs
 * and devices, unless later options allow it. */
int opt_apply_group(struct options *o, const struct row *r, const char *value,
		    struct errbuf *eb)
{
	if (o->helper)
		o->nosuid = o->nodev = true;
	return 0;
}

int opt_apply_user(struct options *o, const struct row *r, const char *value,
		   struct errbuf *eb)
{
	if (o->helper)
		o->noexec = true;
	return opt_apply_group(o, r, value, eb);
}

static int store_uint(struct options *o, const struct row *r, const char *value,
		      struct errbuf *eb)
{
	char range[64];
	unsigned long v;
	char *end;

	opt_range_text(r, range, sizeof(range));
	if (!isdigit((unsigned char)value[0]))
		goto not_a_number;
	errno = 0;
	v = strtoul(value, &end, 10);
	if (*end)
		goto not_a_number;
	if (errno || v < r->min || v > r->max)
		return err_set(eb, -ERANGE, "option %s: '%s' is out of range (allowed: %s)",
			       r->name, value, range);
	if (r->multiple && v % r->multiple) {
		log_warn("option %s: '%s' is not a multiple of %u, rounded down to %lu",
			 r->name, value, r->multiple, v - v % r->multiple);
		v -= v % r->multiple;
	}
	if (r->off)
		*(unsigned *)opt_field(o, r) = (unsigned)v;
	return r->apply ? r->apply(o, r, value, eb) : 0;

not_a_number:
	return err_set(eb, -EINVAL, "option %s: '%s' is not a whole number (allowed: %s)",
		       r->name, value, range);
}

static int store_choice(struct options *o, const struct row *r, const char *value,
			struct errbuf *eb)
{
	char words[128];

	opt_words_text(r, words, sizeof(words));
	for (const struct choice *c = r->choices; c->word; c++) {
		if (strcmp(c->word, value) != 0)
			continue;
		if (c->refuse && *c->refuse)
			return err_set(eb, -EINVAL, "option %s: '%s' is not supported: %s (allowed: %s)",
				       r->name, value, c->refuse, words);
		if (r->off)
			*(int *)opt_field(o, r) = c->value;
		return 0;
	}
	return err_set(eb, -EINVAL, "option %s: '%s' is not known (allowed: %s)",
		       r->name, value, words);
}

/* value: NULL if there was no '='. */
static int store_option(struct options *o, const struct row *r, const char *value,
			struct errbuf *eb)
{
	bool wants_value = r->kind == UINT || r->kind == STRING || r->kind == CHOICE;
	char text[128];

	if (wants_value && (!value || !*value)) {
		if (r->kind == UINT)
			opt_range_text(r, text, sizeof(text));
		else if (r->kind == CHOICE)
			opt_words_text(r, text, sizeof(text));
		else
			snprintf(text, sizeof(text), "%s", r->meta);
		return err_set(eb, -EINVAL, "option %s needs a value: %s=%s (allowed: %s)",
			       r->name, r->name, r->meta ? r->meta : "WORD", text);
	}
	if ((r->kind == FLAG || r->kind == TRI) && value)
		return err_set(eb, -EINVAL, "option %s takes no value, but '%s=%s' was given",
			       r->name, r->name, value);

	switch (r->kind) {
	case FLAG:
		*(bool *)opt_field(o, r) = r->value;
		return 0;
	case TRI:
		*(int *)opt_field(o, r) = r->value;
		return 0;
	case UINT:
		return store_uint(o, r, value, eb);
	case CHOICE:
		return store_choice(o, r, value, eb);
	case STRING:
		if (r->apply)
			return r->apply(o, r, value, eb);
		return opt_store_string(opt_field(o, r), value) ? opt_no_memory(eb) : 0;
	case IGNORE:
		return r->apply ? r->apply(o, r, value, eb) : 0;
	case REFUSE:
		return err_set(eb, -EINVAL, "option %s: %s", r->name, r->help);
	}
	return 0;
}

/* word: "name" or "name=value"; it is modified. */
static int take_option(struct options *o, char *word, struct errbuf *eb)
{
	char *value = strchr(word, '=');
	const struct row *r;
	struct row named;
	const char *hint;

	/* Options that begin with x- are for programs that read fstab. */
	if (strncmp(word, "x-", 2) == 0 || strncmp(word, "X-", 2) == 0)
		return 0;
	if (value)
		*value++ = '\0';
	r = opt_row_named(word);
	if (r) {
		/* Messages use the name that the user gave. */
		named = *opt_meaning(r);
		named.name = r->name;
		return store_option(o, &named, value, eb);
	}
	if (o->sloppy) {
		log_warn("option '%s' is not known, ignored because of -s", word);
		return 0;
	}
	hint = store_nearest(word);
	if (hint)
		return err_set(eb, -EINVAL, "option '%s' is not known; did you mean '%s'? "
			       "(%s --help lists all)", word, hint, PACKAGE_NAME);
	return err_set(eb, -EINVAL, "option '%s' is not known (%s --help lists all)",
		       word, PACKAGE_NAME);
}

/* Copies the list's first option to word, which has room for all of the list, and returns what is behind it. */
static const char *store_next(const char *list, char *word)
{
	for (; *list && *list != ','; list++) {
		if (*list == '\\' && (list[1] == ',' || list[1] == '\\'))
			list++;
		*word++ = *list;
	}
	*word = '\0';
	return *list ? list + 1 : list;
}

int opt_take_list(struct options *o, const char *list, struct errbuf *eb)
{
	char *word = malloc(strlen(list) + 1);
	int err = 0;

	if (!word)
		return opt_no_memory(eb);
	while (*list && !err) {
		list = store_next(list, word);
		if (*word)
			err = take_option(o, word, eb);
	}
	free(word);
	return err;
}

/* Of a number and of a word of a few it is known what they say. */
static bool store_is_free(const struct row *r)
{
	const struct row *m = r ? opt_meaning(r) : NULL;

	return !m || (m->kind != UINT && m->kind != CHOICE && m->kind != FLAG && m->kind != TRI);
}

int options_each(const char *list, options_fn *fn, void *to)
{
	char *word = malloc(strlen(list) + 1), *value;
	const struct row *r;

	if (!word)
		return -ENOMEM;
	while (*list) {
		list = store_next(list, word);
		if (!*word)
			continue;
		value = strchr(word, '=');
		if (value)
			*value = '\0';
		r = opt_row_named(word);
		if (value && !r)
			*value = '=';
		fn(to, r ? word : NULL, !r ? word : value ? value + 1 : NULL, store_is_free(r));
	}
	free(word);
	return 0;
}
