/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of a file below the opens: one struct nfs_file for each file handle of
 * a server.
 *
 *     nfs_server.files
 *       |  by handle                     in the order of opening
 *       v                                        |
 *     nfs_file, fh ---- in_file ---> nfs_open <--+
 *                              +---> nfs_open <--+     stateid, access, credential:
 *     nfs_file, fh ---- in_file ---> nfs_open <--+     the version's
 *
 * A file is there as long as something is known of it: today its opens. A delegation,
 * byte-range locks, a layout, and the ranges that are not on stable storage belong here
 * as well, beside `opens`; nobody else has to know how they are found.
 *
 * Threads. Lanes and the control thread find, list and give back under the table's lock,
 * which nobody holds while waiting for anything. A file's handle is constant. An open
 * belongs to the lane that is at work on it; nfs4/nfs4_state.c says until when, and what
 * recovery may change.
 *
 * What several lanes would change while calls are under way has no lock but a home: the
 * lane whose number is `hash` modulo the number of lanes. Only that lane's thread changes
 * it. Another lane asks: it sends the home's loop a message (loop_post) that says what is wanted, goes
 * on, and is answered with the message coming back to its own loop. Neither waits.
 *
 *     lane 2: asks --loop_post--> lane 0, home: changes it --loop_post--> lane 2: goes on
 */
#ifndef NFS_FILE_H
#define NFS_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "nfs/fh.h"

#define NFS_FILE_BUCKETS 1024u

struct nfs_file {
	struct nfs_file *hash_next;
	uint32_t hash;
	struct nfs_fh fh;
	struct list opens;              /* nfs_open_ref.in_file */
};

/* What every version's struct nfs_open begins with. */
struct nfs_open_ref {
	struct list node;               /* in nfs_files.opens */
	struct list in_file;            /* in file->opens */
	unsigned refs;
	struct nfs_file *file;          /* NULL: the server has not given its handle */
};

struct nfs_files {
	pthread_mutex_t mu;             /* for all of it, files and nfs_open_refs included */
	struct nfs_file *bucket[NFS_FILE_BUCKETS];
	struct list opens;
};

void nfs_files_init(struct nfs_files *t);
/* No open is left. */
void nfs_files_fini(struct nfs_files *t);

/* Any thread, all of these. An open with one reference, at the end of the list. */
void nfs_open_list(struct nfs_files *t, struct nfs_open_ref *o);
/* It is one of the file with that handle, once and for all. 0 or -ENOMEM. */
int nfs_open_of(struct nfs_files *t, struct nfs_open_ref *o, const struct nfs_fh *fh);
/* One more reference to what has one. */
void nfs_open_get(struct nfs_files *t, struct nfs_open_ref *o);
/* One less. true: it was the last one, nobody finds the open any more, and the caller
 * frees it. */
bool nfs_open_put(struct nfs_files *t, struct nfs_open_ref *o);
/* The open after o, on which the caller has a reference (NULL: the first one), with one
 * more reference; NULL: there is none. */
struct nfs_open_ref *nfs_open_next(struct nfs_files *t, struct nfs_open_ref *o);

#endif
