/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Detects a listing that never ends. A directory is read from cookie to cookie, and some
 * servers' cookies lead back to entries that were listed already.
 *
 * The cookies' values say nothing about that: some count, others are hashes, and two names
 * with the same hash have the same cookie. So the entries themselves are watched, in the
 * order in which they come (Brent's algorithm). One entry is the mark: the 1st, then the
 * 2nd, 4th, 8th ... In a circle the mark comes again and again, once it lies in the circle
 * and moves on less often than the circle turns. In a listing that ends the mark does not
 * come again, even if the directory changes meanwhile, with one exception: an entry that is
 * removed, and is created again ahead of the listing. So the mark has to come
 * COOKIES_TURNS times, with the same name.
 *
 * A listing that goes on elsewhere (rewinddir, seekdir) is watched from there anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define COOKIES_TURNS 3u

struct cookies {
	uint64_t asked, last;           /* cookies: of the request, of the newest entry */
	uint64_t last_name;             /* its name's hash; 0: no entry in this reply yet */
	uint64_t mark, mark_name;       /* the mark's cookie and hash */
	uint64_t entries, move_at;      /* entries so far; how many until the mark moves */
	unsigned met;                   /* how often the mark has come again */
};

/* The next READDIR asks for what follows `cookie`. The watch goes on if that is the newest
 * entry's cookie; otherwise it begins anew. */
void cookies_ask(struct cookies *c, uint64_t cookie);
/* The reply has this entry. false: the listing goes in a circle. */
bool cookies_entry(struct cookies *c, uint64_t cookie, const char *name, uint32_t len);
/* The reply had entries but not the end. false: its last cookie is the one that was asked
 * for, so the next reply would be the same; or 0, the beginning. */
bool cookies_advance(const struct cookies *c);
