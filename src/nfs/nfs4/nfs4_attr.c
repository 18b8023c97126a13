/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fattr4: a bitmap of attribute numbers, and the values in that order in one opaque (RFC
 * 8881, section 3.3.7). Values carry no length of their own, so an attribute that we did
 * not ask for cannot be skipped: it makes the reply malformed.
 *
 * Owners are strings. With AUTH_SYS they are decimal numbers (RFC 8881, section 5.9), which
 * are used as they are. "name@domain" is passed on to idmap.c.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

#define W0(n) (1u << (n))
#define W1(n) (1u << ((n) - 32))

/* The longest name of an owner that is passed on. */
#define OWNER_MAX 1024u

#define STAT_W0 (W0(FATTR4_TYPE) | W0(FATTR4_CHANGE) | W0(FATTR4_SIZE) | W0(FATTR4_FSID) | \
		 W0(FATTR4_FILEID))
#define STAT_W1 (W1(FATTR4_MODE) | W1(FATTR4_NUMLINKS) | W1(FATTR4_OWNER) | \
		 W1(FATTR4_OWNER_GROUP) | W1(FATTR4_RAWDEV) | W1(FATTR4_SPACE_USED) | \
		 W1(FATTR4_TIME_ACCESS) | W1(FATTR4_TIME_METADATA) | W1(FATTR4_TIME_MODIFY))

/* RFC 8881, section 5.6. */
#define REQUIRED_W0 (W0(FATTR4_TYPE) | W0(FATTR4_CHANGE) | W0(FATTR4_SIZE) | W0(FATTR4_FSID))

const bitmap4 nfs4_stat_mask = { .len = 2, .words = { STAT_W0, STAT_W1 } };
const bitmap4 nfs4_after_mask = {
	.len = 2,
	.words = { STAT_W0, STAT_W1 & ~(W1(FATTR4_OWNER) | W1(FATTR4_OWNER_GROUP)) },
};
const bitmap4 nfs4_birth_mask = { .len = 2, .words = { STAT_W0, STAT_W1 | W1(FATTR4_TIME_CREATE) } };
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
	.words = { STAT_W0 | W0(FATTR4_SUPPORTED_ATTRS) | W0(FATTR4_LEASE_TIME) | W0(FATTR4_MAXFILESIZE) |
		   W0(FATTR4_MAXNAME) | W0(FATTR4_MAXREAD) | W0(FATTR4_MAXWRITE), STAT_W1 },
};

/* ---- values ---- */

/* What is left of the values. One that is not all there sets `bad`, and is 0. This is not an
 * XDR stream because a GETATTR has some thirty words, and a listing that many per entry. */
struct values {
	const char *at;
	uint32_t left;
	bool bad;
};

static inline const char *nfs4_attr_take(struct values *v, uint32_t n)
{
	static const char none[8];
	const char *at = v->at;

	if (v->left < n) {
		v->bad = true;
		return none;
	}
	v->at += n;
	v->left -= n;
	return at;
}

static inline uint32_t nfs4_attr_word(struct values *v)
{
	uint32_t w;

	memcpy(&w, nfs4_attr_take(v, sizeof(w)), sizeof(w));
	return ntohl(w);
}

static inline uint64_t nfs4_attr_dword(struct values *v)
{
	uint64_t w;

	memcpy(&w, nfs4_attr_take(v, sizeof(w)), sizeof(w));
	return be64toh(w);
}

static inline struct nfs_ref nfs4_attr_counted(struct values *v, uint32_t max)
{
	uint32_t len = nfs4_attr_word(v);
	const char *at;

	v->bad |= len > max;
	at = nfs4_attr_take(v, v->bad ? 0 : len + nfs_xdr_pad(len));
	return (struct nfs_ref){ .len = v->bad ? 0 : len, .data = at };
}

static void get_bitmap(struct values *v, bitmap4 *map)
{
	map->len = nfs4_attr_word(v);
	v->bad |= map->len > NFS4_BITMAP_WORDS;
	for (uint32_t i = 0; i < map->len && !v->bad; i++)
		map->words[i] = nfs4_attr_word(v);
}

static inline void get_type(struct values *v, mode_t *mode)
{
	uint32_t word = nfs4_attr_word(v);
	mode_t type = word == NF4ATTRDIR ? S_IFDIR : nfs_type_mode(word);

	v->bad |= !type;
	*mode |= type;
}

/* If the owner is a name, `name` gets it and *id is nobody. Otherwise `name` is empty. */
static inline void get_id(struct values *v, uint32_t *id, struct nfs_ref *name)
{
	struct nfs_ref ref = nfs4_attr_counted(v, OWNER_MAX);

	if (!v->bad && !nfs4_is_number(&ref, id))
		*name = ref;
}

static inline void get_time(struct values *v, struct timespec *t)
{
	uint32_t ns;

	t->tv_sec = (time_t)nfs4_attr_dword(v);
	ns = nfs4_attr_word(v);
	t->tv_nsec = ns < 1000000000 ? (long)ns : 0;
}

/* Reads one attribute. false: a number that we did not ask for. With a constant n only that
 * number's line is left. */
static inline __attribute__((always_inline)) bool get_one(struct values *v, unsigned n, struct nfs4_attrs *a)
{
	switch (n) {
	case FATTR4_SUPPORTED_ATTRS: get_bitmap(v, &a->supported); break;
	case FATTR4_TYPE:         get_type(v, &a->attr.mode); break;
	case FATTR4_CHANGE:       a->attr.change = nfs4_attr_dword(v); break;
	case FATTR4_SIZE:         a->attr.size = nfs4_attr_dword(v); break;
	case FATTR4_FSID:         a->attr.fsid_major = nfs4_attr_dword(v);
				  a->attr.fsid_minor = nfs4_attr_dword(v); break;
	case FATTR4_LEASE_TIME:   a->lease_s = nfs4_attr_word(v); break;
	case FATTR4_RDATTR_ERROR: a->rdattr_error = nfs4_attr_word(v); break;
	case FATTR4_FILEHANDLE:   a->fh = nfs4_attr_counted(v, NFS4_FHSIZE); break;
	case FATTR4_FILEID:       a->attr.fileid = nfs4_attr_dword(v); break;
	case FATTR4_FILES_AVAIL:  a->fs.afiles = nfs4_attr_dword(v); break;
	case FATTR4_FILES_FREE:   a->fs.ffiles = nfs4_attr_dword(v); break;
	case FATTR4_FILES_TOTAL:  a->fs.tfiles = nfs4_attr_dword(v); break;
	case FATTR4_MAXFILESIZE:  a->maxfilesize = nfs4_attr_dword(v); break;
	case FATTR4_MAXNAME:      a->maxname = nfs4_attr_word(v); break;
	case FATTR4_MAXREAD:      a->maxread = nfs4_attr_dword(v); break;
	case FATTR4_MAXWRITE:     a->maxwrite = nfs4_attr_dword(v); break;
	case FATTR4_MODE:         a->attr.mode |= nfs4_attr_word(v) & 07777; break;
	case FATTR4_NUMLINKS:     a->attr.nlink = nfs4_attr_word(v); break;
	case FATTR4_OWNER:        get_id(v, &a->attr.uid, &a->owner); break;
	case FATTR4_OWNER_GROUP:  get_id(v, &a->attr.gid, &a->group); break;
	case FATTR4_RAWDEV:       a->attr.rdev_major = nfs4_attr_word(v);
				  a->attr.rdev_minor = nfs4_attr_word(v); break;
	case FATTR4_SPACE_AVAIL:  a->fs.abytes = nfs4_attr_dword(v); break;
	case FATTR4_SPACE_FREE:   a->fs.fbytes = nfs4_attr_dword(v); break;
	case FATTR4_SPACE_TOTAL:  a->fs.tbytes = nfs4_attr_dword(v); break;
	case FATTR4_SPACE_USED:   a->attr.used = nfs4_attr_dword(v); break;
	case FATTR4_TIME_ACCESS:  get_time(v, &a->attr.atime); break;
	case FATTR4_TIME_CREATE:  get_time(v, &a->btime); break;
	case FATTR4_TIME_METADATA: get_time(v, &a->attr.ctime); break;
	case FATTR4_TIME_MODIFY:  get_time(v, &a->attr.mtime); break;
	case FATTR4_SUPPATTR_EXCLCREAT: get_bitmap(v, &a->exclusive); break;
	case FATTR4_XATTR_SUPPORT: a->xattrs = nfs4_attr_word(v); break;
	default:                  return false;
	}
	return true;
}

static bool is_mask(const bitmap4 *m, const bitmap4 *as)
{
	return m->len == as->len && m->words[0] == as->words[0] && m->words[1] == as->words[1];
}

/* After this the compiler leaves out the looks at what is left, for n bytes. */
static inline bool are_there(struct values *v, uint32_t n)
{
	v->bad |= v->left < n;
	return v->left >= n;
}

/* All attributes of nfs4_stat_mask, or of nfs4_dir_mask, and no other: what servers answer to nearly
 * every GETATTR, and in nearly every entry of a listing. */
static void get_stat(struct values *v, bool dir, struct nfs4_attrs *a)
{
	if (!are_there(v, 4 + 8 + 8 + 16))
		return;
	get_one(v, FATTR4_TYPE, a);
	get_one(v, FATTR4_CHANGE, a);
	get_one(v, FATTR4_SIZE, a);
	get_one(v, FATTR4_FSID, a);
	if (dir) {
		get_one(v, FATTR4_RDATTR_ERROR, a);
		get_one(v, FATTR4_FILEHANDLE, a);
	}
	if (!are_there(v, 8 + 4 + 4))
		return;
	get_one(v, FATTR4_FILEID, a);
	get_one(v, FATTR4_MODE, a);
	get_one(v, FATTR4_NUMLINKS, a);
	get_one(v, FATTR4_OWNER, a);
	get_one(v, FATTR4_OWNER_GROUP, a);
	if (!are_there(v, 8 + 8 + 3 * 12))
		return;
	get_one(v, FATTR4_RAWDEV, a);
	get_one(v, FATTR4_SPACE_USED, a);
	get_one(v, FATTR4_TIME_ACCESS, a);
	get_one(v, FATTR4_TIME_METADATA, a);
	get_one(v, FATTR4_TIME_MODIFY, a);
}

/* Those of any other mask, in the order of their numbers. */
static bool get_masked(struct values *v, const bitmap4 *mask, struct nfs4_attrs *a)
{
	for (unsigned w = 0; w < mask->len; w++)
		for (uint32_t bits = mask->words[w]; bits; bits &= bits - 1)
			if (!get_one(v, w * 32 + (unsigned)__builtin_ctz(bits), a) || v->bad)
				return false;
	return true;
}

bool nfs4_get_fattr(struct nfs4_attrs *out, const fattr4 *in)
{
	struct values v = { .at = in->attr_vals.data, .left = in->attr_vals.len };
	bool known = true, dir = is_mask(&in->attrmask, &nfs4_dir_mask);

	memset(out, 0, offsetof(struct nfs4_attrs, supported));
	out->supported.len = out->exclusive.len = 0;
	out->got = in->attrmask;
	out->attr.uid = out->attr.gid = NFS_NOBODY;
	out->attr.nlink = 1;
	if (dir || is_mask(&in->attrmask, &nfs4_stat_mask))
		get_stat(&v, dir, out);
	else
		known = get_masked(&v, &in->attrmask, out);
	return known && !v.bad && v.left == 0;
}

bool nfs4_has_required(const struct nfs4_attrs *a)
{
	return a->got.len && (a->got.words[0] & REQUIRED_W0) == REQUIRED_W0;
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
	uint32_t mode = in->mode & 07777, umask = in->umask & 0777;
	bool with_umask = in->valid & NFS_SET_UMASK;
	uint64_t size = in->size;
	bool_t ok = TRUE;

	if (in->valid & NFS_SET_SIZE) {
		bitmap4_set(mask, FATTR4_SIZE);
		ok = ok && xdr_uint64_t(x, &size);
	}
	if ((in->valid & NFS_SET_MODE) && !with_umask) {
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
	if (with_umask) {
		bitmap4_set(mask, FATTR4_MODE_UMASK);
		ok = ok && xdr_uint32_t(x, &mode) && xdr_uint32_t(x, &umask);
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
