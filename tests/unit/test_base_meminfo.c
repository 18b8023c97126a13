/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much memory there is, by files that look like proc and cgroup2. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meminfo.h"

#define MIB ((uint64_t)1 << 20)

static char root[] = "/tmp/meminfo-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
}

static void begin(void)
{
	cr_assert_not_null(mkdtemp(root));
	put("proc/meminfo", "MemTotal:  2097152 kB\nMemFree:   1 kB\nMemAvailable:    1048576 kB\n");
}

static void end(void)
{
	char cmd[PATH_MAX];

	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(meminfo, .init = begin, .fini = end);

static void is(uint64_t total, uint64_t available)
{
	struct meminfo m;

	meminfo_open(&m, root);
	cr_expect_eq(meminfo_total(&m), total);
	cr_expect_eq(meminfo_available(&m), available);
	meminfo_close(&m);
}

Test(meminfo, without_groups)
{
	is(2048 * MIB, 1024 * MIB);
	put("proc/self/cgroup", "4:memory:/old\n");
	is(2048 * MIB, 1024 * MIB);
}

Test(meminfo, the_lowest_limit_of_all_groups_above)
{
	put("proc/self/cgroup", "4:memory:/old\n0::/a/b\n");
	put("sys/fs/cgroup/a/memory.max", "536870912\n");
	put("sys/fs/cgroup/a/memory.current", "400000000\n");
	put("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 0\nactive_file 7\n");
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	put("sys/fs/cgroup/a/b/memory.current", "1\n");
	is(512 * MIB, 512 * MIB - 400000000);
	put("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 100000000\nactive_file 7\n");
	is(512 * MIB, 512 * MIB - 300000000);
	put("sys/fs/cgroup/a/b/memory.high", "268435456\n");
	is(256 * MIB, 256 * MIB - 1);
	put("sys/fs/cgroup/a/b/memory.current", "368435456\n");
	is(256 * MIB, 0);
}

/* In a container its own group is the root. */
Test(meminfo, the_root_group)
{
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/memory.max", "104857600\n");
	put("sys/fs/cgroup/memory.current", "4857600\n");
	is(100 * MIB, 100000000);
}

/* A limit above what the machine has is none. */
Test(meminfo, a_limit_that_does_not_matter)
{
	put("proc/self/cgroup", "0::/a\n");
	put("sys/fs/cgroup/a/memory.max", "9223372036854771712\n");
	put("sys/fs/cgroup/a/memory.current", "0\n");
	is(2048 * MIB, 1024 * MIB);
}

Test(meminfo, read_each_time)
{
	struct meminfo m;

	meminfo_open(&m, root);
	put("proc/meminfo", "MemTotal:  2097152 kB\nMemAvailable:    1024 kB\n");
	cr_expect_eq(meminfo_available(&m), MIB);
	meminfo_close(&m);
}

Test(meminfo, nothing_can_be_read)
{
	struct meminfo m;

	meminfo_open(&m, "/nonexistent");
	cr_expect_eq(meminfo_total(&m), 0);
	cr_expect_eq(meminfo_available(&m), 0);
	meminfo_close(&m);
}
