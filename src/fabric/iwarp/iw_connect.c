/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The active side's set-up: TCP connection, MPA Request, MPA Reply. It runs on a thread
 * that may block, for timeout_ms at most in each step. The socket is non-blocking from the
 * start, so poll() is the only place to wait in.
 *
 * Not a byte beyond the Reply is read here, because frames may follow it. Nothing is sent
 * behind the Request before the Reply is here: siw, for one, gives up on a peer that does
 * so.
 *
 * If the connection breaks here, connect fails and the owner closes it. Nothing has been
 * received into the owner's buffers.
 */
#include "fabric/iwarp/iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/sock.h"

/* " (HINT)", or nothing. Returns buf. */
static const char *hint_text(const struct fab_params *p, char *buf, size_t len)
{
	snprintf(buf, len, p->hint ? " (%s)" : "%s", p->hint ? p->hint : "");
	return buf;
}

/* Makes a socket, and binds it if params have a local address. */
static int make_socket(const struct fab_params *p, int type, struct errbuf *eb)
{
	char local[96];
	int err, fd = socket(p->server.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_set(eb, -errno, "cannot make a socket: %s", strerror(errno));
	if (p->local.ss_family != AF_UNSPEC &&
	    bind(fd, (const struct sockaddr *)&p->local, sock_addr_len(&p->local)) < 0) {
		err = -errno;
		close(fd);
		return err_set(eb, err, "cannot use the local address %s: %s",
			       fab_addr_text(&p->local, local, sizeof(local)), strerror(-err));
	}
	return fd;
}

/* No device is needed, only a route. connect() of a UDP socket looks the route up and
 * sends nothing. */
int iw_probe(const struct fab_params *p, struct errbuf *eb)
{
	char server[96];
	int fd = make_socket(p, SOCK_DGRAM, eb), err = 0;

	if (fd < 0)
		return fd;
	if (connect(fd, (const struct sockaddr *)&p->server, sock_addr_len(&p->server)) < 0) {
		err = -errno;
		err_set(eb, err, "no route to %s: %s",
			fab_addr_text(&p->server, server, sizeof(server)), strerror(-err));
	}
	close(fd);
	return err;
}

static int tcp_connect(struct fab_conn *c, struct errbuf *eb)
{
	uint64_t until = mono_ns() + c->params.timeout_ms * 1000000ull;
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	int err = 0, fd = make_socket(&c->params, SOCK_STREAM, eb);
	char text[96], hint[256];

	if (fd < 0)
		return fd;
	c->fd = fd;
	iw_tune(fd);
	err = sock_connect(fd, &c->params.server, until);
	if (err)
		return err_set(eb, err, "cannot connect to %s over TCP: %s%s",
			       fab_addr_text(&c->params.server, text, sizeof(text)), strerror(-err),
			       hint_text(&c->params, hint, sizeof(hint)));
	if (!getsockname(fd, (struct sockaddr *)&local, &len))
		snprintf(c->text, sizeof(c->text), "iWARP over TCP from %s",
			 fab_addr_text(&local, text, sizeof(text)));
	return 0;
}

/* Reads exactly the Reply. */
static int get_reply(struct fab_conn *c, uint8_t *buf, size_t *len, const char **why)
{
	unsigned ms = c->params.timeout_ms < MPA_TIMEOUT_MS ? c->params.timeout_ms : MPA_TIMEOUT_MS;
	uint64_t until = mono_ns() + ms * 1000000ull;
	int want, err;

	*len = 0;
	while ((want = mpa_size(buf, *len, true, why)) > (int)*len) {
		ssize_t n = recv(c->fd, buf + *len, (size_t)want - *len, MSG_DONTWAIT);

		if (n > 0) {
			*len += (size_t)n;
		} else if (!n) {
			*why = "it closed the connection instead of answering (not an iWARP "
			       "server, or no NFS over RDMA on this port?)";
			return -ECONNRESET;
		} else if (errno == EAGAIN) {
			err = sock_wait(c->fd, POLLIN, until);
			if (err) {
				*why = "it does not answer (MPA Reply)";
				return err;
			}
		} else if (errno != EINTR) {
			err = errno;
			*why = strerror(err);
			return -err;
		}
	}
	return want < 0 ? want : 0;
}

int iw_connect(struct fab_conn *c, const void *priv, size_t privlen,
	       void *peer_priv, size_t *peer_len, struct errbuf *eb)
{
	struct mpa_terms agreed, own = {
		.crc = c->params.flags & FAB_CRC, .ird = iw_ird(&c->params), .ord = c->params.ord,
	};
	struct mpa_frame rep, req = {
		.rev = 2, .enhanced = true, .crc = own.crc, .priv = priv, .privlen = privlen,
		.ird = (uint16_t)own.ird, .ord = (uint16_t)own.ord,
	};
	uint8_t buf[MPA_FRAME_MAX];
	const char *why = NULL;
	char server[96], hint[256];
	size_t len;
	int err;

	if (privlen > FAB_PRIV_SEND_MAX || own.ord > MPA_DEPTH_MAX / 2)
		return err_set(eb, -EINVAL, "private data or RDMA Read depth out of range");
	*peer_len = 0;
	err = tcp_connect(c, eb);
	if (err)
		return err;
	len = mpa_encode(&req, buf);
	/* A new socket takes this at once. */
	if (send(c->fd, buf, len, MSG_NOSIGNAL) != (ssize_t)len) {
		err = errno ? -errno : -EIO;
		why = strerror(-err);
	} else {
		err = get_reply(c, buf, &len, &why);
	}
	if (!err)
		err = mpa_decode(&rep, buf, len, true, &why);
	if (!err) {
		/* A rejection may have private data, too. */
		*peer_len = rep.privlen < FAB_PRIV_RECV_MAX ? rep.privlen : FAB_PRIV_RECV_MAX;
		memcpy(peer_priv, rep.priv, *peer_len);
		err = mpa_judge_reply(&rep, &own, &agreed, &why);
	}
	if (err)
		return err_set(eb, err, "no iWARP connection to %s: %s%s",
			       fab_addr_text(&c->params.server, server, sizeof(server)), why,
			       hint_text(&c->params, hint, sizeof(hint)));
	if (agreed.crc)
		strncat(c->text, ", CRC32c", sizeof(c->text) - strlen(c->text) - 1);
	err = iw_agreed(c, &agreed);
	return err ? err_set(eb, err, "no memory for a connection") : 0;
}
