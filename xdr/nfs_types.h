/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XDR types of our own, which the .x files use by name.
 *
 * rpcgen's own variable-length types allocate and copy on every decode. The
 * types below do neither: what they decode points into the message, and the
 * message stays in its receive buffer until the caller is done with it.
 *
 *        the XDR stream (a received message in its buffer)
 *     ...| len | n a m e |pad| len | fh fh fh | mask | len | attrs ....|...
 *              ^                   ^                       ^
 *      nfs_ref.data          nfs_ref.data            nfs_ref.data
 *
 * Rules for all of them:
 *
 *   - The stream is an xdrmem stream (RFC 4506 items in memory) that starts on
 *     a 4-byte boundary, as every RPC message in our buffers does. Decoding a
 *     stream that starts elsewhere fails; encoding works anywhere.
 *   - What was decoded is valid only as long as the stream's memory is, and
 *     nothing has to be freed: XDR_FREE does nothing.
 *   - Every length is checked against its bound and against the rest of the
 *     stream before it is used. A routine returns TRUE, or FALSE for anything
 *     that does not fit; then the target's content is undefined.
 *   - A peer that holds a remote key of the buffer could change it after it was
 *     decoded. So no routine relies on an earlier look at the bytes: a cursor
 *     checks each list entry again when it reads it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rpc/types.h>
#include <rpc/xdr.h>
#include "xdr_msg.h"

/* The pad that XDR appends to `len` bytes: 0 to 3 (RFC 4506, section 3). */
static inline uint32_t nfs_xdr_pad(uint32_t len)
{
	return -len & 3u;
}

/*
 * nfs_ref: counted bytes, "opaque x<N>" or "string x<N>".
 *
 * Decode points `data` into the stream; there is no terminating NUL. Encode writes the
 * bytes at `data` into the stream (`data` may be NULL when `len` is 0). The types differ
 * only in their bound N, which both directions enforce.
 */
struct nfs_ref {
	uint32_t len;
	const char *data;
};

typedef struct nfs_ref nfs_ref64;       /* NFSv3 file handle */
typedef struct nfs_ref nfs_ref128;      /* NFSv4 file handle, netid, uaddr */
typedef struct nfs_ref nfs_ref255;      /* MOUNT host name */
typedef struct nfs_ref nfs_ref1024;     /* names, owners, tags */
typedef struct nfs_ref nfs_ref64k;      /* xattr values, pNFS bodies */
typedef struct nfs_ref nfs_ref128k;     /* attribute values with an ACL */
typedef struct nfs_ref nfs_ref16m;      /* READ_PLUS data */

bool_t xdr_nfs_ref64(XDR *xdrs, nfs_ref64 *ref);
bool_t xdr_nfs_ref128(XDR *xdrs, nfs_ref128 *ref);
bool_t xdr_nfs_ref255(XDR *xdrs, nfs_ref255 *ref);
bool_t xdr_nfs_ref1024(XDR *xdrs, nfs_ref1024 *ref);
bool_t xdr_nfs_ref64k(XDR *xdrs, nfs_ref64k *ref);
bool_t xdr_nfs_ref128k(XDR *xdrs, nfs_ref128k *ref);
bool_t xdr_nfs_ref16m(XDR *xdrs, nfs_ref16m *ref);

/* The same for any bound: counted bytes of at most `max`. */
bool_t nfs_ref_xdr(XDR *xdrs, struct nfs_ref *ref, uint32_t max);

/* A reference to a C string, which must outlive the encoding. */
struct nfs_ref nfs_ref_str(const char *s);

/* Same length and bytes? */
bool nfs_ref_equal(const struct nfs_ref *a, const struct nfs_ref *b);

/*
 * Can these bytes from a server be used as one name in a file system? True for 1 to `max`
 * bytes without '/' and NUL. "." and ".." pass, because READDIR may list them.
 */
bool nfs_ref_is_name(const struct nfs_ref *ref, uint32_t max);

/*
 * nfs_bulk: the data of a READ result or a WRITE argument, and the text of a symbolic link
 * in READLINK's result and in the arguments of SYMLINK and CREATE. RFC 8267 lets these items
 * travel outside the XDR stream. What is in them never passes through these routines.
 *
 * Encode writes only the length word, and sets `pos` to the stream position behind it,
 * where the data belongs. The next XDR item follows directly. `pos` is the Position of a
 * Read chunk if the stream starts at the XID, or else the place for the data and its pad in
 * an inline message.
 *
 * Decode reads the length. If `placed` is set, the data came by RDMA Write and nothing of
 * it is in the stream: `len` must be <= `max`. Otherwise `data` points to it in the stream,
 * `pos` is its position, and data and pad are skipped; then `max` 0 means no bound but the
 * end of the stream.
 */
struct nfs_bulk {
	uint32_t len;   /* encode: in; decode: out */
	uint32_t pos;   /* out */
	uint32_t max;   /* decode: in */
	bool placed;    /* decode: in */
	void *data;     /* decode: out, unless placed; otherwise the caller's */
};

typedef struct nfs_bulk nfs_bulk;

bool_t xdr_nfs_bulk(XDR *xdrs, nfs_bulk *bulk);

/*
 * Puts `n` bytes of data and their pad into an encoded message of `*len` bytes at `pos`,
 * and moves what follows. For data that goes inline: the only place that copies, and only
 * below the inline threshold. Returns 0 and the new `*len`; -EMSGSIZE if that exceeds
 * `cap`; -EINVAL if `pos` lies outside. On an error the message is unchanged.
 */
int nfs_bulk_insert(void *msg, uint32_t *len, uint32_t cap, uint32_t pos,
		    const void *data, uint32_t n);

/*
 * bitmap4 (RFC 7530, section 2.2): attribute numbers, or operation numbers in
 * state_protect_ops4. Eight words hold 256 of them; the RFCs define 83. A longer bitmap is
 * rejected. Decode clears the words beyond `len`.
 */
enum { NFS4_BITMAP_WORDS = 8 };

struct bitmap4 {
	uint32_t len;
	uint32_t words[NFS4_BITMAP_WORDS];
};

typedef struct bitmap4 bitmap4;

bool_t xdr_bitmap4(XDR *xdrs, bitmap4 *map);

/* Adds bit `n` (< 256), growing `len` as needed. */
static inline void bitmap4_set(bitmap4 *map, unsigned n)
{
	map->words[n / 32] |= UINT32_C(1) << (n % 32);
	if (map->len <= n / 32)
		map->len = n / 32 + 1;
}

/* Is bit `n` set? False for a bit beyond `len`. */
static inline bool bitmap4_isset(const bitmap4 *map, unsigned n)
{
	return n / 32 < map->len && (map->words[n / 32] >> (n % 32) & 1u);
}

/*
 * nfs_list: the entries of a directory, of an export list: XDR's linked list
 *
 *     | 1 | entry | 1 | entry | ... | 0 |
 *      ^-- xdr                       ^-- xdr + bytes
 *
 * Decode walks it once, iteratively, checks each entry, counts them and keeps
 * where they are; nfs_cursor reads them one by one. Encode writes `count`
 * elements of `array`, or, when that is NULL, the list that was decoded.
 * The entry types are in the .x files, the typed routines in nfs_lists.h.
 */
struct nfs_list {
	uint32_t count;         /* entries */
	uint32_t bytes;         /* decode: XDR bytes, final 0 excluded */
	const char *xdr;        /* decode: into the stream */
	const void *array;      /* encode: `count` elements, or NULL */
};

typedef struct nfs_list entrylist3;
typedef struct nfs_list entrylistplus3;
typedef struct nfs_list entrylist4;
typedef struct nfs_list exportlist3;
typedef struct nfs_list grouplist3;
typedef struct nfs_list mountlist3;
typedef struct nfs_list rpcbmaplist;

bool_t xdr_entrylist3(XDR *xdrs, entrylist3 *list);
bool_t xdr_entrylistplus3(XDR *xdrs, entrylistplus3 *list);
bool_t xdr_entrylist4(XDR *xdrs, entrylist4 *list);
bool_t xdr_exportlist3(XDR *xdrs, exportlist3 *list);
bool_t xdr_grouplist3(XDR *xdrs, grouplist3 *list);
bool_t xdr_mountlist3(XDR *xdrs, mountlist3 *list);
bool_t xdr_rpcbmaplist(XDR *xdrs, rpcbmaplist *list);

/*
 * The routine behind these. `proc` is the entry's XDR routine; decode uses `item`, room for
 * one entry of `size` bytes, as scratch.
 */
bool_t nfs_list_xdr(XDR *xdrs, struct nfs_list *list, xdrproc_t proc,
		    void *item, size_t size);

/* Reads a decoded list entry by entry; a plain value, nothing to release. */
struct nfs_cursor {
	XDR xdrs;
	uint32_t left;  /* entries not read yet */
};

/* Puts the cursor before the first entry of a decoded list. */
void nfs_cursor_open(struct nfs_cursor *cur, const struct nfs_list *list);

/*
 * Reads the next entry into `item`, whose XDR routine is `proc`. Returns 1 for an entry, 0
 * after the last one, and -EBADMSG if the bytes no longer decode.
 */
int nfs_cursor_next(struct nfs_cursor *cur, xdrproc_t proc, void *item);
