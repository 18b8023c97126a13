/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"

#define STREAM_MAX (256u << 10)
#define FRAMES_MAX 2048u
#define SEND_MAX   4096u

/* Where each side's bytes end after each piece: frames are complete there. */
struct piece {
	enum golden_side from;
	uint32_t end;
};

static unsigned nibble(char c)
{
	const char *digits = "0123456789abcdef", *at = strchr(digits, c);

	cr_assert(c && at, "'%c' is no hex digit", c);
	return (unsigned)(at - digits);
}

/* Returns the number of pieces. */
static unsigned read_hex(struct golden *g, FILE *f, struct piece *pieces)
{
	enum golden_side from = SIDES;
	unsigned n = 0;
	char line[256];

	while (fgets(line, sizeof(line), f)) {
		const char *p = line;

		if (*p == '#')
			continue;
		if (*p == '>' || *p == '<') {
			from = *p == '>' ? CLIENT : SERVER;
			cr_assert_lt(++n, FRAMES_MAX);
		}
		cr_assert_neq(from, SIDES, "hex without a side");
		for (p += 2; !isspace((unsigned char)*p) && *p; p += 2) {
			cr_assert_lt(g->side[from].len, STREAM_MAX);
			g->side[from].bytes[g->side[from].len++] =
				(uint8_t)(nibble(p[0]) << 4 | nibble(p[1]));
		}
		pieces[n - 1] = (struct piece){ from, g->side[from].len };
	}
	return n;
}

static uint32_t split_mpa(struct golden *g, enum golden_side s)
{
	const uint8_t *b = g->side[s].bytes;
	const char *why = "";
	int n = mpa_size(b, g->side[s].len, s == SERVER, &why);

	cr_assert_gt(n, 0, "%s", why);
	cr_assert_leq((uint32_t)n, g->side[s].len);
	cr_assert_eq(mpa_decode(&g->side[s].mpa, b, (size_t)n, s == SERVER, &why), 0, "%s", why);
	g->side[s].mpa_len = g->side[s].only_sends = (uint32_t)n;
	return (uint32_t)n;
}

/* The frame at `at`, if it ends by `end`. */
static bool split_frame(struct golden *g, enum golden_side s, uint32_t at, uint32_t end)
{
	struct golden_frame *f = &g->frames[g->nframes];
	enum iw_error e = IW_OK;

	*f = (struct golden_frame){ .from = s, .bytes = g->side[s].bytes + at };
	f->hdr = ddp_decode(&f->h, f->bytes, end - at, &e);
	cr_assert_eq(e, IW_OK, "frame %u: %s", g->nframes, iw_errors[e].why);
	if (!f->hdr)
		return false;
	f->payload = f->bytes + f->hdr;
	f->len = f->hdr + f->h.payload;
	f->len += (-f->len & 3) + DDP_CRC_BYTES;
	if (f->len > end - at)
		return false;
	cr_assert_lt(++g->nframes, FRAMES_MAX);
	return true;
}

static bool is_send(const struct golden_frame *f)
{
	return !f->h.tagged && f->h.qn == DDP_QN_SEND;
}

/* What a frame adds to the newest message of its side. */
static void collect(struct golden *g, struct golden_send *open, unsigned i)
{
	struct golden_frame *f = &g->frames[i];
	struct golden_send *m = &open[f->from];

	if (!is_send(f))
		return;
	cr_assert_eq(f->h.mo, m->len, "frame %u: a gap in its message", i);
	if (!m->bytes)
		m->bytes = malloc(SEND_MAX);
	cr_assert(m->bytes && m->len + f->h.payload <= SEND_MAX);
	memcpy(m->bytes + m->len, f->payload, f->h.payload);
	m->len += f->h.payload;
	if (!f->h.last)
		return;
	m->from = f->from;
	m->frame = i;
	g->sends[g->nsends++] = *m;
	*m = (struct golden_send){ 0 };
}

static void split(struct golden *g, const struct piece *pieces, unsigned npieces)
{
	struct golden_send open[SIDES] = { 0 };
	bool mixed[SIDES] = { false };
	uint32_t at[SIDES];

	for (int s = 0; s < SIDES; s++)
		at[s] = split_mpa(g, (enum golden_side)s);
	g->crc = g->side[CLIENT].mpa.crc || g->side[SERVER].mpa.crc;
	for (unsigned i = 0; i < npieces; i++) {
		enum golden_side s = pieces[i].from;

		while (at[s] < pieces[i].end && split_frame(g, s, at[s], pieces[i].end)) {
			const struct golden_frame *f = &g->frames[g->nframes - 1];

			at[s] += f->len;
			collect(g, open, g->nframes - 1);
			/* No bytes written are only a nudge. */
			mixed[s] |= f->h.op != RDMAP_SEND && f->h.payload;
			if (!mixed[s]) {
				g->side[s].only_sends = at[s];
				g->side[s].nonly_sends += is_send(f);
			}
		}
	}
	for (int s = 0; s < SIDES; s++) {
		cr_assert_eq(at[s], g->side[s].len, "side %d: the last frame is cut off", s);
		cr_assert_null(open[s].bytes, "side %d: the last message is cut off", s);
	}
}

struct golden *golden_read(const char *name)
{
	struct golden *g = calloc(1, sizeof(*g));
	struct piece *pieces = calloc(FRAMES_MAX, sizeof(*pieces));
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), TOP_SRCDIR "/tests/golden/%s", name);
	f = fopen(path, "r");
	cr_assert(f && g && pieces, "cannot read %s", path);
	for (int s = 0; s < SIDES; s++)
		g->side[s].bytes = malloc(STREAM_MAX);
	g->frames = calloc(FRAMES_MAX, sizeof(*g->frames));
	g->sends = calloc(FRAMES_MAX, sizeof(*g->sends));
	cr_assert(g->side[0].bytes && g->side[1].bytes && g->frames && g->sends);
	split(g, pieces, read_hex(g, f, pieces));
	fclose(f);
	free(pieces);
	return g;
}

void golden_free(struct golden *g)
{
	for (unsigned i = 0; i < g->nsends; i++)
		free(g->sends[i].bytes);
	for (int s = 0; s < SIDES; s++)
		free(g->side[s].bytes);
	free(g->frames);
	free(g->sends);
	free(g);
}
