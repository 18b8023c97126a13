/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See told.h. */
#include "fs/ahead.h"
#include "fs/inode_impl.h"
#include "fs/solo.h"
#include "fs/young.h"

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool differs(const struct inode *ino, const struct nfs_attr *attr)
{
	return ino->change != attr->change || !same_time(&ino->mtime, &attr->mtime) ||
	       ino->size != attr->size;
}

/* As in nfs(5): the time begins with acregmin. When it has run out and the file is found
 * unchanged, it doubles, up to acregmax. */
double told_note_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	bool dir = S_ISDIR(ino->type);
	double min = dir ? t->acdirmin : t->acregmin, max = dir ? t->acdirmax : t->acregmax;
	uint64_t now = mono_ns();

	if (differs(ino, attr))
		ahead_outdated(ino);
	if (t->solo && dir && !ino->changing)
		solo_dir_seen(&t->solo_dirs, ino->id, attr->change);
	if (differs(ino, attr) || !ino->timeo_ns) {
		ino->timeo = min;
		ino->timeo_ns = now;
	} else if ((double)(now - ino->timeo_ns) >= ino->timeo * 1e9) {
		ino->timeo = ino->timeo * 2 > max ? max : ino->timeo * 2;
		ino->timeo_ns = now;
	}
	ino->change = attr->change;
	ino->mtime = attr->mtime;
	ino->size = attr->size;
	atomic_store(&ino->noted_ns, now);
	known_seen_locked(ino, attr);
	known_check_locked(ino, attr);
	return ino->timeo;
}

/* ---- the size that the kernel believes ---- */

/* For everything by which the kernel ignores answers to what it asked for earlier. Before the
 * size is changed: see told_size_locked(). */
static void news(struct inode *ino)
{
	atomic_store(&ino->news_ns, mono_ns());
}

/*
 * An answer that is older than an OPEN says nothing about what was cut since. If it was asked
 * for before OPEN's reply came, the change attribute decides. RFC 8881 lets a server count
 * that as it likes, but servers count upwards.
 */
static void cut_locked(struct inode *ino, uint64_t size, uint64_t change, uint64_t asked)
{
	list_for_each(n, &ino->ends) {
		struct open_end *e = container_of(n, struct open_end, node);

		if (size < atomic_load(&e->end) && (e->since < asked || e->change <= change))
			atomic_store(&e->end, size);
	}
}

/* WRITEs change the size without the lock. They count as under way, or have left news, before
 * they do. The kernel has asked at `since`, and the server was asked at `asked`. */
static void told_size_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
			     uint64_t asked)
{
	bool taken = !atomic_load(&ino->writing) && atomic_load(&ino->news_ns) < since;

	cut_locked(ino, attr->size, attr->change, asked);
	news(ino);
	ino->doubt = !taken;
	if (taken)
		atomic_store(&ino->told_size, attr->size);
	else if (atomic_load(&ino->told_size) != attr->size)
		atomic_store(&ino->told_size, NOBODY_KNOWS);
}

void inode_untold(struct inode *ino)
{
	atomic_store(&ino->told_size, NOBODY_KNOWS);
	atomic_store(&ino->fresh_ns, mono_ns());
	young_spoil(ino);
}

void inode_forgotten(struct inode *ino)
{
	news(ino);
}

/* NOBODY_KNOWS is greater than any end, and stays. */
void inode_wrote(struct inode *ino, uint64_t end)
{
	uint64_t was;

	news(ino);
	was = atomic_load(&ino->told_size);
	while (was < end && !atomic_compare_exchange_weak(&ino->told_size, &was, end))
		;
	if (ino->solo)
		solo_wrote(ino, end);
	atomic_store(&ino->fresh_ns, mono_ns());
}

/* The kernel takes `end` for the size if it believes more, unless it ignores this. */
void inode_read_short(struct inode_table *t, struct inode *ino, uint64_t end, uint64_t since)
{
	struct inode_shard *s = inode_shard_of(t, ino);

	if (end >= atomic_load(&ino->told_size))
		return;
	pthread_mutex_lock(&s->mu);
	cut_locked(ino, end, 0, since);
	news(ino);
	young_spoil(ino);
	atomic_store(&ino->told_size, NOBODY_KNOWS);
	pthread_mutex_unlock(&s->mu);
}

/* ---- attributes for the kernel ---- */

/* The mtime by which the kernel drops pages. It has to see another one if a direct write has
 * bypassed them. */
static void told_mtime_locked(struct inode *ino, const struct nfs_attr *attr)
{
	bool other = !same_time(&ino->told_mtime, &attr->mtime);

	if (atomic_exchange(&ino->outdated, false) && !other)
		atomic_fetch_add(&ino->mtime_ahead, 1);
	else if (other)
		atomic_store(&ino->mtime_ahead, 0);
	ino->told_mtime = attr->mtime;
}

/* Sets what the kernel believes from now on: the size and the mtime. */
void told_listed_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since)
{
	told_size_locked(ino, attr, since, since);
	atomic_store(&ino->atime_old, false);
	young_drop_locked(ino);
	told_mtime_locked(ino, attr);
}

void told_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since)
{
	told_listed_locked(ino, attr, since);
	known_told_locked(ino);
	atomic_store(&ino->fresh_ns, mono_ns());
}

void told_young_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
		       uint64_t asked)
{
	told_size_locked(ino, attr, since, asked);
	atomic_store(&ino->atime_old, false);
	told_mtime_locked(ino, attr);
	atomic_store(&ino->fresh_ns, mono_ns());
}

struct times {
	uint64_t since;                 /* the kernel has asked */
	uint64_t asked;                 /* the server was asked; 0: not to be kept */
	uint64_t until;                 /* to be kept until then at most */
};

static double update_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
			    const struct times *when)
{
	bool keep = young_takes_locked(ino, when->asked);
	double timeo = told_note_locked(t, ino, attr);

	told_locked(ino, attr, when->since);
	if (keep)
		young_keep_locked(t, ino, attr, when->asked, when->until);
	return timeo;
}

static double update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		     const struct times *when)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	double timeo;

	pthread_mutex_lock(&s->mu);
	timeo = update_locked(t, ino, attr, when);
	pthread_mutex_unlock(&s->mu);
	return timeo;
}

double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		    uint64_t since)
{
	return update(t, ino, attr, &(struct times){ .since = since });
}

double inode_answer(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		    uint64_t since, uint64_t asked, double known)
{
	uint64_t until = known < 1e6 ? mono_ns() + (uint64_t)(known * 1e9) : UINT64_MAX;
	double timeo = update(t, ino, attr, &(struct times){ since, asked, until });

	return known < timeo ? known : timeo;
}

/* May the kernel have pages that are older than attr, and keep them when it is told attr? Of another
 * size it drops them. */
static bool hides_locked(const struct inode *ino, const struct nfs_attr *attr)
{
	uint64_t size = atomic_load(&ino->told_size);

	return !ino->solo && atomic_load(&ino->paged) && (size == attr->size || size == NOBODY_KNOWS) &&
	       (ino->doubt || atomic_load(&ino->outdated) || !same_time(&ino->told_mtime, &attr->mtime));
}

/* Less by a nanosecond: no other answer has that. */
static void told_less_locked(struct inode *ino, struct timespec *mtime)
{
	mtime->tv_sec -= !mtime->tv_nsec;
	mtime->tv_nsec = mtime->tv_nsec ? mtime->tv_nsec - 1 : 999999999;
	atomic_store(&ino->mtime_ahead, 0);
	ino->told_mtime = *mtime;
}

double inode_set(struct inode_table *t, struct inode *ino, struct nfs_attr *attr,
		 uint64_t since, uint64_t asked)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	double timeo;
	bool hides;

	pthread_mutex_lock(&s->mu);
	hides = hides_locked(ino, attr);
	timeo = update_locked(t, ino, attr, &(struct times){ since, asked, UINT64_MAX });
	if (!atomic_load(&ino->writing))
		atomic_store(&ino->told_size, attr->size);
	ino->set_change = attr->change;
	ino->doubt = false;
	if (hides)
		told_less_locked(ino, &attr->mtime);
	pthread_mutex_unlock(&s->mu);
	return hides ? 0 : timeo;
}

double inode_timeo(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	double timeo;

	pthread_mutex_lock(&s->mu);
	timeo = ino->timeo_ns ? ino->timeo : S_ISDIR(ino->type) ? t->acdirmin : t->acregmin;
	pthread_mutex_unlock(&s->mu);
	return timeo;
}

void inode_mtime_set(struct inode *ino)
{
	atomic_store(&ino->mtime_ahead, 0);
}

void inode_paged(struct inode *ino)
{
	if (!atomic_load(&ino->paged))
		atomic_store(&ino->paged, true);
}

bool inode_written_past(struct inode *ino)
{
	young_spoil(ino);
	if (ino->solo)
		solo_lost(ino);
	if (ino->solo || !atomic_load(&ino->paged))
		return false;
	atomic_store(&ino->outdated, true);
	return true;
}

/* ---- opens ---- */

bool inode_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	bool other;

	pthread_mutex_lock(&s->mu);
	/* Attributes after this mount's own change count as no difference: the kernel has not
	 * been told them, and knows that it has to ask. */
	other = !known_check_locked(ino, attr) && (ino->doubt || differs(ino, attr));
	other |= atomic_load(&ino->differing) > 0;
	pthread_mutex_unlock(&s->mu);
	return other;
}

bool inode_appends_elsewhere(const struct inode *ino, const struct nfs_attr *attr)
{
	uint64_t told = atomic_load(&ino->told_size);

	return told != attr->size || told == NOBODY_KNOWS;
}

void inode_end_begins(struct inode_table *t, struct inode *ino, struct open_end *e,
		      const struct nfs_attr *attr)
{
	struct inode_shard *s = inode_shard_of(t, ino);

	pthread_mutex_lock(&s->mu);
	e->since = mono_ns();
	/* A SETATTR may have cut the file after OPEN was executed, and have its reply already.
	 * Version 3's change attribute is a time, which may be the same for both. */
	atomic_store(&e->end, attr->change > ino->set_change ? attr->size : 0);
	e->change = attr->change;
	list_add_tail(&ino->ends, &e->node);
	pthread_mutex_unlock(&s->mu);
}

void inode_end_ends(struct inode_table *t, struct inode *ino, struct open_end *e)
{
	struct inode_shard *s = inode_shard_of(t, ino);

	pthread_mutex_lock(&s->mu);
	list_del(&e->node);
	pthread_mutex_unlock(&s->mu);
}
