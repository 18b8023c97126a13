/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See xdr_msg.h. x_private is where the next byte is, x_handy how many are left, and x_base
 * the first one. */
#include "xdr_msg.h"

/* ---- words ---- */

static char *room(XDR *x, uint32_t n)
{
	return x->x_op == XDR_ENCODE ? xdr_msg_take(x, n) : NULL;
}

bool_t xdr_msg_put_word(XDR *x, uint32_t *v)
{
	char *at = room(x, 4);
	uint32_t w;

	if (!at)
		return (xdr_uint32_t)(x, v);
	w = htonl(*v);
	memcpy(at, &w, 4);
	return TRUE;
}

bool_t xdr_msg_put_long(XDR *x, uint64_t *v)
{
	char *at = room(x, 8);
	uint32_t w[2];

	if (!at)
		return (xdr_uint64_t)(x, v);
	w[0] = htonl((uint32_t)(*v >> 32));
	w[1] = htonl((uint32_t)*v);
	memcpy(at, w, 8);
	return TRUE;
}

bool_t xdr_msg_put_bool(XDR *x, bool_t *v)
{
	char *at = room(x, 4);
	uint32_t w;

	if (!at)
		return (xdr_bool)(x, v);
	w = htonl(*v != FALSE);
	memcpy(at, &w, 4);
	return TRUE;
}

bool_t xdr_msg_put_opaque(XDR *x, char *mem, u_int len)
{
	char *at = len % 4 == 0 ? room(x, len) : NULL;

	if (!at)
		return (xdr_opaque)(x, mem, len);
	if (len)
		memcpy(at, mem, len);
	return TRUE;
}

/* ---- the stream ---- */

static bool_t get_long(XDR *x, long *v)
{
	char *at = xdr_msg_take(x, 4);
	uint32_t w;

	if (!at)
		return FALSE;
	memcpy(&w, at, 4);
	*v = (int32_t)ntohl(w);
	return TRUE;
}

static bool_t put_long(XDR *x, const long *v)
{
	char *at = xdr_msg_take(x, 4);
	uint32_t w = htonl((uint32_t)*v);

	if (!at)
		return FALSE;
	memcpy(at, &w, 4);
	return TRUE;
}

static bool_t get_bytes(XDR *x, char *to, u_int len)
{
	const char *at = xdr_msg_take(x, len);

	if (!at)
		return FALSE;
	if (len)
		memcpy(to, at, len);
	return TRUE;
}

static bool_t put_bytes(XDR *x, const char *from, u_int len)
{
	char *at = xdr_msg_take(x, len);

	if (!at)
		return FALSE;
	if (len)
		memcpy(at, from, len);
	return TRUE;
}

static bool_t set_pos(XDR *x, u_int pos)
{
	u_int size = xdr_msg_pos(x) + x->x_handy;

	if (pos > size)
		return FALSE;
	x->x_private = x->x_base + pos;
	x->x_handy = size - pos;
	return TRUE;
}

static void destroy(XDR *x)
{
	(void)x;
}

static bool_t control(XDR *x, int request, void *arg)
{
	(void)x;
	(void)request;
	(void)arg;
	return FALSE;
}

const struct xdr_ops xdr_msg_ops = {
	.x_getlong = get_long,
	.x_putlong = put_long,
	.x_getbytes = get_bytes,
	.x_putbytes = put_bytes,
	.x_getpostn = xdr_msg_pos,
	.x_setpostn = set_pos,
	.x_inline = xdr_msg_words,
	.x_destroy = destroy,
	.x_control = control,
};

void xdr_msg_create(XDR *x, void *mem, uint32_t len, enum xdr_op op)
{
	*x = (XDR){ .x_op = op, .x_ops = (struct xdr_ops *)(uintptr_t)&xdr_msg_ops, .x_private = mem,
		    .x_base = mem, .x_handy = len };
}
