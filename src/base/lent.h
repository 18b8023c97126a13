/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of programs, which is lent to this process: a program passes a memfd, and the server places
 * what the program reads straight there. It is what an extent of the arena is (arena.h), a range that
 * all devices have registered, but that no buffer of ours lies in it.
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
 * Nobody can take the memory away while it is mapped: a memfd has to be sealed against shrinking. What
 * the program writes there in between harms its own data only, because no other kind of data lies in
 * it, and nothing there is parsed.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/log.h"

struct arena_range;

#define LENT_UNIT_BITS 24u
#define LENT_UNIT      ((size_t)1 << LENT_UNIT_BITS)
#define LENT_UNITS     4096u            /* 64 GiB of addresses; less where those are few */
#define LENT_PIECES    256u

/* Registers a piece with all devices that there are and that come, and ends that: as
 * arena_keeper_ops has it. */
struct lent_ops {
	int (*add)(void *ctx, unsigned i, void *mem, size_t len, struct errbuf *eb);
	bool (*remove)(void *ctx, unsigned i);
};

struct lent {
	char *base;                     /* NULL: nothing is lent, ever */
	unsigned units;                 /* of base: LENT_UNITS at the most */
	const struct lent_ops *ops;
	void *ctx;
	size_t len[LENT_PIECES];        /* 0: there is no such piece */
	uint16_t first[LENT_PIECES];    /* its first unit */
	_Atomic uint16_t unit_of[LENT_UNITS];   /* piece + 1; 0: none */
};

/* Reserves the addresses. 0 or -errno. */
int lent_init(struct lent *l, const struct lent_ops *ops, void *ctx);
/* No piece is in use. */
void lent_fini(struct lent *l);

/* Maps the first len bytes of the memfd, and registers them. Its number, or -errno with eb set: -EPERM
 * it is not sealed, -EINVAL it is no memfd, or shorter; -ENOSPC no address is left; ... */
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

/* May this descriptor be mapped without a fear that its memory goes? The first len bytes. 0, or
 * -errno with eb set. */
int lent_check(int fd, size_t len, struct errbuf *eb);
