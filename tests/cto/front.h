/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A second front end of src/vfs: a program's own threads reach a server's files without FUSE. It
 * keeps nothing but what is open. A thread fills an `ask`, and waits until a lane has done it.
 *
 *     thread: front_do() --message--> lane: begin(op), vfs_read() ... op->end --semaphore--> thread
 *
 * Any thread. by_front.c makes system calls of these, and has further operations.
 */
#pragma once

#include <semaphore.h>
#include "vfs/vfs.h"

struct front_file {
	struct file f;
	int flags;                      /* open(2)'s */
	uint64_t fileid;
};

struct ask {
	void (*begin)(struct vfs_op *op);       /* one of those below, or vfs_unlink, vfs_rmdir, vfs_rename */
	struct inode *ino, *ino2;       /* references, which stay the caller's */
	struct front_file *file;
	const char *name, *name2;
	int flags;
	uint64_t off;                   /* also a size, a cookie */
	void *mem;
	size_t len;
	struct dirstream *stream;
	/* The answer. What is found and opened becomes the caller's. */
	int status;                     /* 0 or -errno */
	size_t done;                    /* bytes */
	struct nfs_attr attr;
	struct inode *found;
	struct front_file *opened;
	/* The front end's: */
	struct loop_msg msg;
	sem_t ended;
};

/* Once in a process. `source` and `options` are those of nfsrdma-fuse: SERVER:/EXPORT, and what
 * follows -o. 0 or -errno, and what is wrong is on standard error. */
int front_start(const char *source, const char *options);
/* Nothing is open any more. Waits for what was written. */
void front_stop(void);
extern struct inode *front_root;
void front_put(struct inode *ino);
void front_put_stream(struct dirstream *s);

/* Returns the status. One change of an inode has to come after the other (vfs/start.c): the caller sees
 * to that. */
int front_do(struct ask *a);
void front_lookup(struct vfs_op *op);   /* ino, name -> found, attr */
void front_list(struct vfs_op *op);     /* ino, stream, off */
void front_create(struct vfs_op *op);   /* ino, name, flags -> opened */
void front_open(struct vfs_op *op);     /* ino, flags -> opened */
void front_close(struct vfs_op *op);    /* file, for all of these: */
void front_read(struct vfs_op *op);     /* off, mem, len -> done */
void front_write(struct vfs_op *op);    /* the same; len is not 0 */
/* For others that begin an operation: what it is for, and its end. */
struct ask *front_ask(struct vfs_op *op);
void front_end(struct vfs_op *op);
