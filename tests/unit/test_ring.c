/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs ask of rings: data, entries that are wrong, tokens. Their life: test_ring_life.c. */
#include "rings_play.h"

/* ---- data ---- */

Test(ring, reads_into_the_programs_memory_and_writes_from_it)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDWR);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 100, 5000)), 5000);
	cr_assert_eq(memcmp(p.mem, disk + 100, 5000), 0);
	memset(p.mem + PAGE, 'w', 3000);
	cr_assert_eq(result_of(&p, (struct ring_sqe){ .op = RING_WRITE, .memory = (uint16_t)p.memory, .file = file,
						     .offset = 777, .at = PAGE, .len = 3000 }), 3000);
	cr_assert(disk[777] == 'w' && disk[3776] == 'w' && disk[3777] != 'w');
	/* The end of the file, behind which nothing is asked for. */
	asked = 0;
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, SIZE - 10, 100)), 10);
	cr_assert_eq(asked, 1);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, SIZE + 10, 100)), 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_RING_READS), 3);
	cr_assert_eq(stat_get(&lane.stats, STAT_RING_WRITTEN_BYTES), 3000);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* rsize and wsize are short here, and the server writes less than it was asked to. */
Test(ring, does_what_is_longer_than_a_call_in_pieces)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	vfs.cl->rsize = 16384;
	vfs.cl->wsize = 12000;
	writes_most = 10000;
	begin(&p);
	file = attach(&p, f, O_RDWR);
	asked = 0;
	post(&p, entry(&p, RING_READ, file, 0, 50000));
	for (unsigned i = 0; i < 10 && !is_done(&p); i++) {
		serve();
		lane_play_run(2);
	}
	cr_assert_eq(done(&p).result, 50000);
	cr_assert_eq(memcmp(p.mem, disk, 50000), 0);
	cr_assert_eq(asked, 4, "of rsize each");
	memset(p.mem, 'x', 50000);
	post(&p, entry(&p, RING_WRITE, file, 5, 50000));
	for (unsigned i = 0; i < 20 && !is_done(&p); i++) {
		serve();
		lane_play_run(2);
	}
	cr_assert_eq(done(&p).result, 50000);
	cr_assert_eq(memcmp(p.mem, disk + 5, 50000), 0);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

Test(ring, the_servers_error_is_the_entrys)
{
	struct file *f = open_file();
	struct program p;

	begin(&p);
	fails = -EACCES;
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, attach(&p, f, O_RDONLY), 0, 10)), -EACCES);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

static struct vfs_op *written;          /* the front end drops what is older */
static void (*dropped)(struct vfs_op *op);

static void on_written_past(struct vfs_op *op, void (*then)(struct vfs_op *op))
{
	written = op;
	dropped = then;
}

/* A WRITE that the front end has to hear of ends, and not before that has dropped what it has. */
static int64_t result_when_dropped(struct program *p, struct ring_sqe e)
{
	post(p, e);
	serve();
	lane_play_run(2);
	cr_assert(written && written->data.start == e.offset && !is_done(p));
	dropped(written);
	written = NULL;
	lane_play_run(2);
	return done(p).result;
}

Test(ring, a_write_is_done_when_no_older_bytes_are_believed)
{
	const struct vfs_front *before = vfs.front;
	struct vfs_front front = *before;
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	front.written_past = on_written_past;
	vfs.front = &front;
	begin(&p);
	file = attach(&p, f, O_RDWR);
	cr_assert_eq(result_when_dropped(&p, entry(&p, RING_WRITE, file, 300, 10)), 10);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, file, 300, 10)), 10);
	/* The server may have executed it all the same. */
	fails = -EIO;
	cr_assert_eq(result_when_dropped(&p, entry(&p, RING_WRITE, file, 300, 10)), -EIO);
	vfs.front = before;
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* A program goes away. Its WRITE is waited for while the server may execute it, and not while the front end drops what
 * is older: the kernel may have to write another page of the file before it can drop that. */
static void leaves(bool before_the_reply)
{
	const struct vfs_front *before = vfs.front;
	struct vfs_front front = *before;
	struct file *f = open_file();
	struct program p;

	front.written_past = on_written_past;
	vfs.front = &front;
	begin(&p);
	post(&p, entry(&p, RING_WRITE, attach(&p, f, O_RDWR), 300, 10));
	if (before_the_reply) {
		hang_up(&p);
		lane_play_run(5);
		cr_assert_eq(f->ino->held, 1);
	}
	serve();
	lane_play_run(2);
	cr_assert(written);
	if (!before_the_reply) {
		hang_up(&p);
		lane_play_run(5);
	}
	cr_assert_eq(f->ino->held, 0);
	dropped(written);
	written = NULL;
	cr_assert_eq(f->ino->held, 0);
	vfs.front = before;
	file_put(vl, f);
	run_until(&closed, 1);
}

Test(ring, a_write_that_is_given_up_is_waited_for_until_its_reply)
{
	leaves(true);
}

Test(ring, a_write_that_is_given_up_behind_its_reply_is_not_waited_for)
{
	leaves(false);
}

/* ---- entries that are wrong ---- */

Test(ring, refuses_what_an_entry_may_not_ask)
{
	struct file *f = open_file();
	struct program p;
	uint32_t r, w;
	struct ring_sqe e;

	begin(&p);
	r = attach(&p, f, O_RDONLY);
	w = attach(&p, f, O_WRONLY);
	cr_assert_eq(result_of(&p, entry(&p, RING_WRITE, r, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, w, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, 5, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, RING_FILES, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, UINT32_MAX, 0, 10)), -EBADF);
	cr_assert_eq(result_of(&p, entry(&p, 0, r, 0, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, 3, r, 0, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, 0, 0)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, 0, RING_IO_MAX + 1)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, INT64_MAX, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, UINT64_MAX, 10)), -EINVAL);
	cr_assert_eq(result_of(&p, entry(&p, RING_READ, r, 0, BYTES + 1)), -EFAULT);
	e = entry(&p, RING_READ, r, 0, 10);
	e.at = BYTES - 9;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.at = UINT64_MAX - 5;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.at = 0;
	e.memory = 1;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.memory = UINT16_MAX;
	cr_assert_eq(result_of(&p, e), -EFAULT);
	e.memory = (uint16_t)p.memory;
	e.zero3[2] = 1;
	cr_assert_eq(result_of(&p, e), -EINVAL);
	e.zero3[2] = 0;
	cr_assert_eq(result_of(&p, e), 10);
	cr_assert_eq(nsent, 0);
	file_put(vl, f);
	hang_up(&p);
	run_until(&closed, 1);
}

/* Another program goes on. */
Test(ring, a_ring_with_impossible_counts_ends)
{
	struct program p, other;
	struct file *f = open_file();
	uint32_t file;
	char byte;

	begin(&p);
	begin(&other);
	file = attach(&other, f, O_RDONLY);
	atomic_store(&p.ring->sq_tail.count, ENTRIES + 1);
	send(p.bell, "", 1, MSG_NOSIGNAL);
	run_until_readable(p.sock);
	cr_assert_eq(recv(p.sock, &byte, 1, 0), 0, "the socket is closed");
	run_until(&lent_now, 1);
	cr_assert_eq(result_of(&other, entry(&other, RING_READ, file, 0, 10)), 10);
	file_put(vl, f);
	hang_up(&p);
	hang_up(&other);
	run_until(&closed, 1);
}

/* ---- tokens ---- */

Test(ring, a_token_is_good_once_and_for_its_user)
{
	struct file *f = open_file();
	struct ring_request q;
	struct ring_token t;
	struct program p;

	begin(&p);
	q = token_for(&p, f, O_RDONLY);
	cr_assert_eq(ask(&p, q, -1, NULL), 0);
	cr_assert_eq(ask(&p, q, -1, NULL), -EBADF);
	q.token[3] ^= 1;
	cr_assert_eq(ask(&p, q, -1, NULL), -EBADF);
	cr_assert_eq(rings_token(rings, vl, f, O_RDONLY, geteuid() + 1, &t), 0);
	memcpy(q.token, t.token, sizeof(q.token));
	cr_assert_eq(ask(&p, q, -1, NULL), -EPERM);
	q = token_for(&p, f, O_RDONLY);
	q.ring = 1;
	cr_assert_eq(ask(&p, q, -1, NULL), -EINVAL);
	rings_closed(rings, f);
	file_put(vl, f);
	run_until(&closed, 1);
	hang_up(&p);
}

Test(ring, a_file_that_the_kernel_has_closed_is_none_of_the_rings)
{
	struct file *f = open_file();
	struct ring_request late;
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	late = token_for(&p, f, O_RDONLY);
	/* One is under way: it has its answer. */
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(nsent, 1);
	rings_closed(rings, f);
	file_put(vl, f);
	lane_play_run(2);
	cr_assert_eq(closed, 0, "a call uses it");
	cr_assert_eq(ask(&p, late, -1, NULL), -EBADF);
	post(&p, entry(&p, RING_READ, file, 0, 10));
	cr_assert_eq(done(&p).result, -EBADF);
	serve();
	lane_play_run(2);
	cr_assert_eq(done(&p).result, 10);
	run_until(&closed, 1);
	hang_up(&p);
}

Test(ring, detaches)
{
	struct file *f = open_file();
	struct program p;
	uint32_t file;

	begin(&p);
	file = attach(&p, f, O_RDONLY);
	file_put(vl, f);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = file }, -1, NULL), 0);
	cr_assert_eq(closed, 1);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = file }, -1, NULL), -EBADF);
	cr_assert_eq(ask(&p, (struct ring_request){ .what = RING_DETACH, .ring = p.number, .value = UINT64_MAX }, -1, NULL), -EBADF);
	hang_up(&p);
}
