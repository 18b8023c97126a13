/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The FUSE front end without a kernel and without a server (lane_play.h). The test plays both ends.
 * Everything runs on the test's thread.
 *
 *      fs_play_ask -----> libfuse --> the handler --> the version's encode --> fake.sends
 *      answer, notice <-- libfuse <-- its `done`  <-- the version's decode <-- lane_play_serve
 *                                                                              lane_play_reply
 *
 * The lane's device (fuse/dev.h) is a fake one, which hands on a request when the test makes
 * one. A test of reading itself uses the real one instead: fs_play_attach().
 */
#pragma once

#include "fuse/fs_impl.h"
#include "lane_play.h"

extern struct fs fs;
extern struct fs_lane *fl;              /* the only one */
/* The fake device. Requests lie in it as in the one that reads /dev/fuse. */
extern struct fs_play_dev {
	struct fs_dev dev;
	char head[FS_HEAD_ROOM];
	struct arena_buf *mid, *big;    /* a WRITE's data; NULL: a request has taken it */
} fs_play_dev;

extern uint32_t fs_play_minor;          /* the kernel's minor version of FUSE; 38 (Linux 6.5) */
extern uint32_t fs_play_flags;          /* what it says in FUSE_INIT that others of it do not */
extern unsigned fs_play_has;            /* NFS_HAS_* of the server */
/*
 * Sets all of this up, with a connection, and with a root that the kernel knows. Keeps what
 * the test has set in fs.cfg and fs.vfs.inodes before. `answer` is that of FUSE_INIT.
 */
void fs_play_start(const struct nfs_version *version, const struct nfs_fh *root,
		   const struct nfs_attr *attr);
void fs_play_end(void);

/* ---- the kernel ---- */

/* The answers since the last request. All members but count are about the newest one. */
extern struct fs_play_answer {
	unsigned count;
	int error;
	const void *at;                 /* where the data lay that libfuse sent; or NULL */
	size_t len;
	_Alignas(8) char data[NFS_IO_MAX + 4096];
} answer;
/* The notifications. Each tells the kernel to forget what it knows of an inode. */
extern struct fs_play_notice {
	unsigned count, answers;        /* answers: answer.count when the last one came */
	struct fuse_notify_inval_inode_out what;
} notice;
/* Is it told to drop an inode's pages (dropper.h), within so many milliseconds? Then it has. */
bool fs_play_drops(unsigned ms);
/* It waits for pages before it drops them, from now on; and not any more. */
void fs_play_drops_wait(void);
void fs_play_drops_go_on(void);
/* true: the kernel refuses answers, because the request has gone away. */
extern bool fs_play_refuse;
/* Called for each answer, after `answer` is set; or NULL. */
extern void (*fs_play_answered)(const struct fuse_out_header *h);

/* The kernel is told what is known of ino once more, and so has something to forget. */
void fs_play_tell(struct inode *ino);
/* The header of a new request, with `len` bytes after it. */
struct fuse_in_header fs_play_header(uint32_t opcode, uint64_t node, size_t len);
/* len may be less than the header says, because a WRITE's data lies elsewhere. */
void fs_play_request(const struct fuse_in_header *h, const void *body, size_t len);
void fs_play_ask(uint32_t opcode, uint64_t node, const void *body, size_t len);
/* Gives fs_play_dev both data buffers, as before each request. */
void fs_play_buffers(void);

/* From now on the lane's loop reads from a socket in place of /dev/fuse. Returns the other
 * end, which fs_play_detach() closes. `answer` still gets the answers. */
int fs_play_attach(void);
void fs_play_detach(void);

/* An open file of the root's inode, made without OPEN. The caller frees it, last. */
struct fs_file *fs_play_file(void);
