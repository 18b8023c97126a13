/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A listing that goes in a circle is noticed soon. Other listings are never taken for one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include "vfs/cookies.h"

static struct cookies seq;

static bool entry(uint64_t cookie, const char *name)
{
	return cookies_entry(&seq, cookie, name, (uint32_t)strlen(name));
}

static bool number(uint64_t cookie, unsigned n)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", n);
	return entry(cookie, name);
}

/* Nothing can be told from one value about another. */
static uint64_t mixed(uint64_t n)
{
	n = (n ^ n >> 31) * 0x9e3779b97f4a7c15u;
	return n ^ n >> 29;
}

/* After `lead` entries a circle of `turn`; so many in a reply. */
static void circle(unsigned lead, unsigned turn, unsigned per_reply)
{
	unsigned n = 0, limit = 9 * (lead + turn) + 3;
	uint64_t last = 0;

	cookies_ask(&seq, 0);
	for (;; n++) {
		unsigned i = n < lead ? n : lead + (n - lead) % turn;

		if (n && n % per_reply == 0) {
			if (!cookies_advance(&seq))
				break;
			cookies_ask(&seq, last);
		}
		last = mixed(i + 1);
		if (!number(last, i))
			break;
		cr_assert_lt(n, limit, "%u and a circle of %u, %u in a reply", lead, turn, per_reply);
	}
	cr_assert_geq(n, lead, "too soon");
}

Test(vfs_cookies, circles)
{
	for (unsigned lead = 0; lead < 40; lead++)
		for (unsigned turn = 1; turn < 50; turn++)
			for (unsigned per = 1; per < 30; per += 1 + per / 3)
				circle(lead, turn, per);
	circle(0, 100000, 300);
	circle(100000, 5, 300);
}

/* Up, down, and hashes: a million entries, all different. */
Test(vfs_cookies, large_directories)
{
	for (unsigned kind = 0; kind < 3; kind++) {
		uint64_t last = 0;

		cookies_ask(&seq, 0);
		for (unsigned i = 1; i <= 1000000; i++) {
			last = kind == 0 ? i : kind == 1 ? 0 - (uint64_t)i : mixed(i);
			cr_assert(number(last, i), "entry %u", i);
			if (i % 333 == 0) {
				cr_assert(cookies_advance(&seq));
				cookies_ask(&seq, last);
			}
		}
	}
}

/* Hashes of 10 bits: hundreds of names have the same. */
Test(vfs_cookies, collisions)
{
	cookies_ask(&seq, 0);
	for (unsigned i = 0; i < 300000; i++)
		cr_assert(number(i / 300 + 1, i));
	/* At the beginning of a reply one comes that there was already. */
	cookies_ask(&seq, 1000);
	cr_assert(number(1000, 299999) && number(1000, 300000) && number(1001, 300001));
	cr_assert(cookies_advance(&seq));
}

/* An entry gets another name, or is removed and made anew, behind where the listing
 * is, and has the same cookie again. */
Test(vfs_cookies, changes_meanwhile)
{
	cookies_ask(&seq, 0);
	for (unsigned i = 1; i < 100000; i++) {
		cr_assert(number(i + 10, i));
		cr_assert(number(5, i), "renamed, %u", i);
	}
	cookies_ask(&seq, 0);
	for (unsigned i = 1; i < 1000; i++) {
		cr_assert(number(i + 10, i));
		cr_assert(i % 400 || entry(5, "anew"));
	}
}

/* Going back is not going in a circle. */
Test(vfs_cookies, seeks)
{
	for (unsigned k = 0; k < 1000; k++) {
		cookies_ask(&seq, k % 3 ? 7 : 0);
		for (unsigned i = k % 3 ? 8 : 1; i < 20; i++)
			cr_assert(number(i, i), "round %u", k);
	}
}

/* Nothing but what was asked behind, and more to come. */
Test(vfs_cookies, standing_still)
{
	cookies_ask(&seq, 0);
	cr_assert(number(9, 1));
	cookies_ask(&seq, 9);
	cr_assert(number(9, 2) && !cookies_advance(&seq));
	cookies_ask(&seq, 0);
	cr_assert(number(0, 1) && !cookies_advance(&seq), "that would be from the start");
	cookies_ask(&seq, 9);
	cr_assert(number(0, 1) && !cookies_advance(&seq), "so would that");
	cookies_ask(&seq, 0);
	cr_assert(number(9, 1) && !number(9, 1), "twice in one reply");
}
