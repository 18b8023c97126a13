/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file by its names, if they are still the file's. */
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

#define NAME_OPS 3u             /* PUTFH, LOOKUP, VERIFY */

/* VERIFY of the one attribute filehandle. */
static bool_t put_verify(XDR *x, const struct nfs_fh *fh)
{
	uint32_t padded = (fh->len + 3) & ~3u;
	int32_t *at = fh->len <= NFS_FH_MAX ? XDR_INLINE(x, 5 * BYTES_PER_XDR_UNIT + padded) : NULL;

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, OP_VERIFY);
	IXDR_PUT_U_INT32(at, 1);
	IXDR_PUT_U_INT32(at, 1u << FATTR4_FILEHANDLE);
	IXDR_PUT_U_INT32(at, 4 + padded);
	IXDR_PUT_U_INT32(at, fh->len);
	if (padded)
		at[padded / BYTES_PER_XDR_UNIT - 1] = 0;
	memcpy(at, fh->data, fh->len);
	return TRUE;
}

/* As many as the server takes in one COMPOUND. */
static unsigned choose_names(const struct nfs_call *c, uint32_t nops)
{
	uint32_t others = nops - 1 + (c->eng.riding_close ? NFS4_CLOSE_RIDE_OPS : 0);
	uint32_t most = nfs4_of(c)->maxops > others ? (nfs4_of(c)->maxops - others) / NAME_OPS : 0;
	unsigned n = c->args.nwhere - nfs4_call_const(c)->blind;

	if (atomic_load(&nfs4_of(c)->no_verify))
		n = 0;
	return n < most ? n : most;
}

static bool_t put_name(struct nfs_call *c, XDR *x, unsigned i)
{
	return nfs4_put_name(x, OP_LOOKUP, c->args.where[i].name) && put_verify(x, c->args.fh);
}

/* The oldest name comes first. All lead to the same file, or to the end of the COMPOUND. */
bool_t nfs4_begin_named(struct nfs_call *c, XDR *x, uint32_t nops, bool cache)
{
	const struct nfs_where *w = c->args.where;
	struct nfs4_call *v = nfs4_call(c);
	unsigned n = v->looks = (uint8_t)choose_names(c, nops);
	bool_t ok;

	v->again = v->asks && n && choose_names(c, nops + NAME_OPS) == n;
	nops += v->again ? NAME_OPS : 0;
	ok = nfs4_begin(c, x, n ? nops - 1 + n * NAME_OPS : nops, cache, n ? w[n - 1].dir : c->args.fh);
	for (unsigned i = n; ok && i; i--)
		ok = (i == n || nfs4_put_fh(x, w[i - 1].dir)) && put_name(c, x, i - 1);
	return ok;
}

bool_t nfs4_put_name_again(struct nfs_call *c, XDR *x)
{
	return !nfs4_call(c)->again || (nfs4_put_fh(x, c->args.where[0].dir) && put_name(c, x, 0));
}

/* What was asked about name i has failed with rc. A user who may not search the directory any more
 * may still open what he has open (/proc/self/fd), so the server's other reasons do not count. */
static int not_found(struct nfs_call *c, unsigned i, int rc)
{
	if (rc > 0 || rc == -EBADMSG)
		return rc;
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ESTALE)
		return -NFS_EMOVED;
	nfs4_call(c)->blind = (uint8_t)(c->args.nwhere - i);
	return NFS_AGAIN;
}

static int get_verify(struct nfs_call *c, XDR *x, unsigned i)
{
	nfsstat4 status;

	if (!nfs4_get_result(x, OP_VERIFY, &status))
		return -EBADMSG;
	switch (status) {
	case NFS4_OK:
		return 0;
	case NFS4ERR_NOT_SAME:
		return -NFS_EMOVED;
	case NFS4ERR_ATTRNOTSUPP:
	case NFS4ERR_NOTSUPP:
	case NFS4ERR_INVAL:
		atomic_store(&nfs4_of(c)->no_verify, true);
		return NFS_AGAIN;
	default:
		return not_found(c, i, nfs4_error(c, status));
	}
}

int nfs4_check_named(struct nfs_call *c, XDR *x)
{
	unsigned n = nfs4_call(c)->looks;
	int rc = nfs4_check(c, x);

	for (unsigned i = n; i; i--) {
		if (!rc && i < n)
			rc = nfs4_get_status(c, x, OP_PUTFH);
		if (!rc)
			rc = nfs4_get_status(c, x, OP_LOOKUP);
		rc = rc ? not_found(c, i - 1, rc) : get_verify(c, x, i - 1);
		if (rc)
			return rc;
	}
	return rc;
}

int nfs4_get_name_again(struct nfs_call *c, XDR *x)
{
	static const nfs_opnum4 ops[NAME_OPS] = { OP_PUTFH, OP_LOOKUP, OP_VERIFY };
	const struct nfs4_call *v = nfs4_call(c);
	nfsstat4 status = NFS4_OK;

	if (!v->again) {
		c->res.open.named = v->under && v->looks;
		return 0;
	}
	for (unsigned i = 0; i < NAME_OPS && !status; i++)
		if (!nfs4_get_result(x, ops[i], &status))
			return -EBADMSG;
	c->res.open.named = !status;
	return 0;
}
