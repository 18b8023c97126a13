/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guessing where the payload of the next frame goes, before its header is here.
 *
 * A frame of less than IW_BULK_FRAME costs a copy: it lands in the stage, because one
 * recvmsg() reads many of them. But if the peer may write to one piece of memory only, and
 * that is no longer than such a frame, then what comes next is most likely its payload. So
 * the stage gets a hole:
 *
 *     stage   | 16 bytes |         hole          | what follows ...
 *                  |     |<-- as long as e->mem ->|
 *     recvmsg:   header -> e->mem  -------------> rest
 *
 * When the header names the start of that memory, its payload is in place, and
 * only what follows the payload is copied into the hole, if there is any. If the guess was
 * wrong, all of it is copied there. From then on everything is as if there had been no
 * guess: the frame is judged, and its STag is looked up, before anything depends on it.
 *
 * A wrong guess writes bytes of this peer to memory that this peer may write to at that
 * moment. They must not come after bytes that it has placed there. So each STag is guessed
 * only until the first payload for it is taken (stag_table.only). And never if a program has that memory,
 * too: it would see what comes for others, and could change that before it is judged.
 */
#include "fabric/iwarp/iwarp.h"

const struct stag_entry *iw_placement_guess(const struct fab_conn *c)
{
	const struct iw_rx *rx = &c->rx;
	const struct stag_entry *e;

	if (!c->stags.only || rx->state != IW_RX_HEADER || rx->end || rx->bulk)
		return NULL;
	e = stag_find(&c->stags, c->stags.only);
	return e && e->len < IW_BULK_FRAME ? e : NULL;
}

/* How long the payload is, if the header says that it goes to the start of the memory with
 * that STag; otherwise 0. */
static uint32_t payload_for(const uint8_t *hdr, uint32_t stag)
{
	uint32_t ulpdu = get16(hdr), least = DDP_TAGGED_HDR - DDP_LEN_BYTES;

	return (hdr[2] & DDP_T) && get32(hdr + 4) == stag && !get64(hdr + 8) && ulpdu > least ?
	       ulpdu - least : 0;
}

void iw_placement_guess_check(struct fab_conn *c, const struct stag_entry *e, size_t n)
{
	struct iw_rx *rx = &c->rx;
	uint8_t *hole = rx->stage + DDP_TAGGED_HDR;
	size_t have, right;

	if (n <= DDP_TAGGED_HDR)
		return;
	have = n - DDP_TAGGED_HDR < e->len ? n - DDP_TAGGED_HDR : e->len;
	right = payload_for(rx->stage, c->stags.only);
	if (right < have)
		memcpy(hole + right, e->base + right, have - right);
	else
		right = have;
	rx->placed = (uint32_t)right;
}
