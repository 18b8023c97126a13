/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the server has after this mount's last change of a file: see solo.h. */
#include <stdlib.h>
#include "fuse/believed.h"
#include "fuse/solo.h"

bool solo_begin(struct inode *ino, const struct nfs_attr *attr)
{
	struct believed *b = believed_of(ino);

	b->solo = calloc(1, sizeof(*b->solo));
	if (!b->solo)
		return false;
	b->solo->nr = ino->changes + 1;
	b->solo->attr = *attr;
	atomic_store(&b->solo->size, attr->size);
	return true;
}

void solo_wrote(struct inode *ino, uint64_t end)
{
	believed_raise(&believed_of(ino)->solo->size, end);
}

void solo_cut(struct inode *ino, uint64_t size)
{
	atomic_store(&believed_of(ino)->solo->size, size);
}

void solo_after_locked(struct inode *ino, const struct nfs_attr *attr)
{
	struct believed *b = believed_of(ino);

	b->solo->nr = ino->changes + 1;
	b->solo->attr = *attr;
}

void solo_lost(struct inode *ino)
{
	atomic_store(&believed_of(ino)->solo->lost, true);
}

bool solo_keeps_locked(const struct inode *ino)
{
	struct believed *b = believed_of(ino);

	return !b->solo->foreign && !atomic_load(&b->solo->lost);
}
