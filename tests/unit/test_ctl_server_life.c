/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The control socket's file and its directory: how they come and go with the mounts. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/where.h"
#include "ctl_play.h"

TestSuite(ctl_life, .init = ctl_play_begin, .fini = ctl_play_end, .timeout = 120);

Test(ctl_life, clients_are_told_of_the_end)
{
	int fd = dial(), fd2 = dial();

	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 2);
	ctl_free(ctl_play.ctl);
	ctl_play.ctl = NULL;
	expect_error_at(fd, "the mount ends");
	expect_error_at(fd2, "the mount ends");
	cr_assert_eq(fake_paths.path[1].state, NFS_PATH_CONNECTING);
}

/* The device number is given to the next mount before the old daemon has ended. */
Test(ctl_life, next_mount_of_the_same_number)
{
	struct ctl *old = ctl_play.ctl;

	ctl_play_start();
	ctl_free(old);
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

Test(ctl_life, dead_daemons_socket_is_replaced)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ctl_free(ctl_play.ctl);
	cr_assert_eq(mkdir(ctl_play.sockets, 0700), 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", ctl_play.socket);
	cr_assert_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	close(fd);
	ctl_play_start();
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

/* Is called when the last daemon has seen that the file is its own, and is about to remove it:
 * the next one puts its own there, if the last one lets it. */
static struct ctl *next;
static pthread_t next_thread;
static _Atomic bool next_listens;

static void *next_mount(void *arg)
{
	struct errbuf why = { "" };

	(void)arg;
	cr_assert_eq(ctl_listen(next, &why), 0, "%s", why.text);
	next_listens = true;
	return NULL;
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

int __wrap_unlink(const char *path)
{
	if (next && !next_thread) {
		pthread_create(&next_thread, NULL, next_mount, NULL);
		for (int i = 0; i < 30 && !next_listens; i++)
			usleep(10000);
	}
	return __real_unlink(path);
}

Test(ctl_life, next_mount_just_when_the_last_one_ends)
{
	cr_assert_eq(ctl_new(&ctl_play_config, &next, &ctl_play.eb), 0);
	ctl_free(ctl_play.ctl);
	pthread_join(next_thread, NULL);
	cr_assert(next_listens);
	ctl_play.ctl = next;
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

static void *mount_again_and_again(void *arg)
{
	const struct ctl_config *cfg = arg;
	struct errbuf why = { "" };
	struct ctl *c;

	for (int i = 0; i < 300; i++) {
		cr_assert_eq(ctl_new(cfg, &c, &why), 0);
		cr_assert_eq(ctl_listen(c, &why), 0, "%s", why.text);
		ctl_free(c);
	}
	return NULL;
}

/* Each mount that ends removes the directory in which another one is about to make a socket. */
Test(ctl_life, directory_comes_and_goes)
{
	struct ctl_config other = ctl_play_config;
	pthread_t t[2];

	ctl_free(ctl_play.ctl);
	ctl_play.ctl = NULL;
	other.mountpoint = "/mnt/b";
	pthread_create(&t[0], NULL, mount_again_and_again, (void *)(uintptr_t)&ctl_play_config);
	pthread_create(&t[1], NULL, mount_again_and_again, &other);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
}

Test(ctl_life, no_socket_can_be_made)
{
	ctl_free(ctl_play.ctl);
	cr_assert_eq(ctl_new(&ctl_play_config, &ctl_play.ctl, &ctl_play.eb), 0);
	/* The directory is somebody else's trap. */
	cr_assert_eq(symlink("/tmp", ctl_play.sockets), 0);
	cr_assert_lt(ctl_listen(ctl_play.ctl, &ctl_play.eb), 0);
	cr_assert(strstr(ctl_play.eb.text, "is not a directory"), "%s", ctl_play.eb.text);
	unlink(ctl_play.sockets);
	cr_assert_eq(mkdir(ctl_play.sockets, 0755), 0);
	cr_assert_lt(ctl_listen(ctl_play.ctl, &ctl_play.eb), 0);
	cr_assert(strstr(ctl_play.eb.text, "open to other users"), "%s", ctl_play.eb.text);
	rmdir(ctl_play.sockets);
	/* Something else is mounted there, or it is another user's. */
	write_mountinfo("tmpfs", geteuid());
	cr_assert_lt(ctl_listen(ctl_play.ctl, &ctl_play.eb), 0);
	write_mountinfo("fuse.nfsrdma-fuse", geteuid() + 1);
	cr_assert_lt(ctl_listen(ctl_play.ctl, &ctl_play.eb), 0);
	ctl_mountinfo = "/dev/null";
	cr_assert_lt(ctl_listen(ctl_play.ctl, &ctl_play.eb), 0);
	cr_assert(strstr(ctl_play.eb.text, "/mnt/a"), "%s", ctl_play.eb.text);
}
