/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks, from FUSE's requests to the calls (fs_play.h). The test plays a kernel with processes and
 * open files, and a server that has locks as RFC 8881 says: of an owner's number, through one open,
 * whose CLOSE must find none. Beside it is what POSIX says, by the kernel's owners: both have to agree.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include "fs_play.h"

#define BYTES 24u
#define FILES 4u
#define OTHERS UINT64_MAX               /* the owner of another client */

struct nfs_open { unsigned nr; };

/* ---- the server ---- */

static struct state {                   /* of one owner's number */
	uint64_t number;
	const struct nfs_open *open;    /* NULL: of another client */
	char held[BYTES];               /* NFS_RANGE_... */
} states[4096];
static unsigned nstates;
static unsigned calls[NFS_OP_MAX];
static int lock_fails;                  /* LOCK is executed, and ends with this */
static bool grace;                      /* LOCK, OPEN and GETATTR are told to come later */
static int getattr_fails;
static uint64_t change = 1, file_size;
static unsigned opens;

static struct state *state_of(uint64_t number, const struct nfs_open *o)
{
	for (unsigned i = 0; i < nstates; i++)
		if (states[i].number == number) {
			cr_assert(!o || states[i].open == o, "an owner stays with its open");
			return &states[i];
		}
	cr_assert_lt(nstates, 4096);
	states[nstates] = (struct state){ .number = number, .open = o };
	return &states[nstates++];
}

static bool holds(const struct state *s)
{
	for (unsigned i = 0; i < BYTES; i++)
		if (s->held[i])
			return true;
	return false;
}

static unsigned last_byte(uint64_t start, uint64_t length)
{
	uint64_t last = nfs_range_last(start, length);

	return last >= BYTES ? BYTES - 1 : (unsigned)last;
}

/* Who is in the way; NULL: nobody. */
static const struct state *in_the_way(const struct nfs_lock_args *a, unsigned *at)
{
	for (unsigned b = (unsigned)a->offset; b <= last_byte(a->offset, a->length); b++)
		for (unsigned i = 0; i < nstates; i++)
			if (states[i].number != a->owner && states[i].held[b] &&
			    (a->write || states[i].held[b] == NFS_RANGE_WRITE)) {
				*at = b;
				return &states[i];
			}
	return NULL;
}

static int denied(struct nfs_call *c, const struct state *s, unsigned at)
{
	c->res.lock.write = s->held[at] == NFS_RANGE_WRITE;
	c->res.lock.offset = at;
	c->res.lock.length = 1;
	c->res.lock.holder = s->open ? s->number : 0;
	return -EAGAIN;
}

static uint64_t last_owner;             /* who asked last */
static uint64_t written_at;             /* the last WRITE */

static int do_lock(struct nfs_call *c)
{
	const struct nfs_lock_args *a = &c->args.lock;
	const struct state *s;
	struct state *own;
	unsigned at;

	last_owner = a->owner;
	s = in_the_way(a, &at);
	if (s)
		return denied(c, s, at);
	if (c->op == NFS_OP_LOCKT)
		return 0;
	own = state_of(a->owner, c->open);
	c->res.lock.had = false;
	for (unsigned b = (unsigned)a->offset; b <= last_byte(a->offset, a->length); b++) {
		c->res.lock.had |= own->held[b] != 0;
		own->held[b] = a->write ? NFS_RANGE_WRITE : NFS_RANGE_READ;
	}
	c->res.lock.held = true;
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 1, .fileid = 100, .change = change,
					 .size = file_size };
	c->res.has_attr = true;
	return lock_fails;
}

static int do_unlock(struct nfs_call *c)
{
	const struct nfs_lock_args *a = &c->args.lock;
	struct state *own = state_of(a->owner, c->open);
	unsigned last = a->all ? BYTES - 1 : last_byte(a->offset, a->length);

	for (unsigned b = a->all ? 0 : (unsigned)a->offset; b <= last; b++)
		own->held[b] = 0;
	c->res.lock.held = holds(own);
	return 0;
}

static int do_close(struct nfs_call *c)
{
	for (unsigned i = 0; i < nstates; i++)
		cr_assert(states[i].open != c->open || !holds(&states[i]), "CLOSE while locks are held");
	return 0;
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	calls[c->op]++;
	if (grace && (c->op == NFS_OP_LOCK || c->op == NFS_OP_OPEN || c->op == NFS_OP_GETATTR))
		return NFS_LATER;
	switch (c->op) {
	case NFS_OP_LOCK:
	case NFS_OP_LOCKT:
		return do_lock(c);
	case NFS_OP_LOCKU:
		return do_unlock(c);
	case NFS_OP_CLOSE:
		return do_close(c);
	case NFS_OP_OPEN:
		c->open = calloc(1, sizeof(*c->open));
		c->open->nr = opens++;
		break;
	case NFS_OP_WRITE:
		written_at = c->args.io.offset;
		c->res.io.len = c->args.io.data[0].len;
		c->res.io.stable = false;
		if (file_size < written_at + c->res.io.len)
			file_size = written_at + c->res.io.len;
		return 0;
	case NFS_OP_COMMIT:
		return 0;
	case NFS_OP_GETATTR:
		if (getattr_fails)
			return getattr_fails;
		break;
	default:
		break;
	}
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 1, .fileid = 100, .change = change,
					 .size = file_size };
	c->res.has_attr = true;
	return 0;
}

static uint32_t last_xid, last_but_one_xid;
static unsigned encoded;

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	encoded++;
	last_but_one_xid = last_xid;
	last_xid = c->eng.rr.xid;
	return xdr_uint32_t(x, &nothing);
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
/* The delegation under which locks need no call; 0: there is none. And: how often it is said to come later. */
static uint64_t under;
static unsigned laters, heres;

static enum nfs_lock_here lock_here(struct nfs_server *s, struct nfs_call *c)
{
	cr_assert(s == &fs.vfs.cl->server);
	if (laters) {
		laters--;
		return NFS_LOCK_LATER;
	}
	if (!under)
		return NFS_LOCK_SENT;
	heres++;
	c->res.status = c->op == NFS_OP_LOCKU ? do_unlock(c) : do_lock(c);
	c->res.lock.under = under;
	return NFS_LOCK_HERE;
}

static bool none_is_due(const struct nfs_server *s)
{
	return !s;
}

static void drop_delegations(struct nfs_server *s)
{
	cr_assert(s);
}

static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .lock_here = lock_here, .delegations_due = none_is_due,
	.delegations_drop = drop_delegations,
	.ops = {
		[NFS_OP_OPEN] = &any_op, [NFS_OP_CLOSE] = &any_op, [NFS_OP_LOCK] = &any_op,
		[NFS_OP_LOCKT] = &any_op, [NFS_OP_LOCKU] = &any_op, [NFS_OP_GETATTR] = &any_op,
		[NFS_OP_WRITE] = &any_op, [NFS_OP_COMMIT] = &any_op,
	},
};

/* ---- the kernel ---- */

static struct ask {
	uint64_t unique;
	bool answered;
	int error;
	/* of those that lock: */
	uint64_t key;
	unsigned start, last, type, file;
} asks[20000];
static unsigned nasks;
static uint64_t files[FILES];           /* fi->fh; 0: closed */

static void answered(const struct fuse_out_header *h)
{
	for (unsigned i = nasks; i-- > 0; )
		if (asks[i].unique == h->unique) {
			cr_assert_not(asks[i].answered);
			asks[i].answered = true;
			asks[i].error = h->error;
			return;
		}
}

/* Until the server has nothing to do. */
static void settle(void)
{
	for (unsigned i = 0; i < 6; i++)
		lane_play_serve();
}

static struct ask *ask(uint32_t opcode, const void *body, size_t len)
{
	struct fuse_in_header h = fs_play_header(opcode, FUSE_ROOT_ID, len);
	struct ask *a = &asks[nasks++];

	cr_assert_leq(nasks, 20000);
	h.pid = 77;
	*a = (struct ask){ .unique = h.unique };
	fs_play_request(&h, body, len);
	return a;
}

static uint32_t open_file(unsigned f, int flags)
{
	struct fuse_open_in in = { .flags = (uint32_t)flags };
	struct ask *a = ask(FUSE_OPEN, &in, sizeof(in));
	struct fuse_open_out out;

	settle();
	cr_assert(a->answered && !a->error);
	memcpy(&out, answer.data, sizeof(out));
	files[f] = out.fh;
	return out.open_flags;
}

static struct ask *set_lock(uint32_t opcode, unsigned f, uint64_t key, uint64_t start, uint64_t end, int type)
{
	struct fuse_lk_in in = {
		.fh = files[f], .owner = key,
		.lk = { .start = start, .end = end, .type = (uint32_t)type, .pid = (uint32_t)key },
	};
	struct ask *a = ask(opcode, &in, sizeof(in));

	a->key = key;
	a->start = (unsigned)start;
	a->last = end < BYTES ? (unsigned)end : BYTES - 1;
	a->type = type == F_WRLCK ? NFS_RANGE_WRITE : type == F_RDLCK ? NFS_RANGE_READ : NFS_RANGE_NONE;
	a->file = f;
	return a;
}

static int try_lock(unsigned f, uint64_t key, uint64_t start, uint64_t end, int type)
{
	struct ask *a = set_lock(FUSE_SETLK, f, key, start, end, type);

	settle();
	cr_assert(a->answered);
	return a->error;
}

static void flush_file(unsigned f, uint64_t key)
{
	struct fuse_flush_in in = { .fh = files[f], .lock_owner = key };
	struct ask *a = ask(FUSE_FLUSH, &in, sizeof(in));

	settle();
	cr_assert(a->answered && !a->error);
}

static void release_file(unsigned f)
{
	struct fuse_release_in in = { .fh = files[f] };

	ask(FUSE_RELEASE, &in, sizeof(in));
	files[f] = 0;
	settle();
}

/* Another client's. */
static void others(unsigned start, unsigned last, enum nfs_range_set type)
{
	memset(state_of(OTHERS, NULL)->held + start, (int)type, last - start + 1);
}

static void start(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };
	static const struct nfs_attr attr = { .mode = S_IFREG | 0644, .nlink = 1, .fileid = 100, .change = 1 };

	fs.cfg.posix_locks = fs.cfg.flock_locks = true;
	fs.cfg.vfs.write_behind = 50;
	fs_play_answered = answered;
	fs_play_start(&version, &root, &attr);
	for (unsigned f = 0; f < FILES; f++)
		open_file(f, O_RDWR);
	memset(calls, 0, sizeof(calls));
}

static void end(void)
{
	for (unsigned f = 0; f < FILES; f++)
		if (files[f])
			release_file(f);
	lane_play_run(30);
	settle();
	for (unsigned i = 0; i < nstates; i++)
		cr_assert(!states[i].open || !holds(&states[i]), "a lock is left");
	fs_play_end();
}

TestSuite(fs_locks, .init = start, .fini = end, .timeout = 300);

/* ---- one at a time ---- */

Test(fs_locks, locks_exclude_each_other)
{
	cr_assert_eq(try_lock(0, 1, 0, 9, F_WRLCK), 0);
	cr_assert_eq(try_lock(1, 2, 9, 9, F_RDLCK), -EAGAIN);
	cr_assert_eq(try_lock(1, 2, 10, INT64_MAX, F_WRLCK), 0);
	cr_assert_eq(try_lock(0, 1, 10, 10, F_RDLCK), -EAGAIN);
	cr_assert_eq(try_lock(0, 1, 0, 9, F_RDLCK), 0, "downgrade");
	cr_assert_eq(try_lock(1, 2, 9, 9, F_RDLCK), 0);
	cr_assert_eq(try_lock(0, 1, 0, 9, F_WRLCK), -EAGAIN, "upgrade");
	cr_assert_eq(try_lock(0, 1, 0, 9, F_UNLCK), 0);
	cr_assert_eq(try_lock(1, 2, 0, 9, F_WRLCK), 0);
	flush_file(0, 1);
	cr_assert_eq(calls[NFS_OP_LOCKU], 1, "nothing is left to unlock");
	flush_file(1, 2);
	cr_assert_eq(calls[NFS_OP_LOCKU], 2);
}

/* What was never locked costs nothing. */
Test(fs_locks, without_locks_there_are_no_calls)
{
	cr_assert_eq(try_lock(0, 1, 0, 9, F_UNLCK), 0);
	flush_file(0, 1);
	release_file(0);
	cr_assert_eq(try_lock(1, 1, 0, 9, F_RDLCK), 0);
	cr_assert_eq(try_lock(1, 2, 0, 9, F_UNLCK), 0);
	flush_file(1, 2);
	cr_assert_eq(calls[NFS_OP_LOCKU], 0);
	cr_assert_eq(calls[NFS_OP_CLOSE], 1);
}

/* A process loses all that it has of the file, whichever open it closes, and nobody else does. */
Test(fs_locks, close_releases_what_posix_says)
{
	cr_assert_eq(try_lock(0, 1, 0, 0, F_WRLCK), 0);
	cr_assert_eq(try_lock(1, 1, 5, 5, F_WRLCK), 0);
	cr_assert_eq(try_lock(2, 2, 9, 9, F_WRLCK), 0);
	flush_file(3, 1);
	cr_assert_eq(calls[NFS_OP_LOCKU], 1);
	cr_assert_eq(try_lock(3, 3, 0, 8, F_WRLCK), 0);
	cr_assert_eq(try_lock(3, 3, 9, 9, F_WRLCK), -EAGAIN);
}

/* One that only reads, too: so the kernel has to tell of its close(). */
Test(fs_locks, close_of_an_open_that_only_reads)
{
	release_file(3);
	cr_assert_not(open_file(3, O_RDONLY) & FOPEN_NOFLUSH);
	cr_assert_eq(try_lock(0, 1, 0, 0, F_WRLCK), 0);
	flush_file(3, 1);
	cr_assert_eq(calls[NFS_OP_LOCKU], 1);
	cr_assert_eq(try_lock(1, 2, 0, 0, F_WRLCK), 0);
	flush_file(1, 2);
}

/* It holds on to the open of its first lock no longer than it holds a lock. */
Test(fs_locks, an_open_that_others_close)
{
	cr_assert_eq(try_lock(0, 1, 0, 0, F_WRLCK), 0);
	cr_assert_eq(try_lock(0, 1, 0, 0, F_UNLCK), 0);
	cr_assert_eq(try_lock(1, 1, 0, 0, F_WRLCK), 0);
	release_file(0);
	cr_assert_eq(try_lock(2, 2, 0, 0, F_RDLCK), -EAGAIN, "the lock goes through another open");
	flush_file(1, 1);
	cr_assert_eq(try_lock(2, 2, 0, 0, F_RDLCK), 0);
}

/* The server keeps what it knows of an owner until its open is closed. */
Test(fs_locks, two_opens_in_turn)
{
	for (unsigned i = 0; i < 20; i++) {
		cr_assert_eq(try_lock(i % 2, 1, 0, 0, F_WRLCK), 0);
		cr_assert_eq(try_lock(2, 2, 0, 0, F_RDLCK), -EAGAIN);
		cr_assert_eq(try_lock(i % 2, 1, 0, 0, F_UNLCK), 0);
	}
	cr_assert_eq(nstates, 2, "%u owners", nstates);
}

static int ask_flock(uint32_t opcode, unsigned f, uint64_t key, int type)
{
	struct fuse_lk_in in = {
		.fh = files[f], .owner = key, .lk = { .end = INT64_MAX, .type = (uint32_t)type },
		.lk_flags = FUSE_LK_FLOCK,
	};
	struct ask *a = ask(opcode, &in, sizeof(in));

	settle();
	return a->answered ? a->error : 1;
}

/* Of the open file: at its last close, and before CLOSE. */
Test(fs_locks, flock)
{
	cr_assert_eq(ask_flock(FUSE_SETLK, 0, 100, F_WRLCK), 0);
	cr_assert_eq(ask_flock(FUSE_SETLK, 1, 101, F_RDLCK), -EAGAIN);
	flush_file(0, 1);
	cr_assert_eq(ask_flock(FUSE_SETLK, 1, 101, F_RDLCK), -EAGAIN);
	release_file(0);
	cr_assert_eq(calls[NFS_OP_LOCKU], 1);
	cr_assert_eq(calls[NFS_OP_CLOSE], 1);
	cr_assert_eq(ask_flock(FUSE_SETLK, 1, 101, F_RDLCK), 0);
	cr_assert_eq(ask_flock(FUSE_SETLK, 2, 102, F_RDLCK), 0);
	cr_assert_eq(ask_flock(FUSE_SETLK, 1, 101, F_UNLCK), 0);
}

/* The program that comes next asks while the last close of the one before is at work. */
Test(fs_locks, a_close_that_nobody_waits_for)
{
	struct fuse_release_in in = { .fh = files[0] };
	struct ask *a;

	cr_assert_eq(ask_flock(FUSE_SETLK, 0, 100, F_WRLCK), 0);
	/* Its LOCK is executed first. */
	a = set_lock(FUSE_SETLK, 1, 2, 0, 9, F_WRLCK);
	ask(FUSE_RELEASE, &in, sizeof(in));
	files[0] = 0;
	settle();
	cr_assert_not(a->answered);
	for (unsigned i = 0; i < 10 && !a->answered; i++) {
		lane_play_run(5);
		settle();
	}
	cr_assert(a->answered && !a->error);
}

static void expect_in_the_way(unsigned type, uint64_t start, uint64_t end, uint32_t pid)
{
	struct fuse_lk_out out;

	memcpy(&out, answer.data, sizeof(out));
	cr_assert_eq(out.lk.type, type);
	if (type == F_UNLCK)
		return;
	cr_assert_eq(out.lk.start, start);
	cr_assert_eq(out.lk.end, end);
	cr_assert_eq(out.lk.pid, pid);
}

/* The process, if it is one of this mount. */
Test(fs_locks, who_is_in_the_way)
{
	others(3, 3, NFS_RANGE_READ);
	cr_assert_eq(try_lock(0, 1, 8, 8, F_WRLCK), 0);
	set_lock(FUSE_GETLK, 1, 2, 2, 5, F_RDLCK);
	settle();
	expect_in_the_way(F_UNLCK, 0, 0, 0);
	set_lock(FUSE_GETLK, 1, 2, 2, 5, F_WRLCK);
	settle();
	expect_in_the_way(F_RDLCK, 3, 3, 0);
	set_lock(FUSE_GETLK, 1, 2, 5, INT64_MAX, F_RDLCK);
	settle();
	expect_in_the_way(F_WRLCK, 8, 8, 1);
	set_lock(FUSE_GETLK, 1, 1, 5, INT64_MAX, F_RDLCK);
	settle();
	expect_in_the_way(F_UNLCK, 0, 0, 0);
}

/* ---- waiting ---- */

/* Unlocked here: at once, the one that has waited longest; others as often as the queue moves. */
Test(fs_locks, the_first_who_waits_is_first)
{
	struct ask *a[3];

	cr_assert_eq(try_lock(0, 1, 0, 9, F_WRLCK), 0);
	for (unsigned i = 0; i < 3; i++) {
		a[i] = set_lock(FUSE_SETLKW, 1, 10 + i, 5, 6, F_WRLCK);
		settle();
		cr_assert_not(a[i]->answered);
	}
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(try_lock(0, i ? 9 + i : 1, 0, 9, F_UNLCK), 0);
		lane_play_run(1);
		settle();
		for (unsigned k = 0; k < 3; k++)
			cr_assert_eq(a[k]->answered, k <= i, "unlocked %u times: %u", i + 1, k);
	}
	flush_file(1, 12);
}

Test(fs_locks, readers_go_together)
{
	struct ask *a[3];

	cr_assert_eq(try_lock(0, 1, 0, 9, F_WRLCK), 0);
	for (unsigned i = 0; i < 3; i++)
		a[i] = set_lock(FUSE_SETLKW, 1, 10 + i, 5, 6, F_RDLCK);
	settle();
	cr_assert_eq(try_lock(0, 1, 0, 9, F_UNLCK), 0);
	for (unsigned i = 0; i < 3; i++) {
		lane_play_run(1);
		settle();
	}
	for (unsigned i = 0; i < 3; i++)
		cr_assert(a[i]->answered && !a[i]->error);
	for (unsigned i = 0; i < 3; i++)
		flush_file(1, 10 + i);
}

/* The one that waits first waits for what the second one has: that must not wait for the first. */
Test(fs_locks, a_queue_is_no_deadlock)
{
	struct ask *first, *second;

	others(8, 8, NFS_RANGE_WRITE);
	cr_assert_eq(try_lock(0, 2, 0, 0, F_RDLCK), 0);
	first = set_lock(FUSE_SETLKW, 1, 1, 0, 9, F_WRLCK);
	settle();
	second = set_lock(FUSE_SETLKW, 0, 2, 0, 9, F_RDLCK);
	settle();
	cr_assert(!first->answered && !second->answered);
	others(8, 8, NFS_RANGE_NONE);
	for (unsigned i = 0; i < 400 && !second->answered; i++) {
		lane_play_run(5);
		settle();
	}
	cr_assert(second->answered && !second->error && !first->answered);
	flush_file(0, 2);
	lane_play_run(1);
	settle();
	cr_assert(first->answered && !first->error);
	flush_file(1, 1);
}

/* The one that waits first has sent LOCK, and there is no answer: its lane may have no connection. */
Test(fs_locks, a_queue_does_not_wait_for_answers)
{
	struct ask *first, *second;
	unsigned before;
	uint32_t its;

	others(0, 9, NFS_RANGE_WRITE);
	first = set_lock(FUSE_SETLKW, 0, 1, 0, 9, F_WRLCK);
	settle();
	second = set_lock(FUSE_SETLKW, 1, 2, 0, 9, F_WRLCK);
	settle();
	others(0, 9, NFS_RANGE_NONE);
	before = encoded;
	for (unsigned i = 0; i < 400 && encoded < before + 2; i++) {
		lane_play_run(5);
		lane_play_flush();
	}
	cr_assert_eq(encoded, before + 2, "the second one tries as well");
	its = last_but_one_xid;
	lane_play_reply(last_xid);
	cr_assert(second->answered && !second->error && !first->answered);
	lane_play_reply(its);
	flush_file(1, 2);
	lane_play_run(1);
	settle();
	cr_assert(first->answered && !first->error);
	flush_file(0, 1);
}

/* Whoever is awake has tried; who sleeps behind it is woken, and does not sleep until its poll. */
Test(fs_locks, who_is_awake_keeps_nobody_asleep)
{
	struct ask *first, *second;
	unsigned before;
	uint32_t its;

	cr_assert_eq(try_lock(0, 3, 0, 9, F_WRLCK), 0);
	first = set_lock(FUSE_SETLKW, 0, 1, 0, 9, F_WRLCK);
	settle();
	before = encoded;
	for (unsigned i = 0; i < 400 && encoded == before; i++) {
		lane_play_run(5);
		lane_play_flush();
	}
	cr_assert_eq(encoded, before + 1, "the first one has no answer yet");
	its = last_xid;
	second = set_lock(FUSE_SETLKW, 1, 2, 0, 9, F_WRLCK);
	lane_play_flush();
	lane_play_reply(last_xid);      /* denied: it sleeps */
	set_lock(FUSE_SETLK, 0, 3, 0, 9, F_UNLCK);
	lane_play_flush();
	before = encoded;
	lane_play_reply(last_xid);
	lane_play_run(1);
	lane_play_flush();
	cr_assert_eq(encoded, before + 1, "at once");
	lane_play_reply(last_xid);
	cr_assert(second->answered && !second->error && !first->answered);
	lane_play_reply(its);           /* denied; but somebody has unlocked since, so it tries once more */
	lane_play_reply(last_xid);
	flush_file(1, 2);
	lane_play_run(1);
	settle();
	cr_assert(first->answered && !first->error);
	flush_file(0, 1);
}

/* The server says that another client has unlocked. So nobody waits for the next poll. */
Test(fs_locks, the_server_says_that_it_is_free)
{
	struct ask *a;

	others(0, 9, NFS_RANGE_WRITE);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 0, F_RDLCK);
	for (unsigned i = 0; i < 20; i++) {
		settle();
		lane_play_run(10);
	}
	cr_assert_not(a->answered);
	others(0, 9, NFS_RANGE_NONE);
	locks_on_freed(&fl->vl, &fs.root->file.fh, last_owner + 1);
	lane_play_run(1);
	settle();
	cr_assert_not(a->answered, "of another owner");
	locks_on_freed(&fl->vl, &fs.root->file.fh, last_owner);
	lane_play_run(1);
	settle();
	cr_assert(a->answered && !a->error);
	flush_file(0, 1);
}

/* That comes before the answer by which it is denied. */
Test(fs_locks, the_server_says_so_before_it_denies_it)
{
	struct ask *a;
	unsigned before;

	others(0, 9, NFS_RANGE_WRITE);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 0, F_RDLCK);
	lane_play_flush();
	locks_on_freed(&fl->vl, &fs.root->file.fh, 1);
	before = calls[NFS_OP_LOCK];
	lane_play_reply(last_xid);
	cr_assert_eq(calls[NFS_OP_LOCK], before + 1);
	others(0, 9, NFS_RANGE_NONE);
	lane_play_reply(last_xid);
	cr_assert(a->answered && !a->error, "it is asked for at once");
	flush_file(0, 1);
}

/* Nobody has the file, or has locks of it. */
Test(fs_locks, a_lock_that_nobody_waits_for)
{
	struct nfs_fh fh = { .len = 3, .data = "not" };

	locks_on_freed(&fl->vl, &fh, 1);
	locks_on_freed(&fl->vl, &fs.root->file.fh, 1);
	cr_assert_eq(calls[NFS_OP_LOCK], 0);
}

/* How often LOCK may be sent in that time: at once, and after 10 ms, 20 ms, 40 ms... */
static unsigned polls_in(uint64_t ns)
{
	unsigned n = 2;

	for (uint64_t pause = 10000000, at = pause; at < ns; n++, pause *= 2)
		at += pause;
	return n;
}

/* Another client does not say when it unlocks. The pauses grow, and no call is open meanwhile. */
Test(fs_locks, polls_with_pauses)
{
	uint64_t begin = mono_ns();
	struct ask *a;

	others(0, 9, NFS_RANGE_WRITE);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 0, F_RDLCK);
	for (unsigned i = 0; i < 100; i++) {
		settle();
		cr_assert_eq(lane.active, 0);
		lane_play_run(2);
	}
	cr_assert_geq(calls[NFS_OP_LOCK], 3);
	cr_assert_leq(calls[NFS_OP_LOCK], polls_in(mono_ns() - begin));
	others(0, 9, NFS_RANGE_NONE);
	for (unsigned i = 0; i < 400 && !a->answered; i++) {
		lane_play_run(5);
		settle();
	}
	cr_assert(a->answered && !a->error);
	flush_file(0, 1);
}

static void interrupt(const struct ask *a)
{
	struct fuse_interrupt_in in = { .unique = a->unique };
	struct fuse_in_header h = fs_play_header(FUSE_INTERRUPT, 0, sizeof(in));

	fs_play_request(&h, &in, sizeof(in));
	lane_play_run(1);
}

Test(fs_locks, any_signal_ends_the_wait)
{
	struct ask *a, *b;

	others(0, 9, NFS_RANGE_WRITE);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 0, F_RDLCK);
	settle();
	b = set_lock(FUSE_SETLKW, 0, 2, 0, 0, F_RDLCK);
	settle();
	interrupt(a);
	cr_assert(a->answered);
	cr_assert_eq(a->error, -EINTR);
	cr_assert_not(b->answered);
	interrupt(b);
	cr_assert_eq(b->error, -EINTR);
	settle();
	lane_play_run(100);
	cr_assert_eq(fake.nsends, 0);
}

/* LOCK was granted just then: nobody knows of it, so it is given back. */
Test(fs_locks, a_lock_that_comes_too_late)
{
	struct ask *a = set_lock(FUSE_SETLKW, 0, 1, 0, 0, F_WRLCK);

	lane_play_flush();
	interrupt(a);
	cr_assert_eq(a->error, -EINTR);
	for (unsigned i = 0; i < 8; i++)
		lane_play_reply(fl->vl.active.next == &fl->vl.active ? 0 :
				container_of(fl->vl.active.next, struct vfs_op, node)->call.eng.rr.xid);
	cr_assert_eq(calls[NFS_OP_LOCKU], 1);
	cr_assert_eq(try_lock(1, 2, 0, 0, F_WRLCK), 0);
	flush_file(1, 2);
}

/* A signal before the process has got it, and what it had before stays. */
Test(fs_locks, an_upgrade_that_comes_too_late)
{
	struct ask *a;

	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 5, F_WRLCK);
	lane_play_flush();
	interrupt(a);
	cr_assert_eq(a->error, -EINTR);
	lane_play_reply(container_of(fl->vl.active.next, struct vfs_op, node)->call.eng.rr.xid);
	cr_assert_eq(calls[NFS_OP_LOCKU], 0);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_WRLCK), -EAGAIN);
	flush_file(0, 1);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_WRLCK), 0);
	flush_file(1, 2);
}

/* Time passes, and the server answers. */
static void pass(unsigned ms)
{
	for (unsigned i = 0; i < ms / 10; i++) {
		lane_play_run(10);
		settle();
	}
}

/* ---- a grace period without end, as far as the program is concerned ---- */

static void lock_in_grace(void)
{
	struct ask *a = set_lock(FUSE_SETLKW, 0, 1, 0, 5, F_WRLCK);

	grace = true;
	pass(500);
	cr_assert(!a->answered && calls[NFS_OP_LOCK] > 1);
	interrupt(a);
	cr_assert(a->answered);
	cr_assert_eq(a->error, -EINTR);
}

static void grace_ends(void)
{
	grace = false;
	pass(1000);
}

/* The lock comes when nobody waits for it any more: it is given back. */
Test(fs_locks, a_signal_in_a_grace_period)
{
	lock_in_grace();
	pass(500);
	cr_assert_eq(calls[NFS_OP_LOCKU], 0);
	grace_ends();
	cr_assert_eq(calls[NFS_OP_LOCKU], 1);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_WRLCK), 0);
	flush_file(1, 2);
}

/* A program with a timer asks again: that one gets it, whatever has been given back before. */
Test(fs_locks, asked_again_in_a_grace_period)
{
	struct ask *a;

	lock_in_grace();
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 5, F_WRLCK);
	pass(300);
	cr_assert_not(a->answered);
	interrupt(a);
	cr_assert_eq(a->error, -EINTR);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 5, F_WRLCK);
	grace_ends();
	cr_assert(a->answered && !a->error);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_RDLCK), -EAGAIN);
	flush_file(0, 1);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_RDLCK), 0);
	flush_file(1, 2);
}

/* Calls of one owner come one after the other, and so does the one that unlocks: close() waits. */
Test(fs_locks, closed_in_a_grace_period)
{
	struct fuse_flush_in in = { .fh = files[0], .lock_owner = 1 };
	struct ask *a;

	lock_in_grace();
	a = ask(FUSE_FLUSH, &in, sizeof(in));
	pass(300);
	cr_assert_not(a->answered);
	grace_ends();
	cr_assert(a->answered && !a->error);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_WRLCK), 0);
	flush_file(1, 2);
}

/* Only who is killed is let go. */
static void killed_in_grace(uint32_t opcode, const void *body, size_t len, enum nfs_op op)
{
	struct ask *a;

	grace = true;
	a = ask(opcode, body, len);
	pass(500);
	cr_assert(!a->answered && calls[op] > 1);
	interrupt(a);
	cr_assert_not(a->answered);
	cr_assert_not(fs_give_up(container_of(fl->vl.active.next, struct fs_req, op.node)));
	cr_assert(a->answered);
	cr_assert_eq(a->error, -EINTR);
	grace_ends();
	cr_assert(list_empty(&fl->vl.active));
}

Test(fs_locks, an_open_in_a_grace_period)
{
	const struct fuse_open_in in = { .flags = O_RDWR };

	killed_in_grace(FUSE_OPEN, &in, sizeof(in), NFS_OP_OPEN);
	cr_assert_eq(calls[NFS_OP_CLOSE], 1, "nobody has what has come");
}

Test(fs_locks, a_stat_in_a_grace_period)
{
	const struct fuse_getattr_in in = { .getattr_flags = FUSE_GETATTR_FH, .fh = files[0] };

	killed_in_grace(FUSE_GETATTR, &in, sizeof(in), NFS_OP_GETATTR);
}

/* ---- without an answer ---- */

/* LOCK ends without an answer: nobody knows whether it was executed. */
Test(fs_locks, a_lock_without_an_answer)
{
	lock_fails = -EIO;
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), -EIO);
	lock_fails = 0;
	cr_assert_eq(calls[NFS_OP_LOCKU], 1);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_WRLCK), 0);
	flush_file(1, 2);
}

/* ---- data ---- */

static void write_file(unsigned f)
{
	struct fuse_write_in in = { .fh = files[f], .offset = 0, .size = 10, .flags = O_RDWR };
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, FUSE_ROOT_ID, sizeof(in) + 10);

	fs_play_request(&h, &in, sizeof(in));
}

/* What was written is on the server's disk before LOCK, which may make a lock weaker, and before LOCKU. */
Test(fs_locks, data_goes_first)
{
	write_file(0);
	cr_assert_eq(calls[NFS_OP_WRITE], 0);
	cr_assert_eq(set_lock(FUSE_SETLK, 0, 1, 0, 5, F_WRLCK)->answered, false);
	for (unsigned i = 0; i < 10; i++) {
		settle();
		lane_play_run(1);
	}
	cr_assert_eq(calls[NFS_OP_WRITE], 1);
	cr_assert_eq(calls[NFS_OP_COMMIT], 1);
	cr_assert_eq(calls[NFS_OP_LOCK], 1);
	write_file(0);
	set_lock(FUSE_SETLK, 0, 1, 0, 5, F_UNLCK);
	for (unsigned i = 0; i < 20 && !calls[NFS_OP_LOCKU]; i++) {
		lane_play_serve();
		cr_assert(!calls[NFS_OP_LOCKU] || calls[NFS_OP_WRITE] == 2);
		lane_play_run(1);
	}
	cr_assert_eq(calls[NFS_OP_LOCKU], 1);
	cr_assert_eq(calls[NFS_OP_WRITE], 2);
}

static void until_answered(const struct ask *a)
{
	for (unsigned i = 0; i < 6000 && !a->answered; i++)
		lane_play_run(10);
	cr_assert(a->answered);
}

/* The kernel is told to forget the attributes before it has the lock, also if LOCK brings the same: newer
 * ones, which another program's LOOKUP has brought, may still be on their way to the kernel. */
Test(fs_locks, what_the_kernel_has_goes)
{
	unsigned before = notice.count;

	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	cr_assert_eq(notice.count, before + 1);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_UNLCK), 0);
	cr_assert_eq(notice.count, before + 1);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0);
	cr_assert_eq(notice.count, before + 1, "it has forgotten already");
	fs_play_tell(fs.root);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0);
	cr_assert_eq(notice.count, before + 2);
	cr_assert_eq(notice.answers, 0, "before the answer");
	cr_assert_eq(notice.what.off, -1, "the attributes, not the pages");
	flush_file(0, 1);
}

/* Another client has written within one tick of the server's clock: no attribute tells. */
Test(fs_locks, a_file_whose_times_are_the_same)
{
	struct inode *ino = fs.root;
	unsigned before = notice.count, read_ahead = atomic_load(&ino->data_nr);
	struct ask *a;

	atomic_store(&believed_of(ino)->paged, true);
	a = set_lock(FUSE_SETLK, 0, 1, 0, 5, F_RDLCK);
	settle();
	cr_assert_not(a->answered, "only when the pages are gone");
	cr_assert(fs_play_drops(60000));
	until_answered(a);
	cr_assert_eq(a->error, 0);
	cr_assert_eq(notice.count, before, "the lane tells it nothing");
	cr_assert_neq(atomic_load(&ino->data_nr), read_ahead, "what was read ahead is old");
	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0, "without pages there is nothing to drop");
	flush_file(0, 1);
}

/* The kernel waits for pages before it drops them. Another lock, too: what is dropped may be older than that. */
Test(fs_locks, pages_that_are_being_read)
{
	struct ask *a, *b;

	fs_play_drops_wait();
	atomic_store(&believed_of(fs.root)->paged, true);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 5, F_RDLCK);
	settle();
	b = set_lock(FUSE_SETLKW, 1, 2, 0, 5, F_RDLCK);
	settle();
	interrupt(a);
	lane_play_run(200);
	cr_assert(!a->answered && !b->answered, "they have their locks: no signal ends that");
	fs_play_drops_go_on();
	cr_assert(fs_play_drops(60000));
	until_answered(a);
	until_answered(b);
	cr_assert(!a->error && !b->error);
	cr_assert_not(fs_play_drops(0), "nothing was read since");
	flush_file(0, 1);
	flush_file(1, 2);
}

/* One file has one thread, or its slow pages would hold up the locks of all others. What is read while
 * pages are dropped for one lock is dropped for the next one. */
Test(fs_locks, one_file_has_one_thread)
{
	struct ask *a[9];

	fs_play_drops_wait();
	atomic_store(&believed_of(fs.root)->paged, true);
	for (unsigned i = 0; i < 9; i++) {
		a[i] = set_lock(FUSE_SETLK, i % FILES, 1 + i, 0, 5, F_RDLCK);
		settle();
	}
	lane_play_run(200);
	believed_paged(fs.root);
	pthread_mutex_lock(&fs.dropper.mu);
	cr_assert_eq(fs.dropper.threads - fs.dropper.idle, 1, "%u of %u", fs.dropper.idle, fs.dropper.threads);
	pthread_mutex_unlock(&fs.dropper.mu);
	fs_play_drops_go_on();
	cr_assert(fs_play_drops(60000));
	until_answered(a[0]);
	for (unsigned i = 1; i < 9; i++)
		until_answered(a[i]);
	cr_assert(fs_play_drops(60000));
	for (unsigned i = 0; i < 9; i++)
		flush_file(i % FILES, 1 + i);
}

/* A READ comes while a lock looks: whoever sees it first, it is known. */
#define ROUNDS 50000u
static _Atomic unsigned round_nr, read_nr;

static void *reads_beside(void *arg)
{
	for (unsigned i = 1; i <= ROUNDS; i++) {
		while (atomic_load(&round_nr) < i)
			;
		for (volatile unsigned k = 0; k < i % 200; k++)
			;
		believed_paged(fs.root);
		atomic_store(&read_nr, i);
	}
	return arg;
}

Test(fs_locks, a_page_that_comes_beside_a_lock)
{
	struct believed *b = believed_of(fs.root);
	unsigned lost = 0;
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, reads_beside, NULL), 0);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		enum believed_forget how;

		atomic_store(&b->paged, false);
		atomic_store(&round_nr, i);
		how = believed_lock_begins(&fs.vfs.inodes, fs.root, false, false);
		if (how == FORGET_TELL)
			believed_forget_ends(fs.root);
		while (atomic_load(&read_nr) < i)
			;
		lost += how != FORGET_DROP && !atomic_load(&b->paged);
	}
	pthread_join(t, NULL);
	cr_assert_eq(lost, 0, "the kernel has a page that nobody knows of: %u of %u", lost, ROUNDS);
}

/* Then the next best: another mtime. */
Test(fs_locks, no_thread_to_drop_pages)
{
	unsigned before = notice.count;

	atomic_store(&believed_of(fs.root)->paged, true);
	cr_assert(dropper_stop(&fs.dropper, 1));
	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0);
	cr_assert_eq(notice.count, before + 1);
	cr_assert(atomic_load(&believed_of(fs.root)->outdated));
	flush_file(0, 1);
}

/* The mount ends, and the kernel does not: what the thread would touch is left alone. */
Test(fs_locks, a_thread_that_does_not_end)
{
	struct ask *a;

	fs_play_drops_wait();
	atomic_store(&believed_of(fs.root)->paged, true);
	a = set_lock(FUSE_SETLK, 0, 1, 0, 5, F_RDLCK);
	settle();
	cr_assert_not(dropper_stop(&fs.dropper, 1));
	fs_play_drops_go_on();
	cr_assert(fs_play_drops(60000));
	cr_assert(dropper_stop(&fs.dropper, 60), "now it has ended");
	lane_play_run(20);
	cr_assert_not(a->answered);
	/* What a process leaves to the system, or LeakSanitizer complains. */
	fs_end_err(container_of(fl->vl.active.next, struct fs_req, op.node), EINTR);
	flush_file(0, 1);
}

/* ---- a read() that another one's lock must not harm: forget.c ---- */

/* A read() asks for attributes. Returns the call's XID. */
/* Where the server has what is written there; UINT64_MAX: it is refused. */
static uint64_t append(unsigned f, uint64_t off, int flags)
{
	struct fuse_write_in in = { .fh = files[f], .offset = off, .size = 100, .flags = (uint32_t)flags | O_APPEND };
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, FUSE_ROOT_ID, sizeof(in) + 100);
	struct fuse_flush_in flush = { .fh = files[f], .lock_owner = 99 };
	struct ask *a;

	written_at = UINT64_MAX;
	fs_play_request(&h, &in, sizeof(in));
	for (unsigned i = 0; i < 50 && !answer.count; i++) {
		settle();
		lane_play_run(5);
	}
	cr_assert_eq(answer.count, 1);
	if (answer.error == -ESTALE)
		return UINT64_MAX;
	cr_assert_not(answer.error);
	a = ask(FUSE_FLUSH, &flush, sizeof(flush));
	for (unsigned i = 0; i < 50 && !a->answered; i++) {
		settle();
		lane_play_run(5);
	}
	cr_assert(a->answered && !a->error);
	return written_at;
}

/* There are pages, which are dropped before the answer. */
static void lock_all(void)
{
	struct ask *lock = set_lock(FUSE_SETLK, 0, 1, 0, INT64_MAX, F_WRLCK);

	for (unsigned i = 0; i < 100 && !lock->answered; i++) {
		settle();
		lane_play_run(5);
	}
	cr_assert(lock->answered && !lock->error);
}

/*
 * The kernel appends where it believes the end to be, and does not ask, although it was told to forget:
 *
 *     open(O_APPEND): 0 bytes     others write 500     lock     write(): WRITE at 0
 */
Test(fs_locks, an_append_is_behind_what_the_lock_promises)
{
	cr_assert_eq(append(0, 0, O_RDWR), 0, "without locks it is the kernel's");
	file_size = 500;
	change++;
	lock_all();
	fs_play_tell(fs.root);
	notice.count = 0;
	cr_assert_eq(append(0, 100, O_RDWR), 500);
	cr_assert_eq(notice.count, 1, "what the kernel has put into its pages is not there");
	cr_assert_eq(append(0, 200, O_RDWR), 600, "behind its own");
	cr_assert_eq(append(1, 300, O_RDWR), 700, "any process's");
	cr_assert_eq(append(1, 800, O_RDWR), 800, "the kernel has asked since");
	cr_assert_eq(append(1, 900, O_RDWR | O_DSYNC), 900);
	cr_assert_eq(append(0, 200, O_RDWR), 1000);
	cr_assert_eq(append(0, 1100, O_RDWR | O_DIRECT), 1100, "one of several that are sent together");
	cr_assert_eq(append(0, 300, O_RDWR | O_DIRECT), UINT64_MAX, "ESTALE");
	cr_assert_eq(try_lock(0, 1, 0, INT64_MAX, F_UNLCK), 0);
	cr_assert_eq(append(0, 1250, O_RDWR), 1250, "nobody promises");
	/* Others have cut it. */
	file_size = 50;
	change++;
	lock_all();
	cr_assert_eq(append(0, 1350, O_RDWR), 50);
	cr_assert_eq(try_lock(0, 1, 0, INT64_MAX, F_UNLCK), 0);
}

static uint32_t read_asks(struct ask **a)
{
	struct fuse_getattr_in in = { .getattr_flags = FUSE_GETATTR_FH, .fh = files[0] };
	unsigned sent = fake.nsends;

	*a = ask(FUSE_GETATTR, &in, sizeof(in));
	cr_assert_gt(fake.nsends, sent, "it asks the server");
	return last_xid;
}

/* The kernel has forgotten already. So it would take the answer to what was asked before the lock was
 * granted. */
Test(fs_locks, attributes_asked_for_before_the_lock)
{
	struct ask *reads, *lock;
	uint32_t getattr, granted;
	unsigned before;

	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0);
	before = notice.count;
	getattr = read_asks(&reads);
	lock = set_lock(FUSE_SETLK, 1, 2, 0, 5, F_RDLCK);
	granted = last_xid;
	lane_play_flush();
	lane_play_reply(granted);
	cr_assert(lock->answered && !lock->error, "nobody has to be told anything");
	cr_assert_eq(notice.count, before);
	lane_play_reply(getattr);
	cr_assert_not(reads->answered, "the server is asked again");
	lane_play_reply(last_xid);
	cr_assert(reads->answered && !reads->error);
	cr_assert_eq(calls[NFS_OP_GETATTR], 2);
	flush_file(0, 1);
	flush_file(1, 2);
}

/* That is older than the lock: an append does not go by it. The next answer is not. */
Test(fs_locks, an_append_after_an_older_answer)
{
	struct ask *reads, *lock;
	uint32_t getattr;

	getattr = read_asks(&reads);
	file_size = 500;
	lock = set_lock(FUSE_SETLK, 1, 2, 0, INT64_MAX, F_WRLCK);
	lane_play_reply(last_xid);
	lane_play_run(150);
	cr_assert(lock->answered && !lock->error);
	file_size = 20;
	lane_play_reply(getattr);
	settle();
	cr_assert_eq(append(0, 20, O_RDWR), 500);
	change++;
	file_size = 2000;
	lane_play_run(10);
	read_asks(&reads);
	settle();
	cr_assert(reads->answered);
	cr_assert_eq(append(0, 600, O_RDWR), 2000, "another client has a lock of another range");
	/* While a WRITE is under way the kernel may take the answer, or not. */
	change++;
	file_size = 3000;
	lane_play_run(10);
	atomic_fetch_add(&believed_of(fs.root)->writing, 1);
	read_asks(&reads);
	settle();
	atomic_fetch_sub(&believed_of(fs.root)->writing, 1);
	cr_assert(reads->answered);
	cr_assert_eq(append(0, 3000, O_RDWR), 3000);
	flush_file(1, 2);
}

/* A lock is granted while a read() waits, and the kernel has something to forget. */
static struct ask *lock_beside(struct ask **reads, uint32_t *getattr)
{
	struct ask *lock;

	fs_play_tell(fs.root);
	*getattr = read_asks(reads);
	lock = set_lock(FUSE_SETLK, 1, 2, 0, 5, F_RDLCK);
	lane_play_reply(last_xid);
	lane_play_run(10);
	return lock;
}

/* It has not, and is told to when the read() has what it has asked for. */
Test(fs_locks, a_read_keeps_its_answer)
{
	struct ask *reads, *lock;
	uint32_t getattr;
	unsigned before = notice.count;

	lock = lock_beside(&reads, &getattr);
	cr_assert(!lock->answered && notice.count == before);
	lane_play_reply(getattr);
	cr_assert(reads->answered && !reads->error);
	/* Its thread goes on, and sends something else. */
	cr_assert_eq(try_lock(0, 77, 20, 25, F_UNLCK), 0);
	lane_play_run(30);
	cr_assert(lock->answered && !lock->error);
	cr_assert_eq(notice.count, before + 1);
	flush_file(1, 2);
}

/* Nobody knows when a thread goes on, and a read() may wait for the server. Not for long. */
Test(fs_locks, a_lock_does_not_wait_for_a_read_for_long)
{
	struct ask *reads, *lock;
	uint32_t getattr;

	lock = lock_beside(&reads, &getattr);
	cr_assert_not(lock->answered);
	lane_play_run(150);
	cr_assert(lock->answered && !lock->error);
	lane_play_reply(getattr);
	settle();
	cr_assert(reads->answered);
	flush_file(1, 2);
}

/* ---- under a delegation ---- */

static void delegate(uint64_t number)
{
	fs.vfs.cl->cfg.delegations = true;
	under = NFS_DELEGATION_WRITES | number;
}

/* The first lock asks how the file is, as LOCK brings it, and the kernel forgets what it has. After that what it
 * has is what the file is. */
Test(fs_locks, no_call_under_a_delegation)
{
	unsigned before = notice.count;

	for (uint64_t number = 1; number < 3; number++) {
		delegate(number);
		fs_play_tell(fs.root);
		for (unsigned i = 0; i < 3; i++) {
			cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
			cr_assert_eq(try_lock(1, 2, 3, 3, F_RDLCK), -EAGAIN);
			cr_assert_eq(try_lock(0, 1, 0, 5, F_UNLCK), 0);
			cr_assert_eq(calls[NFS_OP_GETATTR], number);
			cr_assert_eq(notice.count, before + number);
		}
	}
	cr_assert_eq(calls[NFS_OP_LOCK] + calls[NFS_OP_LOCKU], 0);
}

/* It is the server's lock again: all is as without. */
Test(fs_locks, the_delegation_has_gone)
{
	unsigned before = notice.count;

	delegate(1);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	under = 0;
	fs_play_tell(fs.root);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0);
	cr_assert_eq(calls[NFS_OP_LOCK], 1);
	cr_assert_eq(notice.count, before + 2);
	flush_file(0, 1);
}

/* Another lock is granted while the first one has not asked yet: what the kernel has may be old. */
Test(fs_locks, two_first_locks_under_a_delegation)
{
	struct ask *a, *b;

	delegate(1);
	a = set_lock(FUSE_SETLK, 0, 1, 0, 5, F_WRLCK);
	b = set_lock(FUSE_SETLK, 1, 2, 6, 9, F_WRLCK);
	cr_assert(heres == 2 && !a->answered && !b->answered);
	settle();
	cr_assert(a->answered && b->answered);
	cr_assert_eq(calls[NFS_OP_GETATTR], 2);
	flush_file(0, 1);
	flush_file(1, 2);
}

/* Where a line goes that is appended under a lock: GETATTR has said it. */
Test(fs_locks, an_append_under_a_delegation)
{
	uint64_t end_was;

	file_size = 100;
	delegate(1);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	cr_assert_eq(append(0, 10, O_APPEND), 100);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_UNLCK), 0);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	end_was = file_size;
	cr_assert_eq(append(0, 10, O_APPEND), end_was);
	flush_file(0, 1);
}

/* It has got the lock all the same, as if LOCK had brought no attributes; and the next one asks once more. */
Test(fs_locks, the_first_lock_asks_in_vain)
{
	delegate(1);
	getattr_fails = -EIO;
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	getattr_fails = 0;
	cr_assert_eq(try_lock(0, 1, 0, 5, F_RDLCK), 0);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	cr_assert_eq(calls[NFS_OP_GETATTR], 2);
	flush_file(0, 1);
}

/* Nobody waits for it any more: it is given back. */
Test(fs_locks, a_signal_while_the_first_lock_asks)
{
	struct ask *a;

	delegate(1);
	a = set_lock(FUSE_SETLKW, 0, 1, 0, 5, F_WRLCK);
	lane_play_flush();
	interrupt(a);
	cr_assert_eq(a->error, -EINTR);
	lane_play_reply(last_xid);
	cr_assert_eq(try_lock(1, 2, 0, 5, F_WRLCK), 0);
	flush_file(1, 2);
}

/* Its locks are on their way to the server. */
Test(fs_locks, a_lock_while_the_delegation_goes)
{
	struct ask *a;

	delegate(1);
	cr_assert_eq(try_lock(0, 1, 0, 5, F_WRLCK), 0);
	under = 0;
	laters = 3;
	a = set_lock(FUSE_SETLK, 1, 2, 6, 9, F_WRLCK);
	for (unsigned i = 0; i < 400 && !a->answered; i++) {
		lane_play_run(5);
		settle();
	}
	cr_assert(a->answered && !a->error && !laters);
	flush_file(0, 1);
	flush_file(1, 2);
}

/* ---- random, against POSIX ---- */

static char posix[8][BYTES];            /* by key: 1..7 */

static bool may(uint64_t key, unsigned from, unsigned last, unsigned type)
{
	for (unsigned k = 1; k < 8; k++)
		for (unsigned b = from; b <= last; b++)
			if (k != key && posix[k][b] && (type == NFS_RANGE_WRITE || posix[k][b] == NFS_RANGE_WRITE))
				return false;
	return true;
}

/* The server has for each byte what POSIX says. */
static void compare(unsigned step)
{
	for (unsigned b = 0; b < BYTES; b++) {
		unsigned readers = 0, writers = 0, r = 0, w = 0;

		for (unsigned k = 1; k < 8; k++) {
			readers += posix[k][b] == NFS_RANGE_READ;
			writers += posix[k][b] == NFS_RANGE_WRITE;
		}
		for (unsigned i = 0; i < nstates; i++) {
			r += states[i].held[b] == NFS_RANGE_READ;
			w += states[i].held[b] == NFS_RANGE_WRITE;
		}
		cr_assert(readers == r && writers == w, "step %u, byte %u: %u %u, and the server has %u %u",
			  step, b, readers, writers, r, w);
	}
}

/* What waits is granted, as soon as nothing is in its way; POSIX says for each that it may be then. */
static struct ask *pending[8];

static bool take_granted(void)
{
	bool open = false;

	for (unsigned k = 1; k < 8; k++) {
		struct ask *a = pending[k];

		if (!a)
			continue;
		if (a->answered) {
			cr_assert_eq(a->error, 0);
			cr_assert(may(k, a->start, a->last, a->type), "%u got what another one has", k);
			memset(posix[k] + a->start, (int)a->type, a->last - a->start + 1);
			pending[k] = NULL;
		} else {
			open = open || may(k, a->start, a->last, a->type);
		}
	}
	return open;
}

static void let_waiters_go(void)
{
	for (unsigned i = 0; take_granted(); i++) {
		cr_assert_lt(i, 2000, "nobody gets what is free");
		lane_play_run(i < 20 ? 1 : 10);
		lane_play_serve();
	}
}

static void drop(unsigned key)
{
	memset(posix[key], 0, BYTES);
}

static void random_step(unsigned *seed)
{
	unsigned key = 1 + (unsigned)rand_r(seed) % 7, a = (unsigned)rand_r(seed) % BYTES;
	unsigned b = (unsigned)rand_r(seed) % BYTES, from = a < b ? a : b, last = a < b ? b : a;
	unsigned f = (unsigned)rand_r(seed) % FILES;
	static const int types[] = { F_RDLCK, F_WRLCK, F_UNLCK };
	unsigned type = (unsigned)rand_r(seed) % 3;
	uint64_t end = last == BYTES - 1 ? INT64_MAX : last;
	bool can;

	if (pending[key]) {
		if (rand_r(seed) % 4 == 0) {
			interrupt(pending[key]);
			cr_assert(pending[key]->answered);
			if (!pending[key]->error)
				take_granted();
			pending[key] = NULL;
			settle();
		}
		return;
	}
	if (rand_r(seed) % 10 == 0) {   /* closes one of its opens */
		flush_file(f, key);
		drop(key);
		return;
	}
	if (type == 2) {
		cr_assert_eq(try_lock(f, key, from, end, F_UNLCK), 0);
		memset(posix[key] + from, 0, last - from + 1);
		return;
	}
	can = may(key, from, last, type ? NFS_RANGE_WRITE : NFS_RANGE_READ);
	if (!can && rand_r(seed) % 2) {
		pending[key] = set_lock(FUSE_SETLKW, f, key, from, end, types[type]);
		settle();
		return;
	}
	cr_assert_eq(try_lock(f, key, from, end, types[type]), can ? 0 : -EAGAIN);
	if (can)
		memset(posix[key] + from, type ? NFS_RANGE_WRITE : NFS_RANGE_READ, last - from + 1);
}

Test(fs_locks, random_locks_are_as_posix_says)
{
	unsigned seed = 1;

	delegate(1);
	for (unsigned step = 0; step < 3000; step++) {
		under = step / 100 % 2 ? NFS_DELEGATION_WRITES | step : 0;
		random_step(&seed);
		let_waiters_go();
		compare(step);
	}
	cr_assert(heres > 1000 && calls[NFS_OP_LOCK] > 500);
	for (unsigned k = 1; k < 8; k++) {
		if (pending[k])
			interrupt(pending[k]);
		settle();
		flush_file(0, k);
	}
}
