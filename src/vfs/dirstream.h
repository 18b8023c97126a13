/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Directory streams. A front end asks for some entries at a time, but a server sends hundreds in
 * one reply. So an open directory keeps the entries of the newest reply, and they are read from
 * there.
 *
 *     dirstream_seek(cookie) --> dirstream_entry(), dirstream_next(), ...      no entry any more:
 *           |  it is not kept                                                  vfs_list(last cookie)
 *           +--> vfs_list(cookie)
 *
 * An entry's cookie is the server's. So it stays valid for as long as the server's does, for
 * anybody at any time. "." and ".." are left out: version 4 does not send them.
 *
 * When this mount has changed the directory, the kept entries may include names that are gone.
 * dirstream_is_current() says so. (Asking again from the same cookie would be worse: with some
 * servers cookies are positions, and the entries behind a removed one move.)
 *
 * One operation at a time uses a stream (dirstream_take()), and holds a reference. An operation
 * that nobody waits for any more may still run when the next one comes.
 */
#pragma once

#include <pthread.h>
#include "nfs/nfs.h"
#include "vfs/cookies.h"

struct inode;
struct inode_table;

struct dent {                   /* in stream->data, 8-byte aligned, one after the other */
	uint64_t cookie, fileid;
	struct nfs_attr attr;
	struct nfs_fh fh;
	uint32_t size;          /* of this entry, name included */
	uint16_t namelen;
	bool has_attr, has_fh;
	char name[];
};

struct dirstream {
	pthread_mutex_t mu;             /* guards busy and refs */
	bool busy;
	unsigned refs;
	uint64_t handle;                /* the front end's, both */
	bool syncs;
	struct inode *ino;              /* a reference */
	uint64_t verf;
	uint64_t first;                 /* the kept entries come after this cookie */
	struct cookies seq;             /* seq.last: of the last entry received, kept or not */
	bool any, eof;                  /* a reply is kept; it had the end of the directory */
	uint64_t asked_ns, fetched_ns;  /* when the kept entries were requested; received */
	char *data;
	size_t len, cap;
	size_t pos;                     /* where the entry after pos_off begins */
	uint64_t pos_off;
	bool restarted;                 /* the cookie was stale, and was tried once more */
};

/* Takes a reference to ino. NULL: no memory. */
struct dirstream *dirstream_new(struct inode *ino);
/* One more reference. false: it is about to be freed. */
bool dirstream_ref(void *s);
void dirstream_put(struct inode_table *t, struct dirstream *s);
/* From now on the caller uses it alone. false: somebody does already. */
bool dirstream_take(struct dirstream *s);
void dirstream_give(struct dirstream *s);

/* For who has taken it: */

/* What is kept is not used any more. */
static inline void dirstream_restart(struct dirstream *s)
{
	s->any = false;
}
/* The next entry is the one after that cookie. false: it is not kept. */
bool dirstream_seek(struct dirstream *s, uint64_t cookie);
/* The next entry; NULL: no more are kept. */
static inline const struct dent *dirstream_entry(const struct dirstream *s)
{
	return s->pos < s->len ? (const struct dent *)(const void *)(s->data + s->pos) : NULL;
}
/* d, which dirstream_entry() has returned, has been used. */
static inline void dirstream_next(struct dirstream *s, const struct dent *d)
{
	s->pos += d->size;
	s->pos_off = d->cookie;
}
/* Has this mount left the directory's entries alone since they were asked for? */
bool dirstream_is_current(const struct dirstream *s);
