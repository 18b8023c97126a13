/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What memory_server's NFS says: one directory, and one file in it. */
#include <stdint.h>
#include <string.h>
#include "memory_server.h"

static fattr3 attr_of(uint32_t id)
{
	bool dir = id == MEMORY_ROOT;

	return (fattr3){
		.type = dir ? NF3DIR : NF3REG, .mode = dir ? 0777 : 0666, .nlink = dir ? 2 : 1,
		.size = dir ? 4096 : memory_size, .used = dir ? 4096 : memory_size, .fsid = 1, .fileid = id,
		.atime = { 1, 0 }, .mtime = { 1, 0 }, .ctime = { 1, 0 },
	};
}

post_op_attr memory_attr(uint32_t id)
{
	return (post_op_attr){ .attributes_follow = TRUE, .post_op_attr_u.attributes = attr_of(id) };
}

/* 0: no such file. */
static uint32_t id_of(const nfs_fh3 *fh)
{
	uint32_t id;

	if (fh->len != sizeof(id))
		return 0;
	memcpy(&id, fh->data, sizeof(id));
	return id == MEMORY_ROOT || id == MEMORY_DATA ? id : 0;
}

nfs_fh3 memory_fh(const uint32_t *id)
{
	return (nfs_fh3){ .len = sizeof(*id), .data = (const char *)id };
}

static bool_t getattr(XDR *in, XDR *out)
{
	GETATTR3args a;
	GETATTR3res r = { .status = NFS3ERR_STALE };
	uint32_t id;

	if (!xdr_GETATTR3args(in, &a))
		return FALSE;
	id = id_of(&a.object);
	if (id) {
		r.status = NFS3_OK;
		r.GETATTR3res_u.resok.obj_attributes = attr_of(id);
	}
	return xdr_GETATTR3res(out, &r);
}

static bool_t lookup(XDR *in, XDR *out)
{
	static const uint32_t data = MEMORY_DATA;
	static const struct nfs_ref name = { .len = 4, .data = "data" };
	LOOKUP3args a;
	LOOKUP3res r = { .status = NFS3ERR_NOENT };

	if (!xdr_LOOKUP3args(in, &a))
		return FALSE;
	r.LOOKUP3res_u.resfail.dir_attributes = memory_attr(MEMORY_ROOT);
	if (id_of(&a.what.dir) == MEMORY_ROOT && nfs_ref_equal(&a.what.name, &name)) {
		r.status = NFS3_OK;
		r.LOOKUP3res_u.resok = (LOOKUP3resok){
			.object = memory_fh(&data), .obj_attributes = memory_attr(MEMORY_DATA),
			.dir_attributes = memory_attr(MEMORY_ROOT),
		};
	}
	return xdr_LOOKUP3res(out, &r);
}

static bool_t may_access(XDR *in, XDR *out)
{
	ACCESS3args a;
	ACCESS3res r = { .status = NFS3_OK };

	if (!xdr_ACCESS3args(in, &a))
		return FALSE;
	r.ACCESS3res_u.resok = (ACCESS3resok){ .obj_attributes = memory_attr(id_of(&a.object)), .access = a.access };
	return xdr_ACCESS3res(out, &r);
}

static bool_t fsinfo(XDR *out)
{
	FSINFO3res r = { .FSINFO3res_u.resok = {
		.obj_attributes = memory_attr(MEMORY_ROOT), .rtmax = MEMORY_IO_MAX, .rtpref = MEMORY_IO_MAX, .rtmult = 4096,
		.wtmax = MEMORY_IO_MAX, .wtpref = MEMORY_IO_MAX, .wtmult = 4096, .dtpref = 32768,
		.maxfilesize = INT64_MAX, .time_delta = { 0, 1 }, .properties = FSF3_HOMOGENEOUS,
	} };

	return xdr_FSINFO3res(out, &r);
}

static bool_t fsstat(XDR *out)
{
	FSSTAT3res r = { .FSSTAT3res_u.resok = {
		.obj_attributes = memory_attr(MEMORY_ROOT), .tbytes = memory_size, .tfiles = 2,
	} };

	return xdr_FSSTAT3res(out, &r);
}

static bool_t pathconf3(XDR *out)
{
	PATHCONF3res r = { .PATHCONF3res_u.resok = {
		.obj_attributes = memory_attr(MEMORY_ROOT), .linkmax = 1, .name_max = 255, .no_trunc = TRUE,
		.chown_restricted = TRUE, .case_preserving = TRUE,
	} };

	return xdr_PATHCONF3res(out, &r);
}

bool_t memory_read_args(XDR *in, READ3args *a)
{
	if (!xdr_READ3args(in, a) || a->count > MEMORY_IO_MAX)
		return FALSE;
	if (a->offset >= memory_size)
		a->offset = a->count = 0;
	else if (a->count > memory_size - a->offset)
		a->count = (uint32_t)(memory_size - a->offset);
	return TRUE;
}

bool_t memory_read_result(XDR *out, const READ3args *a)
{
	READ3res r = { .status = NFS3_OK, .READ3res_u.resok = {
		.file_attributes = memory_attr(MEMORY_DATA), .count = a->count,
		.eof = !a->count || a->offset + a->count >= memory_size, .data.len = a->count,
	} };

	return xdr_READ3res(out, &r);
}

bool_t memory_execute(uint32_t proc, XDR *in, XDR *out)
{
	switch (proc) {
	case NFSPROC3_NULL:     return TRUE;
	case NFSPROC3_GETATTR:  return getattr(in, out);
	case NFSPROC3_LOOKUP:   return lookup(in, out);
	case NFSPROC3_ACCESS:   return may_access(in, out);
	case NFSPROC3_FSSTAT:   return fsstat(out);
	case NFSPROC3_FSINFO:   return fsinfo(out);
	case NFSPROC3_PATHCONF: return pathconf3(out);
	default:                return FALSE;
	}
}

/* ---- RPC ---- */

bool_t memory_put_words(XDR *x, const uint32_t *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t v = w[i];

		if (!xdr_uint32_t(x, &v))
			return FALSE;
	}
	return TRUE;
}

bool_t memory_call_header(XDR *in, uint32_t w[6])
{
	for (unsigned i = 0; i < 6; i++)
		if (!xdr_uint32_t(in, &w[i]))
			return FALSE;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t flavor, len;

		if (!xdr_uint32_t(in, &flavor) || !xdr_uint32_t(in, &len) || len > 400 ||
		    !xdr_setpos(in, xdr_getpos(in) + ((len + 3) & ~3u)))
			return FALSE;
	}
	return TRUE;
}
