/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client of one lane on the fake fabric, whose loop runs when a test says so. The test plays the
 * server. Everything runs on the test's thread.
 *
 *      nfs_start --> the version's encode --> fake.sends
 *      call.done <-- the version's decode <-- lane_play_serve, lane_play_reply
 */
#pragma once

#include "fake_fabric.h"
#include "nfs/internal.h"

extern struct nfs_lane lane;
extern uint32_t lane_play_rsize, lane_play_wsize; /* the client's; 1 MiB */

/* The client, with a connection. */
struct nfs_client *lane_play_start(const struct nfs_version *version);
void lane_play_end(void);
/* The lane gets a connection (again). */
void lane_play_connect(void);
/* Answers the call that is a connection's first message when the one before it was silent for a
 * second (or lane.target.timed_out says so). It has the only credit: nothing else is sent before.
 * The calls that follow are in fake.sends. Returns false if there is none. */
bool lane_play_answer_ping(struct nfs_target *t);
/* Runs the lane's loop for that long. */
void lane_play_run(unsigned ms);

/* ---- the server ---- */

/* Replies to all calls that wait for it, with headers only: the test's decode makes the
 * results. */
void lane_play_serve(void);
/* Takes what was sent, and does not reply yet. */
void lane_play_flush(void);
/* Replies to the call with that XID. */
void lane_play_reply(uint32_t xid);

/* Words of a message that was sent, in host order: one, and two as a 64-bit number. */
uint32_t sent_word(unsigned send, unsigned i);
uint64_t sent_address(unsigned send, unsigned i);
/* Replies to the newest call with n words, given in host order. */
void reply_words(const uint32_t *w, unsigned n);
#define REPLY_WORDS(...) \
	reply_words((const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4)
/* Replies to a WRITE of version 3: all data is on stable storage. */
void reply_write3(unsigned send, uint32_t count);
