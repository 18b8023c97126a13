/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The longest word that begins at a place is replaced, wherever in a longer one it is, so that
 * "srv" takes the name out of "srv.example.org" too; the rest of that is noted by who knows it.
 * Words of less than four letters would tear others to pieces: they have to stand alone.
 */
#include "doctor/hide.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/sock.h"

#define STANDS_ALONE 4u

static const char *const kinds[HIDE_KINDS] = {
	[HIDE_SERVER] = "server", [HIDE_CLIENT] = "client", [HIDE_USER] = "user", [HIDE_PATH] = "path",
	[HIDE_NAME] = "name", [HIDE_ADDRESS] = "address",
};

static const struct hide_word *hide_find(const struct hide *h, const char *text, size_t len)
{
	for (unsigned i = 0; i < h->n; i++)
		if (strlen(h->word[i].text) == len && strncasecmp(h->word[i].text, text, len) == 0)
			return &h->word[i];
	return NULL;
}

static const struct hide_word *hide_note(struct hide *h, enum hide_kind kind, const char *text, size_t len)
{
	const struct hide_word *known = hide_find(h, text, len);
	char *copy = known || h->n == HIDE_WORDS_MAX ? NULL : strndup(text, len);
	struct hide_word *w;

	if (known)
		return known;
	if (!copy) {
		h->full = true;
		return NULL;
	}
	w = &h->word[h->n];
	w->text = copy;
	w->kind = kind;
	w->number = ++h->numbers[kind];
	h->n++;
	return w;
}

void hide_add(struct hide *h, enum hide_kind kind, const char *text)
{
	if (text && *text)
		hide_note(h, kind, text, strlen(text));
}

void hide_add_path(struct hide *h, const char *path)
{
	size_t len;

	if (!path || strcmp(path, "/") == 0)
		return;
	hide_add(h, HIDE_PATH, path);
	for (const char *p = path; *p; p += len) {
		p += strspn(p, "/");
		len = strcspn(p, "/");
		if (len)
			hide_note(h, HIDE_PATH, p, len);
	}
}

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The longest word that is at `at`, which may be replaced there. */
static const struct hide_word *hide_at(const struct hide *h, const char *text, const char *at, size_t *len)
{
	const struct hide_word *best = NULL;

	*len = 0;
	for (unsigned i = 0; i < h->n; i++) {
		size_t n = strlen(h->word[i].text);

		if (n <= *len || strncasecmp(at, h->word[i].text, n) != 0)
			continue;
		if (n < STANDS_ALONE && (in_word(at[n]) || (at > text && in_word(at[-1]))))
			continue;
		best = &h->word[i];
		*len = n;
	}
	return best;
}

/* How much at `at` is an IPv4 or IPv6 address, or a hardware's: four or more pairs of hexadecimal
 * digits between colons. Not in the middle of a word. */
static size_t hide_address(const char *text, const char *at)
{
	size_t len = strspn(at, "0123456789abcdefABCDEF.:"), colons = 0;
	struct sock_numeric n;

	if (at > text && (in_word(at[-1]) || at[-1] == '.' || at[-1] == ':'))
		return 0;
	/* The sentence may end there. */
	while (len && (at[len - 1] == '.' || (at[len - 1] == ':' && (len < 2 || at[len - 2] != ':'))))
		len--;
	if (len < 3 || in_word(at[len]))
		return 0;
	for (size_t i = 0; i < len; i++)
		colons += at[i] == ':';
	if (sock_numeric(at, len, &n) || colons > 2)
		return len;
	/* "10.0.0.1:/x" */
	for (size_t i = len; i-- > 0; )
		if (at[i] == ':')
			return sock_numeric(at, i, &n) ? i : 0;
	return 0;
}

static void hide_word_put(const struct hide_word *w, enum hide_kind kind, FILE *f)
{
	if (w)
		fprintf(f, "%s-%u", kinds[w->kind], w->number);
	else
		fprintf(f, "%s-?", kinds[kind]);
}

void hide_put_whole(struct hide *h, FILE *f, const char *text)
{
	size_t len = strchr(text, '/') ? strlen(text) : strcspn(text, "~");

	hide_word_put(hide_note(h, HIDE_NAME, text, len), HIDE_NAME, f);
	if (text[len]) {
		fputc('~', f);
		hide_put_whole(h, f, text + len + 1);
	}
}

/* How much at `at` is an address or a noted word. *w NULL: there was no room to note it. 0: nothing. */
static size_t hide_known(struct hide *h, const char *text, const char *at, const struct hide_word **w)
{
	size_t len = hide_address(text, at), other;
	const struct hide_word *longer = hide_at(h, text, at, &other);

	*w = len ? hide_note(h, HIDE_ADDRESS, at, len) : NULL;
	if (longer && other >= len) {
		*w = longer;
		len = other;
	}
	return len;
}

/* Commands in messages of ours. */
static bool hide_is_command(const char *text)
{
	static const char *const begins[] = { "ulimit -", "getent ", "showmount -", "ip link set ", "rdma ", "insecure'",
					      "memlock'" };

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (strncmp(text, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

/* How much behind the quote at `at` is to be hidden as a whole: a server's or a user's words, which nobody has noted.
 * They end with a quote that no letter follows, which *end is then, or with the line: a long message has lost its
 * middle. */
static size_t hide_quoted(struct hide *h, const char *text, const char *at, const char **end)
{
	const struct hide_word *w;
	size_t len = 0, known = 0;

	if (*at != '\'' || (at > text && in_word(at[-1])))
		return 0;
	for (at++; at[len] && at[len] != '\n' && (at[len] != '\'' || in_word(at[len + 1])); )
		len++;
	*end = at + len;
	if (hide_is_command(at))
		return 0;
	while (known < len) {
		size_t n = hide_known(h, text, at + known, &w);

		if (!n && in_word(at[known]))
			return len;
		known += n ? n : 1;
	}
	return 0;
}

void hide_put(struct hide *h, FILE *f, const char *text)
{
	const char *end = NULL;         /* of what is quoted there: a quote that begins nothing */

	for (const char *at = text; *at; ) {
		size_t quoted = at == end ? 0 : hide_quoted(h, text, at, &end), len;
		const struct hide_word *w;

		if (quoted) {
			fputc('\'', f);
			hide_word_put(hide_note(h, HIDE_NAME, at + 1, quoted), HIDE_NAME, f);
			at += 1 + quoted;
			continue;
		}
		len = hide_known(h, text, at, &w);
		if (len)
			hide_word_put(w, HIDE_ADDRESS, f);
		else
			fputc(*at, f);
		at += len ? len : 1;
	}
}

void hide_free(struct hide *h)
{
	while (h->n)
		free(h->word[--h->n].text);
}
