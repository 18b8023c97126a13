/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rings, without FUSE and without a protocol: programs are played here, over a real socket and real
 * memory; the server has one file in memory, and answers when the test says so. This thread is the
 * lane's; the rings' own thread is there as ever.
 */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/sock.h"
#include "fake_fabric.h"
#include "ring/clients.h"
#include "vfs_play.h"

enum { ENTRIES = 8, PAGE = 4096, SIZE = 1 << 16, BYTES = 64 * PAGE };

/* ---- the server ---- */

static uint8_t disk[SIZE];
static struct { struct nfs_call *c; uint32_t xid; } sent[64];
static unsigned nsent, asked;           /* not answered; so far */
static int fails;                       /* what calls end with */
static uint32_t writes_most = UINT32_MAX;       /* a WRITE writes no more */

static inline bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	sent[nsent].c = c;
	sent[nsent++].xid = c->eng.rr.xid;
	asked++;
	return xdr_uint32_t(x, &nothing);
}

static inline int decode(struct nfs_call *c, XDR *x)
{
	struct nfs_io_args *a = &c->args.io;
	uint64_t left = a->offset < SIZE ? SIZE - a->offset : 0;
	uint32_t n;

	if (fails)
		return fails;
	if (c->op == NFS_OP_READ) {
		n = left < a->count ? (uint32_t)left : a->count;
		memcpy(a->sink[0].mem, disk + a->offset, n);
		c->res.io = (struct nfs_io_results){ .len = n, .eof = n == left, .ptr = a->sink[0].mem };
	} else if (c->op == NFS_OP_WRITE) {
		n = a->data[0].len < writes_most ? a->data[0].len : writes_most;
		cr_assert_eq(a->ndata, 1);
		cr_assert_not(a->unstable);
		memcpy(disk + a->offset, a->data[0].mem, n);
		c->res.io = (struct nfs_io_results){ .len = n, .stable = true };
	}
	return 0;
}

static const struct nfs_opdef any_op = { .name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1 };
static inline void release(struct nfs_target *t, struct nfs_call *c)
{
	(void)t, (void)c;
}
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .release = release,
	.ops = { [NFS_OP_READ] = &any_op, [NFS_OP_WRITE] = &any_op, [NFS_OP_COMMIT] = &any_op },
};

static inline void serve(void)
{
	while (nsent)
		lane_play_reply(sent[--nsent].xid);
}

/* ---- memory that is lent ---- */

static atomic_uint lent_now;
static atomic_bool lent_stays;                 /* the device does not give it back */

static inline int play_add(void *ctx, unsigned i, void *mem, size_t len, int dmabuf, struct errbuf *eb)
{
	cr_assert(i < FAKE_PIECES && !vfs.cl->arena.more.n);
	fake_pieces[i] = (struct fab_mr){ .base = mem, .len = len, .addr = (uintptr_t)mem, .rkey = 1 + i };
	lent_now++;
	return 0;
}

static inline bool play_remove(void *ctx, unsigned i)
{
	if (!lent_stays) {
		fake_pieces[i] = (struct fab_mr){ 0 };
		lent_now--;
	}
	return !lent_stays;
}

static inline int64_t play_spare(void *ctx)
{
	return INT64_MAX;
}

static const struct lent_ops lent_ops = { play_add, play_remove, play_spare };

/* ---- files ---- */

static atomic_uint closed;

static inline void on_last(struct vfs_lane *on, struct file *f)
{
	closed++;
	free(f);
}

static inline struct file *open_file(void)
{
	struct file *f = vfs_play_file();

	f->last = on_last;
	return f;
}

/* ---- programs ---- */

static struct rings *rings;
static char dir[] = "/tmp/test_ring.XXXXXX", name[64];

struct program {
	int sock, bell;
	struct ring_memory *ring;
	uint32_t number, memory, fetched;
	uint8_t *mem;
	struct ring_answer answer;
};

static inline int make_memfd(size_t len, bool seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)len), 0);
	if (seals)
		cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static inline bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The lane runs until then. */
static inline void run_until_readable(int fd)
{
	for (unsigned i = 0; i < 5000 && !readable(fd); i++)
		lane_play_run(1);
	cr_assert(readable(fd));
}

static inline void run_until(atomic_uint *what, unsigned is)
{
	for (unsigned i = 0; i < 5000 && *what != is; i++)
		lane_play_run(1);
	cr_assert_eq(*what, is);
}

/* The answer's status; *fd: what has come with it. */
static inline int ask(struct program *p, struct ring_request q, int give, int *fd)
{
	int got;

	q.version = q.version ? q.version : RING_VERSION;
	cr_assert(sock_send_with(p->sock, &q, sizeof(q), give, 0));
	run_until_readable(p->sock);
	cr_assert_eq(sock_receive_with(p->sock, &p->answer, sizeof(p->answer), &got, 0), sizeof(p->answer));
	if (fd)
		*fd = got;
	cr_assert_eq(p->answer.version, RING_VERSION);
	cr_assert(!p->answer.status == !p->answer.why[0], "an error has words");
	return p->answer.status;
}

static inline void dial(struct program *p)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	*p = (struct program){ .sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), .bell = -1 };
	strcpy(un.sun_path, name);
	cr_assert_eq(connect(p->sock, (struct sockaddr *)&un, sizeof(un)), 0);
}

static inline int ask_ring(struct program *p, uint64_t entries, int fd)
{
	return ask(p, (struct ring_request){ .what = RING_OPEN, .value = entries }, fd, &p->bell);
}

static inline void open_ring(struct program *p)
{
	int fd = make_memfd(PAGE, true);

	p->ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_eq(ask_ring(p, ENTRIES, fd), 0, "%s", p->answer.why);
	cr_assert_geq(p->bell, 0);
	p->number = p->answer.value;
	close(fd);
}

static inline void lend(struct program *p)
{
	int fd = make_memfd(BYTES, true);

	p->mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_eq(ask(p, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), 0, "%s", p->answer.why);
	p->memory = p->answer.value;
	close(fd);
}

static inline struct ring_request token_for(const struct program *p, struct file *f, int access)
{
	struct ring_request q = { .what = RING_ATTACH, .ring = p->number };
	struct ring_token t;

	cr_assert_eq(rings_token(rings, vl, f, access, geteuid(), &t), 0);
	cr_assert_str_eq(t.socket, name);
	memcpy(q.token, t.token, sizeof(q.token));
	return q;
}

static inline uint32_t attach(struct program *p, struct file *f, int access)
{
	cr_assert_eq(ask(p, token_for(p, f, access), -1, NULL), 0, "%s", p->answer.why);
	return p->answer.value;
}

static inline void post(struct program *p, struct ring_sqe e)
{
	uint32_t at = atomic_load(&p->ring->sq_tail.count);

	p->ring->sq[at & (ENTRIES - 1)] = e;
	atomic_store(&p->ring->sq_tail.count, at + 1);
	if (atomic_load(&p->ring->sq_head.flags) & RING_SLEEPS)
		cr_assert_eq(send(p->bell, "", 1, MSG_NOSIGNAL), 1);
	lane_play_run(2);
}

static inline bool is_done(const struct program *p)
{
	return atomic_load(&p->ring->cq_tail.count) != p->fetched;
}

static inline struct ring_cqe done(struct program *p)
{
	struct ring_cqe c;

	cr_assert(is_done(p));
	c = ring_cq(p->ring, ENTRIES)[p->fetched++ & (ENTRIES - 1)];
	atomic_store(&p->ring->cq_head.count, p->fetched);
	return c;
}

static inline struct ring_sqe entry(const struct program *p, enum ring_op op, uint32_t file, uint64_t offset, uint32_t len)
{
	return (struct ring_sqe){ .op = (uint8_t)op, .memory = (uint16_t)p->memory, .file = file, .offset = offset,
				  .len = len, .user_data = 77 };
}

static inline int64_t result_of(struct program *p, struct ring_sqe e)
{
	struct ring_cqe c;

	post(p, e);
	serve();
	lane_play_run(2);
	c = done(p);
	cr_assert_eq(c.user_data, e.user_data);
	return c.result;
}

static inline void hang_up(struct program *p)
{
	close(p->sock);
	if (p->bell >= 0)
		close(p->bell);
	if (p->ring)
		munmap(p->ring, PAGE);
	if (p->mem)
		munmap(p->mem, BYTES);
}

/* One with a ring and memory. */
static inline void begin(struct program *p)
{
	dial(p);
	open_ring(p);
	lend(p);
}

/* ---- life ---- */

static inline void start_with(const struct rings_config *cfg)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	vfs_play_start(&version, &(struct nfs_fh){ .len = 4 }, &(struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 1 }, 0);
	cr_assert_eq(lent_init(&vfs.cl->arena.lent, &lent_ops, NULL), 0);
	cr_assert_eq(rings_new(&rings, &vfs, cfg), 0);
	cr_assert(mkdtemp(dir));
	snprintf(name, sizeof(name), "%s/rings", dir);
	strcpy(un.sun_path, name);
	cr_assert_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	cr_assert_eq(listen(fd, 16), 0);
	rings_listen(rings, fd, name);
	for (unsigned i = 0; i < SIZE; i++)
		disk[i] = (uint8_t)(i * 7 + i / 251);
}

static inline void start(void)
{
	start_with(&(struct rings_config){ .most_rings = 8, .most_bytes = 4 * BYTES,
					      .most_files = 4000 });
}

static inline void *end_rings(void *arg)
{
	rings_end(rings);
	atomic_store((atomic_bool *)arg, true);
	return NULL;
}

/* While the lane runs: what the rings are told to do, it does. */
static inline void end(void)
{
	atomic_bool over = false;
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, end_rings, &over), 0);
	for (unsigned i = 0; i < 6000 && !atomic_load(&over); i++)
		lane_play_run(1);
	pthread_join(t, NULL);
	lane_play_run(2);
	cr_assert_eq(lent_now, 0, "no memory is left");
	inode_put(&vfs.inodes, root, 1);
	unlink(name);
	rmdir(dir);
	vfs_play_end();
	rings_free(rings);
}

TestSuite(ring, .init = start, .fini = end, .timeout = 60);
