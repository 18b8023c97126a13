/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The statistics file in a directory where somebody else has made files before. */
#include "statfile.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], file[80], tmp[96], victim[80];
static struct errbuf eb;

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert(f);
	fputs(text, f);
	fclose(f);
}

static const char *get(const char *path)
{
	static char text[4096];
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static void setup(void)
{
	strcpy(dir, "/tmp/statfile.XXXXXX");
	cr_assert(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/stats", dir);
	snprintf(tmp, sizeof(tmp), "%s.new", file);
	snprintf(victim, sizeof(victim), "%s/victim", dir);
	put(victim, "mine");
	umask(022);
}

static void teardown(void)
{
	unlink(victim);
	if (unlink(tmp) < 0)
		rmdir(tmp);
	if (unlink(file) < 0)
		rmdir(file);
	cr_assert_eq(rmdir(dir), 0, "something is left in %s", dir);
}

TestSuite(statfile, .init = setup, .fini = teardown, .timeout = 300);

static void print(FILE *f, const void *arg)
{
	fprintf(f, "%s", (const char *)arg);
}

static void write_it(const char *text)
{
	statfile_write(file, print, text);
}

static void expect_written(const char *text)
{
	struct stat st;

	cr_assert(get(file));
	cr_assert_str_eq(get(file), text);
	cr_assert_eq(lstat(file, &st), 0);
	cr_assert(S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid());
	cr_assert_eq(access(tmp, F_OK), -1);
	cr_assert_str_eq(get(victim), "mine");
}

Test(statfile, is_made_and_replaced)
{
	cr_assert_eq(statfile_check(file, &eb), 0, "%s", eb.text);
	cr_assert_eq(access(file, F_OK), -1, "the check makes nothing");
	write_it("one");
	expect_written("one");
	cr_assert_eq(statfile_check(file, &eb), 0, "%s", eb.text);
	expect_written("one");
	write_it("two");
	expect_written("two");
}

Test(statfile, what_was_planted_is_not_written_to)
{
	cr_assert_eq(symlink(victim, tmp), 0);
	cr_assert_eq(statfile_check(file, &eb), 0, "%s", eb.text);
	cr_assert_eq(symlink(victim, tmp), 0);
	write_it("1");
	expect_written("1");
	cr_assert_eq(link(victim, tmp), 0);
	write_it("2");
	expect_written("2");
	/* Opened for writing, it would block for ever. */
	cr_assert_eq(mkfifo(tmp, 0666), 0);
	write_it("3");
	expect_written("3");
}

Test(statfile, what_is_no_file_of_ours_is_refused)
{
	cr_assert_eq(symlink(victim, file), 0);
	cr_assert_eq(statfile_check(file, &eb), -EINVAL);
	cr_assert(strstr(eb.text, "not a regular file"), "%s", eb.text);
	write_it("no");
	cr_assert_str_eq(get(victim), "mine");
	unlink(file);
	cr_assert_eq(mkdir(file, 0777), 0);
	cr_assert_eq(statfile_check(file, &eb), -EINVAL);
	write_it("no");
	rmdir(file);
	cr_assert_eq(mkdir(tmp, 0777), 0);
	cr_assert_lt(statfile_check(file, &eb), 0);
	write_it("no");
	rmdir(tmp);
	cr_assert_eq(access(file, F_OK), -1);
	if (geteuid() != 0)
		return;
	put(file, "theirs");
	cr_assert_eq(chown(file, 1, 1), 0);
	cr_assert_eq(statfile_check(file, &eb), -EINVAL);
	cr_assert(strstr(eb.text, "another user's"), "%s", eb.text);
	write_it("no");
	cr_assert_str_eq(get(file), "theirs");
}

Test(statfile, the_umask_says_who_may_read_it)
{
	struct stat st;

	write_it("x");
	cr_assert(stat(file, &st) == 0 && (st.st_mode & 0777) == 0644);
	umask(077);
	write_it("y");
	cr_assert(stat(file, &st) == 0 && (st.st_mode & 0777) == 0600);
}

static void *writer(void *arg)
{
	for (unsigned i = 0; i < 200; i++)
		write_it(arg);
	return NULL;
}

/* SIGUSR1 at the end of the mount: two threads write. */
Test(statfile, two_at_once)
{
	static char a[2000], b[3000];
	pthread_t t[2];

	memset(a, 'a', sizeof(a) - 1);
	memset(b, 'b', sizeof(b) - 1);
	write_it(a);
	cr_assert_eq(pthread_create(&t[0], NULL, writer, a), 0);
	cr_assert_eq(pthread_create(&t[1], NULL, writer, b), 0);
	for (unsigned i = 0; i < 200; i++) {
		const char *got = get(file);

		cr_assert(got && (!strcmp(got, a) || !strcmp(got, b)), "half of one, or none");
	}
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	cr_assert_eq(access(tmp, F_OK), -1);
}
