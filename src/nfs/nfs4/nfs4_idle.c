/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which delegations (nfs4_delegs.h) nobody misses: those of files that are not open, the one first that was
 * not used for longest. Who uses one only says so (nfs_file.used), and the control thread's tick sorts them:
 * HELD is in that order as of the last tick. That tick also ends pauses.
 */
#include "nfs/nfs4/nfs4_impl.h"

static const bitmap4 idle_all_kinds = { .len = 1, .words = { UINT32_MAX } };

/* RCA4_TYPE_MASK_*. */
static unsigned idle_kind(const struct nfs4_delegation *d)
{
	if (d->d.number & NFS_DELEGATION_OF_DIR)
		return RCA4_TYPE_MASK_DIR_DLG;
	return nfs_delegation_writes(d->d.number) ? RCA4_TYPE_MASK_WDATA_DLG : RCA4_TYPE_MASK_RDATA_DLG;
}

static unsigned idle_count_locked(const struct nfs4_delegs *t, const bitmap4 *kinds)
{
	unsigned n = 0;

	list_for_each_entry(const struct nfs4_delegation, d, &t->in[NFS4_HELD].list, node)
		n += bitmap4_isset(kinds, idle_kind(d));
	return n;
}

static void idle_recall_locked(struct nfs4_delegs *t, const bitmap4 *kinds, uint32_t keep)
{
	unsigned n = idle_count_locked(t, kinds);

	list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[NFS4_HELD].list, node) {
		if (n <= keep)
			return;
		if (bitmap4_isset(kinds, idle_kind(d)) && !atomic_load(&d->d.file->opens)) {
			nfs4_delegs_drop_locked(t, d, false);
			n--;
		}
	}
}

void nfs4_idle_recall(struct nfs4_delegs *t, const bitmap4 *kinds, uint32_t keep)
{
	pthread_mutex_lock(&t->mu);
	idle_recall_locked(t, kinds, keep);
	pthread_mutex_unlock(&t->mu);
}

/* ---- the sweep ---- */

/* Those that are used go to the end of the list. */
static void idle_sort_locked(struct nfs4_delegs *t, uint64_t now_ns)
{
	struct list *held = &t->in[NFS4_HELD].list, all, used, *n;

	list_init(&all);
	list_init(&used);
	list_splice_tail(&all, held);
	while ((n = list_pop(&all))) {
		struct nfs4_delegation *d = container_of(n, struct nfs4_delegation, node);
		bool is_used = atomic_exchange(&d->d.file->used, false) || atomic_load(&d->d.file->opens);

		if (is_used)
			d->used_ns = now_ns;
		list_add_tail(is_used ? &used : held, n);
	}
	list_splice_tail(held, &used);
}

static void idle_drop_locked(struct nfs4_delegs *t, uint64_t now_ns, uint64_t patience_ns)
{
	list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[NFS4_HELD].list, node) {
		if (now_ns - d->used_ns < patience_ns)
			return;
		nfs4_delegs_drop_locked(t, d, false);
	}
}

static void idle_end_pauses_locked(struct nfs4_delegs *t, uint64_t now_ns)
{
	list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[NFS4_PAUSES].list, node)
		if (now_ns >= d->again_ns)
			nfs4_delegs_drop_locked(t, d, false);
}

void nfs4_idle_sweep(struct nfs4_delegs *t, uint64_t now_ns, uint64_t patience_ns)
{
	if (!atomic_load(&t->count))
		return;
	pthread_mutex_lock(&t->mu);
	idle_end_pauses_locked(t, now_ns);
	idle_sort_locked(t, now_ns);
	idle_drop_locked(t, now_ns, patience_ns);
	if (atomic_load(&t->in[NFS4_HELD].n) >= NFS4_DELEGS_MANY)
		idle_recall_locked(t, &idle_all_kinds, NFS4_DELEGS_MAX / 2);
	pthread_mutex_unlock(&t->mu);
}
