/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks of version 3: the server's lock manager, by NLM version 4 over TCP.
 *
 *   lane 0   LOCK, LOCKT, LOCKU --+                     nlm's thread (nlm_run.c)
 *   lane 1   ... begin()          +-> nlm.queue ------> a job -- nlm_wire.c --> lockd
 *      ^        (nlm.c)           |   struct nlm_job      |                    rpcbind
 *      +------ loop_post(job.m) <-------------------------+--> nlm.owners: what is held, and what is
 *              nfs_elsewhere_done()                            being given back (nlm_held.c)
 *
 * One thread of the mount makes the calls, one after the other, on a connection of its own, which has
 * nothing to do with RDMA; lanes never wait for it. A job has a copy of all that the call says, so a call
 * may be given up while the thread has its job: because its program is killed, or on a soft mount.
 * Calls with `waits` do not wait at the server (block is false), so it never calls back; who waits
 * asks again (vfs/locks_wait.c).
 *
 * Who owns what: a job belongs to the queue, then to the thread, then to the queue again or to the lane's
 * mailbox. It is freed on the lane, by the thread if its call was given up, or with the nlm. The lane
 * writes job.call; it, job.done and the queue are under mu. Connection and owners are the thread's, and
 * before it starts the mounting thread's; so they need no lock.
 *
 * Whose a lock is: the server knows an owner by this host's address and svid. Others of this host are
 * the kernel's client, which counts from 1, and other mounts of this program. So ours begin at a random
 * number. `oh` says the same with more bytes, for servers that look at it. FREE_ALL is never sent: it
 * would free the locks of all of them. And for the address all connections go from one address to one: by
 * another one we would be another host. So both are copied when the mount is made, whatever becomes of
 * its paths.
 *
 * What may be locked there, although nobody here has it, is "leaving" (nlm_owner.leaving): what a LOCKU
 * is for, before that is sent, and what a LOCK was for that has ended without an answer, or whose program
 * was gone when it was granted. The thread unlocks it, until the server has said that it is, or the mount
 * ends; nothing of it is reclaimed. Version 3 has no CLOSE that would free it.
 *
 * The connection dies right here:
 *
 *   before a call, while it was idle   (servers close those) The next one is sent on a new one, at once.
 *   no answer to a call                The same call on a new one, for ever; to lock what the owner has
 *                                      locked, or unlock what it has not, changes nothing. The owner's
 *                                      calls come one at a time, so nothing of it has come in between;
 *                                      others do, because the job goes to the end of the queue. The
 *                                      broken connection is reset (rpctcp_close()), or what is left in its
 *                                      socket could reach the server after the owner's next call.
 *   with the server                    All its locks are gone, and for a while (grace) it takes only
 *                                      those that were held before. So on each new connection, before
 *                                      anything else, everything that is held is asked for once more:
 *                                      as a reclaim, and if the server says that it is not in its
 *                                      grace period, as a new lock, which changes nothing if it has
 *                                      not restarted. While something is held, a call is made every
 *                                      few seconds, to hear of it in time. A lock that somebody else
 *                                      has by then is lost, which the log says. Any other refusal is not
 *                                      the last word: it is asked for again.
 *   while the mount ends               What is still held or leaving is unlocked, on a new connection if
 *                                      need be, for some seconds. The log says how many locks may stay.
 *
 * NSM is only for this host: with an rpc.statd here the server hears of it when this host has crashed and is
 * up again, and frees what was locked (nlm_watch.c). Without one, or if the server has none, the server is
 * not asked to watch this host (NM_LOCK), and keeps what was locked; the log says so at the first lock. Of
 * the server's restart the connection tells. Nothing tells when only this daemon is killed. Nor, here, when
 * the server's administrator takes locks away from those who live (unlock_ip): to ask for them every few
 * seconds would take them again while he moves the file system.
 *
 * A LOCK that is granted is followed by GETATTR, as in version 4's COMPOUND: whoever appends under the lock has
 * to know where the file ends. It counts as sent from then on, so that it ends with an answer, or is unlocked
 * (vfs/locks.c). If the server does not say, it is locked without.
 */
#pragma once

#include <pthread.h>
#include "base/hash.h"
#include "nfs/internal.h"
#include "nfs/ranges.h"
#include "nlm4.h"
#include "rpc/rpctcp.h"

#define NLM_OWNERS 256u
/* A call's limit. An answer may take a while: the server may ask a file system of its own for the lock. */
#define NLM_LIMIT_MS 10000u

/* Whose locks, and of what file. */
struct nlm_who {
	uint64_t number;                /* nfs_lock_args.owner */
	struct nfs_fh fh;
	struct rpc_cred cred;
};

/* What one owner has there. */
struct nlm_owner {
	struct hash_node node;          /* in nlm.owners, by the number */
	struct nlm_who who;             /* with the credential of who locked last */
	struct nfs_ranges held;
	struct nfs_ranges leaving;      /* none of held */
	unsigned epoch;                 /* not nlm.epoch: held is to be asked for once more */
	bool slow;                      /* its last call had no answer in time: others come first */
	bool refused;                   /* the log says that it is not given back now */
};

struct nlm_job {
	struct list node;               /* in nlm.queue, or in none */
	struct list all;                /* in nlm.jobs */
	struct loop_msg m;
	struct nlm *nlm;
	struct nfs_lane *lane;
	struct nfs_call *call;          /* NULL: it is given up */
	bool done;                      /* it is in the lane's mailbox, and can no longer be given up */
	enum nfs_op op;
	struct nlm_who who;
	struct nfs_range range;
	bool begun;                     /* the thread had it: the server may have executed it, or LOCKU's
					 * range is leaving */
	bool lost;                      /* a call had no answer, or one that says nothing ... */
	unsigned silent, useless;       /* ... so often none in time; so often in a row it said nothing */
	int status;                     /* what becomes of the call: as decode() says */
	struct nfs_lock_results res;
};

struct nlm {
	struct nfs_server *server;
	struct sockaddr_storage addr;   /* the server's */
	struct sockaddr_storage local;  /* ours: of the first connection; AF_UNSPEC: any */
	uint64_t id;                    /* of this mount: random */
	char host[256];                 /* this host's name */

	pthread_mutex_t mu;             /* for what follows */
	pthread_cond_t cond;            /* CLOCK_MONOTONIC: a job, stopping, ended */
	struct list queue, jobs;
	bool busy;                      /* the thread makes calls */
	bool stopping, ended;

	pthread_t tid;                  /* the unmounting thread's */
	bool started;

	/* The thread's: */
	struct rpctcp *tcp;             /* written under mu; NULL: there is no connection */
	unsigned limit_ms;              /* of a call */
	unsigned shift;                 /* how often the pause has doubled */
	uint32_t cookie;                /* of the last call */
	struct hash_node *owners[NLM_OWNERS];
	_Atomic unsigned nowners;       /* others read it */
	bool pending;                   /* something is leaving, or to be asked for once more */
	unsigned epoch;                 /* counts connections, and restarts that they have outlived */
	bool reclaims;                  /* the server is in its grace period, as far as is known */
	uint64_t answered_ns;           /* when the server last answered; CLOCK_BOOTTIME */
	bool grace;                     /* it has said that it is in its grace period, and what is held
					 * was asked for since */
	bool watch_asked, watches;      /* this host's rpc.statd, and it remembers the server */
	int nsm_state;                  /* this host's, by it */
	bool monitored;                 /* the server is asked to watch this host; of this connection */
	bool log_silent, log_refuses, log_nsm;  /* the log says that it does not answer; that it gives no
					 * locks; what NSM is for */
};

static inline bool nlm_is_stopping(struct nlm *n)
{
	bool stopping;

	pthread_mutex_lock(&n->mu);
	stopping = n->stopping;
	pthread_mutex_unlock(&n->mu);
	return stopping;
}

/* ---- nlm.c ---- */

/* Mounting thread; blocks. The server's lock manager is there, and the thread runs. */
int nlm_new(struct nfs_server *s, struct nlm **out, struct errbuf *eb);
/* Unlocks what is held, which may take longer than timeout_ms: five seconds. false: the thread is still
 * blocked, and uses nlm. */
bool nlm_stop(struct nlm *n, unsigned timeout_ms);
/* When it has ended, and the lanes. */
void nlm_free(struct nlm *n);
void nlm_job_free(struct nlm_job *j);

/* ---- nlm_run.c ---- */

void *nlm_run(void *nlm);

/* ---- nlm_wire.c: calls. -errno: why says why, and there is no connection any more, unless the server
 * has refused that one ---- */

bool nlm_wire_refused(int rc);

/* Asks rpcbind, and connects. -ENOENT: rpcbind does not know the lock manager. */
int nlm_wire_open(struct nlm *n, struct errbuf *why);
void nlm_wire_close(struct nlm *n);
/* So long ago has the server last answered. */
uint64_t nlm_wire_silent_ns(const struct nlm *n);
int nlm_wire_null(struct nlm *n, struct errbuf *why);
/* These return an nlm4_stats, which may be any number. */
int nlm_wire_lock(struct nlm *n, const struct nlm_who *w, struct nfs_range r, bool reclaim,
		  struct errbuf *why);
int nlm_wire_unlock(struct nlm *n, const struct nlm_who *w, uint64_t start, uint64_t last,
		    struct errbuf *why);
/* NLM4_DENIED: *out says what is in the way. */
int nlm_wire_test(struct nlm *n, const struct nlm_who *w, struct nfs_range r,
		  struct nfs_lock_results *out, struct errbuf *why);

/* ---- nlm_watch.c ---- */

/* Before the first lock: asks this host's rpc.statd, which may take some seconds. */
void nlm_watch(struct nlm *n);

/* ---- nlm_held.c: the thread's ---- */

/* It was granted. had, held: as in nfs_lock_results. 0 or -ENOMEM. */
int nlm_held_add(struct nlm *n, const struct nlm_who *w, struct nfs_range r, struct nfs_lock_results *res);
/* Nobody has it any more. */
void nlm_held_leave(struct nlm *n, const struct nlm_who *w, struct nfs_range r);
/* It may have been granted: what the owner does not hold of it is leaving. */
void nlm_held_doubt(struct nlm *n, const struct nlm_who *w, struct nfs_range r);
/* Unlocks what is leaving of that owner. An nlm4_stats or -errno: of the call that did not. */
int nlm_held_unlock(struct nlm *n, uint64_t number, struct errbuf *why);
bool nlm_held_any(const struct nlm *n, uint64_t number);
/* Is another owner of this mount in w's way? Linux does not say who it is, and up to 6.12 at least it
 * tests for a shared lock only, whatever is asked. */
bool nlm_held_test(const struct nlm *n, const struct nlm_who *w, struct nfs_range r,
		   struct nfs_lock_results *res);
/* On a new connection, or after a restart: from now on all that is held is to be asked for once more. */
void nlm_held_outdated(struct nlm *n);
/* Does so, and unlocks what is leaving; of slow owners only if `all`. 0, or -errno: the connection is lost. */
int nlm_held_settle(struct nlm *n, bool all, struct errbuf *why);
/* The mount ends: unlocks everything, and forgets it. */
void nlm_held_end(struct nlm *n);
