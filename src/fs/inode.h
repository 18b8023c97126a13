/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inode table: filehandle <-> node id.
 *
 * A node id that the kernel knows is a handle (handle.h), which never comes back:
 * `id` is that, the root's excepted. The kernel's lookups, requests under way and
 * open files hold references, and the inode goes when the last one does. What the
 * kernel holds of them is counted by itself: it cannot give back more than it has.
 *
 * Locks: the table is cut into shards by the handle's hash, each with a mutex
 * that is held for a table access and never while anything waits. It also
 * guards what is marked [s] below. A second set of shards lists the names under
 * which inodes were seen by (directory, name), for silly rename and for what
 * rename moves; order: table, then names. A file may have several (hard links).
 * Whose a name is, the newest entry says, as the kernel's own cache does: it
 * never removes or moves a name without having been told whose it is.
 *
 * What the kernel believes: it takes the attributes of every answer that has
 * some, and extends the size by what it writes. `told_size` follows it there.
 * OPEN brings attributes that cannot be handed on; inode_differs() and
 * inode_send_back() say what has to be done about that.
 *
 * Its pages: a direct write that was asynchronous leaves those alone that readers
 * brought in meanwhile, with the old bytes. The kernel throws a file's pages away when
 * it hears of another mtime, and asks for that before each read() if it has been told
 * to forget the attributes. So that is done after a direct write of a file that has
 * pages, and if the server's clock has not moved since the last answer, the mtime in
 * the next one is a nanosecond later (mtime_ahead).
 */
#ifndef FS_INODE_H
#define FS_INODE_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/list.h"
#include "fs/handle.h"
#include "nfs/nfs.h"

#define INODE_SHARDS  64u
#define INODE_BUCKETS 512u              /* of one shard */
#define NAME_BUCKETS  512u
#define SENT_BACK     1024u             /* threads, by their ids */

struct inode;

struct silly {                          /* what is left of a name: see silly.c */
	struct inode *dir;              /* a reference, counted in its nsilly; or NULL */
	bool leaving;                   /* and in its nleaving */
	struct inode *pinned;           /* a reference: whose last name it may be; or NULL */
	char name[32];
	struct rpc_cred cred;
};

struct name {
	struct list by_name;            /* in the names shard, newest first */
	struct name *next;              /* [s] of ino's, newest first */
	struct inode *ino;
	uint64_t parent_id;             /* this and what follows: constant */
	uint32_t hash;
	char text[];
};

struct inode {
	struct inode *hash_next;        /* [s] */
	uint32_t hash;
	struct nfs_fh fh;               /* constant */
	uint64_t id;                    /* constant: never used twice */
	_Atomic uint64_t refs;          /* falls to 0 only under the shard's lock */
	_Atomic uint64_t lookups;       /* how many of them are the kernel's */

	mode_t type;                    /* constant: S_IFMT */
	uint64_t change;                /* [s] of the newest attributes */
	struct timespec mtime;
	uint64_t size;
	double timeo;                   /* [s] seconds that attributes are believed */
	uint64_t timeo_ns;              /* [s] when that was set */
	_Atomic uint64_t fresh_ns;      /* when the kernel last learnt, or wrote, something */
	_Atomic uint64_t told_size;     /* what the kernel takes for the size */
	_Atomic unsigned writing;       /* WRITEs under way: it is going to be larger */
	struct timespec told_mtime;     /* [s] as the server had it */
	_Atomic uint32_t mtime_ahead;   /* nanoseconds that the kernel was told more; changed under [s] */
	_Atomic unsigned nfiles;        /* struct files of it */
	_Atomic bool paged;             /* the kernel may have pages of it */
	_Atomic bool outdated;          /* a direct write went past them since it was told */

	bool cache_valid;               /* [s] the kernel's pages belong to cache_change */
	uint64_t cache_change;

	_Atomic unsigned nopen;         /* open files, and opens under way; changed under [s] */
	struct name *names;             /* [s] those it was seen under */
	struct silly *silly;            /* [s] */
	unsigned pins;                  /* [s] calls under way that take a name away plainly */

	unsigned changing;              /* [s] calls under way that change it: see known.h */
	uint64_t changes;               /* [s] how many have begun */
	struct after *after;            /* [s] what it was after the last one, or NULL */

	/* A directory: */
	_Atomic uint64_t entries_ns;    /* when this mount last changed its entries */
	_Atomic unsigned nsilly;        /* silly names in it, not yet removed */
	_Atomic unsigned nleaving;      /* those of them whose files have been closed */
	_Atomic unsigned silly_gone;    /* how many there have been */
};

struct inode_shard {
	pthread_mutex_t mu;
	struct inode *bucket[INODE_BUCKETS];
};

struct name_shard {
	pthread_mutex_t mu;
	struct list bucket[NAME_BUCKETS];
	struct gone *gone;              /* known.c's, or NULL */
};

/* Of a thread's newest open that was sent back: it has one at a time. */
struct sent_back {
	_Atomic uint64_t id, fresh_ns;  /* which inode, and its fresh_ns then */
};

struct inode_table {
	struct inode_shard shard[INODE_SHARDS];
	struct name_shard names[INODE_SHARDS];
	struct handles handles;
	_Atomic uint64_t count;
	struct sent_back back[SENT_BACK];
	unsigned acregmin, acregmax, acdirmin, acdirmax;
};

static inline struct inode_shard *inode_shard_of(struct inode_table *t, const struct inode *ino)
{
	return &t->shard[ino->hash % INODE_SHARDS];
}
/* Where the name is listed. */
struct name_shard *inode_names_of(struct inode_table *t, uint64_t parent, const char *name);

int inode_table_init(struct inode_table *t);
/* Frees what is left, whatever its references. */
void inode_table_fini(struct inode_table *t);

/*
 * The inode of a handle, made if it is new, with one more reference. attr
 * updates what is remembered. parent 0: the name is not known. NULL: no memory.
 */
struct inode *inode_get(struct inode_table *t, const struct nfs_fh *fh,
			const struct nfs_attr *attr, uint64_t parent, const char *name,
			size_t namelen);
/*
 * The same for an entry of a listing that was asked for at `since`: NULL also if
 * the kernel may know newer attributes than these. It would believe them, and
 * append to a file where it ended then.
 */
struct inode *inode_get_listed(struct inode_table *t, const struct nfs_fh *fh,
			       const struct nfs_attr *attr, uint64_t parent, const char *name,
			       size_t namelen, uint64_t since);
/* One more reference to an inode that has at least one. */
void inode_ref(struct inode *ino);
void inode_put(struct inode_table *t, struct inode *ino, uint64_t n);
/* The inode with that id, with one more reference; NULL: there is none. */
struct inode *inode_by_id(struct inode_table *t, uint64_t id);
/* One of its references is going to be the kernel's. */
void inode_known(struct inode *ino);
/* The kernel gives n back, or did not get it after all. false: it has not got so
 * many, and none of those beyond is given back. */
bool inode_forget(struct inode_table *t, struct inode *ino, uint64_t n);

/* New attributes, on their way to the kernel: returns for how many seconds they may be believed. */
double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* The same without new attributes. */
double inode_timeo(struct inode_table *t, struct inode *ino);
/* A file's mtime was set: that is what the kernel has to see. */
void inode_mtime_set(struct inode *ino);
/* The kernel reads or writes it through its page cache. */
void inode_paged(struct inode *ino);
/* A direct write has been executed: true if the kernel is to forget the attributes. */
bool inode_written_past(struct inode *ino);
/* The kernel is about to hear that it has written up to `end`. */
void inode_wrote(struct inode *ino, uint64_t end);

/* OPEN brought attr: are they other than what the kernel was told? */
bool inode_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/*
 * An open for writing, answered by the server after `since`: the kernel appends
 * at the size that it knows, and only a LOOKUP or GETATTR changes that. True: the
 * size is another one, and not by our own doing; pid's open is to be sent back
 * (ESTALE) to look the name up again. Once it has, it is let through: somebody
 * else is writing right now. What is opened without a name (/proc/self/fd/1) is not
 * looked up: unless it is to append, which would overwrite, it is let through then.
 */
bool inode_send_back(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		     bool append, pid_t pid, uint64_t since);

/* An open file more. attr are those that the open brought: true if the kernel
 * may keep the pages that it has. */
bool inode_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* The same while nobody knows yet whether it will be one. false: it is pinned, and
 * may be about to lose its last name; not counted. */
bool inode_opening(struct inode_table *t, struct inode *ino);
/* One of its names is to go, plainly: until inode_unpin() no open of it begins. false:
 * it is open, and that name is all that it has for sure. */
bool inode_pin(struct inode_table *t, struct inode *ino);
void inode_unpin(struct inode_table *t, struct inode *ino);
/* One less. At the last, what silly rename left is the caller's to remove and
 * free, and pins the inode until then; otherwise NULL. */
struct silly *inode_close(struct inode_table *t, struct inode *ino);

/* The inode that was last seen as (parent, name), referenced; or NULL. */
struct inode *inode_find(struct inode_table *t, uint64_t parent, const char *name);
/* It has this name, too. */
void inode_named(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name);
/* (parent, name) is gone. */
void inode_unnamed(struct inode_table *t, uint64_t parent, const char *name);
/* (from, name) is (to, newname) now, whatever that was before. */
void inode_renamed(struct inode_table *t, uint64_t from, const char *name, uint64_t to,
		   const char *newname);
/* It has the name (parent, s->name), and (parent, name) no longer if name is not NULL;
 * s is the inode's from now on. false: it is not open any more (and s pins it), or has
 * a silly name already, and s stays the caller's. */
bool inode_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name,
		     struct silly *s);
/* Its file has been closed: it is on its way out. */
void silly_leaves(struct silly *s);
/* Frees s, and gives back what it has of its directory. */
void silly_free(struct inode_table *t, struct silly *s);
/* Is this its silly name? */
bool inode_silly_is(struct inode_table *t, struct inode *ino, const char *name);
/* The mount has ended: what silly rename left of any file that is still open, one
 * at a time; NULL: no more. The caller's to remove and free. */
struct silly *inode_take_silly(struct inode_table *t);

#endif
