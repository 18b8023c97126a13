/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The TCP half of a pair: sends and receives records (RFC 5531, section 11) and never
 * waits.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "gateway/gateway.h"

/* Reads in a row before other connections get their turn. */
#define BATCH 16u
#define LAST_FRAGMENT 0x80000000u

/* The server's connection is unusable. */
static void broke(struct gw_pair *p, const char *why)
{
	tcp_close(p);
	pair_end(p, why);
}

/* ---- out ---- */

static void want_write(struct gw_pair *p, bool on)
{
	if (p->tcp_full == on)
		return;
	p->tcp_full = on;
	loop_rewatch(p->gw->loop, &p->tcp, EPOLLIN | (on ? EPOLLOUT : 0u));
}

/*
 * Has the client gone? It may have sent the call again by a way that does not lead through here,
 * have its answer, and have written since, while we stood still or the server took nothing. The
 * server does not know a version 3 call again, and an old WRITE would undo a newer one. So this is
 * asked as late as can be.
 */
static bool is_given_up(const struct gw_call *k)
{
	struct gw_pair *p = k->pair;

	if (k->call_sent || k->late || !drc_runs(k))
		return false;
	if (!p->ended)
		p->fab->look(p->conn);
	return p->ended;
}

void tcp_withdraw(struct gw_call *k)
{
	if (!k->passed || k->call_sent || k->late)
		return;
	log_debug("connection %u: call %lu, XID %08x, is not passed on: its client has gone",
		  k->pair->id, k->number, k->xid);
	list_del(&k->out_node);
	k->passed = false;
	drc_gone(k);
}

/* Writes what is left of a record with its mark. true: all of it is written. */
static bool write_record(struct gw_pair *p, const char *mem, uint32_t total, uint32_t *sent)
{
	ssize_t n;

	while (*sent < total) {
		n = send(p->tcp.fd, mem + *sent, total - *sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			want_write(p, true);
			return false;
		}
		if (n < 0) {
			broke(p, "the NFS server's connection broke");
			return false;
		}
		*sent += (uint32_t)n;
	}
	return true;
}

static bool write_back(struct gw_pair *p)
{
	struct gw_back *b = container_of(p->back.out.next, struct gw_back, node);
	bool all = write_record(p, b->mem, GW_MARK + b->len, &b->sent);

	if (all)
		back_drop(p, b);
	return all;
}

static bool write_call(struct gw_pair *p, struct gw_call *k)
{
	if (is_given_up(k)) {
		tcp_withdraw(k);
		return true;
	}
	if (!write_record(p, k->call->mem, GW_MARK + k->call_len, &k->call_sent))
		return false;
	list_del(&k->out_node);
	pair_buf_put(p, k->call);
	k->call = NULL;
	pair_call_done(k);
	return true;
}

/* What the server waits for goes first, but not into the middle of a call. */
static void write_out(struct gw_pair *p)
{
	bool all = true;

	while (all && p->tcp.fd >= 0) {
		struct gw_call *k = list_empty(&p->out) ? NULL :
				    container_of(p->out.next, struct gw_call, out_node);

		if (!list_empty(&p->back.out) && !(k && k->call_sent))
			all = write_back(p);
		else if (k)
			all = write_call(p, k);
		else
			break;
	}
	if (all)
		want_write(p, false);
}

static void put_mark(char *mem, uint32_t len)
{
	uint32_t mark = LAST_FRAGMENT | len;

	for (unsigned i = 0; i < GW_MARK; i++)
		mem[i] = (char)(mark >> (24 - 8 * i));
}

void tcp_send_back(struct gw_pair *p, struct gw_back *b)
{
	put_mark(b->mem, b->len);
	if (p->tcp_ready)
		write_out(p);
}

void tcp_send(struct gw_call *k)
{
	struct gw_pair *p = k->pair;

	put_mark(k->call->mem, k->call_len);
	k->call_sent = 0;
	k->passed = true;
	list_add_tail(&p->out, &k->out_node);
	if (p->tcp_ready && p->out.next == &k->out_node)
		write_out(p);
}

/* ---- in ---- */

/* Makes room for a record of so many bytes, of which some may be here. */
static bool make_room(struct gw_pair *p, uint64_t len)
{
	struct gw_record_in *in = &p->in;
	struct gw_buf *b;

	if (in->buf && gw_buf_size(len) <= in->buf->size)
		return true;
	b = pair_buf(p, gw_buf_size(len));
	if (b && in->buf) {
		memcpy(b->mem + GW_MARK, in->buf->mem + GW_MARK, in->have);
		pair_buf_put(p, in->buf);
	}
	in->buf = b ? b : in->buf;
	return b;
}

/* A mark is complete. false: the pair has ended. */
static bool begin_fragment(struct gw_pair *p)
{
	struct gw_record_in *in = &p->in;
	uint32_t mark = gw_word((const char *)in->mark);

	in->mark_have = 0;
	in->last = mark & LAST_FRAGMENT;
	in->left = mark & ~LAST_FRAGMENT;
	if (in->left > GW_MSG_MAX - in->have) {
		broke(p, "the NFS server sends a record that is too long");
		return false;
	}
	if (!make_room(p, (uint64_t)in->have + in->left)) {
		broke(p, "no buffer for the server's record");
		return false;
	}
	return true;
}

/* The record is complete: hands it on. */
static void end_record(struct gw_pair *p)
{
	struct gw_buf *b = p->in.buf;
	uint32_t len = p->in.have;

	p->in.buf = NULL;
	p->in.have = 0;
	reply_received(p, b, len);
}

/* n bytes have come: first the rest of the fragment, then part of the next mark. */
static void took(struct gw_pair *p, uint32_t n)
{
	struct gw_record_in *in = &p->in;
	uint32_t body = n < in->left ? n : in->left;
	bool was_body = in->left > 0;

	in->have += body;
	in->left -= body;
	in->mark_have += n - body;
	if (was_body && !in->left && in->last)
		end_record(p);
	if (p->tcp.fd >= 0 && in->mark_have == GW_MARK && begin_fragment(p) && !in->left && in->last)
		end_record(p);  /* an empty one */
}

/* Reads the socket once. false: there is nothing more for now. */
static bool read_in(struct gw_pair *p)
{
	struct gw_record_in *in = &p->in;
	struct iovec iov[2];
	unsigned n = 0;
	size_t want = GW_MARK - in->mark_have;
	ssize_t got;

	if (in->left) {
		iov[n++] = (struct iovec){ in->buf->mem + GW_MARK + in->have, in->left };
		want += in->left;
	}
	iov[n++] = (struct iovec){ in->mark + in->mark_have, GW_MARK - in->mark_have };
	got = readv(p->tcp.fd, iov, (int)n);
	if (got < 0) {
		if (errno == EINTR)
			return true;
		if (errno != EAGAIN)
			broke(p, "the NFS server's connection broke");
		return false;
	}
	if (got == 0) {
		broke(p, "the NFS server closed its connection");
		return false;
	}
	took(p, (uint32_t)got);
	return (size_t)got == want;
}

/* Logged once at warning level. Every client tries again, and hears only that it was
 * refused. */
static void unreachable(struct gw_pair *p, int err)
{
	struct gateway *gw = p->gw;
	struct errbuf eb;
	char at[96];

	err_set(&eb, err, "cannot connect to the NFS server %s: %s",
		fab_addr_text(&gw->server, at, sizeof(at)), strerror(-err));
	if (!gw->unreachable)
		log_warn("%s; clients are refused until it can be reached", eb.text);
	gw->unreachable = true;
	pair_end(p, eb.text);
}

static void on_tcp(struct loop_watch *w, uint32_t revents)
{
	struct gw_pair *p = container_of(w, struct gw_pair, tcp);

	if (!p->tcp_ready) {
		int err = 0;
		socklen_t len = sizeof(err);

		if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
			err = errno;
		if (err) {
			unreachable(p, -err);
			return;
		}
		if (!(revents & EPOLLOUT))
			return;
		p->gw->unreachable = false;
		p->tcp_ready = true;
		p->tcp_full = true;     /* EPOLLOUT is registered already */
		pair_accept(p);
		if (p->ended)
			return;
	}
	if (revents & EPOLLOUT)
		write_out(p);
	for (unsigned i = 0; i < BATCH && p->tcp.fd >= 0; i++)
		if (!read_in(p))
			break;
}

/* ---- life ---- */

static int start_connect(struct gw_pair *p)
{
	const struct sockaddr_storage *to = &p->gw->server;
	int one = 1, rc;
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 && errno != EINPROGRESS) {
		rc = -errno;
		close(fd);
		return rc;
	}
	p->tcp = (struct loop_watch){ .fd = fd, .events = EPOLLIN | EPOLLOUT, .fn = on_tcp };
	rc = loop_watch(p->gw->loop, &p->tcp);
	if (rc) {
		close(fd);
		p->tcp.fd = -1;
	}
	return rc;
}

void tcp_open(struct gw_pair *p)
{
	int rc = start_connect(p);

	if (rc)
		unreachable(p, rc);
}

void tcp_close(struct gw_pair *p)
{
	int fd = p->tcp.fd;

	if (fd < 0)
		return;
	loop_unwatch(p->gw->loop, &p->tcp);
	close(fd);
}
