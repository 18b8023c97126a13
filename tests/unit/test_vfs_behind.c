/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Write-behind, without FUSE and without a protocol (vfs_play.h), against a model.
 *
 * The test plays programs with two opens of one file. As a kernel would, it has one write
 * or truncation under way at a time, beside write-back of mapped pages, which touches no
 * bytes that another one is about. It plays a server that has the file in memory and on disk,
 * and executes what it has got at any time before the reply, in pieces if it likes. A restart
 * of the server loses what is in memory only. Connections are lost at any time.
 *
 *     now[]      what the programs have written
 *     disk[]     what the server has on stable storage      memory[]   what READ returns
 *
 * Rules: a READ returns what was written before it was asked for. What fsync() or close() has
 * promised is on the disk, and stays there. When all is over, disk and programs agree.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/behind_impl.h"
#include "vfs/vfs_impl.h"
#include "vfs_play.h"

enum { UNIT = 3000, UNITS = 40, SIZE = UNIT * UNITS, NASKS = 2048 };

static unsigned seed;

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

/* ---- the programs' view ---- */

static struct {
	uint8_t b[SIZE];
	uint64_t size;
} now;
/* When each byte was last written, and the file last cut or made longer without a write. */
#define UNDER_WAY UINT32_MAX
static uint32_t changed[SIZE];
static uint32_t resized;
static uint32_t tick;
static bool unknown;                    /* a writer was killed: the model does not know */
/* Up to this ask, everything is promised to be on the disk. */
static uint32_t promised;

enum what { READS, WRITES, CUTS, LOOKS, SYNCS, CLOSES };

static struct ask {
	uint64_t nr;
	enum what what;
	uint32_t at;                    /* `tick` when it was asked */
	uint64_t offset, from;          /* from: the first byte that the WRITE changes */
	uint32_t len;
	bool page, answered;
	int error;
} asks[NASKS];
static unsigned nasks;
static struct { unsigned restarts, lost, promises, reads, waits, killed, other, pings, again; } seen;

/* ---- the server ---- */

struct copy {
	uint8_t b[SIZE];
	uint64_t size;
};
static struct copy disk, memory;
static uint64_t verf;
static bool plain;                      /* it does just what it is asked for */
static int full;                        /* WRITEs that it has not executed fail with this status */
static int commits_fail;                /* COMMITs fail with this status, and store nothing */
static bool wcc;                        /* WRITE's reply has attributes, as in version 3 */
static bool forgetful;                  /* nothing is stable, and each call has another verifier */
static struct { unsigned writes, stable, commits; uint32_t longest; } did;

static unsigned removed_by_other;       /* REMOVEs of the other lane */

static struct sent {
	struct nfs_call *c;
	uint32_t xid, len;              /* len: WRITE and READ: what the reply says */
	bool executed, stable, eof;
	int status;
	uint64_t verf, size;
} sent[64];
static unsigned nsent;

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(nsent, 64);
	sent[nsent++] = (struct sent){ .c = c, .xid = c->eng.rr.xid };
	return xdr_uint32_t(x, &nothing);
}

static void put_bytes(struct copy *to, uint64_t at, const void *from, uint32_t n)
{
	if (at > to->size)
		memset(to->b + to->size, 0, at - to->size);
	memcpy(to->b + at, from, n);
	if (at + n > to->size)
		to->size = at + n;
}

static void execute_write(struct sent *s)
{
	const struct nfs_io_args *io = &s->c->args.io;
	uint32_t all = 0, left;
	uint64_t at = io->offset;

	if (full) {
		s->status = full;
		return;
	}
	for (uint32_t i = 0; i < io->ndata; i++)
		all += io->data[i].len;
	s->len = plain || roll(5) ? all : 1 + roll(all);
	s->stable = !forgetful && (!io->unstable || (!plain && !roll(4)));
	s->verf = forgetful ? ++verf : verf;
	did.writes++;
	seen.other += s->c->lane != &lane;
	did.stable += !io->unstable;
	did.longest = all > did.longest ? all : did.longest;
	s->size = memory.size;
	left = s->len;
	for (uint32_t i = 0; i < io->ndata && left; i++) {
		uint32_t n = io->data[i].len < left ? io->data[i].len : left;

		put_bytes(&memory, at, io->data[i].mem, n);
		if (s->stable)
			put_bytes(&disk, at, io->data[i].mem, n);
		at += n;
		left -= n;
	}
}

static void execute_read(struct sent *s)
{
	const struct nfs_io_args *io = &s->c->args.io;
	uint64_t left = io->offset < memory.size ? memory.size - io->offset : 0;

	s->len = left < io->count ? (uint32_t)left : io->count;
	s->eof = io->offset + s->len >= memory.size;
	memcpy(io->sink[0].mem, memory.b + io->offset, s->len);
}

static void execute(struct sent *s)
{
	s->executed = true;
	switch (s->c->op) {
	case NFS_OP_WRITE:
		execute_write(s);
		return;
	case NFS_OP_READ:
		execute_read(s);
		return;
	case NFS_OP_COMMIT:
		did.commits++;
		if (commits_fail) {
			/* As knfsd: the data is dropped or not, and the next COMMIT succeeds. */
			s->status = commits_fail;
			commits_fail = plain ? commits_fail : 0;
			memory = plain || roll(2) ? memory : disk;
			return;
		}
		disk = memory;
		s->verf = forgetful ? ++verf : verf;
		return;
	case NFS_OP_SETATTR:
		if (s->c->args.sattr.size > memory.size)
			memset(memory.b + memory.size, 0, s->c->args.sattr.size - memory.size);
		memory.size = s->c->args.sattr.size;
		disk = memory;
		break;
	case NFS_OP_REMOVE:
		removed_by_other += s->c->lane != &lane;
		break;
	default:
		break;
	}
	s->size = memory.size;
}

static int decode(struct nfs_call *c, XDR *x)
{
	unsigned i = 0;
	struct sent s;

	(void)x;
	while (sent[i].c != c || sent[i].xid != c->eng.rr.xid)
		cr_assert_lt(++i, nsent);
	s = sent[i];
	sent[i] = sent[--nsent];
	if (s.status)
		return s.status;
	if (c->op == NFS_OP_WRITE || c->op == NFS_OP_COMMIT || c->op == NFS_OP_READ) {
		c->res.io = (struct nfs_io_results){ .len = s.len, .stable = s.stable, .eof = s.eof,
						     .verf = s.verf };
		c->res.io.twice = c->op == NFS_OP_COMMIT && c->eng.resent;
		if (c->op == NFS_OP_READ)
			c->res.io.ptr = c->args.io.sink[0].mem;
		if (c->op != NFS_OP_WRITE || !wcc)
			return 0;
	}
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .fileid = 100, .nlink = 1,
					 .size = s.size };
	c->res.has_attr = true;
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
/* Calls have left their places: they have ended, or were taken back. */
static unsigned released;
static void (*on_release)(void);

static void release(struct nfs_target *t, struct nfs_call *c)
{
	(void)t, (void)c;
	released++;
	if (on_release)
		on_release();
}

/* Calls fail with this status before they are sent. */
static int unready;
/* Where the stack was when they were asked for. */
static uintptr_t stack_low, stack_high;

static int acquire(struct nfs_target *t, struct nfs_call *c)
{
	uintptr_t at = (uintptr_t)__builtin_frame_address(0);

	(void)t, (void)c;
	stack_low = !stack_low || at < stack_low ? at : stack_low;
	stack_high = at > stack_high ? at : stack_high;
	return unready ? unready : 1;
}

static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .acquire = acquire, .release = release,
	.ops = {
		[NFS_OP_READ] = &any_op, [NFS_OP_WRITE] = &any_op, [NFS_OP_COMMIT] = &any_op,
		[NFS_OP_SETATTR] = &any_op, [NFS_OP_GETATTR] = &any_op,
		[NFS_OP_REMOVE] = &any_op, [NFS_OP_CLOSE] = &any_op,
	},
};

/* What was promised, and not changed since, is on the disk. */
static void check_promise(void)
{
	for (uint32_t i = 0; i < SIZE && !unknown; i++) {
		if (i >= now.size || changed[i] > promised || resized > promised)
			continue;
		cr_assert(i < disk.size && disk.b[i] == now.b[i],
			  "byte %u is promised, but not on the disk (%d)", i, i < disk.size);
	}
}

static void restart(void)
{
	seen.restarts++;
	seen.lost += memcmp(&disk, &memory, sizeof(disk)) != 0;
	memory = disk;
	verf++;
	check_promise();
}

/* ---- the programs ---- */

/* Where the file ends, by what they were told; where it ended at the server when it was cut. */
static uint64_t told, cut;
static bool forgot;                     /* they do not know it just now */

static void check_read(const struct ask *a)
{
	const uint8_t *got = (const uint8_t *)vfs_answer.data;

	seen.reads++;
	for (uint32_t i = 0; i < a->len; i++) {
		uint64_t at = a->offset + i;

		if ((at < SIZE && changed[at] > a->at) || resized > a->at)
			continue;       /* either is right */
		if (at < now.size)
			cr_assert(i < vfs_answer.len && got[i] == now.b[at], "READ at %lu: byte %lu, %zu read",
				  (unsigned long)a->offset, (unsigned long)at, vfs_answer.len);
		else
			cr_assert_geq(i, vfs_answer.len, "READ returns more than there is");
	}
}

static void check_attr(const struct ask *a)
{
	unsigned long size = vfs_answer.attr.size;

	if (resized <= a->at)
		cr_assert(size <= now.size, "GETATTR says %lu of %lu", size, (unsigned long)now.size);
	if (resized <= a->at && now.size)
		cr_assert(size >= now.size || changed[now.size - 1] > a->at, "GETATTR says %lu of %lu", size,
			  (unsigned long)now.size);
}

/* Whoever has asked meanwhile may see either. */
static void change_ends(const struct ask *a)
{
	if (a->what == CUTS) {
		resized = ++tick;
		told = cut = a->offset;
		vfs_play_inode(root)->there = 0;
	}
	if (a->what != WRITES)
		return;
	tick++;
	for (uint64_t i = a->from; i < a->offset + a->len; i++)
		changed[i] = tick;
	if (told < a->offset + a->len && !vfs_answer.status)
		told = a->offset + a->len;
}

static void answered(uint64_t nr)
{
	struct ask *a = asks;

	while (a->nr != nr)
		cr_assert_lt(++a - asks, (int)nasks);
	cr_assert_not(a->answered);
	a->answered = true;
	change_ends(a);
	a->error = vfs_answer.status;
	if (a->error || unknown)
		return;
	if (a->what == READS) {
		check_read(a);
	} else if (a->what == LOOKS) {
		check_attr(a);
	} else if (a->what == SYNCS || a->what == CLOSES) {
		promised = a->at > promised ? a->at : promised;
		seen.promises++;
		check_promise();
	}
}

/* Bytes behind there the server does not have. */
static bool end_known(const struct inode *ino, uint64_t *end, uint64_t *there)
{
	*end = told;
	*there = container_of((uintptr_t)ino, struct vfs_play_inode, ino)->there;
	if (*there < cut)
		*there = cut;
	return !unknown && !forgot && resized != UNDER_WAY;
}

/* The next operation. */
static struct ask *asks_for(enum what what, uint64_t offset, uint32_t len)
{
	struct ask *a = &asks[nasks++];

	cr_assert_leq(nasks, NASKS);
	*a = (struct ask){ .nr = vfs_play_next, .what = what, .at = ++tick, .offset = offset, .len = len };
	return a;
}

static struct file *files[2];

/* What a program writes; the model takes it as written from now on. */
static void ask_write(unsigned open, uint64_t offset, uint32_t n, bool page, uint32_t flags)
{
	static uint8_t salt;
	uint32_t first = n < ARENA_MID_SIZE ? n : ARENA_MID_SIZE;
	struct ask *a = asks_for(WRITES, offset, n);

	salt++;
	a->page = page;
	a->from = offset < now.size ? offset : now.size;
	for (uint64_t i = now.size; i < offset; i++) {
		now.b[i] = 0;
		changed[i] = UNDER_WAY;
	}
	for (uint32_t i = 0; i < n; i++) {
		now.b[offset + i] = (uint8_t)(salt * 31 + i * 7 + i / 256);
		changed[offset + i] = UNDER_WAY;
	}
	if (offset + n > now.size)
		now.size = offset + n;
	vfs_play_buffers();
	memcpy(vfs_play_mid->mem, now.b + offset, first);
	memcpy(vfs_play_big->mem, now.b + offset + first, n - first);
	vfs_play_write(files[open], offset, n, page || !(flags & (O_DSYNC | O_DIRECT)), page);
}

static void ask_read(uint64_t offset, uint32_t n)
{
	asks_for(READS, offset, n);
	vfs_play_read(files[0], offset, n, true);
}

static void ask_truncate(uint64_t size)
{
	if (size > now.size)
		memset(now.b + now.size, 0, size - now.size);
	now.size = size;
	resized = UNDER_WAY;
	asks_for(CUTS, size, 0);
	vfs_play_truncate(root, size);
}

static void ask_getattr(void)
{
	asks_for(LOOKS, 0, 0);
	vfs_play_getattr(root);
}

static void ask_flush(unsigned open, bool close)
{
	asks_for(close ? CLOSES : SYNCS, 0, 0);
	vfs_play_settle(files[open], !close);
}

/* Holds a program the file's lock? Then nobody else writes. With pages: is any WRITE or
 * truncation under way? */
static bool locked(bool pages)
{
	for (unsigned i = 0; i < nasks; i++) {
		const struct ask *a = &asks[i];

		if (!a->answered && (a->what == CUTS || (a->what == WRITES && (pages || !a->page))))
			return true;
	}
	return false;
}

static bool is_written(uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < nasks; i++) {
		const struct ask *a = &asks[i];

		if (!a->answered && a->what == WRITES && from < a->offset + a->len && a->offset < to)
			return true;
	}
	return false;
}

/* ---- a second lane, on the same thread ---- */

static struct nfs_lane pair[2];         /* the second one is the other lane */
static bool two;                        /* it is there */

static void stop_other(struct loop_timer *t)
{
	(void)t;
	loop_stop(pair[1].loop);
}

static void other_runs(void)
{
	struct loop_timer t;

	vfs_this_lane = vfs.lanes[1];
	loop_timer_init(&t, stop_other);
	loop_timer_set(pair[1].loop, &t, 0);
	cr_assert_eq(loop_run(pair[1].loop), 0);
	vfs_this_lane = vl;
}

/* The server has taken the connection away, and takes one of the other lane. */
static void connect_other(void)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	vfs_this_lane = vfs.lanes[1];
	cr_assert_eq(nfs_connection_open(&pair[1].target.conns[0][0], &link, &eb), 0, "%s", eb.text);
	nfs_connection_up(&pair[1].target.conns[0][0], link);
	vfs_this_lane = vl;
}

/* ---- any order ---- */

static unsigned up;                     /* 1: the first lane has a connection, 2: the other; 0 */
static uint64_t stream;                 /* where the next sequential write goes */

static void some_write(void)
{
	uint32_t n = roll(3) ? UNIT / (1 + roll(4)) : 1 + roll(roll(3) ? 2 * UNIT : 30 * UNIT);
	uint64_t at = roll(4) ? stream : roll(SIZE);
	bool page = !roll(5);

	if (at + n > SIZE) {
		at = 0;
		n = n > SIZE ? SIZE : n;
	}
	/* A lane without buffers does not read. */
	if (!vfs_play_buffers())
		return;
	if (page ? at + n > now.size || is_written(at, at + n) || locked(false) : locked(true))
		return;
	stream = at + n;
	ask_write(roll(2), at, n, page, roll(8) ? 0 : roll(2) ? O_DSYNC : O_DIRECT);
}

static void read_near_stream(void)
{
	uint64_t at = stream > UNIT ? stream - roll(UNIT) : 0;

	ask_read(at < SIZE - UNIT ? at : SIZE - UNIT, 1 + roll(UNIT));
}

static void some_request(void)
{
	unsigned open = 0;

	for (unsigned i = 0; i < nasks; i++)
		open += !asks[i].answered;
	if (open > 5)
		return;
	switch (roll(12)) {
	case 0:
		forgot = roll(2);
		ask_read(roll(SIZE - UNIT), 1 + roll(UNIT));
		return;
	case 1:
		if (roll(3))
			read_near_stream();
		else
			ask_getattr();
		return;
	case 2:
		ask_flush(roll(2), roll(2));
		return;
	case 3:
		if (!roll(3) && !locked(true))
			ask_truncate(roll(2) ? roll(SIZE) : 0);
		return;
	default:
		some_write();
	}
}

static void some_kill(void)
{
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);

		if (!vfs_play_nr(op) || !op->waits_room || !roll(2))
			continue;
		unknown = true;
		seen.killed += vfs_play_give_up(op);
		return;
	}
}

static bool answer_ping(struct nfs_target *t)
{
	bool answered;

	vfs_this_lane = t == &lane.target ? vl : vfs.lanes[1];
	answered = lane_play_answer_ping(t);
	lane_play_flush();
	vfs_this_lane = vl;
	seen.pings += answered;
	return answered;
}

static void some_progress(void)
{
	struct sent *s = nsent ? &sent[roll(nsent)] : NULL;

	if (answer_ping(&lane.target) || (two && answer_ping(&pair[1].target)))
		return;
	if (!s || !s->c->eng.rr.sends)
		return;
	vfs_this_lane = s->c->lane == &lane ? vl : vfs.lanes[1];
	if (!s->executed)
		execute(s);
	else if (s->c->eng.rr.state == RR_CALL_INFLIGHT)
		lane_play_reply(s->xid);
	vfs_this_lane = vl;
}

/* As a server of version 3, which need not keep its replies: it executes once more what is sent
 * again. */
static void forget_replies(void)
{
	for (unsigned i = 0; i < nsent; i++) {
		if (plain || !sent[i].executed || roll(2))
			continue;
		seen.again++;
		sent[i].executed = false;
		sent[i].status = 0;
	}
}

static void disconnect(void)
{
	vfs_this_lane = vfs.lanes[up - 1];
	forget_replies();
	fake_break();
	vfs_this_lane = vl;
	up = 0;
}

/* Encoded, and taken back before it was sent. */
static void forget_unsent(void)
{
	for (unsigned i = nsent; i-- > 0; )
		if (sent[i].c->eng.rr.state == RR_CALL_IDLE || sent[i].c->eng.rr.xid != sent[i].xid)
			sent[i] = sent[--nsent];
}

static void some_connection(void)
{
	if (up) {
		disconnect();
	} else if (two && roll(2)) {
		pair[1].target.timed_out = !roll(4);
		connect_other();
		up = 2;
	} else {
		lane.target.timed_out = !roll(4);
		lane_play_connect();
		up = 1;
	}
}

static void tick_all(uint64_t ns)
{
	behind_tick(vl, mono_ns() + ns);
	if (!two)
		return;
	vfs_this_lane = vfs.lanes[1];
	behind_tick(vfs_this_lane, mono_ns() + ns);
	vfs_this_lane = vl;
}

static void settle(void)
{
	lane_play_flush();
	lane_play_run(0);
	lane_play_flush();
	if (!two)
		return;
	other_runs();
	lane_play_flush();
	lane_play_run(0);
	lane_play_flush();
	forget_unsent();
}

/* Until nothing is under way. */
static void finish(void)
{
	if (!up)
		some_connection();
	for (unsigned i = 0; !list_empty(&vl->active) || (two && !list_empty(&vfs.lanes[1]->active)); i++) {
		cr_assert_lt(i, 20000, "something is stuck");
		/* What a lane has sent waits for a connection of that lane. */
		if (two && i % 64 == 63) {
			if (up)
				disconnect();
			some_connection();
		}
		tick_all(40000000000ull);
		vfs_nfs_front.buffers_freed(&lane);
		settle();
		some_progress();
	}
}

static void begin(unsigned which, unsigned share)
{
	static const struct nfs_fh fh = { .len = 4, .data = "root" };
	static const struct nfs_attr attr = { .mode = S_IFREG | 0644, .fileid = 100, .nlink = 1 };

	seed = which;
	nasks = nsent = 0;
	tick = promised = resized = 0;
	full = commits_fail = unready = 0;
	plain = forgetful = wcc = false;
	memset(&did, 0, sizeof(did));
	unknown = false;
	stream = 0;
	behind_gather_max = which % 4 ? 131072 : 2000;
	memset(changed, 0, sizeof(changed));
	memset(&now, 0, sizeof(now));
	memset(&disk, 0, sizeof(disk));
	memory = disk;
	log_set_level(LOG_LVL_ERR);
	told = cut = 0;
	forgot = false;
	vfs_play_answered = answered;
	vfs_play_end_known = end_known;
	vfs.inodes.acregmin = vfs.inodes.acregmax = 100;
	vfs_play_start(&version, &fh, &attr, share);
	vfs.cl->wsize = 24 * 4096;       /* more than the first buffer of a WRITE */
	for (unsigned i = 0; i < 2; i++)
		files[i] = vfs_play_file();
	up = 1;
	two = false;
}

static void add_lane(void)
{
	struct errbuf eb = { "" };

	vfs.cl->arena.mags = realloc(vfs.cl->arena.mags, 2 * sizeof(struct magazine *));
	vfs.cl->lanes = pair;
	cr_assert_eq(nfs_lane_init(vfs.cl, 1, &eb), 0, "%s", eb.text);
	memset(vfs.lanes[1], 0, sizeof(*vfs.lanes[1]));
	vfs_lane_init(vfs.lanes[1], &vfs, 1);
	vfs.cl->lanes = &lane;
	vfs.lanes[1]->lane = &pair[1];
	pair[1].front = vfs.lanes[1];
	vfs.nlanes = 2;
	two = true;
}

static void remove_lane(void)
{
	settle();
	cr_assert(list_empty(&vfs.lanes[1]->active));
	vfs_lane_fini(vfs.lanes[1]);
	nfs_lane_fini(&pair[1]);
	memset(pair, 0, sizeof(pair));
	vfs.nlanes = 1;
	two = false;
}

static void end(void)
{
	if (two)
		remove_lane();
	for (enum arena_class cls = 0; cls < ARENA_CLASSES; cls++)
		cr_assert_eq(vfs.behind.taken[cls], 0);
	cr_assert_eq(atomic_load(&vfs.behind.bytes), 0);
	cr_assert_eq(atomic_load(&vfs.behind.nwaiting), 0);
	vfs_play_end();
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(atomic_load(&files[i]->refs), 1);
		free(files[i]);
	}
}

static void any_order(unsigned which, bool kills)
{
	bool restarts = which % 3;

	begin(which, which % 5 ? 60 : 26);
	if (which % 4 == 1)
		add_lane();
	for (unsigned step = 0; step < 250; step++) {
		switch (roll(9)) {
		case 0:
		case 1:
		case 2:
			some_request();
			break;
		case 3:
			if (restarts && !roll(3))
				restart();
			else if (which % 7 == 0 && !roll(3))
				commits_fail = roll(2) ? -EIO : -ENOSPC;
			break;
		case 4:
			if (up ? !roll(5) : !roll(2))
				some_connection();
			break;
		case 5:
			if (!roll(4))
				tick_all(roll(2) ? 2000000000ull : 35000000000ull);
			if (kills && !roll(2))
				some_kill();
			break;
		default:
			some_progress();
		}
		seen.waits += atomic_load(&vfs.behind.nwaiting);
		vfs_nfs_front.buffers_freed(&lane);
		settle();
	}
	finish();
	ask_flush(0, false);
	settle();
	finish();
	for (unsigned i = 0; i < nasks; i++)
		cr_assert(!asks[i].error || (kills && asks[i].error == -EINTR), "%d", asks[i].error);
	cr_assert(unknown || (disk.size == now.size && !memcmp(disk.b, now.b, now.size)),
		  "the file differs in the end: %lu and %lu bytes", (unsigned long)disk.size,
		  (unsigned long)now.size);
	end();
}

Test(vfs_behind, nothing_is_lost_or_reordered, .timeout = 300)
{
	for (unsigned i = 0; i < 800; i++)
		any_order(i, false);
	cr_assert_gt(seen.again, 300, "%u", seen.again);
	cr_assert(seen.restarts > 300 && seen.lost > 100 && seen.promises > 300 && seen.reads > 300 &&
		  seen.waits > 30 && seen.other > 300 && seen.pings > 300,
		  "restarts %u, %u of them with loss, promises %u, reads %u, waits %u, other %u, pings %u",
		  seen.restarts, seen.lost, seen.promises, seen.reads, seen.waits, seen.other, seen.pings);
}

Test(vfs_behind, writers_without_room_can_be_killed, .timeout = 300)
{
	for (unsigned i = 0; i < 300; i++)
		any_order(i, true);
	cr_assert_gt(seen.killed, 20);
}

/* ---- what is sent ---- */

static void begin_plain(unsigned share)
{
	begin(1, share);
	plain = true;
}

static int last_error(void)
{
	cr_assert(asks[nasks - 1].answered);
	return asks[nasks - 1].error;
}

static void write_at(uint64_t offset, uint32_t n)
{
	ask_write(0, offset, n, false, 0);
	settle();
}

static void close_file(void)
{
	ask_flush(0, true);
	settle();
	for (unsigned i = 0; i < 100 && !asks[nasks - 1].answered; i++) {
		some_progress();
		settle();
	}
}

/* All that is held, until the server has it. */
static void send_all(void)
{
	behind_tick(vl, mono_ns() + 2000000000);
	for (settle(); nsent; settle())
		some_progress();
}

Test(vfs_behind, small_writes_leave_in_one_piece)
{
	begin_plain(60);
	for (uint32_t i = 0; i < 24; i++) {
		write_at(i * 4096, 4096);
		cr_assert_eq(last_error(), 0);
		cr_assert(i == 23 || nsent == 0, "sent before it is as long as wsize");
	}
	close_file();
	cr_assert(did.writes == 1 && did.longest == 24 * 4096 && did.commits == 1);
	end();
}

/* Their data is not copied. */
Test(vfs_behind, large_writes_leave_together)
{
	begin_plain(75);
	behind_gather_max = 0;
	for (uint32_t i = 0; i < 4; i++) {
		write_at(i * 5000, 5000);
		cr_assert(last_error() == 0 && nsent == 0);
	}
	close_file();
	cr_assert(did.writes == 1 && did.longest == 20000, "%u WRITEs, %u bytes", did.writes, did.longest);
	cr_assert_eq(stat_get(&lane.stats, STAT_BEHIND_GATHERED), 0);
	cr_assert(!memcmp(disk.b, now.b, SIZE) && disk.size == now.size);
	end();
}

/* Copied into the first one, it would be replaced by what the second one had before. */
Test(vfs_behind, a_write_over_two_others_follows_them)
{
	begin_plain(75);
	write_at(0, 4096);
	write_at(8192, 4096);
	write_at(2048, 8192);
	cr_assert_eq(nsent, 0);
	close_file();
	cr_assert(!memcmp(disk.b, now.b, SIZE) && disk.size == now.size);
	end();
}

/* A block that is written again and again, as a database does: the server has an older version of it, and
 * what follows is one WRITE. */
Test(vfs_behind, what_is_written_again_is_gathered_behind_what_was_sent)
{
	begin_plain(60);
	write_at(0, 4096);
	send_all();
	cr_assert(did.writes == 1 && did.commits == 0);
	for (unsigned i = 0; i < 50; i++) {
		write_at(0, 4096);
		cr_assert_eq(last_error(), 0);
	}
	write_at(2048, 4096);           /* it grows */
	send_all();
	cr_assert(did.writes == 2 && did.longest == 6144, "%u WRITEs, %u bytes", did.writes, did.longest);
	finish();
	close_file();
	cr_assert(disk.size == now.size && !memcmp(disk.b, now.b, now.size));
	end();
}

/* What it grows over is older, and goes first. */
Test(vfs_behind, what_is_gathered_grows_over_what_is_older)
{
	begin_plain(75);
	write_at(4096, 4096);
	write_at(0, 2048);
	write_at(1024, 5000);
	cr_assert(nsent == 0 && atomic_load(&extents_of(root)->count) == 2);
	close_file();
	cr_assert_eq(did.writes, 2);
	cr_assert(!memcmp(disk.b, now.b, SIZE) && disk.size == now.size);
	end();
}

/* CREATE, WRITE, CLOSE: there is no COMMIT. */
Test(vfs_behind, a_small_file_is_one_stable_write)
{
	begin_plain(60);
	write_at(0, 100);
	write_at(100, 2000);
	write_at(50, 10);
	cr_assert_eq(nsent, 0);
	close_file();
	cr_assert(did.writes == 1 && did.stable == 1 && did.commits == 0 && did.longest == 2100);
	close_file();
	cr_assert(did.writes == 1 && did.commits == 0, "nothing is left for the second close()");
	end();
}

/* What is not continued any more does not wait for close(). */
Test(vfs_behind, what_is_old_is_sent)
{
	begin_plain(60);
	write_at(0, 100);
	behind_tick(vl, mono_ns() + 500000000);
	settle();
	cr_assert_eq(nsent, 0);
	behind_tick(vl, mono_ns() + 1100000000);
	settle();
	cr_assert_eq(nsent, 1);
	finish();
	end();
}

Test(vfs_behind, synchronous_writes_wait)
{
	static const uint32_t flags[] = { O_DSYNC, O_SYNC, O_DIRECT };

	begin_plain(60);
	for (unsigned i = 0; i < 3; i++) {
		ask_write(0, 0, 1000, false, flags[i]);
		settle();
		cr_assert_not(asks[nasks - 1].answered);
		finish();
		cr_assert(did.stable == i + 1 && last_error() == 0);
	}
	end();
}

/* Dirty pages of a mapping are written when fsync() says so, even if the file is O_SYNC. */
Test(vfs_behind, pages_do_not_wait)
{
	begin_plain(60);
	ask_write(0, 0, 1000, true, O_SYNC);
	cr_assert_eq(last_error(), 0);
	close_file();
	end();
}

Test(vfs_behind, no_share_of_the_buffers_means_through)
{
	begin_plain(0);
	write_at(0, 100);
	cr_assert_not(asks[nasks - 1].answered);
	finish();
	cr_assert(did.writes == 1 && did.stable == 1);
	end();
}

/* No clock is needed for that: a writer would stand still until its next tick. */
Test(vfs_behind, a_waiting_writer_causes_commit)
{
	begin_plain(26);
	write_at(0, 70000);              /* reaches into a large buffer */
	write_at(24 * 4096, 20000);
	write_at(24 * 4096 + 20100, 100);
	write_at(24 * 4096 + 20300, 100);
	cr_assert(!asks[nasks - 1].answered && did.commits == 0);
	for (unsigned i = 0; i < 50 && !asks[nasks - 1].answered; i++) {
		some_progress();
		settle();
	}
	cr_assert(asks[nasks - 1].answered && did.commits == 1);
	finish();
	end();
}

/* ---- the room grows ---- */

static _Atomic int add_error;

static int64_t play_spare(void *ctx)
{
	(void)ctx;
	return INT64_MAX;
}

static int play_add(void *ctx, unsigned i, const struct arena_range *r, struct errbuf *eb)
{
	(void)ctx, (void)i, (void)r;
	return add_error ? err_set(eb, add_error, "played") : 0;
}

static bool play_remove(void *ctx, unsigned i)
{
	(void)ctx, (void)i;
	return true;
}

static const struct arena_keeper_ops keeper_ops = {
	.spare = play_spare, .add = play_add, .remove = play_remove, .look_ms = 3600000,
};

static bool is_answered(void)
{
	return asks[nasks - 1].answered;
}

static void write_until_one_waits(void)
{
	write_at(0, 70000);
	for (uint32_t i = 0; is_answered(); i++)
		write_at(24 * 4096 + i * 201, 100);
}

/* There is room for some hundred WRITEs. behind_pool_stop() goes before end(). */
static void grow_room(void)
{
	cr_assert_eq(arena_grows(&vfs.cl->arena, 1, &keeper_ops, NULL), 0);
	behind_room_wanted(&vfs.behind, ARENA_MID);
	while (vfs.behind.most[ARENA_MID] == vfs.behind.always[ARENA_MID])
		settle();
}

/* A writer waits for room. When there is more, it goes on, and the server has done nothing. Then
 * the room is as it was, and what is held in the meantime is not lost. */
Test(vfs_behind, a_waiting_writer_gets_more_room)
{
	struct arena *a;

	begin_plain(26);
	a = &vfs.cl->arena;
	write_until_one_waits();
	cr_assert_eq(arena_grows(a, 1, &keeper_ops, NULL), 0);
	behind_room_wanted(&vfs.behind, ARENA_MID);
	while (!is_answered())
		settle();
	cr_assert(did.writes == 0 && did.commits == 0);
	cr_assert_eq(vfs.behind.most[ARENA_MID], vfs.behind.always[ARENA_MID] + 256);
	arena_give_back(a);
	while (vfs.behind.most[ARENA_MID] > vfs.behind.always[ARENA_MID])
		settle();
	finish();
	cr_assert_eq(memcmp(disk.b, now.b, now.size), 0);
	behind_pool_stop(&vfs.behind);
	end();
}

/* There is no memory for more room: the writer waits for COMMIT, as it would without. */
Test(vfs_behind, a_waiting_writer_gets_no_more_room)
{
	begin_plain(26);
	add_error = -ENOMEM;
	cr_assert_eq(arena_grows(&vfs.cl->arena, 1, &keeper_ops, NULL), 0);
	write_until_one_waits();
	while (!stat_get(&vfs.cl->arena.more.stats, STAT_ARENA_REFUSED))
		settle();
	cr_assert_not(is_answered());
	behind_tick(vl, mono_ns());  /* sees that no memory is on its way any more */
	for (unsigned i = 0; i < 50 && !is_answered(); i++) {
		some_progress();
		settle();
	}
	cr_assert(is_answered() && did.commits == 1);
	finish();
	cr_assert_eq(memcmp(disk.b, now.b, now.size), 0);
	behind_pool_stop(&vfs.behind);
	end();
}

/* The mount ends, and nobody looks any more at what is held from now on. So a writer that has
 * waited for room has its answer when its data is on the disk. */
Test(vfs_behind, a_waiting_writer_when_the_mount_ends)
{
	begin_plain(26);
	write_until_one_waits();
	vfs.behind.closed = true;
	for (unsigned i = 0; i < 100 && !is_answered(); i++) {
		behind_tick(vl, mono_ns());
		some_progress();
		settle();
	}
	cr_assert_eq(last_error(), 0);
	cr_assert(disk.size == now.size && !memcmp(disk.b, now.b, now.size));
	end();
}

/* stat() of a program that is killed, while it waits for what was written. */
Test(vfs_behind, killed_while_it_waits)
{
	begin_plain(60);
	wcc = true;
	write_at(0, 100);
	ask_getattr();
	settle();
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);

		if (vfs_play_nr(op))
			cr_assert_not(vfs_play_give_up(op));
	}
	cr_assert_eq(last_error(), -EINTR);
	finish();
	end();
}

/* What the file had before it was cut is no size that it will have. */
Test(vfs_behind, the_size_after_a_truncation)
{
	begin_plain(60);
	write_at(0, 90000);
	close_file();
	ask_truncate(0);
	finish();
	write_at(0, 10);
	write_at(5000, 10);
	/* As if a LOOKUP that was sent before had its reply now, with the server's old size. */
	finish();
	ask_getattr();
	list_for_each(n, &vl->active)
		container_of(n, struct vfs_op, node)->asked_ns = 0;
	for (unsigned i = 0; i < 100 && !asks[nasks - 1].answered; i++) {
		some_progress();
		settle();
	}
	cr_assert(asks[nasks - 1].answered);
	cr_assert_eq(vfs_answer.attr.size, 5010);
	end();
}

/* Nor what it had before others cut it, once the server has said so. */
Test(vfs_behind, the_size_after_others_have_cut_it)
{
	begin_plain(60);
	write_at(0, 90000);
	close_file();
	finish();
	memory.size = disk.size = now.size = 5000;
	ask_getattr();
	finish();
	cr_assert_eq(vfs_answer.attr.size, 5000);
	write_at(0, 10);
	ask_getattr();
	finish();
	/* That WRITE leaves while the server is asked. */
	ask_getattr();
	list_for_each(n, &vl->active)
		container_of(n, struct vfs_op, node)->asked_ns = 0;
	finish();
	cr_assert_eq(vfs_answer.attr.size, 5000);
	end();
}

/* ---- READs ---- */

static const struct ask *newest(void)
{
	return &asks[nasks - 1];
}

/* The front end says how much the server has, and then that becomes more: what is behind it is not
 * zeros. */
static bool leaves_meanwhile(const struct inode *ino, uint64_t *end, uint64_t *there)
{
	bool known = end_known(ino, end, there);

	while (nsent)
		some_progress();
	return known;
}

Test(vfs_behind, a_write_leaves_while_the_end_is_asked_for)
{
	begin_plain(60);
	write_at(0, 24 * 4096);         /* is sent at once */
	write_at(110000, 6000);
	for (unsigned i = 0; i < 2; i++)
		some_progress();
	behind_tick(vl, mono_ns() + 40000000000ull);
	settle();
	vfs_play_end_known = leaves_meanwhile;
	ask_read(109000, 3000);
	vfs_play_end_known = end_known;
	finish();
	cr_assert_eq(newest()->error, 0);
	end();
}

/* ---- locks ---- */

/* By this thread. */
static _Thread_local bool counting;
static _Thread_local unsigned taken, taken_mount;

int __real_pthread_mutex_lock(pthread_mutex_t *mu);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mu);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mu)
{
	taken += counting;
	taken_mount += counting && (mu == &vfs.ahead.mu || mu == &vfs.behind.mu ||
				    mu == &vfs.cl->arena.mu);
	return __real_pthread_mutex_lock(mu);
}

/* How often something was looked for in the tree. */
static unsigned searches;

struct vfs_op *__real_held_next(struct vfs_op *tree, uint64_t from, uint64_t to, const struct vfs_op *after);
struct vfs_op *__wrap_held_next(struct vfs_op *tree, uint64_t from, uint64_t to, const struct vfs_op *after);

struct vfs_op *__wrap_held_next(struct vfs_op *tree, uint64_t from, uint64_t to, const struct vfs_op *after)
{
	searches++;
	return __real_held_next(tree, from, to, after);
}

static unsigned locks_of_write(uint64_t at, uint32_t n)
{
	vfs_play_buffers();
	taken = 0;
	counting = true;
	ask_write(0, at, n, false, 0);
	counting = false;
	return taken;
}

static unsigned locks_of_read(uint64_t at, uint32_t n)
{
	vfs_play_buffers();
	taken = 0;
	counting = true;
	ask_read(at, n);
	counting = false;
	cr_assert(newest()->answered && !newest()->error && nsent == 0);
	return taken;
}

/* And the front end takes one for each, to find the open file. */
Test(vfs_behind, a_hit_takes_one_lock)
{
	begin_plain(60);
	write_at(0, 100);
	cr_assert_eq(locks_of_write(100, 20000), 1, "gathered");
	cr_assert(newest()->answered);
	cr_assert_eq(locks_of_write(50, 10), 1, "the same, in its middle");
	cr_assert_eq(locks_of_read(0, 20100), 1);
	cr_assert_eq(locks_of_read(0, 30000), 2, "the file ends there");
	cr_assert_eq(taken_mount, 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_BEHIND_READS), 2);
	finish();
	end();
}

/* ---- a lane that gets no connection ---- */

/* Until the newest request is answered. */
static void other_serves(void)
{
	for (unsigned i = 0; i < 50 && !asks[nasks - 1].answered; i++) {
		settle();
		some_progress();
	}
	cr_assert_eq(last_error(), 0);
	cr_assert(disk.size == now.size && !memcmp(disk.b, now.b, now.size));
}

/* fsync() does not wait for the lane that has read the WRITEs. */
Test(vfs_behind, another_lane_sends_what_is_held)
{
	begin_plain(60);
	add_lane();
	write_at(0, 100);
	write_at(5000, 100);
	fake_break();
	connect_other();
	ask_flush(0, false);
	other_serves();
	cr_assert(did.writes == 2 && did.commits == 1);
	end();
}

/* It may wait in the first lane's queue already. */
Test(vfs_behind, another_lane_sends_what_was_not_sent)
{
	begin_plain(60);
	add_lane();
	write_at(0, 100);
	fake_break();
	ask_flush(0, false);
	settle();
	cr_assert_eq(did.writes, 0);
	connect_other();
	other_serves();
	cr_assert(did.writes == 1 && did.commits == 0);
	end();
}

static void other_breaks(void)
{
	forget_unsent();
	cr_assert_lt(released, 100, "what has no way is taken back again and again");
	if (released > 1)
		return;
	vfs_this_lane = vfs.lanes[1];
	fake_break();
	vfs_this_lane = vl;
}

/* The other lane loses its connection, too, while calls are taken back for it. They wait in this
 * lane again, and its loop goes on: otherwise it would get no connection. */
Test(vfs_behind, the_other_lane_breaks_as_well)
{
	begin_plain(60);
	add_lane();
	write_at(0, 100);
	write_at(5000, 100);
	fake_break();
	ask_flush(0, false);
	settle();
	connect_other();
	released = 0;
	on_release = other_breaks;
	lane_play_run(0);
	on_release = NULL;
	cr_assert(released == 1 && !nfs_lane_up(&pair[1]) && did.writes == 0);
	lane_play_connect();
	other_serves();
	end();
}

/* COMMIT, too: the WRITEs are on the server, and their lane has lost its connection. */
Test(vfs_behind, another_lane_commits)
{
	begin_plain(60);
	add_lane();
	write_at(0, 24 * 4096);
	write_at(24 * 4096, 100);
	behind_tick(vl, mono_ns() + 2000000000);
	for (settle(); nsent; settle())
		some_progress();
	cr_assert_eq(did.writes, 2);
	fake_break();
	connect_other();
	ask_flush(0, true);
	other_serves();
	cr_assert_eq(did.commits, 1);
	end();
}

/* And one that was sent, when its lane has been without a connection for a while. It may have been
 * executed, and have failed: then the server says so in the reply to it, and never again. */
Test(vfs_behind, another_lane_commits_what_was_to_be_committed)
{
	uint64_t commit_ns;

	begin_plain(60);
	add_lane();
	write_at(0, 24 * 4096);
	write_at(24 * 4096, 100);
	behind_tick(vl, mono_ns() + 2000000000);
	for (settle(); nsent; settle())
		some_progress();
	ask_flush(0, true);
	settle();
	cr_assert(nsent == 1 && sent[0].c->op == NFS_OP_COMMIT);
	fake_break();
	connect_other();
	behind_tick(vl, mono_ns());
	cr_assert_eq(sent[0].c->eng.rr.state, RR_CALL_WAITING, "connections mostly come back at once");
	commit_ns = vfs.behind.commit_ns;
	nsent = 0;
	memory = disk;                  /* it has dropped the data */
	behind_tick(vl, mono_ns() + 6000000000);
	other_serves();
	cr_assert(did.commits == 0 && did.stable == 2);
	cr_assert_lt(vfs.behind.commit_ns, commit_ns + 1000000000, "it says nothing about the server's disk");
	end();
}

/* ---- silly names, whose files nobody can open before they are removed ---- */

static struct silly *new_silly(void)
{
	struct silly *s = calloc(1, sizeof(*s));

	inode_ref(root);
	atomic_fetch_add(&root->nsilly, 1);
	s->dir = root;
	strcpy(s->name, ".nfs1");
	return s;
}

static void lose_lane(enum nfs_op op)
{
	settle();
	cr_assert(nsent == 1 && sent[0].c->op == op);
	fake_break();
	connect_other();
	silly_move_all(vl, mono_ns());
	cr_assert(nsent == 1 && sent[0].c->eng.rr.state == RR_CALL_WAITING);
}

static void is_removed(void)
{
	for (unsigned i = 0; i < 50 && atomic_load(&root->nsilly); i++) {
		settle();
		some_progress();
	}
	cr_assert_eq(atomic_load(&root->nsilly), 0);
	cr_assert_eq(atomic_load(&root->nleaving), 0);
	cr_assert_eq(removed_by_other, 1);
}

/* It may be executed twice, and late: no other file ever has that name. */
Test(vfs_behind, another_lane_removes_a_silly_name)
{
	begin_plain(60);
	add_lane();
	silly_remove(vl, new_silly());
	lose_lane(NFS_OP_REMOVE);
	nsent = 0;
	silly_move_all(vl, mono_ns() + 6000000000);
	is_removed();
	end();
}

/* Nothing was sent: at once, whichever comes first. */
Test(vfs_behind, a_silly_name_goes_to_the_lane_that_is_up)
{
	begin_plain(60);
	add_lane();
	fake_break();
	connect_other();
	silly_remove(vl, new_silly());
	is_removed();
	end();
}

Test(vfs_behind, a_silly_name_goes_to_the_lane_that_comes_up)
{
	begin_plain(60);
	add_lane();
	fake_break();
	silly_remove(vl, new_silly());
	settle();
	connect_other();
	is_removed();
	end();
}

static void closed(struct vfs_op *op)
{
	cr_assert_null(op->rm.silly, "its name has gone already");
	vfs_op_free(op);
}

/* CLOSE waits for its lane, and the name does not wait for CLOSE. */
Test(vfs_behind, a_silly_name_does_not_wait_for_a_lost_lane)
{
	struct vfs_op *op;

	begin_plain(60);
	add_lane();
	op = vfs_op_quiet(vl, root, &files[0]->cred);
	op_remove_begins(op);
	op->rm.silly = new_silly();
	op->call.flags |= NFS_CALL_NOW;
	vfs_start(op, NFS_OP_CLOSE, closed);
	lose_lane(NFS_OP_CLOSE);
	silly_move_all(vl, mono_ns() + 6000000000);
	is_removed();
	up = 2;
	disconnect();
	lane_play_connect();
	for (unsigned i = 0; i < 50 && !list_empty(&vl->active); i++) {
		settle();
		some_progress();
	}
	cr_assert(list_empty(&vl->active));
	end();
}

/* How long COMMITs take decides whether memory is taken in their place. One that has waited for a
 * connection says nothing about the server's disk. */
Test(vfs_behind, a_commit_without_a_connection_is_not_slow)
{
	begin_plain(60);
	write_at(0, 24 * 4096);
	write_at(24 * 4096, 100);
	behind_tick(vl, mono_ns() + 2000000000);
	for (settle(); nsent; settle())
		some_progress();
	fake_break();
	ask_flush(0, true);
	settle();
	cr_assert_eq(nsent, 1);
	sent[0].c->eng.start_ns -= 60000000000ull;      /* for a minute */
	lane_play_connect();
	other_serves();
	cr_assert_eq(did.commits, 1);
	cr_assert_lt(vfs.behind.commit_ns, 60000000000ull);
	end();
}

/* ---- many ---- */

/* All of them of the same bytes, and the server has lost them: what is looked at grows with their number, not
 * with its square. */
Test(vfs_behind, many_of_the_same_bytes_are_lost)
{
	begin_plain(60);
	grow_room();
	for (uint32_t i = 0; i < 100; i++) {
		write_at(0, 100);
		send_all();
	}
	cr_assert(did.writes == 100 && did.commits == 0);
	restart();
	ask_flush(0, false);
	settle();
	some_progress();
	searches = 0;
	some_progress();
	settle();
	cr_assert(searches >= 100 && searches <= 1000, "%u", searches);
	cr_assert_eq(nsent, 1, "they are sent in order");
	finish();
	cr_assert(did.writes == 200 && !memcmp(disk.b, now.b, now.size));
	behind_pool_stop(&vfs.behind);
	end();
}

/* ---- errors ---- */

/* The first call after it says so, once for each open; the front end is told that. */
Test(vfs_behind, an_error_is_reported_once_by_each_open)
{
	begin_plain(60);
	unknown = true;
	full = -ENOSPC;
	write_at(0, 24 * 4096);         /* is sent at once */
	cr_assert_eq(last_error(), 0);
	some_progress();
	some_progress();
	settle();
	full = 0;
	write_at(24 * 4096, 100);
	cr_assert(last_error() == -ENOSPC && vfs_answer.late_error);
	write_at(24 * 4096, 100);
	cr_assert_eq(last_error(), 0);
	close_file();
	cr_assert_eq(last_error(), 0);
	ask_flush(1, false);
	cr_assert_eq(last_error(), -ENOSPC);
	ask_flush(1, false);
	cr_assert_eq(last_error(), 0);
	end();
}

static _Atomic unsigned dropped_said, unsaid_said;

static void count_dropped(enum log_level level, const char *text)
{
	dropped_said += level == LOG_LVL_ERR && strstr(text, "has not stored 98304 bytes") &&
			strstr(text, "from byte 0 on") && strstr(text, strerror(ENOSPC));
	unsaid_said += level == LOG_LVL_ERR && strstr(text, "has not stored the data of 1 more");
}

/* Nobody may have the file open any more: the log has it, but not for each WRITE. */
Test(vfs_behind, what_is_dropped_is_in_the_log)
{
	log_to(count_dropped);
	begin_plain(60);
	unknown = true;
	full = -ENOSPC;
	for (unsigned i = 0; i < 3; i++) {
		write_at(0, 24 * 4096); /* is sent at once; the second one only tells of the first */
		some_progress();
		some_progress();
		settle();
	}
	cr_assert_eq(dropped_said, 1);
	behind_say_unsaid(&vfs);
	behind_say_unsaid(&vfs);
	cr_assert_eq(unsaid_said, 1);
	full = 0;
	last_error();
	log_to(NULL);
	close_file();
	end();
}

Test(vfs_behind, close_reports_an_error)
{
	begin_plain(60);
	unknown = true;
	full = -EDQUOT;
	write_at(0, 100);
	/* A child's close() is not heard. */
	close_file();
	cr_assert_eq(last_error(), -EDQUOT);
	close_file();
	cr_assert_eq(last_error(), -EDQUOT);
	ask_flush(0, false);
	cr_assert_eq(last_error(), -EDQUOT);
	close_file();
	cr_assert_eq(last_error(), 0);
	end();
}

/* The size that the failed WRITE would have made is not told, though others are held. */
Test(vfs_behind, the_size_after_an_error)
{
	begin_plain(60);
	unknown = true;
	write_at(0, 24 * 4096);
	some_progress();
	some_progress();
	settle();
	full = -ENOSPC;
	write_at(24 * 4096, 5000);
	ask_getattr();
	for (unsigned i = 0; i < 100 && !asks[nasks - 1].answered; i++) {
		settle();
		some_progress();
	}
	cr_assert(asks[nasks - 1].answered && behind_since(root, UINT64_MAX));
	cr_assert_eq(vfs_answer.attr.size, 24 * 4096);
	finish();
	end();
}

/* The page is written all the same, and the error is still there for the program. */
Test(vfs_behind, pages_do_not_report_errors)
{
	begin_plain(60);
	unknown = true;
	full = -ENOSPC;
	write_at(0, 24 * 4096);
	some_progress();
	some_progress();
	settle();
	full = 0;
	ask_write(0, 0, 4096, true, 0);
	cr_assert_eq(last_error(), 0);
	write_at(4096, 100);
	cr_assert_eq(last_error(), -ENOSPC);
	finish();
	end();
}

/* The file's state is lost, so each WRITE ends as it is started, and what ends starts the next one. The
 * stack does not grow with their number. */
Test(vfs_behind, many_that_fail_at_once)
{
	begin_plain(60);
	unknown = true;
	grow_room();
	for (uint32_t i = 0; i < 200; i++)
		write_at(i * 300, 100);
	send_all();
	cr_assert_eq(did.writes, 200);
	restart();
	ask_flush(0, false);
	settle();
	some_progress();                /* COMMIT */
	unready = -EIO;
	stack_low = stack_high = 0;
	some_progress();
	settle();
	cr_assert(newest()->answered && newest()->error == -EIO);
	cr_assert_eq(did.writes, 200);
	cr_assert_lt(stack_high - stack_low, 16384, "%lu bytes", (unsigned long)(stack_high - stack_low));
	unready = 0;
	behind_pool_stop(&vfs.behind);
	end();
}

/* COMMIT says that something is wrong, but not with what. The WRITE says that nothing is. */
Test(vfs_behind, a_commit_that_fails_loses_nothing)
{
	begin_plain(60);
	commits_fail = -EIO;
	write_at(0, 24 * 4096);
	write_at(24 * 4096, 100);
	close_file();
	cr_assert_eq(last_error(), 0);
	cr_assert(did.commits == 1 && did.stable == 2);
	cr_assert(!memcmp(disk.b, now.b, now.size) && disk.size == now.size);
	end();
}

/* The reply is lost with the connection, and said that it has failed. To the second one, which is
 * the same call, the server says that all is well. */
Test(vfs_behind, a_commit_that_is_executed_twice_may_have_failed_before)
{
	begin_plain(60);
	write_at(0, 24 * 4096);
	write_at(24 * 4096, 100);
	behind_tick(vl, mono_ns() + 2000000000);
	for (settle(); nsent; settle())
		some_progress();
	ask_flush(0, true);
	settle();
	cr_assert(nsent == 1 && sent[0].c->op == NFS_OP_COMMIT);
	memory = disk;                  /* executed: the server has dropped the data */
	disconnect();
	lane_play_connect();
	up = 1;
	for (unsigned i = 0; i < 100 && !asks[nasks - 1].answered; i++) {
		some_progress();
		settle();
	}
	cr_assert_eq(last_error(), 0);
	cr_assert(!memcmp(disk.b, now.b, now.size) && disk.size == now.size);
	cr_assert(did.commits == 1 && did.stable == 2);
	end();
}

/* Runs until the newest request is answered. */
static void until_answered(void)
{
	for (unsigned i = 0; i < 100 && !newest()->answered; i++) {
		some_progress();
		settle();
	}
	cr_assert(newest()->answered);
}

/* The server says once that it could not write to its disk, to whoever asks first, with FILE_SYNC. It has
 * dropped what somebody else had written (sent[1]), and the COMMIT for that would succeed. sends: that has no
 * reply before the error has come. */
static void another_is_told(bool sends)
{
	unknown = true;                 /* what the one that fails was about */
	cr_assert(nsent == 2 && !sent[0].c->args.io.unstable && sent[1].c->args.io.unstable);
	execute(&sent[1]);
	memory = disk;
	if (!sends)
		lane_play_reply(sent[1].xid);
	settle();
	cr_assert_eq(list_empty(&extents_of(root)->in[HELD_LOOSE]), sends);
	full = -EIO;
	execute(&sent[0]);
	full = 0;
	lane_play_reply(sent[0].xid);
	settle();
	ask_flush(0, false);
	until_answered();
	cr_assert(disk.size == now.size && !memcmp(disk.b + 1000, now.b + 1000, now.size - 1000));
}

/* The first reply brings credits: two WRITEs go at once. */
static void begin_with_credits(void)
{
	begin_plain(60);
	ask_getattr();
	until_answered();
}

/* A direct WRITE. */
static void a_direct_one_is_told(bool sends)
{
	begin_with_credits();
	ask_write(0, 0, 1000, false, O_DIRECT);
	ask_write(0, 1000, 24 * 4096 - 1000, true, 0);
	ask_write(0, 24 * 4096, 100, true, 0);
	settle();
	another_is_told(sends);
	cr_assert(asks[1].answered && asks[1].error == -EIO);
	cr_assert_eq(newest()->error, 0);
	end();
}

Test(vfs_behind, an_error_that_another_is_told_of_what_is_loose)
{
	a_direct_one_is_told(false);
}

Test(vfs_behind, an_error_that_another_is_told_of_what_is_under_way)
{
	a_direct_one_is_told(true);
}

/* It was stored by less than FILE_SYNC, so that COMMIT follows. */
Test(vfs_behind, an_error_that_the_commit_of_another_is_told)
{
	begin_with_credits();
	ask_write(0, 0, 1000, false, O_DIRECT);
	ask_write(0, 1000, 24 * 4096 - 1000, true, 0);
	ask_write(0, 24 * 4096, 100, true, 0);
	settle();
	unknown = true;
	cr_assert_eq(nsent, 2);
	execute(&sent[0]);
	sent[0].stable = false;
	execute(&sent[1]);
	memory = disk;
	lane_play_reply(sent[1].xid);
	lane_play_reply(sent[0].xid);
	settle();
	cr_assert(nsent == 1 && sent[0].c->op == NFS_OP_COMMIT);
	commits_fail = -EIO;
	execute(&sent[0]);
	commits_fail = 0;
	lane_play_reply(sent[0].xid);
	settle();
	cr_assert(asks[1].answered && asks[1].error == -EIO);
	ask_flush(0, false);
	until_answered();
	cr_assert_eq(newest()->error, 0);
	cr_assert(disk.size == now.size && !memcmp(disk.b + 1000, now.b + 1000, now.size - 1000));
	end();
}

/* One that was held, and is all that there is when somebody asks. */
Test(vfs_behind, an_error_that_another_held_one_is_told)
{
	begin_with_credits();
	write_at(0, 1000);
	ask_flush(0, false);
	ask_write(0, 1000, 24 * 4096 - 1000, true, 0);
	settle();
	another_is_told(false);
	end();
}

/* A disk that is full when the server writes to it. */
Test(vfs_behind, a_commit_that_fails_for_good_is_an_error)
{
	begin_plain(60);
	unknown = true;
	commits_fail = -ENOSPC;
	write_at(0, 24 * 4096);
	write_at(24 * 4096, 100);
	some_progress();
	some_progress();
	settle();
	ask_flush(0, false);
	for (unsigned i = 0; i < 100 && !asks[nasks - 1].answered; i++) {
		some_progress();
		settle();
		full = did.commits ? -ENOSPC : 0;
	}
	cr_assert_eq(last_error(), -ENOSPC);
	finish();
	end();
}

Test(vfs_behind, a_server_that_never_stores_is_an_error)
{
	begin_plain(60);
	unknown = forgetful = true;
	write_at(0, 100);
	close_file();
	cr_assert_eq(last_error(), -EIO);
	cr_assert_leq(did.commits, 9);
	end();
}
