/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The peers that have connected. None may have all of the memory (memory.c), however many
 * connections it makes. A peer is an address; all users of this machine have the same one, so
 * they are told apart by the kernel's list of sockets (allow.c). The connections of an RDMA
 * device have no such addresses: each is a peer of its own.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "gateway/gateway.h"

static void key_of(const struct sockaddr_storage *ss, uint8_t out[16])
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)ss;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)ss;

	memset(out, 0, 16);
	if (ss->ss_family == AF_INET6) {
		memcpy(out, &in6->sin6_addr, 16);
		return;
	}
	out[10] = out[11] = 0xff;
	memcpy(out + 12, &in->sin_addr, 4);
}

/* 127.0.0.0/8: any of its addresses may be a peer's here. */
static bool is_loopback(const uint8_t a[16])
{
	static const uint8_t mapped[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

	return memcmp(a, mapped, sizeof(mapped)) == 0;
}

static void identify(const struct gw_pair *p, uint8_t addr[16], unsigned *uid)
{
	struct sockaddr_storage local, peer;
	uint8_t ours[16];

	p->fab->addrs(p->conn, &local, &peer);
	key_of(&peer, addr);
	key_of(&local, ours);
	if ((!is_loopback(addr) && memcmp(addr, ours, 16) != 0) ||
	    !allow_user(&p->gw->allow, &local, &peer, uid)) {
		*uid = GW_NO_USER;
		return;
	}
	/* He may use any of this machine's addresses. */
	memset(addr, 0, 16);
}

static struct gw_peer *find(const struct gateway *gw, const uint8_t addr[16], unsigned uid)
{
	list_for_each(n, &gw->peers) {
		struct gw_peer *e = container_of(n, struct gw_peer, node);

		if (e->uid == uid && memcmp(e->addr, addr, 16) == 0)
			return e;
	}
	return NULL;
}

bool peer_enter(struct gw_pair *p)
{
	struct gateway *gw = p->gw;
	uint8_t addr[16] = { 0 };
	unsigned uid = GW_NO_USER;
	struct gw_peer *e = NULL;

	if (p->fab->addrs) {
		identify(p, addr, &uid);
		e = find(gw, addr, uid);
	}
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return false;
		memcpy(e->addr, addr, 16);
		e->uid = uid;
		list_add_tail(&gw->peers, &e->node);
	}
	e->pairs++;
	p->peer = e;
	return true;
}

void peer_leave(struct gw_pair *p)
{
	struct gw_peer *e = p->peer;

	p->peer = NULL;
	if (!e || --e->pairs)
		return;
	list_del(&e->node);
	free(e);
}
