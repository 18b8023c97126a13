/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stream of frames from the peer, whole and in pieces: memory, events and the
 * end must be the same whatever pieces it comes in, and nothing is written but
 * to memory that the peer may write to. With guesses (placement_guess.c) only what the peer
 * has not written there may differ.
 *     input: 1 byte (bit 0: CRC, bit 1: a read is outstanding), 1 byte n,
 *            n bytes: lengths of the pieces, repeated; then the stream
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fabric/iwarp/iwarp.h"
#include "fuzz.h"

#define AREA  256u
#define RECVS 4u
#define LOG   512u

/* Everything that a run leaves behind. */
struct outcome {
	uint8_t writable[AREA], readable[AREA], sink[AREA], recvs[RECVS][AREA];
	char log[LOG];
	size_t n;
};

struct ctx {
	struct outcome *o;
	struct fab_conn *c;
	bool closes;
};

static void say(struct ctx *x, const char *what, unsigned long a, unsigned long b)
{
	struct outcome *o = x->o;

	o->n += (size_t)snprintf(o->log + o->n, LOG - o->n, "%s %lu %lu;", what, a, b);
	if (o->n >= LOG)
		o->n = LOG - 1;
}

static void on_recv(void *ctx, void *cookie, uint32_t len, bool inval, uint32_t rkey)
{
	touch(cookie, len);
	say(ctx, inval ? "recv-inval" : "recv", len, rkey);
}

static void on_done(void *ctx, void *cookie)
{
	(void)cookie;
	say(ctx, "done", 0, 0);
}

static void on_down(void *ctx, int err, const char *why)
{
	struct ctx *x = ctx;

	say(x, why, (unsigned long)-err, 0);
	/* As owners do. */
	if (x->closes) {
		iw_close(x->c);
		x->c = NULL;
	}
}

static const struct fab_events events = {
	.recv = on_recv, .sent = on_done, .written = on_done, .read = on_done, .down = on_down,
};

/* Memory of its own for each: the sanitizer sees what goes beyond. */
static uint8_t *area(struct fab_conn *c, unsigned rights, struct fab_mr *mr)
{
	uint8_t *p = calloc(1, AREA);

	CHECK(p && fabric_iwarp.reg(c, p, AREA, rights, mr, NULL) == 0);
	return p;
}

static void feed(struct ctx *x, int fd, const uint8_t *data, size_t len,
		 const uint8_t *pieces, size_t npieces)
{
	struct fab_conn *c = x->c;
	size_t at = 0, i = 0;
	bool alive = true;

	while (alive && !c->down && at < len) {
		size_t n = npieces ? pieces[i++ % npieces] + 1u : len;

		if (n > len - at)
			n = len - at;
		if (send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
			break;
		at += n;
		iw_enter(c);
		for (int k = 0; k < 3 && !c->down; k++)
			iw_rx_run(c);
		alive = iw_leave(c);
	}
	if (!alive || c->down)
		return;
	shutdown(fd, SHUT_WR);
	iw_enter(c);
	while (!c->down)
		iw_rx_run(c);
	iw_leave(c);
}

/* Where the peer may write is not guessed when there was more than one such piece. */
static void no_guesses(struct fab_conn *c)
{
	struct fab_mr mr;
	uint8_t *p = area(c, FAB_REMOTE_WRITE, &mr);

	fabric_iwarp.dereg(c, &mr);
	free(p);
}

static void run(struct outcome *o, uint8_t flags, bool guesses, const uint8_t *data, size_t len,
		const uint8_t *pieces, size_t npieces)
{
	struct fab_params params = { .max_send = 4, .max_recv = RECVS };
	struct mpa_terms terms = { .crc = flags & 1, .ird = 2, .ord = 2 };
	struct ctx x = { .o = o, .closes = flags & 4 };
	uint8_t *mem[3], *recv[RECVS];
	struct fab_mr mr[3];
	int fd[2];

	memset(o, 0, sizeof(*o));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
	x.c = iw_new(&params, fd[0], true);
	CHECK(x.c && iw_agreed(x.c, &terms) == 0);
	mem[0] = area(x.c, FAB_REMOTE_WRITE, &mr[0]);
	mem[1] = area(x.c, FAB_REMOTE_READ, &mr[1]);
	mem[2] = area(x.c, 0, &mr[2]);
	if (!guesses)
		no_guesses(x.c);
	for (unsigned i = 0; i < RECVS; i++) {
		recv[i] = calloc(1, AREA);
		CHECK(recv[i]);
		CHECK(iw_post_recv(x.c, &(struct fab_sge){ recv[i], AREA, 0 }, recv[i]) == 0);
	}
	CHECK(fabric_iwarp.attach(x.c, fuzz_loop(), &events, &x) == 0);
	x.c->rx.heard = true;
	if (flags & 2)
		CHECK(fabric_iwarp.post_read(x.c, &(struct fab_sge){ mem[2], 100, mr[2].lkey },
					     0x77, 0, NULL) == 0);
	iw_enter(x.c);
	iw_tx_run(x.c);
	iw_leave(x.c);
	feed(&x, fd[1], data, len, pieces, npieces);
	if (x.c)
		iw_close(x.c);
	memcpy(o->writable, mem[0], AREA);
	memcpy(o->readable, mem[1], AREA);
	memcpy(o->sink, mem[2], AREA);
	for (unsigned i = 0; i < RECVS; i++) {
		memcpy(o->recvs[i], recv[i], AREA);
		free(recv[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		free(mem[i]);
	close(fd[1]);
}

/* written: all that the peer may write to is the same, and not only what it has written. */
static void compare(const struct outcome *whole, const struct outcome *o, bool written)
{
	CHECK(!strcmp(whole->log, o->log));
	CHECK(!memcmp(whole->recvs, o->recvs, sizeof(whole->recvs)));
	CHECK(!memcmp(whole->sink, o->sink, AREA));
	CHECK(!memcmp(whole->readable, o->readable, AREA));
	for (unsigned i = 0; i < AREA; i++)
		CHECK(whole->writable[i] == o->writable[i] || (!written && !whole->writable[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct outcome whole, other;
	static const uint8_t zero[AREA];
	const uint8_t *stream;
	size_t npieces, n;
	uint8_t flags;

	if (len < 2 || len > 8192)
		return 0;
	flags = data[0];
	npieces = data[1] % 16u;
	if (len < 2 + npieces)
		return 0;
	stream = data + 2 + npieces;
	n = len - 2 - npieces;
	run(&whole, flags, false, stream, n, NULL, 0);
	CHECK(!memcmp(whole.readable, zero, AREA));
	if (!(flags & 2))
		CHECK(!memcmp(whole.sink, zero, AREA));
	run(&other, flags, false, stream, n, data + 2, npieces);
	compare(&whole, &other, true);
	run(&other, flags, true, stream, n, NULL, 0);
	compare(&whole, &other, false);
	run(&other, flags, true, stream, n, data + 2, npieces);
	compare(&whole, &other, false);
	return 0;
}
