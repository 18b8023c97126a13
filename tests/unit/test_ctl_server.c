/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What clients ask the daemon for, over the control socket. The paths are played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

#include "ctl_play.h"

TestSuite(ctl_server, .init = ctl_play_begin, .fini = ctl_play_end, .timeout = 120);

/* ---- replies ---- */

Test(ctl_server, paths_are_listed)
{
	struct json_object *o, *p;

	fake_path_put(3, NFS_PATH_RECONNECTING, "::1");
	fake_path_set(3, NFS_PATH_RECONNECTING, "no \"route\"\n\033[2J");
	fake_paths.path[3].calls = UINT64_MAX;
	fake_paths.path[3].histogram[TIMES_BUCKETS - 1] = 7;
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
								      TIMES_BUCKETS - 1)), 7);
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

Test(ctl_server, what_the_mount_has_come_to)
{
	struct json_object *o = ask("{\"command\":\"info\"}"), *i = in(o, "info");

	cr_assert_str_eq(text_in(i, "text"),
			 "version 4.1 by iwarp, 1 path, 2 connections, 64 credits each, 100 session slots, rsize "
			 "1 MiB, wsize 5000 bytes, read-ahead 8 MiB, write-behind off, inline 4096/1024 bytes, "
			 "remote invalidation, memreg=call");
	cr_assert_str_eq(text_in(i, "version"), "4.1");
	cr_assert_str_eq(text_in(i, "policy"), "min-inflight");
	cr_assert_eq(json_object_get_int(in(i, "inline_recv")), 1024);
	cr_assert_eq(json_object_get_int(in(i, "slots")), 100);
	cr_assert_eq(json_object_get_int(in(i, "wsize")), 5000);
	cr_assert(json_object_get_boolean(in(i, "remote_inval")));
	json_object_put(o);
	expect_error("{\"command\":\"info\",\"path\":\"0\"}", "no member");
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

Test(ctl_server, abort_is_answered)
{
	struct json_object *o;

	expect_error("{\"command\":\"abort\",\"force\":true}", "force");
	cr_assert_eq(ctl_play.aborts, 0);
	o = ask("{\"command\":\"abort\"}");
	cr_assert_str_eq(text_in(o, "mountpoint"), "/mnt/a");
	json_object_put(o);
	/* The answer leaves first. */
	for (unsigned i = 0; i < 1000 && !ctl_play.aborts; i++)
		usleep(10000);
	cr_assert_eq(ctl_play.aborts, 1);
}

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

Test(ctl_server, path_with_a_warning)
{
	struct json_object *o;
	int fd = dial();

	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.9\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	fake_path_set(1, NFS_PATH_CONNECTED, "");
	o = hear(fd);
	cr_assert_str_eq(text_in(o, "warning"), "it does harm");
	json_object_put(o);
	o = ask("{\"command\":\"paths\"}");
	cr_assert_null(json_object_object_get(o, "warning"));
	json_object_put(o);
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

/* All paths had been removed by force, so this one is the last one although it is not connected. */
Test(ctl_server, only_path_that_is_refused)
{
	int fd = dial();

	fake_paths.only = true;
	say_line(fd, "{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}");
	cr_assert(fake_path_await(1, NFS_PATH_CONNECTING));
	fake_path_set(1, NFS_PATH_REFUSED, "it is another server");
	expect_error_at(fd, "it is another server");
	cr_assert(fake_path_await(1, NFS_PATH_NONE));
}

Test(ctl_server, only_path_that_is_silent)
{
	ctl_wait_ms = 200;
	fake_paths.only = true;
	expect_error("{\"command\":\"add-path\",\"server\":\"10.0.1.1\"}", "does not answer");
	cr_assert(fake_path_await(1, NFS_PATH_NONE));
	fake_path_set(0, NFS_PATH_CONNECTED, "");
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
	expect_error("{\"command\":\"add-path\",\"server\":\"bad\",\"local\":\"eth0\"}", "local eth0");
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
	expect_error("{\"command\":\"remove-path\",\"path\":\"10.0.0.1\"}", "give the number of one");
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
