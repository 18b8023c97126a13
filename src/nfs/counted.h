/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is counted of the calls of one kind, in one lane: the lane's thread counts, any thread reads
 * (base/times.h). A kind is a procedure, or an operation where all procedures are COMPOUND.
 *
 *   made, waits -> sent -> lost, sent again -> answered, or it has failed
 *   '------------ queue_ns ------''------------ rtt -----------'
 *
 * A call that the server answers with "later" is answered and counted. The one that follows is another
 * one, which begins there.
 */
#pragma once

#include "base/times.h"

#define NFS_KINDS 64u

struct nfs_call;
struct nfs_client;
struct nfs_version;

struct nfs_counted {
	_Atomic uint64_t made;          /* messages; how many are over is in rtt */
	_Atomic uint64_t again;         /* how often one was sent again after a lost connection */
	_Atomic uint64_t timeouts;      /* how often its time was up (rr_expire()) */
	_Atomic uint64_t errors;        /* that the server has answered, and calls that have failed */
	_Atomic uint64_t tx_bytes, rx_bytes;    /* of RPC messages and file data, without what was sent again */
	_Atomic uint64_t queue_ns;      /* before they were last sent */
	struct times rtt;               /* from then on */
	uint64_t spare[2];              /* a power of two is found faster */
};

_Static_assert(sizeof(struct nfs_counted) == 512, "`spare` fills it up");

/* Lane: a call has its result, before the engine goes on with it, and something about it is not as it
 * mostly is. status: the transport's. */
void nfs_counted_odd(struct nfs_call *c, int status, int rc);

/* The same of all lanes. */
struct nfs_counted_sum {
	const char *name;               /* without blanks */
	uint64_t made, again, timeouts, errors, tx_bytes, rx_bytes, queue_ns;
	struct times_sum rtt;
};

/* Any thread: look(s, to) for each kind that the version has, in the version's order. */
void nfs_counted_each(const struct nfs_client *cl, void (*look)(const struct nfs_counted_sum *s, void *to), void *to);
/* Its name, with blanks; NULL: it has none. */
const char *nfs_counted_name(const struct nfs_version *v, unsigned kind);
/* Any thread: how many calls of each kind were made, as "rpc.KIND". */
void nfs_put_calls(const struct stats_out *out, const struct nfs_client *cl);
