/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NFS version 4.0 (RFC 7531), which is what libnfs knows: shared parts, and how
 * the cases of one operation are defined. Each operation is played as
 * nfs_argop4 and nfs_resop4, so that its number is compared, too.
 */

#define STATUS4 play_status(p, NFS4ERR_BAD_STATEID, NFS4ERR_DELAY)
#define NAME4 play_len(p, 255)

/* Defines the case <op>_arg: the operation's arguments, `v` in the body. */
#define PLAY_ARG4(op, field)						\
	PLAY_ATTR static void play_body_##op##_arg(struct play *p, op##4args *v);	\
	PLAY_AS(nfs_argop4, op##_arg)					\
	{								\
		I(v->argop, OP_##op);					\
		play_body_##op##_arg(p, &v->nfs_argop4_u.field);	\
	}								\
	PLAY_ATTR static void play_body_##op##_arg(struct play *p, op##4args *v)

/* An operation without arguments. */
#define PLAY_ARG4_VOID(op)						\
	PLAY_AS(nfs_argop4, op##_arg)					\
	{								\
		I(v->argop, OP_##op);					\
	}

/* Defines the case <op>_res; the body is played after the status. */
#define PLAY_RES4(op, field)						\
	PLAY_ATTR static void play_body_##op##_res(struct play *p, op##4res *v);	\
	PLAY_AS(nfs_resop4, op##_res)					\
	{								\
		I(v->resop, OP_##op);					\
		I(v->nfs_resop4_u.field.status, STATUS4);		\
		play_body_##op##_res(p, &v->nfs_resop4_u.field);	\
	}								\
	PLAY_ATTR static void play_body_##op##_res(struct play *p, op##4res *v)

/* A result that is a status only. */
#define PLAY_RES4_STATUS(op, field)					\
	PLAY_AS(nfs_resop4, op##_res)					\
	{								\
		I(v->resop, OP_##op);					\
		I(v->nfs_resop4_u.field.status, STATUS4);		\
	}

/* A result that is one stateid in success. */
#define PLAY_RES4_STATEID(op, field, stateid)				\
	PLAY_RES4(op, field)						\
	{								\
		if (v->status == NFS4_OK)				\
			play_stateid4(p, &v->stateid);			\
	}

PLAY_PART(stateid4)
{
	I(v->seqid, 0x01020304);
	FIXED(v->other);
}

PLAY_PART(change_info4)
{
	I(v->atomic, play_on(p));
	I(v->before, U64_A);
	I(v->after, U64_B);
}

/* From no attribute at all to a mask and values of odd length. */
PLAY_PART(fattr4)
{
	BITMAP(v->attrmask, p->variant % 4);
	ATTRLIST(v->attr_vals, play_len(p, 3001));
}

PLAY_PART(lock_owner4)
{
	I(v->clientid, U64_A);
	OPAQUE(*v, owner, play_len(p, NFS4_OPAQUE_LIMIT));
}
