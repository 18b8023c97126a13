/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "decode_twice.h"

_Alignas(8) char twice_wire[TWICE_ROOM];
XDR twice_out;

static unsigned state;

void twice_seed(unsigned seed)
{
	state = seed;
}

unsigned twice_roll(unsigned n)
{
	return (unsigned)rand_r(&state) % n;
}

uint32_t twice_word(void)
{
	static const uint32_t at[] = { 0, 1, 2, 3, 4, 8, 127, 128, 1023, 1024, 1025, 0x7fffffff,
				       0x80000000, 0xfffffffc, 0xffffffff, 999999999, 1000000000 };

	return twice_roll(3) ? at[twice_roll(sizeof(at) / sizeof(at[0]))] : (uint32_t)rand_r(&state) * 3u;
}

void twice_new(void)
{
	xdrmem_create(&twice_out, twice_wire, sizeof(twice_wire), XDR_ENCODE);
}

void twice_put(uint32_t w)
{
	cr_assert(xdr_uint32_t(&twice_out, &w));
}

void twice_text(uint32_t len, const void *from)
{
	twice_put(len);
	cr_assert(!len || xdr_opaque(&twice_out, (char *)(uintptr_t)from, len));
}

static uint32_t moved(uint32_t len, uint32_t length_at)
{
	uint32_t step = twice_roll(2) ? 4 : 1 + twice_roll(8), w;

	if (twice_roll(2))
		len += step;
	else
		len -= step < len ? step : len;
	if (length_at && twice_roll(2) && len > length_at + 4) {
		w = htonl(len - length_at - 4);
		memcpy(twice_wire + length_at, &w, 4);
	}
	return len;
}

uint32_t twice_damage(uint32_t len, uint32_t length_at)
{
	uint32_t w;

	switch (twice_roll(5)) {
	case 0:
		return len;
	case 1:
	case 2:
		return moved(len, length_at);
	default:
		for (unsigned n = 1 + twice_roll(3); n; n--) {
			w = htonl(twice_word());
			memcpy(twice_wire + twice_roll(len / 4) * 4, &w, 4);
		}
		return len;
	}
}
