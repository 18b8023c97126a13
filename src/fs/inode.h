/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inode table: filehandle <-> node id.
 *
 * A node id that the kernel knows is the address of the struct inode; the
 * kernel's lookups, requests under way and open files hold references, and the
 * inode goes when the last one does. An address that is used again gets a new
 * generation.
 *
 * Locks: the table is cut into shards by the handle's hash, each with a mutex
 * that is held for a table access and never while anything waits. It also
 * guards what is marked [s] below. A second set of shards, by (directory,
 * name), lists the *open* inodes for silly rename; order: table, then names.
 */
#ifndef FS_INODE_H
#define FS_INODE_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/list.h"
#include "nfs/nfs.h"

#define INODE_SHARDS  64u
#define INODE_BUCKETS 512u              /* of one shard */

struct silly {                          /* what is left of a name: see silly.c */
	struct nfs_fh dir;
	char name[32];
	struct rpc_cred cred;
};

struct inode {
	struct inode *hash_next;        /* [s] */
	uint32_t hash;
	struct nfs_fh fh;               /* constant */
	uint64_t id;                    /* constant: never used twice */
	_Atomic uint64_t refs;          /* falls to 0 only under the shard's lock */

	mode_t type;                    /* constant: S_IFMT */
	uint64_t change;                /* [s] of the newest attributes */
	struct timespec mtime;
	uint64_t size;
	double timeo;                   /* [s] seconds that attributes are believed */
	uint64_t timeo_ns;              /* [s] when that was set */

	bool cache_valid;               /* [s] the kernel's pages belong to cache_change */
	uint64_t cache_change;

	unsigned nopen;                 /* [s] open files */
	uint64_t parent_id;             /* [s] the name it was last seen under */
	char *name;
	struct list by_name;            /* in the names shard, while nopen > 0 */
	uint64_t key_parent;            /* names shard: what it is listed under */
	char *key_name;
	struct silly *silly;            /* [s] */
};

struct inode_shard {
	pthread_mutex_t mu;
	struct inode *bucket[INODE_BUCKETS];
};

struct name_shard {
	pthread_mutex_t mu;
	struct list open;
};

struct inode_table {
	struct inode_shard shard[INODE_SHARDS];
	struct name_shard names[INODE_SHARDS];
	_Atomic uint64_t next_id;
	_Atomic uint64_t count;
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
/* One more reference to an inode that has at least one. */
void inode_ref(struct inode *ino);
void inode_put(struct inode_table *t, struct inode *ino, uint64_t n);

/* New attributes: returns for how many seconds they may be believed. */
double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* The same without new attributes. */
double inode_timeo(struct inode_table *t, struct inode *ino);

/* An open file more. attr are those that the open brought: true if the kernel
 * may keep the pages that it has. */
bool inode_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* One less. At the last, what silly rename left is the caller's to remove and
 * free; otherwise NULL. */
struct silly *inode_close(struct inode_table *t, struct inode *ino);

/* The open inode that was last seen as (parent, name), referenced; or NULL. */
struct inode *inode_find_open(struct inode_table *t, uint64_t parent, const char *name);
/* It has another name now. */
void inode_renamed(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name);
/* Its name was changed to s->name; s is the inode's from now on. false: it is
 * not open any more, and s stays the caller's. */
bool inode_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, struct silly *s);
/* Takes it back (the rename did not happen after all); s is the caller's. */
struct silly *inode_clear_silly(struct inode_table *t, struct inode *ino);
bool inode_is_silly(struct inode_table *t, struct inode *ino);

#endif
