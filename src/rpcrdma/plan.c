/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chooses the chunks; see plan.h. */
#include <errno.h>
#include "rpcrdma/header.h"
#include "rpcrdma/plan.h"

/* A Write chunk: discriminator, count, segments. */
#define WRITE_CHUNK_BYTES(n) (8u + (uint64_t)RR_SEG_BYTES * (n))
/* A Reply chunk of one segment: its discriminator is in RR_HDR_MIN. */
#define REPLY_CHUNK_BYTES (4u + RR_SEG_BYTES)

static uint64_t round4(uint64_t n)
{
	return (n + 3) & ~(uint64_t)3;
}

/* The reply returns the chunk list in its header, so the chunk counts there, too. */
static int plan_reply(struct rr_plan *out, const struct rr_plan_in *in)
{
	uint64_t rest = (uint64_t)RR_HDR_MIN + in->reply_max;

	if (rest + round4(in->sink_len) <= in->recv_limit) {
		out->reply = RR_REPLY_INLINE;
	} else if (in->sink_len) {
		if (rest + WRITE_CHUNK_BYTES(in->nsink) > in->recv_limit)
			return -EMSGSIZE;
		out->reply = RR_REPLY_WRITE_CHUNK;
	} else {
		out->reply = RR_REPLY_CHUNK;
	}
	return 0;
}

int rr_plan(struct rr_plan *out, const struct rr_plan_in *in)
{
	uint64_t hdr = RR_HDR_MIN, rest;
	int rc = plan_reply(out, in);

	if (rc)
		return rc;
	if (out->reply == RR_REPLY_WRITE_CHUNK)
		hdr += WRITE_CHUNK_BYTES(in->nsink);
	else if (out->reply == RR_REPLY_CHUNK)
		hdr += REPLY_CHUNK_BYTES;

	rest = hdr + in->msg_len;
	if (rest + round4(in->data_len) <= in->send_limit)
		out->call = RR_CALL_INLINE;
	else if (in->data_len && rest + (uint64_t)RR_READ_SEG_BYTES * in->nsend <= in->send_limit)
		out->call = RR_CALL_READ_CHUNK;
	else if (!in->data_len || in->data_short)
		out->call = RR_CALL_LONG;
	else
		return -EMSGSIZE;
	return 0;
}
