/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers of nodes, open files and directory streams that the kernel never got, or has given
 * back.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fs_play.h"

static struct fs_file *file;

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };
	static const struct nfs_attr attr = { .mode = S_IFREG | 0644, .size = 1 << 30 };

	fs_play_start(&nfs_v3, &root, &attr);
	file = fs_play_file();
}

static void teardown(void)
{
	fs_play_end();
	free(file);
}

TestSuite(fs_stale, .init = setup, .fini = teardown, .timeout = 300);

static int error_of(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	unsigned sends = fake.nsends;

	fs_play_ask(opcode, node, body, len);
	cr_assert_eq(answer.count, opcode != FUSE_FORGET, "one answer to opcode %u", opcode);
	cr_assert_eq(fake.nsends, sends, "nothing for the server");
	return answer.error;
}

static int stale(uint64_t node)
{
	static const char two_names[] = "a\0b";
	const struct { struct fuse_rename2_in in; char names[4]; } rename = {
		{ .newdir = node }, { 'a', 0, 'b', 0 }
	};
	const struct { struct fuse_link_in in; char name[4]; } link = {
		{ .oldnodeid = FUSE_ROOT_ID }, "a"
	};
	const struct { struct fuse_mkdir_in in; char name[4]; } mkdir = { { 0 }, "a" };
	static const char zeros[256];
	int err = error_of(FUSE_GETATTR, node, zeros, sizeof(struct fuse_getattr_in));

	cr_assert_eq(error_of(FUSE_LOOKUP, node, two_names, 2), err);
	cr_assert_eq(error_of(FUSE_SETATTR, node, zeros, sizeof(struct fuse_setattr_in)), err);
	cr_assert_eq(error_of(FUSE_READLINK, node, zeros, 0), err);
	cr_assert_eq(error_of(FUSE_MKDIR, node, &mkdir, sizeof(mkdir)), err);
	cr_assert_eq(error_of(FUSE_UNLINK, node, two_names, 2), err);
	cr_assert_eq(error_of(FUSE_RMDIR, node, two_names, 2), err);
	cr_assert_eq(error_of(FUSE_SYMLINK, node, two_names, sizeof(two_names)), err);
	cr_assert_eq(error_of(FUSE_RENAME2, node, &rename, sizeof(rename)), err);
	cr_assert_eq(error_of(FUSE_RENAME2, FUSE_ROOT_ID, &rename, sizeof(rename)), err);
	cr_assert_eq(error_of(FUSE_LINK, node, &link, sizeof(link)), err);
	cr_assert_eq(error_of(FUSE_OPEN, node, zeros, sizeof(struct fuse_open_in)), err);
	cr_assert_eq(error_of(FUSE_OPENDIR, node, zeros, sizeof(struct fuse_open_in)), err);
	cr_assert_eq(error_of(FUSE_STATFS, node, zeros, 0), err);
	return err;
}

Test(fs_stale, no_such_node)
{
	struct nfs_attr attr = { .mode = S_IFREG | 0644 };
	struct nfs_fh fh = { .len = 4, .data = "next" };
	struct fuse_forget_in forget = { .nlookup = 3 };
	struct inode *ino = inode_get(&fs.vfs.inodes, &fh, &attr, 0, NULL, 0, mono_ns());
	uint64_t id = ino->id;

	cr_assert_eq(stale(id + 1), -ESTALE);
	cr_assert_eq(stale(id ^ 1ull << 40), -ESTALE);
	cr_assert_eq(stale((uintptr_t)ino), -ESTALE, "no addresses");
	cr_assert_eq(stale((uintptr_t)&fs), -ESTALE);
	/* An open file has it; the kernel gives back more than it was given. */
	believed_known(ino);
	inode_ref(ino);
	error_of(FUSE_FORGET, id, &forget, sizeof(forget));
	error_of(FUSE_FORGET, id, &forget, sizeof(forget));
	cr_assert_eq(atomic_load(&ino->refs), 1);
	inode_put(&fs.vfs.inodes, ino, 1);
	cr_assert_eq(stale(id), -ESTALE, "it is gone");
	error_of(FUSE_FORGET, id, &forget, sizeof(forget));
	error_of(FUSE_FORGET, 0x4141414141414141, &forget, sizeof(forget));
	error_of(FUSE_FORGET, FUSE_ROOT_ID, &forget, sizeof(forget));
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), 1);
}

static void no_such_file(uint64_t fh, int err)
{
	struct fuse_read_in read = { .fh = fh, .size = 4096 };
	struct fuse_write_in write = { .fh = fh, .size = 4096 };
	struct fuse_release_in release = { .fh = fh };
	struct fuse_setattr_in size = { .valid = FATTR_SIZE | FATTR_FH, .fh = fh };
	struct fuse_lseek_in seek = { .fh = fh, .whence = SEEK_DATA };
	struct fuse_fallocate_in space = { .fh = fh, .length = 1 };
	struct fuse_in_header h;

	cr_assert_eq(error_of(FUSE_LSEEK, FUSE_ROOT_ID, &seek, sizeof(seek)), err);
	cr_assert_eq(error_of(FUSE_FALLOCATE, FUSE_ROOT_ID, &space, sizeof(space)), err);
	cr_assert_eq(error_of(FUSE_READ, FUSE_ROOT_ID, &read, sizeof(read)), err);
	h = fs_play_header(FUSE_WRITE, FUSE_ROOT_ID, sizeof(write) + write.size);
	fs_play_request(&h, &write, sizeof(write));
	cr_assert(answer.count == 1 && answer.error == err && fake.nsends == 0);
	cr_assert_not_null(fs_play_dev.mid, "nobody has its data");
	cr_assert_eq(error_of(FUSE_SETATTR, FUSE_ROOT_ID, &size, sizeof(size)), err);
	cr_assert_eq(error_of(FUSE_RELEASE, FUSE_ROOT_ID, &release, sizeof(release)), err);
	cr_assert_eq(error_of(FUSE_READDIR, FUSE_ROOT_ID, &read, sizeof(read)), err);
	cr_assert_eq(error_of(FUSE_READDIRPLUS, FUSE_ROOT_ID, &read, sizeof(read)), err);
	cr_assert_eq(error_of(FUSE_RELEASEDIR, FUSE_ROOT_ID, &release, sizeof(release)), err);
}

Test(fs_stale, no_such_file)
{
	no_such_file(file->handle + 1, -EBADF);
	no_such_file(file->handle ^ 1ull << 63, -EBADF);
	no_such_file((uintptr_t)file, -EBADF);
	no_such_file(0, -EBADF);
	cr_assert_eq(handle_del(&fs.files, file->handle), file);
	no_such_file(file->handle, -EBADF);
	cr_assert_eq(atomic_load(&file->f.refs), 1);
}
