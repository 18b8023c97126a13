/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command doctor: its words, and a mount's configuration for src/doctor, by the mount's options. */
#include "doctor_args.h"

#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fuse_lowlevel.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "doctor/doctor.h"
#include "setup.h"

#include "config.h"

static const char doctor_usage[] =
	"usage: " PACKAGE_NAME " doctor [SERVER:/EXPORT] [-o OPTION[,OPTION...]] [--report FILE]";

static void doctor_help(void)
{
	printf("%s\n\n"
	       "Says what stands in the way of a good mount with these options, what it costs, and how it\n"
	       "is mended: on this machine, and at the server, which is asked as by a mount. Nothing is\n"
	       "mounted or changed, and no file is read.\n\n"
	       "  -o OPTION[,OPTION...] the options of the mount, as in " PACKAGE_NAME " --help\n"
	       "  --report FILE         write FILE for a report of an error: all that was found, without names\n"
	       "                        of hosts, users and paths\n\n"
	       "Exit status: 0 all is good; 1 something costs; 2 something is in the way; 3 the command line\n"
	       "is wrong, or the report cannot be written. See " PACKAGE_NAME "(8).\n", doctor_usage);
}

struct words {
	const char *source, *report;
	char *options;          /* all of -o; NULL: none */
	bool help;
};

static int add_options(struct words *w, const char *more, struct errbuf *eb)
{
	char *all = NULL;

	if (asprintf(&all, "%s%s%s", w->options ? w->options : "", w->options ? "," : "", more) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	free(w->options);
	w->options = all;
	return 0;
}

static int take_words(struct words *w, int argc, char **argv, struct errbuf *eb)
{
	static const struct option names[] = {
		{ "help", no_argument, NULL, 'h' }, { "report", required_argument, NULL, 'r' }, { 0 },
	};
	int c, rc = 0;

	optind = 0;
	while (!rc && (c = getopt_long(argc, argv, ":ho:", names, NULL)) != -1) {
		if (c == 'o')
			rc = add_options(w, optarg, eb);
		else if (c == 'r')
			w->report = optarg;
		else if (c == 'h')
			w->help = true;
		else
			rc = err_set(eb, -EINVAL, c == ':' ? "%s needs a value; %s" : "'%s' is not known; %s",
				     argv[optind - 1], doctor_usage);
	}
	if (!rc && optind < argc)
		w->source = argv[optind++];
	if (!rc && optind < argc)
		rc = err_set(eb, -EINVAL, "'%s' is one argument too many; %s", argv[optind], doctor_usage);
	return rc;
}

/* The parser wants a source and a mount point. */
static int take_options(struct options *o, const struct words *w, struct errbuf *eb)
{
	const char *argv[] = {
		PACKAGE_NAME, w->source ? w->source : "localhost:/", "/", w->options ? "-o" : NULL, w->options, NULL,
	};

	return options_parse(o, w->options ? 5 : 3, (char *const *)argv, eb);
}

/* ---- for src/doctor ---- */

struct doctor_arg {
	struct options opt;
	const char *list;               /* all of -o, "" */
	bool has_server;
};

static int doctor_args_plan(struct nfs_config *out, enum doctor_plan how, const void *arg, struct errbuf *eb)
{
	static const enum opt_vers vers[] = {
		[DOCTOR_V3] = OPT_VERS_3, [DOCTOR_V41] = OPT_VERS_41, [DOCTOR_V42] = OPT_VERS_42,
	};
	const struct doctor_arg *a = arg;
	struct options o = a->opt;
	char here[] = "127.0.0.1", here6[] = "::1";

	if (how >= DOCTOR_V3)
		o.vers = vers[how];
	if (how == DOCTOR_BY_DEVICE)
		o.fabric = NFS_PLAN_VERBS;
	if (!a->has_server) {
		o.server = o.family == AF_INET6 ? here6 : here;
		o.remoteports.n = o.localports.n = 0;
	}
	return setup_client(out, &o, eb);
}

static struct nfs_chosen doctor_args_chosen(struct nfs_client *cl, const void *arg)
{
	const struct doctor_arg *a = arg;

	return setup_chosen(cl, &a->opt);
}

static int doctor_args_options(const void *arg, doctor_option_fn *fn, void *to)
{
	const struct doctor_arg *a = arg;

	return options_each(a->list, fn, to);
}

static int doctor_args_run(const struct words *w, const struct doctor_arg *a)
{
	const struct options *o = &a->opt;
	struct doctor_config cfg = {
		.root = "",
		.uid = geteuid(),
		.program = PACKAGE_STRING,
		.libfuse = fuse_pkgversion(),
		.source = w->source,
		.server = w->source ? o->server : NULL,
		.export = w->source ? o->export : NULL,
		.shared = o->allow_other == OPT_YES || o->allow_root,
		.fabric = o->fabric,
		.lanes = o->lanes,
		.port = o->port,
		.plan = doctor_args_plan,
		.chosen = doctor_args_chosen,
		.options = doctor_args_options,
		.arg = a,
		.report = w->report,
	};

	return doctor_run(&cfg);
}

int doctor_args_main(int argc, char **argv)
{
	struct doctor_arg a = { .has_server = false };
	struct errbuf eb = { "" };
	struct words w = { 0 };
	int status = DOCTOR_FAILED;

	if (take_words(&w, argc, argv, &eb)) {
		log_err("doctor: %s", eb.text);
	} else if (w.help) {
		doctor_help();
		status = DOCTOR_GOOD;
	} else if (take_options(&a.opt, &w, &eb)) {
		log_err("doctor: %s", eb.text);
	} else {
		a.has_server = w.source;
		a.list = w.options ? w.options : "";
		status = doctor_args_run(&w, &a);
	}
	options_free(&a.opt);
	free(w.options);
	return status;
}
