/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See busy.h. The command's only thread has all of this. Each list is a table by name; a process's name is that of
 * its number, because what the log has is the number of a thread: /proc is asked once for each thread that comes.
 * When the connection to the daemon ends, what was collected stays and is shown.
 */
#include "ctl/busy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "ctl/proto.h"
#include "ctl/text.h"

#define CHAINS 1024u            /* power of two */

struct busy_one {
	struct hash_node node;
	uint64_t reads, writes, bytes, others, took_ns;
	uint64_t pid;           /* of a process */
	char name[];            /* of a file; or of a thread, its number */
};

struct busy_list {
	struct hash_node *table[CHAINS];
	struct busy_one *one[BUSY_MOST];
	unsigned n;
	uint64_t further;
};

struct busy {
	struct busy_list files, threads;
	uint64_t lost;
};

struct busy *busy_new(void)
{
	return calloc(1, sizeof(struct busy));
}

static void list_clear(struct busy_list *l)
{
	for (unsigned i = 0; i < l->n; i++)
		free(l->one[i]);
	memset(l, 0, sizeof(*l));
}

void busy_free(struct busy *b)
{
	if (!b)
		return;
	list_clear(&b->files);
	list_clear(&b->threads);
	free(b);
}

/* ---- what comes ---- */

/* NULL: there is no place for one more. */
static struct busy_one *list_find(struct busy_list *l, const char *name)
{
	uint32_t h = (uint32_t)hash_bytes(name, strlen(name), 0);
	struct busy_one *one;

	hash_for_each(n, hash_chain(l->table, h), h) {
		one = container_of(n, struct busy_one, node);
		if (strcmp(one->name, name) == 0)
			return one;
	}
	one = l->n < BUSY_MOST ? calloc(1, sizeof(*one) + strlen(name) + 1) : NULL;
	if (!one)
		return NULL;
	memcpy(one->name, name, strlen(name) + 1);
	hash_add(hash_chain(l->table, h), &one->node, h);
	l->one[l->n++] = one;
	return one;
}

static void one_count(struct busy_one *one, struct json_object *line)
{
	const char *op = ctl_text_of(line, "op");
	struct json_object *status = ctl_member_of(line, "status", json_type_int);
	bool reads = strcmp(op, "READ") == 0, writes = strcmp(op, "WRITE") == 0;

	one->reads += reads;
	one->writes += writes;
	one->others += !reads && !writes;
	if ((reads || writes) && json_object_get_int(status) == 0)
		one->bytes += ctl_number_of(line, "size");
	one->took_ns += ctl_number_of(line, "took_ns");
}

/* The process of a thread; the thread itself if there is no such any more. */
static uint64_t process_of(uint64_t tid)
{
	char path[64], line[256];
	uint64_t pid = tid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/status", tid);
	f = tid ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "Tgid: %" SCNu64, &pid) != 1)
		;
	if (f)
		fclose(f);
	return pid;
}

void busy_add(struct busy *b, struct json_object *line)
{
	struct busy_one *file, *thread;
	char tid[24];

	if (ctl_member_of(line, "lost", json_type_int)) {
		b->lost += ctl_number_of(line, "lost");
		return;
	}
	snprintf(tid, sizeof(tid), "%" PRIu64, ctl_number_of(line, "pid"));
	file = list_find(&b->files, ctl_text_of(line, "name"));
	if (file)
		one_count(file, line);
	b->files.further += !file;
	thread = list_find(&b->threads, tid);
	if (thread && !thread->pid)
		thread->pid = process_of(ctl_number_of(line, "pid"));
	if (thread)
		one_count(thread, line);
	b->threads.further += !thread;
}

/* ---- what is shown ---- */

static uint64_t one_requests(const struct busy_one *one)
{
	return one->reads + one->writes + one->others;
}

static int by_requests(const void *a, const void *b)
{
	const struct busy_one *x = *(struct busy_one *const *)a, *y = *(struct busy_one *const *)b;
	uint64_t nx = one_requests(x), ny = one_requests(y);

	if (nx == ny)
		return (x->bytes < y->bytes) - (x->bytes > y->bytes);
	return nx < ny ? 1 : -1;
}

static int by_pid(const void *a, const void *b)
{
	const struct busy_one *x = *(struct busy_one *const *)a, *y = *(struct busy_one *const *)b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* One is left of the threads of a process. */
static void join_threads(struct busy_list *l)
{
	unsigned n = 0;

	/* Pointers are meant. NOLINTNEXTLINE(bugprone-sizeof-expression) */
	qsort(l->one, l->n, sizeof(l->one[0]), by_pid);
	for (unsigned i = 0; i < l->n; i++) {
		struct busy_one *one = l->one[i], *last = n ? l->one[n - 1] : NULL;

		if (!last || last->pid != one->pid) {
			l->one[n++] = one;
			continue;
		}
		last->reads += one->reads;
		last->writes += one->writes;
		last->bytes += one->bytes;
		last->others += one->others;
		last->took_ns += one->took_ns;
		free(one);
	}
	l->n = n;
}

/* "" if it has ended, or is the kernel. */
static void add_process_name(struct json_object *o, uint64_t pid)
{
	char path[64], name[64] = "", escaped[CTL_ESCAPED(sizeof(name))];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", pid);
	f = pid ? fopen(path, "re") : NULL;
	n = f ? fread(name, 1, sizeof(name) - 1, f) : 0;
	if (f)
		fclose(f);
	if (n && name[n - 1] == '\n')
		name[n - 1] = '\0';
	ctl_add_number(o, "pid", pid);
	ctl_add_text(o, "name", ctl_escape(name, escaped));
}

static struct json_object *list_json(struct busy_list *l, bool processes)
{
	struct json_object *a = json_object_new_array();

	/* The same. NOLINTNEXTLINE(bugprone-sizeof-expression) */
	qsort(l->one, l->n, sizeof(l->one[0]), by_requests);
	for (unsigned i = 0; a && i < l->n && i < BUSY_SHOWN; i++) {
		const struct busy_one *one = l->one[i];
		struct json_object *o = json_object_new_object();

		if (!o)
			break;
		if (processes)
			add_process_name(o, one->pid);
		else
			ctl_add_text(o, "name", one->name);
		ctl_add_number(o, "reads", one->reads);
		ctl_add_number(o, "writes", one->writes);
		ctl_add_number(o, "bytes", one->bytes);
		ctl_add_number(o, "others", one->others);
		ctl_add_number(o, "latency_ns", one->took_ns / one_requests(one));
		json_object_array_add(a, o);
	}
	return a;
}

void busy_take(struct busy *b, struct json_object *to)
{
	join_threads(&b->threads);
	json_object_object_add(to, "files", list_json(&b->files, false));
	json_object_object_add(to, "processes", list_json(&b->threads, true));
	ctl_add_number(to, "further_files", b->files.further);
	ctl_add_number(to, "further_processes", b->threads.further);
	ctl_add_number(to, "lost", b->lost);
	list_clear(&b->files);
	list_clear(&b->threads);
	b->lost = 0;
}

static void list_print(FILE *f, const char *title, struct json_object *rows, unsigned most, uint64_t further)
{
	char text[CTL_UNIT_MAX];

	fprintf(f, "\n%7s %7s %7s %7s %8s %s\n", "READS", "WRITES", "BYTES", "OTHERS", "LATENCY", title);
	for (size_t i = 0; rows && i < json_object_array_length(rows) && i < most; i++) {
		struct json_object *o = json_object_array_get_idx(rows, i);

		fprintf(f, "%7s ", ctl_count_text((double)ctl_number_of(o, "reads"), text));
		fprintf(f, "%7s ", ctl_count_text((double)ctl_number_of(o, "writes"), text));
		fprintf(f, "%7s ", ctl_bytes_text((double)ctl_number_of(o, "bytes"), text));
		fprintf(f, "%7s ", ctl_count_text((double)ctl_number_of(o, "others"), text));
		fprintf(f, "%8s ", ctl_time_text(ctl_number_of(o, "latency_ns"), text));
		if (ctl_member_of(o, "pid", json_type_int))
			fprintf(f, "%ju ", (uintmax_t)ctl_number_of(o, "pid"));
		ctl_put(f, ctl_text_of(o, "name"));
		fputc('\n', f);
	}
	if (further)
		fprintf(f, "# %ju requests of further ones\n", (uintmax_t)further);
}

void busy_print(FILE *f, struct json_object *from, unsigned most)
{
	uint64_t lost = ctl_number_of(from, "lost");

	if (*ctl_text_of(from, "not_seen")) {
		fputs("\nfiles and processes are not seen: ", f);
		ctl_put(f, ctl_text_of(from, "not_seen"));
		fputc('\n', f);
		return;
	}
	list_print(f, "FILE", ctl_member_of(from, "files", json_type_array), most, ctl_number_of(from, "further_files"));
	list_print(f, "PROCESS", ctl_member_of(from, "processes", json_type_array), most,
		   ctl_number_of(from, "further_processes"));
	if (lost)
		fprintf(f, "# %ju requests are missing in these: they came too fast\n", (uintmax_t)lost);
}
