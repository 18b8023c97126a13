/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What COMPOUNDs are written with, and read with. Operations come in the order of the protocol:
 * nfs4_sequence.c has the head of each, nfs4_named.c one with names behind it.
 */
#pragma once

#include "nfs/nfs4/nfs4_impl.h"

/* ---- nfs4_sequence.c ---- */

/* COMPOUND's head and SEQUENCE, and what the server answers; _bare without SEQUENCE. `cache` and the
 * results are as below. */
bool_t nfs4_begin_seq(struct nfs_call *c, XDR *x, uint32_t nops, bool cache);
bool_t nfs4_begin_bare(struct nfs_call *c, XDR *x, uint32_t nops);
int nfs4_check_seq(struct nfs_call *c, XDR *x);
int nfs4_check_bare(XDR *x);
/* nfs_opdef.carries: always; unless the reply would then be too long for the server to keep it
 * for a replay; and for COMPOUNDs that are long already. */
bool nfs4_carries(const struct nfs_call *c);
bool nfs4_carries_kept(const struct nfs_call *c);
bool nfs4_carries_long(const struct nfs_call *c);

/* ---- nfs4_status.c ---- */

/* What decode() returns for a status other than NFS4_OK. */
int nfs4_error(struct nfs_call *c, nfsstat4 status);
/* nfsstat4 to -errno. */
int nfs4_errno(nfsstat4 status);

/* ---- nfs4_named.c ---- */

/* The XDR sizes of what nfs4_begin_named() adds. */
#define V4_NAMED_XDR (NFS_WHERE_MAX * 3u * V4_OP_XDR)

/* nfs4_begin() for c->args.fh. For each name in args.where there is PUTFH of the directory, LOOKUP,
 * and VERIFY of the handle. So nothing that follows is executed if the name is another file's. */
bool_t nfs4_begin_named(struct nfs_call *c, XDR *x, uint32_t nops, bool cache);
/* -NFS_EMOVED if the name is another file's. */
int nfs4_check_named(struct nfs_call *c, XDR *x);
/* An OPEN that asks for a delegation looks at the newest name once more behind that, if there is room: another
 * client may take the name away between the first look and the delegation, and nobody would be told. One that is
 * sent under a delegation has looked at it already, if it could. At the end of the COMPOUND, and of its reply:
 * sets res.open.named. */
bool_t nfs4_put_name_again(struct nfs_call *c, XDR *x);
int nfs4_get_name_again(struct nfs_call *c, XDR *x);

/* ---- nfs4_compound.c ---- */

/* Starts a COMPOUND of `nops` operations, including SEQUENCE and PUTFH(fh). cache: the
 * server shall keep the reply for a replay, if it keeps replies of that size. Without it
 * a replay is not executed again either; the server then answers it with
 * RETRY_UNCACHED_REP. */
bool_t nfs4_begin(struct nfs_call *c, XDR *x, uint32_t nops, bool cache, const struct nfs_fh *fh);
bool_t nfs4_put_op(XDR *x, nfs_opnum4 op);
bool_t nfs4_put_fh(XDR *x, const struct nfs_fh *fh);
bool_t nfs4_put_name(XDR *x, nfs_opnum4 op, const char *name);

/*
 * The counterparts for replies. 0, or what decode() must return. nfs4_check() reads the
 * compound's head, SEQUENCE and PUTFH.
 */
int nfs4_check(struct nfs_call *c, XDR *x);
/* The next result must be `op`'s. */
int nfs4_get_op(XDR *x, nfs_opnum4 op);
/* The same, and its status. false: it is another one's, or the reply ends. */
static inline bool nfs4_get_result(XDR *x, nfs_opnum4 op, nfsstat4 *status)
{
	int32_t *at = XDR_INLINE(x, 2 * BYTES_PER_XDR_UNIT);

	if (!at || IXDR_GET_U_INT32(at) != (uint32_t)op)
		return false;
	*status = (nfsstat4)IXDR_GET_U_INT32(at);
	return true;
}

/* The same, for an operation that servers may lack. It is the call's own: if the server does not know
 * it, nobody asks again (nfs_lacks()). NFS4ERR_NOTSUPP may be of one of its file systems. 0, or what
 * decode() must return. */
int nfs4_get_maybe(struct nfs_call *c, XDR *x, nfs_opnum4 op);
/* The same, and nobody asks again after NFS4ERR_NOTSUPP either: what is done without the operation is
 * right on every file system. */
int nfs4_get_once(struct nfs_call *c, XDR *x, nfs_opnum4 op);
/* The next result must be `op`'s, with a status and nothing else. */
int nfs4_get_status(struct nfs_call *c, XDR *x, nfs_opnum4 op);
/* Called by decode() when an operation with an effect has succeeded. If the rest of this
 * COMPOUND must be asked for again, `step` does so without the effect. */
void nfs4_goes_on_at(struct nfs_call *c, uint8_t step);
/* GETFH into c->res.fh; GETATTR into c->res.attr. */
bool_t nfs4_put_getattr(XDR *x);
int nfs4_get_fh(struct nfs_call *c, XDR *x);
int nfs4_get_attr(struct nfs_call *c, XDR *x);
/* A COMPOUND of PUTFH(fh) and GETATTR. */
bool_t nfs4_encode_getattr(struct nfs_call *c, XDR *x, const struct nfs_fh *fh);
int nfs4_decode_getattr(struct nfs_call *c, XDR *x);

/*
 * GETATTR of a directory behind what has changed it, into c->res.dir_attr[i]. Without owners:
 * their names may be long, and servers keep only short replies for a replay. _fh: PUTFH
 * first.
 *
 * nfs4_get_dir() never fails the call, because the change has had its effect: -EBADMSG, or 0
 * with or without attributes. *ends: the COMPOUND ends with this operation, which has failed.
 */
bool_t nfs4_put_dir(XDR *x);
bool_t nfs4_put_dir_fh(XDR *x, const struct nfs_fh *fh);
int nfs4_get_dir(struct nfs_call *c, XDR *x, unsigned i, bool *ends);
int nfs4_get_dir_fh(struct nfs_call *c, XDR *x, unsigned i);
/* The same behind RESTOREFH. */
int nfs4_get_dir_saved(struct nfs_call *c, XDR *x, unsigned i);
/* Keeps what a change said of directory i. */
void nfs4_take_change(struct nfs_call *c, unsigned i, const change_info4 *info);

/* ---- nfs4_attr.c ---- */

extern const bitmap4 nfs4_stat_mask, nfs4_dir_mask, nfs4_names_mask, nfs4_fs_mask, nfs4_root_mask,
	nfs4_after_mask, nfs4_birth_mask;

/* Everything that any of the masks asks for. */
struct nfs4_attrs {
	struct nfs_attr attr;
	struct timespec btime;
	struct nfs_statfs fs;
	struct nfs_ref owner, group;    /* names, for idmap.c; attr then has nobody's ids */
	nfs_fh4 fh;
	uint32_t rdattr_error, lease_s, maxname;
	uint64_t maxread, maxwrite, maxfilesize;
	bool xattrs;                    /* xattr_support */
	bitmap4 got;
	/* Only their words below `len` are there. */
	bitmap4 supported, exclusive;   /* supported_attrs, suppattr_exclcreat */
};

/* With AUTH_SYS owners are decimal numbers (RFC 8881, section 5.9). false: it is a name. */
static inline bool nfs4_is_number(const struct nfs_ref *name, uint32_t *id)
{
	uint64_t n = 0;

	if (name->len == 0 || name->len > 10)
		return false;
	for (uint32_t i = 0; i < name->len; i++) {
		if (name->data[i] < '0' || name->data[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(name->data[i] - '0');
	}
	if (n > UINT32_MAX)
		return false;
	*id = (uint32_t)n;
	return true;
}

/* false: malformed, or with attributes that we did not ask for. */
bool nfs4_get_fattr(struct nfs4_attrs *out, const fattr4 *in);
/* Are those there that every server has: type, change, size, file system? What is missing is
 * 0, and must not be taken for an empty file, or for one that has not changed. */
bool nfs4_has_required(const struct nfs4_attrs *a);
/* Encodes into `buf`, which out->attr_vals then refers to. */
bool nfs4_put_fattr(fattr4 *out, const struct nfs_sattr *in, char *buf, size_t len);
#define NFS4_SATTR_MAX (128u + 2u * (4u + NFS_OWNER_MAX))       /* for nfs4_put_fattr() */
