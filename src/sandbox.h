/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * no_new_privs and a list of system calls for the whole process, from when the
 * mount is there. Whoever gets code of his own to run in the daemon cannot start
 * programs, trace processes, mount, load modules, and the like.
 *
 * What is not on the list fails with EPERM, and is named in the log, once each. It
 * does not end the process: a call that a library of tomorrow makes, and that is
 * missing here, must not take the mount of everybody with it.
 *
 *   a thread        SIGSYS: notes the number, sends the process SIGUSR2, EPERM
 *   signal thread   SIGUSR2: sandbox_log()
 *
 * So no thread may block SIGSYS. The suite fails when a name is logged: this is how
 * the list is kept. It serves libibverbs's providers (which open devices again when
 * they reconnect), NSS (sockets, files, modules), and the C library.
 */
#ifndef SANDBOX_H
#define SANDBOX_H

/* For all threads, for ever. 0, or -errno: then there is no list (containers). */
int sandbox_enter(void);
/* Logs what was refused since the last time. */
void sandbox_log(void);

#endif
