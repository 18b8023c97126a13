/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading directories. */
#include <string.h>
#include "nfs/nfs3/nfs3_impl.h"
#include "nfs_lists.h"

static uint32_t readdir_proc(const struct nfs_call *c)
{
	return c->args.dir.plus ? NFSPROC3_READDIRPLUS : NFSPROC3_READDIR;
}

static bool_t encode_readdir(struct nfs_call *c, XDR *x)
{
	READDIRPLUS3args p = {
		/* dircount counts only names, so it is never the limit that is reached
		 * first. */
		.dir = nfs3_fh(c->args.fh), .cookie = c->args.dir.cookie,
		.dircount = c->args.dir.count, .maxcount = c->args.dir.count,
	};
	READDIR3args a = { .dir = p.dir, .cookie = c->args.dir.cookie, .count = c->args.dir.count };

	memcpy(p.cookieverf, &c->args.dir.verf, sizeof(c->args.dir.verf));
	memcpy(a.cookieverf, &c->args.dir.verf, sizeof(c->args.dir.verf));
	return c->args.dir.plus ? xdr_READDIRPLUS3args(x, &p) : xdr_READDIR3args(x, &a);
}

static bool nfs3_readdir_pass(struct nfs_call *c, const struct nfs_dirent *e)
{
	c->res.dir.entries++;
	return c->args.dir.entry(c, e);
}

/* A server need not support READDIRPLUS (RFC 1813, section 3.3.17). Then this call is
 * sent again as READDIR, and later calls of this mount use READDIR at once. */
static int without_plus(struct nfs_call *c)
{
	struct nfs_client *cl = c->lane->client;

	if (!atomic_exchange(&cl->no_plus, true))
		log_info("%s has no READDIRPLUS: directories are listed by READDIR, without "
			 "attributes", cl->cfg.server);
	c->args.dir.plus = false;
	return NFS_AGAIN;
}

static int decode_plus(struct nfs_call *c, XDR *x)
{
	READDIRPLUS3res r;
	READDIRPLUS3resok *ok = &r.READDIRPLUS3res_u.resok;
	struct nfs_cursor cur;
	entryplus3 ent;
	int rc;

	if (!xdr_READDIRPLUS3res(x, &r))
		return -EBADMSG;
	if (r.status == NFS3ERR_NOTSUPP)
		return without_plus(c);
	if (r.status)
		return nfs3_error(r.status);
	memcpy(&c->res.dir.verf, ok->cookieverf, sizeof(c->res.dir.verf));
	c->res.dir.eof = ok->reply.eof;
	nfs_cursor_open(&cur, &ok->reply.entries);
	while ((rc = nfs_entryplus3_next(&cur, &ent)) > 0) {
		struct nfs_attr attr;
		struct nfs_fh fh;
		struct nfs_dirent e = {
			.cookie = ent.cookie, .fileid = ent.fileid,
			.name = ent.name.data, .namelen = ent.name.len,
		};

		if (!nfs_ref_is_name(&ent.name, 1024))
			return -EBADMSG;
		if (ent.name_attributes.attributes_follow &&
		    nfs3_get_fattr(&attr, &ent.name_attributes.post_op_attr_u.attributes))
			e.attr = &attr;
		if (ent.name_handle.handle_follows &&
		    nfs3_get_fh(&fh, &ent.name_handle.post_op_fh3_u.handle))
			e.fh = &fh;
		if (!nfs3_readdir_pass(c, &e))
			break;
	}
	return rc < 0 ? rc : 0;
}

static int decode_plain(struct nfs_call *c, XDR *x)
{
	READDIR3res r;
	READDIR3resok *ok = &r.READDIR3res_u.resok;
	struct nfs_cursor cur;
	entry3 ent;
	int rc;

	if (!xdr_READDIR3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	memcpy(&c->res.dir.verf, ok->cookieverf, sizeof(c->res.dir.verf));
	c->res.dir.eof = ok->reply.eof;
	nfs_cursor_open(&cur, &ok->reply.entries);
	while ((rc = nfs_entry3_next(&cur, &ent)) > 0) {
		struct nfs_dirent e = {
			.cookie = ent.cookie, .fileid = ent.fileid,
			.name = ent.name.data, .namelen = ent.name.len,
		};

		if (!nfs_ref_is_name(&ent.name, 1024))
			return -EBADMSG;
		if (!nfs3_readdir_pass(c, &e))
			break;
	}
	return rc < 0 ? rc : 0;
}

static int decode_readdir(struct nfs_call *c, XDR *x)
{
	int rc;

	c->res.dir.entries = 0;
	rc = c->args.dir.plus ? decode_plus(c, x) : decode_plain(c, x);
	if (!rc) {
		stat_add(&c->lane->stats, STAT_DIR_RPCS, 1);
		stat_add(&c->lane->stats, STAT_DIR_ENTRIES, c->res.dir.entries);
	}
	return rc;
}

/* count bounds the whole resok (RFC 1813, 3.3.16 and 3.3.17). Some servers do not count
 * the directory's attributes and the verifier. */
static uint32_t readdir_max(const struct nfs_call *c)
{
	return NFS3_STATUS_XDR + c->args.dir.count + NFS3_ATTR_XDR + NFS3_COOKIEVERFSIZE + 16;
}

const struct nfs_opdef nfs3_op_readdir = NFS_OPDEF("READDIR", encode_readdir, decode_readdir,
	.results_max_of = readdir_max, .proc_of = readdir_proc);
