/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include "fake_fabric.h"

struct fake_conn fake_conns[FAKE_CONNS];
_Thread_local struct fake_conn *fake_used = fake_conns;
unsigned fake_most = 1;
uint8_t fake_peer_priv[FAB_PRIV_RECV_MAX];
size_t fake_peer_priv_len;
_Atomic int fake_connect_error;
_Atomic unsigned fake_hangs_from;
unsigned fake_attach_errors;
int fake_post_send_error;
bool fake_reg_per_call;
bool fake_has_windows, fake_silent_sends;
int fake_reg_error, fake_bind_error, fake_unbind_error;
struct fab_mr fake_pieces[FAKE_PIECES];
_Atomic int fake_pieces_error;
void (*fake_sending)(const struct fake_conn *f);
uint64_t fake_open_ns[FAKE_OPENS];
_Atomic unsigned fake_opens;

static uint32_t next_rkey = FAKE_RKEY;
/* Several threads may open and close. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

void fake_peer_is_knfsd(void)
{
	/* Magic number, version, flags, and both sizes in KiB, less one. */
	static const uint8_t knfsd[] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };

	memcpy(fake_peer_priv, knfsd, sizeof(knfsd));
	fake_peer_priv_len = sizeof(knfsd);
}

static int fake_probe(const struct fab_params *p, struct errbuf *eb)
{
	(void)p;
	(void)eb;
	return 0;
}

static int fake_open(const struct fab_params *p, struct fab_conn **out, struct errbuf *eb)
{
	struct fake_conn *f = fake_conns;

	(void)eb;
	pthread_mutex_lock(&opening);
	while (f->open)
		cr_assert_lt(++f, fake_conns + fake_most, "the last connection was not closed");
	if (fake_opens < FAKE_OPENS)
		fake_open_ns[fake_opens] = mono_ns();
	fake_opens++;
	memset(f, 0, sizeof(*f));
	f->open = true;
	f->rkey = next_rkey++;
	f->per_call = fake_reg_per_call;
	f->silent = fake_silent_sends;
	f->last_key = f->rkey << 8;
	f->nwindows = fake_has_windows ? p->windows : 0;
	cr_assert_leq(f->nwindows, FAKE_WINDOWS);
	for (unsigned i = 0; i < f->nwindows; i++)
		f->windows[i].rkey = (f->rkey << 16) + (i << 8);
	pthread_mutex_unlock(&opening);
	fake_used = f;
	*out = (struct fab_conn *)f;
	return 0;
}

static int fake_connect(struct fab_conn *c, const void *priv, size_t privlen,
			void *peer_priv, size_t *peer_len, struct errbuf *eb)
{
	struct fake_conn *f = (struct fake_conn *)c;

	cr_assert_eq(privlen, 8);
	memcpy(f->priv, priv, 8);
	cr_assert_gt(f->nrecvs, 0, "receives must be posted before connect");
	while (fake_hangs_from && fake_opens >= fake_hangs_from)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	if (fake_connect_error)
		return err_set(eb, fake_connect_error, "fake error");
	memcpy(peer_priv, fake_peer_priv, fake_peer_priv_len);
	*peer_len = fake_peer_priv_len;
	return 0;
}

static void fake_caps(const struct fab_conn *c, struct fab_caps *out)
{
	const struct fake_conn *f = (const struct fake_conn *)c;

	*out = (struct fab_caps){
		.reg_per_call = f->per_call, .remote_inval = f->per_call,
		.windows = f->nwindows > 0, .silent_sends = f->silent,
	};
}

static const char *fake_describe(const struct fab_conn *c)
{
	(void)c;
	return "fake";
}

static int fake_reg_shared(struct fab_conn *c, void *mem, size_t len, unsigned access,
			   struct fab_mr *out, struct errbuf *eb)
{
	struct fake_conn *f = (struct fake_conn *)c;

	*out = (struct fab_mr){ .base = mem, .len = len, .addr = (uintptr_t)mem, .lkey = 1 };
	if (access == (FAB_REMOTE_READ | FAB_REMOTE_WRITE)) {
		cr_assert(!f->per_call);
		out->lkey = 2;
		out->rkey = f->rkey;
		f->data = *out;
	} else if (access == FAB_WINDOWS) {
		cr_assert(fake_has_windows, "the device has none");
		out->lkey = 2;
		f->data = *out;
		f->data_has_windows = true;
	} else if (access) {
		if (fake_reg_error)
			return err_set(eb, fake_reg_error, "fake error");
		out->rkey = ++f->last_key;
		f->nsegs++;
		f->nregs++;
	} else if (!f->local.base) {
		f->local = *out;
	} else {
		f->data = *out;
	}
	return 0;
}

static int fake_reg(struct fab_conn *c, void *mem, size_t len, unsigned access,
		    struct fab_mr *out, struct errbuf *eb)
{
	struct fake_conn *f = (struct fake_conn *)c;

	if (access)
		return fake_reg_shared(c, mem, len, access, out, eb);
	/* A connection's own memory that no peer may reach is for its receives. */
	*out = (struct fab_mr){ .base = mem, .len = len, .addr = (uintptr_t)mem, .lkey = 3 };
	f->recv = *out;
	return 0;
}

static int fake_reg_pieces(struct fab_conn *c, unsigned access, const struct fab_mr **out,
			   struct errbuf *eb)
{
	(void)c;
	(void)access;
	*out = fake_pieces;
	return fake_pieces_error ? err_set(eb, fake_pieces_error, "fake error") : 0;
}

static bool in(const struct fab_mr *mr, const struct fab_sge *sge)
{
	size_t at = (size_t)((const char *)sge->mem - (char *)mr->base);

	return sge->lkey == mr->lkey && at <= mr->len && sge->len <= mr->len - at;
}

static bool in_piece(const struct fab_sge *sge)
{
	bool any = false;

	for (unsigned i = 0; i < FAKE_PIECES; i++)
		any |= in(&fake_pieces[i], sge);
	return any;
}

static void fake_dereg(struct fab_conn *c, struct fab_mr *mr)
{
	struct fake_conn *f = (struct fake_conn *)c;

	f->nsegs -= mr->rkey != 0;
}

static int fake_bind(struct fab_conn *c, const struct fab_mr *data, void *mem, size_t len,
		     unsigned access, struct fab_mr *out)
{
	struct fake_conn *f = (struct fake_conn *)c;

	cr_assert((data->base == f->data.base && data->lkey == 2) ||
		  (data >= fake_pieces && data < fake_pieces + FAKE_PIECES));
	cr_assert(in(data, &(struct fab_sge){ mem, (uint32_t)len, data->lkey }));
	cr_assert(access == FAB_REMOTE_READ || access == FAB_REMOTE_WRITE);
	if (fake_bind_error)
		return fake_bind_error;
	for (unsigned i = 0; i < f->nwindows; i++) {
		struct fake_window *w = &f->windows[i];

		if (w->state != FAKE_FREE)
			continue;
		w->state = FAKE_QUEUED;
		w->rkey = (w->rkey & ~0xffu) | ((w->rkey + 1) & 0xff);
		w->mem = mem;
		w->len = len;
		w->access = access;
		*out = (struct fab_mr){ .base = mem, .len = len, .addr = (uintptr_t)mem, .rkey = w->rkey, .priv = w };
		return 0;
	}
	return -EAGAIN;
}

static int fake_unbind(struct fab_conn *c, struct fab_mr *mrs, unsigned n,
		       const uint32_t *by_peer, void *cookie)
{
	struct fake_conn *f = (struct fake_conn *)c;
	struct fake_window *last = NULL;

	cr_assert_gt(n, 0);
	if (fake_unbind_error)
		return fake_unbind_error;
	for (unsigned i = 0; i < n; i++) {
		struct fake_window *w = mrs[i].priv;

		cr_assert(w->state == FAKE_QUEUED || w->state == FAKE_BOUND);
		cr_assert_eq(w->rkey, mrs[i].rkey);
		if (w->state == FAKE_QUEUED || (by_peer && *by_peer == w->rkey)) {
			w->state = FAKE_FREE;
			continue;
		}
		w->state = FAKE_ENDING;
		w->order = ++f->unbinds;
		w->cookie = NULL;
		last = w;
	}
	if (!last)
		return 0;
	last->cookie = cookie;
	return 1;
}

static int fake_post_recv(struct fab_conn *c, const struct fab_sge *sge, void *cookie)
{
	struct fake_conn *f = (struct fake_conn *)c;

	cr_assert(in(&f->recv, sge), "no peer may write to a receive");
	cr_assert_lt(f->nrecvs, FAKE_RECVS);
	for (unsigned i = 0; i < f->nrecvs; i++)
		cr_assert((char *)f->recvs[i].mem + f->recvs[i].len <= (char *)sge->mem ||
			  (char *)sge->mem + sge->len <= (char *)f->recvs[i].mem,
			  "two receives in the same memory");
	f->recvs[f->nrecvs].mem = sge->mem;
	f->recvs[f->nrecvs].len = sge->len;
	f->recvs[f->nrecvs].cookie = cookie;
	f->nrecvs++;
	return 0;
}

/* What is sent out of a receive is an answer to the server, and nobody answers that in turn. */
static bool in_receive(const struct fake_conn *f, const struct fab_sge *sge)
{
	if (!in(&f->recv, sge))
		return false;
	for (unsigned i = 0; i < f->nrecvs; i++)
		cr_assert((char *)sge->mem + sge->len <= (char *)f->recvs[i].mem ||
			  (char *)f->recvs[i].mem + f->recvs[i].len <= (char *)sge->mem,
			  "it is posted as a receive as well");
	return true;
}

static int fake_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie)
{
	struct fake_conn *f = (struct fake_conn *)c;
	struct fake_send *s = &f->sends[f->nsends];

	if (fake_post_send_error)
		return fake_post_send_error;
	cr_assert(f->open && f->attached);
	cr_assert_eq(!cookie, f->silent && !in_receive(f, sge));
	if (fake_sending)
		fake_sending(f);
	cr_assert_lt(f->nsends, FAKE_SENDS);
	s->len = 0;
	for (unsigned i = 0; i < n; i++) {
		cr_assert(in(&f->local, &sge[i]) || in(&f->data, &sge[i]) || in_piece(&sge[i]) ||
			  in_receive(f, &sge[i]));
		cr_assert_leq(s->len + sge[i].len, sizeof(s->bytes), "larger than the threshold");
		memcpy(s->bytes + s->len, sge[i].mem, sge[i].len);
		s->len += sge[i].len;
	}
	s->cookie = cookie;
	f->nsends++;
	for (unsigned i = 0; i < f->nwindows; i++)
		if (f->windows[i].state == FAKE_QUEUED)
			f->windows[i].state = FAKE_BOUND;
	return 0;
}

static int fake_attach(struct fab_conn *c, struct loop *l, const struct fab_events *ev, void *ctx)
{
	struct fake_conn *f = (struct fake_conn *)c;

	(void)l;
	if (fake_attach_errors) {
		fake_attach_errors--;
		return -ENOSPC;
	}
	pthread_mutex_lock(&opening);
	f->ev = ev;
	f->ctx = ctx;
	f->attached = true;
	pthread_mutex_unlock(&opening);
	return 0;
}

bool fake_carries(const struct fake_conn *f, const void *ctx)
{
	bool yes;

	pthread_mutex_lock(&opening);
	yes = f->attached && f->ctx == ctx;
	pthread_mutex_unlock(&opening);
	return yes;
}

static void fake_close(struct fab_conn *c)
{
	struct fake_conn *f = (struct fake_conn *)c;

	pthread_mutex_lock(&opening);
	cr_assert(f->open);
	f->open = f->attached = false;
	pthread_mutex_unlock(&opening);
}

const struct fabric fabric_fake = {
	.name = "fake",
	.probe = fake_probe, .open = fake_open, .connect = fake_connect, .caps = fake_caps,
	.describe = fake_describe, .reg = fake_reg, .reg_shared = fake_reg_shared,
	.reg_pieces = fake_reg_pieces, .dereg = fake_dereg,
	.bind = fake_bind, .unbind = fake_unbind,
	.post_recv = fake_post_recv, .post_send = fake_post_send, .attach = fake_attach,
	.close = fake_close,
};

static void deliver(const void *bytes, uint32_t len, bool inv, uint32_t rkey)
{
	void *cookie = fake.recvs[0].cookie;

	cr_assert_gt(fake.nrecvs, 0, "no receive is posted");
	cr_assert_leq(len, fake.recvs[0].len);
	memcpy(fake.recvs[0].mem, bytes, len);
	fake.nrecvs--;
	memmove(&fake.recvs[0], &fake.recvs[1], fake.nrecvs * sizeof(fake.recvs[0]));
	fake.ev->recv(fake.ctx, cookie, len, inv, rkey);
}

void fake_deliver(const void *bytes, uint32_t len)
{
	deliver(bytes, len, false, 0);
}

void fake_deliver_inv(const void *bytes, uint32_t len, uint32_t rkey)
{
	deliver(bytes, len, true, rkey);
}

void fake_complete(unsigned i)
{
	cr_assert_lt(i, fake.nsends);
	fake.ev->sent(fake.ctx, fake.sends[i].cookie);
}

unsigned fake_in_state(enum fake_window_state state)
{
	unsigned n = 0;

	for (unsigned i = 0; i < fake.nwindows; i++)
		n += fake.windows[i].state == state;
	return n;
}

static struct fake_window *oldest_ending(void)
{
	struct fake_window *oldest = NULL;

	for (unsigned i = 0; i < fake.nwindows; i++) {
		struct fake_window *w = &fake.windows[i];

		if (w->state == FAKE_ENDING && (!oldest || w->order < oldest->order))
			oldest = w;
	}
	return oldest;
}

bool fake_unbound(void)
{
	struct fake_window *w = oldest_ending();
	void *cookie = NULL;

	for (; w && !cookie; w = oldest_ending()) {
		cookie = w->cookie;
		w->state = FAKE_FREE;
	}
	if (cookie)
		fake.ev->unbound(fake.ctx, cookie);
	return cookie != NULL;
}

void fake_break(void)
{
	fake.ev->down(fake.ctx, -ECONNRESET, "broken by the test");
}
