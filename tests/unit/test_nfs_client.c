/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread runs the version's functions, and when. Mount, recovery, ticks and unmount
 * share the version's data for the mount without a lock. The version is defined in the test,
 * and its server never answers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "fake_fabric.h"
#include "nfs/internal.h"

static _Atomic unsigned users, together;        /* of the version's data, now; ever two */
static _Atomic unsigned recoveries, farewells;
static _Atomic bool recovering;
static bool lose_while_mounting, stuck;

static void nap(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void enter(void)
{
	if (atomic_fetch_add(&users, 1))
		atomic_fetch_add(&together, 1);
}

static void leave(void)
{
	atomic_fetch_sub(&users, 1);
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t w = 7;

	(void)c;
	return xdr_uint32_t(x, &w);
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)c;
	(void)x;
	return 0;
}

static const struct nfs_opdef silence = {
	.name = "SILENCE", .encode = encode, .decode = decode, .results_max = 4, .proc = 1,
};

static struct nfs_call *unanswered[2]; /* who asked, or the lane, has them */
static const struct rpc_cred cred;

static int ask(struct nfs_client *cl, unsigned i, unsigned timeout_ms)
{
	bool abandoned;
	int rc;

	unanswered[i] = calloc(1, sizeof(*unanswered[i]));
	cr_assert_not_null(unanswered[i]);
	*unanswered[i] = (struct nfs_call){
		.op = NFS_OP_GETATTR, .cred = &cred, .flags = NFS_CALL_CONTROL,
	};
	rc = nfs_call_sync(&cl->lanes[0], unanswered[i], timeout_ms, &abandoned);
	if (!abandoned)
		free(unanswered[i]);
	return rc;
}

static void lose(struct nfs_lane *l, void *arg)
{
	(void)arg;
	nfs_control_recover(l->client);
}

static int do_mount(struct nfs_client *cl, struct errbuf *eb)
{
	(void)eb;
	enter();
	if (lose_while_mounting) {
		nfs_each_lane(cl, lose, NULL);
		nap(200);
	}
	leave();
	return 0;
}

static int do_recover(struct nfs_client *cl)
{
	int rc = 0;

	enter();
	atomic_store(&recovering, true);
	if (stuck)
		rc = ask(cl, 0, 0);
	leave();
	atomic_fetch_add(&recoveries, 1);
	return rc;
}

static void do_tick(struct nfs_client *cl)
{
	(void)cl;
	enter();
	leave();
}

static void do_umount(struct nfs_client *cl)
{
	enter();
	/* Its own calls have their time. */
	cr_expect_eq(ask(cl, 1, 20), -ETIMEDOUT);
	leave();
	atomic_fetch_add(&farewells, 1);
}

static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [NFS_OP_GETATTR] = &silence },
	.mount = do_mount, .umount = do_umount, .recover = do_recover, .tick = do_tick,
};

static struct nfs_client *mount_it(void)
{
	static const uint8_t knfsd[8] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };
	struct nfs_config cfg = {
		.version = &version, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server", .export = "/",
		.lanes = 1, .credits = 16, .buffers = { .n = { 24, 24, 0, 4, 2 } },
		.rsize = 1 << 20, .wsize = 1 << 20, .timeo_ms = 60000,
	};
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	memcpy(fake_peer_priv, knfsd, 8);
	fake_peer_priv_len = 8;
	cr_assert_eq(nfs_client_new(&cfg, &cl, &eb), 0, "%s", eb.text);
	return cl;
}

static void await(_Atomic bool *what)
{
	for (unsigned ms = 0; ms < 20000 && !atomic_load(what); ms++)
		nap(1);
	cr_assert(atomic_load(what));
}

/* A lane finds its session gone before the mount is there. */
Test(nfs_client, recovery_waits_for_the_mount, .timeout = 300)
{
	struct nfs_client *cl;

	lose_while_mounting = true;
	cl = mount_it();
	await(&recovering);
	nfs_client_free(cl);
	cr_expect_eq(recoveries, 1);
	cr_expect_eq(farewells, 1);
	cr_assert_eq(together, 0);
}

/* The mount ends while recovery waits for a server that does not answer. */
Test(nfs_client, the_farewell_waits_for_recovery, .timeout = 300)
{
	struct nfs_client *cl;

	stuck = true;
	cl = mount_it();
	nfs_each_lane(cl, lose, NULL);
	await(&recovering);
	nfs_client_free(cl);
	cr_expect_eq(recoveries, 1);
	cr_expect_eq(farewells, 1);
	cr_assert_eq(together, 0);
}
