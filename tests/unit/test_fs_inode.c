/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The inode table: references, names of open files, times, threads. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "believed_play.h"
#include "fuse/fs_impl.h"

static struct fs whole;
#define t whole.vfs.inodes

static void setup(void)
{
	memset(&whole, 0, sizeof(whole));
	inode_table_init(&t, &fs_front);
	sentback_init(&whole.back);
	t.acregmin = 3;
	t.acregmax = 60;
	t.acdirmin = 30;
	t.acdirmax = 60;
}

static void teardown(void)
{
	inode_table_fini(&t);
}

static struct nfs_fh fh_of(unsigned n)
{
	struct nfs_fh fh = { .len = 8 };

	memcpy(fh.data, &n, sizeof(n));
	return fh;
}

static struct inode *get(unsigned n, uint64_t change, uint64_t parent, const char *name)
{
	struct nfs_fh fh = fh_of(n);
	struct nfs_attr a = { .mode = S_IFREG | 0644, .change = change };

	return inode_get(&t, &fh, &a, parent, name, name ? strlen(name) : 0, mono_ns());
}

static struct inode *find_open(struct inode_table *tab, uint64_t parent, const char *name)
{
	struct inode *ino = inode_find(tab, parent, name);

	if (!ino || atomic_load(&ino->nopen))
		return ino;
	inode_put(tab, ino, 1);
	return NULL;
}

Test(inode, one_for_each_handle, .init = setup, .fini = teardown)
{
	struct inode *a = get(1, 1, 7, "a"), *b = get(2, 1, 7, "b");

	cr_assert_neq(a, b);
	cr_assert_eq(get(1, 1, 7, "a"), a);
	cr_assert_eq(t.count, 2);
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 2, "one reference is left");
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 1);
	inode_put(&t, b, 1);
	cr_assert_eq(t.count, 0);
}

/* ---- forgotten inodes ---- */

static struct inode *listed(unsigned n, uint64_t size, uint64_t since)
{
	struct nfs_fh fh = fh_of(n);
	struct nfs_attr a = { .mode = S_IFREG | 0644, .change = 1, .size = size };

	return inode_get_listed(&t, &fh, &a, 7, "a", 1, since);
}

static bool has_id(uint64_t id, unsigned n)
{
	struct nfs_fh want = fh_of(n), fh;

	return inode_fh(&t, id, &fh) && fh.len == want.len && !memcmp(fh.data, want.data, fh.len);
}

static uint64_t forgotten(unsigned n)
{
	struct inode *ino = get(n, 1, 0, NULL);
	uint64_t id = ino->id;

	inode_put(&t, ino, 1);
	return id;
}

Test(inode, a_forgotten_one_comes_back_with_its_id, .init = setup, .fini = teardown)
{
	struct inode *a = get(1, 1, 7, "a");
	uint64_t id = a->id;

	cr_assert(has_id(id, 1), "not forgotten yet");
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 0);
	cr_assert(has_id(id, 1));
	cr_assert_not(has_id(id + 1, 1) || has_id(id ^ 1ull << 32, 1));
	cr_assert_null(inode_by_id(&t, id), "nobody may use it before it is back");
	cr_assert_null(inode_find(&t, 7, "a"));
	a = get(1, 1, 0, NULL);
	cr_assert_eq(a->id, id);
	cr_assert_eq(t.count, 1);
	cr_assert_eq(inode_by_id(&t, id), a);
	inode_put(&t, a, 2);
	cr_assert(has_id(id, 1));
	a = listed(1, 1, mono_ns());
	cr_assert_eq(a->id, id, "found by a listing");
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 0);
}

/* A handle of it would be ESTALE at the server, too, and other files need the place. */
Test(inode, one_without_a_name_is_not_kept, .init = setup, .fini = teardown)
{
	struct inode *a = get(1, 1, 7, "a");
	uint64_t id = a->id;

	inode_renamed(&t, 7, "a", 8, "b");
	inode_put(&t, a, 1);
	cr_assert(has_id(id, 1), "it has another name");
	a = get(1, 1, 8, "b");
	inode_unnamed(&t, 8, "b");
	inode_named(&t, a, 8, "c");
	inode_put(&t, a, 1);
	cr_assert(has_id(id, 1), "it has a name again");
	a = get(1, 1, 8, "b");
	inode_unnamed(&t, 8, "b");
	inode_put(&t, a, 1);
	cr_assert_not(has_id(id, 1));
}

/* Whatever the kernel knew of the file, it knows it no longer. */
Test(inode, a_forgotten_one_has_lost_all_else, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 1 };
	uint64_t before = mono_ns();
	struct names_of names;
	struct inode *a = get(1, 1, 7, "a");

	believed_open(&t, a, NULL, &attr, mono_ns());
	believed_wrote(a, 100);
	believed_paged(a);
	opencount_close(&t, a);
	believed_known(a);
	cr_assert(believed_forget(&t, a, 1));
	cr_assert_eq(t.count, 0);
	a = listed(1, 5, before);
	cr_assert_not_null(a, "no attributes are newer");
	cr_assert_eq(atomic_load(&believed_of(a)->told_size), 5);
	cr_assert(!atomic_load(&believed_of(a)->paged) && !atomic_load(&believed_of(a)->readback) && !believed_of(a)->cache_valid);
	cr_assert_not(believed_open(&t, a, NULL, &attr, mono_ns()), "there are no pages to keep");
	opencount_close(&t, a);
	cr_assert_eq(atomic_load(&believed_of(a)->lookups), 0);
	inode_put(&t, a, 1);
	a = get(1, 1, 0, NULL);
	inode_names(&t, a, &names);
	cr_assert_eq(names.n, 0);
	inode_put(&t, a, 1);
}

/* A server that uses a handle again. */
Test(inode, another_type_is_another_file, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFDIR | 0755, .change = 9 };
	uint64_t id = forgotten(1);
	struct nfs_fh fh = fh_of(1);
	struct inode *a = inode_get(&t, &fh, &attr, 0, NULL, 0, mono_ns());

	cr_assert_neq(a->id, id);
	cr_assert_eq(a->type, S_IFDIR);
	cr_assert_not(has_id(id, 1));
	cr_assert(has_id(a->id, 1));
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 0);
}

/* Those that were forgotten last are kept, and no more: the others' ids are no file's. */
Test(inode, forgotten_ones_are_few, .init = setup, .fini = teardown)
{
	enum { ALL = INODE_FORGOTTEN * INODE_SHARDS, N = 4 * ALL };
	static uint64_t ids[N];
	unsigned kept = 0, newest = 0;
	size_t before;

	before = mallinfo2().uordblks;
	for (unsigned i = 0; i < N; i++)
		ids[i] = forgotten(i);
	for (unsigned i = 0; i < N; i++) {
		kept += has_id(ids[i], i);
		newest += i >= N - ALL * 3 / 4 && has_id(ids[i], i);
	}
	cr_assert_eq(kept, ALL, "%u are kept", kept);
	cr_assert_eq(newest, ALL * 3 / 4, "of the newest ones %u", newest);
	cr_assert_leq(mallinfo2().uordblks - before, (size_t)ALL * (sizeof(struct inode) + 64) + (4 << 20));
	for (unsigned i = 0; i < N; i++)
		cr_assert(!has_id(ids[i], i) || forgotten(i) == ids[i]);
}

/* ---- opens ---- */

/* OPEN (create) has its reply: the open has the file before anybody has its attributes. */
Test(inode, the_file_of_create_becomes_an_inode, .init = setup, .fini = teardown)
{
	struct nfs_fh fh = fh_of(1);
	struct nfs_file *f = inode_file(&t, &fh);
	struct inode *a;

	cr_assert_eq(f, inode_file(&t, &fh), "made once");
	cr_assert_eq(t.count, 0);
	cr_assert_null(inode_by_fh(&t, &fh), "nobody else finds it yet");
	a = get(1, 1, 7, "a");
	cr_assert_eq(&a->file, f);
	cr_assert_eq(t.count, 1);
	cr_assert_eq(inode_file(&t, &fh), f);
	for (unsigned i = 0; i < 3; i++)
		nfs_file_put(f);
	cr_assert_eq(get(1, 1, 7, "a"), a, "the table's reference is left");
	inode_put(&t, a, 2);
}

/* A create that fails behind the OPEN is closed, and no inode was ever made. */
Test(inode, files_that_become_no_inode_are_few, .init = setup, .fini = teardown)
{
	size_t before = 0;

	for (unsigned i = 0; i < 4 * INODE_FORGOTTEN * INODE_SHARDS; i++) {
		struct nfs_fh fh = fh_of(i);

		nfs_file_put(inode_file(&t, &fh));
		if (i == 2 * INODE_FORGOTTEN * INODE_SHARDS)
			before = mallinfo2().uordblks;
	}
	cr_assert_leq(mallinfo2().uordblks, before + (1 << 20));
	cr_assert_eq(t.count, 0);
}

/* A CLOSE that waits needs the handle, and nothing else. */
Test(inode, an_open_outlives_its_inode, .init = setup, .fini = teardown)
{
	struct nfs_attr dir = { .mode = S_IFDIR | 0755, .change = 9 };
	struct nfs_fh fh = fh_of(1);
	struct inode *a = get(1, 1, 7, "a"), *b;
	struct nfs_file *f = nfs_file_ref(&a->file);

	inode_unnamed(&t, 7, "a");
	inode_put(&t, a, 1);
	b = get(1, 1, 7, "b");
	cr_assert_neq(a, b, "the server has used the handle again");
	cr_assert_eq(memcmp(&f->fh, &fh, sizeof(fh)), 0);
	nfs_file_put(f);
	f = nfs_file_ref(&b->file);
	inode_put(&t, b, 1);
	a = inode_get(&t, &fh, &dir, 0, NULL, 0, mono_ns());
	cr_assert_neq(&a->file, f, "and for another type");
	cr_assert_eq(memcmp(&f->fh, &fh, sizeof(fh)), 0);
	nfs_file_put(f);
	inode_put(&t, a, 1);
	f = inode_file(&t, &fh);
	for (unsigned i = 2; i < 4 * INODE_FORGOTTEN * INODE_SHARDS; i++)
		forgotten(i);
	cr_assert_eq(memcmp(&f->fh, &fh, sizeof(fh)), 0, "others have pushed it out");
	nfs_file_put(f);
}

Test(inode, forget_many_at_once, .init = setup, .fini = teardown)
{
	struct inode *a = NULL;

	for (unsigned i = 0; i < 1000; i++)
		a = get(1, 1, 7, "a");
	inode_put(&t, a, 999);
	cr_assert_eq(t.count, 1);
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 0);
}

/* A million lookups and forgets leave nothing behind. */
Test(inode, memory_does_not_grow, .init = setup, .fini = teardown, .timeout = 300)
{
	size_t before = 0;

	for (unsigned round = 0; round < 100; round++) {
		struct inode *all[10000];
		char name[32];

		for (unsigned i = 0; i < 10000; i++) {
			snprintf(name, sizeof(name), "file-number-%u", i);
			all[i] = get(i, round, 7, name);
		}
		for (unsigned i = 0; i < 10000; i++)
			inode_put(&t, all[i], 1);
		if (round == 0)
			before = mallinfo2().uordblks;
	}
	cr_assert_eq(t.count, 0);
	cr_assert_leq(mallinfo2().uordblks, before + 4096);
}

Test(inode, open_files_are_found_by_name, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG };
	struct inode *a = get(1, 1, 7, "a");

	cr_assert_null(find_open(&t, 7, "a"), "not open");
	believed_open(&t, a, NULL, &attr, mono_ns());
	cr_assert_eq(find_open(&t, 7, "a"), a);
	inode_put(&t, a, 1);
	cr_assert_null(find_open(&t, 8, "a"), "another directory");
	cr_assert_null(find_open(&t, 7, "b"));

	inode_renamed(&t, 7, "a", 8, "b");
	cr_assert_null(find_open(&t, 7, "a"));
	cr_assert_eq(find_open(&t, 8, "b"), a);
	inode_put(&t, a, 1);

	/* Looked up under another name: a hard link. */
	inode_put(&t, get(1, 1, 9, "c"), 1);
	cr_assert_eq(find_open(&t, 9, "c"), a);
	inode_put(&t, a, 1);

	believed_open(&t, a, NULL, &attr, mono_ns());
	cr_assert_null(opencount_close(&t, a));
	cr_assert_eq(find_open(&t, 9, "c"), a, "still open once");
	inode_put(&t, a, 1);
	cr_assert_null(opencount_close(&t, a));
	cr_assert_null(find_open(&t, 9, "c"));
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 0);
}

/* A file is created under one name, moved to another, and then opened. It must be found by
 * the new name when that is removed. */
Test(inode, closed_files_are_found_by_name, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG };
	struct inode *a = get(1, 1, 7, "tmp"), *b;

	cr_assert_eq(inode_find(&t, 7, "tmp"), a);
	inode_put(&t, a, 1);
	inode_renamed(&t, 7, "tmp", 7, "final");
	cr_assert_null(inode_find(&t, 7, "tmp"));
	believed_open(&t, a, NULL, &attr, mono_ns());
	cr_assert_eq(find_open(&t, 7, "final"), a);
	inode_put(&t, a, 1);
	/* The name is another's by now: the one seen last has it. */
	b = get(2, 1, 7, "final");
	cr_assert_eq(inode_find(&t, 7, "final"), b);
	inode_put(&t, b, 1);
	cr_assert_null(find_open(&t, 7, "final"), "and that is not open");
	opencount_close(&t, a);
	inode_put(&t, a, 1);
	inode_put(&t, b, 1);
	cr_assert_null(inode_find(&t, 7, "final"), "gone with the inode");
}

/* The file is found by whichever of its names is removed, and the other names still work. */
Test(inode, hard_links, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG };
	struct inode *a = get(1, 1, 7, "a"), *b;
	char name[16];

	inode_named(&t, a, 7, "b");
	believed_open(&t, a, NULL, &attr, mono_ns());
	inode_unnamed(&t, 7, "b");
	cr_assert_null(inode_find(&t, 7, "b"));
	cr_assert_eq(find_open(&t, 7, "a"), a);
	inode_put(&t, a, 1);
	/* Renamed over: the name is the other's, and not in two places. */
	b = get(2, 1, 9, "n");
	inode_renamed(&t, 9, "n", 7, "a");
	cr_assert_null(inode_find(&t, 9, "n"));
	cr_assert_eq(inode_find(&t, 7, "a"), b);
	inode_put(&t, b, 1);
	inode_unnamed(&t, 7, "a");
	cr_assert_null(inode_find(&t, 7, "a"));
	/* No end of names: the newest are kept, and the table knows that there are more. */
	cr_assert(!inode_names_missing(&t));
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%u", i);
		inode_named(&t, a, 7, name);
	}
	cr_assert_eq(inode_find(&t, 7, "99"), a);
	inode_put(&t, a, 1);
	cr_assert_null(inode_find(&t, 7, "0"));
	cr_assert(inode_names_missing(&t));
	opencount_close(&t, a);
	inode_put(&t, a, 1);
	inode_put(&t, b, 1);
	cr_assert_eq(t.count, 0);
	cr_assert(!inode_names_missing(&t), "not any more");
}

/* A name that was forgotten does not become again what it was before. */
Test(inode, a_forgotten_name_belongs_to_nobody, .init = setup, .fini = teardown)
{
	struct inode *before = get(1, 1, 7, "a"), *a = get(2, 1, 7, "a");
	char name[16];

	for (unsigned i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "%u", i);
		inode_named(&t, a, 7, name);
	}
	cr_assert_null(inode_find(&t, 7, "a"));
	/* It may be seen again. */
	inode_named(&t, before, 7, "a");
	cr_assert_eq(inode_find(&t, 7, "a"), before);
	inode_put(&t, before, 2);
	cr_assert_null(inode_find(&t, 7, "a"));
	inode_put(&t, a, 1);
	cr_assert_eq(t.count, 0);
}

Test(inode, by_handle, .init = setup, .fini = teardown)
{
	struct nfs_fh one = fh_of(1), two = fh_of(2);
	struct inode *a = get(1, 1, 7, "a");

	cr_assert_eq(inode_by_fh(&t, &one), a);
	cr_assert_null(inode_by_fh(&t, &two));
	inode_put(&t, a, 2);
	cr_assert_null(inode_by_fh(&t, &one));
}

static struct silly *new_silly(struct inode *dir)
{
	struct silly *s = calloc(1, sizeof(*s));

	inode_ref(dir);
	s->dir = dir;
	atomic_fetch_add(&dir->nsilly, 1);
	strcpy(s->name, ".nfs1");
	return s;
}

Test(inode, silly_names, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG };
	struct inode *dir = get(3, 1, 0, NULL), *a = get(1, 1, dir->id, "a");
	struct silly *s = new_silly(dir);

	cr_assert(!opencount_set_silly(&t, a, dir->id, "a", s), "not open: it stays the caller's");
	cr_assert(!opencount_opening(&t, a), "until it is gone");
	opencount_silly_free(&t, s);
	s = new_silly(dir);
	believed_open(&t, a, NULL, &attr, mono_ns());
	cr_assert(opencount_set_silly(&t, a, dir->id, "a", s));
	cr_assert(opencount_silly_is(&t, a, ".nfs1") && !opencount_silly_is(&t, a, "a"));
	cr_assert_eq(find_open(&t, dir->id, ".nfs1"), a);
	inode_put(&t, a, 1);
	cr_assert_null(inode_find(&t, dir->id, "a"));
	cr_assert_eq(opencount_take_silly(&t), s, "the mount ends first");
	cr_assert_null(opencount_take_silly(&t));
	cr_assert(opencount_set_silly(&t, a, dir->id, "a", s));
	/* Seen by a lookup of its old name's new owner, or of the .nfs name. */
	inode_put(&t, get(1, 1, dir->id, "whatever"), 1);
	cr_assert(opencount_pin(&t, a), "it has the other name");
	opencount_unpin(&t, a);
	cr_assert_eq(opencount_close(&t, a), s, "the last close hands it over");
	cr_assert(!opencount_opening(&t, a), "and its name may be the last one");
	opencount_silly_free(&t, s);
	cr_assert(opencount_opening(&t, a));
	cr_assert(!opencount_pin(&t, a), "open, without another name");
	cr_assert_null(opencount_close(&t, a));
	inode_put(&t, a, 1);
	inode_put(&t, dir, 1);
}

/* It has several names, and one of them is another file's: fs_moved(). */
Test(inode, left_by_its_only_open, .init = setup, .fini = teardown)
{
	struct inode *a = get(1, 5, 7, "a"), *b;
	uint64_t nr = ownchange_change_begins(&t, a);

	cr_assert(opencount_opening(&t, a));
	opencount_leave(&t, a);
	cr_assert(!a->left, "a change is under way");
	ownchange_change_ends(&t, a, nr, &(struct ownchange_after){ 0 });
	a->held = 1;
	opencount_leave(&t, a);
	cr_assert(!a->left, "nobody waits for it any more, but it may be executed late");
	a->held = 0;
	cr_assert(opencount_opening(&t, a));
	opencount_leave(&t, a);
	cr_assert(!a->left, "somebody else opens it");
	cr_assert_null(opencount_close(&t, a));
	opencount_leave(&t, a);
	cr_assert(!a->left, "that one comes back with it");
	a->stays_ns = mono_ns();
	opencount_leave(&t, a);
	cr_assert(a->left);
	cr_assert_null(inode_find(&t, 7, "a"));
	b = get(1, 5, 7, "a");
	cr_assert_neq(b, a);
	cr_assert_null(opencount_close(&t, a));
	inode_put(&t, a, 1);
	inode_put(&t, b, 1);
}

Test(inode, cached_pages, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 5 };
	struct inode *a = get(1, 5, 7, "a");

	cr_assert(!believed_open(&t, a, NULL, &attr, mono_ns()), "nothing is known at first");
	cr_assert(!believed_open(&t, a, NULL, &attr, mono_ns()), "the first one has not dropped them yet");
	believed_dropped(&t, a, 5);
	cr_assert(believed_open(&t, a, NULL, &attr, mono_ns()), "unchanged");
	attr.change = 6;
	cr_assert(!believed_open(&t, a, NULL, &attr, mono_ns()), "changed by somebody");
	cr_assert(!believed_open(&t, a, NULL, &attr, mono_ns()), "there may be pages of 5");
	believed_dropped(&t, a, 6);
	cr_assert(believed_open(&t, a, NULL, &attr, mono_ns()));
	for (unsigned i = 0; i < 6; i++)
		opencount_close(&t, a);
	inode_put(&t, a, 1);
}

/* Two opens at once, on two lanes: until the first one has told the kernel of a difference, the
 * second one finds it as well. */
Test(inode, a_difference_that_is_not_told_yet, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 6 };
	struct inode *a = get(1, 5, 7, "a");

	cr_assert(believed_differs(&t, a, &attr));
	atomic_fetch_add(&believed_of(a)->differing, 1);
	believed_open(&t, a, NULL, &attr, mono_ns());
	cr_assert(believed_differs(&t, a, &attr));
	atomic_fetch_sub(&believed_of(a)->differing, 1);
	cr_assert_not(believed_differs(&t, a, &attr));
	opencount_close(&t, a);
	inode_put(&t, a, 1);
}

/* With attributes from a listing before a write the kernel would append at the file's old
 * end. */
Test(inode, listings_do_not_overrule, .init = setup, .fini = teardown)
{
	uint64_t before = mono_ns(), after;
	struct inode *a = listed(1, 4, before);

	cr_assert_not_null(a, "new");
	cr_assert_eq(listed(1, 4, before), a, "twice in one listing: a hard link");
	inode_put(&t, a, 1);
	believed_wrote(a, 8);
	cr_assert_null(listed(1, 4, before));
	after = mono_ns() + 1;
	cr_assert_eq(listed(1, 8, after), a, "asked for after the write");
	inode_put(&t, a, 1);
	inode_put(&t, get(1, 2, 7, "a"), 1);
	cr_assert_null(listed(1, 8, before), "looked up since");
	inode_put(&t, a, 1);
}

/* As open.c does it. */
static bool back(struct inode *ino, const struct nfs_attr *attr, pid_t pid)
{
	if (sentback_came(&whole.back, ino, pid, false) || !believed_appends_elsewhere(ino, attr))
		return false;
	sentback_note(&whole.back, ino, pid);
	return true;
}
#define BACK(pid) back(a, &attr, pid)
Test(inode, open_tells_what_the_kernel_does_not_know, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 5 };
	struct inode *a = get(1, 5, 7, "a");

	cr_assert_not(believed_differs(&t, a, &attr));
	cr_assert_not(BACK(10));
	/* Our own writes are what the kernel knows of. */
	believed_wrote(a, 3);
	believed_wrote(a, 2);
	attr.change = 6;
	attr.size = 3;
	cr_assert(believed_differs(&t, a, &attr));
	cr_assert_not(BACK(10));
	/* Somebody else's are not, and an open does not change that. */
	attr.size = 6;
	believed_open(&t, a, NULL, &attr, mono_ns());
	cr_assert(BACK(10) && BACK(11));
	believed_update(&t, a, &attr, mono_ns());
	cr_assert(!BACK(10) && !BACK(11));
	/* Told, and it has changed again meanwhile: that goes on for ever. */
	attr.size = 7;
	cr_assert(BACK(10) && BACK(11));
	believed_update(&t, a, &attr, mono_ns());
	attr.size = 8;
	cr_assert(!BACK(10) && !BACK(11));
	cr_assert(BACK(10), "the next open");
	/* Opened without a name, nothing is looked up: that is no reason to fail for ever. */
	cr_assert(BACK(13) && !BACK(13) && BACK(13));
	opencount_close(&t, a);
	inode_put(&t, a, 1);
}

/* Programs in other pid namespaces have one number, 0. What one of them does takes nothing from
 * another one, whose second attempt would fail for good. */
Test(inode, unseen_programs_come_back, .init = setup, .fini = teardown)
{
	struct inode *a = get(1, 5, 7, "a"), *b = get(2, 5, 7, "b");

	cr_assert_eq(sentback_came(&whole.back, a, 0, false), NOT_BACK);
	/* Two append to one file, and others look up and open what they like. */
	sentback_note(&whole.back, a, 0);
	sentback_note(&whole.back, a, 0);
	sentback_looked_up(&whole.back, NULL, 0);
	sentback_looked_up(&whole.back, b, 0);
	cr_assert_eq(sentback_came(&whole.back, b, 0, false), NOT_BACK);
	sentback_looked_up(&whole.back, a, 0);
	cr_assert_eq(sentback_came(&whole.back, a, 0, false), BY_HANDLE);
	cr_assert_eq(sentback_came(&whole.back, a, 0, false), BY_HANDLE);
	cr_assert_eq(sentback_came(&whole.back, a, 0, false), NOT_BACK);
	/* Opened without a name, then truncated. */
	sentback_note_unnamed(&whole.back, b, 0, false);
	cr_assert_eq(sentback_came(&whole.back, b, 0, false), NOT_BACK);
	cr_assert_eq(sentback_came(&whole.back, b, 0, true), BY_HANDLE);
	sentback_note_unnamed(&whole.back, b, 0, true);
	cr_assert_eq(sentback_came(&whole.back, b, 0, true), BY_NEWEST);
	cr_assert_eq(sentback_came(&whole.back, b, 0, true), NOT_BACK);
	/* Who does not come at once does not come any more. */
	sentback_note(&whole.back, a, 0);
	for (unsigned i = 0; i < UNSEEN; i++)
		whole.back.unseen.note[i].until_ns = mono_ns();
	cr_assert_eq(sentback_came(&whole.back, a, 0, false), NOT_BACK);
	sentback_note(&whole.back, a, 0);
	cr_assert_eq(sentback_came(&whole.back, a, 0, false), BY_HANDLE);
	cr_assert_eq(sentback_came(&whole.back, a, 0, false), NOT_BACK);
	/* Thread SENT_BACK's note lies where one of thread 0 would. */
	sentback_note(&whole.back, a, SENT_BACK);
	cr_assert_eq(sentback_came(&whole.back, b, 0, false), NOT_BACK);
	cr_assert_eq(sentback_came(&whole.back, a, SENT_BACK, false), BY_HANDLE);
	inode_put(&t, a, 1);
	inode_put(&t, b, 1);
}

/* The kernel gives threads numbers one after the other: one that begins later may have a number that
 * is kept in the same place. */
Test(inode, a_later_thread_takes_no_note, .init = setup, .fini = teardown)
{
	struct inode *a = get(1, 5, 7, "a"), *b = get(2, 5, 7, "b");
	pid_t later = 585 + SENT_BACK;

	sentback_note(&whole.back, a, 585);
	sentback_looked_up(&whole.back, b, later);
	cr_assert_eq(sentback_came(&whole.back, b, later, false), NOT_BACK);
	cr_assert_eq(sentback_came(&whole.back, a, later, true), NOT_BACK);
	sentback_looked_up(&whole.back, NULL, later);
	cr_assert_eq(sentback_came(&whole.back, a, 585, false), BY_HANDLE);
	cr_assert_eq(sentback_came(&whole.back, a, 585, false), NOT_BACK);
	inode_put(&t, a, 1);
	inode_put(&t, b, 1);
}

/* What the kernel may have ignored, or has not heard of, is no size that it knows. */
Test(inode, nobody_knows_what_the_kernel_believes, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 5, .size = 10 };
	struct inode *a = get(1, 5, 7, "a");
	uint64_t before = mono_ns();

	believed_open(&t, a, NULL, &attr, mono_ns());
	believed_update(&t, a, &attr, mono_ns());
	cr_assert_not(BACK(10));
	/* Asked for before something newer came; and again, with nothing between. */
	attr.size = 20;
	believed_update(&t, a, &attr, before);
	cr_assert(BACK(11));
	believed_update(&t, a, &attr, mono_ns());
	cr_assert_not(BACK(12));
	/* While a WRITE is under way. */
	attr.size = 30;
	atomic_fetch_add(&believed_of(a)->writing, 1);
	believed_update(&t, a, &attr, mono_ns());
	atomic_fetch_sub(&believed_of(a)->writing, 1);
	cr_assert(BACK(13));
	/* SETATTR's answer counts in any case. */
	believed_set(&t, a, &attr, before, before);
	cr_assert_not(BACK(14));
	/* The writer was killed. */
	believed_wrote(a, 40);
	believed_unheard(a);
	attr.size = 40;
	cr_assert(BACK(15));
	believed_update(&t, a, &attr, mono_ns());
	cr_assert_not(BACK(16));
	/* READ has found another end. */
	believed_read_short(&t, a, 40, mono_ns());
	cr_assert_not(BACK(17));
	believed_read_short(&t, a, 39, mono_ns());
	cr_assert(BACK(18));
	/* Even a server whose file has that size does not make it known. */
	attr.size = NOBODY_KNOWS;
	cr_assert(BACK(19));
	opencount_close(&t, a);
	inode_put(&t, a, 1);
}
#undef BACK

/* OPEN was sent before a LOCK was granted, and its reply comes after that one's: what it brings is no
 * newer than what the lock promises. */
Test(inode, an_open_from_before_a_lock, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 5 };
	struct inode *a = get(1, 5, 7, "a");
	uint64_t asked = mono_ns();

	believed_written_past(a);
	if (believed_forget_begins(&t, a, false) == FORGET_TELL)
		believed_forget_ends(a);
	believed_open(&t, a, NULL, &attr, asked);
	cr_assert(believed_is_late(a, &attr, UINT64_MAX, asked));
	asked = mono_ns();
	believed_open(&t, a, NULL, &attr, asked);
	cr_assert_not(believed_is_late(a, &attr, UINT64_MAX, asked), "the same as what OPEN has brought");
}

/* A GETATTR is overtaken by a listing with older attributes. The kernel believes these. */
Test(inode, open_tells_what_the_kernel_has_ignored, .init = setup, .fini = teardown)
{
	struct nfs_attr old = { .mode = S_IFREG, .change = 5, .size = 10 }, attr = old;
	struct inode *a = get(1, 5, 7, "a");
	uint64_t getattr = mono_ns();

	cr_assert_eq(inode_get_listed(&t, &a->file.fh, &old, 7, "a", 1, mono_ns() + 1), a);
	attr.change = 6;
	believed_update(&t, a, &attr, getattr);
	cr_assert(believed_differs(&t, a, &attr));
	/* Nobody knows when the kernel has asked, and whether it takes this. */
	believed_update(&t, a, &attr, mono_ns() + 1);
	cr_assert(believed_differs(&t, a, &attr));
	cr_assert_eq(believed_forget_begins(&t, a, false), FORGET_TELL);
	believed_forget_ends(a);
	believed_update(&t, a, &attr, mono_ns() + 1);
	cr_assert_not(believed_differs(&t, a, &attr));
	/* SETATTR's answer counts in any case. */
	attr.change = 7;
	believed_update(&t, a, &attr, getattr);
	believed_set(&t, a, &attr, getattr, getattr);
	cr_assert_not(believed_differs(&t, a, &attr));
	inode_put(&t, a, 2);
}

/* The kernel takes the mtime of SETATTR's answer, and drops no pages by it. So it is told another one
 * than it will get next. */
Test(inode, setattr_hides_nobodys_change, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 5, .size = 10, .mtime = { 1000, 0 } };
	struct nfs_attr other = attr, set = attr;
	struct inode *a = get(1, 5, 7, "a");

	t.acregmin = t.acregmax = 3;
	other.mtime.tv_sec = 2000;
	believed_update(&t, a, &attr, mono_ns());
	set = other;
	cr_assert_gt(believed_set(&t, a, &set, mono_ns(), mono_ns()), 0, "there are no pages");
	cr_assert_eq(set.mtime.tv_sec, 2000);
	believed_paged(a);
	cr_assert_gt(believed_set(&t, a, &set, mono_ns(), mono_ns()), 0, "they are of this mtime");
	cr_assert_eq(set.mtime.tv_sec, 2000);
	/* Twice before the kernel asks, which it does at once. */
	for (unsigned i = 0; i < 2; i++) {
		set = attr;
		cr_assert_eq(believed_set(&t, a, &set, mono_ns(), mono_ns()), 0);
		cr_assert(set.mtime.tv_sec == 999 && set.mtime.tv_nsec == 999999999);
	}
	cr_assert_gt(believed_answer(&t, a, &attr, mono_ns(), mono_ns(), 1e9), 0);
	set = attr;
	cr_assert_gt(believed_set(&t, a, &set, mono_ns(), mono_ns()), 0, "it has dropped them");
	/* A direct write has gone past the pages. */
	cr_assert(believed_written_past(a));
	cr_assert_eq(believed_set(&t, a, &set, mono_ns(), mono_ns()), 0);
	cr_assert_eq(set.mtime.tv_sec, 999);
	cr_assert_gt(believed_answer(&t, a, &attr, mono_ns(), mono_ns(), 1e9), 0);
	/* The kernel may not have taken its last answer. */
	believed_update(&t, a, &other, 1);
	set = other;
	cr_assert_eq(believed_set(&t, a, &set, mono_ns(), mono_ns()), 0);
	/* It drops them by itself. */
	set = attr;
	set.size = 11;
	cr_assert_gt(believed_set(&t, a, &set, mono_ns(), mono_ns()), 0);
	inode_put(&t, a, 1);
}

/* An OPEN's attributes are newer than those of a listing that was asked for before. */
Test(inode, a_listing_is_older_than_an_open, .init = setup, .fini = teardown)
{
	struct nfs_attr old = { .mode = S_IFREG, .change = 5, .size = 10 }, attr = old;
	struct inode *a = get(1, 5, 7, "a");
	uint64_t asked = mono_ns();

	attr.change = 6;
	believed_open(&t, a, NULL, &attr, mono_ns());
	cr_assert_null(inode_get_listed(&t, &a->file.fh, &old, 7, "a", 1, asked));
	opencount_close(&t, a);
	inode_put(&t, a, 1);
}

Test(inode, times_double_while_nothing_changes, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = 5 };
	struct inode *a = get(1, 5, 7, "a");

	cr_assert_eq(believed_update(&t, a, &attr, mono_ns()), 3);
	cr_assert_eq(believed_update(&t, a, &attr, mono_ns()), 3, "its time has not passed");
	for (double want = 6; want < 60; want *= 2) {
		a->timeo_ns -= (uint64_t)(a->timeo * 1e9) + 1;
		cr_assert_eq(believed_update(&t, a, &attr, mono_ns()), want);
	}
	a->timeo_ns -= (uint64_t)(a->timeo * 1e9) + 1;
	cr_assert_eq(believed_update(&t, a, &attr, mono_ns()), 60, "acregmax");
	attr.change = 6;
	cr_assert_eq(believed_update(&t, a, &attr, mono_ns()), 3, "changed: from the start");
	inode_put(&t, a, 1);
}

/* Many threads on few inodes: every reference is accounted for. */
static void *worker(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct nfs_attr attr = { .mode = S_IFREG };

	for (unsigned i = 0; i < 20000; i++) {
		unsigned n = (unsigned)rand_r(&seed) % 16;
		char name[8];
		struct inode *a, *f;

		snprintf(name, sizeof(name), "n%u", (unsigned)rand_r(&seed) % 4);
		a = get(n, n, n % 3, name);
		if (rand_r(&seed) % 4 == 0) {
			believed_open(&t, a, NULL, &attr, mono_ns());
			f = find_open(&t, n % 3, name);
			if (f)
				inode_put(&t, f, 1);
			free(opencount_close(&t, a));
		}
		inode_put(&t, a, 1);
	}
	return NULL;
}

Test(inode, threads, .init = setup, .fini = teardown)
{
	pthread_t th[4];

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&th[i], NULL, worker, (void *)(i + 1));
	for (unsigned i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	cr_assert_eq(t.count, 0);
}

/*
 * Forgetting, coming back and leaving the list, all at once: there are more files than a shard
 * keeps, and all are in one. Whoever has an id asks for its file, as LOOKUP of "." does: if it has
 * come back with that id, it is that file; otherwise the id is nobody's.
 */
enum { RING = 64 };
static unsigned of_one_shard[INODE_FORGOTTEN + RING];
static _Atomic uint64_t last_id[INODE_FORGOTTEN + RING];

static void find_of_one_shard(void)
{
	for (unsigned n = 0, found = 0; found < INODE_FORGOTTEN + RING; n++) {
		struct inode *ino = get(n, 1, 0, NULL);

		if (ino->by_fh.hash % INODE_SHARDS == 0)
			of_one_shard[found++] = n;
		inode_put(&t, ino, 1);
	}
}

static void come_back(uint64_t id, unsigned n)
{
	struct nfs_attr attr = { .mode = S_IFREG };
	struct inode *a, *b;
	struct nfs_fh fh;

	if (!id || !inode_fh(&t, id, &fh))
		return;
	a = inode_get(&t, &fh, &attr, 0, NULL, 0, mono_ns());
	b = inode_by_id(&t, id);
	cr_assert(b == (a->id == id ? a : NULL));
	cr_assert_eq(memcmp(a->file.fh.data, &n, sizeof(n)), 0, "another file has its id");
	inode_put(&t, a, 1 + !!b);
}

/* OPEN and CLOSE of it, by another program. */
static struct nfs_file *open_again(struct nfs_file *f, unsigned n)
{
	struct nfs_fh fh = fh_of(n);

	if (f)
		nfs_file_put(f);
	f = inode_file(&t, &fh);
	cr_assert_eq(memcmp(&f->fh, &fh, sizeof(fh)), 0);
	return f;
}

static void *forgetful(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct nfs_file *f = NULL;

	for (unsigned i = 0; i < 20000; i++) {
		/* A few are busy, and the others push them out. */
		unsigned k = (unsigned)rand_r(&seed) % (rand_r(&seed) % 2 ? INODE_FORGOTTEN + RING : 8);
		struct inode *a;

		if (!(i % 8))
			f = open_again(f, of_one_shard[k]);
		come_back(atomic_load(&last_id[k]), of_one_shard[k]);
		if (rand_r(&seed) % 2)
			continue;
		a = get(of_one_shard[k], 1, 7, "a");
		atomic_store(&last_id[k], a->id);
		believed_known(a);
		believed_forget(&t, a, 1);
	}
	nfs_file_put(f);
	return NULL;
}

Test(inode, threads_forget_and_ask, .init = setup, .fini = teardown, .timeout = 300)
{
	pthread_t th[4];

	find_of_one_shard();
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&th[i], NULL, forgetful, (void *)(i + 1));
	for (unsigned i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	cr_assert_eq(t.count, 0);
	cr_assert_leq(t.shard[0].nforgotten, INODE_FORGOTTEN);
}
