/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include "fake_lane.h"
#include "nfs4_play.h"
#include "rpcrdma/impl.h"

struct nfs_client cl4;
struct nfs_lane lanes[NLANES];
struct nfs_control ctl;
struct nfs4_client n4;
struct nfs_open open_file;
static struct nfs_file its_file;
const struct nfs_fh fh = { .len = 5, .data = "fhand" };
const struct nfs_fh fh2 = { .len = 4, .data = "dir2" };

static struct rr_conn no_links[NLANES];         /* requesters that never send */
static const struct rpc_cred cred = { .uid = 1000 };
static uint32_t op_at[32];
static unsigned nops;

void play4_setup(void)
{
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	pthread_mutex_init(&n4.slots.mu, NULL);
	nfs4_identity_init(&n4.identity);
	nfs4_opens_init(&n4);
	nfs4_delegs_init(&n4.delegs);
	nfs4_belief_init(&n4.belief);
	nfs4_back_init(&n4.back);
	memcpy(n4.sessionid, "0123456789abcdef", 16);
	n4.clientid = 0xc11e2700000001;
	n4.nslots = SLOTS;
	n4.max_cached = 4096;
	n4.maxops = 16;
	n4.rsize = 1 << 20;
	n4.wsize = 1 << 19;
	n4.epoch = 1;
	cl4 = (struct nfs_client){
		.cfg = { .times = &fake_times, .version = &nfs_v41, .server = "server", .credits = 64 },
		.lanes = lanes, .nlanes = NLANES, .control = &ctl,
		.rsize = 1 << 20, .wsize = 1 << 19, .name_max = 255,
	};
	nfs_server_init(&cl4);
	cl4.server.vdata = &n4;
	for (unsigned i = 0; i < NLANES; i++) {
		lanes[i].client = &cl4;
		lanes[i].index = i;
		lanes[i].target = (struct nfs_target){
			.server = &cl4.server, .lane = &lanes[i], .conn = &no_links[i],
		};
		cl4.server.targets[i] = &lanes[i].target;
		cr_assert_eq(nfs4_target_init(&lanes[i].target), 0);
		lanes[i].loop = loop_new(NULL);
	}
	nfs4_slots_install(&cl4.server);
	its_file.fh = fh;
	open_file.file = &its_file;
	atomic_init(&open_file.settled, true);
	open_file.access = 3;
	open_file.owner = 0x4142434445464748;
	open_file.stateid.seqid = 9;
	memcpy(open_file.stateid.other, "opn1opn2opn3", 12);
}

unsigned nopen4(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NFS_LANES_MAX; i++)
		list_for_each(at, &n4.opens[i].list)
			n++;
	return n;
}

void play4_teardown(void)
{
	cr_assert(!nopen4(), "an open was not freed");
	nfs4_delegs_fini(&n4.delegs);
	for (unsigned i = 0; i < NLANES; i++) {
		nfs4_target_fini(&lanes[i].target);
		loop_free(lanes[i].loop);
	}
}

unsigned nfree4(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n4.slots.nslots; i++)
		n += n4.slots.free[i / 64] >> i % 64 & 1;
	return n;
}

unsigned nretired4(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n4.slots.nslots; i++)
		n += !((n4.slots.free[i / 64] | n4.slots.busy[i / 64]) >> i % 64 & 1);
	return n;
}

void new_session4(void)
{
	n4.epoch++;
	nfs4_slots_install(&cl4.server);
}

static void renew(struct nfs_call *c)
{
	new_session4();
	cr_assert_eq(nfs4_acquire(target4(), c), 1);
}

static void drop(struct nfs_call *c)
{
	if (c->open && c->open != &open_file)
		nfs4_open_put(c->open);
	c->open = NULL;
	nfs4_release(target4(), c);
	atomic_store(&open_file.reopen, false);
	atomic_store(&n4.need_client, false);
	atomic_store(&n4.need_session, false);
	atomic_store(&n4.need_opens, false);
	atomic_store(&n4.said, 0);
}

const struct play_hooks hooks4 = { .before = renew, .after = drop };

static const struct nfs_version *version_of(enum nfs_op op)
{
	return nfs_v41.ops[op] ? &nfs_v41 : &nfs_v42;
}

const struct nfs_opdef *def4(enum nfs_op op)
{
	return version_of(op)->ops[op];
}

struct nfs_call call4(enum nfs_op op)
{
	struct nfs_call c = {
		.op = op, .lane = lane4(), .target = target4(), .args.fh = &fh, .args.fh2 = &fh2, .args.name = "name",
		.args.name2 = "other", .cred = &cred,
		.args.sattr = { .valid = NFS_SET_MODE, .mode = 0100640 },
	};

	/* Other threads may look at it. */
	if (cl4.server.version != version_of(op))
		cl4.server.version = version_of(op);
	if (op == NFS_OP_OPEN || op == NFS_OP_CREATE)
		c.args.file.get = fake_file;
	renew(&c);
	return c;
}

struct nfs_open *open4(const struct nfs_fh *of)
{
	struct nfs_call c = call4(NFS_OP_OPEN);

	c.open = nfs4_open_new(&c, OPEN4_SHARE_ACCESS_READ);
	cr_assert_eq(nfs4_open_settle(&c, of), 0);
	nfs4_release(target4(), &c);
	return c.open;
}

static bool delegate(struct nfs_open *o, const char *other, bool write)
{
	bool wanted = cl4.cfg.delegations, has_back = n4.back.has, got;
	struct nfs_call c = call4(NFS_OP_OPEN);
	stateid4 stateid = { .seqid = 1 };

	memcpy(stateid.other, other, sizeof(stateid.other));
	c.open = o;
	c.args.fh = &o->file->fh;
	c.args.file.flags = write ? O_RDWR : O_RDONLY;
	cl4.cfg.delegations = true;
	n4.back.has = true;
	nfs4_delegs_ask(&c);
	got = nfs4_delegs_got(&c, &stateid, write ? NFS_DELEGATION_WRITES : 0, true);
	cl4.cfg.delegations = wanted;
	n4.back.has = has_back;
	nfs4_release(target4(), &c);
	return got;
}

bool delegate4(struct nfs_open *o, const char *other)
{
	return delegate(o, other, false);
}

bool delegate4_write(struct nfs_open *o, const char *other)
{
	return delegate(o, other, true);
}

/* ---- arguments ---- */

void m_seq_args(uint32_t n, bool cache)
{
	m_new();
	M(0, 1, n);
	/* Slot 0 is the only one in use. */
	M(53, SESSION_WORDS, 1, 0, 0, cache);
}

void m_minor(void)
{
	m_set(4, cl4.server.version->minor);    /* behind the tag, which is empty */
}

void m_args(uint32_t n, bool cache)
{
	m_seq_args(n, cache);
	M(22);
	m_opaque("fhand", 5);
}

/* ---- results ---- */

void m_op(uint32_t op)
{
	op_at[nops++] = m_len();
	M(op, 0);
	m_set(8, nops);
}

unsigned m_nops(void)
{
	return nops;
}

uint32_t m_op_at(unsigned k)
{
	return op_at[k];
}

void m_seq_res(void)
{
	m_new();
	nops = 0;
	M(0, 0, 0);
	m_op(53);
	M(SESSION_WORDS, 1, 0, SLOTS - 1, SLOTS - 1, 0);
}

void m_res(void)
{
	m_seq_res();
	m_op(22);
}

void m_fail_at(unsigned k, uint32_t status)
{
	uint32_t op = m_get(op_at[k]);

	m_trunc(op_at[k]);
	nops = k + 1;
	M(op, status);
	if (op == 34)           /* SETATTR says what it has set even then */
		M(0);
	m_set(0, status);
	m_set(8, nops);
}

void m_end_opaque(uint32_t at)
{
	m_set(at, m_len() - at - 4);
}

void m_stat_values(void)
{
	M(1, 0, 77, 1, 0x10, 0, 5, 0, 6, 0, 7);
	M(0644, 2);
	m_str("1000");
	m_str("100");
	M(8, 1, 0, 0x2000, 0, 100, 1, 0xffffffff, 0xffffffff, 3, 0, 200, 2);
}

void m_stat_fattr(void)
{
	uint32_t at;

	M(STAT_MASK);
	at = m_len();
	M(0);
	m_stat_values();
	m_end_opaque(at);
}

void expect_stat(const struct nfs_attr *a)
{
	cr_assert_eq(a->mode, S_IFREG | 0644);
	cr_assert(a->nlink == 2 && a->uid == 1000 && a->gid == 100);
	cr_assert(a->change == 77 && a->size == 0x100000010 && a->used == 0x2000);
	cr_assert(a->fsid_major == 5 && a->fsid_minor == 6 && a->fileid == 7);
	cr_assert(a->rdev_major == 8 && a->rdev_minor == 1);
	cr_assert(a->atime.tv_sec == 100 && a->atime.tv_nsec == 1);
	cr_assert(a->ctime.tv_sec == -1 && a->ctime.tv_nsec == 3, "before 1970");
	cr_assert(a->mtime.tv_sec == 200 && a->mtime.tv_nsec == 2);
}
