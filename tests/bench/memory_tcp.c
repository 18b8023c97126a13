/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memory_server over TCP: MOUNT, and NFS without WRITE, for clients that this one is compared with. A
 * thread for each connection. It takes all calls that have come, and answers them by one system call; data
 * goes from the file, without a copy of ours.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "memory_server.h"

#define TCP_PORT 20048u
#define LAST_FRAGMENT 0x80000000u

enum {
	CALLS = 64,             /* answered together */
	IN = 64 * 1024,
	HEAD = 512,             /* an answer without its data */
};

struct answer {
	uint8_t head[HEAD];     /* record mark first */
	uint32_t len;
};

struct tcp {
	int fd;
	uint8_t in[IN];
	size_t have;            /* bytes in there */
	struct answer answer[CALLS];
	struct iovec iov[3 * CALLS];
	int niov;
};

/* ---- one call ---- */

static bool_t tcp_mount(uint32_t proc, XDR *out)
{
	static const uint32_t root = MEMORY_ROOT;
	int sys = 1;
	mountres3 res = { .fhs_status = MNT3_OK, .mountres3_u.mountinfo = {
		.fhandle = memory_fh(&root), .auth_flavors = { 1, &sys },
	} };

	switch (proc) {
	case MOUNTPROC3_MNT:
		return xdr_mountres3(out, &res);
	case MOUNTPROC3_EXPORT: /* libnfs asks: "/", for everybody */
		return memory_put_words(out, (const uint32_t[]){ 1, 1, 0x2f000000, 0, 0 }, 5);
	default:
		return TRUE;
	}
}

static void tcp_add(struct tcp *t, const void *mem, size_t len)
{
	if (len)
		t->iov[t->niov++] = (struct iovec){ (void *)(uintptr_t)mem, len };
}

/* The answer to w's call. read: what it reads; its count is 0 if it does not. */
static bool_t tcp_execute(const uint32_t w[6], XDR *in, XDR *out, READ3args *read)
{
	read->count = 0;
	if (w[3] == MOUNT_PROGRAM)
		return tcp_mount(w[5], out);
	if (w[5] == NFSPROC3_READ)
		return memory_read_args(in, read) && memory_read_result(out, read);
	return memory_execute(w[5], in, out);
}

static void tcp_call(struct tcp *t, struct answer *a, uint8_t *call, uint32_t len)
{
	static const uint8_t pad[4];
	uint32_t w[6], mark;
	READ3args read;
	XDR in, out;

	xdr_msg_create(&in, call, len, XDR_DECODE);
	if (!memory_call_header(&in, w))
		memory_die("a message over TCP that is not a call");
	xdr_msg_create(&out, a->head + 4, HEAD - 4, XDR_ENCODE);
	memory_put_words(&out, (const uint32_t[]){ w[0], 1, 0, 0, 0, 0 }, 6);
	if (!tcp_execute(w, &in, &out, &read)) {
		xdr_msg_create(&out, a->head + 4, HEAD - 4, XDR_ENCODE);
		memory_put_words(&out, (const uint32_t[]){ w[0], 1, 0, 0, 0, PROC_UNAVAIL }, 6);
		read.count = 0;
	}
	a->len = xdr_getpos(&out);
	mark = htonl(LAST_FRAGMENT | (a->len + ((read.count + 3) & ~3u)));
	memcpy(a->head, &mark, 4);
	tcp_add(t, a->head, 4 + a->len);
	if (read.count) {
		tcp_add(t, memory_file + read.offset, read.count);
		tcp_add(t, pad, -read.count & 3);
	}
}

/* ---- a connection ---- */

static bool tcp_send(struct tcp *t)
{
	struct iovec *iov = t->iov;

	while (t->niov) {
		struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)t->niov };
		ssize_t n = sendmsg(t->fd, &m, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		for (; t->niov && (size_t)n >= iov->iov_len; t->niov--)
			n -= (ssize_t)(iov++)->iov_len;
		if (t->niov) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return true;
}

/* Answers the calls that are there as a whole, up to CALLS of them. How many; -1: the connection is over. */
static int tcp_answer(struct tcp *t)
{
	size_t at = 0;
	unsigned n;

	t->niov = 0;
	for (n = 0; n < CALLS && t->have - at >= 4; n++) {
		uint32_t mark;

		memcpy(&mark, t->in + at, 4);
		mark = ntohl(mark);
		if (!(mark & LAST_FRAGMENT) || (mark & ~LAST_FRAGMENT) > IN - 4)
			return -1;
		mark &= ~LAST_FRAGMENT;
		if (t->have - at - 4 < mark)
			break;
		tcp_call(t, &t->answer[n], t->in + at + 4, mark);
		at += 4 + mark;
	}
	t->have -= at;
	memmove(t->in, t->in + at, t->have);
	return tcp_send(t) ? (int)n : -1;
}

static void *tcp_main(void *arg)
{
	struct tcp *t = arg;
	int answered = 0, on = 1;
	ssize_t n;

	setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	while (answered >= 0 && (n = recv(t->fd, t->in + t->have, IN - t->have, 0)) > 0) {
		t->have += (size_t)n;
		do
			answered = tcp_answer(t);
		while (answered == CALLS);
	}
	close(t->fd);
	free(t);
	return NULL;
}

/* ---- the listener ---- */

static void *tcp_accept(void *arg)
{
	int listener = (int)(intptr_t)arg;

	for (;;) {
		struct tcp *t = calloc(1, sizeof(*t));
		pthread_t thread;

		if (!t)
			memory_die("no memory for a connection");
		t->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (t->fd < 0)
			memory_die("no further connection can be accepted");
		if (pthread_create(&thread, NULL, tcp_main, t))
			memory_die("no thread for a connection");
		pthread_detach(thread);
	}
	return NULL;
}

void memory_tcp(struct in_addr address)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(TCP_PORT), .sin_addr = address };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	pthread_t thread;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 8) < 0)
		memory_die("cannot listen for MOUNT and NFS over TCP");
	if (pthread_create(&thread, NULL, tcp_accept, (void *)(intptr_t)fd))
		memory_die("no thread");
}
