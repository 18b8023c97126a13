/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See common.h. */
#include "nfs/common.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "nfs3.h"

/* RFC 1813, section 3.3.4; RFC 8881, section 18.1. */
enum { BIT_READ = 1, BIT_LOOKUP = 2, BIT_MODIFY = 4, BIT_EXTEND = 8, BIT_EXECUTE = 32 };

/* ---- file data ---- */

uint32_t nfs_at_most(const struct nfs_call *c, uint32_t n)
{
	return c->eng.most && n > c->eng.most ? c->eng.most : n;
}

uint32_t nfs_read_len(const struct nfs_call *c)
{
	return nfs_at_most(c, c->args.io.count);
}

uint32_t nfs_write_len(const struct nfs_call *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->args.io.ndata; i++)
		n += c->args.io.data[i].len;
	return nfs_at_most(c, n);
}

uint32_t nfs_dir_len(const struct nfs_call *c)
{
	return nfs_at_most(c, c->args.dir.count);
}

uint64_t nfs_verifier(const char verf[8])
{
	uint64_t v;

	memcpy(&v, verf, sizeof(v));
	return v;
}

void nfs_create_verifier(struct nfs_call *c, char verf[8])
{
	uint64_t *v = &c->args.file.verifier;

	if (!*v && getrandom(v, sizeof(*v), 0) != sizeof(*v))
		*v = mono_ns();
	memcpy(verf, v, sizeof(*v));
}

/* Some old servers place the XDR pad as well; nothing beyond that is valid. */
static bool placed_len_ok(const struct nfs_call *c, uint32_t len)
{
	uint32_t placed = c->eng.rr.placed_len;

	return placed == len || placed == ((len + 3) & ~3u);
}

int nfs_take_read(struct nfs_call *c, const nfs_bulk *data, bool eof)
{
	bool placed = c->eng.rr.placed;

	if (data->len > data->max || (placed && !placed_len_ok(c, data->len)))
		return -EBADMSG;
	c->res.io.ptr = placed ? c->eng.rr.data : data->data;
	c->res.io.len = data->len;
	c->res.io.eof = eof;
	stat_add(&c->lane->stats, STAT_READ_REQUESTS, 1);
	stat_add(&c->lane->stats, placed ? STAT_READ_PLACED_BYTES : STAT_READ_INLINE_BYTES,
		 data->len);
	return 0;
}

int nfs_take_link(struct nfs_call *c, const nfs_bulk *text)
{
	bool placed = c->eng.rr.placed;

	if (placed && !placed_len_ok(c, text->len))
		return -EBADMSG;
	c->res.link.target = placed ? c->eng.rr.data : text->data;
	c->res.link.len = text->len;
	return memchr(c->res.link.target, '\0', text->len) ? -EBADMSG : 0;
}

int nfs_take_write(struct nfs_call *c, uint32_t count, bool stable, const char verf[8])
{
	if (count == 0 || count > nfs_write_len(c))
		return -EBADMSG;
	c->res.io.len = count;
	c->res.io.stable = stable;
	c->res.io.verf = nfs_verifier(verf);
	stat_add(&c->lane->stats, STAT_WRITE_REQUESTS, 1);
	return 0;
}

void nfs_take_commit(struct nfs_call *c, const char verf[8], bool twice)
{
	c->res.io.verf = nfs_verifier(verf);
	c->res.io.twice = twice || c->eng.useless;
}

/* ---- permissions ---- */

uint32_t nfs_access_bits(int mask)
{
	return (mask & R_OK ? BIT_READ : 0) | (mask & W_OK ? BIT_MODIFY | BIT_EXTEND : 0) |
	       (mask & X_OK ? BIT_EXECUTE | BIT_LOOKUP : 0);
}

int nfs_access_mask(uint32_t bits)
{
	return (bits & BIT_READ ? R_OK : 0) | (bits & (BIT_MODIFY | BIT_EXTEND) ? W_OK : 0) |
	       (bits & (BIT_EXECUTE | BIT_LOOKUP) ? X_OK : 0);
}

/* ---- what has one number in both versions ---- */

int nfs_errno(uint32_t status)
{
	switch (status) {
	case NFS3_OK:                   return 0;
	case NFS3ERR_PERM:              return -EPERM;
	case NFS3ERR_NOENT:             return -ENOENT;
	case NFS3ERR_NXIO:              return -ENXIO;
	case NFS3ERR_ACCES:             return -EACCES;
	case NFS3ERR_EXIST:             return -EEXIST;
	case NFS3ERR_XDEV:              return -EXDEV;
	case NFS3ERR_NOTDIR:            return -ENOTDIR;
	case NFS3ERR_ISDIR:             return -EISDIR;
	case NFS3ERR_FBIG:              return -EFBIG;
	case NFS3ERR_NOSPC:             return -ENOSPC;
	case NFS3ERR_ROFS:              return -EROFS;
	case NFS3ERR_MLINK:             return -EMLINK;
	case NFS3ERR_NAMETOOLONG:       return -ENAMETOOLONG;
	case NFS3ERR_NOTEMPTY:          return -ENOTEMPTY;
	case NFS3ERR_DQUOT:             return -EDQUOT;
	case NFS3ERR_STALE:
	case NFS3ERR_BADHANDLE:         return -ESTALE;
	case NFS3ERR_BAD_COOKIE:        return -NFS_ECOOKIE;
	case NFS3ERR_NOTSUPP:           return -EOPNOTSUPP;
	case NFS3ERR_INVAL:
	case NFS3ERR_TOOSMALL:
	case NFS3ERR_BADTYPE:           return -EINVAL;
	default:                        return -EIO;
	}
}

mode_t nfs_type_mode(uint32_t type)
{
	static const mode_t modes[] = {
		[NF3REG] = S_IFREG, [NF3DIR] = S_IFDIR, [NF3BLK] = S_IFBLK, [NF3CHR] = S_IFCHR,
		[NF3LNK] = S_IFLNK, [NF3SOCK] = S_IFSOCK, [NF3FIFO] = S_IFIFO,
	};

	return type < sizeof(modes) / sizeof(modes[0]) ? modes[type] : 0;
}
