/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See readback.h. */
#include <stdlib.h>
#include "fuse/believed.h"
#include "fuse/readback.h"
#include "vfs/behind.h"

/* The kernel believes an answer for no time after a write. The most that are given before the
 * server is asked. */
#define GIVEN_MOST 16u

/* young.tid: it is not known yet; several threads have. */
#define NOT_YET (-2)
#define SEVERAL (-1)

struct readback {
	_Atomic bool valid;
	uint64_t since_ns, until_ns;    /* when attr were asked for, and until when they count */
	struct nfs_attr attr;
	_Atomic pid_t tid;              /* who has asked, and all who have read; or NOT_YET, SEVERAL */
	/* Since then: */
	_Atomic uint64_t wrote;         /* the highest end of a write that was answered */
	_Atomic uint64_t there;         /* of what the server has got */
	_Atomic unsigned given;         /* answers after the newest write */
	struct believed_taken reads[READBACK_READS];
};

static struct readback *readback_of(const struct inode *ino)
{
	return atomic_load_explicit(&believed_of(ino)->readback, memory_order_acquire);
}

struct believed_taken *readback_reads(const struct inode *ino)
{
	struct readback *y = readback_of(ino);

	return y ? y->reads : NULL;
}

void readback_begin_locked(struct inode *ino)
{
	if (!readback_of(ino))
		atomic_store_explicit(&believed_of(ino)->readback, calloc(1, sizeof(struct readback)),
				      memory_order_release);
}

void readback_drop_locked(struct inode *ino)
{
	struct readback *y = readback_of(ino);

	if (y)
		atomic_store(&y->valid, false);
}

bool readback_takes_locked(const struct inode *ino, uint64_t asked)
{
	return readback_of(ino) && atomic_load(&believed_of(ino)->news_ns) < asked;
}

/* The kernel was told these very attributes after readback_takes_locked(), which is news, too. */
void readback_keep_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		       uint64_t asked, uint64_t until)
{
	struct readback *y = readback_of(ino);
	uint64_t most = asked + t->acregmin * 1000000000ull;

	y->attr = *attr;
	/* What was written between settling and asking may not be in there. */
	behind_size(ino, &y->attr, UINT64_MAX);
	y->since_ns = asked;
	y->until_ns = until < most ? until : most;
	atomic_store(&y->tid, NOT_YET);
	atomic_store(&y->wrote, 0);
	atomic_store(&y->there, 0);
	atomic_store(&y->given, 0);
	atomic_store(&y->valid, true);
	if (atomic_load(&believed_of(ino)->spoilt_ns) >= asked)
		atomic_store(&y->valid, false);
}

void readback_spoil(struct inode *ino)
{
	struct readback *y = readback_of(ino);

	atomic_store(&believed_of(ino)->spoilt_ns, mono_ns());
	if (y)
		atomic_store(&y->valid, false);
}

/* FUSE names a thread that this process cannot see (another container's) 0, as it does who writes
 * mapped pages back: nobody knows whether that is one thread. */
static bool is_same(pid_t known, pid_t tid)
{
	return tid > 0 && known == tid;
}

void readback_asked(struct inode *ino, pid_t tid)
{
	struct readback *y = readback_of(ino);
	pid_t none = NOT_YET;

	if (y)
		atomic_compare_exchange_strong(&y->tid, &none, tid > 0 ? tid : SEVERAL);
}

/* readback_read() of another thread sees this end, or this sees SEVERAL. */
void readback_wrote(struct inode *ino, uint64_t end, pid_t tid)
{
	struct readback *y = readback_of(ino);

	if (!y)
		return;
	atomic_store(&believed_of(ino)->spoilt_ns, mono_ns());
	believed_raise(&y->wrote, end);
	atomic_store(&y->given, 0);
	if (!is_same(atomic_load(&y->tid), tid))
		atomic_store(&y->valid, false);
}

void readback_there(struct inode *ino, uint64_t end)
{
	struct readback *y = readback_of(ino);

	if (!y)
		return;
	atomic_store(&believed_of(ino)->spoilt_ns, mono_ns());
	believed_raise(&y->there, end);
}

static bool is_good(const struct readback *y, uint64_t now)
{
	return atomic_load(&y->valid) && now < y->until_ns;
}

void readback_read(struct inode *ino, pid_t tid)
{
	struct believed *b = believed_of(ino);
	struct readback *y = readback_of(ino);

	if (!atomic_load(&b->may_ask))
		atomic_store(&b->may_ask, true);
	if (!y || is_same(atomic_load(&y->tid), tid))
		return;
	atomic_store(&y->tid, SEVERAL);
	if (atomic_load(&y->wrote))
		atomic_store(&y->valid, false);
}

/* A stat() has to see everything that was written. What write-behind does not hold any more has
 * raised `there` before, so that is looked at last. */
static bool is_for_stat(const struct inode *ino, const struct readback *y)
{
	return !behind_since(ino, UINT64_MAX) && !atomic_load(&y->there);
}

bool readback_attr(struct inode_table *t, struct inode *ino, struct nfs_attr *attr, double *timeo,
		uint64_t since, bool stat)
{
	struct readback *y = readback_of(ino);
	uint64_t wrote, now;
	bool ok;

	/* A stat() that the kernel has no reason for. */
	if (!y || (stat && !atomic_load(&believed_of(ino)->may_ask)))
		return false;
	now = mono_ns();
	inode_lock(t, ino);
	wrote = atomic_load(&y->wrote);
	ok = is_good(y, now) && (!stat || is_for_stat(ino, y)) &&
	     (!wrote || atomic_fetch_add(&y->given, 1) < GIVEN_MOST);
	if (ok) {
		*attr = y->attr;
		if (attr->size < wrote)
			attr->size = wrote;
		*timeo = wrote ? 0 : (double)(y->until_ns - now) / 1e9;
		believed_readback_locked(ino, attr, since, y->since_ns);
	}
	inode_unlock(t, ino);
	return ok;
}

bool readback_end(struct inode_table *t, struct inode *ino, uint64_t *end, uint64_t *there)
{
	struct readback *y = readback_of(ino);
	uint64_t wrote, got;
	bool ok;

	if (!y)
		return false;
	inode_lock(t, ino);
	ok = is_good(y, mono_ns());
	wrote = atomic_load(&y->wrote);
	got = atomic_load(&y->there);
	*end = y->attr.size > wrote ? y->attr.size : wrote;
	*there = y->attr.size > got ? y->attr.size : got;
	inode_unlock(t, ino);
	return ok;
}
