/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Going into the background without hiding the result of the mount.
 *
 *   foreground process                 daemon
 *   ------------------                 ------
 *   daemon_start() forks ------------> returns 0
 *   waits                              connects, mounts; errors go to stderr
 *   exits with status <--------------- daemon_report(status), or exit(status),
 *                                      or death: then the foreground process
 *                                      says so
 *   SIGINT, SIGTERM, SIGHUP ---------> gets them, too
 *
 * The fork comes before any thread, connection or registered memory exists, because none
 * of these would survive it.
 */
#pragma once

#include <stdbool.h>
#include "base/log.h"

/* The program's exit codes. They are the same as mount(8)'s. */
enum {
	EXIT_USAGE = 1,         /* the command line is wrong */
	EXIT_SYSTEM = 2,        /* out of memory, cannot fork, ... */
	EXIT_MOUNT = 32,        /* the mount failed */
};

/*
 * foreground: does nothing. Otherwise returns in the daemon only, with 0. If the fork fails
 * there is no daemon: returns -errno with eb set. Until daemon_report() the daemon keeps the
 * command's terminal, and is sent SIGTERM when the command dies.
 */
int daemon_start(bool foreground, struct errbuf *eb);

/*
 * Reports the result of the mount, once. 0: the daemon detaches (own session, directory "/",
 * /dev/null for the standard streams, log to syslog), then the foreground process exits with
 * 0. Otherwise the foreground process waits for the daemon to end and exits with `status`;
 * the daemon has printed why.
 *
 * Returns 0, or -EPIPE if nobody waits any more (the command was killed). The daemon should
 * then undo the mount and exit. In the foreground: 0.
 */
int daemon_report(int status);
