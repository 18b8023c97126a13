/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The operations of version 3 against messages written by hand from RFC 1813:
 * what is sent, what is made of a reply, and what is made of a bad one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nfs/nfs3/nfs3_impl.h"
#include "op_play.h"

static struct nfs_client cl = { .name_max = 255 };
static struct nfs_server server = { .client = &cl, .version = &nfs_v3 };
static struct nfs_lane lane = { .client = &cl, .target = { .server = &server, .lane = &lane } };
static const struct nfs_fh fh = { .len = 5, .data = "fhand" };
static const struct nfs_fh fh2 = { .len = 4, .data = "dir2" };
static struct nfs3_fsinfo info;
static char sink[4096];

static const struct nfs_opdef *def_of(enum nfs_op op)
{
	return nfs_v3.ops[op];
}

static void free_open(struct nfs_call *c)
{
	free(c->open);
	c->open = NULL;
}

static const struct play_hooks hooks = { .after = free_open };

/* ---- entries of a directory, as the callback gets them ---- */

static struct {
	unsigned n, stop_after;
	struct nfs_dirent e[8];
	char name[8][16];
	struct nfs_attr attr[8];
	struct nfs_fh fh[8];
} seen;

static bool on_entry(struct nfs_call *c, const struct nfs_dirent *e)
{
	unsigned i = seen.n++;

	(void)c;
	if (i < 8) {
		seen.e[i] = *e;
		memset(seen.name[i], 0, 16);
		memcpy(seen.name[i], e->name, e->namelen < 15 ? e->namelen : 15);
		if (e->attr)
			seen.attr[i] = *e->attr;
		if (e->fh)
			seen.fh[i] = *e->fh;
	}
	return seen.n != seen.stop_after;
}

/* ---- calls ---- */

static struct nfs_call call(enum nfs_op op)
{
	struct nfs_call c = {
		.op = op, .lane = &lane, .target = &lane.target, .args.fh = &fh, .args.fh2 = &fh2, .args.name = "name", .args.name2 = "other",
		.args.sattr = { .valid = NFS_SET_MODE, .mode = 0100640 },
	};

	memset(&seen, 0, sizeof(seen));
	switch ((int)op) {
	case NFS_OP_READ:
		c.args.io.offset = 0x123456789a;
		c.args.io.count = 12;
		c.args.io.sink[0] = (struct rr_iov){ .mem = sink, .len = sizeof(sink) };
		break;
	case NFS_OP_COMMIT:
		c.args.io.offset = 0x123456789a;
		c.args.io.count = 1023;
		break;
	case NFS_OP_WRITE:
		c.args.io.offset = 0x123456789a;
		c.args.io.ndata = 2;
		c.args.io.data[0].len = 1000;
		c.args.io.data[1].len = 23;
		break;
	case NFS_OP_ACCESS:
		c.args.access.mask = R_OK | W_OK | X_OK;
		break;
	case NFS_OP_SYMLINK:
		c.args.sattr.valid = 0;
		c.args.mk.target = "../to";
		break;
	case NFS_OP_MKNOD:
		c.args.mk.type = S_IFBLK;
		c.args.mk.major = 8;
		c.args.mk.minor = 1;
		break;
	case NFS_OP_READDIR:
		c.args.dir.cookie = 0x1122334455667788;
		memcpy(&c.args.dir.verf, "verifier", 8);
		c.args.dir.count = 8192;
		c.args.dir.entry = on_entry;
		break;
	case NFS3_OP_FSINFO:
	case NFS3_OP_PATHCONF:
		c.args.version = &info;
		break;
	default:
		break;
	}
	return c;
}

static struct nfs_call call_plus(void)
{
	struct nfs_call c = call(NFS_OP_READDIR);

	c.args.dir.plus = true;
	return c;
}

static struct nfs_call call_create(int flags)
{
	struct nfs_call c = call(NFS_OP_CREATE);

	c.args.file.flags = flags;
	c.args.file.verifier = 0x0101010101010101;        /* an exclusive create's verifier */
	return c;
}

/* ---- pieces of messages ---- */

static void m_fh(void)
{
	m_opaque("fhand", 5);
}

static void m_dirop(void)
{
	m_fh();
	m_str("name");
}

/* sattr3 with a mode, and nothing else. */
static void m_mode_only(void)
{
	M(1, 0640, 0, 0, 0, 0, 0);
}

static void m_attr(uint32_t type)
{
	M(type, 0644, 2, 1000, 100, 1, 0x10, 0, 0x2000, 8, 1, 0, 77, 5, 6,
	  100, 1, 200, 2, 0xffffffff, 3);
}

static void m_post_attr(void)
{
	M(1);
	m_attr(1);
}

static void m_wcc(void)
{
	M(1, 0, 10, 1, 1, 2, 2);
	m_post_attr();
}

static void expect_attr(const struct nfs_attr *a)
{
	cr_assert_eq(a->mode, S_IFREG | 0644);
	cr_assert(a->nlink == 2 && a->uid == 1000 && a->gid == 100);
	cr_assert_eq(a->size, 0x100000010);
	cr_assert_eq(a->used, 0x2000);
	cr_assert(a->rdev_major == 8 && a->rdev_minor == 1);
	cr_assert(a->fsid_major == 77 && a->fileid == 0x500000006);
	cr_assert(a->atime.tv_sec == 100 && a->atime.tv_nsec == 1);
	cr_assert(a->mtime.tv_sec == 200 && a->mtime.tv_nsec == 2);
	cr_assert(a->ctime.tv_sec == 0xffffffff && a->ctime.tv_nsec == 3, "2106: RFC 1813's seconds have no sign");
}

/* ---- arguments ---- */

Test(nfs3, arguments)
{
	static const struct { enum nfs_op op; uint32_t proc; } handle_only[] = {
		{ NFS_OP_GETATTR, 1 }, { NFS_OP_READLINK, 5 }, { NFS_OP_STATFS, 18 },
		{ NFS3_OP_FSINFO, 19 }, { NFS3_OP_PATHCONF, 20 },
	};
	static const struct { enum nfs_op op; uint32_t proc; } names[] = {
		{ NFS_OP_LOOKUP, 3 }, { NFS_OP_REMOVE, 12 }, { NFS_OP_RMDIR, 13 },
	};
	struct nfs_call c = call(NFS_OP_NULL);

	m_new();
	play_args(&c, def_of(NFS_OP_NULL));
	for (unsigned i = 0; i < sizeof(handle_only) / sizeof(handle_only[0]); i++) {
		c = call(handle_only[i].op);
		m_new();
		m_fh();
		play_args(&c, def_of(c.op));
		cr_assert_eq(def_of(c.op)->proc, handle_only[i].proc);
	}
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct nfs_opdef *d = def_of(names[i].op);

		c = call(names[i].op);
		m_new();
		m_dirop();
		play_args(&c, d);
		cr_assert_eq(d->proc_of ? d->proc_of(&c) : d->proc, names[i].proc);
	}
}

#define ARGS(call_, proc_) do { \
	struct nfs_call c_ = (call_); \
	const struct nfs_opdef *d_ = def_of(c_.op); \
	play_args(&c_, d_); \
	cr_assert_eq(d_->proc_of ? d_->proc_of(&c_) : d_->proc, (uint32_t)(proc_)); \
} while (0)

Test(nfs3, arguments_of_the_rest)
{
	m_new();
	m_fh();
	m_str("..");
	ARGS(call(NFS_OP_LOOKUPP), 3);

	m_new();
	m_fh();
	m_mode_only();
	M(0);                           /* no guard */
	ARGS(call(NFS_OP_SETATTR), 2);

	m_new();
	m_fh();
	M(0x1 | 0x4 | 0x8 | 0x20 | 0x2);
	ARGS(call(NFS_OP_ACCESS), 4);

	m_new();
	m_fh();
	M(0x12, 0x3456789a, 12);
	ARGS(call(NFS_OP_READ), 6);

	m_new();
	m_fh();
	M(0x12, 0x3456789a, 1023, 2, 1023);     /* FILE_SYNC; the data goes elsewhere */
	ARGS(call(NFS_OP_WRITE), 7);

	m_new();
	m_fh();
	M(0x12, 0x3456789a, 1023);
	ARGS(call(NFS_OP_COMMIT), 21);

	m_new();
	m_fh();
	M(0x1 | 0x4 | 0x8 | 0x20);
	ARGS(call(NFS_OP_OPEN), 4);

	m_new();
	m_dirop();
	m_mode_only();
	ARGS(call(NFS_OP_MKDIR), 9);

	m_new();
	m_dirop();
	M(0, 0, 0, 0, 0, 0, 5);         /* the transport adds the text */
	ARGS(call(NFS_OP_SYMLINK), 10);

	m_new();
	m_dirop();
	M(3);
	m_mode_only();
	M(8, 1);
	ARGS(call(NFS_OP_MKNOD), 11);

	m_new();
	m_dirop();
	m_opaque("dir2", 4);
	m_str("other");
	ARGS(call(NFS_OP_RENAME), 14);

	m_new();
	m_fh();
	m_opaque("dir2", 4);
	m_str("name");
	ARGS(call(NFS_OP_LINK), 15);

	m_new();
	m_fh();
	M(0x11223344, 0x55667788);
	M(0x76657269, 0x66696572, 8192);        /* "verifier" */
	ARGS(call(NFS_OP_READDIR), 16);

	m_new();
	m_fh();
	M(0x11223344, 0x55667788);
	M(0x76657269, 0x66696572, 8192, 8192);
	ARGS(call_plus(), 17);
}

Test(nfs3, arguments_of_create)
{
	m_new();
	m_dirop();
	M(0);                           /* UNCHECKED */
	m_mode_only();
	ARGS(call_create(O_RDWR), 8);

	m_new();
	m_dirop();
	M(1);                           /* O_TRUNC: GUARDED */
	m_mode_only();
	ARGS(call_create(O_RDWR | O_TRUNC), 8);

	m_new();
	m_dirop();
	M(2, 0x01010101, 0x01010101);   /* EXCLUSIVE: a verifier, and no attributes */
	ARGS(call_create(O_RDWR | O_EXCL), 8);
}

/* A verifier is picked once: all sendings of one create carry the same. */
Test(nfs3, exclusive_verifier_stays)
{
	struct nfs_call c = call_create(O_EXCL);
	uint64_t verf;
	char buf[256];
	XDR x;

	c.args.file.verifier = 0;
	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert(def_of(c.op)->encode(&c, &x));
	verf = c.args.file.verifier;
	cr_assert_neq(verf, 0);
	cr_assert(def_of(c.op)->encode(&c, &x));
	cr_assert_eq(c.args.file.verifier, verf);
}

Test(nfs3, arguments_of_mknod_types)
{
	static const struct { mode_t type; uint32_t wire; bool dev; } t[] = {
		{ S_IFBLK, 3, true }, { S_IFCHR, 4, true }, { S_IFSOCK, 6, false }, { S_IFIFO, 7, false },
	};

	for (unsigned i = 0; i < 4; i++) {
		struct nfs_call c = call(NFS_OP_MKNOD);

		c.args.mk.type = t[i].type;
		m_new();
		m_dirop();
		M(t[i].wire);
		m_mode_only();
		if (t[i].dev)
			M(8, 1);
		ARGS(c, 11);
	}
}

Test(nfs3, what_setattr_sets)
{
	static const struct { unsigned valid, n; uint32_t w[12]; } t[] = {
		{ 0, 6, { 0, 0, 0, 0, 0, 0 } },
		{ NFS_SET_MODE, 7, { 1, 07640, 0, 0, 0, 0, 0 } },
		{ NFS_SET_UID | NFS_SET_GID, 8, { 0, 1, 3, 1, 4, 0, 0, 0 } },
		{ NFS_SET_SIZE, 8, { 0, 0, 0, 1, 5, 6, 0, 0 } },
		{ NFS_SET_ATIME_NOW | NFS_SET_MTIME_NOW, 6, { 0, 0, 0, 0, 1, 1 } },
		{ NFS_SET_ATIME | NFS_SET_MTIME, 10, { 0, 0, 0, 0, 2, 7, 8, 2, 0xffffffff, 0 } },
		/* "Now" wins: the caller gave a time only as a place holder. */
		{ NFS_SET_MTIME | NFS_SET_MTIME_NOW, 6, { 0, 0, 0, 0, 0, 1 } },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_SETATTR);

		c.args.sattr = (struct nfs_sattr){
			.valid = t[i].valid, .mode = 0107640, .uid = 3, .gid = 4,
			.size = 0x500000006, .atime = { 7, 8 }, .mtime = { 1ll << 32, 9 },
		};
		m_new();
		m_fh();
		m_words(t[i].w, t[i].n);
		M(0);
		ARGS(c, 2);
	}
}

Test(nfs3, write_data_position)
{
	struct nfs_call c = call(NFS_OP_WRITE);
	char buf[256];
	XDR x;

	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert(def_of(c.op)->encode(&c, &x));
	cr_assert_eq(c.eng.rr.data_pos, 12 + 8 + 4 + 4 + 4, "right behind its length");
}

Test(nfs3, link_text_position)
{
	struct nfs_call c = call(NFS_OP_SYMLINK);
	char buf[256];
	XDR x;

	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert(def_of(c.op)->encode(&c, &x));
	cr_assert_eq(c.eng.rr.data_pos, xdr_getpos(&x), "right behind its length, and nothing follows");
}

/* A name that is too long, or a handle: nothing is sent. */
Test(nfs3, arguments_out_of_bounds)
{
	struct nfs_fh big = { .len = 65 };
	static char name[1100];
	struct nfs_call c = call(NFS_OP_GETATTR);
	char buf[4096];
	XDR x;

	c.args.fh = &big;
	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert_not(def_of(c.op)->encode(&c, &x));
	big.len = 64;
	cr_assert(def_of(c.op)->encode(&c, &x));
	memset(name, 'n', sizeof(name) - 1);
	c = call(NFS_OP_LOOKUP);
	c.args.name = name;
	cr_assert_not(def_of(c.op)->encode(&c, &x));
}

/* ---- replies: errors ---- */

/* Words of a failed reply behind its status, all "nothing follows". */
static const struct { enum nfs_op op; unsigned fail_words; } all_ops[] = {
	{ NFS_OP_GETATTR, 0 }, { NFS_OP_SETATTR, 2 }, { NFS_OP_LOOKUP, 1 }, { NFS_OP_LOOKUPP, 1 },
	{ NFS_OP_ACCESS, 1 }, { NFS_OP_READLINK, 1 }, { NFS_OP_READ, 1 }, { NFS_OP_WRITE, 2 },
	{ NFS_OP_COMMIT, 2 }, { NFS_OP_OPEN, 1 }, { NFS_OP_CREATE, 2 }, { NFS_OP_MKDIR, 2 },
	{ NFS_OP_SYMLINK, 2 }, { NFS_OP_MKNOD, 2 }, { NFS_OP_REMOVE, 2 }, { NFS_OP_RMDIR, 2 },
	{ NFS_OP_RENAME, 4 }, { NFS_OP_LINK, 3 }, { NFS_OP_READDIR, 1 }, { NFS_OP_STATFS, 1 },
	{ NFS3_OP_FSINFO, 1 }, { NFS3_OP_PATHCONF, 1 },
};
#define N_OPS (sizeof(all_ops) / sizeof(all_ops[0]))

Test(nfs3, error_statuses)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 1, -EPERM }, { 2, -ENOENT }, { 5, -EIO }, { 6, -ENXIO }, { 13, -EACCES },
		{ 17, -EEXIST }, { 18, -EXDEV }, { 19, -ENODEV }, { 20, -ENOTDIR }, { 21, -EISDIR },
		{ 22, -EINVAL }, { 27, -EFBIG }, { 28, -ENOSPC }, { 30, -EROFS }, { 31, -EMLINK },
		{ 63, -ENAMETOOLONG }, { 66, -ENOTEMPTY }, { 69, -EDQUOT }, { 70, -ESTALE },
		{ 71, -EREMOTE }, { 10001, -ESTALE }, { 10002, -EAGAIN }, { 10003, -NFS_ECOOKIE },
		{ 10004, -EOPNOTSUPP }, { 10005, -EINVAL }, { 10006, -EIO }, { 10007, -EINVAL },
		{ 10008, NFS_LATER },
		/* Statuses of no version of ours must not look like outcomes. */
		{ 3, -EIO }, { 4, -EIO }, { 99, -EIO }, { 10009, -EIO }, { 0x80000000, -EIO },
		{ 0xffffffff, -EIO },
	};

	for (unsigned o = 0; o < N_OPS; o++) {
		for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			struct nfs_call c = call(all_ops[o].op);
			int rc;

			m_new();
			M(t[i].status);
			for (unsigned w = 0; w < all_ops[o].fail_words; w++)
				M(0);
			rc = play_cut(&c, def_of(c.op), m_len());
			cr_assert_eq(rc, t[i].rc, "%s, status %u: %d", def_of(c.op)->name,
				     t[i].status, rc);
			cr_assert(!c.res.has_attr && !c.open && seen.n == 0);
		}
		struct nfs_call c = call(all_ops[o].op);

		play_all_cuts(&c, def_of(c.op), &hooks);
	}
}

/* ---- replies: results ---- */

static void good_dir(bool plus, bool bare)
{
	static const char *const names[] = { ".", "..", "a", "bcdef" };

	M(0);
	if (bare)
		M(0);
	else
		m_post_attr();
	M(0x6e657776, 0x65726621);      /* "newverf!" */
	for (uint32_t i = 0; i < 4; i++) {
		M(1, 0, 100 + i);
		m_str(names[i]);
		m_u64(0xff00000000ull + i);
		if (plus && bare) {
			M(0, 0);
		} else if (plus) {
			m_post_attr();
			M(1);
			m_opaque("h00", 3);
		}
	}
	M(0, 1);
}

/* The best reply of each operation: all that a server may send is there. */
static void good_reply(const struct nfs_call *c)
{
	m_new();
	switch ((int)c->op) {
	case NFS_OP_GETATTR:
		M(0);
		m_attr(1);
		break;
	case NFS_OP_SETATTR:
	case NFS_OP_REMOVE:
	case NFS_OP_RMDIR:
		M(0);
		m_wcc();
		break;
	case NFS_OP_LOOKUP:
	case NFS_OP_LOOKUPP:
		M(0);
		m_opaque("12345678901234567890123456789012345678901234567890123456789012345", 64);
		m_post_attr();
		m_post_attr();
		break;
	case NFS_OP_ACCESS:
	case NFS_OP_OPEN:
		M(0);
		m_post_attr();
		M(0x3f);
		break;
	case NFS_OP_READLINK:
		M(0);
		m_post_attr();
		m_str("over/there");
		break;
	case NFS_OP_READ:
		M(0);
		m_post_attr();
		M(11, 1);
		m_opaque("hello world", 11);
		break;
	case NFS_OP_WRITE:
		M(0);
		m_wcc();
		M(1023, 2, 0x01020304, 0x05060708);
		break;
	case NFS_OP_COMMIT:
		M(0);
		m_wcc();
		M(0x01020304, 0x05060708);
		break;
	case NFS_OP_CREATE:
	case NFS_OP_MKDIR:
	case NFS_OP_SYMLINK:
	case NFS_OP_MKNOD:
		M(0, 1);
		m_opaque("new handle", 10);
		m_post_attr();
		m_wcc();
		break;
	case NFS_OP_RENAME:
		M(0);
		m_wcc();
		m_wcc();
		break;
	case NFS_OP_LINK:
		M(0);
		m_post_attr();
		m_wcc();
		break;
	case NFS_OP_READDIR:
		good_dir(c->args.dir.plus, false);
		break;
	case NFS_OP_STATFS:
		M(0);
		m_post_attr();
		M(0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 6, 99);
		break;
	case NFS3_OP_FSINFO:
		M(0);
		m_post_attr();
		M(65536, 1, 2, 32768, 3, 4, 8192, 7, 0, 0, 1, 0x1b);
		break;
	case NFS3_OP_PATHCONF:
		M(0);
		m_post_attr();
		M(32000, 143, 1, 1, 0, 1);
		break;
	default:
		break;
	}
}

Test(nfs3, good_replies)
{
	for (unsigned o = 0; o < N_OPS; o++) {
		struct nfs_call c = call(all_ops[o].op), pristine = c;
		const struct nfs_opdef *d = def_of(c.op);

		good_reply(&c);
		cr_assert_eq(play_reply(&c, d), 0, "%s", d->name);
		free_open(&c);
		play_all_cuts(&pristine, d, &hooks);
		play_twists(&pristine, d, &hooks);
	}
}

static struct nfs_call run(enum nfs_op op)
{
	struct nfs_call c = call(op);

	good_reply(&c);
	cr_assert_eq(play_reply(&c, def_of(op)), 0);
	free_open(&c);
	return c;
}

Test(nfs3, results)
{
	static const enum nfs_op with_attr[] = {
		NFS_OP_GETATTR, NFS_OP_SETATTR, NFS_OP_LOOKUP, NFS_OP_ACCESS, NFS_OP_READ,
		NFS_OP_WRITE, NFS_OP_OPEN, NFS_OP_CREATE, NFS_OP_MKDIR, NFS_OP_LINK,
	};
	struct nfs_call c;

	for (unsigned i = 0; i < sizeof(with_attr) / sizeof(with_attr[0]); i++) {
		c = run(with_attr[i]);
		cr_assert(c.res.has_attr, "operation %u", with_attr[i]);
		expect_attr(&c.res.attr);
	}
	c = run(NFS_OP_LOOKUP);
	cr_assert(c.res.fh.len == 64 && !memcmp(c.res.fh.data, "1234567890", 10));
	c = run(NFS_OP_MKDIR);
	cr_assert(c.res.fh.len == 10 && !memcmp(c.res.fh.data, "new handle", 10));
	c = run(NFS_OP_READLINK);
	cr_assert(c.res.link.len == 10 && !memcmp(c.res.link.target, "over/there", 10));
	c = run(NFS_OP_READ);
	cr_assert(c.res.io.len == 11 && c.res.io.eof && !memcmp(c.res.io.ptr, "hello world", 11));
	c = run(NFS_OP_WRITE);
	cr_assert(c.res.io.len == 1023 && c.res.io.stable && !memcmp(&c.res.io.verf, "\1\2\3\4\5\6\7\10", 8));
	c = run(NFS_OP_COMMIT);
	cr_assert(!memcmp(&c.res.io.verf, "\1\2\3\4\5\6\7\10", 8));
	c = run(NFS_OP_STATFS);
	cr_assert(c.res.statfs.tbytes == 1 && c.res.statfs.fbytes == 2 && c.res.statfs.abytes == 3 &&
		  c.res.statfs.tfiles == 4 && c.res.statfs.ffiles == 5 && c.res.statfs.afiles == 0x100000006 &&
		  c.res.statfs.name_max == 255);
	run(NFS3_OP_FSINFO);
	run(NFS3_OP_PATHCONF);
	cr_assert(info.rtmax == 65536 && info.wtmax == 32768 && info.dtpref == 8192 &&
		  info.max_file_size == 0x700000000 && info.name_max == 143);
}

/* What directories are after a change (wcc_data): for whom it was changed. */
Test(nfs3, directories_after_a_change)
{
	static const struct { enum nfs_op op; bool dir[2]; } t[] = {
		{ NFS_OP_CREATE, { true, false } }, { NFS_OP_MKDIR, { true, false } },
		{ NFS_OP_SYMLINK, { true, false } }, { NFS_OP_MKNOD, { true, false } },
		{ NFS_OP_REMOVE, { true, false } }, { NFS_OP_RMDIR, { true, false } },
		{ NFS_OP_RENAME, { true, true } }, { NFS_OP_LINK, { false, true } },
		{ NFS_OP_SETATTR, { false, false } }, { NFS_OP_WRITE, { false, false } },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = run(t[i].op);

		for (unsigned k = 0; k < 2; k++) {
			cr_assert_eq(c.res.has_dir_attr[k], t[i].dir[k], "operation %u", t[i].op);
			if (t[i].dir[k])
				expect_attr(&c.res.dir_attr[k]);
		}
	}
}

Test(nfs3, access_bits)
{
	static const struct { int ask; uint32_t got; int mask; } t[] = {
		{ R_OK | W_OK | X_OK, 0x3f, R_OK | W_OK | X_OK },
		{ R_OK | W_OK | X_OK, 0, 0 },
		{ R_OK, 0x3f, R_OK },
		{ R_OK | W_OK | X_OK, 0x01, R_OK },
		{ R_OK | W_OK | X_OK, 0x04, W_OK }, { R_OK | W_OK | X_OK, 0x08, W_OK },
		{ R_OK | W_OK | X_OK, 0x20, X_OK }, { R_OK | W_OK | X_OK, 0x02, X_OK },
		{ R_OK | W_OK | X_OK, 0x10, 0 },        /* DELETE */
		{ R_OK | W_OK | X_OK, 0xffffffc0, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_ACCESS);

		c.args.access.mask = t[i].ask;
		m_new();
		M(0, 0, t[i].got);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(c.res.access.mask, t[i].mask, "row %u", i);
	}
}

Test(nfs3, open_goes_by_access)
{
	enum { EXEC = -1 };
	static const struct { int flags; uint32_t got; int rc; } t[] = {
		{ O_RDONLY, 0x01, 0 }, { O_RDONLY, 0x20, -EACCES }, { O_RDONLY, 0x0c, -EACCES },
		{ O_WRONLY, 0x04, 0 }, { O_WRONLY, 0x08, 0 }, { O_WRONLY, 0x01, -EACCES },
		{ O_RDWR, 0x05, 0 }, { O_RDWR, 0x01, -EACCES }, { O_RDWR, 0x0c, -EACCES },
		{ O_RDONLY, 0, -EACCES }, { O_RDWR, 0x2c, -EACCES },
		/* to be run */
		{ EXEC, 0x20, 0 }, { EXEC, 0x21, 0 }, { EXEC, 0x01, -EACCES }, { EXEC, 0, -EACCES },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_OPEN);

		c.args.file.exec = t[i].flags == EXEC;
		c.args.file.flags = c.args.file.exec ? O_RDONLY : t[i].flags;
		m_new();
		M(0);
		m_post_attr();
		M(t[i].got);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		cr_assert_eq(c.open != NULL, t[i].rc == 0);
		free_open(&c);
	}
}

/* ---- a file by its names, if they are still its names ---- */

static struct nfs_call call_named(enum nfs_op op, int flags)
{
	struct nfs_call c = call(op);

	c.args.where[0] = (struct nfs_where){ &fh2, "newest" };
	c.args.where[1] = (struct nfs_where){ &fh2, "older" };
	c.args.nwhere = 2;
	if (op == NFS_OP_OPEN)
		c.args.file.flags = flags;
	return c;
}

static void expect_look(struct nfs_call *c, const char *name)
{
	m_new();
	m_opaque(fh2.data, fh2.len);
	m_str(name);
	ARGS(*c, 3);
}

static int look_reply(struct nfs_call *c, uint32_t status, const char *handle)
{
	m_new();
	M(status);
	if (!status) {
		m_str(handle);
		m_post_attr();
	}
	M(0);                           /* of the directory: none */
	return play_reply(c, def_of(c->op));
}

Test(nfs3, names_come_before_what_is_done)
{
	for (unsigned i = 0; i < 2; i++) {
		struct nfs_call c = call_named(i ? NFS_OP_SETATTR : NFS_OP_OPEN, O_WRONLY);

		expect_look(&c, "newest");
		cr_assert_eq(look_reply(&c, 0, "fhand"), NFS_NEXT);
		expect_look(&c, "older");
		/* A reason that says nothing of the name. */
		cr_assert_eq(look_reply(&c, 13, NULL), NFS_NEXT);
		cr_assert_not(c.res.has_attr);
		m_new();
		m_fh();
		if (i) {
			m_mode_only();
			M(0);
		} else {
			M(0x1 | 0x4 | 0x8 | 0x20);
		}
		ARGS(c, i ? 2 : 4);
		m_new();
		M(0);
		if (i)
			M(0, 0);
		else
			M(0, 0x3f);
		cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_NEXT, "there were no attributes");
		m_new();
		m_fh();
		ARGS(c, 1);
		m_new();
		M(0);
		m_attr(1);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		free_open(&c);
	}
}

Test(nfs3, names_that_are_others)
{
	static const struct { uint32_t status; const char *handle; int rc; } t[] = {
		{ 0, "fhanD", -NFS_EMOVED }, { 0, "fhan", -NFS_EMOVED }, { 0, "fhand2", -NFS_EMOVED },
		{ 2, NULL, -NFS_EMOVED }, { 20, NULL, -NFS_EMOVED }, { 70, NULL, -NFS_EMOVED },
		{ 10008, NULL, NFS_LATER },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (unsigned second = 0; second < 2; second++) {
			struct nfs_call c = call_named(i % 2 ? NFS_OP_SETATTR : NFS_OP_OPEN, O_RDWR);

			if (second)
				look_reply(&c, 0, "fhand");
			cr_assert_eq(look_reply(&c, t[i].status, t[i].handle), t[i].rc, "row %u", i);
			if (t[i].rc == NFS_LATER)
				expect_look(&c, second ? "older" : "newest");
			cr_assert_null(c.open);
		}
	}
	/* What only reads does not look. */
	struct nfs_call c = call_named(NFS_OP_OPEN, O_RDONLY);

	m_new();
	m_fh();
	M(0x1 | 0x4 | 0x8 | 0x20);
	ARGS(c, 4);
}

/* ---- replies: what a server may leave out ---- */

Test(nfs3, attributes_that_are_missing_are_fetched)
{
	static const struct { enum nfs_op op; uint32_t w[9]; unsigned n; bool new_fh; } t[] = {
		{ NFS_OP_SETATTR, { 0, 0, 0 }, 3, false },
		{ NFS_OP_LOOKUP, { 0, 4, 0x61626364, 0, 0 }, 5, true },
		{ NFS_OP_LOOKUPP, { 0, 4, 0x61626364, 0, 0 }, 5, true },
		{ NFS_OP_OPEN, { 0, 0, 0x3f }, 3, false },
		{ NFS_OP_LINK, { 0, 0, 0, 0 }, 4, false },
		{ NFS_OP_MKDIR, { 0, 1, 4, 0x61626364, 0, 0, 0 }, 7, true },
		{ NFS_OP_CREATE, { 0, 1, 4, 0x61626364, 0, 0, 0 }, 7, true },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(t[i].op);
		const struct nfs_opdef *d = def_of(c.op);

		m_new();
		m_words(t[i].w, t[i].n);
		cr_assert_eq(play_reply(&c, d), NFS_NEXT, "%s", d->name);
		cr_assert(!c.res.has_attr && !c.open);
		m_new();
		if (t[i].new_fh)
			m_opaque("abcd", 4);
		else
			m_fh();
		ARGS(c, 1);
		m_new();
		M(0);
		m_attr(1);
		cr_assert_eq(play_reply(&c, d), 0);
		expect_attr(&c.res.attr);
		cr_assert_eq(c.open != NULL, c.op == NFS_OP_OPEN || c.op == NFS_OP_CREATE);
		free_open(&c);
	}
	/* Where they are not needed nothing follows. */
	struct nfs_call c = call(NFS_OP_READ);

	m_new();
	M(0, 0, 0, 0, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(!c.res.has_attr && c.res.io.len == 0 && !c.res.io.eof);
}

/* A server need not say what it made: it is looked up by name. */
Test(nfs3, handle_that_is_missing_is_looked_up)
{
	static const enum nfs_op ops[] = { NFS_OP_MKDIR, NFS_OP_SYMLINK, NFS_OP_MKNOD, NFS_OP_CREATE };

	for (unsigned i = 0; i < 4; i++) {
		struct nfs_call c = call(ops[i]);
		const struct nfs_opdef *d = def_of(c.op);

		m_new();
		M(0, 0);
		m_post_attr();          /* attributes without a handle: of what? */
		M(0, 0);
		cr_assert_eq(play_reply(&c, d), NFS_NEXT);
		cr_assert_not(c.res.has_attr);
		m_new();
		m_dirop();
		ARGS(c, 3);
		m_new();
		M(0, 4, 0x61626364);
		m_post_attr();
		M(0);
		cr_assert_eq(play_reply(&c, d), 0);
		cr_assert(c.res.has_attr && c.res.fh.len == 4);
		free_open(&c);
	}
}

/* After an exclusive CREATE the attributes are to be set, and the times with
 * them: servers keep the verifier in those (RFC 1813, 3.3.8). */
Test(nfs3, exclusive_create_sets_attributes)
{
	struct nfs_call c = call_create(O_RDWR | O_EXCL);
	const struct nfs_opdef *d = def_of(c.op);

	m_new();
	M(0, 1, 4, 0x61626364);
	m_post_attr();
	M(0, 0);
	cr_assert_eq(play_reply(&c, d), NFS_NEXT);
	cr_assert_null(c.open);
	m_new();
	m_opaque("abcd", 4);
	M(1, 0640, 0, 0, 0, 1, 1, 0);   /* mode, and both times to the server's */
	ARGS(c, 2);
	m_new();
	M(0);
	m_wcc();
	cr_assert_eq(play_reply(&c, d), 0);
	cr_assert(c.open && c.res.has_attr);
	free_open(&c);
}

/* ---- replies that must be refused ---- */

Test(nfs3, bad_handles)
{
	static const uint32_t lens[] = { 0, 65, 128, 0x7fffffff, 0xffffffff };
	char bytes[128] = { 1 };

	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct nfs_call c = call(NFS_OP_LOOKUP);

		m_new();
		M(0);
		m_opaque(bytes, lens[i] < 128 ? lens[i] : 128);
		m_set(4, lens[i]);
		M(0, 0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "%u bytes", lens[i]);
		c = call(NFS_OP_MKDIR);
		m_new();
		M(0, 1);
		m_opaque(bytes, lens[i] < 128 ? lens[i] : 128);
		m_set(8, lens[i]);
		M(0, 0, 0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "%u bytes", lens[i]);
	}
}

Test(nfs3, bad_attributes)
{
	static const uint32_t types[] = { 0, 8, 0x7fffffff, 0xffffffff };
	static const struct { uint32_t wire; mode_t mode; } good[] = {
		{ 1, S_IFREG }, { 2, S_IFDIR }, { 3, S_IFBLK }, { 4, S_IFCHR }, { 5, S_IFLNK },
		{ 6, S_IFSOCK }, { 7, S_IFIFO },
	};
	struct nfs_call c;

	for (unsigned i = 0; i < 4; i++) {
		c = call(NFS_OP_GETATTR);
		m_new();
		M(0);
		m_attr(types[i]);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "type %u", types[i]);
		cr_assert_not(c.res.has_attr);
		c = call(NFS_OP_SETATTR);
		m_new();
		M(0, 0, 1);
		m_attr(types[i]);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "type %u", types[i]);
	}
	for (unsigned i = 0; i < 7; i++) {
		c = call(NFS_OP_GETATTR);
		m_new();
		M(0);
		m_attr(good[i].wire);
		m_set(8, 0177777644);   /* a mode has twelve bits */
		m_set(4 * 17, 1000000000);      /* and a second fewer nanoseconds */
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(c.res.attr.mode, good[i].mode | 07644);
		cr_assert(c.res.attr.atime.tv_sec == 100 && c.res.attr.atime.tv_nsec == 0);
	}
	/* A bool that is neither. */
	c = call(NFS_OP_SETATTR);
	m_new();
	M(0, 0, 2);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
}

Test(nfs3, read_counts)
{
	static const struct { uint32_t count, len; bool placed; uint32_t placed_len; int rc; } t[] = {
		{ 12, 12, false, 0, 0 }, { 5, 5, false, 0, 0 }, { 0, 0, false, 0, 0 },
		{ 13, 13, false, 0, -EBADMSG },         /* more than was asked for */
		{ 12, 11, false, 0, -EBADMSG }, { 11, 12, false, 0, -EBADMSG },
		{ 12, 12, true, 12, 0 }, { 5, 5, true, 5, 0 },
		{ 5, 5, true, 8, 0 },                   /* the pad was placed, too */
		{ 5, 5, true, 9, -EBADMSG }, { 5, 5, true, 4, -EBADMSG }, { 5, 5, true, 0, -EBADMSG },
		{ 8, 8, true, 12, -EBADMSG }, { 13, 13, true, 13, -EBADMSG },
		{ 0xffffffff, 0xffffffff, true, 0, -EBADMSG },
		{ 0xfffffffd, 0xfffffffd, true, 0, -EBADMSG },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_READ);

		c.eng.rr.placed = t[i].placed;
		c.eng.rr.data = sink;
		c.eng.rr.placed_len = t[i].placed_len;
		m_new();
		M(0, 0, t[i].count, 0, t[i].len);
		for (uint32_t b = 0; !t[i].placed && b < t[i].len; b += 4)
			M(0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		if (t[i].rc)
			continue;
		cr_assert_eq(c.res.io.len, t[i].len);
		if (t[i].placed)
			cr_assert_eq(c.res.io.ptr, (const void *)sink);
	}
}

/* Nothing asked for is not "no bound". */
Test(nfs3, read_of_nothing)
{
	struct nfs_call c = call(NFS_OP_READ);

	c.args.io.count = 0;
	m_new();
	M(0, 0, 8, 0, 8, 0, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
}

Test(nfs3, write_counts_and_verifiers)
{
	static const struct { uint32_t count, committed; int rc; bool stable; } t[] = {
		{ 1023, 2, 0, true }, { 1, 2, 0, true },
		{ 1023, 0, 0, false }, { 1023, 1, 0, false },   /* less than was asked for */
		{ 0, 2, -EBADMSG, false },              /* would be sent again for ever */
		{ 1024, 2, -EBADMSG, false }, { 0xffffffff, 2, -EBADMSG, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_WRITE);
		uint32_t before;

		m_new();
		M(0, 0, 0, t[i].count, t[i].committed, i, ~i);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		if (t[i].rc)
			continue;
		cr_assert(c.res.io.len == t[i].count && c.res.io.stable == t[i].stable);
		/* COMMIT's verifier is the same bytes, and another's are not. */
		before = i;
		for (unsigned other = 0; other < 2; other++) {
			struct nfs_call k = call(NFS_OP_COMMIT);

			m_new();
			M(0, 0, 0, before + other, ~i);
			cr_assert_eq(play_reply(&k, def_of(k.op)), 0);
			cr_assert_eq(k.res.io.verf == c.res.io.verf, other == 0);
		}
	}
}

Test(nfs3, link_targets)
{
	static char path[4100];
	static const struct { uint32_t len; int rc; } t[] = {
		{ 0, 0 }, { 1, 0 }, { 4096, 0 }, { 4097, -EBADMSG },
	};

	memset(path, 'p', sizeof(path));
	for (unsigned i = 0; i < 4; i++) {
		struct nfs_call c = call(NFS_OP_READLINK);

		m_new();
		M(0);
		m_post_attr();
		m_opaque(path, t[i].len);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "%u bytes", t[i].len);
		if (!t[i].rc)
			cr_assert_eq(c.res.link.len, t[i].len);
	}
}

Test(nfs3, link_targets_that_are_placed)
{
	static const struct { uint32_t len, placed_len; int rc; } t[] = {
		{ 1, 1, 0 }, { 5, 5, 0 }, { 5, 8, 0 }, { 4096, 4096, 0 },
		{ 5, 4, -EBADMSG }, { 5, 9, -EBADMSG }, { 8, 12, -EBADMSG }, { 0, 4, -EBADMSG },
		{ 4097, 4096, -EBADMSG }, { 4097, 4100, -EBADMSG }, { 0xffffffff, 4096, -EBADMSG },
		{ 0xfffffffd, 0, -EBADMSG },
	};
	static char text[4100];

	memset(text, 'p', sizeof(text));
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_READLINK);

		c.eng.rr.placed = true;
		c.eng.rr.placed_len = t[i].placed_len;
		c.eng.rr.data = text;
		m_new();
		M(0);
		m_post_attr();
		M(t[i].len);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		if (!t[i].rc)
			cr_assert(c.res.link.len == t[i].len && c.res.link.target == text);
	}
	/* An error: whatever was placed is not looked at. */
	for (unsigned placed = 0; placed < 2; placed++) {
		struct nfs_call c = call(NFS_OP_READLINK);

		c.eng.rr.placed = placed;
		c.eng.rr.placed_len = placed ? 4096 : 0;
		m_new();
		M(70, 0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -ESTALE);
	}
}

/* As a string it would be another link. */
Test(nfs3, link_target_with_a_nul)
{
	for (unsigned placed = 0; placed < 2; placed++) {
		for (uint32_t at = 0; at < 5; at++) {
			struct nfs_call c = call(NFS_OP_READLINK);
			char text[] = "abcde";

			text[at] = '\0';
			c.eng.rr.placed = placed;
			c.eng.rr.placed_len = 5;
			c.eng.rr.data = text;
			m_new();
			M(0, 0);
			if (placed)
				M(5);
			else
				m_opaque(text, 5);
			cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
		}
	}
}

/* ---- directories ---- */

static void expect_entries(unsigned n)
{
	static const char *const names[] = { ".", "..", "a", "bcdef" };

	cr_assert_eq(seen.n, n);
	for (unsigned i = 0; i < n; i++) {
		cr_assert_str_eq(seen.name[i], names[i]);
		cr_assert_eq(seen.e[i].cookie, 0xff00000000 + i);
		cr_assert_eq(seen.e[i].fileid, 100 + i);
	}
}

Test(nfs3, readdir)
{
	for (unsigned plus = 0; plus < 2; plus++) {
		for (unsigned bare = 0; bare < 2; bare++) {
			struct nfs_call c = plus ? call_plus() : call(NFS_OP_READDIR);
			const struct nfs_opdef *d = def_of(c.op);

			m_new();
			good_dir(plus, bare);
			cr_assert_eq(play_reply(&c, d), 0);
			cr_assert(c.res.dir.eof && c.res.dir.entries == 4);
			cr_assert(!memcmp(&c.res.dir.verf, "newverf!", 8));
			expect_entries(4);
			for (unsigned i = 0; i < 4; i++) {
				cr_assert_eq(seen.e[i].attr != NULL, plus && !bare);
				cr_assert_eq(seen.e[i].fh != NULL, plus && !bare);
				if (plus && !bare)
					expect_attr(&seen.attr[i]);
			}
			c = plus ? call_plus() : call(NFS_OP_READDIR);
			play_all_cuts(&c, d, NULL);
			play_twists(&c, d, NULL);
			/* Not the end: the last word. */
			m_set(m_len() - 4, 0);
			cr_assert_eq(play_reply(&c, d), 0);
			cr_assert_not(c.res.dir.eof);
			/* A caller that has enough. */
			c = plus ? call_plus() : call(NFS_OP_READDIR);
			seen.stop_after = 2;
			cr_assert_eq(play_reply(&c, d), 0);
			cr_assert_eq(c.res.dir.entries, 2);
			expect_entries(2);
		}
	}
}

Test(nfs3, readdir_without_entries)
{
	for (unsigned plus = 0; plus < 2; plus++) {
		struct nfs_call c = plus ? call_plus() : call(NFS_OP_READDIR);

		m_new();
		M(0, 0, 0, 0, 0, 1);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert(c.res.dir.eof && c.res.dir.entries == 0 && seen.n == 0);
	}
}

Test(nfs3, readdir_names)
{
	static char text[1100];
	static const struct { const char *name; uint32_t len; int rc; } t[] = {
		{ "a/b", 3, -EBADMSG }, { "/", 1, -EBADMSG }, { "a\0b", 3, -EBADMSG },
		{ "", 0, -EBADMSG }, { NULL, 1025, -EBADMSG }, { NULL, 1024, 0 }, { "...", 3, 0 },
		{ "\xff\xfe", 2, 0 },
	};

	memset(text, 'x', sizeof(text));
	for (unsigned plus = 0; plus < 2; plus++) {
		for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			struct nfs_call c = plus ? call_plus() : call(NFS_OP_READDIR);

			m_new();
			M(0, 0, 0, 0);
			M(1, 0, 1);
			m_opaque(t[i].name ? t[i].name : text, t[i].len);
			M(0, 1);
			if (plus)
				M(0, 0);
			M(0, 1);
			cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		}
	}
}

/* An entry's attributes or handle that make no sense are as good as none. */
Test(nfs3, readdirplus_with_bad_extras)
{
	struct nfs_call c = call_plus();

	m_new();
	M(0, 0, 0, 0);
	M(1, 0, 1, 1, 0x61000000, 0, 1, 1);
	m_attr(9);
	M(1, 0);                        /* a handle of no bytes */
	M(0, 1);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(seen.n == 1 && !seen.e[0].attr && !seen.e[0].fh);
}

/* Some servers have READDIR only. */
Test(nfs3, readdirplus_that_is_not_there)
{
	struct nfs_call c = call_plus();

	m_new();
	M(10004, 0);
	play_all_cuts(&c, def_of(c.op), NULL);
	cr_assert_eq(play_cut(&c, def_of(c.op), m_len()), NFS_AGAIN);
	cr_assert(!c.args.dir.plus && atomic_load(&cl.no_plus), "for this mount");
	m_new();
	m_fh();
	M(0x11223344, 0x55667788);
	M(0x76657269, 0x66696572, 8192);
	ARGS(c, 16);
	m_new();
	good_dir(false, false);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	expect_entries(4);
	/* Nor is READDIR: that is an error. */
	m_new();
	M(10004, 0);
	cr_assert_eq(play_cut(&c, def_of(c.op), m_len()), -EOPNOTSUPP);
	atomic_store(&cl.no_plus, false);
}

/* ---- sent again after a lost connection ---- */

/* What somebody else may have done as well: the server's answer, or a look at what
 * there is (test_nfs3_replay.c). */
Test(nfs3, own_earlier_effect)
{
	static const struct { enum nfs_op op; uint32_t status; int once, resent; } t[] = {
		{ NFS_OP_REMOVE, 2, -ENOENT, -ENOENT }, { NFS_OP_RMDIR, 2, -ENOENT, -ENOENT },
		{ NFS_OP_RENAME, 2, -ENOENT, NFS_NEXT }, { NFS_OP_LINK, 17, -EEXIST, NFS_NEXT },
		{ NFS_OP_MKDIR, 17, -EEXIST, -EEXIST }, { NFS_OP_SYMLINK, 17, -EEXIST, -EEXIST },
		{ NFS_OP_MKNOD, 17, -EEXIST, -EEXIST },
		/* Its verifier tells the server; EEXIST is somebody else's file. */
		{ NFS_OP_CREATE, 17, -EEXIST, -EEXIST },
		{ NFS_OP_LOOKUP, 2, -ENOENT, -ENOENT },
		{ NFS_OP_REMOVE, 13, -EACCES, -EACCES }, { NFS_OP_MKDIR, 13, -EACCES, -EACCES },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (unsigned resent = 0; resent < 2; resent++) {
			struct nfs_call c = call(t[i].op);

			c.eng.resent = resent;
			if (c.op == NFS_OP_RENAME)
				c.args.ren.moved = &fh;
			m_new();
			M(t[i].status, 0, 0, 0, 0);
			cr_assert_eq(play_cut(&c, def_of(c.op), m_len()),
				     resent ? t[i].resent : t[i].once, "row %u", i);
		}
	}
}

/* Or of a COMMIT, which has failed then, and says that all is well now. */
Test(nfs3, commit_that_may_have_failed_before)
{
	for (unsigned i = 0; i < 3; i++) {
		struct nfs_call c = call(NFS_OP_COMMIT);

		c.eng.resent = i == 1;
		c.eng.useless = i == 2;
		good_reply(&c);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(c.res.io.twice, i > 0);
	}
}

/* The looks: what is sent, and their answers cut off and twisted. */
Test(nfs3, looks_at_what_there_is)
{
	struct nfs_call c = call(NFS_OP_RENAME);

	c.args.ren.moved = &fh;
	c.eng.step = 1;
	m_new();
	m_opaque("dir2", 4);
	m_str("other");
	ARGS(c, 3);
	m_new();
	M(0);
	m_fh();
	m_post_attr();
	m_post_attr();
	play_all_cuts(&c, def_of(c.op), NULL);
	play_twists(&c, def_of(c.op), NULL);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);

	c = call(NFS_OP_LINK);
	c.eng.step = 2;
	m_new();
	m_opaque("dir2", 4);
	m_str("name");
	ARGS(c, 3);
	m_new();
	M(0);
	m_fh();
	m_post_attr();
	m_post_attr();
	play_all_cuts(&c, def_of(c.op), NULL);
	play_twists(&c, def_of(c.op), NULL);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	expect_attr(&c.res.attr);
}

/* ---- small inline thresholds ---- */

Test(nfs3, default_inline_thresholds)
{
	static const enum nfs_op ops[] = {
		NFS_OP_GETATTR, NFS_OP_SETATTR, NFS_OP_LOOKUP, NFS_OP_ACCESS, NFS_OP_READLINK,
		NFS_OP_READ, NFS_OP_WRITE, NFS_OP_COMMIT, NFS_OP_OPEN, NFS_OP_CREATE, NFS_OP_MKDIR,
		NFS_OP_SYMLINK, NFS_OP_MKNOD, NFS_OP_REMOVE, NFS_OP_RMDIR, NFS_OP_RENAME,
		NFS_OP_LINK, NFS_OP_READDIR, NFS_OP_STATFS,
	};

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct nfs_call c = call(ops[i]);

		if (ops[i] == NFS_OP_READDIR)
			c.args.dir.count = (uint32_t)ARENA_MID_SIZE - 4096;   /* nfs_client_new()'s */
		play_default_limits(&c, def_of(ops[i]), 64);
	}
}
