/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that unmounts when the daemon is told to end. The daemon itself cannot do it
 * any more: root's daemon has given up its privileges, and an ordinary user's cannot run
 * fusermount3, which is set-user-ID, after no_new_privs.
 *
 *   daemon                                unmounter
 *   ------                                ---------
 *   unmounter_start() forks ----------->  waits; has nothing open but the socket
 *   unmounter_mounted() one byte ----->  looks up which mount it is, once
 *   ...
 *   unmounter_ask() --- one byte ------>  umount2(), or fusermount3 -u
 *            <--------- one byte -------
 *   unmounter_end(), or death: EOF ---->  ends
 *
 * It can do one thing only: unmount what was mounted on the mount point that it was started
 * with, wherever that is by now, and no other mount. It ignores
 * the signals that people send to the daemon (by name, or from a terminal), or it would be
 * gone when it is needed. The fork comes before any thread, connection or registered memory
 * exists.
 */
#ifndef UNMOUNTER_H
#define UNMOUNTER_H

#include "base/log.h"

/* argv: main()'s, which is overwritten to give the new process its name in ps. 0 or -errno
 * with eb set. */
int unmounter_start(const char *mountpoint, char **argv, struct errbuf *eb);
/* The mount is there. 0, or -errno: it is not where it was to be. */
int unmounter_mounted(void);
/* Unmounts lazily. 0, or -errno; -ENOTCONN: the process is gone; -ENOENT: the mount is. */
int unmounter_ask(void);
/* Ends the process, and waits for its end. */
void unmounter_end(void);

#endif
