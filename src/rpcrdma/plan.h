/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides which chunks a call needs (RFC 8166 section 3.4, RFC 8267): a pure function of
 * sizes, so that it can be tested on its own.
 *
 *   reply   whole reply fits inline            no chunk
 *           data, and the rest fits inline     one Write chunk, of nsink segments
 *           otherwise                          Reply chunk
 *   call    everything fits inline             RDMA_MSG
 *           data, and the rest fits inline     RDMA_MSG + Read chunk at data_pos
 *           otherwise                          RDMA_NOMSG + Position-Zero Read chunk
 *
 * data: what RFC 8267 lets be placed: file data, and the text of a symbolic link.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum rr_call_plan  { RR_CALL_INLINE, RR_CALL_READ_CHUNK, RR_CALL_LONG };
enum rr_reply_plan { RR_REPLY_INLINE, RR_REPLY_WRITE_CHUNK, RR_REPLY_CHUNK };

struct rr_plan_in {
	uint32_t send_limit;    /* inline threshold client to server */
	uint32_t recv_limit;    /* inline threshold server to client */
	uint32_t msg_len;       /* RPC call without its data */
	uint32_t data_len;      /* the call's data, 0 for none */
	uint32_t nsend;         /* pieces of that data */
	bool data_short;        /* the data may be a part of a Long Call */
	uint32_t sink_len;      /* the most data wanted, 0 for none */
	uint32_t nsink;         /* pieces of memory for it */
	uint32_t reply_max;     /* RPC reply without that data */
};

struct rr_plan {
	enum rr_call_plan call;
	enum rr_reply_plan reply;
};

/* 0, or -EMSGSIZE in two cases. Long data, and the rest of the call does not fit inline: a
 * Position-Zero chunk would have to hold the data. Data wanted, and the rest of the reply
 * does not fit inline: servers differ on that combination. */
int rr_plan(struct rr_plan *out, const struct rr_plan_in *in);
