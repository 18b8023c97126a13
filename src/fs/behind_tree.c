/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fs/behind_impl.h"

static struct held_node *node(struct fs_req *r)
{
	return &r->held.tree;
}

static bool is_before(const struct fs_req *a, const struct fs_req *b)
{
	return a->held.offset != b->held.offset ? a->held.offset < b->held.offset :
	       a->held.seq < b->held.seq;
}

uint64_t held_highest(const struct fs_req *root)
{
	return root ? root->held.tree.end : 0;
}

static void sum_up(struct fs_req *r)
{
	uint64_t left = held_highest(node(r)->left), right = held_highest(node(r)->right);
	uint64_t end = held_end(r);

	end = left > end ? left : end;
	node(r)->end = right > end ? right : end;
}

/* Neighbours in the order of offsets get priorities that have nothing to do with each other. */
static uint32_t scatter(uint64_t seq)
{
	return (uint32_t)(seq * 0x9e3779b97f4a7c15ull >> 32);
}

/* All of a are before all of b. */
static struct fs_req *join(struct fs_req *a, struct fs_req *b)
{
	struct fs_req *top = !b || (a && node(a)->priority > node(b)->priority) ? a : b;

	if (!a || !b)
		return top;
	if (top == a)
		node(a)->right = join(node(a)->right, b);
	else
		node(b)->left = join(a, node(b)->left);
	sum_up(top);
	return top;
}

/* Those of t that are before r become *left, the others *right. */
static void split(struct fs_req *t, const struct fs_req *r, struct fs_req **left,
		  struct fs_req **right)
{
	if (!t) {
		*left = *right = NULL;
	} else if (is_before(t, r)) {
		*left = t;
		split(node(t)->right, r, &node(t)->right, right);
		sum_up(t);
	} else {
		*right = t;
		split(node(t)->left, r, left, &node(t)->left);
		sum_up(t);
	}
}

static struct fs_req *insert(struct fs_req *t, struct fs_req *r)
{
	if (!t || node(r)->priority > node(t)->priority) {
		split(t, r, &node(r)->left, &node(r)->right);
		t = r;
	} else if (is_before(r, t)) {
		node(t)->left = insert(node(t)->left, r);
	} else {
		node(t)->right = insert(node(t)->right, r);
	}
	sum_up(t);
	return t;
}

void held_insert(struct fs_req **root, struct fs_req *r)
{
	node(r)->priority = scatter(r->held.seq);
	*root = insert(*root, r);
}

static struct fs_req *without(struct fs_req *t, struct fs_req *r)
{
	if (t == r)
		return join(node(r)->left, node(r)->right);
	if (is_before(r, t))
		node(t)->left = without(node(t)->left, r);
	else
		node(t)->right = without(node(t)->right, r);
	sum_up(t);
	return t;
}

void held_remove(struct fs_req **root, struct fs_req *r)
{
	*root = without(*root, r);
}

void held_resized(struct fs_req *root, const struct fs_req *r)
{
	if (root != r)
		held_resized(is_before(r, root) ? node(root)->left : node(root)->right, r);
	sum_up(root);
}

/* If something on the left ends behind `from`, the first is there, or nowhere: without an overlap,
 * that begins at `to` or later, and so does all on its right. */
static struct fs_req *first(struct fs_req *t, uint64_t from, uint64_t to)
{
	while (held_highest(t) > from) {
		if (held_highest(node(t)->left) > from)
			t = node(t)->left;
		else if (t->held.offset >= to)
			return NULL;
		else if (held_end(t) > from)
			return t;
		else
			t = node(t)->right;
	}
	return NULL;
}

struct fs_req *held_next(struct fs_req *root, uint64_t from, uint64_t to,
			 const struct fs_req *after)
{
	struct fs_req *found;

	if (!after)
		return first(root, from, to);
	if (held_highest(root) <= from)
		return NULL;
	if (!is_before(after, root))
		return root->held.offset < to ? held_next(node(root)->right, from, to, after) : NULL;
	found = held_next(node(root)->left, from, to, after);
	if (found || held_overlaps(root, from, to))
		return found ? found : root;
	return root->held.offset < to ? first(node(root)->right, from, to) : NULL;
}
