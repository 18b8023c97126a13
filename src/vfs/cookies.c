/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vfs/cookies.h"
#include "base/hash.h"

void cookies_ask(struct cookies *c, uint64_t cookie)
{
	if (cookie == 0 || cookie != c->last)
		*c = (struct cookies){ .move_at = 1 };
	c->asked = c->last = cookie;
	c->last_name = 0;
}

bool cookies_entry(struct cookies *c, uint64_t cookie, const char *name, uint32_t len)
{
	uint64_t h = hash_bytes(name, len, 0) | 1;
	bool again = c->last_name == h && c->last == cookie;

	c->last = cookie;
	c->last_name = h;
	if (again)              /* twice in a row in one reply: that is enough */
		return false;
	if (c->entries && cookie == c->mark && h == c->mark_name && ++c->met >= COOKIES_TURNS)
		return false;
	if (++c->entries == c->move_at) {
		c->mark = cookie;
		c->mark_name = h;
		c->met = 0;
		c->move_at *= 2;
	}
	return true;
}

bool cookies_advance(const struct cookies *c)
{
	return c->last && c->last != c->asked;
}
