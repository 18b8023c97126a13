/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One lane reads data, and another one answers with it, from the buffer that the server has
 * written to.
 *
 *     lane 1   FUSE's READ comes            answers it from the buffer, puts it back
 *                  | asks                      ^ here it is
 *     lane 0       +-> a buffer, NFS READ -----+
 *                          ^ placed by the (played) server
 *
 * There are fewer buffers than rounds, so those that lane 1 puts back have to return to
 * lane 0.
 */
#define FUSE_USE_VERSION 314
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "fake_fabric.h"
#include "nfs/internal.h"
#include "rpcrdma/header.h"

enum { ROUNDS = 500, SIZE = 65536, NODE = 7, UNIQUE = 4711 };

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs_lane lanes[2];
static struct loop_timer serving;
static struct fuse_session *se;
static sem_t round_is_over;

static struct {                 /* handed from lane to lane, by messages */
	struct loop_msg msg;
	struct nfs_call call;
	struct arena_buf *buf;
	fuse_req_t req;
} work;
static const struct nfs_fh fh = { .len = 4, .data = "file" };
static const void *placed_at, *answered_from;
static unsigned nround;
static bool wants_buffer;

static uint8_t pattern(unsigned round, size_t i)
{
	return (uint8_t)(round * 31 + i * 7 + i / 256);
}

/* ---- the server: on lane 0's thread ---- */

static void place(const struct rr_seg *seg)
{
	uint8_t *at = (uint8_t *)fake.data.base + (seg->offset - fake.data.addr);

	cr_assert(seg->handle == fake.rkey && seg->length == SIZE);
	for (size_t i = 0; i < SIZE; i++)
		at[i] = pattern(nround, i);
	placed_at = at;
}

static void answer(unsigned i)
{
	/* Accepted; NFS3_OK, no attributes, count, eof, length of what was placed. */
	uint32_t body[] = { 0, 1, 0, 0, 0, 0, 0, 0, SIZE, 0, SIZE };
	uint8_t msg[512];
	struct rr_header h, r;
	size_t len;

	cr_assert_gt(rr_header_decode(&h, fake.sends[i].bytes, fake.sends[i].len), 0);
	cr_assert(h.nwrites == 1 && h.writes[0].nseg == 1, "the data is to be placed");
	place(&h.writes[0].seg[0]);
	rr_header_init(&r, h.xid, 16);
	r.nwrites = 1;
	r.writes[0] = h.writes[0];
	len = rr_header_size(&r);
	cr_assert_geq(rr_header_encode(&r, msg, sizeof(msg)), 0);
	body[0] = h.xid;
	for (unsigned w = 0; w < sizeof(body) / 4; w++)
		body[w] = htonl(body[w]);
	memcpy(msg + len, body, sizeof(body));
	fake_complete(i);
	fake.nsends = 0;
	fake_deliver(msg, (uint32_t)(len + sizeof(body)));
}

static void serve(struct loop_timer *t)
{
	loop_timer_set(lanes[0].loop, t, 0);
	if (fake.nsends)
		answer(0);
}

/* ---- lane 1: FUSE ---- */

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	(void)off;
	(void)fi;
	cr_assert(ino == NODE && size == SIZE);
	work.req = req;
}

static const struct fuse_lowlevel_ops ops = { .read = on_read };

/* The kernel: what is written to the device. */
static ssize_t take_answer(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *out = iov[0].iov_base;

	(void)fd;
	(void)userdata;
	if (out->unique != UNIQUE)
		return (ssize_t)out->len;       /* INIT's */
	cr_assert(count == 2 && out->error == 0 && iov[1].iov_len == SIZE);
	answered_from = iov[1].iov_base;
	for (size_t i = 0; i < SIZE; i++)
		cr_assert_eq(((uint8_t *)iov[1].iov_base)[i], pattern(nround, i));
	return (ssize_t)out->len;
}

static ssize_t no_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)userdata;
	errno = ENOSYS;
	return -1;
}

static void fuse_request(uint32_t opcode, uint64_t unique, const void *arg, size_t len)
{
	uint8_t bytes[256] = { 0 };
	struct fuse_in_header h = {
		.len = (uint32_t)(sizeof(h) + len), .opcode = opcode, .unique = unique, .nodeid = NODE,
	};
	struct fuse_buf buf = { .mem = bytes, .size = h.len };

	memcpy(bytes, &h, sizeof(h));
	memcpy(bytes + sizeof(h), arg, len);
	fuse_session_process_buf(se, &buf);
}

static void start_fuse(void)
{
	static const struct fuse_custom_io io = { .writev = take_answer, .read = no_read };
	const struct fuse_init_in init = { .major = 7, .minor = 38 };
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);

	cr_assert_eq(fuse_opt_add_arg(&args, "test"), 0);
	se = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	cr_assert_not_null(se);
	cr_assert_eq(fuse_session_custom_io(se, &io, 0), 0);
	fuse_request(FUSE_INIT, 1, &init, sizeof(init));
	fuse_opt_free_args(&args);
}

static void on_data(struct loop_msg *m)
{
	struct iovec iov = { work.buf->mem, SIZE };

	(void)m;
	cr_assert_eq(fuse_reply_iov(work.req, &iov, 1), 0);
	cr_assert(answered_from == placed_at && answered_from == work.buf->mem);
	magazine_put(&lanes[1].mag, work.buf);
	sem_post(&round_is_over);
}

/* ---- lane 0: NFS ---- */

static void on_done(struct nfs_call *c)
{
	cr_assert_eq(c->res.status, 0, "%s", strerror(-c->res.status));
	cr_assert(c->res.io.len == SIZE && c->res.io.ptr == work.buf->mem);
	work.msg.fn = on_data;
	loop_post(lanes[1].loop, &work.msg);
}

static void read_it(struct nfs_lane *l)
{
	work.buf = magazine_get_data(&l->mag, SIZE);
	wants_buffer = !work.buf;
	if (!work.buf)
		return;
	work.call = (struct nfs_call){ .op = NFS_OP_READ, .done = on_done };
	work.call.args.fh = &fh;
	work.call.args.io.count = SIZE;
	work.call.args.io.sink[0] = (struct rr_iov){ work.buf->mem, SIZE };
	nfs_start(l, &work.call);
}

static void on_buffers(struct nfs_lane *l)
{
	if (l == &lanes[0] && wants_buffer)
		read_it(l);
}

static void on_change(struct nfs_lane *l)
{
	(void)l;
}

static const struct nfs_front front = { .lane_changed = on_change, .buffers_freed = on_buffers };

static void on_asked(struct loop_msg *m)
{
	(void)m;
	read_it(&lanes[0]);
}

/* ---- all of it ---- */

static void on_request(struct loop_msg *m)
{
	const struct fuse_read_in in = { .size = SIZE };

	(void)m;
	fuse_request(FUSE_READ, UNIQUE, &in, sizeof(in));
	work.msg.fn = on_asked;
	loop_post(lanes[0].loop, &work.msg);
}

static void on_start(struct nfs_lane *l, void *arg)
{
	(void)arg;
	if (l == &lanes[1]) {
		start_fuse();
		return;
	}
	loop_timer_init(&serving, serve);
	loop_timer_set(l->loop, &serving, 0);
}

static void setup(void)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	fake_peer_is_knfsd();
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	sem_init(&round_is_over, 0, 0);
	cl = (struct nfs_client){
		.control = &ctl, .lanes = lanes, .nlanes = 2,
		.cfg = { .version = &nfs_v3, .front = &front, .paths[0].fabric = &fabric_fake, .npaths = 1,
			 .server = "server", .lanes = 2, .credits = 16,
			 .buffers = { .n = { 24, 0, 3, 0 } }, .timeo_ms = 60000 },
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(nfs_lane_init(&cl, i, &eb), 0, "%s", eb.text);
	cr_assert_eq(nfs_connection_open(&lanes[0].target.conns[0][0], &link, &eb), 0, "%s", eb.text);
	nfs_connection_up(&lanes[0].target.conns[0][0], link);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(nfs_lane_start(&lanes[i]), 0);
	nfs_each_lane(&cl, on_start, NULL);
}

static void teardown(void)
{
	for (unsigned i = 0; i < 2; i++)
		nfs_lane_stop(&lanes[i]);
	for (unsigned i = 0; i < 2; i++)
		nfs_lane_fini(&lanes[i]);
	fuse_session_destroy(se);
	arena_fini(&cl.arena);
}

Test(lanes, one_reads_and_another_answers, .init = setup, .fini = teardown, .timeout = 120)
{
	for (nround = 0; nround < ROUNDS; nround++) {
		work.msg.fn = on_request;
		loop_post(lanes[1].loop, &work.msg);
		while (sem_wait(&round_is_over))
			;
	}
}

static struct loop *broken;

int __real_loop_run(struct loop *l);
int __wrap_loop_run(struct loop *l);

int __wrap_loop_run(struct loop *l)
{
	return l == broken ? -EBADF : __real_loop_run(l);
}

static void nothing(struct nfs_lane *l, void *arg)
{
	(void)l;
	(void)arg;
}

/* Nobody waits for it for ever: the process ends. */
Test(lanes, a_lane_that_cannot_go_on, .init = setup, .timeout = 60, .exit_code = EXIT_FAILURE)
{
	nfs_lane_stop(&lanes[1]);
	broken = lanes[1].loop;
	cr_assert_eq(nfs_lane_start(&lanes[1]), 0);
	nfs_each_lane(&cl, nothing, NULL);
	pause();
}
