/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What believed.c and believed_forget.c have in common; see believed.h. */
#pragma once

#include "fuse/believed.h"

/* For everything by which the kernel ignores answers to what it asked for earlier. Before the
 * size is changed: see believed_size_locked(). */
void believed_news(struct inode *ino);

/* With the lock of the inode's shard: */

/* The kernel is told attributes, for a request that was read at `since`. It ignores the answer to what it
 * has asked for before it forgot. */
void believed_hears_locked(struct believed *b, uint64_t since);
/* It takes them whatever else it has got. */
void believed_taken_anyway_locked(struct believed *b);
/* Such an answer may still come to it. */
bool believed_setattr_comes_locked(const struct believed *b, uint64_t now);
