/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See believed.h. */
#include "fuse/believed.h"
#include "fuse/solo.h"
#include "fuse/told.h"
#include "fuse/young.h"
#include "vfs/opens.h"

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

bool believed_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		   uint64_t asked)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	struct believed *b = believed_of(ino);
	bool keep;

	pthread_mutex_lock(&s->mu);
	if (S_ISREG(ino->type))
		young_begin_locked(ino);
	if (asked && young_takes_locked(ino, asked))
		young_keep_locked(t, ino, attr, asked, UINT64_MAX);
	else if (asked)
		young_drop_locked(ino);
	/* What was asked for before now may be older than attr. */
	atomic_store(&b->fresh_ns, mono_ns());
	keep = b->solo ? solo_keeps_locked(ino) : b->cache_valid && b->cache_change == attr->change;
	/* If this is the only open, and the kernel does not keep its pages, there are no pages
	 * until the next read or write. */
	if (inode_open_locked(t, ino, attr) && !keep)
		atomic_store(&b->paged, false);
	pthread_mutex_unlock(&s->mu);
	return keep;
}

void believed_dropped(struct inode_table *t, struct inode *ino, uint64_t change)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	struct believed *b = believed_of(ino);

	pthread_mutex_lock(&s->mu);
	b->cache_valid = true;
	b->cache_change = change;
	pthread_mutex_unlock(&s->mu);
}
