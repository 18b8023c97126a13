/* SPDX-License-Identifier: GPL-2.0-or-later */
/* New connections of version 3: is the mounted root the same there? */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "nfs/internal.h"
#include "nfs/nfs3/nfs3_impl.h"
#include "op_play.h"

static struct nfs_control ctl;
static struct nfs_lane lanes[2];
static struct nfs_client cl;
static struct nfs_check k;

static bool_t encode(struct nfs_call *c, XDR *x)
{
	return nfs_v3.check_encode(c->target, &k, x);
}

static int decode(struct nfs_call *c, XDR *x)
{
	return nfs_v3.check_decode(c->target, &k, x);
}

static const struct nfs_opdef def = {
	.name = "check", .encode = encode, .decode = decode, .results_max = NFS_CHECK_RESULTS_MAX,
};

static const struct nfs_attr root = { .fsid_major = 0x100000002, .fileid = 0x300000004 };

static void setup(void)
{
	pthread_mutex_init(&ctl.mu, NULL);
	cl = (struct nfs_client){
		.cfg = { .version = &nfs_v3, .server = "server" }, .lanes = lanes, .nlanes = 2,
		.control = &ctl, .root_fh = { .len = 5, .data = "roots" },
	};
	nfs_server_init(&cl);
	for (unsigned i = 0; i < 2; i++) {
		lanes[i] = (struct nfs_lane){
			.client = &cl, .index = i, .target = { .server = &cl.server, .lane = &lanes[i] },
		};
		cl.server.targets[i] = &lanes[i].target;
	}
	cr_assert_eq(nfs3_root_set(&cl.server, &root), 0);
	k = (struct nfs_check){ 0 };
}

static void teardown(void)
{
	if (cl.server.vdata)
		nfs_v3.free(&cl.server);
}

TestSuite(nfs3_check, .init = setup, .fini = teardown);

static struct nfs_call call(void)
{
	return (struct nfs_call){ .op = NFS_OP_NULL, .lane = &lanes[0], .target = &lanes[0].target };
}

static int takes(void)
{
	struct nfs_call c = call();
	int rc;

	k.why.text[0] = '\0';
	rc = play_reply(&c, &def);
	cr_assert_eq(rc < 0, k.why.text[0] != '\0', "%d: %s", rc, k.why.text);
	return rc;
}

static void m_root(uint32_t type, uint64_t fsid, uint64_t fileid)
{
	m_new();
	M(0, type, 0755, 2, 0, 0);      /* mode, links, owner, group */
	m_u64(4096);
	m_u64(4096);
	M(0, 0);
	m_u64(fsid);
	m_u64(fileid);
	M(1, 2, 3, 4, 5, 6);
}

static void m_same(void)
{
	m_root(2, root.fsid_major, root.fileid);
}

Test(nfs3_check, same_root)
{
	struct nfs_call c = call();

	m_new();
	m_opaque("roots", 5);
	play_args(&c, &def);
	cr_assert_eq(nfs_v3.check_proc(&k), NFSPROC3_GETATTR);
	m_same();
	cr_assert_eq(takes(), 0);
	k.may_move = true;
	cr_assert_eq(takes(), 0);
	k.may_move = false;
	play_all_cuts(&c, &def, NULL);
	cr_assert(strstr(k.why.text, "malformed"), "%s", k.why.text);
	play_twists(&c, &def, NULL);
}

Test(nfs3_check, another_root)
{
	static const struct { uint32_t type; uint64_t fsid, fileid; const char *words; } t[] = {
		{ 2, 0x100000003, 0x300000004, "another directory" },
		{ 2, 0x200000002, 0x300000004, "another directory" },
		{ 2, 0x100000002, 0x300000005, "another directory" },
		{ 2, 0x100000002, 4, "another directory" },
		{ 1, 0x100000002, 0x300000004, "no directory" },
		{ 5, 0x100000002, 0x300000004, "no directory" },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		m_root(t[i].type, t[i].fsid, t[i].fileid);
		cr_assert_eq(takes(), -EXDEV, "row %u", i);
		cr_assert(strstr(k.why.text, "another server") && strstr(k.why.text, t[i].words), "%s",
			  k.why.text);
		m_same();
		cr_assert_eq(takes(), 0, "the mounted root is still the same");
	}
	m_root(8, root.fsid_major, root.fileid);
	cr_assert_eq(takes(), -EBADMSG, "no such type");
}

Test(nfs3_check, statuses)
{
	static const struct { uint32_t status; int rc; const char *words; } t[] = {
		{ 70, -EXDEV, "does not know the root" }, { 10001, -EXDEV, "does not know the root" },
		{ 10008, NFS_LATER, "" },
		{ 13, -EACCES, "local address of this path" }, { 1, -EACCES, "exports" },
		{ 5, -EIO, "status 5" }, { 10006, -EIO, "status 10006" }, { 10004, -EOPNOTSUPP, "GETATTR" },
		{ 18, -EIO, "status 18" },      /* XDEV is not what -EXDEV says */
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call();

		m_new();
		M(t[i].status);
		cr_assert_eq(takes(), t[i].rc, "status %u", t[i].status);
		cr_assert(strstr(k.why.text, t[i].words), "%s", k.why.text);
		play_all_cuts(&c, &def, NULL);
	}
}

/* It did not say what its root is. */
Test(nfs3_check, nothing_known)
{
	nfs_v3.free(&cl.server);
	m_root(2, 9, 9);
	cr_assert_eq(takes(), 0);
	m_root(1, 9, 9);
	cr_assert_eq(takes(), -EXDEV);
}

/* It has restarted, and its disks have other numbers. */
Test(nfs3_check, server_that_has_changed)
{
	k.may_move = true;
	atomic_store(&lanes[1].target.up, true);
	m_root(2, 9, 9);
	cr_assert_eq(takes(), -EXDEV, "another connection is there");
	atomic_store(&lanes[1].target.up, false);
	cr_assert_eq(takes(), 0);
	k.may_move = false;
	cr_assert_eq(takes(), 0, "that is the mounted root now");
	m_same();
	cr_assert_eq(takes(), -EXDEV);
	/* Its disk is not there yet. */
	m_new();
	M(70);
	cr_assert_eq(takes(), -EXDEV);
	k.may_move = true;
	cr_assert_eq(takes(), 0);
	m_root(1, 9, 9);
	cr_assert_eq(takes(), -EXDEV, "no directory");
}
