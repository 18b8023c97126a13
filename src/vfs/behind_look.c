/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: what others see of a file that has something held. Nothing here goes on. See
 * behind.h. */
#include <stdlib.h>
#include "vfs/behind_impl.h"

void behind_free(struct behind *b)
{
	if (b)
		pthread_mutex_destroy(&b->mu);
	free(b);
}

/* ---- what others see ---- */

bool behind_holds_bytes(struct inode *ino, uint64_t offset, uint64_t len)
{
	struct behind *b = behind_of(ino);
	bool holds;

	if (!b || !atomic_load(&b->count))
		return false;
	pthread_mutex_lock(&b->mu);
	holds = held_next(b->tree, offset, offset + len, NULL);
	pthread_mutex_unlock(&b->mu);
	return holds;
}

bool behind_since(const struct inode *ino, uint64_t since)
{
	const struct behind *b = behind_of(ino);

	return b && (atomic_load(&b->count) || atomic_load(&b->left_ns) >= since);
}

void behind_size(const struct inode *ino, struct nfs_attr *attr, uint64_t since)
{
	struct behind *b = behind_of(ino);
	uint64_t end = 0;

	if (!behind_since(ino, since))
		return;
	pthread_mutex_lock(&b->mu);
	if (atomic_load(&b->left_ns) >= since)
		end = b->left_end > b->left_end_before ? b->left_end : b->left_end_before;
	if (held_highest(b->tree) > end)
		end = held_highest(b->tree);
	pthread_mutex_unlock(&b->mu);
	if (attr->size < end)
		attr->size = end;
}

/* Everything older is on stable storage, so nothing makes the file longer again. */
void behind_cut(struct inode *ino, uint64_t size)
{
	struct behind *b = behind_of(ino);

	if (!b)
		return;
	pthread_mutex_lock(&b->mu);
	if (b->left_end > size)
		b->left_end = size;
	if (b->left_end_before > size)
		b->left_end_before = size;
	pthread_mutex_unlock(&b->mu);
}

/* ---- errors ---- */

int behind_error(struct file *f, bool seen)
{
	struct behind *b = behind_of(f->ino);
	uint64_t errors = b ? atomic_load(&b->errors) : 0;
	int error;

	if (atomic_load(&f->errors_seen) == errors)
		return 0;
	if (seen)
		atomic_store(&f->errors_seen, errors);
	pthread_mutex_lock(&b->mu);
	error = b->error;
	pthread_mutex_unlock(&b->mu);
	return error;
}

void behind_opened(struct file *f)
{
	const struct behind *b = behind_of(f->ino);

	atomic_store(&f->errors_seen, b ? atomic_load(&b->errors) : 0);
}
