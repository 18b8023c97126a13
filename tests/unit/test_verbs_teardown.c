/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of verbs connections, with a device and a connection manager that the test plays. It
 * notes what is destroyed, in which order, and on which thread. The test's thread is the lane. A
 * queue pair takes as long to destroy as the test wants.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fabric/verbs.h"

#define WINDOWS 2u
#define CONNS   4u

TestSuite(verbs_teardown, .timeout = 60);

/* ---- what is noted ---- */

static struct object {
	void *mem;
	unsigned destroyed;
} objects[64];
static struct note {
	char what;
	const void *object;
	bool on_lane;
} notes[64];
static unsigned nobjects, nnotes;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_t lane;
static bool slow;                       /* a queue pair waits for the gate */
static sem_t gate;
static bool no_threads;
static unsigned threads, attached;

/* Stays until the end of the test, so that what is destroyed twice is seen and does no harm. */
static void *made(size_t size)
{
	void *mem = calloc(1, size);

	pthread_mutex_lock(&mu);
	objects[nobjects++].mem = mem;
	pthread_mutex_unlock(&mu);
	return mem;
}

static void note(char what, const void *object)
{
	pthread_mutex_lock(&mu);
	notes[nnotes++] = (struct note){ what, object, pthread_equal(pthread_self(), lane) };
	pthread_mutex_unlock(&mu);
}

static void destroyed(char what, const void *object)
{
	note(what, object);
	pthread_mutex_lock(&mu);
	for (unsigned i = 0; i < nobjects; i++)
		objects[i].destroyed += objects[i].mem == object;
	pthread_mutex_unlock(&mu);
}

/* What was noted on the lane, or elsewhere, as letters. */
static const char *noted(bool on_lane)
{
	static char text[2][sizeof(notes) / sizeof(notes[0]) + 1];
	size_t n = 0;

	pthread_mutex_lock(&mu);
	for (unsigned i = 0; i < nnotes; i++)
		if (notes[i].on_lane == on_lane)
			text[on_lane][n++] = notes[i].what;
	pthread_mutex_unlock(&mu);
	text[on_lane][n] = '\0';
	return text[on_lane];
}

static unsigned count(char what)
{
	unsigned n = 0;

	pthread_mutex_lock(&mu);
	for (unsigned i = 0; i < nnotes; i++)
		n += notes[i].what == what;
	pthread_mutex_unlock(&mu);
	return n;
}

/* Each object was destroyed once. Each test ends with this. */
static void all_gone(void)
{
	for (unsigned i = 0; i < nobjects; i++) {
		cr_assert_eq(objects[i].destroyed, 1, "object %u of %u: %u times", i, nobjects,
			     objects[i].destroyed);
		free(objects[i].mem);
	}
	cr_assert_eq(attached, 0, "nobody joins these threads");
}

/* ---- the device and the connection manager ---- */

/* Declares what takes the place of a library's function. */
#define PLAYED(type, name, ...) \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

PLAYED(int, ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	note(mask == IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR ? 'e' : '?', qp);
	return 0;
}

PLAYED(int, rdma_disconnect, struct rdma_cm_id *id)
{
	note('d', id);
	return 0;
}

PLAYED(void, rdma_destroy_qp, struct rdma_cm_id *id)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += 10;
	if (slow)
		sem_timedwait(&gate, &ts);
	destroyed('Q', id->qp);
	id->qp = NULL;
}

PLAYED(void, ibv_ack_cq_events, struct ibv_cq *cq, unsigned n)
{
	note(n == 3 ? 'a' : '?', cq);
}

PLAYED(int, ibv_destroy_cq, struct ibv_cq *cq)
{
	destroyed('C', cq);
	return 0;
}

PLAYED(int, ibv_destroy_comp_channel, struct ibv_comp_channel *comp)
{
	destroyed('H', comp);
	return 0;
}

PLAYED(int, rdma_destroy_id, struct rdma_cm_id *id)
{
	destroyed('I', id);
	return 0;
}

PLAYED(void, rdma_destroy_event_channel, struct rdma_event_channel *chan)
{
	destroyed('E', chan);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = made(sizeof(*mw));

	mw->context = pd->context;
	mw->type = type;
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	destroyed('w', mw);
	return 0;
}

static struct ibv_device device = { .name = "played0" };
static struct ibv_context context = { .device = &device, .ops = { .alloc_mw = alloc_mw, .dealloc_mw = dealloc_mw } };

PLAYED(struct ibv_pd *, ibv_alloc_pd, struct ibv_context *verbs)
{
	struct ibv_pd *pd = made(sizeof(*pd));

	pd->context = verbs;
	return pd;
}

PLAYED(int, ibv_dealloc_pd, struct ibv_pd *pd)
{
	destroyed('P', pd);
	return 0;
}

/* ibv_reg_mr() is a macro. It calls the function of that name if the compiler sees that no access
 * is asked for that older kernels do not know, and the other one if it does not see that. */
PLAYED(struct ibv_mr *, ibv_reg_mr, struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = made(sizeof(*mr));

	(void)access;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = len;
	return mr;
}

PLAYED(struct ibv_mr *, ibv_reg_mr_iova2, struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
       unsigned access)
{
	(void)iova;
	return __wrap_ibv_reg_mr(pd, addr, len, (int)access);
}

static struct {                         /* what was asked for last */
	uint64_t offset, iova;
	size_t len;
	int fd, access;
} dmabuf;
static int dmabuf_error;

/* As libibverbs has it, addr is the offset. */
PLAYED(struct ibv_mr *, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
       int access)
{
	dmabuf.offset = offset;
	dmabuf.iova = iova;
	dmabuf.len = len;
	dmabuf.fd = fd;
	dmabuf.access = access;
	errno = dmabuf_error;
	return dmabuf_error ? NULL : __wrap_ibv_reg_mr(pd, (void *)(uintptr_t)offset, len, access);
}

static unsigned busy_mrs;               /* so often a registration cannot be ended */

PLAYED(int, ibv_dereg_mr, struct ibv_mr *mr)
{
	if (busy_mrs) {
		busy_mrs--;
		return EBUSY;
	}
	destroyed('m', mr);
	return 0;
}

int __real_pthread_create(pthread_t *tid, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

PLAYED(int, pthread_create, pthread_t *tid, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	if (no_threads)
		return EAGAIN;
	threads++;
	attached++;
	return __real_pthread_create(tid, attr, fn, arg);
}

int __real_pthread_detach(pthread_t tid);

PLAYED(int, pthread_detach, pthread_t tid)
{
	attached--;
	return __real_pthread_detach(tid);
}

/* ---- connections ---- */

static char own_memory[64], shared_memory[64];
static const struct fab_piece own_piece = { own_memory, sizeof(own_memory), -1 };

static void begin(void)
{
	lane = pthread_self();
	sem_init(&gate, 0, 0);
}

/* d NULL: it shares nothing with others. */
static struct fab_conn *connection(struct fab_domain *d)
{
	const struct fab_params p = { .domain = d, .max_send = 8, .max_recv = 8, .windows = WINDOWS };
	struct fab_conn *c = verbs_new(&p);
	struct errbuf eb;
	struct fab_mr mr;

	c->chan = made(sizeof(*c->chan));
	c->id = made(sizeof(*c->id));
	c->id->verbs = &context;
	verbs_windows_make(c, verbs_domain_enter(c), WINDOWS);
	cr_assert_eq(c->nwindows, WINDOWS);
	c->comp = made(sizeof(*c->comp));
	c->cq = made(sizeof(*c->cq));
	c->cq_events = 3;
	c->id->qp = made(sizeof(*c->id->qp));
	cr_assert_eq(verbs_sq_init(c, 8), 0);
	cr_assert_eq(verbs_reg(c, own_memory, sizeof(own_memory), 0, &mr, &eb), 0);
	cr_assert_eq(verbs_reg_shared(c, shared_memory, sizeof(shared_memory), 0, &mr, &eb), 0);
	c->connected = true;
	return c;
}

/* Of its own memory, so that a sanitizer sees who uses it after its end. */
static struct fab_domain *domain(void)
{
	struct fab_domain *d = malloc(sizeof(*d));

	fab_domain_init(d);
	return d;
}

static _Atomic bool ended;

static void *end_domain(void *arg)
{
	fab_domain_fini(arg);
	free(arg);
	atomic_store(&ended, true);
	return NULL;
}

static bool has_ended_after(unsigned ms)
{
	for (unsigned i = 0; i < ms && !atomic_load(&ended); i++)
		usleep(1000);
	return atomic_load(&ended);
}

/* So many connections are gone, up to their channel. */
static void await_buried(unsigned n)
{
	for (unsigned i = 0; i < 5000 && count('E') < n; i++)
		usleep(1000);
	cr_assert_eq(count('E'), n);
}

/* ---- the end ---- */

/* Error state and disconnect, windows, memory of its own; later the queue pair, what it needs, the
 * domain with what is shared, and last what librdmacm has. */
Test(verbs_teardown, order, .init = begin)
{
	struct fab_domain *d = domain();

	verbs_close(connection(d));
	end_domain(d);
	cr_assert_str_eq(noted(true), "edwwm");
	cr_assert_str_eq(noted(false), "QaCHmPIE");
	all_gone();
}

Test(verbs_teardown, lane_does_not_wait, .init = begin)
{
	struct fab_domain *d = domain();
	pthread_t tid;

	slow = true;
	for (unsigned i = 0; i < CONNS; i++)
		verbs_close(connection(d));
	cr_assert_eq(threads, CONNS);
	cr_assert_eq(count('Q') + count('C') + count('I'), 0, "they cannot be gone yet");
	/* What is shared stays, and who ends the domain waits for the last one. */
	__real_pthread_create(&tid, NULL, end_domain, d);
	for (unsigned i = 0; i < CONNS - 1; i++)
		sem_post(&gate);
	await_buried(CONNS - 1);
	cr_assert_not(has_ended_after(50), "one is not gone");
	cr_assert_eq(count('P'), 0);
	sem_post(&gate);
	cr_assert(has_ended_after(5000));
	pthread_join(tid, NULL);
	cr_assert_eq(count('P'), 1);
	cr_assert_null(strpbrk(noted(true), "QCHPIE"), "the lane destroyed something: %s", noted(true));
	all_gone();
}

/* A window of a connection that is being buried still refers to a piece of the domain's memory.
 * It is asked for again, and not before that is the memory somebody else's. */
Test(verbs_teardown, a_piece_that_is_in_use, .init = begin)
{
	struct fab_domain *d = domain();
	struct fab_conn *c;
	const struct fab_mr *pieces;
	struct errbuf eb;

	cr_assert_eq(fab_domain_pieces(d, 2), 0);
	c = connection(d);
	cr_assert_eq(verbs_reg_pieces(c, 0, &pieces, &eb), 0);
	cr_assert_eq(fab_domain_add(d, 1, &own_piece, &eb), 0);
	cr_assert(pieces[1].base == own_memory && verbs_mr_of(&pieces[1]));
	busy_mrs = 1;
	cr_assert_not(fab_domain_remove(d, 1));
	cr_assert(fab_domain_remove(d, 1));
	cr_assert_eq(pieces[1].len, 0);
	/* One that is there in the end goes with the device's part. */
	cr_assert_eq(fab_domain_add(d, 0, &own_piece, &eb), 0);
	verbs_close(c);
	end_domain(d);
	all_gone();
}

/* Memory of another device is registered by its descriptor, and named by its address here: as a whole,
 * and a part of it for one call. */
Test(verbs_teardown, a_piece_of_another_device, .init = begin)
{
	const struct fab_piece there = { own_memory, sizeof(own_memory), 7 };
	const struct fab_mr *pieces;
	struct fab_domain *d = domain();
	struct fab_conn *c;
	struct fab_mr mr;
	struct errbuf eb;

	cr_assert_eq(fab_domain_pieces(d, 2), 0);
	c = connection(d);
	cr_assert_eq(verbs_reg_pieces(c, FAB_WINDOWS, &pieces, &eb), 0);
	cr_assert_eq(fab_domain_add(d, 1, &there, &eb), 0);
	cr_assert(dmabuf.fd == 7 && dmabuf.offset == 0 && dmabuf.len == sizeof(own_memory));
	cr_assert_eq(dmabuf.iova, (uintptr_t)own_memory);
	cr_assert_eq(dmabuf.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	cr_assert(pieces[1].base == own_memory && pieces[1].addr == (uintptr_t)own_memory);
	cr_assert_eq(pieces[1].len, sizeof(own_memory));

	cr_assert_eq(verbs_reg_part(c, &pieces[1], own_memory + 16, 8, FAB_REMOTE_WRITE, &mr, &eb), 0);
	cr_assert(dmabuf.fd == 7 && dmabuf.offset == 16 && dmabuf.len == 8);
	cr_assert_eq(dmabuf.iova, (uintptr_t)own_memory + 16);
	cr_assert(mr.base == own_memory + 16 && mr.addr == dmabuf.iova && mr.len == 8);
	verbs_dereg(c, &mr);
	/* Memory of this process is not. */
	dmabuf.fd = -1;
	cr_assert_eq(fab_domain_add(d, 0, &own_piece, &eb), 0);
	cr_assert_eq(verbs_reg_part(c, &pieces[0], own_memory, 8, FAB_REMOTE_WRITE, &mr, &eb), 0);
	cr_assert_eq(dmabuf.fd, -1);

	verbs_close(c);
	end_domain(d);
	all_gone();
}

Test(verbs_teardown, a_device_that_takes_none_of_another, .init = begin)
{
	const struct fab_piece there = { own_memory, sizeof(own_memory), 7 };
	const struct fab_mr *pieces;
	struct fab_domain *d = domain();
	struct fab_conn *c;
	struct errbuf eb;

	cr_assert_eq(fab_domain_pieces(d, 1), 0);
	c = connection(d);
	cr_assert_eq(verbs_reg_pieces(c, 0, &pieces, &eb), 0);
	dmabuf_error = EINVAL;
	cr_assert_eq(fab_domain_add(d, 0, &there, &eb), -EOPNOTSUPP);
	cr_assert_str_eq(eb.text, "RDMA device played0 takes no memory of other devices (dma-buf: Invalid argument); "
			 "use a memfd");
	dmabuf_error = ENOMEM;
	cr_assert_eq(fab_domain_add(d, 0, &there, &eb), -ENOMEM);
	dmabuf_error = 0;
	cr_assert_eq(fab_domain_add(d, 0, &there, &eb), 0);
	verbs_close(c);
	end_domain(d);
	all_gone();
}

/* The same of a registration for one call: it ends with the connection. */
Test(verbs_teardown, a_registration_that_is_in_use, .init = begin)
{
	struct fab_domain *d = domain();
	struct fab_conn *c = connection(d);
	struct fab_mr mr;
	struct errbuf eb;

	cr_assert_eq(verbs_reg(c, own_memory, sizeof(own_memory), 0, &mr, &eb), 0);
	busy_mrs = 1;
	verbs_dereg(c, &mr);
	verbs_close(c);
	end_domain(d);
	all_gone();
}

/* The next connection comes while the last one is buried. */
Test(verbs_teardown, the_domain_lives_on, .init = begin)
{
	struct fab_domain *d = domain();
	struct fab_conn *next;

	slow = true;
	verbs_close(connection(d));
	next = connection(d);
	sem_post(&gate);
	await_buried(1);
	cr_assert_eq(count('P'), 0);
	sem_post(&gate);
	verbs_close(next);
	end_domain(d);
	cr_assert_eq(count('P'), 1);
	all_gone();
}

/* Nobody would wait for a domain that goes with its connection. */
Test(verbs_teardown, without_an_owners_domain, .init = begin)
{
	verbs_close(connection(NULL));
	cr_assert_str_eq(noted(true), "edwwmQaCHmPIE");
	cr_assert_eq(threads, 0);
	all_gone();
}

Test(verbs_teardown, no_thread, .init = begin)
{
	struct fab_domain *d = domain();

	no_threads = true;
	verbs_close(connection(d));
	cr_assert_str_eq(noted(true), "edwwmQaCHmPIE");
	end_domain(d);
	all_gone();
}

/* Its set-up has failed somewhere. */
Test(verbs_teardown, half_a_connection, .init = begin)
{
	struct fab_domain *d = domain();
	const struct fab_params p = { .domain = d };
	struct fab_conn *c[3];

	for (unsigned i = 0; i < 3; i++)
		c[i] = verbs_new(&p);
	/* Nothing; a channel; an identifier with a device, and no queue pair. */
	c[1]->chan = made(sizeof(*c[1]->chan));
	c[2]->chan = made(sizeof(*c[2]->chan));
	c[2]->id = made(sizeof(*c[2]->id));
	c[2]->id->verbs = &context;
	cr_assert(verbs_domain_enter(c[2]));
	for (unsigned i = 0; i < 3; i++)
		verbs_close(c[i]);
	end_domain(d);
	cr_assert_str_eq(noted(true), "");
	cr_assert(count('E') == 2 && count('P') == 1 && count('I') == 1 && nnotes == 4);
	all_gone();
}
