/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tells known.h which inodes and names a request's call changes: nfs/ops.h. */
#include "fuse/fs_impl.h"

/* The handles in a request's call are those of inodes. */
static struct inode *inode_of(const struct nfs_fh *fh)
{
	return container_of((struct nfs_fh *)(uintptr_t)fh, struct inode, fh);
}

static void begin(struct fs_req *r, unsigned i, const struct nfs_fh *fh)
{
	struct inode *ino = inode_of(fh);

	r->change[i].ino = ino;
	if (nfs_effects(r->call.op) & NFS_CHANGES_DATA)
		ahead_change_begins(ino);
	r->change[i].nr = known_change_begins(&r->fl->fs->inodes, ino);
}

void fs_changes_begin(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;
	const struct nfs_call *c = &r->call;
	unsigned effects = nfs_effects(c->op);
	bool two = effects & NFS_CHANGES_FH2;

	if (!two || c->args.fh != c->args.fh2)
		begin(r, 0, c->args.fh);
	if (two)
		begin(r, 1, c->args.fh2);
	if (effects & (NFS_ADDS_NAME | NFS_ADDS_NAME2))
		known_here(t, inode_of(two ? c->args.fh2 : c->args.fh)->id,
			   effects & NFS_ADDS_NAME ? c->args.name : c->args.name2);
}

/* Ends r->change[i]. */
static void end(struct fs_req *r, unsigned i)
{
	const struct nfs_call *c = &r->call;
	struct inode *ino = r->change[i].ino;
	bool data = nfs_effects(c->op) & NFS_CHANGES_DATA;
	struct known_after a;

	if (!ino)
		return;
	a = (struct known_after){ .since_ns = c->eng.start_ns };
	r->change[i].ino = NULL;
	if (data)
		ahead_change_ends(ino);
	if (c->res.status == 0 && data) {
		a.attr = c->res.has_attr ? &c->res.attr : NULL;
	} else if (c->res.status == 0) {
		/* RENAME within one directory is its one change, the second. */
		a.attr = c->res.has_dir_attr[i] ? &c->res.dir_attr[i] : NULL;
		a.no_owner = c->res.dir_no_owner;
		a.change = &c->res.dir_change[i];
	}
	known_change_ends(&r->fl->fs->inodes, ino, r->change[i].nr, &a);
}

/* For a call that removes or moves a name. nr: the change of the name's directory. */
static void end_name(struct fs_req *r, uint64_t nr)
{
	struct inode_table *t = &r->fl->fs->inodes;
	const struct nfs_call *c = &r->call;

	known_changed(t, inode_of(c->args.fh)->id, c->args.name);
	if (nfs_effects(c->op) & NFS_ADDS_NAME2)
		known_changed(t, inode_of(c->args.fh2)->id, c->args.name2);
	if (c->res.status == 0)
		fs_name_gone(r, inode_of(c->args.fh), nr, c->args.name);
}

void fs_changes_end(struct fs_req *r)
{
	bool first = r->change[0].ino;

	end(r, 0);
	end(r, 1);
	if (nfs_effects(r->call.op) & NFS_DROPS_NAME)
		end_name(r, r->change[first ? 0 : 1].nr);
}

void fs_name_gone(struct fs_req *r, struct inode *dir, uint64_t nr, const char *name)
{
	struct fs *fs = r->fl->fs;

	known_gone(&fs->inodes, dir, nr, name,
		   r->call.eng.start_ns + (uint64_t)(fs_negative_timeo(fs) * 1e9));
}
