/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The WRITEs that are held of one file, by the bytes that they are about: a treap, whose nodes
 * lie in the requests (op_data.held.tree). Each node knows the highest end below it, so those that
 * overlap a range are found without a look at the others. Under extents.mu.
 */
#pragma once

#include <stdint.h>

struct vfs_op;

struct held_node {
	struct vfs_op *left, *right;    /* by offset, then by seq */
	uint64_t end;                   /* the highest of this one and all below it */
	uint32_t priority;              /* no one below has a higher one */
};

void held_insert(struct vfs_op **root, struct vfs_op *op);
void held_remove(struct vfs_op **root, struct vfs_op *op);
/* op's end is another one now. */
void held_resized(struct vfs_op *root, const struct vfs_op *op);
/* The first that overlaps [from, to) and comes behind `after`, by offset and seq; after NULL: the
 * first of all. NULL: there is none. */
struct vfs_op *held_next(struct vfs_op *root, uint64_t from, uint64_t to,
			 const struct vfs_op *after);
/* The highest end of all; 0: there is none. */
uint64_t held_highest(const struct vfs_op *root);

#define held_each(w, root, from, to) \
	for (struct vfs_op *w = held_next(root, from, to, NULL); w; \
	     w = held_next(root, from, to, w))
