/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The life of a file system. See vfs.h. */
#include <sys/random.h>
#include "vfs/dirnames.h"
#include "vfs/vfs_impl.h"

void vfs_init(struct vfs *vfs, const struct vfs_config *cfg, const struct vfs_front *front,
	      struct nfs_client *cl)
{
	vfs->cl = cl;
	vfs->front = front;
	vfs->place = cfg->place;
	vfs->rdirplus = cfg->rdirplus;
	vfs->nlanes = cl->nlanes;
	if (getrandom(&vfs->silly_seed, sizeof(vfs->silly_seed), 0) != sizeof(vfs->silly_seed))
		vfs->silly_seed = mono_ns();
	inode_table_init(&vfs->inodes, front);
	vfs->inodes.acregmin = cfg->acregmin;
	vfs->inodes.acregmax = cfg->acregmax;
	vfs->inodes.acdirmin = cfg->acdirmin;
	vfs->inodes.acdirmax = cfg->acdirmax;
	vfs->inodes.negative_timeo = cfg->negative_timeo;
	vfs->inodes.solo = cfg->solo;
	vfs->inodes.dirnames = cl->cfg.delegations && cfg->dirnames ? dirnames_new() : NULL;
	behind_pool_init(&vfs->behind, &cl->arena, cfg->write_behind);
	ahead_init(vfs, cfg->readahead);
	offloads_init(&vfs->offloads);
}

void vfs_change(struct vfs *vfs, const struct vfs_config *cfg)
{
	struct inode_table *t = &vfs->inodes;

	atomic_store(&t->acregmin, cfg->acregmin);
	atomic_store(&t->acregmax, cfg->acregmax);
	atomic_store(&t->acdirmin, cfg->acdirmin);
	atomic_store(&t->acdirmax, cfg->acdirmax);
	atomic_store(&t->negative_timeo, cfg->negative_timeo);
	atomic_store(&vfs->behind.off, !cfg->write_behind);
	ahead_change(vfs, cfg->readahead);
}

/* The front end may not have told us of a close() just before the end. */
static void vfs_last_calls(struct nfs_lane *l, void *arg)
{
	struct vfs *vfs = arg;
	struct silly *s;

	while (nfs_lane_up(l) && (s = opencount_take_silly(&vfs->inodes)))
		silly_remove(vfs->lanes[l->index], s);
	delegations_return(vfs->lanes[l->index]);
}

void vfs_stop(struct vfs *vfs)
{
	size_t left = atomic_load(&vfs->behind.bytes);

	if (left)
		log_err("%zu bytes of written data were lost: %s did not accept them",
			left, vfs->cl->cfg.server);
	nfs_undelegate_all(&vfs->cl->server);
	nfs_each_lane(vfs->cl, vfs_last_calls, vfs);
	/* The client, which has the arena, is freed before vfs. */
	behind_pool_stop(&vfs->behind);
}

void vfs_fini(struct vfs *vfs)
{
	offloads_fini(&vfs->offloads);
	ahead_fini(vfs);
	inode_table_fini(&vfs->inodes);
	dirnames_free(vfs->inodes.dirnames);
	behind_pool_fini(&vfs->behind);
}
