/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The NFS client without a protocol version: what src/vfs sees.
 *
 * A file operation is one struct nfs_call. The caller fills in the arguments and `done`,
 * and calls nfs_start() on its lane (the thread that owns one event loop and its
 * connections). done() runs on the same thread when the results are there. An operation may
 * take several RPCs. It may be repeated because the server asked for that, and it may wait
 * for a lost connection or for the recovery of lost state. done() comes once, at the end.
 *
 *   vfs: fill args -> nfs_start(lane, call)
 *                        |  waits for a place in the lane's window, a buffer, a slot
 *                        v
 *                    version->ops[op].encode -> rr_submit ... -> decode
 *                        ^                                          |
 *                        +--- next step / later / after recovery ---+--> done
 *
 * Ownership: everything that the arguments point to stays the caller's, and must not change
 * before done(). Pointers in the results point into the reply and are valid until done()
 * returns.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/meminfo.h"
#include "base/stats.h"
#include "nfs/config.h"
#include "nfs/counted.h"
#include "nfs/kept.h"
#include "nfs/version.h"
#include "rpc/rpcserve.h"

#define NFS_LANES_MAX 16u
#define NFS_CONNS_MAX 5u        /* of one lane on one path: one, and mdconnect= more */

/* CLOSEs that travel with other calls: close_ride.h. */
struct nfs_close_rides {
	pthread_mutex_t mu;             /* for everything here */
	struct list waiting;            /* oldest first */
	_Atomic unsigned nwaiting;      /* any thread reads it */
	struct list away;               /* aboard another call, or sent by themselves */
	struct list idle;
	unsigned nidle;
};

struct nfs_thread {
	pthread_t tid;
	bool started, ended;
};

/* A way to the server, and the thread that connects there: paths.h. Under control->mu, but for
 * `way`, which does not change while the place is in use. */
struct nfs_path {
	bool used, removing, refused;
	bool known;                     /* it has led to the server that is mounted */
	uint32_t generation;
	struct rr_path way;
	unsigned up;                    /* connections in use, of all lanes */
	struct rr_link_facts facts;     /* of the one that came last; all 0: none has */
	struct errbuf why;              /* why there is none */
	struct nfs_server *server;
	struct nfs_thread connector;
};

/*
 * The server that calls go to. All lanes share it. Each lane has one target there: its
 * connections to that server, and what the version keeps for them.
 *
 *     struct nfs_server      targets[0]      targets[1]
 *       version, session       |               |
 *                            lane 0          lane 1
 *
 * A call says which target it goes to. So a second server is one more nfs_server with a
 * target in each lane. The engine, the transport and the connector reach a server only this
 * way.
 */
struct nfs_server {
	struct nfs_client *client;
	const char *name;               /* as the user wrote it */
	const struct nfs_version *version;
	const struct rpc_auth *auth;    /* for calls with a credential */
	struct nfs_path path[NFS_PATHS_MAX];    /* ways to it; belongs to paths.c */
	struct rr_windows windows[NFS_PATHS_MAX];       /* what is known of them there */
	unsigned first;                 /* the path that the mount was made on */
	unsigned up;                    /* connections in use, of all lanes; under control->mu */
	_Atomic uint64_t lost;          /* how many in use were lost, ever */
	_Atomic uint64_t cut_ns;        /* when the last one in use was lost, whatever has come since */
	_Atomic bool checks;            /* new connections are checked: the mount is made */
	_Atomic bool joins;             /* each connection must join the session: the only path's
					 * are checked as well */
	_Atomic enum rr_policy policy;
	_Atomic uint64_t lacks;         /* operations that it has said it does not have, a bit each */
	struct nfs_target *targets[NFS_LANES_MAX];
	struct nfs_close_rides close_rides;
	void *vdata;                    /* the version's: client id, session */
	/* What the server may call here; the version sets it when vdata is there. NULL: nothing */
	_Atomic(const struct rpcserve_program *) program;
};

struct up_msg;

/* One connection of a lane: its place on a path, whether there is a link or not. */
struct nfs_connection {
	struct nfs_target *target;
	unsigned path, index;           /* index 0: for file data, and for all if it is the only one */
	/* Under control->mu: */
	bool wanted;                    /* make it */
	bool busy;                      /* it is being made, or there is a link */
	uint32_t generation;            /* of the path, when it was last in use */
	unsigned failures;              /* attempts in a row that came to nothing */
	uint64_t retry_ns;              /* no attempt before that */
	_Atomic(struct up_msg *) coming;        /* a link on its way to the lane; NULL: none */
	/* The lane's (connection.c): */
	struct rr_link *link;           /* NULL: there is none */
	bool up;                        /* it takes any call; else it is on trial */
	struct nfs_check check;
	struct rr_call rr;              /* a call of the check, or a heartbeat */
	struct rpc_auth_call auth;      /* the check's */
	bool asked;                     /* rr is under way */
	uint64_t asked_ns;              /* since then */
	struct loop_timer again;        /* the server asked the check to come back later */
	uint64_t drain_until_ns;        /* its path is being removed; 0: it is not */
	int fault;                      /* why the link was given up, if the check said so; else 0 */
};

struct nfs_target {
	struct nfs_server *server;
	struct nfs_lane *lane;
	struct list node;               /* in lane->targets */
	struct rr_conn *conn;
	_Atomic bool up;                /* there is a connection */
	bool told_up;                   /* ... when the front last heard of it (front.h) */
	_Atomic uint64_t last_reply_ns; /* when the newest reply came; any thread reads it */
	void *vdata;                    /* the version's */
	struct rr_call ping;            /* see target.c; not IDLE: it waits or is in flight */
	bool timed_out;                 /* the last connection was lost for want of a reply */
	struct nfs_connection conns[NFS_PATHS_MAX][NFS_CONNS_MAX];
	struct rr_path_stats path_stats[NFS_PATHS_MAX];
	struct loop_timer heartbeat;        /* see heartbeat.c */
	_Atomic uint64_t answered_ns[NFS_PATHS_MAX];    /* other lanes read it: when the newest call
					 * was sent that the server has answered there */
};

/* A lane: one thread with its loop, buffers and connections. */
struct nfs_lane {
	struct nfs_client *client;
	unsigned index;
	struct loop *loop;
	struct magazine mag;
	struct nfs_target target;       /* the server that is mounted */
	struct list targets;            /* that one and any others */
	struct stats stats;
	struct nfs_counted counted[NFS_KINDS];  /* calls by kinds */
	_Atomic uint64_t kept_from_ns;  /* a call that takes so long is kept */
	struct nfs_kept kept;
	void *front;                    /* the file system's (front.h); NULL: not attached */

	unsigned active, window;        /* operations under way, and the most there may be */
	struct list waiting;            /* operations that wait for a place, a slot or a buffer */
	struct list parked;             /* operations that wait for recovery */
	struct list mapping;            /* operations that are done but for the ids of owners */
	struct loop_timer close_rides_timer; /* this lane's CLOSEs wait no longer for a carrier */
	struct list running;            /* all operations between nfs_start() and done() */
	bool hold;                      /* during recovery: start control calls only */
	bool refusing;                  /* done() of a call that was not sent; others start behind it */
	bool slow;                      /* the log says that the server does not respond */
	struct loop_timer tick;
	struct nfs_lane_thread *thread; /* belongs to lane.c */
};

/* What the mounted file system has, besides what all have. */
enum {
	NFS_HAS_XATTRS = 1, NFS_HAS_V4_ACL = 2, NFS_HAS_POSIX_ACL = 4,
	NFS_HAS_NFSACL = 8,             /* these by NFSACL */
	NFS_HAS_UMASK = 16,             /* it applies the umask of who makes something */
	NFS_HAS_DELEGATED_TIMES = 32,   /* who has a delegation says when the file was used (RFC 9754) */
};

/* By which there are extended attributes. */
#define NFS_HAS_ATTRIBUTES (NFS_HAS_XATTRS | NFS_HAS_V4_ACL | NFS_HAS_POSIX_ACL)

struct nfs_client {
	struct nfs_config cfg;
	struct arena arena;
	struct fab_domain domain;       /* where the arena is registered */
	struct meminfo meminfo;
	struct nfs_lane *lanes;
	unsigned nlanes;
	struct nfs_fh root_fh;
	struct rpc_cred own;            /* the daemon's, for calls that no program asks for */
	_Atomic bool hurries;           /* nfs_client_hurry() */
	_Atomic uint64_t said_ns;       /* nfs_kept_say(): when the log had calls of a lane; 0: it never had */
	_Atomic uint32_t rsize, wsize, dtsize;  /* as agreed with the server; a later session may
					 * have less, and requests of that size are under way then */
	uint32_t name_max;
	uint64_t max_file_size;
	_Atomic unsigned has;           /* NFS_HAS_*: what the server has, as far as it has been asked */
	_Atomic bool no_plus;           /* READDIR: the server sends no attributes */
	struct nfs_server server;       /* the server that is mounted */
	struct nfs_control *control;    /* belongs to client.c */
	unsigned answer_ms;             /* how long version->mount() waits for the first answer */
	bool ending;                    /* nfs_client_free() has been called */
	struct nfs_idmap *idmap;        /* NULL: owners that are not numbers are nobody */
};

/*
 * Connects the lanes and mounts the export. Blocks. Lane 0 must get its connection; the
 * other connections may come later. A path that does not connect, or whose server does not
 * answer the mount's calls in time, is left for the next one. Returns 0 with *out, or -errno with
 * eb set. The lanes run on their own threads from then on. After an error *out is NULL, or what
 * could not be freed yet: for nfs_client_free().
 *
 * If no server answers in a first round and there is cfg->second, there is one round by that fabric; paths that
 * come later have the fabric by which the mount was made.
 *
 * Tries again for so many seconds while the error may pass. An attempt begins when the one
 * before is freed, so all attempts together never have more memory than one.
 */
int nfs_client_new(const struct nfs_config *cfg, unsigned seconds, struct nfs_client **out,
		   struct errbuf *eb);
/* Any thread: nfs_client_free() does not wait for calls that are under way. */
void nfs_client_hurry(struct nfs_client *cl);
/* Is that an error of an attempt that may succeed later? */
bool nfs_client_may_pass(int rc);
/* Says that there will be others, because of eb, for so long. */
void nfs_client_tries_again(const struct nfs_config *cfg, unsigned seconds, const struct errbuf *eb);
/* Any thread: timeo_ms, retrans, soft and heartbeat_ms become cfg's, also for what waits already. */
void nfs_client_change(struct nfs_client *cl, const struct nfs_config *cfg);
/*
 * Stops and frees the client after the calls under way have ended. Blocks for about two
 * seconds at most if the server does not answer, or seven if it has locks of version 3. false: a
 * thread is still blocked, in a connection attempt for example, and uses the client. Then either the
 * process ends, or this has to be called again: it waits for half a second more. cl may be NULL.
 */
bool nfs_client_free(struct nfs_client *cl);

/* Lane thread: starts an operation, or queues it. */
void nfs_start_at(struct nfs_target *t, struct nfs_call *c);
/* The same, at the server that is mounted. */
void nfs_start(struct nfs_lane *l, struct nfs_call *c);
/* Lane thread: ends an operation of which nothing has been sent yet; done() runs inside, with
 * that status. false: something has been sent, and the operation goes on. */
bool nfs_take_back(struct nfs_call *c, int status);
/* The same of one that may have been sent, if no connection has it now. The server may have
 * executed it, or do so later. A slot of its session is lost by that. */
bool nfs_abandon(struct nfs_call *c, int status);
/* Lane thread: starts waiting calls as far as there is room. */
void nfs_lane_pump(struct nfs_lane *l);
/* Any thread but a lane's: runs the operation at that target and waits for it. Returns
 * c->res.status; -ETIMEDOUT after timeout_ms (0: no limit) or -ESHUTDOWN when the mount
 * ends. Both abandon the call and set *abandoned: the lane may still use c, and passes
 * it to free() when it ends. So c must be what malloc() returned, and whatever it points
 * to must lie inside that memory or live as long as the client. */
int nfs_call_sync(struct nfs_target *t, struct nfs_call *c, unsigned timeout_ms, bool *abandoned);
/* The same on any lane that has a connection to that server. If that lane loses it, the call moves to
 * another lane. Only for calls that the server may execute twice without harm. */
int nfs_call_any(struct nfs_server *s, struct nfs_call *c, unsigned timeout_ms, bool *abandoned);
/* Any thread but a lane's: runs fn(lane, arg) on every lane's thread and waits for all. */
void nfs_each_lane(struct nfs_client *cl, void (*fn)(struct nfs_lane *l, void *arg), void *arg);
/* Any thread: when the newest reply of that server came; before the first one, when a lane was
 * made. */
uint64_t nfs_server_replied_ns(const struct nfs_server *s);
/* Any thread: does the lane have a connection to the server that is mounted? */
bool nfs_lane_up(const struct nfs_lane *l);

/* Lane, in c->done: when the call was last sent, by the loop's clock; 0: it was not. */
static inline uint64_t nfs_call_sent_ns(const struct nfs_call *c)
{
	return c->eng.rr.sends ? c->eng.rr.posted_ns : 0;
}

/* Any thread: does the version not have this operation, or the server neither? A server may have SEEK,
 * COPY and CLONE for some of its file systems only, and is not asked again all the same: what their
 * callers do without them is right on all. */
static inline bool nfs_lacks(const struct nfs_server *s, enum nfs_op op)
{
	return !s->version->ops[op] || (atomic_load(&s->lacks) >> op & 1);
}

/* Lane thread: is some delegation to be returned now? */
static inline bool nfs_delegations_due(const struct nfs_lane *l)
{
	const struct nfs_server *s = l->target.server;

	return l->client->cfg.delegations && s->version->delegations_due(s);
}

/* Lane thread, if there may be any: one of those, which is the caller's from now on: DELEGRETURN takes it.
 * NULL: another lane was faster. */
static inline struct nfs_delegation *nfs_delegation_take(const struct nfs_lane *l)
{
	return l->target.server->version->delegation_take(l->target.server);
}

/* Any thread: the number of the file's delegation; 0: it has none. If it is the same number at two
 * moments, nobody but this client has changed the file between them, but for the time of access. */
static inline uint64_t nfs_delegated(const struct nfs_server *s, struct nfs_file *f)
{
	return atomic_load(&f->delegation) ? s->version->delegated(s, f) : 0;
}

/* Any thread: this mount is going to change the file itself. true: its delegation is to be returned. */
static inline bool nfs_undelegate(struct nfs_server *s, const struct nfs_file *f)
{
	if (!atomic_load(&f->delegation))
		return false;
	s->version->delegation_drop(s, f);
	return true;
}

/* Any thread: is a delegation to read of that file on its way back? */
static inline bool nfs_delegation_leaves(struct nfs_server *s, const struct nfs_file *f)
{
	return s->client->cfg.delegations && s->version->delegation_leaves && s->version->delegation_leaves(s, f);
}

/* Lane thread: a file is closed. true: its OPEN stays at the server, for the next one. */
static inline bool nfs_open_stays(struct nfs_server *s, const struct nfs_file *f, struct nfs_open *o)
{
	return atomic_load(&f->delegation) && s->version->open_stays(s, o);
}

/* Lane thread: such an OPEN of a file whose delegation has that number, opened by that user with these flags
 * (O_ACCMODE); exec: to execute. NULL: OPEN is to be sent. */
static inline struct nfs_open *nfs_open_again(struct nfs_server *s, const struct nfs_file *f, uint64_t delegation,
					      const struct rpc_cred *cred, int flags, bool exec)
{
	return s->version->open_again(s, f, delegation, cred, flags, exec);
}

/* Lane thread: one of those that stay with what the caller has taken: CLOSE it. NULL: there is none. */
static inline struct nfs_open *nfs_delegation_open(const struct nfs_lane *l, struct nfs_delegation *d,
						   struct rpc_cred *cred)
{
	return l->target.server->version->delegation_open(l->target.server, d, cred);
}

/* Lane thread: LOCK, LOCKT or LOCKU is going to be sent. */
static inline enum nfs_lock_here nfs_lock_here(struct nfs_server *s, struct nfs_call *c)
{
	return s->client->cfg.delegations && s->version->lock_here ? s->version->lock_here(s, c) : NFS_LOCK_SENT;
}

/* Lane thread: an open whose locks the server has to get, before it gets what the caller has taken: CLAIM.
 * NULL: there is none any more. */
static inline struct nfs_open *nfs_delegation_locked(const struct nfs_lane *l, struct nfs_delegation *d,
						     struct rpc_cred *cred)
{
	const struct nfs_version *v = l->target.server->version;

	return v->delegation_locked ? v->delegation_locked(l->target.server, d, cred) : NULL;
}

/* The end of the mount, while the lanes are there: all are to be returned. */
static inline void nfs_undelegate_all(struct nfs_server *s)
{
	if (s->client->cfg.delegations)
		s->version->delegations_drop(s);
}

/* For rsize and wsize: `want`, at most `max`, in whole pages; at least one page. */
static inline uint32_t nfs_clamp_size(uint32_t want, uint32_t max)
{
	uint32_t n = want < max ? want : max;

	return n >= 4096 ? n & ~4095u : 4096;
}
