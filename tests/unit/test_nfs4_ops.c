/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The operations of version 4.1 against COMPOUNDs written by hand from RFC
 * 8881: what is sent, what is made of a reply, which failure of which of its
 * operations leads to what.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nfs4_play.h"

static char sink[4096];
static uint64_t owner_bytes = 0x4142434445464748;

static const struct nfs_opdef *def_of(enum nfs_op op)
{
	return def4(op);
}

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

/* What RENAME moves; m_getfh_res() has it. */
static const struct nfs_fh moved = { .len = 10, .data = "new handle" };

/* What COPY reads from, and a copy that goes on. */
static struct nfs_open from_file = { .access = OPEN4_SHARE_ACCESS_READ, .stateid = { 7, "frm1frm2frm3" } };
#define COPY_ID_WORDS 9, 0x63707931, 0x63707932, 0x63707933
static struct nfs_copy_id copy_id;      /* a stateid4 of these */

static struct nfs_call call(enum nfs_op op)
{
	struct nfs_call c = call4(op);

	memset(&seen, 0, sizeof(seen));
	memcpy(&copy_id, &(stateid4){ 9, "cpy1cpy2cpy3" }, sizeof(copy_id));
	nfs4_call(&c)->owner = owner_bytes;               /* an OPEN's owner: picked already */
	switch ((int)op) {
	case NFS_OP_READ:
		c.open = &open_file;
		c.args.io.offset = 0x123456789a;
		c.args.io.count = 12;
		c.args.io.sink[0] = (struct rr_iov){ .mem = sink, .len = sizeof(sink) };
		break;
	case NFS_OP_COMMIT:
		c.args.io.offset = 0x123456789a;
		c.args.io.count = 1023;
		break;
	case NFS_OP_WRITE:
		c.open = &open_file;
		c.args.io.offset = 0x123456789a;
		c.args.io.ndata = 2;
		c.args.io.data[0].len = 1000;
		c.args.io.data[1].len = 23;
		break;
	case NFS_OP_CLOSE:
		c.open = &open_file;
		break;
	case NFS_OP_SEEK:
		c.open = &open_file;
		c.args.seek.offset = 0x123456789a;
		c.args.seek.hole = true;
		break;
	case NFS_OP_ALLOCATE:
	case NFS_OP_DEALLOCATE:
		c.open = &open_file;
		c.args.space.offset = 0x123456789a;
		c.args.space.length = 0x400000001;
		c.args.space.refill = op == NFS_OP_DEALLOCATE;
		break;
	case NFS_OP_COPY:
	case NFS_OP_CLONE:
		c.open = &open_file;
		c.args.copy.from = &from_file;
		c.args.copy.from_offset = 0x123456789a;
		c.args.copy.offset = 0x8000;
		c.args.copy.count = 0x100000002;
		c.args.copy.commit = true;
		break;
	case NFS_OP_OFFLOAD_STATUS:
	case NFS_OP_OFFLOAD_CANCEL:
		c.args.copy.count = 0x100000002;
		c.args.copy.id = copy_id;
		break;
	case NFS_OP_ACCESS:
		c.args.access.mask = R_OK | W_OK | X_OK;
		break;
	case NFS_OP_RENAME:
		c.args.ren.moved = &moved;
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
		c.args.dir.plus = true;
		c.args.dir.entry = on_entry;
		break;
	default:
		break;
	}
	return c;
}

static struct nfs_call call_create(int flags)
{
	struct nfs_call c = call(NFS_OP_CREATE);

	c.args.file.flags = flags;
	c.args.file.verifier = 0x0101010101010101;
	return c;
}

/* ---- arguments ---- */

static void m_getattr(void)
{
	M(9, STAT_MASK);
}

/* With time_create. */
#define BIRTH_MASK 2, 0x0010011a, 0x0034a23a

/* Of a directory after a change: without owner and group. */
#define AFTER_MASK 2, 0x0010011a, 0x0030a20a

static void m_dir_after(void)
{
	M(9, AFTER_MASK);
}

static void m_dir_after_fh(void)
{
	M(22);
	m_opaque("fhand", 5);
	m_dir_after();
}

/* fattr4 with a mode of 0640 only. */
static void m_mode_only(void)
{
	M(2, 0, 2, 4, 0640);
}

/* May it be read, may it be run: and what it is. */
static void m_look(void)
{
	M(3, 0x21);
	m_getattr();
}

static void m_open_args(uint32_t access)
{
	M(18, 0, access | 0x400, 0);            /* WANT_NO_DELEG */
	m_u64(n4.clientid);
	m_opaque(&owner_bytes, 8);
}

#define ARGS(call_) do { \
	struct nfs_call c_ = (call_); \
	m_minor(); \
	play_args(&c_, def_of(c_.op)); \
	cr_assert_eq(def_of(c_.op)->proc, 1); \
} while (0)

TestSuite(nfs4, .init = play4_setup, .fini = play4_teardown);

Test(nfs4, arguments)
{
	m_seq_args(1, false);
	ARGS(call(NFS_OP_NULL));

	m_args(3, false);
	m_getattr();
	ARGS(call(NFS_OP_GETATTR));

	m_args(4, true);
	M(34, 0, 0, 0, 0);              /* the anonymous stateid */
	m_mode_only();
	m_getattr();
	ARGS(call(NFS_OP_SETATTR));

	m_args(5, false);
	M(15);
	m_str("name");
	M(10);
	m_getattr();
	ARGS(call(NFS_OP_LOOKUP));

	m_args(5, false);
	M(16, 10);
	m_getattr();
	ARGS(call(NFS_OP_LOOKUPP));

	m_args(3, false);
	M(3, 0x1 | 0x4 | 0x8 | 0x20 | 0x2);
	ARGS(call(NFS_OP_ACCESS));

	m_args(3, false);
	M(27);
	ARGS(call(NFS_OP_READLINK));

	m_args(3, false);
	M(25, 0, STATEID_WORDS, 0x12, 0x3456789a, 12);  /* seqid 0: the current one */
	ARGS(call(NFS_OP_READ));

	m_args(3, true);
	M(38, 0, STATEID_WORDS, 0x12, 0x3456789a, 2, 1023);
	ARGS(call(NFS_OP_WRITE));

	m_args(3, true);
	M(5, 0x12, 0x3456789a, 1023);
	ARGS(call(NFS_OP_COMMIT));

	m_args(3, true);
	M(4, 0, 0, STATEID_WORDS);
	ARGS(call(NFS_OP_CLOSE));

	m_args(4, true);
	M(28);
	m_str("name");
	m_dir_after();
	ARGS(call(NFS_OP_REMOVE));
	ARGS(call(NFS_OP_RMDIR));

	m_args(8, true);
	M(32, 22);
	m_opaque("dir2", 4);
	M(29);
	m_str("name");
	m_str("other");
	m_dir_after();
	M(31);
	m_dir_after();
	ARGS(call(NFS_OP_RENAME));

	m_args(8, true);
	M(32, 22);
	m_opaque("dir2", 4);
	M(11);
	m_str("name");
	m_dir_after();
	M(31);
	m_getattr();
	ARGS(call(NFS_OP_LINK));

	m_args(3, false);
	M(9, 2, 0x20e00000, 0x1c00);
	ARGS(call(NFS_OP_STATFS));

	m_args(3, false);
	M(9, BIRTH_MASK);
	ARGS(call(NFS_OP_BIRTH));

	m_args(3, false);
	M(69, 0, STATEID_WORDS, 0x12, 0x3456789a, 1);
	ARGS(call(NFS_OP_SEEK));

	m_args(4, true);
	M(59, 0, STATEID_WORDS, 0x12, 0x3456789a, 4, 1);
	m_getattr();
	ARGS(call(NFS_OP_ALLOCATE));

	m_args(5, true);
	M(62, 0, STATEID_WORDS, 0x12, 0x3456789a, 4, 1);
	M(59, 0, STATEID_WORDS, 0x12, 0x3456789a, 4, 1);
	m_getattr();
	ARGS(call(NFS_OP_DEALLOCATE));
}

static void m_copy_files(uint32_t nops)
{
	m_seq_args(nops, true);
	M(22);
	m_opaque("dir2", 4);
	M(32, 22);
	m_opaque("fhand", 5);
}

Test(nfs4, arguments_of_copies)
{
	for (unsigned commit = 0; commit < 2; commit++) {
		struct nfs_call c = call(NFS_OP_COPY);

		c.args.copy.commit = commit;
		m_copy_files(6 + commit);
		M(60, 0, 0x66726d31, 0x66726d32, 0x66726d33, 0, STATEID_WORDS);
		M(0x12, 0x3456789a, 0, 0x8000, 1, 2, 1, 1, 0);
		if (commit)
			M(5, 0, 0, 0);
		m_getattr();
		ARGS(c);
	}

	m_copy_files(7);
	M(71, 0, 0x66726d31, 0x66726d32, 0x66726d33, 0, STATEID_WORDS);
	M(0x12, 0x3456789a, 0, 0x8000, 1, 2);
	M(5, 0, 0, 0);
	m_getattr();
	ARGS(call(NFS_OP_CLONE));

	m_args(3, false);
	M(67, COPY_ID_WORDS);
	ARGS(call(NFS_OP_OFFLOAD_STATUS));

	m_args(3, false);
	M(66, COPY_ID_WORDS);
	ARGS(call(NFS_OP_OFFLOAD_CANCEL));
}

/* What recovery was not let open for that goes by the anonymous stateid; CLOSE is for what is open. */
Test(nfs4, arguments_of_what_is_open_for_less)
{
	struct nfs_call c = call(NFS_OP_SETATTR);

	open_file.access = OPEN4_SHARE_ACCESS_READ;
	m_args(3, false);
	M(25, 0, STATEID_WORDS, 0x12, 0x3456789a, 12);
	ARGS(call(NFS_OP_READ));
	m_args(3, false);
	M(69, 0, STATEID_WORDS, 0x12, 0x3456789a, 1);
	ARGS(call(NFS_OP_SEEK));
	m_args(3, true);
	M(38, 0, 0, 0, 0, 0x12, 0x3456789a, 2, 1023);
	ARGS(call(NFS_OP_WRITE));
	m_args(4, true);
	M(59, 0, 0, 0, 0, 0x12, 0x3456789a, 4, 1);
	m_getattr();
	ARGS(call(NFS_OP_ALLOCATE));
	c.args.sattr.valid = NFS_SET_SIZE;
	c.args.sattr.size = 13;
	m_args(4, true);
	M(34, 0, 0, 0, 0, 1, 1 << 4, 8, 0, 13);
	m_getattr();
	ARGS(c);
	m_copy_files(7);
	M(71, 0, 0x66726d31, 0x66726d32, 0x66726d33, 0, 0, 0, 0);
	M(0x12, 0x3456789a, 0, 0x8000, 1, 2);
	M(5, 0, 0, 0);
	m_getattr();
	ARGS(call(NFS_OP_CLONE));
	m_args(3, true);
	M(4, 0, 0, STATEID_WORDS);
	ARGS(call(NFS_OP_CLOSE));

	open_file.access = 0;
	m_args(3, false);
	M(25, 0, 0, 0, 0, 0x12, 0x3456789a, 12);
	ARGS(call(NFS_OP_READ));
	m_args(3, true);
	M(4, 0, 0, STATEID_WORDS);
	ARGS(call(NFS_OP_CLOSE));
}

/* Only if the caller wants it, the server can say when it has ended, and COPY is sent for the first time. */
Test(nfs4, a_copy_that_may_go_on)
{
	static const struct { bool may, has, need; unsigned retries; uint32_t synchronous; } t[] = {
		{ true, true, false, 0, 0 }, { false, true, false, 0, 1 }, { true, false, false, 0, 1 },
		{ true, true, true, 0, 1 }, { true, true, false, 1, 1 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_COPY);

		c.args.copy.commit = false;
		c.args.copy.may_go_on = t[i].may;
		c.eng.retries = t[i].retries;
		atomic_store(&n4.back.has, t[i].has);
		atomic_store(&n4.back.need, t[i].need);
		m_copy_files(6);
		M(60, 0, 0x66726d31, 0x66726d32, 0x66726d33, 0, STATEID_WORDS);
		M(0x12, 0x3456789a, 0, 0x8000, 1, 2, 1, t[i].synchronous, 0);
		m_getattr();
		ARGS(c);
	}
}

Test(nfs4, arguments_of_readdir)
{
	struct nfs_call c = call(NFS_OP_READDIR);

	m_args(3, false);
	M(26, 0x11223344, 0x55667788, 0x76657269, 0x66696572, 8192, 8192);
	M(2, 0x0018091a, 0x0030a23a);
	ARGS(c);
	c.args.dir.plus = false;
	m_args(3, false);
	M(26, 0x11223344, 0x55667788, 0x76657269, 0x66696572, 8192, 8192);
	M(1, 0x00100802);
	ARGS(c);
}

Test(nfs4, arguments_of_rename_within_one_directory)
{
	struct nfs_call c = call(NFS_OP_RENAME);

	c.args.fh2 = c.args.fh;
	m_args(6, true);
	M(32, 22);
	m_opaque("fhand", 5);
	M(29);
	m_str("name");
	m_str("other");
	m_dir_after();
	ARGS(c);
}

Test(nfs4, arguments_of_making)
{
	struct nfs_call c = call(NFS_OP_MKDIR);
	static const struct { mode_t type; uint32_t wire; bool dev; } t[] = {
		{ S_IFBLK, 3, true }, { S_IFCHR, 4, true }, { S_IFSOCK, 6, false }, { S_IFIFO, 7, false },
	};

	m_args(7, true);
	M(6, 2);
	m_str("name");
	m_mode_only();
	M(10);
	m_getattr();
	m_dir_after_fh();
	ARGS(c);

	m_args(7, true);
	M(6, 5, 5);                     /* the transport adds the text */
	m_str("name");
	M(0, 0, 10);
	m_getattr();
	m_dir_after_fh();
	ARGS(call(NFS_OP_SYMLINK));

	for (unsigned i = 0; i < 4; i++) {
		c = call(NFS_OP_MKNOD);
		c.args.mk.type = t[i].type;
		m_args(7, true);
		M(6, t[i].wire);
		if (t[i].dev)
			M(8, 1);
		m_str("name");
		m_mode_only();
		M(10);
		m_getattr();
		m_dir_after_fh();
		ARGS(c);
	}
}

Test(nfs4, arguments_of_open)
{
	static const struct { int flags; uint32_t access; } t[] = {
		{ O_RDONLY, 1 }, { O_WRONLY, 2 }, { O_RDWR, 3 },
	};
	struct nfs4_ctl k = { .c = call4(NFS4_OP_REOPEN) };

	for (unsigned i = 0; i < 3; i++) {
		struct nfs_call c = call(NFS_OP_OPEN);

		c.args.file.flags = t[i].flags;
		m_args(5, true);
		m_open_args(t[i].access);
		M(0, 4);                /* NOCREATE, CLAIM_FH */
		m_look();
		ARGS(c);
	}
	m_args(8, true);
	m_open_args(3);
	M(1, 0);                        /* CREATE, UNCHECKED */
	m_mode_only();
	M(0);                           /* CLAIM_NULL */
	m_str("name");
	M(10);
	m_look();
	m_dir_after_fh();
	ARGS(call_create(O_RDWR));

	m_args(8, true);
	m_open_args(3);
	M(1, 1);                        /* O_TRUNC: GUARDED */
	m_mode_only();
	M(0);
	m_str("name");
	M(10);
	m_look();
	m_dir_after_fh();
	ARGS(call_create(O_RDWR | O_TRUNC));

	m_args(7, true);
	m_open_args(3);
	M(1, 3, 0x01010101, 0x01010101);                /* EXCLUSIVE4_1 */
	m_mode_only();
	M(0);
	m_str("name");
	M(10);
	m_getattr();
	m_dir_after_fh();
	ARGS(call_create(O_RDWR | O_EXCL));

	/* Recovery: in the grace period, and without one. */
	k.c.open = &open_file;
	k.c.args.version = &k;
	k.reclaim = true;
	m_args(3, true);
	m_open_args(3);
	M(0, 1, 0);                     /* CLAIM_PREVIOUS, of no delegation */
	play_args(&k.c, def_of(NFS4_OP_REOPEN));
	k.reclaim = false;
	m_args(3, true);
	m_open_args(3);
	M(0, 4);
	play_args(&k.c, def_of(NFS4_OP_REOPEN));
}

/* Each open has an owner of its own, and keeps it for all its sendings. */
Test(nfs4, owners)
{
	struct nfs_call a = call(NFS_OP_OPEN), b = a;
	uint64_t first;
	char buf[1024];
	XDR x;

	nfs4_call(&a)->owner = nfs4_call(&b)->owner = 0;
	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert(def_of(a.op)->encode(&a, &x));
	cr_assert(def_of(b.op)->encode(&b, &x));
	first = nfs4_call(&a)->owner;
	cr_assert(first && nfs4_call(&b)->owner && first != nfs4_call(&b)->owner);
	cr_assert(def_of(a.op)->encode(&a, &x));
	cr_assert_eq(nfs4_call(&a)->owner, first);
}

Test(nfs4, what_setattr_sets)
{
	static const struct { unsigned valid, n; uint32_t w[14]; } t[] = {
		{ 0, 2, { 0, 0 } },
		{ NFS_SET_SIZE, 5, { 1, 0x10, 8, 5, 6 } },
		{ NFS_SET_MODE, 5, { 2, 0, 2, 4, 07640 } },
		{ NFS_SET_UID | NFS_SET_GID, 10,
		  { 2, 0, 0x30, 24, 10, 0x34323934, 0x39363732, 0x39340000, 1, 0x37000000 } },
		{ NFS_SET_ATIME_NOW | NFS_SET_MTIME_NOW, 6, { 2, 0, 0x410000, 8, 0, 0 } },
		{ NFS_SET_ATIME | NFS_SET_MTIME, 12,
		  { 2, 0, 0x410000, 32, 1, 0, 7, 8, 1, 0xffffffff, 0xffffffff, 9 } },
		{ NFS_SET_MTIME | NFS_SET_MTIME_NOW, 5, { 2, 0, 0x400000, 4, 0 } },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_SETATTR);

		c.open = &open_file;    /* matters for a size */
		c.args.sattr = (struct nfs_sattr){
			.valid = t[i].valid, .mode = 0107640, .uid = 4294967294, .gid = 7,
			.size = 0x500000006, .atime = { 7, 8 }, .mtime = { -1, 9 },
		};
		m_args(4, true);
		if (t[i].valid & NFS_SET_SIZE)
			M(34, 0, STATEID_WORDS);
		else
			M(34, 0, 0, 0, 0);
		m_words(t[i].w, t[i].n);
		m_getattr();
		ARGS(c);
	}
	/* All at once, with the longest numbers, fits what callers provide. */
	struct nfs_sattr all = { .valid = 0x5f, .uid = UINT32_MAX, .gid = UINT32_MAX };
	char buf[NFS4_SATTR_MAX];
	fattr4 f;

	cr_assert(nfs4_put_fattr(&f, &all, buf, sizeof(buf)));
	cr_assert_not(nfs4_put_fattr(&f, &all, buf, f.attr_vals.len - 4));
}

Test(nfs4, write_data_position)
{
	struct nfs_call c = call(NFS_OP_WRITE);
	char buf[512];
	XDR x;

	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert(def_of(c.op)->encode(&c, &x));
	cr_assert_eq(c.eng.rr.data_pos, xdr_getpos(&x), "right behind its length, and nothing follows");
}

Test(nfs4, link_text_position)
{
	static const enum nfs_op others[] = { NFS_OP_MKDIR, NFS_OP_MKNOD };
	struct nfs_call c = call(NFS_OP_SYMLINK);
	uint32_t buf[128];
	XDR x;

	xdrmem_create(&x, (char *)buf, sizeof(buf), XDR_ENCODE);
	cr_assert(def_of(c.op)->encode(&c, &x));
	cr_assert_eq(c.eng.rr.data_pos % 4, 0);
	cr_assert_eq(ntohl(buf[c.eng.rr.data_pos / 4 - 1]), 5, "right behind its length");
	cr_assert_eq(ntohl(buf[c.eng.rr.data_pos / 4 - 2]), 5, "which is behind NF4LNK");
	cr_assert_eq(ntohl(buf[c.eng.rr.data_pos / 4]), 4, "before the name");
	/* The steps that follow have none, nor have other kinds. */
	for (uint8_t step = 1; step < 3; step++) {
		c = call(NFS_OP_SYMLINK);
		c.eng.step = step;
		xdr_setpos(&x, 0);
		cr_assert(def_of(c.op)->encode(&c, &x));
		cr_assert_eq(c.eng.rr.data_pos, 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		c = call(others[i]);
		xdr_setpos(&x, 0);
		cr_assert(def_of(c.op)->encode(&c, &x));
		cr_assert_eq(c.eng.rr.data_pos, 0);
	}
}

/* ---- results ---- */

static void m_cinfo(void)
{
	M(1, 0, 1, 0, 2);
}

static void m_getfh_res(void)
{
	m_op(10);
	m_opaque("new handle", 10);
}

static void m_getattr_res(void)
{
	m_op(9);
	m_stat_fattr();
}

static void m_birth_res(void)
{
	uint32_t at;

	m_op(9);
	M(BIRTH_MASK);
	at = m_len();
	M(0);
	M(1, 0, 77, 1, 0x10, 0, 5, 0, 6, 0, 7, 0644, 2);
	m_str("1000");
	m_str("100");
	M(8, 1, 0, 0x2000, 0, 100, 1, 0, 50, 999999999, 0xffffffff, 0xffffffff, 3, 0, 200, 2);
	m_end_opaque(at);
}

static void m_look_res(uint32_t supported, uint32_t access)
{
	m_op(3);
	M(supported, access);
	m_getattr_res();
}

/* attrset's second word: what the server has set. */
static void m_open_res(uint32_t set)
{
	m_op(18);
	M(4, STATEID_WORDS);
	m_cinfo();
	M(4, 2, 0, set, 0);             /* locktype posix; no delegation */
}

static void m_entry(uint64_t cookie, const char *name)
{
	uint32_t at;

	M(1);
	m_u64(cookie);
	m_str(name);
	M(2, 0x0018011a, 0x0030a23a);
	at = m_len();
	M(0);
	/* The handle comes between fsid and fileid. */
	M(1, 0, 77, 1, 0x10, 0, 5, 0, 6);
	m_str("h00");
	M(0, 7, 0644, 2);
	m_str("1000");
	m_str("100");
	M(8, 1, 0, 0x2000, 0, 100, 1, 0xffffffff, 0xffffffff, 3, 0, 200, 2);
	m_end_opaque(at);
}

static const enum nfs_op all_ops[] = {
	NFS_OP_NULL, NFS_OP_GETATTR, NFS_OP_SETATTR, NFS_OP_LOOKUP, NFS_OP_LOOKUPP, NFS_OP_ACCESS,
	NFS_OP_READLINK, NFS_OP_READ, NFS_OP_WRITE, NFS_OP_COMMIT, NFS_OP_OPEN, NFS_OP_CREATE,
	NFS_OP_CLOSE, NFS_OP_MKDIR, NFS_OP_SYMLINK, NFS_OP_MKNOD, NFS_OP_REMOVE, NFS_OP_RMDIR,
	NFS_OP_RENAME, NFS_OP_LINK, NFS_OP_READDIR, NFS_OP_STATFS, NFS_OP_SEEK,
	NFS_OP_ALLOCATE, NFS_OP_DEALLOCATE, NFS_OP_COPY, NFS_OP_CLONE, NFS_OP_OFFLOAD_STATUS,
	NFS_OP_OFFLOAD_CANCEL, NFS_OP_BIRTH,
};
#define N_OPS (sizeof(all_ops) / sizeof(all_ops[0]))

/* The directory after the change. */
static void m_dir_res(void)
{
	uint32_t at;

	m_op(9);
	M(AFTER_MASK);
	at = m_len();
	M(0);
	M(2, 0, 78, 0, 0x1000, 0, 5, 0, 6, 0, 8, 0755, 3);
	M(0, 0, 0, 0x1000, 0, 100, 1, 0, 201, 3, 0, 200, 2);
	m_end_opaque(at);
}

static void m_dir_fh_res(void)
{
	m_op(22);
	m_dir_res();
}

/* How many operations there are at the end whose failure nobody minds. */
static unsigned tail_of(enum nfs_op op)
{
	switch (op) {
	case NFS_OP_REMOVE:
	case NFS_OP_RMDIR:
		return 1;
	case NFS_OP_CREATE:
	case NFS_OP_MKDIR:
	case NFS_OP_SYMLINK:
	case NFS_OP_MKNOD:
		return 2;
	case NFS_OP_RENAME:
		return 3;
	default:
		return 0;
	}
}

static void good_reply(enum nfs_op op)
{
	if (op == NFS_OP_NULL) {
		m_seq_res();
		return;
	}
	m_res();
	switch (op) {
	case NFS_OP_GETATTR:
		m_getattr_res();
		break;
	case NFS_OP_SETATTR:
		m_op(34);
		M(2, 0, 2);
		m_getattr_res();
		break;
	case NFS_OP_LOOKUP:
	case NFS_OP_LOOKUPP:
		m_op(op == NFS_OP_LOOKUP ? 15 : 16);
		m_getfh_res();
		m_getattr_res();
		break;
	case NFS_OP_ACCESS:
		m_op(3);
		M(0x3f, 0x3f);
		break;
	case NFS_OP_READLINK:
		m_op(27);
		m_str("over/there");
		break;
	case NFS_OP_READ:
		m_op(25);
		M(1);
		m_opaque("hello world", 11);
		break;
	case NFS_OP_WRITE:
		m_op(38);
		M(1023, 2, 0x01020304, 0x05060708);
		break;
	case NFS_OP_COMMIT:
		m_op(5);
		M(0x01020304, 0x05060708);
		break;
	case NFS_OP_OPEN:
		m_open_res(0);
		m_look_res(0x21, 0x21);
		break;
	case NFS_OP_CREATE:
		m_open_res(2);
		m_getfh_res();
		m_look_res(0x21, 0x21);
		m_dir_fh_res();
		break;
	case NFS_OP_CLOSE:
		m_op(4);
		M(0xffffffff, 0, 0, 0);
		break;
	case NFS_OP_MKDIR:
	case NFS_OP_SYMLINK:
	case NFS_OP_MKNOD:
		m_op(6);
		m_cinfo();
		M(2, 0, 2);
		m_getfh_res();
		m_getattr_res();
		m_dir_fh_res();
		break;
	case NFS_OP_REMOVE:
	case NFS_OP_RMDIR:
		m_op(28);
		m_cinfo();
		m_dir_res();
		break;
	case NFS_OP_RENAME:
		m_op(32);
		m_op(22);
		m_op(29);
		m_cinfo();
		m_cinfo();
		m_dir_res();
		m_op(31);
		m_dir_res();
		break;
	case NFS_OP_LINK:
		m_op(32);
		m_op(22);
		m_op(11);
		m_cinfo();
		m_dir_res();
		m_op(31);
		m_getattr_res();
		break;
	case NFS_OP_READDIR:
		m_op(26);
		M(0x6e657776, 0x65726621);
		m_entry(0xff00000000, "a");
		m_entry(0xff00000001, "bcdef");
		M(0, 1);
		break;
	case NFS_OP_STATFS:
		m_op(9);
		M(2, 0x20e00000, 0x1c00, 52, 0, 1, 0, 2, 0, 3, 143, 0, 4, 0, 5, 1, 6);
		break;
	case NFS_OP_BIRTH:
		m_birth_res();
		break;
	case NFS_OP_SEEK:
		m_op(69);
		M(0, 0x12, 0x34567900);
		break;
	case NFS_OP_DEALLOCATE:
	case NFS_OP_ALLOCATE:
		if (op == NFS_OP_DEALLOCATE)
			m_op(62);
		m_op(59);
		m_getattr_res();
		break;
	case NFS_OP_COPY:
		m_op(32);
		m_op(22);
		m_op(60);
		M(0, 1, 1, 0, 0x01020304, 0x05060708, 1, 1);
		m_op(5);
		M(0x01020304, 0x05060708);
		m_getattr_res();
		break;
	case NFS_OP_CLONE:
		m_op(32);
		m_op(22);
		m_op(71);
		m_op(5);
		M(0x01020304, 0x05060708);
		m_getattr_res();
		break;
	case NFS_OP_OFFLOAD_STATUS:
		m_op(67);
		M(0, 4096, 0);
		break;
	case NFS_OP_OFFLOAD_CANCEL:
		m_op(66);
		break;
	default:
		break;
	}
}

static void done_with(struct nfs_call *c)
{
	hooks4.after(c);
}

Test(nfs4, good_replies)
{
	for (unsigned o = 0; o < N_OPS; o++) {
		struct nfs_call c = call(all_ops[o]), pristine = c;
		const struct nfs_opdef *d = def_of(c.op);

		good_reply(c.op);
		cr_assert_eq(play_reply(&c, d), 0, "%s", d->name);
		cr_assert_eq(nfs4_call(&c)->place.outcome, NFS4_CONSUMED);
		done_with(&c);
		play_all_cuts(&pristine, d, &hooks4);
		play_twists(&pristine, d, &hooks4);
	}
}

static struct nfs_call run(enum nfs_op op)
{
	struct nfs_call c = call(op);

	good_reply(op);
	cr_assert_eq(play_reply(&c, def_of(op)), 0);
	return c;
}

Test(nfs4, results)
{
	static const enum nfs_op with_attr[] = {
		NFS_OP_GETATTR, NFS_OP_SETATTR, NFS_OP_LOOKUP, NFS_OP_LOOKUPP, NFS_OP_OPEN,
		NFS_OP_CREATE, NFS_OP_MKDIR, NFS_OP_SYMLINK, NFS_OP_MKNOD, NFS_OP_LINK, NFS_OP_ALLOCATE,
		NFS_OP_DEALLOCATE, NFS_OP_COPY, NFS_OP_CLONE, NFS_OP_BIRTH,
	};
	static const enum nfs_op changing[] = {
		NFS_OP_CREATE, NFS_OP_MKDIR, NFS_OP_SYMLINK, NFS_OP_MKNOD, NFS_OP_REMOVE, NFS_OP_RMDIR,
		NFS_OP_RENAME, NFS_OP_LINK,
	};
	static const enum nfs_op with_fh[] = { NFS_OP_LOOKUP, NFS_OP_LOOKUPP, NFS_OP_CREATE, NFS_OP_MKDIR };
	struct nfs_call c;

	for (unsigned i = 0; i < sizeof(with_attr) / sizeof(with_attr[0]); i++) {
		c = run(with_attr[i]);
		cr_assert(c.res.has_attr, "operation %u", with_attr[i]);
		expect_stat(&c.res.attr);
		done_with(&c);
	}
	for (unsigned i = 0; i < 4; i++) {
		c = run(with_fh[i]);
		cr_assert(c.res.fh.len == 10 && !memcmp(c.res.fh.data, "new handle", 10));
		done_with(&c);
	}
	for (unsigned i = 0; i < sizeof(changing) / sizeof(changing[0]); i++) {
		bool first = changing[i] != NFS_OP_LINK, second = !first || changing[i] == NFS_OP_RENAME;

		c = run(changing[i]);
		cr_assert(c.res.has_dir_attr[0] == first && c.res.has_dir_attr[1] == second);
		cr_assert(c.res.dir_change[0].known == first && c.res.dir_change[1].known == second);
		cr_assert(c.res.dir_no_owner && c.res.dir_attr[second].change == 78);
		cr_assert(S_ISDIR(c.res.dir_attr[second].mode) && c.res.dir_attr[second].nlink == 3);
		done_with(&c);
	}
	c = run(NFS_OP_READLINK);
	cr_assert(c.res.link.len == 10 && !memcmp(c.res.link.target, "over/there", 10));
	c = run(NFS_OP_READ);
	cr_assert(c.res.io.len == 11 && c.res.io.eof && !memcmp(c.res.io.ptr, "hello world", 11));
	c = run(NFS_OP_WRITE);
	cr_assert(c.res.io.len == 1023 && c.res.io.stable && !memcmp(&c.res.io.verf, "\1\2\3\4\5\6\7\10", 8));
	c = run(NFS_OP_COMMIT);
	cr_assert(!memcmp(&c.res.io.verf, "\1\2\3\4\5\6\7\10", 8));
	c = run(NFS_OP_STATFS);
	cr_assert(c.res.statfs.afiles == 1 && c.res.statfs.ffiles == 2 && c.res.statfs.tfiles == 3 &&
		  c.res.statfs.abytes == 4 && c.res.statfs.fbytes == 5 && c.res.statfs.tbytes == 0x100000006 &&
		  c.res.statfs.name_max == 143);
}

Test(nfs4, access_bits)
{
	static const struct { uint32_t got; int mask; } t[] = {
		{ 0x3f, R_OK | W_OK | X_OK }, { 0, 0 }, { 0x01, R_OK }, { 0x04, W_OK }, { 0x08, W_OK },
		{ 0x20, X_OK }, { 0x02, X_OK }, { 0x10, 0 }, { 0xffffffc0, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_ACCESS);

		m_res();
		m_op(3);
		M(0x3f, t[i].got);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(c.res.access.mask, t[i].mask, "row %u", i);
	}
}

/* ---- opens ---- */

Test(nfs4, open_state)
{
	struct nfs_call c = call(NFS_OP_OPEN);

	c.args.file.flags = O_RDWR;
	good_reply(NFS_OP_OPEN);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(c.open && nopen4());
	cr_assert(c.open->stateid.seqid == 4 && !memcmp(c.open->stateid.other, "opn1opn2opn3", 12));
	cr_assert_eq(nfs4_stateid(c.open).seqid, 0);
	cr_assert(c.open->access == 3 && c.open->needed == 3 && c.open->owner == owner_bytes && c.open->cred.uid == 1000);
	cr_assert(c.open->file->fh.len == 5, "the file's own handle");
	/* While recovery looks at it, it stays. */
	nfs4_open_get(c.open);
	nfs4_open_put(c.open);
	cr_assert(nopen4());
	done_with(&c);
	cr_assert(!nopen4());

	c = call_create(O_WRONLY);
	good_reply(NFS_OP_CREATE);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(c.open->file->fh.len == 10 && c.open->access == 2);
	done_with(&c);

	c = call_create(O_RDWR);
	c.args.file.widened = true;
	good_reply(NFS_OP_CREATE);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(c.open->access == 3 && c.open->needed == 2);
	done_with(&c);
	cr_assert_eq(nfs4_stateid(NULL).seqid, 0);
}

/* "None wanted" is answered by a reason why there is none, or by one anyway. */
Test(nfs4, open_delegations)
{
	static const struct { unsigned n; uint32_t w[16]; int rc; } t[] = {
		{ 1, { 0 }, 0 },
		{ 2, { 3, 0 }, 0 },                             /* NONE_EXT: not wanted */
		{ 3, { 3, 1, 1 }, 0 },                          /* contention, will push */
		{ 3, { 3, 2, 0 }, 0 },                          /* resource, will not signal */
		{ 10, { 1, 1, 2, 3, 4, 0, 0, 0, 0, 0 }, NFS_NEXT },     /* READ, with its ACE */
		{ 13, { 2, 1, 2, 3, 4, 0, 1, 0, 0, 0, 0, 0, 0 }, NFS_NEXT },    /* WRITE */
		{ 1, { 4 }, -EBADMSG }, { 1, { 0xffffffff }, -EBADMSG },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_OPEN);

		m_res();
		m_open_res(0);
		m_trunc(m_len() - 4);
		m_words(t[i].w, t[i].n);
		m_look_res(0x21, 0x21);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		done_with(&c);
	}
}

/* It goes before anybody hears what became of the OPEN. */
Test(nfs4, a_delegation_is_given_back)
{
	static const struct { enum nfs_op op; uint32_t access, at, status; int rc; } t[] = {
		{ NFS_OP_OPEN, 0x21, 0, 0, 0 }, { NFS_OP_CREATE, 0x21, 0, 0, 0 },
		{ NFS_OP_OPEN, 0x20, 0, 0, -EACCES }, { NFS_OP_OPEN, 0x21, 2, 10025, 0 },
		{ NFS_OP_OPEN, 0x21, 2, 10008, NFS_LATER }, { NFS_OP_OPEN, 0x21, 1, 70, 0 },
		{ NFS_OP_OPEN, 0x21, 1, 10052, NFS_RECOVER },
		{ (enum nfs_op)NFS4_OP_REOPEN, 0x21, 0, 0, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		bool reopen = t[i].op == (enum nfs_op)NFS4_OP_REOPEN, create = t[i].op == NFS_OP_CREATE;
		struct nfs4_ctl k = { .reclaim = true };
		struct nfs_call c = call(t[i].op);

		if (reopen) {
			c.open = &open_file;
			c.args.version = &k;
		}
		m_res();
		m_open_res(0);
		m_trunc(m_len() - 4);
		M(1, 1, 2, 3, 4, 0, 0, 0, 0, 0);
		if (create)
			m_getfh_res();
		if (!reopen)
			m_look_res(0x21, t[i].access);
		if (create)
			m_dir_fh_res();
		cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_NEXT, "row %u", i);
		m_seq_args(3, true);
		M(22);
		m_opaque(create ? "new handle" : "fhand", create ? 10 : 5);
		M(8, 0, 2, 3, 4);
		ARGS(c);
		m_res();
		m_op(8);
		if (t[i].status)
			m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		cr_assert_eq(c.open->delegated, t[i].rc > 0, "row %u", i);
		open_file.delegated = false;
		done_with(&c);
	}
}

/* It has opened a file that has it already. It goes back by itself, not by the OPEN. */
Test(nfs4, a_create_of_a_file_with_a_delegation)
{
	static const char other[12] = { 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4 };
	static const struct nfs_fh made = { .len = 10, .data = "new handle" };
	struct nfs_open *o = open4(&made);
	struct nfs_call c = call(NFS_OP_CREATE);

	cr_assert(delegate4(o, other));
	nfs4_call(&c)->place.epoch = n4.slots.epoch;
	m_res();
	m_open_res(0);
	m_trunc(m_len() - 4);
	M(1, 1, 2, 3, 4, 0, 0, 0, 0, 0);
	m_getfh_res();
	m_look_res(0x21, 0x21);
	m_dir_fh_res();
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert_not(c.open->delegated);
	cr_assert(n4.delegs.count == 1 && nfs4_delegs_any_due(&cl4.server));
	done_with(&c);
	nfs4_open_put(o);
}

/* What the server lets OPEN through for, and what is made of it. change_info says
 * whether a create has made the file. */
Test(nfs4, open_goes_by_access)
{
	static const struct {
		int flags;
		bool exec, create, same;
		uint32_t supported, access;
		int rc;
	} t[] = {
		{ O_RDONLY, 0, 0, 0, 0x21, 0x21, 0 }, { O_RDONLY, 0, 0, 0, 0x21, 0x01, 0 },
		{ O_RDONLY, 0, 0, 0, 0x21, 0x20, -EACCES }, { O_RDONLY, 0, 0, 0, 0x21, 0, -EACCES },
		{ O_RDWR, 0, 0, 0, 0x21, 0x20, -EACCES }, { O_WRONLY, 0, 0, 0, 0x21, 0x20, 0 },
		{ O_WRONLY, 0, 0, 0, 0x21, 0, 0 },
		{ O_RDONLY, 1, 0, 0, 0x21, 0x20, 0 }, { O_RDONLY, 1, 0, 0, 0x21, 0x01, -EACCES },
		/* It cannot tell. */
		{ O_RDONLY, 0, 0, 0, 0x20, 0x20, 0 }, { O_RDONLY, 1, 0, 0, 0, 0, 0 },
		/* Just made, and of a mode that lets nobody in. */
		{ O_RDWR, 0, 1, 0, 0x21, 0, 0 }, { O_RDWR, 0, 1, 0, 0x21, 0x20, 0 },
		{ O_RDWR, 0, 1, 1, 0x21, 0, 0 },
		/* It was there. */
		{ O_RDWR, 0, 1, 1, 0x21, 0x20, -EACCES }, { O_RDWR, 0, 1, 1, 0x21, 0x21, 0 },
		{ O_WRONLY, 0, 1, 1, 0x21, 0x20, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = t[i].create ? call_create(t[i].flags) : call(NFS_OP_OPEN);

		c.args.file.flags = t[i].flags;
		c.args.file.exec = t[i].exec;
		m_res();
		m_open_res(2);
		/* change_info: after, its low word; behind it flags, attrset, delegation */
		if (t[i].same)
			m_set(m_len() - 6 * 4, 1);
		if (t[i].create)
			m_getfh_res();
		m_look_res(t[i].supported, t[i].access);
		if (t[i].create)
			m_dir_fh_res();
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		cr_assert(c.open, "refused or not, there is one to be closed");
		done_with(&c);
	}
}

/* It comes when it is asked for by itself, too. */
Test(nfs4, open_goes_by_late_access)
{
	for (unsigned create = 0; create < 2; create++) {
		struct nfs_call c = create ? call_create(O_RDWR) : call(NFS_OP_OPEN);

		m_res();
		m_open_res(2);
		m_set(m_len() - 6 * 4, 1);
		if (create)
			m_getfh_res();
		m_look_res(0x21, 0x21);
		m_fail_at(3 + create, 10008);
		cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_LATER);
		m_seq_args(4, false);
		M(22);
		m_opaque(create ? "new handle" : "fhand", create ? 10 : 5);
		m_look();
		ARGS(c);
		m_res();
		m_look_res(0x21, 0x20);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EACCES);
		cr_assert(c.open);
		done_with(&c);
	}
}

/* ---- a file by its names, if they are still its names ---- */

static const struct nfs_fh dir1 = { .len = 4, .data = "dir1" };

static struct nfs_call call_named(enum nfs_op op, unsigned names)
{
	struct nfs_call c = call(op);

	c.args.where[0] = (struct nfs_where){ &dir1, "newest" };
	c.args.where[1] = (struct nfs_where){ &fh2, "older" };
	c.args.nwhere = names;
	if (op == NFS_OP_SETATTR)
		c.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_SIZE, .size = 5 };
	return c;
}

static void m_name_args(const char *dir, const char *name)
{
	M(22);
	m_opaque(dir, 4);
	M(15);
	m_str(name);
	M(37, 1, 1 << 19, 12);          /* VERIFY of the handle */
	m_opaque("fhand", 5);
}

/* `names` of the two: the last ones are left out. */
static void m_named_args(enum nfs_op op, unsigned names)
{
	if (names)
		m_seq_args(op == NFS_OP_OPEN ? 4 + 3 * names : 3 + 3 * names, true);
	else
		m_args(op == NFS_OP_OPEN ? 5 : 4, true);
	if (names > 1)
		m_name_args("dir2", "older");
	if (names)
		m_name_args("dir1", "newest");
	if (op == NFS_OP_OPEN) {
		m_open_args(2);
		M(0, 4);
		m_look();
	} else {
		M(34, 0, 0, 0, 0, 1, 0x10, 8, 0, 5);
		m_getattr();
	}
}

static void m_named_res(enum nfs_op op, unsigned names)
{
	m_seq_res();
	m_set(8, op == NFS_OP_OPEN ? 4 + 3 * names : 3 + 3 * names);
	for (unsigned i = 0; i < names; i++) {
		m_op(22);
		m_op(15);
		m_op(37);
	}
	if (op == NFS_OP_OPEN) {
		m_open_res(0);
		m_look_res(0x21, 0x21);
	} else {
		m_op(34);
		M(1, 0x10);
		m_getattr_res();
	}
}

static const enum nfs_op named_ops[] = { NFS_OP_OPEN, NFS_OP_SETATTR };

Test(nfs4, names_come_before_what_is_done)
{
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned names = 1; names <= 2; names++) {
			struct nfs_call c = call_named(named_ops[i], names), pristine = c;

			m_named_args(c.op, names);
			c.args.file.flags = O_WRONLY;
			if (c.op == NFS_OP_SETATTR)
				c = call_named(c.op, names);
			ARGS(c);
			nfs4_call(&c)->looks = nfs4_call(&pristine)->looks = (uint8_t)names;
			m_named_res(c.op, names);
			cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
			cr_assert_eq(c.open != NULL, c.op == NFS_OP_OPEN);
			done_with(&c);
			play_all_cuts(&pristine, def_of(c.op), &hooks4);
			play_twists(&pristine, def_of(c.op), &hooks4);
		}
	}
}

/* The server takes only so many operations. */
Test(nfs4, as_many_names_as_the_server_takes)
{
	static const struct { uint32_t maxops; unsigned names; } t[] = {
		{ 8, 1 }, { 9, 1 }, { 10, 2 }, { 50, 2 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_named(NFS_OP_OPEN, 2);

		n4.maxops = t[i].maxops;
		c.args.file.flags = O_WRONLY;
		m_named_args(NFS_OP_OPEN, t[i].names);
		ARGS(c);
	}
}

/* at: which operation fails. names: how many the next sending looks at. */
Test(nfs4, names_that_are_others)
{
	static const struct { unsigned at; uint32_t status; int rc; unsigned names; } t[] = {
		/* The directory, the name, the file: another one's, or nobody's. */
		{ 1, 70, -NFS_EMOVED, 2 }, { 2, 2, -NFS_EMOVED, 2 }, { 2, 20, -NFS_EMOVED, 2 },
		{ 3, 10027, -NFS_EMOVED, 2 }, { 4, 70, -NFS_EMOVED, 2 }, { 5, 2, -NFS_EMOVED, 2 },
		{ 6, 10027, -NFS_EMOVED, 2 },
		/* Later. */
		{ 2, 10008, NFS_LATER, 2 }, { 6, 10008, NFS_LATER, 2 },
		/* The server does not say: without that name, and those that are older. */
		{ 2, 13, NFS_AGAIN, 1 }, { 5, 13, NFS_AGAIN, 0 }, { 3, 13, NFS_AGAIN, 1 },
		/* It cannot compare handles. */
		{ 3, 22, NFS_AGAIN, 0 }, { 6, 10032, NFS_AGAIN, 0 }, { 6, 10004, NFS_AGAIN, 0 },
		/* What follows fails as always. */
		{ 7, 13, -EACCES, 2 }, { 7, 70, -ESTALE, 2 }, { 7, 2, -ENOENT, 2 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (unsigned o = 0; o < 2; o++) {
			struct nfs_call c = call_named(named_ops[o], 2);

			nfs4_call(&c)->looks = 2;
			m_named_res(c.op, 2);
			m_fail_at(t[i].at, t[i].status);
			cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
			cr_assert_null(c.open, "nothing was opened");
			if (c.op == NFS_OP_OPEN)
				c.args.file.flags = O_WRONLY;
			m_named_args(c.op, t[i].names);
			ARGS(c);
			atomic_store(&n4.no_verify, false);
		}
	}
}

/* Once the server has said that it cannot, it is not asked again. */
Test(nfs4, servers_that_cannot_compare)
{
	struct nfs_call c = call_named(NFS_OP_SETATTR, 1);

	nfs4_call(&c)->looks = 1;
	m_named_res(c.op, 1);
	m_fail_at(3, 10032);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_AGAIN);
	m_named_args(NFS_OP_SETATTR, 0);
	ARGS(call_named(NFS_OP_SETATTR, 2));
}

/* What the server did not set of an exclusive create is set in a second step,
 * and so are the times if it kept the verifier there (RFC 8881, 18.16.3). */
Test(nfs4, exclusive_create_sets_the_rest)
{
	static const struct { uint32_t attrset; int rc; } t[] = {
		{ 1 << 1, 0 },                                  /* mode */
		{ 0, NFS_NEXT },
		{ 1 << 1 | 1 << 15 | 1 << 21, NFS_NEXT },       /* time_access, time_modify */
		{ 1 << 1 | 1 << 21, NFS_NEXT },
		{ 1 << 1 | 1 << 16, NFS_NEXT }, { 1 << 1 | 1 << 22, NFS_NEXT }, /* ..._set */
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_create(O_RDWR | O_EXCL);
		const struct nfs_opdef *d = def_of(c.op);

		m_res();
		m_open_res(t[i].attrset);
		m_getfh_res();
		m_getattr_res();
		m_dir_fh_res();
		cr_assert_eq(play_reply(&c, d), t[i].rc, "row %u", i);
		cr_assert_not_null(c.open);
		if (t[i].rc == NFS_NEXT) {
			m_seq_args(4, true);
			M(22);
			m_opaque("new handle", 10);
			M(34, 0, STATEID_WORDS, 2, 0, 1 << 1 | 1 << 16 | 1 << 22, 12, 0640, 0, 0);
			m_getattr();
			ARGS(c);
			good_reply(NFS_OP_SETATTR);
			cr_assert_eq(play_reply(&c, d), 0);
		}
		done_with(&c);
	}
}

/* It fails before the mode is set: 0640 was asked for, and the server has made something else. */
Test(nfs4, exclusive_create_without_its_mode_fails)
{
	static const struct { unsigned at; uint32_t status; int rc; } t[] = {
		{ 2, 1, -EPERM }, { 2, 69, -EDQUOT }, { 1, 70, -ESTALE }, { 2, 10008, NFS_LATER },
		{ 3, 13, 0 },                   /* GETATTR, behind the mode */
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_create(O_RDWR | O_EXCL);
		const struct nfs_opdef *d = def_of(c.op);

		m_res();
		m_open_res(0);
		m_getfh_res();
		m_getattr_res();
		m_dir_fh_res();
		cr_assert_eq(play_reply(&c, d), NFS_NEXT);
		cr_assert(c.res.has_attr);
		good_reply(NFS_OP_SETATTR);
		m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, d), t[i].rc, "row %u", i);
		cr_assert(c.open, "the engine closes it");
		done_with(&c);
	}
}

/* The mode is as asked for, so a failure of the second step is not the create's. */
Test(nfs4, second_step_may_fail)
{
	static const struct { unsigned at; uint32_t status; int rc; } t[] = {
		{ 2, 1, 0 }, { 2, 10008, NFS_LATER }, { 3, 13, 0 }, { 1, 70, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_create(O_RDWR | O_EXCL);

		c.eng.step = 1;
		c.open = &open_file;
		c.res.fh = fh2;
		c.res.has_attr = true;      /* OPEN's */
		good_reply(NFS_OP_SETATTR);
		m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		done_with(&c);
	}
}

Test(nfs4, close_of_what_is_gone)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 10025, 0 }, { 10023, 0 }, { 10024, 0 },
		/* Revoked: FREE_STATEID comes next. */
		{ 10011, NFS_NEXT }, { 10047, NFS_NEXT }, { 10087, NFS_NEXT },
		{ 10008, NFS_LATER }, { 10006, -EIO }, { 13, -EACCES },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_CLOSE);

		good_reply(NFS_OP_CLOSE);
		m_fail_at(2, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "status %u", t[i].status);
		cr_assert_not(atomic_load(&open_file.reopen));
		done_with(&c);
	}
}

/* GETFH fails behind an OPEN that has created: the engine makes a CLOSE of the call,
 * and the file is found by its name. */
Test(nfs4, close_of_what_has_no_handle)
{
	static const struct { unsigned at; uint32_t status; int rc; } t[] = {
		{ 0, 0, 0 }, { 2, 2, -ENOENT }, { 2, 10008, NFS_LATER }, { 3, 10025, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_create(O_RDWR);

		good_reply(NFS_OP_CREATE);
		m_fail_at(3, 10006);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EIO);
		cr_assert_not_null(c.open);
		cr_assert_not(nfs4_is_ours(c.open), "nothing that recovery could open");
		c.op = NFS_OP_CLOSE;
		c.eng.step = 0;
		m_args(4, true);
		M(15);
		m_str("name");
		M(4, 0, 0, STATEID_WORDS);
		ARGS(c);
		m_res();
		m_op(15);
		m_op(4);
		M(0xffffffff, 0, 0, 0);
		if (t[i].at)
			m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		done_with(&c);
	}
}

Test(nfs4, reopen)
{
	static const struct { uint32_t status; bool reclaim; int rc; } t[] = {
		{ 0, true, 0 }, { 0, false, 0 }, { 10008, true, NFS_LATER },
		{ 10008, false, -EBUSY },                               /* DELAY: others first */
		{ 10013, false, -EBUSY }, { 10013, true, NFS_LATER },   /* GRACE */
		{ 10033, true, -EIO },                                  /* NO_GRACE */
		{ 13, false, -EACCES }, { 70, true, -ESTALE }, { 10015, false, -EBUSY },
	};

	atomic_store(&n4.lease_s, 90);
	n4.later_ns = 0;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs4_ctl k = { .c = call4(NFS4_OP_REOPEN), .reclaim = t[i].reclaim };

		k.c.open = &open_file;
		k.c.args.version = &k;
		atomic_store(&open_file.reopen, true);
		open_file.stateid.seqid = 9;
		m_res();
		m_open_res(0);
		if (t[i].status)
			m_fail_at(2, t[i].status);
		cr_assert_eq(play_reply(&k.c, def_of(NFS4_OP_REOPEN)), t[i].rc, "row %u", i);
		cr_assert_eq(k.status, t[i].status);
		cr_assert(atomic_load(&open_file.reopen), "its locks come first");
		atomic_store(&open_file.reopen, false);
		cr_assert_eq(open_file.stateid.seqid, t[i].status ? 9 : 4);
		if (!t[i].status) {
			struct nfs_call c = k.c;

			play_all_cuts(&c, def_of(NFS4_OP_REOPEN), &hooks4);
		}
	}
}

/* "Later" since when? Each other answer begins anew. */
static int reopen_is_told(uint32_t status)
{
	struct nfs4_ctl k = { .c = call4(NFS4_OP_REOPEN), .reclaim = true };

	k.c.open = &open_file;
	k.c.args.version = &k;
	atomic_store(&open_file.reopen, true);
	m_res();
	m_open_res(0);
	m_fail_at(2, status);
	return play_reply(&k.c, def_of(NFS4_OP_REOPEN));
}

Test(nfs4, reopen_for_too_long)
{
	atomic_store(&n4.lease_s, 90);
	n4.later_ns = 1;
	cr_assert_eq(reopen_is_told(NFS4ERR_DELAY), -EBUSY);
	cr_assert_eq(reopen_is_told(NFS4ERR_NO_GRACE), -EIO);
	cr_assert_eq(reopen_is_told(NFS4ERR_DELAY), NFS_LATER);
	cr_assert_neq(n4.later_ns, 0);
}

/* ---- failures ---- */

struct failure {
	uint32_t status;
	int rc;
	bool session, client;           /* what is found to be needed */
};

static const struct failure failures[] = {
	{ 1, -EPERM, 0, 0 }, { 2, -ENOENT, 0, 0 }, { 5, -EIO, 0, 0 }, { 6, -ENXIO, 0, 0 },
	{ 13, -EACCES, 0, 0 }, { 17, -EEXIST, 0, 0 }, { 18, -EXDEV, 0, 0 }, { 20, -ENOTDIR, 0, 0 },
	{ 21, -EISDIR, 0, 0 }, { 22, -EINVAL, 0, 0 }, { 27, -EFBIG, 0, 0 }, { 28, -ENOSPC, 0, 0 },
	{ 30, -EROFS, 0, 0 }, { 31, -EMLINK, 0, 0 }, { 63, -ENAMETOOLONG, 0, 0 },
	{ 66, -ENOTEMPTY, 0, 0 }, { 69, -EDQUOT, 0, 0 }, { 70, -ESTALE, 0, 0 },
	{ 10001, -ESTALE, 0, 0 }, { 10003, -NFS_ECOOKIE, 0, 0 }, { 10004, -EOPNOTSUPP, 0, 0 },
	{ 10005, -EINVAL, 0, 0 }, { 10006, -EIO, 0, 0 }, { 10007, -EINVAL, 0, 0 },
	{ 10014, -ESTALE, 0, 0 }, { 10015, -EBUSY, 0, 0 }, { 10016, -EACCES, 0, 0 },
	{ 10018, -EIO, 0, 0 }, { 10019, -EREMOTE, 0, 0 }, { 10021, -EPROTONOSUPPORT, 0, 0 },
	{ 10027, -NFS_ECOOKIE, 0, 0 }, { 10029, -ELOOP, 0, 0 }, { 10032, -EOPNOTSUPP, 0, 0 },
	{ 10036, -EIO, 0, 0 }, { 10038, -EACCES, 0, 0 }, { 10039, -EINVAL, 0, 0 },
	{ 10040, -EINVAL, 0, 0 }, { 10041, -EINVAL, 0, 0 }, { 10044, -EIO, 0, 0 },
	{ 10046, -EBUSY, 0, 0 }, { 10083, -EINVAL, 0, 0 }, { 10090, -EOPNOTSUPP, 0, 0 },
	{ 10091, -EOPNOTSUPP, 0, 0 }, { 10094, -EOPNOTSUPP, 0, 0 },
	/* Too large, for the session; never an errno that a caller could take for his own. */
	{ 10064, -EIO, 0, 0 }, { 10065, -EIO, 0, 0 }, { 10070, -EIO, 0, 0 },
	/* Depends on which operation says so, see outcome(). */
	{ 10066, 0, 0, 0 }, { 10067, 0, 0, 0 }, { 10008, 0, 0, 0 }, { 10055, 0, 0, 0 },
	/* Executed, and the reply was not kept; Linux lets PUTFH say so. */
	{ 10068, NFS_AGAIN, 0, 0 },
	/* Wait. */
	{ 10013, NFS_LATER, 0, 0 }, { 10012, NFS_LATER, 0, 0 },
	/* The session is gone, or the client id. */
	{ 10052, NFS_RECOVER, 1, 0 }, { 10078, NFS_RECOVER, 1, 0 },
	{ 10053, NFS_RECOVER, 1, 0 }, { 10077, NFS_RECOVER, 1, 0 }, { 10063, NFS_RECOVER, 1, 0 },
	{ 10076, NFS_RECOVER, 1, 0 }, { 10022, NFS_RECOVER, 0, 1 },
	/* Unknown numbers. */
	{ 3, -EIO, 0, 0 }, { 9999, -EIO, 0, 0 }, { 10097, -EIO, 0, 0 }, { 0xffffffff, -EIO, 0, 0 },
};
#define N_FAILURES (sizeof(failures) / sizeof(failures[0]))

/* What OPEN has opened is there to be closed, whatever fails after it. */
static void expect_open(const struct nfs_call *c, unsigned at)
{
	bool made = (c->op == NFS_OP_OPEN || c->op == NFS_OP_CREATE) && at > 2;

	if (made)
		cr_assert(c->open && c->open->stateid.seqid == 4 && nopen4());
	else
		cr_assert(!c->open || c->open == &open_file);
}

/* Encodes it, as nobody looks at what. */
static void send_it(struct nfs_call *c)
{
	char buf[1024];
	XDR x;

	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert(def_of(c->op)->encode(c, &x));
}

/* The last operation that changes something, if any; what is behind it can be
 * asked for without it. */
static unsigned effect_of(enum nfs_op op)
{
	switch (op) {
	case NFS_OP_SETATTR:
	case NFS_OP_OPEN:
	case NFS_OP_MKDIR:
	case NFS_OP_SYMLINK:
	case NFS_OP_MKNOD:
	case NFS_OP_ALLOCATE:
		return 2;
	case NFS_OP_CREATE:             /* up to GETFH it is one */
	case NFS_OP_DEALLOCATE:
		return 3;
	case NFS_OP_LINK:
		return 4;
	case NFS_OP_COPY:
	case NFS_OP_CLONE:
		return 5;
	default:
		return 99;
	}
}

static int outcome(const struct nfs_call *c, unsigned at, const struct failure *f)
{
	switch (f->status) {
	case 10008:                     /* SEQUENCE's keeps the slot */
		return at ? NFS_LATER : NFS_DELAYED;
	case 10055:                     /* only SEQUENCE can say so */
		return at ? -EIO : NFS_DELAYED;
	case 10066:
		return at > effect_of(c->op) ? NFS_AGAIN : -EIO;
	case 10067:
		return nfs4_call_const(c)->cached ? NFS_AGAIN : -EIO;
	default:
		return f->rc;
	}
}

static unsigned m_nops_of(enum nfs_op op)
{
	static unsigned n[NFS_OP_MAX];

	return n[op] ? n[op] : (n[op] = (good_reply(op), m_nops()));
}

static void fail_one(enum nfs_op op, unsigned at, const struct failure *f)
{
	struct nfs_call c = call(op);
	const struct nfs_opdef *d = def_of(op);
	int rc, wanted;

	send_it(&c);
	wanted = outcome(&c, at, f);
	m_nops_of(op);
	good_reply(op);
	m_fail_at(at, f->status);
	rc = play_reply(&c, d);
	if (at >= m_nops_of(op) - tail_of(op) || (op == NFS_OP_LINK && at == 5)) {
		/* The change has had its effect. LINK asks for the file's attributes again. */
		cr_assert_eq(rc, op == NFS_OP_LINK ? NFS_NEXT : 0, "%s, operation %u, status %u: %d", d->name, at,
			     f->status, rc);
		cr_assert_eq(c.res.has_dir_attr[1], op == NFS_OP_RENAME && at > 5);
		cr_assert_not(c.res.has_dir_attr[0]);
		done_with(&c);
		return;
	}
	cr_assert_eq(rc, wanted, "%s, operation %u, status %u: %d", d->name, at, f->status, rc);
	cr_assert_eq(atomic_load(&n4.need_session), f->session);
	cr_assert_eq(atomic_load(&n4.need_client), f->client);
	cr_assert_not(c.res.has_attr);
	cr_assert_eq(nfs4_call(&c)->in_doubt, f->status == 10068);
	expect_open(&c, at);
	cr_assert_eq(seen.n, 0);
	done_with(&c);
}

Test(nfs4, any_operation_may_fail_with_anything)
{
	for (unsigned o = 0; o < N_OPS; o++) {
		unsigned n;

		good_reply(all_ops[o]);
		n = m_nops();
		for (unsigned at = 0; at < n; at++)
			for (unsigned i = 0; i < N_FAILURES; i++)
				fail_one(all_ops[o], at, &failures[i]);
	}
}

Test(nfs4, failed_replies_cut_anywhere)
{
	for (unsigned o = 0; o < N_OPS; o++) {
		unsigned n;

		good_reply(all_ops[o]);
		n = m_nops();
		for (unsigned at = 0; at < n; at++) {
			struct nfs_call c = call(all_ops[o]);

			good_reply(all_ops[o]);
			m_fail_at(at, 13);
			play_all_cuts(&c, def_of(c.op), &hooks4);
		}
	}
}

Test(nfs4, lost_stateids)
{
	static const uint32_t statuses[] = { 10025, 10023, 10024, 10011, 10047 };

	for (unsigned i = 0; i < 5; i++) {
		struct nfs_call c = call(NFS_OP_READ);

		/* A few times recovery is believed; then it is an error. */
		for (unsigned tries = 0; tries < 4; tries++) {
			good_reply(NFS_OP_READ);
			m_fail_at(2, statuses[i]);
			cr_assert_eq(play_reply(&c, def_of(c.op)), tries < 3 ? NFS_REOPEN : -EIO);
			cr_assert_eq(atomic_exchange(&open_file.reopen, false), tries < 3);
		}
		/* Without an open there is nothing to recover, nor one that is lost. */
		c = call(NFS_OP_READ);
		c.open = NULL;
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EIO);
		c = call(NFS_OP_READ);
		atomic_store(&open_file.lost, true);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EIO);
		atomic_store(&open_file.lost, false);
		cr_assert_not(atomic_load(&open_file.reopen));
	}
}

/* ---- COMPOUND's head ---- */

Test(nfs4, compound_heads)
{
	struct nfs_call c = call(NFS_OP_GETATTR);
	static char tag[1030];

	/* A tag that we did not send. */
	memset(tag, 't', sizeof(tag));
	for (uint32_t len = 1; len < 1030; len += 257) {
		m_new();
		M(0);
		m_opaque(tag, len);
		M(3, 53, 0, SESSION_WORDS, 1, 0, 9, 9, 0, 22, 0, 9, 0);
		m_stat_fattr();
		cr_assert_eq(play_cut(&c, def_of(c.op), m_len()), len <= 1024 ? 0 : -EBADMSG);
	}
	/* Failed before the first operation. */
	m_new();
	M(10021, 0, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EPROTONOSUPPORT);
	m_set(0, 10036);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EIO);
	m_set(0, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "success, of nothing");
}

/* Results of other operations than were sent. */
Test(nfs4, wrong_operations)
{
	for (unsigned o = 0; o < N_OPS; o++) {
		struct nfs_call c = call(all_ops[o]);
		unsigned n;

		good_reply(all_ops[o]);
		n = m_nops();
		for (unsigned at = 0; at < n; at++) {
			good_reply(all_ops[o]);
			m_set(m_op_at(at), 10044);      /* OP_ILLEGAL */
			cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "%s, operation %u",
				     def_of(c.op)->name, at);
			expect_open(&c, at);
		}
		done_with(&c);
	}
}

/* ---- operations that a server may lack ---- */

/* It says so by either status, and is not asked again. But by NOTSUPP it may mean a single file system,
 * and without ALLOCATE fallocate fails: that would be for those that have it, too. */
Test(nfs4, operations_that_are_not_there)
{
	static const struct { enum nfs_op op; uint32_t number; } t[] = {
		{ NFS_OP_SEEK, 69 }, { NFS_OP_ALLOCATE, 59 }, { NFS_OP_DEALLOCATE, 62 },
		{ NFS_OP_COPY, 60 }, { NFS_OP_CLONE, 71 }, { NFS_OP_OFFLOAD_STATUS, 67 },
	};

	for (unsigned i = 0; i < 2 * sizeof(t) / sizeof(t[0]); i++) {
		enum nfs_op op = t[i / 2].op;
		bool once = i & 1 || op == NFS_OP_SEEK || op == NFS_OP_COPY || op == NFS_OP_CLONE;
		struct nfs_call c = call(op);

		atomic_store(&cl4.server.lacks, 0);
		cr_assert_not(nfs_lacks(&cl4.server, op));
		m_res();
		if (op == NFS_OP_COPY || op == NFS_OP_CLONE)
			m_op(32), m_op(22);
		M(i & 1 ? 10044 : t[i / 2].number, i & 1 ? 10044 : 10004);
		m_set(0, i & 1 ? 10044 : 10004);
		cr_assert_eq(play_reply(&c, def_of(op)), -EOPNOTSUPP, "operation %u", op);
		cr_assert_eq(atomic_load(&cl4.server.lacks), once ? UINT64_C(1) << op : 0, "operation %u", op);
		done_with(&c);
		/* Another failure says nothing. */
		atomic_store(&cl4.server.lacks, 0);
		c = call(op);
		m_res();
		if (op == NFS_OP_COPY || op == NFS_OP_CLONE)
			m_op(32), m_op(22);
		M(t[i / 2].number, 22);
		m_set(0, 22);
		cr_assert_eq(play_reply(&c, def_of(op)), -EINVAL);
		cr_assert_not(nfs_lacks(&cl4.server, op));
		done_with(&c);
	}
	cl4.server.version = &nfs_v41;
	cr_assert(nfs_lacks(&cl4.server, NFS_OP_SEEK), "4.1 has none of them");
	atomic_store(&cl4.server.lacks, 0);
}

/* The hole is there, and not refilled: nobody says that the server makes no holes. */
Test(nfs4, a_hole_that_is_not_refilled)
{
	struct nfs_call c = call(NFS_OP_DEALLOCATE);

	m_res();
	m_op(62);
	M(59, 10004);
	m_set(0, 10004);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EOPNOTSUPP);
	cr_assert_not(nfs_lacks(&cl4.server, NFS_OP_DEALLOCATE));
	done_with(&c);
}

Test(nfs4, where_seek_ends)
{
	static const struct { bool hole, eof; uint64_t offset, found; int rc; } t[] = {
		{ 0, 0, 4096, 4096, 0 }, { 0, 0, 4096, 8192, 0 }, { 0, 1, 4096, 8192, -ENXIO },
		{ 1, 0, 4096, 8192, 0 }, { 1, 1, 4096, 10000, 0 }, { 1, 1, 4096, 4096, 0 },
		/* Before the offset, and beyond what lseek() can return. */
		{ 0, 0, 4096, 4095, -EBADMSG }, { 1, 1, 4096, 0, -EBADMSG }, { 1, 0, 4096, 4095, -EBADMSG },
		{ 0, 0, 0, UINT64_C(1) << 63, -EBADMSG }, { 1, 1, 0, UINT64_MAX, -EBADMSG },
		{ 0, 0, 0, INT64_MAX, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_SEEK);

		c.args.seek.offset = t[i].offset;
		c.args.seek.hole = t[i].hole;
		m_res();
		m_op(69);
		M(t[i].eof);
		m_u64(t[i].found);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		cr_assert(t[i].rc || c.res.seek.offset == t[i].found);
		done_with(&c);
	}
}

/* ---- when a file was made ---- */

Test(nfs4, birth)
{
	struct nfs_call c = run(NFS_OP_BIRTH);

	cr_assert(c.res.has_btime && c.res.btime.tv_sec == 50 && c.res.btime.tv_nsec == 999999999);
	done_with(&c);
	/* A server that does not know it. */
	c = call(NFS_OP_BIRTH);
	m_res();
	m_getattr_res();
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(c.res.has_attr && !c.res.has_btime);
	done_with(&c);
}

/* ---- copies ---- */

static void m_copied(uint32_t running)
{
	m_res();
	m_op(32);
	m_op(22);
	m_op(60);
	M(running);
	if (running)
		M(COPY_ID_WORDS);
}

/* Without a COMMIT behind it. */
static struct nfs_call call_copy(void)
{
	struct nfs_call c = call(NFS_OP_COPY);

	c.args.copy.commit = false;
	return c;
}

Test(nfs4, what_copy_says)
{
	struct nfs_call c = run(NFS_OP_COPY);

	cr_assert(c.res.copy.count == 0x100000001 && !c.res.copy.running && !c.res.copy.stable);
	cr_assert(c.res.copy.committed, "COMMIT's verifier is the same");
	cr_assert(!memcmp(&c.res.copy.verf, "\1\2\3\4\5\6\7\10", 8));
	done_with(&c);
	c = call(NFS_OP_COPY);
	good_reply(c.op);
	m_set(m_op_at(5) + 8, 0x01020305);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert_not(c.res.copy.committed, "the server has restarted in between");
	done_with(&c);
	for (uint32_t committed = 1; committed < 3; committed++) {
		c = call_copy();
		m_copied(0);
		M(1, 2, committed, 1, 2, 1, 1);
		m_getattr_res();
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert(c.res.copy.stable == (committed == 2), "DATA_SYNC4 is not enough");
		done_with(&c);
	}
	/* More than was asked for. */
	c = call_copy();
	m_copied(0);
	M(1, 3, 2, 1, 2, 1, 1);
	m_getattr_res();
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
	done_with(&c);
	/* It goes on, whatever the numbers say. Two of them are malformed. */
	for (unsigned back = 0; back < 2; back++) {
		c = call_copy();
		atomic_store(&n4.back.has, back);
		m_copied(1);
		M(UINT32_MAX, 0, 2, 1, 2, 1, 0);
		m_getattr_res();
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert(c.res.copy.running && !c.res.copy.stable && !c.res.copy.count);
		cr_assert(c.res.copy.told == back, "CB_OFFLOAD can come, or not");
		cr_assert_eq(memcmp(&c.res.copy.id, &copy_id, sizeof(copy_id)), 0);
		done_with(&c);
	}
	c = call_copy();
	m_copied(2);
	M(COPY_ID_WORDS, 0, 1, 2, 1, 2, 1, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
	done_with(&c);
	/* The server cannot do it as it was asked to. */
	c = call_copy();
	m_copied(0);
	m_trunc(m_len() - 8);
	M(10094, 1, 0);
	m_set(0, 10094);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EOPNOTSUPP);
	cr_assert_not(nfs_lacks(&cl4.server, NFS_OP_COPY), "another one it may copy");
	done_with(&c);
}

Test(nfs4, a_copy_that_goes_on)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 0, 0 }, { 28, -ENOSPC }, { 5, -EIO }, { 10008, -EIO }, { 77777, -EIO },
	};
	struct nfs_call c = run(NFS_OP_OFFLOAD_STATUS);

	cr_assert(c.res.copy.running && c.res.copy.count == 4096);
	done_with(&c);
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		c = call(NFS_OP_OFFLOAD_STATUS);
		m_res();
		m_op(67);
		M(1, 2, 1, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		cr_assert(!c.res.copy.running && c.res.copy.count == 0x100000002);
		done_with(&c);
	}
	c = call(NFS_OP_OFFLOAD_STATUS);
	m_res();
	m_op(67);
	M(1, 3, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "more than was asked for");
	done_with(&c);
}

/* What the server does not know it does not copy. No open is lost by that. */
Test(nfs4, a_copy_that_is_cancelled)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 10025, 0 }, { 10023, 0 }, { 10054, 0 }, { 10004, -EOPNOTSUPP }, { 10024, -EIO },
		{ 10008, NFS_LATER },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_OFFLOAD_CANCEL);

		good_reply(c.op);
		m_fail_at(2, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		done_with(&c);
		c = call(NFS_OP_OFFLOAD_STATUS);
		good_reply(c.op);
		m_fail_at(2, 10025);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EIO);
		cr_assert_not(atomic_load(&open_file.reopen));
		done_with(&c);
	}
}

/* Either may be meant. The call waits for both, and fails if one is lost for good. */
Test(nfs4, stateids_of_two_opens)
{
	struct nfs_call c = call(NFS_OP_COPY);

	good_reply(NFS_OP_COPY);
	m_fail_at(4, 10025);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_REOPEN);
	cr_assert(atomic_load(&open_file.reopen) && atomic_load(&from_file.reopen));
	atomic_store(&open_file.settled, true);
	atomic_store(&from_file.settled, true);
	atomic_store(&open_file.reopen, false);
	cr_assert_eq(nfs4_open_ready(&c), NFS_REOPEN, "for the source");
	atomic_store(&from_file.reopen, false);
	cr_assert_eq(nfs4_open_ready(&c), 1);
	atomic_store(&from_file.locks_lost, 1);
	cr_assert_eq(nfs4_open_ready(&c), -EIO);
	atomic_store(&from_file.locks_lost, 0);
	cr_assert_eq(nfs4_open_ready(&c), 1);
	atomic_store(&from_file.lost, true);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EIO);
	atomic_store(&from_file.lost, false);
	done_with(&c);
}

/* ---- results that must be refused ---- */

Test(nfs4, bad_handles)
{
	static const struct { uint32_t len; int rc; } t[] = {
		{ 0, -EBADMSG }, { 1, 0 }, { 128, 0 }, { 129, -EBADMSG }, { 200, -EBADMSG },
	};
	static char bytes[200];

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_LOOKUP);

		m_res();
		m_op(15);
		m_op(10);
		m_opaque(bytes, t[i].len);
		m_getattr_res();
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "%u bytes", t[i].len);
		done_with(&c);
	}
}

Test(nfs4, read_counts)
{
	static const struct { uint32_t len; bool placed; uint32_t placed_len; int rc; } t[] = {
		{ 12, false, 0, 0 }, { 5, false, 0, 0 }, { 0, false, 0, 0 }, { 13, false, 0, -EBADMSG },
		{ 12, true, 12, 0 }, { 5, true, 5, 0 }, { 5, true, 8, 0 }, { 5, true, 9, -EBADMSG },
		{ 5, true, 4, -EBADMSG }, { 13, true, 13, -EBADMSG }, { 0xfffffffd, true, 0, -EBADMSG },
		{ 0xffffffff, true, 0xffffffff, -EBADMSG },
	};
	struct nfs_call c;

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		c = call(NFS_OP_READ);
		c.eng.rr.placed = t[i].placed;
		c.eng.rr.data = sink;
		c.eng.rr.placed_len = t[i].placed_len;
		m_res();
		m_op(25);
		M(0, t[i].len);
		for (uint32_t b = 0; !t[i].placed && b < t[i].len; b += 4)
			M(0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		if (!t[i].rc)
			cr_assert(c.res.io.len == t[i].len && !c.res.io.eof);
		if (!t[i].rc && t[i].placed)
			cr_assert_eq(c.res.io.ptr, (const void *)sink);
	}
	/* Nothing asked for is not "no bound". */
	c = call(NFS_OP_READ);
	c.args.io.count = 0;
	m_res();
	m_op(25);
	M(0, 4, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
}

Test(nfs4, write_counts)
{
	static const struct { uint32_t count, committed; int rc; bool stable; } t[] = {
		{ 1023, 2, 0, true }, { 1, 2, 0, true }, { 1023, 0, 0, false }, { 1023, 1, 0, false },
		{ 0, 2, -EBADMSG, false }, { 1024, 2, -EBADMSG, false },
		{ 0xffffffff, 2, -EBADMSG, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_WRITE);

		m_res();
		m_op(38);
		M(t[i].count, t[i].committed, i, 0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		if (!t[i].rc)
			cr_assert(c.res.io.len == t[i].count && c.res.io.stable == t[i].stable);
	}
}

Test(nfs4, link_targets)
{
	static char path[4100];
	static const struct { uint32_t len; int rc; } t[] = {
		{ 0, 0 }, { 1, 0 }, { 4096, 0 }, { 4097, -EBADMSG },
	};

	memset(path, 'p', sizeof(path));
	for (unsigned i = 0; i < 4; i++) {
		struct nfs_call c = call(NFS_OP_READLINK);

		m_res();
		m_op(27);
		m_opaque(path, t[i].len);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "%u bytes", t[i].len);
	}
	path[77] = '\0';                /* as a string it would be another link */
	for (uint32_t len = 77; len < 79; len++) {
		struct nfs_call c = call(NFS_OP_READLINK);

		m_res();
		m_op(27);
		m_opaque(path, len);
		cr_assert_eq(play_reply(&c, def_of(c.op)), len == 77 ? 0 : -EBADMSG);
	}
}

/* Linux's knfsd places the wrong bytes. */
Test(nfs4, link_text_is_not_to_be_placed)
{
	const struct nfs_opdef *d = def_of(NFS_OP_READLINK);

	cr_assert_not(d->placed_text);
	cr_assert_geq(d->results_max, 4096);
}

/* ---- directories ---- */

Test(nfs4, readdir)
{
	struct nfs_call c = run(NFS_OP_READDIR);

	cr_assert(c.res.dir.eof && c.res.dir.entries == 2 && seen.n == 2);
	cr_assert(!memcmp(&c.res.dir.verf, "newverf!", 8));
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_str_eq(seen.name[i], i ? "bcdef" : "a");
		cr_assert(seen.e[i].cookie == 0xff00000000u + i && seen.e[i].fileid == 7);
		cr_assert(seen.e[i].attr && seen.e[i].fh && seen.fh[i].len == 3);
		expect_stat(&seen.attr[i]);
	}
	/* Not the end; and a caller that has enough. */
	m_set(m_len() - 4, 0);
	c = call(NFS_OP_READDIR);
	seen.stop_after = 1;
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(!c.res.dir.eof && c.res.dir.entries == 1 && seen.n == 1);
	/* Plain: names and numbers are all that is used. */
	c = call(NFS_OP_READDIR);
	c.args.dir.plus = false;
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(seen.n == 2 && !seen.e[0].attr);
	/* Empty. */
	m_res();
	m_op(26);
	M(0, 0, 0, 1);
	c = call(NFS_OP_READDIR);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(c.res.dir.eof && seen.n == 0);
}

Test(nfs4, readdir_entries)
{
	static const struct { const char *name; uint32_t len; int rc; } names[] = {
		{ "a/b", 3, -EBADMSG }, { "a\0b", 3, -EBADMSG }, { "", 0, -EBADMSG }, { "ok", 2, 0 },
	};
	/* fattr4s of an entry: bitmap, length, values. */
	static const struct { unsigned n; uint32_t w[8]; int rc; bool fh; } attrs[] = {
		{ 2, { 0, 0 }, 0, false },                              /* none at all */
		{ 4, { 1, 0x800, 4, 13 }, 0, false },                   /* rdattr_error alone */
		{ 5, { 1, 0x80000, 8, 1, 0x61000000 }, 0, true },
		{ 4, { 1, 0x80000, 4, 0 }, -EBADMSG, false },           /* an empty handle */
		{ 3, { 1, 0x100000, 0 }, -EBADMSG, false },             /* the value is missing */
		{ 4, { 1, 0, 4, 0 }, -EBADMSG, false },                 /* one too many */
	};

	for (unsigned i = 0; i < 4; i++) {
		struct nfs_call c = call(NFS_OP_READDIR);

		m_res();
		m_op(26);
		M(0, 0, 1, 0, 3);
		m_opaque(names[i].name, names[i].len);
		M(0, 0, 0, 1);
		cr_assert_eq(play_reply(&c, def_of(c.op)), names[i].rc, "name %u", i);
	}
	for (unsigned i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		struct nfs_call c = call(NFS_OP_READDIR);

		m_res();
		m_op(26);
		M(0, 0, 1, 0, 3);
		m_str("ok");
		m_words(attrs[i].w, attrs[i].n);
		M(0, 1);
		cr_assert_eq(play_reply(&c, def_of(c.op)), attrs[i].rc, "attributes %u", i);
		if (!attrs[i].rc)
			cr_assert(!seen.e[0].attr && !!seen.e[0].fh == attrs[i].fh);
	}
}

/* ---- the session was lost with the call in it, and with the reply ---- */

Test(nfs4, own_earlier_effect)
{
	static const struct { enum nfs_op op; unsigned at; uint32_t status; int truth, in_doubt; } t[] = {
		{ NFS_OP_REMOVE, 2, 2, -ENOENT, 0 }, { NFS_OP_RMDIR, 2, 2, -ENOENT, 0 },
		{ NFS_OP_RENAME, 4, 2, -ENOENT, NFS_NEXT }, { NFS_OP_LINK, 4, 17, -EEXIST, NFS_NEXT },
		/* A lock that two hold is worse than one that nobody does. */
		{ NFS_OP_MKDIR, 2, 17, -EEXIST, -EEXIST }, { NFS_OP_MKNOD, 2, 17, -EEXIST, -EEXIST },
		{ NFS_OP_SYMLINK, 2, 17, -EEXIST, -EEXIST },
		{ NFS_OP_CREATE, 2, 17, -EEXIST, -EEXIST }, { NFS_OP_LOOKUP, 2, 2, -ENOENT, -ENOENT },
		{ NFS_OP_REMOVE, 2, 13, -EACCES, -EACCES },
		/* The handle's absence is not the name's. */
		{ NFS_OP_REMOVE, 1, 2, -ENOENT, -ENOENT },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (unsigned in_doubt = 0; in_doubt < 2; in_doubt++) {
			struct nfs_call c = call(t[i].op);

			/* A replay in the same slot is answered with the truth. */
			c.eng.resent = true;
			c.eng.rr.sends = 2;
			nfs4_call(&c)->in_doubt = in_doubt;
			good_reply(t[i].op);
			m_fail_at(t[i].at, t[i].status);
			cr_assert_eq(play_reply(&c, def_of(c.op)), in_doubt ? t[i].in_doubt : t[i].truth,
				     "row %u", i);
		}
	}
}

/* COMMIT has failed the first time, and says that all is well now. */
Test(nfs4, commit_that_may_have_failed_before)
{
	for (unsigned i = 0; i < 3; i++) {
		struct nfs_call c = call(NFS_OP_COMMIT);

		/* A replay in the same slot is answered with the truth. */
		c.eng.resent = true;
		c.eng.rr.sends = 2;
		nfs4_call(&c)->in_doubt = i == 1;
		c.eng.useless = i == 2;
		good_reply(c.op);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(c.res.io.twice, i > 0);
	}
}

/* What is under the new name is what was to be moved, is another, or is nothing. */
Test(nfs4, rename_in_doubt)
{
	static const struct { unsigned at; uint32_t status; bool other; int rc; } t[] = {
		{ 0, 0, false, 0 }, { 0, 0, true, -ENOENT }, { 2, 2, false, -ENOENT },
		{ 2, 13, false, -ENOENT }, { 3, 70, false, -ENOENT }, { 2, 10008, false, NFS_LATER },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		static const struct nfs_fh other = { .len = 10, .data = "old handle" };
		struct nfs_call c = call(NFS_OP_RENAME);

		c.eng.step = 1;
		if (t[i].other)
			c.args.ren.moved = &other;
		m_seq_args(4, false);
		M(22);
		m_opaque("dir2", 4);
		M(15);
		m_str("other");
		M(10);
		ARGS(c);
		m_res();
		m_op(15);
		m_getfh_res();
		if (t[i].status)
			m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
	}
}

/* Nobody knows what it was: nothing would prove anything. */
Test(nfs4, rename_of_what_is_not_known_in_doubt)
{
	struct nfs_call c = call(NFS_OP_RENAME);

	c.args.ren.moved = NULL;
	nfs4_call(&c)->in_doubt = true;
	good_reply(NFS_OP_RENAME);
	m_fail_at(4, 2);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -ENOENT);
}

/* The name is our file's, or another's. */
Test(nfs4, link_in_doubt)
{
	static const struct { unsigned at; uint32_t status, fileid; int rc; } t[] = {
		{ 0, 0, 7, 0 }, { 0, 0, 8, -EEXIST }, { 2, 2, 7, -EEXIST }, { 5, 70, 7, -EEXIST },
		{ 3, 10008, 7, NFS_LATER },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_LINK);

		c.eng.step = 2;
		m_seq_args(6, false);
		M(22);
		m_opaque("dir2", 4);
		M(15);
		m_str("name");
		m_getattr();
		M(22);
		m_opaque("fhand", 5);
		m_getattr();
		ARGS(c);
		m_res();
		m_op(15);
		m_getattr_res();
		/* type, change, size, fsid, fileid: the latter's low word */
		m_set(m_op_at(3) + 8 + 4 * 4 + 10 * 4, t[i].fileid);
		m_op(22);
		m_getattr_res();
		if (t[i].at)
			m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "row %u", i);
		cr_assert_eq(c.res.has_attr, t[i].rc == 0 || t[i].fileid == 8, "row %u", i);
	}
}

/* ---- what is behind an effect is asked for without it ---- */

static void m_rest(bool lookup)
{
	m_args(lookup ? 5 : 3, false);
	if (lookup) {
		M(15);
		m_str("name");
		M(10);
	}
	m_getattr();
}

static void m_rest_of_new(void)
{
	m_seq_args(3, false);
	M(22);
	m_opaque("new handle", 10);
	m_getattr();
}

/* Told to come later, or that the reply is too long, by operation `at`. */
static struct nfs_call interrupted(enum nfs_op op, unsigned at, uint32_t status)
{
	struct nfs_call c = call(op);

	send_it(&c);
	good_reply(op);
	m_fail_at(at, status);
	cr_assert_eq(play_reply(&c, def_of(op)), status == 10008 ? NFS_LATER : NFS_AGAIN,
		     "%s, operation %u", def_of(op)->name, at);
	return c;
}

/* Told to come later by GETFH: the OPEN that is sent again gets the same open. */
Test(nfs4, an_open_that_is_late_for_its_handle)
{
	struct nfs_call c = interrupted(NFS_OP_CREATE, 3, 10008);
	struct nfs_open *o = c.open;

	cr_assert(o && !nfs4_is_ours(o) && c.eng.step == 0);
	good_reply(NFS_OP_CREATE);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(c.open == o && nfs4_is_ours(o) && o->file->fh.len == 10);
	done_with(&c);
}

Test(nfs4, no_effect_twice)
{
	static const uint32_t statuses[] = { 10008, 10066, 10067 };
	static const struct { enum nfs_op op; unsigned at; enum { LOOK, FILE_ATTR, NEW_ATTR, MAY } rest; } t[] = {
		{ NFS_OP_SETATTR, 3, FILE_ATTR }, { NFS_OP_OPEN, 3, MAY }, { NFS_OP_OPEN, 4, MAY },
		{ NFS_OP_CREATE, 4, NEW_ATTR }, { NFS_OP_CREATE, 5, NEW_ATTR },
		{ NFS_OP_MKDIR, 3, LOOK }, { NFS_OP_MKDIR, 4, NEW_ATTR },
		{ NFS_OP_SYMLINK, 3, LOOK }, { NFS_OP_SYMLINK, 4, NEW_ATTR },
		{ NFS_OP_MKNOD, 3, LOOK }, { NFS_OP_MKNOD, 4, NEW_ATTR },
		{ NFS_OP_LINK, 6, FILE_ATTR }, { NFS_OP_LINK, 7, FILE_ATTR },
	};

	for (unsigned i = 0; i < 3 * sizeof(t) / sizeof(t[0]); i++) {
		unsigned k = i / 3;
		struct nfs_call c = interrupted(t[k].op, t[k].at, statuses[i % 3]);

		switch (t[k].rest) {
		case LOOK:
			m_rest(true);
			break;
		case FILE_ATTR:
			m_rest(false);
			break;
		case NEW_ATTR:
			m_rest_of_new();
			break;
		case MAY:
			m_args(4, false);
			m_look();
			break;
		}
		ARGS(c);
		good_reply(t[k].rest == LOOK ? NFS_OP_LOOKUP : NFS_OP_GETATTR);
		if (t[k].rest == MAY) {
			m_res();
			m_look_res(0x21, 0x21);
		}
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		expect_stat(&c.res.attr);
		if (t[k].rest == LOOK || t[k].rest == NEW_ATTR)
			cr_assert(c.res.fh.len == 10 && !memcmp(c.res.fh.data, "new handle", 10));
		done_with(&c);
	}
}

/* The LOOKUP, in turn, is not repeated for the sake of its attributes: the name
 * may be another file's by then. */
Test(nfs4, a_handle_is_not_looked_up_twice)
{
	struct nfs_call c = interrupted(NFS_OP_MKDIR, 3, 10008);

	good_reply(NFS_OP_LOOKUP);
	m_fail_at(4, 10008);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_LATER);
	m_rest_of_new();
	ARGS(c);
}

/* Before the effect, all of it is to come. */
Test(nfs4, what_had_no_effect_is_sent_again)
{
	struct nfs_call c = call(NFS_OP_MKDIR);

	good_reply(NFS_OP_MKDIR);
	m_fail_at(2, 10008);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_LATER);
	cr_assert_eq(c.eng.step, 0);
	/* An exclusive create that is to set more: the SETATTR is still to come. */
	c = call_create(O_RDWR | O_EXCL);
	m_res();
	m_open_res(0);
	m_getfh_res();
	m_getattr_res();
	m_fail_at(4, 10008);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_LATER);
	cr_assert_eq(c.eng.step, 1);
	good_reply(NFS_OP_SETATTR);
	m_fail_at(3, 10008);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_LATER);
	m_rest_of_new();
	ARGS(c);
	good_reply(NFS_OP_GETATTR);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	done_with(&c);
}

/* The SETATTR fails, and there are no attributes yet: nobody makes any up. */
Test(nfs4, what_is_created_has_attributes)
{
	struct nfs_call c = call_create(O_RDWR | O_EXCL);

	m_res();
	m_open_res(1 << 1 | 1 << 21);  /* mode, and the verifier in time_modify */
	m_getfh_res();
	m_getattr_res();
	m_fail_at(4, 10008);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_LATER);
	good_reply(NFS_OP_SETATTR);
	m_fail_at(2, 69);
	cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_NEXT);
	cr_assert_not(c.res.has_attr);
	m_rest_of_new();
	ARGS(c);
	good_reply(NFS_OP_GETATTR);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	cr_assert(c.res.has_attr);
	done_with(&c);
}

/* ---- replies that the server keeps, if they are not too long ---- */

Test(nfs4, what_the_server_cannot_keep)
{
	struct nfs_call c = call(NFS_OP_REMOVE);

	nfs4_call(&c)->place.max_cached = RPC_REPLY_HDR_MIN + nfs_results_max(def_of(NFS_OP_REMOVE), &c);
	m_args(4, true);
	M(28);
	m_str("name");
	m_dir_after();
	ARGS(c);
	nfs4_call(&c)->place.max_cached--;
	m_args(4, false);
	M(28);
	m_str("name");
	m_dir_after();
	ARGS(c);
	/* A delegation is not expected: Linux keeps 2128 bytes, and OPENs among them. */
	nfs4_call(&c)->place.max_cached = 2128;
	for (unsigned i = 0; i < N_OPS; i++) {
		static const enum nfs_op kept[] = {
			NFS_OP_SETATTR, NFS_OP_WRITE, NFS_OP_COMMIT, NFS_OP_OPEN, NFS_OP_CREATE,
			NFS_OP_CLOSE, NFS_OP_MKDIR, NFS_OP_SYMLINK, NFS_OP_MKNOD, NFS_OP_REMOVE,
			NFS_OP_RMDIR, NFS_OP_RENAME, NFS_OP_LINK, NFS_OP_ALLOCATE, NFS_OP_DEALLOCATE,
			NFS_OP_COPY, NFS_OP_CLONE,
		};
		bool is_kept = false;

		c = call(all_ops[i]);
		nfs4_call(&c)->place.max_cached = 2128;
		for (unsigned k = 0; k < sizeof(kept) / sizeof(kept[0]); k++)
			is_kept = is_kept || kept[k] == all_ops[i];
		send_it(&c);
		cr_assert_eq(nfs4_call(&c)->cached, is_kept, "%s", def_of(c.op)->name);
	}
}

/* It says so after all: nothing was executed, and it is sent without the wish. */
Test(nfs4, too_long_to_be_kept)
{
	struct nfs_call c = call(NFS_OP_REMOVE);

	for (unsigned at = 0; at < 3; at += 2) {
		c = call(NFS_OP_REMOVE);
		send_it(&c);
		good_reply(NFS_OP_REMOVE);
		m_fail_at(at, 10067);
		cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_AGAIN);
		m_args(4, false);
		M(28);
		m_str("name");
		m_dir_after();
		ARGS(c);
		send_it(&c);
		good_reply(NFS_OP_REMOVE);
		m_fail_at(at, 10067);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EIO, "no end");
	}
}

/* ---- small inline thresholds ---- */

Test(nfs4, default_inline_thresholds)
{
	static const enum nfs_op ops[] = {
		NFS_OP_GETATTR, NFS_OP_SETATTR, NFS_OP_LOOKUP, NFS_OP_ACCESS, NFS_OP_READLINK,
		NFS_OP_READ, NFS_OP_WRITE, NFS_OP_COMMIT, NFS_OP_OPEN, NFS_OP_CREATE, NFS_OP_MKDIR,
		NFS_OP_SYMLINK, NFS_OP_MKNOD, NFS_OP_REMOVE, NFS_OP_RMDIR, NFS_OP_RENAME,
		NFS_OP_LINK, NFS_OP_READDIR, NFS_OP_STATFS, NFS_OP_SEEK,
		NFS_OP_ALLOCATE, NFS_OP_DEALLOCATE, NFS_OP_COPY, NFS_OP_CLONE,
	};

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct nfs_call c = call(ops[i]);

		if (ops[i] == NFS_OP_READDIR)
			c.args.dir.count = (uint32_t)ARENA_MID_SIZE - 4096;   /* nfs_client_new()'s */
		play_default_limits(&c, def_of(ops[i]), 128);
	}
}
