/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Authentication flavors (RFC 5531, section 8): how a call says who makes it, and how a
 * reply shows that it comes from the server.
 *
 *   call:   marshal   the credential and the verifier, behind the procedure number
 *           wrap      the arguments
 *   reply:  verify    the verifier
 *           unwrap    the results
 *           refresh   the server has refused the credential
 *
 * A mount has one flavor (sec=). Each call names the user that it is made for (rpc_cred),
 * and the flavor turns that into what the server sees. What it has to know of a call when the
 * reply comes is in the call's own rpc_auth_call. Any thread may call the operations, so a flavor
 * that keeps state between calls must lock it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <rpc/types.h>
#include <rpc/xdr.h>

#define RPC_GIDS_MAX 16u                /* AUTH_SYS carries no more */

/* Flavors (RFC 5531, section 8.2). */
enum { RPC_AUTH_NONE = 0, RPC_AUTH_SYS = 1, RPC_AUTH_SHORT = 2 };

/* The user that a call is made for. */
struct rpc_cred {
	uid_t uid;
	gid_t gid;
	uint32_t ngids;
	gid_t gids[RPC_GIDS_MAX];
};

static inline bool rpc_cred_same(const struct rpc_cred *a, const struct rpc_cred *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->ngids == b->ngids &&
	       memcmp(a->gids, b->gids, a->ngids * sizeof(a->gids[0])) == 0;
}

/* A call, as its flavor sees it. The caller sets it, and keeps it until the reply is
 * decoded or nobody waits for one any more. */
struct rpc_auth_call {
	const struct rpc_auth *flavor;
	const struct rpc_cred *cred;    /* NULL: a call of nobody; AUTH_NONE */
};

struct rpc_auth {
	const char *name;               /* as in sec= */
	uint32_t flavor;                /* as in the MOUNT protocol's lists */
	/* Encodes credential and verifier. FALSE: the stream is full. */
	bool_t (*marshal)(struct rpc_auth_call *k, XDR *x);
	/* Encodes the arguments, which encode(arg, x) writes. FALSE: the stream is full. */
	bool_t (*wrap)(struct rpc_auth_call *k, XDR *x, bool_t (*encode)(void *arg, XDR *x),
		       void *arg);
	/* Checks the verifier of a reply, given its flavor and `len` bytes of body.
	 * false: the reply does not come from the server. */
	bool (*verify)(struct rpc_auth_call *k, uint32_t flavor, const void *body, uint32_t len);
	/* Decodes the results by decode(arg, x), and returns what that returns, or
	 * -EBADMSG. */
	int (*unwrap)(struct rpc_auth_call *k, XDR *x, int (*decode)(void *arg, XDR *x),
		      void *arg);
	/* The server has refused the credential; why is an auth_stat of RFC 5531. 0: the call may
	 * be sent again, and will have a new credential. Otherwise -errno for the
	 * caller. */
	int (*refresh)(struct rpc_auth_call *k, uint32_t why);
	/* File data is wrapped with the rest of the message, so it cannot be placed. It
	 * travels inside the message; a long message travels as a Long Call or in a
	 * Reply chunk. */
	bool no_placement;
};

/* sec=sys: uid, gid and groups as they are. */
extern const struct rpc_auth rpc_auth_sys;
/* AUTH_NONE: for procedures that need no user, and for sec=none. */
extern const struct rpc_auth rpc_auth_none;

/* Sets the machine name in AUTH_SYS credentials: this host's name, cut to 255 bytes. To
 * be called once before the first call is made. */
void rpc_auth_init(void);

/* wrap and unwrap for flavors that leave the message as it is. */
bool_t rpc_auth_wrap_plain(struct rpc_auth_call *k, XDR *x,
			   bool_t (*encode)(void *arg, XDR *x), void *arg);
int rpc_auth_unwrap_plain(struct rpc_auth_call *k, XDR *x, int (*decode)(void *arg, XDR *x),
			  void *arg);
