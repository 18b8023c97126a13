/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * no_new_privs and a list of allowed system calls, for the whole process, from the time when
 * the mount is there. An attacker whose code runs in the daemon cannot start programs, trace
 * processes, mount, load modules, and the like.
 *
 * A call that is not on the list fails with EPERM, and the log names it once. It does not
 * end the process: a future library may make a call that is missing here, and that must not
 * take the mount away from everybody.
 *
 *   a thread        SIGSYS: notes the number, sends the process SIGUSR2, returns EPERM
 *   signal thread   SIGUSR2: sandbox_log()
 *
 * So no thread may block SIGSYS. The test suite fails when a call is logged; that keeps the
 * list complete. The list is for libibverbs's providers (which open devices again when they
 * reconnect), NSS (sockets, files, modules), and the C library.
 */
#pragma once

/* For all threads, and for good. 0, or -errno: then the list is not in force, as in some
 * containers. */
int sandbox_enter(void);
/* Logs the calls that were refused since the last time. */
void sandbox_log(void);
