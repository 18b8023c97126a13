/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See rpctcp.h. One buffer serves call and reply. What rpcbind and mountd send is short, so
 * a reply that does not fit is an error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rpc/rpc.h>
#include "base/loop.h"
#include "base/sock.h"
#include "fabric/fabric.h"
#include "rpc/rpctcp.h"
#include "rpcb.h"

#define REC_MAX  65536u
#define REC_LAST 0x80000000u

struct rpctcp {
	int fd;
	const char *what;
	char addr[96];
	unsigned timeout_ms;
	bool failed;                    /* a call had no answer */
	uint32_t xid;
	/* Aligned for XDR. The record mark precedes a call. */
	uint32_t buf[REC_MAX / 4 + 1];
};

struct sockaddr_storage rpctcp_with_port(const struct sockaddr_storage *addr, unsigned port)
{
	struct sockaddr_storage ss = *addr;

	if (ss.ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)&ss)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)(void *)&ss)->sin_port = htons((uint16_t)port);
	return ss;
}

/* A reserved port is best effort: the export may be `insecure`. */
static int rpctcp_bind(int fd, int family, const struct sockaddr_storage *local)
{
	struct sockaddr_storage from = { .ss_family = (sa_family_t)family };
	bool any = !local || local->ss_family == AF_UNSPEC;

	if (!any)
		from = rpctcp_with_port(local, 0);
	if (geteuid() == 0 && bindresvport_sa(fd, (struct sockaddr *)&from) == 0)
		return 0;
	if (any)
		return 0;
	from = rpctcp_with_port(local, 0);
	return bind(fd, (struct sockaddr *)&from, sock_addr_len(&from)) ? -errno : 0;
}

int rpctcp_open(struct rpctcp **out, const struct sockaddr_storage *addr,
		const struct sockaddr_storage *local, const char *what, unsigned timeout_ms,
		struct errbuf *eb)
{
	struct rpctcp *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return err_set(eb, -ENOMEM, "out of memory");
	t->what = what;
	t->timeout_ms = timeout_ms;
	t->xid = (uint32_t)mono_ns();
	fab_addr_text(addr, t->addr, sizeof(t->addr));
	t->fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->fd < 0) {
		rc = err_set(eb, -errno, "cannot make a socket for %s: %s", what, strerror(errno));
		free(t);
		return rc;
	}
	rc = rpctcp_bind(t->fd, addr->ss_family, local);
	if (!rc)
		rc = sock_connect(t->fd, addr, mono_ns() + timeout_ms * 1000000ull);
	if (rc) {
		err_set(eb, rc, "cannot reach %s at %s: %s; is it running, and does a firewall let TCP through?",
			what, t->addr, strerror(-rc));
		rpctcp_close(t);
		return rc;
	}
	*out = t;
	return 0;
}

void rpctcp_local(const struct rpctcp *t, struct sockaddr_storage *out)
{
	socklen_t len = sizeof(*out);

	if (getsockname(t->fd, (struct sockaddr *)out, &len))
		out->ss_family = AF_UNSPEC;
}

void rpctcp_set_timeout(struct rpctcp *t, unsigned timeout_ms)
{
	t->timeout_ms = timeout_ms;
}

void rpctcp_break(struct rpctcp *t)
{
	shutdown(t->fd, SHUT_RDWR);
}

void rpctcp_close(struct rpctcp *t)
{
	const struct linger now = { .l_onoff = 1 };

	if (!t)
		return;
	/* Otherwise the kernel goes on sending it for minutes. */
	if (t->failed)
		setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(t->fd);
	free(t);
}

/* Sends or receives all of `buf`. 0 or -errno. */
static int rpctcp_transfer(struct rpctcp *t, bool out, void *buf, size_t len, uint64_t deadline)
{
	char *p = buf;

	while (len) {
		ssize_t n = out ? send(t->fd, p, len, MSG_NOSIGNAL) : recv(t->fd, p, len, 0);
		int rc = n < 0 ? -errno : n > 0 ? 0 : -ECONNRESET;

		if (rc == -EAGAIN || rc == -EINTR)
			rc = sock_wait(t->fd, out ? POLLOUT : POLLIN, deadline);
		if (rc)
			return rc;
		p += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Receives all fragments of one record into buf. Returns its length or -errno. */
static int recv_record(struct rpctcp *t, uint64_t deadline)
{
	uint32_t len = 0, mark;
	int rc;

	do {
		/* Empty fragments may come for ever. */
		if (mono_ns() >= deadline)
			return -ETIMEDOUT;
		rc = rpctcp_transfer(t, false, &mark, sizeof(mark), deadline);
		if (rc)
			return rc;
		mark = ntohl(mark);
		if ((mark & ~REC_LAST) > REC_MAX - len)
			return -EMSGSIZE;
		rc = rpctcp_transfer(t, false, (char *)t->buf + len, mark & ~REC_LAST, deadline);
		if (rc)
			return rc;
		len += mark & ~REC_LAST;
	} while (!(mark & REC_LAST));
	return (int)len;
}

static int rpctcp_exchange(struct rpctcp *t, uint32_t len, struct rpc_auth_call *k,
			   xdrproc_t res, void *resp)
{
	uint64_t deadline = mono_ns() + t->timeout_ms * 1000000ull;
	uint32_t why;
	XDR x;
	int rc;

	t->buf[0] = htonl(REC_LAST | len);
	rc = rpctcp_transfer(t, true, t->buf, 4 + len, deadline);
	if (rc)
		return rc;
	rc = recv_record(t, deadline);
	if (rc < 0)
		return rc;
	xdrmem_create(&x, (char *)t->buf, (u_int)rc, XDR_DECODE);
	rc = rpcmsg_reply(&x, t->xid, k, &why);
	if (rc == -EKEYREJECTED)
		rc = -EACCES;
	if (!rc && !res(&x, resp, 0))
		rc = -EBADMSG;
	xdr_destroy(&x);
	return rc;
}

int rpctcp_call(struct rpctcp *t, uint32_t prog, uint32_t vers, uint32_t proc,
		const struct rpc_cred *cred, xdrproc_t args, void *argp,
		xdrproc_t res, void *resp, struct errbuf *eb)
{
	struct rpc_auth_call k = { .flavor = cred ? &rpc_auth_sys : &rpc_auth_none, .cred = cred };
	uint32_t len;
	XDR x;
	bool ok;
	int rc;

	t->xid++;
	xdrmem_create(&x, (char *)(t->buf + 1), REC_MAX, XDR_ENCODE);
	ok = rpcmsg_call(&x, t->xid, prog, vers, proc, &k) && args(&x, argp, 0);
	len = xdr_getpos(&x);
	xdr_destroy(&x);
	if (!ok)
		return err_set(eb, -EMSGSIZE, "the arguments for %s at %s are too long", t->what, t->addr);
	rc = rpctcp_exchange(t, len, &k, res, resp);
	t->failed = rc;
	if (rc)
		err_set(eb, rc, "%s at %s: %s", t->what, t->addr,
			rc == -ETIMEDOUT ? "no reply in time" :
			rc == -EBADMSG ? "malformed reply" :
			rc == -EPROTONOSUPPORT ? "it does not support the version needed" :
			rc == -EACCES ? "it refuses our credential (AUTH_SYS)" : strerror(-rc));
	return rc;
}

/* ---- rpcbind ---- */

/* The port of a universal address "h.h.h.h.p1.p2" or "h:h::h.p1.p2": its last two
 * numbers. */
static int uaddr_port(const struct nfs_ref *ua)
{
	char text[129], *dot;
	unsigned lo, hi;

	if (ua->len == 0)
		return -ENOENT;
	if (ua->len >= sizeof(text))
		return -EBADMSG;
	memcpy(text, ua->data, ua->len);
	text[ua->len] = '\0';
	dot = strrchr(text, '.');
	if (!dot || sscanf(dot + 1, "%u", &lo) != 1)
		return -EBADMSG;
	*dot = '\0';
	dot = strrchr(text, '.');
	if (!dot || sscanf(dot + 1, "%u", &hi) != 1 || hi > 255 || lo > 255 || hi + lo == 0)
		return -EBADMSG;
	return (int)(hi * 256 + lo);
}

int rpcbind_tcp_port(const struct sockaddr_storage *addr, uint32_t prog, uint32_t vers,
		     const char *what, const char *option, unsigned timeout_ms, struct errbuf *eb)
{
	struct sockaddr_storage ss = rpctcp_with_port(addr, RPCBIND_PORT);
	struct rpcb_mapping ask = {
		.r_prog = prog, .r_vers = vers,
		.r_netid = nfs_ref_str(addr->ss_family == AF_INET6 ? "tcp6" : "tcp"),
	};
	rpcb_uaddr answer = { 0 };
	struct rpctcp *t;
	int rc;

	rc = rpctcp_open(&t, &ss, NULL, "rpcbind", timeout_ms, eb);
	if (rc)
		return rc;
	rc = rpctcp_call(t, RPCBIND_PROGRAM, RPCBIND_V3, RPCBIND_GETADDR, NULL,
			 (xdrproc_t)xdr_rpcb_mapping, &ask, (xdrproc_t)xdr_rpcb_uaddr, &answer, eb);
	if (!rc)
		rc = uaddr_port(&answer);
	if (rc == -ENOENT)
		err_set(eb, rc, "%s is not registered with rpcbind at %s: start it there, or give "
			"its port with %s=", what, t->addr, option);
	else if (rc == -EBADMSG)
		err_set(eb, rc, "rpcbind at %s gave no usable address for %s", t->addr, what);
	rpctcp_close(t);
	return rc;
}
