/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One read or write of the program: past the kernel, or by it. */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"
#include "lib/preload_real.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

/* The kernel reads and writes no more at a time. */
#define CALL_MAX ((size_t)0x7ffff000)

/* 0: of no concern to us, or wrong, which the kernel says. */
static size_t length(const struct preload_call *c)
{
	size_t len = 0;

	if (c->flags || c->n < 1 || c->n > IOV_MAX || (!c->own_offset && c->offset < 0))
		return 0;
	for (int i = 0; i < c->n; i++) {
		if (c->iov[i].iov_len > SSIZE_MAX - len)
			return 0;
		len += c->iov[i].iov_len;
	}
	return len < CALL_MAX ? len : CALL_MAX;
}

/* The system call has the offset in two halves, of which the lower one has all bits here. */
static ssize_t with_flags(const struct preload_call *c)
{
	off_t at = c->own_offset ? -1 : c->offset;

	if (c->write)
		return preload_real.pwritev2 ? preload_real.pwritev2(c->fd, c->iov, c->n, at, c->flags)
					     : syscall(SYS_pwritev2, c->fd, c->iov, c->n, at, 0, c->flags);
	return preload_real.preadv2 ? preload_real.preadv2(c->fd, c->iov, c->n, at, c->flags)
				    : syscall(SYS_preadv2, c->fd, c->iov, c->n, at, 0, c->flags);
}

static ssize_t by_kernel(const struct preload_call *c)
{
	const struct iovec *v = c->iov;

	/* To preadv2() that is the own one. */
	if (!c->own_offset && c->offset < 0) {
		errno = EINVAL;
		return -1;
	}
	if (c->flags)
		return with_flags(c);
	if (c->own_offset && c->n == 1)
		return c->write ? PRELOAD_REAL(write, c->fd, v->iov_base, v->iov_len)
				: PRELOAD_REAL(read, c->fd, v->iov_base, v->iov_len);
	if (c->own_offset)
		return c->write ? PRELOAD_REAL(writev, c->fd, v, c->n)
				: PRELOAD_REAL(readv, c->fd, v, c->n);
	if (c->n == 1)
		return c->write ? PRELOAD_REAL(pwrite, c->fd, v->iov_base, v->iov_len, c->offset)
				: PRELOAD_REAL(pread, c->fd, v->iov_base, v->iov_len, c->offset);
	return with_flags(c);
}

/* ---- the rest of one that has failed ---- */

/* Errors that are not the file's: the kernel knows better. A read is asked for there always. */
static bool kernel_knows(int error, bool write)
{
	switch (error) {
	case -ENOSPC:
	case -EDQUOT:
	case -EIO:
	case -EFBIG:
	case -EROFS:
	case -ESTALE:
		return !write;
	}
	return true;
}

static ssize_t one_by_kernel(const struct preload_call *c, char *at, size_t len, off_t offset)
{
	return c->write ? PRELOAD_REAL(pwrite, c->fd, at, len, offset)
			: PRELOAD_REAL(pread, c->fd, at, len, offset);
}

/* Goes on at `done` of len bytes, from offset on. Returns all that has been done, or -1 and errno. */
static ssize_t rest_by_kernel(const struct preload_call *c, off_t offset, size_t len, size_t done)
{
	size_t skip = done, end = 0;

	for (int i = 0; i < c->n && done < len; i++) {
		const struct iovec *v = &c->iov[i];
		size_t n;
		ssize_t got;

		end += v->iov_len;
		if (skip >= end)
			continue;
		n = end - done < len - done ? end - done : len - done;
		got = one_by_kernel(c, (char *)v->iov_base + (v->iov_len - (end - done)), n,
				    offset + (off_t)done);
		if (got < 0)
			return done ? (ssize_t)done : -1;
		done += (size_t)got;
		if ((size_t)got < n)
			break;
		skip = done;
	}
	return (ssize_t)done;
}

/* ---- past the kernel ---- */

static void count(bool write, size_t n)
{
	atomic_fetch_add(write ? &preload_counts.writes : &preload_counts.reads, 1);
	atomic_fetch_add(write ? &preload_counts.written_bytes : &preload_counts.read_bytes, n);
}

/* EBADF: the attached open file has been closed, and the number is another one's. That was not by here. */
static void if_closed(struct preload_file *f, int error)
{
	if (error == -EBADF)
		preload_fd_leave(f, true);
}

/* What the server writes is not held against it otherwise. The kernel sends the signal. */
static bool too_long(off_t offset, size_t len)
{
	struct rlimit limit;

	if ((uint64_t)offset + len > INT64_MAX)
		return true;
	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return false;
	return (uint64_t)offset + len > limit.rlim_cur;
}

/* The pages of that range, whole, as the kernel does it with O_DIRECT: they are not dirty. */
static void drop_pages(int fd, off_t offset, size_t len)
{
	off_t page = sysconf(_SC_PAGESIZE), start = offset / page * page;
	off_t end = (offset + (off_t)len + page - 1) / page * page;

	posix_fadvise(fd, start, end - start, POSIX_FADV_DONTNEED);
}

static ssize_t write_past(const struct preload_call *c, struct preload_file *f, struct preload_lane *lane,
			  struct preload_range *r)
{
	struct preload_cursor from = { .iov = c->iov, .n = c->n };
	int error;
	size_t done = preload_write(lane, r, &from, &error);
	bool same = preload_fd_is(c->fd, f);

	preload_changed(f);
	if (same)
		drop_pages(c->fd, (off_t)r->offset, r->len);
	if_closed(f, error);
	if (done)
		count(true, done);
	if (error && same && kernel_knows(error, true))
		return rest_by_kernel(c, (off_t)r->offset, r->len, done);
	if (done || !error)
		return (ssize_t)done;
	errno = -error;
	return -1;
}

static ssize_t read_past(const struct preload_call *c, struct preload_file *f, struct preload_lane *lane,
			 struct preload_range *r, const struct preload_stamp *st)
{
	struct preload_cursor to = { .iov = c->iov, .n = c->n };
	int error;
	size_t done = preload_read(lane, f, r, st, &to, &error);
	bool same = preload_fd_is(c->fd, f);

	if_closed(f, error);
	if (done || !error)
		count(false, done);
	atomic_store(&f->next, r->offset + done);
	if (error && same)
		return rest_by_kernel(c, (off_t)r->offset, r->len, done);
	if (done || !error)
		return (ssize_t)done;
	errno = -error;
	return -1;
}

/* A lane with f attached. */
static struct preload_lane *lane_for(int fd, struct preload_file *f, uint32_t *number)
{
	struct preload_lane *lane = preload_lane(atomic_load(&f->mount));
	int rc = lane ? preload_attach(lane, f, fd, number) : 0;

	/* Another thread may have put another file there before that was attached. */
	if (!rc && preload_fd_is(fd, f))
		return lane;
	if (rc == -ENOTCONN)
		atomic_store(&lane->mount->dead, true);
	if (rc != -EDQUOT && rc != -ENOSPC && rc != -EAGAIN) /* for now */
		preload_fd_leave(f, true);
	return NULL;
}

/* What the page cache has is the kernel's: the bytes themselves, and some far behind them, or the last
 * ones. For what the kernel has read ahead is not the file: who reads on there makes it read further. */
static bool kernel_has(int fd, struct preload_file *f, const struct preload_range *r, uint64_t size)
{
	uint64_t far = r->offset + r->len + PRELOAD_FAR;

	if (r->offset >= size)
		return false;
	if (far > size - 1)
		far = size - 1;
	return preload_cached(fd, f, far, 1) &&
	       preload_cached(fd, f, r->offset, r->len < size - r->offset ? r->len : size - r->offset);
}

/* Reads that are the kernel's, before there is a lane for them: of what it has, and at the file's end. */
static bool kernel_reads(int fd, struct preload_file *f, const struct preload_range *r, uint64_t size)
{
	if (r->offset < size && !kernel_has(fd, f, r, size))
		return false;
	atomic_store(&f->next, r->offset + r->len);
	return true;
}

/* The kernel's offset moves before the bytes do: who uses it meanwhile, a child or a handler of a signal, comes
 * behind them, as if the kernel had moved them. Where they go: somebody may have moved it since it was asked for. */
static off_t offset_moves(const struct preload_call *c, off_t offset, off_t by)
{
	off_t end = c->own_offset ? PRELOAD_REAL(lseek, c->fd, by, SEEK_CUR) : offset + by;

	return end < 0 ? -1 : end - by;
}

/* It was another length. Nobody else has moved it, nor is the number another file's. */
static void offset_settles(const struct preload_call *c, const struct preload_file *f, off_t from, off_t to)
{
	int error = errno;

	if (c->own_offset && to != from && preload_fd_is(c->fd, f) && PRELOAD_REAL(lseek, c->fd, 0, SEEK_CUR) == from)
		PRELOAD_REAL(lseek, c->fd, to, SEEK_SET);
	errno = error;
}

/* How far it moves if all goes well. */
static off_t whole(const struct preload_call *c, off_t offset, size_t len, uint64_t size)
{
	uint64_t there = size > (uint64_t)offset ? size - (uint64_t)offset : 0;

	return (off_t)(c->write || len < there ? len : there);
}

static bool past(const struct preload_call *c, struct preload_file *f, off_t offset, size_t len,
		 ssize_t *result)
{
	struct preload_range r = { .offset = (uint64_t)offset, .len = len };
	struct preload_lane *lane = preload_lane_there(atomic_load(&f->mount));
	bool ahead = !c->write && atomic_load(&f->next) == r.offset;
	bool has = !c->write && lane && preload_read_has(lane, f, r.offset);
	struct preload_stamp st;
	off_t by;

	if (!preload_stamp(c->fd, f, ahead || has, &st)) {
		preload_fd_leave(f, true);
		return false;
	}
	if (c->write ? too_long(offset, len) : !has && kernel_reads(c->fd, f, &r, st.size))
		return false;
	lane = lane_for(c->fd, f, &r.file);
	if (!lane)
		return false;
	r.ahead = ahead && preload_at_rest(f, &st) && r.offset;
	by = whole(c, offset, len, st.size);
	offset = offset_moves(c, offset, by);
	if (offset < 0)
		return false;
	r.offset = (uint64_t)offset;
	*result = c->write ? write_past(c, f, lane, &r) : read_past(c, f, lane, &r, &st);
	offset_settles(c, f, offset + by, offset + (*result > 0 ? *result : 0));
	return true;
}

/* ---- a call ---- */

/* The offset's mutex is held. */
static ssize_t at_own_offset(const struct preload_call *c, struct preload_file *f, size_t len)
{
	bool others = atomic_load(&f->shared) || atomic_load(&f->numbers) > 1;
	off_t at = others ? -1 : PRELOAD_REAL(lseek, c->fd, 0, SEEK_CUR);
	ssize_t n;

	return at >= 0 && past(c, f, at, len, &n) ? n : by_kernel(c);
}

/* Of a file whose offset may be moved here, and not by the kernel. */
static ssize_t call_in_turn(const struct preload_call *c, struct preload_file *f, size_t len, bool may)
{
	ssize_t n;

	pthread_mutex_lock(&f->offset);
	n = may ? at_own_offset(c, f, len) : by_kernel(c);
	pthread_mutex_unlock(&f->offset);
	return n;
}

/* What is small, and what is not decided yet, goes to the kernel; but an offset that we may be about to
 * move is waited for. False: it is the kernel's, and may take as long as it likes. */
static bool call(const struct preload_call *c, struct preload_file *f, ssize_t *n)
{
	size_t len = length(c);
	bool may = len >= preload_min && preload_decide(c->fd, f, len, c->write);

	if (!c->own_offset)
		return may && past(c, f, c->offset, len, n);
	if (!atomic_load(&f->mount) || atomic_load(&f->left))
		return false;
	*n = call_in_turn(c, f, len, may);
	return true;
}

/* Not to be cancelled: a thread would leave a lock behind. */
static void enter(int *cancel)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
	preload_inside = true;
}

static void leave(int cancel)
{
	preload_inside = false;
	pthread_setcancelstate(cancel, &cancel);
}

ssize_t preload_call(const struct preload_call *c)
{
	struct preload_file *f = preload_fd_known(c->fd) ? preload_fd_get(c->fd, length(c)) : NULL;
	int cancel, error = errno;
	bool done;
	ssize_t n;

	if (!f)
		return by_kernel(c);
	enter(&cancel);
	errno = 0;
	done = call(c, f, &n);
	if (done && n < 0)
		error = errno;
	if (c->write && atomic_load(&f->mount))
		preload_changed(f);
	preload_fd_put(f);
	leave(cancel);
	errno = error;
	if (done)
		return n;
	n = by_kernel(c);
	/* Once more, behind it. f may be another file's by now, and that only asks once more. */
	if (c->write && atomic_load(&f->mount))
		preload_changed(f);
	return n;
}
