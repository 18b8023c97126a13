/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/fuse share; FUSE's handlers are in handlers.h.
 *
 * The life of a request: the lane's provider (dev.h) receives it. libfuse parses it and calls the
 * handler on the lane's thread. The handler takes a struct fs_req, fills its operation, and starts
 * that (vfs.h). The operation's end answers FUSE and releases everything with fs_req_free(). Each
 * path gives exactly one answer: r->req is NULL once it is given.
 *
 * r->req is also NULL when the kernel does not wait any more (given up, or unmounted).
 * Then the operation goes on, its result is dropped, and a file that it has opened is
 * closed again. vfs/start.c says what becomes of a request that is given up.
 */
#pragma once

#include <linux/fuse.h>
#include <semaphore.h>
#include "fuse/believed.h"
#include "fuse/dev.h"
#include "fuse/dropper.h"
#include "fuse/fs.h"
#include "fuse/handlers.h"
#include "fuse/oplog.h"
#include "fuse/opstat.h"
#include "fuse/sentback.h"
#include "fuse/solo.h"
#include "fuse/readback.h"
#include "vfs/vfs.h"

#define FS_CRED_CACHE 64u               /* power of two */

struct fs_cred_slot {
	pid_t pid;
	uid_t uid;                      /* here; cred has the server's */
	gid_t gid;
	uint64_t until_ns;
	struct rpc_cred cred;
};

/* The bytes before a WRITE's data, and the size of the memory in which all other requests
 * are parsed. A longer request gets memory of its own. */
#define FS_HEAD_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define FS_HEAD_ROOM  8192u

struct fs_lane {
	struct vfs_lane vl;
	struct fs *fs;
	struct fs_dev *dev;             /* brings requests and takes answers */
	uint64_t gone_ns;               /* since when no lane has one; 0: one has */
	uint64_t init;                  /* `unique` of a FUSE_INIT without its answer, or 0 */
	bool statx;                     /* the request that is being handed on is FUSE_STATX */
	uint32_t init_flags;            /* what libfuse does not say in that */
	struct loop_msg look;           /* to this lane: a request may lie there unseen */
	_Atomic bool looking;           /* it is on its way */
	struct loop_msg signal_msg;     /* to this lane: a request of it that waits is interrupted */
	_Atomic bool signalled;         /* it is on its way */
	struct fs_cred_slot creds[FS_CRED_CACHE];
	struct statvfs statfs;          /* last known; f_bsize 0: none yet */
	struct stat root;               /* last known attributes of the root directory */
	struct opstat ops;
	_Atomic uint64_t odd_requests;  /* by opcodes: what fs_lane_request() does not hand on at once */
	_Atomic unsigned odd_answers;   /* ODD_*: why an answer is looked at */
	_Atomic(struct oplog *) log;    /* NULL: nobody has listened yet */
};

/* writeback.c: */
struct write_back {
	_Atomic bool ends;              /* a signal ends the mount... */
	_Atomic uint64_t writes;        /* ...and so many WRITEs of the kernel's pages have come since */
	_Atomic pid_t syncs;            /* the process that calls syncfs(); 0: none yet */
	_Atomic bool synced;            /* RELEASEDIR of what it had opened has come */
};

struct fs {
	struct vfs vfs;
	struct fs_config cfg;
	struct fuse_session *se;
	struct fs_lane *lanes;
	struct handles files, dirs;     /* fi->fh of open files, of directory streams */
	struct inode *root;
	uint64_t fsid_major, fsid_minor;        /* the root's, on the server */
	sem_t ended;                    /* posted: unmounted, or asked to stop */
	sem_t inited;                   /* posted: FUSE_INIT has come */
	struct write_back write_back;
	struct dropper dropper;
	struct rings *rings;            /* NULL: there are none */
	bool xattrs;                    /* the server has some, and the kernel does not ask at each write */
	bool tells_umask;               /* the kernel leaves it to the server */
	bool writes_past;               /* the kernel drops the pages that a write goes past */
	_Atomic uint64_t silent_ns;       /* when silent_answer() last answered for the server */
	struct sent_back back;
	_Atomic uint64_t solo_said_ns;  /* when the log last spoke of files that others have changed */
	_Atomic unsigned solo_unsaid;   /* how many it has not spoken of */
};

/*
 * The kernel truncates a file to the size that it believes when a direct write failed that would have made it
 * longer, because it may have made it so in part: in the same thread, before write() returns. But others may have
 * made the file longer meanwhile, or the kernel's size is old, and their data would be cut off. So that truncation
 * is refused: the next one by this thread and open file, whatever the size is.
 *
 * A write() comes in requests of 1 MiB, most of them together, and any of them may fail, before the others are
 * answered or even read. What the write() is, is known when the truncation comes. No other direct write() that
 * makes the file longer is beside it: the kernel has the inode locked, until the truncation is answered.
 *
 * Requests of one open file come to any lane and end on any: mu. A request that waits for a connection stays under
 * way; one that is given up has failed, and is still under way until the server has answered.
 */
struct roll_back {
	pthread_mutex_t mu;
	unsigned under_way;             /* direct WRITEs */
	pid_t pid;                      /* the thread that has sent the newest one, as FUSE tells it */
	uint64_t size;                  /* what the kernel believed when the first one came */
	uint64_t begin, end;            /* where all of them are */
	uint64_t ns;                    /* when the last one was answered */
	bool failed;                    /* one has */
	pid_t failed_pid;
};

/* An open file of the kernel. */
struct fs_file {
	struct file f;
	uint64_t handle;                /* fi->fh; in fs->files until FUSE's release */
	struct open_end end;            /* where it may append */
	bool past;                      /* writes go past the kernel's pages: open.c */
	bool set_id;                    /* it had set-id bits at the open */
	bool writes;                    /* it may be written through */
	bool dirties;                   /* the kernel may have pages that it has dirtied */
	bool appends;                   /* O_APPEND, and... */
	int access;                     /* ...O_ACCMODE of its open */
	_Atomic bool ringed;            /* there was a token for it (ioctl.c) */
	_Atomic bool drops;             /* the kernel drops its pages at the open, and has not shown
					 * yet that it has (believed_open_locked()) */
	struct roll_back back;
};

/* VFS_IO_MAX for that rsize or wsize. */
static inline uint32_t fs_request_most(uint32_t size)
{
	return size < VFS_IO_MAX ? size : VFS_IO_MAX;
}

/* How often the server is asked again because attributes were too old: those who open and lock a file all
 * the time do not keep others from it for good. */
#define FS_LATE_MOST 100u

/* When a request is given up for a signal of the process that waits for it. */
enum fs_gives_up {
	FS_GIVES_UP_KILLED,             /* the signal ends the process, and the kernel says that there is one */
	FS_GIVES_UP_UNTOLD,             /* the same, but the kernel does not say so: of asynchronous direct I/O, for
					 * which a program that calls read() waits as well; and of close(), when
					 * the process has ended. Not even SIGKILL lets it go before the answer */
	FS_GIVES_UP_SIGNALLED,          /* any signal, at once */
};

struct fs_req {
	struct vfs_op op;
	/* NULL unless it says more (front_op_ends()): */
	fuse_req_t req;                 /* NULL: answered, or nobody waits */
	bool (*late)(struct fs_req *r); /* silent.c: answers without the server */
	char *text;                     /* malloc'ed: a symlink's target, an extended attribute's value */
	char *spare;                    /* the memory of a parked WRITE (dev_clone.c)... */
	size_t spare_size;              /* ...and its size */
	/* Cleared by fs_req_new(): */
	enum came_back back;            /* OPEN, SETATTR: how far it is let through (sentback.h) */
	bool named;                     /* SETATTR: of the size, by name */
	bool reads;                     /* GETATTR: a read() waits for it */
	bool statx;                     /* GETATTR: it came as FUSE_STATX, and is answered as that */
	enum fs_gives_up gives_up;
	uint8_t late_attrs;             /* how often the answer's attributes were too old (believed_is_late()) */
	double timeo;                   /* GETATTR, SETATTR, LINK: how long the kernel may believe it */
	uint64_t node_id;               /* fs_req_by_fh(): which node... */
	/* Not cleared: */
	struct nfs_fh node_fh;          /* ...and its filehandle */
	struct fuse_file_info fi;       /* READ, WRITE, OPEN, CREATE */
	struct fs_file *opened;         /* OPEN: the kernel's, if it gets the answer */
	void (*forgotten)(struct fs_req *r);    /* forget.c: what comes then... */
	uint64_t forget_until_ns;               /* ...at the latest */
	bool forgets_pages;                     /* the kernel is to forget them, too */
	struct {                                /* dropper.h */
		struct list node;
		struct loop_msg msg;
		enum believed_forget how;
		void (*dropped)(struct fs_req *r);
	} drop;
	void (*past_then)(struct vfs_op *op);   /* past.c */
	mode_t type;                    /* make.c: what is to be made (S_IFMT) */
	uint32_t mask;                  /* ACCESS */
	bool moved;                     /* data.c: an append goes where the kernel does not expect it */
	enum nfs_acl_kind acl;          /* xattr.c: which list */
	size_t room;                    /* the same: the kernel's; 0: it asks how much it needs */
	struct {                        /* readdir.c: what the kernel asks for */
		uint64_t off;
		size_t size;
		bool plus;
	} dir;
};

static inline struct fs_req *fs_req_of(struct vfs_op *op)
{
	return container_of(op, struct fs_req, op);
}
static inline struct fs_lane *fs_lane_of(struct vfs_lane *vl)
{
	return container_of(vl, struct fs_lane, vl);
}
static inline struct fs_lane *fs_this_lane(void)
{
	return fs_lane_of(vfs_this_lane);
}
static inline struct fs *fs_of_vfs(const struct vfs *vfs)
{
	return container_of(vfs, struct fs, vfs);
}
static inline struct fs *fs_of_req(const struct fs_req *r)
{
	return fs_of_vfs(r->op.vl->vfs);
}
static inline struct fs_file *fs_file_of(struct file *f)
{
	return container_of(f, struct fs_file, f);
}
static inline struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- ending.c ---- */

/* Has the kernel ended the connection, because it was unmounted or aborted? Then whatever is
 * mounted there now is not ours. */
bool fs_is_gone(const struct fs *fs);
/* Is the end of the mount to wait for nobody? */
bool fs_is_aborted(const struct fs *fs);
/* Why the process that keeps the privileges has failed. */
const char *fs_why(int rc);
/* The mount itself, and the session's own device. Lanes have theirs. */
void fs_take_away(struct fs *fs, enum fs_unmount how);

/* ---- session.c ---- */

/* Makes fs->se with our handlers, not mounted yet. 0 or -errno. */
int fs_session_new(struct fs *fs, struct errbuf *eb);

/* ---- front.c ---- */

extern const struct vfs_front fs_front;

/* ---- fs_lane.c ---- */

/* Before the lane's thread gets it. The caller sets `dev`. */
void fs_lane_init(struct fs *fs, unsigned index);
/* On the lane's thread, both. */
void fs_lane_attach(struct nfs_lane *l, void *fs);
void fs_lane_detach(struct nfs_lane *l, void *fs);
/* When the lane's thread has ended. */
void fs_lane_fini(struct fs_lane *fl);
/* For the provider: a whole request has come; calls its handler. */
void fs_lane_request(struct fs_lane *fl, const struct fuse_buf *buf);
/* Any thread: does somebody listen to what the lane does (oplog.h)? */
void fs_lane_listened(struct fs_lane *fl, bool yes);
/* libfuse's writev: sends the answer to the calling lane's device; outside lanes, to fd. */
ssize_t fs_lane_writev(int fd, struct iovec *iov, int count, void *userdata);
/* r's process is killed: answers EINTR, or as far as the request has come. true: r has
 * ended, and so may have others of this lane. */
bool fs_give_up(struct fs_req *r);
/* vfs_front. */
void fs_lane_step_aside(struct vfs_lane *vl);
void fs_lane_buffers_freed(struct vfs_lane *vl);
bool fs_lane_tick(struct vfs_lane *vl, uint64_t now_ns);
/* Lets all other lanes look for requests: fl may have been woken for one, and does not read. */
void fs_lanes_look(struct fs_lane *fl);

/* ---- dev_clone.c ---- */

/* Makes a provider for fd, which is a clone already and belongs to the provider from now
 * on. 0 or -ENOMEM. */
int fs_dev_clone_new(struct fs_lane *fl, int fd, struct fs_dev **out);

/* ---- writeback.c ---- */

/*
 * Before the mount is taken away by a signal; not a lane's thread. Has the kernel send the pages
 * that mappings have dirtied (with solo: what is in its write-back cache). The log says what may
 * be lost.
 */
void fs_write_back(struct fs *fs);
/* Waits for what the process that has fd sent: fs_config.write_back. 0, or -errno if not
 * everything could be sent: -ETIMEDOUT: the server is not there; -ESRCH: the other process;
 * -ECONNABORTED: the kernel sends nothing any more. */
int fs_write_back_wait(struct fs *fs, int fd);
/* A WRITE of the kernel's pages has come. */
static inline void fs_write_back_count(struct fs *fs)
{
	if (atomic_load_explicit(&fs->write_back.ends, memory_order_relaxed))
		atomic_fetch_add(&fs->write_back.writes, 1);
}
/* A directory is opened by that process: is it the one that calls syncfs()? No other process has
 * that pid while it has the directory open. 0 is any process of another pid namespace. */
static inline bool fs_write_back_is_by(struct fs *fs, pid_t pid)
{
	return pid && pid == atomic_load(&fs->write_back.syncs);
}

/* ---- req.c ---- */

/* A request object for that node, with the caller's credentials. NULL: there is no
 * such node (ESTALE), or no memory; the request has been answered. */
struct fs_req *fs_req_new(fuse_req_t req, fuse_ino_t node);
/* The same for a node that the kernel may have forgotten: r has no inode, but its filehandle. */
struct fs_req *fs_req_by_fh(fuse_req_t req, fuse_ino_t node);
/* The same for an inode that the caller has; takes a reference. */
struct fs_req *fs_req_on(fuse_req_t req, struct inode *ino);
/* The same for an open file, with the credentials of the process that opened it. NULL
 * also if fi does not belong to an open file (EBADF). */
struct fs_req *fs_req_file(fuse_req_t req, const struct fuse_file_info *fi);
/* The open file of fi, with one more reference. NULL: fi belongs to no open file. */
struct fs_file *fs_file_get(struct fs *fs, const struct fuse_file_info *fi);
/* Sets r->op.ino2 to that node. false: there is none; r has been answered and freed. */
bool fs_req_ino2(struct fs_req *r, fuse_ino_t node);
static inline void fs_req_free(struct fs_req *r)
{
	vfs_op_free(&r->op);
}
/* Copies a name; replies ENAMETOOLONG, frees r and returns false if it does not fit. */
bool fs_req_name(struct fs_req *r, char *to, const char *name);
/* r's answer has been given, and r goes on. */
static inline void fs_replied(struct fs_req *r)
{
	r->req = NULL;
	r->op.waited = false;
}
/* Answers with err (positive or negative errno, or 0), if anybody waits. */
void fs_reply_err(struct fs_req *r, int err);
/* The same, and frees r. */
void fs_end_err(struct fs_req *r, int err);
/* An operation's end: answers with call.res.status, if anybody waits, and frees it. */
void fs_end_status(struct vfs_op *op);
/* The same for a call that creates a name. EIO does not say whether it did, and the kernel
 * may have been told just before that the name does not exist. So that answer waits until
 * the kernel does not believe it any more. */
void fs_end_name(struct fs_req *r);
/* The node id by which the kernel knows ino. */
fuse_ino_t fs_node(const struct fs *fs, const struct inode *ino);
/* Fills in e's node for ino. One of ino's references becomes the kernel's; if the reply
 * does not get there, the caller takes it back with believed_forget(). */
void fs_entry_node(const struct fs *fs, struct fuse_entry_param *e, struct inode *ino);
void fs_spare_free(struct fs_req *r);

/* ---- cred.c ---- */

/* The uid, gid and groups of the process that has made the request, which was read at `now`. */
void fs_cred(struct fs_lane *fl, fuse_req_t req, uint64_t now, struct rpc_cred *out);
/* Is a signal pending for this thread that ends its process? FS_EXITS: it has ended, and the kernel closes its
 * files. FS_UNSEEN: it is in another pid namespace (0), /proc hides it, or no file can be opened. A thread that
 * waits for a request is never gone. */
enum fs_fate { FS_LIVES, FS_DIES, FS_EXITS, FS_UNSEEN };
enum fs_fate fs_fate(pid_t pid);

/* ---- silent.c ---- */

/* r, which is about to ask the server, can be answered without it by `late`, which returns true if
 * it has done so. */
void silent_begins(struct fs_req *r, bool (*late)(struct fs_req *r));
/* r has been waiting for long. Answers it without the server, if that is possible. */
void silent_answer(struct fs_req *r);

/* ---- attr.c ---- */

void fs_stat(const struct fs *fs, struct stat *st, const struct nfs_attr *a);
/* The same for an inode whose attributes are about to go to the kernel: with the mtime of
 * believed.h. */
void fs_stat_of(const struct fs *fs, const struct inode *ino, struct stat *st,
		const struct nfs_attr *a);
void fs_sattr(struct nfs_sattr *out, const struct stat *st, int to_set);
/* The kernel is about to get an answer to r with attributes of ino. */
static inline void fs_tells(struct fs_req *r, struct inode *ino)
{
	pid_t tid = fuse_req_ctx(r->req)->pid;

	readback_asked(ino, tid);
	believed_tells(ino, tid, r->op.start_ns, r->op.call.op == NFS_OP_SETATTR);
}
/* For how many seconds the kernel may believe that a name of dir exists, and that a name
 * does not exist. */
double fs_entry_timeo(struct fs *fs, struct inode *dir);
double fs_negative_timeo(const struct fs_config *cfg);
/* Finds or makes the inode of the handle and attributes in the call's results, and fills in the
 * entry for it. name: in r's inode; NULL: it has none. The reference becomes the kernel's if the
 * reply gets there. NULL: no memory. */
struct inode *fs_entry(struct fs_req *r, const char *name, struct fuse_entry_param *e);

/* ---- forget.c ---- */

/* Tells the kernel to forget the attributes of r's inode. Only while the kernel waits for r:
 * otherwise it may be dropping the inode, and wait for an answer from this very thread. */
void fs_forget_attr(struct fs_req *r);
/* The same for OPEN and LOCK: forgotten(r) answers then, perhaps some milliseconds later. pages: also
 * the pages that the kernel may have. Until then other opens find no difference, but this: it is counted
 * in believed.differing, by the caller, before the attributes are noted. */
void fs_forget_then(struct fs_req *r, bool pages, void (*forgotten)(struct fs_req *r));

/* ---- past.c ---- */

/* vfs_front. */
void fs_writes_past(struct vfs_op *op, void (*then)(struct vfs_op *op));
void fs_written_past(struct vfs_op *op, void (*then)(struct vfs_op *op));

/* ---- statfs.c ---- */

/* Remembers s as the last known answer. */
void fs_statfs_keep(struct fs_lane *fl, const struct nfs_statfs *s);

/* ---- open.c ---- */

/* An open or a truncation by name has ended. true: it was another file's name, and r is answered
 * with ESTALE, so that the kernel looks the name up; or it is sent again with fewer names. */
bool fs_moved(struct fs_req *r);
/* Is an open by name of r's inode to be sent with the names of the file? Where the kernel keeps no
 * names, it has just looked. */
bool fs_opens_named(const struct fs *fs);
/* Makes the file of an OPEN or CREATE that succeeded, and sets r->fi. NULL: no memory. */
struct fs_file *fs_file_new(struct fs_req *r, struct inode *ino);
/* vfs_front. */
void fs_file_begins_locked(struct vfs_op *op, struct file *file, bool only);

/* ---- space.c ---- */

/* The server changes a range of r's file, and no WRITE has the data. */
void fs_range_begins(struct fs_req *r);
/* That has ended, and r is about to be answered. done: the kernel hears that a range has changed, and
 * that the file ends at `end` or later. unsaid: what the kernel hears is not all that may have changed,
 * so its pages and attributes may be old. */
void fs_range_ends(struct fs_req *r, uint64_t end, bool done, bool unsaid);

/* ---- locks.c ---- */

/* fs_lane.signal_msg. */
void fs_locks_on_signal(struct loop_msg *m);

/* ---- data.c ---- */

/* A request of thread `pid` sets the size: is it the truncation that struct roll_back is about? */
bool fs_is_roll_back(struct fs_file *f, pid_t pid);
/* r is about to be answered with an error: if it is a direct write, such a truncation may follow. */
void fs_write_fails(struct fs_req *r);
