/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls of a request's path, past the C library's functions of the same names.
 * Those are cancellation points, and change the thread's state by atomic operations before
 * and after each call. No thread of this program is ever cancelled. Arguments, result and
 * errno are the same.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static inline ssize_t sys_readv(int fd, const struct iovec *iov, int count)
{
	return syscall(SYS_readv, fd, iov, count);
}

static inline ssize_t sys_writev(int fd, const struct iovec *iov, int count)
{
	return syscall(SYS_writev, fd, iov, count);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return syscall(SYS_recvmsg, fd, msg, flags);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return syscall(SYS_sendmsg, fd, msg, flags);
}

/* Not every architecture has epoll_wait. */
static inline int sys_epoll_wait(int fd, struct epoll_event *ev, int max, int timeout_ms)
{
	return (int)syscall(SYS_epoll_pwait, fd, ev, max, timeout_ms, NULL, (size_t)_NSIG / 8);
}
