/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * iwarp_bench [-c] [-m] [-w] [-1] [-s BYTES] [-d DEPTH] [-t SECONDS]
 *
 * How fast the user-space iWARP provider moves file data, and what that costs
 * each end: one connection over 127.0.0.1, a thread for each side. The active
 * side calls as an NFS client would, DEPTH calls at once; the passive side
 * answers each with an RDMA Write of BYTES and a Send, or with -w fetches them
 * with an RDMA Read first. -c: with CRC32c, -m: frames of a TCP segment.
 *
 * To compare with: iperf3 -s -1 -D; iperf3 -c 127.0.0.1 -l 1M
 * That has one buffer at each end, which stays in the cache; -1 does the same.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fabric/iwarp/iwarp.h"

#define DEPTH_MAX 64
#define MSG       256u

struct call {
	uint32_t slot, rkey;
};

struct side {
	struct loop *loop;
	struct fab_conn *c;
	uint8_t *mem;                   /* DEPTH_MAX times `size` */
	uint8_t in[DEPTH_MAX][MSG], msg[DEPTH_MAX][sizeof(struct call)];
	struct fab_mr mr;
	struct iw_stats stats;
	double cpu;                     /* seconds, of which in the kernel: */
	double sys;
};

static const struct fabric *const fab = &fabric_iwarp;
static struct side active, passive;
static struct fab_listener *listener;
static unsigned size = 1 << 20, depth = 8, seconds = 5;
static bool writes, one_buffer;
static uint64_t calls;
static uint64_t until;

static void die(const char *what)
{
	fprintf(stderr, "iwarp_bench: %s\n", what);
	exit(1);
}

static void must(int err, const char *what)
{
	if (err)
		die(what);
}

/* Where a call's data is, at both ends. */
static uint64_t place(uint32_t slot)
{
	return one_buffer ? 0 : (uint64_t)slot * size;
}

static void recv_again(struct side *s, void *cookie)
{
	must(fab->post_recv(s->c, &(struct fab_sge){ .mem = cookie, .len = MSG }, cookie),
	     "post_recv");
}

static void sent(void *ctx, void *cookie)
{
	(void)ctx, (void)cookie;
}

static void down(void *ctx, int err, const char *why)
{
	struct side *s = ctx;

	(void)err;
	if (s == &active)
		die(why);
	loop_stop(s->loop);
}

/* ---- The passive side: a server's data path ---- */

static void reply(uint32_t slot)
{
	struct fab_sge sge = { .mem = passive.msg[slot], .len = sizeof(struct call) };

	must(fab->post_send(passive.c, &sge, 1, NULL), "post_send");
}

static void fetched(void *ctx, void *cookie)
{
	(void)ctx;
	reply((uint32_t)(uintptr_t)cookie);
}

static void serve(void *ctx, void *cookie, uint32_t len, bool inval, uint32_t rkey)
{
	struct fab_sge sge = { .len = size, .lkey = passive.mr.lkey };
	struct call call;

	(void)ctx, (void)len, (void)inval, (void)rkey;
	memcpy(&call, cookie, sizeof(call));
	recv_again(&passive, cookie);
	memcpy(passive.msg[call.slot], &call, sizeof(call));
	sge.mem = passive.mem + place(call.slot);
	if (writes) {
		must(fab->post_read(passive.c, &sge, call.rkey, place(call.slot),
				    (void *)(uintptr_t)call.slot), "post_read");
		return;
	}
	must(fab->post_write(passive.c, &sge, 1, call.rkey, place(call.slot), NULL),
	     "post_write");
	reply(call.slot);
}

static const struct fab_events passive_events = {
	.recv = serve, .sent = sent, .written = sent, .read = fetched, .down = down,
};

static struct fab_mr prepare(struct side *s, struct fab_conn *c, unsigned rights)
{
	struct errbuf eb;

	s->c = c;
	must(fab->reg(c, s->mem, (size_t)DEPTH_MAX * size, rights, &s->mr, &eb), "reg");
	for (int i = 0; i < DEPTH_MAX; i++)
		recv_again(s, s->in[i]);
	return s->mr;
}

static void request(void *ctx, struct fab_conn *c, const void *priv, size_t len)
{
	struct errbuf eb;

	(void)ctx, (void)priv, (void)len;
	prepare(&passive, c, 0);
	must(fab->accept(c, NULL, 0, &eb), "accept");
	must(fab->attach(c, passive.loop, &passive_events, &passive), "attach");
}

/* ---- The active side: a client with `depth` calls under way ---- */

static void call(uint32_t slot)
{
	struct call msg = { .slot = slot, .rkey = active.mr.rkey };
	struct fab_sge sge = { .mem = active.msg[slot], .len = sizeof(msg) };

	memcpy(active.msg[slot], &msg, sizeof(msg));
	must(fab->post_send(active.c, &sge, 1, NULL), "post_send");
}

static void replied(void *ctx, void *cookie, uint32_t len, bool inval, uint32_t rkey)
{
	struct call msg;

	(void)ctx, (void)len, (void)inval, (void)rkey;
	memcpy(&msg, cookie, sizeof(msg));
	recv_again(&active, cookie);
	calls++;
	if (mono_ns() < until)
		call(msg.slot);
	else if (!--depth)
		loop_stop(active.loop);
}

static const struct fab_events active_events = {
	.recv = replied, .sent = sent, .written = sent, .read = sent, .down = down,
};

/* ---- Both ---- */

static void cpu_of_thread(struct side *s)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	s->sys = (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec / 1e6;
	s->cpu = s->sys + (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec / 1e6;
	s->stats = s->c->stats;
}

static void *passive_main(void *arg)
{
	(void)arg;
	loop_run(passive.loop);
	cpu_of_thread(&passive);
	fab->close(passive.c);
	return NULL;
}

static void print_side(const char *name, const struct side *s, double gib)
{
	const struct iw_stats *st = &s->stats;

	printf("%-8s %.3f CPU s/GiB (%.3f in the kernel), per MiB %.1f sends, %.1f receives\n", name,
	       s->cpu / gib, s->sys / gib, (double)st->send_calls / gib / 1024,
	       (double)st->recv_calls / gib / 1024);
	if (st->rx_placed + st->rx_copied)
		printf("%-8s %.2f %% of the payload received in place\n", "",
		       100.0 * (double)st->rx_placed / (double)(st->rx_placed + st->rx_copied));
}

static void *memory(void)
{
	void *p = mmap(NULL, (size_t)DEPTH_MAX * size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int main(int argc, char **argv)
{
	static const struct fab_listen_events listen_events = { .request = request };
	struct fab_params params = {
		.max_send = 2 * DEPTH_MAX, .max_recv = DEPTH_MAX, .timeout_ms = 5000,
	};
	struct sockaddr_in *in = (struct sockaddr_in *)&params.local;
	uint8_t priv[FAB_PRIV_RECV_MAX];
	unsigned slots;
	struct fab_conn *c;
	struct errbuf eb;
	uint64_t start;
	pthread_t t;
	double s, gib;
	size_t len;
	int opt;

	while ((opt = getopt(argc, argv, "cmw1s:d:t:")) != -1) {
		switch (opt) {
		case 'c': params.flags |= FAB_CRC; break;
		case 'm': params.flags |= FAB_MSS_FPDU; break;
		case 'w': writes = true; break;
		case '1': one_buffer = true; break;
		case 's': size = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'd': depth = (unsigned)strtoul(optarg, NULL, 0); break;
		case 't': seconds = (unsigned)strtoul(optarg, NULL, 0); break;
		default: return 2;
		}
	}
	if (!size || size > 16 << 20 || !depth || depth > DEPTH_MAX)
		die("up to 16 MiB and a depth of 64");
	active.mem = memory();
	passive.mem = memory();
	active.loop = loop_new(NULL);
	passive.loop = loop_new(NULL);
	if (!active.mem || !passive.mem || !active.loop || !passive.loop)
		die("no memory");
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(fab->listen(&params, passive.loop, &listen_events, NULL, &listener, &eb), "listen");
	fab->listen_addr(listener, &params.server);
	must(pthread_create(&t, NULL, passive_main, NULL), "pthread_create");
	memset(&params.local, 0, sizeof(params.local));
	must(fab->open(&params, &c, &eb), "open");
	prepare(&active, c, FAB_REMOTE_READ | FAB_REMOTE_WRITE);
	if (fab->connect(c, NULL, 0, priv, &len, &eb))
		die(eb.text);
	must(fab->attach(c, active.loop, &active_events, &active), "attach");

	start = mono_ns();
	until = start + seconds * 1000000000ull;
	slots = depth;
	for (unsigned i = 0; i < slots; i++)
		call(i);
	loop_run(active.loop);
	s = (double)(mono_ns() - start) / 1e9;
	cpu_of_thread(&active);
	fab->close(c);
	pthread_join(t, NULL);
	fab->unlisten(listener);
	loop_free(active.loop);
	loop_free(passive.loop);

	gib = (double)calls * size / (1 << 30);
	printf("%s of %u bytes, %u at once: %.0f MB/s, %.0f per second\n",
	       writes ? "RDMA Reads" : "RDMA Writes", size, slots,
	       (double)calls * size / 1e6 / s, (double)calls / s);
	print_side("active", &active, gib);
	print_side("passive", &passive, gib);
	return 0;
}
