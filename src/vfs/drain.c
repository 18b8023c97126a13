/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See drain.h. */
#include <unistd.h>
#include "vfs/drain.h"
#include "vfs/vfs_impl.h"

/* The end of the mount. Without a connection the server is waited for that long. With one, a call
 * may take its time (a COMMIT on a slow disk): if the server is gone, timeo ends the connection.
 * The rest is for one that connects and says nothing. */
#define DRAIN_DOWN_NS 3000000000ull
#define DRAIN_UP_NS   60000000000ull
/* After so long the log says that somebody waits. */
#define DRAIN_SAY_NS  5000000000ull

static bool drain_any_up(const struct vfs *vfs)
{
	for (unsigned i = 0; i < vfs->nlanes; i++)
		if (nfs_lane_up(vfs->lanes[i]->lane))
			return true;
	return false;
}

bool drain_is_silent(const struct drain *d, const struct vfs *vfs)
{
	uint64_t now = mono_ns(), end_by = atomic_load(&vfs->end_by_ns);

	return (end_by && now >= end_by) || now - d->up_ns >= DRAIN_DOWN_NS ||
	       now - d->heard_ns >= (uint64_t)vfs->cl->cfg.timeo_ms * 1000000 + DRAIN_UP_NS;
}

struct drain drain_begins(const struct vfs *vfs)
{
	uint64_t now = mono_ns();

	return (struct drain){
		.left = atomic_load(&vfs->behind.bytes), .begin_ns = now, .heard_ns = now, .up_ns = now,
	};
}

void drain_look(struct drain *d, const struct vfs *vfs)
{
	size_t left = atomic_load(&vfs->behind.bytes);
	uint64_t now = mono_ns(), reply = nfs_server_replied_ns(&vfs->cl->server);

	if (drain_any_up(vfs))
		d->up_ns = now;
	if (left < d->left)
		d->heard_ns = now;
	else if (reply > d->heard_ns)
		d->heard_ns = reply;
	d->left = left;
}

static void drain_say_waits(struct drain *d, const struct vfs *vfs)
{
	if (d->said || !d->left || mono_ns() - d->begin_ns < DRAIN_SAY_NS)
		return;
	d->said = true;
	log_info("the mount has ended; waiting until %s has stored %zu bytes of written data",
		 vfs->cl->cfg.server, d->left);
}

static void drain_lane(struct nfs_lane *l, void *arg)
{
	struct vfs *vfs = arg;

	behind_want_everything(vfs->lanes[l->index]);
}

void vfs_drain(struct vfs *vfs)
{
	struct drain d;

	/* Programs may still be writing: a mount can be taken away from them. A lane that has not
	 * seen this yet has held what it is about to hold when each lane has been asked once. */
	atomic_store(&vfs->behind.closed, true);
	nfs_each_lane(vfs->cl, drain_lane, vfs);
	d = drain_begins(vfs);
	while (d.left && !drain_is_silent(&d, vfs)) {
		usleep(DRAIN_STEP_MS * 1000);
		nfs_each_lane(vfs->cl, drain_lane, vfs);
		drain_look(&d, vfs);
		drain_say_waits(&d, vfs);
	}
	behind_say_unsaid(vfs);
}
