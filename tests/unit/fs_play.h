/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The FUSE front end without a kernel and without a server: a client of one lane, whose
 * loop runs when a test says so, on the made-up fabric. The test plays both ends; all of
 * it is on the test's thread.
 *
 *      fs_play_ask -----> libfuse --> the handler --> the version's encode --> fake.sends
 *      answer, notice <-- libfuse <-- its `done`  <-- the version's decode <-- fs_play_serve
 *                                                                              fs_play_reply
 *
 * The lane's device (fs/dev.h) is a played one, which hands a request on when the test
 * has one. A test that is about the reading itself gets another: fs_play_attach().
 */
#ifndef TESTS_FS_PLAY_H
#define TESTS_FS_PLAY_H

#include "fake_fabric.h"
#include "fs/fs_impl.h"
#include "nfs/internal.h"

extern struct nfs_lane lane;
extern struct fs fs;
extern struct fs_lane *fl;              /* the only one */
/* Where requests are, as the one that reads /dev/fuse has them. */
extern struct fs_play_dev {
	struct fs_dev dev;
	char head[FS_HEAD_ROOM];
	struct arena_buf *mid, *big;    /* a WRITE's data; NULL: a request has taken it */
} fs_play_dev;

/*
 * All of that, with a connection, and a root that the kernel knows. What a test has set
 * in fs.cfg and fs.inodes before stays as it is.
 */
void fs_play_start(const struct nfs_version *version, const struct nfs_fh *root,
		   const struct nfs_attr *attr);
void fs_play_end(void);
/* The lane gets a connection (again). */
void fs_play_connect(void);
/* The lane's loop runs so long. */
void fs_play_run(unsigned ms);

/* ---- the kernel ---- */

/* What has been answered since something was asked. */
extern struct fs_play_answer {
	unsigned count;
	int error;                      /* of the last one, as what follows */
	const void *at;                 /* where its data lay that came from libfuse; or NULL */
	size_t len;
	_Alignas(8) char data[NFS_IO_MAX + 4096];
} answer;
/* What was said unasked, which is always to forget what is known of an inode. */
extern struct fs_play_notice {
	unsigned count, answers;        /* how many answers had been given at the last one */
	struct fuse_notify_inval_inode_out what;
} notice;
/* The kernel takes no answer: the request has gone away. */
extern bool fs_play_refuse;
/* Called for each answer, after the above is set; or NULL. */
extern void (*fs_play_answered)(const struct fuse_out_header *h);

/* Of a new request, with `len` bytes behind it. */
struct fuse_in_header fs_play_header(uint32_t opcode, uint64_t node, size_t len);
/* len may be less than what the header says: a WRITE's data lies elsewhere. */
void fs_play_request(const struct fuse_in_header *h, const void *body, size_t len);
void fs_play_ask(uint32_t opcode, uint64_t node, const void *body, size_t len);
/* fs_play_dev has both data buffers, as it has before each request. */
void fs_play_buffers(void);

/* The lane reads, in its loop, from a socket in the place of /dev/fuse: returns the other
 * end, which fs_play_detach() closes. Answers come as they do otherwise. */
int fs_play_attach(void);
void fs_play_detach(void);

/* An open file of the root's inode, that no OPEN has made: the caller's to free, last. */
struct file *fs_play_file(void);

/* ---- the server ---- */

/* It answers all that waits for it, with headers; what the results are is decode's. */
void fs_play_serve(void);
/* It has got what was sent, and answers later... */
void fs_play_flush(void);
/* ...that call. */
void fs_play_reply(uint32_t xid);

/* Of a message that was sent: a word in host order, and two of them. */
uint32_t sent_word(unsigned send, unsigned i);
uint64_t sent_address(unsigned send, unsigned i);
/* Answers the newest with n words, given in host order. */
void reply_words(const uint32_t *w, unsigned n);
#define REPLY_WORDS(...) \
	reply_words((const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4)
/* The same: a WRITE of version 3, all of it on stable storage. */
void reply_write3(unsigned send, uint32_t count);

#endif
