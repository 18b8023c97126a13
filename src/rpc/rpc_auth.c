/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AUTH_NONE and AUTH_SYS (RFC 5531, section 8.2 and appendix A). Nothing here allocates. */
#include "rpc/rpc_auth.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "xdr_msg.h"

#define MACHINE_MAX 255u

static char machine[MACHINE_MAX + 1] = "localhost";
static uint32_t machine_len = 9;

void rpc_auth_init(void)
{
	if (gethostname(machine, sizeof(machine)))
		strcpy(machine, "localhost");
	machine[MACHINE_MAX] = '\0';
	machine_len = (uint32_t)strlen(machine);
	/* The XDR pad behind it is zeros. */
	memset(machine + machine_len, 0, sizeof(machine) - machine_len);
}

static bool_t auth_put(XDR *x, uint32_t v)
{
	return xdr_uint32_t(x, &v);
}

/* ---- shared ---- */

static bool_t put_none(XDR *x)
{
	return auth_put(x, RPC_AUTH_NONE) && auth_put(x, 0);
}

bool_t rpc_auth_wrap_plain(struct rpc_auth_call *k, XDR *x,
			   bool_t (*encode)(void *arg, XDR *x), void *arg)
{
	return encode(arg, x);
}

int rpc_auth_unwrap_plain(struct rpc_auth_call *k, XDR *x, int (*decode)(void *arg, XDR *x),
			  void *arg)
{
	return decode(arg, x);
}

/* For flavors that have only one credential for each user. */
static int no_other(struct rpc_auth_call *k, uint32_t why)
{
	return -EACCES;
}

/* ---- AUTH_NONE ---- */

static bool_t none_marshal(struct rpc_auth_call *k, XDR *x)
{
	/* Credential and verifier. NOLINTNEXTLINE(misc-redundant-expression) */
	return put_none(x) && put_none(x);
}

static bool none_verify(struct rpc_auth_call *k, uint32_t flavor, const void *body, uint32_t len)
{
	return flavor == RPC_AUTH_NONE;
}

const struct rpc_auth rpc_auth_none = {
	.name = "none",
	.flavor = RPC_AUTH_NONE,
	.marshal = none_marshal,
	.wrap = rpc_auth_wrap_plain,
	.verify = none_verify,
	.unwrap = rpc_auth_unwrap_plain,
	.refresh = no_other,
};

/* ---- AUTH_SYS ---- */

static bool_t sys_marshal(struct rpc_auth_call *k, XDR *x)
{
	const struct rpc_cred *cred = k->cred;
	uint32_t ngids = cred->ngids < RPC_GIDS_MAX ? cred->ngids : RPC_GIDS_MAX;
	/* stamp, length of name, name, uid, gid, count, gids */
	uint32_t body = 4 + 4 + ((machine_len + 3) & ~3u) + 4 + 4 + 4 + 4 * ngids;
	int32_t *at = XDR_INLINE(x, 4 * 4 + body);

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, RPC_AUTH_SYS);
	IXDR_PUT_U_INT32(at, body);
	IXDR_PUT_U_INT32(at, 0);
	IXDR_PUT_U_INT32(at, machine_len);
	memcpy(at, machine, (machine_len + 3) & ~3u);
	at += (machine_len + 3) / 4;
	IXDR_PUT_U_INT32(at, cred->uid);
	IXDR_PUT_U_INT32(at, cred->gid);
	IXDR_PUT_U_INT32(at, ngids);
	for (uint32_t i = 0; i < ngids; i++)
		IXDR_PUT_U_INT32(at, cred->gids[i]);
	IXDR_PUT_U_INT32(at, RPC_AUTH_NONE);
	IXDR_PUT_U_INT32(at, 0);
	return TRUE;
}

/* A server may offer a short form of the credential (AUTH_SHORT). Nobody has to use it. */
static bool sys_verify(struct rpc_auth_call *k, uint32_t flavor, const void *body, uint32_t len)
{
	return flavor == RPC_AUTH_NONE || flavor == RPC_AUTH_SYS || flavor == RPC_AUTH_SHORT;
}

const struct rpc_auth rpc_auth_sys = {
	.name = "sys",
	.flavor = RPC_AUTH_SYS,
	.marshal = sys_marshal,
	.wrap = rpc_auth_wrap_plain,
	.verify = sys_verify,
	.unwrap = rpc_auth_unwrap_plain,
	.refresh = no_other,
};
