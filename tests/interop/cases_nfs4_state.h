/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NFS version 4.0: clients, opens, locks, delegations. */

PLAY_ARG4(CLOSE, opclose)
{
	I(v->seqid, 17);
	play_stateid4(p, &v->open_stateid);
}

PLAY_RES4_STATEID(CLOSE, opclose, CLOSE4res_u.open_stateid)

PLAY_ARG4(DELEGPURGE, opdelegpurge)
{
	I(v->clientid, U64_B);
}

PLAY_RES4_STATUS(DELEGPURGE, opdelegpurge)

PLAY_ARG4(DELEGRETURN, opdelegreturn)
{
	play_stateid4(p, &v->deleg_stateid);
}

PLAY_RES4_STATUS(DELEGRETURN, opdelegreturn)

/* ---- OPEN ---- */

/* The variants take all create modes and all claims of 4.0. */
PLAY_PART(openflag4)
{
	createhow4 *how = &v->openflag4_u.how;

	I(v->opentype, p->variant < 4 ? OPEN4_CREATE : OPEN4_NOCREATE);
	if (v->opentype != OPEN4_CREATE)
		return;
	I(how->mode, p->variant % 3);
	if (how->mode == EXCLUSIVE4)
		FIXED(how->createhow4_u.createverf);
	else
		play_fattr4(p, &how->createhow4_u.createattrs);
}

PLAY_PART(open_claim4)
{
	I(v->claim, p->variant % 4);
	switch (v->claim) {
	case CLAIM_NULL:
		UTF8(v->open_claim4_u.file, NAME4);
		break;
	case CLAIM_PREVIOUS:
		I(v->open_claim4_u.delegate_type, p->variant % 3);
		break;
	case CLAIM_DELEGATE_CUR:
		play_stateid4(p, &v->open_claim4_u.delegate_cur_info.delegate_stateid);
		UTF8(v->open_claim4_u.delegate_cur_info.file, NAME4);
		break;
	case CLAIM_DELEGATE_PREV:
		UTF8(v->open_claim4_u.file_delegate_prev, NAME4);
		break;
	default:
		break;
	}
}

PLAY_ARG4(OPEN, opopen)
{
	I(v->seqid, 0xffffffff);
	I(v->share_access, OPEN4_SHARE_ACCESS_BOTH);
	I(v->share_deny, OPEN4_SHARE_DENY_WRITE);
	I(v->owner.clientid, U64_A);
	OPAQUE(v->owner, owner, play_len(p, NFS4_OPAQUE_LIMIT));
	play_openflag4(p, &v->openhow);
	play_open_claim4(p, &v->claim);
}

PLAY_PART(nfsace4)
{
	I(v->type, ACE4_ACCESS_ALLOWED_ACE_TYPE);
	I(v->flag, ACE4_IDENTIFIER_GROUP);
	I(v->access_mask, ACE4_READ_DATA | ACE4_EXECUTE);
	UTF8(v->who, play_len(p, 60));
}

PLAY_PART(nfs_space_limit4)
{
	I(v->limitby, play_on(p) ? NFS_LIMIT_SIZE : NFS_LIMIT_BLOCKS);
	if (v->limitby == NFS_LIMIT_SIZE) {
		I(v->nfs_space_limit4_u.filesize, U64_B);
	} else {
		I(v->nfs_space_limit4_u.mod_blocks.num_blocks, 1024);
		I(v->nfs_space_limit4_u.mod_blocks.bytes_per_block, 4096);
	}
}

PLAY_PART(open_delegation4)
{
	const open_delegation_type4 types[PLAY_VARIANTS] = {
		OPEN_DELEGATE_NONE, OPEN_DELEGATE_READ,
		OPEN_DELEGATE_WRITE, OPEN_DELEGATE_WRITE,
	};
	open_read_delegation4 *r = &v->open_delegation4_u.read;
	open_write_delegation4 *w = &v->open_delegation4_u.write;

	I(v->delegation_type, types[p->variant]);
	if (v->delegation_type == OPEN_DELEGATE_READ) {
		play_stateid4(p, &r->stateid);
		I(r->recall, play_on(p));
		play_nfsace4(p, &r->permissions);
	} else if (v->delegation_type == OPEN_DELEGATE_WRITE) {
		play_stateid4(p, &w->stateid);
		I(w->recall, play_on(p));
		play_nfs_space_limit4(p, &w->space_limit);
		play_nfsace4(p, &w->permissions);
	}
}

PLAY_RES4(OPEN, opopen)
{
	OPEN4resok *ok = &v->OPEN4res_u.resok4;

	if (v->status != NFS4_OK)
		return;
	play_stateid4(p, &ok->stateid);
	play_change_info4(p, &ok->cinfo);
	I(ok->rflags, OPEN4_RESULT_CONFIRM | OPEN4_RESULT_LOCKTYPE_POSIX);
	BITMAP(ok->attrset, p->variant);
	play_open_delegation4(p, &ok->delegation);
}

PLAY_ARG4(OPEN_CONFIRM, opopen_confirm)
{
	play_stateid4(p, &v->open_stateid);
	I(v->seqid, 1);
}

PLAY_RES4_STATEID(OPEN_CONFIRM, opopen_confirm, OPEN_CONFIRM4res_u.resok4.open_stateid)

PLAY_ARG4(OPEN_DOWNGRADE, opopen_downgrade)
{
	play_stateid4(p, &v->open_stateid);
	I(v->seqid, 2);
	I(v->share_access, OPEN4_SHARE_ACCESS_READ);
	I(v->share_deny, OPEN4_SHARE_DENY_NONE);
}

PLAY_RES4_STATEID(OPEN_DOWNGRADE, opopen_downgrade, OPEN_DOWNGRADE4res_u.resok4.open_stateid)

/* ---- Locks ---- */

PLAY_ARG4(LOCK, oplock)
{
	open_to_lock_owner4 *first = &v->locker.locker4_u.open_owner;
	exist_lock_owner4 *next = &v->locker.locker4_u.lock_owner;

	I(v->locktype, READ_LT + p->variant % 4);
	I(v->reclaim, p->variant == 2);
	I(v->offset, U64_A);
	I(v->length, UINT64_MAX);
	I(v->locker.new_lock_owner, play_on(p));
	if (v->locker.new_lock_owner) {
		I(first->open_seqid, 3);
		play_stateid4(p, &first->open_stateid);
		I(first->lock_seqid, 4);
		play_lock_owner4(p, &first->lock_owner);
	} else {
		play_stateid4(p, &next->lock_stateid);
		I(next->lock_seqid, 5);
	}
}

PLAY_PART(LOCK4denied)
{
	I(v->offset, U64_A);
	I(v->length, U64_B);
	I(v->locktype, WRITE_LT);
	play_lock_owner4(p, &v->owner);
}

PLAY_AS(nfs_resop4, LOCK_res)
{
	LOCK4res *res = &v->nfs_resop4_u.oplock;

	I(v->resop, OP_LOCK);
	I(res->status, play_status(p, NFS4ERR_DENIED, NFS4ERR_GRACE));
	if (res->status == NFS4_OK)
		play_stateid4(p, &res->LOCK4res_u.resok4.lock_stateid);
	else if (res->status == NFS4ERR_DENIED)
		play_LOCK4denied(p, &res->LOCK4res_u.denied);
}

PLAY_ARG4(LOCKT, oplockt)
{
	I(v->locktype, WRITE_LT);
	I(v->offset, U64_B);
	I(v->length, 1);
	play_lock_owner4(p, &v->owner);
}

/* Denied in three variants, so that the owner has several lengths. */
PLAY_AS(nfs_resop4, LOCKT_res)
{
	const nfsstat4 status[PLAY_VARIANTS] = {
		NFS4_OK, NFS4ERR_DENIED, NFS4ERR_DENIED, NFS4ERR_DENIED,
		NFS4ERR_DELAY, NFS4ERR_STALE,
	};
	LOCKT4res *res = &v->nfs_resop4_u.oplockt;

	I(v->resop, OP_LOCKT);
	I(res->status, status[p->variant]);
	if (res->status == NFS4ERR_DENIED)
		play_LOCK4denied(p, &res->LOCKT4res_u.denied);
}

PLAY_ARG4(LOCKU, oplocku)
{
	I(v->locktype, READ_LT);
	I(v->seqid, 6);
	play_stateid4(p, &v->lock_stateid);
	I(v->offset, 0);
	I(v->length, UINT64_MAX);
}

PLAY_RES4_STATEID(LOCKU, oplocku, LOCKU4res_u.lock_stateid)

PLAY_ARG4(RELEASE_LOCKOWNER, oprelease_lockowner)
{
	play_lock_owner4(p, &v->lock_owner);
}

PLAY_RES4_STATUS(RELEASE_LOCKOWNER, oprelease_lockowner)

/* ---- Clients ---- */

PLAY_ARG4(RENEW, oprenew)
{
	I(v->clientid, U64_A);
}

PLAY_RES4_STATUS(RENEW, oprenew)

PLAY_ARG4(SETCLIENTID, opsetclientid)
{
	FIXED(v->client.verifier);
	OPAQUE(v->client, id, play_len(p, NFS4_OPAQUE_LIMIT));
	I(v->callback.cb_program, 0x40000000);
	STR(v->callback.cb_location.r_netid, play_len(p, 4));
	STR(v->callback.cb_location.r_addr, play_len(p, 30));
	I(v->callback_ident, 42);
}

PLAY_AS(nfs_resop4, SETCLIENTID_res)
{
	SETCLIENTID4res *res = &v->nfs_resop4_u.opsetclientid;

	I(v->resop, OP_SETCLIENTID);
	I(res->status, play_status(p, NFS4ERR_CLID_INUSE, NFS4ERR_DELAY));
	if (res->status == NFS4_OK) {
		I(res->SETCLIENTID4res_u.resok4.clientid, U64_B);
		FIXED(res->SETCLIENTID4res_u.resok4.setclientid_confirm);
	} else if (res->status == NFS4ERR_CLID_INUSE) {
		STR(res->SETCLIENTID4res_u.client_using.r_netid, 3);
		STR(res->SETCLIENTID4res_u.client_using.r_addr, 17);
	}
}

PLAY_ARG4(SETCLIENTID_CONFIRM, opsetclientid_confirm)
{
	I(v->clientid, U64_B);
	FIXED(v->setclientid_confirm);
}

PLAY_RES4_STATUS(SETCLIENTID_CONFIRM, opsetclientid_confirm)

#define CASES_NFS4_STATE					\
	ARG4(CLOSE)			RES4(CLOSE)		\
	ARG4(DELEGPURGE)		RES4(DELEGPURGE)	\
	ARG4(DELEGRETURN)		RES4(DELEGRETURN)	\
	ARG4(OPEN)			RES4(OPEN)		\
	ARG4(OPEN_CONFIRM)		RES4(OPEN_CONFIRM)	\
	ARG4(OPEN_DOWNGRADE)		RES4(OPEN_DOWNGRADE)	\
	ARG4(LOCK)			RES4(LOCK)		\
	ARG4(LOCKT)			RES4(LOCKT)		\
	ARG4(LOCKU)			RES4(LOCKU)		\
	ARG4(RELEASE_LOCKOWNER)		RES4(RELEASE_LOCKOWNER)	\
	ARG4(RENEW)			RES4(RENEW)		\
	ARG4(SETCLIENTID)		RES4(SETCLIENTID)	\
	ARG4(SETCLIENTID_CONFIRM)	RES4(SETCLIENTID_CONFIRM)
