/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What idmap.c, the table and the mapper, and idmap_calls.c, the calls that wait for it, share. */
#pragma once

#include <pthread.h>
#include "base/hash.h"
#include "nfs/internal.h"

#define NFS_IDMAP_BUCKETS 256u

enum nfs_idmap_way { TO_ID, TO_NAME };

struct nfs_idmap_entry {
	struct hash_node node;          /* in im->table */
	struct list lru;                /* the least recently used is first */
	struct list asked;              /* in the mapper's queue */
	unsigned refs;                  /* calls that wait */
	int way;
	bool group;
	bool queued;                    /* in the queue, or with the mapper */
	bool answered, found;
	uint64_t asked_ns, until_ns;
	uint32_t id;
	char name[NFS_OWNER_MAX];
};

/* A lane, as the mapper tells it of answers. */
struct nfs_idmap_lane {
	struct loop_msg m;
	struct nfs_idmap *im;
	struct nfs_lane *lane;
	bool posted;                    /* m is in the loop's mailbox */
};

struct nfs_idmap {
	struct nfs_client *cl;
	const struct nfs_idmapper *mapper;
	pthread_mutex_t mu;             /* for everything below */
	pthread_cond_t cond;            /* asked is not empty, stopping, or ended */
	struct hash_node *table[NFS_IDMAP_BUCKETS];
	struct list lru, asked;
	unsigned entries;
	bool stopping, started, ended, joined, warned, names_wanted;
	pthread_t tid;
	struct nfs_idmap_lane lane[NFS_LANES_MAX];
};

/* idmap.c, with the lock held: the entry; an old answer is asked for again. NULL: no room. */
struct nfs_idmap_entry *nfs_idmap_look_up(struct nfs_idmap *im, int way, bool group,
					  const char *name, uint32_t id);
/* Is it worth waiting for the answer? */
bool nfs_idmap_is_open(const struct nfs_idmap *im, const struct nfs_idmap_entry *e);

/* idmap_calls.c: a lane is told that there are answers. */
void nfs_idmap_answered(struct loop_msg *m);
