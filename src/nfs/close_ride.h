/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CLOSE in the COMPOUND of the next call, which saves its round trip.
 *
 * A program that works on many files closes one and at once looks up or opens the next. So a CLOSE
 * waits for a moment, for a call that carries it (nfs_opdef.carries). The kernel tells of a close()
 * later, and in parallel to what the program does next. So the call that carries it is often
 * another lane's, and what waits is the server's, not a lane's:
 *
 *   nfs_start(CLOSE)    its caller is told that it is done, and is not involved further
 *        |
 *        v              a rider: the open, the user's credential, a call for later
 *   riders.waiting ------+-- LOOKUP of the same user is sent, on any lane
 *                        |     SEQUENCE PUTFH CLOSE PUTFH LOOKUP ...
 *                        |     reply: closed? ----> the open is freed
 *                        |            not closed -> nfs_begin() on the lane of that LOOKUP
 *                        |
 *                        +-- a call that takes a name away starts (nfs_opdef.unnames), or a
 *                        |     CLOSE that is waited for: nfs_begin() on its lane, before it
 *                        |
 *                        +-- nfs_times.close_ride_ms have passed: nfs_begin() on the lane that CLOSE was
 *                              started on
 *
 * A thread that takes a rider off the list, with the lock held, owns it. So the timer of one lane,
 * a LOOKUP on the second and a REMOVE on the third cannot send the same CLOSE twice, and nobody has
 * to tell another lane anything. A timer that finds its riders gone does nothing. The lock is held
 * for a look at the oldest few, never while anything is sent or freed that has locks of its own.
 *
 * CLOSE stands before what carries it, because LOOKUP may well fail, and ends the COMPOUND. If
 * CLOSE fails, the server has done nothing: both calls are sent again, each by itself. The same
 * happens if the carrier ends without an answer to CLOSE (its connection is lost, its session,
 * its time is up). The server may have executed CLOSE by then. It answers the second one that
 * there is no such stateid, which is what was wanted. What was sent again carries nothing any
 * more, or many CLOSEs that fail would hold it up. An OPEN carries only what leaves its reply
 * short enough for the server to keep.
 *
 * What is begun by itself is an ordinary call of that lane, and never rides again. Its time on a
 * soft mount begins then.
 *
 * Who else acts meanwhile:
 *   the same open    has no other user: CLOSE is its last call.
 *   recovery         leaves the open alone from here on, as with any CLOSE (nfs4_state.c). If it
 *                    is at work on it just now, CLOSE does not ride, and waits for that.
 *   a lost connection  the carrier waits on its lane for the next one, with its rider. Riders
 *                    that wait are carried by other lanes meanwhile: a lane without a connection
 *                    takes none, and of those that wait it begins its own only.
 *   a soft mount     ends the carrier, and the rider is begun by itself.
 *   other calls      may pass it, as those of other lanes always could. Only what takes a name
 *                    away comes after it, because there are servers that do not remove or
 *                    replace what is open (FILE_OPEN), or keep a name of it in the directory.
 *   who waits for the end of CLOSE (a silly name is removed after it) says NFS_CALL_NOW. Another
 *                    open of that file may wait here: it is closed no later.
 *   the unmount      waits until none waits here, and for calls of the lanes (client.c).
 *
 * No memory for a rider: CLOSE is sent at once, as its caller's call.
 */
#pragma once

#include "nfs/nfs.h"

void close_rides_init(struct nfs_close_rides *rs);
/* The lanes have ended. The version frees the opens. */
void close_rides_fini(struct nfs_close_rides *rs);
void close_rides_lane_init(struct nfs_lane *l);

/* The rest is for lane threads, and t is one of the lane's targets. */

/* c is about to be started. true: its open waits for a carrier, and c is done. */
bool close_ride_waits(struct nfs_target *t, struct nfs_call *c);
/* All that wait are begun on t, by themselves; without a connection only those started on t. */
void close_rides_go(struct nfs_target *t);
/* c is about to be encoded: takes a rider along, if there is one for it. */
void close_ride_take(struct nfs_call *c);
/* The carrier's reply has been decoded, or there will be none: its rider is done, or begun by
 * itself. */
void close_ride_leave(struct nfs_call *c);
