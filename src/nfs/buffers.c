/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arena of a mount. It may grow by cfg.room bytes: its keeper registers each extent with all
 * devices that the mount's connections use (cl->domain), and leaves some memory to others. Memory of
 * programs (base/lent.h) is registered in the same way, behind the extents, if cfg.lends; it, too, leaves some.
 *
 * nfs_client_new() begins this before there are connections. nfs_client_free() ends the keeper
 * while there still are lanes and devices.
 */
#include <string.h>
#include "fabric/fabric.h"
#include "nfs/internal.h"

/* Of the machine's memory, or of the control group's, a sixteenth is left to others. */
#define OTHERS(total) ((total) / 16)

static int64_t buffers_spare(void *ctx)
{
	const struct nfs_client *cl = ctx;
	uint64_t left = meminfo_available(&cl->meminfo), others = OTHERS(meminfo_total(&cl->meminfo));

	return (int64_t)left - (int64_t)others;
}

static int buffers_add(void *ctx, unsigned i, const struct arena_range *r, struct errbuf *eb)
{
	struct nfs_client *cl = ctx;

	return fab_domain_add(&cl->domain, i, &(struct fab_piece){ r->base, r->len, -1 }, eb);
}

static bool buffers_remove(void *ctx, unsigned i)
{
	struct nfs_client *cl = ctx;

	return fab_domain_remove(&cl->domain, i);
}

static const struct arena_keeper_ops keeper_ops = {
	.spare = buffers_spare, .add = buffers_add, .remove = buffers_remove, .look_ms = 1000,
};

static int buffers_lend(void *ctx, unsigned i, void *mem, size_t len, int dmabuf, struct errbuf *eb)
{
	struct nfs_client *cl = ctx;

	return fab_domain_add(&cl->domain, cl->arena.more.n + i, &(struct fab_piece){ mem, len, dmabuf }, eb);
}

static bool buffers_take_back(void *ctx, unsigned i)
{
	struct nfs_client *cl = ctx;

	return fab_domain_remove(&cl->domain, cl->arena.more.n + i);
}

/* iWARP in user space pins nothing: what a program lends may be swapped out like its other memory. */
static int64_t buffers_spare_to_lend(void *ctx)
{
	const struct nfs_client *cl = ctx;

	return cl->cfg.paths[0].fabric == &fabric_iwarp || !meminfo_total(&cl->meminfo) ? INT64_MAX : buffers_spare(ctx);
}

static const struct lent_ops lent_ops = {
	.add = buffers_lend, .remove = buffers_take_back, .spare = buffers_spare_to_lend,
};

/* What there is from the beginning is enough to work with. */
static void grow_later(struct nfs_client *cl)
{
	size_t n = cl->cfg.room / ARENA_EXTENT, lent = cl->cfg.lends ? LENT_PIECES : 0;
	int rc = 0;

	if (n > ARENA_EXTENTS_MAX)
		n = ARENA_EXTENTS_MAX;
	if (n + lent)
		rc = fab_domain_pieces(&cl->domain, (unsigned)(n + lent));
	if (!rc)
		rc = arena_grows(&cl->arena, (unsigned)n, &keeper_ops, cl);
	if (rc)
		log_warn("the buffers for write-behind cannot grow: %s",
			 strerror(-rc));
	rc = lent && cl->domain.npieces ? lent_init(&cl->arena.lent, &lent_ops, cl) : 0;
	if (rc)
		log_warn("this mount has no rings: %s", strerror(-rc));
}

int nfs_buffers_init(struct nfs_client *cl)
{
	struct arena_counts all = cl->cfg.buffers;
	int rc;

	for (int cls = 0; cls < ARENA_CLASSES; cls++)
		all.n[cls] *= cl->nlanes;
	rc = arena_init(&cl->arena, &all, cl->nlanes);
	if (!rc)
		grow_later(cl);
	return rc;
}
