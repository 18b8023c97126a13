/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recorded connections (tests/golden): the file, and what is in it, frame by
 * frame, in the order in which the frames were complete on the link.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <stdbool.h>
#include <stdint.h>
#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/mpa.h"

enum golden_side { CLIENT, SERVER, SIDES };

/* One FPDU. */
struct golden_frame {
	enum golden_side from;
	const uint8_t *bytes;           /* with length, pad and CRC */
	uint32_t len;
	struct ddp_hdr h;
	unsigned hdr;                   /* its size */
	const uint8_t *payload;
};

/* A whole Send, reassembled. */
struct golden_send {
	enum golden_side from;
	uint8_t *bytes;
	uint32_t len;
	unsigned frame;                 /* its last one */
};

struct golden {
	struct {
		uint8_t *bytes;         /* all that it said */
		uint32_t len;
		uint32_t mpa_len;       /* the first of them: its MPA frame */
		struct mpa_frame mpa;
		uint32_t only_sends;    /* ... up to here there are Sends only */
		unsigned nonly_sends;   /* so many */
	} side[SIDES];
	bool crc;                       /* agreed on */
	struct golden_frame *frames;
	unsigned nframes;
	struct golden_send *sends;
	unsigned nsends;
};

/* Reads tests/golden/NAME. What is not as it should be fails the test. */
struct golden *golden_read(const char *name);
void golden_free(struct golden *g);

#endif
