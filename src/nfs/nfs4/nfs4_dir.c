/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Making things other than files, taking names away, reading directories.
 *
 * The session replays exactly once as long as it lives. When it was lost with
 * a call under way (c->resent, and the server restarted), the call may find
 * its own earlier effect: ENOENT from a removal and EEXIST from a creation are
 * then taken for success, as with version 3.
 */
#include <string.h>
#include <sys/stat.h>
#include "nfs/nfs4/nfs4_impl.h"
#include "nfs_lists.h"

/* ---- CREATE: directories, links, devices ---- */

enum { STEP_CREATE, STEP_LOOKUP };

static void set_type(const struct nfs_call *c, createtype4 *t)
{
	switch (c->op) {
	case NFS_OP_MKDIR:
		t->type = NF4DIR;
		return;
	case NFS_OP_SYMLINK:
		t->type = NF4LNK;
		t->createtype4_u.linkdata = nfs_ref_str(c->mk.target);
		return;
	default:
		break;
	}
	if (S_ISCHR(c->mk.type) || S_ISBLK(c->mk.type)) {
		t->type = S_ISCHR(c->mk.type) ? NF4CHR : NF4BLK;
		t->createtype4_u.devdata = (specdata4){ c->mk.major, c->mk.minor };
	} else {
		t->type = S_ISSOCK(c->mk.type) ? NF4SOCK : NF4FIFO;
	}
}

static bool_t encode_create(struct nfs_call *c, XDR *x)
{
	char buf[NFS4_SATTR_MAX];
	CREATE4args a = { .objname = nfs_ref_str(c->name) };
	bool_t ok;

	set_type(c, &a.objtype);
	ok = nfs4_put_fattr(&a.createattrs, &c->sattr, buf, sizeof(buf)) &&
	     nfs4_begin(c, x, 5, true, c->fh);
	if (c->step == STEP_LOOKUP)
		ok = ok && nfs4_put_name(x, OP_LOOKUP, c->name);
	else
		ok = ok && nfs4_put_op(x, OP_CREATE) && xdr_CREATE4args(x, &a);
	return ok && nfs4_put_op(x, OP_GETFH) && nfs4_put_getattr(x);
}

static int get_create(struct nfs_call *c, XDR *x)
{
	CREATE4res r;

	if (nfs4_get_op(x, OP_CREATE) || !xdr_CREATE4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_EXIST && c->resent) {
		c->step = STEP_LOOKUP;
		return NFS_NEXT;
	}
	return r.status ? nfs4_error(c, r.status) : 0;
}

static int decode_create(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = c->step == STEP_LOOKUP ? nfs4_get_status(c, x, OP_LOOKUP) : get_create(c, x);
	if (!rc)
		rc = nfs4_get_fh(c, x);
	return rc ? rc : nfs4_get_attr(c, x);
}

static uint32_t create_max(const struct nfs_call *c)
{
	(void)c;
	return V4_PREFIX_XDR + V4_OP_XDR + V4_CHANGE_XDR + V4_BITMAP_XDR + V4_FH_XDR +
	       V4_GETATTR_XDR;
}

#define CREATE(text, big) { \
	.name = text, .encode = encode_create, .decode = decode_create, \
	.results_max = create_max, .proc = NFSPROC4_COMPOUND, .big_msg = big, \
}
const struct nfs_opdef nfs4_op_mkdir = CREATE("CREATE (directory)", false);
const struct nfs_opdef nfs4_op_symlink = CREATE("CREATE (link)", true);
const struct nfs_opdef nfs4_op_mknod = CREATE("CREATE (special)", false);

/* ---- REMOVE ---- */

static bool_t encode_remove(struct nfs_call *c, XDR *x)
{
	return nfs4_begin(c, x, 3, true, c->fh) && nfs4_put_name(x, OP_REMOVE, c->name);
}

static int decode_remove(struct nfs_call *c, XDR *x)
{
	REMOVE4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_REMOVE) || !xdr_REMOVE4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_NOENT && c->resent)
		return 0;
	return r.status ? nfs4_error(c, r.status) : 0;
}

static uint32_t remove_max(const struct nfs_call *c)
{
	(void)c;
	return V4_PREFIX_XDR + V4_OP_XDR + V4_CHANGE_XDR;
}

const struct nfs_opdef nfs4_op_remove = {
	.name = "REMOVE", .encode = encode_remove, .decode = decode_remove,
	.results_max = remove_max, .proc = NFSPROC4_COMPOUND,
};
const struct nfs_opdef nfs4_op_rmdir = {
	.name = "REMOVE (directory)", .encode = encode_remove, .decode = decode_remove,
	.results_max = remove_max, .proc = NFSPROC4_COMPOUND,
};

/* ---- RENAME ---- */

static bool_t encode_rename(struct nfs_call *c, XDR *x)
{
	RENAME4args a = { .oldname = nfs_ref_str(c->name), .newname = nfs_ref_str(c->name2) };

	return nfs4_begin(c, x, 5, true, c->fh) && nfs4_put_op(x, OP_SAVEFH) &&
	       nfs4_put_fh(x, c->fh2) && nfs4_put_op(x, OP_RENAME) && xdr_RENAME4args(x, &a);
}

static int check_two(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_status(c, x, OP_SAVEFH);
	return rc ? rc : nfs4_get_status(c, x, OP_PUTFH);
}

static int decode_rename(struct nfs_call *c, XDR *x)
{
	RENAME4res r;
	int rc = check_two(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_RENAME) || !xdr_RENAME4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_NOENT && c->resent)
		return 0;
	return r.status ? nfs4_error(c, r.status) : 0;
}

static uint32_t rename_max(const struct nfs_call *c)
{
	(void)c;
	return V4_PREFIX_XDR + 3 * V4_OP_XDR + 2 * V4_CHANGE_XDR;
}

const struct nfs_opdef nfs4_op_rename = {
	.name = "RENAME", .encode = encode_rename, .decode = decode_rename,
	.results_max = rename_max, .proc = NFSPROC4_COMPOUND,
};

/* ---- LINK ---- */

static bool_t encode_link(struct nfs_call *c, XDR *x)
{
	return nfs4_begin(c, x, 7, true, c->fh) && nfs4_put_op(x, OP_SAVEFH) &&
	       nfs4_put_fh(x, c->fh2) && nfs4_put_name(x, OP_LINK, c->name) &&
	       nfs4_put_op(x, OP_RESTOREFH) && nfs4_put_getattr(x);
}

/* Made by an earlier sending: the attributes are all that is missing. */
static bool_t encode_link_again(struct nfs_call *c, XDR *x)
{
	if (c->step)
		return nfs4_begin(c, x, 3, false, c->fh) && nfs4_put_getattr(x);
	return encode_link(c, x);
}

static int decode_link(struct nfs_call *c, XDR *x)
{
	LINK4res r;
	int rc;

	if (c->step) {
		rc = nfs4_check(c, x);
		return rc ? rc : nfs4_get_attr(c, x);
	}
	rc = check_two(c, x);
	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_LINK) || !xdr_LINK4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_EXIST && c->resent) {
		c->step = 1;
		return NFS_NEXT;
	}
	if (r.status)
		return nfs4_error(c, r.status);
	rc = nfs4_get_status(c, x, OP_RESTOREFH);
	return rc ? rc : nfs4_get_attr(c, x);
}

static uint32_t link_max(const struct nfs_call *c)
{
	(void)c;
	return V4_PREFIX_XDR + 4 * V4_OP_XDR + V4_CHANGE_XDR + V4_GETATTR_XDR;
}

const struct nfs_opdef nfs4_op_link = {
	.name = "LINK", .encode = encode_link_again, .decode = decode_link,
	.results_max = link_max, .proc = NFSPROC4_COMPOUND,
};

/* ---- READDIR ---- */

static bool_t encode_readdir(struct nfs_call *c, XDR *x)
{
	READDIR4args a = {
		.cookie = c->dir.cookie,
		/* dircount counts names only: never the limit that is met first. */
		.dircount = c->dir.count, .maxcount = c->dir.count,
		.attr_request = c->dir.plus ? nfs4_dir_mask : nfs4_names_mask,
	};

	memcpy(a.cookieverf, &c->dir.verf, NFS4_VERIFIER_SIZE);
	return nfs4_begin(c, x, 3, false, c->fh) && nfs4_put_op(x, OP_READDIR) &&
	       xdr_READDIR4args(x, &a);
}

/* 1: go on; 0: the caller has enough; or -EBADMSG. */
static int pass_entry(struct nfs_call *c, const entry4 *ent)
{
	struct nfs4_attrs a;
	struct nfs_fh fh;
	struct nfs_dirent e = {
		.cookie = ent->cookie, .name = ent->name.data, .namelen = ent->name.len,
	};

	if (!nfs_ref_is_name(&ent->name, 1024) || !nfs4_get_fattr(&a, &ent->attrs))
		return -EBADMSG;
	e.fileid = a.attr.fileid;
	/* rdattr_error alone: the name is all that the server could read. */
	if (c->dir.plus && bitmap4_isset(&a.got, FATTR4_TYPE) &&
	    bitmap4_isset(&a.got, FATTR4_MODE))
		e.attr = &a.attr;
	if (bitmap4_isset(&a.got, FATTR4_FILEHANDLE)) {
		if (a.fh.len == 0 || a.fh.len > NFS_FH_MAX)
			return -EBADMSG;
		fh.len = a.fh.len;
		memcpy(fh.data, a.fh.data, a.fh.len);
		e.fh = &fh;
	}
	c->dir.entries++;
	return c->dir.entry(c, &e);
}

static int decode_readdir(struct nfs_call *c, XDR *x)
{
	READDIR4res r;
	READDIR4resok *ok = &r.READDIR4res_u.resok4;
	struct nfs_cursor cur;
	entry4 ent;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_READDIR) || !xdr_READDIR4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	memcpy(&c->dir.verf, ok->cookieverf, NFS4_VERIFIER_SIZE);
	c->dir.eof = ok->reply.eof;
	c->dir.entries = 0;
	nfs_cursor_open(&cur, &ok->reply.entries);
	while ((rc = nfs_entry4_next(&cur, &ent)) > 0) {
		rc = pass_entry(c, &ent);
		if (rc <= 0)
			break;
	}
	if (rc < 0)
		return rc;
	stat_add(&c->lane->stats, STAT_DIR_RPCS, 1);
	stat_add(&c->lane->stats, STAT_DIR_ENTRIES, c->dir.entries);
	return 0;
}

/* maxcount bounds the READDIR4resok (RFC 8881, section 18.23.3). */
static uint32_t readdir_max(const struct nfs_call *c)
{
	return V4_PREFIX_XDR + V4_OP_XDR + c->dir.count + NFS4_VERIFIER_SIZE + 16;
}

const struct nfs_opdef nfs4_op_readdir = {
	.name = "READDIR", .encode = encode_readdir, .decode = decode_readdir,
	.results_max = readdir_max, .proc = NFSPROC4_COMPOUND,
};
