/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * REMOVE, RMDIR, RENAME and LINK.
 *
 * When a call was sent again after a lost connection (c->eng.resent), the server answers
 * from its reply cache. If a restart has cleared that, the call may find the effect of its
 * first sending. But it may just as well find what somebody else did in between, and
 * programs use names for locks. So the server's answer stands, as with the kernel's client,
 * unless there is proof that the effect is ours:
 *
 *   RENAME   ENOENT  success if the new name has the handle of the renamed object.
 *   LINK     EEXIST  success if the name is a link to the file: programs that use
 *                    link() for locks link a file of their own.
 *   REMOVE, RMDIR    ENOENT stays: a missing name proves nothing.
 *   MKDIR, SYMLINK, MKNOD (nfs3_create.c)  EEXIST stays: our object looks like
 *                    anybody else's, even the target of a link.
 */
#include <string.h>
#include "nfs/nfs3/nfs3_impl.h"

/* ---- REMOVE, RMDIR ---- */

static bool_t encode_remove(struct nfs_call *c, XDR *x)
{
	REMOVE3args a = { .object = nfs3_dirop(c->args.fh, c->args.name) };

	return xdr_REMOVE3args(x, &a);  /* RMDIR3args is the same */
}

static int decode_remove(struct nfs_call *c, XDR *x)
{
	REMOVE3res r;

	if (!xdr_REMOVE3res(x, &r))
		return -EBADMSG;
	return r.status ? nfs3_error(r.status) :
			  nfs3_take_dir(c, 0, &r.REMOVE3res_u.resok.dir_wcc);
}

enum { REMOVE_MAX = NFS3_STATUS_XDR + NFS3_WCC_XDR };

const struct nfs_opdef nfs3_op_remove = NFS_OPDEF("REMOVE", encode_remove, decode_remove,
	.results_max = REMOVE_MAX, .proc = NFSPROC3_REMOVE);
const struct nfs_opdef nfs3_op_rmdir = NFS_OPDEF("RMDIR", encode_remove, decode_remove,
	.results_max = REMOVE_MAX, .proc = NFSPROC3_RMDIR);

/* ---- RENAME ---- */

enum { STEP_RENAME, STEP_IS_THERE };

static uint32_t rename_proc(const struct nfs_call *c)
{
	return c->eng.step == STEP_IS_THERE ? NFSPROC3_LOOKUP : NFSPROC3_RENAME;
}

static bool_t encode_rename(struct nfs_call *c, XDR *x)
{
	RENAME3args a = {
		.from = nfs3_dirop(c->args.fh, c->args.name), .to = nfs3_dirop(c->args.fh2, c->args.name2),
	};

	return c->eng.step == STEP_IS_THERE ? nfs3_encode_lookup(x, c->args.fh2, c->args.name2) :
					  xdr_RENAME3args(x, &a);
}

/* The result of the check of a name. If it proves nothing the server's answer `rc`
 * stands. */
static int nfs3_dir_doubt(int looked, int rc)
{
	return looked < 0 && looked != -EBADMSG ? rc : looked;
}

static int decode_is_there(struct nfs_call *c, XDR *x)
{
	int rc = nfs3_decode_lookup(c, x);

	if (!rc && !nfs_fh_same(&c->res.fh, c->args.ren.moved))
		rc = -ENOENT;
	return nfs3_dir_doubt(rc, -ENOENT);
}

static int decode_rename(struct nfs_call *c, XDR *x)
{
	RENAME3res r;

	if (c->eng.step == STEP_IS_THERE)
		return decode_is_there(c, x);
	if (!xdr_RENAME3res(x, &r))
		return -EBADMSG;
	if (r.status == NFS3ERR_NOENT && c->eng.resent && c->args.ren.moved) {
		c->eng.step = STEP_IS_THERE;
		return NFS_NEXT;
	}
	if (r.status)
		return nfs3_error(r.status);
	return nfs3_take_dir(c, 0, &r.RENAME3res_u.resok.fromdir_wcc) ? -EBADMSG :
	       nfs3_take_dir(c, 1, &r.RENAME3res_u.resok.todir_wcc);
}

static uint32_t rename_max(const struct nfs_call *c)
{
	return NFS3_STATUS_XDR + (c->eng.step == STEP_IS_THERE ? NFS3_FH_XDR + 2 * NFS3_ATTR_XDR :
							     2 * NFS3_WCC_XDR);
}

const struct nfs_opdef nfs3_op_rename = NFS_OPDEF("RENAME", encode_rename, decode_rename,
	.results_max_of = rename_max, .proc_of = rename_proc);

/* ---- LINK, then GETATTR ---- */

enum { STEP_LINK, STEP_ATTR, STEP_WHOSE, STEP_IS_OURS };

static uint32_t link_proc(const struct nfs_call *c)
{
	return c->eng.step == STEP_LINK ? NFSPROC3_LINK :
	       c->eng.step == STEP_WHOSE ? NFSPROC3_LOOKUP : NFSPROC3_GETATTR;
}

static bool_t encode_link(struct nfs_call *c, XDR *x)
{
	LINK3args a = { .file = nfs3_fh(c->args.fh), .link = nfs3_dirop(c->args.fh2, c->args.name) };

	switch (c->eng.step) {
	case STEP_LINK:  return xdr_LINK3args(x, &a);
	case STEP_WHOSE: return nfs3_encode_lookup(x, c->args.fh2, c->args.name);
	default:         return nfs3_encode_getattr(x, c->args.fh);
	}
}

static int nfs3_dir_go(struct nfs_call *c, uint8_t step)
{
	c->eng.step = step;
	return NFS_NEXT;
}

/* Is the name a link to the file? Yes if the handles are the same, or if GETATTR says so
 * (a handle may also depend on the directory). */
static int decode_whose(struct nfs_call *c, XDR *x)
{
	int rc = nfs3_decode_lookup(c, x);

	if (rc)
		return nfs3_dir_doubt(rc, -EEXIST);
	if (nfs_fh_same(&c->res.fh, c->args.fh))
		return c->res.has_attr ? 0 : nfs3_dir_go(c, STEP_ATTR);
	if (!c->res.has_attr)
		return -EEXIST;
	c->res.has_attr = false;
	nfs3_call(c)->fileid = c->res.attr.fileid;
	nfs3_call(c)->fsid = c->res.attr.fsid_major;
	return nfs3_dir_go(c, STEP_IS_OURS);
}

static int decode_is_ours(struct nfs_call *c, XDR *x)
{
	int rc = nfs3_decode_getattr(c, x);

	if (!rc && (c->res.attr.fileid != nfs3_call(c)->fileid || c->res.attr.fsid_major != nfs3_call(c)->fsid))
		rc = -EEXIST;
	return nfs3_dir_doubt(rc, -EEXIST);
}

static int decode_link(struct nfs_call *c, XDR *x)
{
	LINK3res r;

	switch (c->eng.step) {
	case STEP_ATTR:    return nfs3_decode_getattr(c, x);
	case STEP_WHOSE:   return decode_whose(c, x);
	case STEP_IS_OURS: return decode_is_ours(c, x);
	}
	if (!xdr_LINK3res(x, &r))
		return -EBADMSG;
	if (r.status == NFS3ERR_EXIST && c->eng.resent)
		return nfs3_dir_go(c, STEP_WHOSE);
	if (r.status)
		return nfs3_error(r.status);
	if (nfs3_take_attr(c, &r.LINK3res_u.resok.file_attributes) ||
	    nfs3_take_dir(c, 1, &r.LINK3res_u.resok.linkdir_wcc))
		return -EBADMSG;
	return c->res.has_attr ? 0 : nfs3_dir_go(c, STEP_ATTR);
}

static uint32_t link_max(const struct nfs_call *c)
{
	return NFS3_STATUS_XDR + NFS3_ATTR_XDR +
	       (c->eng.step == STEP_WHOSE ? NFS3_FH_XDR + NFS3_ATTR_XDR : NFS3_WCC_XDR);
}

const struct nfs_opdef nfs3_op_link = NFS_OPDEF("LINK", encode_link, decode_link,
	.results_max_of = link_max, .proc_of = link_proc);
