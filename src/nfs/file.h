/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of a file apart from any single open: one struct nfs_file for each file handle.
 *
 *     the caller's table
 *       |  by handle
 *     struct inode: nfs_file, ... <---- file ---- nfs_open     stateid, access, credential:
 *                           ^---------- file ---- nfs_open     the version's
 *     struct inode: nfs_file, ... <---- file ---- nfs_open
 *
 * Nobody here looks for a file, so there is no table of files here. The caller has one
 * (vfs/inode.h), and nfs_file is the head of what it keeps of a file. OPEN and CREATE ask it for the
 * file (nfs_args.file.get) when the server has opened that and its handle is known: OPEN's file is
 * known beforehand, CREATE's is found or made then.
 *
 * References: the table has one, and each open has one until it is freed. So an open whose CLOSE
 * waits, or that is being recovered, keeps the handle after the table has given up the file. The
 * last reference frees the memory that the file is the head of, and no more: whatever hangs on that
 * has to go before the table's reference does. Any thread takes and drops references, without a
 * lock. A file's handle never changes.
 *
 * A delegation is of a file, too, and has a reference to it. The version keeps it: it is found by the
 * handle, when the server wants it back. (Locks are of an open. What is written and not on
 * stable storage yet is in vfs/behind.h, because its buffers and waiting programs are.)
 *
 * Delegations are protocol state that several lanes change while calls are under way. They are in one
 * table with a lock, and have no lane of their own: a recall may come on any lane, and has to be answered
 * there and then.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "nfs/fh.h"
#include "rpc/rpc_auth.h"

struct nfs_file {
	struct nfs_fh fh;
	_Atomic unsigned refs;
	_Atomic unsigned opens;         /* how many there are of version 4 */
	_Atomic unsigned locked;        /* by how many of these LOCK was sent */
	_Atomic uint64_t delegation;    /* the number of the one that is held; 0: none is */
	_Atomic uint64_t accessed_ns;   /* when it was last read under one with NFS_DELEGATION_TIMES, since the epoch;
					 * or 0 */
	_Atomic bool used;              /* it was open, or the delegation was of use, since the sweep */
};

/* The number of a directory's delegation has this bit. */
#define NFS_DELEGATION_OF_DIR (UINT64_C(1) << 61)
/* The number of a delegation has this bit if this mount says when the file was read (RFC 9754): accessed_ns, with
 * DELEGRETURN. Until then nobody else has newer times of access. */
#define NFS_DELEGATION_TIMES (UINT64_C(1) << 62)
/* The number of a delegation to write has this bit: whoever knows which one a file has knows its kind. */
#define NFS_DELEGATION_WRITES (UINT64_C(1) << 63)

static inline bool nfs_delegation_writes(uint64_t number)
{
	return number & NFS_DELEGATION_WRITES;
}

/* What the caller sees of a delegation: DELEGRETURN of that file, by that user. */
struct nfs_delegation {
	struct nfs_file *file;
	struct rpc_cred cred;
	uint64_t number;                /* no other one has it */
};

/* One more reference. The caller has one, or keeps the table from dropping its own. */
static inline struct nfs_file *nfs_file_ref(struct nfs_file *f)
{
	atomic_fetch_add(&f->refs, 1);
	return f;
}

static inline void nfs_file_put(struct nfs_file *f)
{
	if (atomic_fetch_sub(&f->refs, 1) == 1)
		free(f);
}
