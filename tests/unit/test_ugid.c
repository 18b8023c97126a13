/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is who on the server: tables of a user namespace and of a file, and what they do not take. */
#include "fuse/ugid.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/test_ugid.XXXXXX", path[64];
static struct ugid u;
static struct errbuf eb;

static void put(const char *name, const char *text)
{
	FILE *f;

	if (strstr(dir, "XXXXXX"))
		cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static int of_file(const char *text)
{
	int rc;

	put("map", text);
	eb.text[0] = '\0';
	rc = ugid_of_file(&u, path, &eb);
	unlink(path);
	return rc;
}

#define BAD(lines, ...) \
	do { \
		const char *parts_[] = { __VA_ARGS__ }; \
		cr_assert_eq(of_file(lines), -EINVAL, "%s", lines); \
		for (size_t i_ = 0; i_ < sizeof(parts_) / sizeof(parts_[0]); i_++) \
			cr_assert(strstr(eb.text, parts_[i_]), "'%s' is not in: %s", parts_[i_], eb.text); \
	} while (0)

static void rm_dir(void)
{
	rmdir(dir);
}

Test(ugid, no_table_changes_nothing)
{
	const struct ugid_map none = { .n = 0 };
	uint32_t id;

	cr_assert(ugid_find_there(&none, 7, &id) && id == 7);
	cr_assert_eq(ugid_there(&none, UINT32_MAX), UINT32_MAX);
	cr_assert_eq(ugid_here(&none, 0), 0);
}

Test(ugid, a_file, .fini = rm_dir)
{
	uint32_t id;

	cr_assert_eq(of_file("# who\n\nu 0 0\nu\t1000 5000 10  # ten\n  g 100 0 \ng 4294967295 4294967294\n"), 0, "%s", eb.text);
	cr_assert(u.user.n == 2 && u.group.n == 2);
	cr_assert(ugid_find_there(&u.user, 1009, &id) && id == 5009);
	cr_assert_not(ugid_find_there(&u.user, 1010, &id));
	cr_assert_not(ugid_find_there(&u.user, 999, &id));
	cr_assert_eq(ugid_there(&u.user, 1010), UGID_NOBODY);
	cr_assert_eq(ugid_here(&u.user, 5000), 1000);
	cr_assert_eq(ugid_here(&u.user, 1000), UGID_NOBODY);
	cr_assert_eq(ugid_here(&u.group, 0), 100);
	cr_assert_eq(ugid_there(&u.group, UINT32_MAX), UINT32_MAX - 1);
	/* A last line without its end. */
	cr_assert_eq(of_file("u 1 2\ng 3 4 5"), 0, "%s", eb.text);
	cr_assert_eq(ugid_there(&u.group, 7), 8);
}

Test(ugid, what_is_wrong_with_a_file, .fini = rm_dir)
{
	char many[20000] = "g 0 0\n", *at = many + strlen(many);

	BAD("u 1 2\nx 1 2\n", "line 2", "'u' or 'g'");
	BAD("u1 2\n", "line 1");
	BAD("u 1\n", "line 1", "two whole numbers");
	BAD("u -1 2\n", "two whole numbers");
	BAD("u 1 4294967296\n", "4294967295");
	BAD("u 1 2 x\n", "third");
	BAD("u 1 2 3 4\n", "more than three");
	BAD("u 1 2 0\n", "range of 0");
	BAD("u 1 4294967295 2\n", "beyond");
	BAD("u 4294967295 1 2\n", "beyond");
	BAD("u 1 2 5\nu 5 100\n", "line 2", "another line");
	BAD("u 1 2 5\nu 100 6\n", "line 2", "another line");
	BAD("u 5 100\nu 1 2 5\n", "line 2", "another line");
	BAD("u 1 2\n", "no line for groups");
	BAD("g 1 2\n", "no line for users");
	BAD("", "no line for users");
	for (unsigned i = 0; i <= UGID_RANGES; i++)
		at += sprintf(at, "u %u %u\n", 2 * i, 2 * i);
	BAD(many, "one range too many");
	cr_assert_eq(ugid_of_file(&u, "/no/such/file", &eb), -ENOENT);
	cr_assert(strstr(eb.text, "/no/such/file"));
}

Test(ugid, a_user_namespace, .fini = rm_dir)
{
	char users[64], groups[64];

	put("gid_map", "         0       1000          1\n         1     100000      65536\n");
	memcpy(groups, path, sizeof(path));
	put("uid_map", "         0          0 4294967295\n");
	memcpy(users, path, sizeof(path));
	cr_assert_eq(ugid_of_namespace(&u, dir, &eb), 0);
	cr_assert(u.user.n == 0 && u.group.n == 2);
	cr_assert(ugid_there(&u.group, 0) == 1000 && ugid_there(&u.group, 65536) == 165535);
	cr_assert(ugid_here(&u.group, 100000) == 1 && ugid_here(&u.group, 0) == UGID_NOBODY);
	unlink(groups);
	cr_assert_eq(ugid_of_namespace(&u, dir, &eb), -ENOENT);
	unlink(users);
}
