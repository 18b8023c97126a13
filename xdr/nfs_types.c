/* SPDX-License-Identifier: GPL-2.0-or-later */
/* XDR types that decode without copying; nfs_types.h has the picture. */
#include "nfs_types.h"

#include <errno.h>
#include <string.h>

/*
 * Takes `len` bytes and their pad from a decode stream. Returns where they are, or NULL if
 * the stream is too short or not 4-byte aligned. `len` is compared alone first, so that
 * adding the pad cannot wrap.
 */
static void *stream_take(XDR *xdrs, uint32_t len)
{
	if (len > INT32_MAX)
		return NULL;
	return XDR_INLINE(xdrs, len + nfs_xdr_pad(len));
}

/* The length, the bytes and the pad in one piece, if this stream has it. */
static bool_t ref_encode(XDR *xdrs, struct nfs_ref *ref)
{
	uint32_t size = ref->len + nfs_xdr_pad(ref->len), n = htonl(ref->len);
	char *at = xdr_msg_take(xdrs, 4 + size);

	/* XDR_ENCODE only reads; its prototype lacks the const. */
	if (at == NULL)
		return xdr_uint32_t(xdrs, &ref->len) &&
		       (ref->len == 0 || xdr_opaque(xdrs, (char *)ref->data, ref->len));
	memcpy(at, &n, 4);
	if (ref->len == 0)
		return TRUE;
	memset(at + size, 0, 4);
	memcpy(at + 4, ref->data, ref->len);
	return TRUE;
}

bool_t nfs_ref_xdr(XDR *xdrs, struct nfs_ref *ref, uint32_t max)
{
	if (xdrs->x_op == XDR_FREE)
		return TRUE;
	if (xdrs->x_op == XDR_ENCODE)
		return ref->len <= max && ref_encode(xdrs, ref);
	return xdr_uint32_t(xdrs, &ref->len) && ref->len <= max &&
	       (ref->data = stream_take(xdrs, ref->len)) != NULL;
}

/* The bounds as the .x files spell them. */
#define NFS_REF(name, max)					\
	bool_t xdr_##name(XDR *xdrs, name *ref)			\
	{							\
		return nfs_ref_xdr(xdrs, ref, max);		\
	}

NFS_REF(nfs_ref64, 64)
NFS_REF(nfs_ref128, 128)
NFS_REF(nfs_ref255, 255)
NFS_REF(nfs_ref1024, 1024)
NFS_REF(nfs_ref64k, 64 * 1024)
NFS_REF(nfs_ref128k, 128 * 1024)
NFS_REF(nfs_ref16m, 16 * 1024 * 1024)

struct nfs_ref nfs_ref_str(const char *s)
{
	return (struct nfs_ref){ .len = (uint32_t)strlen(s), .data = s };
}

bool nfs_ref_equal(const struct nfs_ref *a, const struct nfs_ref *b)
{
	return a->len == b->len &&
	       (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

bool nfs_ref_is_name(const struct nfs_ref *ref, uint32_t max)
{
	return ref->len != 0 && ref->len <= max &&
	       memchr(ref->data, '/', ref->len) == NULL &&
	       memchr(ref->data, '\0', ref->len) == NULL;
}

static bool_t bulk_encode(XDR *xdrs, nfs_bulk *bulk)
{
	if (!xdr_uint32_t(xdrs, &bulk->len))
		return FALSE;
	bulk->pos = XDR_GETPOS(xdrs);
	return TRUE;
}

static bool_t bulk_decode(XDR *xdrs, nfs_bulk *bulk)
{
	if (!xdr_uint32_t(xdrs, &bulk->len))
		return FALSE;
	bulk->pos = XDR_GETPOS(xdrs);
	if (bulk->placed)
		return bulk->len <= bulk->max;
	if (bulk->max != 0 && bulk->len > bulk->max)
		return FALSE;
	return (bulk->data = stream_take(xdrs, bulk->len)) != NULL;
}

bool_t xdr_nfs_bulk(XDR *xdrs, nfs_bulk *bulk)
{
	switch (xdrs->x_op) {
	case XDR_ENCODE:
		return bulk_encode(xdrs, bulk);
	case XDR_DECODE:
		return bulk_decode(xdrs, bulk);
	case XDR_FREE:
		return TRUE;
	}
	return FALSE;
}

int nfs_bulk_insert(void *msg, uint32_t *len, uint32_t cap, uint32_t pos,
		    const void *data, uint32_t n)
{
	uint32_t pad = nfs_xdr_pad(n);
	char *at = (char *)msg + pos;

	if (pos > *len)
		return -EINVAL;
	if (*len > cap || n > cap - *len || pad > cap - *len - n)
		return -EMSGSIZE;
	memmove(at + n + pad, at, *len - pos);
	if (n != 0)
		memcpy(at, data, n);
	memset(at + n, 0, pad);
	*len += n + pad;
	return 0;
}

static bool_t bitmap_decode(XDR *xdrs, bitmap4 *map)
{
	const int32_t *at;

	if (!xdr_uint32_t(xdrs, &map->len) || map->len > NFS4_BITMAP_WORDS)
		return FALSE;
	at = XDR_INLINE(xdrs, map->len * BYTES_PER_XDR_UNIT);
	if (at == NULL)
		return FALSE;
	memset(map->words, 0, sizeof(map->words));
	for (uint32_t i = 0; i < map->len; i++)
		map->words[i] = IXDR_GET_U_INT32(at);
	return TRUE;
}

bool_t xdr_bitmap4(XDR *xdrs, bitmap4 *map)
{
	if (xdrs->x_op == XDR_FREE)
		return TRUE;
	if (xdrs->x_op == XDR_DECODE)
		return bitmap_decode(xdrs, map);
	if (map->len > NFS4_BITMAP_WORDS || !xdr_uint32_t(xdrs, &map->len))
		return FALSE;
	for (uint32_t i = 0; i < map->len; i++)
		if (!xdr_uint32_t(xdrs, &map->words[i]))
			return FALSE;
	return TRUE;
}

/*
 * Encodes the array, entry by entry, or the bytes of a list that was decoded earlier. Those
 * bytes are whole XDR items, so they need no pad.
 */
static bool_t list_encode(XDR *xdrs, struct nfs_list *list, xdrproc_t proc,
			  size_t size)
{
	const char *item = list->array;
	bool_t more = TRUE;

	if (item == NULL && list->bytes != 0 &&
	    !XDR_PUTBYTES(xdrs, list->xdr, list->bytes))
		return FALSE;
	for (uint32_t i = 0; item != NULL && i < list->count; i++, item += size)
		if (!xdr_bool(xdrs, &more) || !proc(xdrs, (void *)item))
			return FALSE;
	more = FALSE;
	return xdr_bool(xdrs, &more);
}

/* This ends, because each round takes bytes from a finite stream. */
static bool_t list_decode(XDR *xdrs, struct nfs_list *list, xdrproc_t proc,
			  void *item)
{
	const char *start = (const char *)XDR_INLINE(xdrs, 0);
	uint32_t from = XDR_GETPOS(xdrs);
	bool_t more;

	*list = (struct nfs_list){ .xdr = start };
	if (start == NULL)
		return FALSE;
	for (;;) {
		list->bytes = XDR_GETPOS(xdrs) - from;
		if (!xdr_bool(xdrs, &more))
			return FALSE;
		if (!more)
			return TRUE;
		if (!proc(xdrs, item))
			return FALSE;
		list->count++;
	}
}

bool_t nfs_list_xdr(XDR *xdrs, struct nfs_list *list, xdrproc_t proc,
		    void *item, size_t size)
{
	switch (xdrs->x_op) {
	case XDR_ENCODE:
		return list_encode(xdrs, list, proc, size);
	case XDR_DECODE:
		return list_decode(xdrs, list, proc, item);
	case XDR_FREE:
		return TRUE;
	}
	return FALSE;
}

void nfs_cursor_open(struct nfs_cursor *cur, const struct nfs_list *list)
{
	/* A decode stream never writes; its prototype lacks the const. */
	xdrmem_create(&cur->xdrs, (char *)list->xdr, list->bytes, XDR_DECODE);
	cur->left = list->count;
}

int nfs_cursor_next(struct nfs_cursor *cur, xdrproc_t proc, void *item)
{
	bool_t more;

	if (cur->left == 0)
		return 0;
	if (!xdr_bool(&cur->xdrs, &more) || !more || !proc(&cur->xdrs, item)) {
		cur->left = 0;
		return -EBADMSG;
	}
	cur->left--;
	return 1;
}
