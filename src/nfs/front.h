/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens in src/nfs, told to the file system above it (src/vfs). The table is in the client's
 * configuration; NULL: nobody wants to know.
 *
 *   target.c      a connection comes or goes  ---lane_changed---->  vfs/lane.c
 *   engine.c      an operation has ended      ---buffers_freed--->
 *   nfs4_callback.c   the server says so      ---lock_freed------>  vfs/locks_wait.c
 *                                             ---delegations_due->  vfs/delegations.c
 *                                             ---copy_ended------>  vfs/offload.c
 *                                             ---delegation_attr->  vfs/promised.c
 *
 * Who calls, and where. Each function is called on that lane's thread, from its loop, with no lock
 * held. So there is one call at a time for a lane, and may be several for the client. (The first
 * connection of lane 0 comes on the mounting thread, before there are others.) When the lane's
 * thread has ended nothing comes any more. nfs_lane.front is for the callee, which sets it on the
 * lane's thread; it is NULL until then, and what comes before that is lost.
 *
 * What may be done there: whatever done() of an operation may do. Operations may be started and
 * ended (nfs_take_back(), nfs_abandon()), buffers put back, messages posted. Nothing may be waited
 * for. When a connection is lost, this comes when its calls are back in the lane's queue, those
 * whose time is up have ended, and nothing of the connection is left.
 *
 * What is not told, because nobody would do anything with it:
 *
 *   lost(file)     An open's state is lost, and cannot be recovered (nfs4_recover.c, nfs4_revoked.c).
 *                  Each call with that open fails by itself from then on, and write-behind sends what
 *                  it holds within a second, and drops it with that error.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nfs_copy_end;
struct nfs_copy_id;
struct nfs_delegation;
struct nfs_fh;
struct nfs_lane;

struct nfs_front {
	/* The lane has a connection to the server that is mounted again, or has lost its last one:
	 * nfs_lane_up() says which. It may also come when neither is the case. */
	void (*lane_changed)(struct nfs_lane *l);
	/* Buffers are back: what waits for some may be tried again. */
	void (*buffers_freed)(struct nfs_lane *l);
	/* A lock of that file may be free, for which the owner (nfs_lock_args) was denied one. */
	void (*lock_freed)(struct nfs_lane *l, const struct nfs_fh *fh, uint64_t owner);
	/* The server wants delegations back: nfs_delegation_take() has them. The recall has no answer yet.
	 * Those that are due for another reason are not told of. */
	void (*delegations_due)(struct nfs_lane *l);
	/* A copy into that file, which went on behind COPY's reply, has ended so. It may be that the reply
	 * is still to come. false: nobody can be waiting for it. */
	bool (*copy_ended)(struct nfs_lane *l, const struct nfs_fh *fh, const struct nfs_copy_id *id,
			   const struct nfs_copy_end *end);
	/* The server asks for size and change of a file of which this mount has that delegation, to write.
	 * false: they are not known. (The server recalls the delegation, then.) */
	bool (*delegation_attr)(struct nfs_lane *l, const struct nfs_delegation *d, uint64_t *size, uint64_t *change);
};
