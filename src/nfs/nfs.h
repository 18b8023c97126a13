/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The NFS client without a protocol version: what the file system front end (src/fs) sees.
 *
 * A file operation is one struct nfs_call. The caller fills in the arguments and `done`,
 * and calls nfs_start() on its lane (the thread that owns one event loop and its
 * connections). done() runs on the same thread when the results are there. An operation may
 * take several RPCs. It may be repeated because the server asked for that, and it may wait
 * for a lost connection or for the recovery of lost state. done() comes once, at the end.
 *
 *   fs: fill args -> nfs_start(lane, call)
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
#ifndef NFS_NFS_H
#define NFS_NFS_H

#include <stdbool.h>
#include <stdint.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/arena.h"
#include "base/meminfo.h"
#include "base/stats.h"
#include "nfs/config.h"
#include "nfs/fh.h"
#include "nfs/file.h"
#include "nfs/idmap.h"
#include "nfs/ops.h"
#include "rpc/rpcmsg.h"
#include "rpcrdma/conn.h"

#define NFS_NAME_MAX 255u
#define NFS_PATH_MAX 4096u
#define NFS_IO_MAX   (4u << 20)
#define NFS_INSIDE_MAX 32768u   /* file data in one message, for flavors that forbid chunks */
#define NFS_LANES_MAX 16u
#define NFS_CONNS_MAX 5u         /* of one lane on one path: one, and mdconnect= more */
#define NFS_WHERE_MAX 4u        /* names of one file that a call looks at */
#define NFS_CALL_VERSION 112u    /* bytes of a call that belong to its version */
/* READDIR: the server no longer knows the cookie or its verifier. */
#define NFS_ECOOKIE  EL2NSYNC
/* OPEN, SETATTR: one of the names in `where` is not the file's. Nothing was opened or set. */
#define NFS_EMOVED   ENOTUNIQ

struct nfs_attr {
	mode_t mode;            /* with the file type */
	uint32_t nlink;
	uid_t uid;
	gid_t gid;
	uint64_t size, used;    /* bytes */
	uint32_t rdev_major, rdev_minor;
	uint64_t fsid_major, fsid_minor;
	uint64_t fileid;
	uint64_t change;        /* v4: the change attribute; v3: made of ctime */
	struct timespec atime, mtime, ctime;
};

/* What to set; `valid` says which fields count. */
enum {
	NFS_SET_MODE = 1, NFS_SET_UID = 2, NFS_SET_GID = 4, NFS_SET_SIZE = 8,
	NFS_SET_ATIME = 16, NFS_SET_ATIME_NOW = 32,
	NFS_SET_MTIME = 64, NFS_SET_MTIME_NOW = 128,
};
struct nfs_sattr {
	unsigned valid;
	mode_t mode;            /* permission bits */
	uid_t uid;
	gid_t gid;
	const char *owner, *group;      /* as the server names them; NULL: as numbers */
	uint64_t size;
	struct timespec atime, mtime;
};

struct nfs_statfs {
	uint64_t tbytes, fbytes, abytes;        /* total, free, available to the caller */
	uint64_t tfiles, ffiles, afiles;
	uint32_t name_max;
};

/* One directory entry, as args.dir.entry() gets it. */
struct nfs_dirent {
	uint64_t cookie;
	uint64_t fileid;
	const char *name;       /* not terminated */
	uint32_t namelen;
	const struct nfs_attr *attr;    /* NULL: the server sent none */
	const struct nfs_fh *fh;        /* NULL: the server sent none */
};

/* An open of a file. Each version has its own struct. Version 3 has no open state, but
 * the object exists all the same, so that the caller need not know the version. */
struct nfs_open;

struct nfs_lane;
struct nfs_client;
struct nfs_server;
struct nfs_target;

/* Flags of a call. */
enum {
	NFS_CALL_CONTROL = 1,   /* a control call: recovery of state; passes calls that are held */
	NFS_CALL_ANY_LANE = 2,  /* started by nfs_call_any(): ends with -ENOTCONN when its lane
				 * has no connection and another lane has one */
	NFS_CALL_NOW = 4,       /* CLOSE: does not wait for a call that carries it, and ends when
				 * the server has answered */
};

/* What is asked for. The caller's; must not change before done(). */
struct nfs_args {
	const struct nfs_fh *fh, *fh2;
	const char *name, *name2;               /* NUL-terminated, 1..255 bytes */
	/* OPEN, SETATTR: fh's names, newest first. It is done only if all of them still are: else
	 * -NFS_EMOVED. (Version 3 does not look before opens that only read.) */
	struct nfs_where {
		const struct nfs_fh *dir;
		const char *name;
	} where[NFS_WHERE_MAX];
	unsigned nwhere;
	struct nfs_sattr sattr;
	union {
		struct nfs_io_args {
			uint64_t offset;
			uint32_t count;
			/* READ: pieces of data buffers, all together of at least `count` bytes;
			 * one of length 0 ends them */
			struct rr_iov sink[RR_SINK_IOV];
			struct rr_iov data[RR_SEND_IOV];        /* WRITE */
			uint32_t ndata;
			bool unstable;          /* WRITE: COMMIT follows; else FILE_SYNC */
		} io;
		struct {
			int flags;              /* open(2)'s O_ACCMODE, O_EXCL, O_TRUNC */
			bool exec;              /* OPEN: to execute; only the kernel reads it */
			uint64_t verifier;      /* of an exclusive CREATE: 0 at the start, and then the
						 * same in all sendings, and when it is started anew */
		} file;
		struct {
			const char *target;     /* SYMLINK: NUL-terminated */
			mode_t type;            /* MKNOD: S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK */
			uint32_t major, minor;
		} mk;
		struct {
			const struct nfs_fh *moved;     /* RENAME: handle of `name`, or NULL */
		} ren;
		struct {
			int mask;               /* R_OK | W_OK | X_OK */
		} access;
		struct nfs_dir_args {
			uint64_t cookie;        /* 0: from the start */
			uint64_t verf;          /* from the previous reply; 0 at the start */
			uint32_t count;         /* bytes of reply wanted (maxcount) */
			bool plus;              /* with attributes and filehandles */
			/* Called for each entry while the reply is decoded; false ends
			 * the decoding. */
			bool (*entry)(struct nfs_call *c, const struct nfs_dirent *e);
		} dir;
		void *version;                  /* the version's own operations */
	};
};

/* The results. */
struct nfs_results {
	int status;                             /* 0 or -errno */
	struct nfs_attr attr;                   /* valid if has_attr */
	bool has_attr;
	struct nfs_fh fh;                       /* of the object that was found or made */
	bool found;                             /* MKDIR, SYMLINK, MKNOD: by a LOOKUP of the name,
						 * which may be another object's by then */
	/* Attributes of the directories args.fh and args.fh2 (RENAME, LINK) after the
	 * change, if the server sent them along. */
	struct nfs_attr dir_attr[2];
	bool has_dir_attr[2];
	bool dir_no_owner;                      /* they are without uid and gid */
	/* Their change attributes right before the change and right after it: nobody else has
	 * changed them in between. */
	struct nfs_dir_change {
		bool known;
		uint64_t before, after;
	} dir_change[2];
	union {
		struct nfs_io_results {
			const void *ptr;        /* READ: the bytes, in the sink or in the reply; if
						 * they are sink[0].mem, they go on in sink[1] */
			uint32_t len;           /* READ: bytes returned; WRITE: bytes written */
			bool eof;               /* READ */
			bool stable;            /* WRITE: committed FILE_SYNC */
			uint64_t verf;          /* WRITE, COMMIT: changes at a server restart */
			bool twice;             /* COMMIT: it may have been executed before, and
						 * have failed then */
		} io;
		struct {
			int mask;               /* which bits of args.access.mask are allowed */
		} access;
		struct {
			const char *target;     /* READLINK; not terminated, no NUL in it */
			uint32_t len;
		} link;
		struct nfs_dir_results {
			uint64_t verf;
			bool eof;
			unsigned entries;       /* how many were passed to entry() */
		} dir;
		struct nfs_statfs statfs;
	};
};

/* The engine's part, while the call is under way. */
struct nfs_machinery {
	struct list node;               /* in the lane's list waiting, parked or mapping */
	struct list run_node;           /* in the lane's list of all operations */
	struct loop_timer timer;        /* the server asked us to come back later */
	struct rr_call rr;
	struct rpc_auth_call auth;
	uint8_t step;                   /* which RPC, in an operation of several */
	int undo;                       /* why OPEN failed, while CLOSE undoes the open */
	bool sent;                      /* a message of this operation went out */
	bool resent;                    /* an earlier sending may have had the effect */
	unsigned retries, delays;       /* NFS_LATER and NFS_AGAIN; NFS_DELAYED, in a row */
	unsigned useless;               /* replies that said nothing about the call */
	uint64_t start_ns;
	bool delayed;                   /* waits for its timer, see NFS_DELAYED */
	struct nfs_call *riding_close;         /* CLOSE in the same COMPOUND (close_ride.h), or NULL */
	bool close_ride_closed;              /* decode(): that CLOSE is done */
	bool alone;                     /* after NFS_ALONE: carries nothing any more */
	uint32_t most;                  /* bytes of file data, or of a listing, that this sending may
					 * have: set by acquire(). 0: any number. READ and WRITE then
					 * do less than was asked for, as a server may */
	struct nfs_owner_wait owners;   /* belongs to idmap.c */
};

struct nfs_call {
	enum nfs_op op;
	unsigned flags;
	const struct rpc_cred *cred;            /* NULL: no credential, AUTH_NONE */
	void (*done)(struct nfs_call *c);       /* args are the caller's again, res is valid */
	void *owner;                            /* the caller's own, never looked at */
	struct nfs_open *open;                  /* in and out */
	struct nfs_args args;
	struct nfs_results res;

	struct nfs_target *target;      /* set by nfs_start_at(): where the call was started */
	struct nfs_lane *lane;          /* the target's lane */
	struct nfs_machinery eng;
	/* The version's struct: nfs3_call(), nfs4_call(). All zero when the operation
	 * begins. */
	_Alignas(8) unsigned char version_data[NFS_CALL_VERSION];
};

/* What a version's decode() returns for a reply; 0 or -errno ends the operation. */
enum {
	NFS_NEXT = 1,           /* send the next RPC (decode has advanced step) */
	NFS_LATER = 2,          /* the server is busy: send the same again after a delay */
	NFS_RECOVER = 3,        /* state is lost: send the same again after recovery; a control
				 * call ends with -EAGAIN instead */
	NFS_AGAIN = 4,          /* send the same again at once (decode has mended the state) */
	NFS_DELAYED = 5,        /* send the very same message again after a delay; the call keeps
				 * its slot and counts as in flight */
	NFS_ALONE = 6,          /* CLOSE, which it carried, has failed before it: send it again at
				 * once, and by itself (close_ride.h) */
	NFS_REOPEN = 7,         /* the state of its open is lost: as NFS_RECOVER, but only calls with
				 * that open wait */
};

struct nfs_opdef {
	const char *name;               /* for messages: "READ" */
	/* Writes the arguments behind the RPC header. FALSE when the stream is full. */
	bool_t (*encode)(struct nfs_call *c, XDR *x);
	/* Reads the results behind the RPC header. */
	int (*decode)(struct nfs_call *c, XDR *x);
	/* Upper bound of the results without data that may be placed, and RPC header. If
	 * it depends on the call, results_max_of is set and gives it. */
	uint32_t results_max;
	uint32_t (*results_max_of)(const struct nfs_call *c);
	uint32_t proc;                  /* v3; v4: 1 (COMPOUND) */
	bool placed_text;               /* READLINK: the text may come in a Write chunk */
	/* See close_ride.h. May this CLOSE ride? If so, recovery leaves its open alone from now on.
	 * And may this call carry one in its first step? NULL: never. */
	bool (*rides)(const struct nfs_call *c);
	bool (*carries)(const struct nfs_call *c);
	bool unnames;                   /* takes a name away: starts after all that would ride */
	/* The procedure of this step, where the steps differ; NULL: proc. */
	uint32_t (*proc_of)(const struct nfs_call *c);
};

static inline uint32_t nfs_results_max(const struct nfs_opdef *def, const struct nfs_call *c)
{
	return def->results_max_of ? def->results_max_of(c) : def->results_max;
}

/*
 * A new connection is being checked before calls go there: is the server at its other end the
 * one that is mounted, and may the connection join the session? The check is some calls of the
 * version, one after the other, on that connection. They take no slot, and are sent while state
 * is recovered, too. If the connection is lost, the check ends with it, and leaves nothing.
 */
struct nfs_check {
	unsigned step;          /* which call; 0 at first */
	bool may_move;          /* in: no other connection is there, and this path has led to the
				 * server before: another identity means that the server has
				 * moved */
	bool known;             /* in: this path has led to the server before */
	uint64_t word[4];       /* the version's own, from step to step */
	struct errbuf why;      /* what was wrong */
};

/* The results of such a call are no longer. */
#define NFS_CHECK_RESULTS_MAX 3500u

struct nfs_version {
	const char *name;               /* "3", "4.1", "4.2" */
	uint32_t prog, vers, minor;
	/* NULL: there is nothing to send. The call succeeds at once, and the caller takes
	 * nothing from its results. */
	const struct nfs_opdef *ops[NFS_OP_MAX];
	/* The names of procedures, by which calls are counted. NULL: they are counted by
	 * operations, because all are COMPOUNDs. */
	const char *const *procs;
	unsigned nprocs;

	/* Called by the mounting thread before there is a control thread; may block; one
	 * connection is up. Sets root_fh and the sizes. An error leaves nothing on the
	 * server. */
	int (*mount)(struct nfs_server *s, struct errbuf *eb);
	/* Called by the unmounting thread after the control thread has ended. Gives
	 * server state back. Must not take long. */
	void (*umount)(struct nfs_server *s);
	/* Any thread, when all others are gone: frees the rest of the server's vdata.
	 * May be NULL. */
	void (*free)(struct nfs_server *s);
	/* Lane thread: frees an open that nobody uses any more, closed or not. NULL:
	 * free(). */
	void (*open_free)(struct nfs_server *s, struct nfs_open *o);
	/* Lane thread: gets the call a slot. 1: it has one. 0: it must wait, and the
	 * version calls nfs_lane_pump() when one is free. NFS_REOPEN: it must wait until
	 * recovery is done with its open. -errno: there is none until
	 * state is recovered; a control call ends with that error. NULL: every call may
	 * go. */
	int (*acquire)(struct nfs_target *t, struct nfs_call *c);
	void (*release)(struct nfs_target *t, struct nfs_call *c);
	/* Control thread: after a decode returned NFS_RECOVER or NFS_REOPEN. It lets the lanes
	 * hold (nfs_lanes_hold()) for what concerns all calls. 0; NFS_LATER: the server wants the
	 * rest to be asked for later; or -errno. */
	int (*recover)(struct nfs_server *s);
	/* Control thread, every few seconds: keeps the lease. */
	void (*tick)(struct nfs_server *s);
	/*
	 * Lane thread: a new connection of that target is being checked, when the mount is done.
	 * All NULL: there is nothing to check. Until the check is over the connection does not
	 * count in target->up of any lane, which tells whether others are there.
	 *
	 * encode writes the arguments behind the RPC header of step's call, each time that it is
	 * sent; FALSE when the stream is full. The credential is the daemon's own, or none.
	 *
	 * decode reads the results behind the RPC header. 0: the connection may be used.
	 * NFS_NEXT: the next call (step says which). NFS_LATER: the same again, after a delay.
	 * -EXDEV: another server, why says how that is known. Another -errno: the connection
	 * cannot be used now, why says why.
	 */
	uint32_t (*check_proc)(const struct nfs_check *k);
	bool_t (*check_encode)(struct nfs_target *t, struct nfs_check *k, XDR *x);
	int (*check_decode)(struct nfs_target *t, struct nfs_check *k, XDR *x);
	/* The version's part of each target. May be NULL. */
	int (*target_init)(struct nfs_target *t);
	void (*target_fini)(struct nfs_target *t);
};

extern const struct nfs_version nfs_v3, nfs_v41, nfs_v42;

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
	_Atomic bool checks;            /* new connections are checked: the mount is made */
	_Atomic bool joins;             /* each connection must join the session: the only path's
					 * are checked as well */
	_Atomic enum rr_policy policy;
	struct nfs_target *targets[NFS_LANES_MAX];
	struct nfs_files files;
	struct nfs_close_rides close_rides;
	void *vdata;                    /* the version's: client id, session */
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

/* A lane: one thread with its loop, buffers and connections. src/fs keeps its own part
 * in `fs`. */
struct nfs_lane {
	struct nfs_client *client;
	unsigned index;
	struct loop *loop;
	struct magazine mag;
	struct nfs_target target;       /* the server that is mounted */
	struct list targets;            /* that one and any others */
	struct stats stats;
	void *fs;                       /* belongs to the front end */

	unsigned active, window;        /* operations under way, and the most there may be */
	struct list waiting;            /* operations that wait for a place, a slot or a buffer */
	struct list parked;             /* operations that wait for recovery */
	struct list mapping;            /* operations that are done but for the ids of owners */
	struct loop_timer close_rides_timer; /* this lane's CLOSEs wait no longer for a carrier */
	struct list running;            /* all operations between nfs_start() and done() */
	bool hold;                      /* during recovery: start control calls only */
	bool slow;                      /* the log says that the server does not respond */
	struct loop_timer tick;
	struct nfs_lane_thread *thread; /* belongs to lane.c */
	void (*buffers_freed)(struct nfs_lane *l);      /* fs: try queued requests again */
	void (*connected)(struct nfs_lane *l);          /* fs: a connection has come or gone */
};

struct nfs_client {
	struct nfs_config cfg;
	struct arena arena;
	struct fab_domain domain;       /* where the arena is registered */
	struct meminfo meminfo;
	struct nfs_lane *lanes;
	unsigned nlanes;
	struct nfs_fh root_fh;
	struct rpc_cred own;            /* the daemon's, for calls that no program asks for */
	_Atomic uint32_t rsize, wsize, dtsize;  /* as agreed with the server; a later session may
					 * have less, and requests of that size are under way then */
	uint32_t name_max;
	uint64_t max_file_size;
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
 */
int nfs_client_new(const struct nfs_config *cfg, struct nfs_client **out, struct errbuf *eb);
/*
 * The same, again for so many seconds while the error may pass. An attempt begins when the
 * one before is freed, so all attempts together never have more memory than one.
 */
int nfs_client_retry(const struct nfs_config *cfg, unsigned seconds, struct nfs_client **out,
		     struct errbuf *eb);
/*
 * Stops and frees the client after the calls under way have ended. Blocks for about two
 * seconds at most if the server does not answer. false: a thread is still blocked, in a
 * connection attempt for example, and uses the client. Then either the process ends, or this
 * has to be called again: it waits for half a second more. cl may be NULL.
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
/* Any thread: how many calls of each kind were sent for the first time, as "rpc.KIND". */
void nfs_put_calls(const struct stats_out *out, const struct nfs_client *cl);
/* Any thread: when the newest reply of that server came; before the first one, when a lane was
 * made. */
uint64_t nfs_server_replied_ns(const struct nfs_server *s);
/* Any thread: does the lane have a connection to the server that is mounted? */
bool nfs_lane_up(const struct nfs_lane *l);

/* For rsize and wsize: `want`, at most `max`, in whole pages; at least one page. */
static inline uint32_t nfs_clamp_size(uint32_t want, uint32_t max)
{
	uint32_t n = want < max ? want : max;

	return n >= 4096 ? n & ~4095u : 4096;
}

#endif
