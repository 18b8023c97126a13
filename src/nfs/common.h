/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What versions 3 and 4 do in the same way with results that they decode each on their
 * own: file data, verifiers, permissions.
 */
#ifndef NFS_COMMON_H
#define NFS_COMMON_H

#include "nfs/nfs.h"
#include "nfs_types.h"

/* Bytes of the call's WRITE data. */
uint32_t nfs_write_len(const struct nfs_call *c);
/* A write verifier of eight bytes: equal or not, nothing else. */
uint64_t nfs_verifier(const char verf[8]);

/* READ's results. 0, or -EBADMSG: more data than was asked for, or than was placed. */
int nfs_take_read(struct nfs_call *c, const nfs_bulk *data, bool eof);
/* WRITE's. 0, or -EBADMSG: nothing, or more than there was. */
int nfs_take_write(struct nfs_call *c, uint32_t count, bool stable, const char verf[8]);

/* ACCESS3_* and ACCESS4_* are the same bits: those of R_OK | W_OK | X_OK, and back. */
uint32_t nfs_access_bits(int mask);
int nfs_access_mask(uint32_t bits);

#endif
