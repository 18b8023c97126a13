/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The last calls that lanes keep (nfs/kept.h). */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/internal.h"

static struct nfs_client cl;
static struct nfs_call call;
static const struct nfs_opdef op_read = { .name = "READ" };
static const struct nfs_version version = { .ops = { [NFS_OP_READ] = &op_read } };
static const struct nfs_fh fh = { .len = 9, .data = "123456789" };
static struct nfs_kept_call got[4 * NFS_KEPT];

static void setup(void)
{
	cl.nlanes = 2;
	cl.lanes = calloc(2, sizeof(*cl.lanes));
	cl.server.version = &version;
	for (unsigned i = 0; i < 2; i++)
		cl.lanes[i] = (struct nfs_lane){ .client = &cl, .index = i };
}

static void teardown(void)
{
	free(cl.lanes);
}

TestSuite(nfs_kept, .init = setup, .fini = teardown, .timeout = 60);

/* A READ of that lane that began at 1000, was sent 50 later, and has ended. */
static void ended(unsigned lane, uint32_t xid, unsigned sends, int result, uint64_t end_ns)
{
	call.lane = &cl.lanes[lane];
	call.args.fh = &fh;
	call.eng.start_ns = 1000;
	call.eng.counted_ns = 1010;
	call.eng.counted = &call.lane->counted[NFS_OP_READ];
	call.eng.rr.posted_ns = 1050;
	call.eng.rr.xid = xid;
	call.eng.rr.sends = sends;
	call.eng.rr.timeouts = 2;
	call.eng.rr.path = 3;
	call.eng.rr.msg_len = 100;
	call.eng.rr.reply_len = 80;
	call.eng.rr.placed_len = 4096;
	nfs_kept_add(&call, result, end_ns);
}

Test(nfs_kept, what_is_kept)
{
	ended(1, 0xabc, 2, -EIO, 1500);
	cr_assert_eq(nfs_kept_calls(&cl, got, 10), 1);
	cr_assert_eq(got[0].xid, 0xabc);
	cr_assert_eq(got[0].lane, 1);
	cr_assert_eq(got[0].path, 3);
	cr_assert_eq(got[0].fh, 0xcbf43926, "the CRC that everybody knows: %08x", got[0].fh);
	cr_assert_eq(got[0].queue_ns, 40);
	cr_assert_eq(got[0].rtt_ns, 450);
	cr_assert_eq(got[0].all_ns, 500);
	cr_assert_eq(got[0].tx_bytes, 100);
	cr_assert_eq(got[0].rx_bytes, 4176);
	cr_assert_eq(got[0].sends, 2);
	cr_assert_eq(got[0].timeouts, 2);
	cr_assert_eq(got[0].result, -EIO);
	cr_assert_str_eq(nfs_kept_name(&cl, &got[0]), "READ");
	cr_assert_str_eq(nfs_kept_result(got[0].result), strerror(EIO));
	cr_assert_str_eq(nfs_kept_result(NFS_NEXT), "OK");
}

/* What was sent another way has no bytes and no XID of ours, whatever is left of an earlier call. */
Test(nfs_kept, not_sent)
{
	ended(0, 7, 0, 0, 1500);
	cr_assert_eq(nfs_kept_calls(&cl, got, 10), 1);
	cr_assert_eq(got[0].xid, 0);
	cr_assert_eq(got[0].tx_bytes, 0);
	cr_assert_eq(got[0].queue_ns, 490);
	cr_assert_eq(got[0].rtt_ns, 0);
}

Test(nfs_kept, the_newest_in_their_order)
{
	cr_assert_eq(nfs_kept_calls(&cl, got, 10), 0);
	for (unsigned i = 0; i < NFS_KEPT + 44; i++)
		ended(0, i, 1, 0, 2000 + 2 * i);
	ended(1, 9999, 1, 0, 2000 + 2 * 100 + 1);
	cr_assert_eq(nfs_kept_calls(&cl, got, 4 * NFS_KEPT), NFS_KEPT + 1);
	cr_assert_eq(got[0].xid, 44, "%u", got[0].xid);
	cr_assert_eq(got[57].xid, 9999, "%u", got[57].xid);
	cr_assert_eq(got[NFS_KEPT].xid, NFS_KEPT + 43);
	cr_assert_eq(nfs_kept_calls(&cl, got, 5), 5);
	cr_assert_eq(got[0].xid, NFS_KEPT + 39, "the newest ones: %u", got[0].xid);
}

Test(nfs_kept, bound)
{
	nfs_kept_change(&cl, 5);
	cr_assert_eq(nfs_kept_from_ns(&cl), 5);
	cr_assert_eq(atomic_load(&cl.lanes[1].kept_from_ns), 5);
}

/* What runs, the longest first; the server has answered one, which waits for something else. */
Test(nfs_kept, what_runs)
{
	static struct nfs_target target = { .server = &cl.server };
	struct nfs_call c[3] = { 0 };
	struct nfs_running_call r[3];

	list_init(&cl.lanes[1].running);
	cr_assert_eq(nfs_kept_running(&cl.lanes[1], 5000, r, 3), 0);
	for (unsigned i = 0; i < 3; i++) {
		c[i].op = NFS_OP_READ;
		c[i].target = &target;
		c[i].eng.start_ns = 1000 + 100 * i;
		c[i].eng.rr.xid = 0xabc;
		c[i].eng.rr.posted_ns = 1500;
		c[i].eng.rr.sends = 3;
		c[i].eng.rr.state = i < 2 ? RR_CALL_INFLIGHT : RR_CALL_IDLE;
		c[i].args.fh = &fh;
		list_add_tail(&cl.lanes[1].running, &c[i].eng.run_node);
	}
	cr_assert_eq(nfs_kept_running(&cl.lanes[1], 5000, r, 2), 2, "no more than there is room for");
	cr_assert_eq(nfs_kept_running(&cl.lanes[1], 5000, r, 3), 3);
	cr_assert(r[0].all_ns == 4000 && r[0].rtt_ns == 3500 && r[0].xid == 0xabc && r[0].sends == 3 && r[0].lane == 1);
	cr_assert_str_eq(r[0].name, "READ");
	cr_assert_eq(r[0].fh, 0xcbf43926);
	cr_assert(r[2].all_ns == 3800 && !r[2].rtt_ns && !r[2].xid && !r[2].sends);
}

static _Atomic bool stop;

static void *write_on(void *arg)
{
	for (uint32_t i = 1; !atomic_load(&stop); i++)
		ended(0, i, 1, (int)i, i);
	return arg;
}

/* Who reads meanwhile gets whole records only. */
Test(nfs_kept, read_while_it_is_written)
{
	pthread_t t;
	unsigned n, all = 0;

	atomic_store(&stop, false);
	cr_assert_eq(pthread_create(&t, NULL, write_on, NULL), 0);
	for (unsigned round = 0; round < 2000; round++) {
		n = nfs_kept_calls(&cl, got, NFS_KEPT);
		all += n;
		for (unsigned i = 0; i < n; i++)
			cr_assert(got[i].xid == (uint32_t)got[i].end_ns && got[i].result == (int)got[i].xid,
				  "of two calls: %u %ju %d", got[i].xid, (uintmax_t)got[i].end_ns, got[i].result);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	cr_assert_gt(all, 0);
}

static _Atomic unsigned reports;

static void count_reports(enum log_level level, const char *text)
{
	reports += strstr(text, "had no answer in time") != NULL;
}

/* Once a minute for the mount, however many lanes it has, and however far behind a lane's clock is. */
Test(nfs_kept, said_once_a_minute)
{
	const uint64_t minute = 60000000000ull;

	for (unsigned i = 0; i < 2; i++)
		list_init(&cl.lanes[i].running);
	log_to(count_reports);
	nfs_kept_say(&cl.lanes[0], 5 * minute);
	nfs_kept_say(&cl.lanes[1], 5 * minute + 1);
	nfs_kept_say(&cl.lanes[1], 5 * minute - 1);
	cr_assert_eq(reports, 1);
	nfs_kept_say(&cl.lanes[1], 6 * minute);
	nfs_kept_say(&cl.lanes[0], 6 * minute);
	cr_assert_eq(reports, 2);
}
