/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vfs/behind_impl.h"

static struct held_node *tree_node(struct vfs_op *op)
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
	uint64_t left = held_highest(tree_node(op)->left);
	uint64_t right = held_highest(tree_node(op)->right);
	uint64_t end = held_end(op);

	end = left > end ? left : end;
	tree_node(op)->end = right > end ? right : end;
}

/* Neighbours in the order of offsets get priorities that have nothing to do with each other. */
static uint32_t tree_scatter(uint64_t seq)
{
	return (uint32_t)(seq * 0x9e3779b97f4a7c15ull >> 32);
}

/* All of a are before all of b. */
static struct vfs_op *tree_join(struct vfs_op *a, struct vfs_op *b)
{
	struct vfs_op *top = !b || (a && tree_node(a)->priority > tree_node(b)->priority) ? a : b;

	if (!a || !b)
		return top;
	if (top == a)
		tree_node(a)->right = tree_join(tree_node(a)->right, b);
	else
		tree_node(b)->left = tree_join(a, tree_node(b)->left);
	sum_up(top);
	return top;
}

/* Those of t that are before op become *left, the others *right. */
static void tree_split(struct vfs_op *t, const struct vfs_op *op, struct vfs_op **left,
		       struct vfs_op **right)
{
	if (!t) {
		*left = *right = NULL;
	} else if (is_before(t, op)) {
		*left = t;
		tree_split(tree_node(t)->right, op, &tree_node(t)->right, right);
		sum_up(t);
	} else {
		*right = t;
		tree_split(tree_node(t)->left, op, left, &tree_node(t)->left);
		sum_up(t);
	}
}

void held_insert(struct vfs_op **root, struct vfs_op *op)
{
	struct vfs_op *left, *right;

	*tree_node(op) = (struct held_node){ .priority = tree_scatter(op->data.held.seq),
					     .end = held_end(op) };
	tree_split(*root, op, &left, &right);
	*root = tree_join(tree_join(left, op), right);
}

static struct vfs_op *tree_without(struct vfs_op *t, struct vfs_op *op)
{
	if (t == op)
		return tree_join(tree_node(op)->left, tree_node(op)->right);
	if (is_before(op, t))
		tree_node(t)->left = tree_without(tree_node(t)->left, op);
	else
		tree_node(t)->right = tree_without(tree_node(t)->right, op);
	sum_up(t);
	return t;
}

void held_remove(struct vfs_op **root, struct vfs_op *op)
{
	*root = tree_without(*root, op);
}

void held_resized(struct vfs_op *root, const struct vfs_op *op)
{
	if (root != op)
		held_resized(is_before(op, root) ? tree_node(root)->left : tree_node(root)->right,
			     op);
	sum_up(root);
}

/* If something on the left ends behind `from`, the first is there, or nowhere: without an overlap,
 * that begins at `to` or later, and so does all on its right. */
struct vfs_op *held_next(struct vfs_op *root, uint64_t from, uint64_t to,
			 const struct vfs_op *after)
{
	struct vfs_op *found = NULL;

	if (held_highest(root) <= from)
		return NULL;
	if (!after || is_before(after, root))
		found = held_next(tree_node(root)->left, from, to, after);
	if (found || root->data.held.offset >= to)
		return found;
	if ((!after || is_before(after, root)) && held_end(root) > from)
		return root;
	return held_next(tree_node(root)->right, from, to, after);
}
