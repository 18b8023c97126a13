/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sending. Messages come from three rings: what the owner posts (Sends and Writes, in
 * order), its reads, and the responses to the peer's reads. They are cut into frames,
 * several frames make a batch, and one sendmsg() takes the batch: headers and trailers from
 * the batch, payload from where it lies.
 *
 *     ops --------+
 *     reads ------+--> frame[0..n], iov[] --> sendmsg() --> completions
 *     responses --+
 *
 * A message is finished before the next one begins. RFC 5041 does not require that, but it
 * needs no rules for interleaving. Responses and ops take turns. Read requests are small
 * and go first.
 *
 * When the socket is full, the batch stays as it is and waits for EPOLLOUT. Receiving goes
 * on meanwhile, so a peer that does not read until we have read is served. The queue here
 * is bounded: a peer may have `ird` reads outstanding, and is terminated when it sends one
 * more.
 *
 * The peer chooses the source of a response, and we may revoke it. So its STag is checked
 * when the frame is made and again before each sendmsg().
 */
#include "fabric/iwarp/iwarp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "base/lent.h"
#include "base/sys.h"
#include "base/undumped.h"

/* System calls in a row; then the loop's other watches get their turn. */
#define TX_BUDGET 8

/* ---- What to send next ---------------------------------------------------- */

static bool tx_waits(const struct iw_ring *r)
{
	return r->next != r->tail;
}

/* The ring whose `next` message comes next; NULL: nothing to send. */
static struct iw_ring *tx_pick(struct fab_conn *c)
{
	struct iw_tx *tx = &c->tx;

	/* RFC 5044 section 7.1.2: the passive side waits for the first frame. */
	if (!tx->waiting || (c->passive && !c->rx.heard))
		return NULL;
	if (tx->current)
		return tx->current;
	if (tx_waits(&tx->reads) && tx->reads.next - tx->reads.head < c->ord)
		return &tx->reads;
	if (tx_waits(&tx->responses) && (tx->turn || !tx_waits(&tx->ops)))
		return &tx->responses;
	return tx_waits(&tx->ops) ? &tx->ops : NULL;
}

bool iw_tx_wants(struct fab_conn *c)
{
	return !c->tx.blocked && (c->tx.nframes || tx_pick(c));
}

/* ---- Frames --------------------------------------------------------------- */

static void add_iov(struct iw_tx *tx, struct iw_frame *f, void *mem, uint32_t len)
{
	if (!len)
		return;
	tx->iov[tx->niov++] = (struct iovec){ mem, len };
	f->size += len;
}

/* A program may change its memory between the CRC and sendmsg(), and the peer would end the connection, which others
 * use. So that is copied. Without memory for the copy it is sent as it is. */
static void *__attribute__((noinline)) steady(struct fab_conn *c, void *mem, uint32_t len)
{
	struct iw_tx *tx = &c->tx;
	void *copy;

	if (!len || !lent_holds(mem))
		return mem;
	if (!tx->steady)
		tx->steady = undumped_alloc(IW_STEADY);
	if (!tx->steady || IW_STEADY - tx->nsteady < len)
		return mem;
	copy = memcpy(tx->steady + tx->nsteady, mem, len);
	tx->nsteady += len;
	return copy;
}

/* Adds the next `len` bytes of a message that lies in pieces. */
static void add_pieces(struct fab_conn *c, struct iw_frame *f, const struct iw_op *op, uint32_t len)
{
	uint32_t skip = op->done;
	void *mem;

	for (unsigned i = 0; i < op->nsge && len; i++) {
		uint32_t n = op->sge[i].len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n -= skip;
		if (n > len)
			n = len;
		mem = (uint8_t *)op->sge[i].mem + skip;
		add_iov(&c->tx, f, c->crc ? steady(c, mem, n) : mem, n);
		len -= n;
		skip = 0;
	}
}

static enum iw_error add_source(struct fab_conn *c, struct iw_frame *f, const struct iw_op *op,
				uint32_t len)
{
	struct iw_tx *tx = &c->tx;
	uint8_t *mem;

	f->own_stag = op->own_stag;
	f->own_to = op->own_to + op->done;
	f->payload = len;
	if (!len)
		return IW_OK;
	tx->checks = true;
	if (stag_check(&c->stags, f->own_stag, f->own_to, len, FAB_REMOTE_READ, &mem))
		return IW_E_READ_STAG;
	add_iov(tx, f, c->crc ? steady(c, mem, len) : mem, len);
	return IW_OK;
}

/* Adds the header as the first iov. A Read Request's payload counts as part of the
 * header. */
static void add_header(struct fab_conn *c, struct iw_frame *f, struct iw_op *op, uint32_t len)
{
	struct ddp_hdr h = { .last = f->last, .payload = len };
	unsigned size;

	switch (op->kind) {
	case IW_SEND:
		h.op = op->inval ? RDMAP_SEND_INV : RDMAP_SEND;
		h.stag = op->stag;
		h.qn = DDP_QN_SEND;
		h.mo = op->done;
		break;
	case IW_READ:
		h.op = RDMAP_READ_REQ;
		h.qn = DDP_QN_READ;
		h.payload = DDP_READ_REQ;
		break;
	case IW_WRITE:
	case IW_RESPONSE:
		h.op = op->kind == IW_WRITE ? RDMAP_WRITE : RDMAP_READ_RESP;
		h.tagged = true;
		h.stag = op->stag;
		h.to = op->to + op->done;
		break;
	}
	if (!h.tagged) {
		if (!op->done)
			op->msn = ++c->tx.msn[h.qn];
		h.msn = op->msn;
	}
	size = ddp_encode(&h, f->hdr);
	if (op->kind == IW_READ) {
		ddp_read_encode(&(struct ddp_read_req){
			.sink_stag = op->own_stag, .sink_to = op->own_to, .len = op->len,
			.src_stag = op->stag, .src_to = op->to,
		}, f->hdr + size);
		size += DDP_READ_REQ;
	}
	add_iov(&c->tx, f, f->hdr, size);
}

static void add_trailer(struct fab_conn *c, struct iw_frame *f, unsigned first_iov)
{
	struct iw_tx *tx = &c->tx;
	uint32_t pad = -f->size & 3, crc = DDP_CRC_INIT;

	memset(f->tail, 0, sizeof(f->tail));
	if (c->crc) {
		for (unsigned i = first_iov; i < tx->niov; i++)
			crc = ddp_crc(crc, tx->iov[i].iov_base, tx->iov[i].iov_len);
		ddp_crc_put(f->tail + pad, ddp_crc(crc, f->tail, pad));
	}
	add_iov(tx, f, f->tail, pad + DDP_CRC_BYTES);
	f->left = f->size;
	tx->left += f->size;
}

/* Adds one frame to the batch. */
static enum iw_error add_frame(struct fab_conn *c, struct iw_ring *ring)
{
	struct iw_tx *tx = &c->tx;
	struct iw_op *op = ring_at(ring, ring->next);
	struct iw_frame *f = &tx->frame[tx->nframes];
	uint32_t max = op->kind == IW_SEND ? c->max_untagged : c->max_tagged;
	uint32_t len = op->kind == IW_READ ? 0 : op->len - op->done;
	unsigned first_iov = tx->niov;
	enum iw_error e = IW_OK;

	if (len > max)
		len = max;
	f->ring = ring;
	f->op = op;
	f->size = 0;
	f->last = op->kind == IW_READ || op->done + len == op->len;
	add_header(c, f, op, len);
	if (op->kind == IW_RESPONSE)
		e = add_source(c, f, op, len);
	else
		add_pieces(c, f, op, len);
	if (e)
		return e;
	add_trailer(c, f, first_iov);
	tx->nframes++;
	if (op->kind != IW_READ)
		op->done += len;
	tx->current = f->last ? NULL : ring;
	if (f->last) {
		ring->next++;
		tx->waiting--;
		tx->turn = ring == &tx->ops;
	}
	return IW_OK;
}

/* false: nothing to send, or the connection is down. */
static bool make_batch(struct fab_conn *c)
{
	struct iw_tx *tx = &c->tx;
	struct iw_ring *ring;
	size_t bytes = 0;
	enum iw_error e;

	while (tx->nframes < IW_BATCH && bytes < IW_BATCH_BYTES && (ring = tx_pick(c))) {
		e = add_frame(c, ring);
		if (e) {
			/* The last frame from the peer is not the reason. */
			c->rx.have_raw = false;
			iw_fail(c, e);
			return false;
		}
		bytes += tx->frame[tx->nframes - 1].size;
	}
	return tx->nframes;
}

/* ---- The socket ----------------------------------------------------------- */

static void frame_sent(struct fab_conn *c, struct iw_frame *f)
{
	struct iw_op *op = f->op;
	void *cookie = op->cookie;
	enum iw_op_kind kind = op->kind;
	bool own = op->own;

	if (!f->last)
		return;
	if (kind == IW_READ) {
		op->sent = true;
		return;
	}
	/* From here on the ring's entry may be used again. */
	f->ring->head++;
	if (kind == IW_RESPONSE || own)
		return;
	if (kind == IW_SEND)
		c->ev->sent(c->ctx, cookie);
	else
		c->ev->written(c->ctx, cookie);
}

/* Takes n bytes, of more that there are, off the front of the iovs. */
static void skip_iov(struct iw_tx *tx, size_t n)
{
	while (n) {
		struct iovec *v = &tx->iov[tx->iov_first];
		size_t k = n < v->iov_len ? n : v->iov_len;

		v->iov_base = (uint8_t *)v->iov_base + k;
		v->iov_len -= k;
		n -= k;
		if (!v->iov_len)
			tx->iov_first++;
	}
}

static void tx_advance(struct fab_conn *c, size_t n)
{
	struct iw_tx *tx = &c->tx;

	if (n < tx->left)
		skip_iov(tx, n);
	tx->left -= n;
	while (n && !c->down) {
		struct iw_frame *f = &tx->frame[tx->first];
		uint32_t k = n < f->left ? (uint32_t)n : f->left;

		f->left -= k;
		n -= k;
		if (!f->left) {
			tx->first++;
			frame_sent(c, f);
		}
	}
	if (tx->first == tx->nframes) {
		tx->first = tx->nframes = tx->iov_first = tx->niov = tx->nsteady = 0;
		tx->checks = false;
	}
}

static bool sources_valid(const struct fab_conn *c)
{
	const struct iw_tx *tx = &c->tx;
	uint8_t *mem;

	for (unsigned i = tx->first; tx->checks && i < tx->nframes; i++) {
		const struct iw_frame *f = &tx->frame[i];

		if (f->ring == &tx->responses && f->payload &&
		    stag_check(&c->stags, f->own_stag, f->own_to, f->payload, FAB_REMOTE_READ, &mem))
			return false;
	}
	return true;
}

static void send_failed(struct fab_conn *c, int err)
{
	char why[160];

	/* What the peer sent before it closed may tell more. */
	iw_rx_run(c);
	if (c->down)
		return;
	snprintf(why, sizeof(why), "%s: %s", err == EPIPE || err == ECONNRESET ?
		 "the peer closed the connection" : "the connection broke", strerror(err));
	iw_down(c, err == EPIPE ? -ECONNRESET : -err, why);
}

static void wait_for_room(struct fab_conn *c)
{
	int err = loop_rewatch(c->loop, &c->watch, EPOLLIN | EPOLLOUT);

	c->tx.blocked = true;
	if (err)
		iw_down(c, err, "the socket cannot be watched");
}

/* One sendmsg(). Returns whether the socket may take more. */
static bool send_batch(struct fab_conn *c)
{
	struct iw_tx *tx = &c->tx;
	struct msghdr msg = {
		.msg_iov = tx->iov + tx->iov_first, .msg_iovlen = tx->niov - tx->iov_first,
	};
	ssize_t n;

	if (!sources_valid(c)) {
		c->rx.have_raw = false;
		iw_fail(c, IW_E_READ_STAG);
		return false;
	}
	do {
		n = sys_sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		c->stats.send_calls++;
	} while (n < 0 && (errno == EINTR || (errno == EFAULT && lent_mend(msg.msg_iov, msg.msg_iovlen))));
	if (n < 0 && errno != EAGAIN) {
		send_failed(c, errno);
		return false;
	}
	if (n > 0) {
		c->stats.tx_bytes += (uint64_t)n;
		tx_advance(c, (size_t)n);
	}
	if (c->down)
		return false;
	/* Either everything was sent, or the socket is full. */
	if (tx->nframes)
		wait_for_room(c);
	return !tx->nframes;
}

void iw_tx_run(struct fab_conn *c)
{
	if (c->down || c->tx.blocked)
		return;
	for (int i = 0; i < TX_BUDGET; i++) {
		if (!c->tx.nframes && !make_batch(c))
			return;
		if (!send_batch(c))
			return;
	}
	if (iw_tx_wants(c))
		iw_tx_kick(c);
}

void iw_tx_terminate(struct fab_conn *c, enum iw_error e)
{
	const struct iw_tx *tx = &c->tx;
	const struct iw_rx *rx = &c->rx;
	struct ddp_hdr h = { .last = true, .op = RDMAP_TERMINATE, .qn = DDP_QN_TERM, .msn = 1 };
	uint8_t buf[DDP_UNTAGGED_HDR + 64] = { 0 }, *p = buf + DDP_UNTAGGED_HDR;
	uint32_t len = 4, size, pad;

	p[0] = iw_errors[e].where;
	p[1] = iw_errors[e].code;
	if (rx->have_raw) {
		/* M and D: length and DDP header of the offending segment. */
		uint32_t n = (rx->h.tagged ? DDP_TAGGED_HDR : DDP_UNTAGGED_HDR);

		p[2] = 0xc0;
		memcpy(p + len, rx->raw, n);
		len += n;
		if (!rx->h.tagged && rx->h.op == RDMAP_READ_REQ && rx->got == DDP_READ_REQ) {
			p[2] |= 0x20;   /* R: the header of the Read Request */
			memcpy(p + len, rx->ctl, DDP_READ_REQ);
			len += DDP_READ_REQ;
		}
	}
	h.payload = len;
	size = ddp_encode(&h, buf) + len;
	pad = -size & 3;
	if (c->crc)
		ddp_crc_put(buf + size + pad, ddp_crc(DDP_CRC_INIT, buf, size + pad));
	/* In the middle of a frame the peer would take it for payload. */
	if (!tx->nframes || tx->frame[tx->first].left == tx->frame[tx->first].size)
		(void)!send(c->fd, buf, size + pad + DDP_CRC_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(c->fd, SHUT_WR);
	/* Closing with unread data would send a reset, which may reach the peer before
	 * the Terminate. TCP discards data without copying it. */
	for (int i = 0; i < 16; i++)
		if (recv(c->fd, NULL, 1 << 20, MSG_TRUNC | MSG_DONTWAIT) <= 0)
			break;
}
