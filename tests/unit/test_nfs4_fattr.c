/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attributes of version 4: all of them in a row, or picked by a mask; whatever is missing, too
 * long or unknown is refused. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "nfs/nfs4/nfs4_compound.h"

#define WORDS 400u

static uint32_t wire[WORDS];
static unsigned n, type_at, owner_at;

static void words(unsigned count, uint32_t first)
{
	for (unsigned i = 0; i < count; i++)
		wire[n++] = htonl(first + i);
}

static void text(const char *s)
{
	words(1, (uint32_t)strlen(s));
	memcpy(&wire[n], s, strlen(s));
	n += ((unsigned)strlen(s) + 3) / 4;
}

/* The values of nfs4_stat_mask. lease: and FATTR4_LEASE_TIME among them. */
static void stat_values(bool lease)
{
	memset(wire, 0, sizeof(wire));
	n = 0;
	type_at = n;
	words(1, NF4REG);
	words(2, 10);           /* change */
	words(2, 20);           /* size */
	words(4, 30);           /* fsid */
	if (lease)
		words(1, 90);
	words(2, 40);           /* fileid */
	words(1, 0644);
	words(1, 3);            /* links */
	owner_at = n;
	text("1000");
	text("staff@here");
	words(2, 50);           /* rdev */
	words(2, 60);           /* used */
	words(3, 70);           /* atime */
	words(3, 80);           /* ctime */
	words(3, 100);          /* mtime */
}

static bool get(struct nfs4_attrs *a, bool lease, uint32_t len)
{
	fattr4 in = { .attrmask = nfs4_stat_mask,
		      .attr_vals = { .len = len, .data = (const char *)wire } };

	if (lease)
		bitmap4_set(&in.attrmask, FATTR4_LEASE_TIME);
	return nfs4_get_fattr(a, &in);
}

static void as_sent(bool lease)
{
	struct nfs4_attrs a;

	stat_values(lease);
	cr_assert(get(&a, lease, n * 4));
	cr_assert_eq(a.attr.mode, S_IFREG | 0644);
	cr_assert_eq(a.attr.change, (uint64_t)10 << 32 | 11);
	cr_assert_eq(a.attr.size, (uint64_t)20 << 32 | 21);
	cr_assert_eq(a.attr.fsid_minor, (uint64_t)32 << 32 | 33);
	cr_assert_eq(a.attr.fileid, (uint64_t)40 << 32 | 41);
	cr_assert_eq(a.attr.nlink, 3);
	cr_assert_eq(a.attr.uid, 1000);
	cr_assert_eq(a.owner.len, 0);
	cr_assert_eq(a.attr.gid, NFS_NOBODY);
	cr_assert(a.group.len == 10 && memcmp(a.group.data, "staff@here", 10) == 0);
	cr_assert_eq(a.attr.rdev_minor, 51);
	cr_assert_eq(a.attr.used, (uint64_t)60 << 32 | 61);
	cr_assert_eq(a.attr.mtime.tv_nsec, 102);
	cr_assert_eq(a.lease_s, lease ? 90 : 0);
}

Test(nfs4_fattr, in_a_row)
{
	as_sent(false);
}

Test(nfs4_fattr, by_mask)
{
	as_sent(true);
}

/* In memory that ends there, for AddressSanitizer. */
static bool get_exactly(bool lease, uint32_t len)
{
	fattr4 in = { .attrmask = nfs4_stat_mask, .attr_vals.len = len };
	char *copy = malloc(len ? len : 1);
	struct nfs4_attrs a;
	bool ok;

	if (lease)
		bitmap4_set(&in.attrmask, FATTR4_LEASE_TIME);
	in.attr_vals.data = memcpy(copy, wire, len);
	ok = nfs4_get_fattr(&a, &in);
	free(copy);
	return ok;
}

/* At each length but the right one: also where an attribute ends. */
Test(nfs4_fattr, all_of_it_or_nothing)
{
	for (int lease = 0; lease < 2; lease++) {
		stat_values(lease);
		for (unsigned len = 0; len <= n * 4 + 8; len++)
			cr_assert_eq(get_exactly(lease, len), len == n * 4, "%u of %u", len, n * 4);
	}
}

Test(nfs4_fattr, types_that_do_not_exist)
{
	struct nfs4_attrs a;

	stat_values(false);
	wire[type_at] = 0;
	cr_assert_not(get(&a, false, n * 4));
	wire[type_at] = htonl(NF4NAMEDATTR + 90);
	cr_assert_not(get(&a, false, n * 4));
}

/* Lengths that would end behind the values, and one that fits and is too long for a name. */
Test(nfs4_fattr, lengths_that_lie)
{
	static const uint32_t bad[] = { 1028, 1500, 0x7fffffff, 0xfffffffc, 0xffffffff };
	struct nfs4_attrs a;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		stat_values(false);
		wire[owner_at] = htonl(bad[i]);
		cr_assert_not(get(&a, false, n * 4), "%u", bad[i]);
		cr_assert_not(get(&a, false, sizeof(wire)), "%u", bad[i]);
	}
}

/* The longest owner, and one byte more, with everything behind it in its place. */
Test(nfs4_fattr, the_longest_owner)
{
	uint32_t rest[64], behind;
	struct nfs4_attrs a;

	for (uint32_t len = 1024; len <= 1025; len++) {
		stat_values(false);
		behind = n - (owner_at + 2);
		memcpy(rest, &wire[owner_at + 2], behind * 4);
		wire[owner_at] = htonl(len);
		memset(&wire[owner_at + 1], 'x', 1028);
		memcpy(&wire[owner_at + 1 + (len + 3) / 4], rest, behind * 4);
		cr_assert_eq(get(&a, false, (owner_at + 1 + (len + 3) / 4 + behind) * 4), len == 1024);
	}
}
