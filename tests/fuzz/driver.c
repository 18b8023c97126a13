/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instead of libFuzzer: runs the target on the seeds and on mutations of them,
 * the same ones each time.
 *     usage: fuzz_X -runs=N SEED...
 */
#include <string.h>
#include "fuzz.h"

#define MAX 4096u
#define SEEDS 256

static struct { uint8_t *b; size_t len; } seeds[SEEDS];
static unsigned nseeds;
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t rnd(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return below ? (uint32_t)(state >> 32) % below : 0;
}

static size_t mutate(uint8_t *b, size_t len)
{
	static const uint32_t words[] = { 0, 1, 2, 3, 4, 5, 28, 4096, 65536, 1u << 20,
					  0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff };
	size_t at = rnd((uint32_t)len + 1), n;
	uint32_t w;

	switch (rnd(6)) {
	case 0:                 /* a bit */
		if (at < len)
			b[at] ^= (uint8_t)(1u << rnd(8));
		break;
	case 1:                 /* a byte */
		if (at < len)
			b[at] = (uint8_t)rnd(256);
		break;
	case 2:                 /* a word of those that matter */
		w = __builtin_bswap32(words[rnd(sizeof(words) / sizeof(words[0]))]);
		at &= ~(size_t)3;
		if (at + 4 <= len)
			memcpy(b + at, &w, 4);
		break;
	case 3:                 /* cut */
		len = at;
		break;
	case 4:                 /* take out */
		n = rnd((uint32_t)(len - at) + 1);
		memmove(b + at, b + at + n, len - at - n);
		len -= n;
		break;
	default:                /* double */
		n = rnd((uint32_t)(len - at) + 1);
		if (len + n <= MAX) {
			memmove(b + at + n, b + at, len - at);
			len += n;
		}
	}
	return len;
}

static void run(const uint8_t *b, size_t len)
{
	/* Of the exact size, so that the sanitizer sees what goes beyond. */
	uint8_t *copy = malloc(len ? len : 1);

	CHECK(copy);
	memcpy(copy, b, len);
	LLVMFuzzerTestOneInput(copy, len);
	free(copy);
}

int main(int argc, char **argv)
{
	static uint8_t b[MAX];
	unsigned long runs = 1000;

	for (int i = 1; i < argc; i++) {
		FILE *f;

		if (!strncmp(argv[i], "-runs=", 6)) {
			runs = strtoul(argv[i] + 6, NULL, 10);
			continue;
		}
		f = fopen(argv[i], "re");
		CHECK(f && nseeds < SEEDS);
		seeds[nseeds].b = malloc(MAX);
		CHECK(seeds[nseeds].b);
		seeds[nseeds].len = fread(seeds[nseeds].b, 1, MAX, f);
		fclose(f);
		run(seeds[nseeds].b, seeds[nseeds].len);
		nseeds++;
	}
	CHECK(nseeds);
	for (unsigned long r = 0; r < runs; r++) {
		unsigned s = rnd(nseeds);
		size_t len = seeds[s].len;

		memcpy(b, seeds[s].b, len);
		for (uint32_t n = 1 + rnd(5); n; n--)
			len = mutate(b, len);
		run(b, len);
	}
	for (unsigned i = 0; i < nseeds; i++)
		free(seeds[i].b);
	printf("%lu runs\n", runs);
	return 0;
}
