/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random messages for tests that decode them twice: by hand, as the client does, and by rpcgen's
 * routines on libtirpc's streams. Most are damaged. Both ways must take and refuse the same ones,
 * and read the same from them.
 */
#pragma once

#include <rpc/types.h>
#include <rpc/xdr.h>
#include <stdint.h>

#define TWICE_ROUNDS 40000u
#define TWICE_ROOM   8192u

/* The message, and the stream that writes it. */
extern char twice_wire[TWICE_ROOM];
extern XDR twice_out;

/* Of a sequence that the seed determines. */
void twice_seed(unsigned seed);
unsigned twice_roll(unsigned n);
/* Values at which something may turn, and others. */
uint32_t twice_word(void);

/* A new message; its next word; a length with so many bytes and the pad. */
void twice_new(void);
void twice_put(uint32_t w);
void twice_text(uint32_t len, const void *from);
/* Changes words of the message, or moves its end: only its end, or the length word at byte
 * length_at as well (0: there is none). Returns the new length. */
uint32_t twice_damage(uint32_t len, uint32_t length_at);
