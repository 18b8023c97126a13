/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CREATE, MKDIR, SYMLINK, MKNOD. All four have the same results, and all may leave out the
 * new handle or its attributes:
 *
 *   MAKE --handle and attributes--> done
 *     |  \--handle only--> GETATTR --> done
 *     +--nothing--> LOOKUP --> (GETATTR) --> done
 *
 * Exclusive CREATE carries a verifier instead of attributes, so that a repeated CREATE
 * finds its own file. Mode, times and the rest follow in a SETATTR.
 *
 * So an exclusive CREATE may be sent again, even to a server without its reply cache. With
 * the others a second sending then ends in EEXIST: see nfs3_dir.c.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/common.h"
#include "nfs/nfs3/nfs3_impl.h"

enum { STEP_MAKE, STEP_LOOKUP, STEP_SETATTR, STEP_GETATTR };

static bool nfs3_create_exclusive(const struct nfs_call *c)
{
	return c->op == NFS_OP_CREATE && (c->args.file.flags & O_EXCL);
}

static uint32_t make_proc(const struct nfs_call *c)
{
	switch (c->eng.step) {
	case STEP_LOOKUP:  return NFSPROC3_LOOKUP;
	case STEP_SETATTR: return NFSPROC3_SETATTR;
	case STEP_GETATTR: return NFSPROC3_GETATTR;
	}
	switch (c->op) {
	case NFS_OP_MKDIR:   return NFSPROC3_MKDIR;
	case NFS_OP_SYMLINK: return NFSPROC3_SYMLINK;
	case NFS_OP_MKNOD:   return NFSPROC3_MKNOD;
	default:             return NFSPROC3_CREATE;
	}
}

/* ---- arguments ---- */

static bool_t encode_create(struct nfs_call *c, XDR *x)
{
	CREATE3args a = { .where = nfs3_dirop(c->args.fh, c->args.name) };

	if (nfs3_create_exclusive(c)) {
		a.how.mode = EXCLUSIVE;
		nfs_create_verifier(c, a.how.createhow3_u.verf);
	} else {
		a.how.mode = c->args.file.flags & O_TRUNC ? GUARDED : UNCHECKED;
		nfs3_sattr(&a.how.createhow3_u.obj_attributes, &c->args.sattr);
	}
	return xdr_CREATE3args(x, &a);
}

static bool_t encode_mkdir(struct nfs_call *c, XDR *x)
{
	MKDIR3args a = { .where = nfs3_dirop(c->args.fh, c->args.name) };

	nfs3_sattr(&a.attributes, &c->args.sattr);
	return xdr_MKDIR3args(x, &a);
}

static bool_t encode_symlink(struct nfs_call *c, XDR *x)
{
	SYMLINK3args a = {
		.where = nfs3_dirop(c->args.fh, c->args.name),
		.symlink.symlink_data.len = (uint32_t)strlen(c->args.mk.target),
	};

	nfs3_sattr(&a.symlink.symlink_attributes, &c->args.sattr);
	if (!xdr_SYMLINK3args(x, &a))
		return FALSE;
	c->eng.rr.data_pos = a.symlink.symlink_data.pos;
	return TRUE;
}

static bool_t encode_mknod(struct nfs_call *c, XDR *x)
{
	MKNOD3args a = { .where = nfs3_dirop(c->args.fh, c->args.name) };
	bool device = S_ISCHR(c->args.mk.type) || S_ISBLK(c->args.mk.type);
	sattr3 *s = device ? &a.what.mknoddata3_u.device.dev_attributes :
			     &a.what.mknoddata3_u.pipe_attributes;

	a.what.type = S_ISCHR(c->args.mk.type) ? NF3CHR : S_ISBLK(c->args.mk.type) ? NF3BLK :
		      S_ISSOCK(c->args.mk.type) ? NF3SOCK : NF3FIFO;
	nfs3_sattr(s, &c->args.sattr);
	if (device)
		a.what.mknoddata3_u.device.spec = (specdata3){ c->args.mk.major, c->args.mk.minor };
	return xdr_MKNOD3args(x, &a);
}

static bool_t encode_setattr(struct nfs_call *c, XDR *x)
{
	SETATTR3args a = { .object = nfs3_fh(&c->res.fh) };
	struct nfs_sattr s = c->args.sattr;

	/* Servers keep the verifier in the times (RFC 1813, section 3.3.8). */
	if (!(s.valid & NFS_SET_ATIME))
		s.valid |= NFS_SET_ATIME_NOW;
	if (!(s.valid & NFS_SET_MTIME))
		s.valid |= NFS_SET_MTIME_NOW;
	nfs3_sattr(&a.new_attributes, &s);
	return xdr_SETATTR3args(x, &a);
}

static bool_t encode_make(struct nfs_call *c, XDR *x)
{
	switch (c->eng.step) {
	case STEP_LOOKUP:
		c->res.found = true;
		return nfs3_encode_lookup(x, c->args.fh, c->args.name);
	case STEP_SETATTR: return encode_setattr(c, x);
	case STEP_GETATTR: return nfs3_encode_getattr(x, &c->res.fh);
	}
	switch (c->op) {
	case NFS_OP_MKDIR:   return encode_mkdir(c, x);
	case NFS_OP_SYMLINK: return encode_symlink(c, x);
	case NFS_OP_MKNOD:   return encode_mknod(c, x);
	default:             return encode_create(c, x);
	}
}

/* ---- results ---- */

static int nfs3_create_go(struct nfs_call *c, uint8_t step)
{
	c->eng.step = step;
	return NFS_NEXT;
}

/* Handle and attributes are set as far as they came: chooses the next step. */
static int nfs3_create_proceed(struct nfs_call *c)
{
	if (nfs3_create_exclusive(c) && c->eng.step < STEP_SETATTR) {
		c->res.has_attr = false;
		return nfs3_create_go(c, STEP_SETATTR);
	}
	if (!c->res.has_attr)
		return nfs3_create_go(c, STEP_GETATTR);
	if (c->op == NFS_OP_CREATE) {
		c->open = calloc(1, sizeof(*c->open));
		if (!c->open)
			return -ENOMEM;
	}
	return 0;
}

static int decode_first(struct nfs_call *c, XDR *x)
{
	/* The results of all four have this shape (RFC 1813, 3.3.8 to 3.3.11). */
	CREATE3res r;
	const CREATE3resok *ok = &r.CREATE3res_u.resok;

	if (!xdr_CREATE3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (nfs3_take_attr(c, &ok->obj_attributes) || nfs3_take_dir(c, 0, &ok->dir_wcc))
		return -EBADMSG;
	if (!ok->obj.handle_follows) {
		c->res.has_attr = false;
		return nfs3_create_go(c, STEP_LOOKUP);
	}
	if (!nfs3_get_fh(&c->res.fh, &ok->obj.post_op_fh3_u.handle))
		return -EBADMSG;
	return nfs3_create_proceed(c);
}

static int decode_set(struct nfs_call *c, XDR *x)
{
	SETATTR3res r;

	if (!xdr_SETATTR3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (nfs3_take_attr(c, &r.SETATTR3res_u.resok.obj_wcc.after))
		return -EBADMSG;
	return nfs3_create_proceed(c);
}

static int decode_make(struct nfs_call *c, XDR *x)
{
	int rc;

	switch (c->eng.step) {
	case STEP_LOOKUP:
		rc = nfs3_decode_lookup(c, x);
		return rc ? rc : nfs3_create_proceed(c);
	case STEP_SETATTR:
		return decode_set(c, x);
	case STEP_GETATTR:
		rc = nfs3_decode_getattr(c, x);
		return rc ? rc : nfs3_create_proceed(c);
	default:
		return decode_first(c, x);
	}
}

/* The largest other step, LOOKUP, has a smaller reply. */
enum { MAKE_MAX = NFS3_STATUS_XDR + NFS3_POST_FH_XDR + NFS3_ATTR_XDR + NFS3_WCC_XDR };

#define MAKE(text) { \
	.name = text, .encode = encode_make, .decode = decode_make, \
	.results_max = MAKE_MAX, .proc_of = make_proc, \
}
const struct nfs_opdef nfs3_op_create = MAKE("CREATE");
const struct nfs_opdef nfs3_op_mkdir = MAKE("MKDIR");
const struct nfs_opdef nfs3_op_symlink = MAKE("SYMLINK");
const struct nfs_opdef nfs3_op_mknod = MAKE("MKNOD");
