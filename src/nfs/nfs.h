/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The version-neutral NFS client: what the file system front end sees.
 *
 * A file operation is one struct nfs_call: the caller fills the arguments and
 * `done`, calls nfs_start() on its lane, and gets done() on the same thread
 * when the results are there. An operation may take several RPCs, be repeated
 * because the server asked for it, wait for a lost connection or for the
 * recovery of lost state: done() comes once, at the end.
 *
 *   fs: fill args -> nfs_start(lane, call)
 *                        |  wait for a place (window of calls), a buffer, a slot
 *                        v
 *                    version->ops[op].encode -> rr_submit ... -> decode
 *                        ^                                          |
 *                        +--- next step / later / after recovery ---+--> done
 *
 * Ownership: everything that the arguments point to stays the caller's and
 * unchanged until done(). Results that are pointers point into the reply and
 * are valid only until done() returns.
 */
#ifndef NFS_NFS_H
#define NFS_NFS_H

#include <stdbool.h>
#include <stdint.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/arena.h"
#include "base/stats.h"
#include "nfs/fh.h"
#include "nfs/file.h"
#include "nfs/idmap.h"
#include "rpc/rpcmsg.h"
#include "rpcrdma/conn.h"

#define NFS_NAME_MAX 255u
#define NFS_PATH_MAX 4096u
#define NFS_IO_MAX   (1u << 20)
#define NFS_INSIDE_MAX 32768u   /* bytes of file data in a message, without placement */
#define NFS_LANES_MAX 16u
#define NFS_PATHS_MAX 8u
#define NFS_CALL_VERSION 112u    /* bytes of a call that are its version's */
/* READDIR: the server does not know the cookie or its verifier any more. */
#define NFS_ECOOKIE  EL2NSYNC

struct nfs_attr {
	mode_t mode;            /* with the file type */
	uint32_t nlink;
	uid_t uid;
	gid_t gid;
	uint64_t size, used;    /* bytes */
	uint32_t rdev_major, rdev_minor;
	uint64_t fsid_major, fsid_minor;
	uint64_t fileid;
	uint64_t change;        /* v4's change; v3: made of ctime */
	struct timespec atime, mtime, ctime;
};

/* What to set; `valid` says which. */
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
	const char *owner, *group;      /* the ids in the server's words; NULL: as numbers */
	uint64_t size;
	struct timespec atime, mtime;
};

struct nfs_statfs {
	uint64_t tbytes, fbytes, abytes;        /* total, free, available to the caller */
	uint64_t tfiles, ffiles, afiles;
	uint32_t name_max;
};

/* One directory entry as nfs_readdir's callback gets it. */
struct nfs_dirent {
	uint64_t cookie;
	uint64_t fileid;
	const char *name;       /* not terminated */
	uint32_t namelen;
	const struct nfs_attr *attr;    /* NULL: the server sent none */
	const struct nfs_fh *fh;        /* NULL: the server sent none */
};

/* An open of a file; the version's own (v3: no state, but the object exists so that
 * the caller need not know). */
struct nfs_open;

enum nfs_op {
	NFS_OP_NULL,            /* nothing; a ping */
	NFS_OP_GETATTR,         /* fh, open? -> attr */
	NFS_OP_SETATTR,         /* fh, sattr, open? -> attr */
	NFS_OP_LOOKUP,          /* fh, name -> out_fh, attr */
	NFS_OP_LOOKUPP,         /* fh -> out_fh, attr of the parent (v3: lookup "..") */
	NFS_OP_ACCESS,          /* fh, mask R_OK|W_OK|X_OK -> access */
	NFS_OP_READLINK,        /* fh -> link */
	NFS_OP_READ,            /* fh, open, offset, count, sink -> data, datalen, eof */
	NFS_OP_WRITE,           /* fh, open, offset, data -> len, stable, verf */
	NFS_OP_COMMIT,          /* fh, offset, count -> verf */
	NFS_OP_OPEN,            /* fh of the file, flags -> open, attr */
	NFS_OP_CREATE,          /* fh of the directory, name, flags, sattr -> open, out_fh, attr */
	NFS_OP_CLOSE,           /* open, fh; frees open whatever the status */
	NFS_OP_MKDIR,           /* fh, name, sattr -> out_fh, attr */
	NFS_OP_SYMLINK,         /* fh, name, target, sattr -> out_fh, attr */
	NFS_OP_MKNOD,           /* fh, name, sattr, type, rdev -> out_fh, attr */
	NFS_OP_REMOVE,          /* fh, name: not a directory */
	NFS_OP_RMDIR,           /* fh, name */
	NFS_OP_RENAME,          /* fh, name, fh2, name2, ren.moved */
	NFS_OP_LINK,            /* fh: the file, fh2: directory, name -> attr */
	NFS_OP_READDIR,         /* fh, cookie, verf, count, plus, entry() -> eof, verf */
	NFS_OP_STATFS,          /* fh -> statfs */
	NFS_OP_VERSION,         /* first of the version's own (session, state) */
	NFS_OP_MAX = NFS_OP_VERSION + 16,
};

struct nfs_lane;
struct nfs_client;
struct nfs_target;

/* flags of a call */
enum {
	NFS_CALL_CONTROL = 1,   /* state recovery: passes while others are held */
	NFS_CALL_ANY_LANE = 2,  /* nfs_call_any's: ends with -ENOTCONN when its lane has
				 * no connection and another one has */
};

/* What is asked for. The caller's; unchanged until done(). */
struct nfs_args {
	const struct nfs_fh *fh, *fh2;
	const char *name, *name2;               /* NUL-terminated, 1..255 bytes */
	struct nfs_sattr sattr;
	union {
		struct nfs_io_args {
			uint64_t offset;
			uint32_t count;
			struct rr_iov sink;     /* READ: in a data buffer, len >= count */
			struct rr_iov data[RR_SEND_IOV];        /* WRITE */
			uint32_t ndata;
		} io;
		struct {
			int flags;              /* open(2)'s O_ACCMODE, O_EXCL, O_TRUNC */
			bool exec;              /* OPEN: to be run; the kernel reads it, nobody else */
		} file;
		struct {
			const char *target;     /* SYMLINK: NUL-terminated */
			mode_t type;            /* MKNOD: S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK */
			uint32_t major, minor;
		} mk;
		struct {
			const struct nfs_fh *moved;     /* RENAME: of what is called `name`; or NULL */
		} ren;
		struct {
			int mask;               /* R_OK | W_OK | X_OK */
		} access;
		struct nfs_dir_args {
			uint64_t cookie;        /* 0: from the start */
			uint64_t verf;          /* from the previous reply; 0 at the start */
			uint32_t count;         /* bytes of reply wanted (READDIR's maxcount) */
			bool plus;              /* with attributes and filehandles */
			/* Called for each entry while the reply is decoded; false ends it. */
			bool (*entry)(struct nfs_call *c, const struct nfs_dirent *e);
		} dir;
		void *version;                  /* the version's own operations */
	};
};

/* What came of it. */
struct nfs_results {
	int status;                             /* 0 or -errno */
	struct nfs_attr attr;                   /* valid if has_attr */
	bool has_attr;
	struct nfs_fh fh;                       /* of what was found or made */
	/* Of the directories args.fh and args.fh2 (RENAME, LINK) after the change, if the
	 * server said so beside what was asked for. */
	struct nfs_attr dir_attr[2];
	bool has_dir_attr[2];
	union {
		struct nfs_io_results {
			const void *ptr;        /* READ: the bytes: in the sink or in the reply */
			uint32_t len;           /* READ: bytes there; WRITE: bytes written */
			bool eof;               /* READ */
			bool stable;            /* WRITE: committed FILE_SYNC */
			uint64_t verf;          /* WRITE, COMMIT: changes with a restart */
		} io;
		struct {
			int mask;               /* what is allowed of args.access.mask */
		} access;
		struct {
			const char *target;     /* READLINK; not terminated */
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

/* The engine's, while the call is under way. */
struct nfs_machinery {
	struct list node;               /* in the lane's waiting, parked or mapping list */
	struct list run_node;           /* in the lane's list of all operations */
	struct loop_timer timer;        /* the server asked to come back later */
	struct rr_call rr;
	uint8_t step;                   /* which RPC of an operation of several */
	int undo;                       /* why an OPEN failed that is being closed again */
	bool resent;                    /* its outcome may come from an earlier sending */
	unsigned retries;
	uint64_t start_ns;
	bool delayed;                   /* waits for its timer with all that it has, see NFS_DELAYED */
	uint32_t msg_len;               /* of the message as it was encoded */
	struct nfs_owner_wait owners;   /* idmap.c's */
};

struct nfs_call {
	enum nfs_op op;
	unsigned flags;
	const struct rpc_cred *cred;            /* NULL: nobody's, AUTH_NONE */
	void (*done)(struct nfs_call *c);       /* args are the caller's again, res is valid */
	void *owner;                            /* the caller's own; not looked at */
	struct nfs_open *open;                  /* in and out */
	struct nfs_args args;
	struct nfs_results res;

	struct nfs_target *target;      /* set by nfs_start(): where it was started */
	struct nfs_lane *lane;          /* the target's */
	struct nfs_machinery eng;
	/* The version's struct: nfs3_call(), nfs4_call(). Zeroes when the operation begins. */
	_Alignas(8) unsigned char version_data[NFS_CALL_VERSION];
};

/* What a version's decode makes of a reply. 0 or -errno ends the operation. */
enum {
	NFS_NEXT = 1,           /* send again with step + 1 (decode has advanced it) */
	NFS_LATER = 2,          /* the server is busy: the same again after a delay */
	NFS_RECOVER = 3,        /* state lost: the same again after recovery;
				 * a control call ends with -EAGAIN instead */
	NFS_AGAIN = 4,          /* the same again, at once (state has been mended meanwhile) */
	NFS_DELAYED = 5,        /* the very same message again after a delay; its place in the
				 * session stays with it, and it counts as in flight */
};

struct nfs_opdef {
	const char *name;               /* for messages: "READ" */
	/* Arguments after the RPC header. May fail: FALSE when the stream is full. */
	bool_t (*encode)(struct nfs_call *c, XDR *x);
	/* Results after the RPC header. */
	int (*decode)(struct nfs_call *c, XDR *x);
	/* Upper bound of the results, without READ data and RPC header; what
	 * results_max_of says where it depends on the call, and is not NULL. */
	uint32_t results_max;
	uint32_t (*results_max_of)(const struct nfs_call *c);
	uint32_t proc;                  /* v3; v4: 1 (COMPOUND) */
	bool big_msg;                   /* arguments may exceed the inline threshold */
	/* The procedure of this step, where steps differ; NULL: proc. */
	uint32_t (*proc_of)(const struct nfs_call *c);
};

static inline uint32_t nfs_results_max(const struct nfs_opdef *def, const struct nfs_call *c)
{
	return def->results_max_of ? def->results_max_of(c) : def->results_max;
}

struct nfs_version {
	const char *name;               /* "3", "4.1", "4.2" */
	uint32_t prog, vers, minor;
	const struct nfs_opdef *ops[NFS_OP_MAX];

	/* Who mounts, before there is a control thread; blocking; a connection is
	 * up. Sets root_fh, sizes. Upon an error nothing is left on the server. */
	int (*mount)(struct nfs_client *cl, struct errbuf *eb);
	/* Who unmounts, when the control thread has ended: gives server state back;
	 * must not take long. */
	void (*umount)(struct nfs_client *cl);
	/* Any thread: what is left of the server's vdata, when all threads are gone. NULL ok. */
	void (*free)(struct nfs_client *cl);
	/* Lane thread: an open that nobody has any more, closed or not. NULL: free(). */
	void (*open_free)(struct nfs_client *cl, struct nfs_open *o);
	/* Lane thread. A place for the call: 1; 0 when it must wait (the version
	 * calls nfs_lane_pump() when there is one); -errno: there will be none
	 * until state is recovered, and a control call ends so. NULL: always. */
	int (*acquire)(struct nfs_target *t, struct nfs_call *c);
	void (*release)(struct nfs_target *t, struct nfs_call *c);
	/* Control thread: after a decode returned NFS_RECOVER, and lanes hold. */
	int (*recover)(struct nfs_client *cl);
	/* Control thread, every few seconds: keep the lease. */
	void (*tick)(struct nfs_client *cl);
	/* What the version has for each lane and server; NULL ok. */
	int (*target_init)(struct nfs_target *t);
	void (*target_fini)(struct nfs_target *t);
};

extern const struct nfs_version nfs_v3, nfs_v41, nfs_v42;

struct nfs_config {
	const struct nfs_version *version;
	const struct rpc_auth *auth;            /* sec=; NULL: AUTH_SYS */
	struct rr_path paths[NFS_PATHS_MAX];    /* ways to the server */
	unsigned npaths;
	const char *server;             /* as the user wrote it */
	const char *export;
	unsigned lanes;
	unsigned credits;               /* per lane */
	struct arena_counts buffers;    /* per lane */
	uint32_t rsize, wsize;          /* wanted; the server may lower them */
	unsigned timeo_ms;              /* a call without a reply: the connection is dropped */
	unsigned retrans;               /* soft: so many time-outs before EIO */
	bool soft;
	unsigned mountport;             /* v3: 0 = ask rpcbind */
	const struct nfs_idmapper *idmapper;    /* v4: who knows owners' names; NULL: nobody */
};

/*
 * What calls go to. All lanes share the server; each has a target of its own there,
 * with its connections.
 *
 *     struct nfs_server      targets[0]      targets[1]
 *       version, session       |               |
 *                            lane 0          lane 1
 *
 * A call says which target it goes to. So a second server is one more nfs_server, with
 * a target in each lane: the engine, the transport and the connector know no other way.
 */
struct nfs_server {
	struct nfs_client *client;
	const char *name;               /* as the user wrote it */
	const struct nfs_version *version;
	const struct rpc_auth *auth;    /* of calls with a credential */
	const struct rr_path *paths;    /* ways to it */
	unsigned npaths;
	struct nfs_target *targets[NFS_LANES_MAX];
	struct nfs_files files;
	void *vdata;                    /* the version's: client id, session */
};

struct nfs_target {
	struct nfs_server *server;
	struct nfs_lane *lane;
	struct list node;               /* in the lane's */
	struct list all;                /* in the control's */
	struct rr_conn *conn;
	_Atomic bool up;                /* there is a connection */
	void *vdata;                    /* the version's */
	struct nfs_attempt {            /* the connector's, for each path */
		bool wanted;            /* make a connection; under control->mu */
		unsigned failures;      /* in a row */
		uint64_t retry_ns;      /* not before */
	} attempt[NFS_PATHS_MAX];
};

/* A lane: loop, buffers and connections. fs keeps its own part in `fs`. */
struct nfs_lane {
	struct nfs_client *client;
	unsigned index;
	struct loop *loop;
	struct magazine mag;
	struct nfs_target target;       /* the server that is mounted */
	struct list targets;            /* that one, and others */
	struct stats stats;
	void *fs;                       /* the front end's */

	unsigned active, window;        /* operations under way, and the most there may be */
	struct list waiting;            /* operations that wait for a place or buffer */
	struct list parked;             /* operations that wait for recovery */
	struct list mapping;            /* operations that are done but for their owners' ids */
	struct list running;            /* all operations between nfs_start() and done() */
	bool hold;                      /* recovery: start only NFS_CALL_CONTROL */
	bool slow;                      /* said that the server does not respond */
	_Atomic uint64_t last_reply_ns; /* of the lane's newest reply; others read it, too */
	struct loop_timer tick;
	struct nfs_lane_thread *thread; /* lane.c's */
	void (*buffers_freed)(struct nfs_lane *l);      /* fs: try queued requests again */
};

struct nfs_client {
	struct nfs_config cfg;
	struct arena arena;
	struct fab_domain domain;       /* where the arena is registered */
	struct nfs_lane *lanes;
	unsigned nlanes;
	struct nfs_fh root_fh;
	uint32_t rsize, wsize, dtsize;  /* as agreed with the server */
	uint32_t name_max;
	uint64_t max_file_size;
	_Atomic bool no_plus;           /* READDIR: this server has no attributes to give along */
	struct nfs_server server;       /* the one that is mounted */
	struct nfs_control *control;    /* client.c's */
	struct nfs_idmap *idmap;        /* NULL: owners that are no numbers are nobody */
};

/*
 * Connects the lanes (the first must succeed, the others come when they can)
 * and mounts the export. Blocks. 0 with *out, or -errno with eb set. Lanes run
 * on their own threads from then on.
 */
int nfs_client_new(const struct nfs_config *cfg, struct nfs_client **out, struct errbuf *eb);
/* Stops and frees, when what is under way has ended. Blocks for at most about two
 * seconds if the server does not answer. */
void nfs_client_free(struct nfs_client *cl);

/* The lane's thread: starts an operation, or queues it. */
void nfs_start_at(struct nfs_target *t, struct nfs_call *c);
/* The same at the server that is mounted. */
void nfs_start(struct nfs_lane *l, struct nfs_call *c);
/* Lane thread: starts what waits, as far as there is room. */
void nfs_lane_pump(struct nfs_lane *l);
/* Any thread but a lane's: runs the operation on that lane and waits for it;
 * 0/-errno as c->status. -ETIMEDOUT after timeout_ms (0: no limit) and -ESHUTDOWN when
 * the mount ends abandon the call: *abandoned is set, and the lane, which may still be at
 * it, passes c to free() when it ends. So c is the start of what malloc() gave, and what
 * it points to is in there, too, or lives as long as the client. */
int nfs_call_sync(struct nfs_lane *l, struct nfs_call *c, unsigned timeout_ms, bool *abandoned);
/* The same on a lane that has a connection, if there is one; and on another one
 * when that loses it. For what does no harm if the server executes it twice. */
int nfs_call_any(struct nfs_client *cl, struct nfs_call *c, unsigned timeout_ms, bool *abandoned);
/* Any thread: runs fn(lane, arg) on every lane's thread, and waits for all. */
void nfs_each_lane(struct nfs_client *cl, void (*fn)(struct nfs_lane *l, void *arg), void *arg);
/* Any thread: has the lane a connection to the server that is mounted? */
bool nfs_lane_up(const struct nfs_lane *l);

/* rsize or wsize: what was asked for, as far as the server goes along, in whole
 * pages; at least one. */
static inline uint32_t nfs_clamp_size(uint32_t want, uint32_t max)
{
	uint32_t n = want < max ? want : max;

	return n >= 4096 ? n & ~4095u : 4096;
}

#endif
