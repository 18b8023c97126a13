/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The provider that reads requests from a clone of /dev/fuse, and writes answers to it.
 *
 *      readv(/dev/fuse)  -->  | head: 80 bytes | MID, 64 KiB | BIG, 1 MiB + 4 KiB |
 *
 * The head is plain memory; its 80 bytes are what comes before a WRITE's data. The other
 * two are data buffers, which the server may read and write (base/arena.h). A WRITE takes
 * the ones that its data lies in, and the lane gets other buffers. Any other request that
 * is longer than the head is copied into plain memory before anybody looks at it. A server
 * might have changed it before that, but it cannot change after it was checked.
 *
 * libfuse parses the request from memory of ours (fuse_session_process_buf). It does not
 * look at a WRITE's data, so that data may lie elsewhere.
 *
 * PARKING: the request is read into one piece of plain memory. A WRITE keeps that memory,
 * and its data is copied when there are buffers again. If nobody has kept the memory, the
 * next request is read into it.
 *
 * WAKE-UPS. Of the lanes that wait, a request wakes one (EPOLLEXCLUSIVE). A lane that was
 * woken, or may have been, and does not read tells the others to look (fs_lanes_look()).
 * Otherwise the request would lie there until the next one comes, and its process might be the
 * only one.
 *
 * When the mount ends, reading fails with ENODEV on every clone. Each lane that sees it
 * wakes fs_wait().
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/sys.h"
#include "base/undumped.h"
#include "fuse/fs_impl.h"

/* The most requests that are read before other events are handled. */
#define READ_BATCH 16u
/* After so many turns in which there was one request at a time, a second read in one turn
 * is only tried in each ALONE_TRY-th one, and not then if that request is the only one under
 * way, because its process waits. */
#define ALONE_TURNS 4u
#define ALONE_TRY   16u
/* STARVED becomes PARKING after this time. */
#define LATE_NS    500000000ull
/* The most parked WRITEs of a lane; each takes a little more than a MiB. */
#define PARKED_MAX 64u
#define SPARE_SIZE (FS_HEAD_BYTES + ARENA_MID_SIZE + ARENA_BIG_SIZE)

struct clone {
	struct fs_dev dev;
	int fd;
	struct loop_watch watch;
	unsigned alone;                 /* turns in a row with one request */
	/* The next request is read into these: */
	char *head;                     /* FS_HEAD_ROOM of plain memory */
	struct arena_buf *mid, *big;    /* what comes after FS_HEAD_BYTES */
	/* The same while PARKING: */
	char *spare;                    /* SPARE_SIZE of plain memory, or NULL */
	struct list parked;             /* WRITEs in such memory (buf_node) */
	unsigned nparked;
};

static struct clone *clone_of(struct fs_dev *d)
{
	return container_of(d, struct clone, dev);
}

static struct nfs_lane *lane_of(const struct clone *k)
{
	return k->dev.fl->vl.lane;
}

/* ---- states ---- */

static void clone_enter(struct clone *k, enum fs_dev_state state)
{
	if (state == FS_DEV_STARVED)
		k->dev.since_ns = mono_ns();
	k->dev.state = state;
	loop_rewatch(lane_of(k)->loop, &k->watch,
		     state == FS_DEV_READING ? EPOLLIN | EPOLLEXCLUSIVE : 0);
}

static void close_it(struct clone *k)
{
	loop_unwatch(lane_of(k)->loop, &k->watch);
	k->dev.state = FS_DEV_CLOSED;
}

/* ---- buffers ---- */

static bool have_buffers(struct clone *k)
{
	return op_data_buffers(&k->dev.fl->vl, &k->mid, &k->big);
}

static bool clone_take(struct fs_dev *d, struct fs_req *r, const void *data)
{
	struct clone *k = clone_of(d);

	if (k->spare && (uintptr_t)data - (uintptr_t)k->spare < SPARE_SIZE) {
		r->spare = k->spare;
		r->spare_size = SPARE_SIZE;
		k->spare = NULL;
		r->op.call.args.io.data[0].mem = (void *)(uintptr_t)data;
		list_add_tail(&k->parked, &r->op.wait_node);
		k->nparked++;
		return false;
	}
	op_data_take(&r->op, &k->mid, &k->big);
	return true;
}

/* Starts the parked WRITEs that there are buffers for. false: some are left. */
static bool clone_unpark(struct clone *k)
{
	while (!list_empty(&k->parked)) {
		struct fs_req *r = container_of(k->parked.next, struct fs_req, op.wait_node);

		if (!have_buffers(k))
			return false;
		list_del(&r->op.wait_node);
		k->nparked--;
		op_data_copy(&r->op, &k->mid, &k->big, r->op.call.args.io.data[0].mem);
		stat_add(&lane_of(k)->stats, STAT_WRITE_COPIED_BYTES, r->op.data.size);
		fs_spare_free(r);
		vfs_write(&r->op);
	}
	return true;
}

static void clone_buffers_freed(struct fs_dev *d)
{
	struct clone *k = clone_of(d);

	if (d->state == FS_DEV_CLOSED || d->state == FS_DEV_READING || !clone_unpark(k))
		return;
	if (d->state != FS_DEV_ASIDE && have_buffers(k))
		clone_enter(k, FS_DEV_READING);
}

/* ---- reading ---- */

/* Copies the part of a request of n bytes that lies in the data buffers to `to`, behind the
 * head there. */
static void clone_gather(const struct clone *k, char *to, size_t n)
{
	size_t rest = n - FS_HEAD_BYTES, size = k->mid->size;
	size_t first = rest < size ? rest : size;

	memcpy(to + FS_HEAD_BYTES, k->mid->mem, first);
	memcpy(to + FS_HEAD_BYTES + first, k->big->mem, rest - first);
}

/* Answers the request in the head, which cannot be handed on. */
static void no_memory(const struct clone *k, size_t n)
{
	const struct fuse_in_header *h = (const void *)k->head;
	struct fuse_out_header out = {
		.len = sizeof(out), .error = -ENOMEM, .unique = h->unique,
	};
	struct iovec iov = { &out, sizeof(out) };

	log_err("out of memory for a request of %zu bytes from FUSE (opcode %u)", n, h->opcode);
	/* Nobody waits for these. */
	if (h->opcode == FUSE_FORGET || h->opcode == FUSE_BATCH_FORGET ||
	    h->opcode == FUSE_INTERRUPT)
		return;
	/* ENOENT: it was interrupted, and nobody waits. */
	if (writev(k->fd, &iov, 1) < 0 && errno != ENOENT)
		log_err("cannot answer FUSE: %s", strerror(errno));
}

/* Hands on the request of n bytes in head and data buffers. */
static void hand_on(struct clone *k, size_t n)
{
	const struct fuse_in_header *h = (const void *)k->head;
	struct fuse_buf buf = { .mem = k->head, .size = n };
	char *whole = NULL;

	if (n > FS_HEAD_BYTES && h->opcode != FUSE_WRITE) {
		if (n > FS_HEAD_ROOM) {
			whole = malloc(n);
			if (!whole) {
				no_memory(k, n);
				return;
			}
			buf.mem = memcpy(whole, k->head, FS_HEAD_BYTES);
		}
		clone_gather(k, buf.mem, n);
	}
	fs_lane_request(k->dev.fl, &buf);
	free(whole);
}

/* Reading failed with errno. true: there may be more requests. */
static bool no_request(struct clone *k)
{
	if (errno == EINTR || errno == ENOENT)
		return true;            /* the request went away while it was read */
	if (errno == ENODEV) {
		close_it(k);
		sem_post(&k->dev.fl->fs->ended);
	} else if (errno == EAGAIN) {
		stat_add(&lane_of(k)->stats, STAT_FUSE_EMPTY_READS, 1);
	} else {
		log_err("cannot read from /dev/fuse: %s", strerror(errno));
	}
	return false;
}

/* Reads one request. false: there is nothing more to read now. */
static bool read_one(struct clone *k)
{
	struct iovec iov[3];
	ssize_t n;

	if (!have_buffers(k)) {
		stat_add(&lane_of(k)->stats, STAT_FUSE_WAITS, 1);
		clone_enter(k, FS_DEV_STARVED);
		return false;
	}
	iov[0] = (struct iovec){ k->head, FS_HEAD_BYTES };
	iov[1] = (struct iovec){ k->mid->mem, k->mid->size };
	iov[2] = (struct iovec){ k->big->mem, k->big->size };
	n = sys_readv(k->fd, iov, 3);
	if (n < 0)
		return no_request(k);
	hand_on(k, (size_t)n);
	return true;
}

/*
 * With one request at a time, a second read finds nothing and costs a system call. With
 * many, it saves a turn of the loop. So what was lately tells what to do. If it is wrong,
 * the device is still readable, and the next turn comes at once.
 */
static bool expects_more(const struct clone *k)
{
	const struct list *active = &k->dev.fl->vl.active;
	bool only_one = !list_empty(active) && active->next->next == active;

	return k->alone < ALONE_TURNS || (k->alone % ALONE_TRY == 0 && !only_one);
}

static unsigned read_some(struct clone *k)
{
	unsigned n = 0;

	while (n < READ_BATCH && k->dev.state == FS_DEV_READING && (!n || expects_more(k)) &&
	       read_one(k))
		n++;
	k->alone = n > 1 ? 0 : k->alone + 1;
	return n;
}

static void on_readable(struct loop_watch *w, uint32_t revents)
{
	struct clone *k = container_of(w, struct clone, watch);

	if (!read_some(k) && k->dev.state == FS_DEV_STARVED)
		fs_lanes_look(k->dev.fl);
}

static void clone_look(struct fs_dev *d)
{
	if (d->state != FS_DEV_READING)
		return;
	read_some(clone_of(d));
	if (d->state == FS_DEV_STARVED)
		fs_lanes_look(d->fl);
}

/* Reads one request while PARKING. false: there is nothing more to read now. */
static bool read_spare(struct clone *k)
{
	struct fuse_buf buf;
	ssize_t n;

	if (!k->spare && k->nparked < PARKED_MAX)
		k->spare = undumped_alloc(SPARE_SIZE);
	if (!k->spare)
		return false;
	n = read(k->fd, k->spare, SPARE_SIZE);
	if (n < 0)
		return no_request(k);
	buf = (struct fuse_buf){ .mem = k->spare, .size = (size_t)n };
	fs_lane_request(k->dev.fl, &buf);
	return true;
}

static void clone_tick(struct fs_dev *d, uint64_t now_ns)
{
	struct clone *k = clone_of(d);

	magazine_exchange(&lane_of(k)->mag, &k->mid);
	magazine_exchange(&lane_of(k)->mag, &k->big);
	if (d->state == FS_DEV_STARVED && now_ns - d->since_ns >= LATE_NS)
		d->state = FS_DEV_PARKING;
	for (unsigned i = 0; i < PARKED_MAX && d->state == FS_DEV_PARKING; i++)
		if (!read_spare(k))
			break;
}

static ssize_t clone_answer(struct fs_dev *d, const struct iovec *iov, int count)
{
	return sys_writev(clone_of(d)->fd, iov, count);
}

/* ---- life ---- */

static int clone_device(int session_fd, struct errbuf *eb)
{
	uint32_t master = (uint32_t)session_fd;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	int rc;

	if (fd < 0)
		return err_set(eb, -errno, "cannot open /dev/fuse: %s", strerror(errno));
	if (ioctl(fd, FUSE_DEV_IOC_CLONE, &master) < 0) {
		rc = err_set(eb, -errno, "cannot clone /dev/fuse: %s", strerror(errno));
		close(fd);
		return rc;
	}
	return fd;
}

static void clone_close(struct fs_dev *d)
{
	struct clone *k = clone_of(d);

	if (k->fd >= 0)
		close(k->fd);
	undumped_free(k->spare, SPARE_SIZE);
	free(k->head);
	free(k);
}

int fs_dev_clone_new(struct fs_lane *fl, int fd, struct fs_dev **out)
{
	struct clone *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->dev = (struct fs_dev){ .ops = &fs_dev_clone, .fl = fl };
	k->fd = fd;
	k->watch = (struct loop_watch){
		.fd = -1, .events = EPOLLIN | EPOLLEXCLUSIVE, .fn = on_readable,
	};
	list_init(&k->parked);
	k->head = malloc(FS_HEAD_ROOM);
	if (!k->head) {
		free(k);
		return -ENOMEM;
	}
	*out = &k->dev;
	return 0;
}

static int clone_open(struct fs_lane *fl, int session_fd, struct fs_dev **out, struct errbuf *eb)
{
	int fd = clone_device(session_fd, eb);

	if (fd < 0)
		return fd;
	if (!fs_dev_clone_new(fl, fd, out))
		return 0;
	close(fd);
	return err_set(eb, -ENOMEM, "out of memory");
}

static int clone_attach(struct fs_dev *d)
{
	struct clone *k = clone_of(d);
	int rc;

	k->watch.fd = k->fd;
	rc = loop_watch(lane_of(k)->loop, &k->watch);
	if (rc) {
		k->watch.fd = -1;
		return rc;
	}
	d->state = FS_DEV_READING;
	return 0;
}

static void clone_detach(struct fs_dev *d)
{
	struct clone *k = clone_of(d);

	close_it(k);
	list_for_each_entry_safe(struct vfs_op, op, tmp, &k->parked, wait_node) {
		list_del(&op->wait_node);
		vfs_end_with(op, -ENOTCONN);
	}
}

static void clone_step_aside(struct fs_dev *d, bool aside)
{
	struct clone *k = clone_of(d);

	if (d->state == FS_DEV_CLOSED || aside == (d->state == FS_DEV_ASIDE))
		return;
	if (aside) {
		clone_enter(k, FS_DEV_ASIDE);
		fs_lanes_look(d->fl);
		return;
	}
	clone_enter(k, FS_DEV_STARVED);
	clone_buffers_freed(d);         /* READING, if there are buffers */
}

const struct fs_dev_ops fs_dev_clone = {
	.open = clone_open,
	.close = clone_close,
	.attach = clone_attach,
	.detach = clone_detach,
	.step_aside = clone_step_aside,
	.buffers_freed = clone_buffers_freed,
	.tick = clone_tick,
	.look = clone_look,
	.take = clone_take,
	.answer = clone_answer,
};
