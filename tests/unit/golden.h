/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recorded connections (tests/golden): the file, and its contents frame by frame, in the
 * order in which the frames were complete on the link.
 */
#pragma once

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
	unsigned hdr;                   /* size of h on the wire */
	const uint8_t *payload;
};

/* A whole Send, reassembled. */
struct golden_send {
	enum golden_side from;
	uint8_t *bytes;
	uint32_t len;
	unsigned frame;                 /* index of its last frame */
};

struct golden {
	struct {
		uint8_t *bytes;         /* all bytes that this side has sent */
		uint32_t len;
		uint32_t mpa_len;       /* the MPA frame at the beginning: its length */
		struct mpa_frame mpa;
		uint32_t only_sends;    /* from there up to this offset there are only Sends... */
		unsigned nonly_sends;   /* ...so many */
	} side[SIDES];
	bool crc;                       /* the sides have agreed on it */
	struct golden_frame *frames;
	unsigned nframes;
	struct golden_send *sends;
	unsigned nsends;
};

/* Reads tests/golden/NAME. Any error in it fails the test. */
struct golden *golden_read(const char *name);
void golden_free(struct golden *g);
