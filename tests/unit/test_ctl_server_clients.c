/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clients of the control socket that say nonsense, take their time, come in crowds, or are
 * strangers. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/loop.h"
#include "ctl/proto.h"
#include "ctl_play.h"

#define STRANGER 12345

TestSuite(ctl_clients, .init = ctl_play_begin, .fini = ctl_play_end, .timeout = 120);

/* ---- bad clients ---- */

Test(ctl_clients, bad_lines)
{
	static const struct {
		const char *line, *part;
	} bad[] = {
		{ "", "not complete" },
		{ "{", "not complete" },
		{ "{\"command\":\"paths\"", "not complete" },
		{ "paths", "not a JSON object" },
		{ "[]", "not a JSON object" },
		{ "null", "JSON object" },
		{ "\"paths\"", "not a JSON object" },
		{ "{\"command\":\"paths\"} {}", "not a JSON object" },
		{ "{\"command\":\"paths\"}x", "not a JSON object" },
		{ "{'command':'paths'}", "not a JSON object" },
		{ "{}", "\"command\" is missing" },
		{ "{\"command\":7}", "\"command\" must be a string" },
		{ "{\"command\":null}", "\"command\" must be a string" },
		{ "{\"command\":\"\"}", "not empty" },
		{ "{\"command\":\"umount\"}", "there is no command \"umount\"" },
		{ "{\"command\":\"paths\\u0000\"}", "has a NUL" },
		{ "{\"command\":\"p\\u001b[2J\"}", "printable ASCII" },
		{ "{\"command\":\"\xff\"}", "bytes that are not UTF-8, at byte 12" },
		{ "{\"command\":\"remount\",\"options\":\"stats=/\xe9\"}", "bytes that are not UTF-8" },
		{ "{\"command\":\"remount\",\"options\":\"ro\\u0000rw\"}", "\"options\" has a NUL" },
		{ "{\"command\":\"remount\",\"options\":\"\"}", "not empty" },
		{ "{\"command\":\"remount\",\"options\":7}", "must be a string" },
		{ "{\"command\":\"remount\"}", "remount needs \"options\"" },
		{ "{\"command\":{\"command\":\"paths\"}}", "not a JSON object" },
		{ "{\"command\":[[[[[[[[\"paths\"]]]]]]]]}", "not a JSON object" },
		{ "{\"command\":\"paths\",\"server\":\"10.0.0.1\"}", "paths has no member \"server\"" },
		{ "{\"command\":\"paths\",\"\\u001b\":1}", "paths has no member \"?\"" },
		{ "{\"command\":\"add-path\"}", "add-path needs \"server\"" },
		{ "{\"command\":\"add-path\",\"server\":null}", "\"server\" must be a string" },
		{ "{\"command\":\"add-path\",\"server\":[]}", "\"server\" must be a string" },
		{ "{\"command\":\"add-path\",\"server\":\"1\",\"port\":\"1\"}", "from 1 to 65535" },
		{ "{\"command\":\"add-path\",\"server\":\"1\",\"port\":0}", "from 1 to 65535" },
		{ "{\"command\":\"add-path\",\"server\":\"1\",\"port\":65536}", "from 1 to 65535" },
		{ "{\"command\":\"add-path\",\"server\":\"1\",\"port\":4294967297}", "from 1 to 65535" },
		{ "{\"command\":\"add-path\",\"server\":\"1\",\"port\":1.5}", "from 1 to 65535" },
		{ "{\"command\":\"remove-path\"}", "remove-path needs \"path\"" },
		{ "{\"command\":\"remove-path\",\"path\":0}", "\"path\" must be a string" },
		{ "{\"command\":\"remove-path\",\"path\":\"0\",\"force\":1}", "true or false" },
		{ "{\"command\":\"reconnect\"}", "reconnect needs \"path\"" },
		{ "{\"command\":\"add-path\",\"server\":\"1234567890123456789012345678901234567890"
		  "1234567890123456789012345678901234567890\"}", "longer than 79 bytes" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_error(bad[i].line, bad[i].part);
	cr_assert_eq(fake_paths.adds + fake_paths.removes + fake_paths.reconnects, 0);
	cr_assert_null(ctl_play.remounted);
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

Test(ctl_clients, nul_in_the_line)
{
	int fd = dial();

	say(fd, "{\"command\":\"paths\"}\0{}\n", 23);
	expect_error_at(fd, "has a NUL");
}

Test(ctl_clients, long_lines)
{
	static char line[CTL_LINE_MAX + 1];
	int fd = dial();

	memset(line, ' ', sizeof(line));
	memcpy(line, "{\"command\":\"paths\"}", 19);
	line[CTL_LINE_MAX - 1] = '\n';
	say(fd, line, CTL_LINE_MAX);
	cr_assert_eq(expect_paths_at(fd), 1);
	line[CTL_LINE_MAX - 1] = ' ';
	line[CTL_LINE_MAX] = '\n';
	fd = dial();
	say(fd, line, CTL_LINE_MAX + 1);
	expect_error_at(fd, "longer than 1048576 bytes");
}

static int remount_with(const char *options)
{
	struct json_object *q = json_object_new_object();
	int fd = dial();

	ctl_add_text(q, "command", "remount");
	ctl_add_text(q, "options", options);
	say_line(fd, json_object_to_json_string(q));
	json_object_put(q);
	return fd;
}

static void expect_remount(const char *options)
{
	struct json_object *o = hear(remount_with(options));

	cr_assert_str_eq(text_in(o, "error"), "");
	cr_assert_str_eq(ctl_play.remounted, options);
	json_object_put(o);
}

/* mount(8) hands on all that the mount was made with. */
Test(ctl_clients, options_are_any_text)
{
	static char options[CTL_OPTIONS_MAX + 1];

	expect_remount("ro,stats=/var/log/nfs stats,fsname=gr\xc3\xbc\xc3\x9f\n\t\"\\/\x7f\x01");
	/* The longest list, of what takes the most room in JSON. */
	memset(options, 1, CTL_OPTIONS_MAX - 1);
	expect_remount(options);
	options[CTL_OPTIONS_MAX - 1] = 'x';
	expect_error_at(remount_with(options), "\"options\" is longer than 131071 bytes");
}

Test(ctl_clients, line_in_pieces)
{
	static const char line[] = "{\"command\":\"paths\"}\nand more";
	int fd = dial();

	for (size_t i = 0; i < 20; i++) {
		say(fd, line + i, 1);
		usleep(2000);
	}
	cr_assert_eq(expect_paths_at(fd), 1);
	fd = dial();
	say(fd, line, sizeof(line) - 1);
	cr_assert_eq(expect_paths_at(fd), 1);
}

Test(ctl_clients, half_a_line)
{
	unsigned before = descriptors();
	int fd = dial();

	say(fd, "{\"command\":", 11);
	shutdown(fd, SHUT_WR);
	expect_error_at(fd, "a newline is missing");
	fd = dial();
	say(fd, "{\"command\":", 11);
	close(fd);
	close(dial());
	expect_descriptors(before);
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

Test(ctl_clients, no_line_in_time)
{
	uint64_t begin = mono_ns();
	int fd, fd2;

	ctl_line_ms = 200;
	fd = dial();
	fd2 = dial();
	/* One that sends a little now and then has no more time. */
	for (int i = 0; i < 5; i++) {
		say(fd2, "{", 1);
		usleep(30000);
	}
	expect_error_at(fd, "no line came within 200 ms");
	expect_error_at(fd2, "no line came within 200 ms");
	cr_assert_lt(mono_ns() - begin, 2000000000ull);
}

Test(ctl_clients, long_reply_is_taken_slowly)
{
	struct json_object *o;
	int fd;

	/* The time for the reply begins when the line is there. */
	ctl_line_ms = 3000;
	fd = dial();
	usleep(1800000);
	ctl_play.stat_lines = 50000;
	say_line(fd, "{\"command\":\"stats\"}");
	usleep(1800000);
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
	o = hear(fd);
	cr_assert_eq(json_object_get_uint64(in(in(o, "stats"), "line.49999")), 49999);
	json_object_put(o);
}

Test(ctl_clients, long_reply_is_not_taken)
{
	unsigned before = descriptors();
	char byte[4096];
	ssize_t n, sum = 0;
	int fd;

	ctl_line_ms = 300;
	ctl_play.stat_lines = 50000;
	fd = dial();
	say_line(fd, "{\"command\":\"stats\"}");
	cr_assert_eq(recv(fd, byte, 1, MSG_PEEK), 1);
	expect_descriptors(before + 1);
	while ((n = recv(fd, byte, sizeof(byte), 0)) > 0)
		sum += n;
	cr_assert(sum > 0 && byte[0], "it is cut");
	close(fd);
}

/* ---- crowds ---- */

Test(ctl_clients, one_too_many)
{
	unsigned before = descriptors();
	int fd[CTL_CLIENTS];

	for (unsigned i = 0; i < CTL_CLIENTS; i++)
		fd[i] = dial();
	expect_error_at(dial(), "too many control connections");
	say_line(fd[7], "{\"command\":\"paths\"}");
	cr_assert_eq(expect_paths_at(fd[7]), 1);
	fd[7] = dial();
	expect_error_at(dial(), "too many control connections");
	for (unsigned i = 0; i < CTL_CLIENTS; i++)
		close(fd[i]);
	expect_descriptors(before);
}

#define CROWD 1000

Test(ctl_clients, crowd)
{
	struct rlimit rl;
	unsigned before = descriptors(), answers = 0, refused = 0;
	int fd[CROWD];

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl) < 0 || rl.rlim_max < 2 * CROWD + 100)
		cr_skip_test("no %d files here", 2 * CROWD + 100);
	for (unsigned i = 0; i < CROWD; i++)
		fd[i] = dial();
	for (unsigned i = 0; i < CROWD; i++)
		say_line(fd[i], "{\"command\":\"paths\"}");
	for (unsigned i = 0; i < CROWD; i++) {
		struct json_object *o = hear(fd[i]);

		if (*text_in(o, "error")) {
			cr_assert_str_eq(text_in(o, "error"), "too many control connections");
			refused++;
		} else {
			cr_assert_eq(json_object_array_length(in(o, "paths")), 1);
			answers++;
		}
		json_object_put(o);
	}
	cr_assert_geq(answers, CTL_CLIENTS);
	cr_assert_eq(answers + refused, CROWD);
	expect_descriptors(before);
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

/* The daemon has no descriptor for the next client, and does not turn in circles meanwhile. */
Test(ctl_clients, no_descriptors)
{
	struct timespec cpu, cpu2;
	struct rlimit rl, old;
	int fd = dial(), spare[64];
	unsigned n = 0;

	say_line(fd, "{\"command\":\"paths\"}");
	cr_assert_eq(expect_paths_at(fd), 1);
	getrlimit(RLIMIT_NOFILE, &old);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rl = old;
	rl.rlim_cur = (rlim_t)fd + 1;
	setrlimit(RLIMIT_NOFILE, &rl);
	while (n < 64 && (spare[n] = dup(0)) >= 0)
		n++;
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", ctl_play.socket);
	cr_assert_eq(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	say_line(fd, "{\"command\":\"paths\"}");
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	cr_assert(is_silent(fd));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu2);
	cr_assert_lt((cpu2.tv_sec - cpu.tv_sec) * 1000 + (cpu2.tv_nsec - cpu.tv_nsec) / 1000000, 75,
		     "it turns in circles");
	while (n)
		close(spare[--n]);
	setrlimit(RLIMIT_NOFILE, &old);
	cr_assert_eq(expect_paths_at(fd), 1);
}

/* ---- who may ---- */

Test(ctl_clients, modes)
{
	struct stat st;

	cr_assert_eq(stat(ctl_play.socket, &st), 0);
	cr_assert(S_ISSOCK(st.st_mode) && (st.st_mode & 07777) == 0600);
	cr_assert_eq(stat(ctl_play.sockets, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
}

/* Somebody has opened the directory and the socket for all. */
Test(ctl_clients, stranger_is_refused)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip_test("only root can be somebody else");
	chmod(ctl_play.dir, 0755);
	chmod(ctl_play.sockets, 0755);
	chmod(ctl_play.socket, 0666);
	pid = fork();
	if (pid == 0) {
		char text[256] = "";
		int fd;

		if (setuid(STRANGER))
			_exit(2);
		fd = dial();
		say_line(fd, "{\"command\":\"remove-path\",\"path\":\"0\",\"force\":true}");
		_exit(recv(fd, text, sizeof(text) - 1, 0) > 0 && strstr(text, "permission denied") &&
		      !strstr(text, "/mnt") ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", (unsigned)status);
	cr_assert_eq(fake_paths.removes, 0);
}
