/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CLOSE in the COMPOUND of the next call, which saves its round trip.
 *
 * A program that works on many files closes one and at once looks up or opens the next. So a CLOSE
 * waits for a moment, for a call that carries it (nfs_opdef.carries):
 *
 *   nfs_start(CLOSE) --> lane->riders ----+-- LOOKUP of the same user is sent
 *                                         |     SEQUENCE PUTFH CLOSE PUTFH LOOKUP ...
 *                                         |     reply: closed? ----> CLOSE is done
 *                                         |            not closed -> lane->waiting
 *                                         |
 *                                         +-- any other call starts, or RIDER_MS have
 *                                             passed: lane->waiting, before that call
 *
 * CLOSE stands before what carries it, because LOOKUP may well fail, and ends the COMPOUND. If
 * CLOSE fails, the server has done nothing: both calls are sent again, each by itself. The same
 * happens if the carrier ends without an answer to CLOSE (its connection is lost, its session,
 * its time is up). The server may have executed CLOSE by then. It answers the second one that
 * there is no such stateid, which is what was wanted. What was sent again carries nothing any
 * more, or many CLOSEs that fail would hold it up. An OPEN carries only what leaves its reply
 * short enough for the server to keep.
 *
 * Who else acts meanwhile:
 *   the same open    has no other user: CLOSE is its last call.
 *   recovery         opens the file again if the call has not been encoded, as with any CLOSE
 *                    that waits (nfs_open.closing).
 *   a soft mount     leaves the rider to its carrier, whose time is up as well, and which
 *                    puts the rider back.
 *   other calls      on this lane start after CLOSE. Those of other lanes could always pass
 *                    it; now they can for RIDER_MS. A server that does not remove what is
 *                    open then answers FILE_OPEN; Linux removes it.
 *   who waits for the end of CLOSE (a silly name is removed after it) says NFS_CALL_NOW.
 *   the unmount      waits for calls of the lane (client.c), and so for the timer.
 *
 * Lane thread, all of it.
 */
#ifndef NFS_RIDER_H
#define NFS_RIDER_H

#include "nfs/nfs.h"

/* How long CLOSE waits for a call that carries it. */
#define RIDER_MS 20u

void riders_init(struct nfs_lane *l);
/* c has just been started, and is in no list. true: it waits for a carrier. */
bool rider_waits(struct nfs_lane *l, struct nfs_call *c);
/* All that wait for a carrier go to the end of lane->waiting. */
void riders_go(struct nfs_lane *l);
/* c is about to be encoded: takes a rider along, if there is one for it. */
void rider_take(struct nfs_lane *l, struct nfs_call *c);
/* The carrier's reply has been decoded, or there will be none. Returns its rider, or NULL.
 * *closed: it is done; else it has to be sent by itself. */
struct nfs_call *rider_leave(struct nfs_call *c, bool *closed);

#endif
