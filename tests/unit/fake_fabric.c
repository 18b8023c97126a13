/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "fake_fabric.h"

struct fake_conn fake;
uint8_t fake_peer_priv[FAB_PRIV_RECV_MAX];
size_t fake_peer_priv_len;
_Atomic int fake_connect_error;
int fake_post_send_error;
bool fake_reg_per_call;
uint64_t fake_open_ns[FAKE_OPENS];
_Atomic unsigned fake_opens;

static uint32_t next_rkey = FAKE_RKEY;

static int fake_probe(const struct fab_params *p, struct errbuf *eb)
{
	(void)p;
	(void)eb;
	return 0;
}

static int fake_open(const struct fab_params *p, struct fab_conn **out, struct errbuf *eb)
{
	(void)p;
	(void)eb;
	cr_assert(!fake.open, "the last connection was not closed");
	if (fake_opens < FAKE_OPENS)
		fake_open_ns[fake_opens] = mono_ns();
	fake_opens++;
	memset(&fake, 0, sizeof(fake));
	fake.open = true;
	fake.rkey = next_rkey++;
	fake.per_call = fake_reg_per_call;
	fake.last_key = fake.rkey << 8;
	*out = (struct fab_conn *)&fake;
	return 0;
}

static int fake_connect(struct fab_conn *c, const void *priv, size_t privlen,
			void *peer_priv, size_t *peer_len, struct errbuf *eb)
{
	(void)c;
	(void)priv;
	cr_assert_eq(privlen, 8);
	cr_assert_gt(fake.nrecvs, 0, "receives must be posted before connect");
	if (fake_connect_error)
		return err_set(eb, fake_connect_error, "fake error");
	memcpy(peer_priv, fake_peer_priv, fake_peer_priv_len);
	*peer_len = fake_peer_priv_len;
	return 0;
}

static void fake_caps(const struct fab_conn *c, struct fab_caps *out)
{
	(void)c;
	*out = (struct fab_caps){
		.max_inline = 4096, .reg_per_call = fake.per_call, .remote_inval = fake.per_call,
	};
}

static const char *fake_describe(const struct fab_conn *c)
{
	(void)c;
	return "fake";
}

static int fake_reg(struct fab_conn *c, void *mem, size_t len, unsigned access,
		    struct fab_mr *out, struct errbuf *eb)
{
	(void)c;
	(void)eb;
	*out = (struct fab_mr){ .base = mem, .len = len, .addr = (uintptr_t)mem, .lkey = 1 };
	if (fake.per_call) {
		cr_assert_neq(access, FAB_REMOTE_READ | FAB_REMOTE_WRITE);
		out->rkey = access ? ++fake.last_key : 0;
		fake.nsegs += access != 0;
		if (!fake.local.base)
			fake.local = *out;
		else if (!access)
			fake.data = *out;
		return 0;
	}
	cr_assert(!access || access == (FAB_REMOTE_READ | FAB_REMOTE_WRITE));
	if (access) {
		out->lkey = 2;
		out->rkey = fake.rkey;
		fake.data = *out;
	} else {
		fake.local = *out;
	}
	return 0;
}

static bool in(const struct fab_mr *mr, const struct fab_sge *sge)
{
	size_t at = (size_t)((const char *)sge->mem - (char *)mr->base);

	return sge->lkey == mr->lkey && at <= mr->len && sge->len <= mr->len - at;
}

static void fake_dereg(struct fab_conn *c, struct fab_mr *mr)
{
	(void)c;
	fake.nsegs -= mr->rkey != 0;
}

static int fake_post_recv(struct fab_conn *c, const struct fab_sge *sge, void *cookie)
{
	(void)c;
	cr_assert(in(&fake.local, sge), "no peer may write to a receive");
	cr_assert_lt(fake.nrecvs, FAKE_RECVS);
	fake.recvs[fake.nrecvs].mem = sge->mem;
	fake.recvs[fake.nrecvs].len = sge->len;
	fake.recvs[fake.nrecvs].cookie = cookie;
	fake.nrecvs++;
	return 0;
}

static int fake_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie)
{
	struct fake_send *s = &fake.sends[fake.nsends];

	(void)c;
	if (fake_post_send_error)
		return fake_post_send_error;
	cr_assert(fake.open && fake.attached);
	cr_assert_lt(fake.nsends, FAKE_SENDS);
	s->len = 0;
	for (unsigned i = 0; i < n; i++) {
		cr_assert(in(&fake.local, &sge[i]) || in(&fake.data, &sge[i]));
		cr_assert_leq(s->len + sge[i].len, sizeof(s->bytes), "larger than the threshold");
		memcpy(s->bytes + s->len, sge[i].mem, sge[i].len);
		s->len += sge[i].len;
	}
	s->cookie = cookie;
	fake.nsends++;
	return 0;
}

static int fake_attach(struct fab_conn *c, struct loop *l, const struct fab_events *ev, void *ctx)
{
	(void)c;
	(void)l;
	fake.ev = ev;
	fake.ctx = ctx;
	fake.attached = true;
	return 0;
}

static void fake_close(struct fab_conn *c)
{
	(void)c;
	cr_assert(fake.open);
	fake.open = fake.attached = false;
}

const struct fabric fabric_fake = {
	.name = "fake",
	.probe = fake_probe, .open = fake_open, .connect = fake_connect, .caps = fake_caps,
	.describe = fake_describe, .reg = fake_reg, .dereg = fake_dereg,
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

void fake_break(void)
{
	fake.ev->down(fake.ctx, -ECONNRESET, "broken by the test");
}
