/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "vfs/vfs_impl.h"

struct extents *extents_make(struct inode *ino)
{
	struct extents *x = extents_of(ino), *none = NULL;

	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	pthread_mutex_init(&x->mu, NULL);
	for (unsigned i = 0; i < HELD_STATES; i++)
		list_init(&x->in[i]);
	list_init(&x->waits);
	list_init(&x->pieces);
	x->ino = ino;
	if (atomic_compare_exchange_strong(&ino->extents, &none, x))
		return x;
	extents_free(x);                /* another lane was faster */
	return none;
}

void extents_free(struct extents *x)
{
	if (x)
		pthread_mutex_destroy(&x->mu);
	free(x);
}

static void on_wait_over(struct loop_msg *m)
{
	struct vfs_op *op = container_of(m, struct vfs_op, settle.msg);

	op->settle.go(op);
}

void extents_wait_locked(struct extents *x, struct vfs_op *op, void (*go)(struct vfs_op *op))
{
	op->settle.go = go;
	op->settle.msg.fn = on_wait_over;
	list_add_tail(&x->waits, &op->settle.node);
}

void extents_wake_locked(struct vfs_op *op)
{
	list_del(&op->settle.node);
	loop_post(op->vl->lane->loop, &op->settle.msg);
}
