/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receiving. A frame goes through three states, whatever pieces TCP delivers:
 *
 *     HEADER  -->  PAYLOAD  -->  TRAILER  -->  (message complete?) --> HEADER
 *     staged       in place      staged
 *
 * One recvmsg() has two targets: first the place of the payload in progress, for the rest
 * of it, and then the stage, for the trailer and what follows. So a large frame costs one
 * system call, which also brings the next header, and only the kernel copies its payload.
 * Payload that lands in the stage is copied from there: IW_STAGE says how much that can be.
 *
 * The place of payload is looked up for every piece, not once per frame: since the last
 * piece the owner may have deregistered the memory, or the peer invalidated it. An STag
 * that is gone ends the connection, and the rest of the payload is not read.
 *
 * With CRC, payload is placed first and verified with its frame. A wrong CRC ends the
 * connection before anything of the message is reported. A damaged header can name only
 * memory that the peer may write to anyway.
 *
 * Events come in the order of frames: when a Send is reported, everything that was written
 * before it is in place (RFC 5040 section 5.5).
 */
#include "fabric/iwarp/iwarp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "base/lent.h"
#include "base/sys.h"
#include "base/undumped.h"

/* System calls in a row; then the loop's other watches get their turn. */
#define RX_BUDGET 32
/* If nothing of a frame comes for so long, it will not be finished. */
#define STALL_MS 30000

int iw_rx_init(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	unsigned n = 1;

	rx->recv_limit = c->params.max_recv ? c->params.max_recv : 1;
	while (n < rx->recv_limit)
		n *= 2;
	rx->recv = calloc(n, sizeof(*rx->recv));
	rx->stage = undumped_alloc(IW_STAGE);
	if (!rx->recv || !rx->stage)
		return -ENOMEM;
	rx->recv_mask = n - 1;
	for (int i = 0; i < DDP_QNS; i++)
		rx->msn[i] = 1;
	return 0;
}

void iw_rx_fini(struct fab_conn *c)
{
	free(c->rx.recv);
	c->rx.recv = NULL;
}

int iw_post_recv(struct fab_conn *c, const struct fab_sge *sge, void *cookie)
{
	struct iw_rx *rx = &c->rx;

	if (c->down)
		return -ENOTCONN;
	if (rx->recv_tail - rx->recv_head >= rx->recv_limit)
		return -ENOMEM;
	rx->recv[rx->recv_tail++ & rx->recv_mask] =
		(struct iw_recv){ .mem = sge->mem, .len = sge->len, .cookie = cookie };
	return 0;
}

/* ---- The place of payload ------------------------------------------------- */

/* Where the rest of this frame's payload goes, as of now. */
static enum iw_error rx_locate(struct fab_conn *c, uint8_t **dest)
{
	static const enum iw_error errors[] = {
		[STAG_OK] = IW_OK, [STAG_INVALID] = IW_E_STAG, [STAG_BOUNDS] = IW_E_BOUNDS,
		[STAG_WRAP] = IW_E_WRAP, [STAG_DENIED] = IW_E_ACCESS,
	};
	struct iw_rx *rx = &c->rx;
	const struct ddp_hdr *h = &rx->h;

	if (h->tagged)
		c->stags.only = 0;
	switch (h->op) {
	case RDMAP_WRITE:
		return errors[stag_check(&c->stags, h->stag, h->to + rx->got,
					 h->payload - rx->got, FAB_REMOTE_WRITE, dest)];
	case RDMAP_READ_RESP:
		/* It may go only where the read asked for it. The peer needs no right
		 * for that, but the memory must still be registered. */
		return errors[stag_check(&c->stags, h->stag, h->to + rx->got,
					 h->payload - rx->got, 0, dest)];
	case RDMAP_READ_REQ:
	case RDMAP_TERMINATE:
		*dest = rx->ctl + rx->got;
		return IW_OK;
	default:
		*dest = iw_first_recv(rx)->mem + rx->send_len + rx->got;
		return IW_OK;
	}
}

/* ---- What a whole frame, or message, means -------------------------------- */

static void read_request(struct fab_conn *c)
{
	struct ddp_read_req r;
	enum iw_error e;

	ddp_read_decode(&r, c->rx.ctl);
	e = iw_tx_respond(c, &r);
	if (e)
		iw_fail(c, e);
}

/* Reports the codes of a Terminate. siw on little-endian hosts swaps the two halves of
 * the first byte, so the meaning is uncertain, and nothing depends on it. */
static void rx_terminated(struct fab_conn *c)
{
	static const char *const layers[] = { "RDMAP", "DDP", "MPA" };
	const uint8_t *p = c->rx.ctl;
	const char *name = NULL;
	char why[160];

	if (c->rx.h.payload < 4) {
		iw_down(c, -ECONNABORTED, "the peer ended the connection (Terminate)");
		return;
	}
	for (int e = 1; e < IW_ERRORS && !name; e++)
		if (iw_errors[e].where == p[0] && iw_errors[e].code == p[1])
			name = layers[p[0] >> 4];
	snprintf(why, sizeof(why), "the peer ended the connection: Terminate %02x %02x%s%s%s",
		 p[0], p[1], name ? " (" : "", name ? name : "",
		 name ? " error in what we sent)" : "");
	iw_down(c, -ECONNABORTED, why);
}

static void message_arrived(struct fab_conn *c, const struct ddp_hdr *h)
{
	bool inval = h->op == RDMAP_SEND_INV || h->op == RDMAP_SEND_SE_INV;
	struct iw_rx *rx = &c->rx;
	struct iw_recv recv = *iw_first_recv(rx);

	if (inval) {
		const struct stag_entry *e = stag_find(&c->stags, h->stag);

		/* The peer may not invalidate memory that only we may use. */
		if (!e || !e->rights) {
			iw_fail(c, IW_E_INVALIDATE);
			return;
		}
		stag_del(&c->stags, h->stag);
	}
	rx->recv_head++;
	rx->bulk = rx->bulk_seen;
	rx->bulk_seen = false;
	c->ev->recv(c->ctx, recv.cookie, rx->send_len, inval, inval ? h->stag : 0);
}

/* There is such a read, and the data is its next: iw_rx_judge() has looked. */
static void read_data_came(struct fab_conn *c, const struct ddp_hdr *h)
{
	struct iw_op *op = iw_tx_reading(c);

	if (!op)
		return;
	op->done += h->payload;
	if (h->last)
		iw_tx_read_done(c);
}

/* The whole frame is here, and its CRC is right. */
static void frame_done(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	const struct ddp_hdr *h = &rx->h;

	rx->state = IW_RX_HEADER;
	rx->heard = true;
	if (h->op == RDMAP_TERMINATE) {
		rx_terminated(c);
		return;
	}
	if (h->tagged) {
		rx->in_tagged = !h->last;
		if (h->op == RDMAP_READ_RESP)
			read_data_came(c, h);
		return;
	}
	rx->in_untagged = !h->last;
	if (h->op != RDMAP_READ_REQ)
		rx->send_len += h->payload;
	if (!h->last)
		return;
	rx->msn[h->qn]++;
	if (h->op == RDMAP_READ_REQ)
		read_request(c);
	else
		message_arrived(c, h);
}

/* ---- Handling what is staged -------------------------------------------------- */

static uint32_t trailer_of(const struct ddp_hdr *h)
{
	uint32_t size = h->tagged ? DDP_TAGGED_HDR : DDP_UNTAGGED_HDR;

	return ddp_pad(size - DDP_LEN_BYTES + h->payload) + DDP_CRC_BYTES;
}

/* Each returns whether it got everything that it needs. */

static bool take_header(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	uint8_t *at = rx->stage + rx->pos;
	enum iw_error e;
	unsigned size = ddp_decode(&rx->h, at, rx->end - rx->pos, &e);

	rx->have_raw = false;
	if (size) {
		/* Of a fixed length, which is cheap. */
		memcpy(rx->raw, at, DDP_TAGGED_HDR);
		if (!rx->h.tagged)
			memcpy(rx->raw + DDP_TAGGED_HDR, at + DDP_TAGGED_HDR,
			       DDP_UNTAGGED_HDR - DDP_TAGGED_HDR);
		rx->have_raw = true;
		e = iw_rx_judge(c);
	}
	if (e)
		iw_fail(c, e);
	if (!size || e)
		return false;
	rx->pos += size;
	rx->got = 0;
	rx->trailer = trailer_of(&rx->h);
	if (c->crc)
		rx->crc = ddp_crc(DDP_CRC_INIT, at, size);
	if (rx->h.payload >= IW_BULK_FRAME)
		rx->bulk = rx->bulk_seen = true;
	rx->state = IW_RX_PAYLOAD;
	return true;
}

/* The first of n bytes of payload are in place already (placement_guess.c). */
static void take_placed(struct fab_conn *c, uint8_t *dest, uint32_t n)
{
	struct iw_rx *rx = &c->rx;
	uint32_t there = rx->placed;

	if (n > there)
		memcpy(dest + there, rx->stage + rx->pos + there, n - there);
	c->stats.rx_placed += there;
	c->stats.rx_copied += n - there;
	rx->placed = 0;
}

static bool take_payload(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	uint32_t n = rx->h.payload - rx->got;
	enum iw_error e;
	uint8_t *dest;

	if (n > rx->end - rx->pos)
		n = rx->end - rx->pos;
	/* A message without payload names no memory (RFC 5040 section 5.2). */
	if (rx->h.payload) {
		e = rx_locate(c, &dest);
		if (e) {
			iw_fail(c, e);
			return false;
		}
	}
	if (n) {
		/* A program may change what is at its place already. */
		if (c->crc)
			rx->crc = ddp_crc(rx->crc, rx->placed ? dest : rx->stage + rx->pos, n);
		if (!rx->placed) {
			memcpy(dest, rx->stage + rx->pos, n);
			c->stats.rx_copied += n;
		} else {
			take_placed(c, dest, n);
		}
		rx->pos += n;
		rx->got += n;
	}
	if (rx->got < rx->h.payload)
		return false;
	rx->state = IW_RX_TRAILER;
	return true;
}

/* Does the CRC agree? The trailer is here, and the pad is part of what the CRC is for. */
static bool crc_right(struct iw_rx *rx, uint32_t pad)
{
	const uint8_t *field = rx->tail + sizeof(rx->tail) - DDP_CRC_BYTES;
	uint8_t want[DDP_CRC_BYTES];

	ddp_crc_put(want, ddp_crc(rx->crc, field - pad, pad));
	return !memcmp(want, field, sizeof(want));
}

static bool take_trailer(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	uint32_t n = rx->trailer;

	if (n > rx->end - rx->pos)
		n = rx->end - rx->pos;
	if (c->crc)
		memcpy(rx->tail + sizeof(rx->tail) - rx->trailer, rx->stage + rx->pos, n);
	rx->pos += n;
	rx->trailer -= n;
	if (rx->trailer)
		return false;
	if (c->crc && !crc_right(rx, trailer_of(&rx->h) - DDP_CRC_BYTES)) {
		iw_fail(c, IW_E_CRC);
		return false;
	}
	frame_done(c);
	return true;
}

static void take_all(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;

	while (!c->down &&
	       (rx->state != IW_RX_HEADER || take_header(c)) &&
	       (rx->state != IW_RX_PAYLOAD || take_payload(c)) &&
	       take_trailer(c))
		;
}

/* ---- Reading the socket --------------------------------------------------- */

static void hung_up(struct fab_conn *c, ssize_t n)
{
	const struct iw_rx *rx = &c->rx;
	char why[160];

	if (n < 0) {
		int err = errno;

		snprintf(why, sizeof(why), "%s: %s", err == ECONNRESET ?
			 "the peer reset the connection" : "the connection broke", strerror(err));
		iw_down(c, -err, why);
	} else if (rx->state != IW_RX_HEADER || rx->pos != rx->end) {
		iw_down(c, -ECONNRESET, "the peer closed the connection in the middle of a frame");
	} else {
		iw_down(c, -ECONNRESET, "the peer closed the connection");
	}
}

/* The most to have in the stage. That is more than it holds already: it holds less than
 * the longer header, or nothing in the middle of a frame. */
static unsigned read_ahead(const struct iw_rx *rx)
{
	bool in_frame = rx->state != IW_RX_HEADER;

	if (!rx->bulk)
		return IW_STAGE;
	/* More of the same message follows: read the next header, and not the payload
	 * behind it. */
	if (rx->in_tagged && !(in_frame && rx->h.tagged && rx->h.last))
		return in_frame ? rx->trailer + DDP_TAGGED_HDR : DDP_UNTAGGED_HDR;
	return IW_STAGE_BULK;
}

/* Reads what the socket has, as far as there is a place for it. false: there is no more
 * for now. */
static bool rx_fill(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	const struct stag_entry *guess;
	struct iovec iov[3];
	struct msghdr msg = { .msg_iov = iov };
	uint32_t left = 0;
	size_t asked, limit, at, hole = 0;
	enum iw_error e;
	bool staged = false;    /* to be copied, because its CRC is to be that of the same bytes */
	uint8_t *dest;
	ssize_t n;

	/* At most part of a header is left. */
	if (rx->pos != rx->end)
		memmove(rx->stage, rx->stage + rx->pos, rx->end - rx->pos);
	rx->end -= rx->pos;
	rx->pos = 0;
	if (rx->state == IW_RX_PAYLOAD) {
		e = rx_locate(c, &dest);
		if (e) {
			iw_fail(c, e);
			return false;
		}
		staged = c->crc && lent_holds(dest);
		if (!staged) {
			left = rx->h.payload - rx->got;
			iov[msg.msg_iovlen++] = (struct iovec){ dest, left };
		}
	}
	limit = staged ? IW_STAGE : read_ahead(rx);
	asked = left + limit - rx->end;
	guess = iw_placement_guess(c);
	if (guess) {
		iov[msg.msg_iovlen++] = (struct iovec){ rx->stage, DDP_TAGGED_HDR };
		iov[msg.msg_iovlen++] = (struct iovec){ guess->base, guess->len };
		hole = DDP_TAGGED_HDR + guess->len;
	}
	at = rx->end + hole;
	iov[msg.msg_iovlen++] = (struct iovec){ rx->stage + at, limit - at };

	do {
		n = sys_recvmsg(c->fd, &msg, MSG_DONTWAIT);
		c->stats.recv_calls++;
	} while (n < 0 && (errno == EINTR || (errno == EFAULT && lent_mend(msg.msg_iov, msg.msg_iovlen))));
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		hung_up(c, n);
		return false;
	}
	c->stats.rx_bytes += (uint64_t)n;
	if (left) {
		uint32_t direct = (size_t)n < left ? (uint32_t)n : left;

		if (c->crc)
			rx->crc = ddp_crc(rx->crc, dest, direct);
		rx->got += direct;
		c->stats.rx_placed += direct;
		rx->end += (unsigned)((size_t)n - direct);
	} else {
		rx->end += (unsigned)n;
		if (guess)
			iw_placement_guess_check(c, guess, (size_t)n);
	}
	/* A short read means that the socket is empty, so there is no need to ask again. */
	return (size_t)n == asked;
}

void iw_rx_run(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;

	for (int i = 0; i < RX_BUDGET && !c->down; i++) {
		bool more = rx_fill(c);

		if (!c->down)
			take_all(c);
		if (!more)
			break;
	}
	if (!c->down && (rx->state != IW_RX_HEADER || rx->pos != rx->end) &&
	    list_empty(&c->stall.node)) {
		rx->stall_mark = c->stats.rx_bytes;
		loop_timer_set(c->loop, &c->stall, STALL_MS);
	}
}

/* Data does not touch the timer. When the timer is due, it looks whether bytes have
 * come. */
void iw_rx_stalled(struct loop_timer *t)
{
	struct fab_conn *c = container_of(t, struct fab_conn, stall);
	struct iw_rx *rx = &c->rx;

	if (rx->state == IW_RX_HEADER && rx->pos == rx->end)
		return;
	if (rx->stall_mark == c->stats.rx_bytes) {
		iw_down(c, -ETIMEDOUT, "the peer sent part of a frame and then nothing for 30 s");
		return;
	}
	rx->stall_mark = c->stats.rx_bytes;
	loop_timer_set(c->loop, t, STALL_MS);
}
