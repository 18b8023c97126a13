/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Owners that are names in version 4.1's messages: decoding, and encoding. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include "fake_lane.h"
#include "nfs4_play.h"

static _Atomic unsigned questions;
static _Atomic bool held;       /* the mapper waits for `go` */
static sem_t go;

static int to_id(bool group, const char *name, uint32_t *id)
{
	if (held)
		sem_wait(&go);
	questions++;
	*id = group ? 77 : 44;
	return strcmp(name, group ? "crew@here" : "ann@here") ? -ENOENT : 0;
}

static int to_name(bool group, uint32_t id, char *name, size_t len)
{
	questions++;
	if (id != (group ? 77 : 44) || len < 10)
		return -ENOENT;
	strcpy(name, group ? "crew@here" : "ann@here");
	return 0;
}

static const struct nfs_idmapper mapper = { .to_id = to_id, .to_name = to_name };

static void setup(void)
{
	sem_init(&go, 0, 0);
	play4_setup();
	cl4.idmap = nfs_idmap_new(&cl4, &mapper);
	/* No loops run here: nobody may be told. */
	fake_times.owner_ms = 0;
}

static void teardown(void)
{
	cr_assert(nfs_idmap_stop(cl4.idmap, 10000));
	play4_teardown();
	nfs_idmap_free(cl4.idmap);
}

TestSuite(nfs4_owners, .init = setup, .fini = teardown, .timeout = 300);

static void wait_for_answers(unsigned n)
{
	while (questions < n)
		sched_yield();
	/* The answer follows. The mapper is through with it when it is stopped. */
	cr_assert(nfs_idmap_stop(cl4.idmap, 10000));
}

static void m_attrs(const char *user, const char *group)
{
	uint32_t at;

	M(2, 0, 0x30, 0);
	at = m_len() - 4;
	m_str(user);
	m_str(group);
	m_end_opaque(at);
}

/* Type, change, size and fsid, which every server has; mode, and owners. */
static void m_file(const char *user, const char *group)
{
	uint32_t at;

	M(2, 0x11a, 0x32);
	at = m_len();
	M(0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0644);
	m_str(user);
	m_str(group);
	m_end_opaque(at);
}

static struct nfs_call getattr(const char *user, const char *group)
{
	struct nfs_call c = call4(NFS_OP_GETATTR);

	m_res();
	m_op(9);
	m_file(user, group);
	cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), 0);
	hooks4.after(&c);
	return c;
}

Test(nfs4_owners, names_of_a_file)
{
	struct nfs_call c = getattr("ann@here", "crew@here");

	cr_assert(c.res.attr.uid == NFS_NOBODY && c.res.attr.gid == NFS_NOBODY, "not known yet");
	wait_for_answers(2);
	c = getattr("ann@here", "crew@here");
	cr_assert(c.res.attr.uid == 44 && c.res.attr.gid == 77);
	/* Numbers need nobody. */
	c = getattr("1234", "4294967295");
	cr_assert(c.res.attr.uid == 1234 && c.res.attr.gid == UINT32_MAX);
	cr_assert_eq(questions, 2);
}

/* An operation of two steps: the mapper's answer about the first reply's owner must not take the
 * place of the second reply's number. */
Test(nfs4_owners, a_number_after_a_name)
{
	struct nfs_call c = call4(NFS_OP_GETATTR);

	fake_times.owner_ms = 50000;
	held = true;
	for (unsigned i = 0; i < 2; i++) {
		m_res();
		m_op(9);
		m_file(i ? "1234" : "ann@here", i ? "77" : "crew@here");
		cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), 0);
		cr_assert_eq(c.eng.owners.of[0] != NULL, i == 0);
		cr_assert_eq(c.eng.owners.of[1] != NULL, i == 0);
	}
	cr_assert(c.res.attr.uid == 1234 && c.res.attr.gid == 77);
	hooks4.after(&c);
	held = false;
	sem_post(&go);
	wait_for_answers(2);
}

static unsigned entries, with_attrs;

static bool on_entry(struct nfs_call *c, const struct nfs_dirent *e)
{
	(void)c;
	entries++;
	if (e->attr) {
		with_attrs++;
		cr_assert(e->attr->uid == 44 && e->attr->gid == 77);
	}
	return true;
}

static void list(void)
{
	struct nfs_call c = call4(NFS_OP_READDIR);

	c.args.dir.plus = true;
	c.args.dir.count = 8192;
	c.args.dir.entry = on_entry;
	m_res();
	m_op(26);
	M(0, 0);
	for (unsigned i = 0; i < 2; i++) {
		M(1, 0, i + 1);
		m_str("name");
		m_file("ann@here", "crew@here");
	}
	M(0, 1);
	entries = with_attrs = 0;
	cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), 0);
	hooks4.after(&c);
}

Test(nfs4_owners, names_in_a_listing)
{
	fake_times.owner_ms = 50000;
	held = true;
	list();
	cr_assert(entries == 2 && with_attrs == 0, "nothing false, and nothing waits");
	held = false;
	sem_post(&go);
	wait_for_answers(2);
	list();
	cr_assert(entries == 2 && with_attrs == 2);
}

Test(nfs4_owners, a_server_that_refuses_numbers)
{
	struct nfs_call c = call4(NFS_OP_SETATTR);

	c.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_UID | NFS_SET_GID, .uid = 44, .gid = 77 };
	m_args(4, true);
	M(34, 0, 0, 0, 0);
	m_attrs("44", "77");
	M(9, STAT_MASK);
	play_args(&c, nfs_v41.ops[c.op]);

	m_res();
	m_op(34);
	M(0);
	m_set(m_op_at(2) + 4, 10039);           /* NFS4ERR_BADOWNER */
	m_set(0, 10039);
	cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), 0);
	cr_assert(c.eng.owners.send, "is to be sent again");
	wait_for_answers(2);

	m_args(4, true);
	M(34, 0, 0, 0, 0);
	m_attrs("ann@here", "crew@here");
	M(9, STAT_MASK);
	play_args(&c, nfs_v41.ops[c.op]);

	/* Names do not help either. */
	m_res();
	m_op(34);
	M(0);
	m_set(m_op_at(2) + 4, 10039);
	m_set(0, 10039);
	cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), -EINVAL);
	hooks4.after(&c);
}

Test(nfs4_owners, the_longest_names_fit)
{
	char user[NFS_OWNER_MAX], group[NFS_OWNER_MAX], buf[NFS4_SATTR_MAX];
	struct nfs_sattr all = { .valid = 0x5f, .owner = user, .group = group };
	fattr4 f;

	memset(user, 'u', sizeof(user) - 1);
	memset(group, 'g', sizeof(group) - 1);
	user[NFS_OWNER_MAX - 1] = group[NFS_OWNER_MAX - 1] = '\0';
	cr_assert(nfs4_put_fattr(&f, &all, buf, sizeof(buf)));
}
