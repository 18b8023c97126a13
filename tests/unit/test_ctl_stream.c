/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's side of ctl's log: filters, names, and who does not read. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/proto.h"
#include "ctl_play.h"

static void setup(void)
{
	ctl_play_begin();
	ctl_play.logged[0] = (struct oprec){
		.op = "WRITE", .begin_ns = 1000, .end_ns = 6000, .server_ns = 4000, .offset = 7, .size = 9, .pid = 11, .uid = 12, .has_range = true,
		.name = "/a\nb\\c\xff\x1b\xc3\xa9",
	};
	ctl_play.logged[1] = (struct oprec){ .op = "LOOKUP", .pid = 21, .uid = 22, .result = -2, .name = "?/deep/x" };
	ctl_play.logged[2] = (struct oprec){ .pid = 31, .uid = 22, .end_ns = 5000000, .name = "/deep/y" };
	ctl_play.logged[3] = ctl_play.logged[2];
}

TestSuite(ctl_stream, .init = setup, .fini = ctl_play_end, .timeout = 60);

static FILE *listen_to(const char *request)
{
	int fd = dial();
	FILE *f = fdopen(fd, "r");
	char line[1024];

	say_line(fd, request);
	cr_assert(fgets(line, sizeof(line), f) && strstr(line, "\"mountpoint\":\"/mnt/a\""), "%s", line);
	return f;
}

static void expect_line(FILE *f, const char *part)
{
	char line[8192];

	cr_assert(fgets(line, sizeof(line), f) && strstr(line, part), "'%s' is not in: %s", part, line);
}

static void wait_until(_Atomic unsigned *what, unsigned value)
{
	for (int i = 0; i < 500 && atomic_load(what) != value; i++)
		usleep(10000);
	cr_assert_eq(atomic_load(what), value);
}

Test(ctl_stream, lines)
{
	FILE *f = listen_to("{\"command\":\"log\"}");

	cr_assert_eq(ctl_play.listens, 1);
	atomic_store(&ctl_play.nlogged, 2);
	expect_line(f, "\"pid\":11,\"uid\":12,\"op\":\"WRITE\",\"name\":\"/a\\\\nb\\\\\\\\c\\\\xff\\\\x1b\xc3\xa9\","
		    "\"offset\":7,\"size\":9,\"took_ns\":5000,\"server_ns\":4000,\"status\":0}");
	expect_line(f, "\"op\":\"LOOKUP\",\"name\":\"?/deep/x\",\"took_ns\":0,\"server_ns\":0,\"status\":-2}");
	/* Nothing is collected when the last one has gone. */
	fclose(f);
	wait_until(&ctl_play.listens, 0);
}

static void expect_only(const char *request, const char *part)
{
	FILE *f = listen_to(request);

	atomic_fetch_add(&ctl_play.nlogged, 4);
	atomic_fetch_add(&ctl_play.log_lost, 5);
	expect_line(f, part);
	/* The loss is said before the next line, and nothing is between. */
	usleep(200000);
	atomic_fetch_add(&ctl_play.nlogged, 4);
	expect_line(f, "{\"lost\":5}");
	expect_line(f, part);
	fclose(f);
	wait_until(&ctl_play.listens, 0);
}

Test(ctl_stream, filters)
{
	expect_only("{\"command\":\"log\",\"op\":\"lookup\"}", "LOOKUP");
	expect_only("{\"command\":\"log\",\"pid\":11}", "WRITE");
	expect_only("{\"command\":\"log\",\"uid\":12}", "WRITE");
	expect_only("{\"command\":\"log\",\"name\":\"*deep/x\"}", "LOOKUP");
	expect_only("{\"command\":\"log\",\"slower_us\":5,\"op\":\"WRITE\"}", "WRITE");
	expect_error("{\"command\":\"log\",\"pid\":-1}", "\"pid\" must be a number");
	expect_error("{\"command\":\"log\",\"path\":\"1\"}", "has no member");
}

/* Any text, for the name itself or as lines have it. */
Test(ctl_stream, patterns)
{
	static char request[CTL_PATTERN_MAX + 64] = "{\"command\":\"log\",\"name\":\"";
	char *at = request + strlen(request);

	expect_only("{\"command\":\"log\",\"name\":\"*\xc3\xa9\"}", "WRITE");
	expect_only("{\"command\":\"log\",\"name\":\"/a\\n*\"}", "WRITE");
	expect_only("{\"command\":\"log\",\"name\":\"*\\\\xff*\"}", "WRITE");
	expect_only("{\"command\":\"log\",\"name\":\"/a\\\\nb*\"}", "WRITE");
	expect_only("{\"command\":\"log\",\"name\":\"/a\\\\nb\\\\\\\\c\\\\xff\\\\x1b\xc3\xa9\"}", "WRITE");
	expect_only("{\"command\":\"log\",\"name\":\"\\\\?/deep/?\"}", "LOOKUP");
	strcpy(ctl_play.logged[0].name, "/a [1] \\ * ?");
	expect_only("{\"command\":\"log\",\"name\":\"/a [1] \\\\\\\\ * ?\"}", "WRITE");
	expect_only("{\"command\":\"log\",\"name\":\"/a \\\\[1] *\"}", "WRITE");
	expect_error("{\"command\":\"log\",\"name\":\"a\\u0000\"}", "\"name\" has a NUL");
	expect_error("{\"command\":\"log\",\"name\":\"\"}", "not empty");
	/* The longest one, and longer. */
	memset(at, '*', CTL_PATTERN_MAX - 1);
	strcpy(at + CTL_PATTERN_MAX - 2, "x\"}");
	expect_only(request, "LOOKUP");
	strcpy(at + CTL_PATTERN_MAX - 1, "x\"}");
	expect_error(request, "\"name\" is longer than 4095 bytes");
}

/* One that does not read: the others, and the daemon, go on. */
Test(ctl_stream, no_reader)
{
	FILE *slow = listen_to("{\"command\":\"log\",\"op\":\"WRITE\"}"), *f;
	char line[8192];
	unsigned seen = 0, lost = 0;

	cr_assert_eq(ctl_play.listens, 1, "one listener or two");
	atomic_store(&ctl_play.nlogged, 80000);
	for (int i = 0; i < 2000 && ctl_play.taken < 80000; i++)
		usleep(10000);
	f = listen_to("{\"command\":\"log\",\"op\":\"LOOKUP\"}");
	atomic_fetch_add(&ctl_play.nlogged, 4);
	expect_line(f, "LOOKUP");
	fclose(f);
	while (seen + lost < 20000) {
		cr_assert(fgets(line, sizeof(line), slow));
		if (strstr(line, "\"lost\":"))
			lost += (unsigned)atoi(strchr(line, ':') + 1);
		else
			seen++;
		/* For what was lost to be said there has to be a line. */
		if (seen % 500 == 0)
			atomic_fetch_add(&ctl_play.nlogged, 4);
	}
	cr_assert_gt(lost, 100);
	cr_assert_gt(seen, 100);
	fclose(slow);
	wait_until(&ctl_play.listens, 0);
}

/* They leave places for other commands. */
Test(ctl_stream, too_many_listeners)
{
	FILE *f[CTL_STREAMS];

	for (unsigned i = 0; i < CTL_STREAMS; i++)
		f[i] = listen_to("{\"command\":\"log\"}");
	expect_error("{\"command\":\"log\"}", "24 others listen already");
	json_object_put(ask("{\"command\":\"policy\"}"));
	for (unsigned i = 0; i < CTL_STREAMS; i++)
		fclose(f[i]);
	wait_until(&ctl_play.listens, 0);
}

/* The mount ends while somebody listens. */
Test(ctl_stream, end_of_the_mount)
{
	FILE *f = listen_to("{\"command\":\"log\"}");
	char line[256];

	ctl_free(ctl_play.ctl);
	ctl_play.ctl = NULL;
	cr_assert_null(fgets(line, sizeof(line), f));
	cr_assert_eq(ctl_play.listens, 0);
	fclose(f);
}
