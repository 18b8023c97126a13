/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CLOSE in the message of another call (nfs/close_ride.h): a client of several lanes on the fake
 * fabric, and the server. Each lane has its connection, and its side of the server is played
 * on the lane's thread. A test may run all lanes on one thread.
 *
 * The version has a CLOSE that rides, a LOOKUP that carries it, a WRITE that does neither, and
 * a REMOVE that takes a name away. A message says which file its CLOSE is of, and what else it
 * asks for. The server keeps which files are open, and how often each was closed.
 */
#pragma once

#include "fake_fabric.h"
#include "nfs/internal.h"
#include "nfs/close_ride.h"

#define NOBODY 0xffffffffu
#define FILES  600u
#define LANES  FAKE_CONNS

extern struct nfs_client play_cl;
extern struct nfs_lane play_lanes[LANES];
extern const struct rpc_cred user, other_user;

struct op {
	struct nfs_call c;
	uint32_t nr;
	_Atomic unsigned dones;
};
extern struct op ops[FILES];
extern _Atomic bool open_there[FILES];          /* on the server */
extern _Atomic unsigned in_vain[FILES];         /* CLOSEs of what was not open */
extern bool delayed;            /* SEQUENCE says so, before anything is executed */

void play_setup(void);
void play_teardown(void);

/* Starts an operation on that lane. CLOSE: the file is open then. NFS_OP_MAX: a CLOSE that does
 * not wait. */
struct op *start_on(unsigned lane, uint32_t nr, enum nfs_op op, const struct rpc_cred *cred);

/* What send i has asked for on the lane: | CLOSE of, or NOBODY | main operation | of | */
const uint32_t *asked_on(unsigned lane, unsigned i);
/* Sends that wait for an answer. */
unsigned unanswered(unsigned lane);
/* Answers the oldest one. refuse: its CLOSE fails; else the main operation has that outcome. */
void answer_on(unsigned lane, bool refuse, int outcome);
void disconnect_lane(unsigned lane);
void connect_lane(unsigned lane);
/* The connection is lost. The server has executed some of what it has not answered: those
 * that some() says. Then there is another one. */
void lose(unsigned lane, bool (*some)(void *ctx), void *ctx);
/* Time passes on a lane whose thread is this one. */
void pass_on(unsigned lane, unsigned ms);
/* No CLOSE waits for a carrier, is aboard one, or was sent by itself. */
bool all_closed(void);
