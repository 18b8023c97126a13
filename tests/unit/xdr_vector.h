/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XDR against bytes that were derived by hand from the RFCs' field orders, for
 * what libnfs does not know. A vector is text:
 *
 *     "00000035 'session id 16 by' 00000001"
 *
 * Hex digits stand for themselves, 'text' for its bytes and the pad of XDR, and
 * blanks separate.
 */
#pragma once

#include <stddef.h>
#include <rpc/xdr.h>

struct xdr_vector {
	const char *name;
	xdrproc_t proc;
	size_t size;            /* of the structure */
	const void *value;
	const char *bytes;
};

/* A row for a value of `type`. */
#define XDR_VECTOR(type, what, text, ...) {				\
	.name = what, .proc = (xdrproc_t)(void (*)(void))xdr_##type,	\
	.size = sizeof(type), .value = &(const type){ __VA_ARGS__ },	\
	.bytes = text,							\
}

/*
 * Checks each row: the value encodes to the bytes; the bytes decode, and encode
 * to the same bytes again; cut at any byte they are refused; with any word
 * damaged, decoding does no harm. Reports through Criterion.
 */
void check_xdr_vectors(const struct xdr_vector *v, size_t n);
