/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * COMPOUND of 4.0 around the operations, the attribute values that have types of
 * their own, and the callbacks that libnfs knows.
 */

enum { COMPOUND_MAX = 40 };

typedef void (*play_argop)(struct play *p, nfs_argop4 *v);
typedef void (*play_resop)(struct play *p, nfs_resop4 *v);

/* Expands to the players of all operations, for a COMPOUND of everything. */
#define ARG4(op) play_##op##_arg,
#define RES4(op)
static const play_argop all_args[] = { CASES_NFS4_FS CASES_NFS4_STATE };
#undef ARG4
#undef RES4
#define ARG4(op)
#define RES4(op) play_##op##_res,
static const play_resop all_res[] = { CASES_NFS4_FS CASES_NFS4_STATE };
#undef ARG4
#undef RES4

/* How many of them: none, all, the first three, all but one, and so on. */
static unsigned compound_ops(const struct play *p, unsigned all)
{
	const unsigned n[PLAY_VARIANTS] = { 0, all, 3, all - 1, 1, 2 };

	return n[p->variant];
}

PLAY(COMPOUND4args)
{
	UTF8(v->tag, play_len(p, 1024));
	I(v->minorversion, 0);
	ARRAY(v->argarray.argarray_len, v->argarray.argarray_val, nfs_argop4,
	      compound_ops(p, sizeof(all_args) / sizeof(all_args[0])), COMPOUND_MAX)
		all_args[i](p, &v->argarray.argarray_val[i]);
}

PLAY(COMPOUND4res)
{
	I(v->status, STATUS4);
	UTF8(v->tag, play_len(p, 1024));
	ARRAY(v->resarray.resarray_len, v->resarray.resarray_val, nfs_resop4,
	      compound_ops(p, sizeof(all_res) / sizeof(all_res[0])), COMPOUND_MAX)
		all_res[i](p, &v->resarray.resarray_val[i]);
}

/* ---- Attribute values ---- */

PLAY(nfstime4)
{
	I(v->seconds, p->variant == 0 ? -1 : (int64_t)U64_A);
	I(v->nseconds, 999999999);
}

PLAY(settime4)
{
	I(v->set_it, p->variant % 2);
	if (v->set_it == SET_TO_CLIENT_TIME4)
		play_nfstime4(p, &v->settime4_u.time);
}

PLAY(fsid4)
{
	I(v->major, U64_A);
	I(v->minor, U64_B);
}

PLAY(specdata4)
{
	I(v->specdata1, 259);
	I(v->specdata2, 0xffffffff);
}

/* ---- Callbacks: one CB_COMPOUND with each operation ---- */

PLAY_PART(nfs_cb_argop4)
{
	if (play_on(p)) {
		I(v->argop, OP_CB_GETATTR);
		FH4(v->nfs_cb_argop4_u.opcbgetattr.fh, play_len(p, NFS4_FHSIZE));
		BITMAP(v->nfs_cb_argop4_u.opcbgetattr.attr_request, 2);
	} else {
		I(v->argop, OP_CB_RECALL);
		play_stateid4(p, &v->nfs_cb_argop4_u.opcbrecall.stateid);
		I(v->nfs_cb_argop4_u.opcbrecall.truncate, p->variant == 2);
		FH4(v->nfs_cb_argop4_u.opcbrecall.fh, play_len(p, NFS4_FHSIZE));
	}
}

PLAY(CB_COMPOUND4args)
{
	UTF8(v->tag, play_len(p, 1024));
	I(v->minorversion, 0);
	I(v->callback_ident, 42);
	ARRAY(v->argarray.argarray_len, v->argarray.argarray_val, nfs_cb_argop4,
	      p->variant, PLAY_VARIANTS)
		play_nfs_cb_argop4(p, &v->argarray.argarray_val[i]);
}

PLAY_PART(nfs_cb_resop4)
{
	CB_GETATTR4res *get = &v->nfs_cb_resop4_u.opcbgetattr;

	I(v->resop, play_on(p) ? OP_CB_GETATTR : OP_CB_RECALL);
	if (v->resop == OP_CB_GETATTR) {
		I(get->status, STATUS4);
		if (get->status == NFS4_OK)
			play_fattr4(p, &get->CB_GETATTR4res_u.resok4.obj_attributes);
	} else {
		I(v->nfs_cb_resop4_u.opcbrecall.status, STATUS4);
	}
}

PLAY(CB_COMPOUND4res)
{
	I(v->status, STATUS4);
	UTF8(v->tag, play_len(p, 1024));
	ARRAY(v->resarray.resarray_len, v->resarray.resarray_val, nfs_cb_resop4,
	      p->variant, PLAY_VARIANTS)
		play_nfs_cb_resop4(p, &v->resarray.resarray_val[i]);
}

#define CASES_NFS4_COMPOUND	\
	ARG(COMPOUND4args)	\
	RES(COMPOUND4res)	\
	RES(nfstime4)		\
	RES(settime4)		\
	RES(fsid4)		\
	RES(specdata4)		\
	ARG(CB_COMPOUND4args)	\
	RES(CB_COMPOUND4res)
