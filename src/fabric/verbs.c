/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The provider over libibverbs and librdmacm: InfiniBand, RoCE, kernel iWARP.
 *
 * A connection is an RC queue pair with a completion queue of its own. Its protection
 * domain may be shared with others (verbs_domain.c). There is one completion queue for both
 * directions, so a lane arms once, reads one event and polls in one round, whatever has
 * completed. A send with a cookie is signalled, because its buffers go back to their owner
 * when it has completed. A send without one is not, except now and then (verbs_post.c). The
 * completion queue has an entry for each work request that can be posted. When a queue pair
 * fails, those that are not signalled complete as well.
 *
 * Ownership. Between post_recv and `recv`, post_send and `sent`, and so on, the device has
 * the buffer. When the connection goes down these events end. The device may write to
 * receives until close() puts the queue pair into the error state; after that everything is
 * the owner's again. (The kernel returns when the queue pair has that state. Waiting for flushed
 * completions would take longer and prove nothing more. The rest is verbs_teardown.c's.)
 *
 * When the connection breaks, whoever notices first (a completion with an error, the
 * connection manager, the device) calls verbs_down(): the watches are removed, `down` is
 * set, and the owner is told once. The owner may close inside that call: see `depth` in
 * verbs.h.
 *
 * No completion is lost. An armed completion queue announces the next completion once, by
 * an event on a file (comp). The invariant is
 *
 *     armed  =>  the next completion makes an event, or an event is there to be read
 *     after every arming the queue is polled again
 *
 * The queue is armed when it is made. comp_fn() reads the event, which leaves the queue
 * unarmed, and polls the queue. Then it arms the queue again and polls once more for what
 * came before that. So the loop never sleeps while the queue is unarmed or holds a
 * completion.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define WC_BATCH 16

/* ibv_device_attr.vendor_id of soft-RoCE. */
#define RXE_VENDOR 0xffffffu

int verbs_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

bool verbs_leave(struct fab_conn *c)
{
	if (--c->depth || !c->closed)
		return true;
	free(c);
	return false;
}

/* ---- Open and close ------------------------------------------------------- */

static void verbs_detach(struct fab_conn *c)
{
	if (!c->loop)
		return;
	loop_unwatch(c->loop, &c->comp_watch);
	loop_unwatch(c->loop, &c->cm_watch);
	loop_timer_clear(&c->flush);
	verbs_async_leave(c);
	c->loop = NULL;
}

/* From here on the device executes nothing of this queue pair, and nothing of the peer's. Nothing
 * here waits for the peer: the disconnect request is sent, and its answer is not awaited. */
static void verbs_stop(struct fab_conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (!c->id || !c->id->qp)
		return;
	ibv_modify_qp(c->id->qp, &attr, IBV_QP_STATE);
	if (c->connected)
		rdma_disconnect(c->id);
}

/* Errors are ignored: they mean that the device is gone, and then the kernel has freed its part
 * already. */
void verbs_close(struct fab_conn *c)
{
	struct verbs_remains r;

	c->down = c->closed = true;
	verbs_detach(c);
	verbs_stop(c);
	/* Before the queue pair: rxe keeps a reference to it for each bound window, and
	 * frees it anyway after a while. It starts no work request any more. */
	verbs_windows_free(c);
	verbs_mrs_free(c);
	r = (struct verbs_remains){
		.id = c->id, .chan = c->chan, .comp = c->comp, .cq = c->cq, .cq_events = c->cq_events,
		.in = c->params.domain ? c->params.domain : &c->alone, .domain = c->domain,
	};
	verbs_teardown(&r, !c->params.domain);
	fab_domain_fini(&c->alone);
	free(c->signalled);
	if (!c->depth)
		free(c);
}

/* Compares what the device can do with what is wanted. *windows: how many it may have. */
static int check_device(struct fab_conn *c, unsigned *windows, struct errbuf *eb)
{
	const struct fab_params *p = &c->params;
	struct ibv_device_attr dev;
	unsigned most, sq;
	int err;

	err = ibv_query_device(c->id->verbs, &dev);
	if (err)
		return err_set(eb, -err, "cannot query the limits of RDMA device %s: %s",
			       c->text, strerror(err));
	c->max_ird = (unsigned)dev.max_qp_rd_atom;
	c->max_ord = (unsigned)dev.max_qp_init_rd_atom;
	c->can_inval = dev.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS;
	/* The kernel's rxe gives user space its own flag for this, which has another
	 * meaning there (and none for a reliable connection). */
	c->inv_flags = IBV_WC_WITH_INV | (dev.vendor_id == RXE_VENDOR ? IBV_WC_IP_CSUM_OK : 0);
	*windows = verbs_windows_fit(p, &dev);
	if (dev.vendor_id == RXE_VENDOR && p->windows_sound)
		*windows = 0;
	else if (*windows && dev.vendor_id == RXE_VENDOR)
		log_warn("memreg=mw with soft-RoCE (%s) is for tests: its driver crashes the kernel if a "
			 "server invalidates a memory window twice", c->text);
	sq = verbs_sq_entries(p, c->passive, 0);
	most = sq > p->max_recv ? sq : p->max_recv;
	if (most > (unsigned)dev.max_qp_wr || sq + p->max_recv > (unsigned)dev.max_cqe)
		return err_set(eb, -EINVAL, "RDMA device %s takes at most %d work requests per "
			       "connection and %d completions, %u and %u are needed: use fewer credits",
			       c->text, dev.max_qp_wr, dev.max_cqe, most,
			       sq + p->max_recv);
	if (dev.max_sge < FAB_SGE_MAX)
		return err_set(eb, -EINVAL, "RDMA device %s takes at most %d pieces in a message, %d "
			       "are needed", c->text, dev.max_sge, FAB_SGE_MAX);
	return 0;
}

static int make_queues(struct fab_conn *c, unsigned windows, struct errbuf *eb)
{
	unsigned sq = verbs_sq_entries(&c->params, c->passive, windows);
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = sq,
			.max_recv_wr = c->params.max_recv,
			.max_send_sge = FAB_SGE_MAX,
			.max_recv_sge = 1,
		},
	};
	const char *what = "protection domain";
	struct ibv_pd *pd = verbs_domain_enter(c);
	int err;

	if (!pd)
		goto fail;
	verbs_windows_make(c, pd, windows);
	what = "completion channel";
	c->comp = ibv_create_comp_channel(c->id->verbs);
	if (!c->comp)
		goto fail;
	err = verbs_nonblock(c->comp->fd);
	if (err) {
		errno = -err;
		goto fail;
	}
	what = "completion queue";
	c->cq = ibv_create_cq(c->id->verbs, (int)(sq + c->params.max_recv), c, c->comp, 0);
	if (!c->cq)
		goto fail;
	err = ibv_req_notify_cq(c->cq, 0);
	if (err) {
		errno = err;
		goto fail;
	}
	c->armed = true;
	err = verbs_sq_init(c, qp.cap.max_send_wr);
	if (err) {
		errno = -err;
		goto fail;
	}
	what = "queue pair";
	qp.send_cq = qp.recv_cq = c->cq;
	if (rdma_create_qp(c->id, pd, &qp) < 0)
		goto fail;
	return 0;
fail:
	err = errno ? -errno : -ENOMEM;
	return err_set(eb, err, "no %s on RDMA device %s: %s%s", what, c->text, strerror(-err),
		       err == -ENOMEM ? " (the limit of locked memory may be too low: `ulimit -l`)" : "");
}

int verbs_queues(struct fab_conn *c, struct errbuf *eb)
{
	unsigned windows = 0;
	int err = check_device(c, &windows, eb);

	return err ? err : make_queues(c, windows, eb);
}

struct fab_conn *verbs_new(const struct fab_params *p)
{
	struct fab_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->params = *p;
	fab_domain_init(&c->alone);
	list_init(&c->mrs);
	verbs_windows_init(c);
	verbs_chain_init(c);
	loop_timer_init(&c->flush, verbs_on_flush);
	return c;
}

static int verbs_open(const struct fab_params *p, struct fab_conn **out, struct errbuf *eb)
{
	struct fab_conn *c = verbs_new(p);
	int err;

	if (!c)
		return err_set(eb, -ENOMEM, "no memory for a connection");
	err = verbs_cm_open(c, eb);
	if (!err)
		err = verbs_queues(c, eb);
	if (err) {
		verbs_close(c);
		return err;
	}
	*out = c;
	return 0;
}

static void verbs_caps(const struct fab_conn *c, struct fab_caps *out)
{
	*out = (struct fab_caps){
		.windows = c->nwindows > 0, .silent_sends = true,
	};
}

static const char *verbs_describe(const struct fab_conn *c)
{
	return c->text;
}

/* ---- Completions ---------------------------------------------------------- */

void verbs_down(struct fab_conn *c, int err, const char *why)
{
	if (c->down)
		return;
	c->down = true;
	verbs_detach(c);
	c->ev->down(c->ctx, err, why);
}

/* A work request failed. A flushed one only says that the connection is over; the
 * connection manager may already know why. */
static void work_failed(struct fab_conn *c, const struct ibv_wc *wc)
{
	static const struct {
		enum ibv_wc_status status;
		int err;
		const char *why;
	} reasons[] = {
		{ IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT,
		  "the other side's RDMA device does not answer: it is down, or the link is lost" },
		{ IBV_WC_RNR_RETRY_EXC_ERR, -ECONNRESET,
		  "the other side had no receive for a message: it granted more credits than it keeps" },
		{ IBV_WC_LOC_LEN_ERR, -EMSGSIZE,
		  "the other side sent a message longer than the inline threshold" },
		{ IBV_WC_REM_ACCESS_ERR, -EREMOTEIO,
		  "the other side's device refused access to its memory" },
		{ IBV_WC_REM_INV_REQ_ERR, -EREMOTEIO,
		  "the other side's device refused a message (longer than its receives?)" },
		{ IBV_WC_MW_BIND_ERR, -EIO, "the device refused to bind a memory window" },
		{ IBV_WC_REM_OP_ERR, -EREMOTEIO, "the other side's device failed on a message" },
		{ IBV_WC_WR_FLUSH_ERR, -ECONNRESET,
		  "the connection was closed by the other side or the network" },
	};

	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		verbs_cm_events(c);
		if (c->down)
			return;
	}
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].status == wc->status) {
			verbs_down(c, reasons[i].err, reasons[i].why);
			return;
		}
	}
	verbs_down(c, -EIO, ibv_wc_status_str(wc->status));
}

static void verbs_complete(struct fab_conn *c, const struct ibv_wc *wc)
{
	void *cookie = (void *)(uintptr_t)wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS) {
		work_failed(c, wc);
		return;
	}
	if (!(wc->opcode & IBV_WC_RECV))
		verbs_sq_done(c);
	if (c->down)
		return;
	switch (wc->opcode) {
	case IBV_WC_SEND:
		if (cookie)
			c->ev->sent(c->ctx, cookie);
		break;
	case IBV_WC_RDMA_WRITE:
		c->ev->written(c->ctx, cookie);
		break;
	case IBV_WC_RDMA_READ:
		c->ev->read(c->ctx, cookie);
		break;
	case IBV_WC_LOCAL_INV:
		verbs_unbound(c, cookie);
		break;
	case IBV_WC_RECV: {
		bool inv = wc->wc_flags & c->inv_flags;

		c->ev->recv(c->ctx, cookie, wc->byte_len, inv, inv ? wc->invalidated_rkey : 0);
		break;
	}
	default:
		/* RDMA Write With Immediate consumes a receive and puts its data
		 * elsewhere. RPC-over-RDMA does not use it. */
		verbs_down(c, -EPROTO, "the other side used our receives for something other than a Send");
		break;
	}
}

/* Handles all completions. The caller is inside verbs_enter(). */
static void verbs_drain(struct fab_conn *c)
{
	struct ibv_wc wc[WC_BATCH];
	int n;

	do {
		if (c->down)
			break;
		n = ibv_poll_cq(c->cq, WC_BATCH, wc);
		if (n < 0) {
			verbs_down(c, -EIO, "the completion queue cannot be read");
			break;
		}
		for (int i = 0; i < n && !c->down; i++)
			verbs_complete(c, &wc[i]);
	} while (n == WC_BATCH);
}

static void arm_and_drain(struct fab_conn *c)
{
	int err;

	if (c->down || c->armed)
		return;
	err = ibv_req_notify_cq(c->cq, 0);
	if (err) {
		verbs_down(c, -err, "the completion queue cannot be armed");
		return;
	}
	c->armed = true;
	verbs_drain(c);
}

static void comp_fn(struct loop_watch *w, uint32_t revents)
{
	struct fab_conn *c = container_of(w, struct fab_conn, comp_watch);
	struct ibv_cq *cq;
	void *cq_ctx;

	verbs_enter(c);
	if (ibv_get_cq_event(c->comp, &cq, &cq_ctx) == 0) {
		c->cq_events++;
		c->armed = false;
	} else if (errno != EAGAIN && errno != EINTR) {
		verbs_cm_events(c);
		if (!c->down)
			verbs_down(c, -EIO, "the RDMA device failed or was removed");
	}
	verbs_drain(c);
	arm_and_drain(c);
	verbs_leave(c);
}

/* ---- Taking over by the lane ---------------------------------------------- */

static void cm_fn(struct loop_watch *w, uint32_t revents)
{
	verbs_cm_events(container_of(w, struct fab_conn, cm_watch));
}

/* The queue has been armed since it was made. So everything that has completed or
 * happened waits in the files that are watched from now on. */
static int verbs_attach(struct fab_conn *c, struct loop *l, const struct fab_events *ev, void *ctx)
{
	int err;

	c->ev = ev;
	c->ctx = ctx;
	c->loop = l;
	c->comp_watch = (struct loop_watch){ .fd = -1, .events = EPOLLIN, .fn = comp_fn };
	c->cm_watch = c->comp_watch;
	c->cm_watch.fn = cm_fn;
	err = verbs_async_join(c);
	if (err) {
		c->loop = NULL;
		return err;
	}
	c->comp_watch.fd = c->comp->fd;
	err = loop_watch(l, &c->comp_watch);
	if (err) {
		c->comp_watch.fd = -1;
		goto fail;
	}
	c->cm_watch.fd = c->chan->fd;
	err = loop_watch(l, &c->cm_watch);
	if (err) {
		c->cm_watch.fd = -1;
		goto fail;
	}
	return 0;
fail:
	verbs_detach(c);
	return err;
}

const struct fabric fabric_verbs = {
	.name = "verbs",
	.probe = verbs_probe,
	.open = verbs_open,
	.connect = verbs_cm_connect,
	.caps = verbs_caps,
	.describe = verbs_describe,
	.reg = verbs_reg,
	.reg_part = verbs_reg_part,
	.reg_shared = verbs_reg_shared,
	.reg_pieces = verbs_reg_pieces,
	.dereg = verbs_dereg,
	.bind = verbs_bind,
	.unbind = verbs_unbind,
	.post_recv = verbs_post_recv,
	.post_send = verbs_post_send,
	.attach = verbs_attach,
	.close = verbs_close,
	.post_send_inv = verbs_post_send_inv,
	.post_write = verbs_post_write,
	.post_read = verbs_post_read,
	.look = verbs_cm_events,
	.listen = verbs_listen,
	.listen_addr = verbs_listen_addr,
	.unlisten = verbs_unlisten,
	.accept = verbs_accept,
	.reject = verbs_reject,
};
