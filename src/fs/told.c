/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See told.h. */
#include "fs/inode_impl.h"

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
	known_check_locked(ino, attr);
	return ino->timeo;
}

/* Sets what the kernel believes from now on: the size, and the mtime by which it drops
 * pages. */
void told_listed_locked(struct inode *ino, const struct nfs_attr *attr)
{
	bool other = !same_time(&ino->told_mtime, &attr->mtime);

	atomic_store(&ino->told_size, attr->size);
	if (atomic_exchange(&ino->outdated, false) && !other)
		atomic_fetch_add(&ino->mtime_ahead, 1);
	else if (other)
		atomic_store(&ino->mtime_ahead, 0);
	ino->told_mtime = attr->mtime;
}

void told_locked(struct inode *ino, const struct nfs_attr *attr)
{
	told_listed_locked(ino, attr);
	known_told_locked(ino);
	atomic_store(&ino->fresh_ns, mono_ns());
}

double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	double timeo;

	pthread_mutex_lock(&s->mu);
	timeo = told_note_locked(t, ino, attr);
	told_locked(ino, attr);
	pthread_mutex_unlock(&s->mu);
	return timeo;
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
	if (!atomic_load(&ino->paged))
		return false;
	atomic_store(&ino->outdated, true);
	return true;
}

void inode_wrote(struct inode *ino, uint64_t end)
{
	uint64_t was = atomic_load(&ino->told_size);

	while (was < end && !atomic_compare_exchange_weak(&ino->told_size, &was, end))
		;
	atomic_store(&ino->fresh_ns, mono_ns());
}

bool inode_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	bool other;

	pthread_mutex_lock(&s->mu);
	/* Attributes after this mount's own change count as no difference: the kernel has not
	 * been told them, and knows that it has to ask. */
	other = !known_check_locked(ino, attr) && differs(ino, attr);
	pthread_mutex_unlock(&s->mu);
	return other;
}

bool inode_send_back(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		     bool append, pid_t pid, uint64_t since)
{
	struct sent_back *s = &t->back[(unsigned)pid % SENT_BACK];
	uint64_t fresh = atomic_load(&ino->fresh_ns);
	bool before = atomic_load(&s->id) == ino->id;

	if (atomic_load(&ino->told_size) == attr->size || atomic_load(&ino->writing) ||
	    fresh >= since || (before && (!append || atomic_load(&s->fresh_ns) != fresh))) {
		if (before)
			atomic_store(&s->id, 0);
		return false;
	}
	atomic_store(&s->id, ino->id);
	atomic_store(&s->fresh_ns, fresh);
	return true;
}
