/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See dirstream.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* The same piece of a directory is asked for so often, see dirstream_no_answer(). */
#define DIRSTREAM_TRIES_MAX 128u

/* ---- life ---- */

struct dirstream *dirstream_new(struct inode *ino)
{
	struct dirstream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_mutex_init(&s->mu, NULL);
	s->refs = 1;
	s->ino = ino;
	inode_ref(ino);
	return s;
}

bool dirstream_ref(void *obj)
{
	struct dirstream *s = obj;
	bool live;

	pthread_mutex_lock(&s->mu);
	live = s->refs;
	s->refs += live;
	pthread_mutex_unlock(&s->mu);
	return live;
}

void dirstream_put(struct inode_table *t, struct dirstream *s)
{
	bool last;

	pthread_mutex_lock(&s->mu);
	last = --s->refs == 0;
	pthread_mutex_unlock(&s->mu);
	if (!last)
		return;
	inode_put(t, s->ino, 1);
	pthread_mutex_destroy(&s->mu);
	free(s->data);
	free(s);
}

bool dirstream_take(struct dirstream *s)
{
	bool busy;

	pthread_mutex_lock(&s->mu);
	busy = s->busy;
	s->busy = true;
	pthread_mutex_unlock(&s->mu);
	return !busy;
}

void dirstream_give(struct dirstream *s)
{
	pthread_mutex_lock(&s->mu);
	s->busy = false;
	pthread_mutex_unlock(&s->mu);
}

/* ---- what is kept ---- */

bool dirstream_seek(struct dirstream *s, uint64_t off)
{
	if (!s->any)
		return false;
	if (s->pos_off == off)
		return true;
	if (s->first == off) {
		s->pos = 0;
		s->pos_off = off;
		return true;
	}
	for (size_t at = 0; at < s->len; ) {
		const struct dent *d = (const struct dent *)(void *)(s->data + at);

		at += d->size;
		if (d->cookie == off) {
			s->pos = at;
			s->pos_off = off;
			return true;
		}
	}
	return false;
}

bool dirstream_is_current(const struct dirstream *s)
{
	return atomic_load(&s->ino->entries_ns) < s->asked_ns;
}

/* ---- names that are too long ---- */

/* Programs rely on Linux's NAME_MAX, and many have a buffer of that size for what readdir()
 * returns. */
static void dirstream_say_too_long(struct vfs_op *op, uint32_t len)
{
	struct dirstream *s = op->list.stream;
	char path[1200];

	if (atomic_exchange(&op->vl->vfs->long_name_said, true))
		return;
	vfs_path(op->vl->vfs, s->ino, path, sizeof(path));
	log_warn("a name in '%s' has %" PRIu32 " bytes, more than the 255 of this system: it is left out of "
		 "listings, and the directory cannot be removed (rm -r says that it is not empty). "
		 "Rename it on the server. There may be more such names", path, len);
}

/* ---- fetching ---- */

static bool dirstream_is_dot(const struct nfs_dirent *e)
{
	return e->name[0] == '.' && (e->namelen == 1 || (e->namelen == 2 && e->name[1] == '.'));
}

static bool dirstream_keep(struct nfs_call *c, const struct nfs_dirent *e)
{
	struct vfs_op *op = container_of(c, struct vfs_op, call);
	struct dirstream *s = op->list.stream;
	size_t size = (sizeof(struct dent) + e->namelen + 7) & ~(size_t)7;
	struct dent *d;

	if (!cookies_entry(&s->seq, e->cookie, e->name, e->namelen)) {
		op->list.error = -ELOOP;
		return false;
	}
	if (e->namelen > NFS_NAME_MAX)
		dirstream_say_too_long(op, e->namelen);
	if (dirstream_is_dot(e) || e->namelen > NFS_NAME_MAX)
		return true;
	/* From there on everything would come again. */
	if (!e->cookie) {
		op->list.error = -ELOOP;
		return false;
	}
	if (s->len + size > s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 65536;
		char *data = realloc(s->data, cap);

		if (!data) {
			op->list.error = -ENOMEM;
			return false;
		}
		s->data = data;
		s->cap = cap;
	}
	d = (struct dent *)(void *)(s->data + s->len);
	d->cookie = e->cookie;
	d->fileid = e->fileid;
	d->size = (uint32_t)size;
	d->namelen = (uint16_t)e->namelen;
	d->has_attr = e->attr != NULL;
	d->has_fh = e->fh != NULL;
	if (e->attr)
		d->attr = *e->attr;
	if (e->fh)
		d->fh = *e->fh;
	memcpy(d->name, e->name, e->namelen);
	s->len += size;
	return true;
}

static void dirstream_fetched(struct vfs_op *op);

/* Asks for the entries after the cookie. The entries that are kept then come after
 * s->first. That may be an earlier cookie, if nothing between the two is kept. */
static void dirstream_ask(struct vfs_op *op, uint64_t cookie)
{
	struct dirstream *s = op->list.stream;

	if (cookie == 0)
		s->verf = 0;
	cookies_ask(&s->seq, cookie);
	s->len = s->pos = 0;
	s->any = false;
	s->asked_ns = mono_ns();
	op->call.args.dir.cookie = cookie;
	op->call.args.dir.verf = s->verf;
	op->call.args.dir.count = op->vl->vfs->cl->dtsize;
	op->call.args.dir.plus = op->vl->vfs->rdirplus && !atomic_load(&op->vl->vfs->cl->no_plus);
	op->call.args.dir.entry = dirstream_keep;
	op->list.error = 0;
	vfs_start(op, NFS_OP_READDIR, dirstream_fetched);
}

/* An endless listing is worse than an error. */
static int dirstream_no_end(void)
{
	log_warn("the server lists the same entries of a directory again and again (ELOOP); "
		 "giving up that listing. The server's directory cache may be at fault");
	return -EIO;
}

/*
 * Is the reply useless, so that the request is to be sent again?
 *
 * ENOENT is not an error of READDIR (RFC 8881, section 15.2; RFC 1813, section 3.3.16).
 * nfs-ganesha sends it when an entry is removed after ganesha has read the name and before
 * it looks the name up. Programs must not get it: glibc's readdir() takes it for the end of
 * the directory.
 *
 * A reply with no entry that is not the end is useless, too.
 */
static bool dirstream_no_answer(const struct vfs_op *op, int rc)
{
	return rc == -ENOENT || (!rc && !op->call.res.dir.entries && !op->call.res.dir.eof);
}

static int dirstream_never_answers(int rc)
{
	log_warn("the server does not list a directory: it was asked %u times, and %s; giving "
		 "up that listing", DIRSTREAM_TRIES_MAX, rc ? "says that there is no such file (ENOENT)" :
		 "sends neither an entry nor the end");
	return -EIO;
}

/* The result of the reply: 0 or -errno. */
static int dirstream_status(const struct vfs_op *op, const struct dirstream *s)
{
	int rc = op->call.res.status ? op->call.res.status : op->list.error;

	if (!rc && !op->call.res.dir.eof && op->call.res.dir.entries && !cookies_advance(&s->seq))
		rc = -ELOOP;
	return rc;
}

static void dirstream_fail(struct vfs_op *op, int status)
{
	struct dirstream *s = op->list.stream;

	s->len = 0;
	s->any = false;
	vfs_end_with(op, status);
}

/* The server does not know the cookie any more. One more try without the verifier may
 * show an entry twice, but an error would show none. */
static bool dirstream_asks_again(struct vfs_op *op, int rc)
{
	struct dirstream *s = op->list.stream;

	if (rc != -NFS_ECOOKIE || s->restarted || !op->call.args.dir.cookie)
		return false;
	s->restarted = true;
	s->verf = 0;
	log_debug("the server has forgotten a directory cookie; asking once more");
	dirstream_ask(op, op->call.args.dir.cookie);
	return true;
}

static void dirstream_fetched(struct vfs_op *op)
{
	struct dirstream *s = op->list.stream;
	int rc = dirstream_status(op, s);

	if (dirstream_asks_again(op, rc))
		return;
	if (dirstream_no_answer(op, rc)) {
		if (op->waited && ++op->list.tries < DIRSTREAM_TRIES_MAX) {
			dirstream_ask(op, op->call.args.dir.cookie);
			return;
		}
		rc = op->waited ? dirstream_never_answers(rc) : -EINTR;
	}
	if (rc) {
		dirstream_fail(op, rc == -NFS_ECOOKIE ? -EIO : rc == -ELOOP ? dirstream_no_end() : rc);
		return;
	}
	s->restarted = false;
	s->verf = op->call.res.dir.verf;
	s->eof = op->call.res.dir.eof;
	s->any = true;
	s->fetched_ns = mono_ns();
	/* The reply had only entries that are not kept, and is not the end: go on. */
	if (s->len == 0 && !s->eof && op->waited)
		dirstream_ask(op, s->seq.last);
	else
		vfs_end(op);
}

void vfs_list(struct vfs_op *op, uint64_t cookie)
{
	struct dirstream *s = op->list.stream;

	s->first = s->pos_off = cookie;
	dirstream_ask(op, cookie);
}
