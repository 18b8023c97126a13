/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A worker in a front end of its own (front.h) instead of a mount: the system calls, in terms of
 * operations. There are no mappings: a thread reads and writes the file where others have one.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Before cto.h, whose `cfg` would be hidden by its arguments. */
#include "front.h"
#include "cto.h"

/* A name may become another file's, or nobody's, between LOOKUP and what follows: looked up again. */
#define TRIES 8u

static _Thread_local struct front_file *files[SLOTS];
static _Thread_local struct inode *folder;

/* One change of an inode comes after the other: the kernel has a lock for each. */
static pthread_mutex_t locks[64] = { [0 ... 63] = PTHREAD_MUTEX_INITIALIZER };

static int change(struct ask *a)
{
	pthread_mutex_t *mu = &locks[(a->file ? a->file->f.ino : a->ino2 ? a->ino2 : a->ino)->id % 64];
	int rc;

	pthread_mutex_lock(mu);
	rc = front_do(a);
	pthread_mutex_unlock(mu);
	return rc;
}

#define DO(...) front_do(&(struct ask){ __VA_ARGS__ })
#define CHANGE(...) change(&(struct ask){ __VA_ARGS__ })

/* ---- operations that front.c does not have ---- */

static void make_folder(struct vfs_op *op)
{
	op->call.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_MODE, .mode = 0755 };
	vfs_start(op, NFS_OP_MKDIR, front_end);
}

static void synced(struct vfs_op *op)
{
	op->call.res.status = behind_error(op->file, true);
	front_end(op);
}

static void sync_file(struct vfs_op *op)
{
	behind_settle(op, op->ino, true, synced);
}

static void set_size(struct vfs_op *op)
{
	op->call.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_SIZE, .size = front_ask(op)->off };
	vfs_setattr(op, false);
}

/* ---- names ---- */

static int look_up(struct inode *dir, const char *name, struct inode **ino, struct answer *a)
{
	struct ask ask = { .begin = front_lookup, .ino = dir, .name = name };
	int rc = front_do(&ask);

	*ino = ask.found;
	a->ino = ask.attr.fileid;
	a->size = ask.attr.size;
	a->nlink = ask.attr.nlink;
	return rc;
}

static int stat_name(const char *name, struct answer *a)
{
	struct inode *ino;
	int rc = look_up(folder, name, &ino, a);

	if (!rc)
		front_put(ino);
	return rc;
}

/* Takes the reference to `dir`. */
static int walk(struct inode *dir, const char *path, struct inode **out, struct answer *a)
{
	char copy[4096], *rest = copy, *name;
	int rc = 0;

	snprintf(copy, sizeof(copy), "%s", path);
	while (!rc && (name = strsep(&rest, "/"))) {
		struct inode *up = dir;

		if (!*name)
			continue;
		rc = look_up(up, name, &dir, a);
		front_put(up);
	}
	*out = rc ? NULL : dir;
	return rc;
}

static int enter_folder(const struct op *o, struct answer *a)
{
	struct inode *dir;
	char name[64];
	int rc;

	by_front_ends();
	inode_ref(front_root);
	rc = walk(front_root, cfg.dirs[mount_of(o)], &dir, a);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "e%u", o->id);
	if (!o->worker)
		rc = CHANGE(.begin = make_folder, .ino = dir, .name = name);
	if (!rc)
		rc = look_up(dir, name, &folder, a);
	front_put(dir);
	return rc;
}

/* Has it names, but for those of files that were removed while they were open? 0 or -ENOTEMPTY. */
static int is_empty(struct inode *dir)
{
	struct dirstream *s = dirstream_new(dir);
	struct ask ask = { .begin = front_list, .ino = dir, .stream = s };
	const struct dent *d;
	int rc = 0;

	while (!rc && !(s->any && s->eof)) {
		rc = front_do(&ask);
		for (; !rc && (d = dirstream_entry(s)); dirstream_next(s, d)) {
			rc = d->namelen > 4 && !memcmp(d->name, ".nfs", 4) ? 0 : -ENOTEMPTY;
			ask.off = d->cookie;
		}
	}
	front_put_stream(s);
	return rc;
}

static int leave_folder(const struct op *o, struct answer *a)
{
	struct inode *dir;
	char name[64];
	int rc = is_empty(folder);

	snprintf(name, sizeof(name), "e%u", o->id);
	inode_ref(front_root);
	if (!rc && !walk(front_root, cfg.dirs[mount_of(o)], &dir, a)) {
		CHANGE(.begin = vfs_rmdir, .ino = dir, .name = name);
		front_put(dir);
	}
	return rc;
}

static int link_name(const char *name, const char *name2, struct answer *a)
{
	struct inode *ino;
	int rc = look_up(folder, name, &ino, a);

	if (rc)
		return rc;
	rc = CHANGE(.begin = vfs_link, .ino = ino, .ino2 = folder, .name = name2);
	front_put(ino);
	return rc;
}

static int truncate_name(const char *name, uint64_t size, struct answer *a)
{
	struct inode *ino;
	int rc = -ESTALE;

	for (unsigned i = 0; rc == -ESTALE && i < TRIES; i++) {
		rc = look_up(folder, name, &ino, a);
		if (rc)
			continue;
		rc = CHANGE(.begin = set_size, .ino = ino, .off = size);
		front_put(ino);
	}
	return rc;
}

/* ---- open files ---- */

static int open_inode(struct inode *ino, int flags, struct front_file **f)
{
	struct ask ask = { .begin = front_open, .ino = ino, .flags = flags };
	int rc = front_do(&ask);

	*f = ask.opened;
	if (!rc && (flags & O_TRUNC))
		rc = CHANGE(.begin = set_size, .file = *f);
	if (rc && *f)
		DO(.begin = front_close, .file = *f);
	return rc;
}

static int make_name(const char *name, int flags, struct front_file **f)
{
	struct ask ask = { .begin = front_create, .ino = folder, .name = name, .flags = flags };
	int rc = change(&ask);

	*f = ask.opened;
	return rc;
}

static int open_name(const char *name, int flags, struct front_file **f, struct answer *a)
{
	struct inode *ino;
	int rc = -ESTALE;

	for (unsigned i = 0; rc == -ESTALE && i < TRIES; i++) {
		rc = look_up(folder, name, &ino, a);
		if (rc == -ENOENT && (flags & O_CREAT))
			rc = make_name(name, flags, f);
		else if (!rc) {
			rc = flags & O_CREAT && flags & O_EXCL ? -EEXIST : open_inode(ino, flags, f);
			front_put(ino);
		}
	}
	if (!rc)
		a->ino = (*f)->fileid;
	return rc;
}

static int make_file(const char *name, struct answer *a)
{
	struct front_file *f = NULL;
	int rc = open_name(name, O_CREAT | O_EXCL | O_RDWR, &f, a), rc2;

	if (rc)
		return rc;
	rc = CHANGE(.begin = set_size, .file = f, .off = cfg.size);
	rc2 = DO(.begin = front_close, .file = f);
	return rc ? rc : rc2;
}

static int close_slot(unsigned slot)
{
	struct front_file *f = files[slot];

	files[slot] = NULL;
	return DO(.begin = front_close, .file = f);
}

static int64_t read_file(const struct op *o, struct front_file *f, uint8_t *data)
{
	size_t all = 0;
	struct ask ask = { .done = 1 };

	while (ask.done && all < o->len) {
		ask = (struct ask){ .begin = front_read, .file = f, .mem = data + all, .len = o->len - all,
				    .off = o->off + all };
		if (ask.len > VFS_IO_MAX)
			ask.len = VFS_IO_MAX;
		if (front_do(&ask))
			return ask.status;
		all += ask.done;
	}
	return (int64_t)all;
}

static int64_t read_again(const struct op *o, struct front_file *f, uint8_t *data)
{
	struct front_file *again;
	int64_t n = open_inode(f->f.ino, O_RDONLY, &again);

	if (n)
		return n;
	n = read_file(o, again, data);
	DO(.begin = front_close, .file = again);
	return n;
}

static int64_t write_file(const struct op *o, struct front_file *f, uint8_t *data)
{
	struct ask ask = { .begin = front_write, .file = f, .mem = data, .len = o->len, .off = o->off };
	struct ask end = { .begin = vfs_getattr, .file = f };

	if (!o->len)
		return 0;
	bytes_of(o, data);
	/* Nobody else writes the file while this one appends. */
	if (o->what == WRITE && f->flags & O_APPEND) {
		if (front_do(&end))
			return end.status;
		ask.off = end.attr.size;
	}
	change(&ask);
	return ask.done ? (int64_t)ask.done : ask.status;
}

static int stat_file(struct front_file *f, struct answer *a)
{
	struct ask ask = { .begin = vfs_getattr, .file = f };
	int rc = front_do(&ask);

	a->ino = ask.attr.fileid;
	a->size = ask.attr.size;
	a->nlink = ask.attr.nlink;
	return rc;
}

/* ---- a worker ---- */

void by_front_ends(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (files[i])
			close_slot(i);
	if (folder)
		front_put(folder);
	folder = NULL;
}

static int64_t execute(const struct op *o, struct answer *a, uint8_t *data)
{
	struct front_file *f = files[o->slot];
	char name[8], name2[8];

	snprintf(name, sizeof(name), "%c%u", "abc"[o->name / NAMES % MOUNTS], o->name % NAMES);
	snprintf(name2, sizeof(name2), "%c%u", "abc"[o->name2 / NAMES % MOUNTS], o->name2 % NAMES);
	switch (o->what) {
	case MKDIR: return enter_folder(o, a);
	case RMDIR: return leave_folder(o, a);
	case OPEN: return open_name(name, o->flags, &files[o->slot], a);
	case MAKE: return make_file(name, a);
	case CLOSE: return close_slot(o->slot);
	case READ: case PEEK: return read_file(o, f, data);
	case WRITE: case POKE: return write_file(o, f, data);
	case FTRUNCATE: return CHANGE(.begin = set_size, .file = f, .off = o->off);
	case TRUNCATE: return truncate_name(name, o->off, a);
	case MAP: case UNMAP: return 0;
	case FSYNC: case MSYNC: return DO(.begin = sync_file, .file = f);
	case FSTAT: return stat_file(f, a);
	case STAT: return stat_name(name, a);
	case UNLINK: return CHANGE(.begin = vfs_unlink, .ino = folder, .name = name);
	case RENAME: return CHANGE(.begin = vfs_rename, .ino = folder, .ino2 = folder, .name = name, .name2 = name2);
	case LINK: return link_name(name, name2, a);
	case AGAIN: return read_again(o, f, data);
	default: return -ENOSYS;
	}
}

int64_t by_front(const struct op *o, struct answer *a, uint8_t *data)
{
	int64_t rc = execute(o, a, data);

	errno = rc < 0 ? (int)-rc : 0;
	return rc < 0 ? -1 : rc;
}
