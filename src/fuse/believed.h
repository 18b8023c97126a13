/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel was told of an inode, and believes: FUSE's part of it.
 *
 *      readback.h   attributes for read(), although this mount has written since
 *      solo.h       consistency=solo
 *
 * The kernel's lookups hold references to the inode. They are also counted here, so that the kernel
 * cannot give back more than it has. [s]: guarded by the inode's shard (vfs/inode.h).
 *
 * `told_size` follows the size that the kernel believes. These change it:
 *
 *   an answer with attributes      the kernel takes its size; but it ignores the answer if
 *                                  it got anything newer since it sent the request, or if a
 *                                  WRITE is under way
 *   the answer to a WRITE          extends it, if the kernel hears the answer
 *   a READ that ends early         cuts it
 *
 * The kernel does not say whether it has ignored an answer. If it had a reason to when the
 * answer was given, the size is NOBODY_KNOWS, which equals no size, until another answer
 * comes. A reason may also come between the answer and the moment when the kernel looks at
 * it. So told_size may be wrong, and decides only what is tried first.
 *
 * The other attributes in such an answer are in `doubt`, too: the kernel may go on believing
 * older ones for as long as it was told with those.
 *
 * Nor does this process know when the kernel has asked: the kernel notes its version, and only
 * then queues the request. So of two answers that differ, the kernel may have taken the older
 * one, although the newer one seems to be to a later question:
 *
 *      GETATTR (version 5)                     LOOKUP (version 5), not read from the queue yet
 *      answer: 10 bytes; version 6             LOOKUP is read, answered: 20 bytes; version 5: ignored
 *      OPEN: 20 bytes, as in the newest answer, and the kernel believes 10
 *
 * If the answers since the kernel last forgot its attributes were not all the same (`mixed`), the next
 * open has it forget them. It forgets them by itself when a write() ends, and takes SETATTR's
 * answer in any case, when the process goes on that has asked. So an open that brings other
 * attributes within a second of that answer has the kernel forget them, too. If the process goes on
 * after the open even so, the kernel believes the older attributes for their time.
 *
 * OPEN brings attributes that its answer has no place for; believed_differs() and
 * believed_appends_elsewhere() say what to do about them. If the kernel still appends at an old
 * size, open_end.end tells.
 *
 * To be told to forget is news as well: the kernel ignores the answer to what it has asked before, and
 * a read() that has asked goes on with what it has, which may be older than its own open, or its lock:
 *
 *      read(): GETATTR (version 5)             others open the file: forget (version 6)
 *      answer: ignored; the old size, the old page
 *
 * So (forget.c) the kernel is not told again to forget what it has forgotten already and was not told
 * since (`first.ns`). Then answers that were asked for before are not given any more, but asked for once
 * more (believed_is_late()): the kernel would take them. If it was told since, the next time waits, for
 * 100 ms at most: until it has taken in the first answer, as any later read() has what is new then; and
 * until no read() waits for an answer. A thread has taken its answer in when it sends something else; or
 * BELIEVED_TAKEN_NS later.
 * What is left: this mount's own write()s, SETATTRs, LINKs and READs at the file's end are such news, too.
 * Who is given up, and an error of a write, do not wait. And the first answer may be to a request that lay
 * in the queue when the kernel was told, so that it was ignored; then a read() is lost whose request lies
 * in the queue at the next time. A READ ahead that the thread has sent before may be taken for something
 * else. By all of these a read() under a lock may miss the file's new size, but reads no old page.
 *
 * Appends: the kernel appends where it believes the end to be. OPEN sees to that. A lock promises what was
 * appended since, but the kernel does not ask when it appends, although it was told to forget. So the end
 * that LOCK brings is kept, with this mount's own changes and what the kernel is told later (locked_end), and
 * while this mount has a lock such a WRITE goes there, and what the kernel has put into its pages goes like
 * those that a direct write has bypassed. Without a lock one goes behind what rings have written (past_end), of
 * which the kernel does not know either.
 *
 * Pages: when an asynchronous direct write ends, the kernel keeps pages that readers filled
 * meanwhile, with the old bytes. It drops a file's pages when it sees another mtime, and it
 * asks for the mtime before each read() if it was told to forget the attributes. So it is
 * told to forget them after a direct write to a file that has pages. If the server's mtime
 * is then the same as in the last answer, the next answer says a nanosecond more
 * (mtime_ahead). The same goes for writes of an open that only writes (open.c), but that the
 * kernel forgets the mtime by itself. A mapping shows the new data after the next stat() or read().
 * While one reader is about to drop the pages, another one may get an old page a last time. Under a LOCK
 * nobody does: all pages are dropped before that is answered, if there may be any (`paged`). If they are
 * being dropped for another LOCK, this one waits for that. What is read meanwhile says so, and is dropped
 * then.
 *
 * By the mtime in SETATTR's answer it drops no pages, and that may be another client's WRITE:
 *
 *      pages of mtime 1        another client writes: mtime 2
 *      chmod: SETATTR, answered with mtime 2     GETATTR: mtime 2, and the pages of 1 stay
 *
 * So if it has pages, and was told another mtime, that answer says a nanosecond less, and that it
 * holds for no time. The kernel asks before it uses it, and sees another one.
 *
 * Any thread. The inode's shard guards the attributes. What READ and WRITE use is atomic,
 * and needs no lock.
 */
#pragma once

#include "vfs/inode.h"

/*
 * What an open file may append behind. `end` is the size that OPEN brought, or less if the
 * kernel has heard of less since. If it appends below that, it has never got that size: it
 * takes an old end for the end, and would overwrite data.
 */
struct open_end {
	struct list node;               /* in believed.ends, under the inode's shard */
	_Atomic uint64_t end;           /* 0: not known */
	uint64_t since, change;         /* when OPEN's reply came, and its change attribute */
};

/* An answer that its thread may not have taken in yet. */
struct believed_taken {
	uint64_t ns;                    /* [s] when it was given... */
	_Atomic pid_t tid;              /* ...to which thread; 0: nobody knows; -1: it has gone on */
};

/* told_size: nobody knows what the kernel believes. */
#define NOBODY_KNOWS UINT64_MAX

struct believed {
	struct inode ino;
	_Atomic uint64_t lookups;       /* how many references the kernel has */

	_Atomic uint64_t fresh_ns;      /* when the kernel was last told attributes, or wrote */
	_Atomic uint64_t news_ns;       /* time of the last event after which the kernel discards answers to
					 * earlier requests */
	_Atomic uint64_t told_size;     /* the size that the kernel believes, or NOBODY_KNOWS */
	_Atomic unsigned writing;       /* WRITEs under way */
	_Atomic uint64_t locked_end;    /* one more than where the file ends, as LOCK has said and what came
					 * since; 0: not known */
	_Atomic uint64_t past_end;      /* the file goes up to there, by what rings have written and others since... */
	_Atomic uint64_t past_ns;       /* ...the last time then; what is heard later may say less */
	uint64_t set_change;            /* [s] the change attribute after the newest SETATTR */
	struct list ends;               /* [s] the open_ends of open files */
	struct timespec told_mtime;     /* [s] as the server had it */
	_Atomic uint32_t mtime_ahead;   /* ns added to that for the kernel; changed under [s] */
	bool doubt;                     /* [s] it may have ignored the newest answer */
	_Atomic bool told;              /* it was told attributes since it last forgot them; the newest */
	uint64_t told_change;           /* [s] ones had this change attribute */
	_Atomic bool mixed;             /* ...and were not the same each time */
	_Atomic unsigned differing;     /* requests in forget.c, which have not had the kernel forget them yet */
	_Atomic bool paged;             /* the kernel may have pages of it... */
	_Atomic unsigned dirtiers;      /* ...and so many open files by which mappings may dirty them */
	_Atomic bool outdated;          /* a direct write bypassed them after the last answer */
	_Atomic uint64_t forget_ns;     /* when an OPEN brought attributes, or the kernel was to forget them... */
	_Atomic uint64_t forgot_ns;     /* ...and when it was told to, by forget.c */
	_Atomic unsigned forgetting;    /* it is being told to... */
	bool dropping;                  /* [s] ...and to drop its pages */
	_Atomic uint64_t open_change;   /* the newest OPEN's change attribute; 0: a LOCK came since it was sent */
	_Atomic uint64_t lock_ns;       /* when the newest LOCK was granted */
	struct believed_taken first;    /* [s] the first answer to a later request; ns 0: there was none */
	struct believed_taken set;      /* SETATTR's, LINK's or CREATE's, which it takes in any case */
	_Atomic unsigned reading;       /* read()s that wait for one */
	bool cache_valid;               /* [s] the kernel has no pages that are older than... */
	uint64_t cache_change;          /* [s] ...this change attribute */

	/* readback.h: */
	struct readback *_Atomic readback;   /* NULL: it was never opened */
	_Atomic uint64_t spoilt_ns;     /* attributes that were asked for before are not kept */
	_Atomic bool may_ask;           /* it has a reason to ask at a stat(): it has read since it was
					 * told attributes, or an open has it forget them; with solo,
					 * it has closed the file */

	struct solo *solo;              /* constant; NULL: not consistency=solo, or no regular file */
};

/* For who may look at it only, too. */
static inline struct believed *believed_of(const struct inode *ino)
{
	return container_of((uintptr_t)ino, struct believed, ino);
}

/* *end becomes `to` if that is more. */
static inline void believed_raise(_Atomic uint64_t *end, uint64_t to)
{
	uint64_t was = atomic_load(end);

	while (was < to && !atomic_compare_exchange_weak(end, &was, to))
		;
}

/* One of the caller's references becomes the kernel's. */
void believed_known(struct inode *ino);
/* The kernel gives n references back, or did not get one after all. false: it has fewer
 * than n; only those that it has are dropped. */
bool believed_forget(struct inode_table *t, struct inode *ino, uint64_t n);

/* The kernel has dropped its pages after an OPEN that brought that change attribute. */
void believed_dropped(struct inode_table *t, struct inode *ino, uint64_t change);

/* This mount has changed the file's metadata, and nothing else has changed it in between. */
void believed_marked_locked(struct inode *ino, uint64_t before, uint64_t after);

/* ---- to forget (forget.c) ---- */

/* A process takes in an answer when it goes on. This is for how long the next one waits. */
#define BELIEVED_TAKEN_NS 50000000ull

enum believed_forget {
	FORGET_DONE,                    /* it has forgotten them already */
	FORGET_TELL,                    /* it has to be told; then believed_forget_ends() follows */
	FORGET_LATER,                   /* a read() might miss what its open, or its lock, has promised */
	FORGET_DROP,                    /* it has to be told, by a thread that may block */
};
/* The kernel is to forget the attributes. waits: it may be later. */
enum believed_forget believed_forget_begins(struct inode_table *t, struct inode *ino, bool waits);
/* The same of the attributes and the pages, if it may have any. blocks: the caller may. FORGET_LATER also
 * as long as its pages are being dropped for another LOCK. */
enum believed_forget believed_lock_begins(struct inode_table *t, struct inode *ino, bool waits, bool blocks);
/* Has the kernel neither pages nor attributes of it? Answers to what it has asked for before come too late then.
 * false: as above, by who may block. */
bool believed_forgotten(struct inode_table *t, struct inode *ino);
/* After FORGET_TELL of that. */
void believed_lock_ends(struct inode_table *t, struct inode *ino);
void believed_forget_ends(struct inode *ino);
/* The kernel is about to get an answer with attributes, for a request of that thread that was read at
 * `since`. anyway: it takes them whatever else it has got. */
void believed_tells(struct inode *ino, pid_t tid, uint64_t since, bool anyway);
/* LINK and CREATE: the same, of an inode that it knows already. */
void believed_tells_anyway(struct inode_table *t, struct inode *ino, pid_t tid);
/* A read() waits for attributes; it is about to get them, or none. */
void believed_read_begins(struct inode *ino);
void believed_read_ends(struct inode_table *t, struct inode *ino, pid_t tid);
/* That thread has gone on: it has sent something that it waits for itself. */
void believed_goes_on(struct inode *ino, pid_t tid);
/* attr, the answer to a request that was read at `since`, and for which the server was asked at `asked`,
 * are older than they may be, and the kernel would take them. */
bool believed_is_late(const struct inode *ino, const struct nfs_attr *attr, uint64_t since, uint64_t asked);

/* ---- attributes ---- */

/* The last attributes, or a WRITE's answer, will not reach the kernel. */
void believed_unheard(struct inode *ino);
/* It is about to forget size and times by itself, because a write() has ended. */
void believed_forgets(struct inode *ino);
/* The kernel reads or writes the file through its page cache. */
void believed_paged(struct inode *ino);
/* A LOCK has been granted. believed_lock_begins() follows. */
void believed_locked(struct inode *ino);
/* A direct write has been executed. true: the kernel is to forget the attributes. */
bool believed_written_past(struct inode *ino);
/* May the kernel have pages that a mapping has dirtied? */
bool believed_may_be_dirty(const struct inode *ino);
/* The file is written up to `end`. The kernel hears of that soon; if it does not after all,
 * believed_unheard() follows. */
void believed_wrote(struct inode *ino, uint64_t end);
/* LOCK has brought attr; NULL: none. */
void believed_lock_end(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* The file goes up to `end` now, whether or not the kernel hears of that. */
void believed_reaches(struct inode *ino, uint64_t end);
/* The same for what a ring has written: an append does not overwrite it. The kernel does not know how long the file
 * is then. */
void believed_reached_past(struct inode_table *t, struct inode *ino, uint64_t end);
/* The kernel appends at `off`: where that has to go. Another place only while this mount has a lock of the file, or
 * if a ring has made it longer. */
uint64_t believed_append(const struct inode *ino, uint64_t off);
/* The kernel is about to hear that a READ, which it asked for at `since`, found the file's
 * end at `end`. */
void believed_read_short(struct inode_table *t, struct inode *ino, uint64_t end, uint64_t since);

/* OPEN brought attr. May they differ from what the kernel believes? */
bool believed_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* OPEN brought attr. The kernel appends at the size that it believes, and only LOOKUP and GETATTR
 * change that size. true: the server has another size, or nobody knows. */
bool believed_appends_elsewhere(const struct inode *ino, const struct nfs_attr *attr);
void believed_end_ends(struct inode_table *t, struct inode *ino, struct open_end *e);

/* With the lock of the inode's shard: */

/* attr are about to go to the kernel, whose request had been read at `since`. */
void believed_told_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since);
/* The same for attributes from a listing. */
void believed_listed_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since);

/* attr go to the kernel, too. They may be kept (readback.h) until `until` at most: the server was
 * asked at `asked`, when it had everything that was written; 0: they may not. */
void believed_answer_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
			    uint64_t since, uint64_t asked, uint64_t until);
/* The same for the answer to SETATTR, which the kernel takes in any case. mtime: it has set that, and
 * the kernel has to see exactly that time. false: it is to be believed for no time, because it would
 * hide that the kernel's pages are old (then attr's mtime is changed, too), or because an OPEN has
 * brought other attributes meanwhile. */
bool believed_set_locked(struct inode_table *t, struct inode *ino, struct nfs_attr *attr, uint64_t since,
			 uint64_t asked, bool mtime);
/*
 * Another open file. attr are from its OPEN, which was sent at `asked`; 0: from CREATE, and
 * the kernel was told them. only: no other one is open. true: the kernel may keep its pages.
 * Otherwise it drops them when the process that opens goes on, and not when the answer is given. The
 * first request through the open file shows that it has: then believed_dropped() follows. Before that
 * no other open may keep the pages.
 *
 *   lane 0: OPEN, change 10: drop     lane 1: OPEN, change 10: must not keep, there are pages of 9
 *   process 0 drops, and reads: READ: believed_dropped(10)
 *                                     OPEN, change 10: may keep
 */
bool believed_open_locked(struct inode_table *t, struct inode *ino, struct open_end *e,
			  const struct nfs_attr *attr, uint64_t asked, bool only);
/* The kernel is told attributes of readback.h at a GETATTR of `since`, which were asked for at
 * `asked`. */
void believed_readback_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
		       uint64_t asked);
