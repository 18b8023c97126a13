/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs see of NFS's attributes. */
#include <criterion/criterion.h>
#include "fuse/fs_impl.h"

/* Numbers that repeat in another file system of the server. */
Test(fs_attr, inode_numbers)
{
	struct nfs_attr a = { .mode = S_IFREG, .fileid = 128, .fsid_major = 7, .fsid_minor = 1 };
	static struct nfs_client cl = { .wsize = 4096 };
	static struct fs fs = { .vfs.cl = &cl, .fsid_major = 7, .fsid_minor = 1 };
	struct stat st[3];

	fs_stat(&fs, &st[0], &a);
	a.fsid_minor = 2;
	fs_stat(&fs, &st[1], &a);
	a.fsid_major = 8;
	fs_stat(&fs, &st[2], &a);
	cr_assert_eq(st[0].st_ino, 128);
	cr_assert(st[1].st_ino != 128 && st[2].st_ino != 128 && st[1].st_ino != st[2].st_ino);
	a.fileid = 129;
	fs_stat(&fs, &st[1], &a);
	cr_assert_eq(st[1].st_ino ^ st[2].st_ino, 1, "unique within each");
}
