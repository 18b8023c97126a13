/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsrdma-fuse: options -> connect -> mount -> run -> tear down.
 *
 *   options.c  setup.c     the options, and the configuration that they make
 *   daemon.c               the background, and the result for the foreground
 *   priv.c  landlock.c  sandbox.c  unmounter.c   privileges, before the mount and after
 *   nfs/client.c           connections, session, export
 *   fs/                    the FUSE side; runs until it is unmounted
 *   ctl/                   control while it runs; the command ctl
 *
 * Threads: the main thread gives up its privileges, lets another process mount, waits for the
 * end of the mount, and tears down. What talks to the server is set up, and in the end taken
 * down, on a thread that it starts without privileges. It has to be one thread, because the
 * kernel lets librdmacm's files be used only with the very credentials that opened them.
 * A thread of its own takes signals from the start. So neither a
 * mount point nor a resolver nor a dead server can keep anybody from stopping us; enum phase
 * says what signals do. The lanes do the file operations.
 *
 * Order at the end: first the mount (after fs_wait() FUSE waits for no request), then the
 * client, whose lanes may still complete calls, then the objects that those calls belong to.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "ctl/ctl.h"
#include "daemon.h"
#include "fuse/fs.h"
#include "landlock.h"
#include "nfs/nfs.h"
#include "options.h"
#include "priv.h"
#include "sandbox.h"
#include "setup.h"
#include "statfile.h"
#include "unmounter.h"

/* What SIGINT, SIGTERM and SIGHUP do depends on the phase. */
enum phase {
	CONNECTING,             /* end the process: there is nothing to undo on this machine */
	MOUNTING,               /* wait until it is known whether the kernel has the mount */
	RUNNING,                /* unmount */
	ENDING,                 /* end the process: there is no mount any more */
};
/* Mounting waits for this machine only. If it takes so long after a signal (fusermount3
 * hangs, for example in a directory that does not answer), the process ends all the same:
 * fusermount3 undoes a mount when nobody is there to take it. */
#define MOUNTING_S 5
/* What write-behind has at least, in percent of the buffers that are always there. */
#define BEHIND_SHARE 25u

/* The server thread: set_up(), and in the end nfs_client_free(). */
struct server {
	pthread_t thread;
	bool started;
	sem_t is_up, may_end;
	int rc;                 /* set_up()'s */
};

struct mount {
	struct server server;
	struct options opt;
	struct nfs_config cfg;
	struct nfs_client *client;
	struct fs *fs;
	struct ctl *ctl;        /* NULL: the mount cannot be controlled */
	pthread_t signals;
	sem_t signals_ready;    /* the signal thread has given up its privileges */
	pthread_mutex_t mu;     /* for phase, ended_by, stats_asked, status */
	enum phase phase;
	int ended_by;           /* the signal that came while MOUNTING, or 0 */
	bool stats_asked;       /* SIGUSR1 came before RUNNING */
	int status;             /* ENDING: the exit status */
	uint64_t keep;          /* capabilities that are kept */
	int stats_dir;          /* the directory of stats=, or -1 */
	int bound;              /* bind_files() of the main thread */
	struct errbuf eb;       /* why it failed */
};

/* ---- statistics ---- */

/* After the counters come values of this moment. heap_bytes are the bytes in use; the
 * allocator may keep more of the system's memory. */
static void put_stats(const struct stats_out *out, const void *arg)
{
	const struct mount *m = arg;
	const struct stats *all[NFS_LANES_MAX + 1];
	struct mallinfo2 heap = mallinfo2();

	for (unsigned i = 0; i < m->client->nlanes; i++)
		all[i] = &m->client->lanes[i].stats;
	all[m->client->nlanes] = &m->client->arena.more.stats;
	stats_put_all(out, all, m->client->nlanes + 1);
	nfs_put_calls(out, m->client);
	ctl_put_paths(out, m->client);
	stats_put(out, fs_inode_count(m->fs), "now.inodes");
	stats_put(out, fs_held_bytes(m->fs), "now.held_bytes");
	stats_put(out, heap.uordblks + heap.hblkhd, "now.heap_bytes");
}

static void print_line(void *to, const char *name, uint64_t value)
{
	fprintf(to, "%s %" PRIu64 "\n", name, value);
}

static void print_stats(FILE *f, const void *arg)
{
	put_stats(&(struct stats_out){ print_line, f }, arg);
}

static void write_stats(const struct mount *m)
{
	if (m->opt.stats)
		statfile_write(m->opt.stats, print_stats, m);
}

/* ---- signals ---- */

static void our_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR1);
	sigaddset(set, SIGUSR2);        /* from sandbox.c */
}

static void say_given_up(const struct mount *m, int sig)
{
	log_err("the mount of '%s' on '%s' was given up before it was ready: SIG%s received (%s)",
		m->opt.source, m->opt.mountpoint, sigabbrev_np(sig), strsignal(sig));
}

static void on_end_signal(struct mount *m, int sig)
{
	pthread_mutex_lock(&m->mu);
	switch (m->phase) {
	case CONNECTING:
		say_given_up(m, sig);
		/* With the lock held, so that MOUNTING cannot begin. */
		_exit(EXIT_MOUNT);
	case MOUNTING:
		m->ended_by = sig;
		break;
	case RUNNING:
		fs_stop(m->fs);
		break;
	case ENDING:
		_exit(m->status);
	}
	pthread_mutex_unlock(&m->mu);
}

/* MOUNTING_S after a signal that came while MOUNTING. */
static void on_no_patience(struct mount *m)
{
	pthread_mutex_lock(&m->mu);
	if (m->phase == MOUNTING) {
		say_given_up(m, m->ended_by);
		_exit(EXIT_MOUNT);
	}
	pthread_mutex_unlock(&m->mu);
}

static void on_stats_signal(struct mount *m)
{
	bool running;

	pthread_mutex_lock(&m->mu);
	running = m->phase == RUNNING;
	m->stats_asked = m->phase < RUNNING;
	/* With the lock held, because the counters are freed when the phase is ENDING. */
	if (running)
		write_stats(m);
	pthread_mutex_unlock(&m->mu);
}

static void __attribute__((noreturn)) signal_main(struct mount *m)
{
	const struct timespec patience = { .tv_sec = MOUNTING_S };
	sigset_t set;
	int sig, state;

	our_signals(&set);
	for (;;) {
		sig = m->ended_by ? sigtimedwait(&set, NULL, &patience) : sigwaitinfo(&set, NULL);
		/* The thread must not be cancelled with the lock held, or with half a file
		 * written. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		if (sig < 0 && errno == EAGAIN)
			on_no_patience(m);
		else if (sig == SIGUSR1)
			on_stats_signal(m);
		else if (sig == SIGUSR2)
			sandbox_log();
		else if (sig > 0)
			on_end_signal(m, sig);
		pthread_setcancelstate(state, NULL);
	}
}

static void enter(struct mount *m, enum phase phase)
{
	pthread_mutex_lock(&m->mu);
	m->phase = phase;
	pthread_mutex_unlock(&m->mu);
}

/* Returns the signal that came while MOUNTING. If there was none the phase is RUNNING now:
 * 0. */
static int enter_running(struct mount *m)
{
	int sig;

	pthread_mutex_lock(&m->mu);
	sig = m->ended_by;
	if (!sig)
		m->phase = RUNNING;
	if (!sig && m->stats_asked)
		pthread_kill(m->signals, SIGUSR1);
	pthread_mutex_unlock(&m->mu);
	return sig;
}

/* From now on only the server has to be told, and it may be silent. */
static int enter_ending(struct mount *m, int status)
{
	pthread_mutex_lock(&m->mu);
	m->phase = ENDING;
	m->status = status;
	pthread_mutex_unlock(&m->mu);
	return status;
}

/* Call it before any thread is started, so that all threads inherit the mask. */
static void block_signals(void)
{
	sigset_t set;

	our_signals(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* libfuse allocates its object for each request, with calloc(), which takes none of what a
 * thread has cached. Pieces up to this size are kept as they are when they are freed, and not
 * merged with what lies beside them: that is 60 instructions less for each. */
static void tune_heap(void)
{
#ifdef M_MXFAST
	/* The most that the C library takes. If it takes less, nothing is lost. */
	mallopt(M_MXFAST, 80 * sizeof(size_t) / 4);
#endif
}

/* ---- steps ---- */

static int connect_server(struct mount *m, struct errbuf *eb)
{
	int rc = setup_client(&m->cfg, &m->opt, eb);

	return rc ? rc : nfs_client_retry(&m->cfg, m->opt.retry * 60, &m->client, eb);
}

static int prepare_fs(struct mount *m, struct errbuf *eb)
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
		.solo = o->consistency == OPT_SOLO,
		.write_behind = o->noac || o->sync || !o->writebehind ? 0 :
				o->writebehind > BEHIND_SHARE ? o->writebehind : BEHIND_SHARE,
		.readahead = o->readahead,
		.rdirplus = o->rdirplus,
		.debug = o->debug,
		.mount = unmounter_mount,
		.read_ahead = unmounter_read_ahead,
		.write_back = unmounter_write_back,
		.unmount = unmounter_ask,
	};

	return fs_new(&cfg, m->client, &m->fs, eb);
}

/* Runs on the server thread, because what the command thread starts talks to the server. The
 * mount is worth more than its control. */
static void prepare_control(struct mount *m)
{
	const struct ctl_config cfg = {
		.client = m->client,
		.mountpoint = m->opt.mountpoint,
		.source = m->opt.source,
		.make_path = nfs_plan_path,
		.put_stats = put_stats,
		.arg = m,
		.make_socket = unmounter_control,
		.remove_socket = unmounter_control_end,
	};
	struct errbuf eb;

	if (ctl_new(&cfg, &m->ctl, &eb))
		log_warn("this mount cannot be controlled: %s", eb.text);
}

static void start_control(struct mount *m)
{
	struct errbuf eb;

	if (m->ctl && ctl_listen(m->ctl, &eb))
		log_warn("the mount on '%s' cannot be controlled: %s", m->opt.mountpoint, eb.text);
}

/* The calling thread, and those that it starts from now on. 0 or -errno. */
static int bind_files(const struct mount *m)
{
	/* Who is bound may not trace anybody who is not. */
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

static int run(struct mount *m)
{
	int sig = enter_running(m);

	if (sig) {
		say_given_up(m, sig);
		fs_stop(m->fs);
		fs_wait(m->fs);
		return EXIT_MOUNT;
	}
	start_control(m);
	enter_sandbox();
	/* If nobody waits for the result any more, nobody wants the mount. */
	if (daemon_report(0))
		fs_stop(m->fs);
	/* Until now only -v and -f have shown these on the terminal; the system log gets them
	 * always. */
	if (log_get_level() < LOG_LVL_INFO)
		log_set_level(LOG_LVL_INFO);
	if (m->bound)
		say_not_bound(m->bound);
	fs_wait(m->fs);
	write_stats(m);
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
		prepare_control(m);
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

static int no_thread(struct mount *m, int err)
{
	return err_set(&m->eb, -err, "cannot start a thread: %s", strerror(err));
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
		return no_thread(m, err);
	s->started = true;
	while (sem_wait(&s->is_up))
		;
	return s->rc;
}

static void end_server(struct mount *m)
{
	if (!m->server.started)
		return;
	sem_post(&m->server.may_end);
	pthread_join(m->server.thread, NULL);
}

static void *signals_main(void *arg)
{
	struct mount *m = arg;

	drop_here(m);
	sem_post(&m->signals_ready);
	signal_main(m);
}

/* Returns when the thread has given up its privileges. Otherwise, on a busy machine, the
 * mount might be there before the thread runs, and then the sandbox would not let it. */
static int start_signals(struct mount *m)
{
	int err;

	sem_init(&m->signals_ready, 0, 0);
	err = pthread_create(&m->signals, NULL, signals_main, m);
	if (err)
		return no_thread(m, err);
	while (sem_wait(&m->signals_ready))
		;
	return 0;
}

/* The signal thread must run already, because the mount point may not answer. */
static int check_and_run(struct mount *m)
{
	int rc = fs_check_mountpoint(m->opt.mountpoint, &m->eb);

	/* From here on the server is heard. */
	m->bound = drop_here(m);
	if (!rc)
		rc = start_server(m);
	if (!rc && m->opt.fake)
		return daemon_report(0) ? EXIT_SYSTEM : 0;
	if (!rc) {
		enter(m, MOUNTING);
		rc = fs_mount(m->fs, &m->eb);
	}
	if (!rc)
		return run(m);
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
	int rc = daemon_start(m->opt.foreground, &m->eb);

	/* Before signals are blocked: it may wait for somebody else's server. */
	m->stats_dir = open_stats_dir(&m->opt);
	m->keep = priv_needed(m->opt.vers == OPT_VERS_3);
	if (!rc && !m->opt.fake)
		rc = unmounter_start(&(struct unmounter_config){ m->opt.mountpoint, m->opt.fuse_opts },
				     argv, &m->eb);
	block_signals();
	if (!rc)
		rc = start_signals(m);
	if (rc) {
		log_err("%s", m->eb.text);
		return EXIT_SYSTEM;
	}
	rc = enter_ending(m, check_and_run(m));
	/* What it is asked needs the client and the objects of the mount. */
	ctl_free(m->ctl);
	end_server(m);
	fs_free(m->fs);
	/* The signal thread uses m, so it ends first. */
	pthread_cancel(m->signals);
	pthread_join(m->signals, NULL);
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
	struct mount m = { .mu = PTHREAD_MUTEX_INITIALIZER };
	struct errbuf eb = { "" };
	int rc;

	fill_standard_files();
	/* The source of a mount has a ':'. */
	if (argc > 1 && strcmp(argv[1], "ctl") == 0)
		return ctl_main(argc - 1, argv + 1);
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
	} else {
		log_set_level(m.opt.debug ? LOG_LVL_DEBUG : m.opt.verbose || m.opt.foreground ?
			      LOG_LVL_INFO : LOG_LVL_WARN);
		rc = mount_and_run(&m, argv);
	}
	options_free(&m.opt);
	return rc;
}
