/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a listing ever end? A directory is read from cookie to cookie, and there are
 * servers whose cookies lead back to where one has been.
 *
 * Nothing is to be had from their values: some count, others are hashes, and a hash
 * that two names share comes twice. So the entries themselves are watched, in the
 * order in which they come (Brent's algorithm): one of them is the mark, and it is
 * moved on to the 1st, 2nd, 4th, 8th ... entry. In a circle the mark comes again and
 * again once it lies in it and moves less often than the circle goes round. In a
 * directory that ends it does not come again, whoever changes it meanwhile, but for
 * an entry that is removed and made anew behind where the listing is: hence
 * COOKIES_TURNS times, with the same name.
 *
 * A listing that begins somewhere else (rewinddir, seekdir) begins anew here, too.
 */
#ifndef FS_COOKIES_H
#define FS_COOKIES_H

#include <stdbool.h>
#include <stdint.h>

#define COOKIES_TURNS 3u

struct cookies {
	uint64_t asked, last;           /* where the reply begins, and the newest entry's */
	uint64_t last_name;             /* a hash; 0: none in this reply */
	uint64_t mark, mark_name;
	uint64_t entries, move_at;      /* how many there were, and when the mark moves */
	unsigned met;                   /* how often the mark has come again */
};

/* What comes next is asked for by `cookie`; it goes on if that is the newest entry's. */
void cookies_ask(struct cookies *c, uint64_t cookie);
/* An entry of the reply. False: they go in a circle. */
bool cookies_entry(struct cookies *c, uint64_t cookie, const char *name, uint32_t len);
/* The reply had entries, and there are more: false if the next one would be the same. */
bool cookies_advance(const struct cookies *c);

#endif
