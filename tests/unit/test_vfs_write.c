/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes that go through, without FUSE (vfs_play.h): what is sent again when a server writes less than
 * it was asked to, or not to stable storage, and what the front end is told of it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "vfs_play.h"

#define SIZE 200000u                    /* in two buffers */

/* ---- the server ---- */

static char disk[SIZE], cache[SIZE];    /* cache: what a COMMIT brings to the disk */
static uint64_t verf = 1;
static unsigned writes, commits;
static uint32_t most = UINT32_MAX;      /* bytes that it takes of a WRITE */
static bool lazy;                       /* it leaves them in its cache */
static unsigned restarts;               /* so many COMMITs from now find that it has restarted */
static uint64_t room = SIZE;            /* what is written behind that fails */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	writes += c->op == NFS_OP_WRITE;
	commits += c->op == NFS_OP_COMMIT;
	cr_assert(c->op != NFS_OP_WRITE || !c->args.io.unstable, "it goes through");
	return xdr_uint32_t(x, &nothing);
}

static void take(struct nfs_call *c)
{
	uint32_t len = 0;

	for (unsigned i = 0; i < c->args.io.ndata; i++) {
		const struct rr_iov *d = &c->args.io.data[i];
		uint32_t n = d->len < most - len ? d->len : most - len;

		memcpy(cache + c->args.io.offset + len, d->mem, n);
		len += n;
	}
	if (!lazy)
		memcpy(disk + c->args.io.offset, cache + c->args.io.offset, len);
	c->res.io.len = len;
	c->res.io.stable = !lazy;
	c->res.io.verf = verf;
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	if (c->op == NFS_OP_WRITE && c->args.io.offset >= room)
		return -ENOSPC;
	if (c->op == NFS_OP_WRITE) {
		take(c);
	} else if (c->op == NFS_OP_COMMIT) {
		if (restarts) {
			restarts--;
			verf++;
			memset(cache, 0, SIZE);
		} else {
			memcpy(disk + c->args.io.offset, cache + c->args.io.offset, c->args.io.count);
		}
		c->res.io.verf = verf;
	} else if (c->op == NFS_OP_OPEN) {
		c->open = calloc(1, 8);
		c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 1 };
		c->res.has_attr = true;
	}
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

/* ---- the tests ---- */

static struct file *f;

static void serve(void)
{
	for (unsigned i = 0; i < 60; i++)
		lane_play_serve();
}

static void setup(void)
{
	static const struct nfs_fh fh = { .len = 4, .data = "file" };
	static const struct nfs_attr attr = { .mode = S_IFREG | 0644, .nlink = 1 };

	vfs_play_start(&version, &fh, &attr, 0);
	vfs_play_open(root, O_WRONLY, false);
	serve();
	f = vfs_answer.file;
}

static void teardown(void)
{
	vfs_play_close(f);
	serve();
	cr_assert(list_empty(&vl->active), "an operation was left");
	vfs_play_end();
}

TestSuite(vfs_write, .init = setup, .fini = teardown, .timeout = 60);

static char byte(size_t i)
{
	return (char)(i * 7 + i / 251 + 1);
}

/* Writes all of the file, and has it answered. */
static void write_all(void)
{
	char *mid, *big;

	cr_assert(vfs_play_buffers());
	mid = vfs_play_mid->mem;
	big = vfs_play_big->mem;
	for (size_t i = 0; i < SIZE; i++)
		*(i < ARENA_MID_SIZE ? mid + i : big + i - ARENA_MID_SIZE) = byte(i);
	vfs_play_write(f, 0, SIZE, false, false);
	serve();
	cr_assert_eq(vfs_answer.count, 1);
}

/* The first n bytes are on the disk, and the front end was told so. */
static void on_disk(size_t n)
{
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(disk[i], byte(i), "byte %zu", i);
	cr_assert_eq(vfs_play_inode(root)->there, n);
	cr_assert_eq(vfs_answer.len, n);
}

Test(vfs_write, at_once)
{
	write_all();
	on_disk(SIZE);
	cr_assert(vfs_answer.status == 0 && writes == 1 && commits == 0);
}

/* In the middle of a buffer, at its end, and behind it. */
Test(vfs_write, in_pieces)
{
	static const uint32_t sizes[] = { 10000, ARENA_MID_SIZE, ARENA_MID_SIZE + 1, SIZE - 1 };

	for (unsigned i = 0; i < 4; i++) {
		memset(disk, 0, SIZE);
		writes = 0;
		most = sizes[i];
		write_all();
		on_disk(SIZE);
		cr_assert(vfs_answer.status == 0 && writes == (SIZE + most - 1) / most, "%u: %u", most, writes);
	}
}

Test(vfs_write, not_stable)
{
	lazy = true;
	most = 150000;
	write_all();
	on_disk(SIZE);
	cr_assert(vfs_answer.status == 0 && writes == 2 && commits == 2);
}

/* What it had in its cache is sent again. */
Test(vfs_write, the_server_restarts_before_commit)
{
	lazy = true;
	restarts = 2;
	write_all();
	on_disk(SIZE);
	cr_assert(vfs_answer.status == 0 && writes == 3 && commits == 3);
}

/* A server that loses it each time is not asked for ever. */
Test(vfs_write, the_server_restarts_each_time)
{
	lazy = true;
	restarts = UINT32_MAX;
	write_all();
	on_disk(0);
	cr_assert(vfs_answer.status == -EIO && commits < 20, "%u", commits);
}

/* A part was written, and then the disk is full: the program hears of the part. */
Test(vfs_write, a_part_and_an_error)
{
	most = room = 100000;
	cr_assert(vfs_play_buffers());
	memset(vfs_play_mid->mem, 1, ARENA_MID_SIZE);
	vfs_play_write(f, 0, SIZE, false, false);
	serve();
	cr_assert(vfs_answer.count == 1 && vfs_answer.status == 0 && vfs_answer.len == most);
	/* Who writes a page back wants all of it. */
	cr_assert(vfs_play_buffers());
	vfs_play_write(f, 0, SIZE, false, true);
	serve();
	cr_assert(vfs_answer.status == -ENOSPC && vfs_answer.len == most);
}
