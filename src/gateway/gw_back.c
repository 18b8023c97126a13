/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of the server to the client, in the reverse direction (RFC 8167):
 *
 *     client                         gateway                                server
 *       |                               |   waiting  <---------------- record |
 *       | <-- Send: header + call ------ as many as the client has granted    |
 *       |                               |   asked                             |
 *       | --- Send: header + reply ---> |   out  ----------------------> TCP  |
 *
 * A call and its answer are one gw_back, which is in one of these lists. They are short, because
 * both have to be inline, and a pair has GW_BACK_MAX of them at most. So they take part in none of
 * the pair's limits, neither in its credits nor in its memory: the server may hold back what the
 * client's calls wait for until it has its answer. A client that does not answer keeps what it was
 * sent, and all that comes behind that waits, until there is no room, and further calls are dropped.
 * To the server this is a client that does not answer.
 *
 * The XIDs are the server's, and may be those of the client's own calls: nobody looks for them
 * there. An answer to nothing that was asked is dropped, and so is one that is no inline message.
 *
 * Everything is freed with the pair. Until then what TCP has a part of goes on, also when the client
 * has gone.
 */
#include <stdlib.h>
#include <string.h>
#include "gateway/gateway.h"

enum { REPLY = 1 };

void back_init(struct gw_back_channel *c)
{
	list_init(&c->waiting);
	list_init(&c->asked);
	list_init(&c->out);
	c->grant = 1;
}

void back_drop(struct gw_pair *p, struct gw_back *b)
{
	list_del(&b->node);
	p->back.n--;
	free(b);
}

static void drop_all(struct gw_pair *p, struct list *l)
{
	while (!list_empty(l))
		back_drop(p, container_of(l->next, struct gw_back, node));
}

void back_free(struct gw_pair *p)
{
	drop_all(p, &p->back.waiting);
	drop_all(p, &p->back.asked);
	drop_all(p, &p->back.out);
}

/* ---- to the client ---- */

static void back_ask(struct gw_pair *p, struct gw_back *b)
{
	char msg[GW_INLINE];
	struct rr_header h;
	int n;

	rr_header_init(&h, b->xid, GW_BACK_CREDITS);
	n = rr_header_encode(&h, msg, sizeof(msg));
	memcpy(msg + n, b->mem + GW_MARK, b->len);
	list_add_tail(&p->back.asked, &b->node);
	p->back.nasked++;
	pair_send(p, NULL, msg, (size_t)n + b->len, false, 0);
}

static void back_pump(struct gw_pair *p)
{
	struct gw_back_channel *c = &p->back;
	struct list *node;

	while (!p->ended && c->nasked < c->grant && (node = list_pop(&c->waiting)))
		back_ask(p, container_of(node, struct gw_back, node));
}

/* The log has the 1st, 2nd, 4th, 8th ...: the server sends as many as it likes. */
static void back_dropped(struct gw_pair *p, const char *why)
{
	unsigned n = ++p->back.ndropped;

	if (!(n & (n - 1)))
		log_warn("connection %u: dropped a call from the server, number %u: %s", p->id, n, why);
}

void back_called(struct gw_pair *p, const char *m, uint32_t len)
{
	struct gw_back *b = NULL;

	if (len + RR_HDR_MIN > p->inline_max) {
		back_dropped(p, "it does not fit inline");
		return;
	}
	if (p->back.n < GW_BACK_MAX)
		b = malloc(sizeof(*b));
	if (!b) {
		back_dropped(p, "the client has not answered those before it");
		return;
	}
	p->back.n++;
	p->busy_at = mono_ns();
	b->xid = gw_word(m);
	b->len = len;
	b->sent = 0;
	memcpy(b->mem + GW_MARK, m, len);
	list_add_tail(&p->back.waiting, &b->node);
	back_pump(p);
}

/* ---- from the client ---- */

static struct gw_back *back_of(struct gw_pair *p, uint32_t xid)
{
	list_for_each_entry(struct gw_back, b, &p->back.asked, node)
		if (b->xid == xid)
			return b;
	return NULL;
}

static void back_grant(struct gw_pair *p, uint32_t credit)
{
	p->back.nasked--;
	p->back.grant = credit > GW_BACK_CREDITS ? GW_BACK_CREDITS : credit ? credit : 1;
}

bool back_answered(struct gw_pair *p, const char *msg, uint32_t len)
{
	bool inl = len >= RR_HDR_MIN + 8 && gw_word(msg + 12) == RR_MSG && !gw_word(msg + 16) &&
		   !gw_word(msg + 20) && !gw_word(msg + 24);
	struct gw_back *b;

	if (!inl || gw_word(msg + 4) != RR_VERSION || gw_word(msg + RR_HDR_MIN) != gw_word(msg) ||
	    gw_word(msg + RR_HDR_MIN + 4) != REPLY)
		return false;
	b = back_of(p, gw_word(msg));
	if (!b) {
		log_debug("connection %u: dropped an answer to nothing, XID %08x", p->id, gw_word(msg));
		return true;
	}
	list_del(&b->node);
	b->len = len - RR_HDR_MIN;
	memcpy(b->mem + GW_MARK, msg + RR_HDR_MIN, b->len);
	list_add_tail(&p->back.out, &b->node);
	back_grant(p, gw_word(msg + 8));
	tcp_send_back(p, b);
	back_pump(p);
	return true;
}

void back_refused(struct gw_pair *p, uint32_t xid, uint32_t credit)
{
	struct gw_back *b = back_of(p, xid);

	if (!b)
		return;
	log_info("connection %u: the client refuses a call from the server, XID %08x", p->id, xid);
	back_drop(p, b);
	back_grant(p, credit);
	back_pump(p);
}
