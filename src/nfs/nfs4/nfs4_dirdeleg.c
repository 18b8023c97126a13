/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * GET_DIR_DELEGATION: the server's promise to call before anybody else changes what is in a directory, or the
 * directory's attributes (RFC 8881, section 18.39). No notifications are asked for: the server recalls it at the
 * first change. From then on it is one of the table's, as those that OPENs bring (nfs4_delegs.h), and its recall
 * may come before this reply.
 */
#include <errno.h>
#include "nfs/nfs4/nfs4_compound.h"

static bool_t encode_get_dir_delegation(struct nfs_call *c, XDR *x)
{
	GET_DIR_DELEGATION4args a = { .gdda_signal_deleg_avail = FALSE };

	nfs4_delegs_ask(c);
	return nfs4_begin(c, x, 3, true, c->args.fh) && nfs4_put_op(x, OP_GET_DIR_DELEGATION) &&
	       xdr_GET_DIR_DELEGATION4args(x, &a);
}

/* Somebody has just changed the directory, for example. */
static int dirdeleg_got(struct nfs_call *c, const GET_DIR_DELEGATION4res_non_fatal *r)
{
	if (r->gddrnf_status != GDD4_OK)
		return -EAGAIN;
	nfs4_delegs_got(c, &r->GET_DIR_DELEGATION4res_non_fatal_u.gddrnf_resok4.gddr_stateid,
			NFS_DELEGATION_OF_DIR, true);
	return 0;
}

static int decode_get_dir_delegation(struct nfs_call *c, XDR *x)
{
	GET_DIR_DELEGATION4res_non_fatal r;
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_once(c, x, OP_GET_DIR_DELEGATION);
	if (rc)
		return rc;
	return xdr_GET_DIR_DELEGATION4res_non_fatal(x, &r) ? dirdeleg_got(c, &r) : -EBADMSG;
}

const struct nfs_opdef nfs4_op_get_dir_delegation = NFS_OPDEF("GET_DIR_DELEGATION", encode_get_dir_delegation,
	decode_get_dir_delegation, .results_max = V4_PREFIX_XDR + V4_OP_XDR + 4u + 8u + 16u + 3u * 4u * (1u + NFS4_BITMAP_WORDS),
	.proc = NFSPROC4_COMPOUND);
