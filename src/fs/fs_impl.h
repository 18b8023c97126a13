/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/fs share; FUSE's handlers are in handlers.h.
 *
 * The life of a request: the lane's provider (dev.h) receives it. libfuse parses it and
 * calls the handler on the lane's thread. The handler takes a struct fs_req, fills the
 * nfs_call in it, and starts the call. `done` answers FUSE and releases everything with
 * fs_req_free(). Each path gives exactly one answer: r->req is NULL once it is given.
 *
 * r->req is also NULL when the kernel does not wait any more (given up, or unmounted).
 * Then the operation goes on, its result is dropped, and a file that it has opened is
 * closed again. given_up.c says what becomes of a request that is given up.
 */
#ifndef FS_IMPL_H
#define FS_IMPL_H

#include <linux/fuse.h>
#include <semaphore.h>
#include "fs/ahead.h"
#include "fs/behind.h"
#include "fs/dev.h"
#include "fs/fs.h"
#include "fs/handlers.h"
#include "fs/inode.h"
#include "fs/known.h"
#include "fs/links.h"
#include "fs/opens.h"
#include "fs/solo.h"
#include "fs/young.h"

#define FS_CRED_CACHE 64u               /* power of two */

struct fs_cred_slot {
	pid_t pid;
	uint64_t until_ns;
	struct rpc_cred cred;
};

/* The bytes before a WRITE's data, and the size of the memory in which all other requests
 * are parsed. A longer request gets memory of its own. */
#define FS_HEAD_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define FS_HEAD_ROOM  8192u

struct fs_lane {
	struct fs *fs;
	struct nfs_lane *lane;
	struct fs_dev *dev;             /* brings requests and takes answers */
	_Atomic bool up;                /* had a connection at the last look */
	uint64_t gone_ns;               /* since when no lane has one; 0: one has */
	uint64_t init;                  /* `unique` of a FUSE_INIT without its answer, or 0 */
	struct list idle;               /* free fs_reqs */
	struct list active;             /* fs_reqs between handler and fs_req_free() */
	struct list want_buf;           /* READs that wait for a buffer (buf_node) */
	struct list held;               /* behind.h: files that its tick looks after (behind.lane_node) */
	struct loop_msg room_msg;       /* to this lane: writers wait for room */
	_Atomic bool room_wanted;       /* it is on its way */
	struct loop_msg look;           /* to this lane: a request may lie there unseen */
	_Atomic bool looking;           /* it is on its way */
	struct list woken;              /* READs that have waited for a piece (buf_node) */
	bool waking;                    /* these are being looked at */
	struct loop_timer scan;         /* looks for old and interrupted requests */
	struct fs_cred_slot creds[FS_CRED_CACHE];
	struct statvfs statfs;          /* last known; f_bsize 0: none yet */
	struct stat root;               /* last known attributes of the root directory */
};

struct fs {
	struct fs_config cfg;
	struct nfs_client *cl;
	struct fuse_session *se;
	struct fs_lane *lanes;
	unsigned nlanes;
	struct inode_table inodes;
	struct handles files, dirs;     /* fi->fh of open files, of directory streams */
	struct fs_ahead ahead;
	struct inode *root;
	struct behind_pool behind;
	uint64_t fsid_major, fsid_minor;        /* the root's, on the server */
	sem_t ended;                    /* posted: unmounted, or asked to stop */
	sem_t inited;                   /* posted: FUSE_INIT has come */
	_Atomic pid_t syncs;            /* the process that calls syncfs() at the end; 0: none yet */
	_Atomic bool synced;            /* RELEASEDIR of what it had opened has come */
	_Atomic bool ends;              /* a signal ends the mount... */
	_Atomic uint64_t page_writes;   /* ...and so many WRITEs of the kernel's pages have come since */
	bool writes_past;               /* the kernel drops the pages that a write goes past */
	_Atomic uint64_t late_ns;       /* when fs_late() last answered for the server */
	_Atomic bool long_name_said;    /* dir.c: a listing has lost a name */
	_Atomic unsigned silly_count;
	_Atomic uint64_t solo_said_ns;  /* when the log last spoke of files that others have changed */
	_Atomic unsigned solo_unsaid;   /* how many it has not spoken of */
	uint64_t silly_seed;
};

/* An open file. FUSE's open holds a reference, and so does each request on the file,
 * because an interrupted request may live longer than the open. */
struct file {
	_Atomic unsigned refs;
	uint64_t handle;                /* fi->fh; in fs->files until FUSE's release */
	struct inode *ino;              /* a reference */
	struct nfs_open *open;
	struct rpc_cred cred;           /* of the opening process; READ and WRITE use it */
	struct open_end end;            /* where it may append: told.h */
	bool past;                      /* writes go past the kernel's pages: open.c */
	bool set_id;                    /* it had set-id bits at the open */
	bool dirties;                   /* the kernel may have pages that it has dirtied */
	_Atomic bool drops;             /* the kernel drops its pages at the open, and has not shown
					 * yet that it has (opens.h) */
	struct ahead ahead;
	_Atomic uint64_t refused;       /* 1 + where a direct append was refused; 0: nowhere */
	_Atomic uint64_t errors_seen;   /* of behind.errors, those that this open knows of */
};

/* Has the kernel ended the connection, because it was unmounted or aborted? Then whatever is mounted
 * there now is not ours (session.c). */
bool fs_is_gone(const struct fs *fs);
/* The path of an inode of this mount, its end at least (dir.c). */
void fs_path(struct fs *fs, struct inode *ino, char *out, size_t cap);

/* FS_REQUEST_MAX for that rsize or wsize. */
static inline uint32_t fs_request_most(uint32_t size)
{
	return size < FS_REQUEST_MAX ? size : FS_REQUEST_MAX;
}

struct fs_req {
	struct list node;               /* idle, or active */
	struct list buf_node;           /* in want_buf, woken, a piece's waiters; or parked */
	struct fs_lane *fl;
	fuse_req_t req;                 /* NULL: answered, or nobody waits */
	void (*done)(struct fs_req *r); /* the call has ended with r->call.res.status */
	uint64_t start_ns;
	struct inode *ino, *ino2;       /* references, dropped by fs_req_free() */
	struct file *file;              /* a reference */
	/* Put back by fs_req_free(). A WRITE that is held may have all, others two; behind the last
	 * one they are NULL. */
	struct arena_buf *buf[RR_SEND_IOV];
	char *text;                     /* malloc'ed: a symlink's target */
	char *spare;                    /* the memory of a parked WRITE (fs_spare_free()) */
	struct silly *silly;            /* malloc'ed; nobody else has it meanwhile */
	struct inode *victim;           /* a reference: the open file that loses its name... */
	struct inode *home;             /* ...in this directory (ino or ino2)... */
	const char *home_name;          /* ...and that name (name or name2) */
	struct inode *pinned;           /* a reference: a file that loses a name plainly */
	struct inode *moved;            /* a reference: what RENAME moves, if that is known */
	struct inode *emptied;          /* a reference: the directory that RENAME replaces */
	enum came_back back;            /* OPEN, SETATTR: how far it is let through (opens.h) */
	bool named;                     /* the same: `names` is valid */
	bool opening;                   /* ino counts as open as long as r exists */
	bool (*late)(struct fs_req *r); /* late.c: answers without the server; or NULL */
	void (*after)(struct fs_req *r);        /* silly.c: follows fs_put_back() */
	/* given_up.c: */
	bool calling;                   /* `call` is under way */
	bool given_up;                  /* its process is killed, and has its answer */
	bool holds;                     /* counted in ino->held and ino2->held */
	bool reread;                    /* READ: has been sent again for its end */
	bool lays;                      /* READ: what is held is laid over it, if it was at laid_ns */
	unsigned changes;               /* how many calls that change something have begun */
	unsigned wait_shift;            /* for fs_wait_more() */
	unsigned tries;                 /* of the same piece, without progress */
	unsigned step;
	int saved;
	uint64_t asked_ns;              /* GETATTR, SETATTR, OPEN: when what was written was on the
					 * server */
	size_t size, filled;            /* READ: wanted, received; WRITE: all, written */
	void *extra;                    /* dir.c: the stream */
	uint64_t quiet;                 /* LOOKUP, OPEN: known_changes() when it was sent */
	uint64_t node_id;               /* fs_req_by_fh(): which node... */
	/* take() does not clear these, but for what says whether the rest counts: */
	size_t spare_size;
	struct {                        /* silly.c: waiting until a directory is empty */
		const struct inode *dir;        /* or NULL */
		unsigned gone, left;            /* silly_gone, nsilly when the call was sent */
		uint64_t until_ns;
		void (*again)(struct fs_req *r);
	} wait;
	struct {                        /* ahead.c: */
		struct ahead_piece *piece;      /* r waits for it; under fs_ahead.mu */
		unsigned times;                 /* how often it has waited */
		struct loop_msg msg;            /* to r's lane: look again */
	} ahead;
	struct {                        /* what the call changes: its fh, its fh2 */
		struct inode *ino;      /* or NULL */
		uint64_t nr;
	} change[2];
	void (*go)(struct fs_req *r);   /* what fs_in_turn() was asked to call */
	mode_t type;                    /* make.c: what is to be made (S_IFMT) */
	uint64_t start;                 /* READ: the offset */
	uint64_t laid_ns;
	uint64_t verf;                  /* WRITE's verifier, which COMMIT's has to equal */
	struct held held;               /* behind.h: a WRITE that has its answer */
	struct link_ask link_ask;       /* READLINK */
	struct fuse_file_info fi;       /* READ, WRITE, OPEN, CREATE */
	struct nfs_call call;
	struct rpc_cred cred;
	struct settle settle;           /* behind.h: waits for such WRITEs */
	char name[NFS_NAME_MAX + 1], name2[NFS_NAME_MAX + 1];
	struct names_of names;          /* OPEN, SETATTR: of ino */
	struct nfs_fh node_fh;          /* ...and its filehandle */
};

/* ---- session.c ---- */

/* Makes fs->se with our handlers, not mounted yet. 0 or -errno. */
int fs_session_new(struct fs *fs, struct errbuf *eb);

/* ---- fs_lane.c ---- */

extern _Thread_local struct fs_lane *fs_this_lane;

/* Before the lane's thread gets it. The caller sets `dev`. */
void fs_lane_init(struct fs *fs, unsigned index);
/* On the lane's thread, both. */
void fs_lane_attach(struct nfs_lane *l, void *fs);
void fs_lane_detach(struct nfs_lane *l, void *fs);
/* When the lane's thread has ended. */
void fs_lane_fini(struct fs_lane *fl);
/* For the provider: a whole request has come; calls its handler. */
void fs_lane_request(struct fs_lane *fl, const struct fuse_buf *buf);
/* libfuse's writev: sends the answer to the calling lane's device; outside lanes, to fd. */
ssize_t fs_lane_writev(int fd, struct iovec *iov, int count, void *userdata);
/* Before and after the answer to r: may it wait for the end of the loop's round (dev.h)? Only
 * if nothing depends on what libfuse's reply returns. */
void fs_unhurried(struct fs_req *r, bool may_wait, struct arena_buf **lend);
/* Lets all other lanes look for requests: fl may have been woken for one, and does not read. */
void fs_lanes_look(struct fs_lane *fl);
/* A lane that has a connection, if this one has none. NULL: it has one, or nobody has. */
struct fs_lane *fs_other_lane(const struct fs_lane *fl);
/* fs_other_lane() is there, and the call may be executed twice, and late. Ends it with -ENOTCONN, if
 * it was not sent, or waits for its lane's connection for some seconds. false: it goes on. */
bool fs_leave_lane(struct nfs_call *c, uint64_t now_ns);
/* Frees r->spare, if there is one. */
void fs_spare_free(struct fs_req *r);

/* ---- dev_clone.c ---- */

/* Makes a provider for fd, which is a clone already and belongs to the provider from now
 * on. 0 or -ENOMEM. */
int fs_dev_clone_new(struct fs_lane *fl, int fd, struct fs_dev **out);

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
/* Sets r->ino2 to that node. false: there is none; r has been answered and freed. */
bool fs_req_ino2(struct fs_req *r, fuse_ino_t node);
/* A request object for work that no FUSE request waits for. ino may be NULL. NULL: no
 * memory. */
struct fs_req *fs_req_new_quiet(struct fs_lane *fl, struct inode *ino,
				const struct rpc_cred *cred);
void fs_req_free(struct fs_req *r);
/* Starts r->call as `op`, on r->ino's handle unless r->call.args.fh is set. */
void fs_req_start(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r));
/* Copies a name; replies ENAMETOOLONG, frees r and returns false if it does not fit. */
bool fs_req_name(struct fs_req *r, char *to, const char *name);
/* Answers with err (positive or negative errno, or 0), if anybody waits. */
void fs_reply_err(struct fs_req *r, int err);
/* Answers with r->call.res.status, and frees r. */
void fs_done_status(struct fs_req *r);
/* The same for a call that creates a name. EIO does not say whether it did, and the kernel
 * may have been told just before that the name does not exist. So that answer waits until
 * the kernel does not believe it any more. */
void fs_done_name(struct fs_req *r);
/* Sets the call's timer, which the caller has initialized, to 1 ms, and to twice as long
 * each further time, up to 16 ms. No call may be under way. */
void fs_wait_more(struct fs_req *r);
/* The node id by which the kernel knows ino. */
fuse_ino_t fs_node(const struct fs *fs, const struct inode *ino);
/* Fills in e's node for ino. One of ino's references becomes the kernel's; if the reply
 * does not get there, the caller takes it back with inode_forget(). */
void fs_entry_node(const struct fs *fs, struct fuse_entry_param *e, struct inode *ino);
/* This mount has changed dir's entries, or tried to: see dir.c. */
static inline void fs_dir_changed(struct inode *dir)
{
	atomic_store(&dir->entries_ns, mono_ns());
}
static inline struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- cred.c ---- */

/* The uid, gid and groups of the process that made the request. */
void fs_cred(struct fs_lane *fl, fuse_req_t req, struct rpc_cred *out);
/* Is a signal pending for this thread that ends its process? FS_UNSEEN: it is in another pid
 * name space (0), /proc hides it, or no file can be opened. A thread that waits for a request
 * is never gone. */
enum fs_fate { FS_LIVES, FS_DIES, FS_UNSEEN };
enum fs_fate fs_fate(pid_t pid);

/* ---- given_up.c ---- */

/* Calls go(r) when no request that was given up holds r->ino or r->ino2: at once, or from a
 * timer. No call of r may be under way. Do this before looking at names that r will change. */
void fs_in_turn(struct fs_req *r, void (*go)(struct fs_req *r));
/* r's process is killed: answers EINTR, or as far as the request has come. true: r has
 * ended, and so may have others of this lane. */
bool fs_give_up(struct fs_req *r);
/* Other changes of r->ino and r->ino2 wait until r ends. From now on r waits for nobody: its call
 * is to be started now. */
void fs_hold(struct fs_req *r);
/* r ends. */
void fs_hold_ends(struct fs_req *r);

/* ---- change.c: see known.h ---- */

/* Does this call change a file or a directory? */
bool fs_is_change(const struct nfs_call *c);

/* Before r->call is sent; after it has ended. */
void fs_changes_begin(struct fs_req *r);
void fs_changes_end(struct fs_req *r);
/* r->call has shown that the name does not exist. nr: see known_gone(). */
void fs_name_gone(struct fs_req *r, struct inode *dir, uint64_t nr, const char *name);

/* ---- late.c ---- */

/* Like fs_req_start(), for a request that `late` can answer without the server. `late`
 * returns true if it has answered. */
void fs_start_patiently(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r),
			bool (*late)(struct fs_req *r));
/* r has been waiting for long. Answers it without the server, if that is possible. */
void fs_late(struct fs_req *r);

/* ---- attr.c ---- */

void fs_stat(const struct fs *fs, struct stat *st, const struct nfs_attr *a);
/* The same for an inode whose attributes are about to go to the kernel: with the mtime of
 * told.h. */
void fs_stat_of(const struct fs *fs, const struct inode *ino, struct stat *st,
		const struct nfs_attr *a);
void fs_sattr(struct nfs_sattr *out, const struct stat *st, int to_set);
/* Tells the kernel to forget the attributes of r->ino. Only while the kernel waits for r:
 * otherwise it may be dropping the inode, and wait for an answer from this very thread. */
void fs_forget_attr(struct fs_req *r);
/* For how many seconds the kernel may believe that a name of dir exists, and that a name
 * does not exist. */
double fs_entry_timeo(struct fs *fs, struct inode *dir);
double fs_negative_timeo(struct fs *fs);
/* Finds or makes the inode of the handle and attributes in r->call.res, and fills in the
 * entry for it. name: in r->ino; NULL: it has none. The reference becomes the kernel's if the
 * reply gets there. NULL: no memory. */
struct inode *fs_entry(struct fs_req *r, const char *name, struct fuse_entry_param *e);

/* ---- statfs.c ---- */

/* Remembers s as the last known answer. */
void fs_statfs_keep(struct fs_lane *fl, const struct nfs_statfs *s);

/* ---- silly.c ---- */

/* Is it a silly name of this mount, whatever became of it? */
bool fs_silly_is_ours(const struct fs *fs, const char *name);
/* Makes a silly name in dir. No file has the name yet. NULL: no memory. */
struct silly *fs_silly_new(struct fs_req *r, struct inode *dir);
/* r->victim has the name r->silly now. The name is removed at the last close, or at once if
 * the file is closed already. old_gone: the file has lost its old name (r->home_name). */
void fs_silly_keep(struct fs_req *r, bool old_gone);
/* r->victim has, or may have, the name r->silly and does not need it: REMOVE. */
void fs_silly_drop(struct fs_req *r);
/* Frees r->silly. The server has no such name, or the name is to stay there. */
void fs_silly_forget(struct fs_req *r);
/*
 * r is going to remove a name of `ino` (a reference, which becomes r's; or NULL). If the
 * file is closed, or has a silly name already, r pins it: the name is removed plainly, and
 * no open of the file begins until fs_unpin(). Otherwise the file becomes r->victim and
 * must get another name first.
 */
void fs_pin(struct fs_req *r, struct inode *ino);
/* Call it before the answer, so that the next open need not wait. */
void fs_unpin(struct fs_req *r);
/* LINKs r->victim as r->silly. */
void fs_silly_link(struct fs_req *r, void (*done)(struct fs_req *r));
/* Removes the silly name of a file that nobody has open any more, and frees s. */
void fs_remove_silly(struct fs_lane *fl, struct silly *s);
/* The lane's clock. */
void fs_silly_tick(struct fs_lane *fl, uint64_t now_ns);
/* A call that changes names has ended with this status: may it have been executed? */
bool fs_maybe_done(int status);
/*
 * RENAME r->home_name -> r->silly may have happened, and that call or the next one has
 * failed with r->call.res.status. Gives r->victim its name back. `after` runs with that
 * status and without r->silly; or with status 0 and r->silly, if r->moved has the name.
 */
void fs_put_back(struct fs_req *r, void (*after)(struct fs_req *r));
/* Call it before sending a call that needs `dir` empty. NULL: the directory is not known. */
void fs_silly_note(struct fs_req *r, const struct inode *dir);
/* Call it when that call has ended. true: it has failed, and the directory had silly names
 * that may be gone soon. `again` is called when one is; otherwise r is answered with the
 * status that it has. */
bool fs_silly_wait(struct fs_req *r, void (*again)(struct fs_req *r));

/* ---- remove.c ---- */

/*
 * Whose name is (dir, name)? false: *ino's (a reference), or nobody's here (NULL). true: that
 * is not known, and LOOKUP of it is r's next call. If that has succeeded, done() gets the
 * same answer from fs_name_found().
 */
bool fs_name_asked(struct fs_req *r, struct inode *dir, const char *name, struct inode **ino,
		   void (*done)(struct fs_req *r));
struct inode *fs_name_found(struct fs_req *r, struct inode *dir, const char *name);
/* Starts RENAME as r's next call. moved: the file that is called `name`, or NULL. */
void fs_start_rename(struct fs_req *r, struct inode *from, const char *name, struct inode *to,
		     const char *newname, const struct inode *moved,
		     void (*done)(struct fs_req *r));

/* ---- open.c ---- */

/* r ends. If it counts as an open of its file, it does so no longer. */
void fs_opening_ends(struct fs_req *r);
/* Sends r->call, OPEN or a SETATTR of the size, so that it reaches r->ino only if the kernel's names
 * for it are still its names. done() asks fs_moved() first. */
void fs_start_named(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r));
/* They were not: r is answered with ESTALE and the kernel looks the name up, or the call is sent again
 * without a name. */
bool fs_moved(struct fs_req *r, void (*done)(struct fs_req *r));
/* Makes the file of an OPEN or CREATE that succeeded, and sets fi. NULL: no memory. */
struct file *fs_file_new(struct fs_req *r, struct inode *ino, struct fuse_file_info *fi);
/* The open file of fi, with one more reference. NULL: fi belongs to no open file. */
struct file *fs_file_get(struct fs *fs, const struct fuse_file_info *fi);
/* Drops a reference. The last one sends CLOSE, and then REMOVE for a silly name. */
void fs_file_put(struct fs_lane *fl, struct file *f);
/* CLOSEs an open that nobody got. */
void fs_open_undo(struct fs_lane *fl, struct inode *ino, struct nfs_open *open,
		  const struct rpc_cred *cred);

/* ---- data.c ---- */

/* Sends a READ for r, or lets it wait for a buffer. */
void fs_read_start(struct fs_req *r);
/* The data of r, a WRITE, is in its buffers. */
void fs_write_start(struct fs_req *r);
/* Writes it with FILE_SYNC, and answers then. */
void fs_write_through(struct fs_req *r);
/* r, a WRITE, is about to be answered. If it has gone past the kernel's pages, and there are some,
 * the next attributes make the kernel drop these (told.h). */
void fs_past_the_pages(struct fs_req *r);
/* The kernel truncates a file to the size that it believes when a direct write failed that
 * would have made it longer. Is setting this size such a truncation, after an append that was
 * refused because that size is old? */
bool fs_is_roll_back(struct file *f, uint64_t size);
/* Starts READs that wait for a buffer. false: some still wait. */
bool fs_retry_reads(struct fs_lane *fl);

#endif
