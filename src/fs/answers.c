/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fs/answers.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include "base/log.h"

void answer_failed(int err)
{
	if (err != -ENOENT)
		log_err("cannot answer FUSE: %s", strerror(-err));
}

/* All slots together become free, so that a slot is found without a search. */
static void free_slot(struct answers *a)
{
	if (--a->busy == 0)
		a->used = 0;
}

/* May be called inside a flush: puts back, and starts nothing. Whoever waits for such a buffer
 * hears of it by a message (base/arena.h). */
static void on_done(struct loop_op *op, int res)
{
	struct answer *s = container_of(op, struct answer, op);
	struct answers *a = s->of;

	if (res < 0)
		answer_failed(res);
	if (s->buf)
		magazine_put(a->mag, s->buf);
	s->buf = NULL;
	free_slot(a);
}

void answers_init(struct answers *a, struct magazine *mag, int fd)
{
	*a = (struct answers){ .mag = mag, .fd = fd, .ended = !loop_queues(mag->loop) };
	for (unsigned i = 0; i < ANSWERS; i++) {
		a->v[i].of = a;
		a->v[i].op.done = on_done;
	}
}

void answers_flush(struct answers *a)
{
	if (a->busy)
		loop_flush(a->mag->loop);
}

void answers_end(struct answers *a)
{
	answers_flush(a);
	a->ended = true;
}

static bool lies_in(const struct iovec *v, const struct arena_buf *b)
{
	uintptr_t at = (uintptr_t)v->iov_base - (uintptr_t)b->mem;

	return at < b->size && v->iov_len <= b->size - at;
}

/* Copies what comes before the data. NULL: it is too long. */
static struct answer *fill(struct answers *a, const struct iovec *iov, int count)
{
	struct answer *s = &a->v[a->used];
	size_t n = 0;

	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len > sizeof(s->bytes) - n)
			return NULL;
		memcpy(s->bytes + n, iov[i].iov_base, iov[i].iov_len);
		n += iov[i].iov_len;
	}
	s->iov[0] = (struct iovec){ s->bytes, n };
	return s;
}

static bool take(struct answers *a, const struct iovec *iov, int count, struct arena_buf **lend)
{
	bool data = lend && *lend && count > 1 && iov[count - 1].iov_len <= ANSWER_DATA &&
		    lies_in(&iov[count - 1], *lend);
	struct answer *s;

	/* What a file holds is not copied to memory that a core dump shows. */
	if (lend && count > 1 && !data)
		return false;
	if (a->used == ANSWERS)
		answers_flush(a);
	if (a->used == ANSWERS)
		return false;
	s = fill(a, iov, data ? count - 1 : count);
	if (!s)
		return false;
	if (data)
		s->iov[1] = iov[count - 1];
	/* First, because others may be done while this one is queued. */
	a->used++;
	a->busy++;
	if (!loop_writev(a->mag->loop, &s->op, a->fd, s->iov, data ? 2 : 1)) {
		free_slot(a);
		return false;
	}
	if (data) {
		s->buf = *lend;
		*lend = NULL;
	}
	return true;
}

bool answers_take(struct answers *a, const struct iovec *iov, int count, struct arena_buf **lend)
{
	if (!a->ended && take(a, iov, count, lend))
		return true;
	answers_flush(a);
	return false;
}
