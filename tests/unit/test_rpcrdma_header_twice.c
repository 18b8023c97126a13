/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The transport header, decoded twice (decode_twice.h). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "decode_twice.h"
#include "rpcrdma.h"
#include "rpcrdma/header.h"

static void put_seg(void)
{
	for (unsigned i = 0; i < 4; i++)
		twice_put(twice_word());
}

static void put_chunk(void)
{
	unsigned n = twice_roll(20) ? twice_roll(4) : twice_roll(20);

	twice_put(n);
	while (n--)
		put_seg();
}

static uint32_t some_header(void)
{
	static const uint32_t procs[] = { RR_MSG, RR_MSG, RR_MSG, RR_NOMSG, RR_NOMSG, RR_ERROR, RR_MSGP, RR_DONE };
	uint32_t proc = procs[twice_roll(8)];

	twice_new();
	twice_put(7);
	twice_put(1);
	twice_put(twice_word());
	twice_put(proc);
	if (proc == RR_ERROR) {
		twice_put(1 + twice_roll(3));
		twice_put(twice_word());
		twice_put(twice_word());
		return xdr_getpos(&twice_out);
	}
	for (unsigned n = twice_roll(20) ? twice_roll(3) : twice_roll(40); n; n--) {
		twice_put(1);
		twice_put(twice_word());
		put_seg();
	}
	twice_put(0);
	for (unsigned n = twice_roll(20) ? twice_roll(3) : twice_roll(20); n; n--) {
		twice_put(1);
		put_chunk();
	}
	twice_put(0);
	twice_put(twice_roll(2));
	put_chunk();
	return xdr_getpos(&twice_out);
}

/* Is it one that the limits allow, with 0 and 1 for booleans and of our version? Then it is as it
 * was when it is encoded. */
static bool is_canonical(rdma_msg *m, uint32_t len)
{
	_Alignas(8) char again[TWICE_ROOM];
	unsigned reads = 0, writes = 0;
	bool ok = m->rdma_vers == RR_VERSION && m->rdma_body.proc != RDMA_MSGP &&
		  m->rdma_body.proc != RDMA_DONE;
	rpc_rdma_header *h = &m->rdma_body.rdma_body_u.rdma_msg;
	XDR x;

	if (m->rdma_body.proc == RDMA_MSG || m->rdma_body.proc == RDMA_NOMSG) {
		for (xdr_read_list *l = h->rdma_reads; l; l = l->next)
			reads++;
		for (xdr_write_list *l = h->rdma_writes; l; l = l->next, writes++)
			ok = ok && l->entry.target.target_len <= RR_SEGS_MAX;
		ok = ok && reads <= RR_READS_MAX && writes <= RR_WRITES_MAX &&
		     (!h->rdma_reply || h->rdma_reply->target.target_len <= RR_SEGS_MAX);
	}
	xdrmem_create(&x, again, sizeof(again), XDR_ENCODE);
	return ok && xdr_rdma_msg(&x, m) && xdr_getpos(&x) == len && memcmp(again, twice_wire, len) == 0;
}

static void same_header(uint32_t len, unsigned taken[2])
{
	_Alignas(8) char again[TWICE_ROOM];
	struct rr_header h;
	char *copy = malloc(len ? len : 1);
	int n = rr_header_decode(&h, memcpy(copy, twice_wire, len), len);
	bool theirs;
	rdma_msg m;
	XDR x;

	memset(&m, 0, sizeof(m));
	xdrmem_create(&x, copy, len, XDR_DECODE);
	theirs = xdr_rdma_msg(&x, &m) && is_canonical(&m, xdr_getpos(&x));
	/* Another version's ERR_VERS is a reply of ours. */
	if (n < 0 || h.vers == RR_VERSION)
		cr_assert_eq(n >= 0, theirs, "%d", n);
	if (n >= 0) {
		cr_assert_eq((uint32_t)n, xdr_getpos(&x));
		cr_assert_eq(rr_header_encode(&h, again, sizeof(again)), n);
		cr_assert_arr_eq(again, twice_wire, (size_t)n);
		cr_assert_eq(rr_header_size(&h), (size_t)n);
	}
	taken[theirs]++;
	xdr_free((xdrproc_t)(void (*)(void))xdr_rdma_msg, (char *)&m);
	free(copy);
}

Test(header_twice, random_ones)
{
	unsigned taken[2] = { 0 };

	twice_seed(2);
	for (unsigned i = 0; i < TWICE_ROUNDS; i++)
		same_header(twice_damage(some_header(), 0), taken);
	cr_assert(taken[0] > TWICE_ROUNDS / 20 && taken[1] > TWICE_ROUNDS / 20, "%u, %u", taken[0], taken[1]);
}
