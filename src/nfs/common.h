/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What versions 3 and 4 do in the same way with the results that each has decoded: file
 * data, the text of links, verifiers, permissions, errors.
 */
#pragma once

#include "nfs/nfs.h"
#include "nfs_types.h"

/* How many bytes this sending of a READ asks for, and how many a WRITE has. */
uint32_t nfs_read_len(const struct nfs_call *c);
uint32_t nfs_write_len(const struct nfs_call *c);
/* n, but no more than this sending may have. */
uint32_t nfs_at_most(const struct nfs_call *c, uint32_t n);
/* The same for READDIR. */
uint32_t nfs_dir_len(const struct nfs_call *c);
/* A write verifier, eight bytes. It can only be compared. */
uint64_t nfs_verifier(const char verf[8]);
/* Eight bytes for an exclusive CREATE, by which the server knows it again. */
void nfs_create_verifier(struct nfs_call *c, char verf[8]);

/* Takes over COMMIT's results. twice: the server may have executed an earlier sending of it. */
void nfs_take_commit(struct nfs_call *c, const char verf[8], bool twice);
/* Takes over READ's results. 0, or -EBADMSG: more data than was asked for, or another
 * length than was placed. */
int nfs_take_read(struct nfs_call *c, const nfs_bulk *data, bool eof);
/* Takes over READLINK's results. 0, or -EBADMSG: another length than was placed, or a NUL in
 * the text, which would make it another link for whoever reads it as a string. */
int nfs_take_link(struct nfs_call *c, const nfs_bulk *text);
/* Takes over WRITE's results. 0, or -EBADMSG: no bytes written, or more than were sent. */
int nfs_take_write(struct nfs_call *c, uint32_t count, bool stable, const char verf[8]);

/* A status that both versions have, with one number, to -errno (RFC 8881, section 15.1). */
int nfs_errno(uint32_t status);
/* The same for the types of files: S_IFMT; 0: none of those that both have. */
mode_t nfs_type_mode(uint32_t type);

/* R_OK | W_OK | X_OK as ACCESS3_* or ACCESS4_*, which are the same bits; and back. */
uint32_t nfs_access_bits(int mask);
int nfs_access_mask(uint32_t bits);
