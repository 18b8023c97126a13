/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inode table: filehandle <-> node id, and the references to an inode.
 *
 *      inode.h   the table, and references
 *      names.h   the names that inodes were seen under
 *      told.h    the attributes that the kernel was told, and believes
 *      opens.h   who has a file open, and who removes a name of it
 *      links.h   the texts of symbolic links
 *      known.h   what is known after this mount's own changes, without asking the server
 *      young.h   attributes for read(), although this mount has written since
 *      solo.h    consistency=solo
 *
 * The node id that the kernel knows is `id`, a handle (handle.h) that no other file gets;
 * the root is FUSE_ROOT_ID instead (fs_node()). The kernel's lookups, requests under way
 * and open files hold references. The kernel's references are also counted separately, so that
 * the kernel cannot give back more than it has.
 *
 * With the last reference an inode is *forgotten*: it loses all that it has but its filehandle, id
 * and type. A program may still have its id, in a handle of name_to_handle_at(2), so it waits in
 * its shard's list, and comes back with that id. What has waited longest is freed when the list is
 * full, and what this mount has taken the last known name from is freed at once: it mostly is not on
 * the server any more.
 *
 *      inode_get(fh) --> refs 1, 2, ... --last put--> refs 0, in `forgotten` --> freed, id too
 *            ^                                          |
 *            +-------- a name is looked up, or the id --+
 *
 * Who has an id and no reference asks inode_fh() for the filehandle, GETATTR with that, and
 * inode_get() then, which may find that the inode has been freed meanwhile, and makes another one:
 * its id tells. Only under the shard's lock does an inode become forgotten, come back, or leave the
 * list. inode_by_id(), inode_by_fh() and inode_find() do not find forgotten inodes.
 *
 * A program's handle may be of another mount's time, whose ids may have been the same ones. So the
 * kernel is told a random generation as well, one for all ids of a table.
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
#ifndef FS_INODE_H
#define FS_INODE_H

#include <pthread.h>
#include <stdatomic.h>
#include "fs/handle.h"
#include "fs/names.h"
#include "fs/told.h"
#include "nfs/nfs.h"

#define INODE_SHARDS  64u
#define INODE_BUCKETS 512u              /* in each shard */
#define INODE_FORGOTTEN 256u            /* in each shard; the man page says how many in all */
#define SENT_BACK     1024u             /* threads, by their ids */
#define UNSEEN        64u               /* inodes to which others were sent back */

struct inode {
	struct hash_node by_fh;         /* [s] in the shard's table */
	struct nfs_fh fh;               /* constant */
	uint64_t id;                    /* constant: no other file gets it */
	mode_t type;                    /* constant: S_IFMT */
	struct list node;               /* [s] in the shard's list if it is forgotten */
	_Atomic uint64_t refs;          /* falls to 0, and rises from 0, only under the shard's lock */

	/* A forgotten inode has none of what follows. */
	_Atomic uint64_t lookups;       /* how many references the kernel has */

	struct name *names;             /* [s] names.h: newest first */
	bool names_missing;             /* [s] not all of them are there */
	bool nameless;                  /* [s] this mount has taken the last one away */

	/* told.h: */
	uint64_t change;                /* [s] from the newest attributes */
	struct timespec mtime;          /* [s] the same */
	uint64_t size;                  /* [s] the same */
	double timeo;                   /* [s] seconds that attributes are believed */
	uint64_t timeo_ns;              /* [s] when that was set */
	_Atomic uint64_t fresh_ns;      /* when the kernel was last told attributes, or wrote */
	_Atomic uint64_t news_ns;       /* when it last got anything by which it ignores what it
					 * asked for before */
	_Atomic uint64_t told_size;     /* the size that the kernel believes, or NOBODY_KNOWS */
	_Atomic unsigned writing;       /* WRITEs under way */
	uint64_t set_change;            /* [s] the change attribute after the newest SETATTR */
	struct list ends;               /* [s] the open_ends of open files */
	struct timespec told_mtime;     /* [s] as the server had it */
	_Atomic uint32_t mtime_ahead;   /* ns added to that for the kernel; changed under [s] */
	bool doubt;                     /* [s] it may have ignored the newest answer */
	_Atomic unsigned differing;     /* opens that know of a difference, and have not told it yet */
	_Atomic bool paged;             /* the kernel may have pages of it */
	_Atomic bool outdated;          /* a direct write bypassed them after the last answer */

	/* opens.h: */
	_Atomic unsigned nfiles;        /* struct files of it */
	_Atomic unsigned nopen;         /* open files, and opens under way; changed under [s] */
	bool cache_valid;               /* [s] the kernel has no pages that are older than... */
	uint64_t cache_change;          /* [s] ...this change attribute */
	struct silly *silly;            /* [s] */
	unsigned pins;                  /* [s] calls under way that remove a name plainly */

	/* young.h: */
	struct young *_Atomic young;    /* NULL: it was never opened */
	_Atomic uint64_t spoilt_ns;     /* attributes that were asked for before are not kept */
	_Atomic uint64_t noted_ns;      /* when the server's newest attributes came */
	_Atomic bool atime_old;         /* the kernel has read since it was told attributes; or,
					 * with solo, closed the file */

	struct solo *solo;              /* constant; NULL: not consistency=solo, or no regular file */

	/* ahead.h: */
	_Atomic uint64_t data_nr;       /* what was fetched at another number is outdated */
	_Atomic unsigned data_busy;     /* changes of the data that are under way */

	struct link_text *link;         /* [s] links.h; NULL: it is not known */

	/* known.h: */
	bool seen;                      /* [s] what follows is valid */
	uint64_t seen_change;           /* [s] the newest change attribute; own changes follow */
	uid_t uid;                      /* [s] at seen_change */
	gid_t gid;                      /* [s] the same */
	unsigned changing;              /* [s] calls under way that change the inode */
	uint64_t changes;               /* [s] how many such calls have begun */
	struct after *after;            /* [s] its attributes after the last one, or NULL */

	_Atomic unsigned held;          /* given_up.c: requests that hold it */
	struct behind *_Atomic behind;  /* behind.h; NULL: it was never written to */

	/* For a directory: */
	_Atomic uint64_t entries_ns;    /* when this mount last changed its entries */
	_Atomic unsigned nsilly;        /* silly names in it that are not removed yet */
	_Atomic unsigned nleaving;      /* those of them whose files are closed */
	_Atomic unsigned silly_gone;    /* how many silly names have gone */
};

struct inode_shard {
	pthread_mutex_t mu;
	struct hash_node *by_fh[INODE_BUCKETS];
	struct list forgotten;          /* the one that has waited longest first */
	unsigned nforgotten;
};

/* Threads without a number that were sent back: see opens.h. */
struct unseen {
	pthread_mutex_t mu;
	_Atomic uint64_t until_ns;      /* after that there are none; 0: there never were */
	struct unseen_note {
		uint64_t id, until_ns;
		unsigned count;
	} note[UNSEEN];
};

struct inode_table {
	struct inode_shard shard[INODE_SHARDS];
	struct name_shard names[NAME_SHARDS];
	struct handles handles;
	_Atomic uint64_t count;         /* inodes that are not forgotten */
	_Atomic uint64_t names_missing; /* inodes with names_missing */
	uint32_t generation;            /* of all ids; FUSE's for each node */
	/* For each thread: see opens.h. */
	_Atomic uint64_t back[SENT_BACK];
	struct unseen unseen;
	unsigned acregmin, acregmax, acdirmin, acdirmax;
	bool solo;                      /* solo.h */
};

int inode_table_init(struct inode_table *t);
/* Frees all inodes that are left, whatever their references. */
void inode_table_fini(struct inode_table *t);

/*
 * Finds or makes the inode of a filehandle, and takes a reference. Remembers attr, which
 * is about to go to the kernel, as for inode_update(), after setting the size that the file
 * will have when write-behind has sent everything. parent 0: the name is not known. NULL:
 * no memory.
 */
struct inode *inode_get(struct inode_table *t, const struct nfs_fh *fh,
			struct nfs_attr *attr, uint64_t parent, const char *name,
			size_t namelen, uint64_t since);
/* The same after CREATE, which has opened the file: attr are kept for young.h. */
struct inode *inode_get_created(struct inode_table *t, const struct nfs_fh *fh,
				struct nfs_attr *attr, uint64_t parent, const char *name,
				size_t namelen, uint64_t since);
/*
 * As inode_get(), for an entry of a listing that was requested at `since`. NULL also if the
 * kernel may know newer attributes than these: it would believe the old ones, and append
 * at the file's old end.
 */
struct inode *inode_get_listed(struct inode_table *t, const struct nfs_fh *fh,
			       const struct nfs_attr *attr, uint64_t parent, const char *name,
			       size_t namelen, uint64_t since);
/* The inode of a filehandle, with one more reference. NULL: there is none. */
struct inode *inode_by_fh(struct inode_table *t, const struct nfs_fh *fh);
/* Takes a reference. The caller must have one already. */
void inode_ref(struct inode *ino);
/* Drops n references. */
void inode_put(struct inode_table *t, struct inode *ino, uint64_t n);
/* The filehandle of the inode with that id, which may be forgotten. false: there is none. */
bool inode_fh(struct inode_table *t, uint64_t id, struct nfs_fh *fh);
/* The inode with that id, with one more reference. NULL: there is none. */
struct inode *inode_by_id(struct inode_table *t, uint64_t id);
/* One of the caller's references becomes the kernel's. */
void inode_known(struct inode *ino);
/* The kernel gives n references back, or did not get one after all. false: it has fewer
 * than n; only those that it has are dropped. */
bool inode_forget(struct inode_table *t, struct inode *ino, uint64_t n);

#endif
