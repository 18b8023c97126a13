/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of a file apart from any single open: one struct nfs_file for each file
 * handle of a server that this client has open.
 *
 *     nfs_server.files
 *       |  by handle                     in the order of opening
 *       v                                        |
 *     nfs_file, fh ---- in_file ---> nfs_open <--+
 *                              +---> nfs_open <--+     stateid, access, credential:
 *     nfs_file, fh ---- in_file ---> nfs_open <--+     the version's
 *
 * A file exists as long as something is known of it; today that is its opens. A delegation,
 * byte-range locks and a layout belong here as well, beside `opens`. Nobody else has to know how
 * they are found. (What is written and not on stable storage yet is in vfs/behind.h, because
 * its buffers and waiting programs are.)
 *
 * Threads. Lanes and the control thread add, list and release opens under the table's lock.
 * Nobody holds that lock while waiting for anything. A file's handle never changes. An open
 * belongs to the lane that works on it; nfs4/nfs4_state.c says until when, and what
 * recovery may change.
 *
 * Protocol state that several lanes change while calls are under way (there is none yet) gets
 * no lock. It gets a home: the lane whose number is its hash modulo the number of lanes. Only
 * that lane's thread changes it. Another lane sends the home's loop a message (loop_post)
 * that says what is wanted, and goes on. The answer is the same message, posted back to its
 * own loop. Neither lane waits.
 *
 *     lane 2: asks --loop_post--> lane 0, home: changes it --loop_post--> lane 2: goes on
 */
#ifndef NFS_FILE_H
#define NFS_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/hash.h"
#include "base/list.h"
#include "nfs/fh.h"

#define NFS_FILE_BUCKETS 1024u

struct nfs_file {
	struct hash_node by_fh;
	struct nfs_fh fh;
	struct list opens;              /* nfs_open_ref.in_file */
};

/* What every version's struct nfs_open begins with. */
struct nfs_open_ref {
	struct list node;               /* in nfs_files.opens */
	struct list in_file;            /* in file->opens */
	unsigned refs;
	struct nfs_file *file;          /* NULL: the server has not returned its handle yet */
};

struct nfs_files {
	pthread_mutex_t mu;             /* for everything here, files and nfs_open_refs included */
	struct hash_node *by_fh[NFS_FILE_BUCKETS];
	struct list opens;
};

void nfs_files_init(struct nfs_files *t);
/* No open may be left. */
void nfs_files_fini(struct nfs_files *t);

/* Any thread may call these. Appends an open to the list, with one reference. */
void nfs_open_list(struct nfs_files *t, struct nfs_open_ref *o);
/* Ties the open to the file with that handle, once. 0 or -ENOMEM. */
int nfs_open_of(struct nfs_files *t, struct nfs_open_ref *o, const struct nfs_fh *fh);
/* Adds a reference. The caller must have one already. */
void nfs_open_get(struct nfs_files *t, struct nfs_open_ref *o);
/* Drops a reference. true: it was the last one. Then nobody finds the open any more, and
 * the caller frees it. */
bool nfs_open_put(struct nfs_files *t, struct nfs_open_ref *o);
/* The open after o, with a new reference; NULL: there is none. The caller has a
 * reference to o. o NULL: the first open. */
struct nfs_open_ref *nfs_open_next(struct nfs_files *t, struct nfs_open_ref *o);

#endif
