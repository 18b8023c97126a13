/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fabric carries messages and places data: reliable connected Send/Receive, plus RDMA
 * Read and Write against registered memory. Providers: verbs (rdma-core: InfiniBand, RoCE,
 * kernel iWARP) and iwarp (user space, over a TCP socket).
 *
 * Life of a connection, and which thread may call what:
 *
 *   connecting thread (may block)             lane thread (never blocks)
 *   -----------------------------             --------------------------
 *   open      address, route, QP, CQ
 *   reg       memory
 *   post_recv all receives
 *   connect   private data both ways
 *                      ----- handed over ----->
 *                                             attach   events go to its loop
 *                                             post_recv, post_send, reg, dereg
 *                                             close    QP gone, nothing in flight
 *
 * On the passive side everything runs on loops. listen reports each connection request of a
 * peer as a connection that is already open. For each, the owner registers memory, posts
 * its receives, and calls accept (which does not wait) and attach, or else reject. It may
 * do so on the loop of another thread, which then owns the connection.
 *
 * A connection that breaks reports `down` exactly once and calls its owner no more. The
 * owner still has to close it. After close returns, neither the peer nor the device can
 * touch any buffer that was posted or registered.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"

enum {
	FAB_REMOTE_READ  = 1,   /* the peer may RDMA-Read it */
	FAB_REMOTE_WRITE = 2,   /* the peer may RDMA-Write it */
	FAB_WINDOWS      = 4,   /* windows may be bound to it */
};

/* Largest private data that connect takes and returns (RDMA CM, RoCE: 56 / 196). */
#define FAB_PRIV_SEND_MAX 56
#define FAB_PRIV_RECV_MAX 256

struct fab_conn;                /* the provider's own */

/* A registered range. addr is how the peer names its start in a segment's offset. */
struct fab_mr {
	void *base;
	size_t len;
	uint64_t addr;
	uint32_t lkey, rkey;
	void *priv;             /* the provider's own */
};

/* A piece of registered local memory. */
struct fab_sge {
	void *mem;
	uint32_t len;
	uint32_t lkey;
};

#define FAB_SGE_MAX 4

enum {
	FAB_CRC      = 1,       /* iwarp: ask for CRC32c on every frame */
	FAB_MSS_FPDU = 2,       /* iwarp: frames that fit a TCP segment (for hardware peers) */
};

/*
 * What the connections of one owner share: the memory that reg_shared registered, for each
 * device. A domain outlives the connections that name it.
 *
 * Besides, it has pieces of memory that come and go while connections are in use. Each device
 * of the domain registers all of them, once for each kind of access that its connections want
 * (reg_pieces), also a device that comes later:
 *
 *     fab_domain       pieces    0: 16 MiB   1: -   2: 16 MiB
 *         fab_device   mlx5_0    FAB_WINDOWS:            { mr 0, -, mr 2 }
 *         fab_device   mlx5_1    READ | WRITE:           { mr 0, -, mr 2 }
 *
 * Lanes look a piece up without a lock. Its entry does not change from fab_domain_add() to
 * fab_domain_remove(), and between the two the owner hands its memory out and gets it back.
 *
 * A device that comes later has all pieces, or cannot be used. But memory of another device (a dma-buf)
 * it may lack: a program has brought that, and it must not keep others from their server. Then the
 * entry has len 0, and calls with that memory fail on this device.
 */
struct fab_piece {
	void *mem;
	size_t len;             /* 0: there is none */
	int dmabuf;             /* of memory of another device, which is mapped at mem: the descriptor, open
				 * as long as the piece is one. -1: memory of this process */
};

struct fab_domain {
	pthread_mutex_t mu;
	struct list devices;    /* fab_device.node */
	struct fab_piece *pieces;
	unsigned npieces;
	pthread_mutex_t ending_mu;      /* for the rest; a lane takes it */
	unsigned ending;        /* connections that are closed, and not yet gone at the device */
	pthread_cond_t ended;
};

void fab_domain_init(struct fab_domain *d);
/* Waits for those that are not yet gone, which may take a few seconds. */
void fab_domain_fini(struct fab_domain *d);
/* For providers: a connection is closed and will be gone later; and now it is. */
void fab_domain_wait_for(struct fab_domain *d);
void fab_domain_done(struct fab_domain *d);

/* Before there are connections: it may have n pieces. 0 or -ENOMEM. */
int fab_domain_pieces(struct fab_domain *d, unsigned n);
/* A thread that may block: all devices register piece i. 0; or -errno with eb set, and none of
 * them has it. */
int fab_domain_add(struct fab_domain *d, unsigned i, const struct fab_piece *piece, struct errbuf *eb);
/* The same backwards. No device that comes now gets it. false: a device could not end its
 * registration, because something still refers to it. Then call it again later. */
bool fab_domain_remove(struct fab_domain *d, unsigned i);

/* A device's part of a domain. The provider has it in a struct of its own; with the domain's
 * lock. */
struct fab_device {
	struct list node;
	struct list tables;     /* of registered pieces, one for each kind of access */
	/* how: the provider's word for the access. 0 or -errno, with eb set. */
	int (*reg)(struct fab_device *dev, const struct fab_piece *piece, int how, struct fab_mr *out,
		   struct errbuf *eb);
	/* 0, or -errno: it is still registered. */
	int (*dereg)(struct fab_device *dev, struct fab_mr *mr);
};

/* The pieces as that device has them registered: *out has as many entries as the domain has
 * pieces, and lasts as long as the device's part. 0 or -errno with eb set. */
int fab_device_pieces(struct fab_domain *d, struct fab_device *dev, int how,
		      const struct fab_mr **out, struct errbuf *eb);
void fab_device_fini(struct fab_domain *d, struct fab_device *dev);

struct fab_params {
	struct fab_domain *domain;      /* NULL: the connection shares nothing */
	struct sockaddr_storage server; /* not for listen */
	struct sockaddr_storage local;  /* ss_family AF_UNSPEC: any */
	unsigned max_send, max_recv;    /* work requests outstanding at once */
	unsigned windows;               /* memory windows wanted; 0: none */
	bool windows_sound;             /* none from a driver that is known to fail with them */
	unsigned timeout_ms;            /* for each step of open, connect, listen */
	unsigned flags;                 /* FAB_CRC ... */
	/* RDMA Reads outstanding at once: ird are the peer's on our memory, ord are
	 * ours; further ones of ours wait. ird 0: verbs what the device can do, up to 128;
	 * iwarp 16. ord 0: on the passive side as many as ird, on the active side none. */
	unsigned ird, ord;
	/* What may be wrong when the connection fails, or NULL. Messages give it in
	 * brackets behind the reason. It must outlive the connection. */
	const char *hint;
};

struct fab_events {
	/* A Send arrived in the receive posted with `cookie`; len bytes are valid.
	 * invalidated: it was a Send With Invalidate of rkey. */
	void (*recv)(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey);
	/* The Send posted with `cookie` has left; its buffers are the owner's again. */
	void (*sent)(void *ctx, void *cookie);
	/* May be NULL if post_write and post_read are not used. written: the data has
	 * left, and its buffers are the owner's again (a Send posted later arrives after
	 * it). read: the data is here. */
	void (*written)(void *ctx, void *cookie);
	void (*read)(void *ctx, void *cookie);
	/* The windows that were unbound with `cookie` are free. May be NULL if bind is not
	 * used. */
	void (*unbound)(void *ctx, void *cookie);
	/* The connection is lost. err is a negative errno, why a short text for the log.
	 * The callee may close the connection inside this call. */
	void (*down)(void *ctx, int err, const char *why);
};

/* What a provider can do; constant for the life of a connection. */
struct fab_caps {
	bool reg_per_call;      /* reg and dereg cost next to nothing: use them for each RPC */
	bool silent_sends;      /* post_send needs no cookie */
	bool remote_inval;      /* the peer may invalidate what reg has registered */
	bool windows;           /* there are as many as params wanted; the peer may
				 * invalidate them */
};

struct fab_listener;            /* the provider's own */

struct fab_listen_events {
	/* A peer asks for a connection and sends `priv` (at most FAB_PRIV_RECV_MAX
	 * bytes), which is valid during the call. c is open and belongs to the callee.
	 * Now or later the callee must accept, reject or close it. */
	void (*request)(void *ctx, struct fab_conn *c, const void *priv, size_t privlen);
};

struct fabric {
	const char *name;       /* "verbs", "iwarp" */

	/*
	 * Is there a local device that reaches the server? 0, or -errno with the reason in
	 * eb. Blocks for timeout_ms at most.
	 */
	int (*probe)(const struct fab_params *p, struct errbuf *eb);

	/* Resolves address and route, and makes the queues. 0, or -errno with eb set. */
	int (*open)(const struct fab_params *p, struct fab_conn **out, struct errbuf *eb);
	/*
	 * Sends `priv` (at most FAB_PRIV_SEND_MAX) with the connection request and waits
	 * for the answer. Fills peer_priv (FAB_PRIV_RECV_MAX bytes) and *peer_len. All
	 * receives must have been posted. 0 or -errno: -ECONNREFUSED if nobody listens or
	 * the peer rejected us (iwarp: peer_priv then has its private data), -ETIMEDOUT,
	 * -ENETUNREACH, ...
	 */
	int (*connect)(struct fab_conn *c, const void *priv, size_t privlen,
		       void *peer_priv, size_t *peer_len, struct errbuf *eb);
	void (*caps)(const struct fab_conn *c, struct fab_caps *out);
	/* Names the device and the local address for messages. The text belongs to the
	 * connection. */
	const char *(*describe)(const struct fab_conn *c);

	/* access: FAB_REMOTE_*; local access is always given. 0 or -errno. */
	int (*reg)(struct fab_conn *c, void *mem, size_t len, unsigned access,
		   struct fab_mr *out, struct errbuf *eb);
	/* The same for mem..mem+len, which lies in what `in` has registered: that may be a piece
	 * which is memory of another device. NULL in a provider where reg does that. */
	int (*reg_part)(struct fab_conn *c, const struct fab_mr *in, void *mem, size_t len, unsigned access,
			struct fab_mr *out, struct errbuf *eb);
	void (*dereg)(struct fab_conn *c, struct fab_mr *mr);
	/* reg for all connections of the domain on this device. The first that asks
	 * registers the memory, and it stays registered until the last of them is
	 * closed. Do not dereg it. Where registering costs next to nothing this is reg. */
	int (*reg_shared)(struct fab_conn *c, void *mem, size_t len, unsigned access,
			  struct fab_mr *out, struct errbuf *eb);
	/* The domain's pieces, those to come included, are registered for all its connections
	 * on this device. *out: by number. 0 or -errno with eb set. NULL in a provider that
	 * registers for each RPC. */
	int (*reg_pieces)(struct fab_conn *c, unsigned access, const struct fab_mr **out,
			  struct errbuf *eb);

	/*
	 * Memory windows (type 2): the peer's right to a piece of registered memory, given
	 * and taken back by work requests, without a system call. NULL in a provider whose
	 * caps.windows is never true.
	 *
	 *     free --bind--> queued --post_send--> bound --unbind--> ending --unbound--> free
	 *      ^                |                    |
	 *      +----unbind------+   +----unbind------+  (the peer has invalidated it)
	 *      +--------------------+
	 */
	/* Binds a free window to mem..mem+len, which lies in `in`; that was registered with
	 * FAB_WINDOWS. The peer gets `access` (FAB_REMOTE_*). Each binding has a new rkey.
	 * The work request leaves with the next post_send, in front of it. -EAGAIN: no
	 * window is free. */
	int (*bind)(struct fab_conn *c, const struct fab_mr *in, void *mem, size_t len,
		    unsigned access, struct fab_mr *out);
	/* Ends the peer's rights to n windows. 1: `unbound` follows, and the rights last
	 * until then. 0: nothing was left to be done, because each was still queued, or
	 * the peer has invalidated it: *by_peer is that one's rkey (NULL: none).
	 * -errno: the rights last until close. */
	int (*unbind)(struct fab_conn *c, struct fab_mr *mrs, unsigned n,
		      const uint32_t *by_peer, void *cookie);

	int (*post_recv)(struct fab_conn *c, const struct fab_sge *sge, void *cookie);
	/*
	 * Posts one Send of n <= FAB_SGE_MAX pieces. 0 or -errno. `sent` follows for
	 * each, unless the connection goes down first.
	 *
	 * With caps.silent_sends the cookie may be NULL, which saves a completion: `sent`
	 * does not follow, and the pieces are the owner's again when the peer has answered
	 * the message. (A peer that answers what it has not received may get what the owner
	 * puts there next. So pieces that a Send was posted from must not be used for another
	 * peer while the connection lasts.) -EAGAIN: too many are under way; `sent` with a
	 * NULL cookie follows when there is room.
	 */
	int (*post_send)(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie);

	/* From here on loop callbacks deliver the events. */
	int (*attach)(struct fab_conn *c, struct loop *l, const struct fab_events *ev, void *ctx);
	/* In any state, at any time, once. */
	void (*close)(struct fab_conn *c);

	/* The rest is for servers and gateways. It is NULL in a provider that has only
	 * the active side. */

	/* post_send, as a Send With Invalidate of the peer's rkey. -EOPNOTSUPP: the
	 * device cannot do that. */
	int (*post_send_inv)(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
			     uint32_t rkey, void *cookie);
	/* RDMA Write of all pieces to the peer's memory. `written` follows. */
	int (*post_write)(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
			  uint32_t rkey, uint64_t addr, void *cookie);
	/* RDMA Read of sge->len bytes of the peer's memory into sge, which must be
	 * registered (access 0 will do). `read` follows. Reads are done in the order of
	 * posting; there is no order between them and Sends or Writes. */
	int (*post_read)(struct fab_conn *c, const struct fab_sge *sge,
			 uint32_t rkey, uint64_t addr, void *cookie);

	/* Looks whether the peer has ended the connection, ahead of what came before that and
	 * has not been handled. If so, `down` comes inside this call. */
	void (*look)(struct fab_conn *c);

	/* Listens on p->local. Connection requests come from loop l; the connections
	 * have p's limits. 0, or -errno with eb set. */
	int (*listen)(const struct fab_params *p, struct loop *l,
		      const struct fab_listen_events *ev, void *ctx,
		      struct fab_listener **out, struct errbuf *eb);
	/* The address it listens on, with the port that the system chose if none was
	 * given. */
	void (*listen_addr)(const struct fab_listener *li, struct sockaddr_storage *out);
	/* Connections that were handed out stay with their owners. */
	void (*unlisten)(struct fab_listener *li);
	/* Accepts the request with priv. 0: call attach next. -errno with eb set: call
	 * close. All receives must have been posted. */
	int (*accept)(struct fab_conn *c, const void *priv, size_t privlen, struct errbuf *eb);
	/* Rejects the request with priv, and closes c. */
	void (*reject)(struct fab_conn *c, const void *priv, size_t privlen);
	/* Both addresses of a requested connection. NULL in a provider whose addresses
	 * are not those of a socket. */
	void (*addrs)(const struct fab_conn *c, struct sockaddr_storage *local,
		      struct sockaddr_storage *peer);
};

extern const struct fabric fabric_verbs;
extern const struct fabric fabric_iwarp;

/* The provider of that name; NULL if there is none. */
const struct fabric *fabric_by_name(const char *name);

/* "10.0.0.1 port 20049" / "[fe80::1%eth0] port 20049", for messages. Port 0 is left out. */
const char *fab_addr_text(const struct sockaddr_storage *ss, char *buf, size_t len);
