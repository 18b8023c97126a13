/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * src/vfs with a front end that is a test: it makes operations as vfs.h says, and hears of their end.
 * The client and the server are lane_play.h's. Everything runs on the test's thread.
 *
 *      vfs_play_read, ... --> vfs_read, ... --> the version's encode --> fake.sends
 *      vfs_play_answered  <-- op->end       <-- the version's decode <-- lane_play_reply
 *
 * It holds vfs to what vfs.h says of struct vfs_front:
 *
 *   - a function whose name ends with "locked" has the lock of the inode's shard, another one has not
 *   - of an inode nothing is told before it begins, nor after its end; when it begins, the front end's
 *     part is all zero. Nothing is left when vfs has ended
 *   - each operation ends once
 *
 * And it can be as bad as a front end may be:
 *
 *   slow      it has the end of an operation, and leaves it, with its buffers, its references and what
 *             it holds, for later
 *   forgets   while it is told of an inode, it drops its own reference
 *   gone      it waits for nothing any more, and drops all that it has, whatever is under way
 */
#pragma once

#include "lane_play.h"
#include "vfs/vfs.h"

extern struct vfs vfs;
extern struct vfs_lane *vl;             /* the first lane's; the second one is vfs.lanes[1] */
extern struct inode *root;              /* a reference */

/* With a connection, and a root. Keeps what the test has set in vfs.inodes before. */
void vfs_play_start(const struct nfs_version *version, const struct nfs_fh *fh,
		    const struct nfs_attr *attr, unsigned write_behind);
void vfs_play_end(void);

/* ---- what it is told ---- */

/* What the front end has of an inode. */
struct vfs_play_inode {
	struct inode ino;
	bool begun;
	bool drops;                     /* it has a reference, which it drops at the next event */
	unsigned spoilt, lost;          /* how often it was told so */
	uint64_t there;                 /* the highest end that it was told of (written) */
};

static inline struct vfs_play_inode *vfs_play_inode(struct inode *ino)
{
	return container_of(ino, struct vfs_play_inode, ino);
}

/* What vfs asks it: the file's end, and the end of what the server has. NULL: nobody knows. */
extern bool (*vfs_play_end_known)(const struct inode *ino, uint64_t *end, uint64_t *there);

/* Each so-many-th end is left for later. 0: none. */
extern unsigned vfs_play_slow;
/* What was left; or one of it. */
void vfs_play_catch_up(void);
void vfs_play_catch_up_one(void);
/* How often that was so; and waited: so many operations were waited for when it went. */
extern struct vfs_play_seen { unsigned left, forgotten, waited; } vfs_play_seen;

/* ---- what it asks ---- */

/* The number of the next operation. It may end before the function that starts it returns. */
extern uint64_t vfs_play_next;

/* The newest end. */
extern struct vfs_play_answer {
	unsigned count;                 /* since the last operation was started */
	int status;
	/* READ; and WRITE: len is how far it has come. */
	const void *at;                 /* where the data lay */
	size_t len;
	bool late_error;
	struct inode *ino;              /* LOOKUP: a reference, which is the test's now */
	struct file *file;              /* OPEN: the same */
	struct nfs_attr attr;           /* GETATTR, SETATTR */
	struct timespec btime;          /* of vfs_play_birth() */
	char data[NFS_IO_MAX];
} vfs_answer;
/* Called for each operation that somebody waits for, after `vfs_answer` is set; or NULL. */
extern void (*vfs_play_answered)(uint64_t nr);

/* References are the caller's still. Returns the operation's number. */
uint64_t vfs_play_lookup(struct inode *dir, const char *name);
/* named: by the names that are known of it. */
uint64_t vfs_play_open(struct inode *ino, int flags, bool named);
uint64_t vfs_play_getattr(struct inode *ino);
/* The same with the time of birth. */
uint64_t vfs_play_birth(struct inode *ino);
uint64_t vfs_play_truncate(struct inode *ino, uint64_t size);
uint64_t vfs_play_read(struct file *f, uint64_t offset, size_t size, bool cached);
/* The data is what vfs_play_mid and vfs_play_big have, which vfs gets. */
uint64_t vfs_play_write(struct file *f, uint64_t offset, size_t size, bool quick, bool writeback);
/* What was written is on stable storage. Its error; seen: which counts as reported then. */
uint64_t vfs_play_settle(struct file *f, bool seen);
uint64_t vfs_play_unlink(struct inode *dir, const char *name);
uint64_t vfs_play_rmdir(struct inode *dir, const char *name);
uint64_t vfs_play_rename(struct inode *dir, const char *name, struct inode *dir2, const char *name2);
uint64_t vfs_play_link(struct inode *ino, struct inode *dir, const char *name);
/* close(): drops the test's reference. */
void vfs_play_close(struct file *f);
/* An open file of the root's inode, made without OPEN. The caller frees it, last. */
struct file *vfs_play_file(void);

/* A WRITE's data before vfs has it. false: there are no buffers for it. Each operation gives the front
 * end both, if there are any. */
extern struct arena_buf *vfs_play_mid, *vfs_play_big;
bool vfs_play_buffers(void);

/* The number of an operation; 0: it is one of vfs's own, or nobody waits for it any more. */
uint64_t vfs_play_nr(const struct vfs_op *op);
/* Its process is killed. true: it has ended; otherwise it has been answered, and goes on. */
bool vfs_play_give_up(struct vfs_op *op);
/* The front end is gone. Files of the test's are closed by the test. */
void vfs_play_gone(void);
