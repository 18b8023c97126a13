/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NFS version 4.0: file handles, names, attributes, directories and data. */

PLAY_ARG4(ACCESS, opaccess)
{
	I(v->access, 0x3f);
}

PLAY_RES4(ACCESS, opaccess)
{
	if (v->status != NFS4_OK)
		return;
	I(v->ACCESS4res_u.resok4.supported, 0x3f);
	I(v->ACCESS4res_u.resok4.access, 0x1d);
}

PLAY_ARG4(COMMIT, opcommit)
{
	I(v->offset, U64_A);
	I(v->count, 65536);
}

PLAY_RES4(COMMIT, opcommit)
{
	if (v->status == NFS4_OK)
		FIXED(v->COMMIT4res_u.resok4.writeverf);
}

PLAY_ARG4(CREATE, opcreate)
{
	const nfs_ftype4 types[PLAY_VARIANTS] = {
		NF4LNK, NF4LNK, NF4BLK, NF4CHR, NF4DIR, NF4FIFO,
	};

	I(v->objtype.type, types[p->variant]);
	if (v->objtype.type == NF4LNK)
		LINK4(v->objtype.createtype4_u.linkdata, play_len(p, 4096));
	if (v->objtype.type == NF4BLK || v->objtype.type == NF4CHR) {
		I(v->objtype.createtype4_u.devdata.specdata1, 8);
		I(v->objtype.createtype4_u.devdata.specdata2, 1);
	}
	UTF8(v->objname, NAME4);
	play_fattr4(p, &v->createattrs);
}

PLAY_RES4(CREATE, opcreate)
{
	if (v->status != NFS4_OK)
		return;
	play_change_info4(p, &v->CREATE4res_u.resok4.cinfo);
	BITMAP(v->CREATE4res_u.resok4.attrset, p->variant);
}

PLAY_ARG4(GETATTR, opgetattr)
{
	BITMAP(v->attr_request, p->variant);
}

PLAY_RES4(GETATTR, opgetattr)
{
	if (v->status == NFS4_OK)
		play_fattr4(p, &v->GETATTR4res_u.resok4.obj_attributes);
}

PLAY_ARG4_VOID(GETFH)

PLAY_RES4(GETFH, opgetfh)
{
	if (v->status == NFS4_OK)
		FH4(v->GETFH4res_u.resok4.object, play_len(p, NFS4_FHSIZE));
}

PLAY_ARG4(LINK, oplink)
{
	UTF8(v->newname, NAME4);
}

PLAY_RES4(LINK, oplink)
{
	if (v->status == NFS4_OK)
		play_change_info4(p, &v->LINK4res_u.resok4.cinfo);
}

PLAY_ARG4(LOOKUP, oplookup)
{
	UTF8(v->objname, NAME4);
}

PLAY_RES4_STATUS(LOOKUP, oplookup)

PLAY_ARG4_VOID(LOOKUPP)
PLAY_RES4_STATUS(LOOKUPP, oplookupp)

PLAY_ARG4(NVERIFY, opnverify)
{
	play_fattr4(p, &v->obj_attributes);
}

PLAY_RES4_STATUS(NVERIFY, opnverify)

PLAY_ARG4(OPENATTR, opopenattr)
{
	I(v->createdir, play_on(p));
}

PLAY_RES4_STATUS(OPENATTR, opopenattr)

PLAY_ARG4(PUTFH, opputfh)
{
	FH4(v->object, play_len(p, NFS4_FHSIZE));
}

PLAY_RES4_STATUS(PUTFH, opputfh)

PLAY_ARG4_VOID(PUTPUBFH)
PLAY_RES4_STATUS(PUTPUBFH, opputpubfh)
PLAY_ARG4_VOID(PUTROOTFH)
PLAY_RES4_STATUS(PUTROOTFH, opputrootfh)

PLAY_ARG4(READ, opread)
{
	play_stateid4(p, &v->stateid);
	I(v->offset, U64_B);
	I(v->count, 1048576);
}

PLAY_RES4(READ, opread)
{
	if (v->status != NFS4_OK)
		return;
	I(v->READ4res_u.resok4.eof, play_on(p));
	BULK(v->READ4res_u.resok4.data, play_len(p, 9003));
}

PLAY_ARG4(READDIR, opreaddir)
{
	I(v->cookie, U64_A);
	FIXED(v->cookieverf);
	I(v->dircount, 8192);
	I(v->maxcount, 65536);
	BITMAP(v->attr_request, p->variant);
}

PLAY_ENTRY(entry4)
{
	I(v->cookie, U64_B + i);
	UTF8(v->name, 1 + i * 6);
	BITMAP(v->attrs.attrmask, i % 4);
	ATTRLIST(v->attrs.attr_vals, i * 13);
}

PLAY_RES4(READDIR, opreaddir)
{
	READDIR4resok *ok = &v->READDIR4res_u.resok4;

	if (v->status != NFS4_OK)
		return;
	FIXED(ok->cookieverf);
	ENTRIES4(ok->reply, p->variant == 0 ? 0 : play_len(p, SIDE_LIST_MAX));
	I(ok->reply.eof, play_on(p));
}

PLAY_ARG4_VOID(READLINK)

PLAY_RES4(READLINK, opreadlink)
{
	if (v->status == NFS4_OK)
		LINK4(v->READLINK4res_u.resok4.link, play_len(p, 4096));
}

PLAY_ARG4(REMOVE, opremove)
{
	UTF8(v->target, NAME4);
}

PLAY_RES4(REMOVE, opremove)
{
	if (v->status == NFS4_OK)
		play_change_info4(p, &v->REMOVE4res_u.resok4.cinfo);
}

PLAY_ARG4(RENAME, oprename)
{
	UTF8(v->oldname, NAME4);
	UTF8(v->newname, 255 - NAME4);
}

PLAY_RES4(RENAME, oprename)
{
	if (v->status != NFS4_OK)
		return;
	play_change_info4(p, &v->RENAME4res_u.resok4.source_cinfo);
	play_change_info4(p, &v->RENAME4res_u.resok4.target_cinfo);
}

PLAY_ARG4_VOID(RESTOREFH)
PLAY_RES4_STATUS(RESTOREFH, oprestorefh)
PLAY_ARG4_VOID(SAVEFH)
PLAY_RES4_STATUS(SAVEFH, opsavefh)

PLAY_ARG4(SETATTR, opsetattr)
{
	play_stateid4(p, &v->stateid);
	play_fattr4(p, &v->obj_attributes);
}

/* The bitmap comes with failures, too. */
PLAY_RES4(SETATTR, opsetattr)
{
	BITMAP(v->attrsset, p->variant);
}

PLAY_ARG4(VERIFY, opverify)
{
	play_fattr4(p, &v->obj_attributes);
}

PLAY_RES4_STATUS(VERIFY, opverify)

PLAY_ARG4(WRITE, opwrite)
{
	play_stateid4(p, &v->stateid);
	I(v->offset, U64_A);
	I(v->stable, p->variant % 3);
	BULK(v->data, play_len(p, 9002));
}

PLAY_RES4(WRITE, opwrite)
{
	WRITE4resok *ok = &v->WRITE4res_u.resok4;

	if (v->status != NFS4_OK)
		return;
	I(ok->count, 1048576);
	I(ok->committed, p->variant % 3);
	FIXED(ok->writeverf);
}

PLAY_RES4_STATUS(ILLEGAL, opillegal)

#define CASES_NFS4_FS					\
	ARG4(ACCESS)		RES4(ACCESS)		\
	ARG4(COMMIT)		RES4(COMMIT)		\
	ARG4(CREATE)		RES4(CREATE)		\
	ARG4(GETATTR)		RES4(GETATTR)		\
	ARG4(GETFH)		RES4(GETFH)		\
	ARG4(LINK)		RES4(LINK)		\
	ARG4(LOOKUP)		RES4(LOOKUP)		\
	ARG4(LOOKUPP)		RES4(LOOKUPP)		\
	ARG4(NVERIFY)		RES4(NVERIFY)		\
	ARG4(OPENATTR)		RES4(OPENATTR)		\
	ARG4(PUTFH)		RES4(PUTFH)		\
	ARG4(PUTPUBFH)		RES4(PUTPUBFH)		\
	ARG4(PUTROOTFH)		RES4(PUTROOTFH)		\
	ARG4(READ)		RES4(READ)		\
	ARG4(READDIR)		RES4(READDIR)		\
	ARG4(READLINK)		RES4(READLINK)		\
	ARG4(REMOVE)		RES4(REMOVE)		\
	ARG4(RENAME)		RES4(RENAME)		\
	ARG4(RESTOREFH)		RES4(RESTOREFH)		\
	ARG4(SAVEFH)		RES4(SAVEFH)		\
	ARG4(SETATTR)		RES4(SETATTR)		\
	ARG4(VERIFY)		RES4(VERIFY)		\
	ARG4(WRITE)		RES4(WRITE)		\
	RES4(ILLEGAL)
