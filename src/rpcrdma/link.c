/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sets a connection up, on a thread that may block: makes the queues, registers the arena's
 * two ranges, its extents, and the memory of the receives, posts these, and exchanges private
 * data. If anything fails, the half-made link is closed here, and the lane has seen nothing of
 * it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "rpcrdma/impl.h"

/* Sends in flight beyond one for each call. */
#define SEND_SLACK 8u

void rr_link_shut(struct rr_link *link)
{
	link->fabric->close(link->fab);
	link->fab = NULL;
}

void rr_link_free(struct rr_link *link)
{
	arena_unmap(&link->recvs);
	free(link);
}

void rr_link_drop(struct rr_link *link)
{
	if (!link)
		return;
	if (link->fab)
		rr_link_shut(link);
	rr_link_free(link);
}

const char *rr_link_text(const struct rr_link *link)
{
	return link->text;
}

struct rr_link_facts rr_link_facts(const struct rr_link *link)
{
	return (struct rr_link_facts){
		.memreg = link->memreg->name, .inline_send = link->send_limit,
		.inline_recv = link->recv_limit, .remote_inval = link->remote_inval && link->peer_inval,
	};
}

/* Each link has memory of its own for its receives, because links come and go while the mount
 * is in use. Its pages are locked as long as the link is there. */
static int make_receives(struct rr_link *link, struct errbuf *eb)
{
	int rc;

	link->recvs.len = rr_recv_bytes(link->conn->cfg.credits);
	rc = arena_map(&link->recvs);
	return rc ? err_set(eb, rc, "no memory for the receives of a connection") : 0;
}

static int post_receives(struct rr_link *link, struct errbuf *eb)
{
	unsigned n = rr_recvs(link->conn->cfg.credits);

	for (unsigned i = 0; i < n; i++) {
		int rc = rr_post_recv(link, (char *)link->recvs.base + (size_t)i * RR_INLINE);

		if (rc)
			return err_set(eb, rc, "cannot post receive %u of %u on %s: error %d",
				       i + 1, n, link->fabric->describe(link->fab), -rc);
	}
	return 0;
}

static int link_exchange(struct rr_link *link, struct errbuf *eb)
{
	uint8_t mine[RR_PDATA_BYTES], theirs[FAB_PRIV_RECV_MAX];
	size_t len = sizeof(theirs);
	struct rr_pdata peer;
	int rc;

	rr_pdata_encode(&(struct rr_pdata){
		.remote_inval = link->remote_inval,
		.send_size = RR_INLINE,
		.recv_size = RR_INLINE,
	}, mine);
	rc = link->fabric->connect(link->fab, mine, sizeof(mine), theirs, &len, eb);
	if (rc)
		return rc;
	rr_pdata_decode(&peer, theirs, len);
	link->peer_inval = peer.remote_inval;
	/* Each direction: what one end sends and the other receives. */
	link->send_limit = peer.recv_size < RR_INLINE ? peer.recv_size : RR_INLINE;
	link->recv_limit = peer.send_size < RR_INLINE ? peer.send_size : RR_INLINE;
	snprintf(link->text, sizeof(link->text), "%s, inline %u/%u%s",
		 link->fabric->describe(link->fab), link->send_limit, link->recv_limit,
		 peer.present ? "" : " (defaults: no RFC 8797 private data from the server)");
	return 0;
}

/* What is wanted, as far as windows are not in doubt (conn.c). */
static const struct rr_memreg *wanted_memreg(const struct rr_conn *c, unsigned path)
{
	bool doubt = c->cfg.memreg == &rr_memreg_auto &&
		     mono_ns() < atomic_load(&c->cfg.windows[path].again_ns);

	return doubt ? &rr_memreg_call : c->cfg.memreg;
}

static void set_memreg(struct rr_link *link, const struct rr_memreg *wanted)
{
	struct rr_conn *c = link->conn;
	struct fab_caps caps;
	const char *why;

	link->fabric->caps(link->fab, &caps);
	link->memreg = rr_memreg_for(wanted, &caps, &why);
	link->remote_inval = link->memreg->windows ||
			     (link->memreg == &rr_memreg_call && caps.remote_inval);
	link->silent = caps.silent_sends;
	if (why && !atomic_exchange(&c->told, true)) {
		log_warn("memreg=%s cannot be used by lane %u with %s: %s. memreg=%s is used instead",
			 c->cfg.memreg->name, c->cfg.lane, link->fabric->describe(link->fab), why,
			 link->memreg->name);
	}
}

/* How the data buffers as a whole are registered. While windows are in doubt as for windows, which
 * gives the peer nothing: so it is the registration of the lanes that have windows, or will have
 * them later. Another one would count once more as locked memory. */
static unsigned data_access(const struct rr_link *link, const struct rr_memreg *wanted)
{
	return wanted == link->conn->cfg.memreg ? link->memreg->data_access :
						  rr_memreg_mw.data_access;
}

static int reg_memory(struct rr_link *link, unsigned access, struct errbuf *eb)
{
	const struct arena *a = link->conn->mag->arena;
	int rc;

	rc = link->fabric->reg(link->fab, link->recvs.base, link->recvs.len, 0, &link->recv_mr,
			       eb);
	if (rc)
		return rc;
	rc = link->fabric->reg_shared(link->fab, a->local.base, a->local.len, 0, &link->local, eb);
	if (rc)
		return rc;
	rc = link->fabric->reg_shared(link->fab, a->data.base, a->data.len, access, &link->data, eb);
	if (rc || !link->fabric->reg_pieces)
		return rc;
	return link->fabric->reg_pieces(link->fab, access, &link->extents, eb);
}

int rr_link_open(struct rr_conn *c, const struct rr_way *way, struct rr_link **out,
		 struct errbuf *eb)
{
	const struct rr_memreg *wanted = wanted_memreg(c, way->number);
	struct fab_params params = way->path->params;
	struct rr_link *link = calloc(1, sizeof(*link));
	struct fab_conn *fab;
	int rc;

	if (!link)
		return err_set(eb, -ENOMEM, "out of memory for a connection");
	link->conn = c;
	link->path = way->number;
	link->metadata = way->metadata;
	link->owner = way->owner;
	link->ps = &c->cfg.path_stats[way->number];
	link->fabric = way->path->fabric;
	params.max_recv = rr_recvs(c->cfg.credits);
	params.max_send = c->cfg.credits + SEND_SLACK;
	/* A call needs one mostly. One that finds too few waits for others to end. */
	if (wanted->windows)
		params.windows = c->cfg.credits + RR_CALL_MRS;
	params.windows_sound = c->cfg.memreg == &rr_memreg_auto;
	rc = make_receives(link, eb);
	if (!rc)
		rc = link->fabric->open(&params, &fab, eb);
	if (!rc) {
		link->fab = fab;
		set_memreg(link, wanted);
	}
	if (!rc)
		rc = reg_memory(link, data_access(link, wanted), eb);
	if (!rc)
		rc = post_receives(link, eb);
	if (!rc)
		rc = link_exchange(link, eb);
	/* With fewer extents the next attempt may find enough memory. */
	if (rc == -ENOMEM)
		arena_give_back(c->mag->arena);
	if (rc) {
		rr_link_drop(link);
		return rc;
	}
	*out = link;
	return 0;
}
