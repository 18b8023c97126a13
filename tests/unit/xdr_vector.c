/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks of XDR against bytes; xdr_vector.h says which. */
#include "xdr_vector.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAP = 4096 };

/* Turns the text of a vector into bytes; returns how many. */
static uint32_t parse(const char *s, unsigned char *out)
{
	uint32_t n = 0;
	unsigned byte;

	while (*s != '\0') {
		if (isspace((unsigned char)*s)) {
			s++;
		} else if (*s == '\'') {
			for (s++; *s != '\''; s++)
				out[n++] = (unsigned char)*s;
			for (s++; n % 4 != 0;)
				out[n++] = 0;
		} else {
			cr_assert_eq(sscanf(s, "%2x", &byte), 1, "vector: %s", s);
			out[n++] = (unsigned char)byte;
			s += 2;
		}
		cr_assert_lt(n, CAP);
	}
	return n;
}

static uint32_t encode(const struct xdr_vector *v, const void *value, char *out)
{
	XDR xdrs;

	xdrmem_create(&xdrs, out, CAP, XDR_ENCODE);
	return v->proc(&xdrs, (void *)value) ? XDR_GETPOS(&xdrs) : 0;
}

static void expect_bytes(const struct xdr_vector *v, const char *what,
			 const char *got, uint32_t len, const unsigned char *want,
			 uint32_t wantlen)
{
	uint32_t i = 0;

	while (i < len && i < wantlen && (unsigned char)got[i] == want[i])
		i++;
	cr_expect(len == wantlen && i == len, "%s: %s %u bytes, not %u; differ at %u",
		  v->name, what, len, wantlen, i);
}

/* Decodes from memory that ends where the message does; true if it was taken. */
static bool decode(const struct xdr_vector *v, const void *bytes, uint32_t len,
		   char *again, uint32_t *againlen)
{
	char *copy = malloc(len + 1);
	void *obj = calloc(1, v->size);
	bool taken;
	XDR xdrs;

	memcpy(copy, bytes, len);
	xdrmem_create(&xdrs, copy, len, XDR_DECODE);
	taken = v->proc(&xdrs, obj);
	if (taken && again != NULL) {
		cr_expect_eq(XDR_GETPOS(&xdrs), len, "%s: bytes left over", v->name);
		*againlen = encode(v, obj, again);
	}
	xdr_free(v->proc, obj);
	free(obj);
	free(copy);
	return taken;
}

static void check_one(const struct xdr_vector *v)
{
	const uint32_t bad[] = { 0xffffffff, 0x7fffffff, 0x00010000, 2, 0 };
	static char got[CAP];
	static unsigned char want[CAP];
	uint32_t len = parse(v->bytes, want), gotlen = 0;

	expect_bytes(v, "encodes to", got, encode(v, v->value, got), want, len);
	cr_expect(decode(v, want, len, got, &gotlen), "%s: refused", v->name);
	expect_bytes(v, "decoded and encoded again,", got, gotlen, want, len);

	for (uint32_t cut = 0; cut < len; cut++)
		cr_expect_not(decode(v, want, cut, NULL, NULL), "%s: taken at %u of %u",
			      v->name, cut, len);
	for (uint32_t at = 0; at + 4 <= len; at += 4) {
		for (unsigned b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
			memcpy(got, want, len);
			memcpy(got + at, &(uint32_t){ htonl(bad[b]) }, 4);
			decode(v, got, len, NULL, NULL);
		}
	}
}

void check_xdr_vectors(const struct xdr_vector *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_one(&v[i]);
}
