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
 *      11     it dies, and each second operation under way ends by that
 *      12     the next operation ends before it is under way: 1 byte how
 *      13     there is no memory for the next operation
 * Operations are played here: each lies in a memory that is lent, as long as it is, and in a file that is
 * open for that. At the end all have ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sanitizer/asan_interface.h>
#include "fuzz.h"
#include "ring/impl.h"

enum { ENTRIES = 8, BUSY = 6, FILES = 3, MEMORIES = 2, LENT = 8192 };

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
static struct ring_io ios[BUSY];
/* Not one behind the other: what reaches beyond one is in none. */
static struct { uint8_t lent[LENT], gap[64]; } memory[MEMORIES];
static unsigned lent_users[MEMORIES];   /* operations */
static union {
	struct ring_memory m;
	uint8_t bytes[sizeof(struct ring_memory) + ENTRIES * (sizeof(struct ring_sqe) + sizeof(struct ring_cqe))];
} shared;

/* ---- operations ---- */

/*
 * One that is free is poisoned, and the one that was freed first is used first. So the sanitizer sees a use
 * behind the end as with malloc(), which takes much more of an input's time.
 */
enum { OPS = 2 * ENTRIES };

static struct { struct vfs_op op; bool used; } ops[OPS];
static unsigned next_op;
static bool no_memory;                  /* for the next */

static unsigned op_at(const struct vfs_op *op)
{
	return (unsigned)(container_of(op, __typeof__(ops[0]), op) - ops);
}

struct vfs_op *vfs_op_quiet(struct vfs_lane *vl, struct inode *ino, const struct rpc_cred *cred)
{
	struct vfs_op *op;

	CHECK(vl == &lane && ino == &inode);
	if (no_memory) {
		no_memory = false;
		return NULL;
	}
	for (unsigned n = 0; ops[next_op].used; n++, next_op = (next_op + 1) % OPS)
		CHECK(n < OPS);
	ops[next_op].used = true;
	op = &ops[next_op].op;
	next_op = (next_op + 1) % OPS;
	ASAN_UNPOISON_MEMORY_REGION(op, sizeof(*op));
	memset(op, 0, sizeof(*op));
	op->vl = vl;
	op->ino = ino;
	return op;
}

void vfs_op_free(struct vfs_op *op)
{
	CHECK(ops[op_at(op)].used);
	file_put(&lane, op->file);
	ops[op_at(op)].used = false;
	ASAN_POISON_MEMORY_REGION(op, sizeof(*op));
}

/* Under way: the oldest first. */
static struct vfs_op *under_way[BUSY];
static unsigned nunder_way;

void op_data_begins(struct vfs_op *op)
{
	memset(&op->data, 0, sizeof(op->data));
}

static unsigned memory_of(const uint8_t *at, size_t len)
{
	for (unsigned i = 0; i < MEMORIES; i++)
		if (at >= memory[i].lent && at + len <= memory[i].lent + LENT)
			return i;
	CHECK(!"it lies in memory that is lent");
	return 0;
}

static int ends_at_once = -1;           /* how the next one does, or -1 */

static void ends(struct vfs_op *op, uint8_t how)
{
	size_t n = how == 0 ? op->data.size : how == 1 ? op->data.size / 2 : 0;

	lent_users[memory_of(op->data.into ? op->data.into : op->call.args.io.data[0].mem, op->data.size)]--;
	op->call.res.status = how > 2 ? -EIO : 0;
	op->data.filled = n;
	op->data.iov[0].iov_len = n;
	op->data.niov = op->data.into && !op->call.res.status;
	op->end(op);
}

static void begins(struct vfs_op *op, uint8_t *at, int not_access)
{
	int how = ends_at_once;
	unsigned i = (unsigned)(op->file - files);

	CHECK(op->data.size && op->data.size <= LENT && nunder_way < BUSY && !ring.ending);
	CHECK(op->data.start <= INT64_MAX - op->data.size);
	CHECK(i < FILES && attached[i].access != not_access && op->file->refs);
	lent_users[memory_of(at, op->data.size)]++;
	ends_at_once = -1;
	if (how < 0)
		under_way[nunder_way++] = op;
	else
		ends(op, (uint8_t)how);
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

static void one_ends(unsigned i, uint8_t how)
{
	struct vfs_op *op = under_way[i];

	memmove(under_way + i, under_way + i + 1, (--nunder_way - i) * sizeof(struct vfs_op *));
	ends(op, how);
}

static bool gives_up;                   /* the next that is given up ends by that... */
static bool gives_up_some;              /* ...and each second one after it */

void vfs_change_over(struct vfs_op *op)
{
	op->changes = 0;
}

bool vfs_give_up(struct vfs_op *op)
{
	unsigned i = 0;

	while (i < nunder_way && under_way[i] != op)
		i++;
	CHECK(i < nunder_way && op->waited);
	gives_up = gives_up_some && !gives_up;
	if (gives_up) {
		one_ends(i, 3);
		return true;
	}
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
	uint8_t b[8];

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = take();
	shared.m.sq[at] = (struct ring_sqe){ .op = b[0], .file = b[1], .memory = b[2], .at = (uint64_t)b[6] << 6,
					     .len = b[3] | (uint32_t)b[4] << 8 | (uint32_t)b[5] << 16,
					     .offset = (uint64_t)b[7] << 12 };
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
	if (!nunder_way)
		attached[i].access = how & 32 ? O_WRONLY : how & 64 ? O_RDWR : O_RDONLY;
}

static void step(uint8_t what)
{
	unsigned where;
	uint8_t how;

	switch (what % 14) {
	case 0: case 1: case 2: case 3:
		where = take() | (unsigned)take() << 8;
		for (unsigned i = 0; i <= what % 14; i++)
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
		how = take();
		if (nunder_way)
			one_ends(0, how);
		break;
	case 8:
		closes(take());
		break;
	case 9:
		where = take();
		ring.memory[where % MEMORIES].at = where & 16 ? NULL : (char *)memory[where % MEMORIES].lent;
		break;
	case 10: case 11:
		ring.ending = true;
		gives_up_some = what % 14 == 11;
		io_give_up(&ring);
		break;
	case 12:
		ends_at_once = take();
		break;
	case 13:
		no_memory = true;
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
	no_memory = gives_up = gives_up_some = false;
	ends_at_once = -1;
	list_init(&ring.free);
	list_init(&ring.busy);
	queue_init(&ring.q, &shared.m, ENTRIES);
	for (unsigned i = 0; i < BUSY; i++) {
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
		ring.memory[i] = (struct ring_memory_of){ (char *)memory[i].lent, LENT, 0 };
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
		one_ends(0, 2);
	if (ring.broken)
		fuzz_spin(rings.loop, 0);
	CHECK(list_empty(&ring.busy) && !ring.nbusy && !lane.ring_entries);
	for (unsigned i = 0; i < FILES; i++)
		CHECK(files[i].refs == 1);
	for (unsigned i = 0; i < MEMORIES; i++)
		CHECK(!ring.memory[i].users && !lent_users[i]);
	return 0;
}
