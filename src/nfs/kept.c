/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See kept.h. */
#include <stdlib.h>
#include <string.h>
#include "nfs/internal.h"

#define SAY_NS   60000000000ull
#define SAY_MOST 16u
#define SAY_RUNNING 4u

/* The number that the traces of Linux's NFS have for a handle. */
static uint32_t kept_crc(const struct nfs_fh *fh)
{
	uint32_t crc = ~0u;

	for (uint32_t i = 0; i < fh->len; i++) {
		crc ^= fh->data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static void kept_write(struct nfs_kept *k, const struct nfs_kept_call *what)
{
	struct nfs_kept_place *p = &k->place[k->n++ % NFS_KEPT];
	uint64_t word[NFS_KEPT_WORDS];

	memcpy(word, what, sizeof(word));
	atomic_store_explicit(&p->turn, 0, memory_order_relaxed);
	/* Who reads one of these sees the turn 0, or a later one, too. (ThreadSanitizer knows nothing of fences.) */
	for (size_t i = 0; i < NFS_KEPT_WORDS; i++)
		atomic_store_explicit(&p->word[i], word[i], memory_order_release);
	atomic_store_explicit(&p->turn, k->n, memory_order_release);
}

static bool kept_read(const struct nfs_kept_place *p, struct nfs_kept_call *out)
{
	uint64_t turn = atomic_load_explicit(&p->turn, memory_order_acquire), word[NFS_KEPT_WORDS];

	for (size_t i = 0; i < NFS_KEPT_WORDS; i++)
		word[i] = atomic_load_explicit(&p->word[i], memory_order_acquire);
	if (!turn || atomic_load_explicit(&p->turn, memory_order_relaxed) != turn)
		return false;
	memcpy(out, word, sizeof(word));
	return true;
}

void __attribute__((noinline)) nfs_kept_add(struct nfs_call *c, int result, uint64_t now_ns)
{
	const struct rr_call *rr = &c->eng.rr;
	uint64_t sent_ns = rr->sends ? rr->posted_ns : now_ns;
	const struct nfs_kept_call k = {
		.end_ns = now_ns,
		.queue_ns = sent_ns - c->eng.counted_ns,
		.rtt_ns = now_ns - sent_ns,
		.all_ns = now_ns - c->eng.start_ns,
		.tx_bytes = rr->sends ? (uint64_t)rr->msg_len + rr->data_len : 0,
		.rx_bytes = rr->sends ? (uint64_t)rr->reply_len + rr->placed_len : 0,
		.xid = rr->sends ? rr->xid : 0,
		.fh = c->args.fh ? kept_crc(c->args.fh) : 0,
		.result = result,
		.timeouts = (uint16_t)rr->timeouts,
		.sends = (uint16_t)(rr->sends < UINT16_MAX ? rr->sends : UINT16_MAX),
		.kind = (uint8_t)(c->eng.counted - c->lane->counted),
		.path = (uint8_t)rr->path,
		.lane = (uint8_t)c->lane->index,
	};

	kept_write(&c->lane->kept, &k);
}

/* ---- reports ---- */

static int kept_order(const void *a, const void *b)
{
	uint64_t x = ((const struct nfs_kept_call *)a)->end_ns, y = ((const struct nfs_kept_call *)b)->end_ns;

	return x < y ? -1 : x > y;
}

static unsigned kept_of_lane(const struct nfs_lane *l, struct nfs_kept_call *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NFS_KEPT; i++)
		n += kept_read(&l->kept.place[i], &out[n]);
	return n;
}

unsigned nfs_kept_calls(const struct nfs_client *cl, struct nfs_kept_call *out, unsigned most)
{
	struct nfs_kept_call *all = calloc((size_t)cl->nlanes * NFS_KEPT, sizeof(*all));
	unsigned n = 0, skip;

	for (unsigned i = 0; all && i < cl->nlanes; i++)
		n += kept_of_lane(&cl->lanes[i], all + n);
	if (n)
		qsort(all, n, sizeof(*all), kept_order);
	skip = n > most ? n - most : 0;
	if (n)
		memcpy(out, all + skip, (n - skip) * sizeof(*all));
	free(all);
	return n - skip;
}

/* The lane's list has them in the order of their beginning. */
unsigned nfs_kept_running(const struct nfs_lane *l, uint64_t now_ns, struct nfs_running_call *out, unsigned most)
{
	unsigned n = 0;

	list_for_each_entry(struct nfs_call, c, &l->running, eng.run_node) {
		const struct nfs_opdef *def = nfs_opdef_of(c);
		const struct rr_call *rr = &c->eng.rr;
		/* Or else the server has answered, and this waits for something else. */
		bool sent = rr->sends && rr->state != RR_CALL_IDLE;

		if (n == most)
			break;
		out[n++] = (struct nfs_running_call){
			.name = def ? def->name : "?",
			.all_ns = now_ns - c->eng.start_ns,
			.rtt_ns = sent ? now_ns - rr->posted_ns : 0,
			.xid = sent ? rr->xid : 0,
			.fh = c->args.fh ? kept_crc(c->args.fh) : 0,
			.sends = sent ? rr->sends : 0, .timeouts = rr->timeouts, .path = sent ? rr->path : 0, .lane = l->index,
		};
	}
	return n;
}

void nfs_kept_change(struct nfs_client *cl, uint64_t from_ns)
{
	for (unsigned i = 0; i < cl->nlanes; i++)
		atomic_store_explicit(&cl->lanes[i].kept_from_ns, from_ns, memory_order_relaxed);
}

uint64_t nfs_kept_from_ns(const struct nfs_client *cl)
{
	return cl->nlanes ? atomic_load_explicit(&cl->lanes[0].kept_from_ns, memory_order_relaxed) : 0;
}

const char *nfs_kept_name(const struct nfs_client *cl, const struct nfs_kept_call *k)
{
	const char *name = nfs_counted_name(cl->server.version, k->kind);

	return name ? name : "?";
}

const char *nfs_kept_result(int result)
{
	switch (result) {
	case 0:
	case NFS_NEXT:
		return "OK";
	case NFS_LATER:
	case NFS_DELAYED:
		return "the server said: later";
	case NFS_RECOVER:
	case NFS_REOPEN:
		return "the server has lost state";
	case NFS_AGAIN:
	case NFS_ALONE:
		return "it is sent again";
	default:
		return result < 0 ? strerror(-result) : "?";
	}
}

static void kept_log(const struct nfs_lane *l, const struct nfs_kept_call *k, uint64_t now_ns)
{
	log_warn("lane %u: %ju ms ago: %s (%08x), handle %08x, path %u: sent %u times, %ju bytes, received %ju, %ju us in the "
		 "queue, %ju us at the server, %ju us in all: %s", l->index, (uintmax_t)((now_ns - k->end_ns) / 1000000),
		 nfs_kept_name(l->client, k), k->xid, k->fh, k->path, k->sends, (uintmax_t)k->tx_bytes,
		 (uintmax_t)k->rx_bytes, (uintmax_t)(k->queue_ns / 1000), (uintmax_t)(k->rtt_ns / 1000),
		 (uintmax_t)(k->all_ns / 1000), nfs_kept_result(k->result));
}

static void kept_log_running(const struct nfs_running_call *r)
{
	char sent[80] = "waits to be sent";

	if (r->sends)
		snprintf(sent, sizeof(sent), "was sent %u times by path %u, last %ju ms ago", r->sends, r->path,
			 (uintmax_t)(r->rtt_ns / 1000000));
	log_warn("lane %u: %s (%08x), handle %08x, runs for %ju ms, %s", r->lane, r->name, r->xid, r->fh,
		 (uintmax_t)(r->all_ns / 1000000), sent);
}

/* Lanes have clocks of their own rounds, so another's may be a little ahead. */
static bool kept_may_say(struct nfs_client *cl, uint64_t now_ns)
{
	uint64_t last = atomic_load(&cl->said_ns);

	return (!last || now_ns >= last + SAY_NS) && atomic_compare_exchange_strong(&cl->said_ns, &last, now_ns);
}

void nfs_kept_say(struct nfs_lane *l, uint64_t now_ns)
{
	struct nfs_kept *k = &l->kept;
	uint64_t first = k->n > SAY_MOST ? k->n - SAY_MOST : 0;
	struct nfs_running_call running[SAY_RUNNING];
	struct nfs_kept_call call;
	unsigned n;

	if (!kept_may_say(l->client, now_ns))
		return;
	log_warn("lane %u: a call to %s had no answer in time; under way:", l->index, l->client->cfg.server);
	n = nfs_kept_running(l, now_ns, running, SAY_RUNNING);
	for (unsigned i = 0; i < n; i++)
		kept_log_running(&running[i]);
	log_warn("lane %u: calls before that were slow or failed: %s", l->index, k->n ? "" : "none");
	for (uint64_t i = first; i < k->n; i++)
		if (kept_read(&k->place[i % NFS_KEPT], &call))
			kept_log(l, &call, now_ns);
}
