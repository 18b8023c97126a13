/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsrdma-fuse: options -> connect -> mount -> run -> tear down.
 *
 *   options.c  setup.c     the options, and the configuration that they make
 *   daemon.c               the background, and the result for the foreground
 *   priv.c  landlock.c  sandbox.c  unmounter.c   privileges, before the mount and after
 *   nfs/client.c           connections, session, export
 *   fuse/                  the FUSE side; runs until it is unmounted
 *   main_control.c  ctl/   control while it runs; the command ctl
 *   doctor/                the command doctor: what stands in the way of a mount
 *
 * Threads: the main thread gives up its privileges, lets another process mount, waits for the
 * end of the mount, and tears down. What talks to the server is set up, and in the end taken
 * down, on a thread that it starts without privileges. It has to be one thread, because the
 * kernel lets librdmacm's files be used only with the very credentials that opened them.
 * A thread of its own takes signals from the start (signals.h). The lanes do the file operations.
 *
 * Order at the end: first the mount (after fs_wait() FUSE waits for no request), then the
 * client, whose lanes may still complete calls, then the objects that those calls belong to.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "ctl/ctl.h"
#include "ctl/unmount.h"
#include "daemon.h"
#include "doctor_args.h"
#include "fuse/fs.h"
#include "landlock.h"
#include "main_impl.h"
#include "nfs/nfs.h"
#include "options.h"
#include "priv.h"
#include "remount.h"
#include "sandbox.h"
#include "setup.h"
#include "statfile.h"
#include "unmounter.h"

/* libfuse allocates its object for each request, with calloc(), which takes none of what a
 * thread has cached. Pieces up to this size are kept as they are when they are freed, and not
 * merged with what lies beside them: that is 60 instructions less for each. */
static void tune_heap(void)
{
	/* The most that the C library takes. */
	mallopt(M_MXFAST, 80 * sizeof(size_t) / 4);
}

/* ---- steps ---- */

/* With bg: the command ends, and has succeeded. */
static void on_tries_again(void *mount)
{
	struct server *s = &((struct mount *)mount)->server;

	atomic_store(&s->tries, true);
	sem_post(&s->is_up);
}

static void tell_of_attempts(struct mount *m, bool tells)
{
	m->cfg.tries_again = m->opt.bg && tells ? on_tries_again : NULL;
	m->cfg.tries_again_arg = m;
	m->cfg.own = &m->own;
}

/* Between two attempts to find the server's address. */
#define PAUSE_S 5u

static int connect_server(struct mount *m, struct errbuf *eb)
{
	const uint64_t end = mono_ns() + m->opt.retry * 60 * 1000000000ull;
	bool said = false;
	int rc;

	/* A name may not be known yet, when a machine starts. */
	while ((rc = setup_client(&m->cfg, &m->opt, eb)) && nfs_client_may_pass(rc) && mono_ns() < end) {
		tell_of_attempts(m, true);
		if (!said)
			nfs_client_tries_again(&m->cfg, m->opt.retry * 60, eb);
		said = true;
		sleep(PAUSE_S);
	}
	tell_of_attempts(m, !said);
	return rc ? rc : nfs_client_new(&m->cfg, m->opt.retry * 60, &m->client, eb);
}

static int prepare_fs(struct mount *m, struct errbuf *eb)
{
	const struct options *o = &m->opt;
	struct fs_config cfg = {
		.vfs = setup_vfs(o),
		.fuse_opts = o->fuse_opts,
		.lookupcache = o->lookupcache,
		.debug = o->debug,
		.posix_locks = setup_server_locks(o, OPT_LOCAL_POSIX),
		.flock_locks = setup_server_locks(o, OPT_LOCAL_FLOCK),
		.late_data = !o->delegflush,
		.ugid = m->ugid,
		.rings = { .most_rings = o->maxrings, .most_bytes = (uint64_t)o->ringmem << 20,
			   .most_files = m->cfg.files_left },
		.mount = unmounter_mount,
		.read_ahead = unmounter_read_ahead,
		.write_back = unmounter_write_back,
		.unmount = unmounter_ask,
	};

	return fs_new(&cfg, m->client, &m->fs, eb);
}

static void start_rings(struct mount *m)
{
	char name[UNMOUNTER_NAME_MAX];
	struct errbuf eb;
	int fd;

	if (!fs_has_rings(m->fs))
		return;
	fd = unmounter_rings(name, &eb);
	if (fd >= 0)
		fs_listen(m->fs, fd, name);
	else
		log_warn("the mount on '%s' has no rings: %s", m->opt.mountpoint, eb.text);
}

/* The calling thread, and those that it starts from now on. 0 or -errno. */
static int bind_files(const struct mount *m)
{
	/* A bound process may not trace one that is not bound. */
	return priv_needs_ptrace() ? -EPERM : landlock_enter(m->stats_dir);
}

/* Of this thread, and of those that it starts from now on: nothing that they do needs
 * privileges. If the kernel or a container does not allow this, the mount is worth more than the
 * precaution. Returns what bind_files() said. */
static int drop_here(const struct mount *m)
{
	int rc = priv_drop(m->keep);

	if (rc)
		log_warn("cannot give up privileges: %s", strerror(-rc));
	return bind_files(m);
}

/* Of all threads, when the last of them have been made that need more. */
static void enter_sandbox(void)
{
	int rc = sandbox_enter();

	if (rc)
		log_warn("this process keeps privileges that it does not need: %s; the mount works "
			 "anyway", strerror(-rc));
}

static void say_not_bound(int rc)
{
	log_info("cannot limit this process to a list of files (Landlock): %s; the mount works anyway",
		 rc == -EPERM ? "/proc hides programs (hidepid), and it could not read their groups" :
		 rc == -ENOSYS ? "this kernel has no Landlock" :
		 rc == -EOPNOTSUPP ? "Landlock is switched off in this kernel (lsm=)" : strerror(-rc));
}

/* ---- signals.h ---- */

static void on_begin(void *mount)
{
	drop_here(mount);
}

static void on_given_up(void *mount, int sig)
{
	const struct mount *m = mount;

	log_err("the mount of '%s' on '%s' was given up before it was ready: SIG%s received (%s)",
		m->opt.source, m->opt.mountpoint, sigabbrev_np(sig), strsignal(sig));
}

static void on_stop(void *mount)
{
	fs_stop(((struct mount *)mount)->fs);
}

static const struct signals_ops signals_ops = {
	.begin = on_begin, .given_up = on_given_up, .stop = on_stop, .stats = mount_write_stats,
};

static int main_run(struct mount *m)
{
	int sig = signals_enter_running(&m->signals);

	if (sig) {
		on_given_up(m, sig);
		fs_stop(m->fs);
		fs_wait(m->fs);
		return EXIT_MOUNT;
	}
	mount_start_control(m);
	start_rings(m);
	enter_sandbox();
	if (log_get_level() >= LOG_LVL_INFO)
		mount_say_chosen(m);
	/* If nobody waits for the result any more, nobody wants the mount. */
	if (daemon_report(0))
		fs_stop(m->fs);
	/* Until now only -v and -f have shown these on the terminal; the system log gets them
	 * always. */
	if (log_get_level() < LOG_LVL_INFO) {
		log_set_level(LOG_LVL_INFO);
		mount_say_chosen(m);
	}
	if (m->bound)
		say_not_bound(m->bound);
	fs_wait(m->fs);
	mount_write_stats(m);
	return 0;
}

/* Runs on the server thread: everything that waits for the server before the mount. */
static int set_up(struct mount *m)
{
	int rc = m->opt.stats ? statfile_check(m->opt.stats, &m->eb) : 0;

	if (!rc && !m->opt.fake)
		rc = connect_server(m, &m->eb);
	if (!rc && !m->opt.fake)
		rc = prepare_fs(m, &m->eb);
	if (!rc && !m->opt.fake)
		mount_prepare_control(m);
	return rc;
}

static void *server_main(void *arg)
{
	struct mount *m = arg;

	m->server.rc = set_up(m);
	sem_post(&m->server.is_up);
	while (sem_wait(&m->server.may_end))
		;
	nfs_client_free(m->client);
	return NULL;
}

/* Runs set_up() on a thread of its own. 0 or -errno with m->eb set. */
static int start_server(struct mount *m)
{
	struct server *s = &m->server;
	int err;

	sem_init(&s->is_up, 0, 0);
	sem_init(&s->may_end, 0, 0);
	err = pthread_create(&s->thread, NULL, server_main, m);
	if (err)
		return err_set(&m->eb, -err, "cannot start a thread: %s", strerror(err));
	s->started = true;
	for (;;) {
		while (sem_wait(&s->is_up))
			;
		if (!atomic_exchange(&s->tries, false))
			return s->rc;
		if (!m->opt.foreground)
			unmounter_detach();
		/* It has to be this thread, which dies with the command until then (daemon_start()). */
		daemon_report(0);
	}
}

static void end_server(struct mount *m)
{
	if (!m->server.started)
		return;
	sem_post(&m->server.may_end);
	pthread_join(m->server.thread, NULL);
}

/* A dead mount that is to be replaced stays until just before that (unmounter.c): else programs would write into the
 * directory below while the server is waited for, and afterwards if it does not come. */
static int check_mountpoint(struct mount *m)
{
	int rc = fs_check_mountpoint(m->opt.mountpoint, &m->eb);
	struct ctl_mount dead;

	return ctl_may_be_dead(rc) && ctl_dead_find(m->opt.mountpoint, &dead) ? 0 : rc;
}

/* The signal thread must run already, because the mount point may not answer. */
static int check_and_run(struct mount *m)
{
	int rc = check_mountpoint(m);

	/* From here on the server is heard. */
	m->bound = drop_here(m);
	if (!rc)
		rc = start_server(m);
	if (!rc && m->opt.fake)
		return daemon_report(0) ? EXIT_SYSTEM : 0;
	if (!rc) {
		signals_enter_mounting(&m->signals);
		rc = fs_mount(m->fs, &m->eb);
	}
	if (!rc)
		return main_run(m);
	log_err("%s", m->eb.text);
	return EXIT_MOUNT;
}

/* statfile_check() tells if it is not there. */
static int open_stats_dir(const struct options *o)
{
	char *copy = o->stats ? strdup(o->stats) : NULL;
	int fd = copy ? open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	free(copy);
	return fd;
}

static int mount_and_run(struct mount *m, char **argv)
{
	/* Its file may be a descriptor (/dev/fd/N). */
	int rc = setup_ugid(&m->ugid, &m->ugid_table, &m->own, &m->opt, &m->eb);

	/* A lock (flock) or a pipe of the script's that runs the command would be held as long as the mount is there.
	 * Nothing of ours is open yet. */
	if (!m->opt.foreground)
		close_range(STDERR_FILENO + 1, ~0u, 0);
	if (!rc)
		rc = daemon_start(m->opt.foreground, &m->eb);

	/* Before signals are blocked: it may wait for somebody else's server. */
	m->stats_dir = open_stats_dir(&m->opt);
	m->keep = priv_needed(m->opt.vers == OPT_VERS_3);
	if (!rc && !m->opt.fake)
		rc = unmounter_start(&(struct unmounter_config){ m->opt.mountpoint, m->opt.fuse_opts },
				     argv, &m->eb);
	signals_block();
	if (!rc)
		rc = signals_start(&m->signals, &signals_ops, m, &m->eb);
	if (rc) {
		log_err("%s", m->eb.text);
		return EXIT_SYSTEM;
	}
	rc = check_and_run(m);
	signals_enter_ending(&m->signals, rc);
	/* What it is asked needs the client and the objects of the mount. */
	ctl_free(m->ctl);
	end_server(m);
	fs_free(m->fs);
	/* The signal thread uses m, so it ends first. */
	signals_stop(&m->signals);
	unmounter_rings_end();
	unmounter_end();
	return rc;
}

/* If we were started without standard input, output or error, /dev/null takes its place.
 * Otherwise the next file that is opened would get its number, and detach() would close it. */
static void fill_standard_files(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct mount m = { 0 };
	struct errbuf eb = { "" };
	int rc;

	fill_standard_files();
	/* The source of a mount has a ':'. */
	if (argc > 1 && strcmp(argv[1], "ctl") == 0)
		return ctl_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "doctor") == 0)
		return doctor_args_main(argc - 1, argv + 1);
	tune_heap();
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
	} else if (m.opt.action == OPT_WORDS) {
		options_words(stdout);
		rc = 0;
	} else if (m.opt.remount) {
		rc = remount_main(&m.opt);
	} else {
		log_set_level(m.opt.debug ? LOG_LVL_DEBUG : m.opt.verbose || m.opt.foreground ?
			      LOG_LVL_INFO : LOG_LVL_WARN);
		rc = mount_and_run(&m, argv);
	}
	options_free(&m.opt);
	return rc;
}
