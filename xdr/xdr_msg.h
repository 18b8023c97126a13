/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An XDR stream in memory, and routines for words that know it.
 *
 * A COMPOUND has some thirty words. libtirpc's routine for one calls another one through the
 * stream's table, and both are in another library. That was a seventh of what a small READ
 * costs. Here the words of this stream are copied in place. Everything else, other streams
 * included, goes to libtirpc's routine of the same name:
 *
 *      xdr_uint32_t(xdrs, &v)  --a macro--> xdr_msg_word: decoding this stream? copy in place
 *                                           xdr_msg_put_word: encoding it? copy
 *                                           otherwise (xdr_uint32_t)(xdrs, &v)
 *      XDR_INLINE(xdrs, n) --a macro--> xdr_msg_words: the next n bytes, to be read or filled
 *
 * The macros take the place of calls only. A routine whose address is taken is libtirpc's,
 * and works with this stream as with any other.
 */
#pragma once

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>
#include <rpc/types.h>
#include <rpc/xdr.h>

extern const struct xdr_ops xdr_msg_ops;

/* A stream in the `len` bytes at mem, like xdrmem_create(): XDR_ENCODE fills them, XDR_DECODE
 * only reads. There is nothing to destroy. */
void xdr_msg_create(XDR *x, void *mem, uint32_t len, enum xdr_op op);

/* The next n bytes of this stream; NULL: it is another stream, or there are fewer. */
static inline char *xdr_msg_take(XDR *x, uint32_t n)
{
	char *at = x->x_private;

	if (x->x_ops != &xdr_msg_ops || x->x_handy < n)
		return NULL;
	x->x_private = at + n;
	x->x_handy -= n;
	return at;
}

/* XDR_INLINE() and xdr_getpos() of any stream. */
static inline int32_t *xdr_msg_words(XDR *x, u_int len)
{
	if (x->x_ops != &xdr_msg_ops)
		return x->x_ops->x_inline(x, len);
	/* Its user reads words there. */
	if ((uintptr_t)x->x_private % sizeof(int32_t))
		return NULL;
	return (int32_t *)(void *)xdr_msg_take(x, len);
}

static inline u_int xdr_msg_pos(XDR *x)
{
	if (x->x_ops != &xdr_msg_ops)
		return x->x_ops->x_getpostn(x);
	return (u_int)((char *)x->x_private - x->x_base);
}

/* XDR_ENCODE, and what has no room. They are never inlined: a compiler that optimizes across
 * files would otherwise warn that what is to be decoded into is used uninitialized. */
#define XDR_MSG_PUT __attribute__((noinline)) bool_t
XDR_MSG_PUT xdr_msg_put_word(XDR *x, uint32_t *v);
XDR_MSG_PUT xdr_msg_put_long(XDR *x, uint64_t *v);
XDR_MSG_PUT xdr_msg_put_bool(XDR *x, bool_t *v);
XDR_MSG_PUT xdr_msg_put_opaque(XDR *x, char *mem, u_int len);

static inline bool_t xdr_msg_word(XDR *x, uint32_t *v)
{
	const char *at = x->x_op == XDR_DECODE ? xdr_msg_take(x, 4) : NULL;
	uint32_t w;

	if (!at)
		return xdr_msg_put_word(x, v);
	memcpy(&w, at, 4);
	*v = ntohl(w);
	return TRUE;
}

static inline bool_t xdr_msg_long(XDR *x, uint64_t *v)
{
	const char *at = x->x_op == XDR_DECODE ? xdr_msg_take(x, 8) : NULL;
	uint32_t w[2];

	if (!at)
		return xdr_msg_put_long(x, v);
	memcpy(w, at, 8);
	*v = (uint64_t)ntohl(w[0]) << 32 | ntohl(w[1]);
	return TRUE;
}

/* Any word but 0 is TRUE, as libtirpc has it. */
static inline bool_t xdr_msg_bool(XDR *x, bool_t *v)
{
	const char *at = x->x_op == XDR_DECODE ? xdr_msg_take(x, 4) : NULL;
	uint32_t w;

	if (!at)
		return xdr_msg_put_bool(x, v);
	memcpy(&w, at, 4);
	*v = w != 0;
	return TRUE;
}

/* Bytes of a fixed length. */
static inline bool_t xdr_msg_opaque(XDR *x, char *mem, u_int len)
{
	const char *at = x->x_op == XDR_DECODE && len % 4 == 0 ? xdr_msg_take(x, len) : NULL;

	if (!at)
		return xdr_msg_put_opaque(x, mem, len);
	if (len)
		memcpy(mem, at, len);
	return TRUE;
}

#define xdr_uint32_t(xdrs, v) xdr_msg_word(xdrs, v)
#define xdr_enum(xdrs, v)     xdr_msg_word(xdrs, (uint32_t *)(v))
#define xdr_uint64_t(xdrs, v) xdr_msg_long(xdrs, v)
#define xdr_bool(xdrs, v)     xdr_msg_bool(xdrs, v)
#define xdr_opaque(xdrs, mem, len) xdr_msg_opaque(xdrs, mem, len)

#undef XDR_INLINE
#undef XDR_GETPOS
#undef xdr_getpos
#define XDR_INLINE(xdrs, len) xdr_msg_words(xdrs, len)
#define XDR_GETPOS(xdrs)      xdr_msg_pos(xdrs)
#define xdr_getpos(xdrs)      xdr_msg_pos(xdrs)
