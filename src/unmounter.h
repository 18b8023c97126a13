/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who unmounts, when the daemon is told to end and may not do so any more: root's
 * has given its privileges up, and an ordinary user's cannot run fusermount3, which
 * is set-user-ID, after no_new_privs.
 *
 *   daemon                                unmounter
 *   ------                                ---------
 *   unmounter_start() forks ----------->  waits; has nothing open but the socket
 *   ...
 *   unmounter_ask() --- one byte ------>  umount2(), or fusermount3 -u
 *            <--------- one byte -------
 *   unmounter_end(), or death: EOF ---->  ends
 *
 * It can be asked for one thing, the mount point that it was born with. It ignores
 * the signals that people send to the daemon (by name, or from a terminal), or it
 * would be gone when it is needed. The fork comes before any thread, connection or
 * registered memory exists.
 */
#ifndef UNMOUNTER_H
#define UNMOUNTER_H

#include "base/log.h"

/* argv: main's, for the new process's name in ps. 0 or -errno with eb set. */
int unmounter_start(const char *mountpoint, char **argv, struct errbuf *eb);
/* Unmounts, lazily. 0, or -errno when that failed, or nobody is there. */
int unmounter_ask(void);
void unmounter_end(void);

#endif
