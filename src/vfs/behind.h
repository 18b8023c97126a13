/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Write-behind: a WRITE is answered when its data is in the arena, and goes to the server
 * later.
 *
 *   vfs_write, the data is in data buffers
 *     |
 *     +-- continues or changes a WRITE that is HELD: copied there, answered, freed; if it is
 *     |   long, its buffers become the other one's
 *     |
 *     +-- room? no: waits, unanswered, until other WRITEs have gone
 *     |
 *     +-- yes: answered. The request itself stays, with its buffers, and is the WRITE that
 *         the server gets:
 *
 *         HELD ---sent---> SENDING ---FILE_SYNC---------------------------> gone
 *          ^                 |                                               ^
 *          |                 +------UNSTABLE---> LOOSE ---COMMIT, the same --+
 *          |                                       |      verifier
 *          +------- another verifier: the server --+
 *                   has restarted, and lost it
 *
 * A WRITE is sent when it cannot grow any more (it ends at a multiple of wsize, or the next write
 * could not be gathered), when somebody has to see its effect (behind_settle), when other writers
 * wait for room, and when it is a second old. (With consistency=solo the kernel sends all that it
 * writes back at once, so that its pieces wait for room, and go out one by one.) COMMIT follows
 * when fsync() or close() asks for it, when much is LOOSE (is_much_locked()), when writers wait
 * for room that is not going to grow, and after half a minute, as with the kernel's client. WRITEs
 * go on meanwhile. If all that is held of a file is one WRITE, and somebody asks, it is sent with
 * FILE_SYNC: that is one call instead of two.
 *
 * Buffers. A WRITE keeps the buffers in which the front end has put its data, one of 64 KiB and
 * one of a MiB if it is longer. What is gathered is copied into these, and one of a MiB is added
 * when the last is full; or it brings buffers of its own. So a WRITE of 4 MiB has up to
 * RR_SEND_IOV of them, not all of them full (held.part). They are kept until the data is on stable
 * storage.
 *
 * Room. Of each class a quarter of the buffers that are always there is for write-behind (or what
 * the option says, if that is more), and all by which the arena has grown. So lanes always have
 * buffers to read requests into. When a writer has to wait for room, or earlier where COMMITs take
 * their time, the arena is asked for more. It comes from the arena's keeper, a thread that may
 * wait, and goes to those that wait. When the keeper gives memory back, or there is none, there is
 * less room: then writers wait for COMMIT, and nothing else happens. A file may have a multiple of
 * what is free (FREE_TIMES), so nobody can take all; of those that wait, the file that has least
 * comes first.
 *
 * Shape. A file may hold thousands of WRITEs, so nothing that is done for each write looks at all
 * of them: there is a list for each state, by age (extents.in), and a tree by offset
 * (behind_tree.h) for what overlaps. A lane's tick looks at files, not at WRITEs: the lane that has
 * read the first WRITE of a file looks after it until nothing is held.
 *
 * Threads. A WRITE belongs to the lane that has read it: only that lane sends, changes state
 * after a reply, and frees it. Any lane may copy data into a WRITE that is HELD, look at all
 * of them, and say that they are wanted. The file's lock (extents.mu) guards that. Nobody waits while
 * holding it; `behind_pool.mu` may be taken while it is held, not the other way round. A WRITE
 * that finds room and nobody who waits for it does not take that one. Lanes tell each other by
 * messages.
 *
 *     lane 0: fsync --wanted, post--> lane 1: sends its WRITE ... reply, gone
 *                                          --post--> lane 0: fsync goes on
 *
 * If its lane has no connection, and another one has, a WRITE that is to be sent goes there: its
 * lane takes it off its lists, and posts it. Until the message is there nobody touches it
 * (HELD_MOVES); then it is the other lane's as if that had read it, with its buffers, which belong
 * to the process. What waits in the lane's queue is taken back first (behind_move_all()). A WRITE
 * that was sent stays: the server may execute it late, and only its own slot tells then what was
 * first. A COMMIT that was sent stays for five seconds (vfs_leave_lane()), and counts as one that
 * fails then.
 *
 *     lane 0, no connection: list_del, op->vl = lane 1, post --> lane 1: in its lists, DUE, sent
 *
 * Who else can act in between, and why nothing is lost or reordered:
 *
 *   a newer write to the same bytes   It is copied into the older WRITE only if that is HELD,
 *        and no other that overlaps is newer. Otherwise it is a WRITE of its own with a higher `seq`. A
 *        WRITE is not sent while an older one that overlaps it is HELD or SENDING.
 *   the server restarts               The verifier of COMMIT differs from that of a WRITE.
 *        That is sent again, and so is every newer one that overlaps it, or the old data
 *        would replace the new. So a newer one stays as long as the older one, even if it is
 *        on stable storage itself. The second time it is sent with FILE_SYNC.
 *   a GETATTR, OPEN, truncation, RENAME, a direct write        It waits until what is held is
 *        on the server (behind_settle). A LOOKUP or a listing does not wait; it gets the size that
 *        the file will have (behind_size).
 *   a READ            It is answered with what is held, if that is not older than what this
 *        mount has seen of the server (behind_read.c). Otherwise it waits, too.
 *   COMMIT fails                      The server may have the data or not. It is sent again with
 *        FILE_SYNC, and the answer to that counts. The same if COMMIT may have been executed
 *        twice, because the first reply was lost or said nothing: that may have been an error,
 *        which a server tells once.
 *   another call of the file that is to store fails, COMMIT or FILE_SYNC     The server tells an
 *        error once, and that may have been the held data's: the same (behind_doubt()).
 *   the connection dies               The engine sends the call again.
 *   the writer is killed              What was answered goes on. What waits for room is freed.
 *   the file is closed                close() waits for COMMIT. CLOSE is sent when the last
 *        WRITE has gone, because each one has a reference to its open file.
 *   O_CREAT | O_TRUNC of a name that is thought to be free, but is that of a file that is open
 *        here by another name        CREATE truncates nothing. It finds the file, and the
 *        truncation follows, which waits (create.c).
 *   an error                          The data is dropped. Each open of the file reports the
 *        error once, to the next write() or fsync(); until then each close() does. So a full
 *        disk is noticed while a program is still writing. The front end drops its
 *        pages then.
 *   the mount ends                    vfs_drain() sends everything. A call that is under
 *        way on a connection is waited for. If the server has gone, the log says how much was
 *        given up. If it ends by a signal, the kernel is made to send the pages that mappings have
 *        dirtied until then (src/fuse/writeback.c); at umount no mapping is left.
 */
#pragma once

#include "rpcrdma/conn.h"
#include "vfs/behind_tree.h"
#include "vfs/extents.h"

struct file;
struct vfs;
struct vfs_lane;
struct vfs_op;
struct nfs_attr;

/* The room for all files together. */
struct behind_pool {
	struct arena *arena;
	unsigned always[ARENA_CLASSES]; /* buffers; all 0: no write-behind */
	pthread_mutex_t mu;             /* for `waiting` */
	/* The same with what the arena has grown by: changes while the mount is in use. */
	_Atomic unsigned most[ARENA_CLASSES];
	_Atomic unsigned taken[ARENA_CLASSES];
	struct list waiting;            /* op_data.held.node: WRITEs without room, oldest first */
	_Atomic unsigned nwaiting;
	_Atomic uint64_t commit_ns;     /* how long a COMMIT takes; 0: not known */
	_Atomic uint64_t said_ns;       /* when the log was told that data was dropped; 0: never */
	_Atomic unsigned unsaid;        /* WRITEs that were dropped since, and the log does not have */
	_Atomic size_t bytes;           /* that were answered, and are not on stable storage */
	_Atomic bool closed;            /* the mount ends: WRITEs go through */
	_Atomic bool off;               /* a remount with writebehind=0: the same */
};

/* A request's part. */
struct held {
	struct list node;               /* in extents.in[], or in behind_pool.waiting */
	struct held_node tree;
	struct list pick_node;          /* in a list that is made and used up under extents.mu */
	struct loop_msg msg;
	enum held_state state;
	uint64_t seq, offset, since_ns;
	uint64_t sent_ns;               /* when it was last sent */
	uint32_t len;
	uint32_t part[RR_SEND_IOV];     /* so much of it is in each of its buffers */
	unsigned nparts;
	bool posted;                    /* msg is on its way */
	bool stable;                    /* to be sent with FILE_SYNC */
	bool again;                     /* SENDING: to be sent once more after the reply */
	bool loose;                     /* of this sending, some bytes are not stable */
	bool mixed;                     /* ...and were written before and after a restart */
	bool firm;                      /* LOOSE: is on stable storage, but follows one that is not */
	bool lost;                      /* the server has lost it: in such a list */
	unsigned tries;                 /* how often the server has lost it */
	uint64_t verf;
};

/* Before there are lanes. share: of each class of data buffers that are always there, in percent;
 * 0: none. */
void behind_pool_init(struct behind_pool *p, struct arena *a, unsigned share);
/* The room does not change any more. Before the requests of lanes are freed. */
void behind_pool_stop(struct behind_pool *p);
void behind_pool_fini(struct behind_pool *p);
/* Lane, with the pool's lock or without: more room for buffers of this class would be of use. It
 * comes later, if there is memory for it, and those that wait get it. */
void behind_room_wanted(struct behind_pool *p, enum arena_class cls);

/* May op, a WRITE, be answered before the server has the data? */
bool behind_takes(const struct vfs_op *op);
/* Its data is in its buffers. Answers, now or when there is room. */
void behind_write(struct vfs_op *op);
/* op waits for room, and its process is killed: frees it. false: it does not. */
bool behind_give_up(struct vfs_op *op);

/* Is anything held of the file just now? */
static inline bool behind_holds(const struct inode *ino)
{
	const struct extents *x = extents_of(ino);

	return x && atomic_load(&x->count);
}
/* Something is held, or was. */
void behind_settle_held(struct vfs_op *op, struct inode *ino, bool stable, void (*go)(struct vfs_op *op));
/*
 * Calls go(op) when the server has executed everything that was written to ino before now;
 * stable: when that is on stable storage. At once, or from the lane's loop. ino is an inode
 * that op has a reference to, or NULL. Errors are for those who wrote.
 */
static inline void behind_settle(struct vfs_op *op, struct inode *ino, bool stable,
				 void (*go)(struct vfs_op *op))
{
	if (ino && behind_holds(ino))
		behind_settle_held(op, ino, stable, go);
	else
		go(op);
}
/* READs: behind_read.c. */
enum behind_got {
	BEHIND_NONE,            /* nothing is held of its bytes */
	BEHIND_ALL,             /* the result: the operation ends */
	BEHIND_SOME,            /* READ follows, and behind_lay() */
	BEHIND_FIRST,           /* what is held has to be on the server before */
};
/* What is there for op, a READ that has a buffer? */
enum behind_got behind_read(struct vfs_op *op);
/* Lays what is held over the *len bytes that have come. false: READ has to be sent again after
 * behind_settle(). */
bool behind_lay(struct vfs_op *op, size_t *len);
/* Was something held at `since` or later? Then attributes and file data that were asked for
 * at `since` may lack it. */
bool behind_since(const struct inode *ino, uint64_t since);
/* failed's call was to bring data of failed->ino to stable storage, and has failed, or may have: what is
 * held, and was sent before, may be lost. On failed's lane. */
void behind_doubt(const struct vfs_op *failed);
/* A SETATTR that sets the size has ended, or may have been executed. */
void behind_cut(struct inode *ino, uint64_t size);
/* Where the data ends that programs have written, if the server lacks some of it; 0: it has all. */
uint64_t behind_unsent_end(const struct inode *ino);
/* Sets attr's size to what it will be when everything is on the server. attr was asked for at
 * `since`. */
void behind_size(const struct inode *ino, struct nfs_attr *attr, uint64_t since);

/*
 * The error of a WRITE that this open has not reported yet, -errno; or 0. seen: it counts as
 * reported now. For close() it does not: the kernel also asks for each close() of a child that
 * has inherited the open file, and nobody hears the answer.
 */
int behind_error(struct file *f, bool seen);
/* To the log: data that a program was told to be written will not be. Nobody may have the file open any more
 * who could be told: under a delegation with nodelegflush, or when the mount ends. Not under extents.mu. */
void behind_say_dropped(const struct vfs_op *op, uint64_t offset, size_t len, int status);
/* How many there were since its last line; nothing if none. At the end of the mount, and before the next line. */
void behind_say_unsaid(struct vfs *vfs);

/* A new open reports errors from now on. */
void behind_opened(struct file *f);

/* Lane thread, four times a second: sends what is old. */
void behind_tick(struct vfs_lane *vl, uint64_t now_ns);
/* Lane thread: if vl has no connection, and another lane has one, what was not sent goes there, and
 * COMMITs that have waited for long. */
void behind_move_all(struct vfs_lane *vl, uint64_t now_ns);
/* Buffers are short: every lane sends what it holds, and COMMIT follows. */
void behind_want_room(struct vfs *vfs);
/* vfs_lane.room_msg: that is wanted. */
void behind_on_room(struct loop_msg *m);
/* All that this lane holds is sent, and committed. */
void behind_want_everything(struct vfs_lane *vl);
