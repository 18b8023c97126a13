/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command's arguments, and what it prints. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/listen.h"
#include "ctl/metrics.h"
#include "ctl/mountstats.h"
#include "ctl/proto.h"
#include "ctl/text.h"
#include "ctl/top.h"

#include "config.h"

/* What getopt_long_only() returns for an option. -h is an abbreviation of --help. */
enum { LOCAL = 1, PORT, FORCE, INTERVAL, COUNT, LISTEN, MODE, SLOWER, JSON, HELP, WORDS };
#define BIT(option) (1u << (option))
/* Options that need no mount. */
#define ALONE (BIT(HELP) | BIT(WORDS))

static const struct option options[] = {
	{ "local", required_argument, NULL, LOCAL },
	{ "port", required_argument, NULL, PORT },
	{ "force", no_argument, NULL, FORCE },
	{ "interval", required_argument, NULL, INTERVAL },
	{ "count", required_argument, NULL, COUNT },
	{ "listen", required_argument, NULL, LISTEN },
	{ "mode", required_argument, NULL, MODE },
	{ "slower", required_argument, NULL, SLOWER },
	{ "json", no_argument, NULL, JSON },
	{ "help", no_argument, NULL, HELP },
	{ "words", no_argument, NULL, WORDS },
	{ NULL, 0, NULL, 0 },
};

struct args {
	const char *mountpoint, *word;
	char **filters;
	unsigned nfilters;
	const struct verb *verb;
	const char *local, *listen;
	unsigned given;         /* which options: BIT() */
	unsigned port, interval_ms, count, mode, slower_us;
};

/* ---- the reply, for people ---- */

static void print_stats(struct json_object *reply, const struct ctl_peer *p)
{
	struct json_object *stats = ctl_member_of(reply, "stats", json_type_object);

	if (!stats)
		return;
	json_object_object_foreach(stats, name, value) {
		ctl_put(stdout, name);
		printf(" %ju\n", (uintmax_t)json_object_get_uint64(value));
	}
}

static void print_mountstats(struct json_object *reply, const struct ctl_peer *p)
{
	ctl_mountstats(stdout, reply, p->mount.read_only);
}

static void print_ops(struct json_object *reply, const struct ctl_peer *p)
{
	ctl_print_op_tables(stdout, reply);
}

static void print_policy(struct json_object *reply, const struct ctl_peer *p)
{
	ctl_put(stdout, ctl_text_of(reply, "policy"));
	putchar('\n');
}

static void print_calls(struct json_object *reply, const struct ctl_peer *p)
{
	ctl_print_call_table(stdout, ctl_member_of(reply, "kept", json_type_array),
			     ctl_member_of(reply, "running", json_type_array));
}

static void print_info(struct json_object *reply, const struct ctl_peer *p)
{
	ctl_put(stdout, ctl_text_of(ctl_member_of(reply, "info", json_type_object), "text"));
	putchar('\n');
}

static void print_programs(struct json_object *reply, const struct ctl_peer *p)
{
	ctl_print_program_table(stdout, ctl_member_of(reply, "programs", json_type_array));
}

static void print_paths(struct json_object *reply, const struct ctl_peer *p)
{
	struct json_object *paths = ctl_member_of(reply, "paths", json_type_array);

	if (paths)
		ctl_print_path_table(stdout, paths);
}

static void print_nothing(struct json_object *reply, const struct ctl_peer *p)
{
}

/* ---- the commands ---- */

static int run_ask(const struct args *a, const struct ctl_peer *p, struct errbuf *eb);
static int run_abort(const struct args *a, const struct ctl_peer *p, struct errbuf *eb);
static int run_top(const struct args *a, const struct ctl_peer *p, struct errbuf *eb);
static int run_metrics(const struct args *a, const struct ctl_peer *p, struct errbuf *eb);
static int run_log(const struct args *a, const struct ctl_peer *p, struct errbuf *eb);

static const struct verb {
	const char *name, *word;        /* the member that the word behind it becomes */
	bool needed;                    /* there must be one */
	unsigned options;
	const char *args, *help;
	int (*run)(const struct args *a, const struct ctl_peer *p, struct errbuf *eb);
	/* Of run_ask() and run_abort(): what shows the reply, and what the daemon knows it by if not by its name. */
	void (*print)(struct json_object *reply, const struct ctl_peer *p);
	const char *asks;
} verbs[] = {
	{ "paths", NULL, false, BIT(JSON), "", "show the paths to the server",
	  run_ask, print_paths, NULL },
	{ "add-path", "server", true, BIT(LOCAL) | BIT(PORT) | BIT(JSON),
	  " ADDRESS [--local ADDRESS|INTERFACE] [--port N]", "add a path, and wait until it is connected",
	  run_ask, print_paths, NULL },
	{ "remove-path", "path", true, BIT(FORCE) | BIT(JSON), " ID|ADDRESS [--force]",
	  "remove a path; --force: even the last one",
	  run_ask, print_paths, NULL },
	{ "policy", "policy", false, BIT(JSON), " [NAME]",
	  "show or set how calls are spread: min-inflight, round-robin,\n"
	  "                min-latency",
	  run_ask, print_policy, NULL },
	{ "reconnect", "path", true, BIT(JSON), " ID|ADDRESS|all", "close a path's connections, and connect again",
	  run_ask, print_paths, NULL },
	{ "info", NULL, false, BIT(JSON), "", "show what the mount has come to: version, connections, sizes",
	  run_ask, print_info, NULL },
	{ "stats", NULL, false, BIT(JSON), "", "show all counters",
	  run_ask, print_stats, NULL },
	{ "rings", NULL, false, BIT(JSON), "", "show the programs that read and write past the kernel",
	  run_ask, print_programs, NULL },
	{ "abort", NULL, false, BIT(JSON), "", "end the mount at once, also if the server or the daemon is dead: programs\n"
	  "                that use it get errors, and what the server has not taken is lost",
	  run_abort, print_nothing, NULL },
	{ "ops", NULL, false, BIT(JSON), "", "show what the kernel has asked for, and the calls to the server, each with times",
	  run_ask, print_ops, NULL },
	{ "mountstats", NULL, false, BIT(JSON), "", "the same in the form of /proc/self/mountstats",
	  run_ask, print_mountstats, "ops" },
	{ "calls", NULL, false, BIT(SLOWER) | BIT(JSON), " [--slower MILLISECONDS]",
	  "show calls under way, and the last that were slow or failed;\n"
	  "                --slower: keep what takes so long from now on; 0: all",
	  run_ask, print_calls, NULL },
	{ "log", NULL, false, BIT(JSON), " [op=OPERATION] [pid=N] [uid=N] [name=PATTERN] [slower=MILLISECONDS]",
	  "show each request of the kernel when it ends", run_log, NULL, NULL },
	{ "metrics", NULL, false, BIT(LISTEN) | BIT(MODE), " [--listen SOCKET [--mode OCTAL]]",
	  "show all of that in the format of OpenMetrics, or serve it by HTTP", run_metrics, NULL, NULL },
	{ "top", NULL, false, BIT(INTERVAL) | BIT(COUNT) | BIT(JSON), " [--interval SECONDS] [--count N]",
	  "show rates of calls and bytes, and the busiest files and processes, repeatedly", run_top, NULL, NULL },
};

static const char usage_line[] =
	"usage: " PACKAGE_NAME " ctl MOUNTPOINT COMMAND [ARGUMENT...] [--json]; try '"
	PACKAGE_NAME " ctl --help'";

static void ctl_help(void)
{
	puts("usage: " PACKAGE_NAME " ctl MOUNTPOINT COMMAND [ARGUMENT...] [--json]\n\n"
	     "Controls a mount while it runs. Only the user who mounted it and root may.\n");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		printf("  %s%s\n                %s\n", verbs[i].name, verbs[i].args, verbs[i].help);
	puts("\n  --json        print the daemon's reply as one line of JSON (top: one each time; not for metrics)\n\n"
	     "Exit status: 0 done; 1 refused; 2 the command line is wrong; 3 no such mount, or its\n"
	     "daemon does not answer. See " PACKAGE_NAME "(8).");
}

/* For the shells' completion: a line for each command, with its options behind it. */
static void ctl_words(void)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		fputs(verbs[i].name, stdout);
		for (const struct option *o = options; o->name; o++)
			if (verbs[i].options & BIT(o->val))
				printf(" --%s", o->name);
		putchar('\n');
	}
}

/* ---- arguments ---- */

static int ctl_number(const char *name, const char *text, unsigned min, unsigned max, unsigned *out,
		      struct errbuf *eb)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n < min || n > max)
		return err_set(eb, -EINVAL, "%s: '%s' is not a number from %u to %u", name, text, min, max);
	*out = (unsigned)n;
	return 0;
}

static int ctl_seconds(const char *text, unsigned *ms, struct errbuf *eb)
{
	char *end;
	double s = strtod(text, &end);

	if (*text < '0' || *text > '9' || *end || !(s >= 0.1 && s <= 3600))
		return err_set(eb, -EINVAL, "--interval: '%s' is not a time from 0.1 to 3600 seconds", text);
	*ms = (unsigned)(s * 1000 + 0.5);
	return 0;
}

static int ctl_milliseconds(const char *text, unsigned *us, struct errbuf *eb)
{
	char *end;
	double ms = strtod(text, &end);

	if (*text < '0' || *text > '9' || *end || !(ms >= 0 && ms <= 3600000))
		return err_set(eb, -EINVAL, "--slower: '%s' is not a time from 0 to 3600000 milliseconds", text);
	*us = (unsigned)(ms * 1000 + 0.5);
	return 0;
}

static int ctl_mode(const char *text, unsigned *mode, struct errbuf *eb)
{
	if (!*text || strlen(text) > 4 || text[strspn(text, "01234567")] || strtoul(text, NULL, 8) > 0777)
		return err_set(eb, -EINVAL, "--mode: '%s' is not an octal number from 0 to 777", text);
	*mode = (unsigned)strtoul(text, NULL, 8);
	return 0;
}

static int take_option(struct args *a, int option, const char *word, struct errbuf *eb)
{
	if (option == ':')
		return err_set(eb, -EINVAL, "%s needs a value", word);
	if (option == '?')
		return err_set(eb, -EINVAL, "'%s' is not known; %s", word, usage_line);
	a->given |= BIT(option);
	switch (option) {
	case LOCAL:
		a->local = optarg;
		return 0;
	case PORT:
		return ctl_number("--port", optarg, 1, 65535, &a->port, eb);
	case INTERVAL:
		return ctl_seconds(optarg, &a->interval_ms, eb);
	case COUNT:
		return ctl_number("--count", optarg, 1, 1000000000, &a->count, eb);
	case LISTEN:
		a->listen = optarg;
		return 0;
	case SLOWER:
		return ctl_milliseconds(optarg, &a->slower_us, eb);
	case MODE:
		return ctl_mode(optarg, &a->mode, eb);
	default:
		return 0;
	}
}

static const struct verb *verb_named(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

static int take_words(struct args *a, int n, char **word, struct errbuf *eb)
{
	if (n < 2)
		return err_set(eb, -EINVAL, "%s", usage_line);
	a->mountpoint = word[0];
	a->verb = verb_named(word[1]);
	if (!a->verb)
		return err_set(eb, -EINVAL, "there is no command '%s'; %s", word[1], usage_line);
	if (a->verb->run == run_log) {
		a->filters = word + 2;
		a->nfilters = (unsigned)n - 2;
		return 0;
	}
	if (n > 2 && a->verb->word && *word[2])
		a->word = word[2];
	if (n > (a->word ? 3 : 2))
		return err_set(eb, -EINVAL, "'%s' is one argument too many for %s", word[a->word ? 3 : 2],
			       a->verb->name);
	if (a->verb->needed && !a->word)
		return err_set(eb, -EINVAL, "%s needs an argument:%s", a->verb->name, a->verb->args);
	return 0;
}

static int ctl_parse(struct args *a, int argc, char **argv, struct errbuf *eb)
{
	int option, rc = 0;

	*a = (struct args){ .interval_ms = 1000, .mode = 0600 };
	optind = 0;             /* the program's own options may have been read */
	while (!rc && !(a->given & ALONE) &&
	       (option = getopt_long_only(argc, argv, ":", options, NULL)) != -1)
		rc = take_option(a, option, argv[optind - 1], eb);
	if (!rc && !(a->given & ALONE))
		rc = take_words(a, argc - optind, argv + optind, eb);
	for (const struct option *o = options; !rc && a->verb && o->name; o++)
		if (o->val != HELP && a->given & ~a->verb->options & BIT(o->val))
			rc = err_set(eb, -EINVAL, "--%s is not for %s", o->name, a->verb->name);
	return rc;
}

/* ---- the request ---- */

/* An IPv6 address may stand in brackets, as in the source of a mount. */
static void add_word(struct json_object *o, const char *name, const char *word)
{
	size_t len = strlen(word);

	if (len > 2 && word[0] == '[' && word[len - 1] == ']')
		json_object_object_add(o, name, json_object_new_string_len(word + 1, (int)len - 2));
	else
		ctl_add_text(o, name, word);
}

static struct json_object *make_request(const struct args *a)
{
	struct json_object *o = json_object_new_object();

	if (!o)
		return NULL;
	ctl_add_text(o, "command", a->verb->asks ? a->verb->asks : a->verb->name);
	if (a->word)
		add_word(o, a->verb->word, a->word);
	if (a->given & BIT(LOCAL))
		add_word(o, "local", a->local);
	if (a->given & BIT(PORT))
		json_object_object_add(o, "port", json_object_new_int((int)a->port));
	if (a->given & BIT(SLOWER))
		json_object_object_add(o, "slower_us", json_object_new_uint64(a->slower_us));
	if (a->given & BIT(FORCE))
		json_object_object_add(o, "force", json_object_new_boolean(true));
	return o;
}

/* ---- what is done ---- */

static int ask_by(int (*ask)(const struct ctl_peer *p, struct json_object *request, struct json_object **reply,
			     struct errbuf *eb),
		  const struct args *a, const struct ctl_peer *p, struct errbuf *eb)
{
	struct json_object *request = make_request(a), *reply = NULL;
	int status = ask(p, request, &reply, eb);

	if (a->given & BIT(JSON) && status != CTL_GONE) {
		ctl_put(stdout, json_object_to_json_string_ext(reply, JSON_C_TO_STRING_PLAIN |
							       JSON_C_TO_STRING_NOSLASHESCAPE));
		putchar('\n');
	} else if (!status) {
		if (*ctl_text_of(reply, "warning"))
			log_warn("ctl: %s", ctl_text_of(reply, "warning"));
		a->verb->print(reply, p);
	}
	json_object_put(request);
	json_object_put(reply);
	return status;
}

static int run_ask(const struct args *a, const struct ctl_peer *p, struct errbuf *eb)
{
	return ask_by(ctl_ask, a, p, eb);
}

static int run_abort(const struct args *a, const struct ctl_peer *p, struct errbuf *eb)
{
	return ask_by(ctl_abort, a, p, eb);
}

static int run_top(const struct args *a, const struct ctl_peer *p, struct errbuf *eb)
{
	return ctl_top(p, a->interval_ms, a->count, a->given & BIT(JSON), eb);
}

static int run_log(const struct args *a, const struct ctl_peer *p, struct errbuf *eb)
{
	return ctl_listen_log(p, a->filters, a->nfilters, a->given & BIT(JSON), eb);
}

static int run_metrics(const struct args *a, const struct ctl_peer *p, struct errbuf *eb)
{
	if (a->listen)
		return ctl_metrics_serve(p, a->listen, a->mode, eb);
	return ctl_metrics_print(p, stdout, eb);
}

int ctl_main(int argc, char **argv)
{
	struct errbuf eb = { "" };
	struct ctl_peer p;
	struct args a;
	int status;

	if (ctl_parse(&a, argc, argv, &eb)) {
		log_err("ctl: %s", eb.text);
		return CTL_USAGE;
	}
	if (!a.verb) {
		(a.given & BIT(WORDS) ? ctl_words : ctl_help)();
		return CTL_OK;
	}
	status = ctl_peer_find(&p, a.mountpoint, &eb);
	if (!status)
		status = a.verb->run(&a, &p, &eb);
	ctl_peer_free(&p);
	if (fflush(stdout) || ferror(stdout)) {
		log_err("ctl: cannot write to standard output: %s", strerror(errno));
		return status ? status : CTL_REFUSED;
	}
	if (status)
		log_err("ctl: %s", eb.text);
	return status;
}
