/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/top.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/loop.h"
#include "ctl/busy.h"
#include "ctl/ctl.h"
#include "ctl/proto.h"
#include "ctl/rates.h"
#include "ctl/text.h"

#define KINDS_SHOWN 8u
/* Of files and of processes, where lines are counted. */
#define BUSY_ON_SCREEN 5u

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

/* Copies lines, no longer and no more of them than there is room for. A byte is taken for a
 * column, because what is longer than ASCII is rare here; no character is cut. */
static void print_cut(FILE *f, const char *text, unsigned width, unsigned height)
{
	for (; *text && height; height--) {
		size_t len = strcspn(text, "\n"), shown = len < width ? len : width;

		while (shown < len && shown && ((unsigned char)text[shown] & 0xc0) == 0x80)
			shown--;
		fprintf(f, "%.*s\n", (int)shown, text);
		text += len + (text[len] != '\0');
	}
}

void ctl_rates_print(FILE *f, struct json_object *rates, unsigned width, unsigned height)
{
	static const struct ctl_column columns[] = {
		{ "ID", CTL_COUNT, "id", NULL },
		{ "SERVER", CTL_LONG_WORD, "server", NULL },
		{ "STATE", CTL_WORD, "state", NULL },
		{ "CONN", CTL_OF, "connections", "wanted" },
		{ "CALLS/S", CTL_COUNT, "calls", NULL },
		{ "READ/S", CTL_BYTES, "rx_bytes", NULL },
		{ "WRITTEN/S", CTL_BYTES, "tx_bytes", NULL },
		{ "LATENCY", CTL_TIME, "latency_ns", NULL },
		{ "USED/CREDITS", CTL_OF, "in_flight", "credits" },
	};
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
	ctl_print_table(m, columns, sizeof(columns) / sizeof(columns[0]),
			ctl_member_of(rates, "paths", json_type_array), width);
	busy_print(m, rates, width ? BUSY_ON_SCREEN : BUSY_SHOWN);
	if (fclose(m) == 0)
		print_cut(f, text, width ? width : INT_MAX, height);
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
static void top_redraw(const struct ctl_peer *p, struct json_object *reply,
		       struct json_object *rates)
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

/* ---- what is collected ---- */

/* Between two refreshes lines of the log are read; what they say belongs to the next one. */
struct top {
	const struct ctl_peer *peer;
	bool json, terminal;
	struct json_object *before;     /* the last reply; NULL: there is none so far */
	uint64_t before_ns;
	struct ctl_lines lines;         /* closed: for `not_seen` */
	struct errbuf not_seen;
	struct busy *busy;
};

static void top_listen(struct top *t)
{
	struct json_object *q = json_object_new_object();
	int status = CTL_OK;

	t->busy = busy_new();
	if (q && t->busy) {
		ctl_add_text(q, "command", "log");
		status = ctl_lines_open(&t->lines, t->peer, q, &t->not_seen);
	} else {
		status = err_set(&t->not_seen, CTL_GONE, "out of memory");
	}
	if (status)
		ctl_lines_close(&t->lines);
	json_object_put(q);
}

static void top_line(struct json_object *line, void *to)
{
	busy_add(to, line);
}

/* If the daemon has ended, the wait is over: the statistics, which are asked for next, have the error. */
static void top_wait(struct top *t, unsigned ms)
{
	const uint64_t until = mono_ns() + ms * 1000000ull;
	int status = CTL_OK;
	uint64_t now;

	if (t->lines.fd >= 0)
		status = ctl_lines_take(&t->lines, (int)ms, top_line, t->busy, &t->not_seen);
	if (status)
		ctl_lines_close(&t->lines);
	now = mono_ns();
	if (status != CTL_GONE && now < until)
		poll(NULL, 0, (int)((until - now) / 1000000u));
}

static void top_show(const struct top *t, struct json_object *after, struct json_object *rates)
{
	if (t->not_seen.text[0])
		ctl_add_text(rates, "not_seen", t->not_seen.text);
	else
		busy_take(t->busy, rates);
	if (t->json) {
		ctl_put(stdout, json_object_to_json_string_ext(rates, JSON_C_TO_STRING_PLAIN |
							       JSON_C_TO_STRING_NOSLASHESCAPE));
		fputc('\n', stdout);
	} else if (t->terminal) {
		top_redraw(t->peer, after, rates);
	} else {
		ctl_rates_print(stdout, rates, 0, UINT_MAX);
		putchar('\n');
	}
	fflush(stdout);
}

static int top_round(struct top *t, struct errbuf *eb)
{
	struct json_object *after = NULL, *rates = NULL;
	int status = ctl_ask_command(t->peer, "stats", NULL, NULL, &after, eb);
	uint64_t now = mono_ns();

	if (!status && t->before) {
		rates = ctl_rates(t->before, after, (double)(now - t->before_ns) / 1e9);
		if (rates)
			top_show(t, after, rates);
		else
			status = err_set(eb, CTL_GONE, "out of memory");
	}
	json_object_put(rates);
	json_object_put(t->before);
	t->before = after;
	t->before_ns = now;
	return status;
}

int ctl_top(const struct ctl_peer *p, unsigned interval_ms, unsigned count, bool json,
	    struct errbuf *eb)
{
	struct top t = { .peer = p, .json = json, .terminal = !json && isatty(STDOUT_FILENO), .lines.fd = -1 };
	int status = top_round(&t, eb);

	if (!status)
		top_listen(&t);
	if (t.terminal && !status)
		take_terminal();
	for (unsigned i = 0; !status && !ferror(stdout) && (!count || i < count); i++) {
		top_wait(&t, interval_ms);
		status = top_round(&t, eb);
	}
	if (t.terminal)
		fputs(SHOW_CURSOR, stdout);
	ctl_lines_close(&t.lines);
	busy_free(t.busy);
	json_object_put(t.before);
	return status;
}
