/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Private to the user-space iWARP provider: RDMAP over DDP over MPA over one TCP
 * socket (RFC 5040, 5041, 5044, 6581), wire-compatible with Linux siw.
 *
 *   ddp.c         bytes of a frame's header; what can be wrong with a frame
 *   mpa.c         bytes and rules of connection set-up
 *   stag.c        which memory the peer may reach
 *   iw_connect.c  the active side's set-up (blocks)
 *   iw_listen.c   the passive side's set-up (on a loop)
 *   rx.c          receiving: from frames to placed data and completed messages
 *   rx_judge.c    checking a frame by its header
 *   placement_guess.c       where the payload of the next frame goes
 *   post.c        work requests: rings of messages
 *   tx.c          sending: from messages to frames
 *   iwarp.c       a connection's life, its end, and the table of operations
 *
 * MPA revision 2 with enhanced set-up only, no markers, private data up to 252 bytes, no
 * atomics, no shared receive queues.
 *
 * Everything belongs to one thread at a time: to the connecting thread until attach, then
 * to the loop's thread. There are no locks.
 *
 * The peer reaches memory only inside recvmsg() and sendmsg() calls of that thread, and the
 * STag is checked before each. So dereg and close need not wait for anything: no such call
 * follows once they return.
 */
#pragma once

#include <sys/uio.h>
#include "base/loop.h"
#include "fabric/fabric.h"
#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/mpa.h"
#include "fabric/iwarp/stag.h"

/* ---- Work requests ---- */

enum iw_op_kind { IW_SEND, IW_WRITE, IW_READ, IW_RESPONSE };

/* A message to be sent, or a read that waits for its data. */
struct iw_op {
	enum iw_op_kind kind;
	struct fab_sge sge[FAB_SGE_MAX];        /* SEND, WRITE; READ: [0] is the sink */
	unsigned nsge;
	uint32_t len;           /* of the message */
	uint32_t done;          /* bytes put into frames; READ: bytes arrived */
	uint32_t msn;
	bool sent;              /* READ: the kernel has taken the request */
	bool inval;             /* SEND: With Invalidate of stag */
	bool own;               /* WRITE: made by this provider; no event */
	uint32_t stag;          /* the peer's: WRITE, READ, RESPONSE (its sink) */
	uint64_t to;
	uint32_t own_stag;      /* ours: READ's sink, RESPONSE's source */
	uint64_t own_to;
	void *cookie;
};

/*
 * A ring of messages, in the order of posting. The counters run freely.
 *
 *     head        next         tail
 *      |  framed   |  to frame  |
 *
 * SEND, WRITE and RESPONSE leave at head when the kernel has taken their last byte, READ
 * when its data has come.
 */
struct iw_ring {
	struct iw_op *v;
	unsigned mask, limit;
	unsigned head, next, tail;
};

static inline struct iw_op *ring_at(struct iw_ring *r, unsigned i)
{
	return &r->v[i & r->mask];
}

struct iw_recv {
	uint8_t *mem;
	uint32_t len;
	void *cookie;
};

/* ---- Receiving (rx.c) ---- */

/*
 * How much one recvmsg() reads ahead, behind the payload that it puts into place. Small
 * frames are read many at a time and copied. In place, each would take a system call of its
 * own; for the frames of a 1500-byte network that costs 3.5 times the CPU time of the
 * copies (iwarp_bench -m). With large frames, no more of the next payload should land here
 * than comes with a short message before it.
 *
 * To scatter by a guess of where the next headers lie would save both. But the bytes behind
 * a message's end would then go to memory behind the message, where the peer may have
 * written before. So that is only guessed where it has not (placement_guess.c).
 */
#define IW_STAGE      65536u
#define IW_STAGE_BULK 512u
#define IW_BULK_FRAME 8192u

enum iw_rx_state { IW_RX_HEADER, IW_RX_PAYLOAD, IW_RX_TRAILER };

struct iw_rx {
	uint8_t *stage;         /* IW_STAGE bytes, while the connection is up */
	unsigned pos, end;      /* unread bytes: stage[pos..end-1] */
	bool bulk, bulk_seen;   /* large frames come; one has come since the last Send */

	/* The frame in progress. */
	enum iw_rx_state state;
	struct ddp_hdr h;
	uint8_t raw[DDP_UNTAGGED_HDR];  /* its header, for a Terminate */
	bool have_raw;
	uint32_t got;           /* bytes of payload placed */
	uint32_t placed;        /* the first bytes of its payload that need no copy (placement_guess.c) */
	uint32_t trailer;       /* bytes of pad and CRC still to come */
	uint32_t crc;
	uint8_t tail[DDP_PAD_MAX + DDP_CRC_BYTES];      /* both, at its end; with CRC only */
	uint8_t ctl[64];        /* payload of a Read Request or Terminate */

	/* Messages in progress: at most one tagged and one untagged. */
	bool in_tagged, in_untagged;
	enum rdmap_op tagged_op, untagged_op;
	uint32_t tagged_stag;
	uint64_t tagged_to;     /* where the next segment must go */
	uint32_t send_len;      /* bytes of a Send in earlier segments */
	uint32_t msn[DDP_QNS];  /* expected */

	struct iw_recv *recv;   /* ring of posted receives */
	unsigned recv_mask, recv_limit, recv_head, recv_tail;

	bool heard;             /* a frame has come: now the passive side may send */
	uint64_t stall_mark;    /* rx_bytes when the stall timer was set */
};

static inline struct iw_recv *iw_first_recv(struct iw_rx *rx)
{
	return &rx->recv[rx->recv_head & rx->recv_mask];
}

/* ---- Sending (tx.c) ---- */

#define IW_BATCH       64u              /* frames in one sendmsg() */
#define IW_BATCH_BYTES (512u << 10)
/* As large as the length field allows, less the header, and a multiple of a cache line.
 * 17 such frames carry 1 MiB. */
#define IW_PAYLOAD_MAX 65472u
/* All payload of a batch: the frame that reaches IW_BATCH_BYTES is the last one. */
#define IW_STEADY      (IW_BATCH_BYTES + IW_PAYLOAD_MAX)

struct iw_frame {
	struct iw_ring *ring;
	struct iw_op *op;
	bool last;              /* of its message */
	uint8_t hdr[DDP_UNTAGGED_HDR + DDP_READ_REQ];
	uint8_t tail[3 + DDP_CRC_BYTES];
	uint32_t left;          /* bytes that the kernel has not taken yet */
	uint32_t size;
	uint32_t payload;
	uint32_t own_stag;      /* RESPONSE: the memory that it is sent from */
	uint64_t own_to;
};

struct iw_tx {
	struct iw_frame frame[IW_BATCH];
	unsigned first, nframes;
	struct iovec iov[IW_BATCH * (FAB_SGE_MAX + 2)];
	unsigned iov_first, niov;
	size_t left;            /* bytes of frame[first..], which the kernel has not taken yet */
	uint8_t *steady;        /* IW_STEADY bytes, once there was a need: payload of programs, with CRC */
	unsigned nsteady;       /* of this batch */
	bool checks;            /* some of them are from memory that we may revoke: RESPONSE */

	struct iw_ring ops;     /* sends and writes */
	struct iw_ring reads;
	struct iw_ring responses;
	unsigned waiting;       /* messages in the rings that are not framed, or not all of them */
	struct iw_ring *current;        /* the ring whose `next` is in progress */
	bool turn;              /* alternates between responses and ops */
	uint32_t msn[DDP_QNS];  /* last used */
	bool blocked;           /* the socket is full: wait for EPOLLOUT */
};

struct fab_conn {
	struct fab_params params;
	int fd;
	bool passive;
	char text[160];         /* for describe() */

	/* As agreed with the peer. */
	bool crc;
	unsigned ird, ord;
	bool answered;          /* passive: accept() done */
	struct mpa_terms terms; /* passive: for the Reply */
	uint32_t max_tagged, max_untagged;      /* payload of one frame */

	struct stag_table stags;
	struct iw_rx rx;
	struct iw_tx tx;
	struct iw_stats {       /* for measurements, and for tests that count */
		uint64_t send_calls, recv_calls;        /* system calls */
		uint64_t tx_bytes, rx_bytes;            /* on the wire */
		uint64_t rx_placed;     /* payload that the kernel placed directly */
		uint64_t rx_copied;     /* payload copied into place (small frames) */
	} stats;

	/* Unused before attach. */
	struct loop *loop;
	const struct fab_events *ev;
	void *ctx;
	struct loop_watch watch;
	struct loop_timer kick;         /* something was posted: send it */
	struct loop_timer stall;        /* rx.c: half a frame, and then nothing */
	struct loop_timer nudge;        /* post.c: the peer may not have woken up */
	unsigned nudges;

	/* An event's callee may close the connection while one of our functions is still
	 * at work on it. The struct stays until the last such function has returned. */
	unsigned depth;
	bool down, closed;
	bool used;              /* it was attached: calls may have been sent */
	bool terminated;        /* the peer was told why */
};

/* ---- iwarp.c ---- */

/* A connection over fd, which it then owns. NULL: no memory, and fd is closed. */
struct fab_conn *iw_new(const struct fab_params *p, int fd, bool passive);
/* After MPA: sets the sizes of rings and frames. 0 or -errno. */
int iw_agreed(struct fab_conn *c, const struct mpa_terms *t);
/* fabric.h's close. Frees all memory; the struct goes when its last user has returned. */
void iw_close(struct fab_conn *c);

/* To be called around everything that may call the owner. */
void iw_enter(struct fab_conn *c);
/* False when c has been freed. */
bool iw_leave(struct fab_conn *c);

/* The connection is over: tells the owner, once. */
void iw_down(struct fab_conn *c, int err, const char *why);
/* The same after an error of the peer, which gets a Terminate if possible. */
void iw_fail(struct fab_conn *c, enum iw_error e);

/* Sets the options of a TCP socket for this provider. */
void iw_tune(int fd);
/* The IRD to offer: what p asks for, rounded up to a power of two. */
unsigned iw_ird(const struct fab_params *p);

/* ---- rx.c ---- */

int iw_rx_init(struct fab_conn *c);
void iw_rx_fini(struct fab_conn *c);
/* Reads and handles what has come, within a budget. */
void iw_rx_run(struct fab_conn *c);
/* The stall timer is due. */
void iw_rx_stalled(struct loop_timer *t);
/* Of fabric.h. */
int iw_post_recv(struct fab_conn *c, const struct fab_sge *sge, void *cookie);

/* ---- rx_judge.c ---- */

/* Judges the frame whose header is rx.h, and notes what has to follow it. */
enum iw_error iw_rx_judge(struct fab_conn *c);

/* ---- placement_guess.c ---- */

/* The memory that the payload of the next frame is likely for. The frame begins at the start
 * of the stage. NULL: there is no guess. */
const struct stag_entry *iw_placement_guess(const struct fab_conn *c);
/* n bytes have been read: 16 to the stage, as many as it takes to e's memory, and the rest to
 * the stage behind a hole of that size. Sets rx.placed, and fills the hole with the others. */
void iw_placement_guess_check(struct fab_conn *c, const struct stag_entry *e, size_t n);

/* ---- tx.c ---- */

/* Is there something that iw_tx_run() could do now? */
bool iw_tx_wants(struct fab_conn *c);
/* Sends what is queued, as far as the socket takes it. */
void iw_tx_run(struct fab_conn *c);
/* Sends a Terminate, if the stream is between two frames. Best effort. */
void iw_tx_terminate(struct fab_conn *c, enum iw_error e);

/* ---- post.c ---- */

/* Makes the rings for what the owner posts. 0 or -ENOMEM. */
int iw_tx_init(struct fab_conn *c);
/* Makes room for the agreed number of Read Responses. */
int iw_tx_agreed(struct fab_conn *c);
void iw_tx_fini(struct fab_conn *c);
/* Lets iw_tx_run() be called in the loop's next round. */
void iw_tx_kick(struct fab_conn *c);
/* Sets up the nudge timer, which runs on the active side when something was sent: see
 * post.c. */
void iw_nudge_init(struct fab_conn *c);
/* A Read Request came: queues the response. */
enum iw_error iw_tx_respond(struct fab_conn *c, const struct ddp_read_req *r);
/* The read whose data comes next; NULL: none is outstanding. */
static inline struct iw_op *iw_tx_reading(struct fab_conn *c)
{
	struct iw_ring *ring = &c->tx.reads;
	struct iw_op *op = ring_at(ring, ring->head);

	return ring->head != ring->next && op->sent ? op : NULL;
}
/* All data of that read is here: removes it, and tells the owner. */
void iw_tx_read_done(struct fab_conn *c);

/* Of fabric.h. */
int iw_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie);
int iw_post_send_inv(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
		     uint32_t rkey, void *cookie);
int iw_post_write(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
		  uint32_t rkey, uint64_t addr, void *cookie);
int iw_post_read(struct fab_conn *c, const struct fab_sge *sge, uint32_t rkey,
		 uint64_t addr, void *cookie);

/* ---- iw_connect.c: of fabric.h ---- */

int iw_probe(const struct fab_params *p, struct errbuf *eb);
int iw_connect(struct fab_conn *c, const void *priv, size_t privlen,
	       void *peer_priv, size_t *peer_len, struct errbuf *eb);

/* ---- iw_listen.c: of fabric.h ---- */

int iw_listen(const struct fab_params *p, struct loop *l, const struct fab_listen_events *ev,
	      void *ctx, struct fab_listener **out, struct errbuf *eb);
void iw_listen_addr(const struct fab_listener *li, struct sockaddr_storage *out);
void iw_unlisten(struct fab_listener *li);
int iw_accept(struct fab_conn *c, const void *priv, size_t privlen, struct errbuf *eb);
void iw_reject(struct fab_conn *c, const void *priv, size_t privlen);
void iw_addrs(const struct fab_conn *c, struct sockaddr_storage *local,
	      struct sockaddr_storage *peer);
