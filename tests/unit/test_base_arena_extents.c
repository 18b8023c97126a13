/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arena grows by extents and gives them back. The test plays the machine, which has memory
 * or has not, and the devices.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"

#define MOST 4u

static const struct arena_counts few = { .n = { 1, 1, 2, 1 } };

static struct arena arena;
static struct loop *loop;
static struct magazine mag;
static unsigned freed;

/* ---- the machine ---- */

static _Atomic int64_t spare;
static _Atomic unsigned short_looks;    /* so often there is none */
static _Atomic int add_error;
static _Atomic bool keep;               /* devices do not end their registration */
static _Atomic unsigned adds, removes, changes;
static _Atomic bool registered[MOST];

static int64_t play_spare(void *ctx)
{
	unsigned n = atomic_load(&short_looks);

	(void)ctx;
	if (n)
		atomic_store(&short_looks, n - 1);
	return n ? -1 : atomic_load(&spare);
}

static int play_add(void *ctx, unsigned i, const struct arena_range *r, struct errbuf *eb)
{
	(void)ctx;
	cr_assert_lt(i, MOST);
	cr_assert_eq(r->len, ARENA_EXTENT);
	cr_assert_not(registered[i]);
	atomic_fetch_add(&adds, 1);
	if (add_error)
		return err_set(eb, add_error, "played");
	registered[i] = true;
	return 0;
}

static bool play_remove(void *ctx, unsigned i)
{
	(void)ctx;
	cr_assert(registered[i]);
	atomic_fetch_add(&removes, 1);
	if (keep)
		return false;
	registered[i] = false;
	return true;
}

static struct arena_keeper_ops ops = {
	.spare = play_spare, .add = play_add, .remove = play_remove,
};

static _Atomic unsigned not_enough;     /* so often one more is wanted */

static void on_changed(void *ctx)
{
	(void)ctx;
	atomic_fetch_add(&changes, 1);
	if (!not_enough)
		return;
	atomic_fetch_sub(&not_enough, 1);
	arena_want(&arena, ARENA_BIG);
}

static void on_freed(void *ctx)
{
	(void)ctx;
	freed++;
	loop_stop(loop);
}

static void start(unsigned look_ms)
{
	ops.look_ms = look_ms;
	spare = INT64_MAX;
	loop = loop_new(NULL);
	cr_assert_eq(arena_init(&arena, &few, 5), 0);
	magazine_init(&mag, &arena, loop, on_freed, NULL);
	arena_tell(&arena, on_changed, NULL);
	cr_assert_eq(arena_grows(&arena, MOST, &ops, NULL), 0);
}

/* The keeper does only what it is asked for. */
static void begin(void)
{
	start(3600000);
}

/* It looks around as well. */
static void begin_looking(void)
{
	start(2);
}

static void end(void)
{
	magazine_fini(&mag);
	arena_fini(&arena);
	loop_free(loop);
}

TestSuite(extents, .init = begin, .fini = end, .timeout = 300);
TestSuite(extents_looking, .init = begin_looking, .fini = end, .timeout = 300);

/* ---- waiting ---- */

static void pause_a_little(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

#define WAIT_UNTIL(condition) \
	do { \
		while (!(condition)) \
			pause_a_little(); \
	} while (0)

static unsigned there(void)
{
	unsigned n;

	pthread_mutex_lock(&arena.mu);
	n = arena.more.there;
	pthread_mutex_unlock(&arena.mu);
	return n;
}

static uint64_t stat(enum stat_id id)
{
	return stat_get(&arena.more.stats, id);
}

/* Asks until there are so many extents. (Each time for one.) */
static void grow_to(unsigned n, enum arena_class cls)
{
	while (there() < n) {
		arena_want(&arena, cls);
		pause_a_little();
	}
	WAIT_UNTIL(changes >= n);
}

static bool is_mapped(const void *mem)
{
	int fd[2], rc;

	cr_assert_eq(pipe(fd), 0);
	rc = (int)write(fd[1], mem, 1);         /* EFAULT instead of a signal */
	close(fd[0]);
	close(fd[1]);
	return rc == 1;
}

static struct arena_buf *get(enum arena_class cls)
{
	struct arena_buf *b = magazine_get(&mag, cls);

	cr_assert_not_null(b);
	return b;
}

/* A buffer of an extent, which cannot go then. */
static struct arena_buf *get_extra(enum arena_class cls, size_t size)
{
	struct arena_buf *b;

	while (!(b = magazine_get_spare(&mag, size))) {
		arena_want(&arena, cls);
		pause_a_little();
	}
	cr_assert_not_null(b->extent);
	return b;
}

/* Extents whose buffers are back. */
static void all_go(void)
{
	while (there()) {
		arena_give_back(&arena);
		pause_a_little();
	}
}

/* The buffers that are always there are somebody's from now on. */
static void take_all_fixed(void)
{
	for (int cls = ARENA_SMALL; cls < ARENA_CLASSES; cls++)
		for (unsigned i = 0; i < few.n[cls]; i++)
			cr_assert_null(get((enum arena_class)cls)->extent);
}

/* ---- tests ---- */

Test(extents, buffers_lie_apart_and_inside)
{
	char *base = arena.more.range.base;
	struct arena_buf *b[30];
	unsigned n = 0;

	take_all_fixed();
	cr_assert_eq(stat(STAT_ARENA_BYTES), arena_bytes(&few));
	cr_assert_eq(stat(STAT_ARENA_MOST), arena_bytes(&few) + MOST * ARENA_EXTENT);
	cr_assert_eq(arena_extent_of(&arena, base, 1), -1, "it is not there yet");
	grow_to(1, ARENA_BIG);
	cr_assert_eq(arena_more(&arena, ARENA_BIG), 15);
	cr_assert_eq(arena_more(&arena, ARENA_MID), 15);
	WAIT_UNTIL(stat(STAT_ARENA_BYTES) == arena_bytes(&few) + ARENA_EXTENT);
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++) {
		for (unsigned i = 0; i < 15; i++) {
			struct arena_buf *got = b[n++] = get((enum arena_class)cls);

			cr_assert_eq((int)got->cls, cls);
			cr_assert_eq(got->size, cls == ARENA_MID ? ARENA_MID_SIZE : ARENA_BIG_SIZE);
			cr_assert_eq((uintptr_t)got->mem % 4096, 0);
			cr_assert((char *)got->mem >= base);
			cr_assert((char *)got->mem + got->size <= base + ARENA_EXTENT);
			cr_assert_eq(arena_extent_of(&arena, got->mem, got->size), 0);
			for (size_t at = 0; at < got->size; at += 512)
				cr_assert_eq(((char *)got->mem)[at], 0);
			memset(got->mem, (int)n, got->size);
		}
	}
	for (unsigned i = 0; i < n; i++) {
		for (size_t at = 0; at < b[i]->size; at += 512)
			cr_assert_eq(((char *)b[i]->mem)[at], (int)i + 1);
		magazine_put(&mag, b[i]);
	}
	cr_assert_eq(arena_extent_of(&arena, base + ARENA_EXTENT - 1, 2), -1, "over its end");
	cr_assert_eq(arena_extent_of(&arena, base + ARENA_EXTENT, 1), -1, "the next one");
	cr_assert_eq(arena_extent_of(&arena, base - 1, 1), -1);
	cr_assert_eq(arena_extent_of(&arena, arena.data.base, 1), -1, "always there");
}

Test(extents, of_small_buffers_there_are_many)
{
	take_all_fixed();
	grow_to(1, ARENA_MID);
	cr_assert_eq(arena_more(&arena, ARENA_MID), 256);
	cr_assert_eq(arena_more(&arena, ARENA_BIG), 0);
	for (unsigned i = 0; i < 256; i++)
		get(ARENA_MID);
	cr_assert_null(magazine_get_spare(&mag, ARENA_MID_SIZE));
}

/* No more than was said. */
Test(extents, has_a_bound)
{
	grow_to(MOST, ARENA_BIG);
	WAIT_UNTIL(atomic_load(&arena.more.full));
	arena_want(&arena, ARENA_BIG);
	cr_assert_eq(atomic_load(&arena.more.wanted), 0, "the keeper is not woken");
	cr_assert_eq(adds, MOST);
	cr_assert_eq(stat(STAT_ARENA_GROWN), MOST);
}

/* Who is told of an extent, and still has too little, asks for the next one at once: nobody else
 * may come. */
Test(extents, one_is_not_enough)
{
	not_enough = 2;
	arena_want(&arena, ARENA_BIG);
	WAIT_UNTIL(there() == 3);
}

/* A lane is in the depot's queue when an extent arrives. */
Test(extents, a_waiting_lane_is_called)
{
	take_all_fixed();
	cr_assert_null(magazine_get(&mag, ARENA_BIG));
	arena_want(&arena, ARENA_BIG);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(freed, 1);
	cr_assert_not_null(get(ARENA_BIG)->extent);
}

/* And when somebody puts a buffer of an extent back. */
Test(extents, a_buffer_put_back_calls_the_next)
{
	struct arena_buf *b[15];

	take_all_fixed();
	grow_to(1, ARENA_BIG);
	for (unsigned i = 0; i < 15; i++)
		b[i] = get(ARENA_BIG);
	cr_assert_null(magazine_get(&mag, ARENA_BIG));
	magazine_put(&mag, b[7]);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(get(ARENA_BIG), b[7]);
}

Test(extents_looking, what_is_not_used_is_given_back)
{
	struct arena_buf *b;
	char *mem;
	unsigned told;

	take_all_fixed();
	b = get_extra(ARENA_BIG, ARENA_BIG_SIZE);
	mem = memset(b->mem, 1, b->size);
	told = changes;
	magazine_put(&mag, b);
	WAIT_UNTIL(there() == 0);
	cr_assert_not(is_mapped(mem));
	cr_assert_eq(arena_more(&arena, ARENA_BIG), 0);
	cr_assert_gt(changes, told, "whoever follows is told");
	cr_assert_eq(stat(STAT_ARENA_GIVEN_BACK), stat(STAT_ARENA_GROWN));
	cr_assert_eq(arena_extent_of(&arena, mem, 1), -1);
	cr_assert_null(magazine_get_spare(&mag, ARENA_BIG_SIZE));
	cr_assert_eq(*(char *)get_extra(ARENA_BIG, ARENA_BIG_SIZE)->mem, 0, "other pages");
}

/* One buffer is out when the extent is to leave. */
Test(extents, stays_until_its_last_buffer_is_back)
{
	struct arena_buf *b;

	take_all_fixed();
	grow_to(1, ARENA_BIG);
	b = get(ARENA_BIG);
	arena_give_back(&arena);
	WAIT_UNTIL(arena_more(&arena, ARENA_BIG) == 0);
	cr_assert_null(magazine_get_spare(&mag, ARENA_BIG_SIZE), "no other is given out");
	cr_assert_eq(arena_extent_of(&arena, b->mem, b->size), 0, "its call can be sent again");
	memset(b->mem, 1, b->size);
	cr_assert_eq(removes, 0);
	magazine_put(&mag, b);
	all_go();
	cr_assert_eq(removes, 1);
	/* Who wants the memory has not tried again yet. */
	arena_want(&arena, ARENA_BIG);
	cr_assert_eq(atomic_load(&arena.more.wanted), 0);
}

/* A buffer that a lane keeps for its next request does not keep the extent. */
Test(extents, what_is_kept_is_exchanged)
{
	struct arena_buf *fixed = get(ARENA_BIG), *kept;

	grow_to(1, ARENA_BIG);
	kept = get(ARENA_BIG);
	cr_assert_not_null(kept->extent);
	magazine_exchange(&mag, &kept);
	cr_assert_not_null(kept->extent, "there is no other");
	magazine_put(&mag, fixed);
	magazine_exchange(&mag, &kept);
	cr_assert_eq(kept, fixed);
	magazine_exchange(&mag, &kept);
	cr_assert_eq(kept, fixed);
	all_go();
	kept = NULL;
	magazine_exchange(&mag, &kept);
	cr_assert_null(kept);
}

Test(extents, the_lowest_first)
{
	struct arena_buf *b[30], *kept;

	take_all_fixed();
	grow_to(2, ARENA_BIG);
	for (unsigned i = 0; i < 30; i++)
		cr_assert_eq((b[i] = get(ARENA_BIG))->extent, &arena.more.extents[i / 15]);
	kept = b[29];
	magazine_put(&mag, b[20]);
	magazine_put(&mag, b[3]);
	magazine_exchange(&mag, &kept);
	cr_assert_eq(kept, b[3]);
	cr_assert_eq(get(ARENA_BIG)->extent, &arena.more.extents[1]);
}

/* Memory that a device does not register: the lanes go on with what there is. */
Test(extents, a_device_refuses)
{
	grow_to(1, ARENA_BIG);
	cr_assert_eq(adds, 1);
	add_error = -ENOMEM;
	arena_want(&arena, ARENA_BIG);
	WAIT_UNTIL(stat(STAT_ARENA_REFUSED) == 1);
	cr_assert_eq(adds, 2);
	cr_assert_eq(stat(STAT_ARENA_MOST), arena_bytes(&few) + ARENA_EXTENT);
	cr_assert_not(is_mapped((char *)arena.more.range.base + ARENA_EXTENT));
	cr_assert(arena.more.full);
	arena_want(&arena, ARENA_BIG);
	cr_assert_eq(arena.more.wanted, 0, "it is not asked for that often");
	cr_assert_eq(stat(STAT_ARENA_REFUSED), 1);
}

/* After a while it is asked for again. */
Test(extents_looking, a_device_has_refused)
{
	add_error = -ENOMEM;
	arena_want(&arena, ARENA_BIG);
	WAIT_UNTIL(stat(STAT_ARENA_REFUSED) == 1);
	add_error = 0;
	take_all_fixed();
	get_extra(ARENA_BIG, ARENA_BIG_SIZE);
	WAIT_UNTIL(stat(STAT_ARENA_MOST) == arena_bytes(&few) + MOST * ARENA_EXTENT);
}

Test(extents_looking, the_machine_is_short_of_memory)
{
	spare = (int64_t)ARENA_EXTENT;
	arena_want(&arena, ARENA_BIG);
	WAIT_UNTIL(stat(STAT_ARENA_REFUSED) == 1);
	cr_assert_eq(adds, 0);
	cr_assert_eq(there(), 0);
	spare = INT64_MAX;
	take_all_fixed();
	get_extra(ARENA_BIG, ARENA_BIG_SIZE);
}

/* It becomes short while all buffers are in use: the topmost extent leaves first. */
Test(extents_looking, the_machine_becomes_short_of_memory)
{
	struct arena_buf *b[30];
	void *mem;

	take_all_fixed();
	for (unsigned i = 0; i < 30; i++)
		b[i] = get_extra(ARENA_BIG, ARENA_BIG_SIZE);
	mem = b[15]->mem;
	cr_assert_eq(arena_more(&arena, ARENA_BIG), 30);
	short_looks = 1;
	WAIT_UNTIL(arena_more(&arena, ARENA_BIG) == 15);
	cr_assert_eq(arena.more.extents[1].state, ARENA_LEAVING);
	for (unsigned i = 15; i < 30; i++)
		magazine_put(&mag, b[i]);
	WAIT_UNTIL(there() == 1);
	cr_assert_not(is_mapped(mem));
}

/* A device cannot end its registration yet. */
Test(extents_looking, a_device_is_asked_again)
{
	keep = true;
	arena_want(&arena, ARENA_BIG);
	WAIT_UNTIL(removes >= 3);
	cr_assert(is_mapped(arena.more.range.base), "the device may still write there");
	cr_assert_eq(there(), 1);
	keep = false;
	WAIT_UNTIL(there() == 0);
}

/* ---- many threads ---- */

#define LANES  4u
#define TIMES  20u              /* that the arena grows */

static _Atomic unsigned running;

/* magazine_get_spare() does not wait, so the loop need not run. */
static void *lane_main(void *arg)
{
	struct magazine m;

	(void)arg;
	magazine_init(&m, &arena, loop, on_freed, NULL);
	for (unsigned i = 0; stat(STAT_ARENA_GROWN) < TIMES; i++) {
		struct arena_buf *b[6];

		arena_want(&arena, i % 3 ? ARENA_BIG : ARENA_MID);
		for (unsigned k = 0; k < 6; k++) {
			b[k] = magazine_get_spare(&m, k % 2 ? ARENA_MID_SIZE : ARENA_BIG_SIZE);
			if (b[k])
				memset(b[k]->mem, (int)k, 64);
			if (b[k] && b[k]->extent)
				cr_assert_geq(arena_extent_of(&arena, b[k]->mem, b[k]->size), 0);
		}
		for (unsigned k = 0; k < 6; k++) {
			magazine_exchange(&m, &b[k]);
			if (b[k])
				magazine_put(&m, b[k]);
		}
	}
	magazine_fini(&m);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

Test(extents_looking, lanes_and_the_keeper)
{
	pthread_t tid[LANES];

	running = LANES;
	for (unsigned i = 0; i < LANES; i++)
		cr_assert_eq(pthread_create(&tid[i], NULL, lane_main, NULL), 0);
	while (running) {
		if (there() == MOST)
			arena_give_back(&arena);
		pause_a_little();
	}
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(tid[i], NULL);
	all_go();
	cr_assert_eq(stat(STAT_ARENA_GROWN), stat(STAT_ARENA_GIVEN_BACK));
}
