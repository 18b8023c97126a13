/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pending signals mean that a process is about to end, and what becomes of requests of
 * processes that cannot be seen. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fs_play.h"

static void caught(int sig)
{
	(void)sig;
}

/* A stopped process keeps its signals pending, like a process that waits for us. */
Test(fs_cred, which_signals_end_a_process, .timeout = 300)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGALRM, caught);
		signal(SIGHUP, SIG_IGN);
		raise(SIGSTOP);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	cr_assert_eq(fs_fate(pid), FS_LIVES);
	kill(pid, SIGALRM);
	kill(pid, SIGHUP);
	kill(pid, SIGWINCH);
	kill(pid, SIGTSTP);
	cr_assert_eq(fs_fate(pid), FS_LIVES);
	kill(pid, SIGTERM);
	cr_assert_eq(fs_fate(pid), FS_DIES);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(fs_fate(pid), FS_UNSEEN, "it is gone");
	cr_assert_eq(fs_fate(0), FS_UNSEEN, "not of our namespace");
}

/* Nobody waits for it yet, so that it can be looked at. */
static pid_t ended_child(void)
{
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

Test(fs_cred, a_process_that_has_ended, .timeout = 300)
{
	pid_t pid = ended_child();

	cr_assert_eq(fs_fate(pid), FS_EXITS);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* The kernel's numbers are those of our pid namespace. /proc may have another's. */
Test(fs_cred, proc_of_another_name_space, .timeout = 300)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(77);
		pid = fork();
		if (pid == 0)
			_exit(fs_fate(getpid()) == FS_UNSEEN ? 0 : 1);
		_exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		cr_skip_test("not possible here");
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x: somebody else's number",
		  (unsigned)status);
	cr_assert_eq(fs_fate(getpid()), FS_LIVES);
}

/* ---- a program in another pid namespace ---- */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	(void)c;
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .fileid = 100, .nlink = 1 };
	return 0;
}

static const struct nfs_opdef getattr_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [NFS_OP_GETATTR] = &getattr_op },
};

static struct inode *file;

static void start(void)
{
	struct nfs_fh root = { .len = 4, .data = "root" }, fh = { .len = 4, .data = "file" };
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .fileid = 100, .nlink = 1 };

	fs_play_start(&version, &root, &attr);
	file = inode_get(&fs.vfs.inodes, &fh, &attr, 0, NULL, 0, mono_ns());
	fs_play_attach();
}

static void end(void)
{
	fs_play_detach();
	inode_put(&fs.vfs.inodes, file, 1);
	fs_play_end();
}

static uint64_t ask_as(uint32_t pid, uint32_t uid)
{
	struct fuse_in_header h = fs_play_header(FUSE_GETATTR, file->id,
						 sizeof(struct fuse_getattr_in));
	struct fuse_getattr_in in = { 0 };

	h.pid = pid;
	h.uid = h.gid = uid;
	fs_play_request(&h, &in, sizeof(in));
	return h.unique;
}

static void interrupt(uint64_t unique)
{
	struct fuse_interrupt_in in = { .unique = unique };

	fs_play_ask(FUSE_INTERRUPT, 0, &in, sizeof(in));
}

/* Lets `ns` pass for the newest request and for the lane, and lets the lane look. */
static void pass(uint64_t ns)
{
	container_of(fl->vl.active.prev, struct fs_req, op.node)->op.start_ns -= ns;
	if (fl->gone_ns)
		fl->gone_ns -= ns;
	lane_play_run(600);
}

/* It may have been any signal, and the server is there: it only takes its time. When the
 * server has been gone for five minutes, kill -9 works. */
Test(fs_cred, a_signal_to_a_process_that_cannot_be_seen, .timeout = 300)
{
	start();
	interrupt(ask_as(0, 1000));
	pass(600000000000);
	cr_assert_eq(answer.count, 0, "given up with %d", answer.error);
	fake_break();
	lane_play_run(600);
	cr_assert_eq(answer.count, 0);
	pass(200000000000);
	cr_assert_eq(answer.count, 0);
	pass(100000000000);
	cr_assert(answer.count == 1 && answer.error == -EINTR);
	/* One that nobody has interrupted waits. */
	ask_as(0, 1000);
	pass(1000000000000);
	cr_assert_eq(answer.count, 0);
	end();
}

/* ---- what the kernel does not tell ---- */

static void newest_is(enum fs_gives_up kind)
{
	container_of(fl->vl.active.prev, struct fs_req, op.node)->gives_up = kind;
}

static void server_has_spoken(uint64_t ago_ns)
{
	atomic_store(&fs.vfs.cl->server.targets[0]->last_reply_ns, mono_ns() - ago_ns);
}

/* Asynchronous direct I/O: no FUSE_INTERRUPT comes, whatever happens to the program. */
Test(fs_cred, a_killed_program_whose_kernel_says_nothing, .timeout = 300)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	start();
	ask_as((uint32_t)pid, 1000);
	newest_is(FS_GIVES_UP_UNTOLD);
	server_has_spoken(0);
	pass(3000000000);
	cr_assert_eq(answer.count, 0, "it lives");
	kill(pid, SIGTERM);
	server_has_spoken(0);
	pass(0);
	cr_assert(answer.count == 1 && answer.error == -EINTR);
	/* Of all else the kernel does say it. */
	ask_as((uint32_t)pid, 1000);
	pass(3000000000);
	cr_assert_eq(answer.count, 0);
	end();
	kill(pid, SIGKILL);
}

/* The kernel closes its files. As long as the server says something this waits; but who has ended cannot be
 * killed. */
Test(fs_cred, a_program_that_has_ended_and_a_silent_server, .timeout = 300)
{
	pid_t pid = ended_child();

	start();
	ask_as((uint32_t)pid, 1000);
	newest_is(FS_GIVES_UP_UNTOLD);
	server_has_spoken(0);
	pass(3000000000);
	cr_assert_eq(answer.count, 0, "the server is there");
	server_has_spoken(3000000000);
	pass(0);
	cr_assert(answer.count == 1 && answer.error == -EINTR);
	end();
}

/* ---- groups that are not known ---- */

static char said[4096];

static void listen_to(void (*what)(void))
{
	char path[] = "/tmp/test_fs_cred.XXXXXX";
	int to = mkstemp(path), old = dup(2);
	ssize_t n;

	unlink(path);
	dup2(to, 2);
	what();
	dup2(old, 2);
	n = pread(to, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	close(to);
	close(old);
}

static unsigned times(const char *text)
{
	unsigned n = 0;

	for (const char *at = said; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void unseen(void)
{
	ask_as(0, 0);                   /* the kernel's own, or root's: not worth a line */
	cr_assert_eq(lseek(2, 0, SEEK_CUR), 0);
	ask_as(0, 1000);
	ask_as(0, 1001);
}

Test(fs_cred, unseen_groups_are_said_once, .timeout = 300)
{
	start();
	listen_to(unseen);
	cr_assert(times("another pid namespace (container), or /proc") == 1 && times("Remedy") == 1, "%s", said);
	end();
}

static void without_files(void)
{
	struct rlimit old, none = { 0 };

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	none.rlim_max = old.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ask_as((uint32_t)getpid(), 1000);
	ask_as((uint32_t)getpid(), 1001);
	cr_assert_eq(fs_fate(getpid()), FS_UNSEEN);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	ask_as((uint32_t)getpid(), 1002);
}

Test(fs_cred, a_lack_of_files_is_said_once, .timeout = 300)
{
	start();
	listen_to(without_files);
	cr_assert(times("LimitNOFILE") == 1, "%s", said);
	end();
}
