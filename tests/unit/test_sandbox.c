/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon may still do once it has mounted: capabilities, system calls, files, and the
 * process that unmounts for it. Each test runs in a process of its own, because privileges
 * cannot be regained.
 */
#include "sandbox.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "config.h"
#include "ctl/where.h"
#include "landlock.h"
#include "priv.h"
#include "statfile.h"
#include "unmounter.h"

/* A test's process talks to Criterion when it ends, which the sandbox may prevent. So each
 * test forks a child, whose status is 0 or the line that failed. */
#define CHECK(cond) do { if (!(cond)) _exit(__LINE__ % 250 + 1); } while (0)
#define SKIP 251

static void in_process(void (*body)(void))
{
	int wstatus;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &wstatus, 0), pid);
	cr_assert(WIFEXITED(wstatus), "killed by signal %d", WTERMSIG(wstatus));
	if (WEXITSTATUS(wstatus) == SKIP)
		cr_skip_test("not possible here");
	cr_assert_eq(WEXITSTATUS(wstatus), 0, "near a line that is %d modulo 250",
		     WEXITSTATUS(wstatus) - 1);
}

TestSuite(sandbox, .timeout = 300);

/* ---- system calls ---- */

static void enter(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	CHECK(sandbox_enter() == 0);
}

/* Was something noted since the last time? */
static bool noted(void)
{
	const struct timespec none = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &none) == SIGUSR2;
}

static void refuses(void)
{
	char path[] = "/bin/true", *argv[] = { path, NULL }, file[] = "/tmp/sandbox.XXXXXX";
	int fd = mkstemp(file);

	CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
	enter();
	/* What overlayfs does to a file that may be read only. */
	CHECK(open(file, O_RDONLY | O_TRUNC) < 0 && errno == EPERM && noted());
	CHECK((fd = open(file, O_RDONLY)) >= 0 && lseek(fd, 0, SEEK_END) == 1 && close(fd) == 0);
	CHECK((fd = open(file, O_WRONLY | O_TRUNC)) >= 0 && close(fd) == 0 && unlink(file) == 0);
	CHECK(execv(path, argv) < 0 && errno == EPERM && noted());
	CHECK(socket(AF_PACKET, SOCK_RAW, 0) < 0 && errno == EPERM && noted());
	/* Once for each. */
	CHECK(execv(path, argv) < 0 && errno == EPERM && !noted());
	CHECK(mount("none", "/mnt", "tmpfs", 0, NULL) < 0 && errno == EPERM && noted());
	CHECK(unshare(CLONE_NEWNS) < 0 && errno == EPERM && noted());
	CHECK(syscall(SYS_io_uring_setup, 8, NULL) < 0 && errno == EPERM && noted());
	CHECK(kill(getppid(), 0) < 0 && errno == EPERM && noted());
	/* Not worth a line. */
	CHECK(umount2("/nowhere", MNT_DETACH) < 0 && errno == EPERM && !noted());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	CHECK(fork() < 0 && errno == EPERM && !noted());
#endif
}

Test(sandbox, refuses_what_is_not_on_the_list)
{
	in_process(refuses);
}

static void *other_main(void *arg)
{
	/* Its signal mask is a lane's. */
	sem_wait(arg);
	CHECK(socket(AF_PACKET, SOCK_RAW, 0) < 0 && errno == EPERM);
	return NULL;
}

static bool status_has(pid_t tid, const char *line)
{
	char path[64], text[4096];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n < 0)
		return false;
	text[n] = '\0';
	return strstr(text, line) != NULL;
}

static void binds_all(void)
{
	sigset_t all, old;
	pthread_t t;
	sem_t go;

	sem_init(&go, 0, 0);
	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	CHECK(pthread_create(&t, NULL, other_main, &go) == 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	enter();
	sem_post(&go);
	pthread_join(t, NULL);
	CHECK(noted());
	CHECK(status_has(getpid(), "NoNewPrivs:\t1") && status_has(getpid(), "Seccomp:\t2"));
}

Test(sandbox, binds_threads_that_were_there_before)
{
	in_process(binds_all);
}

static void *nothing(void *arg)
{
	return arg;
}

static void lets_work(void)
{
	char path[] = "/tmp/sandbox.XXXXXX";
	pthread_t t;
	FILE *f;
	int fd;

	enter();
	CHECK(pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0);
	fd = mkstemp(path);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0 && unlink(path) == 0);
	f = fopen("/proc/self/status", "r");
	CHECK(f && fgetc(f) == 'N' && fclose(f) == 0);
	CHECK(getpwnam("root") && !getpwnam("no-such-user-here"));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(!noted());
	sandbox_log();
}

Test(sandbox, lets_the_daemon_work)
{
	in_process(lets_work);
}

/* ---- files ---- */

static char stats_dir[] = "/tmp/landlock.XXXXXX", other_dir[] = "/tmp/landlock.XXXXXX";

/* Binds this thread as the server thread is, where that is possible. */
static void bind_files(void)
{
	int fd = open(stats_dir, O_PATH | O_DIRECTORY), rc = landlock_enter(fd);

	if (rc == -ENOSYS || rc == -EOPNOTSUPP)
		_exit(SKIP);
	CHECK(rc == 0 && close(fd) == 0);
}

static bool is_refused(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == EACCES;
	if (flags & O_CREAT)
		unlink(path);
	close(fd);
	return false;
}

static void make_dirs(void)
{
	cr_assert(mkdtemp(stats_dir) && mkdtemp(other_dir) && chdir(other_dir) == 0);
	close(open("mine", O_CREAT | O_WRONLY, 0600));
}

static void remove_dirs(void)
{
	if (chdir(other_dir) == 0)
		unlink("mine");
	rmdir(other_dir);
	if (chdir(stats_dir) == 0)
		unlink("stats");
	rmdir(stats_dir);
}

/* What somebody in a lane would like to have. Capabilities are not needed for it: the files
 * are this user's. */
static void *robs(void *arg)
{
	char path[] = "/bin/true", *argv[] = { path, NULL };

	CHECK(is_refused("/etc/ld.so.preload", O_CREAT | O_EXCL | O_WRONLY));
	/* Not O_TRUNC: where root's files are on overlayfs, it would be gone (sandbox.c). */
	CHECK(is_refused("/etc/passwd", O_RDWR) && is_refused("/etc/passwd", O_WRONLY));
	CHECK(is_refused("/proc/sys/kernel/core_pattern", O_WRONLY));
	CHECK(is_refused("/proc/self/oom_score_adj", O_WRONLY));
	CHECK(is_refused("/root", O_RDONLY));
	CHECK(is_refused("/root/.profile.new", O_CREAT | O_EXCL | O_WRONLY));
	CHECK(is_refused("/dev/shm", O_RDONLY) && is_refused("/", O_RDONLY));
	CHECK(is_refused("mine", O_RDONLY) && is_refused("mine", O_WRONLY));
	CHECK(unlink("mine") < 0 && errno == EACCES && rename("mine", "yours") < 0);
	CHECK(link("mine", "yours") < 0 && symlink("/", "yours") < 0 && mkdir("new", 0700) < 0);
	CHECK(execv(path, argv) < 0 && errno == EACCES);
	if (geteuid() == 0)
		CHECK(mount("none", other_dir, "tmpfs", 0, NULL) < 0 && errno == EPERM);
	return arg;
}

/* Connects to an abstract socket that was there before. */
static int knock(const struct sockaddr_un *to)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), rc = connect(fd, (const struct sockaddr *)to, sizeof(*to));

	rc = rc < 0 ? errno : 0;
	close(fd);
	return rc;
}

static void bound(void)
{
	int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	pthread_t t;

	snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "test_sandbox.%d", (int)getpid());
	CHECK(bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && listen(fd, 4) == 0 && knock(&un) == 0);
	CHECK(priv_drop(priv_needed(true)) == 0);
	/* What is refused was possible. */
	CHECK(!is_refused("mine", O_RDWR));
	bind_files();
	CHECK(knock(&un) == (version >= 6 ? EPERM : 0));
	robs(NULL);
	CHECK(pthread_create(&t, NULL, robs, NULL) == 0 && pthread_join(t, NULL) == 0);
	CHECK(status_has(gettid(), "NoNewPrivs:\t1"));
}

static void works(void)
{
	char path[64];
	struct errbuf eb;
	int fds[2];
	FILE *f;

	CHECK(priv_drop(priv_needed(true)) == 0);
	bind_files();
	CHECK(getpwnam("root") && !getpwnam("no-such-user-here"));
	CHECK((f = fopen("/proc/1/status", "r")) && fclose(f) == 0);
	CHECK((f = fopen("/dev/null", "w")) && fputs("x", f) >= 0 && fclose(f) == 0);
	CHECK(!is_refused("/sys/class/net", O_RDONLY) && !is_refused("/usr/lib", O_RDONLY));
	CHECK(!is_refused("/proc/self/exe", O_RDONLY) && !is_refused("/proc/self/mountinfo", O_RDONLY));
	if (access("/dev/infiniband", R_OK) == 0)
		CHECK(!is_refused("/dev/infiniband/rdma_cm", O_RDWR));
	CHECK(!is_refused("/etc/resolv.conf", O_RDONLY));
	snprintf(path, sizeof(path), "%s/stats", stats_dir);
	CHECK(statfile_check(path, &eb) == 0);
	CHECK((f = fopen(path, "w")) && fclose(f) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && write(fds[0], "x", 1) == 1);
	CHECK(sandbox_enter() == 0 && statfile_check(path, &eb) == 0);
}

Test(sandbox, files_are_out_of_reach, .init = make_dirs, .fini = remove_dirs)
{
	in_process(bound);
}

Test(sandbox, files_that_the_daemon_needs, .init = make_dirs, .fini = remove_dirs)
{
	in_process(works);
}

/* Away from the machine's own files. */
static void own_mounts(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		_exit(SKIP);
}

static void make_file(const char *name)
{
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

	CHECK(fd >= 0 && close(fd) == 0);
}

static void *resolves(void *arg)
{
	pthread_barrier_t *b = arg;

	bind_files();
	pthread_barrier_wait(b);
	pthread_barrier_wait(b);
	CHECK(!is_refused("/etc/resolv.conf", O_RDONLY));
	CHECK(is_refused("/run/secret/key", O_RDONLY) && is_refused("/run/key", O_RDONLY));
	return arg;
}

/* Another network: some program makes the file anew, wherever /etc/resolv.conf leads to. */
static void network_changes(void)
{
	pthread_barrier_t b;
	pthread_t t;

	own_mounts();
	CHECK(mount("none", "/etc", "tmpfs", 0, NULL) == 0 && mount("none", "/run", "tmpfs", 0, NULL) == 0);
	CHECK(mkdir("/run/some", 0755) == 0 && mkdir("/run/secret", 0755) == 0);
	make_file("/run/some/resolv.conf");
	make_file("/run/secret/key");
	make_file("/run/key");
	CHECK(symlink("../run/some/resolv.conf", "/etc/resolv.conf") == 0);
	pthread_barrier_init(&b, NULL, 2);
	CHECK(pthread_create(&t, NULL, resolves, &b) == 0);
	pthread_barrier_wait(&b);
	make_file("/run/some/new");
	CHECK(rename("/run/some/new", "/run/some/resolv.conf") == 0);
	pthread_barrier_wait(&b);
	CHECK(pthread_join(t, NULL) == 0);
}

Test(sandbox, resolv_conf_is_replaced, .init = make_dirs, .fini = remove_dirs)
{
	in_process(network_changes);
}

/* ---- capabilities ---- */

static void *cap_main(void *arg)
{
	char want[64];

	snprintf(want, sizeof(want), "CapPrm:\t%016llx\nCapEff:\t%016llx\n",
		 (unsigned long long)(uintptr_t)arg, (unsigned long long)(uintptr_t)arg);
	CHECK(status_has(gettid(), want));
	CHECK(status_has(gettid(), "CapInh:\t0000000000000000") &&
	      status_has(gettid(), "CapAmb:\t0000000000000000"));
	return NULL;
}

/* Of this thread: root in a container may have few. */
static uint64_t effective(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	CHECK(syscall(SYS_capget, &h, d) == 0);
	return d[0].effective | (uint64_t)d[1].effective << 32;
}

static void drops(void)
{
	const uint64_t keep = 1ull << CAP_KILL, no_more = 1ull << CAP_KILL | 1ull << CAP_SYS_ADMIN;
	void *has = (void *)(uintptr_t)(effective() & keep);
	pthread_t t;

	CHECK(priv_drop(keep) == 0);
	cap_main(has);
	CHECK(pthread_create(&t, NULL, cap_main, has) == 0 && pthread_join(t, NULL) == 0);
	/* There is no way back. */
	CHECK(priv_drop(no_more) == 0);
	cap_main(has);
	if (geteuid() == 0)
		CHECK(umount2("/proc", MNT_DETACH) < 0 && errno == EPERM);
}

Test(sandbox, capabilities_that_are_not_kept_are_gone)
{
	in_process(drops);
	cr_assert_eq(priv_needed(true), priv_needed(false) | 1ull << CAP_NET_BIND_SERVICE);
	cr_assert_eq(priv_needed(true) & (1ull << CAP_SYS_ADMIN | 1ull << CAP_DAC_OVERRIDE), 0);
}

/* ---- the unmounter ---- */

static char argv_text[] = "/usr/bin/nfsrdma-fuse\0server:/export\0/mnt/point";
static char *argv_play[] = { argv_text, argv_text + 22, argv_text + 37, NULL };

/* Without asking what is mounted there. */
static bool is_mountpoint(const char *dir)
{
	struct ctl_mount m;

	return ctl_where_find(dir, &m) == 0;
}

/* Lets the process make it, which nobody serves. */
static void start_and_mount(const char *dir)
{
	const struct unmounter_config cfg = {
		dir, "default_permissions,fsname=s:/,subtype=" PACKAGE_NAME,
	};
	struct errbuf eb = { "" };
	int fd;

	CHECK(unmounter_start(&cfg, argv_play, &eb) == 0);
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		_exit(SKIP);
	CHECK(priv_drop(0) == 0);
	fd = unmounter_mount(65536, &eb);
	CHECK(fd >= 0 && !eb.text[0] && is_mountpoint(dir));
	/* Once. */
	CHECK(unmounter_mount(65536, &eb) < 0 && eb.text[0]);
}

static pid_t child(void)
{
	char text[64] = "";
	FILE *f = fopen("/proc/thread-self/children", "r");

	CHECK(f && fgets(text, sizeof(text), f));
	fclose(f);
	return (pid_t)atoi(text);
}

static void unmounts(void)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	char dir[] = "/tmp/unmounter.XXXXXX", path[64], title[128] = "";
	struct stat st;
	int fd, out[2];
	char byte;

	own_mounts();
	CHECK(mkdtemp(dir) && pipe(out) == 0);
	start_and_mount(dir);
	/* It holds nothing open that somebody may read to the end. */
	close(out[1]);
	CHECK(read(out[0], &byte, 1) == 0);
	CHECK(sandbox_enter() == 0);
	for (unsigned i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		signal(sigs[i], SIG_IGN);
	CHECK(umount2(dir, MNT_DETACH) < 0);
	CHECK(is_mountpoint(dir) && unmounter_ask(FS_UNMOUNT_LAZY, -1) == 0 && !is_mountpoint(dir));
	/* It has shown that it is up: so these are from when it was. */
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)child());
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && read(fd, title, sizeof(title) - 1) > 0);
	CHECK(strcmp(title, "nfsrdma-unmount\n") == 0);
	/* The second time there is nothing to unmount. */
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) < 0);
	unmounter_end();
	CHECK(stat(path, &st) < 0 && unmounter_ask(FS_UNMOUNT_LAZY, -1) == -ENOTCONN);
	rmdir(dir);
}

Test(sandbox, the_unmounter_unmounts_when_nobody_else_may)
{
	in_process(unmounts);
}

/* Who waits for a daemon that does not answer is let go first. */
static void aborts(void)
{
	char dir[] = "/tmp/unmounter.XXXXXX";
	struct stat st;
	int status;
	pid_t waits;

	own_mounts();
	CHECK(mkdtemp(dir));
	start_and_mount(dir);
	waits = fork();
	if (!waits)
		_exit(stat(dir, &st) == 0);
	usleep(200000);
	CHECK(waitpid(waits, &status, WNOHANG) == 0);
	CHECK(unmounter_ask(FS_UNMOUNT_ABORT, -1) == 0 && !is_mountpoint(dir));
	CHECK(waitpid(waits, &status, 0) == waits && status == 0);
	unmounter_end();
	rmdir(dir);
}

Test(sandbox, the_unmounter_lets_go_who_waits)
{
	in_process(aborts);
}

/* A user makes a way to a mount that is none of his: above ours. */
static void misled(void)
{
	char dir[] = "/tmp/unmounter.XXXXXX", a[64], b[64], victim[64], at[80], now[80];

	own_mounts();
	CHECK(mkdtemp(dir));
	snprintf(a, sizeof(a), "%s/a", dir);
	snprintf(b, sizeof(b), "%s/b", dir);
	snprintf(victim, sizeof(victim), "%s/root", dir);
	CHECK(mkdir(a, 0700) == 0 && mkdir(victim, 0700) == 0);
	snprintf(at, sizeof(at), "%s/mnt", victim);
	CHECK(mkdir(at, 0700) == 0 && mount("none", at, "tmpfs", 0, NULL) == 0);
	snprintf(now, sizeof(now), "%s/mnt", a);
	CHECK(mkdir(now, 0700) == 0);
	start_and_mount(now);
	CHECK(rename(a, b) == 0 && symlink(victim, a) == 0);
	unmounter_ask(FS_UNMOUNT_LAZY, -1);
	CHECK(is_mountpoint(at));
	snprintf(now, sizeof(now), "%s/mnt", b);
	CHECK(!is_mountpoint(now));
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) == -ENOENT && is_mountpoint(at));
	unmounter_end();
	/* The mount is this namespace's, and goes with it. */
	CHECK(rmdir(now) == 0 && rmdir(b) == 0 && unlink(a) == 0);
}

Test(sandbox, the_unmounter_is_not_misled)
{
	in_process(misled);
}

/* A process that keeps its privileges covers dir at the first byte, and uncovers it at the second. */
static int coverer(const char *dir)
{
	int fds[2];
	char byte;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
	if (fork()) {
		close(fds[1]);
		return fds[0];
	}
	close(fds[0]);
	if (read(fds[1], &byte, 1) == 1 && mount("none", dir, "tmpfs", 0, NULL) == 0 &&
	    write(fds[1], &byte, 1) == 1 && read(fds[1], &byte, 1) == 1 && umount2(dir, 0) == 0)
		byte = (char)write(fds[1], &byte, 1);
	_exit(0);
}

/* Something else is mounted over ours. That is there, too, and has to be named. */
static void covered(void)
{
	char dir[] = "/tmp/unmounter.XXXXXX", byte = 0;
	int other;

	own_mounts();
	CHECK(mkdtemp(dir));
	other = coverer(dir);
	start_and_mount(dir);
	CHECK(write(other, &byte, 1) == 1 && read(other, &byte, 1) == 1);
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) == -EBUSY);
	CHECK(write(other, &byte, 1) == 1 && read(other, &byte, 1) == 1 && is_mountpoint(dir));
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) == 0 && !is_mountpoint(dir));
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) == -ENOENT);
	unmounter_end();
	CHECK(rmdir(dir) == 0);
}

Test(sandbox, the_unmounter_says_that_the_mount_is_covered)
{
	in_process(covered);
}

/* The mount point was a link by then: what was mounted is not where it was to be, and what is
 * where it was to be is not ours. */
static void not_there(void)
{
	char dir[] = "/tmp/unmounter.XXXXXX", real[64], link[64];
	struct unmounter_config cfg = { link, "fsname=s:/,subtype=" PACKAGE_NAME };
	struct errbuf eb = { "" };

	own_mounts();
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		_exit(SKIP);
	CHECK(mkdtemp(dir));
	snprintf(real, sizeof(real), "%s/real", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	CHECK(mkdir(real, 0700) == 0 && symlink(real, link) == 0);
	CHECK(unmounter_start(&cfg, argv_play, &eb) == 0);
	CHECK(unmounter_mount(4096, &eb) >= 0 && strstr(eb.text, "cannot find"));
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) == -ENOENT && is_mountpoint(real));
	unmounter_end();
	CHECK(umount2(real, MNT_DETACH) == 0 && rmdir(real) == 0 && unlink(link) == 0 && rmdir(dir) == 0);
}

Test(sandbox, the_unmounter_leaves_other_mounts_alone)
{
	in_process(not_there);
}

/* Nobody answers what the mount is asked. */
static void resolved(void)
{
	char dir[] = "/tmp/unmounter.XXXXXX", path[64], *at;
	static const char *const ends[] = { "", "/", "/.", "//./" };

	own_mounts();
	CHECK(mkdtemp(dir));
	start_and_mount(dir);
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, ends[i]);
		at = ctl_where_resolve(path);
		CHECK(at && strcmp(at, dir) == 0);
		free(at);
	}
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) == 0);
	unmounter_end();
	rmdir(dir);
}

Test(sandbox, a_mount_is_found_without_asking_it)
{
	in_process(resolved);
}

/* The daemon dies: its control socket goes, too. */
static void dies(void)
{
	char dir[] = "/tmp/unmounter.XXXXXX", name[CTL_NAME_MAX], dirs[CTL_DIRS][CTL_DIR_MAX];
	struct errbuf eb = { "" };
	struct ctl_mount m;
	int fd;

	own_mounts();
	CHECK(mkdtemp(dir) && mount("none", "/run", "tmpfs", 0, NULL) == 0);
	start_and_mount(dir);
	fd = unmounter_control(&eb);
	CHECK(fd >= 0 && unmounter_control(&eb) < 0);
	CHECK(ctl_where_find(dir, &m) == 0);
	ctl_where_dirs(geteuid(), dirs);
	ctl_where_name(dirs[0], &m, name);
	CHECK(access(name, F_OK) == 0);
	unmounter_end();
	CHECK(access(name, F_OK) < 0 && errno == ENOENT);
}

Test(sandbox, the_control_socket_does_not_outlive_the_daemon)
{
	in_process(dies);
}

static void stays(void)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	char dir[] = "/tmp/unmounter.XXXXXX";
	const struct unmounter_config cfg = { dir, "fsname=s:/,subtype=" PACKAGE_NAME };
	struct errbuf eb = { "" };
	pid_t pid;
	int fd;

	CHECK(mkdtemp(dir) && unmounter_start(&cfg, argv_play, &eb) == 0);
	/* Not mounted; but there is an answer, and so somebody there. */
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) < 0 && unmounter_ask(FS_UNMOUNT_LAZY, -1) != -ENOTCONN);
	pid = child();
	for (unsigned i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		CHECK(kill(pid, sigs[i]) == 0);
	CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) < 0 && unmounter_ask(FS_UNMOUNT_LAZY, -1) != -ENOTCONN);
	/* An automount knows by the process group who makes its mount. */
	CHECK(getpgid(pid) == getpgrp());
	fd = unmounter_mount(65536, &eb);
	CHECK(getsid(pid) == pid);
	if (fd >= 0) {
		CHECK(unmounter_ask(FS_UNMOUNT_LAZY, -1) == 0);
		close(fd);
	}
	unmounter_end();
	rmdir(dir);
}

Test(sandbox, the_unmounter_outlives_what_is_meant_for_the_daemon)
{
	in_process(stays);
}
