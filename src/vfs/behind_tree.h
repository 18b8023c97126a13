/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The WRITEs that are held of one file, by the bytes that they are about: a treap, whose nodes
 * lie in the requests (fs_req.held.tree). Each node knows the highest end below it, so those that
 * overlap a range are found without a look at the others. Under behind.mu.
 */
#ifndef VFS_BEHIND_TREE_H
#define VFS_BEHIND_TREE_H

#include <stdint.h>

struct fs_req;

struct held_node {
	struct fs_req *left, *right;    /* by offset, then by seq */
	uint64_t end;                   /* the highest of this one and all below it */
	uint32_t priority;              /* no one below has a higher one */
};

void held_insert(struct fs_req **root, struct fs_req *r);
void held_remove(struct fs_req **root, struct fs_req *r);
/* r's end is another one now. */
void held_resized(struct fs_req *root, const struct fs_req *r);
/* The first that overlaps [from, to) and comes behind `after`, by offset and seq; after NULL: the
 * first of all. NULL: there is none. */
struct fs_req *held_next(struct fs_req *root, uint64_t from, uint64_t to,
			 const struct fs_req *after);
/* The highest end of all; 0: there is none. */
uint64_t held_highest(const struct fs_req *root);

#define held_each(w, root, from, to) \
	for (struct fs_req *w = held_next(root, from, to, NULL); w; \
	     w = held_next(root, from, to, w))

#endif
