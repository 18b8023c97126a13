/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rings, without FUSE and without a protocol: programs are played here, over a real socket and real
 * memory; the server has one file in memory, and answers when the test says so. This thread is the
 * lane's; the rings' own thread is there as ever.
 */
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

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	sent[nsent].c = c;
	sent[nsent++].xid = c->eng.rr.xid;
	asked++;
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
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
static void release(struct nfs_target *t, struct nfs_call *c)
{
	(void)t, (void)c;
}
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .release = release,
	.ops = { [NFS_OP_READ] = &any_op, [NFS_OP_WRITE] = &any_op, [NFS_OP_COMMIT] = &any_op },
};

static void serve(void)
{
	while (nsent)
		lane_play_reply(sent[--nsent].xid);
}

/* ---- memory that is lent ---- */

static atomic_uint lent_now;
static atomic_bool lent_stays;                 /* the device does not give it back */

static int play_add(void *ctx, unsigned i, void *mem, size_t len, int dmabuf, struct errbuf *eb)
{
	cr_assert(i < FAKE_PIECES && !vfs.cl->arena.more.n);
	fake_pieces[i] = (struct fab_mr){ .base = mem, .len = len, .addr = (uintptr_t)mem, .rkey = 1 + i };
	lent_now++;
	return 0;
}

static bool play_remove(void *ctx, unsigned i)
{
	if (!lent_stays) {
		fake_pieces[i] = (struct fab_mr){ 0 };
		lent_now--;
	}
	return !lent_stays;
}

static const struct lent_ops lent_ops = { play_add, play_remove };

/* ---- files ---- */

static atomic_uint closed;

static void on_last(struct vfs_lane *on, struct file *f)
{
	closed++;
	free(f);
}

static struct file *open_file(void)
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

static int make_memfd(size_t len, bool seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)len), 0);
	if (seals)
		cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The lane runs until then. */
static void run_until_readable(int fd)
{
	for (unsigned i = 0; i < 5000 && !readable(fd); i++)
		lane_play_run(1);
	cr_assert(readable(fd));
}

static void run_until(atomic_uint *what, unsigned is)
{
	for (unsigned i = 0; i < 5000 && *what != is; i++)
		lane_play_run(1);
	cr_assert_eq(*what, is);
}

/* The answer's status; *fd: what has come with it. */
static int ask(struct program *p, struct ring_request q, int give, int *fd)
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

static void dial(struct program *p)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	*p = (struct program){ .sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), .bell = -1 };
	strcpy(un.sun_path, name);
	cr_assert_eq(connect(p->sock, (struct sockaddr *)&un, sizeof(un)), 0);
}

static int ask_ring(struct program *p, uint64_t entries, int fd)
{
	return ask(p, (struct ring_request){ .what = RING_OPEN, .value = entries }, fd, &p->bell);
}

static void open_ring(struct program *p)
{
	int fd = make_memfd(PAGE, true);

	p->ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_eq(ask_ring(p, ENTRIES, fd), 0, "%s", p->answer.why);
	cr_assert_geq(p->bell, 0);
	p->number = p->answer.value;
	close(fd);
}

static void lend(struct program *p)
{
	int fd = make_memfd(BYTES, true);

	p->mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_eq(ask(p, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), 0, "%s", p->answer.why);
	p->memory = p->answer.value;
	close(fd);
}

static struct ring_request token_for(const struct program *p, struct file *f, int access)
{
	struct ring_request q = { .what = RING_ATTACH, .ring = p->number };
	struct ring_token t;

	cr_assert_eq(rings_token(rings, vl, f, access, geteuid(), &t), 0);
	cr_assert_str_eq(t.socket, name);
	memcpy(q.token, t.token, sizeof(q.token));
	return q;
}

static uint32_t attach(struct program *p, struct file *f, int access)
{
	cr_assert_eq(ask(p, token_for(p, f, access), -1, NULL), 0, "%s", p->answer.why);
	return p->answer.value;
}

static void post(struct program *p, struct ring_sqe e)
{
	uint32_t at = atomic_load(&p->ring->sq_tail.count);

	p->ring->sq[at & (ENTRIES - 1)] = e;
	atomic_store(&p->ring->sq_tail.count, at + 1);
	if (atomic_load(&p->ring->sq_head.flags) & RING_SLEEPS)
		cr_assert_eq(send(p->bell, "", 1, MSG_NOSIGNAL), 1);
	lane_play_run(2);
}

static bool is_done(const struct program *p)
{
	return atomic_load(&p->ring->cq_tail.count) != p->fetched;
}

static struct ring_cqe done(struct program *p)
{
	struct ring_cqe c;

	cr_assert(is_done(p));
	c = ring_cq(p->ring, ENTRIES)[p->fetched++ & (ENTRIES - 1)];
	atomic_store(&p->ring->cq_head.count, p->fetched);
	return c;
}

static struct ring_sqe entry(const struct program *p, enum ring_op op, uint32_t file, uint64_t offset, uint32_t len)
{
	return (struct ring_sqe){ .op = (uint8_t)op, .memory = (uint16_t)p->memory, .file = file, .offset = offset,
				  .len = len, .user_data = 77 };
}

static int64_t result_of(struct program *p, struct ring_sqe e)
{
	struct ring_cqe c;

	post(p, e);
	serve();
	lane_play_run(2);
	c = done(p);
	cr_assert_eq(c.user_data, e.user_data);
	return c.result;
}

static void hang_up(struct program *p)
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
static void begin(struct program *p)
{
	dial(p);
	open_ring(p);
	lend(p);
}

/* ---- life ---- */

static void start_with(const struct rings_config *cfg)
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

static void start(void)
{
	start_with(&(struct rings_config){ .most_rings = 8, .most_bytes = 4 * BYTES });
}

static void *end_rings(void *arg)
{
	rings_end(rings);
	atomic_store((atomic_bool *)arg, true);
	return NULL;
}

/* While the lane runs: what the rings are told to do, it does. */
static void end(void)
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

/* ---- data ---- */

Test(ring, reads_into_the_programs_memory_and_writes_from_it)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDWR);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 100, 5000)), 5000);
	cr_assert_eq(memcmp(p.mem, disk + 100, 5000), 0);
	memset(p.mem + PAGE, 'w', 3000);
	cr_assert_eq(result_of(&p, (struct ring_sqe){ .op = RING_WRITE, .memory = (uint16_t)p.memory, .file = file,
						     .offset = 777, .at = PAGE, .len = 3000 }), 3000);
	cr_assert(disk[777] == 'w' && disk[3776] == 'w' && disk[3777] != 'w');
	/* The end of the file, behind which nothing is asked for. */
	asked = 0;
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, SIZE - 10, 100)), 10);
	cr_assert_eq(asked, 1);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, SIZE + 10, 100)), 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_RING_READS), 3);
	cr_assert_eq(stat_get(&lane.stats, STAT_RING_WRITTEN_BYTES), 3000);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* rsize and wsize are short here, and the server writes less than it was asked to. */
Test(ring, does_what_is_longer_than_a_call_in_pieces)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	vfs.cl->rsize = 16384;
	vfs.cl->wsize = 12000;
	writes_most = 10000;
	begin(&p);
	file = attach(&p, f, O_RDWR);
	asked = 0;
	post(&p, entry(&p, RING_READ, file, 0, 50000));
	for (unsigned i = 0; i < 10 && !is_done(&p); i++) {
		serve();
		lane_play_run(2);
	}
	cr_assert_eq(done(&p).result, 50000);
	cr_assert_eq(memcmp(p.mem, disk, 50000), 0);
	cr_assert_eq(asked, 4, "of rsize each");
	memset(p.mem, 'x', 50000);
	post(&p, entry(&p, RING_WRITE, file, 5, 50000));
	for (unsigned i = 0; i < 20 && !is_done(&p); i++) {
		serve();
		lane_play_run(2);
	}
	cr_assert_eq(done(&p).result, 50000);
	cr_assert_eq(memcmp(p.mem, disk + 5, 50000), 0);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

Test(ring, the_servers_error_is_the_entrys)
{
	struct file *f = open_file();
	struct program p;

	begin(&p);
	fails = -EACCES;
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, attach(&p, f, O_RDONLY), 0, 10)), -EACCES);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

static struct vfs_op *written;          /* the front end drops what is older */
static void (*dropped)(struct vfs_op *op);

static void on_written_past(struct vfs_op *op, void (*then)(struct vfs_op *op))
{
	written = op;
	dropped = then;
}

/* A WRITE that the front end has to hear of ends, and not before that has dropped what it has. */
static int64_t result_when_dropped(struct program *p, struct ring_sqe e)
{
	post(p, e);
	serve();
	lane_play_run(2);
	cr_assert(written && written->data.start == e.offset && !is_done(p));
	dropped(written);
	written = NULL;
	lane_play_run(2);
	return done(p).result;
}

Test(ring, a_write_is_done_when_no_older_bytes_are_believed)
{
	const struct vfs_front *before = vfs.front;
	struct vfs_front front = *before;
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	front.written_past = on_written_past;
	vfs.front = &front;
	begin(&p);
	file = attach(&p, f, O_RDWR);
	cr_assert_eq(result_when_dropped(&p, entry(&p, RING_WRITE, file, 300, 10)), 10);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 300, 10)), 10);
	/* The server may have executed it all the same. */
	fails = -EIO;
	cr_assert_eq(result_when_dropped(&p, entry(&p, RING_WRITE, file, 300, 10)), -EIO);
	vfs.front = before;
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* ---- entries that are wrong ---- */

Test(ring, refuses_what_an_entry_may_not_ask)
{
	struct file *f = open_file();
	struct program p;
	uint32_t r, w;
	struct ring_sqe e;

	begin(&p);
	r = attach(&p, f, O_RDONLY);
	w = attach(&p, f, O_WRONLY);
	cr_assert_eq(result_of(&p, entry(&p, RING_WRITE, r, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, w, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, 5, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, RING_FILES, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, UINT32_MAX, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, 0, r, 0, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, 3, r, 0, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, 0, 0)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, 0, RING_IO_MAX + 1)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, INT64_MAX, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, UINT64_MAX, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, 0, BYTES + 1)), -EFAULT);
	e = entry(&p, RING_READ, r, 0, 10);
	e.at = BYTES - 9;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.at = UINT64_MAX - 5;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.at = 0;
	e.memory = 1;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.memory = UINT16_MAX;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.memory = (uint16_t)p.memory;
	e.zero3[2] = 1;
	cr_assert_eq(result_of(&p, e), -EINVAL);
	e.zero3[2] = 0;
	cr_assert_eq(result_of(&p, e), 10);
	cr_assert_eq(nsent, 0);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* Another program goes on. */
Test(ring, a_ring_with_impossible_counts_ends)
{
	struct program p, other;
	struct file *f = open_file();
	uint32_t file;
	char byte;

	begin(&p);
	begin(&other);
	file = attach(&other, f, O_RDONLY);
	atomic_store(&p.ring->sq_tail.count, ENTRIES + 1);
	send(p.bell, "", 1, MSG_NOSIGNAL);
	run_until_readable(p.sock);
	cr_assert_eq(recv(p.sock, &byte, 1, 0), 0, "the socket is closed");
	run_until(&lent_now, 1);
	cr_assert_eq(result_of(&other, entry(&other, RING_READ, file, 0, 10)), 10);
	file_put(vl, f);
	hang_up(&p);
	hang_up(&other);
	run_until(&closed, 1);
}

/* ---- tokens ---- */

Test(ring, a_token_is_good_once_and_for_its_user)
{
	struct file *f = open_file();
	struct ring_request q;
	struct ring_token t;
	struct program p;

	begin(&p);
	q = token_for(&p, f, O_RDONLY);
	cr_assert_eq(ask(&p, q, -1, NULL), 0);
	cr_assert_eq(ask(&p, q, -1, NULL), -EBADF);
	q.token[3] ^= 1;
	cr_assert_eq(ask(&p, q, -1, NULL), -EBADF);
	cr_assert_eq(rings_token(rings, vl, f, O_RDONLY, geteuid() + 1, &t), 0);
	memcpy(q.token, t.token, sizeof(q.token));
	cr_assert_eq(ask(&p, q, -1, NULL), -EPERM);
	q = token_for(&p, f, O_RDONLY);
	q.ring = 1;
	cr_assert_eq(ask(&p, q, -1, NULL), -EINVAL);
	rings_closed(rings, f);
	file_put(vl, f);
	run_until(&closed, 1);
	hang_up(&p);
}

Test(ring, a_file_that_the_kernel_has_closed_is_none_of_the_rings)
{
	struct file *f = open_file();
	struct ring_request late;
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	late = token_for(&p, f, O_RDONLY);
	/* One is under way: it has its answer. */
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(nsent, 1);
	rings_closed(rings, f);
	file_put(vl, f);
	lane_play_run(2);
	cr_assert_eq(closed, 0, "a call uses it");
	cr_assert_eq(ask(&p, late, -1, NULL), -EBADF);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(done(&p).result, -EBADF);
	serve();
	lane_play_run(2);
	cr_assert_eq(done(&p).result, 10);
	run_until(&closed, 1);
	hang_up(&p);
}

Test(ring, detaches)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	file_put(vl, f);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = file }, -1, NULL), 0);
	cr_assert_eq(closed, 1);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = file }, -1, NULL), -EBADF);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = UINT64_MAX }, -1, NULL), -EBADF);
	hang_up(&p);
}

/* ---- memory ---- */

/* Of the only program; what is the lane's is this thread's. */
static struct ring *only_ring(void)
{
	return container_of(rings->clients.next, struct client, node)->ring[0];
}

Test(ring, memory_that_could_go_away_is_refused)
{
	struct program p;
	int fd;

	dial(&p);
	fd = make_memfd(BYTES, false);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), -EPERM);
	cr_assert_eq(ask_ring(&p, ENTRIES, fd), -EPERM);
	close(fd);
	fd = make_memfd(PAGE, true);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = 2 * PAGE }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = 100 }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = 0 }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = UINT64_MAX & ~4095ull }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = PAGE }, -1, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = PAGE }, p.sock, NULL), -EINVAL);
	cr_assert_eq(ask_ring(&p, 7, fd), -EINVAL);
	cr_assert_eq(ask_ring(&p, 1, fd), -EINVAL);
	cr_assert_eq(ask_ring(&p, 2 * RING_ENTRIES_MAX, fd), -EINVAL);
	cr_assert_eq(ask_ring(&p, RING_ENTRIES_MAX, fd), -EINVAL);
	close(fd);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = 99 }, -1, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .version = 9, .what = RING_MEMORY }, -1, NULL), -EPROTONOSUPPORT);
	cr_assert_eq(lent_now, 0);
	hang_up(&p);
}

Test(ring, memory_is_given_back_when_nothing_uses_it)
{
	struct ring_request forget = { .version = RING_VERSION, .what = RING_FORGET };
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert(sock_send_with(p.sock, &forget, sizeof(forget), -1, 0));
	for (unsigned i = 0; i < 5000 && only_ring()->memory[p.memory].at; i++)
		lane_play_run(1);
	cr_assert_not(readable(p.sock));
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(done(&p).result, -EFAULT, "no further one uses it");
	serve();
	run_until_readable(p.sock);
	cr_assert_eq(lent_now, 0);
	lane_play_run(2);               /* the program may hear of that first */
	cr_assert_eq(done(&p).result, 10);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* The device of a dma-buf has taken its memory away: what was read is nowhere. */
Test(ring, memory_that_is_lost)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 0, 10)), 10);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	atomic_store(&vfs.cl->arena.lent.lost[0], true);
	serve();
	lane_play_run(2);
	cr_assert_eq(done(&p).result, -EFAULT);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(nsent, 0, "it is not asked for");
	cr_assert_eq(done(&p).result, -EFAULT);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

static int ask_close(struct program *p)
{
	return ask(p, (struct ring_request){ .what = RING_CLOSE, .ring = p->number }, -1, NULL);
}

/* The program is not kept waiting; the memory is the server's until it has answered. */
Test(ring, a_closed_ring_may_use_memory_until_that_is_given_back)
{
	struct ring_request forget = { .version = RING_VERSION, .what = RING_FORGET };
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDWR);
	file_put(vl, f);
	post(&p, entry(&p, RING_WRITE, file, 0, 10));
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(ask_close(&p), 0);
	cr_assert_eq(ask_close(&p), -EINVAL, "it is no ring any more");
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = file }, -1, NULL), -EINVAL);
	forget.value = p.memory;
	cr_assert(sock_send_with(p.sock, &forget, sizeof(forget), -1, 0));
	for (unsigned i = 0; i < 30; i++)
		lane_play_run(1);
	cr_assert_not(readable(p.sock));
	cr_assert_eq(lent_now, 1, "the server may still reach it");
	while (nsent)
		lane_play_reply(sent[--nsent].xid);
	run_until_readable(p.sock);
	cr_assert_eq(lent_now, 0);
	run_until(&closed, 1);
	hang_up(&p);
}

/* Far more of them, one after the other, than a user may have at a time. */
Test(ring, a_closed_ring_makes_room_for_another)
{
	struct file *f = open_file();
	struct program p;

	begin(&p);
	for (unsigned i = 0; i < 3 * RING_RINGS; i++) {
		uint32_t file = attach(&p, f, O_RDONLY);

		cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 0, 10)), 10, "%u", i);
		cr_assert_eq(ask_close(&p), 0);
		close(p.bell);
		munmap(p.ring, PAGE);
		p.fetched = 0;
		open_ring(&p);
	}
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* ---- limits ---- */

Test(ring, a_user_has_so_much_and_no_more)
{
	struct program p, q;
	int fd = make_memfd(BYTES, true);

	begin(&p);
	dial(&q);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(ask(&q, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), 0);
	cr_assert_eq(ask(&q, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), -EDQUOT);
	for (unsigned i = 0; i < 7; i++) {
		cr_assert_eq(ask_ring(&q, ENTRIES, fd), 0);
		close(q.bell);
	}
	cr_assert_eq(ask_ring(&q, ENTRIES, fd), -EDQUOT);
	q.bell = -1;
	hang_up(&p);
	run_until(&lent_now, 3);
	cr_assert_eq(ask(&q, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), 0);
	close(fd);
	hang_up(&q);
	run_until(&lent_now, 0);
}

/* ---- the end ---- */

Test(ring, a_program_that_dies_gives_all_back_when_the_server_has_answered)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDWR);
	file_put(vl, f);
	for (unsigned i = 0; i < 4; i++)
		post(&p, entry(&p, i % 2 ? RING_READ : RING_WRITE, file, i * 100, 50));
	cr_assert_eq(nsent, 4);
	hang_up(&p);
	for (unsigned i = 0; i < 30; i++)
		lane_play_run(1);
	cr_assert_eq(lent_now, 1, "the server may still reach it");
	cr_assert_eq(closed, 0);
	serve();
	run_until(&lent_now, 0);
	run_until(&closed, 1);
}

Test(ring, of_a_program_that_has_died_no_further_piece_is_asked_for)
{
	struct file *f = open_file();
	struct program p;

	vfs.cl->wsize = 16384;
	begin(&p);
	post(&p, entry(&p, RING_WRITE, attach(&p, f, O_RDWR), 0, 50000));
	file_put(vl, f);
	hang_up(&p);
	for (unsigned i = 0; i < 5000 && !only_ring()->ending; i++)
		lane_play_run(1);
	serve();
	run_until(&lent_now, 0);
	run_until(&closed, 1);
	cr_assert_eq(asked, 1);
}

/* The lane sleeps, although what the program has filled is never taken. */
Test(ring, a_ring_that_ends_does_not_keep_the_lane_awake)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	file_put(vl, f);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	close(p.sock);
	for (unsigned i = 0; i < 5000 && !only_ring()->ending; i++)
		lane_play_run(1);
	atomic_store(&p.ring->sq_tail.count, 2);
	cr_assert_not(only_ring()->poller.fn(&only_ring()->poller, true));
	serve();
	run_until(&closed, 1);
	p.sock = -1;
	hang_up(&p);
}

/* A timer may end an operation after the lane has looked at its rings. */
Test(ring, what_is_done_when_the_lane_wants_to_sleep_is_told_before)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	serve();
	cr_assert_not(is_done(&p));
	cr_assert(only_ring()->poller.fn(&only_ring()->poller, true), "the lane sleeps");
	cr_assert(only_ring()->poller.fn(&only_ring()->poller, false));
	cr_assert(is_done(&p));
	cr_assert_eq(done(&p).result, 10);
	file_put(vl, f);
	hang_up(&p);
}

/* A program that waits fills nothing: the lane need not look again. One that is awake may. */
Test(ring, the_lane_looks_again_only_for_a_program_that_is_awake)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	for (unsigned flags = 0; flags <= RING_SLEEPS; flags++) {
		atomic_store(&p.ring->cq_head.wanted, p.fetched + 1);
		atomic_store(&p.ring->cq_head.flags, flags);
		p.ring->sq[flags] = entry(&p, RING_READ, file, 0, 10);
		atomic_store(&p.ring->sq_tail.count, flags + 1);
		cr_assert_eq(only_ring()->poller.fn(&only_ring()->poller, false), !flags);
		cr_assert_eq(atomic_load(&p.ring->sq_head.count), flags + 1, "the entry is taken");
		lane_play_run(1);
		serve();
		lane_play_run(2);
		cr_assert_eq(done(&p).result, 10);
	}
	file_put(vl, f);
	hang_up(&p);
}

Test(ring, a_device_that_does_not_let_go_is_asked_again)
{
	struct program p;

	begin(&p);
	lent_stays = true;
	hang_up(&p);
	for (unsigned i = 0; i < 200; i++)
		lane_play_run(1);
	cr_assert_eq(lent_now, 1);
	lent_stays = false;
	run_until(&lent_now, 0);
}

Test(ring, nothing_is_left_of_many_that_come_and_go)
{
	struct file *f = open_file();

	for (unsigned i = 0; i < 200; i++) {
		struct program p;
		uint32_t file = 0;

		begin(&p);
		if (i % 3)
			file = attach(&p, f, O_RDONLY);
		if (i % 3 == 2)
			post(&p, entry(&p, RING_READ, file, 0, 10));
		hang_up(&p);
		if (i % 2)
			serve();
	}
	serve();
	rings_closed(rings, f);
	file_put(vl, f);
	run_until(&lent_now, 0);
	run_until(&closed, 1);
}
