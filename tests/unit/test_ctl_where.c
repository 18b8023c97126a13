/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which socket belongs to which mount: /proc/self/mountinfo, mount points, directories. */
#include "ctl/where.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FUSE " - fuse.nfsrdma-fuse "

static const char text[] =
	"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	"30 22 0:40 / /mnt/a rw,nosuid" FUSE "server:/x rw,user_id=1000,group_id=1000,max_read=1\n"
	"31 22 0:41 / /mnt/with\\040space\\011tab\\012line\\134back\\043hash rw shared:2 master:3" FUSE
		"s:/x rw,user_id=0\n"
	"32 22 0:42 / /mnt/stack rw" FUSE "s:/old rw,user_id=1000\n"
	"33 32 0:43 / /mnt/stack rw" FUSE "s:/new rw,user_id=1001\n"
	"34 22 0:44 / /mnt/hidden rw" FUSE "s:/x rw,user_id=1000\n"
	"35 34 0:45 / /mnt/hidden rw - tmpfs tmpfs rw,user_id=5\n"
	"36 22 0:46 / /mnt/empty rw" FUSE " rw,user_id=7\n"
	"37 22 0:47 / /mnt/user_id=3 rw" FUSE "s:/user_id=4 rw,a_user_id=5,user_id=6\n"
	"38 22 0:48 / /mnt/none rw" FUSE "s:/x rw\n"
	"39 22 0:49 /sub/- /mnt/dash rw" FUSE "- rw,user_id=8\n"
	"40 22 0:40 / /mnt/bind rw" FUSE "server:/x rw,user_id=1000\n"
	"41 22 259:1048575 / /mnt/big rw" FUSE "s:/x rw,user_id=4294967294\n"
	"42 22 nonsense / /mnt/bad rw" FUSE "s:/x rw,user_id=1\n"
	"43 22 0:50 / /mnt/short rw\n"
	"44 22 0:51 / /mnt/short rw -\n"
	"45 22 0:52 / /mnt/short rw - fuse.nfsrdma-fuse\n"
	"45 22 0:55 - fuse.nfsrdma-fuse s:/x rw\n"
	"\n"
	"46 22 0:53 / /mnt/octal\\8\\04 rw" FUSE "s:/x rw,user_id=1\n"
	"47 22 0:54 / /mnt/last rw" FUSE "s:/x rw,user_id=9";

static void write_mountinfo(void)
{
	static char name[] = "/tmp/mountinfo.XXXXXX";
	int fd = mkstemp(name);

	cr_assert_eq(write(fd, text, sizeof(text) - 1), (ssize_t)sizeof(text) - 1);
	close(fd);
	ctl_mountinfo = name;
}

static void remove_mountinfo(void)
{
	unlink(ctl_mountinfo);
}

static bool find(const char *mountpoint, struct ctl_mount *m)
{
	int rc = ctl_where_find(mountpoint, m);

	cr_assert(rc == 0 || rc == -ENODEV, "%s: %d", mountpoint, rc);
	return rc == 0;
}

static void expect(const char *mountpoint, unsigned maj, unsigned min, uid_t owner)
{
	struct ctl_mount m = { 0 };

	cr_assert(find(mountpoint, &m), "%s", mountpoint);
	cr_assert(m.ours, "%s", mountpoint);
	cr_assert(m.dev == makedev(maj, min) && m.owner == owner, "%s: %u:%u of %u",
		  mountpoint, major(m.dev), minor(m.dev), m.owner);
}

TestSuite(ctl_where, .timeout = 60);

Test(ctl_where, mountinfo, .init = write_mountinfo, .fini = remove_mountinfo)
{
	struct ctl_mount m;

	expect("/mnt/a", 0, 40, 1000);
	expect("/mnt/with space\ttab\nline\\back#hash", 0, 41, 0);
	expect("/mnt/stack", 0, 43, 1001);
	expect("/mnt/empty", 0, 46, 7);
	expect("/mnt/user_id=3", 0, 47, 6);
	expect("/mnt/none", 0, 48, (uid_t)-1);
	expect("/mnt/dash", 0, 49, 8);
	expect("/mnt/big", 259, 1048575, 4294967294u);
	expect("/mnt/octal\\8\\04", 0, 53, 1);
	expect("/mnt/last", 0, 54, 9);
	cr_assert(find("/mnt/hidden", &m) && !m.ours);
	cr_assert(find("/", &m) && !m.ours);
	cr_assert_not(find("/mnt", &m));
	cr_assert_not(find("/mnt/a/b", &m));
	cr_assert_not(find("/mnt/bad", &m));
	cr_assert_not(find("/mnt/short", &m));
	cr_assert_not(find("", &m));
	unlink(ctl_mountinfo);
	cr_assert_eq(ctl_where_find("/mnt/a", &m), -ENOENT);
	ctl_mountinfo = "/";
	cr_assert_eq(ctl_where_find("/mnt/a", &m), -EISDIR);
}

static bool mounted(unsigned number, const char *mountpoint)
{
	return ctl_where_mounted(&(struct ctl_mount){ .dev = makedev(0, number) }, mountpoint);
}

Test(ctl_where, bind_mounts, .init = write_mountinfo, .fini = remove_mountinfo)
{
	cr_assert(mounted(40, "/mnt/a"));
	cr_assert(mounted(40, "/mnt/bind"));
	cr_assert(mounted(42, "/mnt/stack"));
	cr_assert_not(mounted(40, "/mnt/stack"));
	cr_assert_not(mounted(45, "/mnt/hidden"), "another file system");
	cr_assert_not(mounted(40, ""));
}

/* One mount, and no other of the same file system. */
Test(ctl_where, where_a_mount_is_now, .init = write_mountinfo, .fini = remove_mountinfo)
{
	struct ctl_mount a, other;
	char *at;

	cr_assert(find("/mnt/with space\ttab\nline\\back#hash", &a));
	at = ctl_where_now(&a);
	cr_assert_str_eq(at, "/mnt/with space\ttab\nline\\back#hash");
	free(at);
	other = a;
	other.id++;
	cr_assert_null(ctl_where_now(&other));
	other = a;
	other.dev++;
	cr_assert_null(ctl_where_now(&other));
	cr_assert(find("/mnt/hidden", &other));
	cr_assert_null(ctl_where_now(&other), "another file system");
}

/* ---- mount points ---- */

static char dir[32];

static void expect_resolved(const char *path, const char *want)
{
	char full[PATH_MAX], *got = ctl_where_resolve(path);

	snprintf(full, sizeof(full), "%s%s", *want == '/' ? "" : dir, *want == '/' ? want : want + 1);
	cr_assert(got, "%s: %s", path, strerror(errno));
	cr_assert_str_eq(got, full, "%s: %s", path, got);
	free(got);
}

Test(ctl_where, resolve)
{
	strcpy(dir, "/tmp/where.XXXXXX");
	cr_assert(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
	mkdir("d", 0700);
	mkdir("d/m", 0700);
	/* Relative, absolute, to another link, in a circle. */
	cr_assert_eq(symlink("d/m", "rel"), 0);
	cr_assert_eq(symlink("/proc", "abs"), 0);
	cr_assert_eq(symlink("../rel", "d/twice"), 0);
	cr_assert_eq(symlink("circle", "circle"), 0);
	cr_assert_eq(symlink("d", "dlink"), 0);
	expect_resolved("d/m", "./d/m");
	expect_resolved("d/m///", "./d/m");
	expect_resolved("./d//m", "./d/m");
	expect_resolved("d", "./d");
	expect_resolved(".", ".");
	expect_resolved("..", "/tmp");
	expect_resolved("d/m/..", "./d");
	expect_resolved("d/m/.", "./d/m");
	expect_resolved("dlink/m", "./d/m");
	expect_resolved("rel", "./d/m");
	expect_resolved("d/twice", "./d/m");
	expect_resolved("abs", "/proc");
	expect_resolved("/", "/");
	expect_resolved("//", "/");
	expect_resolved("/proc/", "/proc");
	cr_assert_null(ctl_where_resolve("d/nothing"));
	cr_assert_eq(errno, ENOENT);
	cr_assert_null(ctl_where_resolve("circle"));
	cr_assert_eq(errno, ELOOP);
	cr_assert_null(ctl_where_resolve("nothing/m"));
	cr_assert_eq(errno, ENOENT);
	unlink("circle");
	unlink("d/twice");
	unlink("rel");
	unlink("abs");
	unlink("dlink");
	rmdir("d/m");
	rmdir("d");
	cr_assert_eq(rmdir(dir), 0);
}

/* ---- directories ---- */

static void expect_refused(const char *path, uid_t uid, const char *why)
{
	struct errbuf eb = { "" };

	cr_assert_lt(ctl_where_check(path, uid, &eb), 0);
	cr_assert(strstr(eb.text, why), "%s", eb.text);
}

Test(ctl_where, whose_directory)
{
	uid_t uid = geteuid();
	struct errbuf eb;
	char at[64];

	strcpy(dir, "/tmp/where.XXXXXX");
	cr_assert(mkdtemp(dir));
	cr_assert_eq(ctl_where_check(dir, uid, &eb), 0);
	expect_refused(dir, uid + 1, "another user's");
	chmod(dir, 0710);
	expect_refused(dir, uid, "open to other users");
	chmod(dir, 0701);
	expect_refused(dir, uid, "open to other users");
	chmod(dir, 0700);
	snprintf(at, sizeof(at), "%s/link", dir);
	cr_assert_eq(symlink(dir, at), 0);
	expect_refused(at, uid, "is not a directory");
	unlink(at);
	fclose(fopen(at, "w"));
	expect_refused(at, uid, "is not a directory");
	unlink(at);
	cr_assert_eq(ctl_where_check(at, uid, &eb), -ENOENT);
	rmdir(dir);
}

Test(ctl_where, which_directory)
{
	char dirs[CTL_DIRS][CTL_DIR_MAX], at[96], want[CTL_DIR_MAX];
	uid_t uid = geteuid() ? geteuid() : 4711;

	strcpy(dir, "/tmp/where.XXXXXX");
	cr_assert(mkdtemp(dir));
	ctl_roots = (struct ctl_roots){ .run = "/r", .run_user = dir, .tmp = "/t" };
	/* The second one: of root of a user namespace. */
	cr_assert_eq(ctl_where_dirs(0, dirs), 2);
	cr_assert_str_eq(dirs[0], "/r/nfsrdma-fuse");
	cr_assert_str_eq(dirs[1], "/t/nfsrdma-fuse-0");
	snprintf(want, sizeof(want), "/t/nfsrdma-fuse-%u", uid);
	cr_assert_eq(ctl_where_dirs(uid, dirs), 1);
	cr_assert_str_eq(dirs[0], want);
	snprintf(at, sizeof(at), "%s/%u", dir, uid);
	mkdir(at, 0700);
	if (geteuid() == 0) {
		/* It is not theirs. */
		cr_assert_eq(ctl_where_dirs(uid, dirs), 1);
		cr_assert_eq(chown(at, uid, uid), 0);
	}
	cr_assert_eq(ctl_where_dirs(uid, dirs), 2);
	cr_assert_str_eq(dirs[1], want);
	snprintf(want, sizeof(want), "%s/%u/nfsrdma-fuse", dir, uid);
	cr_assert_str_eq(dirs[0], want);
	rmdir(at);
	rmdir(dir);
}
