/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/ring share.
 *
 * Two threads have a part of each ring: the rings' thread (clients.c), and the ring's lane (lane.c,
 * io.c). They speak by one message each way. An order is given when the one before has been answered,
 * so that message is never under way twice:
 *
 *     rings' thread   ring->order = RING_DO_..   -- to_lane -->    does it, now or when what is under
 *                     (and its arguments)                          way has ended
 *                     ring->outcome              <-- to_rings --
 *
 * Who else can act in between:
 *
 *   the program dies           The client gives no further request. Its rings give up at once what is
 *                              under way, by a message of its own, so that RING_DO_FORGET does not wait
 *                              for what was never sent. An order that is under way is answered first;
 *                              then RING_DO_END, which comes behind that message, and the client is
 *                              freed behind the answers of all its rings.
 *   the kernel closes a file   rings_closed(), on any lane, has a message sent to the lane of each ring
 *                              that has the file. A ring does not end before that has come.
 *   memory is given back       RING_DO_FORGET is answered when no entry of that ring uses it. No ring
 *                              takes an entry for it from then on. A ring that the program has closed
 *                              gets no order any more; then its end is what is waited for.
 *   the lane ends              Before that rings_end() has ended all rings, or has waited in vain: then
 *                              nothing of them is freed before rings_free(), when no lane is left.
 */
#pragma once

#include <pthread.h>
#include "base/list.h"
#include "base/loop.h"
#include "ring/queue.h"
#include "ring/rings.h"

struct client;
struct ring;

enum order { RING_DO_BEGIN, RING_DO_LEND, RING_DO_FORGET, RING_DO_ATTACH, RING_DO_DETACH, RING_DO_END };

/* One of a ring's files. The lane's, but for what is said otherwise. */
struct ring_file {
	struct ring *ring;
	unsigned index;                 /* RING_FILES: before RING_DO_ATTACH */
	struct file *file;              /* a reference */
	int access;
	struct list node;               /* in rings->attached */
	struct loop_msg closed;         /* to the lane: the kernel has closed it */
	bool closing;                   /* that is on its way, or has come. These two under rings->mu */
	bool closed_early;              /* it has come before RING_DO_ATTACH */
};

/*
 * Entries that are under way at most: each of them is an operation, of some 5 KiB. What is above stays in its
 * ring, and is taken when another one has ended, which is on the same thread. So a lane sleeps meanwhile. When
 * all rings of a lane have what it may have, each has RING_BUSY_SURE all the same: nobody is kept out.
 */
#define RING_BUSY_MOST 512u
#define LANE_BUSY_MOST 4096u
#define RING_BUSY_SURE 16u

struct ring_memory_of {
	char *at;                       /* NULL: there is none of that number */
	size_t len;
	unsigned users;                 /* entries under way */
};

/* An entry under way. */
struct ring_io {
	struct ring *ring;
	struct list node;               /* in ring->free, or ring->busy */
	struct vfs_op *op;
	struct file *file;              /* a reference */
	uint64_t user_data, offset;
	char *at;
	uint32_t left, done;
	uint16_t memory;
	bool write;
};

struct ring {
	struct rings *rings;
	struct client *client;
	unsigned number;
	bool used;                      /* these three: the rings' thread's; it is there... */
	bool asked;                     /* ...and has an order that it has not answered */
	bool ends;                      /* ...or has been told to end, */
	bool end_awaited;               /* which the request that is under way waits for */

	/* The order and its arguments. */
	struct loop_msg to_lane, to_rings;
	struct loop_msg give_up_msg;    /* to the lane, once: the program has died. Before RING_DO_END, or never */
	struct loop_msg broken_msg;     /* to the rings' thread: the program has broken it */
	enum order order;
	unsigned index;                 /* LEND, FORGET, DETACH: which */
	char *at;
	size_t len;
	struct ring_file *attach;
	int outcome;                    /* 0 or -errno; ATTACH: the number */

	/* The lane's, from RING_DO_BEGIN to the answer of RING_DO_END. */
	struct vfs_lane *vl;
	struct loop_poller poller;
	struct loop_watch bell;         /* our end of it... */
	int bell_fd;                    /* ...which is the rings' thread's to close */
	struct queue q;
	struct ring_io *io;
	struct list free, busy;
	unsigned nbusy;
	bool answers_later;             /* the order waits for entries under way */
	bool ending, broken;            /* no entry is taken any more */
	struct ring_memory_of memory[RING_MEMORIES];
	struct ring_file *file[RING_FILES];
	unsigned nfiles;
	/* For rings_each(). */
	_Atomic uint64_t reads, writes, read_bytes, written_bytes;
	_Atomic unsigned files_now;

	struct ring_memory *shared;     /* mapped; the rings' thread's */
	size_t shared_len;
};

struct user {
	struct list node;
	uid_t uid;
	unsigned clients, rings, tokens, pieces; /* of memory */
	uint64_t bytes;
};

struct token;

struct rings {
	struct vfs *vfs;
	struct rings_config cfg;
	struct loop *loop;
	pthread_t thread;
	bool started;
	struct loop_watch listener;
	struct loop_timer pause;        /* of accepting, when there are no descriptors */
	struct loop_timer tick;         /* tokens that nobody has used */
	struct loop_msg listen_msg, end_msg;
	unsigned next_lane;
	bool ending;

	pthread_mutex_t mu;             /* for the rest; a lane takes it */
	char socket[sizeof(((struct ring_token *)NULL)->socket)];       /* empty: there is none */
	struct list clients;            /* added and removed by the rings' thread */
	struct list users;
	struct list tokens;
	struct list attached;           /* ring_file.node */
	pthread_cond_t ended;           /* the last client is gone */
};

/* ---- rings.c; with rings->mu ---- */

/* Counts, if there are few enough: *n of the user's may grow by `more` up to `most`. */
struct user *user_get(struct rings *r, uid_t uid);
/* Frees it when it has nothing any more. */
void user_put(struct rings *r, struct user *u);

/* Of connections and rings, each of which is a descriptor: how many one user may have. */
unsigned user_most_files(const struct rings *r);
/* May he have one more? */
bool user_has_room(const struct rings *r, const struct user *u);

/* ---- tokens.c ---- */

/* The rings' thread. Takes the token, if it is that user's: its file is `a`'s from now on, which has its
 * ring. RING_DO_ATTACH has to follow. 0, or -errno with eb set. */
int token_take(struct rings *r, const uint8_t token[RING_TOKEN_BYTES], uid_t uid, struct ring_file *a,
	       struct errbuf *eb);
/* Those that are too old; all: every one. */
void tokens_expire(struct rings *r, bool all);

/* ---- clients.c: the rings' thread ---- */

void clients_accept(struct rings *r, int fd);
/* All programs are told that it has ended. */
void clients_end(struct rings *r);
/* When no thread is left: frees those that could not end. */
void clients_lost(struct rings *r);

/* ---- lane.c ---- */

/* Before RING_DO_BEGIN; bell_fd is set later. */
void lane_init(struct ring *ring);
/* ring->to_lane.fn */
void lane_on_order(struct loop_msg *m);
/* ring->give_up_msg.fn */
void lane_on_give_up(struct loop_msg *m);
/* ring_file.closed.fn */
void lane_on_closed(struct loop_msg *m);
/* An entry has ended: does somebody wait for that? */
void lane_look(struct ring *ring);

/* ---- io.c ---- */

/* Takes and starts entries, and publishes those that have ended. true: there was something. */
bool io_run(struct ring *ring);
/* The lane is about to sleep. true: there is something. */
bool io_sleep(struct ring *ring);
/* Gives up all that are under way. */
void io_give_up(struct ring *ring);
