/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/top.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/stats.h"
#include "ctl/ctl.h"
#include "ctl/text.h"

#define KINDS_SHOWN 8u

/* ---- rates ---- */

static double rate(struct json_object *before, struct json_object *after, const char *name,
		   double seconds)
{
	uint64_t a = ctl_number_of(before, name), b = ctl_number_of(after, name);

	return b > a ? (double)(b - a) / seconds : 0;
}

static void add_rate(struct json_object *to, const char *as, double value)
{
	struct json_object *o = json_object_new_double(value);

	/* The default is 17 digits. */
	json_object_set_serializer(o, json_object_double_to_json_string, (void *)(uintptr_t)"%.3f", NULL);
	json_object_object_add(to, as, o);
}

/* "rpc.READ" is a kind, "rpc.replies" a counter. */
static const char *kind_of(const char *name)
{
	static const char *const counters[] = {
#define X(id, counter, help) counter,
		STATS_TABLE(X)
#undef X
	};

	if (strncmp(name, "rpc.", 4) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (strcmp(counters[i], name) == 0)
			return NULL;
	return name + 4;
}

static struct json_object *kinds(struct json_object *before, struct json_object *after,
				 double seconds)
{
	struct json_object *out = json_object_new_object();

	if (!out || !after)
		return out;
	json_object_object_foreach(after, name, value) {
		const char *kind = kind_of(name);
		double r = rate(before, after, name, seconds);

		(void)value;
		if (kind && r > 0)
			add_rate(out, kind, r);
	}
	return out;
}

static struct json_object *same_path(struct json_object *paths, struct json_object *p)
{
	for (size_t i = 0; paths && i < json_object_array_length(paths); i++) {
		struct json_object *o = json_object_array_get_idx(paths, i);

		if (ctl_number_of(o, "id") == ctl_number_of(p, "id") &&
		    ctl_number_of(o, "generation") == ctl_number_of(p, "generation"))
			return o;
	}
	return NULL;
}

static struct json_object *path_rates(struct json_object *before, struct json_object *after,
				      double seconds)
{
	static const char *const texts[] = { "server", "state" };
	static const char *const same[] = {
		"id", "connections", "wanted", "in_flight", "credits", "latency_ns",
	};
	static const char *const rates[] = { "calls", "rx_bytes", "tx_bytes" };
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; o && i < sizeof(texts) / sizeof(texts[0]); i++)
		json_object_object_add(o, texts[i], json_object_new_string(ctl_text_of(after, texts[i])));
	for (size_t i = 0; o && i < sizeof(same) / sizeof(same[0]); i++)
		json_object_object_add(o, same[i], json_object_new_uint64(ctl_number_of(after, same[i])));
	for (size_t i = 0; o && i < sizeof(rates) / sizeof(rates[0]); i++)
		add_rate(o, rates[i], rate(before, after, rates[i], seconds));
	return o;
}

struct json_object *ctl_rates(struct json_object *before, struct json_object *after, double seconds)
{
	struct json_object *was = ctl_member_of(before, "stats", json_type_object),
		*is = ctl_member_of(after, "stats", json_type_object),
		*old = ctl_member_of(before, "paths", json_type_array),
		*new = ctl_member_of(after, "paths", json_type_array),
		*o = json_object_new_object(), *a = json_object_new_array();

	if (!o || !a) {
		json_object_put(o);
		json_object_put(a);
		return NULL;
	}
	add_rate(o, "seconds", seconds);
	add_rate(o, "calls", rate(was, is, "rpc.calls", seconds));
	add_rate(o, "read_bytes", rate(was, is, "read.placed_bytes", seconds) +
				  rate(was, is, "read.inline_bytes", seconds));
	add_rate(o, "written_bytes", rate(was, is, "write.chunk_bytes", seconds) +
				     rate(was, is, "write.inline_bytes", seconds));
	json_object_object_add(o, "kinds", kinds(was, is, seconds));
	json_object_object_add(o, "policy", json_object_new_string(ctl_text_of(after, "policy")));
	for (size_t i = 0; new && i < json_object_array_length(new); i++) {
		struct json_object *p = json_object_array_get_idx(new, i);

		json_object_array_add(a, path_rates(same_path(old, p), p, seconds));
	}
	json_object_object_add(o, "paths", a);
	return o;
}

/* ---- the screen ---- */

/* The most frequent kinds, best first. Returns how many. */
static unsigned top_kinds(struct json_object *o, const char *best[KINDS_SHOWN])
{
	unsigned n = 0;

	if (!o)
		return 0;
	json_object_object_foreach(o, name, value) {
		unsigned at = n;

		while (at > 0 && json_object_get_double(value) > ctl_double_of(o, best[at - 1]))
			at--;
		if (at == KINDS_SHOWN)
			continue;
		n += n < KINDS_SHOWN;
		memmove(&best[at + 1], &best[at], (n - 1 - at) * sizeof(best[0]));
		best[at] = name;
	}
	return n;
}

static void print_kinds(FILE *f, struct json_object *o)
{
	const char *best[KINDS_SHOWN];
	unsigned n = top_kinds(o, best);
	char text[CTL_UNIT_MAX];

	fputs("calls/s by kind:", f);
	for (unsigned i = 0; i < n; i++) {
		fputs(i ? ", " : " ", f);
		ctl_put(f, best[i]);
		fprintf(f, " %s", ctl_count_text(ctl_double_of(o, best[i]), text));
	}
	fputs(n ? "\n\n" : " none\n\n", f);
}

static void path_row(struct ctl_table *t, struct json_object *p)
{
	char text[CTL_UNIT_MAX];

	ctl_table_cell(t, "%ju", (uintmax_t)ctl_number_of(p, "id"));
	ctl_table_cell(t, "%s", ctl_text_of(p, "server"));
	ctl_table_cell(t, "%s", ctl_text_of(p, "state"));
	ctl_table_cell(t, "%ju/%ju", (uintmax_t)ctl_number_of(p, "connections"),
		       (uintmax_t)ctl_number_of(p, "wanted"));
	ctl_table_cell(t, "%s", ctl_count_text(ctl_double_of(p, "calls"), text));
	ctl_table_cell(t, "%s", ctl_bytes_text(ctl_double_of(p, "rx_bytes"), text));
	ctl_table_cell(t, "%s", ctl_bytes_text(ctl_double_of(p, "tx_bytes"), text));
	ctl_table_cell(t, "%s", ctl_time_text(ctl_number_of(p, "latency_ns"), text));
	ctl_table_cell(t, "%ju/%ju", (uintmax_t)ctl_number_of(p, "in_flight"),
		       (uintmax_t)ctl_number_of(p, "credits"));
}

static void print_paths(FILE *f, struct json_object *paths, unsigned width)
{
	static const char *const titles[] = {
		"ID", "SERVER", "STATE", "CONN", "CALLS/S", "READ/S", "WRITTEN/S", "LATENCY",
		"USED/CREDITS",
	};
	struct ctl_table *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	t->left = 1u << 1 | 1u << 2;
	t->moved = 1u << 1;
	ctl_table_row(t);
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		ctl_table_cell(t, "%s", titles[i]);
	for (size_t i = 0; paths && i < json_object_array_length(paths) && ctl_table_row(t); i++)
		path_row(t, json_object_array_get_idx(paths, i));
	ctl_table_print(f, t, width);
	free(t);
}

/* Copies lines, no longer and no more of them than there is room for. A byte is taken for a
 * column, because what is longer than ASCII is rare here. */
static void print_cut(FILE *f, const char *text, unsigned width, unsigned height)
{
	for (; *text && height; height--) {
		size_t len = strcspn(text, "\n");

		fprintf(f, "%.*s\n", (int)(len < width ? len : width), text);
		text += len + (text[len] != '\0');
	}
}

void ctl_rates_print(FILE *f, struct json_object *rates, unsigned width, unsigned height)
{
	char calls[CTL_UNIT_MAX], rd[CTL_UNIT_MAX], wr[CTL_UNIT_MAX], *text = NULL;
	size_t len;
	FILE *m = open_memstream(&text, &len);

	if (!m)
		return;
	fprintf(m, "%s calls/s   read %s/s   written %s/s   policy ",
		ctl_count_text(ctl_double_of(rates, "calls"), calls),
		ctl_bytes_text(ctl_double_of(rates, "read_bytes"), rd),
		ctl_bytes_text(ctl_double_of(rates, "written_bytes"), wr));
	ctl_put(m, ctl_text_of(rates, "policy"));
	fputc('\n', m);
	print_kinds(m, ctl_member_of(rates, "kinds", json_type_object));
	print_paths(m, ctl_member_of(rates, "paths", json_type_array), width);
	if (fclose(m) == 0)
		print_cut(f, text, width, height);
	free(text);
}

/* ---- the terminal ---- */

#define HIDE_CURSOR "\033[?25l"
#define SHOW_CURSOR "\033[?25h"
#define HOME        "\033[H"
#define CLEAR_LINE  "\033[K"
#define CLEAR_REST  "\033[J"

/* Then the signal does what it always does. */
static void on_signal(int sig)
{
	if (write(STDOUT_FILENO, SHOW_CURSOR "\n", sizeof(SHOW_CURSOR)) < 0)
		_exit(CTL_GONE);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void take_terminal(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], on_signal);
	fputs(HIDE_CURSOR HOME CLEAR_REST, stdout);
}

/* Over what is there, so that it does not flicker. */
static void redraw(const struct ctl_peer *p, struct json_object *reply, struct json_object *rates)
{
	struct winsize w = { 0 };
	char *text = NULL, *save;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col < 20 || w.ws_row < 5)
		w = (struct winsize){ .ws_col = 80, .ws_row = 24 };
	ctl_put(f, ctl_text_of(reply, "source"));
	fputs(" on ", f);
	ctl_put(f, p->mountpoint);
	fputc('\n', f);
	ctl_rates_print(f, rates, w.ws_col, w.ws_row - 2u);
	if (fclose(f) == 0) {
		fputs(HOME, stdout);
		for (char *l = text; (save = strchr(l, '\n')); l = save + 1)
			printf("%.*s" CLEAR_LINE "\n", (int)(save - l), l);
		fputs(CLEAR_REST, stdout);
	}
	free(text);
}

static void pause_ms(unsigned ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) < 0)
		;
}

static int ask_stats(const struct ctl_peer *p, struct json_object **reply, struct errbuf *eb)
{
	struct json_object *q = json_object_new_object();
	int status;

	json_object_object_add(q, "command", json_object_new_string("stats"));
	status = ctl_ask(p, q, reply, eb);
	json_object_put(q);
	return status;
}

static int round_of(const struct ctl_peer *p, struct json_object **before, uint64_t *before_ns,
		    bool json, bool terminal, struct errbuf *eb)
{
	struct json_object *after = NULL, *rates;
	int status = ask_stats(p, &after, eb);
	uint64_t now = mono_ns();

	if (!status && *before) {
		rates = ctl_rates(*before, after, (double)(now - *before_ns) / 1e9);
		if (json) {
			ctl_put(stdout, json_object_to_json_string_ext(rates, JSON_C_TO_STRING_PLAIN));
			fputc('\n', stdout);
		} else if (terminal) {
			redraw(p, after, rates);
		} else {
			ctl_rates_print(stdout, rates, CTL_WIDTH, UINT_MAX);
			putchar('\n');
		}
		json_object_put(rates);
		fflush(stdout);
	}
	json_object_put(*before);
	*before = after;
	*before_ns = now;
	return status;
}

int ctl_top(const struct ctl_peer *p, unsigned interval_ms, unsigned count, bool json,
	    struct errbuf *eb)
{
	bool terminal = !json && isatty(STDOUT_FILENO);
	struct json_object *before = NULL;
	uint64_t before_ns = 0;
	int status = round_of(p, &before, &before_ns, json, terminal, eb);

	if (terminal && !status)
		take_terminal();
	for (unsigned i = 0; !status && !ferror(stdout) && (!count || i < count); i++) {
		pause_ms(interval_ms);
		status = round_of(p, &before, &before_ns, json, terminal, eb);
	}
	if (terminal)
		fputs(SHOW_CURSOR, stdout);
	json_object_put(before);
	return status;
}
