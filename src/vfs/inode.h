/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inode table: filehandle <-> id, and the references to an inode.
 *
 *      inode.h   the table, and references
 *      names.h   the names that inodes were seen under
 *      opencount.h   who has a file open, and who removes a name of it
 *      symlinks.h   the texts of symbolic links
 *      ownchange.h   what is known after this mount's own changes, without asking the server
 *      behind.h  what programs have written
 *      locks.h   who has locks of it on the server
 *      solo_dirs.h  names that are not there, if only this mount makes any
 *
 * `id` is a handle (handle.h) that no other file gets: by it a front end may name the inode to
 * others. What the front end has, operations under way and open files hold references.
 *
 * With the last reference an inode is *forgotten*: it loses all that it has but its filehandle, id
 * and type. A program may still have its id, in a handle of name_to_handle_at(2), so it waits in
 * its shard's list, and comes back with that id. The one that has waited longest is freed when the
 * list is full. If this mount has removed its last known name, it is freed at once: the file mostly
 * is not on the server any more.
 *
 *      inode_get(fh) --> refs 1, 2, ... --last put--> refs 0, in `forgotten` --> freed, id too
 *            ^                                          |
 *            +-------- a name is looked up, or the id --+
 *
 * An inode begins with the nfs_file of its handle (nfs/file.h): this is the only table of files.
 * Opens of version 4 hold references to the nfs_file. These keep the memory, and nothing else: an
 * inode is forgotten and freed as if it had no opens, and an open whose CLOSE waits still has the
 * handle. So "freed" means here that nobody finds the inode any more; the memory goes with its
 * last open, without a lock, on any thread.
 *
 *      OPEN's reply      the open takes a reference to the nfs_file of the operation's inode
 *      CREATE's reply    inode_file(fh): the same; if there is no inode, a forgotten one is made
 *         its end        inode_get_created(fh, attributes): the inode comes back
 *
 * A caller with an id and no reference gets the filehandle from inode_fh(), sends GETATTR, and
 * calls inode_get(). If the inode was freed meanwhile, that makes another one, with another id.
 * Only under the shard's lock does an inode become forgotten, come back, or leave the list.
 * inode_by_id(), inode_by_fh() and inode_find() do not find forgotten inodes.
 *
 * An id may be of another mount's time, whose ids may have been the same ones. So a table has a
 * random generation, which is to be told with each id.
 *
 * Threads: any lane may call these functions, except inode_table_init() and
 * inode_table_fini(), which run while there are no lanes. Nothing here blocks except for
 * locks.
 *
 * Locks: the table is divided into shards by the filehandle's hash. Each shard has a mutex
 * that is held for a table access, and never while waiting. It also guards the members that
 * are marked [s] below. The locks of names.h and handle.h may be taken while it is held,
 * never the other way round.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include "vfs/handle.h"
#include "vfs/names.h"
#include "vfs/solo_dirs.h"
#include "nfs/nfs.h"

#define INODE_SHARDS  64u
#define INODE_BUCKETS 512u              /* in each shard */
#define INODE_FORGOTTEN 256u            /* in each shard; the man page says how many in all */

struct inode {
	struct nfs_file file;           /* the handle, and who keeps this memory */
	struct hash_node by_fh;         /* [s] in the shard's table */
	uint64_t id;                    /* constant: no other file gets it */
	mode_t type;                    /* constant: S_IFMT */
	struct list node;               /* [s] in the shard's list if it is forgotten */
	_Atomic uint64_t refs;          /* falls to 0, and rises from 0, only under the shard's lock */

	/* A forgotten inode has none of what follows. */
	struct name *names;             /* [s] names.h: newest first */
	bool names_missing;             /* [s] not all of them are there */
	bool nameless;                  /* [s] this mount has taken the last one away */
	_Atomic bool left;              /* set under [s]: inode_leave_locked() */

	/* The server's newest attributes: */
	uint64_t change;                /* [s] */
	struct timespec mtime;          /* [s] */
	_Atomic uint64_t size;          /* changed under [s] */
	_Atomic double timeo;           /* seconds that attributes are believed; changed under [s] */
	uint64_t timeo_ns;              /* [s] when that was set */
	_Atomic uint64_t noted_ns;      /* when they came */

	/* opencount.h: */
	_Atomic unsigned nfiles;        /* struct files of it */
	_Atomic unsigned nopen;         /* open files, and opens under way; changed under [s] */
	struct silly *silly;            /* [s] */
	uint64_t stays_ns;              /* [s] until then it is not left by opencount_leave() */
	unsigned pins;                  /* [s] calls under way that remove a name plainly */

	/* ahead.h: */
	_Atomic uint64_t data_nr;       /* what was fetched at another number is outdated */
	_Atomic unsigned data_busy;     /* changes of the data that are under way */

	struct symlink_text *link;         /* [s] symlinks.h; NULL: it is not known */

	/* ownchange.h: */
	bool seen;                      /* [s] what follows is valid */
	uint64_t seen_change;           /* [s] the newest change attribute; own changes follow */
	uid_t uid;                      /* [s] at seen_change */
	gid_t gid;                      /* [s] the same */
	unsigned changing;              /* [s] calls under way that change the inode */
	uint64_t changes;               /* [s] how many such calls have begun */
	struct after *after;            /* [s] its attributes after the last one, or NULL */
	_Atomic bool after_counts;      /* they do; changed under [s] */

	/* promised.h: */
	struct promised *promised;      /* [s] its attributes under a delegation, or NULL */
	bool unpromised;                /* [s] a change had no answer, and may be executed at any time */
	_Atomic unsigned reads;         /* how many READs have ended while it had a delegation */

	_Atomic unsigned held;          /* start.c: operations that hold it */
	struct extents *_Atomic extents;        /* extents.h; NULL: never written to or read ahead */
	struct vfs_locks *_Atomic locks;        /* locks.h; NULL: never locked */

	/* For a directory: */
	_Atomic uint64_t entries_ns;    /* when this mount last changed its entries */
	_Atomic unsigned nsilly;        /* silly names in it that are not removed yet */
	_Atomic unsigned nleaving;      /* those of them whose files are closed */
	_Atomic unsigned silly_gone;    /* how many silly names have gone */
	_Atomic unsigned lookups;       /* dirnames.h: calls for its names since a delegation was asked for, */
	_Atomic uint64_t asked_ns;      /* ...which was then; or 0 */
};

_Static_assert(offsetof(struct inode, file) == 0, "nfs_file_put() frees the inode");

struct inode_shard {
	pthread_mutex_t mu;
	struct hash_node *by_fh[INODE_BUCKETS];
	struct list forgotten;          /* the one that has waited longest first */
	unsigned nforgotten;
};

struct dirnames;

struct inode_table {
	struct inode_shard shard[INODE_SHARDS];
	struct name_shard names[NAME_SHARDS];
	struct handles handles;
	_Atomic uint64_t count;         /* inodes that are not forgotten */
	_Atomic uint64_t names_missing; /* inodes with names_missing */
	uint32_t generation;            /* of all ids: at random */
	const struct vfs_front *front;
	_Atomic unsigned acregmin, acregmax, acdirmin, acdirmax;        /* seconds; a remount changes them */
	_Atomic double negative_timeo;          /* for so many a name is believed not to exist */
	bool solo;                      /* nobody else changes the files */
	struct solo_dirs solo_dirs;     /* used with solo only */
	struct dirnames *dirnames;      /* with delegations only */
};

void inode_table_init(struct inode_table *t, const struct vfs_front *front);
/* Frees all inodes that are left, whatever their references. */
void inode_table_fini(struct inode_table *t);

static inline struct inode_shard *inode_shard_of(struct inode_table *t, const struct inode *ino)
{
	return &t->shard[ino->by_fh.hash % INODE_SHARDS];
}

/* For the members that are marked [s], and functions whose name ends with "locked". */
static inline void inode_lock(struct inode_table *t, const struct inode *ino)
{
	pthread_mutex_lock(&inode_shard_of(t, ino)->mu);
}

static inline void inode_unlock(struct inode_table *t, const struct inode *ino)
{
	pthread_mutex_unlock(&inode_shard_of(t, ino)->mu);
}

/*
 * Finds or makes the inode of a filehandle, and takes a reference. Remembers attr, which a call has
 * brought that was sent at `since`, or later, after setting the size that the file will have when
 * write-behind has sent everything. The front end is about to be told them (inode_found_locked).
 * parent 0: the name is not known. NULL: no memory.
 */
struct inode *inode_get(struct inode_table *t, const struct nfs_fh *fh,
			struct nfs_attr *attr, uint64_t parent, const char *name,
			size_t namelen, uint64_t since);
/* The same after CREATE, which has opened the file. */
struct inode *inode_get_created(struct inode_table *t, const struct nfs_fh *fh,
				struct nfs_attr *attr, uint64_t parent, const char *name,
				size_t namelen, uint64_t since);
/*
 * As inode_get(), for an entry of a listing that was requested at `since`. NULL also if the
 * front end may know newer attributes than these: it would believe the old ones, and append
 * at the file's old end.
 */
struct inode *inode_get_listed(struct inode_table *t, const struct nfs_fh *fh,
			       const struct nfs_attr *attr, uint64_t parent, const char *name,
			       size_t namelen, uint64_t since);
/* As inode_get(), but attr are neither remembered nor told. */
struct inode *inode_get_untold(struct inode_table *t, const struct nfs_fh *fh,
			       const struct nfs_attr *attr);
/* For CREATE's open: the file with that handle, with a reference to nfs_file. If there is no inode
 * it makes a forgotten one. NULL: no memory. */
struct nfs_file *inode_file(struct inode_table *t, const struct nfs_fh *fh);
/* The inode of a filehandle, with one more reference. NULL: there is none. */
struct inode *inode_by_fh(struct inode_table *t, const struct nfs_fh *fh);
/* Takes a reference. The caller must have one already. */
void inode_ref(struct inode *ino);
/* Takes a reference to an inode whose memory stays: the caller has found it in a list whose lock it holds, or
 * has a reference to its nfs_file. false: it has no references any more, and is forgotten, or will be. */
bool inode_ref_live(void *ino);
/* Drops n references. */
void inode_put(struct inode_table *t, struct inode *ino, uint64_t n);
/* The filehandle of the inode with that id, which may be forgotten. false: there is none. */
bool inode_fh(struct inode_table *t, uint64_t id, struct nfs_fh *fh);
/* The inode with that id, with one more reference. NULL: there is none. */
struct inode *inode_by_id(struct inode_table *t, uint64_t id);

/* The server has sent attr. Returns for how many seconds they may be believed. */
double inode_note_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* Do attr differ from the newest attributes? */
bool inode_differs_locked(const struct inode *ino, const struct nfs_attr *attr);
/* For how many seconds the newest attributes may be believed. */
double inode_timeo(const struct inode_table *t, const struct inode *ino);
/* From now on the inode is not found by its handle, nor by a name: whoever looks the file up
 * gets a new one. Whoever has it keeps it, but cannot open it, nor truncate it by name: -ESTALE. */
void inode_leave_locked(struct inode_table *t, struct inode *ino);

static inline bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}
