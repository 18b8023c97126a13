/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What messages call a file of the mount. The names are those that this mount knows (inode.h). */
#include <stdio.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* Writes "/NAME" before *at, and returns the directory that has the name, with a reference. NULL:
 * none is known, or it does not fit. */
static struct inode *path_go_up(struct vfs *vfs, struct inode *ino, const char *begin, char **at)
{
	struct names_of names;
	size_t len;

	inode_names(&vfs->inodes, ino, &names);
	for (unsigned i = 1; i < names.n; i++)
		inode_put(&vfs->inodes, names.dir[i], 1);
	if (!names.n)
		return NULL;
	len = strlen(names.name[0]);
	if (len + 1 > (size_t)(*at - begin)) {
		inode_put(&vfs->inodes, names.dir[0], 1);
		return NULL;
	}
	*at -= len + 1;
	**at = '/';
	memcpy(*at + 1, names.name[0], len);
	return names.dir[0];
}

void vfs_path(struct vfs *vfs, struct inode *ino, char *out, size_t cap)
{
	char path[4 * (NFS_NAME_MAX + 1)] = "", *at = path + sizeof(path) - 1;
	struct inode *dir;

	inode_ref(ino);
	while (ino->id != vfs->root_id && (dir = path_go_up(vfs, ino, path, &at))) {
		inode_put(&vfs->inodes, ino, 1);
		ino = dir;
	}
	snprintf(out, cap, "%s%s%s", vfs->place, ino->id == vfs->root_id ? "" : "/...", at);
	inode_put(&vfs->inodes, ino, 1);
}
