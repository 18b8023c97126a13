/* SPDX-License-Identifier: GPL-2.0-or-later */
/* OPEN, OPEN that creates, and OPEN by which recovery has the state again (nfs4_state.c). */
#include <fcntl.h>
#include <string.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

enum { STEP_OPEN, STEP_SETATTR, STEP_GETATTR, STEP_ACCESS };

/* ---- OPEN ---- */

/* What all OPENs have in common. `owner` must stay valid until the arguments are
 * encoded. */
static void start_open(struct nfs_call *c, OPEN4args *a, const uint64_t *owner, uint32_t access)
{
	memset(a, 0, sizeof(*a));
	a->share_access = access | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
	a->share_deny = OPEN4_SHARE_DENY_NONE;
	a->owner.clientid = nfs4_of(c)->clientid;
	a->owner.owner = (nfs_ref1024){ .len = sizeof(*owner), .data = (const char *)owner };
	a->openhow.opentype = OPEN4_NOCREATE;
}

static bool_t put_open(XDR *x, OPEN4args *a)
{
	return nfs4_put_op(x, OP_OPEN) && xdr_OPEN4args(x, a);
}

static void pick_owner(struct nfs_call *c)
{
	if (!nfs4_call(c)->owner)
		nfs4_call(c)->owner = atomic_fetch_add(&nfs4_of(c)->next_owner, 1) + 1;
}

/* OPEN refuses users who may not write. It lets users who may not read pass if they may
 * execute, because the server cannot tell the two apart (RFC 8881, section 6.2.1.3.1).
 * The client must make sure that such a user only executes the file, and ACCESS tells
 * the rights. */
static bool_t put_look(XDR *x)
{
	ACCESS4args a = { .access = ACCESS4_READ | ACCESS4_EXECUTE };

	return nfs4_put_op(x, OP_ACCESS) && xdr_ACCESS4args(x, &a) && nfs4_put_getattr(x);
}

static bool_t encode_look(struct nfs_call *c, XDR *x, const struct nfs_fh *fh)
{
	return nfs4_begin(c, x, 4, false, fh) && put_look(x);
}

static bool_t encode_open(struct nfs_call *c, XDR *x)
{
	OPEN4args a;

	if (c->eng.step == NFS4_STEP_RETURN)
		return nfs4_delegation_encode(c, x);
	if (c->eng.step == STEP_ACCESS)
		return encode_look(c, x, c->args.fh);
	pick_owner(c);
	start_open(c, &a, &nfs4_call(c)->owner, nfs4_share_access(c->args.file.flags));
	if (nfs4_delegs_ask(c))
		a.share_access = nfs4_share_access(c->args.file.flags) | nfs4_delegs_wanted(c);
	a.claim.claim = CLAIM_FH;
	return nfs4_begin_named(c, x, 5, true) && put_open(x, &a) && put_look(x) &&
	       nfs4_put_name_again(c, x);
}

static int get_open(struct nfs_call *c, XDR *x, OPEN4res *r)
{
	if (nfs4_get_op(x, OP_OPEN) || !xdr_OPEN4res(x, r))
		return -EBADMSG;
	return r->status ? nfs4_error(c, r->status) : 0;
}

/* Open from here on: if anything fails after this, the engine closes it. fh NULL: the
 * handle is not known yet, so recovery cannot use the open. */
static int take_open(struct nfs_call *c, const struct nfs_fh *fh, const OPEN4res *r)
{
	int rc;

	if (!c->open)
		c->open = nfs4_open_new(c, nfs4_share_access(c->args.file.flags));
	if (!c->open)
		return -ENOMEM;
	c->open->stateid = r->OPEN4res_u.resok4.stateid;
	c->open->under = nfs4_call(c)->under;
	rc = fh ? nfs4_open_settle(c, fh) : 0;
	nfs4_delegation_note(c, &r->OPEN4res_u.resok4.delegation);
	return rc;
}

static bool is_refused(const struct nfs_call *c, const ACCESS4resok *a)
{
	uint32_t wanted = c->args.file.exec ? ACCESS4_EXECUTE :
			  (c->args.file.flags & O_ACCMODE) == O_WRONLY ? 0 : ACCESS4_READ;

	/* The call may have made the file even if change_info denies it: the server's
	 * clock may be too coarse, or an earlier sending may have made it. So only a
	 * file that may be executed but not read is refused. */
	if (c->op == NFS_OP_CREATE && !(a->access & ACCESS4_EXECUTE))
		return false;
	return wanted & a->supported & ~a->access;
}

/* created: whoever made the file has it open as he wanted, whatever its mode. */
static int get_look(struct nfs_call *c, XDR *x, bool created)
{
	ACCESS4res r;

	if (nfs4_get_op(x, OP_ACCESS) || !xdr_ACCESS4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	if (!created && is_refused(c, &r.ACCESS4res_u.resok4))
		return -EACCES;
	c->open->rights = r.ACCESS4res_u.resok4.access;
	return nfs4_get_attr(c, x);
}

static int decode_look(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	return rc ? rc : get_look(c, x, false);
}

static int decode_open_step(struct nfs_call *c, XDR *x)
{
	OPEN4res r;
	int rc;

	if (c->eng.step == STEP_ACCESS)
		return decode_look(c, x);
	rc = nfs4_check_named(c, x);
	if (!rc)
		rc = get_open(c, x, &r);
	if (!rc)
		rc = take_open(c, c->args.fh, &r);
	if (rc)
		return rc;
	nfs4_goes_on_at(c, STEP_ACCESS);
	rc = get_look(c, x, false);
	return rc ? rc : nfs4_get_name_again(c, x);
}

static int decode_open(struct nfs_call *c, XDR *x)
{
	return c->eng.step == NFS4_STEP_RETURN ? nfs4_delegation_decode(c, x) :
					nfs4_delegation_first(c, decode_open_step(c, x));
}

/* stateid, change, flags, attrset, and a delegation: it may come although none is wanted. */
#define OPEN_XDR (V4_OP_XDR + 16u + V4_CHANGE_XDR + 4u + V4_BITMAP_XDR + 4u + V4_DELEGATION_XDR)

/* What CREATE has for handle and directory is more than what a named OPEN has for its name. */
enum {
	OPEN_REPLY_MAX = V4_PREFIX_XDR + OPEN_XDR + V4_FH_XDR + V4_OP_XDR + 8 + V4_GETATTR_XDR +
		V4_DIR_FH_XDR,
};

const struct nfs_opdef nfs4_op_open = NFS_OPDEF("OPEN", encode_open, decode_open,
	.carries = nfs4_carries_long, .results_max = OPEN_REPLY_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- OPEN that creates ---- */

static bool nfs4_open_exclusive(const struct nfs_call *c)
{
	return c->args.file.flags & O_EXCL;
}

static bool put_how(struct nfs_call *c, createhow4 *how, char *buf)
{
	const struct nfs_sattr *s = &c->args.sattr;

	if (nfs4_open_exclusive(c)) {
		how->mode = EXCLUSIVE4_1;
		nfs_create_verifier(c, how->createhow4_u.ch_createboth.cva_verf);
		return nfs4_put_fattr(&how->createhow4_u.ch_createboth.cva_attrs, s, buf,
				      NFS4_SATTR_MAX);
	}
	how->mode = c->args.file.flags & O_TRUNC ? GUARDED4 : UNCHECKED4;
	return nfs4_put_fattr(&how->createhow4_u.createattrs, s, buf, NFS4_SATTR_MAX);
}

/* The second step is needed only if the server set less than was asked for, or kept the
 * verifier in the times (RFC 8881, section 18.16.3). It is a call of its own because it replaces that
 * verifier. If it were part of OPEN's COMPOUND, and the server restarted before the reply
 * comes, the OPEN that is sent again would end with EEXIST for the file that this client has
 * made, and nothing would tell it from one that another client has made. */
static bool set_is_needed(const struct nfs_call *c, const bitmap4 *attrset)
{
	return nfs4_call_const(c)->mode_missing ||
	       bitmap4_isset(attrset, FATTR4_TIME_ACCESS) ||
	       bitmap4_isset(attrset, FATTR4_TIME_ACCESS_SET) ||
	       bitmap4_isset(attrset, FATTR4_TIME_MODIFY) ||
	       bitmap4_isset(attrset, FATTR4_TIME_MODIFY_SET);
}

static bool_t encode_set(struct nfs_call *c, XDR *x)
{
	char buf[NFS4_SATTR_MAX];
	SETATTR4args a = { .stateid = nfs4_io_stateid(c->open, false) };
	struct nfs_sattr s = c->args.sattr;

	/* mode_umask is not for SETATTR. What it has made is not to be made again. */
	if (s.valid & NFS_SET_UMASK) {
		s.mode &= ~s.umask;
		s.valid &= ~(unsigned)(NFS_SET_UMASK | (nfs4_call(c)->mode_missing ? 0 : NFS_SET_MODE));
	}
	if (!(s.valid & NFS_SET_ATIME))
		s.valid |= NFS_SET_ATIME_NOW;
	if (!(s.valid & NFS_SET_MTIME))
		s.valid |= NFS_SET_MTIME_NOW;
	return nfs4_put_fattr(&a.obj_attributes, &s, buf, sizeof(buf)) &&
	       nfs4_begin(c, x, 4, true, &c->res.fh) && nfs4_put_op(x, OP_SETATTR) &&
	       xdr_SETATTR4args(x, &a) && nfs4_put_getattr(x);
}

static bool_t encode_create(struct nfs_call *c, XDR *x)
{
	char buf[NFS4_SATTR_MAX];
	bool excl = nfs4_open_exclusive(c);
	OPEN4args a;

	if (c->eng.step == NFS4_STEP_RETURN)
		return nfs4_delegation_encode(c, x);
	if (c->eng.step == STEP_SETATTR)
		return encode_set(c, x);
	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, &c->res.fh);
	if (c->eng.step == STEP_ACCESS)
		return encode_look(c, x, &c->res.fh);
	pick_owner(c);
	start_open(c, &a, &nfs4_call(c)->owner, nfs4_share_access(c->args.file.flags));
	a.openhow.opentype = OPEN4_CREATE;
	a.claim.claim = CLAIM_NULL;
	a.claim.open_claim4_u.file = nfs_ref_str(c->args.name);
	/* An exclusive create opens a new file or our own, so it needs no ACCESS. */
	return put_how(c, &a.openhow.openflag4_u.how, buf) &&
	       nfs4_begin(c, x, excl ? 7 : 8, true, c->args.fh) && put_open(x, &a) &&
	       nfs4_put_op(x, OP_GETFH) && (excl ? nfs4_put_getattr(x) : put_look(x)) &&
	       nfs4_put_dir_fh(x, c->args.fh);
}

/* The file is there and open. If it has the mode that was asked for, the create succeeds
 * whatever SETATTR says, once there are attributes of the file, even old ones. Without that
 * mode the create fails, as with version 3, and the file stays: more people than was asked
 * for could open it meanwhile, and its maker must not take it for private. */
static int decode_set(struct nfs_call *c, XDR *x)
{
	SETATTR4res r;
	int rc = nfs4_check(c, x);

	if (!rc && (nfs4_get_op(x, OP_SETATTR) || !xdr_SETATTR4res(x, &r)))
		rc = -EBADMSG;
	if (!rc && r.status)
		rc = nfs4_error(c, r.status);
	if (!rc) {
		nfs4_call(c)->mode_missing = false;
		nfs4_goes_on_at(c, STEP_GETATTR);
		rc = nfs4_get_attr(c, x);
	}
	if (rc > 0 || (rc < 0 && nfs4_call(c)->mode_missing))
		return rc;
	c->eng.step = STEP_GETATTR;
	return c->res.has_attr ? 0 : NFS_NEXT;
}

/* GETATTR alone: of an OPEN or SETATTR that came without it. */
static int decode_rest(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_decode_getattr(c, x);

	return rc < 0 && c->res.has_attr ? 0 : rc;
}

static int decode_exclusive(struct nfs_call *c, XDR *x, const OPEN4resok *ok)
{
	bool set;
	int rc;

	nfs4_call(c)->mode_missing = (c->args.sattr.valid & NFS_SET_MODE) &&
				     !bitmap4_isset(&ok->attrset, FATTR4_MODE) &&
				     !bitmap4_isset(&ok->attrset, FATTR4_MODE_UMASK);
	set = set_is_needed(c, &ok->attrset);
	nfs4_goes_on_at(c, set ? STEP_SETATTR : STEP_GETATTR);
	rc = nfs4_get_attr(c, x);
	if (!rc)
		rc = nfs4_get_dir_fh(c, x, 0);
	return rc ? rc : set ? NFS_NEXT : 0;
}

/* The name may belong to a file that others have made meanwhile. */
static int decode_unchecked(struct nfs_call *c, XDR *x, const OPEN4resok *ok)
{
	bool created = ok->cinfo.before != ok->cinfo.after;
	int rc;

	nfs4_goes_on_at(c, created ? STEP_GETATTR : STEP_ACCESS);
	rc = get_look(c, x, created);
	return rc ? rc : nfs4_get_dir_fh(c, x, 0);
}

/* If GETFH says "later", the OPEN is sent again, by the same owner and with the same
 * verifier. A LOOKUP of the name might find another file than the stateid's. */
static int decode_create_step(struct nfs_call *c, XDR *x)
{
	OPEN4res r;
	int rc;

	if (c->eng.step == STEP_SETATTR)
		return decode_set(c, x);
	if (c->eng.step == STEP_GETATTR)
		return decode_rest(c, x);
	if (c->eng.step == STEP_ACCESS)
		return decode_look(c, x);
	rc = nfs4_check(c, x);
	if (!rc)
		rc = get_open(c, x, &r);
	if (!rc)
		rc = take_open(c, NULL, &r);
	if (!rc)
		nfs4_take_change(c, 0, &r.OPEN4res_u.resok4.cinfo);
	if (!rc)
		rc = nfs4_get_fh(c, x);
	if (!rc)
		rc = nfs4_open_settle(c, &c->res.fh);
	if (rc)
		return rc;
	return nfs4_open_exclusive(c) ? decode_exclusive(c, x, &r.OPEN4res_u.resok4) :
			      decode_unchecked(c, x, &r.OPEN4res_u.resok4);
}

static int decode_create(struct nfs_call *c, XDR *x)
{
	return c->eng.step == NFS4_STEP_RETURN ? nfs4_delegation_decode(c, x) :
					nfs4_delegation_first(c, decode_create_step(c, x));
}

const struct nfs_opdef nfs4_op_create = NFS_OPDEF("OPEN (create)", encode_create, decode_create,
	.carries = nfs4_carries_long, .results_max = OPEN_REPLY_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- opening again (recovery) ---- */

static bool_t encode_reopen(struct nfs_call *c, XDR *x)
{
	const struct nfs4_ctl *k = c->args.version;
	OPEN4args a;

	if (c->eng.step == NFS4_STEP_RETURN)
		return nfs4_delegation_encode(c, x);
	start_open(c, &a, &c->open->owner, c->open->access);
	if (k->reclaim) {
		a.claim.claim = CLAIM_PREVIOUS;
		nfs4_regain_ask(c, &a);
	} else {
		a.claim.claim = CLAIM_FH;
	}
	return nfs4_begin(c, x, 3, true, &c->open->file->fh) && put_open(x, &a);
}

/* Others have their turn meanwhile, but not before all opens are reclaimed. GRACE is for what does not reclaim
 * (RFC 8881, section 15.1.9.2), so a server that says it to a reclaim is not ready for that: it is asked again. */
static int nfs4_open_later(struct nfs_call *c, nfsstat4 status)
{
	struct nfs4_ctl *k = c->args.version;

	k->status = status;
	return k->reclaim && !nfs4_reclaims_too_long(nfs4_of(c)) ? NFS_LATER : -EBUSY;
}

static int decode_reopen(struct nfs_call *c, XDR *x)
{
	struct nfs4_ctl *k = c->args.version;
	OPEN4res r;
	int rc;

	if (c->eng.step == NFS4_STEP_RETURN)
		return nfs4_delegation_decode(c, x);
	rc = nfs4_check(c, x);
	if (rc)
		return rc == NFS_LATER ? nfs4_open_later(c, NFS4ERR_DELAY) : rc;
	if (nfs4_get_op(x, OP_OPEN) || !xdr_OPEN4res(x, &r))
		return -EBADMSG;
	k->status = r.status;
	if (nfs4_is_later(r.status))
		return nfs4_open_later(c, r.status);
	nfs4_of(c)->later_ns = 0;
	if (r.status)
		return nfs4_errno(r.status);
	c->open->stateid = r.OPEN4res_u.resok4.stateid;
	nfs4_delegation_note(c, &r.OPEN4res_u.resok4.delegation);
	return nfs4_delegation_first(c, 0);
}

const struct nfs_opdef nfs4_op_reopen = NFS_OPDEF("OPEN (recovery)", encode_reopen, decode_reopen,
	.results_max = OPEN_REPLY_MAX, .proc = NFSPROC4_COMPOUND);
