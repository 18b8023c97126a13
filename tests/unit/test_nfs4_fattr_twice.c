/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attributes of version 4, decoded twice (decode_twice.h). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "decode_twice.h"
#include "nfs/nfs4/nfs4_compound.h"

/* libtirpc's, which xdr_msg.h has macros for. */
#define WORD(x, v)  (xdr_uint32_t)(x, v)
#define DWORD(x, v) (xdr_uint64_t)(x, v)

static void put_owner(void)
{
	static const char *const some[] = { "0", "1000", "4294967295", "4294967296", "99999999999", "",
					    "root@here", "7x", "-1" };
	char text[1028];

	memset(text, 'x', sizeof(text));
	if (twice_roll(8))
		twice_text((uint32_t)strlen(strcpy(text, some[twice_roll(9)])), text);
	else
		twice_text(1020 + twice_roll(8), text);
}

/* Words of the value; 0: a counted one. */
static const struct { unsigned number, n; } attrs[] = {
	{ FATTR4_TYPE, 1 }, { FATTR4_CHANGE, 2 }, { FATTR4_SIZE, 2 }, { FATTR4_FSID, 4 },
	{ FATTR4_LEASE_TIME, 1 }, { FATTR4_RDATTR_ERROR, 1 }, { FATTR4_FILEHANDLE, 0 },
	{ FATTR4_FILEID, 2 }, { FATTR4_FILES_AVAIL, 2 }, { FATTR4_FILES_FREE, 2 },
	{ FATTR4_FILES_TOTAL, 2 }, { FATTR4_MAXFILESIZE, 2 }, { FATTR4_MAXNAME, 1 },
	{ FATTR4_MAXREAD, 2 }, { FATTR4_MAXWRITE, 2 }, { FATTR4_MODE, 1 }, { FATTR4_NUMLINKS, 1 },
	{ FATTR4_OWNER, 0 }, { FATTR4_OWNER_GROUP, 0 }, { FATTR4_RAWDEV, 2 },
	{ FATTR4_SPACE_AVAIL, 2 }, { FATTR4_SPACE_FREE, 2 }, { FATTR4_SPACE_TOTAL, 2 },
	{ FATTR4_SPACE_USED, 2 }, { FATTR4_TIME_ACCESS, 3 }, { FATTR4_TIME_CREATE, 3 },
	{ FATTR4_TIME_METADATA, 3 }, { FATTR4_TIME_MODIFY, 3 },
};
#define N_ATTRS (sizeof(attrs) / sizeof(attrs[0]))

static void put_value(unsigned i)
{
	char handle[132] = { 1 };

	if (attrs[i].number == FATTR4_TYPE)
		twice_put(twice_roll(50) ? 1 + twice_roll(8) : twice_word());
	else if (attrs[i].number == FATTR4_FILEHANDLE)
		twice_text(twice_roll(20) ? twice_roll(129) : 128 + twice_roll(4), handle);
	else if (!attrs[i].n)
		put_owner();
	for (unsigned n = attrs[i].number == FATTR4_TYPE ? 0 : attrs[i].n; n; n--)
		twice_put(twice_word());
}

static bitmap4 some_mask(void)
{
	bitmap4 m = nfs4_stat_mask;

	if (twice_roll(2))
		return m;
	for (unsigned flips = twice_roll(12); flips; flips--) {
		unsigned n = attrs[twice_roll(N_ATTRS)].number;

		m.words[n / 32] ^= 1u << (n % 32);
	}
	return m;
}

/* A fattr4. Returns its length. */
static uint32_t some_fattr(void)
{
	bitmap4 m = some_mask();
	uint32_t at, end;

	twice_new();
	twice_put(2);
	twice_put(m.words[0]);
	twice_put(m.words[1]);
	at = xdr_getpos(&twice_out);
	twice_put(0);
	for (unsigned i = 0; i < N_ATTRS; i++)
		if (bitmap4_isset(&m, attrs[i].number))
			put_value(i);
	end = xdr_getpos(&twice_out);
	cr_assert(xdr_setpos(&twice_out, at));
	twice_put(end - at - 4);
	return end;
}

static bool ref_counted(XDR *x, struct nfs_ref *r, uint32_t max)
{
	return WORD(x, &r->len) && r->len <= max &&
	       (r->data = (const char *)x->x_ops->x_inline(x, (r->len + 3) & ~3u)) != NULL;
}

static bool ref_owner(XDR *x, uint32_t *id, struct nfs_ref *name)
{
	struct nfs_ref r;
	char text[12] = "";
	unsigned long long n;

	if (!ref_counted(x, &r, 1024))
		return false;
	if (r.len && r.len <= 10)
		memcpy(text, r.data, r.len);
	n = strtoull(text, NULL, 10);
	if (r.len && strspn(text, "0123456789") == r.len && n <= UINT32_MAX)
		*id = (uint32_t)n;
	else
		*name = r;
	return true;
}

static bool ref_time(XDR *x, struct timespec *t)
{
	nfstime4 v;

	if (!xdr_nfstime4(x, &v))
		return false;
	*t = (struct timespec){ v.seconds, v.nseconds < 1000000000 ? v.nseconds : 0 };
	return true;
}

static bool ref_type(XDR *x, struct nfs_attr *a)
{
	static const mode_t of[] = { 0, S_IFREG, S_IFDIR, S_IFBLK, S_IFCHR, S_IFLNK, S_IFSOCK, S_IFIFO,
				     S_IFDIR };
	nfs_ftype4 type;

	if (!xdr_nfs_ftype4(x, &type) || (unsigned)type > 8 || !of[type])
		return false;
	a->mode |= of[type];
	return true;
}

static bool ref_one(XDR *x, unsigned n, struct nfs4_attrs *a)
{
	specdata4 dev;
	uint32_t mode, xattrs;
	fsid4 fsid;

	switch (n) {
	case FATTR4_TYPE: return ref_type(x, &a->attr);
	case FATTR4_CHANGE: return DWORD(x, &a->attr.change);
	case FATTR4_SIZE: return DWORD(x, &a->attr.size);
	case FATTR4_FSID:
		if (!xdr_fsid4(x, &fsid))
			return false;
		a->attr.fsid_major = fsid.major;
		a->attr.fsid_minor = fsid.minor;
		return true;
	case FATTR4_LEASE_TIME: return WORD(x, &a->lease_s);
	case FATTR4_RDATTR_ERROR: return WORD(x, &a->rdattr_error);
	case FATTR4_FILEHANDLE: return ref_counted(x, &a->fh, 128);
	case FATTR4_FILEID: return DWORD(x, &a->attr.fileid);
	case FATTR4_FILES_AVAIL: return DWORD(x, &a->fs.afiles);
	case FATTR4_FILES_FREE: return DWORD(x, &a->fs.ffiles);
	case FATTR4_FILES_TOTAL: return DWORD(x, &a->fs.tfiles);
	case FATTR4_MAXFILESIZE: return DWORD(x, &a->maxfilesize);
	case FATTR4_MAXNAME: return WORD(x, &a->maxname);
	case FATTR4_MAXREAD: return DWORD(x, &a->maxread);
	case FATTR4_MAXWRITE: return DWORD(x, &a->maxwrite);
	case FATTR4_MODE:
		if (!WORD(x, &mode))
			return false;
		a->attr.mode |= mode & 07777;
		return true;
	case FATTR4_NUMLINKS: return WORD(x, &a->attr.nlink);
	case FATTR4_OWNER: return ref_owner(x, &a->attr.uid, &a->owner);
	case FATTR4_OWNER_GROUP: return ref_owner(x, &a->attr.gid, &a->group);
	case FATTR4_RAWDEV:
		if (!xdr_specdata4(x, &dev))
			return false;
		a->attr.rdev_major = dev.specdata1;
		a->attr.rdev_minor = dev.specdata2;
		return true;
	case FATTR4_SPACE_AVAIL: return DWORD(x, &a->fs.abytes);
	case FATTR4_SPACE_FREE: return DWORD(x, &a->fs.fbytes);
	case FATTR4_SPACE_TOTAL: return DWORD(x, &a->fs.tbytes);
	case FATTR4_SPACE_USED: return DWORD(x, &a->attr.used);
	case FATTR4_TIME_ACCESS: return ref_time(x, &a->attr.atime);
	case FATTR4_TIME_CREATE: return ref_time(x, &a->btime);
	case FATTR4_TIME_METADATA: return ref_time(x, &a->attr.ctime);
	case FATTR4_TIME_MODIFY: return ref_time(x, &a->attr.mtime);
	case FATTR4_SUPPORTED_ATTRS: return xdr_bitmap4(x, &a->supported);
	case FATTR4_SUPPATTR_EXCLCREAT: return xdr_bitmap4(x, &a->exclusive);
	case FATTR4_XATTR_SUPPORT:
		if (!WORD(x, &xattrs))
			return false;
		a->xattrs = xattrs;
		return true;
	default: return false;
	}
}

static bool ref_fattr(struct nfs4_attrs *a, const fattr4 *in)
{
	XDR x;

	memset(a, 0, sizeof(*a));
	a->got = in->attrmask;
	a->attr.uid = a->attr.gid = NFS_NOBODY;
	a->attr.nlink = 1;
	xdrmem_create(&x, (char *)(uintptr_t)in->attr_vals.data, in->attr_vals.len, XDR_DECODE);
	for (unsigned n = 0; n < 256; n++)
		if (bitmap4_isset(&in->attrmask, n) && !ref_one(&x, n, a))
			return false;
	return xdr_getpos(&x) == in->attr_vals.len;
}

static bool same_ref(const struct nfs_ref *a, const struct nfs_ref *b)
{
	return a->len == b->len && a->data == b->data;
}

static bool same_bitmap(const bitmap4 *a, const bitmap4 *b)
{
	return a->len == b->len && !memcmp(a->words, b->words, a->len * sizeof(a->words[0]));
}

static void same_attrs(const struct nfs4_attrs *a, const struct nfs4_attrs *b)
{
	/* Both were zeroed, so their padding is the same. */
	cr_assert_arr_eq((const char *)&a->attr, (const char *)&b->attr, sizeof(a->attr));
	cr_assert_arr_eq((const char *)&a->fs, (const char *)&b->fs, sizeof(a->fs));
	cr_assert_arr_eq((const char *)&a->got, (const char *)&b->got, sizeof(a->got));
	cr_assert(same_ref(&a->owner, &b->owner) && same_ref(&a->group, &b->group));
	cr_assert(same_ref(&a->fh, &b->fh));
	cr_assert(same_bitmap(&a->supported, &b->supported) && same_bitmap(&a->exclusive, &b->exclusive));
	cr_assert_eq(a->xattrs, b->xattrs);
	cr_assert(a->rdattr_error == b->rdattr_error && a->lease_s == b->lease_s && a->maxname == b->maxname);
	cr_assert(a->maxread == b->maxread && a->maxwrite == b->maxwrite && a->maxfilesize == b->maxfilesize);
}

/* Our stream, and libtirpc's. In memory that ends there, for AddressSanitizer. */
static void same_fattr(uint32_t len, unsigned taken[2])
{
	_Alignas(8) char *copy = malloc(len ? len : 1);
	struct nfs4_attrs ours, theirs;
	bool ok;
	XDR a, b;
	fattr4 one, two;

	memcpy(copy, twice_wire, len);
	xdr_msg_create(&a, copy, len, XDR_DECODE);
	xdrmem_create(&b, copy, len, XDR_DECODE);
	ok = xdr_fattr4(&b, &two);
	cr_assert_eq(xdr_fattr4(&a, &one), ok);
	if (ok) {
		cr_assert(xdr_getpos(&a) == xdr_getpos(&b) && one.attrmask.len == two.attrmask.len);
		cr_assert_arr_eq(one.attrmask.words, two.attrmask.words, sizeof(one.attrmask.words));
		cr_assert(one.attr_vals.len == two.attr_vals.len && one.attr_vals.data == two.attr_vals.data);
		ok = ref_fattr(&theirs, &two);
		cr_assert_eq(nfs4_get_fattr(&ours, &one), ok);
		if (ok)
			same_attrs(&ours, &theirs);
		taken[ok]++;
	}
	free(copy);
}

Test(nfs4_fattr_twice, random_ones)
{
	unsigned taken[2] = { 0 };

	twice_seed(1);
	for (unsigned i = 0; i < TWICE_ROUNDS; i++)
		same_fattr(twice_damage(some_fattr(), 12), taken);
	/* Or this looks at one kind only. */
	cr_assert(taken[0] > TWICE_ROUNDS / 20 && taken[1] > TWICE_ROUNDS / 20, "%u, %u", taken[0], taken[1]);
}
