/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One connection of a lane, from the connector's thread to its end.
 *
 *     connector's thread                 lane
 *     make ----------- link -----------> on trial --check--> up ----> down
 *                                          |                           |
 *                                          +---- check has failed -----+--> nfs_path_lost():
 *                                                                           the connector again
 *
 * A link on its way to the lane is remembered in `coming`, by pointers that the connector sets
 * and the lane clears. If the lane ends first, nfs_connections_forget() drops it.
 *
 * On trial the link carries only the calls of the check: does it lead to the server that is
 * mounted (RFC 8881, section 2.10.5)? Otherwise calls that are sent again after a fail-over
 * would be executed a second time by a stranger. While the mount is being made there is nothing
 * to compare with, and when there is only one path, nothing to mix up: then the link is up at
 * once.
 *
 * The check's calls and the heartbeats are probes (probe.c): they are sent on this connection or
 * not at all, and end with it. There is one of them at a time (rr, asked).
 *
 * When the connection dies, rr_events.down comes from the loop. A call of the check ends before
 * that with -ENOTCONN, and must not touch the link any more. Everything here but
 * nfs_connection_open() and nfs_connection_make() runs on the lane.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/probe.h"
#include "nfs/internal.h"
#include "xdr_msg.h"

#define LATER_MS 200u

/* ---- from the connector to the lane ---- */

int nfs_connection_open(struct nfs_connection *k, struct rr_link **out, struct errbuf *eb)
{
	struct nfs_path *p = nfs_path_of(k);
	const struct rr_way way = {
		.path = &p->way, .number = k->path, .metadata = k->index > 0, .owner = k,
	};

	return rr_link_open(k->target->conn, &way, out, eb);
}

struct up_msg {
	struct loop_msg m;
	struct nfs_connection *k;
	struct rr_link *link;
};

static void on_connection_up(struct loop_msg *m)
{
	struct up_msg *u = container_of(m, struct up_msg, m);
	struct nfs_connection *k = u->k;
	struct rr_link *link = u->link;

	atomic_store(&k->coming, NULL);
	free(u);
	nfs_connection_up(k, link);
}

void nfs_connection_make(struct nfs_connection *k)
{
	struct up_msg *u = calloc(1, sizeof(*u));
	struct errbuf eb = { .text = "out of memory" };
	int rc = u ? nfs_connection_open(k, &u->link, &eb) : -ENOMEM;

	if (rc) {
		free(u);
		nfs_path_lost(k, false, rc, eb.text);
		return;
	}
	u->k = k;
	u->m.fn = on_connection_up;
	atomic_store(&k->coming, u);
	loop_post(k->target->lane->loop, &u->m);
}

void nfs_connections_forget(struct nfs_target *t)
{
	for (unsigned path = 0; path < NFS_PATHS_MAX; path++)
		for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
			struct up_msg *u = atomic_exchange(&t->conns[path][i].coming, NULL);

			if (u)
				rr_link_drop(u->link);
			free(u);
		}
}

/* ---- calls on this connection ---- */

static void put_message(struct nfs_connection *k)
{
	nfs_probe_put(k->target, &k->rr);
	k->asked = false;
}

/* 0: it is on its way. -errno: it is not, and nothing is kept. */
static int connection_ask(struct nfs_connection *k, const struct nfs_probe *p)
{
	int rc = nfs_probe_encode(k->target, &k->rr, p, k);

	if (rc)
		return rc;
	rc = rr_submit_on(k->link, &k->rr);
	k->asked = rc == 0;
	k->asked_ns = loop_now(k->target->lane->loop);
	if (rc)
		put_message(k);
	return rc;
}

/* ---- heartbeats ---- */

static void heartbeat_done(struct rr_call *rr, int status)
{
	/* Any reply is a sign of life, and rr_link_now() has seen it. */
	put_message(container_of(rr, struct nfs_connection, rr));
}

void nfs_connection_ask(struct nfs_connection *k)
{
	const struct nfs_probe null = { .done = heartbeat_done };

	if (!k->asked && connection_ask(k, &null) == 0)
		stat_add_to(&k->target->path_stats[k->path].heartbeats, 1);
}

/* ---- the check ---- */

static void check_on(struct nfs_connection *k);

static const char *fault_text(const struct nfs_connection *k)
{
	return k->check.why.text[0] ? k->check.why.text : strerror(-k->fault);
}

/* The link ends, if it has not broken already, and nfs_connection_down() says why. */
static void connection_fail(struct nfs_connection *k, int err)
{
	k->fault = err;
	rr_link_reset(k->link, err, fault_text(k));
}

static void connection_join(struct nfs_connection *k)
{
	k->up = true;
	nfs_path_joined(k);
	rr_admit(k->link);
	nfs_target_changed(k->target, 0);
}

static void on_again(struct loop_timer *t)
{
	check_on(container_of(t, struct nfs_connection, again));
}

static void connection_later(struct nfs_connection *k)
{
	loop_timer_set(k->target->lane->loop, &k->again, LATER_MS);
}

static int take_check(void *arg, XDR *x)
{
	struct nfs_connection *k = arg;

	return k->target->server->version->check_decode(k->target, &k->check, x);
}

static int decode_check(struct nfs_connection *k)
{
	uint32_t why;
	XDR x;
	int rc;

	xdr_msg_create(&x, (void *)(uintptr_t)k->rr.reply, k->rr.reply_len, XDR_DECODE);
	rc = rpcmsg_reply(&x, k->rr.xid, &k->auth, &why);
	if (!rc)
		rc = k->auth.flavor->unwrap(&k->auth, &x, take_check, k);
	else if (rc == -EPROTONOSUPPORT)
		err_set(&k->check.why, rc, "it does not have version %u of NFS",
			k->target->server->version->vers);
	else
		err_set(&k->check.why, rc, "it does not answer as an NFS server: %s", strerror(-rc));
	return rc;
}

static void check_done(struct rr_call *rr, int status)
{
	struct nfs_connection *k = container_of(rr, struct nfs_connection, rr);
	int rc = status ? status : decode_check(k);

	put_message(k);
	switch (rc) {
	case 0:
		connection_join(k);
		break;
	case NFS_NEXT:
		check_on(k);
		break;
	case NFS_LATER:
		connection_later(k);
		break;
	case -ENOTCONN:         /* the link is gone already */
		break;
	default:
		connection_fail(k, rc < 0 ? rc : -EIO);
		break;
	}
}

static bool_t put_check(void *arg, XDR *x)
{
	struct nfs_connection *k = arg;

	return k->target->server->version->check_encode(k->target, &k->check, x);
}

static void check_on(struct nfs_connection *k)
{
	const struct nfs_server *s = k->target->server;
	const struct nfs_probe check = {
		.proc = s->version->check_proc(&k->check), .reply_max = NFS_CHECK_RESULTS_MAX,
		.auth = &k->auth, .args = put_check, .done = check_done,
	};
	int rc;

	k->auth = (struct rpc_auth_call){ .flavor = s->auth, .cred = &s->client->own };
	rc = connection_ask(k, &check);
	if (rc == -EAGAIN)
		connection_later(k);
	else if (rc && rc != -ENOTCONN)
		connection_fail(k, rc);
}

/* ---- up and down ---- */

static void say_up(const struct nfs_connection *k, const struct rr_link *link)
{
	const struct nfs_server *s = k->target->server;
	char to[80];

	log_info("connection %u to %s (%s): %s", k->target->lane->index, s->name,
		 fab_addr_text(&nfs_path_of(k)->way.params.server, to, sizeof(to)), rr_link_text(link));
}

void nfs_connection_up(struct nfs_connection *k, struct rr_link *link)
{
	struct nfs_target *t = k->target;
	struct nfs_check begun = { .step = 0 };
	bool check;
	int rc;

	if (!nfs_path_arrives(k, &check, &begun)) {
		rr_link_drop(link);
		nfs_path_lost(k, false, 0, NULL);
		return;
	}
	say_up(k, link);
	PROBE3(connection_up, t->server->name, k->path, t->lane->index);
	k->link = link;
	k->up = !check;
	k->fault = 0;
	k->drain_until_ns = 0;
	k->asked = false;
	k->asked_ns = loop_now(t->lane->loop);
	k->check = begun;
	/* Before the first reply can end the connection. */
	if (k->up) {
		nfs_path_joined(k);
		nfs_target_expects(t);
	}
	rc = rr_up(t->conn, link, check);
	if (rc) {
		k->link = NULL;
		nfs_path_lost(k, k->up, rc, "it cannot be used");
		k->up = false;
	} else if (check) {
		check_on(k);
	} else if (t->server->client->cfg.npaths > 1 && t->server->client->cfg.heartbeat_ms) {
		/* Before a call takes the one credit that there is until the first reply, and no
		 * heartbeat could be sent (heartbeat.c). */
		nfs_connection_ask(k);
	}
	nfs_target_changed(t, 0);
}

void nfs_connection_down(void *target, void *connection, int err, const char *why)
{
	struct nfs_connection *k = connection;
	struct nfs_target *t = target;
	bool was_up = k->up;

	atomic_fetch_add(&t->server->lost, was_up);
	PROBE4(connection_down, t->server->name, k->path, t->lane->index, err);
	loop_timer_clear(&k->again);
	k->link = NULL;
	k->up = false;
	/* One that nfs_path_reconnect() closes has not failed, on trial or not. */
	if (was_up || err == -ECANCELED)
		nfs_path_lost(k, was_up, 0, why);
	else if (k->fault)
		nfs_path_lost(k, false, k->fault, fault_text(k));
	else
		nfs_path_lost(k, false, err, why);
	nfs_target_changed(t, err);
}

/* ---- life ---- */

void nfs_connections_init(struct nfs_target *t)
{
	for (unsigned path = 0; path < NFS_PATHS_MAX; path++)
		for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
			struct nfs_connection *k = &t->conns[path][i];

			k->target = t;
			k->path = path;
			k->index = i;
			loop_timer_init(&k->again, on_again);
		}
}

void nfs_connections_fini(struct nfs_target *t)
{
	for (unsigned path = 0; path < NFS_PATHS_MAX; path++)
		for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
			struct nfs_connection *k = &t->conns[path][i];

			loop_timer_clear(&k->again);
			if (k->asked)
				put_message(k);
		}
}
