/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Handles: one that was given up, or never existed, is not found. Nothing is lost when
 * several threads use the table at once. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "vfs/handle.h"

static struct handles h;

static void setup(void)
{
	handles_init(&h);
}

static void teardown(void)
{
	handles_fini(&h);
}

TestSuite(vfs_handle, .init = setup, .fini = teardown, .timeout = 300);

static unsigned refs;

static bool ref(void *obj)
{
	refs++;
	return *(int *)obj;
}

static void look(const void *obj, void *arg)
{
	*(const void **)arg = obj;
}

Test(vfs_handle, life)
{
	int alive = 1, dead = 0;
	const void *seen = NULL;
	uint64_t a = handle_new(&h, &alive), b = handle_new(&h, &dead);

	cr_assert(a > 1 && b > 1 && a != b, "neither 0 nor FUSE's root");
	cr_assert_eq(handle_get(&h, a, ref), &alive);
	cr_assert_null(handle_get(&h, b, ref), "there is nothing left to refer to");
	cr_assert_eq(refs, 2);
	cr_assert(handle_look(&h, b, look, &seen));
	cr_assert_eq(seen, &dead, "to look takes no reference");
	cr_assert_eq(handle_del(&h, a), &alive);
	cr_assert_null(handle_get(&h, a, ref));
	cr_assert_not(handle_look(&h, a, look, &seen));
	cr_assert_eq(seen, &dead);
	cr_assert_null(handle_del(&h, a));
	cr_assert_eq(handle_del(&h, b), &dead);
	cr_assert_eq(refs, 2);
}

Test(vfs_handle, stale_and_invented)
{
	static uint64_t was[3 * HANDLE_CHUNK];
	int obj = 1;
	uint64_t now;

	for (unsigned i = 0; i < 3 * HANDLE_CHUNK; i++)
		was[i] = handle_new(&h, &obj);
	for (unsigned i = 0; i < 3 * HANDLE_CHUNK; i++) {
		uint64_t invented[] = {
			was[i] + 1, was[i] - 1, was[i] ^ 1ull << 32, was[i] ^ 1ull << 63,
			was[i] & 0xffffffff, was[i] << 32, (uintptr_t)&obj,
		};

		for (unsigned k = 0; k < sizeof(invented) / sizeof(invented[0]); k++)
			cr_assert_null(handle_get(&h, invented[k], ref));
		cr_assert_eq(handle_del(&h, was[i]), &obj);
	}
	/* Other objects in the same slots. */
	for (unsigned n = 0; n < 3; n++) {
		for (unsigned i = 0; i < 3 * HANDLE_CHUNK; i++) {
			now = handle_new(&h, &obj);
			cr_assert_null(handle_get(&h, was[i], ref));
			cr_assert_eq((uint32_t)now, (uint32_t)was[i], "free for longest");
			was[i] = now;
		}
		for (unsigned i = 0; i < 3 * HANDLE_CHUNK; i++)
			cr_assert_eq(handle_del(&h, was[i]), &obj);
	}
	cr_assert_eq(atomic_load(&h.nslots), 3 * HANDLE_CHUNK, "no more than were needed at once");
	for (uint64_t i = 0; i < 10000; i++)
		cr_assert_null(handle_get(&h, i << 32 | i, ref));
	cr_assert_null(handle_get(&h, UINT64_MAX, ref));
	cr_assert_eq(refs, 0);
}

/* ---- threads ---- */

#define THREADS 4u
#define ROUNDS  20000u

struct obj {
	_Atomic unsigned refs;
	uint64_t self;
};

static _Atomic uint64_t shared[16];

static bool ref_obj(void *p)
{
	struct obj *o = p;
	unsigned have = atomic_load(&o->refs);

	while (have)
		if (atomic_compare_exchange_weak(&o->refs, &have, have + 1))
			return true;
	return false;
}

static void put_obj(struct obj *o)
{
	if (atomic_fetch_sub(&o->refs, 1) == 1)
		free(o);
}

/* Makes, finds and ends what the others do, too. */
static void *work(void *arg)
{
	unsigned seed = *(unsigned *)arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		_Atomic uint64_t *at = &shared[(unsigned)rand_r(&seed) % 16];
		struct obj *o;

		switch (rand_r(&seed) % 4) {
		case 0:
			o = calloc(1, sizeof(*o));
			o->self = handle_new(&h, o);
			atomic_store(&o->refs, 1);
			/* Whose place is taken is ended. */
			o = handle_del(&h, atomic_exchange(at, o->self));
			break;
		case 1:
			o = handle_del(&h, atomic_load(at));
			break;
		default:
			o = handle_get(&h, atomic_load(at), ref_obj);
			if (o)
				cr_assert_neq(o->self, 0);
			break;
		}
		if (o)
			put_obj(o);
	}
	return NULL;
}

Test(vfs_handle, threads)
{
	pthread_t t[THREADS];
	unsigned seed[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		seed[i] = i;
		cr_assert_eq(pthread_create(&t[i], NULL, work, &seed[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < 16; i++) {
		struct obj *o = handle_del(&h, atomic_load(&shared[i]));

		if (o)
			put_obj(o);
	}
	cr_assert_leq(atomic_load(&h.nslots), 16 + THREADS);
}
