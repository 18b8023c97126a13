/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names and addresses in texts, replaced by what says which is the same as which and no more:
 * "server-1", "address-2", "path-1". A text may come from anywhere, so what looks like an address, or is
 * quoted, is replaced although nobody has named it.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum hide_kind { HIDE_SERVER, HIDE_CLIENT, HIDE_USER, HIDE_PATH, HIDE_NAME, HIDE_ADDRESS, HIDE_KINDS };

#define HIDE_WORDS_MAX 256u

struct hide {
	struct hide_word {
		char *text;
		enum hide_kind kind;
		unsigned number;
	} word[HIDE_WORDS_MAX];
	unsigned n, numbers[HIDE_KINDS];
	bool full;                      /* not all words had room */
};

/* Notes a word, case does not count; one that is there already, or empty, is not noted again. */
void hide_add(struct hide *h, enum hide_kind kind, const char *text);
/* A path: as a whole, and each of its names. "/" is nobody's. */
void hide_add_path(struct hide *h, const char *path);
/* Writes what stands for a text as a whole; for each part of one with '~'. */
void hide_put_whole(struct hide *h, FILE *f, const char *text);
/* Writes the text without them, and without what is quoted: '...' is somebody's name, unless it is made of words that
 * are noted, or is a command of ours. Addresses that it finds are noted. */
void hide_put(struct hide *h, FILE *f, const char *text);
void hide_free(struct hide *h);
