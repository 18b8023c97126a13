/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command's arguments, and what it prints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/proto.h"
#include "ctl/text.h"
#include "ctl/top.h"

#include "config.h"

enum { LOCAL = 1, PORT = 2, FORCE = 4, INTERVAL = 8, COUNT = 16 };

/* top is not one of the protocol's commands: it asks for stats. */
static const struct verb {
	const char *name, *word;        /* the member that the word behind it becomes */
	bool needed;                    /* there must be one */
	unsigned options;
	const char *args, *help;
} verbs[] = {
	{ "paths", NULL, false, 0, "", "show the paths to the server" },
	{ "add-path", "server", true, LOCAL | PORT,
	  " ADDRESS [--local ADDRESS|INTERFACE] [--port N]", "add a path, and wait until it is connected" },
	{ "remove-path", "path", true, FORCE, " ID|ADDRESS [--force]",
	  "remove a path; --force: even the last one" },
	{ "policy", "policy", false, 0, " [NAME]",
	  "show or set how calls are spread: min-inflight, round-robin,\n"
	  "                min-latency" },
	{ "reconnect", "path", true, 0, " ID|ADDRESS|all", "close a path's connections, and connect again" },
	{ "stats", NULL, false, 0, "", "show all counters" },
	{ "top", NULL, false, INTERVAL | COUNT, " [--interval SECONDS] [--count N]",
	  "show what happens, again and again" },
};

static const struct option {
	const char *name;
	unsigned bit;
	bool value;
} options[] = {
	{ "--local", LOCAL, true }, { "--port", PORT, true }, { "--force", FORCE, false },
	{ "--interval", INTERVAL, true }, { "--count", COUNT, true },
};

struct args {
	const char *mountpoint, *word;
	const struct verb *verb;
	bool json, help;
	const char *local;
	unsigned given;         /* which options */
	unsigned port, interval_ms, count;
};

static const char usage_line[] =
	"usage: " PACKAGE_NAME " ctl MOUNTPOINT COMMAND [ARGUMENT...] [--json]; try '"
	PACKAGE_NAME " ctl --help'";

static void help(void)
{
	puts("usage: " PACKAGE_NAME " ctl MOUNTPOINT COMMAND [ARGUMENT...] [--json]\n\n"
	     "Controls a mount while it runs. Only the user who mounted it and root may.\n");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		printf("  %s%s\n                %s\n", verbs[i].name, verbs[i].args, verbs[i].help);
	puts("\n  --json        print what the daemon says, as one line of JSON (top: one each time)\n\n"
	     "Exit status: 0 done; 1 refused; 2 the command line is wrong; 3 no such mount, or its\n"
	     "daemon does not answer. See " PACKAGE_NAME "(8).");
}

/* ---- arguments ---- */

static int number(const char *name, const char *text, unsigned min, unsigned max, unsigned *out,
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

static int seconds(const char *text, unsigned *ms, struct errbuf *eb)
{
	char *end;
	double s = strtod(text, &end);

	if (*text < '0' || *text > '9' || *end || !(s >= 0.1 && s <= 3600))
		return err_set(eb, -EINVAL, "--interval: '%s' is not a time from 0.1 to 3600 seconds", text);
	*ms = (unsigned)(s * 1000 + 0.5);
	return 0;
}

static int take_value(struct args *a, const struct option *o, const char *value, struct errbuf *eb)
{
	a->given |= o->bit;
	switch (o->bit) {
	case LOCAL:
		a->local = value;
		return 0;
	case PORT:
		return number(o->name, value, 1, 65535, &a->port, eb);
	case INTERVAL:
		return seconds(value, &a->interval_ms, eb);
	case COUNT:
		return number(o->name, value, 1, 1000000000, &a->count, eb);
	default:
		return 0;
	}
}

/* Takes argv[*i], and its value if it has one. */
static int take_option(struct args *a, int argc, char **argv, int *i, struct errbuf *eb)
{
	const char *word = argv[*i];

	if (strcmp(word, "--json") == 0) {
		a->json = true;
		return 0;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		a->help = true;
		return 0;
	}
	for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
		if (strcmp(options[k].name, word) != 0)
			continue;
		if (options[k].value && *i + 1 >= argc)
			return err_set(eb, -EINVAL, "%s needs a value", word);
		return take_value(a, &options[k], options[k].value ? argv[++*i] : "", eb);
	}
	return err_set(eb, -EINVAL, "'%s' is not known; %s", word, usage_line);
}

static const struct verb *verb_named(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

static int take_word(struct args *a, const char *word, struct errbuf *eb)
{
	if (!a->mountpoint) {
		a->mountpoint = word;
	} else if (!a->verb) {
		a->verb = verb_named(word);
		if (!a->verb)
			return err_set(eb, -EINVAL, "there is no command '%s'; %s", word, usage_line);
	} else if (!a->word && a->verb->word && *word) {
		a->word = word;
	} else {
		return err_set(eb, -EINVAL, "'%s' is one argument too many for %s", word, a->verb->name);
	}
	return 0;
}

static int parse(struct args *a, int argc, char **argv, struct errbuf *eb)
{
	int rc = 0;

	*a = (struct args){ .interval_ms = 1000 };
	for (int i = 1; i < argc && !rc && !a->help; i++)
		rc = argv[i][0] == '-' && argv[i][1] ? take_option(a, argc, argv, &i, eb) :
		     take_word(a, argv[i], eb);
	if (rc || a->help)
		return rc;
	if (!a->verb)
		return err_set(eb, -EINVAL, "%s", usage_line);
	if (a->verb->needed && !a->word)
		return err_set(eb, -EINVAL, "%s needs an argument:%s", a->verb->name, a->verb->args);
	for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++)
		if (a->given & ~a->verb->options & options[k].bit)
			return err_set(eb, -EINVAL, "%s is not for %s", options[k].name, a->verb->name);
	return 0;
}

/* ---- the request ---- */

static void add_text(struct json_object *o, const char *name, const char *text)
{
	json_object_object_add(o, name, json_object_new_string(text));
}

/* An IPv6 address may stand in brackets, as in the source of a mount. */
static void add_word(struct json_object *o, const char *name, const char *word)
{
	size_t len = strlen(word);

	if (len > 2 && word[0] == '[' && word[len - 1] == ']')
		json_object_object_add(o, name, json_object_new_string_len(word + 1, (int)len - 2));
	else
		add_text(o, name, word);
}

static struct json_object *make_request(const struct args *a)
{
	struct json_object *o = json_object_new_object();

	if (!o)
		return NULL;
	add_text(o, "command", a->verb->name);
	if (a->word)
		add_word(o, a->verb->word, a->word);
	if (a->given & LOCAL)
		add_word(o, "local", a->local);
	if (a->given & PORT)
		json_object_object_add(o, "port", json_object_new_int((int)a->port));
	if (a->given & FORCE)
		json_object_object_add(o, "force", json_object_new_boolean(true));
	return o;
}

/* ---- the reply ---- */

static void print_stats(struct json_object *stats)
{
	if (!stats)
		return;
	json_object_object_foreach(stats, name, value) {
		ctl_put(stdout, name);
		printf(" %ju\n", (uintmax_t)json_object_get_uint64(value));
	}
}

static void print_reply(const struct args *a, struct json_object *reply)
{
	struct json_object *paths = ctl_member_of(reply, "paths", json_type_array);
	const char *warning = ctl_text_of(reply, "warning");

	if (*warning)
		log_warn("ctl: %s", warning);
	if (strcmp(a->verb->name, "stats") == 0) {
		print_stats(ctl_member_of(reply, "stats", json_type_object));
	} else if (strcmp(a->verb->name, "policy") == 0) {
		ctl_put(stdout, ctl_text_of(reply, "policy"));
		putchar('\n');
	} else if (paths) {
		ctl_print_path_table(stdout, paths);
	}
}

static int ask(const struct args *a, const struct ctl_peer *p, struct errbuf *eb)
{
	struct json_object *request = make_request(a), *reply = NULL;
	int status = ctl_ask(p, request, &reply, eb);

	if (a->json && status != CTL_GONE) {
		ctl_put(stdout, json_object_to_json_string_ext(reply, JSON_C_TO_STRING_PLAIN |
							       JSON_C_TO_STRING_NOSLASHESCAPE));
		putchar('\n');
	} else if (!status) {
		print_reply(a, reply);
	}
	json_object_put(request);
	json_object_put(reply);
	return status;
}

int ctl_main(int argc, char **argv)
{
	struct errbuf eb = { "" };
	struct ctl_peer p;
	struct args a;
	int status;

	if (parse(&a, argc, argv, &eb)) {
		log_err("ctl: %s", eb.text);
		return CTL_USAGE;
	}
	if (a.help) {
		help();
		return CTL_OK;
	}
	status = ctl_peer_find(&p, a.mountpoint, &eb);
	if (!status)
		status = strcmp(a.verb->name, "top") == 0 ?
			 ctl_top(&p, a.interval_ms, a.count, a.json, &eb) : ask(&a, &p, &eb);
	ctl_peer_free(&p);
	if (fflush(stdout) || ferror(stdout)) {
		log_err("ctl: cannot write to standard output: %s", strerror(errno));
		return status ? status : CTL_REFUSED;
	}
	if (status)
		log_err("ctl: %s", eb.text);
	return status;
}
