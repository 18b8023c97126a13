/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The verbs provider, as far as it can be tested without a device: what it refuses before it
 * asks a device, and its messages if there is none. Tests with a device run in the guest:
 * tests/vm-clients, tests/suite.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "gateway/gateway.h"
#include "fabric/verbs.h"

TestSuite(verbs, .timeout = 300);

#define FAB (&fabric_verbs)

static struct loop *loop;

static void setup(void)
{
	loop = loop_new(NULL);
	cr_assert_not_null(loop);
}

static void teardown(void)
{
	loop_free(loop);
}

static struct fab_params params_of(const char *ip)
{
	struct fab_params p = { .max_send = 8, .max_recv = 8 };
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&p.local;

	in->sin_family = AF_INET;
	cr_assert_eq(inet_pton(AF_INET, ip, &in->sin_addr), 1);
	return p;
}

static void no_request(void *ctx, struct fab_conn *c, const void *priv, size_t privlen)
{
	cr_assert_fail("nobody connects");
}

static const struct fab_listen_events events = { .request = no_request };

Test(verbs, both_roles)
{
	cr_assert_eq(fabric_by_name("verbs"), FAB);
	cr_expect(FAB->listen && FAB->listen_addr && FAB->unlisten && FAB->accept && FAB->reject);
	cr_expect(FAB->post_send_inv && FAB->post_write && FAB->post_read);
}

/* 127.0.0.1 has no device, unless somebody has made one of "lo". */
Test(verbs, listen_without_a_device, .init = setup, .fini = teardown)
{
	static const char *const ips[] = { "127.0.0.1", "0.0.0.0" };

	for (size_t i = 0; i < 2; i++) {
		struct fab_params p = params_of(ips[i]);
		struct fab_listener *li = NULL;
		struct errbuf eb = { "" };
		int rc = FAB->listen(&p, loop, &events, NULL, &li, &eb);

		if (rc == 0) {
			struct sockaddr_storage at;

			FAB->listen_addr(li, &at);
			cr_expect_neq(((struct sockaddr_in *)(void *)&at)->sin_port, 0);
			FAB->unlisten(li);
			continue;
		}
		cr_expect(rc == -ENODEV || rc == -EACCES || rc == -EPERM, "%d: %s", rc, eb.text);
		cr_expect_not_null(strstr(eb.text, "RDMA"), "%s", eb.text);
		cr_expect_null(li);
	}
}

Test(verbs, listen_on_no_address, .init = setup, .fini = teardown)
{
	struct fab_params p = { .max_send = 8, .max_recv = 8 };
	struct fab_listener *li = NULL;
	struct errbuf eb = { "" };

	cr_expect_eq(FAB->listen(&p, loop, &events, NULL, &li, &eb), -EAFNOSUPPORT);
	cr_expect_not_null(strstr(eb.text, "IPv4"), "%s", eb.text);
}

Test(verbs, posts_that_are_refused)
{
	struct fab_sge sge[FAB_SGE_MAX + 1] = { { .len = 1 } };
	struct fab_conn c = { .ord = 1, .can_inval = true };

	cr_expect_eq(FAB->post_send(&c, sge, FAB_SGE_MAX + 1, NULL), -EINVAL);
	cr_expect_eq(FAB->post_send_inv(&c, sge, FAB_SGE_MAX + 1, 1, NULL), -EINVAL);
	cr_expect_eq(FAB->post_write(&c, sge, FAB_SGE_MAX + 1, 1, 0, NULL), -EINVAL);
	c.down = true;
	cr_expect_eq(FAB->post_recv(&c, sge, NULL), -ENOTCONN);
	cr_expect_eq(FAB->post_send(&c, sge, 1, NULL), -ENOTCONN);
	cr_expect_eq(FAB->post_send_inv(&c, sge, 1, 1, NULL), -ENOTCONN);
	cr_expect_eq(FAB->post_write(&c, sge, 1, 1, 0, NULL), -ENOTCONN);
	cr_expect_eq(FAB->post_read(&c, sge, 1, 0, NULL), -ENOTCONN);
	c.ord = 0;
	c.can_inval = false;
	cr_expect_eq(FAB->post_read(&c, sge, 1, 0, NULL), -EOPNOTSUPP);
	cr_expect_eq(FAB->post_send_inv(&c, sge, 1, 1, NULL), -EOPNOTSUPP);
}

Test(verbs, answers_that_are_refused)
{
	struct fab_conn c = { .passive = false };
	struct errbuf eb = { "" };
	char priv[256] = "";

	cr_expect_eq(FAB->accept(&c, priv, 8, &eb), -EINVAL, "the active side has none");
	c.passive = c.answered = true;
	cr_expect_eq(FAB->accept(&c, priv, 8, &eb), -EINVAL, "twice");
	c.answered = false;
	cr_expect_eq(FAB->accept(&c, priv, sizeof(priv), &eb), -EMSGSIZE);
	cr_expect_not_null(strstr(eb.text, "256 bytes"), "%s", eb.text);
}

/* ---- What a connection offers ---- */

/* In librdmacm's place, for a connection of this id. */
static struct rdma_cm_id our_id;
static struct rdma_conn_param offered;

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *cp)
{
	int (*real)(struct rdma_cm_id *, struct rdma_conn_param *);

	if (id == &our_id) {
		offered = *cp;
		errno = ECONNREFUSED;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "rdma_connect");
	return real(id, cp);
}

/* They are the window in which a server fetches what WRITEs bring: over a round trip of 10 ms 16
 * of them had 0.64 of the rate of 128. */
Test(verbs, reads_that_a_server_may_have_outstanding)
{
	static const struct { unsigned device, wanted, offered; } t[] = {
		{ 1, 0, 1 }, { 16, 0, 16 }, { 100, 0, 64 }, { 128, 0, 128 }, { 255, 0, 128 },
		{ 4096, 0, 128 }, { 0, 0, 1 }, { 128, 16, 16 }, { 8, 16, 8 },
	};
	static struct ibv_device dev = { .name = "device" };
	static struct ibv_context verbs = { .device = &dev };
	struct errbuf eb = { "" };
	size_t len = 0;

	our_id.verbs = &verbs;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct fab_conn c = { .id = &our_id, .max_ird = t[i].device, .params = { .ird = t[i].wanted } };

		cr_expect_eq(verbs_cm_connect(&c, "", 0, NULL, &len, &eb), -ECONNREFUSED);
		cr_expect_eq(offered.responder_resources, t[i].offered, "device %u, wanted %u: %u",
			     t[i].device, t[i].wanted, offered.responder_resources);
		cr_expect_eq(offered.initiator_depth, 0, "Reads of ours");
	}
}

/* ---- What the connection manager says later ---- */

static enum rdma_cm_event_type next_event[3];
static unsigned nevents;

/* In librdmacm's place, for connections whose channel is ours. */
static struct rdma_event_channel our_channel;

int rdma_get_cm_event(struct rdma_event_channel *chan, struct rdma_cm_event **out)
{
	static struct rdma_cm_event ev;

	if (chan != &our_channel) {
		int (*real)(struct rdma_event_channel *, struct rdma_cm_event **);

		*(void **)&real = dlsym(RTLD_NEXT, "rdma_get_cm_event");
		return real(chan, out);
	}
	if (!nevents) {
		errno = EAGAIN;
		return -1;
	}
	ev = (struct rdma_cm_event){ .event = next_event[--nevents] };
	*out = &ev;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
	int (*real)(struct rdma_cm_event *);

	if (!ev->id)
		return 0;
	*(void **)&real = dlsym(RTLD_NEXT, "rdma_ack_cm_event");
	return real(ev);
}

static char said[200];
static int said_err;

static void note_why(void *ctx, int err, const char *why)
{
	(void)ctx;
	said_err = err;
	snprintf(said, sizeof(said), "%s", why);
}

/* The neighbour changes while it lasts; and before it was there. */
Test(verbs, unreachable_now_and_before, .init = setup, .fini = teardown)
{
	static const struct fab_events ev = { .down = note_why };

	for (unsigned established = 0; established < 2; established++) {
		struct fab_conn c = {
			.chan = &our_channel, .loop = loop, .ev = &ev, .passive = true,
			.connected = true,
		};

		c.cm_watch.fd = c.comp_watch.fd = c.async_watch.fd = c.kick_watch.fd = -1;
		list_init(&c.mrs);
		list_init(&c.node);
		loop_timer_init(&c.flush, verbs_on_flush);
		nevents = 0;
		next_event[nevents++] = RDMA_CM_EVENT_UNREACHABLE;
		if (established)
			next_event[nevents++] = RDMA_CM_EVENT_ESTABLISHED;
		verbs_cm_events(&c);
		cr_assert(c.down);
		cr_expect_eq(said_err, established ? -ENETUNREACH : -ECONNABORTED);
		cr_expect_not_null(strstr(said, established ? "path to the other side has changed" : "gave up before"),
				   "%s", said);
	}
}

/* ---- The gateway's choice ---- */

static struct gateway gateway(void)
{
	struct gateway gw = { .loop = loop, .credits = 4 };

	list_init(&gw.pairs);
	list_init(&gw.peers);
	return gw;
}

Test(verbs, gateway_unknown_fabric, .init = setup, .fini = teardown)
{
	struct fab_params p = params_of("127.0.0.1");
	struct gateway gw = gateway();
	struct errbuf eb = { "" };

	cr_expect_eq(gw_listen(&gw, "carrier-pigeon", &p, &eb), -EINVAL);
	cr_expect_not_null(strstr(eb.text, "'carrier-pigeon' is not auto"), "%s", eb.text);
}

Test(verbs, gateway_auto, .init = setup, .fini = teardown)
{
	struct fab_params p = params_of("127.0.0.1");
	struct gateway alone = gateway(), gw = gateway();
	struct errbuf eb = { "" };
	int device = gw_listen(&alone, "verbs", &p, &eb);

	if (!device)
		alone.fab->unlisten(alone.listener);
	else
		cr_expect_eq(alone.fab, &fabric_verbs, "what is named is not replaced");
	cr_assert_eq(gw_listen(&gw, "auto", &p, &eb), 0, "%s", eb.text);
	cr_expect_str_eq(gw.fab->name, device ? "iwarp" : "verbs");
	gw.fab->unlisten(gw.listener);
}

/* With another machine's address the gateway must not try the other fabric. Which fabric
 * reports the error depends on whether there is a device at all. */
Test(verbs, gateway_auto_wrong_address, .init = setup, .fini = teardown)
{
	struct fab_params p = params_of("192.0.2.1");
	struct gateway gw = gateway();
	struct errbuf eb = { "" };

	cr_expect_eq(gw_listen(&gw, "auto", &p, &eb), -EADDRNOTAVAIL);
	cr_expect_not_null(strstr(eb.text, "192.0.2.1"), "%s", eb.text);
}
