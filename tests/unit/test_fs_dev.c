/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How requests arrive: the provider that reads /dev/fuse (fuse/dev_clone.c), with a socket in
 * place of the device.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "buffers.h"
#include "fs_play.h"

static struct fs_file *file;
static int kernel;                      /* its end of the socket */

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };
	static const struct nfs_attr attr = { .mode = S_IFREG | 0644, .size = 1 << 30 };

	fs_play_start(&nfs_v3, &root, &attr);
	file = fs_play_file();
	kernel = fs_play_attach();
}

static void teardown(void)
{
	fs_play_detach();
	fs_play_end();
	free(file);
}

TestSuite(fs_dev, .init = setup, .fini = teardown, .timeout = 300);

/* The byte at that place of what is written here. */
static char byte_at(uint32_t i)
{
	return (char)(i * 7 + i / 251);
}

static void feed(uint32_t opcode, const void *body, size_t len, uint32_t data)
{
	static char msg[1 << 18];
	struct fuse_in_header h = fs_play_header(opcode, FUSE_ROOT_ID, len + data);

	cr_assert_leq(h.len, sizeof(msg));
	memcpy(msg, &h, sizeof(h));
	memcpy(msg + sizeof(h), body, len);
	for (uint32_t i = 0; i < data; i++)
		msg[sizeof(h) + len + i] = byte_at(i);
	cr_assert_eq(send(kernel, msg, h.len, 0), (ssize_t)h.len);
}

static void feed_write(uint32_t size)
{
	struct fuse_write_in in = { .fh = file->handle, .size = size };

	feed(FUSE_WRITE, &in, sizeof(in), size);
}

static bool is_data_buffer(uint64_t addr, uint32_t len)
{
	uintptr_t base = (uintptr_t)fs.vfs.cl->arena.data.base;

	return addr >= base && addr + len <= base + fs.vfs.cl->arena.data.len;
}

/* Checks that a WRITE's Read chunk has those bytes, in buffers that the server may read. */
static void expect_written(unsigned send, uint32_t size)
{
	bool two = size > ARENA_MID_SIZE;
	uint32_t first = sent_word(send, 7), second = two ? sent_word(send, 13) : 0;
	uint64_t at = sent_address(send, 8), at2 = two ? sent_address(send, 14) : 0;

	cr_assert_eq(first, two ? ARENA_MID_SIZE : size);
	cr_assert_eq(first + second, size);
	cr_assert(is_data_buffer(at, first) && (!two || is_data_buffer(at2, second)));
	for (uint32_t i = 0; i < size; i++) {
		const char *piece = (const char *)(uintptr_t)(i < first ? at : at2);

		cr_assert_eq(piece[i < first ? i : i - first], byte_at(i), "byte %u of %u", i, size);
	}
}

/* A WRITE's data stays in the buffers that it was read into. */
Test(fs_dev, data_is_not_copied)
{
	static const uint32_t sizes[] = { 4096, 5001, 65535, 65536, 65537, 77777, 200000 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		feed_write(sizes[i]);
		for (unsigned n = 0; n < 1000 && fake.nsends == i; n++)
			lane_play_run(1);
		cr_assert_eq(fake.nsends, i + 1, "one RPC");
		expect_written(i, sizes[i]);
		answer.count = 0;
		reply_write3(i, sizes[i]);
		cr_assert(answer.count == 1 && answer.error == 0);
	}
	cr_assert_eq(stat_get(&lane.stats, STAT_WRITE_COPIED_BYTES), 0);
}

/* Waits for n sendings, and answers the last `now` of them. */
static void serve_writes(unsigned n, unsigned now)
{
	for (unsigned i = 0; i < 1000 && fake.nsends < n; i++)
		lane_play_run(1);
	cr_assert_eq(fake.nsends, n);
	while (now)
		reply_write3(n - now--, 4096);
}

/* One at a time: only the first reads find nothing, until it is clear that this is so. */
Test(fs_dev, as_many_reads_as_requests)
{
	uint64_t empty, before = stat_get(&lane.stats, STAT_FUSE_REQUESTS);

	for (unsigned i = 0; i < 50; i++) {
		feed_write(4096);
		serve_writes(i + 1, 1);
	}
	empty = stat_get(&lane.stats, STAT_FUSE_EMPTY_READS);
	cr_assert(empty > 0 && empty <= 4, "%u of 50", (unsigned)empty);
	cr_assert_eq(stat_get(&lane.stats, STAT_FUSE_REQUESTS) - before, 50);
}

/* The groups in /proc are not read: the opener's credential counts. */
Test(fs_dev, whose_rights)
{
	unsigned said = 0;

	file->f.cred.uid = 4711;
	feed_write(4096);
	serve_writes(1, 1);
	for (unsigned i = 0; i < FS_CRED_CACHE; i++)
		cr_assert_eq(fl->creds[i].until_ns, 0);
	for (unsigned i = 0; i < 40; i++)
		said += sent_word(0, i) == 4711;
	cr_assert_eq(said, 1, "the opener's uid");
}

/* Many at once show that it is worth while to look for more. */
Test(fs_dev, bursts)
{
	static const struct fuse_forget_in forget = { .nlookup = 1 };
	uint64_t seen = stat_get(&lane.stats, STAT_FUSE_FORGETS), empty;

	for (unsigned i = 0; i < 20; i++) {
		feed_write(4096);
		serve_writes(i + 1, 1);
	}
	for (unsigned i = 0; i < 40; i++)
		feed(FUSE_FORGET, &forget, sizeof(forget), 0);
	for (unsigned i = 0; i < 1000 && stat_get(&lane.stats, STAT_FUSE_FORGETS) - seen < 40; i++)
		lane_play_run(1);
	empty = stat_get(&lane.stats, STAT_FUSE_EMPTY_READS);
	for (unsigned i = 20; i < 23; i++) {
		feed_write(4096);
		serve_writes(i + 1, 1);
	}
	cr_assert_eq(stat_get(&lane.stats, STAT_FUSE_EMPTY_READS) - empty, 3);
}

/* ---- requests that do not fit the first buffer, and are not WRITEs ---- */

#define FORGETS 8000u

/* When the kernel drops its caches it forgets many nodes in one request. */
Test(fs_dev, thousands_of_forgets)
{
	static struct {
		struct fuse_batch_forget_in in;
		struct fuse_forget_one one[FORGETS];
	} msg;
	struct nfs_attr attr = { .mode = S_IFREG | 0644 };

	cr_assert(sizeof(msg) > FS_HEAD_BYTES + ARENA_MID_SIZE);
	for (uint32_t i = 0; i < FORGETS; i++) {
		struct nfs_fh fh = { .len = 8 };
		struct inode *ino;

		memcpy(fh.data, &i, sizeof(i));
		ino = inode_get(&fs.vfs.inodes, &fh, &attr, 0, NULL, 0, mono_ns());
		believed_known(ino);
		msg.one[i].nodeid = ino->id;
		msg.one[i].nlookup = 1;
	}
	msg.in.count = FORGETS;
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), FORGETS + 1);

	feed(FUSE_BATCH_FORGET, &msg, sizeof(msg), 0);
	for (int i = 0; i < 1000 && atomic_load(&fs.vfs.inodes.count) > 1; i++)
		lane_play_run(10);
	cr_expect_eq(atomic_load(&fs.vfs.inodes.count), 1);
	cr_expect_eq(stat_get(&lane.stats, STAT_FUSE_FORGETS), FORGETS);
}

/* ---- no buffers ---- */

/* All of them; how many. */
static unsigned hold(struct arena_buf **held)
{
	unsigned n = 0;

	for (unsigned c = ARENA_MID; c <= ARENA_BIG; c++)
		while ((held[n] = magazine_get(&lane.mag, c)))
			n++;
	held[n++] = fs_play_dev.mid;
	held[n++] = fs_play_dev.big;
	fs_play_dev.mid = fs_play_dev.big = NULL;
	return n;
}

/* All buffers are in use for a server that does not answer. Requests without data get
 * through. A WRITE waits for a buffer, and its data is unchanged. */
Test(fs_dev, starved)
{
	struct fuse_getattr_in getattr = { 0 };
	const uint32_t size = 100000;
	struct arena_buf *held[16];
	unsigned nheld = hold(held);
	uint32_t xid;

	feed_write(size);
	feed(FUSE_GETATTR, &getattr, sizeof(getattr), 0);
	lane_play_run(1500);
	cr_assert_eq(fake.nsends, 1);
	cr_assert_eq(sent_word(0, 12), 1, "GETATTR, and WRITE is not before it");
	cr_assert_eq(fl->dev->state, FS_DEV_PARKING);
	cr_assert_eq(stat_get(&lane.stats, STAT_FUSE_REQUESTS), 3, "INIT, and both");
	while (nheld)
		magazine_put(&lane.mag, held[--nheld]);
	xid = sent_word(0, 0);
	REPLY_WORDS(xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 70);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_eq(fl->dev->state, FS_DEV_READING, "and nothing is parked");
	expect_written(1, size);
	cr_assert_eq(stat_get(&lane.stats, STAT_WRITE_COPIED_BYTES), size);
	answer.count = 0;
	reply_write3(1, size);
	cr_assert(answer.count == 1 && answer.error == 0);
}

/* ---- another lane may have to look ---- */

static unsigned looks;

static void count_look(struct fs_dev *d)
{
	(void)d;
	looks++;
}

static bool other_aside;

static void note_aside(struct fs_dev *d, bool aside)
{
	(void)d;
	other_aside = aside;
}

static struct nfs_lane two[2];

/* A second lane, which only counts. */
static void other_lane(void)
{
	static const struct fs_dev_ops ops = { .look = count_look, .step_aside = note_aside };
	static struct fs_dev dev = { .ops = &ops };

	two[1].loop = loop_new(NULL);
	fs.vfs.cl->lanes = two;
	fs_lane_init(&fs, 1);
	fs.vfs.cl->lanes = &lane;
	fs.lanes[1].dev = &dev;
	two[1].front = &fs.lanes[1].vl;
	fs.vfs.nlanes = 2;
}

static void stop_other(struct loop_timer *t)
{
	(void)t;
	loop_stop(two[1].loop);
}

static unsigned looked(void)
{
	struct loop_timer t;
	unsigned n;

	loop_timer_init(&t, stop_other);
	loop_timer_set(two[1].loop, &t, 1);
	cr_assert_eq(loop_run(two[1].loop), 0);
	n = looks;
	looks = 0;
	return n;
}

/* A request has woken this lane only, which has no buffers. */
Test(fs_dev, starved_lane_passes_the_wake_up_on)
{
	struct arena_buf *held[16];
	unsigned nheld = hold(held);

	other_lane();
	feed_write(4096);
	lane_play_run(20);
	cr_assert_eq(fl->dev->state, FS_DEV_STARVED);
	cr_assert_eq(looked(), 1);
	lane_play_run(20);
	cr_assert_eq(looked(), 0);
	while (nheld)
		magazine_put(&lane.mag, held[--nheld]);
	fs.vfs.nlanes = 1;
	loop_free(two[1].loop);
}

Test(fs_dev, lane_that_steps_aside_passes_the_wake_up_on)
{
	other_lane();
	fs_dev_clone.step_aside(fl->dev, true);
	cr_assert_eq(looked(), 1);
	fs_dev_clone.step_aside(fl->dev, true);
	cr_assert_eq(looked(), 0);
	fs_dev_clone.step_aside(fl->dev, false);
	fs.vfs.nlanes = 1;
	loop_free(two[1].loop);
}

/* The first lane hears of it if it has none itself. */
static void other_gets(bool up)
{
	atomic_store(&two[1].target.up, up);
	vfs_nfs_front.lane_changed(&two[1]);
	lane_play_run(1);
}

/* At once: whatever it reads waits for a connection, and the other lane has one. */
Test(fs_dev, lane_without_a_connection_steps_aside)
{
	other_lane();
	other_gets(true);
	fake_break();
	cr_assert_eq(fl->dev->state, FS_DEV_ASIDE);
	cr_assert_eq(looked(), 1);
	lane_play_connect();
	cr_assert_eq(fl->dev->state, FS_DEV_READING);
	fs.vfs.nlanes = 1;
	loop_free(two[1].loop);
}

/* Somebody has to answer what can be answered without the server. */
Test(fs_dev, no_lane_is_aside_when_all_have_lost_their_connections)
{
	other_lane();
	other_gets(true);
	fake_break();
	cr_assert(fl->dev->state == FS_DEV_ASIDE && looked() == 1);
	other_gets(false);
	cr_assert(fl->dev->state == FS_DEV_READING && !other_aside);
	lane_play_connect();
	cr_assert(fl->dev->state == FS_DEV_READING && looked() == 0 && other_aside);
	fs.vfs.nlanes = 1;
	loop_free(two[1].loop);
}

static void run_with(void (*fn)(struct loop_timer *t))
{
	struct loop_timer t;

	loop_timer_init(&t, fn);
	loop_timer_set(lane.loop, &t, 0);
	lane_play_run(20);
	loop_timer_clear(&t);
}

static struct arena_buf *held_here[16];
static unsigned nheld_here;

/* The lane hears of a request while it waits for others. That takes its last buffers, and
 * whoever else woke it meanwhile has to hear of that. */
static void look_and_starve(struct loop_timer *t)
{
	uint64_t before = stat_get(&lane.stats, STAT_FUSE_REQUESTS);
	bool mid = false, big = false;

	(void)t;
	nheld_here = hold(held_here);
	for (unsigned i = 0; i < nheld_here; i++) {
		struct arena_buf *b = held_here[i];
		bool *one = b->size == ARENA_MID_SIZE ? &mid : &big;

		if (*one)
			continue;
		*one = true;
		magazine_put(&lane.mag, b);
		held_here[i] = held_here[--nheld_here];
		i--;
	}
	feed_write(4096);
	feed_write(4096);
	fs_dev_clone.look(fl->dev);
	cr_assert_eq(stat_get(&lane.stats, STAT_FUSE_REQUESTS), before + 1);
	cr_assert_eq(fl->dev->state, FS_DEV_STARVED);
}

Test(fs_dev, lane_that_looks_and_starves_passes_the_wake_up_on)
{
	struct loop_timer t;

	other_lane();
	loop_timer_init(&t, look_and_starve);
	loop_timer_set(lane.loop, &t, 5);
	lane_play_run(20);
	cr_assert_eq(looked(), 1);
	while (nheld_here)
		magazine_put(&lane.mag, held_here[--nheld_here]);
	fs.vfs.nlanes = 1;
	loop_free(two[1].loop);
}

static void look_here(struct loop_timer *t)
{
	(void)t;
	fs_dev_clone.look(fl->dev);
}

/* The lane that looks reads it, unless it is aside itself. */
Test(fs_dev, looks)
{
	fs_dev_clone.look(fl->dev);
	feed_write(4096);
	fs_dev_clone.look(fl->dev);
	cr_assert_eq(stat_get(&lane.stats, STAT_FUSE_REQUESTS), 2);
	fs_dev_clone.step_aside(fl->dev, true);
	feed_write(4096);
	run_with(look_here);
	cr_assert_eq(stat_get(&lane.stats, STAT_FUSE_REQUESTS), 2);
	fs_dev_clone.step_aside(fl->dev, false);
	for (unsigned i = 0; i < 100 && stat_get(&lane.stats, STAT_FUSE_REQUESTS) < 3; i++)
		lane_play_run(20);
	cr_assert_eq(stat_get(&lane.stats, STAT_FUSE_REQUESTS), 3);
}
