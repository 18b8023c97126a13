/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsrdma-fuse: options -> connect -> mount -> run -> tear down.
 *
 *   options.c  setup.c     what was asked for
 *   daemon.c               the background, and the result for the foreground
 *   nfs/client.c           connections, session, export
 *   fs/                    the FUSE side; runs until it is unmounted
 *
 * Threads: this one does the set-up, waits for the end of the mount, and tears
 * down. Signals are taken by a thread of their own, so that a dead server
 * cannot keep anybody from stopping us. The file operations are the lanes'.
 *
 * Order at the end: the mount first (fs_wait returns with no request left that
 * FUSE waits for), then the client, whose lanes may still complete calls, then
 * what those calls belong to.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "daemon.h"
#include "fs/fs.h"
#include "nfs/nfs.h"
#include "options.h"
#include "setup.h"

struct mount {
	struct options opt;
	struct nfs_config cfg;
	struct nfs_client *client;
	struct fs *fs;
};

/* ---- statistics ---- */

/* Written beside and renamed, so that a reader never sees half of it. */
static void write_stats(const struct mount *m)
{
	const struct stats *lanes[NFS_LANES_MAX];
	char *tmp;
	FILE *f;

	if (!m->opt.stats)
		return;
	if (asprintf(&tmp, "%s.new", m->opt.stats) < 0)
		return;
	f = fopen(tmp, "we");
	if (!f) {
		log_err("cannot write statistics to '%s': %s", tmp, strerror(errno));
		free(tmp);
		return;
	}
	for (unsigned i = 0; i < m->client->nlanes; i++)
		lanes[i] = &m->client->lanes[i].stats;
	stats_print(f, lanes, m->client->nlanes);
	if (fclose(f) || rename(tmp, m->opt.stats))
		log_err("cannot write statistics to '%s': %s", m->opt.stats, strerror(errno));
	free(tmp);
}

/* ---- signals ---- */

static void our_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR1);
}

static void *signal_main(void *arg)
{
	struct mount *m = arg;
	sigset_t set;
	int sig;

	our_signals(&set);
	while (sigwait(&set, &sig) == 0) {
		if (sig == SIGUSR1)
			write_stats(m);
		else
			fs_stop(m->fs);
	}
	return NULL;
}

/* Before any thread is made, so that all of them inherit the mask. */
static void block_signals(void)
{
	sigset_t set;

	our_signals(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* ---- steps ---- */

static int connect_server(struct mount *m, struct errbuf *eb)
{
	time_t end = time(NULL) + (time_t)m->opt.retry * 60;
	bool said = false;
	int rc;

	rc = setup_client(&m->cfg, &m->opt, eb);
	if (rc)
		return rc;
	for (;;) {
		rc = nfs_client_new(&m->cfg, &m->client, eb);
		/* Only what time may mend is tried again. */
		if (rc != -ECONNREFUSED && rc != -ETIMEDOUT && rc != -EHOSTUNREACH &&
		    rc != -ENETUNREACH)
			return rc;
		if (time(NULL) >= end)
			return rc;
		if (!said)
			log_warn("%s; trying for %u minutes (retry=)", eb->text, m->opt.retry);
		said = true;
		sleep(2);
	}
}

static int mount_fs(struct mount *m, struct errbuf *eb)
{
	const struct options *o = &m->opt;
	struct fs_config cfg = {
		.mountpoint = o->mountpoint,
		.fuse_opts = o->fuse_opts,
		.acregmin = o->noac ? 0 : o->acregmin,
		.acregmax = o->noac ? 0 : o->acregmax,
		.acdirmin = o->noac ? 0 : o->acdirmin,
		.acdirmax = o->noac ? 0 : o->acdirmax,
		.lookupcache = o->lookupcache == OPT_LOOKUP_ALL ? FS_LOOKUPCACHE_ALL :
			       o->lookupcache == OPT_LOOKUP_POS ? FS_LOOKUPCACHE_POS :
			       FS_LOOKUPCACHE_NONE,
		.rdirplus = o->rdirplus,
		.debug = o->debug,
	};

	return fs_mount(&cfg, m->client, &m->fs, eb);
}

static int run(struct mount *m)
{
	pthread_t signals;
	int rc;

	rc = -pthread_create(&signals, NULL, signal_main, m);
	if (rc) {
		log_err("cannot start a thread: %s", strerror(-rc));
		fs_stop(m->fs);
	}
	/* Nobody waits for the result any more: nobody wants the mount. */
	if (daemon_report(rc ? EXIT_SYSTEM : 0))
		fs_stop(m->fs);
	/* The terminal is spared what the system log is there for. */
	if (log_get_level() < LOG_LVL_INFO)
		log_set_level(LOG_LVL_INFO);
	fs_wait(m->fs);
	write_stats(m);
	if (!rc) {
		pthread_cancel(signals);
		pthread_join(signals, NULL);
	}
	return rc ? EXIT_SYSTEM : 0;
}

static int mount_and_run(struct mount *m)
{
	struct errbuf eb = { "" };
	int rc;

	if (daemon_start(m->opt.foreground, &eb)) {
		log_err("%s", eb.text);
		return EXIT_SYSTEM;
	}
	block_signals();
	rc = fs_check_mountpoint(m->opt.mountpoint, &eb);
	if (!rc && m->opt.fake)
		return daemon_report(0) ? EXIT_SYSTEM : 0;
	if (!rc)
		rc = connect_server(m, &eb);
	if (!rc)
		rc = mount_fs(m, &eb);
	if (rc) {
		log_err("%s", eb.text);
		rc = EXIT_MOUNT;
	} else {
		rc = run(m);
	}
	nfs_client_free(m->client);
	fs_free(m->fs);
	return rc;
}

int main(int argc, char **argv)
{
	struct mount m = { 0 };
	struct errbuf eb = { "" };
	int rc;

	if (options_parse(&m.opt, argc, argv, &eb)) {
		log_err("%s", eb.text);
		options_free(&m.opt);
		return EXIT_USAGE;
	}
	if (m.opt.action == OPT_HELP) {
		options_help(stdout);
		rc = 0;
	} else if (m.opt.action == OPT_VERSION) {
		options_version(stdout);
		rc = 0;
	} else {
		log_set_level(m.opt.debug ? LOG_LVL_DEBUG : m.opt.verbose || m.opt.foreground ?
			      LOG_LVL_INFO : LOG_LVL_WARN);
		rc = mount_and_run(&m);
	}
	options_free(&m.opt);
	return rc;
}
