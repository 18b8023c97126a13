/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers, magazines and the depot: see arena.h. (arena_plan.c plans how many there are,
 * arena_extents.c adds more for a while.)
 *
 * The mappings are anonymous and touched at once, so that a lack of memory shows at the
 * start and not in the middle of a request. Children do not inherit them (MADV_DONTFORK).
 * The device writes to the physical pages that were there at registration. After a fork,
 * our first write to a page would give us a copy that the device knows nothing about.
 *
 * The free buffers are stacks, because the buffer that was used last is still in the cache.
 *
 * No waiting lane is forgotten. A lane that finds nothing enters the queue, sets `wanted`,
 * and then looks at the counts of the other magazines. A lane that puts a buffer counts it,
 * and then looks at `wanted`:
 *
 *     waits:  wanted = true;  other's nfree > 0?  -> tell it to empty its magazine
 *     puts:   nfree++;        wanted?             -> empty the magazine
 *
 * All four accesses are sequentially consistent, so at least one of the two sees the other.
 * A lane that was called but comes too late enters the queue again. A lane that no longer
 * needs what it was called for leaves it in the depot, and the next in the queue is called.
 */
#include "base/arena_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define HUGE ((size_t)2 << 20)

static const struct {
	size_t size;
	unsigned fetch;         /* fetched from the depot at a time */
	unsigned most;          /* the most in a magazine */
} class[ARENA_CLASSES] = {
	[ARENA_MSG]   = { ARENA_MSG_SIZE,   8, 32 },
	[ARENA_SMALL] = { ARENA_SMALL_SIZE, 8, 32 },
	[ARENA_MID]   = { ARENA_MID_SIZE,   4, 16 },
	[ARENA_BIG]   = { ARENA_BIG_SIZE,   1,  4 },
};

static bool is_data(int cls)
{
	return cls >= ARENA_SMALL;
}

/* Every class begins on a page. The sizes of data buffers are whole pages, so each data
 * buffer begins on a page, too. */
static size_t class_bytes(const struct arena_counts *counts, int cls)
{
	return (counts->n[cls] * class[cls].size + PAGE - 1) & ~(PAGE - 1);
}

size_t arena_bytes(const struct arena_counts *counts)
{
	size_t sum = 0;

	for (int cls = 0; cls < ARENA_CLASSES; cls++)
		sum += class_bytes(counts, cls);
	return sum;
}

/* ---- memory ---- */

void *arena_reserve(size_t len)
{
	char *all = mmap(NULL, len + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (all == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)all & (HUGE - 1);
	if (before)
		munmap(all, before);
	munmap(all + before + len, HUGE - before);
	return all + before;
}

/* In steps: a lane may need this process's memory map meanwhile, to allocate something. */
static int arena_touch(char *at, size_t len)
{
	for (size_t n; len; at += n, len -= n) {
		n = len < HUGE ? len : HUGE;
		if (madvise(at, n, MADV_POPULATE_WRITE) == 0)
			continue;
		if (errno != EINVAL)
			return -errno;
		/* Kernels before 5.14 do not have that. */
		for (size_t i = 0; i < n; i += PAGE)
			((volatile char *)at)[i] = 0;
	}
	return 0;
}

int arena_populate(const struct arena_range *r)
{
	if (mprotect(r->base, r->len, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	/* Only a hint: there may be no huge pages. */
	(void)madvise(r->base, r->len, MADV_HUGEPAGE);
	/* Core dumps are shown to others, so people's file data must not be in them. */
	if (madvise(r->base, r->len, MADV_DONTFORK) < 0 ||
	    madvise(r->base, r->len, MADV_DONTDUMP) < 0)
		return -errno;
	return arena_touch(r->base, r->len);
}

void arena_depopulate(const struct arena_range *r)
{
	madvise(r->base, r->len, MADV_DONTNEED);
	mprotect(r->base, r->len, PROT_NONE);
}

int arena_map(struct arena_range *r)
{
	if (!r->len)
		return 0;
	r->base = arena_reserve(r->len);
	return r->base ? arena_populate(r) : -errno;
}

void arena_unmap(const struct arena_range *r)
{
	if (r->base)
		munmap(r->base, r->len);
}

/* ---- life ---- */

struct arena_buf *arena_cut(struct arena_buf *bufs, struct list *free, enum arena_class cls,
			    char *at, unsigned n)
{
	for (; n; n--, bufs++, at += class[cls].size) {
		bufs->cls = cls;
		bufs->size = class[cls].size;
		bufs->mem = at;
		list_add_tail(free, &bufs->node);
	}
	return bufs;
}

static void arena_cut_all(struct arena *a)
{
	struct arena_buf *b = a->bufs;
	char *at = a->local.base;

	for (int cls = 0; cls < ARENA_CLASSES; cls++) {
		if (cls == ARENA_SMALL)
			at = a->data.base;
		b = arena_cut(b, &a->free[cls], (enum arena_class)cls, at, a->counts.n[cls]);
		at += class_bytes(&a->counts, cls);
	}
}

int arena_init(struct arena *a, const struct arena_counts *counts, unsigned nmags)
{
	size_t total = 0;
	int rc = -ENOMEM;

	*a = (struct arena){ .counts = *counts };
	pthread_mutex_init(&a->mu, NULL);
	for (int cls = 0; cls < ARENA_CLASSES; cls++) {
		list_init(&a->free[cls]);
		list_init(&a->waiting[cls]);
		total += counts->n[cls];
		*(is_data(cls) ? &a->data.len : &a->local.len) += class_bytes(counts, cls);
	}
	arena_growth_init(a);
	a->bufs = calloc(total, sizeof(*a->bufs));
	/* Pointers are meant. NOLINTNEXTLINE(bugprone-sizeof-expression) */
	a->mags = calloc(nmags, sizeof(*a->mags));
	if (a->bufs && a->mags)
		rc = arena_map(&a->local);
	if (!rc)
		rc = arena_map(&a->data);
	if (rc)
		arena_fini(a);
	else
		arena_cut_all(a);
	return rc;
}

void arena_fini(struct arena *a)
{
	arena_growth_fini(a);
	lent_fini(&a->lent);
	arena_unmap(&a->local);
	arena_unmap(&a->data);
	free(a->bufs);
	free(a->mags);
	pthread_mutex_destroy(&a->mu);
	*a = (struct arena){ 0 };
}

/* ---- the depot; its lock is held ---- */

static struct arena_buf *arena_pop(struct list *l)
{
	struct list *n = list_pop(l);

	return n ? container_of(n, struct arena_buf, node) : NULL;
}

void arena_call_waiting(struct arena *a, int cls)
{
	struct list *n, *b = a->free[cls].next;
	unsigned extra = a->more.free[cls];

	while ((b != &a->free[cls] || extra) && (n = list_pop(&a->waiting[cls]))) {
		struct magazine *m = container_of(n, struct magazine, wait[cls]);

		if (!m->called_sent)
			loop_post(m->loop, &m->called);
		m->called_sent = true;
		if (b != &a->free[cls])
			b = b->next;
		else
			extra--;
	}
	if (list_empty(&a->waiting[cls]))
		atomic_store(&a->wanted[cls], false);
}

/* Moves up to n of the magazine's buffers to the depot. */
static void hand_over(struct magazine *m, int cls, unsigned n)
{
	unsigned have = atomic_load(&m->nfree[cls]);

	for (; n && have; n--, have--)
		list_add_head(&m->arena->free[cls], list_pop(&m->free[cls]));
	atomic_store(&m->nfree[cls], have);
	arena_call_waiting(m->arena, cls);
}

static void wait_in_queue(struct magazine *m, int cls)
{
	struct arena *a = m->arena;

	if (!list_empty(&m->wait[cls]))
		return;
	list_add_tail(&a->waiting[cls], &m->wait[cls]);
	atomic_store(&a->wanted[cls], true);
	for (unsigned i = 0; i < a->nmags; i++) {
		struct magazine *other = a->mags[i];

		if (other->empty_sent || !atomic_load(&other->nfree[cls]))
			continue;
		other->empty_sent = true;
		loop_post(other->loop, &other->empty);
	}
}

/* ---- magazines ---- */

static void on_called(struct loop_msg *msg)
{
	struct magazine *m = container_of(msg, struct magazine, called);
	struct arena *a = m->arena;

	pthread_mutex_lock(&a->mu);
	m->called_sent = false;
	pthread_mutex_unlock(&a->mu);
	m->freed(m->ctx);
	/* What it left is for the next in the queue. */
	pthread_mutex_lock(&a->mu);
	for (int cls = 0; cls < ARENA_CLASSES; cls++)
		arena_call_waiting(a, cls);
	pthread_mutex_unlock(&a->mu);
}

static void on_empty(struct loop_msg *msg)
{
	struct magazine *m = container_of(msg, struct magazine, empty);
	struct arena *a = m->arena;

	pthread_mutex_lock(&a->mu);
	m->empty_sent = false;
	for (int cls = 0; cls < ARENA_CLASSES; cls++)
		if (atomic_load(&a->wanted[cls]))
			hand_over(m, cls, UINT32_MAX);
	pthread_mutex_unlock(&a->mu);
}

void magazine_init(struct magazine *m, struct arena *a, struct loop *l,
		   void (*freed)(void *ctx), void *ctx)
{
	*m = (struct magazine){
		.arena = a, .loop = l, .freed = freed, .ctx = ctx,
		.called.fn = on_called, .empty.fn = on_empty,
	};
	for (int cls = 0; cls < ARENA_CLASSES; cls++) {
		list_init(&m->free[cls]);
		list_init(&m->wait[cls]);
	}
	pthread_mutex_lock(&a->mu);
	a->mags[a->nmags++] = m;
	pthread_mutex_unlock(&a->mu);
}

void magazine_fini(struct magazine *m)
{
	struct arena *a = m->arena;
	unsigned i = 0;

	if (!a)
		return;
	pthread_mutex_lock(&a->mu);
	while (a->mags[i] != m)
		i++;
	a->mags[i] = a->mags[--a->nmags];
	for (int cls = 0; cls < ARENA_CLASSES; cls++) {
		list_del(&m->wait[cls]);
		hand_over(m, cls, UINT32_MAX);
	}
	pthread_mutex_unlock(&a->mu);
	m->arena = NULL;
}

static inline struct arena_buf *magazine_take(struct magazine *m, int cls)
{
	struct arena_buf *b = arena_pop(&m->free[cls]);

	if (b)
		atomic_store_explicit(&m->nfree[cls],
				      atomic_load_explicit(&m->nfree[cls], memory_order_relaxed) - 1,
				      memory_order_relaxed);
	return b;
}

/* With the depot's lock held: takes one, and stocks some for later if nobody waits for
 * them. */
static struct arena_buf *magazine_fetch(struct magazine *m, int cls)
{
	struct arena *a = m->arena;
	struct arena_buf *b = arena_pop(&a->free[cls]), *more;

	for (unsigned n = 1; b && n < class[cls].fetch && !atomic_load(&a->wanted[cls]); n++) {
		more = arena_pop(&a->free[cls]);
		if (!more)
			break;
		list_add_head(&m->free[cls], &more->node);
		atomic_fetch_add(&m->nfree[cls], 1);
	}
	return b ? b : arena_take_extra(a, cls);
}

/* With the depot: takes a buffer of the first class in first..last that has one. */
static struct arena_buf *__attribute__((noinline)) get_slowly(struct magazine *m, int first, int last)
{
	struct arena_buf *b = NULL;

	pthread_mutex_lock(&m->arena->mu);
	for (int cls = first; cls <= last && !b; cls++) {
		b = magazine_take(m, cls);
		if (!b)
			b = magazine_fetch(m, cls);
	}
	for (int cls = first; cls <= last && !b; cls++)
		wait_in_queue(m, cls);
	pthread_mutex_unlock(&m->arena->mu);
	if (!b && m->shortage)
		m->shortage(m->ctx, (enum arena_class)first, (enum arena_class)last);
	return b;
}

static inline struct arena_buf *magazine_get_between(struct magazine *m, int first, int last)
{
	struct arena_buf *b = first <= last ? magazine_take(m, first) : NULL;

	return b || first > last ? b : get_slowly(m, first, last);
}

struct arena_buf *magazine_get(struct magazine *m, enum arena_class cls)
{
	return magazine_get_between(m, cls, cls);
}

static int arena_smallest(size_t size)
{
	int cls = ARENA_SMALL;

	while (cls <= ARENA_BIG && size > class[cls].size)
		cls++;
	return cls;
}

struct arena_buf *magazine_get_data(struct magazine *m, size_t size)
{
	return magazine_get_between(m, arena_smallest(size), ARENA_BIG);
}

struct arena_buf *magazine_get_spare(struct magazine *m, size_t size)
{
	struct arena *a = m->arena;
	int cls = arena_smallest(size);
	struct arena_buf *b = NULL;

	if (cls > ARENA_BIG || atomic_load(&a->wanted[cls]))
		return NULL;
	b = magazine_take(m, cls);
	if (b)
		return b;
	pthread_mutex_lock(&a->mu);
	if (!atomic_load(&a->wanted[cls]))
		b = magazine_fetch(m, cls);
	pthread_mutex_unlock(&a->mu);
	return b;
}

static void __attribute__((noinline)) put_slowly(struct magazine *m, int cls, unsigned n)
{
	pthread_mutex_lock(&m->arena->mu);
	hand_over(m, cls, n);
	pthread_mutex_unlock(&m->arena->mu);
}

static void __attribute__((noinline)) put_extra(struct arena *a, struct arena_buf *b)
{
	pthread_mutex_lock(&a->mu);
	arena_put_extra(a, b);
	arena_call_waiting(a, b->cls);
	pthread_mutex_unlock(&a->mu);
}

void magazine_put(struct magazine *m, struct arena_buf *b)
{
	enum arena_class cls = b->cls;
	unsigned have = atomic_load_explicit(&m->nfree[cls], memory_order_relaxed) + 1;

	if (b->extent) {
		put_extra(m->arena, b);
		return;
	}
	list_add_head(&m->free[cls], &b->node);
	atomic_store(&m->nfree[cls], have);
	if (atomic_load(&m->arena->wanted[cls]))
		put_slowly(m, cls, UINT32_MAX);
	else if (have > class[cls].most)
		put_slowly(m, cls, have / 2);
}

void magazine_exchange(struct magazine *m, struct arena_buf **b)
{
	struct arena_buf *other, *keep = *b;

	if (!keep || !keep->extent)
		return;
	other = magazine_get_spare(m, keep->size);
	if (!other)
		return;
	if (!other->extent || other->extent < keep->extent ||
	    atomic_load(&keep->extent->state) == ARENA_LEAVING) {
		*b = other;
		other = keep;
	}
	magazine_put(m, other);
}
