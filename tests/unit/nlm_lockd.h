/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lock manager for tests of version 3's locks: a thread that answers calls on 127.0.0.1, notes what it
 * was asked for, and does wrong when a test says so. And a mount of one lane whose locks it has
 * (fake_lane.h). The program is linked with --wrap=rpcbind_tcp_port: the port is the test's.
 */
#pragma once

#include "fake_lane.h"
#include "nfs/nfs3/nfs3_impl.h"
#include "nfs/nfs3/nlm.h"

#define TO_EOF UINT64_MAX
#define OWNER 7u

enum wrong { WELL, CUT, WRONG_XID, WRONG_COOKIE, LONG_COOKIE, LONG_RECORD, CLOSES, SILENT, REFUSES };

extern struct lockd {
	int listener;
	unsigned port, statd_port;      /* 0: rpcbind does not know it; rpc.statd's */
	pthread_t thread;
	pthread_mutex_t mu;             /* for what follows */
	int fd;                         /* of the connection; -1: there is none */
	char log[4096];                 /* see note() */
	uint32_t stat;                  /* the answer, but to a reclaim ... */
	unsigned grace;                 /* ...and so many more calls come in the grace period */
	bool no_statd;                  /* it gives no locks that it is to watch this host for */
	bool silent_at;                 /* no answer to what begins at 1 */
	bool shut;                      /* answers wait until it is not */
	enum wrong wrong;
	unsigned times, cut;            /* so often; CUT: so many words are left */
	uint32_t holder[16];            /* TEST: DENIED is followed by these */
	unsigned nholder;
	uint32_t svid, oh[4], uid;      /* the last call's */
	uint64_t start;
	int state;                      /* the last LOCK's */
	uint32_t from;                  /* the last connection's address */
	_Atomic uint32_t getattr;       /* how NFS answers the call behind a LOCK */
} lockd;

/* The connection is lost. */
void lockd_cut(void);
/* It does that, so many times; 0: from now on. */
void lockd_does(enum wrong wrong, unsigned times);
/* How it answers from now on. */
void lockd_answers(uint32_t stat, unsigned grace);
/* Answers wait, or do not any more. */
void lockd_shuts(bool shut);
/* What was asked for since it was last looked at. */
void lockd_expect_log(const char *text);
void lockd_wait_for_log(const char *text);

/* ---- the mount ---- */

extern struct nfs3_mounted *mounted;
extern struct nfs_results res;          /* of the last call */
extern uint32_t uid;                    /* whose the next one is */

void lockd_start(void);
void lockd_stop(void);
/* The mount's NLM ends, and another one begins. */
void lockd_mount_again(void);
int ask(enum nfs_op op, uint64_t owner, uint64_t offset, uint64_t length, bool write, bool all);
int lock(uint64_t offset, uint64_t length, bool write);
int unlock(uint64_t offset, uint64_t length);
int test(void);
/* Begins one that has no end yet, of one byte. */
void begin_of(enum nfs_op op, uint64_t offset);
unsigned owners(void);
void wait_for_owners(unsigned n);
/* Until so many LOCKs and LOCKUs have no end yet. */
void wait_for_calls(unsigned locks, unsigned unlocks);
/* How often the log says so. */
unsigned said_times(const char *text);
