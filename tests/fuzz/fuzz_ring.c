/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that scribbles in its ring (src/ring/io.c, queue.c), between what the lane does:
 *     input: steps: 1 byte what; then, as they need it, 2 bytes where (little endian), and bytes.
 *       0..3  so many bytes + 1 of the ring's memory are written: where, bytes
 *       4     the next entry is filled: 8 bytes: op, file, memory, len (3), at, offset / 4096
 *       5     sq_tail and cq_head are as a program that is right has them, and the lane looks
 *       6     the lane looks
 *       7     the oldest operation ends: 1 byte how: 0 whole, 1 short, 2 nothing, else an error
 *       8     a file is closed, and opened again for reading, or for writing: 1 byte
 *       9     a memory is forgotten, and lent again: 1 byte
 *      10     the program dies
 * Operations are played here: each lies in a memory that is lent, as long as it is, and in a file that is
 * open for that. At the end all have ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include "fuzz.h"
#include "ring/impl.h"

enum { ENTRIES = 8, FILES = 3, MEMORIES = 2, LENT = 8192 };

static const uint8_t *in;
static size_t left;

static uint8_t take(void)
{
	return left ? left--, *in++ : 0;
}

/* ---- what rings are part of ---- */

static struct nfs_client client;
static struct nfs_lane nfs;
static const struct vfs_front front = { .op_size = sizeof(struct vfs_op) };
static struct vfs vfs = { .cl = &client, .front = &front };
static struct vfs_lane lane = { .vfs = &vfs, .lane = &nfs };
static struct inode inode;
static struct file files[FILES];
static struct ring_file attached[FILES];
static struct rings rings;
static struct ring ring;
static struct ring_io ios[ENTRIES];
static uint8_t memory[MEMORIES][LENT];
static unsigned lent_users[MEMORIES];   /* operations */
static union {
	struct ring_memory m;
	uint8_t bytes[sizeof(struct ring_memory) + ENTRIES * (sizeof(struct ring_sqe) + sizeof(struct ring_cqe))];
} shared;

/* ---- operations, the oldest first ---- */

static struct vfs_op *under_way[ENTRIES];
static unsigned nunder_way;

struct vfs_op *vfs_op_quiet(struct vfs_lane *vl, struct inode *ino, const struct rpc_cred *cred)
{
	struct vfs_op *op = calloc(1, sizeof(*op));

	CHECK(op && vl == &lane && ino == &inode);
	op->vl = vl;
	op->ino = ino;
	return op;
}

void vfs_op_free(struct vfs_op *op)
{
	file_put(&lane, op->file);
	free(op);
}

void op_data_begins(struct vfs_op *op)
{
	memset(&op->data, 0, sizeof(op->data));
}

static unsigned memory_of(const uint8_t *at, size_t len)
{
	for (unsigned i = 0; i < MEMORIES; i++)
		if (at >= memory[i] && at + len <= memory[i] + LENT)
			return i;
	CHECK(!"it lies in memory that is lent");
	return 0;
}

static void begins(struct vfs_op *op, uint8_t *at, int not_access)
{
	unsigned i = (unsigned)(op->file - files);

	CHECK(op->data.size && op->data.size <= LENT && nunder_way < ENTRIES);
	CHECK(op->data.start <= INT64_MAX - op->data.size);
	CHECK(i < FILES && attached[i].access != not_access && op->file->refs);
	lent_users[memory_of(at, op->data.size)]++;
	touch(at, op->data.size);
	under_way[nunder_way++] = op;
}

void vfs_read(struct vfs_op *op)
{
	begins(op, op->data.into, O_WRONLY);
}

void vfs_write(struct vfs_op *op)
{
	CHECK(op->call.args.io.ndata == 1 && op->call.args.io.data[0].len == op->data.size);
	CHECK(op->call.args.io.offset == op->data.start);
	begins(op, op->call.args.io.data[0].mem, O_RDONLY);
}

static void oldest_ends(uint8_t how)
{
	struct vfs_op *op = under_way[0];
	size_t n = how == 0 ? op->data.size : how == 1 ? op->data.size / 2 : 0;

	memmove(under_way, under_way + 1, --nunder_way * sizeof(struct vfs_op *));
	lent_users[memory_of(op->data.into ? op->data.into : op->call.args.io.data[0].mem, op->data.size)]--;
	op->call.res.status = how > 2 ? -EIO : 0;
	op->data.filled = n;
	op->data.iov[0].iov_len = n;
	op->data.niov = op->data.into && !op->call.res.status;
	op->end(op);
}

bool vfs_give_up(struct vfs_op *op)
{
	op->waited = false;
	return false;
}

void lane_look(struct ring *r)
{
	CHECK(r == &ring);
}

static void on_last(struct vfs_lane *vl, struct file *f)
{
	CHECK(!"a file is closed while the test has it");
}

/* ---- the program ---- */

static void fill_entry(void)
{
	uint32_t at = atomic_load(&shared.m.sq_tail.count) & (ENTRIES - 1);

	shared.m.sq[at] = (struct ring_sqe){ .op = take(), .file = take(), .memory = take() };
	shared.m.sq[at].len = take() | (uint32_t)take() << 8 | (uint32_t)take() << 16;
	shared.m.sq[at].at = (uint64_t)take() << 6;
	shared.m.sq[at].offset = (uint64_t)take() << 12;
	atomic_fetch_add(&shared.m.sq_tail.count, 1);
}

static void looks(void)
{
	io_run(&ring);
	CHECK(ring.q.taken - ring.q.done <= ENTRIES && ring.q.published == ring.q.done);
	if (io_sleep(&ring))
		CHECK(!ring.ending && !ring.broken && io_run(&ring));
}

static void closes(uint8_t how)
{
	unsigned i = how % FILES;

	ring.file[i] = how & 16 ? NULL : &attached[i];
	if (!under_way[0] || !nunder_way)
		attached[i].access = how & 32 ? O_WRONLY : how & 64 ? O_RDWR : O_RDONLY;
}

static void step(uint8_t what)
{
	unsigned where;

	switch (what % 11) {
	case 0: case 1: case 2: case 3:
		where = take() | (unsigned)take() << 8;
		for (unsigned i = 0; i <= what % 11; i++)
			shared.bytes[(where + i) % sizeof(shared.bytes)] = take();
		break;
	case 4:
		fill_entry();
		break;
	case 5:
		atomic_store(&shared.m.cq_head.count, ring.q.published);
		if (atomic_load(&shared.m.sq_tail.count) - ring.q.taken > ENTRIES)
			atomic_store(&shared.m.sq_tail.count, ring.q.taken);
		looks();
		break;
	case 6:
		looks();
		break;
	case 7:
		if (nunder_way)
			oldest_ends(take());
		break;
	case 8:
		closes(take());
		break;
	case 9:
		where = take();
		ring.memory[where % MEMORIES].at = where & 16 ? NULL : (char *)memory[where % MEMORIES];
		break;
	case 10:
		ring.ending = true;
		io_give_up(&ring);
	}
}

/* ---- life ---- */

/* ring.broken_msg.fn */
static void on_broken(struct loop_msg *m)
{
	CHECK(container_of(m, struct ring, broken_msg)->broken);
}

static void begin(void)
{
	memset(&shared, 0, sizeof(shared));
	memset(&ring, 0, sizeof(ring));
	ring.rings = &rings;
	ring.vl = &lane;
	ring.bell.fd = -1;
	ring.broken_msg.fn = on_broken;
	list_init(&ring.free);
	list_init(&ring.busy);
	queue_init(&ring.q, &shared.m, ENTRIES);
	for (unsigned i = 0; i < ENTRIES; i++) {
		ios[i].ring = &ring;
		list_add_tail(&ring.free, &ios[i].node);
	}
	for (unsigned i = 0; i < FILES; i++) {
		files[i] = (struct file){ .last = on_last, .ino = &inode };
		atomic_store(&files[i].refs, 1);
		attached[i] = (struct ring_file){ .ring = &ring, .index = i, .file = &files[i], .access = i == 0 ? O_RDONLY :
						  i == 1 ? O_WRONLY : O_RDWR };
		ring.file[i] = &attached[i];
	}
	for (unsigned i = 0; i < MEMORIES; i++)
		ring.memory[i] = (struct ring_memory_of){ (char *)memory[i], LENT, 0 };
	client.rsize = client.wsize = 4096;
	client.lanes = &nfs;
	rings.loop = fuzz_loop();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	in = data;
	left = len;
	begin();
	while (left)
		step(take());
	ring.ending = true;
	while (nunder_way)
		oldest_ends(2);
	if (ring.broken)
		fuzz_spin(rings.loop, 0);
	CHECK(list_empty(&ring.busy));
	for (unsigned i = 0; i < FILES; i++)
		CHECK(files[i].refs == 1);
	for (unsigned i = 0; i < MEMORIES; i++)
		CHECK(!ring.memory[i].users && !lent_users[i]);
	return 0;
}
