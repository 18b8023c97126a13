/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsrdma-gateway: an RPC-over-RDMA responder (RFC 8166) in front of an NFS
 * server that speaks TCP.
 *
 *   client                       gateway                         NFS server
 *     | Send: header + call  ->   call.c                              |
 *     | <- RDMA Read (WRITE data, Long Call)                          |
 *     |                           record ----------------------> TCP  |
 *     |                           reply.c  <-------------------- TCP  |
 *     | <- RDMA Write (READ data, long reply)                         |
 *     | <- Send: header + reply                                       |
 *
 * One TCP connection for each RDMA connection, a "pair": the server sees as
 * many connections as the client makes, NFSv4.1 sessions and their back
 * channels included, and when one half of a pair breaks, so does the other.
 *
 * Everything runs on one thread, on one loop; there are no locks.
 *
 * Buffers: a call and its reply are each one contiguous record in a gw_buf,
 * which is registered with the pair's connection. File data is never copied
 * here: RDMA Read puts it where the record needs it, RDMA Write takes it from
 * where TCP put it. A gw_buf belongs to the gw_call that holds it; the call is
 * freed when the TCP side and the RDMA side both are done with it.
 *
 * The connection dies right here: `down` of the fabric, or an error or the end
 * of TCP, ends the pair (pair_end). It closes both connections, and only then
 * frees the calls: no peer reaches a buffer after close. What a client has not
 * got a reply for it sends again on its next connection. The server's session slot
 * tells it apart, or for version 3 our own cache (drc.c), which has to know what
 * became of it: a pair some of whose calls still run there keeps its TCP connection
 * until they are answered ("lingers"), for LINGER_MS at most.
 */
#ifndef GATEWAY_H
#define GATEWAY_H

#include <stdio.h>
#include <sys/socket.h>
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "fabric/fabric.h"
#include "rpcrdma/header.h"
#include "rpcrdma/pdata.h"

#define GW_INLINE  4096u                /* inline threshold, both directions */
#define GW_CREDITS 32u                  /* default of --credits */
/* The longest RPC message: 1 MiB of data and what goes around it. */
#define GW_MSG_MAX ((1u << 20) + (64u << 10))
/* Room before a record in its buffer, for the record mark. */
#define GW_MARK 4u
#define GW_BUF_BYTES (GW_MARK + GW_MSG_MAX)
/* Data items of one COMPOUND's reply that are placed. */
#define GW_ITEMS_MAX RR_WRITES_MAX

struct gateway;
struct gw_pair;
struct gw_scribble;
struct gw_drc_entry;

/* A registered piece of memory, made when first needed and kept by the pair. */
struct gw_buf {
	struct list node;       /* in pair->free, or unlinked */
	char *mem;              /* GW_BUF_BYTES */
	struct fab_mr mr;
};

/* A posted receive, or the message of a Send. */
struct gw_slot {
	struct list node;       /* slots for sending: in pair->send_free */
	char *mem;              /* GW_INLINE bytes in the pair's slot memory */
	struct gw_call *k;      /* that the Send answers, or NULL */
};

struct gw_call {
	struct list node;       /* in pair->calls, in the order of arrival */
	bool budgeted;          /* has memory dealt out to it */
	struct gw_slot *slot;   /* it waits for that: its message is here */
	uint32_t msg_at, msg_len;
	struct gw_pair *pair;
	struct rr_header h;     /* of the call: its chunks */
	uint32_t xid, prog, vers, proc;
	unsigned long number;   /* counts all calls of the gateway: for faults */
	struct gw_buf *call;    /* the record on its way to the server */
	uint32_t call_len;
	uint32_t call_sent;     /* bytes that TCP has taken, mark included */
	struct list out_node;   /* in pair->out, or in memory.waiting */
	struct gw_buf *reply;
	uint32_t reply_len;
	unsigned reads_left;    /* RDMA Reads that have not completed */
	unsigned sends_left;    /* RDMA Writes and Sends that have not */
	bool passed;            /* the server has it, or will */
	bool answered;          /* nothing more will be posted for it */
	bool late, held;        /* a fault: ... which will pass it on, and has not yet */
	struct gw_drc_entry *drc;       /* that it runs for, or waits for */
	struct loop_timer delay;        /* a fault */
};

/* Receiving records from TCP: mark, then bytes, for each fragment. */
struct gw_record_in {
	unsigned char mark[GW_MARK];
	uint32_t mark_have;     /* bytes of the mark that are there */
	uint32_t left;          /* bytes of this fragment that are missing */
	bool last;              /* this is the record's last fragment */
	struct gw_buf *buf;
	uint32_t have;          /* bytes of the record */
};

struct gw_pair {
	struct list node;       /* in gateway->pairs */
	struct gateway *gw;
	unsigned id;            /* for messages */
	const struct fabric *fab;
	struct fab_conn *conn;
	bool accepted;
	bool remote_inval;      /* the client's R */
	uint32_t inline_max;    /* largest message that the client receives */

	char *slot_mem;         /* receives, then slots for sending */
	struct fab_mr slot_mr;
	struct gw_slot *slots;
	struct list send_free;
	struct list free;       /* gw_bufs */
	unsigned nbufs;
	size_t budget;          /* its share of the memory, without its calls' */

	uint64_t busy_at;       /* when something came, mono_ns() */
	struct loop_timer idle;

	struct loop_watch tcp;
	bool tcp_ready;         /* connected */
	bool tcp_full;          /* waits until it takes more */
	struct list out;        /* gw_calls whose record has to be written */
	struct gw_record_in in;

	struct list calls;
	unsigned ncalls;        /* in it: open ones */
	bool ended;             /* for the client */
	bool lingers;           /* ended, and the server's connection is still there */
	struct loop_timer linger;
	struct loop_msg end_msg;        /* frees it, outside all callbacks */
	struct gw_scribble *scribble;   /* a fault: NULL until it is wanted */
};

/* ---- faults ---- */

enum gw_fault {
	FAULT_DROP_BEFORE,      /* the connection breaks before the call is passed on */
	FAULT_DROP_AFTER,       /* ... when the server has answered */
	FAULT_DELAY,            /* the reply is late by value ms */
	FAULT_LATE,             /* the call is passed on value ms late, its connection gone or not */
	FAULT_SHORT_REPLY,      /* the Reply chunk gets only half of the reply */
	FAULT_ERR_CHUNK, FAULT_ERR_VERS,        /* RDMA_ERROR instead of the reply */
	FAULT_CREDITS,          /* the reply grants value credits, and those after it */
	FAULT_WRONG_XID,        /* the reply's header has another XID; then the right one */
	FAULT_DUP_REPLY,        /* the reply comes twice */
	FAULT_TRUNCATE,         /* only value bytes of the reply's message are sent */
	FAULT_INVAL_WRONG,      /* Send With Invalidate of an STag that was not offered, R or not */
	FAULT_STALL_READ,       /* RDMA Reads start value ms late */
	FAULT_SCRIBBLE,         /* value RDMA Writes of random bytes, see scribble.c */
	FAULT_COUNT
};

struct gw_faults {
	struct gw_fault_rule {
		enum gw_fault kind;
		unsigned long first, every;     /* every 0: once */
		unsigned long value, most;      /* by chance between them */
		unsigned long seen;     /* calls from `first` on that can have it, of few */
	} rules[16];
	unsigned n;
	bool granting;          /* FAULT_CREDITS has happened */
	uint32_t grant;
};

/* Adds what --fault SPEC says: NAME@CALL[/EVERY][=VALUE[-MOST]][,...]. 0 or -EINVAL. */
int gw_faults_parse(struct gw_faults *f, const char *spec, struct errbuf *eb);
/*
 * Is it to happen at this call? *value is set if it has one. To be asked only
 * for a call that it can happen to, and once: it is logged, and a fault that few
 * calls can have (short-reply, stall-read, scribble) comes at CALL or the first after
 * it that can have it, and at every EVERY-th of those.
 */
bool gw_fault(struct gw_faults *f, enum gw_fault kind, unsigned long call,
	      unsigned long *value);
/* Is there such a rule? For what has to be kept from call to call. */
bool gw_fault_wanted(const struct gw_faults *f, enum gw_fault kind);
/* For --help: one line for each. */
void gw_faults_help(void);

/* ---- gateway ---- */

#define GW_DRC_HASH 256u

struct gw_drc {
	struct list lru, hash[GW_DRC_HASH];     /* of gw_drc_entry */
	unsigned n;
};

struct gw_memory {
	size_t max, taken;      /* bytes; dealt out */
	size_t bufs;            /* that are there */
	size_t slots;           /* bytes of all pairs' slots */
	struct list waiting;    /* gw_calls */
	struct loop_msg wake;
	bool waking;            /* it is posted */
};

struct gw_allow {
	bool on;
	unsigned uid;
	FILE *lists[2];         /* /proc/net/tcp, tcp6 */
};

struct gateway {
	struct loop *loop;
	const struct fabric *fab;
	struct fab_listener *listener;
	struct sockaddr_storage server;
	bool unreachable;       /* the server: has been said */
	unsigned credits;
	unsigned ids;
	unsigned long ncalls;
	struct list pairs;
	struct gw_memory memory;
	unsigned idle_ms;       /* 0: connections stay */
	struct gw_allow allow;
	struct gw_drc drc;
	struct gw_faults faults;
};

/* ---- gw_listen.c ---- */

/*
 * "ADDRESS", "ADDRESS:PORT", "[ADDRESS]", "[ADDRESS]:PORT", and ":PORT" if `any`
 * is set: the address that then is meant. port: if none is given. 0 or -EINVAL.
 */
int gw_address(const char *text, const char *port, const char *any,
	       struct sockaddr_storage *out, struct errbuf *eb);

/* Listens with the fabric of that name, or "auto": sets gw->fab and
 * gw->listener. 0 or -errno, eb set. */
int gw_listen(struct gateway *gw, const char *fabric, const struct fab_params *params,
	      struct errbuf *eb);

/* ---- pair.c ---- */

/* For the listener: work requests outstanding at once on one connection. */
unsigned pair_max_send(const struct gateway *gw);
unsigned pair_max_recv(const struct gateway *gw);

/* fab_listen_events: a client wants to connect. ctx is the gateway. */
void pair_request(void *ctx, struct fab_conn *c, const void *priv, size_t privlen);
/* The server is connected: takes the client's connection. */
void pair_accept(struct gw_pair *p);
/* Ends it, and says why unless that is NULL. May be called from any callback;
 * the pair is freed later: when the server's connection has gone, or nothing of
 * its calls runs there. */
void pair_end(struct gw_pair *p, const char *why);
/* The server has answered one of its calls: it need not linger for that any more. */
void pair_linger_check(struct gw_pair *p);
/* Frees it now: when the loop has ended. */
void pair_free(struct gw_pair *p);

/* A call object in pair->calls; NULL: the pair has ended, as there is no memory
 * or the client has far more calls open than it was granted. */
struct gw_call *pair_call(struct gw_pair *p);
/* Frees it if both sides are done with it. */
void pair_call_done(struct gw_call *k);

/*
 * Sends len bytes as one message. k: the call that it answers, or NULL. inval:
 * with Invalidate of that handle. Ends the pair if that cannot be done.
 */
void pair_send(struct gw_pair *p, struct gw_call *k, const void *msg, size_t len,
	       bool inval, uint32_t handle);

/* The receive's message has been taken. */
void pair_recv_again(struct gw_pair *p, struct gw_slot *slot);

/* ---- memory.c ---- */

void memory_init(struct gw_memory *a, size_t max);
/* The pair's own share, with so many bytes of slots; false: there is no room. */
bool memory_take_pair(struct gw_pair *p, size_t slots);
void memory_give_pair(struct gw_pair *p);
/* A call's share; false: not now. */
bool memory_take_call(struct gw_call *k);
/* call_resume(k) follows, unless its pair ends before. */
void memory_wait(struct gw_call *k);
void memory_give_call(struct gw_call *k);
/* A buffer for a record, of what has been dealt out; NULL: no memory, or more than
 * the credits allow. */
struct gw_buf *pair_buf(struct gw_pair *p);
void pair_buf_put(struct gw_pair *p, struct gw_buf *b);
/* All that it does not use. */
void pair_bufs_free(struct gw_pair *p);

/* ---- allow.c ---- */

/* Opens the lists. 0 or -errno, eb set. */
int allow_open(struct gw_allow *a, struct errbuf *eb);
void allow_close(struct gw_allow *a);
/* Is it a connection of that user's, between these addresses of this machine? Says
 * so if not. */
bool allow_peer(const struct gw_allow *a, const struct sockaddr_storage *local,
		const struct sockaddr_storage *peer);
/* Enters the network name space of that process, for connections to the server. */
int enter_server(const char *pid, struct errbuf *eb);

/* ---- call.c: RDMA to TCP ---- */

/* A message of the client's. */
void call_received(struct gw_pair *p, struct gw_slot *slot, uint32_t len);
/* There is memory for a call that waited for it. */
void call_resume(struct gw_call *k);
/* One of its RDMA Reads has completed. */
void call_read_done(struct gw_call *k);

/* ---- args.c ---- */

/* The record is there: are its Read chunks where such may be, and as long as what
 * they stand for? */
bool args_reads_ok(const struct gw_call *k);

/* ---- drc.c ---- */

void drc_init(struct gw_drc *d);
/* When no call is left. */
void drc_clear(struct gw_drc *d);
/*
 * A call is about to be passed on. true: it is not to be; it has its answer, and may
 * be gone, or gets it when the call that it repeats has.
 */
bool drc_take(struct gw_call *k);
/* k->reply is there. */
void drc_answered(struct gw_call *k);
/* Is it one whose answer is to be kept? */
bool drc_runs(const struct gw_call *k);
/* It will not be answered, or needs no answer any more. */
void drc_gone(struct gw_call *k);

/* ---- tcp.c ---- */

/* Starts to connect; if that cannot be, the pair has ended. */
void tcp_open(struct gw_pair *p);
void tcp_close(struct gw_pair *p);
/* Queues k's record. */
void tcp_send(struct gw_call *k);

/* ---- reply.c: TCP to RDMA ---- */

/* The credits that replies grant. */
uint32_t reply_granted(const struct gateway *gw);
/* A record of the server's: the callee puts b back or keeps it. */
void reply_received(struct gw_pair *p, struct gw_buf *b, uint32_t len);
/* Answers k, which was not passed on, with this record. k may be gone. */
void reply_repeat(struct gw_call *k, const char *record, uint32_t len);
/* RDMA_ERROR, for a call whose header is not usable (k NULL) or cannot be served. */
void reply_error(struct gw_pair *p, struct gw_call *k, uint32_t xid, uint32_t err);

/* ---- scribble.c: a fault ---- */

/* RDMA Writes of one pair that have not completed. */
#define SCRIBBLES_MAX 64u

/* A call has come: keeps its handles, and scribbles if it is time. The pair may
 * have ended on return. */
void scribble_call(struct gw_call *k);
/* The RDMA Write whose cookie was p->scribble has completed. */
void scribble_written(struct gw_pair *p);
/* After the connection's end. */
void scribble_free(struct gw_pair *p);

/* ---- items.c ---- */

/* A result that may be placed: its bytes in the reply record. */
struct gw_item {
	uint32_t pos, len;
};

/*
 * The data items of a reply that RFC 8267 lets be placed, in their order: the
 * data of READ, the link text of READLINK, of version 3 and of each operation
 * in a COMPOUND. Returns how many, at most GW_ITEMS_MAX; a reply that cannot be
 * understood has none.
 */
unsigned gw_items(const struct gw_call *k, const char *reply, uint32_t len,
		  struct gw_item out[static GW_ITEMS_MAX]);

/* A 32-bit word of a message in network order. */
static inline uint32_t gw_word(const char *at)
{
	const unsigned char *p = (const unsigned char *)at;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

#endif
