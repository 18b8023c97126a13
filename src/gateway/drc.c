/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The duplicate request cache for NFS version 3.
 *
 * A client whose connection broke sends its calls again on another one. A server's own
 * cache knows calls by XID, checksum and source address, including the port. Over RDMA a
 * port means nothing, so servers leave it out. Over TCP they do not: to knfsd and
 * nfs-ganesha, a call through another connection of the gateway is a new call, and MKDIR
 * says EEXIST to the client that made the directory. So the cache is here, where the calls
 * of one client are seen together. It is for the procedures that must not be executed
 * twice:
 *
 *     drc_take      not known: makes an entry that "runs", and the server gets the call
 *                   answered before: answers again from here
 *                   still runs: the call waits for the answer. Only the newest one does, and the
 *                   one that waited before ends without an answer
 *     drc_answered  the entry keeps the answer, and a waiting call gets it
 *     drc_gone      the call will never be answered: a waiting call takes its place
 *
 * What keeps an entry, and until when:
 *
 *     busy      the server has the call, or a reply to it is being sent. Never evicted. There
 *               are no more than open calls, which credits and memory bound (pair.c, memory.c)
 *     recent    its Send has completed. Over iWARP that means only that TCP has the reply, so
 *               the client may still lose it. But replies arrive in their order, and a client
 *               has no more calls without a reply than credits. So the newest replies of each
 *               pair, as many as credits, are not evicted: what is older has arrived
 *     lost      the connection has ended: these are what clients ask for again. The newest
 *               LOST_MAX, which is enough for hundreds of connections that end together
 *     old       has arrived. A copy of the call may still come, from a connection that its
 *               client gave up before. The newest OLD_MAX
 *
 * A client numbers its calls, and comes round to an XID some day (this project's after 2^28 calls of a lane). So no
 * reply counts when the gateway has had AGE_CALLS calls since it was sent. That is no matter of time: a client that
 * was cut off for hours asks for the replies that it has not got.
 *
 * So what one client does never evicts what another one that is connected may need. If all
 * entries are busy the cache grows with the calls; a call that finds no memory is passed on
 * without an entry.
 *
 * A call that runs holds its entry, and its pair keeps the TCP connection until the call is
 * answered, even without an RDMA connection (pair.c).
 *
 * Version 4.1 needs no cache here: its sessions do not depend on connections.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "gateway/gateway.h"
#include "nfs3.h"

#define LOST_MAX 8192u
#define OLD_MAX  1024u
#define AGE_CALLS (1ull << 27)
/* How many bytes of a call are summed: more than any of these calls has without its data. */
#define SUMMED 512u
/* The longest reply kept: the replies of these procedures are shorter, with all
 * attributes. */
#define REPLY_MAX 1024u

struct gw_drc_entry {
	struct list node;       /* in at->list, newest first; or in drc->busy */
	struct gw_drc_kept *at; /* NULL: busy */
	struct hash_node by_sum;
	uint32_t xid, len;
	uint64_t sum;
	struct gw_call *runs;   /* the server has it; NULL: the reply is here */
	struct gw_call *sends;  /* the newest call that the reply is being sent to, or NULL */
	struct gw_call *waits;  /* a later call that gets the answer, or NULL */
	uint64_t sent_at;       /* drc->calls when the reply was last sent */
	uint32_t reply_len;
	char reply[REPLY_MAX];
};

void drc_kept_init(struct gw_drc_kept *l)
{
	list_init(&l->list);
	l->n = 0;
}

void drc_init(struct gw_drc *d)
{
	list_init(&d->busy);
	drc_kept_init(&d->lost);
	drc_kept_init(&d->old);
}

static struct gw_drc_entry *entry_at(struct list *n)
{
	return container_of(n, struct gw_drc_entry, node);
}

/* Takes the entry off its list. */
static void leave(struct gw_drc_entry *e)
{
	list_del(&e->node);
	if (e->at)
		e->at->n--;
	e->at = NULL;
}

static void entry_free(struct gw_drc_entry *e)
{
	if (e->runs)
		e->runs->drc = NULL;
	if (e->sends)
		e->sends->drc = NULL;
	if (e->waits)
		e->waits->drc = NULL;
	leave(e);
	hash_del(&e->by_sum);
	free(e);
}

static void free_all(struct list *l)
{
	while (!list_empty(l))
		entry_free(entry_at(l->next));
}

void drc_clear(struct gw_drc *d)
{
	free_all(&d->busy);
	free_all(&d->lost.list);
	free_all(&d->old.list);
}

/* ---- What is kept ---- */

static void keep(struct gw_drc_entry *e, struct gw_drc_kept *l)
{
	leave(e);
	list_add_head(&l->list, &e->node);
	e->at = l;
	l->n++;
}

static void keep_newest(struct gw_drc_entry *e, struct gw_drc_kept *l, unsigned max)
{
	keep(e, l);
	while (l->n > max)
		entry_free(entry_at(l->list.prev));
}

static void keep_recent(struct gw_pair *p, struct gw_drc_entry *e)
{
	keep(e, &p->recent);
	while (p->recent.n > pair_credits(p->gw))
		keep_newest(entry_at(p->recent.list.prev), &p->gw->drc.old, OLD_MAX);
}

/* The reply is sent, or cannot be sent any more. */
static void sending_ends(struct gw_call *k, struct gw_drc_entry *e)
{
	e->sends = NULL;
	if (k->pair->ended)
		keep_newest(e, &k->pair->gw->drc.lost, LOST_MAX);
	else
		keep_recent(k->pair, e);
}

/* k gets the reply: the entry is busy until that is sent. */
static void sending(struct gw_drc *d, struct gw_drc_entry *e, struct gw_call *k)
{
	if (e->sends)
		e->sends->drc = NULL;
	e->sends = k;
	e->sent_at = d->calls;
	k->drc = e;
	leave(e);
	list_add_head(&d->busy, &e->node);
}

void drc_pair_ends(struct gw_pair *p)
{
	while (p->recent.n)     /* the oldest first, so that they stay in their order */
		keep_newest(entry_at(p->recent.list.prev), &p->gw->drc.lost, LOST_MAX);
}

/* ---- Which calls ---- */

static bool counts(const struct gw_call *k)
{
	if (k->prog != NFS_PROGRAM || k->vers != NFS_V3)
		return false;
	switch (k->proc) {
	case NFSPROC3_SETATTR:
	case NFSPROC3_WRITE:    /* a late repetition would undo later writes */
	case NFSPROC3_CREATE:
	case NFSPROC3_MKDIR:
	case NFSPROC3_SYMLINK:
	case NFSPROC3_MKNOD:
	case NFSPROC3_REMOVE:
	case NFSPROC3_RMDIR:
	case NFSPROC3_RENAME:
	case NFSPROC3_LINK:
		return true;
	default:
		return false;
	}
}

/* Over the XID, the credential, the handles and names. */
static uint64_t sum_of(const struct gw_call *k)
{
	return hash_bytes((const char *)k->call->mem + GW_MARK,
			  k->call_len < SUMMED ? k->call_len : SUMMED, 0);
}

static bool too_old(const struct gw_drc *d, const struct gw_drc_entry *e)
{
	return !e->runs && d->calls - e->sent_at > AGE_CALLS;
}

static struct gw_drc_entry *find(const struct gw_drc *d, const struct gw_call *k, uint64_t sum)
{
	hash_for_each(n, hash_chain(d->by_sum, (uint32_t)sum), (uint32_t)sum) {
		struct gw_drc_entry *e = container_of(n, struct gw_drc_entry, by_sum);

		if (e->xid == k->xid && e->len == k->call_len && e->sum == sum)
			return e;
	}
	return NULL;
}

static void add(struct gw_drc *d, struct gw_call *k, uint64_t sum)
{
	struct gw_drc_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return;         /* then the call is treated as not in the cache */
	e->xid = k->xid;
	e->len = k->call_len;
	e->sum = sum;
	e->runs = k;
	k->drc = e;
	list_add_head(&d->busy, &e->node);
	hash_add(hash_chain(d->by_sum, (uint32_t)sum), &e->by_sum, (uint32_t)sum);
}

/* ---- The three steps ---- */

/* A later call waits in place of this one: its client has given it up, or has sent it again. Nobody
 * else would end it: the server does not have it. */
static void give_up(struct gw_call *waited)
{
	struct gw_pair *p = waited->pair;

	waited->drc = NULL;
	waited->answered = true;
	pair_call_done(waited);
	pair_linger_check(p);
}

bool drc_take(struct gw_call *k)
{
	struct gw_drc *d = &k->pair->gw->drc;
	struct gw_call *waited;
	struct gw_drc_entry *e;
	uint64_t sum;

	d->calls++;
	if (!counts(k))
		return false;
	sum = sum_of(k);
	e = find(d, k, sum);
	if (e && too_old(d, e)) {
		entry_free(e);
		e = NULL;
	}
	if (!e) {
		add(d, k, sum);
		return false;
	}
	log_debug("connection %u: XID %08x came again; the first one %s", k->pair->id, k->xid,
		  e->runs ? "still runs" : "has been answered");
	if (!e->runs) {
		sending(d, e, k);
		reply_repeat(k, e->reply, e->reply_len);
		return true;
	}
	waited = e->waits;
	e->waits = k;
	k->drc = e;
	if (waited)
		give_up(waited);
	return true;
}

void drc_answered(struct gw_call *k)
{
	struct gw_drc_entry *e = k->drc;
	struct gw_call *waits;

	if (!e || e->runs != k)
		return;
	if (k->reply_len > REPLY_MAX) {         /* not an NFS reply: pass repetitions on */
		drc_gone(k);
		return;
	}
	memcpy(e->reply, k->reply->mem + GW_MARK, k->reply_len);
	e->reply_len = k->reply_len;
	waits = e->waits;
	e->runs = e->waits = NULL;
	sending(&k->pair->gw->drc, e, k);
	if (waits) {                    /* then k's client has given k up */
		sending(&k->pair->gw->drc, e, waits);
		reply_repeat(waits, e->reply, e->reply_len);
	}
}

bool drc_runs(const struct gw_call *k)
{
	return k->drc && k->drc->runs == k;
}

void drc_gone(struct gw_call *k)
{
	struct gw_drc_entry *e = k->drc;

	if (!e)
		return;
	k->drc = NULL;
	if (e->sends == k) {
		sending_ends(k, e);
	} else if (e->waits == k) {
		e->waits = NULL;
	} else if (e->waits) {
		e->runs = e->waits;
		e->waits = NULL;
		tcp_send(e->runs);
	} else {
		e->runs = NULL;
		entry_free(e);
	}
}
