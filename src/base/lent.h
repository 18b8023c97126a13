/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of programs, which is lent to this process: a program passes a memfd, or a dma-buf (memory of a
 * device, such as a GPU), and the server places what the program reads straight there. It is what an extent
 * of the arena is (arena.h), a range that all devices have registered, but that no buffer of ours lies in
 * it.
 *
 *     addresses   | 16 MiB | 16 MiB | 16 MiB | 16 MiB | ...      reserved from the beginning
 *     unit_of[]       1        1        -        2
 *                 piece 0, 20 MiB             piece 1
 *
 * A piece begins at a unit. So a device's registration of an address is found without a search and
 * without a lock, by any lane (lent_find()).
 *
 * lent_add() and lent_remove() wait for devices: they are of one thread, which may block. Whoever uses
 * a piece knows of it by that thread, and has stopped before lent_remove().
 *
 * Nobody can take a memfd's memory away while it is mapped: it has to be sealed against shrinking. What
 * the program writes there in between harms its own data only, because no other kind of data lies in
 * it, and nothing there is parsed: what a connection has to rely on is copied before (lent_holds()).
 *
 * A dma-buf has its device's word only. It cannot shrink, but some drivers take memory away when a device
 * is unplugged or has failed, or when a program has said that it is not needed. Whoever touches it then
 * gets SIGBUS, and would end with the mount of all users. So there is a handler (lent_lost.c): the piece is
 * replaced by empty memory, and it is lost: what is read and written there ends with an error.
 *
 * Caches of a processor or a device that does not see the other's writes are the program's affair:
 * DMA_BUF_IOCTL_SYNC is about the buffer, whoever touches it, and may wait for the device for as long
 * as the program has work for it there. A lane must not.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "base/log.h"

struct arena_range;

#define LENT_UNIT_BITS 24u
#define LENT_UNIT      ((size_t)1 << LENT_UNIT_BITS)
#define LENT_UNITS     4096u            /* 64 GiB of addresses; less where those are few */
#define LENT_PIECES    256u

struct lent_ops {
	/* Registers a piece with all devices that there are and that come, and ends that: as
	 * arena_keeper_ops has it. dmabuf: its descriptor, open as long as the piece is there; -1: none. */
	int (*add)(void *ctx, unsigned i, void *mem, size_t len, int dmabuf, struct errbuf *eb);
	bool (*remove)(void *ctx, unsigned i);
	/* How many bytes of memory there are for what devices pin. INT64_MAX: they pin none, or nobody knows. */
	int64_t (*spare)(void *ctx);
};

struct lent {
	char *base;                     /* NULL: nothing is lent, ever */
	unsigned units;                 /* of base: LENT_UNITS at the most */
	const struct lent_ops *ops;
	void *ctx;
	size_t len[LENT_PIECES];        /* 0: there is no such piece */
	uint16_t first[LENT_PIECES];    /* its first unit */
	int dmabuf[LENT_PIECES];        /* our own descriptor; -1: it is no dma-buf */
	atomic_bool lost[LENT_PIECES];
	_Atomic uint16_t unit_of[LENT_UNITS];   /* piece + 1; 0: none */
};

/* Reserves the addresses, and takes SIGBUS; one in a process. 0 or -errno. */
int lent_init(struct lent *l, const struct lent_ops *ops, void *ctx);
/* No piece is in use. */
void lent_fini(struct lent *l);

/* Maps the first len bytes of the memfd or dma-buf, and registers them. fd stays the caller's. The piece's
 * number, or -errno with eb set: -EPERM the memfd is not sealed, -EINVAL it is neither, or shorter; -ENOMEM
 * the pages that it does not have yet are more than what is spare; -ENOSPC
 * no address is left; -EOPNOTSUPP a device takes no dma-buf; ... */
int lent_add(struct lent *l, int fd, size_t len, struct errbuf *eb);
/* Ends that. false: a device still has it; ask again later. */
bool lent_remove(struct lent *l, unsigned piece);

/* Any thread that may know of the piece. */
static inline char *lent_at(const struct lent *l, unsigned piece)
{
	return l->base + ((size_t)l->first[piece] << LENT_UNIT_BITS);
}

/* Any thread: the piece that mem..mem+len lies in; -1: in none. */
int lent_find(const struct lent *l, const void *mem, size_t len);

/* Is it a memfd that can be mapped without a fear that its memory goes? The first len bytes. 0, or
 * -errno with eb set. */
int lent_check(int fd, size_t len, struct errbuf *eb);

/* ---- lent_lost.c ---- */

/* Any thread that may know of the piece at `at`: has its device taken the memory away? */
static inline bool lent_is_lost(const struct lent *l, const void *at)
{
	int piece = lent_find(l, at, 1);

	return piece >= 0 && atomic_load_explicit(&l->lost[piece], memory_order_relaxed);
}

/* Any thread: may a program change mem, or look at it, at this moment? */
bool lent_holds(const void *mem);

/* A system call that should read or write these has failed with EFAULT, because in the kernel there is no
 * SIGBUS. true: a piece was lost, and has been replaced; call again. */
bool lent_mend(const struct iovec *iov, size_t n);

/* Of lent.c: begins and ends to take SIGBUS for it. 0 or -errno. */
int lent_guard(struct lent *l);
void lent_unguard(struct lent *l);
