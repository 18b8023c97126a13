/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Owners' names: a lane with its thread, a fake version, and a mapper that answers when the
 * test lets it. The test puts the names into a call's reply.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake_lane.h"

/* ---- the mapper ---- */

static sem_t gate;              /* "slow..." wait here */
static sem_t asked;             /* one for each question */
static _Atomic unsigned questions;

static _Atomic bool down;       /* it cannot be asked */

static int to_id(bool group, const char *name, uint32_t *id)
{
	questions++;
	sem_post(&asked);
	if (down)
		return -ECONNREFUSED;
	if (!strncmp(name, "slow", 4))
		sem_wait(&gate);
	if (strstr(name, "stranger"))
		return -ENOENT;
	*id = (group ? 2000 : 1000) + (uint32_t)strlen(name);
	return 0;
}

static int to_name(bool group, uint32_t id, char *name, size_t len)
{
	questions++;
	if (id >= 5000)
		return -ENOENT;
	snprintf(name, len, "%c%u@here", group ? 'g' : 'u', id);
	return 0;
}

static const struct nfs_idmapper mapper = { .to_id = to_id, .to_name = to_name };

/* ---- the version ---- */

static bool_t encode_attr(struct nfs_call *c, XDR *x)
{
	uint32_t w = 0;

	(void)c;
	return xdr_uint32_t(x, &w);
}

static int decode_attr(struct nfs_call *c, XDR *x)
{
	uint32_t w;

	if (!xdr_uint32_t(x, &w))
		return -EBADMSG;
	memset(&c->res.attr, 0, sizeof(c->res.attr));
	if (c->args.name)
		nfs_owner_of_call(c, false, c->args.name, (uint32_t)strlen(c->args.name));
	if (c->args.name2)
		nfs_owner_of_call(c, true, c->args.name2, (uint32_t)strlen(c->args.name2));
	return 0;
}

static unsigned sent_numbers, sent_names;

/* A server that takes names only. */
static bool_t encode_set(struct nfs_call *c, XDR *x)
{
	char name[NFS_OWNER_MAX] = "";
	uint32_t w = nfs_owner_name(&fake_cl, false, c->args.sattr.uid, name);

	if (w)
		cr_assert_str_eq(name, "u1000@here");
	return xdr_uint32_t(x, &w);
}

static int decode_set(struct nfs_call *c, XDR *x)
{
	uint32_t named;

	if (!xdr_uint32_t(x, &named))
		return -EBADMSG;
	*(named ? &sent_names : &sent_numbers) += 1;
	return named || nfs_owner_names(c) ? 0 : -EINVAL;
}

enum { RESULTS_MAX = 4 };

static const struct nfs_opdef op_attr = {
	.name = "ATTR", .encode = encode_attr, .decode = decode_attr, .results_max = RESULTS_MAX,
	.proc = 1,
};
static const struct nfs_opdef op_set = {
	.name = "SET", .encode = encode_set, .decode = decode_set, .results_max = RESULTS_MAX,
	.proc = 2,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1,
	.ops = { [NFS_OP_GETATTR] = &op_attr, [NFS_OP_SETATTR] = &op_set },
};

static void echo(uint32_t proc, const uint32_t *w)
{
	(void)proc;
	put(ntohl(w[0]));
}

static void setup(void)
{
	sem_init(&gate, 0, 0);
	sem_init(&asked, 0, 0);
	fake_lane_start(&version, echo);
	fake_cl.idmap = nfs_idmap_new(&fake_cl, &mapper);
	cr_assert(fake_cl.idmap);
}

static void teardown(void)
{
	for (unsigned i = 0; i < 100; i++)
		sem_post(&gate);
	cr_assert(nfs_idmap_stop(fake_cl.idmap, 10000));
	fake_lane_stop();
	nfs_idmap_free(fake_cl.idmap);
}

TestSuite(idmap, .init = setup, .fini = teardown, .timeout = 300);

/* ---- calls ---- */

static const struct rpc_cred cred;

struct asking {
	struct nfs_call c;
	pthread_t tid;
};

static struct nfs_attr attr_of(const char *user, const char *group)
{
	struct nfs_call c = { .op = NFS_OP_GETATTR, .cred = &cred, .args.name = user, .args.name2 = group };
	bool abandoned;

	cr_assert_eq(nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned), 0);
	return c.res.attr;
}

static void *ask_main(void *arg)
{
	struct asking *a = arg;
	bool abandoned;

	cr_assert_eq(nfs_call_sync(&fake_lanes[0].target, &a->c, 0, &abandoned), 0);
	return NULL;
}

static void ask_beside(struct asking *a, const char *user, const char *group)
{
	a->c = (struct nfs_call){ .op = NFS_OP_GETATTR, .cred = &cred, .args.name = user, .args.name2 = group };
	cr_assert_eq(pthread_create(&a->tid, NULL, ask_main, a), 0);
}

static int set_uid(uint32_t uid)
{
	struct nfs_call c = {
		.op = NFS_OP_SETATTR, .cred = &cred, .args.sattr = { .valid = NFS_SET_UID, .uid = uid },
	};
	bool abandoned;

	return nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);
}

static uint32_t known(const char *name, bool *is)
{
	uint32_t id;

	*is = nfs_owner_known(&fake_cl, false, name, (uint32_t)strlen(name), &id);
	return id;
}

/* ---- tests ---- */

Test(idmap, a_name_becomes_its_id)
{
	struct nfs_attr a = attr_of("alice@here", "staff@here.too");

	cr_assert_eq(a.uid, 1010);
	cr_assert_eq(a.gid, 2014);
	cr_assert_eq(attr_of("alice@here", NULL).uid, 1010);
	cr_assert_eq(questions, 2, "what is known is not asked again");
	/* As a group's name it is another one. */
	cr_assert_eq(attr_of(NULL, "alice@here").gid, 2010);
	cr_assert_eq(questions, 3);
}

Test(idmap, only_the_call_that_needs_it_waits)
{
	struct asking a, b;

	ask_beside(&a, "slow@here", "slow.too@here");
	sem_wait(&asked);
	/* The mapper is stuck; the lane, and another call for that name, are not mixed up. */
	ask_beside(&b, "slow@here", NULL);
	cr_assert_eq(attr_of(NULL, NULL).uid, 0);
	sem_post(&gate);
	sem_post(&gate);
	pthread_join(a.tid, NULL);
	pthread_join(b.tid, NULL);
	cr_assert_eq(a.c.res.attr.uid, 1009);
	cr_assert_eq(a.c.res.attr.gid, 2013);
	cr_assert_eq(b.c.res.attr.uid, 1009);
	cr_assert_eq(questions, 2);
}

Test(idmap, a_name_that_is_not_answered_is_nobody_for_now)
{
	struct nfs_attr a;

	fake_times.owner_ms = 50;
	/* The gate stays shut: these end by themselves, or never. */
	cr_assert_eq(attr_of("slow@here", NULL).uid, NFS_NOBODY);
	a = attr_of("slow@here", "behind@here");
	cr_assert_eq(a.uid, NFS_NOBODY);
	cr_assert_eq(a.gid, NFS_NOBODY, "it stands in line behind the slow one");
	sem_post(&gate);
	fake_times.owner_ms = 50000;
	cr_assert_eq(attr_of(NULL, "last@here").gid, 2009, "all before it are answered");
	a = attr_of("slow@here", "behind@here");
	cr_assert_eq(a.uid, 1009);
	cr_assert_eq(a.gid, 2011);
	cr_assert_eq(questions, 3);
}

Test(idmap, a_stranger_is_nobody_and_not_asked_for_again)
{
	cr_assert_eq(attr_of("stranger@here", NULL).uid, NFS_NOBODY);
	cr_assert_eq(attr_of("stranger@here", NULL).uid, NFS_NOBODY);
	cr_assert_eq(questions, 1);
}

Test(idmap, what_is_no_name_is_not_asked_for)
{
	char text[1024];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	cr_assert_eq(attr_of(text, "with\ttab").uid, NFS_NOBODY);
	cr_assert_eq(attr_of("\x7f", text + sizeof(text) - 1).gid, NFS_NOBODY);
	cr_assert_eq(questions, 0);
	text[NFS_OWNER_MAX - 1] = '\0';
	cr_assert_eq(attr_of(text, NULL).uid, 1000 + NFS_OWNER_MAX - 1);
}

Test(idmap, a_listing_does_not_wait)
{
	uint32_t id;
	bool is;

	id = known("slow@here", &is);
	cr_assert(!is && id == NFS_NOBODY);
	sem_post(&gate);
	cr_assert_eq(attr_of("slow@here", NULL).uid, 1009);
	id = known("slow@here", &is);
	cr_assert(is && id == 1009);
	attr_of("stranger@here", NULL);
	id = known("stranger@here", &is);
	cr_assert(is && id == NFS_NOBODY, "that is an answer, too");
}

Test(idmap, the_table_has_a_bound)
{
	enum { MANY = 4096 + 100 };
	char name[32];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%u@here", i);
		attr_of(name, NULL);
	}
	cr_assert_eq(questions, MANY);
	attr_of(name, NULL);
	cr_assert_eq(questions, MANY, "the newest are there");
	attr_of("n0@here", NULL);
	cr_assert_eq(questions, MANY + 1, "the oldest had to go");
}

Test(idmap, a_server_that_wants_names)
{
	cr_assert_eq(set_uid(1000), 0);
	cr_assert_eq(sent_numbers, 1);
	cr_assert_eq(sent_names, 1);
	/* It is known now. */
	cr_assert_eq(set_uid(1000), 0);
	cr_assert_eq(sent_numbers, 1);
	cr_assert_eq(sent_names, 2);
	cr_assert_eq(questions, 1);
	/* Who has no name can own nothing there. */
	cr_assert_eq(set_uid(5000), -EINVAL);
	cr_assert_eq(sent_numbers, 3);
}

/* Names move to others: what is old is asked for again. */
Test(idmap, what_is_known_gets_old)
{
	unsigned before;

	fake_times.owner_found_s = 0;
	cr_assert_eq(set_uid(1000), 0);
	attr_of("last@here", NULL);
	before = questions;
	cr_assert_eq(set_uid(1000), 0);
	attr_of("last.too@here", NULL);
	cr_assert_gt(questions, before + 1, "of them one for the name of 1000");
}

/* If a name cannot be looked up, the old answer stays. */
Test(idmap, a_directory_that_is_down)
{
	fake_times.owner_found_s = 0;
	cr_assert_eq(attr_of("alice@here", NULL).uid, 1010);
	down = true;
	attr_of("alice@here", NULL);
	attr_of(NULL, "last@here");
	cr_assert_eq(questions, 3);
	cr_assert_eq(attr_of("alice@here", NULL).uid, 1010);
}

/* A soft call whose answer is there does not fail because its owner's name is slow. */
Test(idmap, a_soft_mount_waits_for_names)
{
	struct asking a;

	fake_times.owner_ms = 1500;
	fake_cl.cfg.soft = true;
	fake_cl.cfg.timeo_ms = 100;
	ask_beside(&a, "slow@here", NULL);
	pthread_join(a.tid, NULL);
	cr_assert_eq(a.c.res.status, 0);
	cr_assert_eq(a.c.res.attr.uid, NFS_NOBODY);
}

Test(idmap, the_end_does_not_wait_for_the_mapper)
{
	fake_times.owner_ms = 10;
	attr_of("slow@here", NULL);
	sem_wait(&asked);               /* on a busy machine it may not have begun */
	cr_assert_not(nfs_idmap_stop(fake_cl.idmap, 10));
	/* Nobody is asked any more, and nobody waits. */
	fake_times.owner_ms = 50000;
	cr_assert_eq(attr_of("new@here", NULL).uid, NFS_NOBODY);
}
