/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client of one lane with its thread, and behind the fake fabric a server that answers
 * each call at once. The test's thread plays the mounting thread and the control thread. The
 * server runs on the lane's thread.
 */
#pragma once

#include "fake_fabric.h"
#include "nfs/internal.h"
#include "nfs/nfs.h"

extern struct nfs_client fake_cl;
extern struct nfs_lane fake_lanes[2];   /* the second one: see fake_lane_second() */
extern struct nfs_control fake_ctl;

/* The reply that is being written, in network order. */
extern uint32_t out[256];
extern unsigned nout;
/* true: the server does not answer. */
extern _Atomic bool fake_lane_quiet;
/* It does not answer this procedure. 0: none. */
extern _Atomic uint32_t fake_lane_deaf;

/* Appends a word, or n words, given in host order. */
void put(uint32_t w);
void puts_of(unsigned n, ...);

/*
 * execute: appends the results of procedure `proc` to the reply's header. w is the call
 * after its header, in network order.
 */
void fake_lane_start(const struct nfs_version *version,
		     void (*execute)(uint32_t proc, const uint32_t *w));
/* Starts a second lane. It has no connection, because the fake fabric has one at a time. */
void fake_lane_second(void);
/* The connection is lost, and the other lane gets one. */
void fake_lane_move(void);
/* Runs the loop of a lane that has no thread, on this one. */
void fake_pass(struct nfs_lane *l, unsigned ms);
/* For nfs_config.times. fake_lane_start() does so. */
extern struct nfs_times fake_times;
/* For nfs_config.clock: it stands still but for fake_pass(). */
uint64_t fake_clock(void);
/* ... and for this, while nothing runs. */
void fake_sleep(unsigned ms);
/* nfs_args.file.get: a file of the test's own, which the open frees; or NULL, if fake_no_file. */
struct nfs_file *fake_file(struct nfs_call *c, const struct nfs_fh *fh);
extern _Atomic bool fake_no_file;
/* The test has to free fake_cl.server.vdata afterwards. */
void fake_lane_stop(void);
