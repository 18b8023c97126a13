/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory windows of type 2: a connection's stock of them, and the work requests that bind
 * and invalidate them.
 *
 *     bind()        fills in the window's work request and links it behind `queued`: no
 *                   system call, no doorbell
 *     post_send()   makes the chain bind -> bind -> Send, which the device gets in one call
 *                   (verbs_post.c). The device binds before it sends.
 *     unbind()      hands it a chain of LOCAL_INVs; the last one's completion says that all
 *                   are done, because a send queue completes in order
 *
 * No binding is signalled. One that fails completes with an error anyway, and the
 * connection is over. Its room in the send queue comes back with the completion of what was
 * posted behind it.
 *
 * A window that was bound and invalidated is bound again with the next key (the low byte of
 * the rkey counts), so an old key does not fit the new binding. After 256 bindings of one
 * window a key comes back. The windows belong to the connection's queue pair: another
 * connection of the peer cannot use them (type 2A, 2B), and they end with it.
 *
 * Threads: the lane's, as for all posting.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <stdlib.h>

struct verbs_window {
	struct list node;               /* in fab_conn.free_windows or .ending, or unlinked */
	struct ibv_mw *mw;
	bool queued;                    /* its binding waits for a Send */
	bool last;                      /* ending: of those that end together */
	struct ibv_send_wr wr;          /* the binding, or its end */
};

/* ---- making and freeing them ---- */

void verbs_windows_init(struct fab_conn *c)
{
	list_init(&c->free_windows);
	list_init(&c->ending);
	c->queued = NULL;
	c->queued_end = &c->queued;
}

void verbs_windows_free(struct fab_conn *c)
{
	for (unsigned i = 0; i < c->nwindows; i++)
		ibv_dealloc_mw(c->windows[i].mw);
	free(c->windows);
	c->windows = NULL;
	c->nwindows = 0;
	verbs_windows_init(c);
}

unsigned verbs_windows_fit(const struct fab_params *p, const struct ibv_device_attr *dev)
{
	const unsigned type2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	unsigned n = p->windows;

	if (!(dev->device_cap_flags & type2) ||
	    !(dev->device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) || n > (unsigned)dev->max_mw ||
	    verbs_sq_entries(p, false, n) > (unsigned)dev->max_qp_wr ||
	    verbs_sq_entries(p, false, n) + p->max_recv > (unsigned)dev->max_cqe)
		return 0;
	return n;
}

void verbs_windows_make(struct fab_conn *c, struct ibv_pd *pd, unsigned wanted)
{
	if (!wanted)
		return;
	c->windows = calloc(wanted, sizeof(*c->windows));
	for (; c->windows && c->nwindows < wanted; c->nwindows++) {
		struct verbs_window *w = &c->windows[c->nwindows];

		w->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		if (!w->mw)
			break;
		list_add_tail(&c->free_windows, &w->node);
	}
	if (c->nwindows < wanted)
		verbs_windows_free(c);
}

/* ---- binding ---- */

int verbs_bind(struct fab_conn *c, const struct fab_mr *in, void *mem, size_t len,
	       unsigned access, struct fab_mr *out)
{
	struct list *n = list_pop(&c->free_windows);
	struct verbs_window *w;
	uint32_t rkey;

	if (!n)
		return -EAGAIN;
	w = container_of(n, struct verbs_window, node);
	rkey = ibv_inc_rkey(w->mw->rkey);
	w->wr = (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = w->mw, .rkey = rkey,
			.bind_info = {
				.mr = verbs_mr_of(in), .addr = (uintptr_t)mem, .length = len,
				.mw_access_flags = access == FAB_REMOTE_READ ?
					IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};
	w->queued = true;
	*c->queued_end = &w->wr;
	c->queued_end = &w->wr.next;
	*out = (struct fab_mr){ .base = mem, .len = len, .addr = (uintptr_t)mem, .rkey = rkey, .priv = w };
	return 0;
}

unsigned verbs_nqueued(const struct fab_conn *c)
{
	unsigned n = 0;

	for (struct ibv_send_wr *wr = c->queued; wr; wr = wr->next)
		n++;
	return n;
}

struct ibv_send_wr *verbs_with_bindings(struct fab_conn *c, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *first;

	*c->queued_end = wr;
	first = c->queued;
	c->queued = NULL;
	c->queued_end = &c->queued;
	return first;
}

void verbs_bindings_posted(struct ibv_send_wr *first)
{
	for (struct ibv_send_wr *b = first; b; b = b->next) {
		struct verbs_window *w;

		if (b->opcode != IBV_WR_BIND_MW)
			continue;
		w = container_of(b, struct verbs_window, wr);
		w->queued = false;
		w->mw->rkey = b->bind_mw.rkey;
	}
}

/* ---- unbinding ---- */

/* Takes w's binding out of what is queued. */
static void window_unqueue(struct fab_conn *c, struct verbs_window *w)
{
	struct ibv_send_wr **at = &c->queued;

	while (*at != &w->wr)
		at = &(*at)->next;
	*at = w->wr.next;
	if (c->queued_end == &w->wr.next)
		c->queued_end = at;
	w->queued = false;
}

/* Nothing has to be posted for w. */
static bool ends_at_once(struct fab_conn *c, struct verbs_window *w, uint32_t rkey,
			 const uint32_t *by_peer)
{
	if (w->queued)
		window_unqueue(c, w);
	else if (!by_peer || *by_peer != rkey)
		return false;
	list_add_tail(&c->free_windows, &w->node);
	return true;
}

int verbs_unbind(struct fab_conn *c, struct fab_mr *mrs, unsigned n,
		 const uint32_t *by_peer, void *cookie)
{
	struct ibv_send_wr *first = NULL, **end = &first, *bad;
	struct verbs_window *w = NULL;
	uint32_t posted = 0;
	int err = verbs_flush(c);

	if (err)
		return err;
	for (unsigned i = 0; i < n; i++) {
		if (ends_at_once(c, mrs[i].priv, mrs[i].rkey, by_peer))
			continue;
		w = mrs[i].priv;
		w->wr = (struct ibv_send_wr){
			.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mrs[i].rkey,
		};
		w->last = false;
		*end = &w->wr;
		end = &w->wr.next;
		list_add_tail(&c->ending, &w->node);
		posted++;
	}
	if (!w)
		return 0;
	w->last = true;
	w->wr.wr_id = (uintptr_t)cookie;
	w->wr.send_flags = IBV_SEND_SIGNALED;
	err = c->down ? ENOTCONN : ibv_post_send(c->id->qp, first, &bad);
	if (err)
		return verbs_minus(err);
	verbs_sq_posted(c, posted, true);
	return 1;
}

void verbs_unbound(struct fab_conn *c, void *cookie)
{
	bool last = false;

	for (struct list *n; !last && (n = list_pop(&c->ending)); ) {
		struct verbs_window *w = container_of(n, struct verbs_window, node);

		list_add_tail(&c->free_windows, &w->node);
		last = w->last;
	}
	c->ev->unbound(c->ctx, cookie);
}
