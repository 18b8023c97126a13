/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose a file is, and whether it is what it was. */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"
#include "lib/preload_real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

/* ---- files that are mapped into memory here ---- */

#define MAPPED 1024u

/* Only of file systems without a device, like FUSE. It is never taken out: munmap() may
 * leave a part. */
static struct {
	dev_t dev;
	ino_t ino;
} mapped[MAPPED];
static atomic_uint mapped_n;
static pthread_mutex_t mapped_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_mapped(dev_t dev, ino_t ino)
{
	unsigned n = atomic_load(&mapped_n);

	for (unsigned i = 0; i < n && i < MAPPED; i++)
		if (mapped[i].ino == ino && mapped[i].dev == dev)
			return true;
	return n > MAPPED; /* more than are known: any may be */
}

static bool ask(int fd, int how, struct statx *sx)
{
	return statx(fd, "", AT_EMPTY_PATH | how, STATX_TYPE | STATX_INO | STATX_MTIME | STATX_CTIME |
		     STATX_SIZE, sx) == 0;
}

void preload_mapped(int fd)
{
	struct statx sx;
	dev_t dev;

	if (!ask(fd, AT_STATX_DONT_SYNC, &sx) || !S_ISREG(sx.stx_mode) || sx.stx_dev_major != 0)
		return;
	dev = makedev(sx.stx_dev_major, sx.stx_dev_minor);
	if (is_mapped(dev, sx.stx_ino))
		return;
	pthread_mutex_lock(&mapped_lock);
	if (mapped_n < MAPPED) {
		mapped[mapped_n].dev = dev;
		mapped[mapped_n].ino = sx.stx_ino;
	}
	if (mapped_n <= MAPPED)
		mapped_n++;
	pthread_mutex_unlock(&mapped_lock);
}

/* What fork() has copied is mapped in the child as well. */
void preload_mapped_forget(void)
{
	pthread_mutex_init(&mapped_lock, NULL);
}

/* ---- mounts ---- */

static struct preload_mount *_Atomic mounts;
static pthread_mutex_t mounts_lock = PTHREAD_MUTEX_INITIALIZER;

static struct preload_mount *find(dev_t dev)
{
	for (struct preload_mount *m = atomic_load(&mounts); m; m = m->next)
		if (m->dev == dev)
			return m;
	return NULL;
}

/* An error, like -EOPNOTSUPP, may be this file's only: then the next one is asked. -ENOTTY is its mount's. */
static int join(dev_t dev, int fd, struct preload_mount **out)
{
	struct nfsrdma_session *session = NULL;
	struct preload_mount *m;
	int rc;

	preload_keeping = true;
	rc = nfsrdma_connect(fd, &session);
	preload_keeping = false;
	if (rc && rc != -ENOTTY)
		return rc;
	m = calloc(1, sizeof(*m));
	if (!m) {
		if (session)
			nfsrdma_disconnect(session);
		return -ENOMEM;
	}
	m->dev = dev;
	m->session = session;
	m->next = mounts;
	atomic_store(&mounts, m);
	*out = m;
	return 0;
}

int preload_mount_of(dev_t dev, int fd, struct preload_mount **out)
{
	struct preload_mount *m = find(dev);
	int rc = 0;

	if (!m) {
		pthread_mutex_lock(&mounts_lock);
		m = find(dev);
		if (!m)
			rc = join(dev, fd, &m);
		pthread_mutex_unlock(&mounts_lock);
	}
	if (rc)
		return rc;
	*out = m;
	return !m->session ? -ENOTTY : atomic_load(&m->dead) ? -ENOTCONN : 0;
}

void preload_mounts_forget(void)
{
	struct preload_mount *m = atomic_load(&mounts);

	pthread_mutex_init(&mounts_lock, NULL);
	for (; m; m = m->next)
		if (m->session)
			nfsrdma_disconnect(m->session);
	atomic_store(&mounts, NULL);
}

/* ---- a file ---- */

#define CHANGES 256u

/* A count for each inode, or for some. */
static atomic_uint changes[CHANGES];

static atomic_uint *changes_of(const struct preload_file *f)
{
	return &changes[(f->ino ^ f->dev) % CHANGES];
}

void preload_changed(const struct preload_file *f)
{
	atomic_fetch_add(changes_of(f), 1);
}

bool preload_stamp(int fd, const struct preload_file *f, bool fresh, struct preload_stamp *st)
{
	unsigned before = atomic_load(changes_of(f));
	struct statx sx;

	if (!ask(fd, fresh ? AT_STATX_SYNC_AS_STAT : AT_STATX_DONT_SYNC, &sx) || sx.stx_ino != f->ino ||
	    makedev(sx.stx_dev_major, sx.stx_dev_minor) != f->dev || is_mapped(f->dev, f->ino))
		return false;
	*st = (struct preload_stamp){
		.mtime_s = sx.stx_mtime.tv_sec, .mtime_ns = sx.stx_mtime.tv_nsec,
		.ctime_s = sx.stx_ctime.tv_sec, .ctime_ns = sx.stx_ctime.tv_nsec,
		.size = sx.stx_size, .changes = before,
	};
	return true;
}

bool preload_same_stamp(const struct preload_stamp *a, const struct preload_stamp *b)
{
	return a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns && a->ctime_s == b->ctime_s &&
	       a->ctime_ns == b->ctime_ns && a->size == b->size && a->changes == b->changes;
}

/* By our clock, which the server's may be behind. */
static bool is_old(const struct preload_stamp *st)
{
	time_t now = time(NULL);

	return now - st->mtime_s > PRELOAD_OLD_S && now - st->ctime_s > PRELOAD_OLD_S;
}

/* That is longer than PRELOAD_REST_S, whatever the server's clock says. */
static bool seen_long(struct preload_file *f, const struct preload_stamp *st)
{
	struct timespec now;
	bool is;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&f->rest);
	if (!f->rests_from || !preload_same_stamp(&f->resting, st)) {
		f->resting = *st;
		f->rests_from = now.tv_sec;
	}
	is = now.tv_sec - f->rests_from > PRELOAD_REST_S;
	pthread_mutex_unlock(&f->rest);
	return is;
}

bool preload_at_rest(struct preload_file *f, const struct preload_stamp *st)
{
	return is_old(st) || seen_long(f, st);
}

static bool worth_it(struct preload_file *f, const struct statx *sx, size_t len, bool write)
{
	if (!write && sx->stx_size >= PRELOAD_LONG * preload_min)
		return true;
	if (!write && len > sx->stx_size)
		len = sx->stx_size;
	return atomic_fetch_add(&f->seen, len) + len >= PRELOAD_WARM * preload_min;
}

/* A write that may be held: the mount answers at once, and sends many at a time. By a ring each waits for the
 * server's disk, and only a very long one is so many calls that this does not matter. */
static bool is_held(int flags, size_t len)
{
	return !(flags & (O_DIRECT | O_DSYNC)) && len < preload_write_min;
}

/* The first time. False: left to the kernel, or not yet. */
static bool first_decision(int fd, int flags, struct preload_file *f, size_t len, bool write)
{
	struct preload_mount *m;
	struct statx sx;
	int rc = -ENOTTY;
	dev_t dev;

	if (flags < 0 || (flags & (O_APPEND | O_PATH)) || !ask(fd, AT_STATX_DONT_SYNC, &sx) ||
	    !S_ISREG(sx.stx_mode) || sx.stx_dev_major != 0)
		goto leave;
	dev = makedev(sx.stx_dev_major, sx.stx_dev_minor);
	m = find(dev);
	if (m && !m->session)
		goto leave;
	if (!worth_it(f, &sx, len, write))
		return false;
	rc = preload_mount_of(dev, fd, &m);
	if (rc)
		goto leave;
	/* Two threads may come here at a time, and find the same. */
	f->dev = dev;
	f->ino = sx.stx_ino;
	f->access = flags & O_ACCMODE;
	atomic_store(&f->mount, m);
	if (!is_mapped(dev, sx.stx_ino))
		return true;
leave:
	preload_fd_leave(f, rc != -ENOTTY);
	return false;
}

bool preload_decide(int fd, struct preload_file *f, size_t len, bool write)
{
	struct preload_mount *m = atomic_load(&f->mount);
	int flags;

	if (atomic_load(&f->left))
		return false;
	/* F_SETFL may have changed them, and not by here. */
	flags = PRELOAD_REAL(fcntl, fd, F_GETFL);
	if (flags >= 0 && write && is_held(flags, len))
		return false;
	if (!m)
		return first_decision(fd, flags, f, len, write) && f->access != (write ? O_RDONLY : O_WRONLY);
	if (flags < 0 || (flags & O_APPEND) || (flags & O_ACCMODE) != f->access || atomic_load(&m->dead)) {
		preload_fd_leave(f, true);
		return false;
	}
	return f->access != (write ? O_RDONLY : O_WRONLY);
}
