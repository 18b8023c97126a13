/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file system, without a front end: what is known of the server's files, what is held and read
 * ahead of them, and the operations. Nothing here knows who asks. A front end (src/fuse) makes
 * operations, and hears of their end and of events (struct vfs_front).
 *
 *   front end   op = vfs_op_new(lane), fills it, starts it      op->end(op): the result is op->call.res;
 *                                            |                       ^     vfs_op_free(op)
 *   vfs            waits its turn (start.c), for what is held (behind.h), sends calls, ...
 *                                            |                       |
 *   nfs                               nfs_start(op->call) ---> op->done(op)
 *
 * An operation belongs to a lane: it begins, goes on and ends on that lane's thread. `end` comes
 * exactly once, and the front end frees the operation then. It need not be waited for: when nobody
 * does any more (op->waited is false) the operation goes on, its result is dropped, and a file
 * that it has opened is closed again. start.c says what becomes of changes that nobody waits for.
 *
 * What the front end keeps of an inode, of an open file and of an operation lies behind these in
 * one struct of its own, which begins with ours.
 */
#pragma once

#include "vfs/ahead.h"
#include "vfs/behind.h"
#include "vfs/dirstream.h"
#include "vfs/inode.h"
#include "vfs/locks.h"
#include "vfs/offload.h"
#include "vfs/ownchange.h"
#include "vfs/symlinks.h"
#include "vfs/opencount.h"

/* The most data of a request of a front end, however large rsize and wsize are: so much lies in a
 * MID and a BIG buffer. READs ahead and WRITEs that are gathered may be longer. */
#define VFS_IO_MAX (1u << 20)

struct vfs;
struct vfs_lane;
struct vfs_op;

/*
 * What a front end is told and asked. On any lane's thread; nothing may be waited for. A function
 * whose name ends with "locked" runs with the lock of the inode's shard.
 */
struct vfs_front {
	/* Of its structs. */
	size_t op_size, inode_size;

	/* op is about to be used again. */
	void (*op_ends)(struct vfs_op *op);

	/* An inode begins, or one that was forgotten comes back; attr are its attributes. The front
	 * end's part is all zero. false: no memory. */
	bool (*inode_begins_locked)(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
	/* It has lost its last reference. */
	void (*inode_ends)(struct inode *ino);
	/* A reply of a call that was sent at `since`, or later, had attr. The front end is about to
	 * be told them, with the inode. created: by CREATE. */
	void (*inode_found_locked)(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
				   uint64_t since, bool created);
	/* The same for an entry of a listing. The first one is asked before: may the front end be
	 * told attributes that are as old as `since`? */
	bool (*may_list_locked)(const struct inode *ino, uint64_t since);
	void (*inode_listed_locked)(struct inode *ino, const struct nfs_attr *attr, uint64_t since);

	/* Attributes that were asked for before now may be wrong: something has changed them, or
	 * may have. */
	void (*attr_spoilt)(struct inode *ino);
	/* GETATTR, SETATTR or LINK is about to end. Its attributes are in call.res.attr, and may be
	 * believed for timeo seconds. false: the server is to be asked for them again. */
	bool (*attr_locked)(struct vfs_op *op, double timeo);
	/* An own change has ended with these attributes, and no other one has begun since. */
	void (*changed_locked)(struct inode *ino, const struct nfs_attr *attr);
	/* An own change, of a file's metadata alone: its change attribute before and after that. */
	void (*marked_locked)(struct inode *ino, uint64_t before, uint64_t after);
	/* The server has got bytes up to `end` that are not held any more. */
	void (*written)(struct inode *ino, uint64_t end);
	/* op, a WRITE that it has not asked for, is to follow what it may have to write itself. Now or later
	 * it calls then(op). NULL: it has nothing. */
	void (*writes_past)(struct vfs_op *op, void (*then)(struct vfs_op *op));
	/* op, a WRITE that it has not asked for, has put data.filled bytes at data.start. Now or later it
	 * believes nothing older any more, and calls then(op). NULL: it believes nothing. */
	void (*written_past)(struct vfs_op *op, void (*then)(struct vfs_op *op));
	/* Bytes that a write had been answered for are lost. */
	void (*data_lost)(struct inode *ino);
	/* The file's end, and the end of what the server may have of it. false: nobody knows. */
	bool (*end_known)(struct inode_table *t, struct inode *ino, uint64_t *end, uint64_t *there);

	/* file_begins(). only: nobody else has the file open. */
	void (*file_begins_locked)(struct vfs_op *op, struct file *f, bool only);
	/* The last reference to f is gone: CLOSE follows. silly: and then the removal of a silly
	 * name. The front end gives up what it has of f; f itself is freed by the caller. */
	void (*file_ends)(struct vfs_lane *vl, struct file *f, bool silly);

	/* On vl's thread. vl has a connection again, or has lost its last one, or vl has none and so
	 * has another lane: vfs_other_lane(vl) may have changed. */
	void (*lanes_changed)(struct vfs_lane *vl);
	/* The same: data buffers are back, and no READ waits for one. */
	void (*buffers_freed)(struct vfs_lane *vl);
	/* Four times a second. true: again soon. */
	bool (*tick)(struct vfs_lane *vl, uint64_t now_ns);
};

/* What nfs tells this layer: for nfs_config.front. */
extern const struct nfs_front vfs_nfs_front;

struct vfs_lane {
	struct vfs *vfs;
	struct nfs_lane *lane;
	struct list idle;               /* free vfs_ops */
	unsigned nidle;
	struct list active;             /* vfs_ops between vfs_op_new() and vfs_op_free() */
	unsigned ring_entries;          /* src/ring's: those under way */
	struct list want_buf;           /* READs that wait for a buffer (wait_node) */
	struct list held;               /* behind.h: files that its tick looks after (extents.lane_node) */
	uint64_t answered_ns;           /* when the call was sent, last, whose answer an operation is just getting; 0:
					 * there is none, or it was not sent */
	struct loop_timer tick;
	struct loop_msg room_msg;       /* to this lane: writers wait for room */
	_Atomic bool room_wanted;       /* it is on its way */
	struct list lock_waits;         /* locks_wait.c: who waits for a lock (lock.lane_node) */
	struct loop_msg locks_msg;      /* to this lane: one of them is to try it */
	_Atomic bool locks_told;        /* it is on its way */
	struct loop_msg delegations_msg;        /* to this lane, of its own: some are wanted back */
	bool delegations_told;          /* it is on its way */
	unsigned returning;             /* delegations.c: how many are on their way */
	struct loop_msg offload_msg;    /* offload.c, to this lane: one of its copies has ended */
	_Atomic bool offload_told;      /* it is on its way */
	struct loop_msg lanes_msg;      /* to this lane: another one has or has lost its connection */
	_Atomic bool lanes_told;        /* it is on its way */
};

struct vfs {
	struct nfs_client *cl;
	const struct vfs_front *front;
	const char *place;              /* what messages call it: the mount point */
	uint64_t root_id;               /* of the root's inode */
	bool rdirplus;                  /* listings bring attributes, if the server can */
	struct vfs_lane **lanes;        /* of the front end's lanes */
	unsigned nlanes;
	struct inode_table inodes;
	struct behind_pool behind;
	_Atomic uint64_t end_by_ns;     /* the end of the mount waits no longer for the server; 0: as drain.h says */
	struct vfs_ahead ahead;
	struct vfs_offloads offloads;
	_Atomic bool long_name_said;    /* dirstream.c: a listing has lost a name */
	_Atomic uint64_t lock_owners;   /* how many numbers they have got */
	_Atomic unsigned silly_count;
	uint64_t silly_seed;
};

/* An open file. The front end's open holds a reference, and so does each operation on the file,
 * because an operation that nobody waits for may live longer than the open. */
struct file {
	_Atomic unsigned refs;
	void (*last)(struct vfs_lane *vl, struct file *f);      /* the last reference is gone */
	struct inode *ino;              /* a reference */
	struct nfs_open *open;
	struct rpc_cred cred;           /* of the opening process; READ and WRITE use it */
	struct ahead ahead;
	_Atomic uint64_t errors_seen;   /* of extents.errors, those that this open knows of */
};

/* READ and WRITE. */
struct op_data {
	size_t size, filled;            /* READ: wanted, received; WRITE: all, written */
	uint64_t start;                 /* the offset */
	/* Put back when the operation is freed. A WRITE that is held may have all, others two;
	 * behind the last one they are NULL. */
	struct arena_buf *buf[RR_SEND_IOV];
	unsigned tries;                 /* of the same piece, without progress */
	/* READ: */
	unsigned niov;                  /* of the result */
	unsigned waits;                 /* how often it has waited for a piece */
	uint64_t since_ns;              /* the result is as old as that; 0: as new as can be */
	void *into;                     /* registered memory for it; NULL: a buffer */
	bool cached;                    /* through the page cache: what is held and read ahead counts */
	bool reread;                    /* has been sent again for its end */
	bool lays;                      /* what is held is laid over it, if it was at laid_ns */
	/* WRITE: */
	bool quick;                     /* may be answered before the server has it (behind.h) */
	bool writeback;                 /* of the kernel: no program hears of an error */
	bool late_error;                /* it has failed for what was written before */
	/* op_data_begins() clears what comes before, and held.state. */
	struct held held;               /* WRITE: one that is held */
	uint64_t laid_ns;
	struct iovec iov[AHEAD_PARTS];  /* READ: the result, until the operation is freed */
	struct ahead_piece *piece[AHEAD_PARTS]; /* where it lies, if that was read ahead */
	uint64_t verf;                  /* WRITE: its verifier, which COMMIT's has to equal */
};

/* What removes or replaces names: unlink, rmdir, rename, and CLOSE of a file with a silly name. */
struct op_remove {
	struct silly *silly;            /* malloc'ed; nobody else has it meanwhile */
	struct inode *victim;           /* a reference: the open file that loses its name... */
	struct inode *home;             /* ...in this directory (ino or ino2)... */
	const char *home_name;          /* ...and that name (name or name2) */
	struct inode *pinned;           /* a reference: a file that loses a name plainly */
	struct inode *moved;            /* a reference: what RENAME moves, if that is known */
	struct inode *emptied;          /* a reference: the directory that RENAME replaces */
	unsigned step;
	int saved;
	void (*after)(struct vfs_op *op);       /* silly.c: follows silly_put_back() */
	struct {                        /* silly.c: waiting until a directory is empty */
		const struct inode *dir;        /* or NULL */
		unsigned gone, left;            /* silly_gone, nsilly when the call was sent */
		uint64_t until_ns;
		void (*again)(struct vfs_op *op);
	} wait;
};

/* OPEN, and SETATTR of the size by name. */
struct op_open {
	bool opening;                   /* ino counts as open as long as the operation exists */
	bool named;                     /* `names` is valid */
	uint64_t delegation;            /* OPEN: nfs_delegated(), when it was sent; and... */
	unsigned reads;                 /* ...ino->reads */
	struct names_of names;          /* of ino */
};

/* GETATTR. */
struct op_attr {
	double known;                   /* the result may be believed for so many seconds at most */
	uint64_t delegation;            /* nfs_delegated(), when it was asked for; with that, */
	unsigned reads;                 /* ino->reads */
};

/* LOOKUP. */
struct op_lookup {
	uint64_t delegation;            /* nfs_delegated() of the directory, when it was sent */
};

/* Names of extended attributes. */
struct op_xattrs {
	char *names;                    /* in op->memory: each with its NUL */
	size_t len;
	bool full;                      /* there are more than listxattr(2) can return */
	unsigned replies;
};

/* Access control lists: NFS_ACL_ACCESS, NFS_ACL_DEFAULT. */
struct op_acl {
	struct nfs_acl *lists;          /* in op->memory */
};

/* READDIR. */
struct op_list {
	struct dirstream *stream;       /* a reference */
	int error;                      /* of an entry of the reply */
	unsigned tries;                 /* replies in a row that are no answer */
};

/* COPY and CLONE. */
struct op_copy {
	struct file *from;              /* a reference */
	uint64_t from_offset, offset, len;
	uint64_t done;                  /* that was copied, and is on stable storage at the end */
	uint64_t sure;                  /* of it, what is there already; the rest has... */
	uint64_t verf;                  /* ...this verifier */
	int status;                     /* why it is not all; 0: it may be asked for */
	bool touched;                   /* more may have been changed than `done` says */
	bool plain;                     /* it is not to go on behind a reply any more */
	uint64_t since_ns;
	unsigned tries;
	struct op_offload wait;
};

struct vfs_op {
	struct list node;               /* idle, or active */
	struct list wait_node;          /* in want_buf */
	struct vfs_lane *vl;
	void (*done)(struct vfs_op *op);        /* the call has ended with call.res.status */
	void (*end)(struct vfs_op *op);         /* the operation has, with the same */
	void (*release)(struct vfs_op *op);     /* frees what it has in the union below; or NULL */
	void (*pause_ends)(struct vfs_op *op);  /* it pauses, without a call: ends that, and op; or NULL */
	void *memory;                           /* malloc'ed, and freed with it; or NULL */
	void *asker;                            /* who has asked, if that is not vfs->front (src/ring); or NULL */
	uint64_t start_ns;
	struct inode *ino, *ino2;       /* references, dropped by vfs_op_free() */
	struct file *file;              /* a reference */
	bool waited;                    /* somebody waits for its end */
	bool calling;                   /* `call` is under way */
	bool given_up;                  /* nobody waits any more: start.c */
	bool goes_on;                   /* its calls are not taken back then */
	bool holds;                     /* counted in ino->held and ino2->held */
	bool awaits_return;             /* OPEN: the file's delegation has to go back first; it was... */
	uint8_t return_looks;           /* ...looked for so often */
	bool waits_room;                /* WRITE: for room (behind.h), under behind_pool.mu */
	unsigned changes;               /* how many calls that change something have begun */
	unsigned wait_shift;            /* for vfs_wait_more() */
	uint64_t asked_ns;              /* GETATTR, SETATTR, OPEN: when what was written was on the server */
	uint64_t quiet;                 /* LOOKUP, OPEN, GETATTR of a file with a delegation:
					 * ownchange_changes() when it was sent */
	struct {                        /* what the call changes: its fh, its fh2 */
		struct inode *ino;      /* or NULL */
		uint64_t nr;
	} change[2];
	/* vfs_op_new() clears what comes before. */
	union {
		struct op_data data;
		struct op_remove rm;
		struct op_open open;
		struct op_attr attr;
		struct op_lookup lookup;
		struct op_list list;
		struct op_copy copy;
		struct op_xattrs xattrs;
		struct op_acl acl;
		struct op_lock lock;
		struct symlink_ask link_ask;       /* READLINK */
		struct ahead_piece *fetches;    /* a READ ahead */
	};
	void (*go)(struct vfs_op *op);  /* what vfs_in_turn() was asked to call, or read.c, ask.c */
	struct nfs_call call;
	struct rpc_cred cred;
	struct settle settle;           /* extents.h */
	char name[NFS_NAME_MAX + 1], name2[NFS_NAME_MAX + 1];
};

/* ---- lane.c ---- */

extern _Thread_local struct vfs_lane *vfs_this_lane;

/* Before the lane's thread gets it; vfs->lanes[index] is vl. */
void vfs_lane_init(struct vfs_lane *vl, struct vfs *vfs, unsigned index);
/* On the lane's thread: from now on it has operations, and the front end hears lanes_changed() at
 * once; it has none any more, and those that wait for buffers are freed. */
void vfs_lane_attach(struct vfs_lane *vl);
void vfs_lane_detach(struct vfs_lane *vl);
/* When the lane's thread has ended. Operations that are left are freed, with what is malloc'ed. */
void vfs_lane_fini(struct vfs_lane *vl);
/* A lane that has a connection, if this one has none. NULL: it has one, or nobody has. */
struct vfs_lane *vfs_other_lane(const struct vfs_lane *vl);
/* vfs_other_lane() is there, and the call may be executed twice, and late. Ends it with -ENOTCONN,
 * if it was not sent, or waits for its lane's connection for some seconds. false: it goes on. */
bool vfs_leave_lane(struct nfs_call *c, uint64_t now_ns);

/* ---- vfs.c ---- */

struct vfs_config {
	unsigned acregmin, acregmax, acdirmin, acdirmax;        /* seconds */
	double negative_timeo;          /* for how many seconds a name is believed not to exist */
	unsigned write_behind;          /* percent of the data buffers; 0: WRITEs go through */
	uint64_t readahead;             /* the most bytes read ahead of one reader; 0: none */
	bool solo;                      /* nobody else changes the files */
	const char *place;
	bool rdirplus;
	bool dirnames;                  /* what is looked up under a directory's delegation is kept, for all users */
};

/* vfs is all zero. The front end sets vfs->lanes before there are operations. cfg's and the
 * client's memory outlive vfs. */
void vfs_init(struct vfs *vfs, const struct vfs_config *cfg, const struct vfs_front *front,
	      struct nfs_client *cl);
/* Any thread: the cache times, read-ahead, and whether there is write-behind, become cfg's. What has been told
 * to the front end before is believed as long as it was told. */
void vfs_change(struct vfs *vfs, const struct vfs_config *cfg);
/* Not a lane's thread. Sends what is held, and waits for that as long as the server is there. */
void vfs_drain(struct vfs *vfs);
/* When no lane takes operations any more: the log says how much was given up, and silly names of
 * files that are still open are removed. The client may be freed then. */
void vfs_stop(struct vfs *vfs);
/* When the client has been freed. */
void vfs_fini(struct vfs *vfs);

/* ---- op.c ---- */

/* An operation of this lane, without an inode or credentials. NULL: no memory. */
struct vfs_op *vfs_op_new(struct vfs_lane *vl);
/* One that no front end knows of. Takes a reference to ino, which may be NULL. */
struct vfs_op *vfs_op_quiet(struct vfs_lane *vl, struct inode *ino, const struct rpc_cred *cred);
void vfs_op_free(struct vfs_op *op);
/* Starts op->call as `number`, on op->ino's handle unless call.args.fh is set: after what its
 * effects (nfs/ops.h) want to be on the server before, and in its turn. */
void vfs_start(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op));
/* op ends with the status that call.res.status has, or with this one. */
static inline void vfs_end(struct vfs_op *op)
{
	op->end(op);
}
static inline void vfs_end_with(struct vfs_op *op, int status)
{
	op->call.res.status = status;
	op->end(op);
}
/* Sets the call's timer, which the caller has initialized, to 1 ms, and to twice as long
 * each further time, up to 16 ms. No call may be under way. */
void vfs_wait_more(struct vfs_op *op);
/* A call that changes names has ended with this status: may it have been executed? */
bool vfs_maybe_done(int status);

/* ---- start.c ---- */

/* Calls go(op) when no operation that holds op->ino or op->ino2 is left: at once, or from a
 * timer. No call of op may be under way. Do this before looking at names that op will change. */
void vfs_in_turn(struct vfs_op *op, void (*go)(struct vfs_op *op));
/* Nobody waits for op any more, as soon as the front end has been told so. true: op has ended with
 * -EINTR or as far as it has come, and so may have others of this lane. false: it goes on, and the
 * front end answers who has waited. */
bool vfs_give_up(struct vfs_op *op);
/* Other changes of op->ino and op->ino2 wait until op ends. From now on it waits for nobody: its
 * call is to be started now. */
void vfs_hold(struct vfs_op *op);
/* The last call of op that changes anything has ended: nobody waits for it from now on, also if it is given up. For
 * one that goes on to wait for the kernel, which may wait for another change of the same file. */
void vfs_change_over(struct vfs_op *op);

/* ---- the operations ----
 * The front end sets ino (a reference), cred, waited and end, and what is said here. */

/* Before the members of op->data are used. */
void op_data_begins(struct vfs_op *op);
/* Where the data of the next WRITE goes: buffers that are there stay. false: one could not be had. */
bool op_data_buffers(struct vfs_lane *vl, struct arena_buf **mid, struct arena_buf **big);
/* The data.size bytes of a WRITE lie in these, the first ones in *mid. Takes those that it needs. */
void op_data_take(struct vfs_op *op, struct arena_buf **mid, struct arena_buf **big);
/* The same, for data that is copied into them. */
void op_data_copy(struct vfs_op *op, struct arena_buf **mid, struct arena_buf **big, const char *data);
/* read.c: file (a reference), data.start, size, cached; or into, with a size of rsize at most. The result
 * is in data.iov. */
void vfs_read(struct vfs_op *op);
/* write.c: file (a reference), call.args.io with the data, which is in data.buf; data.size, quick,
 * writeback. data.size is not 0. data.filled says how much was written, also if it fails. */
void vfs_write(struct vfs_op *op);
/* space.c: file (a reference), call.args.seek. call.res.seek.offset is the next data or hole; -ENXIO as
 * lseek(2)'s. whole: all of the file is data, whatever the server says. */
void vfs_seek(struct vfs_op *op, bool whole);
/* ALLOCATE or DEALLOCATE: file (a reference), call.args.space. */
void vfs_space(struct vfs_op *op, enum nfs_op number);
/* copy.c: file (a reference) of ino gets `len` bytes of `from`, a file of ino2, whose reference becomes
 * op's. copy.done says how many at the end; call.res.status is 0 if that is not 0. -EOPNOTSUPP, -EXDEV:
 * they have to be read and written. */
void vfs_copy(struct vfs_op *op, struct file *from, uint64_t from_offset, uint64_t offset, uint64_t len);
/* ino is the directory, and `name` in it. */
void vfs_lookup(struct vfs_op *op);
void vfs_unlink(struct vfs_op *op);
void vfs_rmdir(struct vfs_op *op);
/* ...and name2 in ino2. */
void vfs_rename(struct vfs_op *op);
/* ino gets `name` in ino2. */
void vfs_link(struct vfs_op *op);
/* create.c: call.args.name, sattr, file.flags. If the name exists it is opened, whatever it is, unless
 * flags have O_EXCL; with O_TRUNC a regular file is truncated, after all that was written to it. */
void vfs_create(struct vfs_op *op);
/* file.c: OPEN as soon as no call that removes a name of the file is under way (opencount.h), by the
 * file's names if `named`. -NFS_EMOVED: they are not its names any more. */
void vfs_open(struct vfs_op *op, bool named);
/* SETATTR: call.args.sattr, and call.open if it is by an open file. named: as above, for the size. */
void vfs_setattr(struct vfs_op *op, bool named);
/* ask.c: call.res.attr are the attributes after all that was written: the server's, or what is known
 * of them (ownchange.h). */
void vfs_getattr(struct vfs_op *op);
/* The same, and call.res.btime: the server is asked. Not of version 3. */
void vfs_birth(struct vfs_op *op);
/* One of these two has ended with -NFS_EMOVED: once more, by the newest name alone, if it was sent
 * with several, or by the handle. Returns which. */
bool vfs_by_fewer_names(struct vfs_op *op);
/* The path of an inode of this mount, its end at least. */
void vfs_path(struct vfs *vfs, struct inode *ino, char *out, size_t cap);
/* dirstream.c: the entries after the cookie; list.stream, which the front end has taken for op. */
void vfs_list(struct vfs_op *op, uint64_t cookie);
/* acl.c: makes op->acl. false: no memory. */
bool vfs_acl_begins(struct vfs_op *op);
/* The list of that kind is in op->acl; of NFS_ACL_V4, in call.res.xattr. */
void vfs_getacl(struct vfs_op *op, enum nfs_acl_kind kind);
/* It becomes the one in op->acl, or call.args.acl.value and len. */
void vfs_setacl(struct vfs_op *op, enum nfs_acl_kind kind);
/* xattr.c: the names of ino's extended attributes are in op->xattrs. */
void vfs_listxattr(struct vfs_op *op);

/* ---- file.c ---- */

/* f is an open of op->ino that op->call has brought, or of another inode. refs is set last: from then
 * on others may find f. */
void file_begins(struct file *f, struct vfs_op *op, struct inode *ino);
/* One more reference. false: f is about to be freed. */
bool file_ref_live(struct file *f);
static inline void file_ref(struct file *f)
{
	atomic_fetch_add(&f->refs, 1);
}
/* Drops a reference. The last one sends CLOSE, and then REMOVE for a silly name, and frees f. */
static inline void file_put(struct vfs_lane *vl, struct file *f)
{
	if (atomic_fetch_sub(&f->refs, 1) == 1)
		f->last(vl, f);
}
/* CLOSEs an open that nobody got. */
void file_undo(struct vfs_lane *vl, struct inode *ino, struct nfs_open *open,
	       const struct rpc_cred *cred);
