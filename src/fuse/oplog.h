/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Single requests of the kernel, for somebody who listens (the command log of ctl).
 *
 *   request --> a place of the lane's table, with the file's name --answer--> the lane's ring --> listener
 *
 * When nobody listens nothing of this is there or called: fs_lane.c looks at bits that it looks at anyway. The
 * memory of a lane comes with the first listener and stays until the lane ends.
 *
 * The lane's thread has the table and writes the ring; one other thread reads the ring. Neither waits: what finds
 * no room is counted. Names are looked up on the lane, and no call is made for them.
 */
#pragma once

#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/oprec.h"

#define OPLOG_PLACES 512u               /* power of two */
#define OPLOG_RING   1024u              /* power of two */

struct fs;
struct fs_lane;
struct fuse_buf;

struct oplog {
	struct oplog_place {
		uint64_t unique;        /* 0: free */
		uint32_t turn;          /* of the listener who was there; of an earlier one's nothing is lost */
		struct oprec rec;
	} place[OPLOG_PLACES];
	_Atomic uint32_t turn;          /* raised with each listener */
	_Atomic uint64_t head, tail;    /* written, and read */
	_Atomic uint64_t lost;
	struct oprec ring[OPLOG_RING];
};

/* Lane: a request has come, at that moment of the loop's clock; and an answer leaves. */
void oplog_begins(struct fs_lane *fl, const struct fuse_buf *buf, uint64_t now_ns);
void oplog_ends(struct fs_lane *fl, const struct fuse_out_header *h, uint64_t now_ns);
