/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The FUSE side of a lane: its clone of /dev/fuse and its receive buffers.
 *
 *      readv(/dev/fuse)  -->  | head: 80 bytes | MID, 64 KiB | BIG, 1 MiB + 4 KiB |
 *
 * The head is plain memory; 80 bytes are all that comes before a WRITE's data. The
 * others are data buffers, which the server may read and write (base/arena.h). A
 * WRITE takes those that it lies in (fs_lane_take_rx): the server fetches it from
 * there; the lane gets other buffers. Of every other request what is longer than
 * the head is copied behind it before anybody looks at it: so it was what FUSE sent
 * or, if the server meddled with it in that moment, something else, but it stays
 * what it was checked as. All buffers are read into again at once. When there
 * are none the lane does not read until some come back (fs.starved), and other
 * lanes take the requests. After half a second of that the server may be silent:
 * the lane goes on, now and then, into plain memory, so that df, umount and kill
 * do not wait behind data. A WRITE among it is parked in that memory, and copied
 * when there are buffers again.
 *
 * libfuse takes the request apart, from a buffer of ours
 * (fuse_session_process_buf). It does not look at a WRITE's data, so it does
 * not matter that the data is elsewhere. Replies go out through
 * fs_lane_writev() on the clone of the lane that gives them, which is the one
 * that read the request.
 *
 * A lane without a connection does not read either, as long as another one has
 * one (fs.aside): a connection that cannot be made costs the mount that lane
 * and nothing else. When none has one, all read: what can be answered without
 * the server is, and who is killed is let go.
 *
 * The mount ends: reading fails with ENODEV on every clone; the first lane to
 * see it wakes fs_wait().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/undumped.h"
#include "fs/fs_impl.h"

/* Requests read in one go before other events get their turn. */
#define READ_BATCH 16u
/* A request that was interrupted is given up when it is so old: until then the
 * answer is on its way, and a read() that fails with EINTR is a surprise. */
#define INTERRUPT_NS 2000000000ull
/* When fs_late() may answer. */
#define LATE_NS 500000000ull
#define SCAN_MS      250u
/* Parked WRITEs of a lane, and so the MiB that they may take. */
#define PARKED_MAX   64u
#define SPARE_SIZE   (FS_HEAD_BYTES + ARENA_MID_SIZE + ARENA_BIG_SIZE)

_Thread_local struct fs_lane *fs_this_lane;

/* ---- receive buffers ---- */

static bool have_rx(struct fs_lane *fl)
{
	struct magazine *m = &fl->lane->mag;

	if (!fl->rx.mid)
		fl->rx.mid = magazine_get(m, ARENA_MID);
	if (!fl->rx.big)
		fl->rx.big = magazine_get(m, ARENA_BIG);
	return fl->rx.mid && fl->rx.big;
}

/* The first `size` bytes of what was read into the data buffers. */
static void take_buffers(struct fs_lane *fl, struct fs_req *r, size_t size)
{
	struct arena_buf *mid = fl->rx.mid, *big = fl->rx.big;
	size_t first = mid->size < size ? mid->size : size;

	r->buf[0] = mid;
	fl->rx.mid = NULL;
	r->call.args.io.data[0] = (struct rr_iov){ mid->mem, (uint32_t)first };
	r->call.args.io.ndata = 1;
	if (first < size) {
		r->buf[1] = big;
		fl->rx.big = NULL;
		r->call.args.io.data[1] = (struct rr_iov){ big->mem, (uint32_t)(size - first) };
		r->call.args.io.ndata = 2;
	}
}

bool fs_lane_take_rx(struct fs_lane *fl, struct fs_req *r, const void *data, size_t size)
{
	if (fl->spare && (uintptr_t)data - (uintptr_t)fl->spare < SPARE_SIZE) {
		r->spare = fl->spare;
		fl->spare = NULL;
		r->call.args.io.data[0].mem = (void *)(uintptr_t)data;
		list_add_tail(&fl->parked, &r->buf_node);
		fl->nparked++;
		return false;
	}
	take_buffers(fl, r, size);
	return true;
}

void fs_spare_free(struct fs_req *r)
{
	undumped_free(r->spare, SPARE_SIZE);
	r->spare = NULL;
}

/* The parked WRITEs that there are buffers for; false: some are left. */
static bool unpark(struct fs_lane *fl)
{
	while (!list_empty(&fl->parked)) {
		struct fs_req *r = container_of(fl->parked.next, struct fs_req, buf_node);
		const char *data = r->call.args.io.data[0].mem;
		size_t first;

		if (!have_rx(fl))
			return false;
		list_del(&r->buf_node);
		fl->nparked--;
		first = r->size < fl->rx.mid->size ? r->size : fl->rx.mid->size;
		memcpy(fl->rx.mid->mem, data, first);
		memcpy(fl->rx.big->mem, data + first, r->size - first);
		stat_add(&fl->lane->stats, STAT_WRITE_COPIED_BYTES, r->size);
		fs_spare_free(r);
		take_buffers(fl, r, r->size);
		fs_write_start(r);
	}
	return true;
}

/* ---- reading ---- */

static void lane_ended(struct fs_lane *fl)
{
	loop_unwatch(fl->lane->loop, &fl->watch);
	sem_post(&fl->fs->ended);
}

/*
 * The server clears set-id bits when a file is written, for whom it should. The
 * kernel would do it before each write, by a change of the mode that the server
 * refuses to everybody but the owner. It leaves that to us with
 * FUSE_HANDLE_KILLPRIV, which libfuse 3.14 knows and does not hand on: so the
 * flag is put into the answer to INIT here.
 */
static void note_init(struct fs_lane *fl, const struct fuse_in_header *h, size_t n)
{
	const struct fuse_init_in *in = (const void *)(h + 1);

	if (n >= sizeof(*h) + offsetof(struct fuse_init_in, flags) + sizeof(in->flags) &&
	    (in->flags & FUSE_HANDLE_KILLPRIV))
		fl->init = h->unique;
}

static void answer_init(struct fs_lane *fl, const struct iovec *iov, int count)
{
	const struct fuse_out_header *h = iov[0].iov_base;

	if (count < 2 || h->unique != fl->init || h->error ||
	    iov[1].iov_len < offsetof(struct fuse_init_out, flags) + sizeof(uint32_t))
		return;
	((struct fuse_init_out *)iov[1].iov_base)->flags |= FUSE_HANDLE_KILLPRIV;
	fl->init = 0;
}

/* Behind the head at `to`: what of the n bytes lies in the data buffers. */
static void gather(const struct fs_lane *fl, char *to, size_t n)
{
	size_t rest = n - FS_HEAD_BYTES, size = fl->rx.mid->size;
	size_t first = rest < size ? rest : size;

	memcpy(to + FS_HEAD_BYTES, fl->rx.mid->mem, first);
	memcpy(to + FS_HEAD_BYTES + first, fl->rx.big->mem, rest - first);
}

/* The request that is in the head, and was not handed on. */
static void no_memory(struct fs_lane *fl, size_t n)
{
	const struct fuse_in_header *h = (const void *)fl->rx.head;
	struct fuse_out_header out = {
		.len = sizeof(out), .error = -ENOMEM, .unique = h->unique,
	};
	struct iovec iov = { &out, sizeof(out) };

	log_err("out of memory for a request of %zu bytes from FUSE (opcode %u)", n, h->opcode);
	/* Nobody waits for these. */
	if (h->opcode == FUSE_FORGET || h->opcode == FUSE_BATCH_FORGET ||
	    h->opcode == FUSE_INTERRUPT)
		return;
	if (writev(fl->fd, &iov, 1) < 0 && errno != ENOENT)
		log_err("cannot answer FUSE: %s", strerror(errno));
}

/* The n bytes in head and data buffers. */
static void process(struct fs_lane *fl, size_t n)
{
	const struct fuse_in_header *h = (const void *)fl->rx.head;
	struct fuse_buf buf = { .mem = fl->rx.head, .size = n };
	char *whole = NULL;

	if (n > FS_HEAD_BYTES && h->opcode != FUSE_WRITE) {
		if (n > FS_HEAD_ROOM) {
			whole = malloc(n);
			if (!whole) {
				no_memory(fl, n);
				return;
			}
			buf.mem = memcpy(whole, fl->rx.head, FS_HEAD_BYTES);
		}
		gather(fl, buf.mem, n);
	}
	if (h->opcode == FUSE_INIT)
		note_init(fl, h, n);
	fuse_session_process_buf(fl->fs->se, &buf);
	free(whole);
}

/* Reading failed with errno. True: there may be more. */
static bool no_request(struct fs_lane *fl)
{
	if (errno == EINTR || errno == ENOENT)
		return true;            /* the request went away while it was read */
	if (errno == ENODEV)
		lane_ended(fl);
	else if (errno != EAGAIN)
		log_err("cannot read from /dev/fuse: %s", strerror(errno));
	return false;
}

/* After starved or aside has changed. */
static void rewatch(struct fs_lane *fl)
{
	if (fl->watch.fd >= 0)
		loop_rewatch(fl->lane->loop, &fl->watch,
			     fl->starved || fl->aside ? 0 : EPOLLIN | EPOLLEXCLUSIVE);
}

/* One request. false: nothing more to read now. */
static bool read_one(struct fs_lane *fl)
{
	struct iovec iov[3];
	ssize_t n;

	if (!have_rx(fl)) {
		fl->starved = true;
		fl->starved_ns = mono_ns();
		stat_add(&fl->lane->stats, STAT_FUSE_WAITS, 1);
		rewatch(fl);
		return false;
	}
	iov[0] = (struct iovec){ fl->rx.head, FS_HEAD_BYTES };
	iov[1] = (struct iovec){ fl->rx.mid->mem, fl->rx.mid->size };
	iov[2] = (struct iovec){ fl->rx.big->mem, fl->rx.big->size };
	n = readv(fl->fd, iov, 3);
	if (n < 0)
		return no_request(fl);
	stat_add(&fl->lane->stats, STAT_FUSE_REQUESTS, 1);
	process(fl, (size_t)n);
	return true;
}

/* The same on a lane that has starved for long. */
static bool read_spare(struct fs_lane *fl)
{
	struct fuse_buf buf;
	ssize_t n;

	if (!fl->spare && fl->nparked < PARKED_MAX)
		fl->spare = undumped_alloc(SPARE_SIZE);
	if (!fl->spare)
		return false;
	n = read(fl->fd, fl->spare, SPARE_SIZE);
	if (n < 0)
		return no_request(fl);
	stat_add(&fl->lane->stats, STAT_FUSE_REQUESTS, 1);
	buf = (struct fuse_buf){ .mem = fl->spare, .size = (size_t)n };
	fuse_session_process_buf(fl->fs->se, &buf);
	return true;
}

static void on_readable(struct loop_watch *w, uint32_t revents)
{
	struct fs_lane *fl = container_of(w, struct fs_lane, watch);

	(void)revents;
	for (unsigned i = 0; i < READ_BATCH && fl->watch.fd >= 0; i++)
		if (!read_one(fl))
			break;
}

/* nfs_lane's hook: an operation has ended and put its buffers back. */
static void on_buffers_freed(struct nfs_lane *l)
{
	struct fs_lane *fl = l->fs;

	if (!fl || !fs_retry_reads(fl) || !fl->starved || fl->watch.fd < 0 || !unpark(fl))
		return;
	if (have_rx(fl)) {
		fl->starved = false;
		rewatch(fl);
	}
}

ssize_t fs_lane_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	(void)userdata;
	if (fs_this_lane && fs_this_lane->init)
		answer_init(fs_this_lane, iov, count);
	return writev(fs_this_lane ? fs_this_lane->fd : fd, iov, count);
}

/* ---- connections ---- */

static void step_aside(struct fs_lane *fl)
{
	bool up = nfs_lane_up(fl->lane), other = false;

	atomic_store(&fl->up, up);
	for (unsigned i = 0; i < fl->fs->nlanes && !other; i++)
		other = atomic_load(&fl->fs->lanes[i].up);
	if (fl->aside == (!up && other))
		return;
	fl->aside = !fl->aside;
	rewatch(fl);
}

/* ---- interrupts ----
 * FUSE tells us of any signal. Programs do not expect that a file's read() or
 * write() fails because a child has ended or a window was resized; and a WRITE
 * that was given up goes on, and may overtake what the program writes there next.
 * So only who is about to die is let go. */

static bool is_let_go(const struct fs_lane *fl, const struct fs_req *r)
{
	pid_t pid = fuse_req_ctx(r->req)->pid;

	if (fuse_req_interrupted(r->req))
		return fs_dies(pid, true);
	/* A lane that does not read is not told. */
	return fl->starved && fs_dies(pid, false);
}

static void on_scan(struct loop_timer *t)
{
	struct fs_lane *fl = container_of(t, struct fs_lane, scan);
	uint64_t now = mono_ns();

	loop_timer_set(fl->lane->loop, t, SCAN_MS);
	step_aside(fl);
	for (unsigned i = 0; fl->starved && !fl->aside && now - fl->starved_ns >= LATE_NS &&
	     i < PARKED_MAX && fl->watch.fd >= 0; i++)
		if (!read_spare(fl))
			break;
	list_for_each(n, &fl->active) {
		struct fs_req *r = container_of(n, struct fs_req, node);

		/* In order of age. */
		if (now - r->start_ns < LATE_NS)
			break;
		fs_late(r);
		if (now - r->start_ns >= INTERRUPT_NS && r->req && is_let_go(fl, r))
			fs_reply_err(r, EINTR);
	}
}

/* ---- life ---- */

int fs_lane_init(struct fs *fs, unsigned index, int fd)
{
	struct fs_lane *fl = &fs->lanes[index];

	fl->fs = fs;
	fl->lane = &fs->cl->lanes[index];
	fl->fd = fd;
	fl->rx.head = malloc(FS_HEAD_ROOM);
	list_init(&fl->idle);
	list_init(&fl->active);
	list_init(&fl->want_buf);
	list_init(&fl->parked);
	loop_timer_init(&fl->scan, on_scan);
	fl->watch = (struct loop_watch){
		.fd = -1, .events = EPOLLIN | EPOLLEXCLUSIVE, .fn = on_readable,
	};
	return fl->rx.head ? 0 : -ENOMEM;
}

void fs_lane_attach(struct nfs_lane *l, void *arg)
{
	struct fs *fs = arg;
	struct fs_lane *fl = &fs->lanes[l->index];
	int rc;

	fs_this_lane = fl;
	l->fs = fl;
	l->buffers_freed = on_buffers_freed;
	loop_timer_set(l->loop, &fl->scan, SCAN_MS);
	fl->watch.fd = fl->fd;
	rc = loop_watch(l->loop, &fl->watch);
	if (rc) {
		fl->watch.fd = -1;
		log_err("lane %u cannot serve the mount: %s", l->index, strerror(-rc));
	}
	step_aside(fl);
}

static void free_waiting(struct list *list)
{
	list_for_each_safe(n, tmp, list) {
		struct fs_req *r = container_of(n, struct fs_req, buf_node);

		list_del(&r->buf_node);
		fs_req_free(r);
	}
}

void fs_lane_detach(struct nfs_lane *l, void *arg)
{
	struct fs *fs = arg;
	struct fs_lane *fl = &fs->lanes[l->index];

	loop_unwatch(l->loop, &fl->watch);
	loop_timer_clear(&fl->scan);
	/* Nobody is there any more to be answered; this gives libfuse's part
	 * of the requests back. What the calls do is still completed. */
	list_for_each(n, &fl->active)
		fs_reply_err(container_of(n, struct fs_req, node), ENOTCONN);
	free_waiting(&fl->want_buf);
	free_waiting(&fl->parked);
	l->buffers_freed = NULL;
}

static void free_reqs(struct list *l)
{
	for (struct list *n; (n = list_pop(l)); ) {
		struct fs_req *r = container_of(n, struct fs_req, node);

		free(r);
	}
}

void fs_lane_fini(struct fs_lane *fl)
{
	if (!fl->fs)
		return;
	free_reqs(&fl->idle);
	list_for_each(n, &fl->active) {
		struct fs_req *r = container_of(n, struct fs_req, node);

		free(r->text);
		fs_spare_free(r);
		free(r->silly);
	}
	free_reqs(&fl->active);
	undumped_free(fl->spare, SPARE_SIZE);
	free(fl->rx.head);
	if (fl->fd >= 0)
		close(fl->fd);
}
