/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vfs/behind_impl.h"

static struct held_node *node(struct vfs_op *op)
{
	return &op->data.held.tree;
}

static bool is_before(const struct vfs_op *a, const struct vfs_op *b)
{
	return a->data.held.offset != b->data.held.offset ? a->data.held.offset < b->data.held.offset :
	       a->data.held.seq < b->data.held.seq;
}

uint64_t held_highest(const struct vfs_op *root)
{
	return root ? root->data.held.tree.end : 0;
}

static void sum_up(struct vfs_op *op)
{
	uint64_t left = held_highest(node(op)->left), right = held_highest(node(op)->right);
	uint64_t end = held_end(op);

	end = left > end ? left : end;
	node(op)->end = right > end ? right : end;
}

/* Neighbours in the order of offsets get priorities that have nothing to do with each other. */
static uint32_t scatter(uint64_t seq)
{
	return (uint32_t)(seq * 0x9e3779b97f4a7c15ull >> 32);
}

/* All of a are before all of b. */
static struct vfs_op *join(struct vfs_op *a, struct vfs_op *b)
{
	struct vfs_op *top = !b || (a && node(a)->priority > node(b)->priority) ? a : b;

	if (!a || !b)
		return top;
	if (top == a)
		node(a)->right = join(node(a)->right, b);
	else
		node(b)->left = join(a, node(b)->left);
	sum_up(top);
	return top;
}

/* Those of t that are before op become *left, the others *right. */
static void split(struct vfs_op *t, const struct vfs_op *op, struct vfs_op **left,
		  struct vfs_op **right)
{
	if (!t) {
		*left = *right = NULL;
	} else if (is_before(t, op)) {
		*left = t;
		split(node(t)->right, op, &node(t)->right, right);
		sum_up(t);
	} else {
		*right = t;
		split(node(t)->left, op, left, &node(t)->left);
		sum_up(t);
	}
}

static struct vfs_op *insert(struct vfs_op *t, struct vfs_op *op)
{
	if (!t || node(op)->priority > node(t)->priority) {
		split(t, op, &node(op)->left, &node(op)->right);
		t = op;
	} else if (is_before(op, t)) {
		node(t)->left = insert(node(t)->left, op);
	} else {
		node(t)->right = insert(node(t)->right, op);
	}
	sum_up(t);
	return t;
}

void held_insert(struct vfs_op **root, struct vfs_op *op)
{
	node(op)->priority = scatter(op->data.held.seq);
	*root = insert(*root, op);
}

static struct vfs_op *without(struct vfs_op *t, struct vfs_op *op)
{
	if (t == op)
		return join(node(op)->left, node(op)->right);
	if (is_before(op, t))
		node(t)->left = without(node(t)->left, op);
	else
		node(t)->right = without(node(t)->right, op);
	sum_up(t);
	return t;
}

void held_remove(struct vfs_op **root, struct vfs_op *op)
{
	*root = without(*root, op);
}

void held_resized(struct vfs_op *root, const struct vfs_op *op)
{
	if (root != op)
		held_resized(is_before(op, root) ? node(root)->left : node(root)->right, op);
	sum_up(root);
}

/* If something on the left ends behind `from`, the first is there, or nowhere: without an overlap,
 * that begins at `to` or later, and so does all on its right. */
static struct vfs_op *first(struct vfs_op *t, uint64_t from, uint64_t to)
{
	while (held_highest(t) > from) {
		if (held_highest(node(t)->left) > from)
			t = node(t)->left;
		else if (t->data.held.offset >= to)
			return NULL;
		else if (held_end(t) > from)
			return t;
		else
			t = node(t)->right;
	}
	return NULL;
}

struct vfs_op *held_next(struct vfs_op *root, uint64_t from, uint64_t to,
			 const struct vfs_op *after)
{
	struct vfs_op *found;

	if (!after)
		return first(root, from, to);
	if (held_highest(root) <= from)
		return NULL;
	if (!is_before(after, root))
		return root->data.held.offset < to ? held_next(node(root)->right, from, to, after) : NULL;
	found = held_next(node(root)->left, from, to, after);
	if (found || held_overlaps(root, from, to))
		return found ? found : root;
	return root->data.held.offset < to ? first(node(root)->right, from, to) : NULL;
}
