/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: what others see of a file that has something held. Nothing here goes on. See
 * behind.h. */
#include "vfs/behind_impl.h"

bool behind_since(const struct inode *ino, uint64_t since)
{
	const struct extents *x = extents_of(ino);

	return x && (atomic_load(&x->count) || atomic_load(&x->left_ns) >= since);
}

static void left_cut_locked(struct extents *x, uint64_t size)
{
	if (x->left_end > size)
		x->left_end = size;
	if (x->left_end_before > size)
		x->left_end_before = size;
}

/* The server was asked at `since`, and had everything by then: if that went further, others have cut it. */
static void left_others_cut(struct extents *x, uint64_t size, uint64_t since)
{
	if (!x || since == UINT64_MAX || (x->left_end <= size && x->left_end_before <= size))
		return;
	pthread_mutex_lock(&x->mu);
	if (atomic_load(&x->left_ns) < since)
		left_cut_locked(x, size);
	pthread_mutex_unlock(&x->mu);
}

void behind_size(const struct inode *ino, struct nfs_attr *attr, uint64_t since)
{
	struct extents *x = extents_of(ino);
	uint64_t end = 0;

	if (!behind_since(ino, since)) {
		left_others_cut(x, attr->size, since);
		return;
	}
	pthread_mutex_lock(&x->mu);
	if (atomic_load(&x->left_ns) >= since)
		end = x->left_end > x->left_end_before ? x->left_end : x->left_end_before;
	if (held_highest(x->tree) > end)
		end = held_highest(x->tree);
	pthread_mutex_unlock(&x->mu);
	if (attr->size < end)
		attr->size = end;
}

uint64_t behind_unsent_end(const struct inode *ino)
{
	struct extents *x = extents_of(ino);
	uint64_t end = 0;

	if (!x || !atomic_load(&x->count))
		return 0;
	pthread_mutex_lock(&x->mu);
	for (enum held_state s = HELD; s <= HELD_SENDING; s++)
		if (!list_empty(&x->in[s]))
			end = held_highest(x->tree);
	pthread_mutex_unlock(&x->mu);
	return end;
}

/* Everything older is on stable storage, so nothing makes the file longer again. */
void behind_cut(struct inode *ino, uint64_t size)
{
	struct extents *x = extents_of(ino);

	if (!x)
		return;
	pthread_mutex_lock(&x->mu);
	left_cut_locked(x, size);
	pthread_mutex_unlock(&x->mu);
}

/* ---- errors ---- */

int behind_error(struct file *f, bool seen)
{
	struct extents *x = extents_of(f->ino);
	uint64_t errors = x ? atomic_load(&x->errors) : 0;
	int error;

	if (atomic_load(&f->errors_seen) == errors)
		return 0;
	if (seen)
		atomic_store(&f->errors_seen, errors);
	pthread_mutex_lock(&x->mu);
	error = x->error;
	pthread_mutex_unlock(&x->mu);
	return error;
}

void behind_opened(struct file *f)
{
	const struct extents *x = extents_of(f->ino);

	atomic_store(&f->errors_seen, x ? atomic_load(&x->errors) : 0);
}
