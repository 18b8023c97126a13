/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the command metrics prints, of replies that are played, and which requests of HTTP it understands. */
#include <criterion/criterion.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/metrics.h"

TestSuite(ctl_metrics, .timeout = 60);

static char *metrics_of(const char *ops, const char *paths)
{
	struct json_object *o = json_tokener_parse(ops), *p = json_tokener_parse(paths);
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert(o && p);
	ctl_metrics(f, o, p);
	fclose(f);
	json_object_put(o);
	json_object_put(p);
	return text;
}

static void expect_line(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	cr_assert(at && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n', "'%s' is no line of:\n%s", line, text);
}

Test(ctl_metrics, lines)
{
	char *text = metrics_of("{\"mountpoint\":\"/m\",\"source\":\"s:/x\",\"nfs\":{\"version\":4,\"minor\":2,\"age_s\":7},"
				"\"ops\":[{\"name\":\"READ\",\"count\":6,\"errors\":1,\"untimed\":2,\"time_ns\":3000000004,"
				"\"histogram\":[1,2,0,3]}],"
				"\"calls\":[{\"name\":\"WRITE\",\"queue_ns\":5,\"made\":9,\"histogram\":[0]}],"
				"\"stats\":{\"rpc.calls\":18446744073709551615,\"rpc.WRITE\":9,\"read.placed_bytes\":3,"
				"\"now.inodes\":4,\"arena.bytes\":5}}",
				"{\"paths\":[{\"id\":3,\"server\":\"10.0.0.1\",\"local\":\"any\",\"fabric\":\"iwarp\","
				"\"latency_ns\":1500000000,\"calls\":8,\"histogram\":[1,1]}]}");

	expect_line(text, "nfsrdma_mount_info{mountpoint=\"/m\",source=\"s:/x\",vers=\"4.2\"} 1");
	expect_line(text, "nfsrdma_mount_age_seconds{mountpoint=\"/m\"} 7");
	expect_line(text, "# TYPE nfsrdma_request_duration_seconds histogram");
	expect_line(text, "# UNIT nfsrdma_request_duration_seconds seconds");
	expect_line(text, "nfsrdma_request_duration_seconds_bucket{mountpoint=\"/m\",op=\"READ\",le=\"2.048e-06\"} 1");
	expect_line(text, "nfsrdma_request_duration_seconds_bucket{mountpoint=\"/m\",op=\"READ\",le=\"4.096e-06\"} 3");
	expect_line(text, "nfsrdma_request_duration_seconds_bucket{mountpoint=\"/m\",op=\"READ\",le=\"+Inf\"} 6");
	expect_line(text, "nfsrdma_request_duration_seconds_count{mountpoint=\"/m\",op=\"READ\"} 6");
	expect_line(text, "nfsrdma_request_duration_seconds_sum{mountpoint=\"/m\",op=\"READ\"} 3.000000004");
	expect_line(text, "nfsrdma_request_errors_total{mountpoint=\"/m\",op=\"READ\"} 1");
	expect_line(text, "nfsrdma_call_queue_seconds_total{mountpoint=\"/m\",call=\"WRITE\"} 0.000000005");
	expect_line(text, "nfsrdma_path_calls_total{mountpoint=\"/m\",path=\"3\",server=\"10.0.0.1\",local=\"any\","
		    "fabric=\"iwarp\"} 8");
	expect_line(text, "nfsrdma_path_latency_seconds{mountpoint=\"/m\",path=\"3\",server=\"10.0.0.1\",local=\"any\","
		    "fabric=\"iwarp\"} 1.500000000");
	expect_line(text, "nfsrdma_rpc_calls_total{mountpoint=\"/m\"} 18446744073709551615");
	expect_line(text, "# UNIT nfsrdma_read_placed_bytes bytes");
	expect_line(text, "# TYPE nfsrdma_arena_bytes gauge");
	expect_line(text, "nfsrdma_now_inodes{mountpoint=\"/m\"} 4");
	cr_assert_null(strstr(text, "rpc_WRITE"), "kinds are of calls");
	cr_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
	free(text);
}

Test(ctl_metrics, labels_are_escaped)
{
	char *text = metrics_of("{\"mountpoint\":\"/a\\\"b\\\\c\\nd\\u001b\",\"source\":\"\xff\"}", "{}");

	expect_line(text, "nfsrdma_mount_info{mountpoint=\"/a\\\"b\\\\c\\nd?\",source=\"?\",vers=\"0\"} 1");
	free(text);
}

Test(ctl_metrics, odd_replies)
{
	free(metrics_of("[]", "7"));
	free(metrics_of("{\"ops\":[null,7,[],{},{\"histogram\":[\"x\",{}]}],\"calls\":{},\"stats\":[],\"nfs\":\"\"}",
			"{\"paths\":[null,{\"id\":{},\"histogram\":7}]}"));
}

static unsigned status_of(const char *request)
{
	return ctl_http_status(request, strlen(request));
}

Test(ctl_metrics, requests)
{
	char long_one[CTL_HTTP_MAX + 1];

	cr_assert_eq(status_of("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
	cr_assert_eq(status_of("GET /metrics HTTP/1.0\n\n"), 200);
	cr_assert_eq(status_of("GET /metrics?x=y HTTP/1.1\r\n\r\n"), 200);
	cr_assert_eq(status_of("GET /metricsx HTTP/1.1\r\n\r\n"), 404);
	cr_assert_eq(status_of("GET / HTTP/1.1\r\n\r\n"), 404);
	cr_assert_eq(status_of("GET /metric HTTP/1.1\r\n\r\n"), 404);
	cr_assert_eq(status_of("HEAD /metrics HTTP/1.1\r\n\r\n"), 405);
	cr_assert_eq(status_of("GETGET /metrics HTTP/1.1\r\n\r\n"), 405);
	cr_assert_eq(status_of("GET /metrics HTTP/2.0\r\n\r\n"), 400);
	cr_assert_eq(status_of("GET /metrics\r\n\r\n"), 400);
	cr_assert_eq(status_of("GET HTTP/1.1\r\n\r\n"), 400);
	cr_assert_eq(status_of(" HTTP/1.1\r\n\r\n"), 400);
	cr_assert_eq(status_of("\r\n\r\n"), 400);
	cr_assert_eq(status_of("\n\n"), 400);
	cr_assert_eq(ctl_http_status("GET /metrics\0 HTTP/1.1\r\n\r\n", 26), 400);
	/* Not complete, and never going to be. */
	cr_assert_eq(status_of(""), 0);
	cr_assert_eq(status_of("GET /metrics HTTP/1.1\r\nHost"), 0);
	memset(long_one, 'x', CTL_HTTP_MAX);
	cr_assert_eq(ctl_http_status(long_one, CTL_HTTP_MAX - 1), 0);
	cr_assert_eq(ctl_http_status(long_one, CTL_HTTP_MAX), 431);
}
