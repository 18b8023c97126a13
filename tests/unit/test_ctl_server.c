/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's side of the control socket: played clients, and played paths. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/loop.h"
#include "ctl/ctl.h"
#include "ctl/where.h"
#include "fake_paths.h"

#define STRANGER 12345

static char dir[32], mountinfo[64], sockets[64], name[72];
static struct nfs_client client;
static struct ctl *ctl;
static struct errbuf eb;
static unsigned stat_lines;

static int make_path(struct rr_path *out, const struct nfs_config *cfg, const char *server,
		     const char *local, unsigned port, struct errbuf *why)
{
	static char text[80];

	cr_assert_eq(cfg, &client.cfg);
	if (strcmp(server, "bad") == 0)
		return err_set(why, -EINVAL, "'bad' is not an address (local %s, port %u)",
			       local ? local : "any", port);
	snprintf(text, sizeof(text), "%s", server);
	out->params.hint = text;
	return 0;
}

static void print_stats(FILE *f, const void *arg)
{
	cr_assert_eq(arg, &client);
	fprintf(f, "rpc.calls 18446744073709551615\n");
	for (unsigned i = 0; i < stat_lines; i++)
		fprintf(f, "line.%u %u\n", i, i);
	ctl_print_paths(f, &client);
}

static const struct ctl_config config = {
	.client = &client, .mountpoint = "/mnt/a", .source = "server:/x", .make_path = make_path,
	.print_stats = print_stats, .arg = &client,
};

static void start(void)
{
	cr_assert_eq(ctl_new(&config, &ctl, &eb), 0, "%s", eb.text);
	cr_assert_eq(ctl_listen(ctl, &eb), 0, "%s", eb.text);
}

static void write_mountinfo(const char *type, uid_t owner)
{
	FILE *f = fopen(mountinfo, "w");

	fprintf(f, "30 1 0:77 / /mnt/a rw - %s s:/x rw,user_id=%u,group_id=0\n"
		"31 1 0:78 / /mnt/b rw - %s s:/x rw,user_id=%u,group_id=0\n", type, owner, type, owner);
	fclose(f);
}

static void setup(void)
{
	log_set_level(LOG_LVL_ERR);
	strcpy(dir, "/tmp/ctl.XXXXXX");
	cr_assert(mkdtemp(dir));
	/* A path in that directory is closed to strangers until a test opens it. */
	snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", dir);
	write_mountinfo("fuse.nfsrdma-fuse", geteuid());
	ctl_mountinfo = mountinfo;
	ctl_roots = (struct ctl_roots){ .run = dir, .run_user = "/nowhere", .tmp = dir };
	if (geteuid() == 0)
		snprintf(sockets, sizeof(sockets), "%s/nfsrdma-fuse", dir);
	else
		snprintf(sockets, sizeof(sockets), "%s/nfsrdma-fuse-%u", dir, geteuid());
	snprintf(name, sizeof(name), "%s/0:77", sockets);
	fake_paths.added = NFS_PATH_CONNECTING;
	fake_path_put(0, NFS_PATH_CONNECTED, "10.0.0.1");
	start();
}

static void teardown(void)
{
	ctl_free(ctl);
	cr_assert(access(sockets, F_OK) < 0, "the directory of the socket is left");
	unlink(mountinfo);
	cr_assert_eq(rmdir(dir), 0, "something is left in %s", dir);
}

TestSuite(ctl_server, .init = setup, .fini = teardown, .timeout = 120);

/* ---- clients ---- */

static int dial(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", name);
	cr_assert_eq(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0, "%s", strerror(errno));
	return fd;
}

static void say(int fd, const void *text, size_t len)
{
	send(fd, text, len, MSG_NOSIGNAL);
}

static void say_line(int fd, const char *text)
{
	say(fd, text, strlen(text));
	say(fd, "\n", 1);
}

/* All that comes until the end, which has to be one line, parsed. */
static struct json_object *hear(int fd)
{
	size_t size = 1 << 22, len = 0;
	char *text = malloc(size);
	struct json_object *o;
	ssize_t n;

	while ((n = recv(fd, text + len, size - 1 - len, 0)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	cr_assert(len && strchr(text, '\n') == text + len - 1, "'%s'", text);
	o = json_tokener_parse(text);
	cr_assert(o, "%s", text);
	free(text);
	return o;
}

static const char *text_in(struct json_object *o, const char *member)
{
	struct json_object *v;

	return json_object_object_get_ex(o, member, &v) ? json_object_get_string(v) : "";
}

static struct json_object *in(struct json_object *o, const char *member)
{
	struct json_object *v = NULL;

	json_object_object_get_ex(o, member, &v);
	return v;
}

static struct json_object *ask(const char *request)
{
	int fd = dial();

	say_line(fd, request);
	return hear(fd);
}

static void expect_error_at(int fd, const char *part)
{
	struct json_object *o = hear(fd);

	cr_assert(*text_in(o, "error") && strstr(text_in(o, "error"), part), "'%s' is not in: %s", part,
		  json_object_to_json_string(o));
	json_object_put(o);
}

static void expect_error(const char *request, const char *part)
{
	int fd = dial();

	say_line(fd, request);
	expect_error_at(fd, part);
}

/* Asks for something that has no error. Returns how many paths the reply has. */
static size_t expect_paths_at(int fd)
{
	struct json_object *o = hear(fd);
	size_t n;

	cr_assert_str_eq(text_in(o, "error"), "");
	cr_assert_str_eq(text_in(o, "mountpoint"), "/mnt/a");
	cr_assert_str_eq(text_in(o, "source"), "server:/x");
	n = json_object_array_length(in(o, "paths"));
	json_object_put(o);
	return n;
}

static size_t expect_paths(const char *request)
{
	int fd = dial();

	say_line(fd, request);
	return expect_paths_at(fd);
}

static bool is_silent(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 150) == 0;
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* The daemon closes its ends a little later than the clients notice. */
static void expect_descriptors(unsigned n)
{
	for (int i = 0; i < 500 && descriptors() != n; i++)
		usleep(10000);
	cr_assert_eq(descriptors(), n, "%u files are open, %u were", descriptors(), n);
}

/* ---- replies ---- */

Test(ctl_server, paths_are_listed)
{
	struct json_object *o, *p;

	fake_path_put(3, NFS_PATH_RECONNECTING, "::1");
	fake_path_set(3, NFS_PATH_RECONNECTING, "no \"route\"\n\033[2J");
	fake_paths.path[3].calls = UINT64_MAX;
	fake_paths.path[3].histogram[RR_LATENCY_BUCKETS - 1] = 7;
	o = ask("{\"command\":\"paths\"}");
	cr_assert_eq(json_object_array_length(in(o, "paths")), 2);
	cr_assert_str_eq(text_in(o, "policy"), "min-inflight");
	p = json_object_array_get_idx(in(o, "paths"), 1);
	cr_assert_eq(json_object_get_int(in(p, "id")), 3);
	cr_assert_str_eq(text_in(p, "state"), "reconnecting");
	cr_assert_str_eq(text_in(p, "server"), "::1");
	cr_assert_str_eq(text_in(p, "why"), "no \"route\"\n\033[2J");
	cr_assert_eq(json_object_get_uint64(in(p, "calls")), UINT64_MAX);
	cr_assert_eq(json_object_get_uint64(json_object_array_get_idx(in(p, "histogram"),
								      RR_LATENCY_BUCKETS - 1)), 7);
	json_object_put(o);
}

Test(ctl_server, stats_are_an_object)
{
	struct json_object *o, *s;

	fake_paths.path[0].histogram[0] = 5;
	fake_paths.path[0].histogram[3] = 6;
	o = ask("{\"command\":\"stats\"}");
	s = in(o, "stats");
	cr_assert_eq(json_object_get_uint64(in(s, "rpc.calls")), UINT64_MAX);
	cr_assert_eq(json_object_get_uint64(in(s, "path.0.wanted")), 2);
	cr_assert_eq(json_object_get_uint64(in(s, "path.0.from_us.0")), 5);
	cr_assert_eq(json_object_get_uint64(in(s, "path.0.from_us.8")), 6);
	cr_assert_eq(json_object_array_length(in(o, "paths")), 1);
	json_object_put(o);
}

Test(ctl_server, policy_is_shown_and_set)
{
	struct json_object *o = ask("{\"command\":\"policy\",\"policy\":\"min-latency\"}");

	cr_assert_str_eq(text_in(o, "policy"), "min-latency");
	cr_assert_eq(fake_paths.policy, RR_MIN_LATENCY);
	json_object_put(o);
	expect_error("{\"command\":\"policy\",\"policy\":\"best\"}", "round-robin");
	o = ask("{\"command\":\"policy\"}");
	cr_assert_str_eq(text_in(o, "policy"), "min-latency");
	json_object_put(o);
}

/* ---- add-path ---- */

Test(ctl_server, add_waits_and_others_do_not)
{
	int fd = dial();

	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.1\",\"port\":20049}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	cr_assert(is_silent(fd));
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 2);
	expect_error("{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}", "path 1 has these addresses");
	fake_path_set(1, NFS_PATH_CONNECTED, "");
	cr_assert_eq(expect_paths_at(fd), 1, "the reply has the path that was added");
	cr_assert_eq(fake_paths.removes, 0);
}

Test(ctl_server, refused_path_is_removed)
{
	int fd = dial();

	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	fake_path_set(1, NFS_PATH_REFUSED, "it is another server");
	expect_error_at(fd, "it is another server");
	cr_assert(fake_path_await(1, NFS_PATH_NONE));
	cr_assert_eq(fake_paths.forced, 0);
}

Test(ctl_server, silent_path_is_removed)
{
	ctl_wait_ms = 200;
	expect_error("{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}", "does not answer");
	cr_assert(fake_path_await(1, NFS_PATH_NONE));
	cr_assert_eq(fake_paths.forced, 0);
	fake_path_set(0, NFS_PATH_CONNECTED, "");
}

/* It gets its connection after the look that finds it too late, and has become the last one. */
Test(ctl_server, path_that_comes_at_the_last_moment_stays)
{
	ctl_wait_ms = 100;
	fake_paths.busy = true;
	cr_assert_eq(expect_paths("{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}"), 1);
	cr_assert_eq(fake_paths.removes, 1);
	cr_assert_eq(fake_paths.path[1].state, NFS_PATH_CONNECTED);
}

Test(ctl_server, added_path_is_removed_by_somebody_else)
{
	int fd = dial(), fd2 = dial();

	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	fake_path_set(1, NFS_PATH_REMOVING, "");
	expect_error_at(fd, "was removed before it was connected");
	fake_path_set(1, NFS_PATH_NONE, "");
	say_line(fd2, "{\"command\":\"add-path\",\"server\":\"10.0.1.2\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	/* The place is another path's now, and that is none of this client's business. */
	fake_path_replace(1);
	expect_error_at(fd2, "was removed before it was connected");
	cr_assert_eq(fake_paths.removes, 0);
}

Test(ctl_server, add_goes_on_when_the_client_hangs_up)
{
	int fd = dial();

	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	close(fd);
	fd = dial();
	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.2\"}");
	cr_assert(fake_path_await(2, NFS_PATH_CONNECTING));
	close(fd);
	usleep(150000);
	fake_path_set(1, NFS_PATH_CONNECTED, "");
	fake_path_set(2, NFS_PATH_REFUSED, "it is another server");
	cr_assert(fake_path_await(2, NFS_PATH_NONE));
	cr_assert_eq(fake_paths.path[1].state, NFS_PATH_CONNECTED);
	cr_assert_eq(fake_paths.removes, 1);
}

Test(ctl_server, add_that_cannot_begin)
{
	expect_error("{\"command\":\"add-path\",\"server\":\"bad\",\"port\":7}", "port 7");
	expect_error("{\"command\":\"add-path\",\"server\":\"bad\",\"local\":\"10.1.1.1\"}",
		     "local 10.1.1.1");
	expect_error("{\"command\":\"add-path\",\"server\":\"10.0.0.9\",\"local\":\"no-such-if0\"}",
		     "no-such-if0");
	for (unsigned i = 1; i < NFS_PATHS_MAX; i++)
		fake_path_put(i, NFS_PATH_CONNECTED, "10.0.0.2");
	expect_error("{\"command\":\"add-path\",\"server\":\"10.0.0.9\"}", "all places are in use");
	cr_assert_eq(fake_paths.adds, 1);
}

/* ---- remove-path, reconnect ---- */

Test(ctl_server, remove_waits_until_the_place_is_free)
{
	int fd = dial();

	fake_path_put(1, NFS_PATH_CONNECTED, "10.0.1.1");
	fake_paths.keeps = true;
	say_line(fd, "{\"command\":\"remove-path\",\"path\":\"10.0.1.1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_REMOVING));
	cr_assert(is_silent(fd));
	fake_path_set(1, NFS_PATH_NONE, "");
	cr_assert_eq(expect_paths_at(fd), 1);
	cr_assert_eq(fake_paths.forced, 0);
}

/* The place is free, and used again before anybody looks. */
Test(ctl_server, remove_knows_another_path_in_that_place)
{
	int fd = dial();

	fake_path_put(1, NFS_PATH_CONNECTED, "10.0.1.1");
	fake_paths.keeps = true;
	say_line(fd, "{\"command\":\"remove-path\",\"path\":\"1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_REMOVING));
	fake_path_put(1, NFS_PATH_CONNECTED, "10.0.1.3");
	cr_assert_eq(expect_paths_at(fd), 2);
}

Test(ctl_server, remove_that_takes_too_long)
{
	ctl_wait_ms = 200;
	fake_path_put(1, NFS_PATH_CONNECTED, "10.0.1.1");
	fake_paths.keeps = true;
	expect_error("{\"command\":\"remove-path\",\"path\":\"1\"}", "is not removed yet");
	/* Another try waits for the same removal. */
	expect_error("{\"command\":\"remove-path\",\"path\":\"1\"}", "is not removed yet");
	cr_assert_eq(fake_paths.removes, 1);
}

Test(ctl_server, which_path)
{
	fake_path_put(1, NFS_PATH_REMOVING, "fe80::1");
	fake_path_put(2, NFS_PATH_CONNECTED, "fe80::1");
	fake_path_put(3, NFS_PATH_CONNECTED, "10.0.0.1");
	fake_path_put(4, NFS_PATH_REMOVING, "fe80::1");
	expect_error("{\"command\":\"remove-path\",\"path\":\"10.0.0.1\"}", "say which by its number");
	expect_error("{\"command\":\"remove-path\",\"path\":\"10.0.0.7\"}", "no path leads to 10.0.0.7");
	expect_error("{\"command\":\"remove-path\",\"path\":\"7\"}", "there is no path 7");
	/* 2^32: no number wraps around to 0. */
	expect_error("{\"command\":\"remove-path\",\"path\":\"4294967296\"}", "there is no path 4294967296");
	expect_error("{\"command\":\"reconnect\",\"path\":\"99999999999999999999\"}", "there is no path 9");
	cr_assert_eq(fake_paths.removes, 0);
	cr_assert_eq(expect_paths("{\"command\":\"remove-path\",\"path\":\"FE80:0::0001\"}"), 4);
	cr_assert_eq(fake_paths.path[2].state, NFS_PATH_NONE);
	fake_paths.busy = true;
	expect_error("{\"command\":\"remove-path\",\"path\":\"3\",\"force\":false}", "the last one");
	cr_assert_eq(expect_paths("{\"command\":\"remove-path\",\"path\":\"3\",\"force\":true}"), 3);
	cr_assert_eq(fake_paths.forced, 1);
}

Test(ctl_server, reconnect)
{
	fake_path_put(1, NFS_PATH_CONNECTED, "10.0.1.1");
	fake_path_put(2, NFS_PATH_CONNECTED, "10.0.1.2");
	cr_assert_eq(expect_paths("{\"command\":\"reconnect\",\"path\":\"10.0.1.2\"}"), 3);
	cr_assert_eq(fake_paths.reconnects, 1);
	/* Path 1 goes just now. */
	fake_paths.reconnect_rc = -ENOENT;
	cr_assert_eq(expect_paths("{\"command\":\"reconnect\",\"path\":\"all\"}"), 3);
	cr_assert_eq(fake_paths.reconnects, 4);
	expect_error("{\"command\":\"reconnect\",\"path\":\"1\"}", "path 1 cannot do that");
}

/* ---- bad clients ---- */

Test(ctl_server, bad_lines)
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
		{ "{\"command\":\"paths\\u0000\"}", "printable ASCII" },
		{ "{\"command\":\"p\\u001b[2J\"}", "printable ASCII" },
		{ "{\"command\":\"\xff\"}", "not a JSON object" },
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
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

Test(ctl_server, nul_in_the_line)
{
	int fd = dial();

	say(fd, "{\"command\":\"paths\"}\0{}\n", 23);
	expect_error_at(fd, "has a NUL");
}

Test(ctl_server, long_lines)
{
	char line[CTL_LINE_MAX + 1];
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
	expect_error_at(fd, "longer than 4096 bytes");
}

Test(ctl_server, line_in_pieces)
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

Test(ctl_server, half_a_line)
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

Test(ctl_server, no_line_in_time)
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

Test(ctl_server, long_reply_is_taken_slowly)
{
	struct json_object *o;
	int fd;

	/* The time for the reply begins when the line is there. */
	ctl_line_ms = 600;
	fd = dial();
	usleep(400000);
	stat_lines = 50000;
	say_line(fd, "{\"command\":\"stats\"}");
	usleep(400000);
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
	o = hear(fd);
	cr_assert_eq(json_object_get_uint64(in(in(o, "stats"), "line.49999")), 49999);
	json_object_put(o);
}

Test(ctl_server, long_reply_is_not_taken)
{
	unsigned before = descriptors();
	char byte[4096];
	ssize_t n, sum = 0;
	int fd;

	ctl_line_ms = 300;
	stat_lines = 50000;
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

Test(ctl_server, one_too_many)
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

Test(ctl_server, crowd)
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
Test(ctl_server, no_descriptors)
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

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", name);
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

Test(ctl_server, modes)
{
	struct stat st;

	cr_assert_eq(stat(name, &st), 0);
	cr_assert(S_ISSOCK(st.st_mode) && (st.st_mode & 07777) == 0600);
	cr_assert_eq(stat(sockets, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
}

/* Somebody has opened the directory and the socket for all. */
Test(ctl_server, stranger_is_refused)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip_test("only root can be somebody else");
	chmod(dir, 0755);
	chmod(sockets, 0755);
	chmod(name, 0666);
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

/* ---- life ---- */

Test(ctl_server, clients_are_told_of_the_end)
{
	int fd = dial(), fd2 = dial();

	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 2);
	ctl_free(ctl);
	ctl = NULL;
	expect_error_at(fd, "the mount ends");
	expect_error_at(fd2, "the mount ends");
	cr_assert_eq(fake_paths.path[1].state, NFS_PATH_CONNECTING);
}

/* The device number is given to the next mount before the old daemon has ended. */
Test(ctl_server, next_mount_of_the_same_number)
{
	struct ctl *old = ctl;

	start();
	ctl_free(old);
	cr_assert_eq(expect_paths("{\"command\":\"paths\"}"), 1);
}

Test(ctl_server, dead_daemons_socket_is_replaced)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ctl_free(ctl);
	cr_assert_eq(mkdir(sockets, 0700), 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", name);
	cr_assert_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	close(fd);
	start();
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

Test(ctl_server, next_mount_just_when_the_last_one_ends)
{
	cr_assert_eq(ctl_new(&config, &next, &eb), 0);
	ctl_free(ctl);
	pthread_join(next_thread, NULL);
	cr_assert(next_listens);
	ctl = next;
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
Test(ctl_server, directory_comes_and_goes)
{
	struct ctl_config other = config;
	pthread_t t[2];

	ctl_free(ctl);
	ctl = NULL;
	other.mountpoint = "/mnt/b";
	pthread_create(&t[0], NULL, mount_again_and_again, (void *)(uintptr_t)&config);
	pthread_create(&t[1], NULL, mount_again_and_again, &other);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
}

Test(ctl_server, no_socket_can_be_made)
{
	ctl_free(ctl);
	cr_assert_eq(ctl_new(&config, &ctl, &eb), 0);
	/* The directory is somebody else's trap. */
	cr_assert_eq(symlink("/tmp", sockets), 0);
	cr_assert_lt(ctl_listen(ctl, &eb), 0);
	cr_assert(strstr(eb.text, "is not a directory"), "%s", eb.text);
	unlink(sockets);
	cr_assert_eq(mkdir(sockets, 0755), 0);
	cr_assert_lt(ctl_listen(ctl, &eb), 0);
	cr_assert(strstr(eb.text, "open to other users"), "%s", eb.text);
	rmdir(sockets);
	/* Something else is mounted there, or it is another user's. */
	write_mountinfo("tmpfs", geteuid());
	cr_assert_lt(ctl_listen(ctl, &eb), 0);
	write_mountinfo("fuse.nfsrdma-fuse", geteuid() + 1);
	cr_assert_lt(ctl_listen(ctl, &eb), 0);
	ctl_mountinfo = "/dev/null";
	cr_assert_lt(ctl_listen(ctl, &eb), 0);
	cr_assert(strstr(eb.text, "/mnt/a"), "%s", eb.text);
}
