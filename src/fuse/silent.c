/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Answers in place of a silent server. Before it unmounts, umount asks for the attributes
 * of the mount point and for statfs; so does df. A silent server must not keep anybody from
 * unmounting. So when its reply does not come soon, the last known answer is given. umount
 * asks several such questions, but should wait only once: until something comes from the
 * server, the next ones are answered at once. The calls are sent anyway, so that the
 * server's next reply ends this.
 */
#include "fuse/fs_impl.h"

/* We have answered for the server, and nothing has come from it since. */
static bool server_is_silent(const struct fs *fs)
{
	uint64_t since = atomic_load_explicit(&fs->silent_ns, memory_order_relaxed);

	return since && nfs_server_replied_ns(&fs->vfs.cl->server) <= since;
}

void silent_begins(struct fs_req *r, bool (*late)(struct fs_req *r))
{
	r->late = late;
	if (server_is_silent(fs_of_req(r)))
		silent_answer(r);
}

void silent_answer(struct fs_req *r)
{
	if (r->req && r->late && r->late(r))
		atomic_store_explicit(&fs_of_req(r)->silent_ns, mono_ns(), memory_order_relaxed);
}
