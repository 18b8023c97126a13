/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mappings are anonymous and touched at once, so that running out of memory
 * shows at start and not in the middle of a request. They are not inherited by
 * children (MADV_DONTFORK): the device writes to the physical pages that were
 * there at registration, and after a fork the first write of ours would get a
 * copy of the page that the device knows nothing about.
 *
 * Free buffers are stacks: the one that was used last is still in the cache.
 */
#include "base/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

static const size_t class_size[SLAB_CLASSES] = {
	[SLAB_RECV] = SLAB_RECV_SIZE,
	[SLAB_MSG]  = SLAB_MSG_SIZE,
	[SLAB_MID]  = SLAB_MID_SIZE,
	[SLAB_BIG]  = SLAB_BIG_SIZE,
};

static bool is_data(int cls)
{
	return cls == SLAB_MID || cls == SLAB_BIG;
}

/* Every class begins on a page: MID and BIG sizes are whole pages, so each of
 * their buffers does, too. */
static size_t class_bytes(const struct slab_counts *counts, int cls)
{
	return (counts->n[cls] * class_size[cls] + PAGE - 1) & ~(PAGE - 1);
}

size_t slab_bytes(const struct slab_counts *counts)
{
	size_t sum = 0;

	for (int cls = 0; cls < SLAB_CLASSES; cls++)
		sum += class_bytes(counts, cls);
	return sum;
}

static int map(struct slab_range *r)
{
	if (!r->len)
		return 0;
	r->base = mmap(NULL, r->len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r->base == MAP_FAILED) {
		r->base = NULL;
		return -errno;
	}
	/* People's files have no business in a core dump, which others get to see. */
	return madvise(r->base, r->len, MADV_DONTFORK) < 0 ||
	       madvise(r->base, r->len, MADV_DONTDUMP) < 0 ? -errno : 0;
}

int slab_init(struct slab *s, const struct slab_counts *counts)
{
	struct slab_buf *b;
	size_t total = 0;
	char *part;
	int err;

	*s = (struct slab){ .counts = *counts };
	for (int cls = 0; cls < SLAB_CLASSES; cls++) {
		list_init(&s->free[cls]);
		total += counts->n[cls];
		*(is_data(cls) ? &s->data.len : &s->local.len) += class_bytes(counts, cls);
	}
	if (!total)
		return -EINVAL;

	s->bufs = calloc(total, sizeof(*s->bufs));
	if (!s->bufs)
		return -ENOMEM;
	err = map(&s->local);
	if (!err)
		err = map(&s->data);
	if (err)
		goto fail;

	b = s->bufs;
	part = s->local.base;
	for (int cls = 0; cls < SLAB_CLASSES; cls++) {
		if (cls == SLAB_MID)
			part = s->data.base;
		for (unsigned i = 0; i < counts->n[cls]; i++, b++) {
			b->cls = (enum slab_class)cls;
			b->size = class_size[cls];
			b->mem = part + i * class_size[cls];
			list_add_tail(&s->free[cls], &b->node);
		}
		s->nfree[cls] = counts->n[cls];
		part += class_bytes(counts, cls);
	}
	return 0;
fail:
	slab_fini(s);
	return err;
}

void *slab_undumped(size_t len)
{
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return NULL;
	if (madvise(mem, len, MADV_DONTDUMP) == 0)
		return mem;
	munmap(mem, len);
	return NULL;
}

void slab_undumped_free(void *mem, size_t len)
{
	if (mem)
		munmap(mem, len);
}

void slab_fini(struct slab *s)
{
	if (s->local.base)
		munmap(s->local.base, s->local.len);
	if (s->data.base)
		munmap(s->data.base, s->data.len);
	free(s->bufs);
	*s = (struct slab){ 0 };
	for (int cls = 0; cls < SLAB_CLASSES; cls++)
		list_init(&s->free[cls]);
}

struct slab_buf *slab_get(struct slab *s, enum slab_class cls)
{
	struct list *n = list_pop(&s->free[cls]);

	if (!n)
		return NULL;
	s->nfree[cls]--;
	return container_of(n, struct slab_buf, node);
}

void slab_put(struct slab *s, struct slab_buf *b)
{
	list_add_head(&s->free[b->cls], &b->node);
	s->nfree[b->cls]++;
}

struct slab_buf *slab_get_data(struct slab *s, size_t size)
{
	struct slab_buf *b = NULL;

	if (size <= SLAB_MID_SIZE)
		b = slab_get(s, SLAB_MID);
	if (!b && size <= SLAB_BIG_SIZE)
		b = slab_get(s, SLAB_BIG);
	return b;
}

/* ---- How many -------------------------------------------------------------
 *
 * Without a limit, for 64 credits (what Linux grants):
 *
 *   RECV  credits + 8: a reply for each call, the server's own calls (it has
 *         two credits), and some that the lane still looks at      72 x   4 KiB
 *   MSG   credits + 8: a message per call, and answers to the
 *         server's calls                                           72 x   5 KiB
 *   MID   credits + 8: every credit may be a small READ or WRITE
 *         with a buffer of its own, the rest are under the FUSE
 *         read and for chunks                                      72 x  64 KiB
 *   BIG   16: more requests of 1 MiB in flight only queue up, on
 *         the wire and in the server's threads                     16 x 1028 KiB
 *                                                                  = 21.2 MiB
 *
 * The least that works:
 *
 *   BIG 2    one under the FUSE read, one in flight
 *   MID 4    one under the FUSE read, one for a chunk when there is none left
 *            (conn.c), the others for READ and WRITE data
 *   RECV, MSG  8 credits + 8
 *                          16 x 9 KiB + 4 x 64 KiB + 2 x 1028 KiB = 2.4 MiB
 *
 * The usual limit of an ordinary user is 8 MiB. Two lanes then have 4 MiB each:
 *
 *   reserve                                             64 KiB
 *   RECV and MSG for 64 credits        72 x 9 KiB =    648 KiB
 *   BIG 2                                             2056 KiB
 *   MID 20                                            1280 KiB
 *                                                     4048 KiB of 4096
 *
 * Three BIG would leave only 4 MID. That is the wrong way round: over soft-RoCE
 * four large reads at a time are 1.1 times faster than one, but sixteen small
 * ones are 4 times faster.
 */
#define CREDIT_SPARE 8u
#define DATA_SPARE   8u
#define BIG_MOST     16u
#define BIG_LEAST    2u
#define MID_LEAST    4u
#define CREDITS_LEAST 8u

/* What a provider's queues pin in addition (hardware keeps them in the
 * process's memory): about 72 + 72 work requests of up to 256 bytes, 144
 * completions of 64 bytes, doorbells; 48 KiB. */
#define LANE_RESERVE ((size_t)65536)

static void set_credits(struct slab_counts *counts, unsigned credits)
{
	counts->n[SLAB_RECV] = credits + CREDIT_SPARE;
	counts->n[SLAB_MSG] = credits + CREDIT_SPARE;
}

/* Adds MID and BIG buffers, always to the class that is further from what it
 * would have without a limit, while they fit. */
static void fill_up(struct slab_counts *counts, unsigned mid_most, size_t room)
{
	unsigned *mid = &counts->n[SLAB_MID], *big = &counts->n[SLAB_BIG];

	for (;;) {
		bool mid_fits = *mid < mid_most &&
			slab_bytes(counts) + SLAB_MID_SIZE <= room;
		bool big_fits = *big < BIG_MOST &&
			slab_bytes(counts) + SLAB_BIG_SIZE <= room;

		if (!mid_fits && !big_fits)
			break;
		/* mid / mid_most <= big / BIG_MOST */
		if (mid_fits && (!big_fits || *mid * BIG_MOST <= *big * mid_most))
			++*mid;
		else
			++*big;
	}
}

int slab_plan(struct slab_counts *counts, unsigned *credits, unsigned lanes,
	      size_t limit, size_t *need)
{
	unsigned c = *credits ? *credits : 1;
	unsigned least = c < CREDITS_LEAST ? c : CREDITS_LEAST;
	size_t room;

	if (limit == SIZE_MAX) {
		set_credits(counts, c);
		counts->n[SLAB_MID] = c + DATA_SPARE;
		counts->n[SLAB_BIG] = BIG_MOST;
		*credits = c;
		return 0;
	}

	room = limit / (lanes ? lanes : 1);
	room = room > LANE_RESERVE ? room - LANE_RESERVE : 0;
	counts->n[SLAB_MID] = MID_LEAST;
	counts->n[SLAB_BIG] = BIG_LEAST;
	set_credits(counts, c);
	while (slab_bytes(counts) > room && c > least)
		set_credits(counts, --c);
	if (slab_bytes(counts) > room) {
		if (need)
			*need = slab_bytes(counts) + LANE_RESERVE;
		return -ENOMEM;
	}
	fill_up(counts, c + DATA_SPARE, room);
	*credits = c;
	return 0;
}
