/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Setting a connection up, on a thread that may block: queues, registration
 * of the slab's two ranges, all receives posted, then private data both ways. If anything
 * fails, or the mount ends meanwhile, the half-made link is closed here and
 * nothing of it has been seen by the lane.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "rpcrdma/impl.h"

void rr_link_close(struct rr_link *link)
{
	link->fabric->close(link->fab);
	free(link);
}

void rr_link_drop(struct rr_link *link)
{
	if (link)
		rr_link_close(link);
}

const char *rr_link_text(const struct rr_link *link)
{
	return link->text;
}

static int post_receives(const struct rr_conn *c, struct rr_link *link, struct errbuf *eb)
{
	for (unsigned i = 0; i < c->nrecvs; i++) {
		struct fab_sge sge = {
			.mem = c->recvs[i]->mem,
			.len = (uint32_t)c->recvs[i]->size,
			.lkey = link->local.lkey,
		};
		int rc = link->fabric->post_recv(link->fab, &sge, c->recvs[i]);

		if (rc)
			return err_set(eb, rc, "cannot post receive %u of %u on %s: error %d",
				       i + 1, c->nrecvs, link->fabric->describe(link->fab), -rc);
	}
	return 0;
}

static int exchange(struct rr_link *link, struct errbuf *eb)
{
	uint8_t mine[RR_PDATA_BYTES], theirs[FAB_PRIV_RECV_MAX];
	size_t len = sizeof(theirs);
	struct rr_pdata peer;
	int rc;

	rr_pdata_encode(&(struct rr_pdata){
		.remote_inval = link->memreg->remote_inval,
		.send_size = RR_INLINE,
		.recv_size = RR_INLINE,
	}, mine);
	rc = link->fabric->connect(link->fab, mine, sizeof(mine), theirs, &len, eb);
	if (rc)
		return rc;
	rr_pdata_decode(&peer, theirs, len);
	/* Each direction: what the one sends and the other receives. */
	link->send_limit = peer.recv_size < RR_INLINE ? peer.recv_size : RR_INLINE;
	link->recv_limit = peer.send_size < RR_INLINE ? peer.send_size : RR_INLINE;
	snprintf(link->text, sizeof(link->text), "%s, inline %u/%u%s",
		 link->fabric->describe(link->fab), link->send_limit, link->recv_limit,
		 peer.present ? "" : " (defaults: no RFC 8797 private data from the server)");
	return 0;
}

int rr_link_open(struct rr_conn *c, struct rr_link **out, struct errbuf *eb)
{
	struct rr_link *link = calloc(1, sizeof(*link));
	struct fab_caps caps;
	int rc;

	if (!link)
		return err_set(eb, -ENOMEM, "out of memory for a connection");
	link->fabric = c->cfg.fabric;
	rc = link->fabric->open(&c->cfg.params, &link->fab, eb);
	if (rc) {
		free(link);
		return rc;
	}
	link->fabric->caps(link->fab, &caps);
	link->memreg = caps.reg_per_call ? &rr_memreg_call : &rr_memreg_pool;
	rc = link->fabric->reg(link->fab, c->slab->local.base, c->slab->local.len, 0,
			       &link->local, eb);
	if (!rc)
		rc = link->fabric->reg(link->fab, c->slab->data.base, c->slab->data.len,
				       link->memreg->data_access, &link->data, eb);
	if (!rc)
		rc = post_receives(c, link, eb);
	if (!rc)
		rc = exchange(link, eb);
	if (rc) {
		rr_link_close(link);
		return rc;
	}
	*out = link;
	return 0;
}
