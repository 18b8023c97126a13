/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How requests come from the kernel to a lane, and how answers go back.
 *
 *      kernel --request--> provider --fs_lane_request()--> libfuse --> handler
 *      kernel <--answer--- provider <---------answer()---- libfuse <-- handler
 *
 * A provider has the memory in which requests arrive. A WRITE's data stays there: the
 * handler takes the buffers that it lies in (take), and the provider gets itself others.
 * There is one provider: dev_clone.c, which reads and writes a clone of /dev/fuse. A ring
 * that is shared with the kernel (FUSE over io_uring) is to be another; nothing outside
 * of the provider knows how a request arrived.
 *
 * Receiving is in one of these states. The lane's thread changes them:
 *
 *                 no buffers                  for half a second
 *     READING ------------------> STARVED -----------------------> PARKING
 *      |   ^                         |                                |
 *      |   +--- buffers are back ----+--------------------------------+
 *      |   |
 *      |   +-------- it has one again, or nobody has one -------------- ASIDE
 *      +------------ the lane has no connection, another lane has one --> ^
 *                    (from STARVED and PARKING as well)
 *
 *   CLOSED    before attach; after detach; when the mount has ended
 *   READING   requests come
 *   STARVED   all buffers are in use: other lanes take the requests
 *   PARKING   the server may be silent: now and then requests are read into plain memory,
 *             so that df, umount and kill do not wait behind data. A WRITE among them is
 *             parked there, and goes on when there are buffers again
 *   ASIDE     a connection that cannot be made costs the mount this lane and nothing else
 */
#ifndef FS_DEV_H
#define FS_DEV_H

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

/* What a provider's own struct begins with. */
struct fs_dev {
	const struct fs_dev_ops *ops;
	struct fs_lane *fl;
	enum fs_dev_state state;
	uint64_t since_ns;              /* when STARVED was entered */
};

struct fs_dev_ops {
	/* Who mounts. session_fd is libfuse's. 0 with *out, or -errno with eb set. */
	int (*open)(struct fs_lane *fl, int session_fd, struct fs_dev **out, struct errbuf *eb);
	/* Any thread, when the lane's has ended. */
	void (*close)(struct fs_dev *d);

	/* The lane's thread, all of these. */
	/* CLOSED to READING. 0 or -errno. */
	int (*attach)(struct fs_dev *d);
	/* To CLOSED. Parked WRITEs are freed unanswered. */
	void (*detach)(struct fs_dev *d);
	/* To ASIDE, or back from there. */
	void (*step_aside)(struct fs_dev *d, bool aside);
	/* Data buffers have been put back. */
	void (*buffers_freed)(struct fs_dev *d);
	/* Four times a second. */
	void (*tick)(struct fs_dev *d, uint64_t now_ns);
	/* `size` bytes at `data` are those of the WRITE that is being handed on: their
	 * buffers are r's, and described in r->call.args.io. false: it is parked, and is started
	 * (fs_write_start) when there are buffers for it. */
	bool (*take)(struct fs_dev *d, struct fs_req *r, const void *data, size_t size);
	/* An answer as writev(2) takes it, and what that returns. */
	ssize_t (*answer)(struct fs_dev *d, const struct iovec *iov, int count);
};

extern const struct fs_dev_ops fs_dev_clone;

#endif
