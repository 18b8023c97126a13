/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See believed.h. */
#include "fuse/believed_impl.h"
#include "fuse/solo.h"
#include "fuse/readback.h"
#include "vfs/locks.h"
#include "vfs/opencount.h"
#include "vfs/ownchange.h"

/* ---- lookups and opens ---- */

void believed_known(struct inode *ino)
{
	atomic_fetch_add(&believed_of(ino)->lookups, 1);
}

bool believed_forget(struct inode_table *t, struct inode *ino, uint64_t n)
{
	struct believed *b = believed_of(ino);
	uint64_t have = atomic_load(&b->lookups), take;

	do
		take = n < have ? n : have;
	while (!atomic_compare_exchange_weak(&b->lookups, &have, have - take));
	if (take)
		inode_put(t, ino, take);
	return take == n;
}

static void end_begins_locked(struct believed *b, struct open_end *e, const struct nfs_attr *attr)
{
	e->since = mono_ns();
	/* A SETATTR may have cut the file after OPEN was executed, and have its reply already.
	 * Version 3's change attribute is a time, which may be the same for both. */
	atomic_store(&e->end, attr->change > b->set_change ? attr->size : 0);
	e->change = attr->change;
	list_add_tail(&b->ends, &e->node);
}

bool believed_open_locked(struct inode_table *t, struct inode *ino, struct open_end *e,
			  const struct nfs_attr *attr, uint64_t asked, bool only)
{
	struct believed *b = believed_of(ino);
	uint64_t now = mono_ns();
	bool keep;

	if (S_ISREG(ino->type))
		readback_begin_locked(ino);
	if (asked && readback_takes_locked(ino, asked))
		readback_keep_locked(t, ino, attr, asked, UINT64_MAX);
	else if (asked)
		readback_drop_locked(ino);
	/* What was asked for before now may be older than attr. */
	if (asked < atomic_load(&b->lock_ns) ||
	    (asked < atomic_load(&b->forget_ns) && atomic_load(&b->open_change) != attr->change))
		atomic_store(&b->open_change, 0);       /* what came since may promise more */
	else
		atomic_store(&b->open_change, attr->change);
	atomic_store(&b->forget_ns, now);
	atomic_store(&b->fresh_ns, now);
	atomic_store(&b->spoilt_ns, now);
	keep = b->solo ? solo_keeps_locked(ino) : b->cache_valid && b->cache_change == attr->change;
	/* If this is the only open, and the kernel does not keep its pages, there are no pages
	 * until the next read or write. */
	if (only && !keep)
		atomic_store(&b->paged, false);
	end_begins_locked(b, e, attr);
	return keep;
}

void believed_dropped(struct inode_table *t, struct inode *ino, uint64_t change)
{
	struct believed *b = believed_of(ino);

	inode_lock(t, ino);
	b->cache_valid = true;
	b->cache_change = change;
	inode_unlock(t, ino);
}

void believed_marked_locked(struct inode *ino, uint64_t before, uint64_t after)
{
	struct believed *b = believed_of(ino);

	if (b->cache_valid && b->cache_change == before)
		b->cache_change = after;
}

/* ---- the size that the kernel believes ---- */

void believed_news(struct inode *ino)
{
	atomic_store(&believed_of(ino)->news_ns, mono_ns());
}

/*
 * An answer that is older than an OPEN says nothing about what was cut since. If it was asked
 * for before OPEN's reply came, the change attribute decides. RFC 8881 lets a server count
 * that as it likes, but servers count upwards.
 */
static void cut_locked(struct inode *ino, uint64_t size, uint64_t change, uint64_t asked)
{
	list_for_each_entry(struct open_end, e, &believed_of(ino)->ends, node)
		if (size < atomic_load(&e->end) && (e->since < asked || e->change <= change))
			atomic_store(&e->end, size);
}

/* Something has said how long the file is, and nothing has changed that since. */
static void believed_end_locked(struct believed *b, uint64_t size)
{
	if (atomic_load(&b->locked_end))
		atomic_store(&b->locked_end, size + 1);
}

/* Somebody has cut the file since rings have written there. */
static void past_cut_locked(struct believed *b, uint64_t size, uint64_t asked)
{
	if (asked > atomic_load(&b->past_ns) && atomic_load(&b->past_end) > size)
		atomic_store(&b->past_end, size);
}

/* WRITEs change the size without the lock. They count as under way, or have left news, before
 * they do. The kernel has asked at `since`, and the server was asked at `asked`. */
static void believed_size_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
			     uint64_t asked)
{
	struct believed *b = believed_of(ino);
	bool writing = atomic_load(&b->writing);        /* before the news */
	bool quiet = atomic_load(&b->news_ns) < since, taken = quiet && !writing;

	cut_locked(ino, attr->size, attr->change, asked);
	past_cut_locked(b, attr->size, asked);
	believed_news(ino);
	b->doubt = !taken;
	if (taken && asked > atomic_load(&b->lock_ns))
		believed_end_locked(b, attr->size);
	else if (quiet && asked > atomic_load(&b->lock_ns))
		believed_reaches(ino, attr->size);      /* the kernel may have taken it all the same */
	if (taken)
		atomic_store(&b->told_size, attr->size);
	else if (atomic_load(&b->told_size) != attr->size)
		atomic_store(&b->told_size, NOBODY_KNOWS);
}

void believed_lock_end(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct believed *b = believed_of(ino);

	inode_lock(t, ino);
	atomic_store(&b->locked_end, attr ? attr->size + 1 : 0);
	believed_raise(&b->lock_ns, mono_ns());
	if (attr)
		cut_locked(ino, attr->size, attr->change, 0);
	inode_unlock(t, ino);
}

void believed_reaches(struct inode *ino, uint64_t end)
{
	struct believed *b = believed_of(ino);

	if (atomic_load(&b->locked_end))
		believed_raise(&b->locked_end, end + 1);
	if (atomic_load(&b->past_end))
		believed_raise(&b->past_end, end);
}

void believed_reached_past(struct inode_table *t, struct inode *ino, uint64_t end)
{
	struct believed *b = believed_of(ino);

	believed_reaches(ino, end);
	inode_lock(t, ino);
	believed_raise(&b->past_end, end);
	atomic_store(&b->past_ns, mono_ns());
	inode_unlock(t, ino);
	believed_unheard(ino);
}

uint64_t believed_append(const struct inode *ino, uint64_t off)
{
	const struct believed *b = believed_of(ino);
	uint64_t end = atomic_load(&b->locked_end), past = atomic_load(&b->past_end);

	if (end && vfs_has_locks(ino))
		return end - 1;
	return past > off ? past : off;
}

void believed_unheard(struct inode *ino)
{
	struct believed *b = believed_of(ino);

	atomic_store(&b->told_size, NOBODY_KNOWS);
	atomic_store(&b->mixed, true);
	atomic_store(&b->fresh_ns, mono_ns());
	readback_spoil(ino);
}

/* What it was told before, and takes in later, it ignores. */
void believed_forgets(struct inode *ino)
{
	struct believed *b = believed_of(ino);

	atomic_store(&b->told, false);
	atomic_store(&b->mixed, false);
}

/* NOBODY_KNOWS is greater than any end, and stays. */
void believed_wrote(struct inode *ino, uint64_t end)
{
	struct believed *b = believed_of(ino);

	believed_news(ino);
	believed_raise(&b->told_size, end);
	if (b->solo)
		solo_wrote(ino, end);
	atomic_store(&b->fresh_ns, mono_ns());
}

/* The kernel takes `end` for the size if it believes more, unless it ignores this. */
void believed_read_short(struct inode_table *t, struct inode *ino, uint64_t end, uint64_t since)
{
	struct believed *b = believed_of(ino);

	if (end >= atomic_load(&b->told_size))
		return;
	inode_lock(t, ino);
	cut_locked(ino, end, 0, since);
	believed_news(ino);
	readback_spoil(ino);
	atomic_store(&b->told_size, NOBODY_KNOWS);
	inode_unlock(t, ino);
}

/* ---- attributes for the kernel ---- */

/* The mtime by which the kernel drops pages. It has to see another one if a direct write has
 * bypassed them. */
static void believed_mtime_locked(struct inode *ino, const struct nfs_attr *attr)
{
	struct believed *b = believed_of(ino);
	bool other = !same_time(&b->told_mtime, &attr->mtime);

	if (atomic_exchange(&b->outdated, false) && !other)
		atomic_fetch_add(&b->mtime_ahead, 1);
	else if (other)
		atomic_store(&b->mtime_ahead, 0);
	b->told_mtime = attr->mtime;
}

/* Before the members are changed that say what was told last. */
static void believed_compare_locked(struct inode *ino, const struct nfs_attr *attr)
{
	struct believed *b = believed_of(ino);

	if (atomic_exchange(&b->told, true) &&
	    (b->told_change != attr->change || !same_time(&b->told_mtime, &attr->mtime) ||
	     atomic_load(&b->told_size) != attr->size))
		atomic_store(&b->mixed, true);
	b->told_change = attr->change;
}

/* Sets what the kernel believes from now on. The kernel has asked at `since`, and the server was
 * asked at `asked`. */
static void believed_take_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
				 uint64_t asked)
{
	believed_hears_locked(believed_of(ino), since);
	believed_compare_locked(ino, attr);
	believed_size_locked(ino, attr, since, asked);
	atomic_store(&believed_of(ino)->may_ask, false);
	believed_mtime_locked(ino, attr);
}

void believed_listed_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since)
{
	believed_take_locked(ino, attr, since, since);
	readback_drop_locked(ino);
}

void believed_told_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since)
{
	believed_listed_locked(ino, attr, since);
	atomic_store(&believed_of(ino)->fresh_ns, mono_ns());
}

void believed_readback_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
		       uint64_t asked)
{
	believed_take_locked(ino, attr, since, asked);
	atomic_store(&believed_of(ino)->fresh_ns, mono_ns());
}

void believed_answer_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
			    uint64_t since, uint64_t asked, uint64_t until)
{
	bool keep = readback_takes_locked(ino, asked);

	believed_told_locked(ino, attr, since);
	if (keep)
		readback_keep_locked(t, ino, attr, asked, until);
}

/* May the kernel have pages that are older than attr, and keep them when it is told attr? Of
 * another size it drops them. */
static bool hides_locked(const struct inode *ino, const struct nfs_attr *attr)
{
	struct believed *b = believed_of(ino);
	uint64_t size = atomic_load(&b->told_size);

	return !b->solo && atomic_load(&b->paged) &&
	       (size == attr->size || size == NOBODY_KNOWS || atomic_load(&b->mixed)) &&
	       (b->doubt || atomic_load(&b->mixed) || atomic_load(&b->outdated) ||
		!same_time(&b->told_mtime, &attr->mtime));
}

/* Less by a nanosecond: no other answer has that. */
static void believed_less_locked(struct inode *ino, struct timespec *mtime)
{
	struct believed *b = believed_of(ino);

	mtime->tv_sec -= !mtime->tv_nsec;
	mtime->tv_nsec = mtime->tv_nsec ? mtime->tv_nsec - 1 : 999999999;
	atomic_store(&b->mtime_ahead, 0);
	b->told_mtime = *mtime;
	believed_forgets(ino);          /* it asks before it uses them */
}

/* Did an OPEN that was answered since `asked` bring others? */
static bool opened_since_locked(const struct inode *ino, const struct nfs_attr *attr, uint64_t asked)
{
	list_for_each_entry(const struct open_end, e, &believed_of(ino)->ends, node)
		if (e->since >= asked && e->change != attr->change)
			return true;
	return false;
}

bool believed_set_locked(struct inode_table *t, struct inode *ino, struct nfs_attr *attr, uint64_t since,
			 uint64_t asked, bool mtime)
{
	struct believed *b = believed_of(ino);
	bool hides = hides_locked(ino, attr);
	bool older = opened_since_locked(ino, attr, asked) || asked < atomic_load(&b->forget_ns);

	believed_forgets(ino);
	if (mtime)
		atomic_store(&b->mtime_ahead, 0);
	believed_answer_locked(t, ino, attr, since, asked, UINT64_MAX);
	past_cut_locked(b, attr->size, asked);
	if (!atomic_load(&b->writing)) {
		atomic_store(&b->told_size, attr->size);
		believed_end_locked(b, attr->size);
	}
	b->set_change = attr->change;
	believed_taken_anyway_locked(b);
	b->doubt = false;
	if (hides)
		believed_less_locked(ino, &attr->mtime);
	return !hides && !older;
}

void believed_paged(struct inode *ino)
{
	struct believed *b = believed_of(ino);

	if (!atomic_load(&b->paged))
		atomic_store(&b->paged, true);
}

/* READ and WRITE do not hear of the time: it comes first. */
void believed_locked(struct inode *ino)
{
	struct believed *b = believed_of(ino);

	believed_raise(&b->lock_ns, mono_ns());
	atomic_store(&b->open_change, 0);
	readback_spoil(ino);
	atomic_store(&b->may_ask, true);
}

bool believed_written_past(struct inode *ino)
{
	struct believed *b = believed_of(ino);

	readback_spoil(ino);
	atomic_store(&b->open_change, 0);
	if (b->solo)
		solo_lost(ino);
	if (b->solo || !atomic_load(&b->paged))
		return false;
	atomic_store(&b->outdated, true);
	return true;
}

bool believed_may_be_dirty(const struct inode *ino)
{
	const struct believed *b = believed_of(ino);

	/* While they are dropped for somebody else they may still be on their way: `forgetting` comes before `paged` goes. */
	return atomic_load(&b->dirtiers) && (atomic_load(&b->paged) || atomic_load(&b->forgetting));
}

/* ---- opens ---- */

bool believed_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct believed *b = believed_of(ino);
	bool other;

	inode_lock(t, ino);
	/* Attributes after this mount's own change count as no difference: the kernel has not
	 * been told them, and knows that it has to ask. */
	other = !ownchange_check_locked(ino, attr) && (b->doubt || inode_differs_locked(ino, attr));
	other |= b->set_change != attr->change && believed_setattr_comes_locked(b, mono_ns());
	other |= atomic_load(&b->mixed);
	other |= atomic_load(&b->differing) > 0;
	inode_unlock(t, ino);
	return other;
}

bool believed_appends_elsewhere(const struct inode *ino, const struct nfs_attr *attr)
{
	uint64_t told = atomic_load(&believed_of(ino)->told_size);

	return told != attr->size || told == NOBODY_KNOWS;
}

void believed_end_ends(struct inode_table *t, struct inode *ino, struct open_end *e)
{
	inode_lock(t, ino);
	list_del(&e->node);
	inode_unlock(t, ino);
}
