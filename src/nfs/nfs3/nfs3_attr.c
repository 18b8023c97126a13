/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Conversions between NFSv3's types and ours. */
#include <string.h>
#include <sys/stat.h>
#include "nfs/common.h"
#include "nfs/nfs3/nfs3_impl.h"

int nfs3_error(nfsstat3 status)
{
	switch (status) {
	case NFS3ERR_NODEV:             return -ENODEV;
	case NFS3ERR_REMOTE:            return -EREMOTE;
	case NFS3ERR_NOT_SYNC:          return -EAGAIN;
	case NFS3ERR_JUKEBOX:           return NFS_LATER;
	default:                        return nfs_errno(status);
	}
}

nfs_fh3 nfs3_fh(const struct nfs_fh *fh)
{
	return (nfs_fh3){ .len = fh->len, .data = (const char *)fh->data };
}

bool nfs3_get_fh(struct nfs_fh *out, const nfs_fh3 *in)
{
	if (in->len == 0 || in->len > NFS3_FHSIZE)
		return false;
	out->len = in->len;
	memcpy(out->data, in->data, in->len);
	return true;
}

static struct timespec get_time(const nfstime3 *t)
{
	return (struct timespec){
		.tv_sec = t->seconds,
		.tv_nsec = t->nseconds < 1000000000 ? (long)t->nseconds : 0,
	};
}

/* This comes nearest to v4's change attribute. */
static uint64_t change_of(const nfstime3 *ctime)
{
	return (uint64_t)ctime->seconds << 32 | ctime->nseconds;
}

bool nfs3_get_fattr(struct nfs_attr *out, const fattr3 *in)
{
	mode_t type = nfs_type_mode(in->type);

	if (!type)
		return false;
	*out = (struct nfs_attr){
		.mode = type | (in->mode & 07777),
		.nlink = in->nlink,
		.uid = in->uid,
		.gid = in->gid,
		.size = in->size,
		.used = in->used,
		.rdev_major = in->rdev.specdata1,
		.rdev_minor = in->rdev.specdata2,
		.fsid_major = in->fsid,
		.fileid = in->fileid,
		.atime = get_time(&in->atime),
		.mtime = get_time(&in->mtime),
		.ctime = get_time(&in->ctime),
		.change = change_of(&in->ctime),
	};
	return true;
}

int nfs3_take_attr(struct nfs_call *c, const post_op_attr *in)
{
	if (!in->attributes_follow)
		return 0;
	if (!nfs3_get_fattr(&c->res.attr, &in->post_op_attr_u.attributes))
		return -EBADMSG;
	c->res.has_attr = true;
	return 0;
}

int nfs3_take_dir(struct nfs_call *c, unsigned i, const wcc_data *in)
{
	if (!in->after.attributes_follow)
		return 0;
	if (!nfs3_get_fattr(&c->res.dir_attr[i], &in->after.post_op_attr_u.attributes))
		return -EBADMSG;
	c->res.has_dir_attr[i] = true;
	if (in->before.attributes_follow)
		c->res.dir_change[i] = (struct nfs_dir_change){
			true, change_of(&in->before.pre_op_attr_u.attributes.ctime), c->res.dir_attr[i].change,
		};
	return 0;
}

/* Times before 1970 or after 2106 become the nearest possible one. */
static nfstime3 put_time(const struct timespec *t)
{
	if (t->tv_sec < 0)
		return (nfstime3){ 0 };
	if (t->tv_sec > UINT32_MAX)
		return (nfstime3){ .seconds = UINT32_MAX };
	return (nfstime3){ .seconds = (uint32_t)t->tv_sec, .nseconds = (uint32_t)t->tv_nsec };
}

void nfs3_sattr(sattr3 *out, const struct nfs_sattr *in)
{
	memset(out, 0, sizeof(*out));
	if (in->valid & NFS_SET_MODE) {
		out->mode.set_it = TRUE;
		out->mode.set_mode3_u.mode = in->mode & 07777;
	}
	if (in->valid & NFS_SET_UID) {
		out->uid.set_it = TRUE;
		out->uid.set_uid3_u.uid = in->uid;
	}
	if (in->valid & NFS_SET_GID) {
		out->gid.set_it = TRUE;
		out->gid.set_gid3_u.gid = in->gid;
	}
	if (in->valid & NFS_SET_SIZE) {
		out->size.set_it = TRUE;
		out->size.set_size3_u.size = in->size;
	}
	if (in->valid & NFS_SET_ATIME_NOW) {
		out->atime.set_it = SET_TO_SERVER_TIME;
	} else if (in->valid & NFS_SET_ATIME) {
		out->atime.set_it = SET_TO_CLIENT_TIME;
		out->atime.set_atime_u.atime = put_time(&in->atime);
	}
	if (in->valid & NFS_SET_MTIME_NOW) {
		out->mtime.set_it = SET_TO_SERVER_TIME;
	} else if (in->valid & NFS_SET_MTIME) {
		out->mtime.set_it = SET_TO_CLIENT_TIME;
		out->mtime.set_mtime_u.mtime = put_time(&in->mtime);
	}
}

diropargs3 nfs3_dirop(const struct nfs_fh *dir, const char *name)
{
	return (diropargs3){ .dir = nfs3_fh(dir), .name = nfs_ref_str(name) };
}
