/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memory_server [-t THREADS] [-s MIB] ADDRESS
 *
 * An NFS version 3 server over the user-space iWARP provider that has one file in one
 * directory, "data", and all of it in memory. It answers as fast as memory can be copied, so
 * what a mount of it does is the client's own doing. tests/bench/lanes uses it.
 *
 *     client ---- iWARP, port 20049 ---- a thread's loop: decode, RDMA Write or Read, reply
 *            ---- TCP, port 20048 ------ MOUNT (mountport=20048), one peer at a time
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
#include "mount3.h"
#include "nfs3.h"
#include "rpcrdma/header.h"
#include "rpcrdma/pdata.h"
#include "xdr_msg.h"

#define CREDITS     128u                /* the most that a client asks for */
#define SLOTS       (2 * CREDITS)
#define INLINE      4096u
#define THREADS_MAX 16u
#define RDMA_PORT   20049u
#define MOUNT_PORT  20048u
#define IO_MAX      (1u << 20)

enum { ROOT = 1, DATA = 2 };            /* handles and file ids */

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
static uint8_t *file;
static size_t file_size = 64u << 20;

static void die(const char *what)
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

/* ---- what NFS is asked ---- */

static fattr3 attr_of(uint32_t id)
{
	bool dir = id == ROOT;

	return (fattr3){
		.type = dir ? NF3DIR : NF3REG, .mode = dir ? 0777 : 0666, .nlink = dir ? 2 : 1,
		.size = dir ? 4096 : file_size, .used = dir ? 4096 : file_size, .fsid = 1, .fileid = id,
		.atime = { 1, 0 }, .mtime = { 1, 0 }, .ctime = { 1, 0 },
	};
}

static post_op_attr post_attr(uint32_t id)
{
	return (post_op_attr){ .attributes_follow = TRUE, .post_op_attr_u.attributes = attr_of(id) };
}

/* 0: no such file. */
static uint32_t id_of(const nfs_fh3 *fh)
{
	uint32_t id;

	if (fh->len != sizeof(id))
		return 0;
	memcpy(&id, fh->data, sizeof(id));
	return id == ROOT || id == DATA ? id : 0;
}

static nfs_fh3 fh_of(const uint32_t *id)
{
	return (nfs_fh3){ .len = sizeof(*id), .data = (const char *)id };
}

static bool_t getattr(XDR *in, XDR *out)
{
	GETATTR3args a;
	GETATTR3res r = { .status = NFS3ERR_STALE };
	uint32_t id;

	if (!xdr_GETATTR3args(in, &a))
		return FALSE;
	id = id_of(&a.object);
	if (id) {
		r.status = NFS3_OK;
		r.GETATTR3res_u.resok.obj_attributes = attr_of(id);
	}
	return xdr_GETATTR3res(out, &r);
}

static bool_t lookup(XDR *in, XDR *out)
{
	static const uint32_t data = DATA;
	static const struct nfs_ref name = { .len = 4, .data = "data" };
	LOOKUP3args a;
	LOOKUP3res r = { .status = NFS3ERR_NOENT };

	if (!xdr_LOOKUP3args(in, &a))
		return FALSE;
	r.LOOKUP3res_u.resfail.dir_attributes = post_attr(ROOT);
	if (id_of(&a.what.dir) == ROOT && nfs_ref_equal(&a.what.name, &name)) {
		r.status = NFS3_OK;
		r.LOOKUP3res_u.resok = (LOOKUP3resok){
			.object = fh_of(&data), .obj_attributes = post_attr(DATA),
			.dir_attributes = post_attr(ROOT),
		};
	}
	return xdr_LOOKUP3res(out, &r);
}

static bool_t may_access(XDR *in, XDR *out)
{
	ACCESS3args a;
	ACCESS3res r = { .status = NFS3_OK };

	if (!xdr_ACCESS3args(in, &a))
		return FALSE;
	r.ACCESS3res_u.resok = (ACCESS3resok){ .obj_attributes = post_attr(id_of(&a.object)), .access = a.access };
	return xdr_ACCESS3res(out, &r);
}

static bool_t fsinfo(XDR *out)
{
	FSINFO3res r = { .FSINFO3res_u.resok = {
		.obj_attributes = post_attr(ROOT), .rtmax = IO_MAX, .rtpref = IO_MAX, .rtmult = 4096,
		.wtmax = IO_MAX, .wtpref = IO_MAX, .wtmult = 4096, .dtpref = 32768,
		.maxfilesize = INT64_MAX, .time_delta = { 0, 1 }, .properties = FSF3_HOMOGENEOUS,
	} };

	return xdr_FSINFO3res(out, &r);
}

static bool_t fsstat(XDR *out)
{
	FSSTAT3res r = { .FSSTAT3res_u.resok = {
		.obj_attributes = post_attr(ROOT), .tbytes = file_size, .tfiles = 2,
	} };

	return xdr_FSSTAT3res(out, &r);
}

static bool_t pathconf3(XDR *out)
{
	PATHCONF3res r = { .PATHCONF3res_u.resok = {
		.obj_attributes = post_attr(ROOT), .linkmax = 1, .name_max = 255, .no_trunc = TRUE,
		.chown_restricted = TRUE, .case_preserving = TRUE,
	} };

	return xdr_PATHCONF3res(out, &r);
}

/* Reads, and sends the data ahead of the reply; sets the lengths in h's Write chunk. */
static bool_t read3(struct slot *s, XDR *in, XDR *out)
{
	struct rr_header *h = &s->h;
	READ3args a;
	READ3res r = { .status = NFS3_OK };
	struct fab_sge sge = { .lkey = s->peer->mr.lkey };

	if (!xdr_READ3args(in, &a) || a.count > IO_MAX)
		return FALSE;
	if (a.offset >= file_size)
		a.count = 0;
	else if (a.count > file_size - a.offset)
		a.count = (uint32_t)(file_size - a.offset);
	sge.mem = file + a.offset;
	sge.len = a.count;
	if (h->nwrites != 1 || h->writes[0].nseg != 1 || h->writes[0].seg[0].length < a.count)
		return FALSE;
	if (a.count)
		must(fab->post_write(s->peer->c, &sge, 1, h->writes[0].seg[0].handle,
				     h->writes[0].seg[0].offset, NULL), "post_write");
	h->writes[0].seg[0].length = a.count;
	r.READ3res_u.resok = (READ3resok){
		.file_attributes = post_attr(DATA), .count = a.count,
		.eof = a.offset + a.count >= file_size, .data.len = a.count,
	};
	return xdr_READ3res(out, &r);
}

static bool_t written(const struct slot *s, XDR *out)
{
	WRITE3res r = { .WRITE3res_u.resok = {
		.file_wcc.after = post_attr(DATA), .count = s->write.count, .committed = FILE_SYNC,
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

static bool_t put_words(XDR *x, const uint32_t *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t v = w[i];

		if (!xdr_uint32_t(x, &v))
			return FALSE;
	}
	return TRUE;
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
		die("a header of another length");
	answer(s, len);
}

static bool_t begin(struct slot *s, XDR *x, uint32_t accept_stat)
{
	uint32_t head[] = { s->xid, 1, 0, 0, 0, accept_stat };
	uint32_t at = reply_at(&s->h);

	xdr_msg_create(x, s->out + at, INLINE - at, XDR_ENCODE);
	return put_words(x, head, sizeof(head) / sizeof(head[0]));
}

static void write_done(struct slot *s)
{
	XDR out;

	if (!begin(s, &out, 0) || !written(s, &out))
		die("a reply has no room");
	finish(s, &out);
}

/* The data lands where it belongs. */
static bool_t write3(struct slot *s, XDR *in)
{
	struct rr_header *h = &s->h;
	struct WRITE3args *a = &s->write;
	struct fab_sge sge = { .lkey = s->peer->mr.lkey };

	a->data = (nfs_bulk){ .max = IO_MAX, .placed = h->nreads != 0 };
	if (!xdr_WRITE3args(in, a) || a->data.len != a->count || a->offset > file_size ||
	    a->count > file_size - a->offset)
		return FALSE;
	if (!h->nreads) {
		memcpy(file + a->offset, a->data.data, a->count);
		write_done(s);
		return TRUE;
	}
	sge.mem = file + a->offset;
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

static bool_t execute(struct slot *s, uint32_t proc, XDR *in, XDR *out)
{
	switch (proc) {
	case NFSPROC3_NULL:     return TRUE;
	case NFSPROC3_GETATTR:  return getattr(in, out);
	case NFSPROC3_LOOKUP:   return lookup(in, out);
	case NFSPROC3_ACCESS:   return may_access(in, out);
	case NFSPROC3_READ:     return read3(s, in, out);
	case NFSPROC3_FSSTAT:   return fsstat(out);
	case NFSPROC3_FSINFO:   return fsinfo(out);
	case NFSPROC3_PATHCONF: return pathconf3(out);
	default:                return FALSE;
	}
}

/* Reads a call's header; the arguments follow. xid, CALL, 2, prog, vers, proc, cred, verf. */
static bool_t call_header(XDR *in, uint32_t w[6])
{
	for (unsigned i = 0; i < 6; i++)
		if (!xdr_uint32_t(in, &w[i]))
			return FALSE;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t flavor, len;

		if (!xdr_uint32_t(in, &flavor) || !xdr_uint32_t(in, &len) || len > 400 ||
		    !xdr_setpos(in, xdr_getpos(in) + ((len + 3) & ~3u)))
			return FALSE;
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
		die("a message that is not RDMA_MSG");
	xdr_msg_create(&in, s->in + at, len - (uint32_t)at, XDR_DECODE);
	if (!call_header(&in, w))
		die("a message that is not a call");
	s->xid = w[0];
	if (w[3] == NFS_PROGRAM && w[5] == NFSPROC3_WRITE) {
		if (!write3(s, &in))
			die("a WRITE that is malformed, or outside the file");
		return;
	}
	if (!begin(s, &out, 0) || !execute(s, w[5], &in, &out)) {
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

	must(fab->reg(p->c, file, file_size, 0, &p->mr, &eb), "reg");
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
		die("no memory");
	rr_pdata_decode(&theirs, priv, len);
	p->c = c;
	p->inval = theirs.remote_inval;
	p->loop = loops[npeers++ % threads];
	p->arrives.fn = on_arrives;
	loop_post(p->loop, &p->arrives);
}

/* ---- MOUNT ---- */

static int tcp_listen(struct sockaddr_in in)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	in.sin_port = htons(MOUNT_PORT);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 8) < 0)
		die("cannot listen for MOUNT");
	return fd;
}

/* One record of one fragment: what the client sends. */
static ssize_t record(int fd, uint8_t *buf, size_t size)
{
	uint32_t mark, len;

	if (recv(fd, &mark, 4, MSG_WAITALL) != 4)
		return -1;
	len = ntohl(mark) & 0x7fffffff;
	return len <= size && recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len ? (ssize_t)len : -1;
}

static void serve_mount(int fd)
{
	static const uint32_t root = ROOT;
	int sys = 1;
	mountres3 res = { .fhs_status = MNT3_OK, .mountres3_u.mountinfo = {
		.fhandle = fh_of(&root), .auth_flavors = { 1, &sys },
	} };
	_Alignas(8) uint8_t buf[1024];
	uint32_t w[6], mark;
	ssize_t len;
	XDR x;

	while ((len = record(fd, buf, sizeof(buf))) > 0) {
		xdr_msg_create(&x, buf, (uint32_t)len, XDR_DECODE);
		if (!call_header(&x, w))
			return;
		xdr_msg_create(&x, buf + 4, sizeof(buf) - 4, XDR_ENCODE);
		put_words(&x, (const uint32_t[]){ w[0], 1, 0, 0, 0, 0 }, 6);
		if (w[5] == MOUNTPROC3_MNT)
			xdr_mountres3(&x, &res);
		mark = htonl(0x80000000 | xdr_getpos(&x));
		memcpy(buf, &mark, 4);
		if (send(fd, buf, 4 + xdr_getpos(&x), MSG_NOSIGNAL) < 0)
			return;
	}
}

static void *mount_main(void *arg)
{
	int fd = *(const int *)arg, peer;

	while ((peer = accept(fd, NULL, NULL)) >= 0) {
		serve_mount(peer);
		close(peer);
	}
	return NULL;
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
			file_size = (size_t)strtoul(optarg, NULL, 0) << 20;
		else
			exit(2);
	}
	if (!threads || threads > THREADS_MAX || !file_size || optind != argc - 1)
		die("usage: memory_server [-t THREADS] [-s MIB] ADDRESS");
}

int main(int argc, char **argv)
{
	static const struct fab_listen_events listen_events = { .request = on_request };
	struct fab_params params = { .max_send = 2 * SLOTS, .max_recv = SLOTS, .timeout_ms = 5000 };
	struct sockaddr_in *in = (struct sockaddr_in *)&params.local;
	struct fab_listener *listener;
	struct errbuf eb = { "" };
	pthread_t t;
	int fd;

	options(argc, argv);
	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(RDMA_PORT) };
	if (inet_pton(AF_INET, argv[optind], &in->sin_addr) != 1)
		die("not an address");
	file = mmap(NULL, file_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (file == MAP_FAILED)
		die("no memory");
	for (unsigned i = 0; i < threads; i++) {
		loops[i] = loop_new(NULL);
		if (!loops[i])
			die("no loop");
	}
	fd = tcp_listen(*in);
	must(pthread_create(&t, NULL, mount_main, &fd), "pthread_create");
	if (fab->listen(&params, loops[0], &listen_events, NULL, &listener, &eb))
		die(eb.text);
	for (unsigned i = 1; i < threads; i++)
		must(pthread_create(&t, NULL, loop_main, loops[i]), "pthread_create");
	puts("ready");
	fflush(stdout);
	loop_main(loops[0]);
	return 0;
}
