/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of files: which opens belong to one file, and when a file is freed. */
#include <criterion/criterion.h>
#include <string.h>
#include "nfs/file.h"

static struct nfs_files files;
static struct nfs_open_ref o[4];
static const struct nfs_fh a = { .len = 4, .data = "aaaa" }, b = { .len = 4, .data = "bbbb" },
			   longer = { .len = 5, .data = "aaaa" };

static void setup(void)
{
	nfs_files_init(&files);
	for (unsigned i = 0; i < 4; i++)
		nfs_open_list(&files, &o[i]);
}

static void teardown(void)
{
	cr_assert(list_empty(&files.opens));
	for (unsigned i = 0; i < NFS_FILE_BUCKETS; i++)
		cr_assert_null(files.by_fh[i], "a file without opens is left");
	nfs_files_fini(&files);
}

static void put_all(void)
{
	for (unsigned i = 0; i < 4; i++)
		cr_assert(nfs_open_put(&files, &o[i]));
}

TestSuite(nfs_file, .init = setup, .fini = teardown, .timeout = 60);

Test(nfs_file, opens_of_one_handle_are_of_one_file)
{
	cr_assert_eq(nfs_open_of(&files, &o[0], &a), 0);
	cr_assert_eq(nfs_open_of(&files, &o[1], &b), 0);
	cr_assert_eq(nfs_open_of(&files, &o[2], &a), 0);
	cr_assert_eq(nfs_open_of(&files, &o[3], &longer), 0);
	cr_assert_eq(o[0].file, o[2].file);
	cr_assert(o[0].file != o[1].file && o[0].file != o[3].file);
	cr_assert(o[0].file->fh.len == 4 && !memcmp(o[0].file->fh.data, "aaaa", 4));
	cr_assert_eq(container_of(o[0].file->opens.next, struct nfs_open_ref, in_file), &o[0]);
	cr_assert_eq(container_of(o[0].file->opens.prev, struct nfs_open_ref, in_file), &o[2]);
	put_all();
}

/* A file that was closed, and is opened again, is a new one. */
Test(nfs_file, a_file_goes_with_its_last_open)
{
	cr_assert_eq(nfs_open_of(&files, &o[0], &a), 0);
	cr_assert_eq(nfs_open_of(&files, &o[1], &a), 0);
	nfs_open_get(&files, &o[1]);
	cr_assert(nfs_open_put(&files, &o[0]));
	cr_assert_not(nfs_open_put(&files, &o[1]), "somebody still has it");
	cr_assert_eq(container_of(o[1].file->opens.next, struct nfs_open_ref, in_file), &o[1]);
	cr_assert(nfs_open_put(&files, &o[1]));
	cr_assert(nfs_open_put(&files, &o[2]) && nfs_open_put(&files, &o[3]), "of no file");
}

/* The walk goes on where it was, even if the open that it is at is closed meanwhile. */
Test(nfs_file, opens_go_under_a_walk)
{
	struct nfs_open_ref *at = nfs_open_next(&files, NULL), *next;

	cr_assert_eq(at, &o[0]);
	cr_assert_not(nfs_open_put(&files, &o[0]), "the walk has it");
	cr_assert(nfs_open_put(&files, &o[1]));
	next = nfs_open_next(&files, at);
	cr_assert_eq(next, &o[2]);
	cr_assert(nfs_open_put(&files, at));
	cr_assert_not(nfs_open_put(&files, &o[2]));
	at = nfs_open_next(&files, next);
	cr_assert_eq(at, &o[3]);
	cr_assert(nfs_open_put(&files, next));
	cr_assert_null(nfs_open_next(&files, at));
	cr_assert_not(nfs_open_put(&files, at));
	cr_assert(nfs_open_put(&files, &o[3]));
}
