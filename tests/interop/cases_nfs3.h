/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NFS version 3 (RFC 1813): parts, then all procedures in the order of their
 * numbers. Odd variants have the optional attributes and handles, even ones have
 * not; variants 4 and 5 are failures.
 */

#define U64_A UINT64_C(0x0102030405060708)
#define U64_B UINT64_C(0xfedcba9876543210)
#define NAME3 play_len(p, 255)
#define STATUS3 play_status(p, NFS3ERR_STALE, NFS3ERR_JUKEBOX)

PLAY_PART(nfstime3)
{
	I(v->seconds, 0x5f5e1234);
	I(v->nseconds, 999999999);
}

PLAY_PART(fattr3)
{
	I(v->type, NF3REG + (p->variant % 7));
	I(v->mode, 07755);
	I(v->nlink, 3);
	I(v->uid, 65534);
	I(v->gid, 0xfffffffe);
	I(v->size, U64_A);
	I(v->used, U64_B);
	I(v->rdev.specdata1, 259);
	I(v->rdev.specdata2, 7);
	I(v->fsid, U64_B + 1);
	I(v->fileid, U64_A + 1);
	play_nfstime3(p, &v->atime);
	play_nfstime3(p, &v->mtime);
	play_nfstime3(p, &v->ctime);
}

PLAY_PART(post_op_attr)
{
	I(v->attributes_follow, play_on(p));
	if (v->attributes_follow)
		play_fattr3(p, &v->post_op_attr_u.attributes);
}

PLAY_PART(wcc_data)
{
	wcc_attr *pre = &v->before.pre_op_attr_u.attributes;

	I(v->before.attributes_follow, play_on(p));
	if (v->before.attributes_follow) {
		I(pre->size, U64_B);
		play_nfstime3(p, &pre->mtime);
		play_nfstime3(p, &pre->ctime);
	}
	play_post_op_attr(p, &v->after);
}

PLAY_PART(post_op_fh3)
{
	I(v->handle_follows, play_on(p));
	if (v->handle_follows)
		FH3(v->post_op_fh3_u.handle, play_len(p, NFS3_FHSIZE));
}

PLAY_PART(diropargs3)
{
	FH3(v->dir, play_len(p, NFS3_FHSIZE));
	STR(v->name, NAME3);
}

/* Nothing, everything, and two in between. */
PLAY_PART(sattr3)
{
	I(v->mode.set_it, p->variant == 1 || p->variant == 2);
	if (v->mode.set_it)
		I(v->mode.set_mode3_u.mode, 0644);
	I(v->uid.set_it, p->variant == 1 || p->variant == 3);
	if (v->uid.set_it)
		I(v->uid.set_uid3_u.uid, 1000);
	I(v->gid.set_it, p->variant == 1 || p->variant == 3);
	if (v->gid.set_it)
		I(v->gid.set_gid3_u.gid, 100);
	I(v->size.set_it, p->variant == 1 || p->variant == 2);
	if (v->size.set_it)
		I(v->size.set_size3_u.size, U64_A);
	I(v->atime.set_it, p->variant % 3);
	if (v->atime.set_it == SET_TO_CLIENT_TIME)
		play_nfstime3(p, &v->atime.set_atime_u.atime);
	I(v->mtime.set_it, (p->variant + 1) % 3);
	if (v->mtime.set_it == SET_TO_CLIENT_TIME)
		play_nfstime3(p, &v->mtime.set_mtime_u.mtime);
}

/* Arguments that are one handle. */
#define PLAY_FH_ARGS(type, member)				\
	PLAY(type)						\
	{							\
		FH3(v->member, play_len(p, NFS3_FHSIZE));	\
	}

/* Results that are the same attributes in success and failure. */
#define PLAY_WCC_RES(type, member)						\
	PLAY(type)								\
	{									\
		I(v->status, STATUS3);						\
		if (v->status == NFS3_OK)					\
			play_wcc_data(p, &v->type##_u.resok.member);		\
		else								\
			play_wcc_data(p, &v->type##_u.resfail.member);		\
	}

/* Results that are a new object: CREATE, MKDIR, SYMLINK, MKNOD. */
#define PLAY_NEW_RES(type)							\
	PLAY(type)								\
	{									\
		I(v->status, STATUS3);						\
		if (v->status == NFS3_OK) {					\
			play_post_op_fh3(p, &v->type##_u.resok.obj);		\
			play_post_op_attr(p, &v->type##_u.resok.obj_attributes); \
			play_wcc_data(p, &v->type##_u.resok.dir_wcc);		\
		} else {							\
			play_wcc_data(p, &v->type##_u.resfail.dir_wcc);		\
		}								\
	}

PLAY_FH_ARGS(GETATTR3args, object)

PLAY(GETATTR3res)
{
	I(v->status, STATUS3);
	if (v->status == NFS3_OK)
		play_fattr3(p, &v->GETATTR3res_u.resok.obj_attributes);
}

PLAY(SETATTR3args)
{
	FH3(v->object, play_len(p, NFS3_FHSIZE));
	play_sattr3(p, &v->new_attributes);
	I(v->guard.check, play_on(p));
	if (v->guard.check)
		play_nfstime3(p, &v->guard.sattrguard3_u.obj_ctime);
}

PLAY_WCC_RES(SETATTR3res, obj_wcc)

PLAY(LOOKUP3args)
{
	play_diropargs3(p, &v->what);
}

PLAY(LOOKUP3res)
{
	LOOKUP3resok *ok = &v->LOOKUP3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->LOOKUP3res_u.resfail.dir_attributes);
		return;
	}
	FH3(ok->object, play_len(p, NFS3_FHSIZE));
	play_post_op_attr(p, &ok->obj_attributes);
	play_post_op_attr(p, &ok->dir_attributes);
}

PLAY(ACCESS3args)
{
	FH3(v->object, play_len(p, NFS3_FHSIZE));
	I(v->access, ACCESS3_READ | ACCESS3_EXECUTE);
}

PLAY(ACCESS3res)
{
	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->ACCESS3res_u.resfail.obj_attributes);
		return;
	}
	play_post_op_attr(p, &v->ACCESS3res_u.resok.obj_attributes);
	I(v->ACCESS3res_u.resok.access, 0x3f);
}

PLAY_FH_ARGS(READLINK3args, symlink)

PLAY(READLINK3res)
{
	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->READLINK3res_u.resfail.symlink_attributes);
		return;
	}
	play_post_op_attr(p, &v->READLINK3res_u.resok.symlink_attributes);
	LINK3(v->READLINK3res_u.resok.data, play_len(p, 4096));
}

PLAY(READ3args)
{
	FH3(v->file, play_len(p, NFS3_FHSIZE));
	I(v->offset, U64_A);
	I(v->count, 1048576);
}

PLAY(READ3res)
{
	READ3resok *ok = &v->READ3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->READ3res_u.resfail.file_attributes);
		return;
	}
	play_post_op_attr(p, &ok->file_attributes);
	I(ok->count, play_len(p, 9001));
	I(ok->eof, play_on(p));
	BULK(ok->data, play_len(p, 9001));
}

PLAY(WRITE3args)
{
	FH3(v->file, play_len(p, NFS3_FHSIZE));
	I(v->offset, U64_B);
	I(v->count, play_len(p, 9002));
	I(v->stable, p->variant % 3);
	BULK(v->data, play_len(p, 9002));
}

PLAY(WRITE3res)
{
	WRITE3resok *ok = &v->WRITE3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_wcc_data(p, &v->WRITE3res_u.resfail.file_wcc);
		return;
	}
	play_wcc_data(p, &ok->file_wcc);
	I(ok->count, 4096);
	I(ok->committed, p->variant % 3);
	FIXED(ok->verf);
}

PLAY(CREATE3args)
{
	play_diropargs3(p, &v->where);
	I(v->how.mode, p->variant % 3);
	if (v->how.mode == UNCHECKED)
		play_sattr3(p, &v->how.createhow3_u.obj_attributes);
	else if (v->how.mode == GUARDED)
		play_sattr3(p, &v->how.createhow3_u.ARM_GUARDED);
	else
		FIXED(v->how.createhow3_u.verf);
}

PLAY_NEW_RES(CREATE3res)

PLAY(MKDIR3args)
{
	play_diropargs3(p, &v->where);
	play_sattr3(p, &v->attributes);
}

PLAY_NEW_RES(MKDIR3res)

PLAY(SYMLINK3args)
{
	play_diropargs3(p, &v->where);
	play_sattr3(p, &v->symlink.symlink_attributes);
	LINK3(v->symlink.symlink_data, play_len(p, 4096));
}

PLAY_NEW_RES(SYMLINK3res)

PLAY_PART(devicedata3)
{
	play_sattr3(p, &v->dev_attributes);
	I(v->spec.specdata1, 8);
	I(v->spec.specdata2, 17);
}

PLAY(MKNOD3args)
{
	const ftype3 types[PLAY_VARIANTS] = {
		NF3CHR, NF3BLK, NF3SOCK, NF3FIFO, NF3REG, NF3DIR,
	};

	play_diropargs3(p, &v->where);
	I(v->what.type, types[p->variant]);
	if (v->what.type == NF3CHR)
		play_devicedata3(p, &v->what.mknoddata3_u.ARM_CHR);
	else if (v->what.type == NF3BLK)
		play_devicedata3(p, &v->what.mknoddata3_u.ARM_BLK);
	else if (v->what.type == NF3SOCK)
		play_sattr3(p, &v->what.mknoddata3_u.ARM_SOCK);
	else if (v->what.type == NF3FIFO)
		play_sattr3(p, &v->what.mknoddata3_u.pipe_attributes);
}

PLAY_NEW_RES(MKNOD3res)

PLAY(REMOVE3args)
{
	play_diropargs3(p, &v->object);
}

PLAY_WCC_RES(REMOVE3res, dir_wcc)

PLAY(RMDIR3args)
{
	play_diropargs3(p, &v->object);
}

PLAY_WCC_RES(RMDIR3res, dir_wcc)

PLAY(RENAME3args)
{
	play_diropargs3(p, &v->from);
	play_diropargs3(p, &v->to);
}

PLAY(RENAME3res)
{
	I(v->status, STATUS3);
	if (v->status == NFS3_OK) {
		play_wcc_data(p, &v->RENAME3res_u.resok.fromdir_wcc);
		play_wcc_data(p, &v->RENAME3res_u.resok.todir_wcc);
	} else {
		play_wcc_data(p, &v->RENAME3res_u.resfail.fromdir_wcc);
		play_wcc_data(p, &v->RENAME3res_u.resfail.todir_wcc);
	}
}

PLAY(LINK3args)
{
	FH3(v->file, play_len(p, NFS3_FHSIZE));
	play_diropargs3(p, &v->link);
}

PLAY(LINK3res)
{
	I(v->status, STATUS3);
	if (v->status == NFS3_OK) {
		play_post_op_attr(p, &v->LINK3res_u.resok.file_attributes);
		play_wcc_data(p, &v->LINK3res_u.resok.linkdir_wcc);
	} else {
		play_post_op_attr(p, &v->LINK3res_u.resfail.file_attributes);
		play_wcc_data(p, &v->LINK3res_u.resfail.linkdir_wcc);
	}
}

PLAY(READDIR3args)
{
	FH3(v->dir, play_len(p, NFS3_FHSIZE));
	I(v->cookie, U64_A);
	FIXED(v->cookieverf);
	I(v->count, 32768);
}

PLAY_ENTRY(entry3)
{
	I(v->fileid, U64_A + i);
	STR(v->name, 1 + i * 6);
	I(v->cookie, U64_B + i);
}

PLAY(READDIR3res)
{
	READDIR3resok *ok = &v->READDIR3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->READDIR3res_u.resfail.dir_attributes);
		return;
	}
	play_post_op_attr(p, &ok->dir_attributes);
	FIXED(ok->cookieverf);
	/* Variant 0: a directory without entries. */
	ENTRIES3(ok->reply, p->variant == 0 ? 0 : play_len(p, SIDE_LIST_MAX));
	I(ok->reply.eof, play_on(p));
}

PLAY(READDIRPLUS3args)
{
	FH3(v->dir, play_len(p, NFS3_FHSIZE));
	I(v->cookie, U64_B);
	FIXED(v->cookieverf);
	I(v->dircount, 8192);
	I(v->maxcount, 65536);
}

PLAY_ENTRY(entryplus3)
{
	I(v->fileid, U64_B - i);
	STR(v->name, 255 - i * 6);
	I(v->cookie, U64_A - i);
	play_post_op_attr(p, &v->name_attributes);
	play_post_op_fh3(p, &v->name_handle);
}

PLAY(READDIRPLUS3res)
{
	READDIRPLUS3resok *ok = &v->READDIRPLUS3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->READDIRPLUS3res_u.resfail.dir_attributes);
		return;
	}
	play_post_op_attr(p, &ok->dir_attributes);
	FIXED(ok->cookieverf);
	ENTRIESPLUS3(ok->reply, p->variant == 0 ? 0 : play_len(p, SIDE_LIST_MAX));
	I(ok->reply.eof, play_on(p));
}

PLAY_FH_ARGS(FSSTAT3args, fsroot)

PLAY(FSSTAT3res)
{
	FSSTAT3resok *ok = &v->FSSTAT3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->FSSTAT3res_u.resfail.obj_attributes);
		return;
	}
	play_post_op_attr(p, &ok->obj_attributes);
	I(ok->tbytes, U64_A);
	I(ok->fbytes, U64_A + 1);
	I(ok->abytes, U64_A + 2);
	I(ok->tfiles, U64_B);
	I(ok->ffiles, U64_B + 1);
	I(ok->afiles, U64_B + 2);
	I(ok->invarsec, 3600);
}

PLAY_FH_ARGS(FSINFO3args, fsroot)

PLAY(FSINFO3res)
{
	FSINFO3resok *ok = &v->FSINFO3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->FSINFO3res_u.resfail.obj_attributes);
		return;
	}
	play_post_op_attr(p, &ok->obj_attributes);
	I(ok->rtmax, 1048576);
	I(ok->rtpref, 1048575);
	I(ok->rtmult, 4096);
	I(ok->wtmax, 1048574);
	I(ok->wtpref, 1048573);
	I(ok->wtmult, 512);
	I(ok->dtpref, 32768);
	I(ok->maxfilesize, U64_B);
	play_nfstime3(p, &ok->time_delta);
	I(ok->properties, FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS |
			  FSF3_CANSETTIME);
}

PLAY_FH_ARGS(PATHCONF3args, object)

PLAY(PATHCONF3res)
{
	PATHCONF3resok *ok = &v->PATHCONF3res_u.resok;

	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_post_op_attr(p, &v->PATHCONF3res_u.resfail.obj_attributes);
		return;
	}
	play_post_op_attr(p, &ok->obj_attributes);
	I(ok->linkmax, 65000);
	I(ok->name_max, 255);
	I(ok->no_trunc, 1);
	I(ok->chown_restricted, 0);
	I(ok->case_insensitive, 1);
	I(ok->case_preserving, 0);
}

PLAY(COMMIT3args)
{
	FH3(v->file, play_len(p, NFS3_FHSIZE));
	I(v->offset, U64_A);
	I(v->count, 0xffffffff);
}

PLAY(COMMIT3res)
{
	I(v->status, STATUS3);
	if (v->status != NFS3_OK) {
		play_wcc_data(p, &v->COMMIT3res_u.resfail.file_wcc);
		return;
	}
	play_wcc_data(p, &v->COMMIT3res_u.resok.file_wcc);
	FIXED(v->COMMIT3res_u.resok.verf);
}

#define CASES_NFS3						\
	ARG(GETATTR3args)	RES(GETATTR3res)		\
	ARG(SETATTR3args)	RES(SETATTR3res)		\
	ARG(LOOKUP3args)	RES(LOOKUP3res)			\
	ARG(ACCESS3args)	RES(ACCESS3res)			\
	ARG(READLINK3args)	RES(READLINK3res)		\
	ARG(READ3args)		RES(READ3res)			\
	ARG(WRITE3args)		RES(WRITE3res)			\
	ARG(CREATE3args)	RES(CREATE3res)			\
	ARG(MKDIR3args)		RES(MKDIR3res)			\
	ARG(SYMLINK3args)	RES(SYMLINK3res)		\
	ARG(MKNOD3args)		RES(MKNOD3res)			\
	ARG(REMOVE3args)	RES(REMOVE3res)			\
	ARG(RMDIR3args)		RES(RMDIR3res)			\
	ARG(RENAME3args)	RES(RENAME3res)			\
	ARG(LINK3args)		RES(LINK3res)			\
	ARG(READDIR3args)	RES(READDIR3res)		\
	ARG(READDIRPLUS3args)	RES(READDIRPLUS3res)		\
	ARG(FSSTAT3args)	RES(FSSTAT3res)			\
	ARG(FSINFO3args)	RES(FSINFO3res)			\
	ARG(PATHCONF3args)	RES(PATHCONF3res)		\
	ARG(COMMIT3args)	RES(COMMIT3res)
