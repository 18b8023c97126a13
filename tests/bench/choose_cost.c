/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * choose_cost POLICY LINKS CALLS
 *
 * Lets a requester with so many links choose one for each of so many calls. tests/bench/choose
 * counts the instructions. The links are as in use: each has a few calls in flight and its own
 * latency, and one in eight is full.
 */
#include <stdio.h>
#include <stdlib.h>
#include "nfs/paths.h"
#include "rpcrdma/impl.h"

int main(int argc, char **argv)
{
	static struct rr_conn conn;
	static struct rr_link links[RR_PATHS_MAX];
	struct rr_call call = { .reply_max = 100 };
	unsigned n, used = 0;
	enum rr_policy policy;
	long calls;

	if (argc != 4 || !nfs_policy_named(argv[1], &policy)) {
		fputs("usage: choose_cost POLICY LINKS CALLS\n", stderr);
		return 2;
	}
	n = (unsigned)atoi(argv[2]);
	calls = atol(argv[3]);
	list_init(&conn.links);
	rr_set_policy(&conn, policy);
	for (unsigned i = 0; i < n && i < RR_PATHS_MAX; i++) {
		links[i].conn = &conn;
		rr_set_grant(&links[i], 64);
		links[i].ninflight = i == 5 ? 64 : (i * 7) % 5;
		links[i].latency_ns = 1000 * ((i * 3) % 8 + 1);
		list_add_tail(&conn.links, &links[i].node);
	}
	rr_sort_links(&conn);
	for (long i = 0; i < calls; i++) {
		/* The loop, and what the compiler cannot foresee. */
		__asm__ volatile("" : : "r"(&call) : "memory");
		used += rr_choose(&conn, &call) != NULL;
	}
	printf("%u\n", used);
	return used != calls;
}
