/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fattr4: a bitmap of attribute numbers, and the values in that order in one opaque (RFC
 * 8881, section 3.3.7). Values carry no length of their own, so an attribute that we did
 * not ask for cannot be skipped: it makes the reply malformed.
 *
 * Owners are strings. With AUTH_SYS they are decimal numbers (RFC 8881, section 5.9), which
 * are used as they are. "name@domain" is passed on to idmap.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "nfs/nfs4/nfs4_impl.h"

#define W0(n) (1u << (n))
#define W1(n) (1u << ((n) - 32))

#define STAT_W0 (W0(FATTR4_TYPE) | W0(FATTR4_CHANGE) | W0(FATTR4_SIZE) | W0(FATTR4_FSID) | \
		 W0(FATTR4_FILEID))
#define STAT_W1 (W1(FATTR4_MODE) | W1(FATTR4_NUMLINKS) | W1(FATTR4_OWNER) | \
		 W1(FATTR4_OWNER_GROUP) | W1(FATTR4_RAWDEV) | W1(FATTR4_SPACE_USED) | \
		 W1(FATTR4_TIME_ACCESS) | W1(FATTR4_TIME_METADATA) | W1(FATTR4_TIME_MODIFY))

const bitmap4 nfs4_stat_mask = { .len = 2, .words = { STAT_W0, STAT_W1 } };
const bitmap4 nfs4_after_mask = {
	.len = 2,
	.words = { STAT_W0, STAT_W1 & ~(W1(FATTR4_OWNER) | W1(FATTR4_OWNER_GROUP)) },
};
const bitmap4 nfs4_dir_mask = {
	.len = 2,
	.words = { STAT_W0 | W0(FATTR4_RDATTR_ERROR) | W0(FATTR4_FILEHANDLE), STAT_W1 },
};
const bitmap4 nfs4_names_mask = {
	.len = 1,
	.words = { W0(FATTR4_TYPE) | W0(FATTR4_RDATTR_ERROR) | W0(FATTR4_FILEID) },
};
const bitmap4 nfs4_fs_mask = {
	.len = 2,
	.words = { W0(FATTR4_FILES_AVAIL) | W0(FATTR4_FILES_FREE) | W0(FATTR4_FILES_TOTAL) |
		   W0(FATTR4_MAXNAME),
		   W1(FATTR4_SPACE_AVAIL) | W1(FATTR4_SPACE_FREE) | W1(FATTR4_SPACE_TOTAL) },
};
const bitmap4 nfs4_root_mask = {
	.len = 2,
	.words = { STAT_W0 | W0(FATTR4_LEASE_TIME) | W0(FATTR4_MAXFILESIZE) |
		   W0(FATTR4_MAXNAME) | W0(FATTR4_MAXREAD) | W0(FATTR4_MAXWRITE), STAT_W1 },
};

/* ---- values ---- */

static mode_t type_mode(uint32_t type)
{
	switch (type) {
	case NF4REG:  return S_IFREG;
	case NF4DIR:
	case NF4ATTRDIR: return S_IFDIR;
	case NF4BLK:  return S_IFBLK;
	case NF4CHR:  return S_IFCHR;
	case NF4LNK:  return S_IFLNK;
	case NF4SOCK: return S_IFSOCK;
	case NF4FIFO: return S_IFIFO;
	default:      return 0;
	}
}

static bool_t get_type(XDR *x, mode_t *mode)
{
	uint32_t type;

	if (!xdr_uint32_t(x, &type) || !type_mode(type))
		return FALSE;
	*mode |= type_mode(type);
	return TRUE;
}

static bool_t get_mode(XDR *x, mode_t *mode)
{
	uint32_t bits;

	if (!xdr_uint32_t(x, &bits))
		return FALSE;
	*mode |= bits & 07777;
	return TRUE;
}

static bool is_number(const struct nfs_ref *name, uint32_t *id)
{
	uint64_t n = 0;

	if (name->len == 0 || name->len > 10)
		return false;
	for (uint32_t i = 0; i < name->len; i++) {
		if (name->data[i] < '0' || name->data[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(name->data[i] - '0');
	}
	if (n > UINT32_MAX)
		return false;
	*id = (uint32_t)n;
	return true;
}

/* If the owner is a name, `name` gets it and *id is nobody. Otherwise `name` is empty. */
static bool_t get_id(XDR *x, uint32_t *id, struct nfs_ref *name)
{
	if (!xdr_nfs_ref1024(x, name))
		return FALSE;
	if (is_number(name, id))
		name->len = 0;
	return TRUE;
}

static bool_t get_time(XDR *x, struct timespec *t)
{
	nfstime4 v;

	if (!xdr_nfstime4(x, &v))
		return FALSE;
	t->tv_sec = v.seconds;
	t->tv_nsec = v.nseconds < 1000000000 ? (long)v.nseconds : 0;
	return TRUE;
}

/* Reads one attribute. FALSE also for a number that we did not ask for. */
static bool_t get_one(XDR *x, unsigned n, struct nfs4_attrs *a)
{
	switch (n) {
	case FATTR4_TYPE:         return get_type(x, &a->attr.mode);
	case FATTR4_CHANGE:       return xdr_uint64_t(x, &a->attr.change);
	case FATTR4_SIZE:         return xdr_uint64_t(x, &a->attr.size);
	case FATTR4_FSID:         return xdr_uint64_t(x, &a->attr.fsid_major) &&
					 xdr_uint64_t(x, &a->attr.fsid_minor);
	case FATTR4_LEASE_TIME:   return xdr_uint32_t(x, &a->lease_s);
	case FATTR4_RDATTR_ERROR: return xdr_uint32_t(x, &a->rdattr_error);
	case FATTR4_FILEHANDLE:   return xdr_nfs_fh4(x, &a->fh);
	case FATTR4_FILEID:       return xdr_uint64_t(x, &a->attr.fileid);
	case FATTR4_FILES_AVAIL:  return xdr_uint64_t(x, &a->fs.afiles);
	case FATTR4_FILES_FREE:   return xdr_uint64_t(x, &a->fs.ffiles);
	case FATTR4_FILES_TOTAL:  return xdr_uint64_t(x, &a->fs.tfiles);
	case FATTR4_MAXFILESIZE:  return xdr_uint64_t(x, &a->maxfilesize);
	case FATTR4_MAXNAME:      return xdr_uint32_t(x, &a->maxname);
	case FATTR4_MAXREAD:      return xdr_uint64_t(x, &a->maxread);
	case FATTR4_MAXWRITE:     return xdr_uint64_t(x, &a->maxwrite);
	case FATTR4_MODE:         return get_mode(x, &a->attr.mode);
	case FATTR4_NUMLINKS:     return xdr_uint32_t(x, &a->attr.nlink);
	case FATTR4_OWNER:        return get_id(x, &a->attr.uid, &a->owner);
	case FATTR4_OWNER_GROUP:  return get_id(x, &a->attr.gid, &a->group);
	case FATTR4_RAWDEV:       return xdr_uint32_t(x, &a->attr.rdev_major) &&
					 xdr_uint32_t(x, &a->attr.rdev_minor);
	case FATTR4_SPACE_AVAIL:  return xdr_uint64_t(x, &a->fs.abytes);
	case FATTR4_SPACE_FREE:   return xdr_uint64_t(x, &a->fs.fbytes);
	case FATTR4_SPACE_TOTAL:  return xdr_uint64_t(x, &a->fs.tbytes);
	case FATTR4_SPACE_USED:   return xdr_uint64_t(x, &a->attr.used);
	case FATTR4_TIME_ACCESS:  return get_time(x, &a->attr.atime);
	case FATTR4_TIME_METADATA: return get_time(x, &a->attr.ctime);
	case FATTR4_TIME_MODIFY:  return get_time(x, &a->attr.mtime);
	default:                  return FALSE;
	}
}

bool nfs4_get_fattr(struct nfs4_attrs *out, const fattr4 *in)
{
	bool ok = true;
	XDR x;

	memset(out, 0, sizeof(*out));
	out->got = in->attrmask;
	out->attr.uid = out->attr.gid = NFS_NOBODY;
	/* A decoding stream is only read. */
	xdr_msg_create(&x, (void *)(uintptr_t)in->attr_vals.data, in->attr_vals.len, XDR_DECODE);
	for (unsigned n = 0; ok && n < in->attrmask.len * 32; n++)
		if (bitmap4_isset(&in->attrmask, n))
			ok = get_one(&x, n, out);
	ok = ok && xdr_getpos(&x) == in->attr_vals.len;
	xdr_destroy(&x);
	return ok;
}

/* ---- setting ---- */

static bool_t put_id(XDR *x, uint32_t id, const char *name)
{
	char text[16];
	struct nfs_ref ref;

	snprintf(text, sizeof(text), "%u", id);
	ref = nfs_ref_str(name ? name : text);
	return xdr_nfs_ref1024(x, &ref);
}

static bool_t put_time(XDR *x, bool now, const struct timespec *t)
{
	settime4 s = { .set_it = now ? SET_TO_SERVER_TIME4 : SET_TO_CLIENT_TIME4 };

	if (!now) {
		s.settime4_u.time.seconds = t->tv_sec;
		s.settime4_u.time.nseconds = (uint32_t)t->tv_nsec;
	}
	return xdr_settime4(x, &s);
}

/* Values must be in the order of the attributes' numbers. */
static bool_t put_values(XDR *x, bitmap4 *mask, const struct nfs_sattr *in)
{
	uint32_t mode = in->mode & 07777;
	uint64_t size = in->size;
	bool_t ok = TRUE;

	if (in->valid & NFS_SET_SIZE) {
		bitmap4_set(mask, FATTR4_SIZE);
		ok = ok && xdr_uint64_t(x, &size);
	}
	if (in->valid & NFS_SET_MODE) {
		bitmap4_set(mask, FATTR4_MODE);
		ok = ok && xdr_uint32_t(x, &mode);
	}
	if (in->valid & NFS_SET_UID) {
		bitmap4_set(mask, FATTR4_OWNER);
		ok = ok && put_id(x, in->uid, in->owner);
	}
	if (in->valid & NFS_SET_GID) {
		bitmap4_set(mask, FATTR4_OWNER_GROUP);
		ok = ok && put_id(x, in->gid, in->group);
	}
	if (in->valid & (NFS_SET_ATIME | NFS_SET_ATIME_NOW)) {
		bitmap4_set(mask, FATTR4_TIME_ACCESS_SET);
		ok = ok && put_time(x, in->valid & NFS_SET_ATIME_NOW, &in->atime);
	}
	if (in->valid & (NFS_SET_MTIME | NFS_SET_MTIME_NOW)) {
		bitmap4_set(mask, FATTR4_TIME_MODIFY_SET);
		ok = ok && put_time(x, in->valid & NFS_SET_MTIME_NOW, &in->mtime);
	}
	return ok;
}

bool nfs4_put_fattr(fattr4 *out, const struct nfs_sattr *in, char *buf, size_t len)
{
	bool ok;
	XDR x;

	memset(out, 0, sizeof(*out));
	xdr_msg_create(&x, buf, (u_int)len, XDR_ENCODE);
	ok = put_values(&x, &out->attrmask, in);
	out->attr_vals = (attrlist4){ .len = xdr_getpos(&x), .data = buf };
	xdr_destroy(&x);
	return ok;
}
