/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A call: what is asked for, what comes of it, and what the engine keeps of it meanwhile. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/list.h"
#include "base/loop.h"
#include "nfs/acl.h"
#include "nfs/file.h"
#include "nfs/idmap.h"
#include "nfs/ops.h"
#include "rpc/rpcmsg.h"
#include "rpcrdma/conn.h"

#define NFS_NAME_MAX 255u
#define NFS_PATH_MAX 4096u
#define NFS_IO_MAX   (4u << 20)
#define NFS_INSIDE_MAX 32768u   /* file data in one message, for flavors that forbid chunks */
#define NFS_XATTR_MAX 65536u    /* of an extended attribute's value, and of a file's list of names */
#define NFS_WHERE_MAX 4u        /* names of one file that a call looks at */
#define NFS_CALL_VERSION 112u   /* bytes of a call that belong to its version */
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
	/* Of what is made: the server applies umask to mode, unless the directory has a default list. */
	NFS_SET_UMASK = 256,
	/* What writing sets as well. */
	NFS_SET_DATA = NFS_SET_SIZE | NFS_SET_ATIME | NFS_SET_ATIME_NOW | NFS_SET_MTIME | NFS_SET_MTIME_NOW,
};
struct nfs_sattr {
	unsigned valid;
	mode_t mode, umask;     /* permission bits */
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
 * the object exists anyway, so that the caller need not know the version. */
struct nfs_open;

/* A copy that goes on behind COPY's reply. Only the version knows what it means. */
struct nfs_copy_id {
	unsigned char bytes[16];
};

/* How such a copy has ended. */
struct nfs_copy_end {
	int status;             /* 0 or -errno */
	uint64_t count;         /* without an error: bytes from the start of what was asked for... */
	bool stable;            /* ...which are on stable storage, or have... */
	uint64_t verf;          /* ...this verifier, as WRITE's */
};

struct nfs_counted;
struct nfs_lane;
struct nfs_client;
struct nfs_target;

/* What becomes of a call for a lock (nfs_lock_here()). */
enum nfs_lock_here {
	NFS_LOCK_SENT,          /* it is to be sent */
	NFS_LOCK_HERE,          /* it has its results */
	NFS_LOCK_LATER,         /* neither now; the file's delegation is to be returned */
};

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
			int flags;              /* open(2)'s O_ACCMODE. CREATE: and O_EXCL, or O_TRUNC:
						 * -EEXIST if the name exists. Without O_EXCL an
						 * earlier sending may have made it */
			bool widened;           /* O_RDWR, and O_WRONLY would do. When it is opened again,
						 * in recovery, and may not be read any more, it does */
			bool exec;              /* OPEN: to execute; only the kernel reads it */
			uint64_t verifier;      /* of an exclusive CREATE: 0 at the start, and then the
						 * same in all sendings, and when it is started anew */
			/* The file with that handle (file.h), with a reference that the open has
			 * from then on. NULL: no memory. Version 3 does not ask. */
			struct nfs_file *(*get)(struct nfs_call *c, const struct nfs_fh *fh);
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
		struct {
			uint64_t offset;
			bool hole;              /* SEEK: the next hole; else the next data */
		} seek;
		struct {
			struct nfs_open *from;  /* the source's open */
			uint64_t from_offset, offset, count;
			bool commit;            /* COPY: COMMIT follows */
			bool may_go_on;         /* COPY: behind the reply, if CB_OFFLOAD can come; the
						 * first sending asks for that */
			struct nfs_copy_id id;
		} copy;
		struct nfs_space_args {
			uint64_t offset, length;
			bool refill;            /* DEALLOCATE: ALLOCATE follows, which may make the file
						 * longer */
		} space;
		struct nfs_dir_args {
			uint64_t cookie;        /* 0: from the start */
			uint64_t verf;          /* from the previous reply; 0 at the start */
			uint32_t count;         /* bytes of reply wanted (maxcount) */
			bool plus;              /* with attributes and filehandles */
			/* Called for each entry while the reply is decoded; false ends
			 * the decoding. */
			bool (*entry)(struct nfs_call *c, const struct nfs_dirent *e);
		} dir;
		/* LOCK, LOCKT, LOCKU. Calls for one owner and open come one after the other. */
		struct nfs_lock_args {
			uint64_t owner;         /* of the lock; not 0; only this mount's, and never
						 * another one's again */
			uint64_t offset, length;        /* UINT64_MAX: to the end, wherever that is */
			bool write;             /* for one owner alone */
			bool waits;             /* LOCK: it is going to be asked for again */
			bool all;               /* LOCKU: of everything, and the owner ends with it */
		} lock;
		struct nfs_xattr_args {
			const void *value;      /* SETXATTR */
			uint32_t len;           /* its bytes; LISTXATTRS: bytes of reply wanted */
			int flags;              /* SETXATTR: 0, XATTR_CREATE or XATTR_REPLACE */
			uint64_t cookie;        /* LISTXATTRS: 0: from the start */
			/* LISTXATTRS: called for each name while the reply is decoded. It is not
			 * terminated, and has no NUL in it. */
			void (*entry)(struct nfs_call *c, const char *name, uint32_t len);
		} xattr;
		struct nfs_acl_args {
			unsigned kinds;         /* 1 << enum nfs_acl_kind: which to get, or to set */
			const void *value;      /* SETACL of NFS_ACL_V4: its XDR */
			uint32_t len;
			/* Of the others: one for each kind. GETACL fills them in. */
			struct nfs_acl *lists;
		} acl;
		struct nfs_delegation *delegation;      /* CLAIM, DELEGRETURN: from nfs_delegation_take() */
		void *version;                  /* the version's own operations */
	};
};

/* The results. */
struct nfs_results {
	int status;                             /* 0 or -errno */
	struct nfs_attr attr;                   /* valid if has_attr */
	bool has_attr;
	struct timespec btime;                  /* BIRTH: when it was made; valid if has_btime */
	bool has_btime;
	struct nfs_fh fh;                       /* of the object that was found or made */
	bool found;                             /* MKDIR, SYMLINK, MKNOD: by a LOOKUP of the name,
						 * which may be another object's by then */
	/* Attributes of the directories args.fh and args.fh2 (RENAME, LINK) after the
	 * change, if the server sent them along. */
	struct nfs_attr dir_attr[2];
	bool has_dir_attr[2];
	bool dir_no_owner;                      /* they are without uid and gid */
	/* Their change attributes right before the change and right after it: nobody else has
	 * changed them in between. SETXATTR, REMOVEXATTR: the file's. */
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
		/* OPEN. The caller clears these, because most calls do not: */
		struct nfs_open_results {
			uint64_t delegation;    /* the number of the one that it has brought; 0: none */
			bool named;             /* where[0] was the file's name when it had one */
		} open;
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
		struct nfs_lock_results {
			bool held;              /* LOCK, LOCKU: the owner has any lock of the file */
			bool had;               /* LOCK: it had one in that range before */
			uint64_t under;         /* LOCK: the delegation by which it was granted without the
						 * server; the caller clears it */
			/* LOCK, LOCKT with -EAGAIN: what is in the way, as the server says */
			bool write;
			uint64_t offset, length;
			uint64_t holder;        /* its owner; 0: it is not this mount's */
		} lock;
		struct {
			uint64_t offset;        /* SEEK: at or behind the one that was asked for */
		} seek;
		struct {
			uint64_t count;
			bool stable;            /* on stable storage... */
			uint64_t verf;          /* as WRITE's */
			bool committed;         /* ...with all that has the same verifier */
			bool twice;             /* as COMMIT's, of the one that came with COPY */
			bool running;           /* the server goes on: OFFLOAD_STATUS says how far it is */
			bool told;              /* ...and CB_OFFLOAD when it has ended */
			struct nfs_copy_id id;
		} copy;
		struct nfs_xattr_results {
			const void *value;      /* GETXATTR, GETACL: it lies in the reply */
			uint32_t len;
			uint64_t cookie;        /* LISTXATTRS */
			bool eof;
		} xattr;
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
	uint64_t encoded_ns;            /* this sending; its repetitions have the same message */
	struct nfs_counted *counted;    /* where this step is counted (counted.h)... */
	uint64_t counted_ns;            /* ...and since when */
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
