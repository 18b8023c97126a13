/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See oplog.h. */
#include <stdlib.h>
#include <string.h>
#include "fuse/fs_impl.h"
#include "fuse/oplog.h"

#define DEEP_MOST 32u

/* ---- names ---- */

#define MARK 2  /* bytes that are left for "?/" */

/* In front of what `at` points to. Returns where it begins now; what is too long keeps its end, up to buf + MARK. */
static char *oplog_prepend(char *buf, char *at, const char *name)
{
	size_t n = strlen(name), room = (size_t)(at - buf) - MARK;

	if (n > room) {
		name += n - room;
		n = room;
	}
	at -= n;
	memcpy(at, name, n);    /* NOLINT(bugprone-not-null-terminated-result): the end is behind it */
	if (at > buf + MARK)
		*--at = '/';
	return at;
}

static struct inode *oplog_parent(struct inode_table *t, struct inode *ino, char *buf, char **at)
{
	struct names_of names;

	inode_names(t, ino, &names);
	for (unsigned i = 1; i < names.n; i++)
		inode_put(t, names.dir[i], 1);
	if (!names.n)
		return NULL;
	*at = oplog_prepend(buf, *at, names.name[0]);
	return names.dir[0];
}

static void oplog_path(struct fs *fs, uint64_t node, const char *name, char out[OPREC_NAME])
{
	struct inode_table *t = &fs->vfs.inodes;
	struct inode *ino = node == FUSE_ROOT_ID ? NULL : inode_by_id(t, node), *up;
	char buf[OPREC_NAME], *at = buf + sizeof(buf) - 1;
	bool whole = node == FUSE_ROOT_ID;

	*at = '\0';
	if (*name)
		at = oplog_prepend(buf, at, name);
	for (unsigned i = 0; ino && i < DEEP_MOST; i++) {
		whole = ino == fs->root;
		up = whole ? NULL : oplog_parent(t, ino, buf, &at);
		inode_put(t, ino, 1);
		ino = up;
	}
	if (ino)
		inode_put(t, ino, 1);
	if (!whole || at == buf + MARK)
		*--at = '?';
	else if (!*at)
		*--at = '/';
	memcpy(out, at, (size_t)(buf + sizeof(buf) - at));
}

/* ---- arguments ---- */

/* Where a name begins behind the header: of the entry that the operation is about. -1: there is none. */
static int oplog_name_at(unsigned opcode)
{
	switch (opcode) {
	case FUSE_LOOKUP:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
	case FUSE_SYMLINK:
		return 0;
	case FUSE_MKNOD:
		return sizeof(struct fuse_mknod_in);
	case FUSE_MKDIR:
		return sizeof(struct fuse_mkdir_in);
	case FUSE_RENAME:
		return sizeof(struct fuse_rename_in);
	case FUSE_RENAME2:
		return sizeof(struct fuse_rename2_in);
	case FUSE_LINK:
		return sizeof(struct fuse_link_in);
	case FUSE_CREATE:
		return sizeof(struct fuse_create_in);
	default:
		return -1;
	}
}

static const char *oplog_name_of(const struct fuse_in_header *h, size_t size)
{
	int at = oplog_name_at(h->opcode);
	size_t from = sizeof(*h) + (size_t)(at < 0 ? 0 : at);

	if (at < 0 || from >= size || !memchr((const char *)h + from, '\0', size - from))
		return "";
	return (const char *)h + from;
}

static void oplog_range(struct oprec *r, const struct fuse_in_header *h, size_t size)
{
	const void *arg = h + 1;
	const struct fuse_read_in *io = arg;            /* fuse_write_in begins as it does */
	const struct fuse_fallocate_in *space = arg;
	const struct fuse_copy_file_range_in *copy = arg;

	_Static_assert(offsetof(struct fuse_write_in, size) == offsetof(struct fuse_read_in, size), "both are read as one");
	size -= sizeof(*h);
	if ((h->opcode == FUSE_READ || h->opcode == FUSE_WRITE) && size >= sizeof(*io)) {
		r->offset = io->offset;
		r->size = io->size;
	} else if (h->opcode == FUSE_FALLOCATE && size >= sizeof(*space)) {
		r->offset = space->offset;
		r->size = space->length;
	} else if (h->opcode == FUSE_COPY_FILE_RANGE && size >= sizeof(*copy)) {
		r->offset = copy->off_in;
		r->size = copy->len;
	} else {
		return;
	}
	r->has_range = true;
}

/* ---- requests and answers ---- */

static struct oplog_place *oplog_place(struct oplog *o, uint64_t unique)
{
	return &o->place[unique / 2 % OPLOG_PLACES];
}

void oplog_begins(struct fs_lane *fl, const struct fuse_buf *buf, uint64_t now_ns)
{
	struct oplog *o = atomic_load_explicit(&fl->log, memory_order_acquire);
	const struct fuse_in_header *h = buf->mem;
	struct oplog_place *p;
	uint32_t turn;

	if (!o || buf->size < sizeof(*h) || OPSTAT_SILENT >> (h->opcode % OPSTAT_KINDS) & 1)
		return;
	p = oplog_place(o, h->unique);
	turn = atomic_load_explicit(&o->turn, memory_order_relaxed);
	if (p->unique && p->turn == turn)
		stat_add_to(&o->lost, 1);
	p->unique = h->unique;
	p->turn = turn;
	p->rec = (struct oprec){
		.op = opstat_name(h->opcode), .begin_ns = now_ns, .node = h->nodeid, .pid = (pid_t)h->pid, .uid = h->uid,
	};
	oplog_range(&p->rec, h, buf->size);
	oplog_path(fl->fs, h->nodeid, oplog_name_of(h, buf->size), p->rec.name);
}

void oplog_ends(struct fs_lane *fl, const struct fuse_out_header *h, uint64_t now_ns)
{
	struct oplog *o = atomic_load_explicit(&fl->log, memory_order_acquire);
	struct oplog_place *p = o ? oplog_place(o, h->unique) : NULL;
	uint64_t head;

	if (!p || !h->unique || p->unique != h->unique)
		return;
	p->unique = 0;
	p->rec.end_ns = now_ns;
	p->rec.server_ns = fl->vl.answered_ns ? now_ns - fl->vl.answered_ns : 0;
	p->rec.result = h->error;
	head = atomic_load_explicit(&o->head, memory_order_relaxed);
	if (head - atomic_load_explicit(&o->tail, memory_order_acquire) >= OPLOG_RING) {
		stat_add_to(&o->lost, 1);
		return;
	}
	o->ring[head % OPLOG_RING] = p->rec;
	atomic_store_explicit(&o->head, head + 1, memory_order_release);
}

/* ---- the listener ---- */

int fs_log_begin(struct fs *fs)
{
	for (unsigned i = 0; i < fs->vfs.nlanes; i++) {
		struct fs_lane *fl = &fs->lanes[i];
		struct oplog *o = atomic_load(&fl->log);

		if (!o)
			o = calloc(1, sizeof(*o));
		if (!o)
			return -ENOMEM;
		/* What is left there is of another time. The lane may be at work in its table. */
		atomic_store(&o->tail, atomic_load(&o->head));
		atomic_fetch_add(&o->turn, 1);
		atomic_store(&fl->log, o);
	}
	for (unsigned i = 0; i < fs->vfs.nlanes; i++)
		fs_lane_listened(&fs->lanes[i], true);
	return 0;
}

void fs_log_end(struct fs *fs)
{
	for (unsigned i = 0; i < fs->vfs.nlanes; i++)
		fs_lane_listened(&fs->lanes[i], false);
}

/* The lane whose next record is the oldest. */
static struct oplog *oplog_first(struct fs *fs, uint64_t *at)
{
	struct oplog *first = NULL;
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < fs->vfs.nlanes; i++) {
		struct oplog *o = atomic_load(&fs->lanes[i].log);
		uint64_t tail = o ? atomic_load_explicit(&o->tail, memory_order_relaxed) : 0;

		if (!o || tail == atomic_load_explicit(&o->head, memory_order_acquire) ||
		    o->ring[tail % OPLOG_RING].end_ns >= best)
			continue;
		first = o;
		best = o->ring[tail % OPLOG_RING].end_ns;
		*at = tail;
	}
	return first;
}

bool fs_log_next(struct fs *fs, struct oprec *out)
{
	uint64_t tail = 0;
	struct oplog *o = oplog_first(fs, &tail);

	if (!o)
		return false;
	*out = o->ring[tail % OPLOG_RING];
	atomic_store_explicit(&o->tail, tail + 1, memory_order_release);
	return true;
}

uint64_t fs_log_lost(const struct fs *fs)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < fs->vfs.nlanes; i++) {
		struct oplog *o = atomic_load(&fs->lanes[i].log);

		n += o ? stat_get_from(&o->lost) : 0;
	}
	return n;
}
