/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of FUSE's operations (opstat.h), and what all lanes have counted. */
#include "fuse/fs_impl.h"
#include "fuse/statx.h"

/* Of Linux 6.2 and later; a kernel that is newer than the headers may ask for it. */
#define OPSTAT_TMPFILE 51

void opstat_init(struct opstat *s)
{
	for (unsigned i = 0; i < OPSTAT_PLACES; i++)
		s->place[i].unique = OPSTAT_NONE;
}

static struct opstat_place *opstat_look(struct opstat *s, uint64_t unique, unsigned n)
{
	return &s->place[(unique + 2 * n) % OPSTAT_PLACES];
}

/* Not in line, or they make each request dearer. */
void __attribute__((noinline))
opstat_begins_further(struct opstat *s, const struct fuse_in_header *h, uint64_t now_ns)
{
	bool silent = OPSTAT_SILENT >> (h->opcode % OPSTAT_KINDS) & 1;

	for (unsigned i = 0; i < OPSTAT_LOOKS && !silent; i++) {
		struct opstat_place *p = opstat_look(s, h->unique, i);

		if (p->unique == OPSTAT_NONE) {
			opstat_take(s, p, h, now_ns);
			return;
		}
	}
	stat_add_to(&s->kind[h->opcode % OPSTAT_KINDS].untimed, 1);
}

void __attribute__((noinline))
opstat_ends_further(struct opstat *s, const struct fuse_out_header *h, uint64_t now_ns)
{
	for (unsigned i = 1; i < OPSTAT_LOOKS; i++) {
		struct opstat_place *p = opstat_look(s, h->unique, i);

		if (p->unique == h->unique) {
			opstat_count(p, h, now_ns);
			return;
		}
	}
}

const char *opstat_name(unsigned opcode)
{
	static const char *const names[OPSTAT_KINDS] = {
		[0] = "OTHER",
#define X(name) [FUSE_##name] = #name,
		X(LOOKUP) X(FORGET) X(GETATTR) X(SETATTR) X(READLINK) X(SYMLINK) X(MKNOD) X(MKDIR) X(UNLINK)
		X(RMDIR) X(RENAME) X(LINK) X(OPEN) X(READ) X(WRITE) X(STATFS) X(RELEASE) X(FSYNC) X(SETXATTR)
		X(GETXATTR) X(LISTXATTR) X(REMOVEXATTR) X(FLUSH) X(INIT) X(OPENDIR) X(READDIR) X(RELEASEDIR)
		X(FSYNCDIR) X(GETLK) X(SETLK) X(SETLKW) X(ACCESS) X(CREATE) X(INTERRUPT) X(BMAP) X(DESTROY)
		X(IOCTL) X(POLL) X(NOTIFY_REPLY) X(BATCH_FORGET) X(FALLOCATE) X(READDIRPLUS) X(RENAME2) X(LSEEK)
		X(COPY_FILE_RANGE) X(SYNCFS)
#undef X
		[OPSTAT_TMPFILE] = "TMPFILE", [FS_STATX] = "STATX",
	};

	return opcode < OPSTAT_KINDS ? names[opcode] : NULL;
}

void fs_each_op(const struct fs *fs, void (*look)(const struct times_op *op, void *to), void *to)
{
	for (unsigned i = 0; i < OPSTAT_KINDS; i++) {
		struct times_op op = { .name = opstat_name(i) };

		for (unsigned lane = 0; lane < fs->vfs.nlanes; lane++) {
			const struct opstat_kind *k = &fs->lanes[lane].ops.kind[i];

			op.untimed += stat_get_from(&k->untimed);
			op.errors += stat_get_from(&k->errors);
			times_sum_add(&op.times, &k->times);
		}
		if (op.name && op.times.count + op.untimed)
			look(&op, to);
	}
}
