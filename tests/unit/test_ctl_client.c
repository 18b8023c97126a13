/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command ctl, with a played daemon: whom it believes, and what it says. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/ctl.h"

#define STRANGER 12345
#define MOUNT "\"mountpoint\":\"/usr\",\"source\":\"s:/x\""

static char dir[32], mountinfo[64], sockets[64], name[72], out[65536], err[4096];
static int listener = -1;

/* What the daemon does with each client. */
static struct {
	pthread_t thread;
	bool started;
	const char *reply;      /* NULL: none, until the client goes */
	size_t len;
	bool hangs_up;          /* without a look at the request */
	char request[8192];
	unsigned clients;
} daemon_;

/* Mount points must be there, and are in no file system of ours. */
static void write_mountinfo(uid_t owner)
{
	FILE *f = fopen(mountinfo, "w");

	fprintf(f, "30 1 0:77 / /usr rw - fuse.nfsrdma-fuse s:/x rw,user_id=%u,group_id=0\n"
		"31 1 0:77 / /etc rw - fuse.nfsrdma-fuse s:/x rw,user_id=%u,group_id=0\n"
		"32 1 0:78 / /dev rw - fuse.nfsrdma-fuse s:/x rw,user_id=%u,group_id=0\n"
		"33 1 0:79 / /proc rw - tmpfs tmpfs rw\n", owner, owner, owner);
	fclose(f);
}

static void make_directory(uid_t owner)
{
	snprintf(sockets, sizeof(sockets), owner ? "%s/nfsrdma-fuse-%u" : "%s/nfsrdma-fuse", dir, owner);
	snprintf(name, sizeof(name), "%s/0:77", sockets);
	cr_assert_eq(mkdir(sockets, 0700), 0);
	if (owner != geteuid())
		cr_assert_eq(chown(sockets, owner, owner), 0);
}

static void bind_socket(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", name);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
}

static void serve(int fd)
{
	ssize_t n = 0;

	daemon_.clients++;
	if (!daemon_.hangs_up) {
		n = recv(fd, daemon_.request, sizeof(daemon_.request) - 1, 0);
		daemon_.request[n > 0 ? n : 0] = '\0';
	}
	if (daemon_.reply) {
		for (size_t sent = 0; sent < daemon_.len; sent += (size_t)n) {
			n = send(fd, daemon_.reply + sent, daemon_.len - sent, MSG_NOSIGNAL);
			if (n <= 0)
				break;
		}
	} else if (!daemon_.hangs_up) {
		while (recv(fd, daemon_.request, sizeof(daemon_.request), 0) > 0)
			;
	}
	close(fd);
}

static pthread_mutex_t serving = PTHREAD_MUTEX_INITIALIZER;

static void *daemon_main(void *arg)
{
	int fd;

	(void)arg;
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		pthread_mutex_lock(&serving);
		serve(fd);
		pthread_mutex_unlock(&serving);
	}
	return NULL;
}

/* The client has gone; now the daemon is done with it as well, and may be changed. */
static void served(void)
{
	pthread_mutex_lock(&serving);
	pthread_mutex_unlock(&serving);
}

static void start(void)
{
	cr_assert_eq(listen(listener, 8), 0);
	cr_assert_eq(pthread_create(&daemon_.thread, NULL, daemon_main, NULL), 0);
	daemon_.started = true;
}

static void setup(void)
{
	strcpy(dir, "/tmp/ctlc.XXXXXX");
	cr_assert(mkdtemp(dir));
	snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", dir);
	ctl_mountinfo = mountinfo;
	ctl_roots = (struct ctl_roots){ .run = dir, .run_user = "/nowhere", .tmp = dir };
	write_mountinfo(geteuid());
}

static void teardown(void)
{
	if (listener >= 0)
		shutdown(listener, SHUT_RDWR);
	if (daemon_.started)
		pthread_join(daemon_.thread, NULL);
	unlink(name);
	rmdir(sockets);
	unlink(sockets);
	unlink(mountinfo);
	cr_assert_eq(rmdir(dir), 0, "something is left in %s", dir);
}

TestSuite(ctl_client, .init = setup, .fini = teardown, .timeout = 60);

static void reply_with(const char *text)
{
	served();
	daemon_.reply = text;
	daemon_.len = strlen(text);
}

/* A daemon that gives everybody this reply. */
static void start_with(const char *text)
{
	make_directory(geteuid());
	bind_socket();
	if (text)
		reply_with(text);
	start();
}

static void slurp(int fd, char *to, size_t size)
{
	ssize_t n = pread(fd, to, size - 1, 0);

	to[n > 0 ? n : 0] = '\0';
}

/* Runs the command with these words; what it has printed is in out and err. */
static int run(const char *word, ...)
{
	char *argv[16] = { (char *)(uintptr_t)"ctl" };
	FILE *o = tmpfile(), *e = tmpfile();
	int argc = 1, status, old_out = dup(1), old_err = dup(2);
	va_list ap;

	va_start(ap, word);
	for (; word; word = va_arg(ap, const char *))
		argv[argc++] = (char *)(uintptr_t)word;
	va_end(ap);
	fflush(stdout);
	dup2(fileno(o), 1);
	dup2(fileno(e), 2);
	status = ctl_main(argc, argv);
	fflush(stdout);
	slurp(1, out, sizeof(out));
	slurp(2, err, sizeof(err));
	dup2(old_out, 1);
	dup2(old_err, 2);
	close(old_out);
	close(old_err);
	fclose(o);
	fclose(e);
	return status;
}

#define expect_status(want, part, ...) \
	do { \
		int status_ = run(__VA_ARGS__, NULL); \
		cr_assert_eq(status_, want, "%d: %s", status_, err); \
		cr_assert(strstr(err, part), "'%s' is not in: %s", part, err); \
	} while (0)

/* ---- which mount ---- */

Test(ctl_client, no_mount)
{
	expect_status(CTL_GONE, "nothing is mounted on '/run'", "/run/", "paths");
	expect_status(CTL_GONE, "not of type fuse.nfsrdma-fuse", "/proc", "paths");
	expect_status(CTL_GONE, "No such file", "/no/such/mount", "paths");
	expect_status(CTL_GONE, "there is no control socket", "/usr", "paths");
	cr_assert_str_eq(out, "");
}

Test(ctl_client, daemon_is_gone)
{
	make_directory(geteuid());
	expect_status(CTL_GONE, "there is no control socket", "/usr", "paths");
	bind_socket();
	expect_status(CTL_GONE, "the daemon of '/usr' has ended", "/usr", "paths");
}

static void *comes_late(void *aside)
{
	usleep(300000);
	rename(aside, sockets);
	return NULL;
}

/* A mount is seen before its socket. */
Test(ctl_client, daemon_is_not_ready)
{
	char aside[80];
	pthread_t late;

	start_with("{" MOUNT ",\"policy\":\"min-latency\",\"paths\":[{\"id\":3,\"server\":\"10.0.0.1\"}]}\n");
	snprintf(aside, sizeof(aside), "%s.aside", sockets);
	cr_assert_eq(rename(sockets, aside), 0);
	cr_assert_eq(pthread_create(&late, NULL, comes_late, aside), 0);
	expect_status(CTL_OK, "", "/usr", "paths");
	cr_assert(strstr(out, "10.0.0.1"), "%s", out);
	pthread_join(late, NULL);
}

/* Meanwhile another user has the place where it could be, too. */
Test(ctl_client, daemon_is_not_ready_and_the_other_place_is_a_strangers)
{
	char aside[80], other[80];
	pthread_t late;

	if (geteuid() != 0)
		cr_skip_test("only root has two places here");
	start_with("{" MOUNT ",\"policy\":\"min-latency\",\"paths\":[{\"id\":3,\"server\":\"10.0.0.1\"}]}\n");
	snprintf(aside, sizeof(aside), "%s.aside", sockets);
	cr_assert_eq(rename(sockets, aside), 0);
	snprintf(other, sizeof(other), "%s/nfsrdma-fuse-0", dir);
	cr_assert(mkdir(other, 0700) == 0 && chown(other, STRANGER, STRANGER) == 0);
	expect_status(CTL_GONE, "is another user's directory", "/usr", "paths");
	cr_assert_eq(pthread_create(&late, NULL, comes_late, aside), 0);
	expect_status(CTL_OK, "", "/usr", "paths");
	pthread_join(late, NULL);
	rmdir(other);
}

Test(ctl_client, reply_is_shown)
{
	start_with("{" MOUNT ",\"policy\":\"min-latency\",\"paths\":[{\"id\":3,\"server\":\"10.0.0.1\"}]}\n");
	expect_status(CTL_OK, "", "/usr", "paths");
	cr_assert(strstr(out, "10.0.0.1"), "%s", out);
	cr_assert_str_eq(daemon_.request, "{\"command\":\"paths\"}\n");
	expect_status(CTL_OK, "", "/etc", "policy", "min-latency");
	cr_assert_str_eq(out, "min-latency\n");
	cr_assert_str_eq(daemon_.request, "{\"command\":\"policy\",\"policy\":\"min-latency\"}\n");
	expect_status(CTL_OK, "", "/usr", "paths", "--json");
	cr_assert_str_eq(out, "{" MOUNT ",\"policy\":\"min-latency\",\"paths\":[{\"id\":3,\"server\":\"10.0.0.1\"}]}\n");
}

Test(ctl_client, requests)
{
	start_with("{" MOUNT ",\"paths\":[],\"stats\":{\"a\":1,\"b\":18446744073709551615}}\n");
	expect_status(CTL_OK, "", "/usr", "add-path", "[fe80::1%lo]", "--port", "7", "--local", "eth0");
	cr_assert_str_eq(daemon_.request, "{\"command\":\"add-path\",\"server\":\"fe80::1%lo\",\"local\":\"eth0\","
			 "\"port\":7}\n");
	expect_status(CTL_OK, "", "/usr", "remove-path", "--force", "10.0.0.1");
	cr_assert_str_eq(daemon_.request, "{\"command\":\"remove-path\",\"path\":\"10.0.0.1\",\"force\":true}\n");
	expect_status(CTL_OK, "", "/usr", "reconnect", "all");
	cr_assert_str_eq(daemon_.request, "{\"command\":\"reconnect\",\"path\":\"all\"}\n");
	expect_status(CTL_OK, "", "/usr", "stats");
	cr_assert_str_eq(out, "a 1\nb 18446744073709551615\n");
}

Test(ctl_client, top)
{
	start_with("{" MOUNT ",\"policy\":\"p\",\"paths\":[],\"stats\":{\"rpc.calls\":1}}\n");
	expect_status(CTL_OK, "", "/usr", "top", "--count", "2", "--interval", "0.1");
	cr_assert(strstr(out, "0 calls/s") && strstr(strstr(out, "0 calls/s") + 1, "0 calls/s"), "%s", out);
	cr_assert_null(strchr(out, '\033'));
	cr_assert_eq(daemon_.clients, 4, "the statistics three times, and the log");
	cr_assert(strstr(out, "files and processes are not seen: the daemon of '/usr' has ended\n"), "%s", out);
	expect_status(CTL_OK, "", "/usr", "top", "--count", "1", "--interval", "0.1", "--json");
	cr_assert(strstr(out, "\"calls\":0.000"), "%s", out);
}

Test(ctl_client, usage)
{
	expect_status(CTL_USAGE, "usage:", NULL);
	expect_status(CTL_USAGE, "usage:", "/usr");
	expect_status(CTL_USAGE, "there is no command 'x'", "/usr", "x");
	expect_status(CTL_USAGE, "one argument too many", "/usr", "paths", "x");
	expect_status(CTL_USAGE, "one argument too many", "/usr", "remove-path", "1", "2");
	expect_status(CTL_USAGE, "add-path needs an argument", "/usr", "add-path");
	expect_status(CTL_USAGE, "--port is not for paths", "/usr", "paths", "--port", "1");
	expect_status(CTL_USAGE, "--force is not for top", "/usr", "top", "--force");
	expect_status(CTL_USAGE, "--port needs a value", "/usr", "add-path", "x", "--port");
	expect_status(CTL_USAGE, "'-1' is not a number", "/usr", "add-path", "x", "--port", "-1");
	expect_status(CTL_USAGE, "not a number", "/usr", "add-path", "x", "--port", "65536");
	expect_status(CTL_USAGE, "not a number", "/usr", "top", "--count", "0");
	expect_status(CTL_USAGE, "not a time", "/usr", "top", "--interval", "0");
	expect_status(CTL_USAGE, "not a time", "/usr", "top", "--interval", "nan");
	expect_status(CTL_USAGE, "not a time", "/usr", "top", "--interval", "1x");
	expect_status(CTL_USAGE, "'--x' is not known", "/usr", "paths", "--x");
	expect_status(CTL_USAGE, "'-xy' is not known", "/usr", "paths", "-xy");
	expect_status(CTL_OK, "", "-h");
	expect_status(CTL_OK, "", "--help");
	cr_assert(strstr(out, "reconnect ID|ADDRESS|all"), "%s", out);
}

/* ---- what the daemon says ---- */

Test(ctl_client, refusal)
{
	start_with("{" MOUNT ",\"error\":\"no\\u001b[2J \\u009b\"}\n");
	expect_status(CTL_REFUSED, "ctl: no?[2J ??\n", "/usr", "paths");
	cr_assert_str_eq(out, "");
	expect_status(CTL_REFUSED, "ctl: no?[2J ??\n", "/usr", "paths", "--json");
	cr_assert_str_eq(out, "{" MOUNT ",\"error\":\"no\\u001b[2J ??\"}\n");
}

Test(ctl_client, turned_away)
{
	daemon_.hangs_up = true;
	start_with("{\"error\":\"too many control connections\"}\n");
	for (int i = 0; i < 20; i++)
		expect_status(CTL_REFUSED, "too many control connections", "/usr", "stats");
}

/* What a daemon says does not keep its mount. Here none is mounted, so none can be unmounted. */
Test(ctl_client, abort_that_is_refused)
{
	start_with("{" MOUNT ",\"error\":\"no\"}\n");
	expect_status(CTL_REFUSED, "no; cannot unmount '/usr': ", "/usr", "abort");
	reply_with("{\"error\":\"too many control connections\"}\n");
	expect_status(CTL_REFUSED, "too many control connections; cannot unmount '/usr': ", "/usr", "abort");
}

Test(ctl_client, another_mounts_daemon)
{
	start_with("{\"mountpoint\":\"/dev\",\"source\":\"s:/x\",\"paths\":[]}\n");
	expect_status(CTL_GONE, "serves '/dev': not used", "/usr", "paths");
	cr_assert_str_eq(out, "");
	reply_with("{\"mountpoint\":\"/dev\",\"error\":\"x\"}\n");
	expect_status(CTL_GONE, "serves '/dev': not used", "/usr", "paths", "--json");
	cr_assert_str_eq(out, "");
	reply_with("{\"paths\":[]}\n");
	expect_status(CTL_GONE, "serves '': not used", "/usr", "paths");
}

Test(ctl_client, no_reply)
{
	static const char *const bad[] = { "\n", "x\n", "[]\n", "{" MOUNT "\n", "null\n", "7\n" };

	start_with("");
	expect_status(CTL_GONE, "has ended", "/usr", "paths");
	reply_with("{" MOUNT "}");
	expect_status(CTL_GONE, "has ended", "/usr", "paths");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reply_with(bad[i]);
		expect_status(CTL_GONE, "not a daemon of this program", "/usr", "paths");
	}
	served();
	daemon_.hangs_up = true;
	daemon_.reply = NULL;
	expect_status(CTL_GONE, "has ended", "/usr", "paths");
	served();
	daemon_.hangs_up = false;
	ctl_answer_s = 1;
	expect_status(CTL_GONE, "has not answered for 1 s", "/usr", "paths");
}

Test(ctl_client, endless_reply)
{
	char *text = malloc(2 * CTL_REPLY_MAX);

	memset(text, ' ', 2 * CTL_REPLY_MAX);
	text[2 * CTL_REPLY_MAX - 1] = '\0';
	start_with(text);
	expect_status(CTL_GONE, "Message too long", "/usr", "paths");
	served();
	free(text);
}

/* ---- whose socket ---- */

/* Somebody else listens there, and nothing is sent. */
static void stranger_listens(uid_t stranger)
{
	pid_t pid;
	int ready[2], status;
	char byte = 0;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int fd;

		if (setuid(stranger) || listen(listener, 8) || write(ready[1], &byte, 1) != 1)
			_exit(2);
		fd = accept(listener, NULL, NULL);
		_exit(recv(fd, &byte, 1, 0) == 0 ? 0 : 1);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	expect_status(CTL_GONE, "is served by uid 12345", "/usr", "paths");
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x: it was sent something",
		  (unsigned)status);
	close(ready[0]);
	close(ready[1]);
}

Test(ctl_client, strangers_socket)
{
	if (geteuid() != 0)
		cr_skip_test("only root can be somebody else");
	make_directory(0);
	bind_socket();
	stranger_listens(STRANGER);
}

/* The user's mount: the socket is that of the user, or of root, and of nobody else. */
Test(ctl_client, users_mount)
{
	if (geteuid() != 0)
		cr_skip_test("only root can be somebody else");
	write_mountinfo(4711);
	make_directory(4711);
	bind_socket();
	stranger_listens(STRANGER);
	reply_with("{" MOUNT ",\"paths\":[]}\n");
	start();
	expect_status(CTL_OK, "", "/usr", "paths");
}

Test(ctl_client, strangers_directory)
{
	make_directory(geteuid());
	chmod(sockets, 0755);
	expect_status(CTL_GONE, "is open to other users", "/usr", "paths");
	rmdir(sockets);
	cr_assert_eq(symlink(dir, sockets), 0);
	expect_status(CTL_GONE, "is not a directory", "/usr", "paths");
}

Test(ctl_client, not_the_owner)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip_test("only root can be somebody else");
	chmod(dir, 0755);
	chmod(mountinfo, 0644);
	pid = fork();
	if (pid == 0)
		_exit(setuid(STRANGER) ? 99 : run("/usr", "paths", NULL));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == CTL_REFUSED, "%x", (unsigned)status);
}
