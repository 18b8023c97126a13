/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/fs share; FUSE's handlers are in handlers.h.
 *
 * A request: the lane reads it from FUSE into its receive buffers, libfuse
 * takes it apart and calls the handler, on the lane's thread. The handler takes
 * a struct fs_req, fills the nfs_call in it, and starts it; `done` answers
 * FUSE and gives everything back with fs_req_free(). Exactly one answer on each
 * path: r->req is NULL once it has been given.
 *
 * r->req is also NULL when the kernel does not wait any more (interrupted, or
 * unmounted): the operation goes on, its result is dropped, and what it made
 * (an open file) is undone.
 */
#ifndef FS_IMPL_H
#define FS_IMPL_H

#include <linux/fuse.h>
#include <semaphore.h>
#include "fs/dev.h"
#include "fs/fs.h"
#include "fs/handlers.h"
#include "fs/inode.h"
#include "fs/known.h"
#include "fs/opens.h"

#define FS_CRED_CACHE 64u               /* power of two */

struct fs_cred_slot {
	pid_t pid;
	uint64_t until_ns;
	struct rpc_cred cred;
};

/* What comes before a WRITE's data, and the memory that all other requests are
 * taken apart in; a longer one gets memory of its own. */
#define FS_HEAD_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define FS_HEAD_ROOM  8192u

struct fs_lane {
	struct fs *fs;
	struct nfs_lane *lane;
	struct fs_dev *dev;             /* from where requests come, and answers go to */
	_Atomic bool up;                /* has a connection, at the last look */
	uint64_t init;                  /* FUSE_INIT, not yet answered: its `unique` */
	struct list idle;               /* fs_reqs */
	struct list active;             /* fs_reqs between handler and fs_req_free() */
	struct list want_buf;           /* READs that wait for a buffer (node) */
	struct loop_timer scan;         /* looks for interrupted requests */
	struct fs_cred_slot creds[FS_CRED_CACHE];
	struct statvfs statfs;          /* last known; f_bsize 0: nothing is */
	struct stat root;               /* the root directory's, last known */
};

struct fs {
	struct fs_config cfg;
	struct nfs_client *cl;
	struct fuse_session *se;
	struct fs_lane *lanes;
	unsigned nlanes;
	struct inode_table inodes;
	struct handles files, dirs;     /* fi->fh of open files, of directory streams */
	struct inode *root;
	uint64_t fsid_major, fsid_minor;        /* the root's, on the server */
	sem_t ended;                    /* unmounted, or asked to stop */
	sem_t inited;                   /* FUSE_INIT was answered */
	_Atomic uint64_t late_ns;       /* when fs_late() last answered for the server */
	_Atomic unsigned silly_count;
	uint64_t silly_seed;
};

/* An open file. FUSE's open holds a reference, and each request on it:
 * one that was interrupted may live longer than the open. */
struct file {
	_Atomic unsigned refs;
	uint64_t handle;                /* fi->fh; in fs->files until FUSE's release */
	struct inode *ino;              /* a reference */
	struct nfs_open *open;
	struct rpc_cred cred;           /* of who opened it: READ and WRITE go by it */
};

struct fs_req {
	struct list node;               /* idle, or active */
	struct list buf_node;           /* in want_buf, or parked */
	struct fs_lane *fl;
	fuse_req_t req;                 /* NULL: answered, or nobody waits */
	void (*done)(struct fs_req *r); /* the call has ended: r->call.status */
	uint64_t start_ns;
	struct rpc_cred cred;
	struct inode *ino, *ino2;       /* references, dropped by fs_req_free() */
	struct file *file;              /* a reference */
	bool opening;                   /* ino counts as open as long as this lives */
	struct arena_buf *buf[2];       /* put back by fs_req_free() */
	char name[NFS_NAME_MAX + 1], name2[NFS_NAME_MAX + 1];
	char *text;                     /* malloc'ed: a symlink's target */
	char *spare;                    /* fs_spare_free(): where a parked WRITE lies ... */
	size_t spare_size;              /* ... and how long that is */
	struct silly *silly;            /* malloc'ed; nobody else's while it is here */
	struct inode *victim;           /* a reference: the open file whose name goes... */
	struct inode *home;             /* ...from there (ino or ino2)... */
	const char *home_name;          /* ...and its name (name or name2) */
	struct inode *pinned;           /* a reference: the closed file whose name goes */
	struct inode *moved;            /* a reference: what RENAME moves, if that is known */
	struct inode *emptied;          /* a reference: the directory that RENAME replaces */
	bool (*late)(struct fs_req *r); /* late.c's: answers without the server; or NULL */
	void (*after)(struct fs_req *r);        /* silly.c's: when it is back */
	struct {                        /* silly.c's: until a directory is empty */
		const struct inode *dir;        /* or NULL */
		unsigned gone, left;            /* when the call was sent */
		uint64_t until_ns;
		void (*again)(struct fs_req *r);
	} wait;
	unsigned wait_shift;            /* fs_wait_more()'s */
	struct fuse_file_info fi;
	size_t size, filled;            /* READ: wanted and there; WRITE: written */
	unsigned tries;                 /* of the same piece, without getting on */
	uint64_t verf;                  /* WRITE's, that COMMIT's has to equal */
	void *extra;                    /* dir.c's stream */
	unsigned step;
	int saved;
	uint64_t quiet;                 /* LOOKUP: of known_changes(), when it was sent */
	struct {                        /* what the call changes: its fh, its fh2 */
		struct inode *ino;      /* or NULL */
		uint64_t nr;
	} change[2];
	struct nfs_call call;
};

/* ---- session.c ---- */

/* fs->se with our handlers, not mounted. 0 or -errno. */
int fs_session_new(struct fs *fs, struct errbuf *eb);

/* ---- fs_lane.c ---- */

extern _Thread_local struct fs_lane *fs_this_lane;

/* Before the lane's thread gets it; its dev is the caller's to set. */
void fs_lane_init(struct fs *fs, unsigned index);
/* On the lane's thread. */
void fs_lane_attach(struct nfs_lane *l, void *fs);
void fs_lane_detach(struct nfs_lane *l, void *fs);
void fs_lane_fini(struct fs_lane *fl);
/* A provider's: a whole request, which handlers are called for. */
void fs_lane_request(struct fs_lane *fl, const struct fuse_buf *buf);
/* writev of libfuse: to the device that the request came from. */
ssize_t fs_lane_writev(int fd, struct iovec *iov, int count, void *userdata);
void fs_spare_free(struct fs_req *r);

/* ---- dev_clone.c ---- */

/* Of a file that is a clone already; the provider's from now on. 0 or -ENOMEM. */
int fs_dev_clone_new(struct fs_lane *fl, int fd, struct fs_dev **out);

/* ---- req.c ---- */

/* A request object for that node, with the caller's credentials. NULL: there is no
 * such node (ESTALE), or no memory; it has been answered. */
struct fs_req *fs_req_new(fuse_req_t req, fuse_ino_t node);
/* The same for an inode that is at hand; takes a reference. */
struct fs_req *fs_req_on(fuse_req_t req, struct inode *ino);
/* The same for an open file, with the credentials of who opened it. NULL also: fi is
 * no open file's (EBADF). */
struct fs_req *fs_req_file(fuse_req_t req, const struct fuse_file_info *fi);
/* r->ino2 is that node. false: there is none; answered, and r freed. */
bool fs_req_ino2(struct fs_req *r, fuse_ino_t node);
/* The same for work that no request waits for. */
struct fs_req *fs_req_new_quiet(struct fs_lane *fl, struct inode *ino,
				const struct rpc_cred *cred);
void fs_req_free(struct fs_req *r);
/* Starts r->call as `op`, on r->ino's handle unless r->call.fh is set. */
void fs_req_start(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r));
/* Copies a name; replies ENAMETOOLONG, frees r and returns false if it does not fit. */
bool fs_req_name(struct fs_req *r, char *to, const char *name);
/* Answers (err >= 0 or -errno) if anybody waits. */
void fs_reply_err(struct fs_req *r, int err);
/* Answers with r->call.status, and frees. */
void fs_done_status(struct fs_req *r);
/* The same for a call that was to make a name. EIO leaves open whether it did, and the
 * kernel may have been told just before that there is no such name: the answer waits
 * until it does not believe that any more. */
void fs_done_name(struct fs_req *r);
/* Sets the call's timer, which the caller has made, while there is no call: to a
 * millisecond, and to more each time, up to 16. */
void fs_wait_more(struct fs_req *r);
/* The number that the kernel knows it by. */
fuse_ino_t fs_node(const struct fs *fs, const struct inode *ino);
/* e is for ino; one of ino's references becomes the kernel's, if the reply gets
 * there: inode_forget() if not. */
void fs_entry_node(struct fuse_entry_param *e, struct inode *ino);
/* This mount has changed its entries, or tried to: see dir.c. */
static inline void fs_dir_changed(struct inode *dir)
{
	atomic_store(&dir->entries_ns, mono_ns());
}
static inline struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- cred.c ---- */

/* uid, gid and groups of who asks. */
void fs_cred(struct fs_lane *fl, fuse_req_t req, struct rpc_cred *out);
/* Has this thread a signal before it that ends its process? unknown: what to say
 * if it is gone, or not ours to know. */
bool fs_dies(pid_t pid, bool unknown);

/* ---- change.c: see known.h ---- */

/* r->call is going to be sent; it has ended. */
void fs_changes_begin(struct fs_req *r);
void fs_changes_end(struct fs_req *r);
/* The name is not there, says r->call; nr: see known_gone(). */
void fs_name_gone(struct fs_req *r, struct inode *dir, uint64_t nr, const char *name);

/* ---- late.c ---- */

/* fs_req_start() of what `late` can answer without the server: true if it has. */
void fs_start_patiently(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r),
			bool (*late)(struct fs_req *r));
/* r has been waiting for long: it is answered without the server, if it can be. */
void fs_late(struct fs_req *r);

/* ---- attr.c ---- */

void fs_stat(const struct fs *fs, struct stat *st, const struct nfs_attr *a);
/* The same of an inode whose attributes the kernel is about to be told. */
void fs_stat_of(const struct fs *fs, const struct inode *ino, struct stat *st,
		const struct nfs_attr *a);
void fs_sattr(struct nfs_sattr *out, const struct stat *st, int to_set);
/* Seconds that the directory's names may be believed. */
double fs_entry_timeo(struct fs *fs, struct inode *dir);
double fs_negative_timeo(struct fs *fs);
/* Makes the inode of r->call's out_fh and attr, and the entry for it. The
 * reference in it is the kernel's, if the reply gets there. NULL: no memory. */
struct inode *fs_entry(struct fs_req *r, const char *name, struct fuse_entry_param *e);

/* ---- statfs.c ---- */

/* Remembers s as the last known figures. */
void fs_statfs_keep(struct fs_lane *fl, const struct nfs_statfs *s);

/* ---- silly.c ---- */

/* A silly name for r->victim, not given to it yet. NULL: no memory. */
struct silly *fs_silly_new(struct fs_req *r, struct inode *dir);
/* r->victim has the name r->silly now: it goes with the last close, or at once if
 * that has been. old_gone: and no longer the one that it had (r->home). */
void fs_silly_keep(struct fs_req *r, bool old_gone);
/* r->victim has, or may have, that name, and does not need it: REMOVE. */
void fs_silly_drop(struct fs_req *r);
/* There is no such name on the server, or it is to stay there. */
void fs_silly_forget(struct fs_req *r);
/*
 * r takes a name of `ino` (a reference, r's from now on, or NULL) away: plainly, and
 * no open of it begins until fs_unpin(); or it has become r->victim, which is open
 * and must have another name first.
 */
void fs_pin(struct fs_req *r, struct inode *ino);
/* Before the answer: the next open need not wait. */
void fs_unpin(struct fs_req *r);
/* LINKs r->victim as r->silly. */
void fs_silly_link(struct fs_req *r, void (*done)(struct fs_req *r));
/* Removes what silly rename left of a file that nobody has open any more. */
void fs_remove_silly(struct fs_lane *fl, struct silly *s);
/* Does the status of a call that changes names leave open whether it did? */
bool fs_maybe_done(int status);
/*
 * RENAME r->home_name -> r->silly may have happened, and what was to follow has
 * failed with r->call.status: gives r->victim its name back. `after` finds that
 * status, and no r->silly; or 0 and r->silly, if r->moved has taken the name.
 */
void fs_put_back(struct fs_req *r, void (*after)(struct fs_req *r));
/* Before a call that needs `dir` (or NULL: not known) empty is sent. */
void fs_silly_note(struct fs_req *r, const struct inode *dir);
/* It has ended. True: the directory had silly names that may be gone soon; `again`
 * comes when one is, or r is answered as it is. */
bool fs_silly_wait(struct fs_req *r, void (*again)(struct fs_req *r));

/* ---- remove.c ---- */

/* RENAME as r's next call. moved: what is called `name`, or NULL. */
void fs_start_rename(struct fs_req *r, struct inode *from, const char *name, struct inode *to,
		     const char *newname, const struct inode *moved,
		     void (*done)(struct fs_req *r));

/* ---- open.c ---- */

/* r, which opens a file, ends: that counts as open no longer. */
void fs_opening_ends(struct fs_req *r);
/* A file for an open or create that succeeded: sets fi. NULL: no memory. */
struct file *fs_file_new(struct fs_req *r, struct inode *ino, struct fuse_file_info *fi);
/* The open file of fi, with one more reference; NULL: fi is no open file's. */
struct file *fs_file_get(struct fs *fs, const struct fuse_file_info *fi);
/* Gives a reference back; with the last one CLOSE, and REMOVE of what silly
 * rename left. */
void fs_file_put(struct fs_lane *fl, struct file *f);
/* An open that nobody got: CLOSE. */
void fs_open_undo(struct fs_lane *fl, struct inode *ino, struct nfs_open *open,
		  const struct rpc_cred *cred);

/* ---- data.c ---- */

void fs_write_start(struct fs_req *r);
/* Tries READs that wait for a buffer; false: some still do. */
bool fs_retry_reads(struct fs_lane *fl);

#endif
