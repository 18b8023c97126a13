/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Directories that this mount has made with consistency=solo: which names are not in them.
 *
 * The kernel looks each name up before it creates it. A directory that this mount has made was
 * empty, and nobody else makes names in it. So its names are at most those that this mount has
 * made, and any other name is not there:
 *
 *   MKDIR d ... reply           d is empty: it is *whole*
 *   create, link, rename to     d/a: `a` is added, and then the call is sent
 *   LOOKUP d/b                  `b` was never added: ENOENT, without a call
 *
 * Only additions count. A name that was removed, or was not made after all, stays, and costs a
 * LOOKUP. The names are a Bloom filter of fixed size, so the same goes for names that have their
 * bits in common with others, and for a directory of very many names.
 *
 * Who else can act in between:
 *
 *   Another program here that creates the name: it is added before the call is sent, and stays if
 *      the program is killed and the call is still under way, or its reply is lost.
 *   Somebody else, against the rule. Each of this mount's changes brings the directory's change
 *      attribute before and after it. If it does not begin where the last one has ended, or the
 *      server does not say so atomically, or the change has failed, the directory is not whole any
 *      more. The same if a reply has another change attribute while no change of ours is under way.
 *      What changes the directory itself (SETATTR, a rename of it) ends it as well: such a reply does not
 *      say where it has begun. Without any change of ours nothing would show it, so a directory is
 *      believed for SOLO_DIR_S seconds after its last one, and then again with the next one, if that
 *      begins where it should. (With version 3 the change attribute is the ctime, so two changes within
 *      one tick of the server's clock look like one.)
 *   The server, which finds a file by another name than it was made with: without regard to case,
 *      by a short name (LONGNA~1), without the dot at the end, in another form of Unicode; or
 *      makes names itself (.snapshot). So case does not count here, such names are not answered for
 *      (see usual()), and making one whose other forms nobody knows ends it.
 *
 * A directory is known by its inode's id, which no other file gets, and not by the inode: nothing
 * can change a directory that this mount has forgotten, and come unnoticed. There is room for
 * SOLO_DIRS; of those that share a shard the one whose last change is the oldest goes for a
 * new one.
 *
 * Any thread. Each shard has a mutex, which may be taken while an inode's shard is locked
 * (inode.h).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "nfs/nfs.h"

#define SOLO_DIR_SHARDS 64u
#define SOLO_DIR_WAYS   4u
#define SOLO_DIR_BITS   32768u          /* two for each name: 5 % of others are asked for with 4,096 */
#define SOLO_DIR_S      10u             /* the man page says so */

struct solo_dir {
	uint64_t id;                    /* 0: free */
	uint64_t change;                /* the change attribute after this mount's last change */
	uint64_t since_ns;              /* when that was sent */
	uint64_t bits[SOLO_DIR_BITS / 64];
};

struct solo_dirs {
	struct solo_dirs_shard {
		pthread_mutex_t mu;
		struct solo_dir *dir;   /* SOLO_DIR_WAYS; or NULL */
	} shard[SOLO_DIR_SHARDS];
};

void solo_dirs_init(struct solo_dirs *d);
void solo_dirs_fini(struct solo_dirs *d);

/* This mount has made the directory, by a call that was sent at since_ns, and nobody has it yet.
 * Without memory it is not known. */
void solo_dir_made(struct solo_dirs *d, uint64_t id, uint64_t change, uint64_t since_ns);
/* A call that makes the name, or may, is going to be sent. */
void solo_dir_adds(struct solo_dirs *d, uint64_t id, const char *name);
/* A call that changes the directory has ended. It was sent at since_ns. c: what its reply says;
 * NULL: nothing. */
void solo_dir_changed(struct solo_dirs *d, uint64_t id, const struct nfs_dir_change *c,
		      uint64_t since_ns);
/* A reply has this change attribute, and no call that changes the directory is under way. */
void solo_dir_seen(struct solo_dirs *d, uint64_t id, uint64_t change);
/* Is the name known not to be there? */
bool solo_dir_lacks(struct solo_dirs *d, uint64_t id, const char *name);
