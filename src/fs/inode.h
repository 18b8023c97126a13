/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inode table: filehandle <-> node id, and who refers to an inode.
 *
 *      inode.h   the table, and references
 *      names.h   the names that inodes were seen under
 *      told.h    what the kernel was told of attributes, and believes
 *      opens.h   who has a file open, or takes a name of it away
 *      known.h   what is known after this mount's own changes, without asking
 *
 * A node id that the kernel knows is a handle (handle.h), which never comes back:
 * `id` is that, the root's excepted. The kernel's lookups, requests under way and
 * open files hold references, and the inode goes when the last one does. What the
 * kernel holds of them is counted by itself: it cannot give back more than it has.
 *
 * Threads: all of this is for any lane's, but for inode_table_init() and
 * inode_table_fini(), when there are no lanes. Nothing here waits but for locks.
 *
 * Locks: the table is cut into shards by the filehandle's hash, each with a mutex that
 * is held for a table access and never while anything waits. It also guards what is
 * marked [s] below. Under it the locks of names.h and handle.h are taken, and never the
 * other way round.
 */
#ifndef FS_INODE_H
#define FS_INODE_H

#include <pthread.h>
#include <stdatomic.h>
#include "fs/handle.h"
#include "fs/names.h"
#include "fs/told.h"
#include "nfs/nfs.h"

#define INODE_SHARDS  64u
#define INODE_BUCKETS 512u              /* of one shard */

struct inode {
	struct inode *hash_next;        /* [s] */
	uint32_t hash;
	struct nfs_fh fh;               /* constant */
	uint64_t id;                    /* constant: never used twice */
	_Atomic uint64_t refs;          /* falls to 0 only under the shard's lock */
	_Atomic uint64_t lookups;       /* how many of them are the kernel's */
	mode_t type;                    /* constant: S_IFMT */

	struct name *names;             /* [s] names.h: newest first */

	/* told.h: */
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
	_Atomic bool paged;             /* the kernel may have pages of it */
	_Atomic bool outdated;          /* a direct write went past them since it was told */

	/* opens.h: */
	_Atomic unsigned nfiles;        /* struct files of it */
	_Atomic unsigned nopen;         /* open files, and opens under way; changed under [s] */
	bool cache_valid;               /* [s] the kernel's pages belong to cache_change */
	uint64_t cache_change;
	struct silly *silly;            /* [s] */
	unsigned pins;                  /* [s] calls under way that take a name away plainly */

	/* known.h: */
	unsigned changing;              /* [s] calls under way that change it */
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

struct inode_table {
	struct inode_shard shard[INODE_SHARDS];
	struct name_shard names[NAME_SHARDS];
	struct handles handles;
	_Atomic uint64_t count;
	struct sent_back back[SENT_BACK];
	unsigned acregmin, acregmax, acdirmin, acdirmax;
};

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

#endif
