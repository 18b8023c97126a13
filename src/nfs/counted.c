/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See counted.h. */
#include <errno.h>
#include <string.h>
#include "nfs/internal.h"

_Static_assert(NFS_OP_MAX <= NFS_KINDS, "operations are counted by kinds");

/* That a name or an attribute does not exist is an answer like another. */
static bool counted_usual(int status, int rc, const struct rr_call *rr)
{
	return !status && (!rc || rc == NFS_NEXT || rc == -ENOENT || rc == -ENODATA) && rr->sends <= 1 && !rr->timeouts;
}

void __attribute__((noinline)) nfs_counted_odd(struct nfs_call *c, int status, int rc)
{
	struct nfs_counted *n = c->eng.counted;
	const struct rr_call *rr = &c->eng.rr;
	uint64_t now = loop_turn(c->lane->loop);

	if (!status && rr->sends)
		nfs_counted_sent(n, rr, c->eng.counted_ns, now);
	else            /* it has failed, or it does not go by the server's connections */
		times_add(&n->rtt, now - (rr->sends ? rr->posted_ns : c->eng.counted_ns));
	if (status || (rc && rc != NFS_NEXT))
		stat_add_to(&n->errors, 1);
	if (rr->sends > 1)
		stat_add_to(&n->again, rr->sends - 1);
	/* They are those of all steps. */
	if (rc <= 0)
		stat_add_to(&n->timeouts, rr->timeouts);
	if (now - (rr->sends ? rr->posted_ns : c->eng.counted_ns) >= atomic_load(&c->lane->kept_from_ns) ||
	    !counted_usual(status, rc, rr))
		nfs_kept_add(c, status ? status : rc, now);
	c->eng.counted_ns = now;
}

/* ---- reports ---- */

const char *nfs_counted_name(const struct nfs_version *v, unsigned kind)
{
	if (v->procs)
		return kind < v->nprocs ? v->procs[kind] : NULL;
	return kind < NFS_OP_MAX && v->ops[kind] ? v->ops[kind]->name : NULL;
}

static void counted_sum(struct nfs_counted_sum *to, const struct nfs_counted *n)
{
	to->made += stat_get_from(&n->made);
	to->again += stat_get_from(&n->again);
	to->timeouts += stat_get_from(&n->timeouts);
	to->errors += stat_get_from(&n->errors);
	to->tx_bytes += stat_get_from(&n->tx_bytes);
	to->rx_bytes += stat_get_from(&n->rx_bytes);
	to->queue_ns += stat_get_from(&n->queue_ns);
	times_sum_add(&to->rtt, &n->rtt);
}

/* Kinds of one name are one: an operation may be there once for the control thread, and once for others. */
static bool counted_first(const struct nfs_version *v, const char *name, unsigned kind)
{
	for (unsigned i = 0; i < kind; i++)
		if (nfs_counted_name(v, i) && strcmp(nfs_counted_name(v, i), name) == 0)
			return false;
	return true;
}

static void counted_sum_of(struct nfs_counted_sum *to, const struct nfs_client *cl, const char *name)
{
	for (unsigned kind = 0; kind < NFS_KINDS; kind++) {
		const char *is = nfs_counted_name(cl->server.version, kind);

		for (unsigned i = 0; i < cl->nlanes && is && strcmp(is, name) == 0; i++)
			counted_sum(to, &cl->lanes[i].counted[kind]);
	}
}

void nfs_counted_each(const struct nfs_client *cl, void (*look)(const struct nfs_counted_sum *s, void *to), void *to)
{
	for (unsigned kind = 0; kind < NFS_KINDS; kind++) {
		const char *name = nfs_counted_name(cl->server.version, kind);
		struct nfs_counted_sum s = { 0 };
		char word[32];
		size_t n = 0;

		if (!name || !counted_first(cl->server.version, name, kind))
			continue;
		counted_sum_of(&s, cl, name);
		for (; *name && n < sizeof(word) - 1; name++)
			if (*name != ' ')
				word[n++] = *name;
		word[n] = '\0';
		s.name = word;
		look(&s, to);
	}
}

static void counted_put(const struct nfs_counted_sum *s, void *out)
{
	if (s->made)
		stats_put(out, s->made, "rpc.%s", s->name);
}

void nfs_put_calls(const struct stats_out *out, const struct nfs_client *cl)
{
	nfs_counted_each(cl, counted_put, (void *)(uintptr_t)out);
}
