/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Typed readers of the lists in decoded replies. Use:
 *
 *     struct nfs_cursor cur;
 *     entryplus3 ent;
 *     int rc;
 *
 *     nfs_cursor_open(&cur, &res.READDIRPLUS3res_u.resok.reply.entries);
 *     while ((rc = nfs_entryplus3_next(&cur, &ent)) > 0)
 *             ...
 *
 * Each returns 1 and fills the entry, 0 after the last entry, or -EBADMSG if the bytes have
 * changed since they were decoded. Names, handles and attributes of the entry point into
 * the message, and are valid as long as the message is.
 */
#pragma once

#include "mount3.h"
#include "nfs3.h"
#include "nfs4.h"
#include "nfs_types.h"
#include "rpcb.h"

/* READDIR of version 3 (RFC 1813, 3.3.16). */
int nfs_entry3_next(struct nfs_cursor *cur, entry3 *entry);

/* READDIRPLUS of version 3 (RFC 1813, 3.3.17). */
int nfs_entryplus3_next(struct nfs_cursor *cur, entryplus3 *entry);

/* READDIR of version 4 (RFC 7530, 16.24; RFC 8881, 18.23). */
int nfs_entry4_next(struct nfs_cursor *cur, entry4 *entry);

/* EXPORT and DUMP of MOUNT (RFC 1813, 5.2.5 and 5.2.2), and the groups of one export. */
int nfs_export3_next(struct nfs_cursor *cur, exportnode *entry);
int nfs_group3_next(struct nfs_cursor *cur, groupnode *entry);
int nfs_mount3_next(struct nfs_cursor *cur, mountbody *entry);

/* DUMP of rpcbind version 3 and 4 (RFC 1833, 2.2.1). */
int nfs_rpcbmap_next(struct nfs_cursor *cur, rpcb_mapping *entry);
