/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client of one lane with its thread, and behind the made-up fabric a server
 * that answers each call at once. The test's thread is the one that mounts, and
 * the control thread; the server runs on the lane's.
 */
#ifndef TESTS_FAKE_LANE_H
#define TESTS_FAKE_LANE_H

#include "fake_fabric.h"
#include "nfs/internal.h"
#include "nfs/nfs.h"

extern struct nfs_client fake_cl;
extern struct nfs_lane fake_lanes[2];   /* the second is not there until asked for */
extern struct nfs_control fake_ctl;

/* The reply that is being made, in network order. */
extern uint32_t out[256];
extern unsigned nout;
/* The server answers nothing for now. */
extern _Atomic bool fake_lane_quiet;

/* Puts a word, and n words, given in host order. */
void put(uint32_t w);
void puts_of(unsigned n, ...);

/*
 * execute: puts the results of procedure `proc` behind the reply's header; w is
 * the call behind its own, in network order.
 */
void fake_lane_start(const struct nfs_version *version,
		     void (*execute)(uint32_t proc, const uint32_t *w));
/* A second lane, without a connection: the made-up fabric has one at a time. */
void fake_lane_second(void);
/* The connection is lost, and the other lane gets one. */
void fake_lane_move(void);
/* What the version keeps in fake_cl.server.vdata is the test's to free, afterwards. */
void fake_lane_stop(void);

#endif
