/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol of rings: how a program reads and writes open files of a mount past the kernel. The daemon
 * (src/ring) and the library (src/lib) have nothing else in common. This header needs no other one
 * of the project.
 *
 *     program                                          daemon
 *     -------                                          ------
 *     fd = open(file on the mount)      -- kernel -->  OPEN: kernel and server check permission
 *     ioctl(fd, RING_IOC_TOKEN)         -- kernel -->  a token for that open file, once, for RING_TOKEN_S
 *          <-- token, name of the socket
 *     connect, as the same user         -- socket -->  SO_PEERCRED
 *     RING_OPEN    memfd                -- socket -->  maps the ring; it is a lane's from now on
 *          <-- a stream socket, the ring's bell
 *     RING_MEMORY  memfd or dma-buf     -- socket -->  maps it, registers it with the devices
 *     RING_ATTACH  token                -- socket -->  the open file is one of the ring's
 *
 *     entry: READ or WRITE              == memory =>   READ: the server RDMA-Writes into the program's
 *          <== completion                              memory; WRITE: it RDMA-Reads from there
 *
 * A connection is one program's. It has up to RING_RINGS rings, and memory that all of them use. A
 * ring is of one thread of the program and one lane of the daemon, and so is each of its words:
 *
 *         offset                            written by     read by
 *     0   struct ring_line sq_tail          program        daemon    entries filled so far
 *     64  struct ring_line sq_head          daemon         program   entries taken; RING_SLEEPS: see below
 *     128 struct ring_line cq_tail          daemon         program   completions filled so far
 *     192 struct ring_line cq_head          program        daemon    completions taken; `wanted`
 *     256 struct ring_sqe  sq[entries]      program        daemon
 *     ..  struct ring_cqe  cq[entries]      daemon         program
 *
 *           sq_head          sq_tail                cq_head        cq_tail
 *              v                v                      v              v
 *     ...done [taken? no: new ][free ...]      ...free [completions ][free ...]
 *
 * Counts are of 32 bits and wrap around; an entry lies at its count modulo `entries`, which is a power
 * of two. Memory order: who fills an entry stores the tail after that with release order, and who reads
 * it loads the tail with acquire order. The other way the same with the head.
 *
 * There are at most `entries` under way: between sq_tail and cq_head. So there is always room for a
 * completion, and the daemon takes no entry for which there would not be. Completions come in any order.
 *
 * Sleeping: neither side makes a system call while the other one is awake.
 *
 *     daemon, before it sleeps              program
 *     sq_head.flags = RING_SLEEPS           fills entries; sq_tail = n
 *     full fence                            full fence
 *     sq_tail moved? then it goes on        sq_head.flags & RING_SLEEPS? then a byte into the bell
 *
 *     program, before it sleeps             daemon
 *     cq_head.wanted = a count, flags =     fills completions; cq_tail = n
 *         RING_SLEEPS
 *     full fence                            full fence
 *     cq_tail has reached it? it goes on    flags & RING_SLEEPS, and n - wanted is not negative? then
 *                                           a byte into the bell
 *
 * The bell is one end of a pair of sockets that the daemon has made. A byte wakes the other side, whatever
 * it is; a bell that is full has woken it. Nobody waits to write into it. (With an eventfd, whose flags and
 * count both sides share, a program could have the lane wait for ever.)
 *
 * What each side believes of the other: the daemon believes nothing. It reads each word once, checks
 * it, and keeps counts of its own, so that a program which writes garbage anywhere harms itself: a
 * wrong entry is completed with an error, and a ring with impossible counts ends. The memory that it
 * maps is sealed against shrinking, or a dma-buf, which cannot shrink, or is refused. The program believes the daemon, to which it has
 * trusted its data anyway.
 *
 * The end: a ring ends by RING_CLOSE, or with the connection, and that with either process, or by close().
 * What was under way is given up like the calls of a killed process; the memory stays mapped here until no peer
 * can reach it. A program hears of the daemon's end by the socket (POLLHUP); nothing is completed then.
 * An attached file is the kernel's open file: when the last descriptor of it is closed, its entries
 * fail with EBADF, as if there were no ring.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define RING_VERSION 1u

/* ---- the token ---- */

/* For how many seconds it can be used. */
#define RING_TOKEN_S 10
#define RING_TOKEN_BYTES 16u

struct ring_token {
	uint32_t version;               /* RING_VERSION */
	uint32_t access;                /* O_RDONLY, O_WRONLY or O_RDWR, as the file was opened */
	uint8_t token[RING_TOKEN_BYTES];
	char socket[112];               /* the mount's socket, as the daemon sees it; with its NUL */
};

/*
 * Of an open regular file on the mount. Errors:
 *   ENOTTY      it is on another file system, or this version does not know rings
 *   EOPNOTSUPP  the mount has none (norings, consistency=solo), or not for this file (O_APPEND)
 *   EDQUOT      too many tokens of this user wait to be used
 */
#define RING_IOC_TOKEN _IOR('n', 0x52, struct ring_token)

/* ---- the memory of a ring ---- */

#define RING_ENTRIES_MIN 2u
#define RING_ENTRIES_MAX 4096u

/* The longest that one entry reads or writes. */
#define RING_IO_MAX (4u << 20)

enum { RING_SLEEPS = 1 };               /* ring_line.flags */

struct ring_line {
	_Atomic uint32_t count;
	_Atomic uint32_t flags;
	_Atomic uint32_t wanted;        /* cq_head: the count of completions to wake up at */
	uint32_t zero[13];
};

enum ring_op { RING_READ = 1, RING_WRITE = 2 };

struct ring_sqe {
	uint8_t op;                     /* enum ring_op */
	uint8_t zero;
	uint16_t memory;                /* what RING_MEMORY returned */
	uint32_t file;                  /* what RING_ATTACH returned */
	uint64_t offset;                /* in the file */
	uint64_t at;                    /* in the memory */
	uint32_t len;                   /* at most RING_IO_MAX */
	uint32_t zero2;
	uint64_t user_data;             /* comes back in the completion */
	uint64_t zero3[3];
};

/*
 * result: bytes read or written, which may be fewer than wanted (a READ's at the end of the file), or
 * -errno: of the file, as read(2) and write(2) give them; and
 *   EBADF     no such file in this ring (any more), or it is not open for that
 *   EFAULT    not in that memory, or there is none (any more): the device of a dma-buf may have taken it
 *             away, and then a WRITE may have written zeros
 *   EIO       for one: a dma-buf that the device of a new path does not take
 *   EINVAL    op, len 0 or too long, offset + len beyond what a file can have, a byte that is not zero
 */
struct ring_cqe {
	uint64_t user_data;
	int64_t result;
};

struct ring_memory {
	struct ring_line sq_tail, sq_head, cq_tail, cq_head;
	struct ring_sqe sq[];           /* and behind `entries` of them, struct ring_cqe */
};

_Static_assert(sizeof(struct ring_line) == 64, "a line of the cache");
_Static_assert(sizeof(struct ring_sqe) == 64, "a line of the cache");
_Static_assert(sizeof(struct ring_memory) == 256, "as in the picture");

static inline uint64_t ring_bytes(uint32_t entries)
{
	return sizeof(struct ring_memory) + entries * (sizeof(struct ring_sqe) + sizeof(struct ring_cqe));
}

static inline struct ring_cqe *ring_cq(struct ring_memory *m, uint32_t entries)
{
	return (struct ring_cqe *)(void *)(m->sq + entries);
}

/* ---- the socket (SOCK_SEQPACKET): a request, its answer, and so on ---- */

enum ring_what {
	/* `value` entries. Descriptor: a memfd of ring_bytes() at least. Answer: its number, to be named in
	 * `ring`, and with it a descriptor, the program's end of the bell. */
	RING_OPEN = 1,
	/* The first `value` bytes, which are whole pages, of a memfd, or of a dma-buf that processors can map;
	 * EOPNOTSUPP: a device of the mount does not take that. Entries in a dma-buf are between
	 * DMA_BUF_SYNC_START and DMA_BUF_SYNC_END of the program. Answer: its number. */
	RING_MEMORY,
	/* The memory number `value` is not used any more, when the answer comes: entries that
	 * are under way are waited for. */
	RING_FORGET,
	/* The open file of `token`, for `ring`. Answer: its number in that ring. */
	RING_ATTACH,
	/* The file number `value` is not one of `ring` any more. */
	RING_DETACH,
	/* `ring` ends: no entry of it is taken or completed any more. Those under way are given up, and may
	 * use their memory until RING_FORGET is answered; then the ring is counted no more, either. */
	RING_CLOSE,
};

#define RING_RINGS    64u               /* of a connection */
#define RING_MEMORIES 64u
#define RING_FILES    1024u             /* of a ring */

struct ring_request {
	uint32_t version;               /* RING_VERSION */
	uint32_t what;                  /* enum ring_what */
	uint32_t ring;
	uint32_t zero;
	uint64_t value;
	uint8_t token[RING_TOKEN_BYTES];
};

struct ring_answer {
	uint32_t version;               /* RING_VERSION of the daemon */
	int32_t status;                 /* 0 or -errno, with `why` in words */
	uint32_t value;
	char why[116];                  /* with its NUL */
};
