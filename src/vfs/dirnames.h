/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names in a directory that has a delegation: the server calls before anybody else adds, removes or renames one
 * (nfs/nfs4/nfs4_dirdeleg.c). So what LOOKUP has found, or has not found, holds as long as the delegation, until
 * this mount changes the directory itself:
 *
 *      LOOKUP (d, a) is sent: delegation 7, so many own changes      reply: 7 still, and no other change: kept
 *      LOOKUP (d, a): 7 still, and no other change: the same, as if the server had been asked now
 *
 * That a name is not there is answered by this alone. The answer to one that is there has the file's attributes,
 * and so needs a delegation of the file as well (promised.h). The kernel is told no longer times than without: it
 * would have to forget names before DELEGRETURN is sent.
 *
 * The delegation is asked for by an operation of its own, when a directory without one has had DIRNAMES_LOOKUPS
 * calls for names; not again for DIRNAMES_PAUSE_S, because others may be changing it. A server that does not know
 * the operation is asked once; one that says that it gives none now is asked less and less often, whatever the
 * directory, until it gives one.
 *
 * Who else can act in between:
 *
 *   a recall before LOOKUP's reply   The delegation is another one then, or none: nothing is kept.
 *   an own change, before or after the reply   It is counted before it is sent (ownchange.h): what was looked up
 *         beside it is not kept, and what was kept before counts no more. One whose reply is lost may be executed
 *         at any time: nothing of that directory is believed any more (inode.unpromised).
 *   another lane that asks for the same delegation   The time of the last one is taken by one of them.
 *   the directory is forgotten, and found again with another id   Names are of the id: they are found no more, and
 *         go when others come.
 *
 * Any thread. One mutex, which is locked for a look at the table, and last.
 */
#pragma once

#include "base/hash.h"
#include "base/list.h"
#include "vfs/inode.h"

#define DIRNAMES_MAX     16384u         /* of all directories; the oldest one goes for a new one */
#define DIRNAMES_LOOKUPS 3u
#define DIRNAMES_PAUSE_S 30u

struct vfs_op;

struct dirnames {
	pthread_mutex_t mu;
	struct hash_node *by_name[4096];
	struct list all;                /* the oldest first */
	unsigned n;
	_Atomic uint64_t ask_ns;        /* no delegation is asked for before then */
	_Atomic unsigned denials;       /* in a row */
};

/* NULL: no memory. */
struct dirnames *dirnames_new(void);
/* NULL: does nothing. */
void dirnames_free(struct dirnames *t);

/* LOOKUP, on its lane. true: op has its result, without a call. Otherwise the second one follows with the
 * reply. */
bool dirnames_answer(struct vfs_op *op);
void dirnames_keep(struct vfs_op *op);
