/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server that writes to all the memory that it can reach, all the time. A thread fills the
 * data buffers with noise while FUSE's requests are read, passed on and answered. The server
 * still gets the calls that FUSE has asked for, and the replies in messages arrive as the
 * server sent them. Data in chunks may be anything, but does no harm.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "fs_play.h"

#define ROUNDS 200u

static struct fs_file *file;
static int device;                      /* the kernel's end */
static atomic_bool stop_noise;
static pthread_t noise;
static bool noisy;

/* It writes mostly to the beginning of buffers, because the next request is read there. */
static void *make_noise(void *arg)
{
	uint64_t x = 88172645463325252u, *mem = fs.vfs.cl->arena.data.base;
	size_t n = fs.vfs.cl->arena.data.len / sizeof(*mem), page = ARENA_MID_SIZE / sizeof(*mem);

	(void)arg;
	while (!atomic_load(&stop_noise)) {
		for (size_t at = 0; at < n; at += page) {
			for (size_t i = at; i < at + 64 && i < n; i++) {
				x ^= x << 13;
				x ^= x >> 7;
				x ^= x << 17;
				mem[i] = x;
			}
		}
	}
	return NULL;
}

static void start_noise(void)
{
	cr_assert_eq(pthread_create(&noise, NULL, make_noise, NULL), 0);
	noisy = true;
}

static void end_noise(void)
{
	if (!noisy)
		return;
	atomic_store(&stop_noise, true);
	pthread_join(noise, NULL);
	noisy = false;
}

/* Until the request has been answered, or the server asked. */
static void run_loop(unsigned ms)
{
	for (unsigned i = 0; i < ms && !answer.count && !fake.nsends; i++)
		lane_play_run(1);
}

/* A request with `data` bytes behind its body. */
static void ask(uint32_t opcode, const void *body, size_t len, size_t data)
{
	static char msg[1 << 17];
	struct fuse_in_header h = fs_play_header(opcode, FUSE_ROOT_ID, len + data);

	memcpy(msg, &h, sizeof(h));
	memcpy(msg + sizeof(h), body, len);
	memset(msg + sizeof(h) + len, 0x5a, data);
	answer.count = 0;
	fake.nsends = 0;
	cr_assert_eq(send(device, msg, h.len, 0), (ssize_t)h.len);
	run_loop(opcode == FUSE_BATCH_FORGET ? 5 : 2000);
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };
	static const struct nfs_attr attr = { .mode = S_IFREG | 0644, .size = 1 << 30 };

#ifdef __SANITIZE_THREAD__
	cr_skip("a race, and meant to be one");
#endif
	fs_play_start(&nfs_v3, &root, &attr);
	file = fs_play_file();
	device = fs_play_attach();
}

static void teardown(void)
{
	if (!fs.vfs.cl)
		return;
	end_noise();    /* of a test that failed */
	fs_play_detach();
	fs_play_end();
	free(file);
}

TestSuite(fs_hostile, .init = setup, .fini = teardown, .timeout = 300);

/* ---- what the server does ---- */

static uint32_t word(unsigned i)
{
	uint32_t v;

	memcpy(&v, fake.sends[0].bytes + 4 * i, 4);
	return ntohl(v);
}

static void reply(const uint32_t *w, unsigned n)
{
	uint32_t wire[64];

	for (unsigned i = 0; i < n; i++)
		wire[i] = htonl(w[i]);
	wire[0] = htonl(word(0));
	fake_complete(0);
	fake.nsends = 0;
	fake_deliver(wire, n * 4);
}
#define REPLY(...) reply((uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4)

/* ---- what lies in messages, and in front of a WRITE's data ---- */

enum { GETATTR, LOOKUP, READ, WRITE, OPS };

static void reply_op(unsigned op);

static void ask_op(unsigned op)
{
	struct fuse_getattr_in getattr = { 0 };
	struct fuse_read_in rd = { .fh = file->handle, .offset = 123456789, .size = 65536 };
	struct fuse_write_in wr = { .fh = file->handle, .offset = 987654321, .size = 70000 };

	switch (op) {
	case GETATTR:
		ask(FUSE_GETATTR, &getattr, sizeof(getattr), 0);
		/* If this machine stands still for half a second, the daemon has answered for the
		 * server (silent.c). */
		while (answer.count == 1 && fake.nsends == 1) {
			reply_op(op);
			ask(FUSE_GETATTR, &getattr, sizeof(getattr), 0);
		}
		break;
	case LOOKUP:
		ask(FUSE_LOOKUP, "a name of less than 40 bytes", 29, 0);
		break;
	case READ:
		ask(FUSE_READ, &rd, sizeof(rd), 0);
		break;
	case WRITE:
		ask(FUSE_WRITE, &wr, sizeof(wr), wr.size);
		break;
	}
	cr_assert(answer.count == 0 && fake.nsends == 1, "op %u: one RPC", op);
}

static void reply_op(unsigned op)
{
	uint32_t xid = word(0);

	switch (op) {
	case GETATTR:
		REPLY(0, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 0,
		      1, 0644, 1, 0, 0, 0, 77, 0, 77, 0, 0, 0, 1, 0, 2, 3, 0, 4, 0, 5, 0);
		cr_assert_eq(answer.error, 0);
		break;
	case LOOKUP:
		REPLY(0, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 13, 0);
		cr_assert_eq(answer.error, -EACCES);
		break;
	case READ:
		REPLY(0, 1, 16, 0, 0, 1, 1, word(7), 65536, word(9), word(10), 0, 0,
		      xid, 1, 0, 0, 0, 0, 0, 0, 65536, 0, 65536);
		cr_assert(answer.error == 0 && answer.len == 65536);
		break;
	case WRITE:
		REPLY(0, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 0, 0, 0, 70000, 2, 7, 7);
		cr_assert_eq(answer.error, 0);
		break;
	}
	cr_assert_eq(answer.count, 1);
}

/* Where the RPC message begins. */
static unsigned header_len(unsigned op)
{
	static const unsigned len[OPS] = { 28, 28, 28 + 24, 28 + 48 };

	return len[op];
}

Test(fs_hostile, requests_and_replies_are_out_of_reach)
{
	static struct fake_send want[OPS];

	for (unsigned op = 0; op < OPS; op++) {
		ask_op(op);
		want[op] = fake.sends[0];
		reply_op(op);
	}
	start_noise();
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned op = 0; op < OPS; op++) {
			unsigned at = header_len(op) + 4;       /* but for the XID */

			ask_op(op);
			cr_assert_eq(fake.sends[0].len, want[op].len);
			cr_assert_eq(memcmp(fake.sends[0].bytes + at, want[op].bytes + at,
					    want[op].len - at), 0, "op %u: what FUSE asked", op);
			reply_op(op);
		}
	}
	end_noise();
}

/* ---- what comes through memory that the server reaches ---- */

/* So many letters in the Write chunk, which somebody else may write to. Returns where. */
static char *reply_link(uint32_t len)
{
	char *chunk = (char *)(uintptr_t)((uint64_t)word(9) << 32 | word(10));

	cr_assert(word(5) == 1 && word(6) == 1 && word(8) == 4096, "a Write chunk");
	memset(chunk, 'a', len);
	return chunk;
}

static void send_link(uint32_t len)
{
	REPLY(0, 1, 16, 0, 0, 1, 1, word(7), len, word(9), word(10), 0, 0,
	      word(0), 1, 0, 0, 0, 0, 0, 0, len);
}

/* The server's bytes may have ended the connection, which is closed in the loop. */
static void reconnect(void)
{
	bool lost = !rr_is_up(lane.target.conn);

	run_loop(5);
	if (lost)
		lane_play_connect();
}

/* Long arguments, and text in a chunk: whatever their bytes, there is one answer. */
Test(fs_hostile, long_requests_and_replies)
{
	struct fuse_setattr_in setattr = { .valid = FATTR_MODE | FATTR_UID, .mode = 0600 };
	static struct fuse_forget_one forget[3000];
	static const char name[250] = { [0 ... 248] = 'n' };
	struct fuse_batch_forget_in count = { .count = 3000 };
	static char body[sizeof(count) + sizeof(forget)];

	memcpy(body, &count, sizeof(count));
	start_noise();
	for (unsigned i = 0; i < ROUNDS / 3; i++) {
		ask(FUSE_SETATTR, &setattr, sizeof(setattr), 0);
		if (fake.nsends)
			REPLY(0, 1, 16, 0, 0, 0, 0, word(0), 1, 0, 0, 0, 0, 13, 0, 0);
		cr_assert_eq(answer.count, 1);
		ask(FUSE_LOOKUP, name, sizeof(name), 0);
		if (fake.nsends)
			REPLY(0, 1, 16, 0, 0, 0, 0, word(0), 1, 0, 0, 0, 0, 13, 0);
		cr_assert_eq(answer.count, 1);
		ask(FUSE_READLINK, "", 0, 0);
		for (unsigned tries = 0; tries < 4 && !answer.count; tries++) {
			reply_link(200);
			send_link(200);
			reconnect();
		}
		cr_assert_eq(answer.count, 1);
		if (i % 10 == 0) {
			uint64_t had = stat_get(&lane.stats, STAT_FUSE_REQUESTS);

			ask(FUSE_BATCH_FORGET, body, sizeof(body), 0);
			for (unsigned n = 0; n < 400 && had == stat_get(&lane.stats, STAT_FUSE_REQUESTS); n++)
				run_loop(5);
			cr_assert_eq(answer.count, 0);
		}
	}
	end_noise();
	cr_assert_geq(atomic_load(&fs.root->refs), 1);
}

/* What the kernel cannot take, or would take for another link, is an error. */
Test(fs_hostile, texts_of_links)
{
	static const uint32_t lens[] = { 0, 1, 4095, 4096 };

	for (unsigned i = 0; i < 4; i++) {
		ask(FUSE_READLINK, "", 0, 0);
		reply_link(lens[i]);
		send_link(lens[i]);
		cr_assert(answer.count == 1 && answer.error == (i == 3 ? -ENAMETOOLONG : 0));
		cr_assert(i == 3 || (answer.len == lens[i] && strspn(answer.data, "a") >= lens[i]));
	}
	ask(FUSE_READLINK, "", 0, 0);
	reply_link(300)[299] = '\0';
	send_link(300);
	cr_assert(answer.count == 1 && answer.error == -EIO);
}

/* ---- no memory ---- */

/* Nothing of that size, nor of less, can be had any more. */
static void use_up(size_t size)
{
	struct rlimit none = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };

	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	while (malloc(size))
		;
}

/* A request that is longer than the lane has room for is answered all the same. */
Test(fs_hostile, no_memory_for_a_long_request)
{
	struct fuse_setxattr_in in = { .size = 100000 };
	struct rlimit all = { .rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY };
	struct fuse_out_header out = { 0 };
	ssize_t n;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	cr_skip("memory does not end here");
#endif
	use_up(50000);
	ask(FUSE_SETXATTR, &in, sizeof(in), 100000);
	setrlimit(RLIMIT_AS, &all);
	n = recv(device, &out, sizeof(out), MSG_DONTWAIT);
	cr_assert_eq(n, (ssize_t)sizeof(out), "no answer");
	cr_assert(out.error == -ENOMEM && out.len == sizeof(out) && out.unique);
	use_up(50000);
	ask(FUSE_BATCH_FORGET, &in, sizeof(in), 100000);
	setrlimit(RLIMIT_AS, &all);
	cr_assert_lt(recv(device, &out, sizeof(out), MSG_DONTWAIT), 0, "nobody waits for that");
}
