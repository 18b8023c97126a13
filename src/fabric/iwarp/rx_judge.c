/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checking a frame by its header: may it come now, and is there a place for it? */
#include "fabric/iwarp/iwarp.h"

static enum iw_error judge_tagged(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	const struct ddp_hdr *h = &rx->h;

	/* The segments of a message follow each other without a gap, and so do tagged
	 * messages (RFC 5041 section 5). */
	if (rx->in_tagged) {
		if (h->op != rx->tagged_op)
			return IW_E_INTERSECT;
		if (h->stag != rx->tagged_stag || h->to != rx->tagged_to)
			return h->op == RDMAP_WRITE ? IW_E_INTERSECT : IW_E_RESPONSE;
	}
	if (h->op == RDMAP_READ_RESP) {
		const struct iw_op *op = iw_tx_reading(c);

		if (!op || h->stag != op->own_stag || h->to != op->own_to + op->done ||
		    h->payload > op->len - op->done ||
		    h->last != (h->payload == op->len - op->done))
			return IW_E_RESPONSE;
	}
	rx->in_tagged = true;
	rx->tagged_op = h->op;
	rx->tagged_stag = h->stag;
	rx->tagged_to = h->to + h->payload;
	return IW_OK;
}

static enum iw_error judge_send(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;

	if (rx->h.mo != (rx->in_untagged ? rx->send_len : 0))
		return IW_E_MO;
	if (rx->recv_head == rx->recv_tail)
		return IW_E_NO_RECV;
	if (rx->h.payload > iw_first_recv(rx)->len - (rx->in_untagged ? rx->send_len : 0))
		return IW_E_TOO_LONG;
	if (!rx->in_untagged)
		rx->send_len = 0;
	return IW_OK;
}

static enum iw_error judge_untagged(struct fab_conn *c)
{
	struct iw_rx *rx = &c->rx;
	const struct ddp_hdr *h = &rx->h;
	enum iw_error e = IW_OK;
	uint32_t qn = h->op == RDMAP_READ_REQ ? DDP_QN_READ :
		h->op == RDMAP_TERMINATE ? DDP_QN_TERM : DDP_QN_SEND;

	if (h->qn != qn)
		return IW_E_QN;
	if (h->op == RDMAP_TERMINATE)
		return h->payload > sizeof(rx->ctl) ? IW_E_TOO_LONG : IW_OK;
	if (rx->in_untagged && h->op != rx->untagged_op)
		return IW_E_INTERSECT;
	if (h->msn != rx->msn[qn])
		return IW_E_MSN;
	if (h->op != RDMAP_READ_REQ)
		e = judge_send(c);
	else if (h->mo)
		e = IW_E_MO;
	else if (!h->last || h->payload != DDP_READ_REQ)
		e = IW_E_READ_FORM;
	rx->in_untagged = true;
	rx->untagged_op = h->op;
	return e;
}

enum iw_error iw_rx_judge(struct fab_conn *c)
{
	return c->rx.h.tagged ? judge_tagged(c) : judge_untagged(c);
}
