/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See dirnames.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/dirnames.h"
#include "vfs/promised.h"
#include "vfs/vfs_impl.h"

#define NS_PER_S 1000000000ull
#define DENIALS_MAX 10u                 /* the longest pause is 2^10 s */

struct dirname {
	struct hash_node by_name;
	struct list node;
	/* In that directory, under that delegation, after so many own changes. All are constant. */
	uint64_t dir, delegation, quiet;
	struct nfs_fh fh;               /* len 0: there is no such name */
	char text[];
};

struct dirnames *dirnames_new(void)
{
	struct dirnames *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->mu, NULL);
	list_init(&t->all);
	return t;
}

static void dirnames_drop_locked(struct dirnames *t, struct dirname *n)
{
	hash_del(&n->by_name);
	list_del(&n->node);
	t->n--;
	free(n);
}

void dirnames_free(struct dirnames *t)
{
	if (!t)
		return;
	list_for_each_entry_safe(struct dirname, n, tmp, &t->all, node)
		dirnames_drop_locked(t, n);
	pthread_mutex_destroy(&t->mu);
	free(t);
}

/* ---- the table ---- */

static uint32_t dirnames_hash(uint64_t dir, const char *text)
{
	return (uint32_t)hash_bytes(text, strlen(text), dir);
}

static struct dirname *dirnames_find_locked(struct dirnames *t, uint64_t dir, const char *text)
{
	uint32_t hash = dirnames_hash(dir, text);

	hash_for_each(h, hash_chain(t->by_name, hash), hash) {
		struct dirname *n = container_of(h, struct dirname, by_name);

		if (n->dir == dir && !strcmp(n->text, text))
			return n;
	}
	return NULL;
}

/* In the place of an older one. Without memory there is none. */
static void dirnames_put_locked(struct dirnames *t, const struct vfs_op *op, const struct nfs_fh *fh)
{
	struct dirname *old = dirnames_find_locked(t, op->ino->id, op->name), *n;
	size_t size = strlen(op->name) + 1;
	uint32_t hash;

	if (!old && t->n >= DIRNAMES_MAX)
		old = container_of(t->all.next, struct dirname, node);
	if (old)
		dirnames_drop_locked(t, old);
	n = malloc(sizeof(*n) + size);
	if (!n)
		return;
	n->dir = op->ino->id;
	n->delegation = op->lookup.delegation;
	n->quiet = op->quiet;
	n->fh = *fh;
	memcpy(n->text, op->name, size);
	hash = dirnames_hash(n->dir, n->text);
	hash_add(hash_chain(t->by_name, hash), &n->by_name, hash);
	list_add_tail(&t->all, &n->node);
	t->n++;
}

/* false: nobody knows. */
static bool dirnames_get(struct dirnames *t, const struct vfs_op *op, struct nfs_fh *fh)
{
	const struct dirname *n;
	bool known;

	pthread_mutex_lock(&t->mu);
	n = dirnames_find_locked(t, op->ino->id, op->name);
	known = n && n->delegation == op->lookup.delegation && n->quiet == op->quiet;
	if (known)
		*fh = n->fh;
	pthread_mutex_unlock(&t->mu);
	return known;
}

/* ---- the delegation ---- */

static void dirnames_asked(struct vfs_op *op)
{
	struct dirnames *t = op->vl->vfs->inodes.dirnames;
	unsigned n;

	if (!op->call.res.status) {
		atomic_store(&t->denials, 0);
	} else {
		n = atomic_fetch_add(&t->denials, 1);
		atomic_store(&t->ask_ns, mono_ns() + (NS_PER_S << (n < DENIALS_MAX ? n : DENIALS_MAX)));
	}
	vfs_op_free(op);
}

static bool dirnames_is_due(struct inode *dir, const struct dirnames *t, uint64_t now_ns)
{
	uint64_t asked = atomic_load(&dir->asked_ns);

	return atomic_fetch_add(&dir->lookups, 1) + 1 >= DIRNAMES_LOOKUPS && now_ns >= atomic_load(&t->ask_ns) &&
	       (!asked || now_ns - asked >= DIRNAMES_PAUSE_S * NS_PER_S) &&
	       atomic_compare_exchange_strong(&dir->asked_ns, &asked, now_ns);
}

static void dirnames_ask(struct vfs_op *op)
{
	struct vfs *vfs = op->vl->vfs;
	struct vfs_op *ask;

	if (nfs_lacks(&vfs->cl->server, NFS_OP_GET_DIR_DELEGATION) || atomic_load(&op->ino->file.delegation) ||
	    !dirnames_is_due(op->ino, vfs->inodes.dirnames, mono_ns()))
		return;
	atomic_store(&op->ino->lookups, 0);
	ask = vfs_op_quiet(op->vl, op->ino, &op->cred);
	if (ask)
		vfs_start(ask, NFS_OP_GET_DIR_DELEGATION, dirnames_asked);
}

/* ---- LOOKUP ---- */

static bool dirnames_is_there(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct inode *ino = inode_by_fh(t, &op->call.res.fh);
	bool known;

	if (!ino)
		return false;
	known = promised_attr_of(op, ino);
	inode_put(t, ino, 1);
	return known;
}

bool dirnames_answer(struct vfs_op *op)
{
	struct nfs_fh *fh = &op->call.res.fh;
	struct inode_table *t = &op->vl->vfs->inodes;

	op->lookup.delegation = promised_delegation(op);
	if (!op->lookup.delegation) {
		dirnames_ask(op);
		return false;
	}
	if (!op->quiet || !dirnames_get(t->dirnames, op, fh) || (fh->len && !dirnames_is_there(op)))
		return false;
	op->call.res.status = fh->len ? 0 : -ENOENT;
	return true;
}

static bool dirnames_may_keep(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	bool promised;

	inode_lock(t, op->ino);
	promised = !op->ino->unpromised;
	inode_unlock(t, op->ino);
	return promised && op->quiet && ownchange_changes(t, op->ino) == op->quiet &&
	       promised_delegation(op) == op->lookup.delegation;
}

void dirnames_keep(struct vfs_op *op)
{
	static const struct nfs_fh none;
	struct dirnames *t = op->vl->vfs->inodes.dirnames;
	int status = op->call.res.status;

	if (!op->lookup.delegation || (status && status != -ENOENT) || !dirnames_may_keep(op))
		return;
	pthread_mutex_lock(&t->mu);
	dirnames_put_locked(t, op, status ? &none : &op->call.res.fh);
	pthread_mutex_unlock(&t->mu);
}
