/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of descriptors: a word for each number, which close() and its like keep right. What does not
 * come by here (a system call that is made directly, freopen()) leaves a word that is wrong: so a file's
 * identity is looked at before a use (preload_stamp), and the kernel gets what could have gone past. If
 * the number is a socket by then, its small reads and writes wait for one another.
 */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"
#include "lib/preload_real.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Higher numbers are the kernel's. */
#define NUMBERS 65536u
/* How far from the end of what a process may have ours lie, and where they do at the most. */
#define KEPT_ROOM 256u
#define KEPT_AT   32768u
/* So many files are made at a time. */
#define MADE 64u

/* What a word may be besides a file. */
#define UNKNOWN ((struct preload_file *)0)
#define LEFT    ((struct preload_file *)1)      /* to the kernel, from the beginning */
#define KEPT    ((struct preload_file *)2)      /* the library's own */
#define OPENED  ((struct preload_file *)3)      /* by us; not looked at yet */

static struct preload_file *_Atomic table[NUMBERS];
static atomic_uint highest; /* of the program's */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_id;
static struct preload_file *spare;
/* Numbers of KEPT and 1, for who wants them all. */
static atomic_int kept[KEPT_ROOM];

static bool is_file(const struct preload_file *f)
{
	return (uintptr_t)f > (uintptr_t)OPENED;
}

static struct preload_file *look(int fd)
{
	return (unsigned)fd < NUMBERS ? atomic_load_explicit(&table[fd], memory_order_acquire) : UNKNOWN;
}

/* A file that is left keeps its numbers: so nobody takes another file's number for one of them. */
static bool is_kernels(const struct preload_file *f)
{
	return is_file(f) ? atomic_load_explicit(&f->left, memory_order_relaxed) : f != OPENED;
}

static void put(int fd, struct preload_file *f)
{
	unsigned before = atomic_load(&highest);

	if ((unsigned)fd >= NUMBERS)
		return;
	while ((unsigned)fd > before && !atomic_compare_exchange_weak(&highest, &before, (unsigned)fd))
		;
	atomic_store_explicit(&table[fd], f, memory_order_release);
}

/* ---- the lock ---- */

/* A handler of a signal that comes while its thread has the lock does without: what it says of numbers is noted
 * so that they are the kernel's. */
static _Thread_local volatile bool locked;

static bool table_lock(void)
{
	if (locked)
		return false;
	locked = true;
	pthread_mutex_lock(&lock);
	return true;
}

static void table_unlock(void)
{
	pthread_mutex_unlock(&lock);
	locked = false;
}

/* Without the lock: others may have that number's file as well. */
static void share(int fd)
{
	struct preload_file *f = look(fd);

	if (is_file(f))
		atomic_store(&f->shared, true);
	else if (f == OPENED)
		put(fd, LEFT);
}

/* ---- files; under the lock ---- */

/* They are never given back: a thread that has looked one up without the lock may still compare it. Not of
 * malloc(): a handler may come while its thread is in there. */
static bool more(void)
{
	struct preload_file *f = PRELOAD_REAL(mmap, NULL, MADE * sizeof(*f), PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (f == MAP_FAILED)
		return false;
	for (unsigned i = 0; i < MADE; i++) {
		f[i].spare = spare;
		spare = &f[i];
	}
	return true;
}

static struct preload_file *make(void)
{
	struct preload_file *f;

	if (!spare && !more())
		return NULL;
	f = spare;
	spare = f->spare;
	memset(f, 0, sizeof(*f));
	pthread_mutex_init(&f->offset, NULL);
	pthread_mutex_init(&f->rest, NULL);
	f->id = ++last_id;
	f->numbers = 1;
	return f;
}

static void drop_if_unused(struct preload_file *f)
{
	if (f->refs || f->numbers)
		return;
	pthread_mutex_destroy(&f->offset);
	pthread_mutex_destroy(&f->rest);
	f->spare = spare;
	spare = f;
}

static struct preload_file *file_of(int fd)
{
	struct preload_file *f = look(fd);

	if (f != OPENED)
		return is_file(f) ? f : NULL;
	f = make();
	if (f)
		put(fd, f);
	return f;
}

static void forget(int fd)
{
	struct preload_file *f = look(fd);

	put(fd, UNKNOWN);
	if (is_file(f)) {
		f->numbers--;
		drop_if_unused(f);
	}
}

/* ---- what happens to numbers ---- */

/* Nobody has closed it, as far as we know: then that did not come by here. */
void preload_fd_opened(int fd, int flags)
{
	bool left = flags & (O_APPEND | O_DIRECTORY | O_PATH);

	if (is_file(look(fd)))
		preload_fd_closed(fd);
	put(fd, left ? LEFT : OPENED);
}

void preload_fd_closed(int fd)
{
	if (look(fd) == UNKNOWN || look(fd) == KEPT || !preload_here())
		return;
	if (!table_lock()) {
		put(fd, UNKNOWN);       /* its file has a number too many for ever */
		return;
	}
	forget(fd);
	table_unlock();
}

void preload_fd_closed_range(unsigned first, unsigned last)
{
	unsigned end = atomic_load(&highest);

	for (unsigned fd = first; fd <= end && fd <= last; fd++)
		preload_fd_closed((int)fd);
}

void preload_fd_duplicated(int fd, int copy)
{
	struct preload_file *f;

	if (fd == copy || !preload_here())
		return;
	preload_fd_closed(copy);
	if (!table_lock()) {
		share(fd);
		put(copy, LEFT);
		return;
	}
	f = file_of(fd);
	if (f)
		f->numbers++;
	put(copy, f ? f : LEFT);
	table_unlock();
}

void preload_fd_inherited(bool exec)
{
	unsigned end = atomic_load(&highest);
	bool alone = table_lock();

	for (unsigned fd = 0; fd <= end; fd++) {
		struct preload_file *f = look((int)fd);

		if (f != OPENED && !is_file(f))
			continue;
		if (exec && (PRELOAD_REAL(fcntl, (int)fd, F_GETFD) & FD_CLOEXEC))
			continue;
		if (alone)
			file_of((int)fd);
		share((int)fd);
	}
	if (alone)
		table_unlock();
}

bool preload_fd_known(int fd)
{
	return !is_kernels(look(fd));
}

/* What is small costs no system call, as it may be one of many. Of a file that has never been looked at
 * nothing is kept right. In a child of vfork() it is as in its parent: it takes the same locks. */
static bool small_is_kernels(const struct preload_file *f)
{
	return f == OPENED || !atomic_load_explicit(&f->mount, memory_order_relaxed);
}

struct preload_file *preload_fd_get(int fd, size_t len)
{
	struct preload_file *f = look(fd);

	if (is_kernels(f) || preload_inside)
		return NULL;
	if ((len < preload_min ? small_is_kernels(f) : !preload_here()) || !table_lock())
		return NULL;
	f = file_of(fd);
	if (f)
		f->refs++;
	table_unlock();
	return f;
}

void preload_fd_put(struct preload_file *f)
{
	table_lock();
	f->refs--;
	drop_if_unused(f);
	table_unlock();
}

bool preload_fd_is(int fd, const struct preload_file *f)
{
	return look(fd) == f;
}

void preload_fd_leave(struct preload_file *f, bool counts)
{
	if (!atomic_exchange(&f->left, true) && counts)
		atomic_fetch_add(&preload_counts.left, 1);
}

/* ---- ours ---- */

/* High, so that the program gets the numbers that it would get without us. */
int preload_fd_keep(int fd)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	int high;

	if (fd < 0)
		return fd;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur > KEPT_AT + KEPT_ROOM)
		limit.rlim_cur = KEPT_AT + KEPT_ROOM;
	high = limit.rlim_cur < 2 * KEPT_ROOM ? -1 : PRELOAD_REAL(fcntl, fd, F_DUPFD_CLOEXEC,
								  (int)(limit.rlim_cur - KEPT_ROOM));
	if (high >= 0)
		PRELOAD_REAL(close, fd);
	else
		high = fd;
	for (unsigned i = 0; i < KEPT_ROOM; i++) {
		int none = 0;

		if (!atomic_compare_exchange_strong(&kept[i], &none, high + 1))
			continue;
		if ((unsigned)high < NUMBERS)
			atomic_store(&table[high], KEPT);
		break;
	}
	return high;
}

bool preload_fd_kept(int fd)
{
	return look(fd) == KEPT;
}

/* The library closes it. */
void preload_fd_unkeep(int fd)
{
	for (unsigned i = 0; i < KEPT_ROOM; i++)
		if (atomic_load(&kept[i]) == fd + 1)
			atomic_store(&kept[i], 0);
	atomic_store(&table[fd], UNKNOWN);
}

int preload_fd_next_kept(unsigned first, unsigned last)
{
	int next = -1;

	for (unsigned i = 0; i < KEPT_ROOM; i++) {
		int fd = atomic_load(&kept[i]) - 1;

		if (fd >= 0 && (unsigned)fd >= first && (unsigned)fd <= last && (next < 0 || fd < next))
			next = fd;
	}
	return next;
}

/* The child of fork() has one thread, and nobody's lock. Files are not given back: others' locks are
 * in them. */
void preload_forget_all(void)
{
	unsigned end = atomic_load(&highest);

	pthread_mutex_init(&lock, NULL);
	for (unsigned fd = 0; fd <= end; fd++)
		if (look((int)fd) != UNKNOWN && look((int)fd) != KEPT)
			put((int)fd, UNKNOWN);
	for (int fd; (fd = preload_fd_next_kept(0, ~0u)) >= 0;) {
		PRELOAD_REAL(close, fd);
		preload_fd_unkeep(fd);
	}
	spare = NULL;
}
