/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fabric without a peer. It keeps what is sent, and lets a test play the server. It checks
 * that messages are sent from, and received into, memory that no peer can write to.
 * Everything happens on the caller's thread, when the test says so.
 */
#pragma once

#include "fabric/fabric.h"

#define FAKE_SENDS 64u
#define FAKE_RECVS 256u
#define FAKE_OPENS 64u
#define FAKE_RKEY  0x5eedu

struct fake_send {
	uint8_t bytes[4096];
	uint32_t len;
	void *cookie;
};

#define FAKE_CONNS 12u
#define FAKE_WINDOWS 32u

enum fake_window_state { FAKE_FREE, FAKE_QUEUED, FAKE_BOUND, FAKE_ENDING };

struct fake_window {
	enum fake_window_state state;
	uint32_t rkey;
	const void *mem;
	size_t len;
	unsigned access;
	unsigned order;                 /* of its unbinding */
	void *cookie;                   /* ending: that is reported; NULL: with a later one */
};

struct fake_conn {
	bool open, attached;
	const struct fab_events *ev;
	void *ctx;
	struct fab_mr local, data;      /* registered without and with remote rights */
	bool data_has_windows;          /* windows may be bound to data */
	struct fab_mr recv;             /* of this connection alone */
	uint32_t rkey;                  /* of data; changes with each connection */
	bool silent;                    /* caps.silent_sends */
	bool per_call;                  /* data has no rkey; each segment has its own */
	uint32_t last_key;              /* rkey of the newest segment */
	unsigned nsegs;                 /* segments that are registered for calls now */
	unsigned nregs;                 /* registrations of segments ever */
	struct fake_window windows[FAKE_WINDOWS];
	unsigned nwindows;
	unsigned unbinds;               /* local invalidations ever */
	uint8_t priv[8];                /* what this side has sent */
	struct fake_send sends[FAKE_SENDS];
	unsigned nsends;                /* since the connection was opened */
	struct { void *mem; uint32_t len; void *cookie; } recvs[FAKE_RECVS];
	unsigned nrecvs;                /* posted and not yet used */
};

/* Connections. At most fake_most of them, 1 by default, are open at a time. The functions
 * below, and tests, use fake_used: the one that the thread has opened last, or that the test has
 * set for it. */
extern struct fake_conn fake_conns[FAKE_CONNS];
extern _Thread_local struct fake_conn *fake_used;
extern unsigned fake_most;
#define fake (*fake_used)
extern const struct fabric fabric_fake;

/* The private data that the next connection's peer sends. */
extern uint8_t fake_peer_priv[FAB_PRIV_RECV_MAX];
extern size_t fake_peer_priv_len;
/* Sets that to what knfsd sends (RFC 8797): 4,096 bytes inline both ways, and R = 0. */
void fake_peer_is_knfsd(void);
extern _Atomic int fake_connect_error;  /* 0, or what connect returns */
/* From this connection on, counted from 1, connect does not return. 0: it does. */
extern _Atomic unsigned fake_hangs_from;
/* When a connection was opened, by mono_ns(); the count is written last. */
extern uint64_t fake_open_ns[FAKE_OPENS];
extern _Atomic unsigned fake_opens;
extern unsigned fake_attach_errors;     /* so many connections cannot be taken into use */
extern int fake_post_send_error;        /* 0, or what post_send returns */
/* The next connection registers each segment for its call. */
extern bool fake_reg_per_call;
/* The next connection need not be told of each Send that has left. */
extern bool fake_silent_sends;
/* The next connection has as many memory windows as it wants. */
extern bool fake_has_windows;
/* 0, or what reg returns for a segment, what bind returns, and unbind. */
extern int fake_reg_error, fake_bind_error, fake_unbind_error;

/* The pieces of the domain, as every connection has them registered. The test fills them in. And
 * what reg_pieces returns. */
#define FAKE_PIECES 256u
extern struct fab_mr fake_pieces[FAKE_PIECES];
extern _Atomic int fake_pieces_error;

/* Called for each Send that is posted, or NULL. */
extern void (*fake_sending)(const struct fake_conn *f);

/* Any thread: is it attached, and are its events ctx's? */
bool fake_carries(const struct fake_conn *f, const void *ctx);
/* Delivers a message in the oldest posted receive. */
void fake_deliver(const void *bytes, uint32_t len);
/* The same by a Send With Invalidate. */
void fake_deliver_inv(const void *bytes, uint32_t len, uint32_t rkey);
/* Completes send i of this connection. */
void fake_complete(unsigned i);
/* Windows in that state. */
unsigned fake_in_state(enum fake_window_state s);
/* The oldest local invalidation has completed. False: there is none. */
bool fake_unbound(void);
/* The peer breaks the connection. */
void fake_break(void);
