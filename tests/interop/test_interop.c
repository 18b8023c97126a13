/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Our encoders against libnfs's decoders and the other way round, for every case
 * and every one of its value sets. play.h has the picture.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "play.h"

enum { CAP = 256 * 1024 };

static char ours_buf[CAP], theirs_buf[CAP], again[CAP];

#define FOR_EACH_CASE(i, k)						\
	for (unsigned i = 0; i < ours_side.ncases; i++)			\
		for (unsigned k = 0; k < PLAY_VARIANTS; k++)

/* Reports the first byte at which two encodings differ; -1 if they do not. */
static long first_difference(const char *a, uint32_t alen, const char *b, uint32_t blen)
{
	uint32_t n = alen < blen ? alen : blen;

	for (uint32_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return i;
	return alen == blen ? -1 : (long)n;
}

Test(interop, same_cases_on_both_sides)
{
	cr_assert_eq(ours_side.ncases, libnfs_side.ncases);
	for (unsigned i = 0; i < ours_side.ncases; i++)
		cr_expect_str_eq(ours_side.name(i), libnfs_side.name(i));
}

Test(interop, constants_are_identical)
{
	cr_assert_eq(ours_side.nconstants, libnfs_side.nconstants);
	for (unsigned i = 0; i < ours_side.nconstants; i++) {
		const struct play_constant *a = &ours_side.constants[i];
		const struct play_constant *b = &libnfs_side.constants[i];

		cr_expect(a->value == b->value, "%s: %llu, libnfs has %llu", a->name,
			  (unsigned long long)a->value, (unsigned long long)b->value);
	}
}

Test(interop, encodings_are_identical)
{
	FOR_EACH_CASE(i, k) {
		uint32_t a = ours_side.encode(i, k, ours_buf, CAP);
		uint32_t b = libnfs_side.encode(i, k, theirs_buf, CAP);

		cr_expect(a != 0 && first_difference(ours_buf, a, theirs_buf, b) == -1,
			  "%s, variant %u: %u bytes against %u, differ at %ld",
			  ours_side.name(i), k, a, b,
			  first_difference(ours_buf, a, theirs_buf, b));
	}
}

/* One side's bytes, decoded by the other: same values, and the same bytes again. */
static void decode_by(const struct play_side *by, const struct play_side *from)
{
	FOR_EACH_CASE(i, k) {
		uint32_t len = from->encode(i, k, ours_buf, CAP);
		const char *wrong;
		uint32_t n = by->decode(i, k, ours_buf, len, again, CAP, &wrong);

		cr_expect_null(wrong, "%s, variant %u: %s", by->name(i), k, wrong);
		cr_expect(n != 0 && first_difference(ours_buf, len, again, n) == -1,
			  "%s, variant %u: %u bytes became %u", by->name(i), k, len, n);
	}
}

Test(interop, we_decode_libnfs)
{
	decode_by(&ours_side, &libnfs_side);
}

Test(interop, libnfs_decodes_us)
{
	decode_by(&libnfs_side, &ours_side);
}

/* A message cut anywhere must be refused. The copy ends where its memory ends. */
Test(interop, truncated_messages_are_refused)
{
	FOR_EACH_CASE(i, k) {
		uint32_t len = ours_side.encode(i, k, ours_buf, CAP);
		const char *wrong;

		for (uint32_t cut = 0; cut < len; cut += len > 2048 ? 61 : 1) {
			char *copy = malloc(cut + 1);

			memcpy(copy, ours_buf, cut);
			cr_expect_eq(ours_side.decode(i, PLAY_VARIANTS, copy, cut,
						      again, CAP, &wrong), 0,
				     "%s, variant %u cut at %u of %u",
				     ours_side.name(i), k, cut, len);
			free(copy);
		}
	}
}

/*
 * Every word in turn becomes one of the values that a careless decoder trips
 * over. Most are then refused; none may read beyond the message or leak, which
 * the sanitizers check.
 */
Test(interop, damaged_messages_do_no_harm)
{
	const uint32_t bad[] = { 0xffffffff, 0x7fffffff, 0x80000000, 0x00010001, 1, 0 };

	FOR_EACH_CASE(i, k) {
		uint32_t len = ours_side.encode(i, k, ours_buf, CAP);
		const char *wrong;

		for (uint32_t at = 0; at + 4 <= len; at += len > 2048 ? 68 : 4) {
			char *copy = malloc(len);

			for (unsigned b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
				memcpy(copy, ours_buf, len);
				memcpy(copy + at, &bad[b], 4);
				ours_side.decode(i, PLAY_VARIANTS, copy, len, again,
						 CAP, &wrong);
			}
			free(copy);
		}
	}
}
