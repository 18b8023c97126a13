/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The form of /proc/self/mountstats, as programs read it: mountstats(8), and Prometheus's node_exporter. They
 * take a mount for one of NFS by its type, so this says "nfs" or "nfs4". Each line has as many fields as
 * Linux 6 writes. A field whose meaning this mount does not have is 0.
 */
#include "ctl/mountstats.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/text.h"

#define PAGE 4096u

/* Blanks and backslashes as in /proc/mounts, which is how programs take the line apart. */
static void put_name(FILE *f, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return;
	ctl_clean(copy);
	for (size_t i = 0; copy[i]; i++) {
		if (strchr(" \t\n\\", name[i]))
			fprintf(f, "\\%03o", (unsigned)name[i]);
		else
			fputc(copy[i], f);
	}
	free(copy);
}

static uint64_t count_of(struct json_object *ops, const char *name)
{
	for (size_t i = 0; ops && i < json_object_array_length(ops); i++) {
		struct json_object *o = json_object_array_get_idx(ops, i);

		if (strcmp(ctl_text_of(o, "name"), name) == 0)
			return ctl_number_of(o, "count") + ctl_number_of(o, "untimed");
	}
	return 0;
}

/* A line's numbers: each the sum of some counters, NULL ends them. */
struct field {
	const char *of[4];
};

static void put_fields(FILE *f, const struct field *fields, size_t n, uint64_t (*value)(void *from, const char *name),
		       void *from)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t sum = 0;

		for (const char *const *of = fields[i].of; *of; of++)
			sum += value(from, *of);
		fprintf(f, "%ju ", (uintmax_t)sum);
	}
	fputc('\n', f);
}

static uint64_t op_value(void *from, const char *name)
{
	return count_of(from, name);
}

static uint64_t stat_value(void *from, const char *name)
{
	return ctl_number_of(from, name);
}

/* In the order of Linux's enum nfs_stat_eventcounters. */
static void put_events(FILE *f, struct json_object *ops)
{
	static const struct field events[27] = {
		[0] = { { "GETATTR", "STATX" } },
		[4] = { { "OPEN", "CREATE", "OPENDIR" } },
		[5] = { { "LOOKUP" } },
		[6] = { { "ACCESS" } },
		[9] = { { "READ" } },
		[11] = { { "WRITE" } },
		[12] = { { "READDIR", "READDIRPLUS" } },
		[13] = { { "SETATTR" } },
		[14] = { { "FLUSH" } },
		[15] = { { "FSYNC", "FSYNCDIR" } },
		[16] = { { "GETLK", "SETLK", "SETLKW" } },
		[17] = { { "RELEASE", "RELEASEDIR" } },
	};

	fputs("\tevents:\t", f);
	put_fields(f, events, sizeof(events) / sizeof(events[0]), op_value, ops);
}

/* What read() and write() have moved only the kernel knows. The server's part: */
static void put_bytes(FILE *f, struct json_object *stats)
{
	uint64_t in = ctl_number_of(stats, "read.placed_bytes") + ctl_number_of(stats, "read.inline_bytes");
	uint64_t out = ctl_number_of(stats, "write.chunk_bytes") + ctl_number_of(stats, "write.inline_bytes");

	fprintf(f, "\tbytes:\t0 0 0 0 %ju %ju %ju %ju \n", (uintmax_t)in, (uintmax_t)out, (uintmax_t)(in / PAGE),
		(uintmax_t)(out / PAGE));
}

/* In the order of xprt_rdma_print_stats(). All connections have one line. */
static void put_xprt(FILE *f, struct json_object *stats)
{
	static const struct field fields[27] = {
		/* port, binds, connects, time connecting, time idle, sends, receives, replies to no call, sums of
		 * calls in flight and of calls that wait */
		[2] = { { "conn.ups" } },
		[5] = { { "rpc.calls", "rpc.replays" } },
		[6] = { { "rpc.replies" } },
		[7] = { { "rpc.bad_replies" } },
		[9] = { { "rpc.credit_waits" } },
		/* Chunks, and bytes in them, each to read, to write, for replies */
		[10] = { { "rdma.read_chunks" } },
		[11] = { { "rdma.write_chunks" } },
		[12] = { { "rdma.reply_chunks" } },
		[13] = { { "write.chunk_bytes" } },
		[14] = { { "read.placed_bytes" } },
		/* Bytes that were copied */
		[15] = { { "write.copied_bytes" } },
		[16] = { { "read.copied_bytes" } },
		/* Registered by hand, not encoded, bad replies, calls that are too long for a message */
		[19] = { { "rdma.errors" } },
		[20] = { { "rdma.long_calls" } },
		/* Regions recycled, orphaned, allocated; local invalidations */
		[23] = { { "rdma.registrations" } },
		[24] = { { "rdma.local_invals" } },
	};

	fputs("\txprt:\trdma ", f);
	put_fields(f, fields, sizeof(fields) / sizeof(fields[0]), stat_value, stats);
}

static uintmax_t ms_of(uint64_t ns)
{
	return ns / 1000000u;
}

static void put_calls(FILE *f, struct json_object *calls)
{
	fputs("\tper-op statistics\n", f);
	for (size_t i = 0; calls && i < json_object_array_length(calls); i++) {
		struct json_object *o = json_object_array_get_idx(calls, i);
		uint64_t count = ctl_number_of(o, "count"), queue = ctl_number_of(o, "queue_ns"),
			rtt = ctl_number_of(o, "rtt_ns");
		char name[32];

		snprintf(name, sizeof(name), "%s", ctl_text_of(o, "name"));
		ctl_clean(name);
		fprintf(f, "\t%12s: %ju %ju %ju %ju %ju %ju %ju %ju %ju\n", name,
			(uintmax_t)count, (uintmax_t)(count + ctl_number_of(o, "again")),
			(uintmax_t)ctl_number_of(o, "timeouts"), (uintmax_t)ctl_number_of(o, "tx_bytes"),
			(uintmax_t)ctl_number_of(o, "rx_bytes"), ms_of(queue), ms_of(rtt), ms_of(queue + rtt),
			(uintmax_t)ctl_number_of(o, "errors"));
	}
}

static uintmax_t nfs_number(struct json_object *nfs, const char *name)
{
	return ctl_number_of(nfs, name);
}

static void put_opts(FILE *f, struct json_object *nfs, bool read_only)
{
	struct json_object *soft = ctl_member_of(nfs, "soft", json_type_boolean);

	fprintf(f, "\topts:\t%s,vers=%ju", read_only ? "ro" : "rw", nfs_number(nfs, "version"));
	if (nfs_number(nfs, "version") == 4)
		fprintf(f, ".%ju", nfs_number(nfs, "minor"));
	fprintf(f, ",rsize=%ju,wsize=%ju,namlen=%ju,%s,proto=rdma,timeo=%ju,retrans=%ju\n", nfs_number(nfs, "rsize"),
		nfs_number(nfs, "wsize"), nfs_number(nfs, "name_max"),
		json_object_get_boolean(soft) ? "soft" : "hard", nfs_number(nfs, "timeo_ds"),
		nfs_number(nfs, "retrans"));
}

void ctl_mountstats(FILE *f, struct json_object *reply, bool read_only)
{
	struct json_object *nfs = ctl_member_of(reply, "nfs", json_type_object),
		*stats = ctl_member_of(reply, "stats", json_type_object),
		*calls = ctl_member_of(reply, "calls", json_type_array);
	bool four = nfs_number(nfs, "version") == 4;
	uintmax_t flavor = nfs_number(nfs, "flavor");

	fputs("device ", f);
	put_name(f, ctl_text_of(reply, "source"));
	fputs(" mounted on ", f);
	put_name(f, ctl_text_of(reply, "mountpoint"));
	fprintf(f, " with fstype %s statvers=1.1\n", four ? "nfs4" : "nfs");
	put_opts(f, nfs, read_only);
	fprintf(f, "\tage:\t%ju\n", nfs_number(nfs, "age_s"));
	fprintf(f, "\tcaps:\tcaps=0x0,wtmult=%u,dtsize=%ju,bsize=0,namlen=%ju\n", PAGE, nfs_number(nfs, "dtsize"),
		nfs_number(nfs, "name_max"));
	if (four)
		fputs("\tnfsv4:\tbm0=0x0,bm1=0x0,bm2=0x0,acl=0x0,sessions,pnfs=not configured\n", f);
	fprintf(f, "\tsec:\tflavor=%ju,pseudoflavor=%ju\n", flavor > 6 ? 6 : flavor, flavor);
	put_events(f, ctl_member_of(reply, "ops", json_type_array));
	put_bytes(f, stats);
	fprintf(f, "\tRPC iostats version: 1.1  p/v: %ju/%ju (nfs)\n", nfs_number(nfs, "program"),
		nfs_number(nfs, "version"));
	put_xprt(f, stats);
	put_calls(f, calls);
	fputc('\n', f);
}
