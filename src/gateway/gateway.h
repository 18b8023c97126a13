/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsrdma-gateway: an RPC-over-RDMA responder (RFC 8166) in front of an NFS
 * server that speaks TCP.
 *
 *   client                       gateway                         NFS server
 *     | Send: header + call  ->   call.c                              |
 *     | <- RDMA Read (WRITE data, Long Call)                          |
 *     |                           record ----------------------> TCP  |
 *     |                        gw_reply.c  <-------------------- TCP  |
 *     | <- RDMA Write (READ data, long reply)                         |
 *     | <- Send: header + reply                                       |
 *
 * There is one TCP connection for each RDMA connection; the two are a "pair". So the server
 * sees as many connections as the client makes, with NFSv4.1 sessions and their back
 * channels. When one half of a pair breaks, so does the other.
 *
 * Everything runs on one thread, on one loop; there are no locks.
 *
 * Buffers: a call and its reply are each one contiguous record in a gw_buf, which is
 * registered with the pair's connection. File data is never copied here: RDMA Read puts it
 * where the record needs it, and RDMA Write takes it from where TCP put it. A gw_buf
 * belongs to the gw_call that holds it. The call is freed when both the TCP side and the
 * RDMA side are done with it.
 *
 * When `down` of the fabric, or an error or the end of TCP, ends the pair (pair_end), both
 * connections are closed, and only then the calls are freed: no peer reaches a buffer after
 * close. The client sends calls without a reply again on its next connection. The server
 * recognizes them by the session slot, or for version 3 our own cache does (drc.c), which
 * must know what became of them. So if some of the pair's calls still run on the server,
 * the pair keeps its TCP connection until they are answered: it "lingers", for LINGER_MS at
 * most. What the server has no part of by then it does not get (tcp_withdraw).
 *
 * A pair ends as well if its client takes no part in what was posted for a minute, as an RDMA
 * Read that it does not answer (pair_posted).
 */
#pragma once

#include <stdio.h>
#include <sys/socket.h>
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "fabric/fabric.h"
#include "rpcrdma/header.h"
#include "rpcrdma/pdata.h"

#define GW_INLINE  4096u                /* inline threshold, both directions */
#define GW_CREDITS 32u                  /* default of --credits */
/* The longest RPC message: 4 MiB of data and what surrounds it. */
#define GW_MSG_MAX ((4u << 20) + (64u << 10))
/* Room for the record mark before a record in its buffer. */
#define GW_MARK 4u
/* A buffer is for messages with up to 1 MiB of data, or it is a large one. */
#define GW_BUF_BYTES ((size_t)GW_MARK + (1u << 20) + (64u << 10))
#define GW_LARGE_BYTES ((size_t)GW_MARK + GW_MSG_MAX)
/* The most data items of one COMPOUND's reply that are placed. */
#define GW_ITEMS_MAX RR_WRITES_MAX

#define GW_NO_USER UINT32_MAX

struct gateway;
struct gw_pair;
struct gw_scribble;
struct gw_drc_entry;

/* A registered buffer, made when first needed and kept by the pair. */
struct gw_buf {
	struct list node;       /* in pair->free, or unlinked */
	char *mem;
	size_t size;            /* GW_BUF_BYTES or GW_LARGE_BYTES */
	struct fab_mr mr;
};

/* A posted receive, or the message of a Send. */
struct gw_slot {
	struct list node;       /* slots for sending: in pair->send_free */
	char *mem;              /* GW_INLINE bytes in the pair's slot memory */
	struct gw_call *k;      /* the call that the Send answers, or NULL */
};

struct gw_call {
	struct list node;       /* in pair->calls, in the order of arrival */
	bool budgeted;          /* it has its share of the memory: */
	size_t call_size, reply_size;   /* what its buffers have */
	struct gw_slot *slot;   /* while it waits for memory: its message */
	uint32_t msg_at, msg_len;
	struct gw_pair *pair;
	struct rr_header h;     /* the call's transport header */
	uint32_t xid, prog, vers, proc;
	unsigned long number;   /* counts the calls of the gateway, for faults */
	struct gw_buf *call;    /* the record on its way to the server */
	uint32_t call_len;
	uint32_t call_sent;     /* bytes that TCP has taken, mark included */
	struct list out_node;   /* in pair->out, or in memory.waiting */
	struct gw_buf *reply;
	uint32_t reply_len;
	unsigned reads_left;    /* RDMA Reads that have not completed */
	unsigned sends_left;    /* RDMA Writes and Sends that have not */
	bool passed;            /* the server has it, or will get it */
	bool answered;          /* nothing more will be posted for it */
	bool late, held;        /* fault "late": hit by it; not passed on yet */
	struct gw_drc_entry *drc;       /* the entry that it runs for, waits for, or whose
					 * reply it is sent */
	struct loop_timer delay;        /* for faults */
};

/* The most calls of the server to one client at a time, on their way or waiting; and how many of
 * them the client has at once, if it grants so many. */
#define GW_BACK_MAX 16u
#define GW_BACK_CREDITS 8u

/* A call of the server, and then the client's answer (gw_back.c). */
struct gw_back {
	struct list node;       /* in one of the lists of gw_back_channel */
	uint32_t xid;
	uint32_t len, sent;     /* of the record; of it and its mark to TCP */
	char mem[GW_MARK + GW_INLINE];
};

struct gw_back_channel {
	struct list waiting, asked, out;        /* for credits; for the client; for TCP */
	unsigned n, nasked, ndropped;   /* of all; of `asked`; and that were dropped */
	unsigned grant;         /* the client's */
};

/* Receives records from TCP: for each fragment its mark, then its bytes. */
struct gw_record_in {
	unsigned char mark[GW_MARK];
	uint32_t mark_have;     /* bytes of the mark received */
	uint32_t left;          /* bytes of this fragment still to come */
	bool last;              /* this is the record's last fragment */
	struct gw_buf *buf;
	uint32_t have;          /* bytes of the record received */
};

/* Replies that the duplicate request cache keeps (drc.c). */
struct gw_drc_kept {
	struct list list;       /* of gw_drc_entry, newest first */
	unsigned n;
};

/* A peer: an address, on this machine a user (peer.c). */
struct gw_peer {
	struct list node;       /* in gateway->peers */
	unsigned pairs;
	uint8_t addr[16];       /* an IPv4 address as IPv6 has it */
	unsigned uid;           /* GW_NO_USER: unknown, or another machine's */
	size_t taken, calls;    /* of the memory: all, and that of calls */
	unsigned long passed;   /* memory.c: a call of it was passed over in this search */
};

struct gw_pair {
	struct list node;       /* in gateway->pairs */
	struct gateway *gw;
	struct gw_peer *peer;
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
	size_t budget;          /* its share of the memory, without that of its calls */

	uint64_t busy_at;       /* when a message last came, mono_ns() */
	struct loop_timer idle;
	unsigned posted;        /* Reads, Writes and Sends that have not completed */
	uint64_t moved_at;      /* when one of them last did, or the first was posted */
	struct loop_timer stall;
	bool stall_set;

	struct loop_watch tcp;
	bool tcp_ready;         /* connected */
	bool tcp_full;          /* waits until the socket takes more */
	struct list out;        /* gw_calls whose record must be written */
	struct gw_record_in in;

	struct gw_back_channel back;
	struct list calls;
	unsigned ncalls;        /* length of `calls` */
	bool ended;             /* the client's connection has ended */
	struct gw_drc_kept recent;      /* replies that the client may not have got */
	bool lingers;           /* ended, but the TCP connection is kept */
	struct loop_timer linger;
	struct loop_msg end_msg;        /* frees the pair outside of all callbacks */
	struct gw_scribble *scribble;   /* for fault "scribble"; NULL until needed */
};

/* ---- faults ---- */

enum gw_fault {
	FAULT_DROP_BEFORE,      /* the connection breaks before the call is passed on */
	FAULT_DROP_AFTER,       /* ... when the server has answered */
	FAULT_DELAY,            /* the reply is sent value ms late */
	FAULT_LATE,             /* the call is passed on value ms late, even without its client */
	FAULT_SHORT_REPLY,      /* the Reply chunk gets only half of the reply */
	FAULT_ERR_CHUNK, FAULT_ERR_VERS,        /* RDMA_ERROR instead of the reply */
	FAULT_CREDITS,          /* this reply and all later ones grant value credits */
	FAULT_WRONG_XID,        /* the reply comes with a wrong XID, and then with the right one */
	FAULT_DUP_REPLY,        /* the reply comes twice */
	FAULT_TRUNCATE,         /* only value bytes of the reply's message are sent */
	FAULT_INVAL_WRONG,      /* Send With Invalidate of an STag not offered, R or not */
	FAULT_STALL_READ,       /* RDMA Reads start value ms late */
	FAULT_SCRIBBLE,         /* value RDMA Writes of random bytes, see scribble.c */
	FAULT_COUNT
};

struct gw_faults {
	struct gw_fault_rule {
		enum gw_fault kind;
		unsigned long first, every;     /* every 0: once */
		unsigned long value, most;      /* a random number between them */
		unsigned long seen;     /* calls from `first` on that can have it, of few */
	} rules[16];
	unsigned n;
	bool granting;          /* FAULT_CREDITS has happened */
	uint32_t grant;
};

/* Adds the faults of --fault SPEC: NAME@CALL[/EVERY][=VALUE[-MOST]][,...]. 0 or -EINVAL. */
int gw_faults_parse(struct gw_faults *f, const char *spec, struct errbuf *eb);
/*
 * Must the fault happen at this call? *value is set if the fault has one. A fault that must
 * happen is logged, so ask once, and only for a call that it can happen to. A fault that
 * only few calls can have (short-reply, stall-read, scribble) happens at CALL or the first
 * such call after it, and then at every EVERY-th of such calls.
 */
bool gw_fault(struct gw_faults *f, enum gw_fault kind, unsigned long call,
	      unsigned long *value);
/* Is there a rule for that fault? For state that must be kept from call to call. */
bool gw_fault_wanted(const struct gw_faults *f, enum gw_fault kind);
/* Prints one line for each fault, for --help. */
void gw_faults_help(void);

/* ---- gateway ---- */

#define GW_DRC_HASH 256u

struct gw_drc {
	uint64_t calls;                 /* of all clients, so far */
	struct list busy;               /* of gw_drc_entry, as the others */
	struct hash_node *by_sum[GW_DRC_HASH];
	struct gw_drc_kept lost, old;
};

struct gw_memory {
	size_t max, taken;      /* bytes that may be dealt out, and are */
	size_t bufs;            /* bytes of the buffers that exist */
	size_t slots;           /* bytes of all pairs' slots */
	struct list waiting;    /* gw_calls */
	unsigned long searches;
	struct loop_msg wake;
	bool waking;            /* wake is posted */
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
	bool unreachable;       /* the log says so about the server */
	unsigned credits;
	unsigned ids;
	unsigned long ncalls;
	struct list pairs, peers;
	struct gw_memory memory;
	unsigned idle_ms;       /* 0: connections stay */
	struct gw_allow allow;
	struct gw_drc drc;
	struct gw_faults faults;
};

/* ---- gw_listen.c ---- */

/*
 * Parses "ADDRESS", "ADDRESS:PORT", "[ADDRESS]" or "[ADDRESS]:PORT". If `any` is set,
 * ":PORT" is allowed, too, and means that address. port: used if the text has none. 0 or
 * -EINVAL.
 */
int gw_address(const char *text, const char *port, const char *any,
	       struct sockaddr_storage *out, struct errbuf *eb);

/* Listens with the fabric of that name, or "auto". Sets gw->fab and gw->listener. 0, or
 * -errno with eb set. */
int gw_listen(struct gateway *gw, const char *fabric, const struct fab_params *params,
	      struct errbuf *eb);

/* ---- pair.c ---- */

/* For the listener: the most work requests outstanding on one connection. */
unsigned pair_max_send(const struct gateway *gw);
unsigned pair_max_recv(const struct gateway *gw);

/* fab_listen_events: a client wants to connect. ctx is the gateway. */
void pair_request(void *ctx, struct fab_conn *c, const void *priv, size_t privlen);
/* The server is connected: accepts the client's connection. */
void pair_accept(struct gw_pair *p);
/* Ends the pair; the log says why unless that is NULL. May be called from any callback.
 * The pair is freed later: when the TCP connection is closed, or none of its calls runs
 * on the server any more. */
void pair_end(struct gw_pair *p, const char *why);
/* The server has answered one of the pair's calls: ends the lingering if that was the
 * last. */
void pair_linger_check(struct gw_pair *p);
/* Frees the pair at once. For the time after the loop has ended. */
void pair_free(struct gw_pair *p);

/* The most calls that a client may have without a reply. */
unsigned pair_credits(const struct gateway *gw);
/* Adds a call to pair->calls. NULL: the pair has ended, because there is no memory or
 * because the client has far more calls open than it was granted. */
struct gw_call *pair_call(struct gw_pair *p);
/* Frees the call if both sides are done with it. */
void pair_call_done(struct gw_call *k);

/*
 * Sends len bytes as one message. k: the call that it answers, or NULL. inval: send With
 * Invalidate of that handle. Ends the pair if the message cannot be sent.
 */
void pair_send(struct gw_pair *p, struct gw_call *k, const void *msg, size_t len,
	       bool inval, uint32_t handle);

/* An RDMA Read, a Write or a Send has been posted. The client has to take part in it, and the
 * pair ends if it does not. */
void pair_posted(struct gw_pair *p);

/* Posts the receive again, whose message has been handled. */
void pair_recv_again(struct gw_pair *p, struct gw_slot *slot);

/* ---- memory.c ---- */

void memory_init(struct gw_memory *a, size_t max);
/* Takes the pair's own share, with so many bytes of slots. false: there is no room. */
bool memory_take_pair(struct gw_pair *p, size_t slots);
void memory_give_pair(struct gw_pair *p);
/* Sets the sizes of the call's buffers by its message's length and its chunks. false: it wants
 * much in both directions, and there may never be memory for that. */
bool memory_size_call(struct gw_call *k, uint32_t msg_len);
/* Takes a call's share. false: not now. */
bool memory_take_call(struct gw_call *k);
/* Queues k for memory. call_resume(k) follows later, unless the pair ends first. */
void memory_wait(struct gw_call *k);
void memory_give_call(struct gw_call *k);
/* A buffer of that size for a record, out of the shares. NULL: no memory, or more than the
 * credits allow. */
struct gw_buf *pair_buf(struct gw_pair *p, size_t size);
void pair_buf_put(struct gw_pair *p, struct gw_buf *b);
/* Frees all buffers that the pair does not use. */
void pair_bufs_free(struct gw_pair *p);

/* ---- peer.c ---- */

/* Finds or makes the peer of a new pair. false: no memory. */
bool peer_enter(struct gw_pair *p);
void peer_leave(struct gw_pair *p);

/* ---- allow.c ---- */

/* Opens the lists. 0 or -errno, eb set. */
int allow_open(struct gw_allow *a, struct errbuf *eb);
void allow_close(struct gw_allow *a);
/* Whose is the peer's end of this connection between two addresses of this machine? false:
 * unknown here. */
bool allow_user(const struct gw_allow *a, const struct sockaddr_storage *local,
		const struct sockaddr_storage *peer, unsigned *uid);
/* Is it the user's? If not, the log says so. */
bool allow_peer(const struct gw_allow *a, const struct sockaddr_storage *local,
		const struct sockaddr_storage *peer);
/* Enters the network namespace of that process. Connections to the server are made from
 * there. */
int enter_server(const char *pid, struct errbuf *eb);

/* ---- call.c: RDMA to TCP ---- */

/* A message from the client has come. */
void call_received(struct gw_pair *p, struct gw_slot *slot, uint32_t len);
/* There is memory for a call that waited for it. */
void call_resume(struct gw_call *k);
/* One of the call's RDMA Reads has completed. */
void call_read_done(struct gw_call *k);

/* ---- args.c ---- */

/* The call's record is complete. Are its Read chunks at valid positions, and as long as
 * the items that they replace? */
bool args_reads_ok(const struct gw_call *k);

/* ---- drc.c ---- */

void drc_init(struct gw_drc *d);
void drc_kept_init(struct gw_drc_kept *l);
/* Frees all entries. No pair may be left. */
void drc_clear(struct gw_drc *d);
/*
 * Looks up a call that is about to be passed on. true: do not pass it on. Either it has its
 * answer, and may be gone, or it gets it together with the call that it repeats. One that has
 * waited so for the same call is gone.
 */
bool drc_take(struct gw_call *k);
/* k->reply has come. */
void drc_answered(struct gw_call *k);
/* Does the cache wait for the answer to this call? */
bool drc_runs(const struct gw_call *k);
/* The call has been answered, or will not be answered, or needs no answer any more. */
void drc_gone(struct gw_call *k);
/* The client's connection has ended, and it may ask again for the newest replies. */
void drc_pair_ends(struct gw_pair *p);

/* ---- tcp.c ---- */

/* Starts to connect. If that fails, the pair has ended. */
void tcp_open(struct gw_pair *p);
void tcp_close(struct gw_pair *p);
/* Queues k's record. The pair may have ended afterwards. */
void tcp_send(struct gw_call *k);
/* The client has gone: the server does not get the call, unless it has part of it. What waits
 * for the call's answer takes its place. */
void tcp_withdraw(struct gw_call *k);

/* The client has answered a call of the server. */
void tcp_send_back(struct gw_pair *p, struct gw_back *b);

/* ---- gw_back.c: calls of the server ---- */

void back_init(struct gw_back_channel *c);
void back_free(struct gw_pair *p);
/* A call has come from the server. The pair may have ended afterwards. */
void back_called(struct gw_pair *p, const char *m, uint32_t len);
/* Is the client's message an answer to the server? Then it is dealt with. */
bool back_answered(struct gw_pair *p, const char *msg, uint32_t len);
/* The client has sent RDMA_ERROR: it refuses that call, if there is one. */
void back_refused(struct gw_pair *p, uint32_t xid, uint32_t credit);
/* TCP has all of the answer. */
void back_drop(struct gw_pair *p, struct gw_back *b);

/* ---- gw_reply.c: TCP to RDMA ---- */

/* How many credits do replies grant? */
uint32_t reply_granted(const struct gateway *gw);
/* A record from the server has come. The callee puts b back or keeps it. */
void reply_received(struct gw_pair *p, struct gw_buf *b, uint32_t len);
/* Answers k, which was not passed on, with this record. k may be gone afterwards. */
void reply_repeat(struct gw_call *k, const char *record, uint32_t len);
/* Sends RDMA_ERROR for a call whose header is not usable (k NULL) or that cannot be
 * served. */
void reply_error(struct gw_pair *p, struct gw_call *k, uint32_t xid, uint32_t err);

/* ---- scribble.c: a fault ---- */

/* The most outstanding RDMA Writes of one pair. */
#define SCRIBBLES_MAX 64u

/* A call has come: remembers its handles, and scribbles if it is time. The pair may have
 * ended afterwards. */
void scribble_call(struct gw_call *k);
/* The RDMA Write whose cookie was p->scribble has completed. */
void scribble_written(struct gw_pair *p);
/* Call this after the connection has ended. */
void scribble_free(struct gw_pair *p);

/* ---- items.c ---- */

/* A result that may be placed: where its bytes are in the reply record. */
struct gw_item {
	uint32_t pos, len;
};

/*
 * Finds the data items of a reply that RFC 8267 lets be placed, in their order: the data of
 * READ and the link text of READLINK, in version 3 and in each operation of a COMPOUND.
 * Returns how many, at most GW_ITEMS_MAX. A reply that cannot be parsed has none.
 */
unsigned gw_items(const struct gw_call *k, const char *reply, uint32_t len,
		  struct gw_item out[static GW_ITEMS_MAX]);

/* The size of a buffer for a record of so many bytes. */
static inline size_t gw_buf_size(uint64_t len)
{
	return GW_MARK + len <= GW_BUF_BYTES ? GW_BUF_BYTES : GW_LARGE_BYTES;
}

/* A 32-bit word of a message in network order. */
static inline uint32_t gw_word(const char *at)
{
	const unsigned char *p = (const unsigned char *)at;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
