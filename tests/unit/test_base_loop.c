/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The event loop: order, removal inside callbacks, wake-ups, spinning. Files:
 * test_base_loop_files.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "loop_play.h"

/* ---- Timers ---- */

static int order[16], norder;

struct numbered {
	struct loop_timer t;
	int number;
};

static void numbered_fn(struct loop_timer *t)
{
	order[norder++] = container_of(t, struct numbered, t)->number;
}

Test(loop, timers_fire_in_order)
{
	static const unsigned delay[] = { 30, 10, 20, 0, 10, 40 };
	static const int want[] = { 3, 1, 4, 2, 0 };
	struct numbered n[6];
	uint64_t start = mono_ns();

	for (int i = 0; i < 6; i++) {
		n[i].number = i;
		loop_timer_init(&n[i].t, numbered_fn);
		loop_timer_set(loop, &n[i].t, delay[i]);
	}
	loop_timer_clear(&n[5].t);
	loop_timer_clear(&n[5].t);
	run_for(60);
	cr_assert_eq(norder, 5);
	cr_assert_arr_eq(order, want, sizeof(want));
	cr_assert_geq(mono_ns() - start, 60000000u);
}

static unsigned repeated;

static void repeat_fn(struct loop_timer *t)
{
	if (++repeated < 1000)
		loop_timer_set(loop, t, 0);
	else
		loop_stop(loop);
}

/* A timer without delay that sets itself again does not starve the others. */
static void zero_delay_msg(struct loop_msg *m)
{
	cr_assert_lt(repeated, 1000);
	order[norder++] = 1;
}

static void zero_delay_first(struct loop_timer *t)
{
	static struct loop_msg m = { .fn = zero_delay_msg };

	loop_post(loop, &m);
	t->fn = repeat_fn;
	repeat_fn(t);
}

Test(loop, timer_sets_itself_again)
{
	struct loop_timer t;

	loop_timer_init(&t, zero_delay_first);
	loop_timer_set(loop, &t, 0);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(repeated, 1000);
	cr_assert_eq(norder, 1);
}

static struct loop_timer pair[2];

static void clear_other(struct loop_timer *t)
{
	order[norder++] = 1;
	loop_timer_clear(t == &pair[0] ? &pair[1] : &pair[0]);
}

Test(loop, timer_clears_one_that_is_due_too)
{
	for (int i = 0; i < 2; i++) {
		loop_timer_init(&pair[i], clear_other);
		loop_timer_set(loop, &pair[i], 0);
	}
	run_for(10);
	cr_assert_eq(norder, 1);
}

Test(loop, timer_outlives_loop)
{
	struct loop_timer t;

	loop_timer_init(&t, numbered_fn);
	loop_timer_set(loop, &t, 10000);
	loop_free(loop);
	loop_timer_clear(&t);
	loop = loop_new(NULL);
}

/* ---- Watches ---- */

struct pipe_watch {
	struct loop_watch w;
	int other;
	unsigned calls;
	uint32_t last;
};

static struct pipe_watch *new_watch(void (*fn)(struct loop_watch *w, uint32_t revents))
{
	struct pipe_watch *p = calloc(1, sizeof(*p));
	int fd[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	p->w.fd = fd[0];
	p->w.events = EPOLLIN;
	p->w.fn = fn;
	p->other = fd[1];
	return p;
}

static void poke(struct pipe_watch *p)
{
	cr_assert_eq(write(p->other, "x", 1), 1);
}

static void count_fn(struct loop_watch *w, uint32_t revents)
{
	struct pipe_watch *p = container_of(w, struct pipe_watch, w);
	char c;

	p->calls++;
	p->last = revents;
	if (read(w->fd, &c, 1) == 0)
		loop_unwatch(loop, w);
}

Test(loop, watch_is_called)
{
	struct pipe_watch *p = new_watch(count_fn);

	cr_assert_eq(loop_watch(loop, &p->w), 0);
	poke(p);
	poke(p);
	run_for(10);
	cr_assert_eq(p->calls, 2);
	cr_assert_eq(p->last, EPOLLIN);
	loop_unwatch(loop, &p->w);
	cr_assert_eq(p->w.fd, -1);
	loop_unwatch(loop, &p->w);
	poke(p);
	run_for(10);
	cr_assert_eq(p->calls, 2);
	free(p);
}

Test(loop, parked_watch_is_silent_even_on_hangup)
{
	struct pipe_watch *p = new_watch(count_fn);

	cr_assert_eq(loop_watch(loop, &p->w), 0);
	cr_assert_eq(loop_rewatch(loop, &p->w, 0), 0);
	poke(p);
	close(p->other);
	run_for(10);
	cr_assert_eq(p->calls, 0);
	cr_assert_eq(loop_rewatch(loop, &p->w, EPOLLIN), 0);
	run_for(10);
	cr_assert_eq(p->calls, 2);      /* the byte, and the end */
	cr_assert_eq(p->w.fd, -1);
	free(p);
}

Test(loop, watch_of_a_bad_file)
{
	struct loop_watch w = { .fd = -1, .events = EPOLLIN, .fn = count_fn };

	cr_assert_eq(loop_watch(loop, &w), -EBADF);
	cr_assert_eq(loop_rewatch(loop, &w, EPOLLOUT), -EBADF);
	w.fd = 1000;
	cr_assert_eq(loop_watch(loop, &w), -EBADF);
}

#define CROWD 40

static struct pipe_watch *crowd[CROWD];
static struct pipe_watch *survivor;
static unsigned crowd_calls;

/* The first that is called frees all others: none of them may be called, and
 * with AddressSanitizer none may be touched. */
static void free_others(struct loop_watch *w, uint32_t revents)
{
	crowd_calls++;
	for (int i = 0; i < CROWD; i++) {
		int fd = crowd[i]->w.fd;

		if (&crowd[i]->w == w)
			continue;
		loop_unwatch(loop, &crowd[i]->w);
		close(fd);
		close(crowd[i]->other);
		free(crowd[i]);
	}
	survivor = container_of(w, struct pipe_watch, w);
	loop_unwatch(loop, w);
	loop_stop(loop);
}

Test(loop, removed_watch_is_not_called_in_the_same_round)
{
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = new_watch(free_others);
		cr_assert_eq(loop_watch(loop, &crowd[i]->w), 0);
		poke(crowd[i]);
	}
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(crowd_calls, 1);
	free(survivor);
}

/* Parks the others: their fetched events must not arrive, but come back when
 * the watch does. */
static void park_others(struct loop_watch *w, uint32_t revents)
{
	crowd_calls++;
	for (int i = 0; i < CROWD; i++)
		cr_assert_eq(loop_rewatch(loop, &crowd[i]->w, 0), 0);
}

Test(loop, parked_watch_is_not_called_in_the_same_round)
{
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = new_watch(park_others);
		cr_assert_eq(loop_watch(loop, &crowd[i]->w), 0);
		poke(crowd[i]);
	}
	run_for(10);
	cr_assert_eq(crowd_calls, 1);
	for (int i = 0; i < CROWD; i++) {
		crowd[i]->w.fn = count_fn;
		cr_assert_eq(loop_rewatch(loop, &crowd[i]->w, EPOLLIN), 0);
	}
	run_for(10);
	for (int i = 0; i < CROWD; i++)
		cr_assert_eq(crowd[i]->calls, 1);
	for (int i = 0; i < CROWD; i++)
		free(crowd[i]);
}

/* ---- Mailbox ---- */

#define SENDERS  4
#define MESSAGES 20000

struct sender_msg {
	struct loop_msg m;
	unsigned sender, number;
};

static struct sender_msg msgs[SENDERS][MESSAGES];
static unsigned next_number[SENDERS], received;
static unsigned plain_counter;  /* TSan: what the sender wrote before is visible */

static void sender_msg_fn(struct loop_msg *m)
{
	struct sender_msg *s = container_of(m, struct sender_msg, m);

	cr_assert_eq(s->number, next_number[s->sender]);
	next_number[s->sender]++;
	memset(s, 0xee, sizeof(*s));    /* it is ours now */
	if (++received == SENDERS * MESSAGES)
		loop_stop(loop);
}

static void *sender(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < MESSAGES; i++) {
		struct sender_msg *s = &msgs[me][i];

		s->m.fn = sender_msg_fn;
		s->sender = me;
		s->number = i;
		loop_post(loop, &s->m);
		/* Lets the loop fall asleep now and then: the wake-up is what
		 * could be lost. */
		if (i % 512 == 0)
			usleep(1500);
	}
	return NULL;
}

Test(loop, mailbox_many_senders)
{
	pthread_t th[SENDERS];

	for (uintptr_t i = 0; i < SENDERS; i++)
		cr_assert_eq(pthread_create(&th[i], NULL, sender, (void *)i), 0);
	cr_assert_eq(loop_run(loop), 0);
	for (int i = 0; i < SENDERS; i++)
		pthread_join(th[i], NULL);
	cr_assert_eq(received, SENDERS * MESSAGES);
	for (int i = 0; i < SENDERS; i++)
		cr_assert_eq(next_number[i], MESSAGES);
}

/* A loop that sleeps is woken by every single message: ping-pong of two. */
struct player {
	struct loop *l;
	struct player *other;
	struct loop_msg ball;
	unsigned hits;
};

#define RALLY 20000

static void ball_fn(struct loop_msg *m)
{
	struct player *p = container_of(m, struct player, ball);

	plain_counter++;
	p->hits++;
	loop_post(p->other->l, &p->other->ball);
	if (p->hits == RALLY)
		loop_stop(p->l);
}

static void *play(void *arg)
{
	struct player *p = arg;

	return (void *)(intptr_t)loop_run(p->l);
}

Test(loop, mailbox_ping_pong)
{
	struct player p[2] = {
		{ .l = loop_new(NULL), .other = &p[1], .ball.fn = ball_fn },
		{ .l = loop_new(NULL), .other = &p[0], .ball.fn = ball_fn },
	};
	pthread_t th[2];

	loop_post(p[0].l, &p[0].ball);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&th[i], NULL, play, &p[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	cr_assert_eq(p[0].hits, RALLY);
	cr_assert_eq(p[1].hits, RALLY);
	cr_assert_eq(plain_counter, 2 * RALLY);
	for (int i = 0; i < 2; i++)
		loop_free(p[i].l);
}

static void stop_msg(struct loop_msg *m)
{
	(void)m;
	loop_stop(loop);
}

static void post_from_timer(struct loop_timer *t)
{
	static struct loop_msg m = { .fn = stop_msg };

	(void)t;
	loop_post(loop, &m);
}

/* A message that comes between the look into the mailbox and the sleep. */
Test(loop, mailbox_is_looked_into_before_sleep)
{
	struct loop_timer t;

	loop_timer_init(&t, post_from_timer);
	loop_timer_set(loop, &t, 0);
	run_awake();
}

/* Many threads wake a loop from all depths of its sleep: each posts one message when its last
 * one has come, so a wake-up that is lost stops that thread for ever. While a file
 * is ready now and then, too. */
struct waker {
	struct loop_msg m;
	pthread_mutex_t mu;
	pthread_cond_t came;
	bool here;
	unsigned number;
};

#define WAKERS 8
#define WAKES  4000

static unsigned woken;

static void woken_fn(struct loop_msg *m)
{
	struct waker *w = container_of(m, struct waker, m);

	woken++;
	pthread_mutex_lock(&w->mu);
	w->here = true;
	pthread_cond_signal(&w->came);
	pthread_mutex_unlock(&w->mu);
}

static void *waker(void *arg)
{
	struct waker *w = arg;
	unsigned x = w->number * 7919 + 1;

	for (unsigned i = 0; i < WAKES; i++) {
		w->here = false;
		loop_post(loop, &w->m);
		pthread_mutex_lock(&w->mu);
		while (!w->here)
			pthread_cond_wait(&w->came, &w->mu);
		pthread_mutex_unlock(&w->mu);
		x = x * 1103515245 + 12345;
		/* Around the end of a ring's short waits, or much longer, or not at all. */
		if (x >> 16 & 1)
			usleep((x >> 17 & 255) + (x >> 25 & 1) * 200);
		else if ((x >> 16 & 63) == 2)
			usleep(2000);
	}
	return NULL;
}

static void *wake_all(void *arg)
{
	static struct waker w[WAKERS];
	pthread_t th[WAKERS];

	for (unsigned i = 0; i < WAKERS; i++) {
		w[i] = (struct waker){ .m.fn = woken_fn, .number = i };
		pthread_mutex_init(&w[i].mu, NULL);
		pthread_cond_init(&w[i].came, NULL);
		cr_assert_eq(pthread_create(&th[i], NULL, waker, &w[i]), 0);
	}
	for (int i = 0; i < WAKERS; i++)
		pthread_join(th[i], NULL);
	loop_stop(loop);
	return arg;
}

Test(loop, no_wake_up_is_lost)
{
	pthread_t th;

	cr_assert_eq(pthread_create(&th, NULL, wake_all, NULL), 0);
	cr_assert_eq(loop_run(loop), 0);
	pthread_join(th, NULL);
	cr_assert_eq(woken, WAKERS * WAKES);
}

static struct loop_msg chain[3];

static void chain_fn(struct loop_msg *m)
{
	order[norder++] = (int)(m - chain);
	if (m == &chain[0])
		loop_post(loop, &chain[2]);
	if (m == &chain[2])
		loop_stop(loop);
}

Test(loop, mailbox_post_from_callback)
{
	static const int want[] = { 0, 1, 2 };

	for (int i = 0; i < 3; i++)
		chain[i].fn = chain_fn;
	loop_post(loop, &chain[0]);
	loop_post(loop, &chain[1]);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(norder, 3);
	cr_assert_arr_eq(order, want, sizeof(want));
}

/* ---- Stop ---- */

static void on_alarm(int sig)
{
	loop_stop(loop);
}

Test(loop, stop_from_signal_handler)
{
	struct itimerval it = { .it_value.tv_usec = 20000 };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &it, NULL);
	cr_assert_eq(loop_run(loop), 0);
}

static void *stop_later(void *arg)
{
	usleep(20000);
	loop_stop(loop);
	return NULL;
}

Test(loop, stop_from_thread)
{
	pthread_t th;

	pthread_create(&th, NULL, stop_later, NULL);
	cr_assert_eq(loop_run(loop), 0);
	pthread_join(th, NULL);
}

Test(loop, stop_before_run_is_kept_once)
{
	uint64_t start;

	loop_stop(loop);
	cr_assert_eq(loop_run(loop), 0);
	start = mono_ns();
	run_for(20);
	cr_assert_geq(mono_ns() - start, 20000000u);
}
