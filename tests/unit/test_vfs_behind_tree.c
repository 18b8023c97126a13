/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tree of WRITEs, against a list that is looked through. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "vfs/behind_impl.h"

enum { N = 300, SPAN = 2000 };

static struct vfs_op *all;
static bool in[N];
static struct vfs_op *root;
static unsigned seed = 1;

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static void add(unsigned i)
{
	static uint64_t seq;

	all[i].data.held = (struct held){
		.seq = ++seq, .offset = roll(SPAN), .len = 1 + roll(roll(5) ? 20 : 500),
	};
	held_insert(&root, &all[i]);
	in[i] = true;
}

static unsigned check(const struct vfs_op *r)
{
	const struct held_node *n;
	uint64_t end;

	if (!r)
		return 0;
	n = &r->data.held.tree;
	end = held_end(r);
	for (unsigned side = 0; side < 2; side++) {
		const struct vfs_op *below = side ? n->right : n->left;

		if (below)
			cr_assert_leq(below->data.held.tree.priority, n->priority);
		end = held_highest(below) > end ? held_highest(below) : end;
	}
	cr_assert_eq(n->end, end);
	return 1 + check(n->left) + check(n->right);
}

/* Each one that overlaps comes once, in order, and no other. */
static void ask(uint64_t from, uint64_t to)
{
	const struct vfs_op *before = NULL;
	unsigned n = 0, expected = 0;

	for (unsigned i = 0; i < N; i++)
		expected += in[i] && held_overlaps(&all[i], from, to);
	held_each(w, root, from, to) {
		cr_assert(in[w - all] && held_overlaps(w, from, to));
		cr_assert(!before || before->data.held.offset < w->data.held.offset ||
			  (before->data.held.offset == w->data.held.offset && before->data.held.seq < w->data.held.seq));
		before = w;
		n++;
	}
	cr_assert_eq(n, expected);
}

Test(vfs_behind_tree, finds_what_a_list_would)
{
	unsigned count = 0;

	all = calloc(N, sizeof(*all));
	for (unsigned step = 0; step < 20000; step++) {
		unsigned i = roll(N), from = roll(SPAN);

		if (!in[i]) {
			add(i);
			count++;
		} else if (roll(3)) {
			held_remove(&root, &all[i]);
			in[i] = false;
			count--;
		} else {
			all[i].data.held.len += 1 + roll(50);
			held_resized(root, &all[i]);
		}
		ask(from, from + 1 + roll(100));
		if (step % 50 == 0)
			cr_assert_eq(check(root), count);
	}
	free(all);
}
