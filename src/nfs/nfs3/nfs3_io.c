/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READ, WRITE, COMMIT, and what open() means in version 3.
 *
 * READ data is in the sink if it was placed there, otherwise in the reply message itself;
 * nothing is copied here. WRITE asks for FILE_SYNC, unless the caller keeps the data and can
 * send it again after a restart of the server.
 */
#include <fcntl.h>
#include <stdlib.h>
#include "nfs/common.h"
#include "nfs/nfs3/nfs3_impl.h"

/* ---- READ ---- */

static bool_t encode_read(struct nfs_call *c, XDR *x)
{
	READ3args a = {
		.file = nfs3_fh(c->args.fh), .offset = c->args.io.offset, .count = c->args.io.count,
	};

	return xdr_READ3args(x, &a);
}

static int decode_read(struct nfs_call *c, XDR *x)
{
	READ3res r;
	READ3resok *ok = &r.READ3res_u.resok;

	ok->data = (nfs_bulk){ .max = c->args.io.count, .placed = c->eng.rr.placed };
	if (!xdr_READ3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (ok->data.len != ok->count || nfs3_take_attr(c, &ok->file_attributes))
		return -EBADMSG;
	return nfs_take_read(c, &ok->data, ok->eof);
}

const struct nfs_opdef nfs3_op_read = NFS_OPDEF("READ", encode_read, decode_read,
	.results_max = NFS3_STATUS_XDR + NFS3_ATTR_XDR + 4 + 4 + 4, .proc = NFSPROC3_READ);

/* ---- WRITE ---- */

static bool_t encode_write(struct nfs_call *c, XDR *x)
{
	uint32_t len = nfs_write_len(c);
	WRITE3args a = {
		.file = nfs3_fh(c->args.fh), .offset = c->args.io.offset, .count = len,
		.stable = c->args.io.unstable ? UNSTABLE : FILE_SYNC, .data.len = len,
	};

	if (!xdr_WRITE3args(x, &a))
		return FALSE;
	c->eng.rr.data_pos = a.data.pos;
	return TRUE;
}

static int decode_write(struct nfs_call *c, XDR *x)
{
	WRITE3res r;
	const WRITE3resok *ok = &r.WRITE3res_u.resok;

	if (!xdr_WRITE3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (nfs3_take_attr(c, &ok->file_wcc.after))
		return -EBADMSG;
	return nfs_take_write(c, ok->count, ok->committed == FILE_SYNC, ok->verf);
}

enum { WRITE_MAX = NFS3_STATUS_XDR + NFS3_WCC_XDR + 4 + 4 + NFS3_WRITEVERFSIZE };

const struct nfs_opdef nfs3_op_write = NFS_OPDEF("WRITE", encode_write, decode_write,
	.results_max = WRITE_MAX, .proc = NFSPROC3_WRITE);

/* ---- COMMIT ---- */

static bool_t encode_commit(struct nfs_call *c, XDR *x)
{
	COMMIT3args a = {
		.file = nfs3_fh(c->args.fh), .offset = c->args.io.offset, .count = c->args.io.count,
	};

	return xdr_COMMIT3args(x, &a);
}

static int decode_commit(struct nfs_call *c, XDR *x)
{
	COMMIT3res r;

	if (!xdr_COMMIT3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	nfs_take_commit(c, r.COMMIT3res_u.resok.verf, c->eng.resent);
	return 0;
}

enum { COMMIT_MAX = NFS3_STATUS_XDR + NFS3_WCC_XDR + NFS3_WRITEVERFSIZE };

const struct nfs_opdef nfs3_op_commit = NFS_OPDEF("COMMIT", encode_commit, decode_commit,
	.results_max = COMMIT_MAX, .proc = NFSPROC3_COMMIT);

/* ---- open ----
 * There is no OPEN. ACCESS tells what the caller may do, so that open() fails and not the
 * first read(). It also brings the attributes that close-to-open needs; if it does not, a
 * GETATTR follows. Before an open that writes, LOOKUP tells whether the name is still the
 * file's: what is read from the old file harms nobody, and would cost as much. */

/* How many names are looked at. */
static unsigned nfs3_io_looks(const struct nfs_call *c)
{
	return (c->args.file.flags & O_ACCMODE) == O_RDONLY ? 0 : c->args.nwhere;
}

static uint32_t open_proc(const struct nfs_call *c)
{
	return c->eng.step < nfs3_io_looks(c) ? NFSPROC3_LOOKUP :
	       c->eng.step == nfs3_io_looks(c) ? NFSPROC3_ACCESS : NFSPROC3_GETATTR;
}

static bool_t encode_open(struct nfs_call *c, XDR *x)
{
	ACCESS3args a = {
		.object = nfs3_fh(c->args.fh),
		.access = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_EXECUTE,
	};

	if (c->eng.step < nfs3_io_looks(c))
		return nfs3_encode_name(c, x);
	return c->eng.step == nfs3_io_looks(c) ? xdr_ACCESS3args(x, &a) :
	       nfs3_encode_getattr(x, c->args.fh);
}

/* Servers allow READ to users who may only execute, because they cannot tell the two
 * apart (RFC 1813, section 4.4). The client must make sure that such a user only
 * executes the file. */
static bool may_open(const struct nfs_call *c, uint32_t got)
{
	int mode = c->args.file.flags & O_ACCMODE;

	if (c->args.file.exec)
		return got & ACCESS3_EXECUTE;
	if (mode != O_WRONLY && !(got & ACCESS3_READ))
		return false;
	return mode == O_RDONLY || (got & (ACCESS3_MODIFY | ACCESS3_EXTEND));
}

static int make_open(struct nfs_call *c)
{
	c->open = calloc(1, sizeof(*c->open));
	return c->open ? 0 : -ENOMEM;
}

static int decode_access(struct nfs_call *c, XDR *x)
{
	ACCESS3res r;

	if (!xdr_ACCESS3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (nfs3_take_attr(c, &r.ACCESS3res_u.resok.obj_attributes))
		return -EBADMSG;
	if (!may_open(c, r.ACCESS3res_u.resok.access))
		return -EACCES;
	if (c->res.has_attr)
		return make_open(c);
	c->eng.step++;
	return NFS_NEXT;
}

static int decode_open(struct nfs_call *c, XDR *x)
{
	int rc;

	if (c->eng.step < nfs3_io_looks(c))
		return nfs3_decode_name(c, x);
	if (c->eng.step == nfs3_io_looks(c))
		return decode_access(c, x);
	rc = nfs3_decode_getattr(c, x);
	return rc ? rc : make_open(c);
}

const struct nfs_opdef nfs3_op_open = NFS_OPDEF("ACCESS (open)", encode_open, decode_open,
	.results_max = NFS3_LOOKUP_XDR, .proc_of = open_proc);
