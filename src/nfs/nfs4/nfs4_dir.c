/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Creates everything but files, removes, renames and links names, and reads directories.
 *
 * As long as the session lives, each call is executed exactly once, and the answer to a
 * replay is true. Only if the session is lost with a call in it whose reply was lost before
 * (in_doubt) may the repeated call find its own earlier effect:
 *
 *   REMOVE   ENOENT  success: the name is gone, as wanted.
 *   RENAME   ENOENT  success if the new name has the handle of the renamed object.
 *   LINK     EEXIST  success if the name is a link to the file: programs that use
 *                    link() for locks link a file of their own.
 *   CREATE   EEXIST  stays: nothing tells our directory, link or device from
 *                    another's. Programs use mkdir() and symlink() for locks, and a
 *                    lock with two holders is worse than a lock with none.
 */
#include <string.h>
#include <sys/stat.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"
#include "nfs_lists.h"

/* ---- CREATE: directories, links, devices ---- */

enum { STEP_CREATE, STEP_LOOKUP, STEP_GETATTR };

static void set_type(const struct nfs_call *c, createtype4 *t)
{
	switch (c->op) {
	case NFS_OP_MKDIR:
		t->type = NF4DIR;
		return;
	case NFS_OP_SYMLINK:
		t->type = NF4LNK;
		t->createtype4_u.linkdata.len = (uint32_t)strlen(c->args.mk.target);
		return;
	default:
		break;
	}
	if (S_ISCHR(c->args.mk.type) || S_ISBLK(c->args.mk.type)) {
		t->type = S_ISCHR(c->args.mk.type) ? NF4CHR : NF4BLK;
		t->createtype4_u.devdata = (specdata4){ c->args.mk.major, c->args.mk.minor };
	} else {
		t->type = S_ISSOCK(c->args.mk.type) ? NF4SOCK : NF4FIFO;
	}
}

static bool_t put_data_pos(struct nfs_call *c, const createtype4 *t)
{
	if (t->type == NF4LNK)
		c->eng.rr.data_pos = t->createtype4_u.linkdata.pos;
	return TRUE;
}

static bool_t encode_create(struct nfs_call *c, XDR *x)
{
	char buf[NFS4_SATTR_MAX];
	CREATE4args a = { .objname = nfs_ref_str(c->args.name) };

	set_type(c, &a.objtype);
	return nfs4_put_fattr(&a.createattrs, &c->args.sattr, buf, sizeof(buf)) &&
	       nfs4_begin(c, x, 7, true, c->args.fh) && nfs4_put_op(x, OP_CREATE) &&
	       xdr_CREATE4args(x, &a) && put_data_pos(c, &a.objtype) &&
	       nfs4_put_op(x, OP_GETFH) && nfs4_put_getattr(x) && nfs4_put_dir_fh(x, c->args.fh);
}

/* The steps after CREATE fetch what is missing: handle and attributes, or attributes
 * only. */
static bool_t encode_create_step(struct nfs_call *c, XDR *x)
{
	switch (c->eng.step) {
	case STEP_LOOKUP:
		c->res.found = true;
		return nfs4_begin(c, x, 5, false, c->args.fh) && nfs4_put_name(x, OP_LOOKUP, c->args.name) &&
		       nfs4_put_op(x, OP_GETFH) && nfs4_put_getattr(x);
	case STEP_GETATTR:
		return nfs4_encode_getattr(c, x, &c->res.fh);
	default:
		return encode_create(c, x);
	}
}

static int get_create(struct nfs_call *c, XDR *x)
{
	CREATE4res r;

	if (nfs4_get_op(x, OP_CREATE) || !xdr_CREATE4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	nfs4_take_change(c, 0, &r.CREATE4res_u.resok4.cinfo);
	nfs4_goes_on_at(c, STEP_LOOKUP);
	return 0;
}

static int decode_create(struct nfs_call *c, XDR *x)
{
	bool first = c->eng.step == STEP_CREATE;
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = nfs4_check(c, x);
	if (!rc)
		rc = c->eng.step == STEP_LOOKUP ? nfs4_get_status(c, x, OP_LOOKUP) : get_create(c, x);
	if (!rc)
		rc = nfs4_get_fh(c, x);
	if (rc)
		return rc;
	nfs4_goes_on_at(c, STEP_GETATTR);
	rc = nfs4_get_attr(c, x);
	return rc || !first ? rc : nfs4_get_dir_fh(c, x, 0);
}

enum {
	CREATE_MAX = V4_PREFIX_XDR + V4_OP_XDR + V4_CHANGE_XDR + V4_BITMAP_XDR +
		V4_FH_XDR + V4_GETATTR_XDR + V4_DIR_FH_XDR,
};

#define CREATE(text) { \
	.name = text, .encode = encode_create_step, .decode = decode_create, \
	.results_max = CREATE_MAX, .proc = NFSPROC4_COMPOUND, \
}
const struct nfs_opdef nfs4_op_mkdir = CREATE("CREATE (directory)");
const struct nfs_opdef nfs4_op_symlink = CREATE("CREATE (link)");
const struct nfs_opdef nfs4_op_mknod = CREATE("CREATE (special)");

/* ---- REMOVE ---- */

static bool_t encode_remove(struct nfs_call *c, XDR *x)
{
	return nfs4_begin(c, x, 4, true, c->args.fh) &&
	       nfs4_put_name(x, OP_REMOVE, c->args.name) && nfs4_put_dir(x);
}

static int decode_remove(struct nfs_call *c, XDR *x)
{
	REMOVE4res r;
	bool ends;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_REMOVE) || !xdr_REMOVE4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_NOENT && nfs4_call(c)->in_doubt)
		return 0;
	if (r.status)
		return nfs4_error(c, r.status);
	nfs4_take_change(c, 0, &r.REMOVE4res_u.resok4.cinfo);
	return nfs4_get_dir(c, x, 0, &ends);
}

enum { REMOVE_MAX = V4_PREFIX_XDR + V4_OP_XDR + V4_CHANGE_XDR + V4_DIR_XDR };

const struct nfs_opdef nfs4_op_remove = NFS_OPDEF("REMOVE", encode_remove, decode_remove,
	.results_max = REMOVE_MAX, .proc = NFSPROC4_COMPOUND, .unnames = true);
const struct nfs_opdef nfs4_op_rmdir = NFS_OPDEF("REMOVE (directory)", encode_remove, decode_remove,
	.results_max = REMOVE_MAX, .proc = NFSPROC4_COMPOUND, .unnames = true);

/* ---- RENAME ---- */

enum { STEP_RENAME, STEP_IS_THERE };

static bool within_one(const struct nfs_call *c)
{
	return c->args.fh == c->args.fh2;
}

static bool_t encode_rename(struct nfs_call *c, XDR *x)
{
	RENAME4args a = { .oldname = nfs_ref_str(c->args.name), .newname = nfs_ref_str(c->args.name2) };

	if (c->eng.step == STEP_IS_THERE)
		return nfs4_begin(c, x, 4, false, c->args.fh2) &&
		       nfs4_put_name(x, OP_LOOKUP, c->args.name2) && nfs4_put_op(x, OP_GETFH);
	return nfs4_begin(c, x, within_one(c) ? 6 : 8, true, c->args.fh) &&
	       nfs4_put_op(x, OP_SAVEFH) && nfs4_put_fh(x, c->args.fh2) &&
	       nfs4_put_op(x, OP_RENAME) && xdr_RENAME4args(x, &a) && nfs4_put_dir(x) &&
	       (within_one(c) || (nfs4_put_op(x, OP_RESTOREFH) && nfs4_put_dir(x)));
}

static int check_two(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_status(c, x, OP_SAVEFH);
	return rc ? rc : nfs4_get_status(c, x, OP_PUTFH);
}

static int decode_is_there(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_status(c, x, OP_LOOKUP);
	if (!rc)
		rc = nfs4_get_fh(c, x);
	if (!rc && !nfs_fh_same(&c->res.fh, c->args.ren.moved))
		rc = -ENOENT;
	return rc < 0 && rc != -EBADMSG ? -ENOENT : rc;
}

static int take_renamed(struct nfs_call *c, XDR *x, const RENAME4resok *ok)
{
	bool ends;
	int rc;

	nfs4_take_change(c, 0, &ok->source_cinfo);
	nfs4_take_change(c, 1, &ok->target_cinfo);
	rc = nfs4_get_dir(c, x, 1, &ends);
	return rc || ends || within_one(c) ? rc : nfs4_get_dir_saved(c, x, 0);
}

static int decode_rename(struct nfs_call *c, XDR *x)
{
	RENAME4res r;
	int rc;

	if (c->eng.step == STEP_IS_THERE)
		return decode_is_there(c, x);
	rc = check_two(c, x);
	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_RENAME) || !xdr_RENAME4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_NOENT && nfs4_call(c)->in_doubt && c->args.ren.moved) {
		c->eng.step = STEP_IS_THERE;
		return NFS_NEXT;
	}
	return r.status ? nfs4_error(c, r.status) : take_renamed(c, x, &r.RENAME4res_u.resok4);
}

static uint32_t rename_max(const struct nfs_call *c)
{
	if (c->eng.step == STEP_IS_THERE)
		return V4_PREFIX_XDR + V4_OP_XDR + V4_FH_XDR;
	return V4_PREFIX_XDR + 3 * V4_OP_XDR + 2 * V4_CHANGE_XDR + V4_DIR_XDR + V4_DIR_FH_XDR;
}

const struct nfs_opdef nfs4_op_rename = NFS_OPDEF("RENAME", encode_rename, decode_rename,
	.results_max_of = rename_max, .proc = NFSPROC4_COMPOUND, .unnames = true);

/* ---- LINK ---- */

enum { STEP_LINK, STEP_ATTR, STEP_IS_OURS };

static bool_t encode_link(struct nfs_call *c, XDR *x)
{
	return nfs4_begin(c, x, 8, true, c->args.fh) && nfs4_put_op(x, OP_SAVEFH) &&
	       nfs4_put_fh(x, c->args.fh2) && nfs4_put_name(x, OP_LINK, c->args.name) &&
	       nfs4_put_dir(x) && nfs4_put_op(x, OP_RESTOREFH) && nfs4_put_getattr(x);
}

static bool_t encode_link_step(struct nfs_call *c, XDR *x)
{
	switch (c->eng.step) {
	case STEP_ATTR:
		return nfs4_encode_getattr(c, x, c->args.fh);
	case STEP_IS_OURS:
		return nfs4_begin(c, x, 6, false, c->args.fh2) &&
		       nfs4_put_name(x, OP_LOOKUP, c->args.name) && nfs4_put_getattr(x) &&
		       nfs4_put_fh(x, c->args.fh) && nfs4_put_getattr(x);
	default:
		return encode_link(c, x);
	}
}

/* Servers need not number their files. Then nothing proves that two are one. */
static bool is_same(const struct nfs_attr *a, const struct nfs_attr *b)
{
	return a->fileid && a->fileid == b->fileid && a->fsid_major == b->fsid_major &&
	       a->fsid_minor == b->fsid_minor;
}

/* Compares what the name refers to with the file, whose attributes are the result. */
static int decode_is_ours(struct nfs_call *c, XDR *x)
{
	struct nfs_attr there;
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_status(c, x, OP_LOOKUP);
	if (!rc)
		rc = nfs4_get_attr(c, x);
	there = c->res.attr;
	c->res.has_attr = false;
	if (!rc)
		rc = nfs4_get_status(c, x, OP_PUTFH);
	if (!rc)
		rc = nfs4_get_attr(c, x);
	if (!rc && !is_same(&there, &c->res.attr))
		rc = -EEXIST;
	return rc < 0 && rc != -EBADMSG ? -EEXIST : rc;
}

static int decode_link(struct nfs_call *c, XDR *x)
{
	LINK4res r;
	bool ends;
	int rc;

	if (c->eng.step)
		return c->eng.step == STEP_ATTR ? nfs4_decode_getattr(c, x) : decode_is_ours(c, x);
	rc = check_two(c, x);
	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_LINK) || !xdr_LINK4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_EXIST && nfs4_call(c)->in_doubt) {
		c->eng.step = STEP_IS_OURS;
		return NFS_NEXT;
	}
	if (r.status)
		return nfs4_error(c, r.status);
	nfs4_take_change(c, 1, &r.LINK4res_u.resok4.cinfo);
	nfs4_goes_on_at(c, STEP_ATTR);
	rc = nfs4_get_dir(c, x, 1, &ends);
	if (rc || ends)
		return rc ? rc : NFS_NEXT;
	rc = nfs4_get_status(c, x, OP_RESTOREFH);
	return rc ? rc : nfs4_get_attr(c, x);
}

static uint32_t link_max(const struct nfs_call *c)
{
	return V4_PREFIX_XDR + 4 * V4_OP_XDR + V4_CHANGE_XDR + V4_DIR_XDR +
	       (c->eng.step == STEP_IS_OURS ? 2 : 1) * V4_GETATTR_XDR;
}

const struct nfs_opdef nfs4_op_link = NFS_OPDEF("LINK", encode_link_step, decode_link,
	.results_max_of = link_max, .proc = NFSPROC4_COMPOUND);

/* ---- READDIR ---- */

static bool_t encode_readdir(struct nfs_call *c, XDR *x)
{
	READDIR4args a = {
		.cookie = c->args.dir.cookie,
		/* dircount counts only names, so it is never the limit that is reached
		 * first. */
		.dircount = nfs_dir_len(c), .maxcount = nfs_dir_len(c),
		.attr_request = c->args.dir.plus ? nfs4_dir_mask : nfs4_names_mask,
	};

	memcpy(a.cookieverf, &c->args.dir.verf, NFS4_VERIFIER_SIZE);
	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_READDIR) &&
	       xdr_READDIR4args(x, &a);
}

/* A listing does not wait for owners that were never seen before. Such an entry has no
 * attributes; if they are needed, a GETATTR gets them. */
static bool know_owners(struct nfs_call *c, struct nfs4_attrs *a)
{
	struct nfs_client *cl = c->lane->client;
	bool uid = !a->owner.len ||
		   nfs_owner_known(cl, false, a->owner.data, a->owner.len, &a->attr.uid);
	bool gid = !a->group.len ||
		   nfs_owner_known(cl, true, a->group.data, a->group.len, &a->attr.gid);

	return uid && gid;
}

/* 1: go on; 0: the caller has enough; -EBADMSG: malformed. */
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
	/* Besides rdattr_error there is what the server could read: often nothing. */
	if (c->args.dir.plus && nfs4_has_required(&a) &&
	    bitmap4_isset(&a.got, FATTR4_MODE) && know_owners(c, &a))
		e.attr = &a.attr;
	if (bitmap4_isset(&a.got, FATTR4_FILEHANDLE)) {
		if (a.fh.len == 0 || a.fh.len > NFS_FH_MAX)
			return -EBADMSG;
		fh.len = a.fh.len;
		memcpy(fh.data, a.fh.data, a.fh.len);
		e.fh = &fh;
	}
	c->res.dir.entries++;
	return c->args.dir.entry(c, &e);
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
	memcpy(&c->res.dir.verf, ok->cookieverf, NFS4_VERIFIER_SIZE);
	c->res.dir.eof = ok->reply.eof;
	c->res.dir.entries = 0;
	nfs_cursor_open(&cur, &ok->reply.entries);
	while ((rc = nfs_entry4_next(&cur, &ent)) > 0) {
		rc = pass_entry(c, &ent);
		if (rc <= 0)
			break;
	}
	if (rc < 0)
		return rc;
	stat_add(&c->lane->stats, STAT_DIR_RPCS, 1);
	stat_add(&c->lane->stats, STAT_DIR_ENTRIES, c->res.dir.entries);
	return 0;
}

/* maxcount bounds the READDIR4resok (RFC 8881, section 18.23.3). */
static uint32_t readdir_max(const struct nfs_call *c)
{
	return V4_PREFIX_XDR + V4_OP_XDR + c->args.dir.count + NFS4_VERIFIER_SIZE + 16;
}

const struct nfs_opdef nfs4_op_readdir = NFS_OPDEF("READDIR", encode_readdir, decode_readdir,
	.results_max_of = readdir_max, .proc = NFSPROC4_COMPOUND);
