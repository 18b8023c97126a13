/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A family of metrics is for each row of an array: the kinds of requests or of calls, or the paths. All of its
 * lines have to be together, so families are the outer loop and rows the inner one.
 */
#include "ctl/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/times.h"
#include "ctl/ctl.h"
#include "ctl/proto.h"
#include "ctl/text.h"

#define PREFIX "nfsrdma_"

enum metric_type { COUNTER, GAUGE, HISTOGRAM };

/* Numbers of the daemon are in nanoseconds where the unit is seconds. */
struct metric {
	const char *name, *unit;        /* without PREFIX and "_total"; the unit, if there is one, ends the name */
	enum metric_type type;
	const char *member;             /* of the row; a histogram's sum */
	const char *help;
};

struct metric_labels {
	struct {
		const char *name, *member;
	} of[4];
};

static void put_escaped(FILE *f, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return;
	ctl_clean(copy);
	for (size_t i = 0; copy[i]; i++) {
		if (text[i] == '\n') {
			fputs("\\n", f);
			continue;
		}
		if (strchr("\\\"", copy[i]))
			fputc('\\', f);
		fputc(copy[i], f);
	}
	free(copy);
}

static void put_label(FILE *f, const char *name, const char *value)
{
	fprintf(f, "%s=\"", name);
	put_escaped(f, value);
	fputc('"', f);
}

static void put_labels(FILE *f, const char *mountpoint, const struct metric_labels *l, struct json_object *row)
{
	struct json_object *v;

	fputc('{', f);
	put_label(f, "mountpoint", mountpoint);
	for (size_t i = 0; i < sizeof(l->of) / sizeof(l->of[0]) && l->of[i].name; i++) {
		fputc(',', f);
		v = NULL;
		json_object_object_get_ex(row, l->of[i].member, &v);
		put_label(f, l->of[i].name, v ? json_object_get_string(v) : "");
	}
}

static void put_head(FILE *f, const struct metric *m)
{
	static const char *const types[] = { [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram" };

	fprintf(f, "# TYPE " PREFIX "%s %s\n", m->name, types[m->type]);
	if (m->unit)
		fprintf(f, "# UNIT " PREFIX "%s %s\n", m->name, m->unit);
	fprintf(f, "# HELP " PREFIX "%s ", m->name);
	put_escaped(f, m->help);
	fputc('\n', f);
}

static void put_value(FILE *f, const struct metric *m, uint64_t value)
{
	if (m->unit && strcmp(m->unit, "seconds") == 0)
		fprintf(f, " %ju.%09u\n", (uintmax_t)(value / 1000000000u), (unsigned)(value % 1000000000u));
	else
		fprintf(f, " %ju\n", (uintmax_t)value);
}

/* The bucket's end is the next one's beginning (base/times.h); the last one has none. */
static void put_histogram(FILE *f, const struct metric *m, const char *mountpoint, const struct metric_labels *l,
			  struct json_object *row)
{
	struct json_object *buckets = ctl_member_of(row, "histogram", json_type_array);
	size_t n = buckets ? json_object_array_length(buckets) : 0;
	uint64_t sum = 0;

	for (size_t i = 0; i < n && i < TIMES_BUCKETS; i++) {
		sum += json_object_get_uint64(json_object_array_get_idx(buckets, i));
		fprintf(f, PREFIX "%s_bucket", m->name);
		put_labels(f, mountpoint, l, row);
		if (i + 1 < n && i + 1 < TIMES_BUCKETS)
			fprintf(f, ",le=\"%.10g\"} %ju\n", (double)((uint64_t)TIMES_UNIT << (i + 1)) / 1e9,
				(uintmax_t)sum);
		else
			fprintf(f, ",le=\"+Inf\"} %ju\n", (uintmax_t)sum);
	}
	if (!m->member || !n)
		return;
	fprintf(f, PREFIX "%s_count", m->name);
	put_labels(f, mountpoint, l, row);
	fprintf(f, "} %ju\n", (uintmax_t)sum);
	fprintf(f, PREFIX "%s_sum", m->name);
	put_labels(f, mountpoint, l, row);
	fputc('}', f);
	put_value(f, m, ctl_number_of(row, m->member));
}

static void put_number(FILE *f, const struct metric *m, const char *mountpoint, const struct metric_labels *l,
		       struct json_object *row)
{
	fprintf(f, PREFIX "%s%s", m->name, m->type == COUNTER ? "_total" : "");
	put_labels(f, mountpoint, l, row);
	fputc('}', f);
	put_value(f, m, ctl_number_of(row, m->member));
}

static void put_families(FILE *f, const char *mountpoint, const struct metric *m, size_t n,
			 const struct metric_labels *l, struct json_object *rows)
{
	for (size_t i = 0; i < n; i++) {
		put_head(f, &m[i]);
		for (size_t r = 0; rows && r < json_object_array_length(rows); r++)
			(m[i].type == HISTOGRAM ? put_histogram : put_number)(f, &m[i], mountpoint, l,
									      json_object_array_get_idx(rows, r));
	}
}

#define FAMILIES(list) list, sizeof(list) / sizeof((list)[0])

static const struct metric of_ops[] = {
	{ "request_duration_seconds", "seconds", HISTOGRAM, "time_ns", "how long requests of the kernel took" },
	{ "request_errors", NULL, COUNTER, "errors", "requests of the kernel that were answered with an error" },
	{ "request_untimed", NULL, COUNTER, "untimed", "further requests of the kernel, that have no time" },
}, of_calls[] = {
	{ "call_duration_seconds", "seconds", HISTOGRAM, "rtt_ns", "how long calls took since they were last sent" },
	{ "call_queue_seconds", "seconds", COUNTER, "queue_ns", "how long calls have waited before that" },
	{ "call_made", NULL, COUNTER, "made", "calls, with those under way" },
	{ "call_errors", NULL, COUNTER, "errors", "calls that the server has answered with an error, or that have failed" },
	{ "call_again", NULL, COUNTER, "again", "how often one was sent again after a lost connection" },
	{ "call_timeouts", NULL, COUNTER, "timeouts", "how often one was not answered within timeo" },
	{ "call_sent_bytes", "bytes", COUNTER, "tx_bytes", "RPC messages and file data that were sent" },
	{ "call_received_bytes", "bytes", COUNTER, "rx_bytes", "RPC messages and file data that were received" },
}, of_paths[] = {
	{ "path_connections", NULL, GAUGE, "connections", "connections that there are" },
	{ "path_connections_wanted", NULL, GAUGE, "wanted", "connections that there are to be" },
	{ "path_in_flight", NULL, GAUGE, "in_flight", "calls under way" },
	{ "path_credits", NULL, GAUGE, "credits", "calls that the server allows at once" },
	{ "path_latency_seconds", "seconds", GAUGE, "latency_ns", "moving average of the calls' times" },
	{ "path_call_duration_seconds", "seconds", HISTOGRAM, NULL, "how long calls took" },
	{ "path_calls", NULL, COUNTER, "calls", "calls that were sent" },
	{ "path_sent_bytes", "bytes", COUNTER, "tx_bytes", "RPC messages and file data that were sent" },
	{ "path_received_bytes", "bytes", COUNTER, "rx_bytes", "RPC messages and file data that were received" },
	{ "path_reconnects", NULL, COUNTER, "reconnects", "connections that were set up again" },
	{ "path_failovers", NULL, COUNTER, "failovers", "calls that have left the path, or were sent again" },
	{ "path_heartbeats", NULL, COUNTER, "heartbeats", "heartbeats that were sent" },
	{ "path_heartbeats_missed", NULL, COUNTER, "missed", "heartbeats without an answer in time" },
	{ "path_registrations", NULL, COUNTER, "registrations", "memory registrations for calls" },
};

static const struct metric_labels op_labels = { { { "op", "name" } } }, call_labels = { { { "call", "name" } } },
	path_labels = { { { "path", "id" }, { "server", "server" }, { "local", "local" }, { "fabric", "fabric" } } };

/* ---- counters without a kind ---- */

static bool ends_in_bytes(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, "bytes") == 0;
}

static void put_stat(FILE *f, const char *mountpoint, struct json_object *stats, const char *name, bool gauge,
		     const char *help)
{
	static const struct metric_labels none = { 0 };
	char underscores[64];
	const struct metric m = {
		.name = underscores, .unit = ends_in_bytes(name) ? "bytes" : NULL, .type = gauge ? GAUGE : COUNTER,
		.member = name, .help = help,
	};

	if (!ctl_member_of(stats, name, json_type_int))
		return;
	snprintf(underscores, sizeof(underscores), "%s", name);
	for (char *p = underscores; *p; p++)
		if (*p == '.')
			*p = '_';
	put_head(f, &m);
	put_number(f, &m, mountpoint, &none, stats);
}

static void put_stats(FILE *f, const char *mountpoint, struct json_object *stats)
{
	static const struct {
		const char *name, *help;
		enum stat_id id;        /* STAT_COUNT: of none of the threads */
	} all[] = {
#define X(id, name, help) { name, help, STAT_##id },
		STATS_TABLE(X)
#undef X
		{ "now.inodes", "files that the mount knows", STAT_COUNT },
		{ "now.held_bytes", "file bytes that were written and that the server has not stored", STAT_COUNT },
		{ "now.heap_bytes", "memory of the daemon besides its buffers", STAT_COUNT },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		put_stat(f, mountpoint, stats, all[i].name, all[i].id == STAT_ARENA_BYTES ||
			 all[i].id == STAT_ARENA_MOST || all[i].id == STAT_BEHIND_ROOM || all[i].id == STAT_COUNT,
			 all[i].help);
}

/* ---- all ---- */

static void put_mount(FILE *f, struct json_object *ops, const char *mountpoint)
{
	static const struct metric info = { "mount_info", NULL, GAUGE, NULL, "what is mounted" },
		age = { "mount_age_seconds", "seconds", GAUGE, NULL, "since when it is there" };
	static const struct metric_labels none = { 0 };
	struct json_object *nfs = ctl_member_of(ops, "nfs", json_type_object);
	char vers[48];

	snprintf(vers, sizeof(vers), ctl_number_of(nfs, "version") == 4 ? "%ju.%ju" : "%ju",
		 (uintmax_t)ctl_number_of(nfs, "version"), (uintmax_t)ctl_number_of(nfs, "minor"));
	put_head(f, &info);
	fprintf(f, PREFIX "%s", info.name);
	put_labels(f, mountpoint, &none, NULL);
	fputc(',', f);
	put_label(f, "source", ctl_text_of(ops, "source"));
	fputc(',', f);
	put_label(f, "vers", vers);
	fputs("} 1\n", f);
	put_head(f, &age);
	fprintf(f, PREFIX "%s", age.name);
	put_labels(f, mountpoint, &none, NULL);
	fprintf(f, "} %ju\n", (uintmax_t)ctl_number_of(nfs, "age_s"));
}

void ctl_metrics(FILE *f, struct json_object *ops, struct json_object *paths)
{
	const char *mountpoint = ctl_text_of(ops, "mountpoint");

	put_mount(f, ops, mountpoint);
	put_families(f, mountpoint, FAMILIES(of_ops), &op_labels, ctl_member_of(ops, "ops", json_type_array));
	put_families(f, mountpoint, FAMILIES(of_calls), &call_labels, ctl_member_of(ops, "calls", json_type_array));
	put_families(f, mountpoint, FAMILIES(of_paths), &path_labels, ctl_member_of(paths, "paths", json_type_array));
	put_stats(f, mountpoint, ctl_member_of(ops, "stats", json_type_object));
	fputs("# EOF\n", f);
}

int ctl_metrics_print(const struct ctl_peer *p, FILE *f, struct errbuf *eb)
{
	struct json_object *ops = NULL, *paths = NULL;
	int status = ctl_ask_command(p, "ops", NULL, NULL, &ops, eb);

	if (!status)
		status = ctl_ask_command(p, "paths", NULL, NULL, &paths, eb);
	if (!status)
		ctl_metrics(f, ops, paths);
	json_object_put(ops);
	json_object_put(paths);
	return status;
}
