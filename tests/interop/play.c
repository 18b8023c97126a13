/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the values are made of; play.h has the picture. */
#include "play.h"

#include <assert.h>
#include <string.h>

enum { ARENA = 1024 * 1024 };

static char arena[ARENA];
static size_t arena_used;

void play_start(struct play *p, bool check, unsigned variant)
{
	*p = (struct play){ .check = check, .variant = variant };
	arena_used = 0;
}

/* Letters only, so that the same bytes serve as string and as opaque. */
const char *play_bytes(uint32_t n, unsigned seed)
{
	char *at = arena + arena_used;

	assert(n < ARENA - arena_used);
	arena_used += n + 1;
	for (uint32_t i = 0; i < n; i++)
		at[i] = (char)('a' + (i * 7 + seed) % 26);
	at[n] = '\0';
	return at;
}

void play_wrong(struct play *p, const char *what)
{
	if (p->wrong == NULL)
		p->wrong = what;
}

uint32_t play_len(const struct play *p, uint32_t max)
{
	const uint32_t len[PLAY_VARIANTS] = { 1, max, 5, 8, 0, 7 };

	return len[p->variant] < max ? len[p->variant] : max;
}

int play_status(const struct play *p, int err, int err2)
{
	const int status[PLAY_VARIANTS] = { 0, 0, 0, 0, err, err2 };

	return status[p->variant];
}

void play_fixed(struct play *p, char *at, uint32_t n, unsigned seed, const char *what)
{
	const char *bytes = play_bytes(n, seed);

	if (!p->check)
		memcpy(at, bytes, n);
	else if (memcmp(at, bytes, n) != 0)
		play_wrong(p, what);
}
