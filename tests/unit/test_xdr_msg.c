/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream of xdr_msg.h, compared with libtirpc's xdrmem: the same items in the same order
 * give the same bytes, the same values, the same positions, and end at the same byte when
 * there is no room for all of them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "xdr_msg.h"

#define ITEMS 40u
#define ROOM  512u

struct item {
	enum { WORD, ENUM, LONG, BOOL, OPAQUE, SIGNED, COUNTED } what;
	uint32_t word;
	int32_t sign;
	enum_t e;
	uint64_t dword;
	bool_t flag;
	u_int len;
	char bytes[24];
};

static unsigned seed;

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static struct item some_item(void)
{
	struct item i = {
		.what = (int)roll(7), .word = (uint32_t)rand_r(&seed) * 3u,
		.sign = (int32_t)((uint32_t)rand_r(&seed) * 3u), .e = (enum_t)roll(1000) - 500,
		.dword = (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed) * 5,
		.flag = (bool_t)roll(3), .len = roll(24),
	};

	for (unsigned b = 0; b < sizeof(i.bytes); b++)
		i.bytes[b] = (char)roll(256);
	return i;
}

/* As the project's code calls them. */
static bool_t ours(XDR *x, struct item *i)
{
	char *bytes = i->bytes;

	switch (i->what) {
	case WORD:
		return xdr_uint32_t(x, &i->word);
	case ENUM:
		return xdr_enum(x, &i->e);
	case LONG:
		return xdr_uint64_t(x, &i->dword);
	case BOOL:
		return xdr_bool(x, &i->flag);
	case OPAQUE:
		return xdr_opaque(x, i->bytes, i->len);
	case SIGNED:
		return xdr_int32_t(x, &i->sign);
	default:
		return xdr_bytes(x, &bytes, &i->len, 23);
	}
}

/* The same by libtirpc alone. */
static bool_t theirs(XDR *x, struct item *i)
{
	char *bytes = i->bytes;

	switch (i->what) {
	case WORD:
		return (xdr_uint32_t)(x, &i->word);
	case ENUM:
		return (xdr_enum)(x, &i->e);
	case LONG:
		return (xdr_uint64_t)(x, &i->dword);
	case BOOL:
		return (xdr_bool)(x, &i->flag);
	case OPAQUE:
		return (xdr_opaque)(x, i->bytes, i->len);
	case SIGNED:
		return xdr_int32_t(x, &i->sign);
	default:
		return xdr_bytes(x, &bytes, &i->len, 23);
	}
}

static void compare(const struct item *a, const struct item *b)
{
	cr_assert(a->word == b->word && a->e == b->e && a->dword == b->dword && a->sign == b->sign);
	cr_assert(!a->flag == !b->flag && a->len == b->len);
	cr_assert_arr_eq(a->bytes, b->bytes, sizeof(a->bytes));
}

static void run(unsigned which, bool offset)
{
	_Alignas(8) char one[ROOM + 4], two[ROOM + 4];
	struct item items[ITEMS];
	uint32_t room, used;
	XDR a, b;

	seed = which;
	room = roll(2) ? ROOM : roll(200) & ~3u;
	memset(one, 0x55, sizeof(one));
	memset(two, 0x55, sizeof(two));
	xdr_msg_create(&a, one + offset, room, XDR_ENCODE);
	xdrmem_create(&b, two + offset, room, XDR_ENCODE);
	for (unsigned i = 0; i < ITEMS; i++) {
		struct item copy = items[i] = some_item();
		bool_t ok = theirs(&b, &copy);

		cr_assert_eq(ours(&a, &items[i]), ok, "item %u of %u", i, which);
		if (!ok)
			break;
		cr_assert_eq(xdr_getpos(&a), xdr_getpos(&b));
	}
	used = xdr_getpos(&a);
	cr_assert_arr_eq(one, two, offset + used);
	for (unsigned i = offset + room; i < sizeof(one); i++)
		cr_assert_eq(one[i], 0x55, "written behind its room");
	/* And back, from other bytes as well: any word but 0 is TRUE. */
	for (unsigned i = 0; which % 2 && i < used; i++)
		one[offset + i] = (char)roll(256);
	xdr_msg_create(&a, one + offset, used, XDR_DECODE);
	xdrmem_create(&b, one + offset, used, XDR_DECODE);
	for (unsigned i = 0; i < ITEMS; i++) {
		struct item x = { .what = items[i].what, .len = items[i].len }, y = x;
		bool_t ok = theirs(&b, &y);

		cr_assert_eq(ours(&a, &x), ok, "item %u of %u", i, which);
		if (!ok)
			return;
		compare(&x, &y);
		cr_assert_eq(xdr_getpos(&a), xdr_getpos(&b));
	}
}

Test(xdr_msg, same_as_libtirpc)
{
	for (unsigned i = 0; i < 20000; i++)
		run(i, i % 16 >= 8);
}

Test(xdr_msg, positions)
{
	_Alignas(8) char mem[16] = { 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4 };
	uint32_t v;
	XDR x;

	xdr_msg_create(&x, mem, 12, XDR_DECODE);
	cr_assert(xdr_setpos(&x, 8) && xdr_uint32_t(&x, &v) && v == 3);
	cr_assert_not(xdr_uint32_t(&x, &v));
	cr_assert_not(xdr_setpos(&x, 13));
	cr_assert(xdr_setpos(&x, 4) && xdr_getpos(&x) == 4);
	cr_assert_eq((void *)XDR_INLINE(&x, 4), (void *)(mem + 4));
	cr_assert_null(XDR_INLINE(&x, 8));
	cr_assert_null(XDR_INLINE(&x, UINT32_MAX));
	/* Words are read from there, so it must be aligned. */
	xdr_msg_create(&x, mem + 1, 12, XDR_DECODE);
	cr_assert_null(XDR_INLINE(&x, 4));
}
