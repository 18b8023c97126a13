/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl_play.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/where.h"

static char mountinfo[64];
static struct nfs_client client;

struct ctl_play ctl_play;

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
	if (strcmp(server, "10.0.1.9") == 0)
		err_set(why, 0, "it does harm");
	return 0;
}

static void put_stats(const struct stats_out *out, const void *arg)
{
	cr_assert_eq(arg, &client);
	stats_put(out, UINT64_MAX, "rpc.calls");
	for (unsigned i = 0; i < ctl_play.stat_lines; i++)
		stats_put(out, i, "line.%u", i);
	ctl_put_paths(out, &client);
}

static struct nfs_chosen play_chosen(const void *arg)
{
	return (struct nfs_chosen){
		.version = "4.1", .fabric = "iwarp", .memreg = "call", .paths = 1, .lanes = 2, .connections = 2,
		.credits = 64, .slots = 100, .rsize = 1 << 20, .wsize = 5000, .inline_send = 4096,
		.inline_recv = 1024, .remote_inval = true, .locked = 1, .readahead = 8 << 20,
	};
}

static void play_abort(void *arg)
{
	cr_assert_eq(arg, &client);
	ctl_play.aborts++;
}

static int play_remount(const char *options, void *arg, struct errbuf *eb)
{
	cr_assert_eq(arg, &client);
	free(ctl_play.remounted);
	ctl_play.remounted = strdup(options);
	return 0;
}

static int play_log_begin(void *arg)
{
	cr_assert_eq(arg, &client);
	ctl_play.listens++;
	return 0;
}

static void play_log_end(void *arg)
{
	ctl_play.listens--;
}

static bool play_log_next(struct oprec *out, void *arg)
{
	unsigned n = atomic_load(&ctl_play.nlogged);

	if (ctl_play.taken == n)
		return false;
	*out = ctl_play.logged[ctl_play.taken++ % 4];
	return true;
}

static uint64_t play_log_lost(void *arg)
{
	return atomic_load(&ctl_play.log_lost);
}

const struct ctl_config ctl_play_config = {
	.client = &client, .mountpoint = "/mnt/a", .source = "server:/x", .make_path = make_path,
	.put_stats = put_stats, .chosen = play_chosen, .arg = &client, .abort = play_abort, .remount = play_remount,
	.log_begin = play_log_begin, .log_end = play_log_end, .log_next = play_log_next, .log_lost = play_log_lost,
};

void ctl_play_start(void)
{
	cr_assert_eq(ctl_new(&ctl_play_config, &ctl_play.ctl, &ctl_play.eb), 0, "%s", ctl_play.eb.text);
	cr_assert_eq(ctl_listen(ctl_play.ctl, &ctl_play.eb), 0, "%s", ctl_play.eb.text);
}

void write_mountinfo(const char *type, uid_t owner)
{
	FILE *f = fopen(mountinfo, "w");

	fprintf(f, "30 1 0:77 / /mnt/a rw - %s s:/x rw,user_id=%u,group_id=0\n"
		"31 1 0:78 / /mnt/b rw - %s s:/x rw,user_id=%u,group_id=0\n", type, owner, type, owner);
	fclose(f);
}

void ctl_play_begin(void)
{
	log_set_level(LOG_LVL_ERR);
	strcpy(ctl_play.dir, "/tmp/ctl.XXXXXX");
	cr_assert(mkdtemp(ctl_play.dir));
	/* A path in that directory is closed to strangers until a test opens it. */
	snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", ctl_play.dir);
	write_mountinfo("fuse.nfsrdma-fuse", geteuid());
	ctl_mountinfo = mountinfo;
	ctl_roots = (struct ctl_roots){ .run = ctl_play.dir, .run_user = "/nowhere", .tmp = ctl_play.dir };
	if (geteuid() == 0)
		snprintf(ctl_play.sockets, sizeof(ctl_play.sockets), "%s/nfsrdma-fuse", ctl_play.dir);
	else
		snprintf(ctl_play.sockets, sizeof(ctl_play.sockets), "%s/nfsrdma-fuse-%u", ctl_play.dir,
			 geteuid());
	snprintf(ctl_play.socket, sizeof(ctl_play.socket), "%s/0:77", ctl_play.sockets);
	fake_paths.added = NFS_PATH_CONNECTING;
	fake_path_put(0, NFS_PATH_CONNECTED, "10.0.0.1");
	ctl_play_start();
}

void ctl_play_end(void)
{
	ctl_free(ctl_play.ctl);
	free(ctl_play.remounted);
	cr_assert(access(ctl_play.sockets, F_OK) < 0, "the directory of the socket is left");
	unlink(mountinfo);
	cr_assert_eq(rmdir(ctl_play.dir), 0, "something is left in %s", ctl_play.dir);
}

/* ---- clients ---- */

int dial(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", ctl_play.socket);
	cr_assert_eq(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0, "%s", strerror(errno));
	return fd;
}

void say(int fd, const void *text, size_t len)
{
	send(fd, text, len, MSG_NOSIGNAL);
}

void say_line(int fd, const char *text)
{
	say(fd, text, strlen(text));
	say(fd, "\n", 1);
}

struct json_object *hear(int fd)
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

const char *text_in(struct json_object *o, const char *member)
{
	struct json_object *v;

	return json_object_object_get_ex(o, member, &v) ? json_object_get_string(v) : "";
}

struct json_object *in(struct json_object *o, const char *member)
{
	struct json_object *v = NULL;

	json_object_object_get_ex(o, member, &v);
	return v;
}

struct json_object *ask(const char *request)
{
	int fd = dial();

	say_line(fd, request);
	return hear(fd);
}

void expect_error_at(int fd, const char *part)
{
	struct json_object *o = hear(fd);

	cr_assert(*text_in(o, "error") && strstr(text_in(o, "error"), part), "'%s' is not in: %s", part,
		  json_object_to_json_string(o));
	json_object_put(o);
}

void expect_error(const char *request, const char *part)
{
	int fd = dial();

	say_line(fd, request);
	expect_error_at(fd, part);
}

size_t expect_paths_at(int fd)
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

size_t expect_paths(const char *request)
{
	int fd = dial();

	say_line(fd, request);
	return expect_paths_at(fd);
}

bool is_silent(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 150) == 0;
}

unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

void expect_descriptors(unsigned n)
{
	for (int i = 0; i < 500 && descriptors() != n; i++)
		usleep(10000);
	cr_assert_eq(descriptors(), n, "%u files are open, %u were", descriptors(), n);
}
