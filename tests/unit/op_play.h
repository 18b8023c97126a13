/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Encode and decode of one operation (struct nfs_opdef), without a transport. A message is
 * written by hand, word by word as in the RFC. Then it is compared with what encode makes,
 * or given to decode.
 */
#pragma once

#include "nfs/nfs.h"

/* ---- the message ---- */

void m_new(void);
#define M(...) m_words((const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4)
void m_words(const uint32_t *w, unsigned n);
void m_u64(uint64_t v);
/* Length, bytes, pad. */
void m_opaque(const void *data, uint32_t len);
void m_str(const char *s);
uint32_t m_len(void);
/* Cuts the message off at byte `at`. */
void m_trunc(uint32_t at);
/* Changes the word at byte `at`. */
void m_set(uint32_t at, uint32_t w);
uint32_t m_get(uint32_t at);

/* ---- a call against it ---- */

/* Checks that encode makes exactly the message, and fails if there is less room. */
void play_args(const struct nfs_call *c, const struct nfs_opdef *def);
/* Decodes the message's first len bytes, in memory of that size, which exists until the next
 * call. */
int play_cut(struct nfs_call *c, const struct nfs_opdef *def, uint32_t len);
/* Decodes the whole message. If that returns 0, checks results_max. */
int play_reply(struct nfs_call *c, const struct nfs_opdef *def);

/* For ends without RFC 8797 (1,024 bytes inline both ways), with the longest handle and
 * credentials: checks that READ and WRITE of 1 MiB, and the longest links, have their data in
 * chunks of their own, and that no reply is longer than a Reply chunk may be. */
void play_default_limits(const struct nfs_call *c, const struct nfs_opdef *def, uint32_t fh_len);

/* A test of many replies calls these before and after each; or NULL. */
struct play_hooks {
	void (*before)(struct nfs_call *c);
	void (*after)(struct nfs_call *c);      /* frees what decode made */
};
/* Checks that the message is malformed if it is cut off, at any byte. */
void play_all_cuts(const struct nfs_call *c, const struct nfs_opdef *def,
		   const struct play_hooks *h);
/* Replaces each word in turn by harmful values. Whatever decode returns, it must not read or
 * write out of bounds; the sanitizers would tell. */
void play_twists(const struct nfs_call *c, const struct nfs_opdef *def,
		 const struct play_hooks *h);
