/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See promised.h. */
#include <fcntl.h>
#include <stdlib.h>
#include "vfs/promised.h"
#include "vfs/vfs_impl.h"

#define NS_PER_S UINT64_C(1000000000)

struct promised {
	/* Under that delegation, after so many own changes, and so many READs: */
	uint64_t delegation, quiet;
	unsigned reads;
	struct nfs_attr attr;
	uint64_t asked_ns;
	uint64_t change_ns;             /* when attr.change was first seen */
	bool born;                      /* the rest is known, which never changes: */
	bool has_btime;
	struct timespec btime;
};

uint64_t promised_settles_ns = 30000000000ull;

/* Servers give a file its blocks some time after it was written, and that is no change. */
static bool promised_is_settled(const struct promised *p)
{
	return p->attr.used >= p->attr.size || p->asked_ns - p->change_ns >= promised_settles_ns;
}

/* quiet: ownchange_changes(). */
static bool promised_holds_locked(const struct inode *ino, uint64_t quiet, uint64_t delegation)
{
	const struct promised *p = ino->promised;

	return p && quiet && !ino->unpromised && p->delegation == delegation &&
	       p->quiet == quiet && p->attr.change == ino->change;
}

void promised_read(struct inode *ino)
{
	struct timespec now;

	if (!(atomic_load(&ino->file.delegation) & NFS_DELEGATION_TIMES)) {
		atomic_fetch_add(&ino->reads, 1);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	atomic_store(&ino->file.accessed_ns, (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec);
}

/* The attributes that were kept, with what this mount knows itself. */
static struct nfs_attr promised_attr_now(const struct inode *ino, const struct promised *p)
{
	uint64_t ns = atomic_load(&ino->file.accessed_ns);
	struct nfs_attr attr = p->attr;

	if ((p->delegation & NFS_DELEGATION_TIMES) && ns > (uint64_t)attr.atime.tv_sec * NS_PER_S +
							    (uint64_t)attr.atime.tv_nsec)
		attr.atime = (struct timespec){ (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	return attr;
}

/* quiet, reads: the inode's, from before. */
static bool promised_get(const struct vfs_op *op, struct inode *ino, uint64_t delegation, uint64_t quiet,
			 unsigned reads, bool birth, struct nfs_results *res)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct promised *p;
	bool is;

	inode_lock(t, ino);
	p = ino->promised;
	is = promised_holds_locked(ino, quiet, delegation) && p->reads == reads && promised_is_settled(p) &&
	     (!birth || p->born);
	if (is) {
		res->attr = promised_attr_now(ino, p);
		res->has_btime = p->has_btime;
		res->btime = p->btime;
	}
	inode_unlock(t, ino);
	return is;
}

bool promised_attr(struct vfs_op *op, bool birth)
{
	op->attr.reads = atomic_load(&op->ino->reads);
	op->quiet = ownchange_changes(&op->vl->vfs->inodes, op->ino);
	return promised_get(op, op->ino, op->attr.delegation, op->quiet, op->attr.reads, birth, &op->call.res);
}

bool promised_attr_of(struct vfs_op *op, struct inode *ino)
{
	uint64_t delegation = nfs_delegated(op->vl->lane->target.server, &ino->file);
	uint64_t quiet = ownchange_changes(&op->vl->vfs->inodes, ino);
	unsigned reads = atomic_load(&ino->reads);

	return delegation && promised_get(op, ino, delegation, quiet, reads, false, &op->call.res);
}

/* Without memory nothing is kept. */
static void promised_keep_locked(const struct vfs_op *op, uint64_t delegation, unsigned reads)
{
	const struct nfs_results *res = &op->call.res;
	struct promised *p = op->ino->promised;

	if (!p)
		p = op->ino->promised = calloc(1, sizeof(*p));
	if (!p)
		return;
	if (!p->change_ns || p->attr.change != res->attr.change)
		p->change_ns = op->asked_ns;
	p->delegation = delegation;
	p->quiet = op->quiet;
	p->reads = reads;
	p->attr = res->attr;
	p->asked_ns = op->asked_ns;
	if (op->call.op != NFS_OP_BIRTH)
		return;
	p->born = true;
	p->has_btime = res->has_btime;
	p->btime = res->btime;
}

void promised_changed_locked(struct inode *ino, uint64_t nr, const struct ownchange_after *after)
{
	uint64_t end = after->attr ? after->attr->size : after->end;
	struct promised *p = ino->promised;

	if (p && !nfs_delegation_writes(p->delegation))
		p = NULL;               /* it goes back */
	if (p && after->attr && nr == ino->changes + 1) {
		if (p->attr.change != after->attr->change)
			p->change_ns = after->since_ns;
		p->attr = *after->attr;
		p->asked_ns = after->since_ns;
		p->quiet = nr;
	} else if (p && end >= p->attr.size) {
		p->attr.size = end;
	} else if (p && (after->attr || !end)) {
		p->delegation = 0;
	}
}

static bool promised_attr_locked(const struct inode *ino, uint64_t delegation, uint64_t *size, uint64_t *change)
{
	const struct promised *p = ino->promised;

	if (!p || p->delegation != delegation || ino->unpromised)
		return false;
	*size = p->attr.size;
	*change = p->attr.change;
	return true;
}

/* Data that is held first: what leaves meanwhile has been counted before. */
bool promised_asked(struct nfs_lane *l, const struct nfs_delegation *d, uint64_t *size, uint64_t *change)
{
	struct inode *ino = container_of(d->file, struct inode, file);
	struct vfs_lane *vl = l->front;
	uint64_t end;
	bool is;

	if (!vl || !inode_ref_live(ino))
		return false;
	end = behind_unsent_end(ino);
	inode_lock(&vl->vfs->inodes, ino);
	is = promised_attr_locked(ino, d->number, size, change);
	inode_unlock(&vl->vfs->inodes, ino);
	inode_put(&vl->vfs->inodes, ino, 1);
	if (is && end) {
		*size = *size > end ? *size : end;
		++*change;
	}
	return is;
}

/* Has this mount changed nothing since the call was sent? */
static bool promised_is_quiet(const struct vfs_op *op)
{
	return op->quiet && ownchange_changes(&op->vl->vfs->inodes, op->ino) == op->quiet;
}

/* ... and has the file's delegation been the same? */
static bool promised_may_keep(const struct vfs_op *op, uint64_t delegation)
{
	bool one_name = op->call.res.attr.nlink == 1 || S_ISDIR(op->ino->type);

	return promised_is_quiet(op) && one_name && promised_delegation(op) == delegation;
}

void promised_keep(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	if (!promised_may_keep(op, op->attr.delegation))
		return;
	inode_lock(t, op->ino);
	promised_keep_locked(op, op->attr.delegation, op->attr.reads);
	inode_unlock(t, op->ino);
}

/* ---- OPEN ---- */

/* The one name by which op's file may have been found is held. */
static bool promised_is_named_locked(const struct vfs_op *op)
{
	const struct names_of *n = &op->open.names;

	return op->open.named && op->call.args.nwhere == 1 &&
	       names_are_held_locked(op->ino, n->dir[0]->id, n->name[0], op->open.delegation);
}

/* One to read is for opens that only read. */
static uint64_t promised_delegation_of_open(struct vfs_op *op)
{
	uint64_t number = promised_delegation(op);

	return (op->call.args.file.flags & O_ACCMODE) == O_RDONLY || nfs_delegation_writes(number) ? number : 0;
}

bool promised_opens(struct vfs_op *op)
{
	struct nfs_server *s = op->vl->lane->target.server;
	struct inode_table *t = &op->vl->vfs->inodes;
	struct op_open *o = &op->open;
	const struct promised *p;
	uint64_t asked_ns = 0;

	o->delegation = promised_delegation_of_open(op);
	/* A READ of another open may be executed behind OPEN, and have its reply before. */
	o->reads = atomic_load(&op->ino->reads) - (!o->delegation && atomic_load(&op->ino->nfiles));
	if (!o->delegation)
		return false;
	inode_lock(t, op->ino);
	p = op->ino->promised;
	if (promised_holds_locked(op->ino, op->quiet, o->delegation) && promised_is_named_locked(op)) {
		op->call.res.attr = promised_attr_now(op->ino, p);
		asked_ns = p->asked_ns;
	}
	inode_unlock(t, op->ino);
	if (asked_ns)
		op->call.open = nfs_open_again(s, &op->ino->file, o->delegation, &op->cred,
					       op->call.args.file.flags, op->call.args.file.exec);
	if (!asked_ns || !op->call.open)
		return false;
	op->asked_ns = asked_ns;
	o->delegation = 0;
	op->call.res.status = 0;
	return true;
}

/* What the server has granted with OPEN may be older than a change of this mount. Under a delegation to write
 * only changes of data leave that: what was sent under it has been granted what holds. */
static bool promised_is_in_doubt(const struct vfs_op *op, uint64_t held)
{
	return !promised_is_quiet(op) && (!nfs_delegation_writes(held) || held == op->call.res.open.delegation);
}

void promised_opened(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct op_open *o = &op->open;
	const struct nfs_open_results *res = &op->call.res.open;
	uint64_t delegation = o->delegation ? o->delegation : res->delegation;
	uint64_t held = atomic_load(&op->ino->file.delegation);

	if (!held)
		return;
	if (promised_is_in_doubt(op, held) && nfs_undelegate(&op->vl->vfs->cl->server, &op->ino->file))
		delegations_tell(op->vl);
	if (!delegation || !promised_may_keep(op, delegation))
		return;
	inode_lock(t, op->ino);
	promised_keep_locked(op, delegation, o->reads);
	if (res->named)
		names_hold_locked(op->ino, o->names.dir[0]->id, o->names.name[0], delegation);
	inode_unlock(t, op->ino);
}
