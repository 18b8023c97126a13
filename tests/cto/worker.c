/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes that do it, and the threads of those that are front ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* Before cto.h, whose `cfg` would be hidden by its arguments. */
#include "front.h"
#include "cto.h"

/* So long without an answer: a server that restarts takes its time. */
#define SILENCE_MS 180000

static struct worker {
	pid_t pid;                      /* not of a front end's */
	int to, from, its_to, its_from;
	uint8_t *data;                  /* what it has read, shared with it */
} workers[WORKERS];

/* ---- in the worker ---- */

static struct { int fd; uint8_t *map; } slots[SLOTS];
static _Thread_local uint8_t *data;
static _Thread_local char folder[64];

static const char *path_of(unsigned name, const char *dir, char path[4096])
{
	snprintf(path, 4096, "%s/%s/%c%u", dir, folder, "abc"[name / NAMES], name % NAMES);
	return path;
}

/* Its number, without asking anybody for newer attributes. */
static void identify(int fd, struct answer *a)
{
	struct statx st;

	if (!statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st))
		a->ino = st.stx_ino;
}

static int open_file(const struct op *o, const char *path, struct answer *a)
{
	int fd = open(path, o->flags, 0644);

	if (fd < 0)
		return -1;
	identify(fd, a);
	slots[o->slot].fd = fd;
	return 0;
}

static int make_file(const char *path, struct answer *a)
{
	int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0644);

	if (fd < 0)
		return -1;
	identify(fd, a);
	if (ftruncate(fd, cfg.size)) {
		close(fd);
		return -1;
	}
	return close(fd);
}

static int close_file(unsigned slot)
{
	int fd = slots[slot].fd;

	if (slots[slot].map)
		munmap(slots[slot].map, cfg.size);
	slots[slot].map = NULL;
	slots[slot].fd = -1;
	return close(fd);
}

static ssize_t write_file(const struct op *o, int fd)
{
	bytes_of(o, data);
	return o->flags & O_APPEND ? write(fd, data, o->len) : pwrite(fd, data, o->len, o->off);
}

/* As often as it takes: a read may end early where a page of the cache ends. */
static ssize_t read_file(const struct op *o, int fd)
{
	ssize_t n, all = 0;

	do {
		n = pread(fd, data + all, o->len - (size_t)all, o->off + all);
		all += n > 0 ? n : 0;
	} while (n > 0 && (size_t)all < o->len);
	return n < 0 ? -1 : all;
}

static int map_file(const struct op *o, int fd)
{
	int how = (o->flags & O_ACCMODE) == O_RDWR ? PROT_READ | PROT_WRITE : PROT_READ;
	void *at = mmap(NULL, cfg.size, how, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -1;
	slots[o->slot].map = at;
	return 0;
}

static int sync_map(const struct op *o)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), from = o->off / page * page;

	return msync(slots[o->slot].map + from, o->off + o->len - from, MS_SYNC);
}

/* ---- locks ---- */

static int lock_file(const struct op *o, int fd, short type)
{
	static const int cmds[][2] = { { F_SETLK, F_SETLKW }, { F_OFD_SETLK, F_OFD_SETLKW } };
	off_t cell = cfg.size / CELLS, first = __builtin_ctz(o->cells), last = 31 - __builtin_clz(o->cells);
	struct flock lk = { .l_type = type, .l_start = first * cell,
			    .l_len = last == CELLS - 1 && !cfg.ends ? 0 : (last + 1 - first) * cell };
	int rc, how = type == F_UNLCK ? LOCK_UN : type == F_WRLCK ? LOCK_EX : LOCK_SH;

	if (o->kind == FLOCK)
		rc = flock(fd, how | (o->waits ? 0 : LOCK_NB));
	else if (o->what != TEST)
		rc = fcntl(fd, cmds[o->kind == OFD][o->waits], &lk);
	else if (!(rc = fcntl(fd, o->kind == OFD ? F_OFD_GETLK : F_GETLK, &lk)) && lk.l_type != F_UNLCK)
		rc = -(errno = EAGAIN);
	if (rc && errno == EACCES)
		errno = EAGAIN;
	return rc ? -1 : 0;
}

static int look(int rc, const struct stat *st, struct answer *a)
{
	if (!rc) {
		a->ino = st->st_ino;
		a->size = (uint64_t)st->st_size;
		a->nlink = st->st_nlink;
	}
	return rc;
}

/* By an open of its own. */
static ssize_t read_path(const struct op *o, const char *path)
{
	struct op all = *o;
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read_file(&all, fd);
	close(fd);
	return n;
}

static ssize_t read_server(const struct op *o)
{
	char path[4096];

	return read_path(o, path_of(o->name, cfg.server, path));
}

/* The same file, whatever its name is now. */
static ssize_t read_again(const struct op *o)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", slots[o->slot].fd);
	return read_path(o, path);
}

static int folders(const struct op *o, const char *dir)
{
	char path[4096];
	int rc;

	snprintf(path, sizeof(path), "%s/%s", dir, folder);
	if (o->worker)
		return 0;
	rc = o->what == MKDIR ? mkdir(path, 0755) : rmdir(path);
	return o->what == MKDIR ? rc : 0;
}

static int64_t execute(const struct op *o, struct answer *a)
{
	const char *dir = cfg.dirs[mount_of(o)];
	char path[4096], path2[4096];
	int fd = slots[o->slot].fd;
	uint8_t *map = slots[o->slot].map;
	struct stat st;

	if (o->what == MKDIR)
		snprintf(folder, sizeof(folder), "e%u", o->id);
	if (cfg.fronts[mount_of(o)] && o->what != SERVER && o->what != PAUSE)
		return by_front(o, a, data);
	path_of(o->name, dir, path);
	path_of(o->name2, dir, path2);
	switch (o->what) {
	case MKDIR: case RMDIR: return folders(o, dir);
	case OPEN: return open_file(o, path, a);
	case MAKE: return make_file(path, a);
	case CLOSE: return close_file(o->slot);
	case READ: return read_file(o, fd);
	case WRITE: return write_file(o, fd);
	case FTRUNCATE: return ftruncate(fd, o->off);
	case TRUNCATE: return truncate(path, o->off);
	case MAP: return map_file(o, fd);
	case UNMAP: slots[o->slot].map = NULL; return munmap(map, cfg.size);
	case PEEK: memcpy(data, map + o->off, o->len); return o->len;
	case POKE:
		for (uint32_t i = 0; i < o->len; i++)
			map[o->off + i] = byte_of(o->id, i);
		return o->len;
	case MSYNC: return sync_map(o);
	case FSYNC: return cfg.lies ? 0 : o->len ? fdatasync(fd) : fsync(fd);
	case FSTAT: return look(fstat(fd, &st), &st, a);
	case STAT: return look(stat(path, &st), &st, a);
	case LOCK: case TEST: return lock_file(o, fd, o->excl ? F_WRLCK : F_RDLCK);
	case UNLOCK: return lock_file(o, fd, F_UNLCK);
	case UNLINK: return unlink(path);
	case RENAME: return rename(path, path2);
	case LINK: return link(path, path2);
	case SERVER: return read_server(o);
	case AGAIN: return read_again(o);
	case PAUSE: return usleep(o->off * 1000);
	default: errno = ENOSYS; return -1;
	}
}

/* The whole file, at once: what comes there later was not there when the promise was given. */
static void look_at_server(struct op o, struct answer *a)
{
	o.off = 0;
	o.len = cfg.size;
	a->server = read_server(&o);
	if (a->server < 0)
		a->server = -errno;
}

/* Until nobody asks any more. */
static void work(int from, int to)
{
	struct op o;

	while (read(from, &o, sizeof(o)) == sizeof(o)) {
		struct answer a = { 0 };

		a.rc = execute(&o, &a);
		a.err = a.rc < 0 ? errno : 0;
		if (o.look)
			look_at_server(o, &a);
		if (write(to, &a, sizeof(a)) != sizeof(a))
			break;
	}
}

/* ---- in main ---- */

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(2);
}

static void make_pipes(struct worker *w)
{
	int to[2], from[2];

	if (!w->data)
		w->data = mmap(NULL, cfg.size > IO_MAX ? cfg.size : IO_MAX, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w->data == MAP_FAILED || pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		fail("a worker's pipes");
	*w = (struct worker){ .data = w->data, .to = to[1], .from = from[0], .its_from = to[0], .its_to = from[1] };
}

static void close_ours(struct worker *w)
{
	close(w->to);
	close(w->from);
	w->to = w->from = -1;           /* the numbers may be others' soon */
}

static void close_its(struct worker *w)
{
	close(w->its_to);
	close(w->its_from);
}

/* A new process. What main has of others it must not have, or their pipes would not end. */
static bool fork_worker(pid_t *pid)
{
	*pid = fork();
	if (*pid < 0)
		fail("fork");
	if (*pid)
		return false;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < WORKERS; i++)
		if (workers[i].data && workers[i].to >= 0)
			close_ours(&workers[i]);
	return true;
}

static void start(struct worker *w)
{
	make_pipes(w);
	if (fork_worker(&w->pid)) {
		data = w->data;
		for (unsigned i = 0; i < SLOTS; i++)
			slots[i].fd = -1;
		work(w->its_from, w->its_to);
		_exit(0);
	}
	close_its(w);
}

static bool is_front(unsigned i)
{
	return cfg.fronts[mount_of(&(struct op){ .worker = (uint8_t)i })];
}

void workers_start(void)
{
	for (unsigned i = 0; i < cfg.workers; i++)
		if (!is_front(i))
			start(&workers[i]);
}

void workers_end(void)
{
	for (unsigned i = 0; i < cfg.workers; i++) {
		struct worker *w = &workers[i];

		if (is_front(i))
			continue;
		close_ours(w);
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
}

/* ---- a front end's process: each worker is a thread of it, for all episodes ---- */

static void *thread_main(void *arg)
{
	const struct worker *w = arg;

	data = w->data;
	work(w->its_from, w->its_to);
	by_front_ends();
	return NULL;
}

static _Noreturn void front_main(unsigned mount)
{
	pthread_t threads[WORKERS];

	if (front_start(cfg.source, cfg.options))
		_exit(2);
	for (unsigned i = 0; i < cfg.workers; i++)
		if (mount_of(&(struct op){ .worker = (uint8_t)i }) == mount)
			pthread_create(&threads[i], NULL, thread_main, &workers[i]);
	for (unsigned i = 0; i < cfg.workers; i++)
		if (mount_of(&(struct op){ .worker = (uint8_t)i }) == mount)
			pthread_join(threads[i], NULL);
	front_stop();
	exit(0);
}

static pid_t fronts[MOUNTS];

void fronts_start(void)
{
	for (unsigned i = 0; i < cfg.workers; i++)
		if (is_front(i))
			make_pipes(&workers[i]);
	for (unsigned m = 0; m < cfg.mounts; m++)
		if (cfg.fronts[m] && fork_worker(&fronts[m]))
			front_main(m);
	for (unsigned i = 0; i < cfg.workers; i++)
		if (is_front(i))
			close_its(&workers[i]);
}

bool fronts_end(void)
{
	bool good = true;
	int status;

	for (unsigned i = 0; i < cfg.workers; i++)
		if (is_front(i))
			close_ours(&workers[i]);
	for (unsigned m = 0; m < cfg.mounts; m++)
		if (cfg.fronts[m])
			good &= waitpid(fronts[m], &status, 0) == fronts[m] && status == 0;
	return good;
}

void worker_begin(const struct op *o)
{
	if (write(workers[o->worker].to, o, sizeof(*o)) != sizeof(*o)) {
		perror("a worker");
		exit(2);
	}
}

bool worker_answer(unsigned worker, struct answer *a, const uint8_t **read_data)
{
	struct pollfd p = { .fd = workers[worker].from, .events = POLLIN };

	*read_data = workers[worker].data;
	return poll(&p, 1, SILENCE_MS) == 1 && read(p.fd, a, sizeof(*a)) == sizeof(*a);
}

int worker_any(const bool asked[WORKERS], bool in_time)
{
	struct pollfd p[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++)
		p[i] = (struct pollfd){ .fd = asked[i] ? workers[i].from : -1, .events = POLLIN };
	if (poll(p, WORKERS, in_time ? SILENCE_MS : 0) > 0)
		for (int i = 0; i < WORKERS; i++)
			if (p[i].revents)
				return i;
	return -1;
}
