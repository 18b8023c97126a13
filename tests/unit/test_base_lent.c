/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of programs: addresses, dma-bufs, and what happens when a device takes its memory away. There may
 * be no device here: a memfd plays a dma-buf, when fstatfs() says that it is one. It can shrink, which is
 * what a device does that takes memory away.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/lent.h"
#include "base/thread.h"

enum { LEN = 1 << 16 };

static struct lent lent;
static struct errbuf eb;
static unsigned registered;
static int got_dmabuf, refusal;
static bool plays_dmabuf;

int __real_fstatfs64(int fd, struct statfs *st);
int __wrap_fstatfs64(int fd, struct statfs *st);
int __wrap_fstatfs64(int fd, struct statfs *st)
{
	int rc = __real_fstatfs64(fd, st);

	if (plays_dmabuf)
		st->f_type = DMA_BUF_MAGIC;
	return rc;
}

static int play_add(void *ctx, unsigned i, void *mem, size_t len, int dmabuf, struct errbuf *why)
{
	got_dmabuf = dmabuf;
	if (refusal)
		return err_set(why, refusal, "played");
	registered++;
	return 0;
}

static bool play_remove(void *ctx, unsigned i)
{
	registered--;
	return true;
}

static int64_t spare = INT64_MAX;

static int64_t play_spare(void *ctx)
{
	return spare;
}

static const struct lent_ops ops = { play_add, play_remove, play_spare };

static int make_memfd(size_t len)
{
	int fd = memfd_create("lent", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)len), 0);
	return fd;
}

static int make_sealed(size_t len)
{
	int fd = make_memfd(len);

	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static void begin(void)
{
	cr_assert_eq(lent_init(&lent, &ops, NULL), 0);
}

static void end(void)
{
	lent_fini(&lent);
}

TestSuite(lent, .init = begin, .fini = end);

static int add_dmabuf(int fd, size_t len)
{
	int piece;

	plays_dmabuf = true;
	piece = lent_add(&lent, fd, len, &eb);
	plays_dmabuf = false;
	return piece;
}

/* ---- addresses ---- */

static size_t addresses_now(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	cr_assert_eq(fscanf(f, "%zu", &pages), 1);
	fclose(f);
	return pages * (size_t)getpagesize();
}

/* Few are better than none, and what there is no room for is refused. */
Test(lent_few, addresses)
{
	size_t most = addresses_now() + (1ul << 30);
	int fd = make_sealed(2 * LENT_UNIT);
	unsigned n = 0;

	cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){ most, most }), 0);
	cr_assert_eq(lent_init(&lent, &ops, NULL), 0);
	cr_assert(lent.units >= 16 && lent.units <= 64, "%u units", lent.units);
	cr_assert_eq(ftruncate(fd, (off_t)((lent.units + 1) * LENT_UNIT)), 0);
	cr_assert_eq(lent_add(&lent, fd, (lent.units + 1) * LENT_UNIT, &eb), -ENOSPC);
	cr_assert(strstr(eb.text, "no room"), "%s", eb.text);
	while (lent_add(&lent, fd, LENT_UNIT, &eb) >= 0)
		n++;
	cr_assert_eq(n, lent.units);
	cr_assert_eq(lent_add(&lent, fd, LEN, &eb), -ENOSPC);
	/* Two that are not neighbours have no room for a longer one. */
	cr_assert(lent_remove(&lent, 1));
	cr_assert(lent_remove(&lent, 3));
	cr_assert_eq(lent_add(&lent, fd, 2 * LENT_UNIT, &eb), -ENOSPC);
	cr_assert(lent_remove(&lent, 2));
	cr_assert_geq(lent_add(&lent, fd, 2 * LENT_UNIT, &eb), 0);
	cr_assert_eq(registered, lent.units - 2);
	memset(lent_at(&lent, 1), 'x', 2 * LENT_UNIT);
	close(fd);
	lent_fini(&lent);
}

/* ---- dma-bufs ---- */

/* A device that comes later needs the descriptor: it stays, whatever the program does to its own. */
Test(lent, a_dmabuf_is_kept_and_closed)
{
	int fd = make_memfd(LEN), piece = add_dmabuf(fd, LEN);
	char byte = 'x';

	cr_assert_geq(piece, 0);
	cr_assert(got_dmabuf >= 0 && got_dmabuf != fd);
	close(fd);
	cr_assert_eq(pwrite(got_dmabuf, &byte, 1, 5), 1);
	cr_assert_eq(lent_at(&lent, (unsigned)piece)[5], 'x');
	cr_assert(fcntl(got_dmabuf, F_GETFD) & FD_CLOEXEC);
	cr_assert(lent_remove(&lent, (unsigned)piece));
	cr_assert_eq(fcntl(got_dmabuf, F_GETFD), -1);
}

Test(lent, a_memfd_is_not_kept)
{
	int fd = make_sealed(LEN);

	cr_assert_geq(lent_add(&lent, fd, LEN, &eb), 0);
	cr_assert_eq(got_dmabuf, -1);
	cr_assert_eq(lent.dmabuf[0], -1);
}

Test(lent, a_dmabuf_that_is_refused)
{
	int fd = make_memfd(LEN), readonly;
	char name[64];

	cr_assert_eq(add_dmabuf(fd, 2 * LEN), -EINVAL);
	cr_assert(strstr(eb.text, "the dma-buf has 65536 bytes, not 131072"), "%s", eb.text);
	cr_assert_eq(add_dmabuf(fd, 0), -EINVAL);
	cr_assert_eq(add_dmabuf(fd, 100), -EINVAL);
	refusal = -EOPNOTSUPP;
	got_dmabuf = -1;
	cr_assert_eq(add_dmabuf(fd, LEN), -EOPNOTSUPP);
	cr_assert_str_eq(eb.text, "played");
	cr_assert(got_dmabuf >= 0 && fcntl(got_dmabuf, F_GETFD) == -1);
	refusal = 0;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	readonly = open(name, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(readonly, 0);
	cr_assert_eq(add_dmabuf(readonly, LEN), -EACCES);
	cr_assert(strstr(eb.text, "the processor cannot"), "%s", eb.text);
	cr_assert_eq(registered, 0);
	cr_assert_eq(add_dmabuf(fd, LEN), 0, "there is room as before");
}

/* ---- a device takes its memory away ---- */

static void *touch(void *at)
{
	((volatile char *)at)[LEN - 1] = 'x';
	return NULL;
}

/* On a thread as lanes are: one that blocks SIGBUS would end the process. */
Test(lent, who_touches_lost_memory_lives)
{
	int fd = make_memfd(LEN), other = make_sealed(LEN);
	int piece = add_dmabuf(fd, LEN), good = lent_add(&lent, other, LEN, &eb);
	char *at = lent_at(&lent, (unsigned)piece), *good_at = lent_at(&lent, (unsigned)good);
	pthread_t t;

	at[0] = good_at[0] = 'g';
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_not(lent_is_lost(&lent, at));
	cr_assert_eq(thread_start(&t, touch, at), 0);
	pthread_join(t, NULL);
	cr_assert(lent_is_lost(&lent, at) && lent_is_lost(&lent, at + LEN - 1));
	cr_assert(at[LEN - 1] == 'x' && at[0] == 0, "memory of its own");
	cr_assert(good_at[0] == 'g' && !lent_is_lost(&lent, good_at));
	/* What comes to its place is not lost. */
	cr_assert(lent_remove(&lent, (unsigned)piece));
	cr_assert_eq(lent_add(&lent, other, LEN, &eb), piece);
	cr_assert(at[0] == 'g' && !lent_is_lost(&lent, at));
}

/* The kernel's own copies end with EFAULT. */
Test(lent, a_system_call_finds_lost_memory)
{
	int fd = make_memfd(LEN), piece = add_dmabuf(fd, LEN), ends[2];
	char *at = lent_at(&lent, (unsigned)piece), own[8] = "1234567";
	struct iovec iov[] = { { own, sizeof(own) }, { at + 100, LEN - 100 } };

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_eq(write(ends[0], own, 8), 8);
	cr_assert_not(lent_mend(iov, 2), "nothing is lost");
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert(recv(ends[1], at, 8, MSG_PEEK) == -1 && errno == EFAULT);
	cr_assert_not(lent_mend(iov, 1), "it is not among them");
	cr_assert(lent_mend(iov, 2));
	cr_assert_eq(recv(ends[1], at, 8, 0), 8);
	cr_assert(lent_is_lost(&lent, at));
	cr_assert_not(lent_mend(iov, 2), "only once");
}

static char *elsewhere(void)
{
	int fd = make_memfd(LEN);
	char *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	cr_assert_eq(ftruncate(fd, 0), 0);
	return at;
}

Test(lent, other_memory_ends_the_process, .signal = SIGBUS)
{
	touch(elsewhere());
}

Test(lent, so_does_somebody_who_sends_it, .signal = SIGBUS)
{
	kill(getpid(), SIGBUS);
}

/* What has pages already takes no more. */
Test(lent, memory_that_is_not_there_is_not_lent)
{
	size_t page = (size_t)getpagesize();
	int fd = make_sealed(4 * page), piece;

	spare = (int64_t)(2 * page);
	cr_assert_eq(lent_add(&lent, fd, 4 * page, &eb), -ENOMEM);
	cr_assert(strstr(eb.text, "16 KiB would have to be found") && strstr(eb.text, "has 8 to spare"), "%s", eb.text);
	cr_assert_eq(registered, 0);
	cr_assert_eq(pwrite(fd, "", 1, 0), 1);
	cr_assert_eq(pwrite(fd, "", 1, (off_t)page), 1);
	piece = lent_add(&lent, fd, 4 * page, &eb);
	cr_assert_geq(piece, 0, "%s", eb.text);
	cr_assert(lent_remove(&lent, (unsigned)piece));
	spare = -1;
	cr_assert_eq(lent_add(&lent, fd, 4 * page, &eb), -ENOMEM);
	cr_assert(strstr(eb.text, "8 KiB would") && strstr(eb.text, "has 0 to spare"), "%s", eb.text);
	cr_assert_eq(pwrite(fd, "", 1, (off_t)(2 * page)), 1);
	cr_assert_eq(pwrite(fd, "", 1, (off_t)(3 * page)), 1);
	piece = lent_add(&lent, fd, 4 * page, &eb);
	cr_assert_geq(piece, 0, "%s", eb.text);
	cr_assert(lent_remove(&lent, (unsigned)piece));
	close(fd);
}
