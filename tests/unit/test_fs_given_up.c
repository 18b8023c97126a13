/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests whose process is killed, without a kernel and without a protocol (fs_play.h). The
 * test plays a kernel that locks the file for one change at a time, and unlocks it with the
 * answer. It plays a server that executes what it has got at any time before the reply, each
 * call once. Connections are lost and made at any time. One rule: changes are executed in the
 * order in which the kernel asked for them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

#define PIECE 4096u

static struct ask {
	uint64_t unique;
	const struct fs_req *r;         /* NULL: a new one */
	bool change, answered, executed;
	int error;
} asks[512];
static unsigned nasks;
static unsigned last;                   /* the newest ask that was executed */
static struct { unsigned unsent, sent, waiting; } killed;

/* ---- the server ---- */

static struct sent {
	struct nfs_call *c;
	uint32_t xid;
	unsigned ask;
	bool executed;
	uint32_t len;                   /* WRITE: what the reply says */
} sent[64];
static unsigned nsent;

/* The ask that the call belongs to. Request objects are used again. */
static unsigned ask_of(const struct nfs_call *c)
{
	const struct fs_req *r = container_of(c, struct fs_req, op.call);
	unsigned i = nasks;

	while (i-- > 0 && asks[i].r && asks[i].r != r)
		;
	cr_assert_lt(i, nasks, "a call that nobody asked for");
	asks[i].r = r;
	return i;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(nsent, 64);
	sent[nsent++] = (struct sent){ .c = c, .xid = c->eng.rr.xid, .ask = ask_of(c) };
	return xdr_uint32_t(x, &nothing);
}

static uint32_t count_of(const struct nfs_call *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->args.io.ndata; i++)
		n += c->args.io.data[i].len;
	return n;
}

/* half: WRITE writes half of it. */
static void execute(struct sent *s, bool half)
{
	struct ask *a = &asks[s->ask];

	s->executed = true;
	if (s->c->op == NFS_OP_WRITE)
		s->len = half ? (count_of(s->c) + 1) / 2 : count_of(s->c);
	if (!a->change)
		return;
	cr_assert_geq(s->ask, last, "ask %u is executed after ask %u", s->ask, last);
	last = s->ask;
	a->executed = true;
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
	if (c->op == NFS_OP_WRITE) {
		c->res.io.len = s.len;
		c->res.io.stable = true;
	} else if (c->op == NFS_OP_READ) {
		c->res.io.ptr = c->args.io.sink[0].mem;
		c->res.io.len = 0;
		c->res.io.eof = true;
	} else {
		c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .fileid = 100, .nlink = 1 };
		c->res.has_attr = true;
	}
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1,
	.ops = {
		[NFS_OP_READ] = &any_op, [NFS_OP_WRITE] = &any_op, [NFS_OP_SETATTR] = &any_op,
	},
};

/* ---- the kernel ---- */

static void answered(const struct fuse_out_header *h)
{
	for (unsigned i = 0; i < nasks; i++) {
		struct ask *a = &asks[i];

		if (a->unique != h->unique)
			continue;
		cr_assert_not(a->answered);
		a->answered = true;
		a->error = h->error;
		cr_assert(a->error == 0 || a->error == -EINTR, "ask %u: %d", i, a->error);
		cr_assert(!a->change || a->error || a->executed, "ask %u was not executed", i);
	}
}

static void ask(uint32_t opcode, const void *body, size_t len, size_t data)
{
	struct fuse_in_header h = fs_play_header(opcode, FUSE_ROOT_ID, len + data);
	struct ask *a = &asks[nasks++];

	cr_assert_leq(nasks, 512);
	*a = (struct ask){ .unique = h.unique, .change = opcode != FUSE_READ };
	/* The one that is taken next. */
	a->r = list_empty(&fl->vl.idle) ? NULL : container_of(fl->vl.idle.next, struct fs_req, op.node);
	fs_play_request(&h, body, len);
	if (!a->r)
		a->r = container_of(fl->vl.active.prev, struct fs_req, op.node);
	lane_play_flush();
}

static struct fs_file *file;

static void ask_write(unsigned piece, size_t size)
{
	struct fuse_write_in in = {
		.fh = file->handle, .offset = PIECE * piece, .size = (uint32_t)size, .flags = O_RDWR,
	};

	ask(FUSE_WRITE, &in, sizeof(in), size);
}

static void ask_read(void)
{
	struct fuse_read_in in = { .fh = file->handle, .size = 100, .flags = O_RDWR };

	ask(FUSE_READ, &in, sizeof(in), 0);
}

static void ask_truncate(void)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE, .size = 0 };

	ask(FUSE_SETATTR, &in, sizeof(in), 0);
}

static bool locked(void)
{
	for (unsigned i = 0; i < nasks; i++)
		if (asks[i].change && !asks[i].answered)
			return true;
	return false;
}

/* ---- connections ---- */

static unsigned seed;

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static bool up;

static void lose(void)
{
	up = false;
	fake_break();
}

static void connect_again(void)
{
	up = true;
	lane.target.timed_out = !roll(4);
	lane_play_connect();
	lane_play_flush();
}

/* ---- any order ---- */

static void some_request(void)
{
	unsigned open = 0;

	for (unsigned i = 0; i < nasks; i++)
		open += !asks[i].answered;
	if (roll(4) == 0 && open < 4)
		ask_read();
	else if (!locked() && roll(4) == 0)
		ask_truncate();
	else if (!locked())
		ask_write(roll(3), roll(2) ? PIECE : 100);
}

/* The server never gets what was taken back. */
static void forget(const struct nfs_call *c)
{
	for (unsigned i = 0; i < nsent; i++)
		if (sent[i].c == c)
			sent[i--] = sent[--nsent];
}

static void some_kill(void)
{
	list_for_each(n, &fl->vl.active) {
		struct fs_req *r = container_of(n, struct fs_req, op.node);
		bool waits = !r->op.calling;

		if (!r->req || roll(2))
			continue;
		if (fs_give_up(r)) {
			killed.unsent++;
			forget(&r->op.call);
		} else if (waits) {
			killed.waiting++;
		} else {
			killed.sent++;
		}
		return;
	}
}

/* Makes a request that waits look again, without letting its time pass. */
static void look_again(void)
{
	vfs_nfs_front.buffers_freed(&lane);
	list_for_each(n, &fl->vl.active) {
		struct fs_req *r = container_of(n, struct fs_req, op.node);

		if (!r->op.go || r->op.calling || r->op.changes)
			continue;
		loop_timer_clear(&r->op.call.eng.timer);
		r->op.call.eng.timer.fn(&r->op.call.eng.timer);
		break;
	}
	lane_play_flush();
}

static void some_progress(void)
{
	struct sent *s = nsent ? &sent[roll(nsent)] : NULL;

	if (lane_play_answer_ping(&lane.target)) {
		lane_play_flush();
		return;
	}
	if (!s || !s->c->eng.rr.sends)
		return;
	if (!s->executed)
		execute(s, roll(4) == 0);
	else if (s->c->eng.rr.state == RR_CALL_INFLIGHT)
		lane_play_reply(s->xid);
}

static void end(void)
{
	if (!up)
		connect_again();
	while (!list_empty(&fl->vl.active)) {
		look_again();
		some_progress();
	}
	cr_assert_eq(atomic_load(&fs.root->held), 0);
	cr_assert_eq(atomic_load(&believed_of(fs.root)->writing), 0);
}

static void any_order(unsigned which)
{
	struct nfs_fh root = { .len = 4, .data = "root" };
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .fileid = 100, .nlink = 1 };

	seed = which;
	nasks = nsent = last = 0;
	log_set_level(LOG_LVL_ERR);
	fs_play_answered = answered;
	fs_play_start(&version, &root, &attr);
	file = fs_play_file();
	up = true;
	for (unsigned step = 0; step < 300; step++) {
		switch (roll(8)) {
		case 0:
		case 1:
			some_request();
			break;
		case 2:
			if (!roll(4))
				some_kill();
			break;
		case 3:
			if (up ? !roll(4) : !roll(2))
				up ? lose() : connect_again();
			break;
		case 4:
			look_again();
			break;
		default:
			some_progress();
		}
	}
	end();
	fs_play_end();
	free(file);
}

Test(fs_given_up, changes_keep_their_order, .timeout = 120)
{
	for (unsigned i = 0; i < 1000; i++)
		any_order(i);
	cr_assert(killed.unsent > 100 && killed.sent > 100 && killed.waiting > 100,
		  "killed: %u with nothing sent, %u with a call at the server, %u waiting",
		  killed.unsent, killed.sent, killed.waiting);
}
