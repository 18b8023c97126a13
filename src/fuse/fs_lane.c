/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The FUSE side of a lane: its requests, from their arrival (dev.h) to the answer.
 *
 * Answers go through fs_lane_writev() to the device of the lane that answers. That is the
 * device that brought the request.
 *
 * A lane without a connection steps aside as long as another lane has one. When no lane has
 * one, all lanes take requests. They answer what can be answered without the server, and
 * the requests of processes that are killed. A lane hears at once when that changes
 * (vfs_front.lanes_changed).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/probe.h"
#include "base/undumped.h"
#include "fuse/fs_impl.h"
#include "fuse/statx.h"

/* An interrupted request is given up at this age, or when the server has been silent for so long. Until
 * then its answer is probably on its way, and programs do not expect read() to fail with EINTR. Of programs
 * that are killed while each waits for a lock of the kernel's that the one before has, each gets its turn
 * only then: so a younger request may not make them wait anew. */
#define INTERRUPT_NS 2000000000ull
/* The same of a process that cannot be seen, when no lane has had a connection for so long. */
#define UNSEEN_NS 300000000000ull
/* silent_answer() may answer a request of this age. */
#define LATE_NS 500000000ull
/* Why fs_lane_writev() looks at an answer: FUSE_INIT has none yet; somebody listens. */
#define ODD_INIT   1u
#define ODD_LOGGED 2u

/* ---- requests and answers ---- */

/*
 * Three things that libfuse 3.14 does not do are put into the answer to FUSE_INIT here.
 *
 * It derives max_pages from max_write. But the kernel does not read more than that at once,
 * either, and rsize may be larger.
 *
 * The server clears set-id bits when a file is written. The kernel would clear them itself
 * before each write, by a change of the mode, which the server refuses to everybody but the
 * owner. With FUSE_HANDLE_KILLPRIV the kernel leaves that to us. libfuse knows the flag, but
 * does not send it. (A kernel that knows max_pages knows this flag.) With its second version
 * the kernel does not look for security.capability at each write: see xattr.c.
 *
 * Without FUSE_PARALLEL_DIROPS the kernel does one lookup or listing of a directory at a time, and no signal
 * ends who waits for its turn. libfuse takes that wish (session.c), and does not send it.
 */
static void note_init(struct fs_lane *fl, const struct fuse_in_header *h, size_t n)
{
	const struct fuse_init_in *in = (const void *)(h + 1);

	if (n < sizeof(*h) + offsetof(struct fuse_init_in, flags) + sizeof(in->flags) ||
	    !(in->flags & FUSE_HANDLE_KILLPRIV))
		return;
	fl->init = h->unique;
	atomic_fetch_or(&fl->odd_answers, ODD_INIT);
	fl->init_flags = FUSE_HANDLE_KILLPRIV | (in->flags & FUSE_PARALLEL_DIROPS);
	fl->fs->xattrs = (atomic_load(&fl->fs->vfs.cl->has) & NFS_HAS_ATTRIBUTES) &&
			 (in->flags & FUSE_HANDLE_KILLPRIV_V2);
	if (fl->fs->xattrs)
		fl->init_flags |= FUSE_HANDLE_KILLPRIV_V2;
}

static uint16_t max_pages(const struct nfs_client *cl)
{
	uint32_t most = fs_request_most(cl->rsize > cl->wsize ? cl->rsize : cl->wsize);

	return (uint16_t)((most - 1) / (uint32_t)getpagesize() + 1);
}

/* Not in line, or they make each answer dearer. */
static void answer_init(struct fs_lane *fl, const struct iovec *iov, int count)
{
	const struct fuse_out_header *h = iov[0].iov_base;
	struct fuse_init_out *out;

	if (count < 2 || h->unique != fl->init || h->error ||
	    iov[1].iov_len < offsetof(struct fuse_init_out, flags) + sizeof(uint32_t))
		return;
	out = iov[1].iov_base;
	out->flags |= fl->init_flags;
	if ((out->flags & FUSE_MAX_PAGES) &&
	    iov[1].iov_len >= offsetof(struct fuse_init_out, max_pages) + sizeof(out->max_pages))
		out->max_pages = max_pages(fl->fs->vfs.cl);
	fl->init = 0;
	atomic_fetch_and(&fl->odd_answers, ~ODD_INIT);
}

static void __attribute__((noinline))
odd_answer(struct fs_lane *fl, const struct iovec *iov, int count)
{
	if (fl->init)
		answer_init(fl, iov, count);
	if (atomic_load(&fl->odd_answers) & ODD_LOGGED)
		oplog_ends(fl, iov[0].iov_base, loop_now(fl->vl.lane->loop));
}

/* libfuse knows no FUSE_STATX before 3.18. It begins like FUSE_GETATTR. Without birth times libfuse
 * says ENOSYS, and the kernel does not ask again. */
static void note_statx(struct fs_lane *fl, struct fuse_in_header *h)
{
	fl->statx = fl->fs->vfs.cl->server.version->ops[NFS_OP_BIRTH];
	if (fl->statx)
		h->opcode = FUSE_GETATTR;
}

/* One look tells requests that need no more from those that have one of these bits. */
#define ODD_REQUESTS (1ull << FUSE_INIT | 1ull << FS_STATX | OPSTAT_SILENT)

static void __attribute__((noinline)) odd_request(struct fs_lane *fl, const struct fuse_buf *buf)
{
	struct fuse_in_header *h = buf->mem;

	opstat_begins_further(&fl->ops, h, loop_turn(fl->vl.lane->loop));
	if (atomic_load(&fl->odd_answers) & ODD_LOGGED)
		oplog_begins(fl, buf, loop_now(fl->vl.lane->loop));
	if (h->opcode == FUSE_INIT)
		note_init(fl, h, buf->size);
	if (h->opcode == FS_STATX)
		note_statx(fl, h);
	fuse_session_process_buf(fl->fs->se, buf);
	fl->statx = false;
}

void fs_lane_request(struct fs_lane *fl, const struct fuse_buf *buf)
{
	const struct fuse_in_header *h = buf->mem;

	PROBE4(request_begin, h->unique, h->opcode, h->nodeid, h->pid);
	stat_add(&fl->vl.lane->stats, STAT_FUSE_REQUESTS, 1);
	if (atomic_load_explicit(&fl->odd_requests, memory_order_relaxed) >> (h->opcode % OPSTAT_KINDS) & 1) {
		odd_request(fl, buf);
		return;
	}
	opstat_begins(&fl->ops, h, loop_turn(fl->vl.lane->loop));
	fuse_session_process_buf(fl->fs->se, buf);
}

void fs_lane_listened(struct fs_lane *fl, bool yes)
{
	if (yes)
		atomic_fetch_or(&fl->odd_answers, ODD_LOGGED);
	else
		atomic_fetch_and(&fl->odd_answers, ~ODD_LOGGED);
	atomic_store(&fl->odd_requests, yes ? UINT64_MAX : ODD_REQUESTS);
}

void fs_lane_buffers_freed(struct vfs_lane *vl)
{
	struct fs_dev *d = fs_lane_of(vl)->dev;

	d->ops->buffers_freed(d);
}

ssize_t fs_lane_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	struct fs_lane *fl = vfs_this_lane ? fs_this_lane() : NULL;
	const struct fuse_out_header *h = iov[0].iov_base;

	if (!fl)
		return writev(fd, iov, count);
	PROBE2(request_end, h->unique, h->error);
	if (atomic_load_explicit(&fl->odd_answers, memory_order_relaxed))
		odd_answer(fl, iov, count);
	opstat_ends(&fl->ops, h, loop_turn(fl->vl.lane->loop));
	return fl->dev->ops->answer(fl->dev, iov, count);
}

/* ---- connections ---- */

void fs_lanes_look(struct fs_lane *fl)
{
	for (unsigned i = 0; i < fl->fs->vfs.nlanes; i++) {
		struct fs_lane *other = &fl->fs->lanes[i];

		if (other != fl && !atomic_exchange(&other->looking, true))
			loop_post(other->vl.lane->loop, &other->look);
	}
}

void fs_lane_step_aside(struct vfs_lane *vl)
{
	struct fs_lane *fl = fs_lane_of(vl);
	bool aside = vfs_other_lane(vl);

	if (aside || nfs_lane_up(vl->lane))
		fl->gone_ns = 0;
	else if (!fl->gone_ns)
		fl->gone_ns = mono_ns();
	fl->dev->ops->step_aside(fl->dev, aside);
}

static void on_look(struct loop_msg *m)
{
	struct fs_lane *fl = container_of(m, struct fs_lane, look);

	atomic_store(&fl->looking, false);
	if (fl->dev->ops->look)
		fl->dev->ops->look(fl->dev);
}

/* ---- interrupts ----
 * FUSE interrupts a request for any signal. Programs do not expect read() or write() of a
 * file to fail because a child has ended or a window was resized. And a WRITE that was given
 * up goes on, and may overtake what the program writes there next. So only requests of
 * processes that are about to die are given up; and those that wait for a lock (locks.c).
 *
 * Of a process that we cannot see (cred.c) it is not known whether the signal ends it, and the
 * kernel interrupts a request only once: after a signal that does not, it says nothing of one
 * that does. As long as the server is there, its answer ends the wait of both. When it has
 * been gone for UNSEEN_NS, what was interrupted is given up. */

static bool is_silent(const struct fs *fs, uint64_t now)
{
	uint64_t replied = nfs_server_replied_ns(&fs->vfs.cl->server);

	return now > replied && now - replied >= INTERRUPT_NS;
}

static bool is_let_go(const struct fs_lane *fl, const struct fs_req *r, uint64_t now)
{
	bool interrupted = fuse_req_interrupted(r->req);

	/* A lane that does not read gets no FUSE_INTERRUPT. */
	if (!interrupted && r->gives_up != FS_GIVES_UP_UNTOLD && fl->dev->state != FS_DEV_STARVED && fl->dev->state != FS_DEV_PARKING)
		return false;
	switch (fs_fate(fuse_req_ctx(r->req)->pid)) {
	case FS_DIES:
		return true;
	/* The kernel closes its files. It is told of no error any more, and nobody can end it: the kernel throws
	 * SIGKILL away. So it does not wait for a server that says nothing; what it has written stays here, and is
	 * sent when the server is back. */
	case FS_EXITS:
		return is_silent(fl->fs, now);
	case FS_UNSEEN:
		return interrupted && fl->gone_ns && now - fl->gone_ns >= UNSEEN_NS;
	default:
		return false;
	}
}

bool fs_give_up(struct fs_req *r)
{
	if (vfs_give_up(&r->op))
		return true;
	fs_write_fails(r);
	fs_reply_err(r, EINTR);
	return false;
}

/* true: one has been given up, the list is another one, and is to be looked at again. */
static bool look_at_old(struct fs_lane *fl, uint64_t now)
{
	uint64_t give_up_ns = is_silent(fl->fs, now) ? 0 : INTERRUPT_NS;

	list_for_each_entry(struct fs_req, r, &fl->vl.active, op.node) {
		uint64_t age = now - r->op.start_ns;

		/* The oldest come first. */
		if (age < LATE_NS && age < give_up_ns)
			break;
		if (age >= LATE_NS)
			silent_answer(r);
		if (age >= give_up_ns && r->req && is_let_go(fl, r, now) && fs_give_up(r))
			return true;
	}
	return false;
}

/* Looks for old and interrupted requests. A process that is let go may come with the next one at once. */
bool fs_lane_tick(struct vfs_lane *vl, uint64_t now_ns)
{
	struct fs_lane *fl = fs_lane_of(vl);
	bool any = false;

	fl->dev->ops->tick(fl->dev, now_ns);
	fs_solo_say_rest(fl->fs, now_ns);
	/* tick() may have read requests. */
	while (look_at_old(fl, mono_ns()))
		any = true;
	return any;
}

void fs_spare_free(struct fs_req *r)
{
	undumped_free(r->spare, r->spare_size);
	r->spare = NULL;
}

/* ---- life ---- */

void fs_lane_init(struct fs *fs, unsigned index)
{
	struct fs_lane *fl = &fs->lanes[index];

	fl->fs = fs;
	fs->vfs.lanes[index] = &fl->vl;
	vfs_lane_init(&fl->vl, &fs->vfs, index);
	opstat_init(&fl->ops);
	atomic_store(&fl->odd_requests, ODD_REQUESTS);
	fl->look.fn = on_look;
	fl->signal_msg.fn = fs_locks_on_signal;
}

void fs_lane_attach(struct nfs_lane *l, void *arg)
{
	struct fs *fs = arg;
	struct fs_lane *fl = &fs->lanes[l->index];
	int rc;

	rc = fl->dev->ops->attach(fl->dev);
	if (rc)
		log_err("lane %u cannot serve the mount: %s", l->index, strerror(-rc));
	/* fs_lane_step_aside() needs the device. */
	vfs_lane_attach(&fl->vl);
}

void fs_lane_detach(struct nfs_lane *l, void *arg)
{
	struct fs *fs = arg;
	struct fs_lane *fl = &fs->lanes[l->index];

	fl->dev->ops->detach(fl->dev);
	/* Nobody waits for an answer any more. This makes libfuse free its part of the requests.
	 * The calls are still completed. */
	list_for_each(n, &fl->vl.active)
		fs_reply_err(container_of(n, struct fs_req, op.node), ENOTCONN);
	vfs_lane_detach(&fl->vl);
}

void fs_lane_fini(struct fs_lane *fl)
{
	if (!fl->fs)
		return;
	vfs_lane_fini(&fl->vl);
	if (fl->dev)
		fl->dev->ops->close(fl->dev);
	free(atomic_load(&fl->log));
}
