/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The active side's connections through the RDMA connection manager. (The passive side,
 * verbs_listen.c, uses verbs_cm_events(), too.)
 *
 *     us                          connection manager               server
 *     rdma_resolve_addr   ----->  which device? neighbour
 *          ADDR_RESOLVED  <-----
 *     rdma_resolve_route  ----->
 *         ROUTE_RESOLVED  <-----
 *     (queues are made, receives posted: verbs.c)
 *     rdma_connect        ----->                       REQ ------>
 *                                                      REP <------ accept
 *            ESTABLISHED  <-----                       RTU ------>
 *
 * All of this runs on a thread that may block. Each step has a time-out of its own, because
 * the kernel waits longer (15 requests, some 4 s each) than a person would. After attach
 * the lane handles events as they come (verbs_cm_events), and each means that the
 * connection is over.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/sock.h"

#define STEP_MS_DEFAULT 10000u
#define FIRST_LOOK_MS   50u

/* The answer to one step. */
struct cm_answer {
	bool came;                      /* false: see err */
	int err;                        /* -errno of the wait; -ETIMEDOUT: time is up */
	enum rdma_cm_event_type type;
	int status;                     /* -errno, or the transport's reason */
	uint8_t priv[FAB_PRIV_RECV_MAX];
	size_t privlen;
};

/* ---- Waiting -------------------------------------------------------------- */

/* Reads one event without blocking. 0, -EAGAIN, or another -errno. */
static int cm_take(struct fab_conn *c, struct cm_answer *a)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(c->chan, &ev) < 0)
		return -errno;
	a->came = true;
	a->type = ev->event;
	a->status = ev->status;
	a->privlen = 0;
	if (ev->event == RDMA_CM_EVENT_ESTABLISHED && ev->param.conn.private_data) {
		a->privlen = ev->param.conn.private_data_len;
		if (a->privlen > sizeof(a->priv))
			a->privlen = sizeof(a->priv);
		memcpy(a->priv, ev->param.conn.private_data, a->privlen);
	}
	/* Not later, because rdma_destroy_id() waits until all events are acknowledged. */
	rdma_ack_cm_event(ev);
	return 0;
}

static unsigned step_ms(const struct fab_conn *c)
{
	return c->params.timeout_ms ? c->params.timeout_ms : STEP_MS_DEFAULT;
}

/* Waits for the answer to one step. */
static void cm_wait(struct fab_conn *c, struct cm_answer *a)
{
	uint64_t until = mono_ns() + step_ms(c) * 1000000ull;

	*a = (struct cm_answer){ 0 };
	do {
		a->err = sock_wait(c->chan->fd, POLLIN, until);
		if (!a->err)
			a->err = cm_take(c, a);
	} while (a->err == -EAGAIN);
}

/* ---- Reasons in words ----------------------------------------------------- */

const char *verbs_device_name(const struct rdma_cm_id *id)
{
	return id && id->verbs ? ibv_get_device_name(id->verbs->device) : "?";
}

static unsigned server_port(const struct fab_conn *c)
{
	const struct sockaddr_storage *ss = &c->params.server;

	return ntohs(ss->ss_family == AF_INET6 ?
		     ((const struct sockaddr_in6 *)(const void *)ss)->sin6_port :
		     ((const struct sockaddr_in *)(const void *)ss)->sin_port);
}

static int fail_channel(int err, struct errbuf *eb)
{
	switch (-err) {
	case ENODEV:
	case ENOENT:
	case ENXIO:
		return err_set(eb, -ENODEV, "there is no RDMA device here: plug one in or make a "
			       "soft-RoCE one (`rdma link add rxe0 type rxe netdev INTERFACE`), and load "
			       "the modules ib_uverbs and rdma_ucm; `rdma link` lists devices");
	case EACCES:
	case EPERM:
		return err_set(eb, err, "RDMA is not allowed: /dev/infiniband/rdma_cm: %s; "
			       "that file and /dev/infiniband/uverbs* must be readable and writable "
			       "for this user", strerror(-err));
	default:
		return err_set(eb, err, "RDMA cannot be used: opening /dev/infiniband/rdma_cm: %s",
			       strerror(-err));
	}
}

/* err comes from rdma_resolve_addr() itself or from the event ADDR_ERROR. */
static int fail_address(const struct fab_conn *c, int err, struct errbuf *eb)
{
	char local[96];

	switch (-err) {
	case EPERM:     /* librdmacm puts -1 here when it cannot open the device */
	case EACCES:
		return err_set(eb, -EACCES, "the RDMA device towards %s cannot be opened: "
			       "/dev/infiniband/uverbs* must be readable and writable for this user",
			       c->peer);
	case EADDRNOTAVAIL:
		return err_set(eb, err, "%s is not an address of this machine: "
			       "check the local address given (`ip addr`)",
			       fab_addr_text(&c->params.local, local, sizeof(local)));
	case ENODEV:
		if (c->params.local.ss_family != AF_UNSPEC)
			return err_set(eb, err, "no RDMA device reaches %s from %s: no RDMA device "
				       "has that local address; check `rdma link` and `ip addr`",
				       c->peer,
				       fab_addr_text(&c->params.local, local, sizeof(local)));
		return err_set(eb, err, "no RDMA device reaches %s: the network interface towards "
			       "it has none; check `rdma link` (soft-RoCE: `rdma link add rxe0 "
			       "type rxe netdev INTERFACE`)", c->peer);
	case ENETUNREACH:
	case EHOSTUNREACH:
		return err_set(eb, err, "no RDMA device reaches %s: %s; "
			       "check `ip route get` with that address, and `rdma link`",
			       c->peer, strerror(-err));
	case ETIMEDOUT:
		return err_set(eb, err, "%s was not found on its network within %u ms: is it up, "
			       "and is the address right?", c->peer, step_ms(c));
	default:
		return err_set(eb, err, "no RDMA device reaches %s: %s; check `rdma link`",
			       c->peer, strerror(-err));
	}
}

static int fail_route(const struct fab_conn *c, int err, struct errbuf *eb)
{
	return err_set(eb, err, "no RDMA route from %s to %s: %s; is the link up (`rdma link`), and "
		       "on InfiniBand, does a subnet manager run?", verbs_device_name(c->id), c->peer,
		       strerror(-err));
}

/* The reasons for rejection in InfiniBand and RoCE (IBTA 12.6.7.2) that people meet. */
enum {
	REJ_NO_QP = 1, REJ_NO_RESOURCES = 3, REJ_TIMEOUT = 4,
	REJ_INVALID_SERVICE_ID = 8, REJ_STALE_CONN = 10, REJ_CONSUMER_DEFINED = 28,
};

static int fail_rejected(const struct fab_conn *c, int reason, struct errbuf *eb)
{
	switch (reason) {
	case REJ_INVALID_SERVICE_ID:
	case -ECONNREFUSED:             /* iWARP: the answer of TCP */
		return err_set(eb, -ECONNREFUSED, "nobody listens on %s for RDMA: is 'rdma %u' in "
			       "the server's /proc/fs/nfsd/portlist?", c->peer, server_port(c));
	case REJ_CONSUMER_DEFINED:
	case -ECONNRESET:
		return err_set(eb, -ECONNREFUSED, "%s turned the connection down: something listens "
			       "there, but it is not ready for us or not an NFS server; its kernel "
			       "log may say why", c->peer);
	case REJ_NO_QP:
	case REJ_NO_RESOURCES:
		return err_set(eb, -ECONNREFUSED, "%s has no room for another RDMA connection (reason "
			       "%d); try fewer connections, or later", c->peer, reason);
	case REJ_TIMEOUT:
		return err_set(eb, -ETIMEDOUT, "%s received only part of the connection request and "
			       "gave up; is the link of %s lossy?", c->peer, verbs_device_name(c->id));
	case REJ_STALE_CONN:
		return err_set(eb, -ECONNRESET, "%s still holds an old connection of ours; "
			       "try again in a moment", c->peer);
	default:
		return err_set(eb, -ECONNREFUSED, "%s turned the RDMA connection down, reason %d",
			       c->peer, reason);
	}
}

static int fail_connect(const struct fab_conn *c, const struct cm_answer *a, struct errbuf *eb)
{
	int err = a->status < 0 ? a->status : -EIO;

	switch (a->type) {
	case RDMA_CM_EVENT_REJECTED:
		return fail_rejected(c, a->status, eb);
	case RDMA_CM_EVENT_UNREACHABLE:
		return err_set(eb, a->status == -ENETUNREACH ? -ENETUNREACH : -ETIMEDOUT,
			       "%s does not answer RDMA connection requests from %s: is the server up, "
			       "does it have RDMA on that address, and does a firewall stop RoCE "
			       "(UDP port 4791)?", c->peer, verbs_device_name(c->id));
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return err_set(eb, -ENODEV, "the RDMA device %s was removed while connecting to %s",
			       verbs_device_name(c->id), c->peer);
	case RDMA_CM_EVENT_DISCONNECTED:
		return err_set(eb, -ECONNRESET, "%s closed the RDMA connection at once", c->peer);
	default:
		return err_set(eb, err, "connecting to %s through %s failed: %s (%s)", c->peer,
			       verbs_device_name(c->id), strerror(-err), rdma_event_str(a->type));
	}
}

/* The wait itself failed or timed out: `what` did not come. */
static int fail_wait(const struct fab_conn *c, const struct cm_answer *a, const char *what,
		     struct errbuf *eb)
{
	if (a->err == -ETIMEDOUT)
		return err_set(eb, a->err, "%s: no %s within %u ms: is the server up, and does a "
			       "firewall stop RoCE (UDP port 4791)?", c->peer, what, step_ms(c));
	return err_set(eb, a->err, "%s: waiting for %s failed: %s", c->peer, what,
		       strerror(-a->err));
}

/* ---- Setting up ----------------------------------------------------------- */

static void init_once(void)
{
	/* On kernels before 5.12 a fork (for a child that mounts) would take the pages of
	 * the provider's queues away from the device. On newer kernels this does
	 * nothing. It must precede all other verbs. */
	ibv_fork_init();
}

/* The kernel looks for the neighbour, and goes to sleep until there is news of it or its time is up.
 * If the neighbour answers in between, as the other end of a veth pair always does, the news is missed,
 * and the address is there only at the end of that time. So that is short at first. */
static int cm_address(struct fab_conn *c, struct sockaddr *local, struct cm_answer *a)
{
	/* The kernel's time-out comes a little before ours, so that we see its reason. */
	unsigned left = step_ms(c) - step_ms(c) / 10, ms = FIRST_LOOK_MS;

	for (;; ms *= 2) {
		ms = ms < left ? ms : left;
		if (rdma_resolve_addr(c->id, local, (struct sockaddr *)&c->params.server, (int)ms) < 0)
			return -errno;
		cm_wait(c, a);
		left -= ms;
		if (!a->came || a->type != RDMA_CM_EVENT_ADDR_ERROR || a->status != -ETIMEDOUT || !left)
			return 0;
		log_debug("%s is not resolved after %u ms: once more", c->peer, ms);
	}
}

static int cm_resolve(struct fab_conn *c, struct errbuf *eb)
{
	struct sockaddr *local = NULL;
	struct cm_answer a;
	int err;

	if (c->params.local.ss_family != AF_UNSPEC) {
		if (c->params.local.ss_family != c->params.server.ss_family)
			return err_set(eb, -EAFNOSUPPORT, "%s: the local address must be of the same "
				       "family (IPv4 or IPv6) as the server's", c->peer);
		local = (struct sockaddr *)&c->params.local;
	}
	err = cm_address(c, local, &a);
	if (err)
		return fail_address(c, err, eb);
	if (!a.came)
		return a.err == -ETIMEDOUT ? fail_address(c, a.err, eb) :
			fail_wait(c, &a, "address resolution", eb);
	if (a.type != RDMA_CM_EVENT_ADDR_RESOLVED)
		return fail_address(c, a.status < 0 ? a.status : -EIO, eb);
	if (!c->id->verbs)
		return fail_address(c, -ENODEV, eb);
	return 0;
}

static int cm_route(struct fab_conn *c, struct errbuf *eb)
{
	struct cm_answer a;

	if (rdma_resolve_route(c->id, (int)step_ms(c)) < 0)
		return fail_route(c, -errno, eb);
	cm_wait(c, &a);
	if (!a.came)
		return fail_wait(c, &a, "route", eb);
	if (a.type != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return fail_route(c, a.status < 0 ? a.status : -EIO, eb);
	return 0;
}

int verbs_cm_channel(struct rdma_event_channel **out, struct errbuf *eb)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rdma_event_channel *chan;
	int err;

	pthread_once(&once, init_once);
	errno = ENODEV;
	chan = rdma_create_event_channel();
	if (!chan)
		return fail_channel(-errno, eb);
	err = verbs_nonblock(chan->fd);
	if (err) {
		rdma_destroy_event_channel(chan);
		return err_set(eb, err, "fcntl on an RDMA event channel: %s", strerror(-err));
	}
	*out = chan;
	return 0;
}

void verbs_addr(struct sockaddr_storage *out, const struct sockaddr *sa)
{
	memset(out, 0, sizeof(*out));
	memcpy(out, sa, sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       sizeof(struct sockaddr_in));
}

int verbs_cm_open(struct fab_conn *c, struct errbuf *eb)
{
	struct sockaddr_storage own;
	char local[96];
	int err;

	fab_addr_text(&c->params.server, c->peer, sizeof(c->peer));
	err = verbs_cm_channel(&c->chan, eb);
	if (err)
		return err;
	if (rdma_create_id(c->chan, &c->id, c, RDMA_PS_TCP) < 0) {
		c->id = NULL;
		return fail_channel(-errno, eb);
	}
	err = cm_resolve(c, eb);
	if (!err)
		err = cm_route(c, eb);
	if (err)
		return err;
	verbs_addr(&own, rdma_get_local_addr(c->id));
	snprintf(c->text, sizeof(c->text), "%s at %s", verbs_device_name(c->id),
		 fab_addr_text(&own, local, sizeof(local)));
	return 0;
}

/* Reads to offer: a power of two, limited by what is wanted and what the device can do;
 * at least one, because svcrdma refuses a client that it cannot read from. */
static void offer_reads(struct fab_conn *c)
{
	unsigned want = c->params.ird ? c->params.ird : VERBS_READS;
	unsigned most = c->max_ird < UINT8_MAX ? c->max_ird : UINT8_MAX;

	for (c->ird = 1; c->ird < want && c->ird * 2 <= most; )
		c->ird *= 2;
	most = c->max_ord < UINT8_MAX ? c->max_ord : UINT8_MAX;
	c->ord = c->params.ord < most ? c->params.ord : most;
}

/*
 * retry_count: how often our device repeats a packet that was not acknowledged, with a
 * pause that depends on the route. 7 is the most. When the retries are used up the
 * connection breaks, and a new connection costs far more than a retry.
 *
 * rnr_retry_count: the same for the server's device, when a Send finds no receive of ours.
 * 7 means for ever. That would be an error in our counting. Waiting for a receive then
 * costs a pause, and breaking would cost the connection. If the receive really never comes,
 * the RPC's time-out notices. (The server chooses what our device does in the other
 * direction.)
 */
int verbs_cm_connect(struct fab_conn *c, const void *priv, size_t privlen,
		     void *peer_priv, size_t *peer_len, struct errbuf *eb)
{
	struct rdma_conn_param cp = {
		.private_data = priv,
		.private_data_len = (uint8_t)privlen,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct cm_answer a;

	offer_reads(c);
	cp.responder_resources = (uint8_t)c->ird;
	cp.initiator_depth = (uint8_t)c->ord;
	if (privlen > FAB_PRIV_SEND_MAX)
		return err_set(eb, -EMSGSIZE, "%zu bytes of private data are too many for a "
			       "connection request", privlen);
	if (rdma_connect(c->id, &cp) < 0)
		return err_set(eb, -errno, "connecting to %s through %s failed: %s", c->peer,
			       verbs_device_name(c->id), strerror(errno));
	cm_wait(c, &a);
	if (!a.came)
		return fail_wait(c, &a, "answer to the RDMA connection request", eb);
	if (a.type != RDMA_CM_EVENT_ESTABLISHED)
		return fail_connect(c, &a, eb);
	c->connected = c->established = true;
	memcpy(peer_priv, a.priv, a.privlen);
	*peer_len = a.privlen;
	return 0;
}

static void cm_close(struct fab_conn *c)
{
	if (c->id)
		rdma_destroy_id(c->id);
	if (c->chan)
		rdma_destroy_event_channel(c->chan);
}

int verbs_probe(const struct fab_params *p, struct errbuf *eb)
{
	struct fab_conn c = { .params = *p };
	int err;

	c.params.timeout_ms = step_ms(&c) / 2;  /* there are two steps */
	err = verbs_cm_open(&c, eb);
	if (!err)
		log_debug("%s is reached through the RDMA device %s", c.peer, c.text);
	cm_close(&c);
	return err;
}

/* ---- Afterwards ----------------------------------------------------------- */

/*
 * ADDR_CHANGE (the hardware address has moved to another port, as with bonding) counts as
 * the end, too: the connection's packets still carry the old address and would only run
 * into their retries. TIMEWAIT_EXIT follows a DISCONNECTED that we have missed. REJECTED,
 * UNREACHABLE and CONNECT_ERROR come to the passive side after accept, instead of
 * ESTABLISHED. UNREACHABLE also comes to both sides later, when the neighbour for the
 * peer's address has another hardware address.
 */
static void not_reached(struct fab_conn *c)
{
	if (c->established)
		verbs_down(c, -ENETUNREACH, "the network path to the other side has changed: its "
			   "hardware address, or the route to it, is another one");
	else
		verbs_down(c, -ECONNABORTED, "the other side gave up before the connection was "
			   "established: it timed out, or our answer was lost");
}

static void cm_event(struct fab_conn *c, const struct cm_answer *a)
{
	switch (a->type) {
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		verbs_down(c, -ECONNRESET, "the connection was closed by the other side or the network");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_down(c, -ENODEV, "the RDMA device was removed");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		verbs_down(c, -ENETDOWN, "the network address of the RDMA device changed");
		break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		not_reached(c);
		break;
	case RDMA_CM_EVENT_ESTABLISHED: /* passive side */
		c->established = true;
		break;
	default:
		/* Unexpected, but not fatal. */
		log_debug("%s: connection manager event %s, status %d", c->peer,
			  rdma_event_str(a->type), a->status);
		break;
	}
}

void verbs_cm_events(struct fab_conn *c)
{
	struct cm_answer a;

	verbs_enter(c);
	while (!c->down && !c->closed) {
		int err = cm_take(c, &a);

		if (err == -EAGAIN)
			break;
		if (err == -EINTR)
			continue;
		if (err)
			verbs_down(c, err, "the RDMA connection manager failed");
		else
			cm_event(c, &a);
	}
	verbs_leave(c);
}
