/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registrations that are kept by range; see mrcache.h. */
#include <errno.h>
#include <stdlib.h>
#include "rpcrdma/mrcache.h"

#define PAGE ((size_t)4096)

struct rr_mrcache_entry {
	struct list node;               /* in a chain of hash[] */
	struct list idle;               /* in cache->idle, or unlinked */
	struct fab_mr mr;
	unsigned access;
	unsigned users;                 /* 0: idle */
};

void rr_mrcache_init(struct rr_mrcache *c, const struct fabric *fabric, struct fab_conn *fab,
		     size_t limit, struct stats *st)
{
	*c = (struct rr_mrcache){ .fabric = fabric, .fab = fab, .limit = limit, .st = st };
	list_init(&c->idle);
	for (unsigned i = 0; i < RR_MRCACHE_HASH; i++)
		list_init(&c->hash[i]);
}

void rr_mrcache_fini(struct rr_mrcache *c)
{
	for (unsigned i = 0; i < RR_MRCACHE_HASH; i++)
		for (struct list *n; (n = list_pop(&c->hash[i])); )
			free(container_of(n, struct rr_mrcache_entry, node));
}

static struct list *chain(struct rr_mrcache *c, uintptr_t first)
{
	return &c->hash[(first / PAGE * 2654435761u >> 8) & (RR_MRCACHE_HASH - 1)];
}

static void drop(struct rr_mrcache *c, struct rr_mrcache_entry *e)
{
	list_del(&e->node);
	list_del(&e->idle);
	c->bytes -= e->mr.len;
	c->fabric->dereg(c->fab, &e->mr);
	free(e);
}

/* False: nothing is idle. */
static bool drop_oldest(struct rr_mrcache *c)
{
	if (list_empty(&c->idle))
		return false;
	drop(c, container_of(c->idle.next, struct rr_mrcache_entry, idle));
	return true;
}

static struct rr_mrcache_entry *find(struct rr_mrcache *c, uintptr_t first, size_t len,
				     unsigned access)
{
	list_for_each(n, chain(c, first)) {
		struct rr_mrcache_entry *e = container_of(n, struct rr_mrcache_entry, node);

		if ((uintptr_t)e->mr.base == first && e->mr.len >= len && e->access == access)
			return e;
	}
	return NULL;
}

/* As far as what is idle allows it. */
static void shrink_to(struct rr_mrcache *c, size_t bytes)
{
	while (c->bytes > bytes && drop_oldest(c))
		;
}

static int add(struct rr_mrcache *c, uintptr_t first, size_t len, unsigned access,
	       struct rr_mrcache_entry **out)
{
	struct rr_mrcache_entry *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return -ENOMEM;
	shrink_to(c, c->limit > len ? c->limit - len : 0);
	do {
		rc = c->fabric->reg(c->fab, (void *)first, len, access, &e->mr, NULL);
	} while ((rc == -ENOMEM || rc == -EAGAIN || rc == -ENOSPC) && drop_oldest(c));
	if (rc) {
		free(e);
		return rc;
	}
	stat_add(c->st, STAT_RDMA_REGISTRATIONS, 1);
	e->access = access;
	c->bytes += len;
	list_init(&e->idle);
	list_add_head(chain(c, first), &e->node);
	*out = e;
	return 0;
}

int rr_mrcache_get(struct rr_mrcache *c, void *mem, size_t len, unsigned access,
		   struct rr_mrcache_entry **out)
{
	uintptr_t first = (uintptr_t)mem & ~(uintptr_t)(PAGE - 1);
	size_t pages = ((uintptr_t)mem + len - first + PAGE - 1) & ~(PAGE - 1);
	int rc = 0;

	*out = find(c, first, pages, access);
	if (!*out)
		rc = add(c, first, pages, access, out);
	if (rc)
		return rc;
	(*out)->users++;
	list_del(&(*out)->idle);
	return 0;
}

void rr_mrcache_put(struct rr_mrcache *c, struct rr_mrcache_entry *e, bool keep)
{
	if (--e->users)
		return;
	if (!keep) {
		drop(c, e);
		return;
	}
	list_add_tail(&c->idle, &e->idle);
	shrink_to(c, c->limit);
}

const struct fab_mr *rr_mrcache_mr(const struct rr_mrcache_entry *e)
{
	return &e->mr;
}
