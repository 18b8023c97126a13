/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The last calls of a lane that somebody may ask about: those that took long, had no answer in time, were sent
 * again, or failed. All calls would cost each of them more than this is worth; who looks for something makes the
 * bound 0.
 *
 * The lane's thread writes, any thread reads and waits for nobody: a record that is written meanwhile is left
 * out. A call is here when it is over. What waits for a dead server is found among the operations that run, for
 * which lanes are asked. A lane whose calls time out writes those of its own that have run for longest, and the newest
 * records, to the log, once a minute at most.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NFS_KEPT 256u           /* records of a lane; power of two */
/* Calls that took so long are kept, until somebody says another bound. */
#define NFS_KEPT_FROM_NS 10000000u

struct nfs_call;
struct nfs_client;
struct nfs_lane;

struct nfs_kept_call {
	uint64_t end_ns;                /* by the lanes' clock */
	uint64_t queue_ns, rtt_ns;      /* before it was last sent, and since then */
	uint64_t all_ns;                /* since the operation began, which may have had other calls */
	uint64_t tx_bytes, rx_bytes;    /* RPC messages and file data */
	uint32_t xid;
	uint32_t fh;                    /* CRC-32 of the file handle; 0: there is none */
	int32_t result;                 /* 0, -errno, or what the engine does next (version.h) */
	uint16_t timeouts, sends;       /* 0 sends: it was not sent by the server's connections */
	uint8_t kind, path;             /* nfs_counted_name(); of the last sending */
	uint8_t lane;
	uint8_t spare[5];               /* none of it is left to the compiler */
};

#define NFS_KEPT_WORDS (sizeof(struct nfs_kept_call) / sizeof(uint64_t))
_Static_assert(sizeof(struct nfs_kept_call) == NFS_KEPT_WORDS * sizeof(uint64_t), "it is copied by words");

struct nfs_kept {
	uint64_t n;                     /* so many were written */
	struct nfs_kept_place {
		_Atomic uint64_t turn;  /* its number from 1 on, or 0: it is being written, or never was */
		_Atomic uint64_t word[NFS_KEPT_WORDS];
	} place[NFS_KEPT];
};

/* An operation that runs, and may be waiting for something else than the server. */
struct nfs_running_call {
	const char *name;               /* of its step; constant */
	uint64_t all_ns;                /* since the operation began... */
	uint64_t rtt_ns;                /* ...and since this step was last sent; 0: it was not */
	uint32_t xid, fh;               /* as above */
	unsigned sends, timeouts, path, lane;
};

/* Lane: the call is over with this result. */
void nfs_kept_add(struct nfs_call *c, int result, uint64_t now_ns);
/* Any thread: at most `most` of the calls that all lanes have, the newest ones, in the order of their end.
 * Returns how many. */
unsigned nfs_kept_calls(const struct nfs_client *cl, struct nfs_kept_call *out, unsigned most);
/* Lane: at most `most` of the operations that run there, those that have run for longest. Returns how many. */
unsigned nfs_kept_running(const struct nfs_lane *l, uint64_t now_ns, struct nfs_running_call *out, unsigned most);
/* Any thread: calls that end from now on are kept if they took so long. And how long that is. */
void nfs_kept_change(struct nfs_client *cl, uint64_t from_ns);
uint64_t nfs_kept_from_ns(const struct nfs_client *cl);
/* Any thread: the name of the operation or procedure. */
const char *nfs_kept_name(const struct nfs_client *cl, const struct nfs_kept_call *k);
/* "OK", what is wrong, or what the engine does next. */
const char *nfs_kept_result(int result);
/* Lane: the time of a call was up. The log has it once a minute for the mount. */
void nfs_kept_say(struct nfs_lane *l, uint64_t now_ns);
