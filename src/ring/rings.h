/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rings: programs read and write open files of the mount by entries in shared memory (ring.h). It is a
 * second front end of src/vfs, for data only; the first one has the files opened, and says when they
 * are closed.
 *
 *     clients.c   the socket: a program's connection, its rings and memory        the rings' thread,
 *     tokens.c    which open file a token is for                                  which may block
 *     ---- by message (impl.h) ----
 *     lane.c      a ring on its lane: its files and memory, its end               a lane's thread,
 *     io.c        an entry: operations of src/vfs, one after the other            which may not
 *     queue.c     the shared memory
 *
 * When a program dies, its connection ends, and its rings are told to: what was not sent is taken back,
 * and the rest is waited for, because the server may write into the program's memory until then. The
 * memory is given back to the devices when all rings of the connection have ended.
 */
#pragma once

#include "ring/ring.h"
#include "vfs/vfs.h"

struct rings;

struct rings_config {
	unsigned most_rings;            /* of one user */
	uint64_t most_bytes;            /* of memory of one user's programs */
	unsigned most_files;            /* connections and rings of all users; of one three quarters of that */
};

/* On the thread that talks to the server; vfs outlives it, but rings_free() comes when the lanes have
 * ended. 0 or -errno. */
int rings_new(struct rings **out, struct vfs *vfs, const struct rings_config *cfg);
/* The listening SOCK_SEQPACKET socket `fd`, which becomes theirs, has this name. */
void rings_listen(struct rings *r, int fd, const char *name);
/* While the lanes still have operations: programs are told that it has ended, and all rings end. Waits
 * for what is under way, for some seconds at most. */
void rings_end(struct rings *r);
/* r may be NULL. */
void rings_free(struct rings *r);

/* A lane's thread: the user wants a token for an open file, with this access (O_ACCMODE). 0, or
 * -errno: -EDQUOT too many. */
int rings_token(struct rings *r, struct vfs_lane *vl, struct file *f, int access, uid_t uid,
		struct ring_token *out);
/* The same: the last descriptor of f, for which there was a token, is closed. */
void rings_closed(struct rings *r, const struct file *f);

/* Any thread, for who looks. */
struct rings_now {
	pid_t pid;
	uid_t uid;
	unsigned rings, files;
	uint64_t bytes, reads, writes, read_bytes, written_bytes;
};
/* Calls look(now, arg) for each program. */
void rings_each(struct rings *r, void (*look)(const struct rings_now *now, void *arg), void *arg);
