/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>
#include "base/log.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif

static const char *const allowed[] = {
	/* memory, threads, time */
	"brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "mlock", "mlock2", "munlock",
	"membarrier", "futex", "futex_waitv", "set_robust_list", "set_tid_address", "rseq", "exit",
	"exit_group", "sched_yield", "sched_getaffinity", "getcpu", "gettid", "getpid", "getppid",
	"restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait",
	"rt_sigtimedwait_time64", "sigaltstack", "clock_gettime", "clock_gettime64",
	"clock_getres", "clock_nanosleep", "clock_nanosleep_time64", "nanosleep", "gettimeofday",
	"time", "getrandom", "wait4",
	/* files: /dev/fuse, /proc, devices, sysfs, NSS, statistics */
	"close", "close_range", "read", "readv", "pread64", "preadv", "write",
	"writev", "pwrite64", "lseek", "_llseek", "fstat", "fstat64", "stat", "stat64", "lstat",
	"lstat64", "newfstatat", "fstatat64", "statx", "fstatfs", "fstatfs64", "statfs", "statfs64",
	"access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64",
	"fcntl", "fcntl64", "flock", "dup", "dup2", "dup3", "rename", "renameat", "renameat2",
	"unlink", "unlinkat", "ftruncate", "umask", "getcwd", "chdir", "setsid", "pipe", "pipe2",
	/* waiting, sockets */
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
	"poll", "ppoll", "ppoll_time64", "select", "_newselect", "pselect6", "eventfd2",
	"timerfd_create", "timerfd_settime", "accept4", "bind", "connect", "sendto", "sendmsg", "sendmmsg",
	"recvfrom", "recvmsg", "recvmmsg", "recvmmsg_time64", "send", "recv", "shutdown",
	"getsockopt", "setsockopt", "getsockname", "getpeername", "socketpair",
	/* who and where we are */
	"getuid", "getuid32", "geteuid", "geteuid32", "getgid", "getgid32", "getegid",
	"getegid32", "getgroups", "getgroups32", "getpgrp", "uname", "sysinfo", "getrusage",
	"getrlimit", "ugetrlimit", "capget", "times",
#ifdef SANITIZED
	/* The leak checker stops all threads and looks at them. */
	"clone", "clone3", "fork", "ptrace", "prctl", "process_vm_readv", "personality", "tkill",
	"waitid",
#endif
};

#define TRUNC_MASK (O_TRUNC | O_ACCMODE)

/* Allowed only if one argument, under a mask, has this value. */
static const struct {
	const char *name;
	unsigned arg;
	uint64_t mask, value;
} with_argument[] = {
	{ "clone", 0, CLONE_THREAD, CLONE_THREAD }, { "unshare", 0, ~0ull, CLONE_FILES },
	/* O_TRUNC only if the file is opened to write. Otherwise the list of files (landlock.h) lets
	 * the open begin, because it reads; and when it refuses to truncate, overlayfs has made the
	 * upper layer's file already, an empty one. */
	{ "open", 1, O_TRUNC, 0 }, { "open", 1, TRUNC_MASK, O_TRUNC | O_WRONLY },
	{ "open", 1, TRUNC_MASK, O_TRUNC | O_RDWR },
	{ "openat", 2, O_TRUNC, 0 }, { "openat", 2, TRUNC_MASK, O_TRUNC | O_WRONLY },
	{ "openat", 2, TRUNC_MASK, O_TRUNC | O_RDWR },
	{ "socket", 0, ~0ull, AF_UNIX }, { "socket", 0, ~0ull, AF_INET },
	{ "socket", 0, ~0ull, AF_INET6 }, { "socket", 0, ~0ull, AF_NETLINK },
	{ "prctl", 0, ~0ull, PR_SET_NAME }, { "prctl", 0, ~0ull, PR_GET_NAME },
	/* for libcap, in some NSS modules */
	{ "prctl", 0, ~0ull, PR_CAPBSET_READ }, { "prctl", 0, ~0ull, PR_GET_SECUREBITS },
	{ "prctl", 0, ~0ull, PR_SET_PDEATHSIG }, { "prctl", 0, ~0ull, 0x53564d41 /* PR_SET_VMA */ },
	{ "prlimit64", 0, ~0ull, 0 },
	/* FUSE, RDMA, sockets; and the ioctl by which the C library sees that a file is no
	 * terminal; FIONREAD, FIONBIO and TIOCOUTQ. */
	{ "ioctl", 1, 0xff00, 0xe500 }, { "ioctl", 1, 0xff00, 0x1b00 }, { "ioctl", 1, 0xff00, 0x8900 },
	{ "ioctl", 1, 0xffffffff, 0x5401 }, { "ioctl", 1, 0xffffffff, 0x541b },
	{ "ioctl", 1, 0xffffffff, 0x5421 }, { "ioctl", 1, 0xffffffff, 0x5411 },
};

/* Refused without a line in the log. libfuse tries to unmount again after the unmounter has
 * unmounted lazily, and the C library tries clone3 before clone. */
static const struct {
	const char *name;
	int err;
} quiet[] = { { "umount2", EPERM }, { "clone", EPERM }, { "clone3", ENOSYS } };

/* ---- what was refused ---- */

#define NUMBERS 1024
enum { NEVER, NEW, LOGGED };
static _Atomic unsigned char refused[NUMBERS];

#if defined(__x86_64__) || defined(__aarch64__)
static void on_sigsys(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	unsigned nr = (unsigned)si->si_syscall;
	unsigned char never = NEVER;

#ifdef __x86_64__
	uc->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
	uc->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#endif
	if (nr < NUMBERS && atomic_compare_exchange_strong(&refused[nr], &never, NEW)) {
		int err = errno;

		kill(getpid(), SIGUSR2);
		errno = err;
	}
}

static int take_sigsys(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_NODEFER };

	return sigaction(SIGSYS, &sa, NULL) < 0 ? -errno : 0;
}
#define REFUSE SCMP_ACT_TRAP
#else
/* How to set a call's result is not known for this processor: the call fails without a line
 * in the log. */
static int take_sigsys(void)
{
	return 0;
}
#define REFUSE SCMP_ACT_ERRNO(EPERM)
#endif

void sandbox_log(void)
{
	for (int nr = 0; nr < NUMBERS; nr++) {
		unsigned char new = NEW;
		char *name;

		if (!atomic_compare_exchange_strong(&refused[nr], &new, LOGGED))
			continue;
		name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
		log_err("the system call %s (%d) was refused: it is not on this program's list. Unless "
			"somebody has broken into the program, the list is wrong; please report it",
			name ? name : "?", nr);
		free(name);
	}
}

/* ---- the list ---- */

/* A rule that cannot be added (-EDOM, -EFAULT, -EINVAL, ...) is for a call that this library
 * or processor does not have, and is left out. */
static void add_names(scmp_filter_ctx ctx)
{
	int nr;

	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		nr = seccomp_syscall_resolve_name(allowed[i]);
		if (nr != __NR_SCMP_ERROR)
			seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
	}
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
		nr = seccomp_syscall_resolve_name(quiet[i].name);
		if (nr == SCMP_SYS(clone))
			seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), nr, 1,
					 SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
		else if (nr != __NR_SCMP_ERROR)
			seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)quiet[i].err), nr, 0);
	}
}

static int add_arguments(scmp_filter_ctx ctx)
{
	uint64_t us = (uint64_t)getpid();
	int rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				  SCMP_A0(SCMP_CMP_EQ, us));

	if (!rc)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
				      SCMP_A0(SCMP_CMP_EQ, us));
	for (size_t i = 0; i < sizeof(with_argument) / sizeof(with_argument[0]); i++) {
		int nr = seccomp_syscall_resolve_name(with_argument[i].name);

		if (nr != __NR_SCMP_ERROR)
			seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
					 SCMP_CMP(with_argument[i].arg, SCMP_CMP_MASKED_EQ,
						  with_argument[i].mask, with_argument[i].value));
	}
	return rc;
}

int sandbox_enter(void)
{
	scmp_filter_ctx ctx = seccomp_init(REFUSE);
	int rc;

	if (!ctx)
		return -ENOMEM;
	/* The library sets no_new_privs by default, and TSYNC sets it for all threads. */
	rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	/* A binary tree, because the list is long. Older libraries do not have that. */
	seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	add_names(ctx);
	if (!rc)
		rc = add_arguments(ctx);
	if (!rc)
		rc = take_sigsys();
	if (!rc)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	return rc;
}
