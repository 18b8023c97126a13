/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/preload.h"

#define FILES 256u
#define ENTRIES 64u

struct fake_rings fake_rings = { .gone_after = -1 };

struct nfsrdma_session {
	int unused;
};

struct nfsrdma_memory {
	char *at;
};

struct nfsrdma_queue {
	int file[FILES];                /* copies of what was attached; 0: none */
	struct nfsrdma_done done[ENTRIES];
	unsigned n;
};

static struct nfsrdma_queue *newest; /* of the last file that was attached */

bool preload_cached(int fd, struct preload_file *f, uint64_t offset, size_t len)
{
	return fake_rings.cached;
}

int nfsrdma_connect(int fd, struct nfsrdma_session **out)
{
	if (fake_rings.connect_error)
		return fake_rings.connect_error;
	*out = calloc(1, sizeof(**out));
	return 0;
}

void nfsrdma_disconnect(struct nfsrdma_session *s)
{
	free(s);
}

int nfsrdma_memory_new(struct nfsrdma_session *s, size_t len, struct nfsrdma_memory **out)
{
	*out = calloc(1, sizeof(**out));
	(*out)->at = calloc(1, len);
	return 0;
}

void *nfsrdma_memory_at(const struct nfsrdma_memory *m)
{
	return m->at;
}

int nfsrdma_memory_free(struct nfsrdma_memory *m)
{
	free(m->at);
	free(m);
	return 0;
}

int nfsrdma_queue_new(struct nfsrdma_session *s, unsigned entries, struct nfsrdma_queue **out)
{
	fake_rings.queues++;
	*out = calloc(1, sizeof(**out));
	return 0;
}

void nfsrdma_queue_free(struct nfsrdma_queue *q)
{
	free(q);
}

int nfsrdma_attach(struct nfsrdma_queue *q, int fd, uint32_t *file)
{
	void (*attaching)(void);

	if (fake_rings.attach_error)
		return fake_rings.attach_error;
	attaching = fake_rings.attaching;
	fake_rings.attaching = NULL;
	if (attaching)
		attaching();
	for (*file = 0; *file < FILES && q->file[*file]; ++*file)
		;
	if (*file == FILES)
		return -ENOSPC;
	q->file[*file] = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 300);
	newest = q;
	return 0;
}

int nfsrdma_detach(struct nfsrdma_queue *q, uint32_t file)
{
	syscall(SYS_close, q->file[file]);
	q->file[file] = 0;
	return 0;
}

void fake_rings_closed(uint32_t number)
{
	nfsrdma_detach(newest, number);
}

static void done(struct nfsrdma_queue *q, uint64_t user_data, int64_t result)
{
	q->done[q->n++] = (struct nfsrdma_done){ .user_data = user_data, .result = result };
}

static bool gone(void)
{
	return fake_rings.gone_after == 0;
}

static void count(_Atomic unsigned *n)
{
	if (fake_rings.gone_after > 0)
		fake_rings.gone_after--;
	++*n;
}

/* At once, as far as the file is concerned; it is told of by nfsrdma_wait(). */
int nfsrdma_read(struct nfsrdma_queue *q, uint32_t file, const struct nfsrdma_memory *m, uint64_t at,
		 uint32_t len, uint64_t offset, uint64_t user_data)
{
	long n;

	if (gone())
		return -ENOTCONN;
	count(&fake_rings.reads);
	n = syscall(SYS_pread64, q->file[file], m->at + at, len, offset);
	done(q, user_data, n < 0 ? -EBADF : n);
	return 0;
}

int nfsrdma_write(struct nfsrdma_queue *q, uint32_t file, const struct nfsrdma_memory *m, uint64_t at,
		  uint32_t len, uint64_t offset, uint64_t user_data)
{
	long n;

	if (gone())
		return -ENOTCONN;
	if (offset > (uint64_t)INT64_MAX - len)
		return -EINVAL;
	count(&fake_rings.writes);
	if (fake_rings.write_error && offset >= fake_rings.write_error_at) {
		done(q, user_data, fake_rings.write_error);
		return 0;
	}
	n = syscall(SYS_pwrite64, q->file[file], m->at + at, len, offset);
	done(q, user_data, n < 0 ? -EBADF : n);
	return 0;
}

int nfsrdma_submit(struct nfsrdma_queue *q)
{
	return 0;
}

/* The last one first; signals come in between. */
int nfsrdma_wait(struct nfsrdma_queue *q, struct nfsrdma_done *to, unsigned min, unsigned max,
		 int timeout_ms)
{
	static _Atomic unsigned calls;

	void (*meanwhile)(void) = fake_rings.meanwhile;

	fake_rings.meanwhile = NULL;
	if (meanwhile)
		meanwhile();
	if (gone())
		return -ENOTCONN;
	if (++calls % 3 == 0)
		return -EINTR;
	if (!q->n)
		return 0;
	*to = q->done[--q->n];
	return 1;
}

static void set_back(struct statx_timestamp *t)
{
	t->tv_sec -= fake_rings.behind_s;
	t->tv_nsec = 0;
}

/* What the kernel has of a file may be older than the file. */
int statx(int dir, const char *name, int flags, unsigned mask, struct statx *out)
{
	int rc = (int)syscall(SYS_statx, dir, name, flags, mask, out);

	if (rc == 0 && (fake_rings.old_times || (fake_rings.old_known && (flags & AT_STATX_DONT_SYNC))))
		out->stx_mtime = out->stx_ctime = (struct statx_timestamp){ .tv_sec = 1000000000 };
	if (rc == 0 && fake_rings.behind_s) {
		set_back(&out->stx_mtime);
		set_back(&out->stx_ctime);
	}
	return rc;
}
