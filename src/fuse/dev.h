/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How requests come from the kernel to a lane, and how answers go back.
 *
 *      kernel --request--> provider --fs_lane_request()--> libfuse --> handler
 *      kernel <--answer--- provider <---------answer()---- libfuse <-- handler
 *
 * A provider owns the memory in which requests arrive. A WRITE's data stays there: the
 * handler takes the buffers that hold it (take), and the provider gets other buffers.
 * There is one provider: dev_clone.c, which reads and writes a clone of /dev/fuse. A ring
 * that is shared with the kernel (FUSE over io_uring) is to be another. Nothing outside the
 * provider knows how a request arrived.
 *
 * Receiving has these states. Only the lane's thread changes them:
 *
 *                 no buffers                  for half a second
 *     READING ------------------> STARVED -----------------------> PARKING
 *      |   ^                         |                                |
 *      |   +--- buffers are back ----+--------------------------------+
 *      |   |
 *      |   +-------- it has one again, or no lane has one ------------- ASIDE
 *      +------------ the lane has no connection, another lane has one --> ^
 *                    (from STARVED and PARKING as well)
 *
 *   CLOSED    before attach; after detach; when the mount has ended
 *   READING   the lane reads requests
 *   STARVED   all buffers are in use; other lanes take the requests
 *   PARKING   the server may be silent. Now and then requests are read into plain memory,
 *             so that df, umount and kill do not wait behind data. A WRITE among them is
 *             parked there, and goes on when there are buffers again
 *   ASIDE     other lanes take the requests, so a lane that cannot connect delays none
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include "base/log.h"

struct fs_lane;
struct fs_req;

enum fs_dev_state {
	FS_DEV_CLOSED, FS_DEV_READING, FS_DEV_STARVED, FS_DEV_PARKING, FS_DEV_ASIDE,
};

/* The first member of a provider's own struct. */
struct fs_dev {
	const struct fs_dev_ops *ops;
	struct fs_lane *fl;
	enum fs_dev_state state;
	uint64_t since_ns;              /* when STARVED was entered */
};

struct fs_dev_ops {
	/* Called by the mounting thread. session_fd is libfuse's. 0 with *out set, or -errno
	 * with eb set. */
	int (*open)(struct fs_lane *fl, int session_fd, struct fs_dev **out, struct errbuf *eb);
	/* Any thread, when the lane's thread has ended. */
	void (*close)(struct fs_dev *d);

	/* Called on the lane's thread, all of these: */
	/* Goes from CLOSED to READING. 0 or -errno. */
	int (*attach)(struct fs_dev *d);
	/* Goes to CLOSED. Parked WRITEs are freed without an answer. */
	void (*detach)(struct fs_dev *d);
	/* Goes to ASIDE, or comes back from there. */
	void (*step_aside)(struct fs_dev *d, bool aside);
	/* Data buffers have been put back. */
	void (*buffers_freed)(struct fs_dev *d);
	/* Four times a second. */
	void (*tick)(struct fs_dev *d, uint64_t now_ns);
	/* There may be requests that nobody was woken for. */
	void (*look)(struct fs_dev *d);
	/* r is the WRITE that is being handed on; its data are `size` bytes at `data`. Makes
	 * the buffers that hold them r's, and describes them in r->call.args.io. false: r is
	 * parked, and the provider starts it (vfs_write()) when it has buffers. */
	bool (*take)(struct fs_dev *d, struct fs_req *r, const void *data);
	/* Sends an answer; takes and returns the same as writev(2). */
	ssize_t (*answer)(struct fs_dev *d, const struct iovec *iov, int count);
};

extern const struct fs_dev_ops fs_dev_clone;
