/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The texts of symbolic links, so that a path that leads through a link does not take a
 * READLINK each time.
 *
 *   symlink()   the text is known when the server says that it has made the link
 *   READLINK    its reply
 *        |
 *        v      inode.link: the text, and inode.data_nr at the time when the call was sent
 *   readlink()  answered with that, if it may still be believed
 *
 * The kernel could keep the texts in its page cache. But kernels before 6.14
 * end a text in that cache at the size that they know, and a server may send a size
 * that is too small, or 0. Nothing here depends on a size. And a text in
 * that cache stays however the link changes: only a notification removes it, which waits for
 * READLINKs that are under way.
 *
 * A link never changes, but a server that uses a handle again may have another link under it. So
 * a text is believed like attributes:
 *   - It is dropped when the server sends other attributes than before (data_nr, as for data that
 *     was read ahead: ahead.h). Other attributes that come while READLINK is under way outdate
 *     its text, too: nobody knows which of the two is newer.
 *   - For as long as attributes are believed, acregmin to acregmax, since READLINK was sent or
 *     since the newest attributes came, which then were the same. With noac: not at all.
 *
 * A link that this mount has made: the text is what was asked for, if the reply to that very call
 * had the handle (nfs_results.found), and if the attributes in the reply are still the newest.
 *
 * Any thread. The inode's shard guards inode.link. It is freed with the inode.
 */
#pragma once

#include "vfs/inode.h"

struct symlink_text {
	uint64_t nr;                    /* data_nr when READLINK was sent... */
	uint64_t asked_ns;              /* ...and the time */
	uint32_t len;
	char text[];
};

/* READLINK is about to be sent: what symlink_keep() needs. */
struct symlink_ask {
	uint64_t nr, ns;
};
struct symlink_ask symlink_ask(const struct inode *ino);
/* Its reply. No memory: the text is not kept. */
void symlink_keep(struct inode_table *t, struct inode *ino, const struct symlink_ask *ask,
	       const char *text, size_t len);
/* This mount has made the link at `asked_ns` or later, and the reply had that change attribute. */
void symlink_made(struct inode_table *t, struct inode *ino, uint64_t change, uint64_t asked_ns,
	       const char *text);
/* false: the server has to be asked. Else its text is in `out`, with a NUL. */
bool symlink_get(struct inode_table *t, struct inode *ino, char out[static NFS_PATH_MAX]);
