/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program's memory (base/lent.h), on a connection that others use, too: it ends no connection, if its device has taken it
 * away, or if the program changes it while it is sent and received; and nothing else lands there.
 */
#include "test_iwarp.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "base/lent.h"

enum { LEN = 1 << 18 };

static struct lent lent;
static struct errbuf eb;
static uint8_t theirs[LEN];

static int play_add(void *ctx, unsigned i, void *mem, size_t len, int dmabuf, struct errbuf *why)
{
	return 0;
}

static bool play_remove(void *ctx, unsigned i)
{
	return true;
}

static int64_t play_spare(void *ctx)
{
	return INT64_MAX;
}

static const struct lent_ops ops = { play_add, play_remove, play_spare };

/* A memfd's memory cannot go. So another one comes to its place, and that is too short. What it has is what
 * the processor copies from the first stage; the rest the kernel finds. */
static char *lost_memory(void)
{
	int good = memfd_create("good", MFD_CLOEXEC | MFD_ALLOW_SEALING), bad = memfd_create("bad", MFD_CLOEXEC);
	char *at;

	cr_assert_eq(ftruncate(good, LEN), 0);
	cr_assert_eq(fcntl(good, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	at = lent_at(&lent, (unsigned)lent_add(&lent, good, LEN, &eb));
	cr_assert_eq(ftruncate(bad, LEN / 2), 0);
	cr_assert_eq(mmap(at, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, bad, 0), at);
	return at;
}

static struct pair *begin(void)
{
	struct pair *p = pair_up();

	cr_assert_eq(lent_init(&lent, &ops, NULL), 0);
	say_hello(p);
	memset(theirs, 0xee, LEN);
	return p;
}

static void end(struct pair *p, const char *at)
{
	cr_expect(lent_is_lost(&lent, at));
	cr_expect_eq(p->a.of[EV_DOWN] + p->b.of[EV_DOWN], 0, "%s%s", p->a.why, p->b.why);
	pair_free(p);
	lent_fini(&lent);
}

Test(iwarp_lent, the_peer_writes_into_it)
{
	struct pair *p = begin();
	char *at = lost_memory();
	struct fab_mr mr;

	cr_assert_eq(FAB->reg(p->a.c, at, LEN, FAB_REMOTE_WRITE, &mr, &eb), 0);
	cr_assert_eq(FAB->post_write(p->b.c, &(struct fab_sge){ .mem = theirs, .len = LEN }, 1, mr.rkey, mr.addr, NULL), 0);
	send_text(p->b.c, "done", NULL);
	RUN_UNTIL(p->loop, p->a.of[EV_RECV] == 1 || p->a.of[EV_DOWN]);
	end(p, at);
}

Test(iwarp_lent, the_peer_reads_from_it)
{
	struct pair *p = begin();
	char *at = lost_memory();
	struct fab_mr mr, to;

	cr_assert_eq(FAB->reg(p->a.c, at, LEN, FAB_REMOTE_READ, &mr, &eb), 0);
	cr_assert_eq(FAB->reg(p->b.c, theirs, LEN, 0, &to, &eb), 0);
	cr_assert_eq(FAB->post_read(p->b.c, &(struct fab_sge){ .mem = theirs, .len = LEN, .lkey = to.lkey }, mr.rkey,
				    mr.addr, NULL), 0);
	RUN_UNTIL(p->loop, p->b.of[EV_READ] == 1 || p->a.of[EV_DOWN]);
	for (unsigned i = 0; i < LEN; i++)
		cr_assert_eq(theirs[i], 0);
	end(p, at);
}

/* ---- the program changes it, and looks at it ---- */

static int good;

static uint8_t *good_memory(void)
{
	good = memfd_create("good", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(ftruncate(good, LEN), 0);
	cr_assert_eq(fcntl(good, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return (uint8_t *)lent_at(&lent, (unsigned)lent_add(&lent, good, LEN, &eb));
}

static struct pair *begin_with_crc(void)
{
	struct pair *p = pair_new();

	p->pa.flags = FAB_CRC;
	p->sockbuf = 4096;
	pair_connect(p);
	cr_assert_eq(lent_init(&lent, &ops, NULL), 0);
	say_hello(p);
	return p;
}

static void end_well(struct pair *p)
{
	cr_expect_eq(p->a.of[EV_DOWN] + p->b.of[EV_DOWN], 0, "%s%s", p->a.why, p->b.why);
	pair_free(p);
	lent_fini(&lent);
}

/* Where the next payload goes is guessed, and a wrong guess puts something else there for a moment. */
Test(iwarp_lent, what_comes_for_others_is_not_placed_there)
{
	struct pair *p = begin();
	uint8_t *at = good_memory();
	struct fab_mr mr;

	memset(at, 0x55, 4096);
	cr_assert_eq(FAB->reg(p->a.c, at, 4096, FAB_REMOTE_WRITE, &mr, &eb), 0);
	send_text(p->b.c, "a reply to somebody else", NULL);
	RUN_UNTIL(p->loop, p->a.of[EV_RECV] == 1);
	for (unsigned i = 0; i < 4096; i++)
		cr_assert_eq(at[i], 0x55, "byte %u", i);
	end_well(p);
}

Test(iwarp_lent, changed_between_the_crc_and_the_socket)
{
	struct pair *p = begin_with_crc();
	uint8_t *at = good_memory();
	struct fab_mr mr, to;

	cr_assert_eq(FAB->reg(p->a.c, at, LEN, FAB_REMOTE_READ, &mr, &eb), 0);
	cr_assert_eq(FAB->reg(p->b.c, theirs, LEN, 0, &to, &eb), 0);
	cr_assert_eq(FAB->post_read(p->b.c, &(struct fab_sge){ .mem = theirs, .len = LEN, .lkey = to.lkey }, mr.rkey,
				    mr.addr, NULL), 0);
	RUN_UNTIL(p->loop, p->a.c->tx.blocked);
	memset(at, 0xff, LEN);
	RUN_UNTIL(p->loop, p->b.of[EV_READ] == 1 || p->a.of[EV_DOWN] || p->b.of[EV_DOWN]);
	end_well(p);
}

/* The program: another process, as it is one. */
static pid_t changes(void)
{
	pid_t child = fork();

	if (!child) {
		volatile uint8_t *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, good, 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0;; i++)
			at[i % LEN]++;
	}
	cr_assert_gt(child, 0);
	return child;
}

Test(iwarp_lent, changed_while_it_is_received)
{
	enum { TIMES = NRECV };
	struct pair *p = begin_with_crc();
	uint8_t *at = good_memory();
	struct fab_mr mr;
	pid_t child;

	cr_assert_eq(FAB->reg(p->a.c, at, LEN, FAB_REMOTE_WRITE, &mr, &eb), 0);
	child = changes();
	for (unsigned i = 1; i <= TIMES && !p->a.of[EV_DOWN]; i++) {
		cr_assert_eq(FAB->post_write(p->b.c, &(struct fab_sge){ .mem = theirs, .len = LEN }, 1, mr.rkey, mr.addr, NULL), 0);
		send_text(p->b.c, "done", NULL);
		RUN_UNTIL(p->loop, p->a.of[EV_RECV] == i || p->a.of[EV_DOWN]);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	end_well(p);
}
