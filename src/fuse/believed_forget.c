/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When the kernel is to forget attributes, and who has to have taken in his answer before: see believed.h. */
#include "fuse/believed_impl.h"
#include "fuse/readback.h"

/* believed_taken.tid */
#define NOBODY_YET 0
#define GONE_ON    (-1)

static bool is_untaken(const struct believed_taken *a, uint64_t now)
{
	return a->ns && atomic_load(&a->tid) != GONE_ON && now < a->ns + BELIEVED_TAKEN_NS;
}

/* For so long nobody relies on SETATTR's answer being taken in, unless its thread has gone on. */
#define SETATTR_COMES_NS 1000000000ull

bool believed_setattr_comes_locked(const struct believed *b, uint64_t now)
{
	return b->set.ns && now - b->set.ns < SETATTR_COMES_NS && atomic_load(&b->set.tid) != GONE_ON;
}

static bool any_read_untaken(const struct believed *b, uint64_t now)
{
	const struct believed_taken *reads = readback_reads(&b->ino);

	for (unsigned i = 0; reads && i < READBACK_READS; i++)
		if (is_untaken(&reads[i], now))
			return true;
	return false;
}

static bool forget_waits_locked(const struct believed *b, uint64_t now)
{
	return atomic_load(&b->forgetting) || atomic_load(&b->reading) || is_untaken(&b->first, now) ||
	       any_read_untaken(b, now);
}

static enum believed_forget forget_begins_locked(struct inode *ino, bool tells, bool waits)
{
	struct believed *b = believed_of(ino);
	uint64_t now = mono_ns();

	if (tells && waits && forget_waits_locked(b, now))
		return FORGET_LATER;
	atomic_store(&b->forget_ns, now);
	/* A listing that was asked for before is older. */
	atomic_store(&b->fresh_ns, now);
	if (tells) {
		atomic_store(&b->forgot_ns, now);
		/* SETATTR's answer counts also if it is older. */
		b->first.ns = believed_setattr_comes_locked(b, now) ? now : 0;
		atomic_store(&b->first.tid, NOBODY_YET);
		atomic_fetch_add(&b->forgetting, 1);
		believed_news(ino);
	}
	believed_forgets(ino);
	return tells ? FORGET_TELL : FORGET_DONE;
}

enum believed_forget believed_forget_begins(struct inode_table *t, struct inode *ino, bool waits)
{
	struct believed *b = believed_of(ino);
	enum believed_forget how;

	inode_lock(t, ino);
	/* It was told since, or may be. */
	how = forget_begins_locked(ino, b->first.ns || atomic_load(&b->forgetting), waits);
	inode_unlock(t, ino);
	return how;
}

enum believed_forget believed_lock_begins(struct inode_table *t, struct inode *ino, bool waits, bool blocks)
{
	struct believed *b = believed_of(ino);
	enum believed_forget how;
	bool pages;

	inode_lock(t, ino);
	pages = atomic_load(&b->paged);
	if (b->dropping)
		how = FORGET_LATER;
	else if (pages && !blocks)
		how = FORGET_DROP;
	else
		how = forget_begins_locked(ino, pages || b->first.ns || atomic_load(&b->forgetting), waits);
	/* A READ that says so since has its page dropped, too; but if nobody drops any it stays known. */
	if (how == FORGET_TELL && blocks) {
		atomic_store(&b->paged, false);
		b->dropping = true;
	}
	inode_unlock(t, ino);
	return how;
}

bool believed_forgotten(struct inode_table *t, struct inode *ino)
{
	struct believed *b = believed_of(ino);
	bool told;

	inode_lock(t, ino);
	told = atomic_load(&b->paged) || b->first.ns || b->dropping || atomic_load(&b->forgetting);
	if (!told)
		forget_begins_locked(ino, false, false);
	inode_unlock(t, ino);
	return !told;
}

void believed_lock_ends(struct inode_table *t, struct inode *ino)
{
	struct believed *b = believed_of(ino);

	believed_forget_ends(ino);
	inode_lock(t, ino);
	b->dropping = false;
	inode_unlock(t, ino);
}

void believed_forget_ends(struct inode *ino)
{
	atomic_fetch_sub(&believed_of(ino)->forgetting, 1);
}

void believed_hears_locked(struct believed *b, uint64_t since)
{
	if (b->first.ns || since < atomic_load(&b->forgot_ns))
		return;
	b->first.ns = mono_ns();
	atomic_store(&b->first.tid, NOBODY_YET);
}

/* If another answer comes in between, that one's thread shows as well that the kernel has one. */
void believed_tells(struct inode *ino, pid_t tid, uint64_t since, bool anyway)
{
	struct believed *b = believed_of(ino);
	pid_t none = NOBODY_YET;

	if (tid <= 0)
		return;
	if (anyway)
		atomic_store(&b->set.tid, tid);
	if (since >= atomic_load(&b->forgot_ns))
		atomic_compare_exchange_strong(&b->first.tid, &none, tid);
}

void believed_taken_anyway_locked(struct believed *b)
{
	believed_hears_locked(b, UINT64_MAX);
	b->set.ns = mono_ns();
	atomic_store(&b->set.tid, NOBODY_YET);
}

void believed_tells_anyway(struct inode_table *t, struct inode *ino, pid_t tid)
{
	inode_lock(t, ino);
	believed_taken_anyway_locked(believed_of(ino));
	inode_unlock(t, ino);
	believed_tells(ino, tid, UINT64_MAX, true);
}

void believed_read_begins(struct inode *ino)
{
	atomic_fetch_add(&believed_of(ino)->reading, 1);
}

/* The thread's, or one that has gone on. If there are too many, nobody knows of the first. */
static struct believed_taken *read_slot_locked(struct believed_taken *reads, pid_t *tid, uint64_t now)
{
	for (unsigned i = 0; i < READBACK_READS; i++)
		if (atomic_load(&reads[i].tid) == *tid || !is_untaken(&reads[i], now))
			return &reads[i];
	*tid = NOBODY_YET;
	return reads;
}

void believed_read_ends(struct inode_table *t, struct inode *ino, pid_t tid)
{
	struct believed_taken *reads = readback_reads(ino), *a;
	uint64_t now = mono_ns();

	inode_lock(t, ino);
	if (reads) {
		a = read_slot_locked(reads, &tid, now);
		a->ns = now;
		atomic_store(&a->tid, tid > 0 ? tid : NOBODY_YET);
	}
	inode_unlock(t, ino);
	atomic_fetch_sub(&believed_of(ino)->reading, 1);
}

static void taken_goes_on(struct believed_taken *a, pid_t tid)
{
	if (atomic_load_explicit(&a->tid, memory_order_relaxed) == tid)
		atomic_compare_exchange_strong(&a->tid, &tid, GONE_ON);
}

void believed_goes_on(struct inode *ino, pid_t tid)
{
	struct believed *b = believed_of(ino);
	struct believed_taken *reads = readback_reads(ino);

	if (tid <= 0)
		return;
	taken_goes_on(&b->first, tid);
	taken_goes_on(&b->set, tid);
	for (unsigned i = 0; reads && i < READBACK_READS; i++)
		taken_goes_on(&reads[i], tid);
}

bool believed_is_late(const struct inode *ino, const struct nfs_attr *attr, uint64_t since, uint64_t asked)
{
	const struct believed *b = believed_of(ino);
	uint64_t open = atomic_load(&b->open_change);

	return (!open || open != attr->change) && asked < atomic_load(&b->forget_ns) && since >= atomic_load(&b->forgot_ns);
}
