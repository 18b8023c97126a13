/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read-ahead without FUSE and without a protocol (vfs_play.h). One rule: a read never
 * returns data that is older than what close-to-open and this mount's own changes allow.
 *
 * The played server numbers all changes of the one file, whoever makes them. Each block of
 * the file has the number of the change that wrote it, and the file's attributes have the
 * number of the newest change. So each block that a READ returns says from when to when it
 * was in the file: from its own number to that of the block's next change. An operation
 * notes, when it is made, how new each block has to be at least:
 *
 *   what an own change has written, that was answered before
 *   what an own change has written, that an answer before has shown
 *   the file as it was when the server executed an OPEN, GETATTR or SETATTR that was
 *   answered before
 *
 * The server executes what it has got at any time before the reply, and replies in any
 * order. Another client changes the file at any time.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "buffers.h"
#include "vfs/ahead_impl.h"
#include "vfs_play.h"

#define BLOCK   4096u
#define BLOCKS  64u
#define CHANGES 4096u
#define OPENS   3u

static unsigned seed, current;
static struct { unsigned reads, hits, fresh, old; } seen;

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

/* ---- the file at the server ---- */

static uint32_t now;                            /* the newest change */
static uint32_t block[BLOCKS];                  /* the change that wrote it */
static uint32_t nblocks;                        /* the size */
/* The change that replaced what this one has written to that block; 0: none. */
static uint32_t next[CHANGES][BLOCKS];
/* The size after that change. */
static uint32_t size_at[CHANGES];
static bool own[CHANGES];

static void begin_change(bool ours)
{
	cr_assert_lt(++now, CHANGES);
	own[now] = ours;
	memset(next[now], 0, sizeof(next[now]));
}

static void set_block(uint32_t b)
{
	next[block[b]][b] = now;
	block[b] = now;
}

/* Also what lies between the old end and the new one. */
static void change(uint32_t first, uint32_t n, bool ours)
{
	begin_change(ours);
	for (uint32_t b = nblocks < first ? nblocks : first; b < first + n; b++)
		set_block(b);
	if (first + n > nblocks)
		nblocks = first + n;
	size_at[now] = nblocks;
}

static void truncate_to(uint32_t n, bool ours)
{
	begin_change(ours);
	for (uint32_t b = nblocks < n ? nblocks : n; b < BLOCKS; b++)
		set_block(b);
	nblocks = n;
	size_at[now] = n;
}

static struct nfs_attr attr_now(void)
{
	return (struct nfs_attr){
		.mode = S_IFREG | 0644, .nlink = 1, .fileid = 100, .size = nblocks * BLOCK,
		.change = now, .mtime.tv_sec = now, .ctime.tv_sec = now,
	};
}

/* ---- what was asked for ---- */

enum what { READS = 1, WRITES, CUTS, LOOKS, OPENS_IT };

static struct ask {
	uint64_t nr;                    /* 0: answered */
	enum what what;
	uint32_t first, n;              /* READS, WRITES: blocks */
	uint32_t at_least[BLOCKS];      /* READ: no block may have been replaced by then */
	uint32_t size_since;            /* READ: an end of the file was there later */
	bool killed;
} asks[16];
static uint32_t known[BLOCKS], known_size;      /* what the next READ has to respect */

static unsigned waiting(enum what what)
{
	unsigned n = 0;

	for (unsigned i = 0; i < 16; i++)
		n += asks[i].nr && asks[i].what == what;
	return n;
}

static void knows(uint32_t first, uint32_t n, uint32_t change_nr)
{
	for (uint32_t b = first; b < first + n && b < BLOCKS; b++)
		if (known[b] < change_nr)
			known[b] = change_nr;
}

/* Was the file no longer than that after this change, or after a later one? An answer may be
 * made of several READs. */
static bool was_so_short(uint32_t n, uint32_t from)
{
	for (uint32_t i = from; i <= now; i++)
		if (size_at[i] <= n)
			return true;
	return false;
}

static void check_block(const struct ask *a, uint32_t b, const uint32_t *w)
{
	uint32_t v = w[0], gone;

	cr_assert(v <= now && w[1] == b && w[BLOCK / 4 - 1] == v, "block %u of another place", b);
	gone = next[v][b];
	cr_assert(!gone || gone > a->at_least[b],
		  "run %u: block %u is of change %u, replaced by %u, and has to be as new as %u",
		  current, b, v, gone, a->at_least[b]);
	if (own[v])
		knows(b, 1, v);
	seen.fresh += v == block[b];
	seen.old += v != block[b];
}

static void check_read(const struct ask *a)
{
	uint32_t n = (uint32_t)(vfs_answer.len / BLOCK);

	cr_assert_eq(vfs_answer.status, 0);
	cr_assert(vfs_answer.len % BLOCK == 0 && n <= a->n);
	for (uint32_t i = 0; i < n; i++)
		check_block(a, a->first + i, (const uint32_t *)(const void *)(vfs_answer.data + i * BLOCK));
	if (n < a->n)
		cr_assert(was_so_short(a->first + n, a->size_since), "run %u: an end at %u", current,
			  a->first + n);
	seen.reads++;
}

/* ---- the server ---- */

static struct sent {
	struct nfs_call *c;
	uint32_t xid;
	uint64_t nr;                    /* of the operation; 0: read ahead */
	uint32_t chunk[2 + 4 * RR_SINK_IOV];    /* the Write chunk as it was offered last, or zeros */
	bool executed, fails, eof;
	uint32_t at;                    /* `now` after it was executed */
	uint32_t n, what[BLOCKS];       /* READ: blocks */
	struct nfs_attr attr;
} sent[64];
static unsigned nsent, nreads;          /* nreads: READs ever */
static bool calm;                       /* each READ brings what it asks for */

static struct ask *ask_of(uint64_t nr)
{
	for (unsigned i = 0; i < 16; i++)
		if (nr && asks[i].nr == nr)
			return &asks[i];
	return NULL;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(nsent, 64);
	nreads += c->op == NFS_OP_READ;
	sent[nsent++] = (struct sent){
		.c = c, .xid = c->eng.rr.xid, .nr = vfs_play_nr(container_of(c, struct vfs_op, call)),
	};
	return xdr_uint32_t(x, &nothing);
}

/* Takes what was sent. */
static void take_calls(void)
{
	uint32_t w[5 + 2 + 4 * RR_SINK_IOV];

	for (unsigned i = 0; i < fake.nsends; i++) {
		memcpy(w, fake.sends[i].bytes, sizeof(w));
		for (unsigned k = 0; k < nsent; k++)
			if (sent[k].xid == ntohl(w[0]))
				memcpy(sent[k].chunk, w + 5, w[4] || !w[5] ? 0 : sizeof(sent[k].chunk));
	}
	lane_play_flush();
}

static void reply(const struct sent *s)
{
	uint32_t w[36] = { htonl(s->xid), htonl(1), htonl(32) }, n = 5;
	uint32_t words = s->chunk[0] ? 2 + 4 * ntohl(s->chunk[1]) : 0;

	memcpy(w + n, s->chunk, 4 * words);
	n += words;
	n += 2;
	w[n] = htonl(s->xid);
	w[n + 1] = htonl(1);
	fake_deliver(w, 4 * (n + 6));
	take_calls();
}

static void execute_read(struct sent *s)
{
	uint32_t first = (uint32_t)(s->c->args.io.offset / BLOCK), n = s->c->args.io.count / BLOCK;

	for (s->n = 0; s->n < n && first + s->n < nblocks; s->n++)
		s->what[s->n] = block[first + s->n];
	/* Nobody hears of an error of read-ahead. */
	s->eof = s->n < n;
	if (calm)
		return;
	s->fails = !s->nr && roll(16) == 0;
	if (s->n > 1 && roll(16) == 0) {
		s->n--;
		s->eof = false;
	}
}

static void execute(struct sent *s)
{
	const struct nfs_args *a = &s->c->args;

	s->executed = true;
	if (s->c->op == NFS_OP_READ)
		execute_read(s);
	else if (s->c->op == NFS_OP_WRITE)
		change((uint32_t)(a->io.offset / BLOCK), a->io.data[0].len / BLOCK, true);
	else if (s->c->op == NFS_OP_SETATTR)
		truncate_to((uint32_t)(a->sattr.size / BLOCK), true);
	s->attr = attr_now();
	s->at = now;
}

static void put_data(struct nfs_call *c, const struct sent *s)
{
	uint32_t first = (uint32_t)(c->args.io.offset / BLOCK), at = 0;
	const struct rr_iov *sink = c->args.io.sink;

	for (uint32_t i = 0; i < s->n; i++, at += BLOCK) {
		uint32_t *w;

		if (at == sink->len) {
			sink++;
			at = 0;
		}
		w = (uint32_t *)(void *)((char *)sink->mem + at);
		w[0] = w[BLOCK / 4 - 1] = s->what[i];
		w[1] = first + i;
	}
	c->res.io.ptr = c->args.io.sink[0].mem;
	c->res.io.len = s->n * BLOCK;
	c->res.io.eof = s->eof;
}

/* Of the call that is being answered; 0: there was none, and nothing new was learned. */
static uint32_t executed_at;

static int decode(struct nfs_call *c, XDR *x)
{
	unsigned i = 0;
	struct sent s;

	(void)x;
	while (sent[i].c != c || sent[i].xid != c->eng.rr.xid)
		cr_assert_lt(++i, nsent);
	s = sent[i];
	sent[i] = sent[--nsent];
	executed_at = s.at;
	if (s.fails)
		return -EIO;
	if (c->op == NFS_OP_READ) {
		put_data(c, &s);
	} else if (c->op == NFS_OP_WRITE) {
		c->res.io.len = c->args.io.data[0].len;
		c->res.io.stable = true;
	} else {
		c->res.attr = s.attr;
		c->res.has_attr = true;
	}
	if (c->op == NFS_OP_OPEN)
		c->open = calloc(1, 8);
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1,
	.ops = {
		[NFS_OP_READ] = &any_op, [NFS_OP_WRITE] = &any_op, [NFS_OP_SETATTR] = &any_op,
		[NFS_OP_OPEN] = &any_op, [NFS_OP_GETATTR] = &any_op,
	},
};

/* ---- programs ---- */

static struct file *files[OPENS];       /* NULL: not open */
static uint32_t cursor[OPENS];          /* where its reader is */
static bool gone;                       /* the front end is */

static void opened(void)
{
	for (unsigned i = 0; i < OPENS; i++) {
		if (files[i])
			continue;
		files[i] = vfs_answer.file;
		cursor[i] = 0;
		return;
	}
	cr_assert_fail("too many opens");
}

/* What was executed at executed_at is known now. */
static void has_seen(const struct ask *a)
{
	if (a->what == READS) {
		check_read(a);
	} else if (a->what == WRITES) {
		knows(a->first, a->n, executed_at);
		if (known_size < executed_at)
			known_size = executed_at;
	} else if (executed_at) {
		knows(0, BLOCKS, executed_at);
		known_size = executed_at;
	}
	if (a->what == OPENS_IT)
		opened();
}

static void answered(uint64_t nr)
{
	struct ask *a = ask_of(nr);

	cr_assert_not_null(a);
	a->nr = 0;
	if (gone)
		cr_assert_eq(vfs_answer.status, -ENOTCONN);
	else if (a->killed)
		cr_assert_eq(vfs_answer.status, -EINTR);
	else if (vfs_answer.status == 0 || a->what == READS)
		has_seen(a);
}

/* The next operation is that one. */
static void ask(enum what what, uint32_t first, uint32_t n)
{
	struct ask *a = asks;

	while (a->nr)
		a++;
	cr_assert_lt(a - asks, 16);
	*a = (struct ask){
		.nr = vfs_play_next, .what = what, .first = first, .n = n, .size_since = known_size,
	};
	memcpy(a->at_least, known, sizeof(known));
	executed_at = 0;
}

static void ask_read(unsigned which, uint32_t first, uint32_t n, bool direct)
{
	ask(READS, first, n);
	vfs_play_read(files[which], (uint64_t)first * BLOCK, n * BLOCK, !direct);
	take_calls();
}

static void ask_open(void)
{
	ask(OPENS_IT, 0, 0);
	vfs_play_open(root, 0, false);
	take_calls();
}

/* Most readers read on; some jump. */
static void some_read(void)
{
	unsigned which = roll(OPENS);
	uint32_t n = 1 + roll(2);

	if (!files[which] || waiting(READS) >= 4)
		return;
	if (roll(16) == 0 || cursor[which] + n > nblocks)
		cursor[which] = roll(BLOCKS - 4);
	ask_read(which, cursor[which], n, roll(16) == 0);
	cursor[which] += which == 2 ? 5 : n;
}

/* One at a time: programs lock the file. */
static void some_change(void)
{
	uint32_t first = roll(BLOCKS - 4), n = 1 + roll(3);
	unsigned which = roll(OPENS);

	if (!files[which] || waiting(WRITES) || waiting(CUTS))
		return;
	if (roll(4)) {
		/* A lane without buffers does not read. */
		if (!vfs_play_buffers())
			return;
		ask(WRITES, first, n);
		vfs_play_write(files[which], (uint64_t)first * BLOCK, n * BLOCK, true, false);
	} else {
		ask(CUTS, 0, 0);
		vfs_play_truncate(root, (uint64_t)(32 + roll(BLOCKS - 32)) * BLOCK);
	}
	take_calls();
}

static void some_look(void)
{
	unsigned n = waiting(OPENS_IT), which = roll(OPENS);

	for (unsigned i = 0; i < OPENS; i++)
		n += files[i] != NULL;
	if (roll(3) == 0 && waiting(LOOKS) < 2) {
		ask(LOOKS, 0, 0);
		vfs_play_getattr(root);
	} else if (n < OPENS) {
		ask_open();
	} else if (files[which] && !waiting(READS) && !waiting(WRITES)) {
		vfs_play_close(files[which]);
		files[which] = NULL;
	}
	take_calls();
}

static void some_kill(void)
{
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);
		struct ask *a = ask_of(vfs_play_nr(op));

		if (!a || a->what != READS || (op->calling && !op->call.eng.rr.sends))
			continue;
		a->killed = true;
		vfs_play_give_up(op);
		return;
	}
}

static void other_client(void)
{
	if (now + 64 > CHANGES)
		return;
	if (roll(4))
		change(roll(BLOCKS - 4), 1 + roll(3), false);
	else
		truncate_to(32 + roll(BLOCKS - 32), false);
}

static bool up;

static void some_connection(void)
{
	lane.target.timed_out = !up && !roll(4);
	if (up)
		fake_break();
	else
		lane_play_connect();
	up = !up;
	atomic_store(&lane.target.up, up);
	take_calls();
}

static void memory(void)
{
	if (roll(4) == 0)
		ahead_give_way(vl, ARENA_SMALL, ARENA_BIG);
	ahead_sweep(vl);
	/* A second has passed. */
	atomic_store(&vfs.ahead.pause_ns, 0);
	vfs_play_catch_up();
	vfs_nfs_front.buffers_freed(&lane);
	take_calls();
}

static void some_progress(void)
{
	struct sent *s = nsent ? &sent[roll(nsent)] : NULL;

	if (lane_play_answer_ping(&lane.target)) {
		take_calls();
		return;
	}
	if (!s || !s->c->eng.rr.sends)
		return;
	if (!s->executed)
		execute(s);
	else if (s->c->eng.rr.state == RR_CALL_INFLIGHT)
		reply(s);
	take_calls();
}

/* ---- life ---- */

static bool scarce;                     /* there is a buffer for one piece */

static void start(unsigned acregmin)
{
	struct nfs_fh fh = { .len = 4, .data = "file" };
	struct nfs_attr attr;

	now = nsent = known_size = 0;
	memset(known, 0, sizeof(known));
	memset(next[0], 0, sizeof(next[0]));
	memset(block, 0, sizeof(block));
	memset(asks, 0, sizeof(asks));
	memset(files, 0, sizeof(files));
	gone = false;
	size_at[0] = nblocks = BLOCKS;
	attr = attr_now();
	log_set_level(LOG_LVL_ERR);
	vfs_play_answered = answered;
	vfs.inodes.acregmin = vfs.inodes.acregmax = acregmin;
	vfs_play_start(&version, &fh, &attr, 0);
	ahead_init(&vfs, 16 * BLOCK);
	vfs.ahead.most = scarce ? ARENA_MID_SIZE : 2 * ARENA_BIG_SIZE;
	vfs.ahead.piece = vfs.ahead.part = 6 * BLOCK;
	up = true;
	atomic_store(&lane.target.up, up);
}

/* Executes and answers all that is there. */
static void finish(void)
{
	if (!up)
		some_connection();
	for (unsigned i = 0; !list_empty(&vl->active); i++) {
		cr_assert_lt(i, 100000, "an operation has no end");
		vfs_play_catch_up();
		some_progress();
		vfs_nfs_front.buffers_freed(&lane);
		lane_play_run(0);
		take_calls();
	}
}

static void stop(void)
{
	finish();
	for (unsigned i = 0; i < OPENS; i++)
		if (files[i])
			vfs_play_close(files[i]);
	finish();
	cr_assert(list_empty(&vfs.ahead.files) && vfs.ahead.used == 0, "no piece is left");
	cr_assert_eq(atomic_load(&root->refs), 1);
	cr_assert_eq(atomic_load(&root->data_busy), 0);
	cr_assert(vfs_play_buffers());
	cr_assert(buffers_free(&lane.mag, ARENA_MID) == 6 && buffers_free(&lane.mag, ARENA_BIG) == 3,
		  "every buffer is back");
	vfs_play_end();
}

static void open_one(void)
{
	ask_open();
	finish();
}

/* The front end is slow, and at last gone. */
static void any_order(unsigned which)
{
	seed = current = which;
	start(1000);
	vfs_play_slow = which % 5 ? 0 : 3;
	if (!scarce && which % 2)
		vfs.ahead.part = 3 * BLOCK;
	open_one();
	for (unsigned step = 0; step < 600; step++) {
		switch (roll(32)) {
		case 0:
			some_look();
			break;
		case 1:
			if (!roll(2))
				some_change();
			break;
		case 2:
			if (!roll(2))
				other_client();
			break;
		case 3:
			if (up ? !roll(16) : !roll(2))
				some_connection();
			break;
		case 4:
			memory();
			break;
		case 5:
			if (!roll(4))
				some_kill();
			break;
		case 6 ... 14:
			some_read();
			break;
		default:
			some_progress();
		}
		/* Messages come late. */
		if (!roll(3))
			lane_play_run(0);
		take_calls();
	}
	if (which % 7 == 0) {
		gone = true;
		vfs_play_gone();
	}
	stop();
}

Test(vfs_ahead, never_older_than_allowed, .timeout = 300)
{
	for (unsigned i = 1; i <= 3000; i++) {
		scarce = i % 3 == 0;
		any_order(i);
	}
	/* The test means something. */
	seen.hits = (unsigned)stat_get(&lane.stats, STAT_AHEAD_HITS);
	cr_assert_gt(seen.hits, seen.reads / 20, "%u of %u reads", seen.hits, seen.reads);
	cr_assert_gt(seen.old, 100);
	cr_assert(vfs_play_seen.left > 1000 && vfs_play_seen.waited > 1000, "%u left, %u waited",
		  vfs_play_seen.left, vfs_play_seen.waited);
}

/* ---- one thing at a time ---- */

static unsigned hits(void)
{
	return (unsigned)stat_get(&lane.stats, STAT_AHEAD_HITS);
}

static void begin(unsigned acregmin)
{
	calm = true;
	memset(&lane.stats, 0, sizeof(lane.stats));
	start(acregmin);
	open_one();
	nreads = 0;
}

static void read_now(uint32_t first, uint32_t n)
{
	ask_read(0, first, n, false);
	finish();
}

/* A request is answered from memory that the READ ahead was placed in; and two of them from the
 * same. */
Test(vfs_ahead, is_not_copied)
{
	const char *at;

	begin(1000);
	read_now(0, 1);
	cr_assert_eq(nreads, 1, "nothing is known of the reader yet");
	read_now(1, 1);
	cr_assert(nreads == 4 && hits() == 0, "%u READs: what is ahead is fetched in two pieces", nreads);
	read_now(2, 1);
	at = vfs_answer.at;
	read_now(3, 1);
	cr_assert_eq((const char *)vfs_answer.at, at + BLOCK);
	cr_assert_eq(hits(), 2);
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
	read_now(5, 2);
	cr_assert(hits() == 3 && vfs_answer.len == 2 * BLOCK, "from two pieces");
	stop();
}

/* One READ into two buffers. A request that wants the end of one and the beginning of the other
 * gets both. */
Test(vfs_ahead, a_piece_in_two_buffers)
{
	begin(1000);
	vfs.ahead.piece = 8 * BLOCK;
	vfs.ahead.part = 3 * BLOCK;
	read_now(0, 1);
	ask_read(0, 1, 1, false);
	cr_assert_eq(sent[nsent - 1].c->args.io.count, 6 * BLOCK);
	cr_assert_eq(sent[nsent - 1].c->args.io.sink[1].len, 3 * BLOCK);
	cr_assert_eq(sent[nsent - 1].c->args.io.sink[2].len, 0);
	finish();
	read_now(2, 2);
	read_now(4, 2);
	cr_assert(hits() == 2 && vfs_answer.len == 2 * BLOCK);
	read_now(6, 2);
	cr_assert(hits() == 3 && nreads >= 3);
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
	stop();
}

Test(vfs_ahead, waits_for_what_is_on_its_way)
{
	unsigned before;

	begin(1000);
	read_now(0, 1);
	ask_read(0, 1, 1, false);
	before = nreads;
	cr_assert_eq(nsent, 3);
	ask_read(0, 2, 1, false);
	ask_read(0, 3, 1, false);
	cr_assert_eq(waiting(READS), 3);
	cr_assert_eq(nreads, before, "no second READ of the same");
	finish();
	cr_assert_eq(hits(), 2);
	cr_assert_eq(stat_get(&lane.stats, STAT_AHEAD_WAITS), 2);
	stop();
}

/* The buffer for a READ of its own would be the piece's. */
Test(vfs_ahead, one_buffer)
{
	scarce = true;
	begin(1000);
	for (unsigned i = 0; i < 12; i++)
		read_now(i, 1);
	cr_assert_leq(nreads, 5, "%u READs", nreads);
	cr_assert_gt(hits(), 8);
	stop();
}

/* Who waits for a READ that fails is told what becomes of his own. */
Test(vfs_ahead, errors_are_not_reported)
{
	begin(1000);
	read_now(0, 1);
	ask_read(0, 1, 1, false);
	ask_read(0, 2, 1, false);
	while (nsent) {
		struct sent *s = &sent[0];

		execute(s);
		s->fails = !s->nr;
		reply(s);
		lane_play_run(0);
		take_calls();
	}
	cr_assert_eq(waiting(READS), 0);
	cr_assert_eq(hits(), 0);
	stop();
}

Test(vfs_ahead, random_reads_fetch_nothing)
{
	static const uint32_t at[] = { 40, 3, 17, 60, 9, 31, 50, 22, 5, 44, 13, 56 };

	begin(1000);
	for (unsigned i = 0; i < 12; i++)
		read_now(at[i], 1);
	cr_assert_eq(nreads, 12);
	stop();
}

static void read_direct(uint32_t first)
{
	ask_read(0, first, 1, true);
	finish();
}

Test(vfs_ahead, direct_reads_get_nothing)
{
	begin(1000);
	read_now(0, 1);
	read_now(1, 1);
	for (unsigned i = 2; i < 6; i++)
		read_direct(i);
	cr_assert_eq(hits(), 0);
	stop();
}

/* Forwards and backwards. */
Test(vfs_ahead, strides)
{
	begin(1000);
	for (unsigned i = 0; i < 4; i++)
		read_now(i * 10, 3);
	cr_assert_eq(hits(), 1, "the fourth one");
	stop();
	begin(1000);
	for (unsigned i = 0; i < 8; i++)
		read_now(60 - i * 7, 3);
	cr_assert_gt(hits(), 3);
	stop();
}

Test(vfs_ahead, what_is_old_is_not_given_out)
{
	const struct timespec second = { 1, 50000000 };

	begin(1);
	read_now(0, 1);
	read_now(1, 1);
	read_now(2, 1);
	cr_assert_eq(hits(), 1);
	nanosleep(&second, NULL);
	read_now(3, 1);
	cr_assert_eq(hits(), 1);
	stop();
	begin(0);
	for (unsigned i = 0; i < 8; i++)
		read_now(i, 1);
	cr_assert_eq(nreads, 8, "noac");
	stop();
}

/* A lane needs a buffer: what nobody waits for is free at once, and nothing is fetched for a
 * second. */
Test(vfs_ahead, gives_way)
{
	begin(1000);
	read_now(0, 1);
	read_now(1, 1);
	cr_assert_gt(vfs.ahead.used, 0);
	ahead_give_way(vl, ARENA_SMALL, ARENA_SMALL);
	cr_assert_gt(vfs.ahead.used, 0, "another class");
	ahead_give_way(vl, ARENA_SMALL, ARENA_BIG);
	cr_assert_eq(vfs.ahead.used, 0);
	nreads = 0;
	read_now(2, 1);
	read_now(3, 1);
	cr_assert_eq(nreads, 2);
	cr_assert_gt(stat_get(&lane.stats, STAT_AHEAD_WASTED), 0);
	stop();
}

static struct ahead_piece *first_piece(void)
{
	return container_of(extents_of(root)->pieces.next, struct ahead_piece, node);
}

/* The lane that reads ahead has no connection, and the reader's has one. */
Test(vfs_ahead, nobody_waits_for_a_dead_connection)
{
	static struct nfs_lane dead;
	static struct vfs_lane other = { .lane = &dead };
	struct vfs_op *op;

	begin(1000);
	read_now(0, 1);
	ask_read(0, 1, 1, false);
	ask_read(0, 2, 1, false);
	op = container_of(vl->active.prev, struct vfs_op, node);
	ahead_leave(vl);
	lane_play_run(0);
	cr_assert(!list_empty(&extents_of(root)->waits) && !op->calling);
	first_piece()->vl = &other;
	ahead_leave(vl);
	lane_play_run(0);
	cr_assert(list_empty(&extents_of(root)->waits) && op->calling);
	/* Nor does who comes later. */
	ask_read(0, 2, 1, false);
	op = container_of(vl->active.prev, struct vfs_op, node);
	cr_assert(list_empty(&extents_of(root)->waits) && op->calling);
	finish();
	cr_assert_eq(hits(), 0);
	stop();
}

/* A piece of a slow link, which a slow program reads: what it has not had yet stays. */
Test(vfs_ahead, a_late_piece_is_kept)
{
	begin(1000);
	read_now(0, 1);
	ask_read(0, 1, 1, false);
	first_piece()->sent_ns -= 6000000000ull;
	finish();
	ahead_sweep(vl);
	nreads = 0;
	read_now(2, 1);
	cr_assert(hits() == 1 && nreads == 0, "%u READs", nreads);
	first_piece()->used_ns -= 6000000000ull;
	ahead_sweep(vl);
	nreads = 0;
	read_now(3, 1);
	cr_assert_eq(hits(), 1, "nobody has wanted it for long");
	stop();
}

/* ---- several opens of one file ---- */

/* What was fetched for one is given to the others, and freed when that one is closed. */
Test(vfs_ahead, opens_share_what_was_read_ahead)
{
	begin(1000);
	open_one();
	read_now(0, 1);
	read_now(1, 1);
	nreads = 0;
	ask_read(1, 2, 1, false);
	finish();
	cr_assert(hits() == 1 && nreads == 0, "%u READs", nreads);
	cr_assert_gt(vfs.ahead.used, 0);
	vfs_play_close(files[0]);
	files[0] = NULL;
	finish();
	cr_assert(vfs.ahead.used == 0 && list_empty(&vfs.ahead.files));
	stop();
}

/* What one open has fetched and another one has not reached yet stays. */
Test(vfs_ahead, another_open_ends_nothing)
{
	begin(1000);
	open_one();
	read_now(0, 1);
	read_now(1, 1);
	vfs_play_close(files[1]);
	files[1] = NULL;
	finish();
	cr_assert(vfs.ahead.used > 0 && !list_empty(&vfs.ahead.files));
	nreads = 0;
	read_now(2, 1);
	cr_assert(hits() == 1 && nreads == 0);
	stop();
}

/* Opens of one file come and go on several threads, while others look at all files: after the last
 * close() the file is in no list, and its memory may go. */
enum { ROUNDS = 20000 };
static struct nfs_lane thread_lane[3];
static struct vfs_lane thread_vl[3];

static void fetched(struct extents *x, struct file *f, struct vfs_lane *l)
{
	struct ahead_piece *p = calloc(1, sizeof(*p));

	*p = (struct ahead_piece){ .file = f, .vl = l, .len = 1, .refs = 1, .sent_ns = mono_ns(),
				   .nr = atomic_load(&x->ino->data_nr) };
	pthread_mutex_lock(&x->mu);
	list_add_tail(&x->pieces, &p->node);
	atomic_fetch_add(&x->npieces, 1);
	pthread_mutex_unlock(&x->mu);
	ahead_relist(&vfs.ahead, x);
}

static void *open_and_close(void *arg)
{
	struct vfs_lane *l = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct file f = { .ino = root };

		if (i % 3)
			fetched(extents_of(root), &f, l);
		ahead_close(l, &f);
	}
	return NULL;
}

static void *looks_at_all(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		ahead_leave(arg);
		if (i % 2)
			ahead_sweep(arg);
		else
			ahead_give_way(arg, ARENA_SMALL, ARENA_BIG);
	}
	return NULL;
}

Test(vfs_ahead, opens_come_and_go_on_threads, .timeout = 300)
{
	pthread_t t[3];

	begin(1000);
	cr_assert_not_null(extents_make(root));
	for (unsigned i = 0; i < 3; i++) {
		thread_vl[i] = (struct vfs_lane){ .vfs = &vfs, .lane = &thread_lane[i] };
		cr_assert_eq(pthread_create(&t[i], NULL, i ? open_and_close : looks_at_all, &thread_vl[i]), 0);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	cr_assert(list_empty(&vfs.ahead.files) && list_empty(&extents_of(root)->pieces));
	cr_assert(!extents_of(root)->listed && atomic_load(&extents_of(root)->npieces) == 0);
	stop();
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

/* And the front end takes one, to find the open file. */
Test(vfs_ahead, a_hit_takes_one_lock)
{
	begin(1000);
	read_now(0, 1);
	read_now(1, 1);
	nreads = 0;
	counting = true;
	ask_read(0, 2, 1, false);
	counting = false;
	cr_assert(hits() == 1 && nreads == 0);
	cr_assert(taken == 1 && taken_mount == 0, "%u locks, %u of the mount", taken, taken_mount);
	/* The last one of a piece, which is freed. */
	counting = true;
	for (unsigned i = 3; i < 6; i++)
		ask_read(0, i, 1, false);
	counting = false;
	cr_assert_eq(hits(), 4);
	cr_assert_eq(taken_mount, 0);
	stop();
}

/* ---- the window ---- */

/* A reader of `rate` bytes a second, and READs of `ns`; for five seconds. */
static struct ahead_window window_of(uint64_t rate, uint64_t ns)
{
	struct ahead_window w = { 0 };
	uint64_t t = 1, request = 128 << 10;

	for (; t < 5000000000ull; t += request * 1000000000 / rate) {
		ahead_window_read(&w, request, 64 << 20, 1 << 20, t);
		ahead_window_latency(&w, ns, t);
	}
	return w;
}

Test(vfs_ahead, window_is_twice_the_product)
{
	struct ahead_window w = window_of(1 << 30, 5000000);

	cr_assert(w.size > 10 << 20 && w.size < 13 << 20, "%lu", w.size);
	w = window_of(100 << 20, 200000);
	cr_assert(w.size >= 1 << 20 && w.size < 2 << 20, "%lu", w.size);
	w = window_of(300 << 10, 200000);
	cr_assert(w.piece <= 300 << 10 && w.size <= 512 << 10, "a slow reader: %lu of %lu", w.size,
		  w.piece);
	w = window_of(1ull << 34, 1000000000);
	cr_assert_eq(w.size, 64 << 20, "no more than is allowed");
}
