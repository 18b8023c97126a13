/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memory_server [-t THREADS] [-s MIB] ADDRESS
 *
 * An NFS version 3 server over the user-space iWARP provider, and over TCP for reads, that has one
 * file in one directory, "data", and all of it in memory. It answers as fast as memory can be copied, so
 * what a mount of it does is the client's own doing. tests/bench/lanes uses it.
 *
 *     client ---- iWARP, port 20049 ---- a thread's loop: decode, RDMA Write or Read, reply
 *            ---- TCP, port 20048 ------ MOUNT (mountport=20048) and NFS (memory_tcp.c)
 *
 * With THREADS above 1 the connections are dealt out to so many threads in turn. Reads and
 * writes are really done. Whoever writes and reads the same bytes on two threads gets what
 * memory gives: this is no server to keep data in.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fabric/fabric.h"
#include "memory_server.h"
#include "rpcrdma/header.h"
#include "rpcrdma/pdata.h"

#define CREDITS     128u                /* the most that a client asks for */
#define SLOTS       (2 * CREDITS)
#define INLINE      4096u
#define THREADS_MAX 16u
#define RDMA_PORT   20049u

/* A call and its answer. The receive is posted again when the answer has left. */
struct slot {
	struct peer *peer;
	uint8_t in[INLINE], out[INLINE];
	struct rr_header h;
	uint32_t xid;
	unsigned reads_left;            /* RDMA Reads of a WRITE */
	struct WRITE3args write;
};

struct peer {
	struct fab_conn *c;
	struct loop *loop;
	struct loop_msg arrives;
	struct fab_mr mr;               /* the file */
	bool inval;                     /* the client knows Send With Invalidate */
	struct slot slots[SLOTS];
};

static const struct fabric *const fab = &fabric_iwarp;
static struct loop *loops[THREADS_MAX];
static unsigned threads = 1, npeers;

uint8_t *memory_file;
size_t memory_size = 64u << 20;

_Noreturn void memory_die(const char *what)
{
	fprintf(stderr, "memory_server: %s\n", what);
	exit(1);
}

static void must(int err, const char *what)
{
	if (err) {
		fprintf(stderr, "memory_server: %s: %s\n", what, strerror(-err));
		exit(1);
	}
}

/* Sends the data ahead of the reply; sets the lengths in h's Write chunk. */
static bool_t read3(struct slot *s, XDR *in, XDR *out)
{
	struct rr_header *h = &s->h;
	struct fab_sge sge = { .lkey = s->peer->mr.lkey };
	READ3args a;

	if (!memory_read_args(in, &a) || h->nwrites != 1 || h->writes[0].nseg != 1 || h->writes[0].seg[0].length < a.count)
		return FALSE;
	sge.mem = memory_file + a.offset;
	sge.len = a.count;
	if (a.count)
		must(fab->post_write(s->peer->c, &sge, 1, h->writes[0].seg[0].handle,
				     h->writes[0].seg[0].offset, NULL), "post_write");
	h->writes[0].seg[0].length = a.count;
	return memory_read_result(out, &a);
}

static bool_t written(const struct slot *s, XDR *out)
{
	WRITE3res r = { .WRITE3res_u.resok = {
		.file_wcc.after = memory_attr(MEMORY_DATA), .count = s->write.count, .committed = FILE_SYNC,
	} };

	return xdr_WRITE3res(out, &r);
}

/* ---- a call and its answer ---- */

static void answer(struct slot *s, uint32_t len)
{
	struct peer *p = s->peer;
	const struct rr_header *h = &s->h;
	struct fab_sge sge = { .mem = s->out, .len = len };

	if (p->inval && h->nwrites)
		must(fab->post_send_inv(p->c, &sge, 1, h->writes[0].seg[0].handle, s), "post_send_inv");
	else if (p->inval && h->nreads)
		must(fab->post_send_inv(p->c, &sge, 1, h->reads[0].seg.handle, s), "post_send_inv");
	else
		must(fab->post_send(p->c, &sge, 1, s), "post_send");
}

/* Where the RPC reply goes: behind the transport header, whose length it knows. */
static uint32_t reply_at(const struct rr_header *h)
{
	return RR_HDR_MIN + (h->nwrites ? 8 + RR_SEG_BYTES : 0);
}

static void finish(struct slot *s, XDR *x)
{
	struct rr_header h;
	uint32_t len = reply_at(&s->h) + xdr_getpos(x);

	rr_header_init(&h, s->h.xid, s->h.credit);
	h.nwrites = s->h.nwrites;
	h.writes[0] = s->h.writes[0];
	if (rr_header_encode(&h, s->out, INLINE) != (int)reply_at(&s->h))
		memory_die("a header of another length");
	answer(s, len);
}

static bool_t begin(struct slot *s, XDR *x, uint32_t accept_stat)
{
	uint32_t head[] = { s->xid, 1, 0, 0, 0, accept_stat };
	uint32_t at = reply_at(&s->h);

	xdr_msg_create(x, s->out + at, INLINE - at, XDR_ENCODE);
	return memory_put_words(x, head, sizeof(head) / sizeof(head[0]));
}

static void write_done(struct slot *s)
{
	XDR out;

	if (!begin(s, &out, 0) || !written(s, &out))
		memory_die("a reply has no room");
	finish(s, &out);
}

/* The data lands where it belongs. */
static bool_t write3(struct slot *s, XDR *in)
{
	struct rr_header *h = &s->h;
	struct WRITE3args *a = &s->write;
	struct fab_sge sge = { .lkey = s->peer->mr.lkey };

	a->data = (nfs_bulk){ .max = MEMORY_IO_MAX, .placed = h->nreads != 0 };
	if (!xdr_WRITE3args(in, a) || a->data.len != a->count || a->offset > memory_size ||
	    a->count > memory_size - a->offset)
		return FALSE;
	if (!h->nreads) {
		memcpy(memory_file + a->offset, a->data.data, a->count);
		write_done(s);
		return TRUE;
	}
	sge.mem = memory_file + a->offset;
	s->reads_left = h->nreads;
	for (uint32_t i = 0, left = a->count; i < h->nreads; i++) {
		sge.len = h->reads[i].seg.length < left ? h->reads[i].seg.length : left;
		left -= sge.len;
		must(fab->post_read(s->peer->c, &sge, h->reads[i].seg.handle, h->reads[i].seg.offset, s),
		     "post_read");
		sge.mem = (uint8_t *)sge.mem + sge.len;
	}
	return TRUE;
}

static void on_recv(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey)
{
	struct slot *s = cookie;
	uint32_t w[6];
	XDR in, out;
	int at;

	(void)ctx, (void)invalidated, (void)rkey;
	at = rr_header_decode(&s->h, s->in, len);
	if (at < 0 || s->h.proc != RR_MSG)
		memory_die("a message that is not RDMA_MSG");
	xdr_msg_create(&in, s->in + at, len - (uint32_t)at, XDR_DECODE);
	if (!memory_call_header(&in, w))
		memory_die("a message that is not a call");
	s->xid = w[0];
	if (w[3] == NFS_PROGRAM && w[5] == NFSPROC3_WRITE) {
		if (!write3(s, &in))
			memory_die("a WRITE that is malformed, or outside the file");
		return;
	}
	if (!begin(s, &out, 0) || !(w[5] == NFSPROC3_READ ? read3(s, &in, &out) : memory_execute(w[5], &in, &out))) {
		for (uint32_t i = 0; i < s->h.nwrites; i++)
			s->h.writes[i].seg[0].length = 0;
		begin(s, &out, PROC_UNAVAIL);
	}
	finish(s, &out);
}

/* ---- connections ---- */

static void post_recv(struct slot *s)
{
	must(fab->post_recv(s->peer->c, &(struct fab_sge){ .mem = s->in, .len = INLINE }, s), "post_recv");
}

static void on_sent(void *ctx, void *cookie)
{
	(void)ctx;
	post_recv(cookie);
}

static void on_written(void *ctx, void *cookie)
{
	(void)ctx, (void)cookie;
}

static void on_read(void *ctx, void *cookie)
{
	struct slot *s = cookie;

	(void)ctx;
	if (!--s->reads_left)
		write_done(s);
}

static void on_down(void *ctx, int err, const char *why)
{
	struct peer *p = ctx;

	(void)err, (void)why;
	fab->close(p->c);
	free(p);
}

static const struct fab_events events = {
	.recv = on_recv, .sent = on_sent, .written = on_written, .read = on_read, .down = on_down,
};

/* On the loop that the connection belongs to. */
static void on_arrives(struct loop_msg *m)
{
	struct peer *p = container_of(m, struct peer, arrives);
	struct rr_pdata ours = { .remote_inval = true, .send_size = INLINE, .recv_size = INLINE };
	uint8_t priv[RR_PDATA_BYTES];
	struct errbuf eb = { "" };

	must(fab->reg(p->c, memory_file, memory_size, 0, &p->mr, &eb), "reg");
	for (unsigned i = 0; i < SLOTS; i++) {
		p->slots[i].peer = p;
		post_recv(&p->slots[i]);
	}
	rr_pdata_encode(&ours, priv);
	must(fab->accept(p->c, priv, sizeof(priv), &eb), "accept");
	must(fab->attach(p->c, p->loop, &events, p), "attach");
}

static void on_request(void *ctx, struct fab_conn *c, const void *priv, size_t len)
{
	struct peer *p = calloc(1, sizeof(*p));
	struct rr_pdata theirs;

	(void)ctx;
	if (!p)
		memory_die("no memory");
	rr_pdata_decode(&theirs, priv, len);
	p->c = c;
	p->inval = theirs.remote_inval;
	p->loop = loops[npeers++ % threads];
	p->arrives.fn = on_arrives;
	loop_post(p->loop, &p->arrives);
}

/* ---- the program ---- */

static void *loop_main(void *arg)
{
	must(loop_run(arg), "loop");
	return NULL;
}

static void options(int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "t:s:")) != -1) {
		if (opt == 't')
			threads = (unsigned)strtoul(optarg, NULL, 0);
		else if (opt == 's')
			memory_size = (size_t)strtoul(optarg, NULL, 0) << 20;
		else
			exit(2);
	}
	if (!threads || threads > THREADS_MAX || !memory_size || optind != argc - 1)
		memory_die("usage: memory_server [-t THREADS] [-s MIB] ADDRESS");
}

int main(int argc, char **argv)
{
	static const struct fab_listen_events listen_events = { .request = on_request };
	struct fab_params params = { .max_send = 2 * SLOTS, .max_recv = SLOTS, .timeout_ms = 5000 };
	struct sockaddr_in *in = (struct sockaddr_in *)&params.local;
	struct fab_listener *listener;
	struct errbuf eb = { "" };
	pthread_t t;

	options(argc, argv);
	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(RDMA_PORT) };
	if (inet_pton(AF_INET, argv[optind], &in->sin_addr) != 1)
		memory_die("not an address");
	memory_file = mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory_file == MAP_FAILED)
		memory_die("no memory");
	for (unsigned i = 0; i < threads; i++) {
		loops[i] = loop_new(NULL);
		if (!loops[i])
			memory_die("no loop");
	}
	memory_tcp(in->sin_addr);
	if (fab->listen(&params, loops[0], &listen_events, NULL, &listener, &eb))
		memory_die(eb.text);
	for (unsigned i = 1; i < threads; i++)
		must(pthread_create(&t, NULL, loop_main, loops[i]), "pthread_create");
	puts("ready");
	fflush(stdout);
	loop_main(loops[0]);
	return 0;
}
