/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory and rings that come and go, what a user may have, and the end of programs. */
#include "rings_play.h"

/* ---- memory ---- */

/* Of the only program; what is the lane's is this thread's. */
static struct ring *only_ring(void)
{
	return container_of(rings->clients.next, struct client, node)->ring[0];
}

Test(ring, memory_that_could_go_away_is_refused)
{
	struct program p;
	int fd;

	dial(&p);
	fd = make_memfd(BYTES, false);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), -EPERM);
	cr_assert_eq(ask_ring(&p, ENTRIES, fd), -EPERM);
	close(fd);
	fd = make_memfd(PAGE, true);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = 2 * PAGE }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = 100 }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = 0 }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = UINT64_MAX & ~4095ull }, fd, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = PAGE }, -1, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_MEMORY, .value = PAGE }, p.sock, NULL), -EINVAL);
	cr_assert_eq(ask_ring(&p, 7, fd), -EINVAL);
	cr_assert_eq(ask_ring(&p, 1, fd), -EINVAL);
	cr_assert_eq(ask_ring(&p, 2 * RING_ENTRIES_MAX, fd), -EINVAL);
	cr_assert_eq(ask_ring(&p, RING_ENTRIES_MAX, fd), -EINVAL);
	close(fd);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = 99 }, -1, NULL), -EINVAL);
	cr_assert_eq(ask(&p, (struct ring_request){ .version = 9, .what = RING_MEMORY }, -1, NULL), -EPROTONOSUPPORT);
	cr_assert_eq(lent_now, 0);
	hang_up(&p);
}

Test(ring, memory_is_given_back_when_nothing_uses_it)
{
	struct ring_request forget = { .version = RING_VERSION, .what = RING_FORGET };
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert(sock_send_with(p.sock, &forget, sizeof(forget), -1, 0));
	for (unsigned i = 0; i < 5000 && only_ring()->memory[p.memory].at; i++)
		lane_play_run(1);
	cr_assert_not(readable(p.sock));
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(done(&p).result, -EFAULT, "no further one uses it");
	serve();
	run_until_readable(p.sock);
	cr_assert_eq(lent_now, 0);
	lane_play_run(2);               /* the program may hear of that first */
	cr_assert_eq(done(&p).result, 10);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* The device of a dma-buf has taken its memory away: what was read is nowhere. */
Test(ring, memory_that_is_lost)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 0, 10)), 10);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	atomic_store(&vfs.cl->arena.lent.lost[0], true);
	serve();
	lane_play_run(2);
	cr_assert_eq(done(&p).result, -EFAULT);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(nsent, 0, "it is not asked for");
	cr_assert_eq(done(&p).result, -EFAULT);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

static int ask_close(struct program *p)
{
	return ask(p, (struct ring_request){ .what = RING_CLOSE, .ring = p->number }, -1, NULL);
}

/* The program is not kept waiting; the memory is the server's until it has answered. */
Test(ring, a_closed_ring_may_use_memory_until_that_is_given_back)
{
	struct ring_request forget = { .version = RING_VERSION, .what = RING_FORGET };
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDWR);
	file_put(vl, f);
	post(&p, entry(&p, RING_WRITE, file, 0, 10));
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(ask_close(&p), 0);
	cr_assert_eq(ask_close(&p), -EINVAL, "it is no ring any more");
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = file }, -1, NULL), -EINVAL);
	forget.value = p.memory;
	cr_assert(sock_send_with(p.sock, &forget, sizeof(forget), -1, 0));
	for (unsigned i = 0; i < 30; i++)
		lane_play_run(1);
	cr_assert_not(readable(p.sock));
	cr_assert_eq(lent_now, 1, "the server may still reach it");
	while (nsent)
		lane_play_reply(sent[--nsent].xid);
	run_until_readable(p.sock);
	cr_assert_eq(lent_now, 0);
	run_until(&closed, 1);
	hang_up(&p);
}

/* Far more of them, one after the other, than a user may have at a time. */
Test(ring, a_closed_ring_makes_room_for_another)
{
	struct file *f = open_file();
	struct program p;

	begin(&p);
	for (unsigned i = 0; i < 3 * RING_RINGS; i++) {
		uint32_t file = attach(&p, f, O_RDONLY);

		cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 0, 10)), 10, "%u", i);
		cr_assert_eq(ask_close(&p), 0);
		close(p.bell);
		munmap(p.ring, PAGE);
		p.fetched = 0;
		open_ring(&p);
	}
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* ---- limits ---- */

Test(ring, a_user_has_so_much_and_no_more)
{
	struct program p, q;
	int fd = make_memfd(BYTES, true);

	begin(&p);
	dial(&q);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(ask(&q, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), 0);
	cr_assert_eq(ask(&q, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), -EDQUOT);
	for (unsigned i = 0; i < 7; i++) {
		cr_assert_eq(ask_ring(&q, ENTRIES, fd), 0);
		close(q.bell);
	}
	cr_assert_eq(ask_ring(&q, ENTRIES, fd), -EDQUOT);
	q.bell = -1;
	hang_up(&p);
	run_until(&lent_now, 3);
	cr_assert_eq(ask(&q, (struct ring_request){ .what = RING_MEMORY, .value = BYTES }, fd, NULL), 0);
	close(fd);
	hang_up(&q);
	run_until(&lent_now, 0);
}

/* Small ones, too: there are only so many for all users. */
Test(ring, a_user_has_so_many_pieces_and_leaves_some)
{
	const struct ring_request small = { .what = RING_MEMORY, .value = PAGE };
	struct program p[LENT_PIECES / RING_MEMORIES];
	unsigned n = 0, most = LENT_PIECES / 4 * 3;
	int fd = make_memfd(PAGE, true);

	for (unsigned i = 0; i < LENT_PIECES / RING_MEMORIES; i++) {
		dial(&p[i]);
		for (unsigned k = 0; k < RING_MEMORIES && n < most; k++, n++)
			cr_assert_eq(ask(&p[i], small, fd, NULL), 0, "%u: %s", n, p[i].answer.why);
	}
	cr_assert_eq(n, most);
	cr_assert_eq(ask(&p[3], small, fd, NULL), -EDQUOT);
	cr_assert_not_null(strstr(p[3].answer.why, "192 pieces"), "%s", p[3].answer.why);
	cr_assert_eq(lent_now, most);
	hang_up(&p[0]);
	run_until(&lent_now, most - RING_MEMORIES);
	cr_assert_eq(ask(&p[3], small, fd, NULL), 0);
	close(fd);
	for (unsigned i = 1; i < LENT_PIECES / RING_MEMORIES; i++)
		hang_up(&p[i]);
	run_until(&lent_now, 0);
}

static void start_few(void)
{
	start_with(&(struct rings_config){ .most_rings = 8, .most_bytes = BYTES, .most_files = 8 });
}

TestSuite(ring_files, .init = start_few, .fini = end, .timeout = 60);

/* His connection is one of them. */
static void can_have(unsigned n)
{
	int fd = make_memfd(BYTES, true);
	struct program p, q;
	char byte;

	dial(&p);
	for (unsigned i = 1; i < n; i++) {
		cr_assert_eq(ask_ring(&p, ENTRIES, fd), 0, "%s", p.answer.why);
		close(p.bell);
	}
	cr_assert_eq(ask_ring(&p, ENTRIES, fd), -EDQUOT);
	cr_assert_not_null(strstr(p.answer.why, "8 connections and rings, a user 6: raise the daemon's hard RLIMIT_NOFILE"),
			   "%s", p.answer.why);
	dial(&q);
	run_until_readable(q.sock);
	cr_assert_leq(recv(q.sock, &byte, 1, 0), 0);
	close(q.sock);
	p.bell = -1;
	close(fd);
	hang_up(&p);
}

Test(ring_files, of_what_the_plan_leaves_a_user_leaves_some)
{
	can_have(6);
}

Test(ring_files, what_the_plan_leaves_is_for_all_users)
{
	struct user *u;

	pthread_mutex_lock(&rings->mu);
	u = user_get(rings, geteuid() + 1);
	u->rings = 3;
	u->clients = 2;
	pthread_mutex_unlock(&rings->mu);
	can_have(3);
	pthread_mutex_lock(&rings->mu);
	u->rings = u->clients = 0;
	user_put(rings, u);
	pthread_mutex_unlock(&rings->mu);
}

/* Of the program that has come last. */
static struct ring *last_ring(void)
{
	return container_of(rings->clients.prev, struct client, node)->ring[0];
}

static unsigned count(const struct list *l)
{
	unsigned n = 0;

	for (const struct list *at = l->next; at != l; at = at->next)
		n++;
	return n;
}

/* The oldest of those that the server has. */
static void serve_one(void)
{
	uint32_t xid = sent[0].xid;

	memmove(sent, sent + 1, --nsent * sizeof(sent[0]));
	lane_play_reply(xid);
	lane_play_run(2);
}

/* The lane turns for none of them, and takes one for each that ends. */
Test(ring, entries_above_what_may_be_under_way_stay_in_the_ring)
{
	struct file *f = open_file();
	struct ring *ring;
	struct list others;
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	ring = only_ring();
	list_init(&others);
	while (count(&ring->free) > 2)
		list_add_tail(&others, list_pop(&ring->free));
	for (unsigned i = 0; i < 5; i++)
		post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(nsent, 2);
	cr_assert_eq(atomic_load(&p.ring->sq_head.count), 2);
	cr_assert_not(ring->poller.fn(&ring->poller, true), "the lane sleeps");
	for (unsigned i = 0; i < 5; i++) {
		serve_one();
		cr_assert_eq(done(&p).result, 10);
		cr_assert_eq(atomic_load(&p.ring->sq_head.count), i < 3 ? 3 + i : 5);
	}
	cr_assert_eq(ring->nbusy + vl->ring_entries, 0);
	list_splice_tail(&ring->free, &others);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* The rings of a lane have all that it may have: one that has its share waits until an entry of another ends. */
Test(ring, entries_above_what_a_lane_may_have_stay_in_the_ring)
{
	struct file *f = open_file();
	struct program p, q;
	uint32_t file, its;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	begin(&q);
	its = attach(&q, f, O_RDONLY);
	vl->ring_entries += LANE_BUSY_MOST - 1;
	last_ring()->nbusy += RING_BUSY_SURE - 1;
	post(&p, entry(&p, RING_READ, file, 0, 10));
	post(&q, entry(&q, RING_READ, its, 0, 10));
	cr_assert_eq(nsent, 2, "its share it has in any case");
	post(&q, entry(&q, RING_READ, its, 0, 10));
	cr_assert_eq(nsent, 2);
	cr_assert_not(last_ring()->poller.fn(&last_ring()->poller, true), "the lane sleeps");
	serve_one();
	cr_assert(is_done(&p) && !is_done(&q));
	cr_assert_eq(nsent, 1, "one too many, still");
	vl->ring_entries--;
	cr_assert(last_ring()->poller.fn(&last_ring()->poller, true), "the lane looks again");
	lane_play_run(1);
	cr_assert_eq(nsent, 2);
	vl->ring_entries -= LANE_BUSY_MOST - 2;
	last_ring()->nbusy -= RING_BUSY_SURE - 1;
	serve_one();
	serve_one();
	cr_assert(done(&q).result == 10 && done(&q).result == 10);
	file_put(vl, f);
	hang_up(&p);
	hang_up(&q);
	run_until(&closed, 1);
}

/* However many it can name. */
Test(ring, of_a_long_ring_so_many_are_under_way)
{
	size_t len = (ring_bytes(4 * RING_BUSY_MOST) + PAGE - 1) / PAGE * PAGE;
	int fd = make_memfd(len, true);
	struct program p;

	dial(&p);
	cr_assert_eq(ask_ring(&p, 4 * RING_BUSY_MOST, fd), 0, "%s", p.answer.why);
	cr_assert_eq(count(&only_ring()->free), RING_BUSY_MOST);
	close(fd);
	hang_up(&p);
}

/* ---- the end ---- */

Test(ring, a_program_that_dies_gives_all_back_when_the_server_has_answered)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDWR);
	file_put(vl, f);
	for (unsigned i = 0; i < 4; i++)
		post(&p, entry(&p, i % 2 ? RING_READ : RING_WRITE, file, i * 100, 50));
	cr_assert_eq(nsent, 4);
	hang_up(&p);
	for (unsigned i = 0; i < 30; i++)
		lane_play_run(1);
	cr_assert_eq(lent_now, 1, "the server may still reach it");
	cr_assert_eq(closed, 0);
	serve();
	run_until(&lent_now, 0);
	run_until(&closed, 1);
}

Test(ring, of_a_program_that_has_died_no_further_piece_is_asked_for)
{
	struct file *f = open_file();
	struct program p;

	vfs.cl->wsize = 16384;
	begin(&p);
	post(&p, entry(&p, RING_WRITE, attach(&p, f, O_RDWR), 0, 50000));
	file_put(vl, f);
	hang_up(&p);
	for (unsigned i = 0; i < 5000 && !only_ring()->ending; i++)
		lane_play_run(1);
	serve();
	run_until(&lent_now, 0);
	run_until(&closed, 1);
	cr_assert_eq(asked, 1);
}

/* It waits for what is under way, which it hears nothing of any more. */
Test(ring, a_program_that_dies_while_it_gives_memory_back_is_given_up)
{
	struct ring_request forget = { .version = RING_VERSION, .what = RING_FORGET };
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	vfs.cl->wsize = 16384;
	begin(&p);
	file = attach(&p, f, O_RDWR);
	file_put(vl, f);
	post(&p, entry(&p, RING_WRITE, file, 0, 50000));
	forget.value = p.memory;
	cr_assert(sock_send_with(p.sock, &forget, sizeof(forget), -1, 0));
	for (unsigned i = 0; i < 5000 && only_ring()->memory[p.memory].at; i++)
		lane_play_run(1);
	hang_up(&p);
	for (unsigned i = 0; i < 5000 && !only_ring()->ending; i++)
		lane_play_run(1);
	cr_assert(only_ring()->ending);
	cr_assert_eq(lent_now, 1, "the server may still reach it");
	serve();
	run_until(&lent_now, 0);
	run_until(&closed, 1);
	cr_assert_eq(asked, 1, "no further piece of it is sent");
}

/* The lane sleeps, although what the program has filled is never taken. */
Test(ring, a_ring_that_ends_does_not_keep_the_lane_awake)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	file_put(vl, f);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	close(p.sock);
	for (unsigned i = 0; i < 5000 && !only_ring()->ending; i++)
		lane_play_run(1);
	atomic_store(&p.ring->sq_tail.count, 2);
	cr_assert_not(only_ring()->poller.fn(&only_ring()->poller, true));
	serve();
	run_until(&closed, 1);
	p.sock = -1;
	hang_up(&p);
}

/* A timer may end an operation after the lane has looked at its rings. */
Test(ring, what_is_done_when_the_lane_wants_to_sleep_is_told_before)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	serve();
	cr_assert_not(is_done(&p));
	cr_assert(only_ring()->poller.fn(&only_ring()->poller, true), "the lane sleeps");
	cr_assert(only_ring()->poller.fn(&only_ring()->poller, false));
	cr_assert(is_done(&p));
	cr_assert_eq(done(&p).result, 10);
	file_put(vl, f);
	hang_up(&p);
}

/* A program that waits fills nothing: the lane need not look again. One that is awake may. */
Test(ring, the_lane_looks_again_only_for_a_program_that_is_awake)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	for (unsigned flags = 0; flags <= RING_SLEEPS; flags++) {
		atomic_store(&p.ring->cq_head.wanted, p.fetched + 1);
		atomic_store(&p.ring->cq_head.flags, flags);
		p.ring->sq[flags] = entry(&p, RING_READ, file, 0, 10);
		atomic_store(&p.ring->sq_tail.count, flags + 1);
		cr_assert_eq(only_ring()->poller.fn(&only_ring()->poller, false), !flags);
		cr_assert_eq(atomic_load(&p.ring->sq_head.count), flags + 1, "the entry is taken");
		lane_play_run(1);
		serve();
		lane_play_run(2);
		cr_assert_eq(done(&p).result, 10);
	}
	file_put(vl, f);
	hang_up(&p);
}

Test(ring, a_device_that_does_not_let_go_is_asked_again)
{
	struct program p;

	begin(&p);
	lent_stays = true;
	hang_up(&p);
	for (unsigned i = 0; i < 200; i++)
		lane_play_run(1);
	cr_assert_eq(lent_now, 1);
	lent_stays = false;
	run_until(&lent_now, 0);
}

static unsigned open_numbers(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void wait_for_numbers(unsigned n)
{
	for (unsigned i = 0; i < 5000 && open_numbers() != n; i++)
		usleep(1000);
	cr_assert_eq(open_numbers(), n);
}

/* Before the lane has heard of its ring. */
Test(ring, a_program_that_dies_while_it_asks_for_a_ring)
{
	struct ring_request q = { .version = RING_VERSION, .what = RING_OPEN, .value = ENTRIES };
	unsigned before = open_numbers();
	int fd = make_memfd(PAGE, true);
	struct program p;

	dial(&p);
	cr_assert(sock_send_with(p.sock, &q, sizeof(q), fd, 0));
	close(fd);
	/* Both ends of its connection, and of the bell. */
	wait_for_numbers(before + 4);
	close(p.sock);
	wait_for_numbers(before + 1);
	for (unsigned i = 0; i < 5000 && open_numbers() != before; i++)
		lane_play_run(1);
	cr_assert_eq(open_numbers(), before);
}

/* One descriptor comes with a request. What else a program sends stays with it. */
Test(ring, descriptors_that_nobody_has_asked_for)
{
	struct ring_request q = { .version = RING_VERSION, .what = 99 };
	union { struct cmsghdr h; char room[CMSG_SPACE(4 * sizeof(int))]; } c = { .h.cmsg_len = 0 };
	struct iovec iov = { &q, sizeof(q) };
	struct program p;
	unsigned before;

	begin(&p);
	before = open_numbers();
	for (unsigned i = 0; i < 12; i++) {
		unsigned n = 1 + i % 4;
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = CMSG_SPACE(n * sizeof(int)) };

		c.h = (struct cmsghdr){ CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memset(CMSG_DATA(&c.h), 0, n * sizeof(int));    /* standard input */
		cr_assert_eq(sendmsg(p.sock, &m, MSG_NOSIGNAL), sizeof(q));
		run_until_readable(p.sock);
		cr_assert_eq(recv(p.sock, &p.answer, sizeof(p.answer), 0), sizeof(p.answer));
		cr_assert_neq(p.answer.status, 0);
	}
	cr_assert_eq(open_numbers(), before);
	hang_up(&p);
}

Test(ring, nothing_is_left_of_many_that_come_and_go)
{
	struct file *f = open_file();

	for (unsigned i = 0; i < 200; i++) {
		struct program p;
		uint32_t file = 0;

		begin(&p);
		if (i % 3)
			file = attach(&p, f, O_RDONLY);
		if (i % 3 == 2)
			post(&p, entry(&p, RING_READ, file, 0, 10));
		hang_up(&p);
		if (i % 2)
			serve();
	}
	serve();
	rings_closed(rings, f);
	file_put(vl, f);
	run_until(&lent_now, 0);
	run_until(&closed, 1);
}
