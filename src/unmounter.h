/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that keeps what mounting and unmounting need. The daemon hears a server before
 * the mount is there, and gives up all privileges before that. And an ordinary user's daemon
 * cannot run fusermount3 at the end, because that is set-user-ID, and no_new_privs is set.
 *
 *   daemon                                process
 *   ------                                -------
 *   unmounter_start() forks ----------->  waits; has nothing open but the socket, and standard
 *   ... hears the server                  error until there is a mount, for fusermount3
 *   unmounter_detach(), with bg ------->  closes standard error before that
 *   unmounter_mount() ----------------->  looks at the mount point again; mount(2), or fusermount3;
 *                                         looks up which mount it is
 *            <---- /dev/fuse -----------
 *   unmounter_control() --------------->  makes the control socket of that mount
 *            <---- the socket ----------
 *   ...
 *   unmounter_rings() ----------------->  the same of the rings' socket (src/ring)
 *   unmounter_control_end(), rings_end -->  removes its file
 *   unmounter_write_back(/dev/fuse) --->  forks a process for syncfs(); more than once
 *            <---- a socket to that ----
 *   unmounter_ask() ------------------->  umount2(), or fusermount3 -u; aborts the connection before, if asked
 *   unmounter_end(), or death: EOF ---->  ends
 *
 * It can do these things only, with the mount point and the options that it was started with:
 * what the daemon adds is how large a READ is. It unmounts what was mounted there, wherever that
 * is by now, and no other mount. It ignores the signals that people send to the daemon (by
 * name, or from a terminal), or it would be gone when it is needed. The fork comes before any
 * thread, connection or registered memory exists.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/log.h"
#include "fuse/fs.h"

struct unmounter_config {
	const char *mountpoint;         /* absolute */
	const char *fuse_opts;          /* libfuse's -o */
};

/* argv: main()'s, which is overwritten to give the new process its name in ps. 0 or -errno
 * with eb set. */
int unmounter_start(const struct unmounter_config *cfg, char **argv, struct errbuf *eb);
/* Mounts, once. A descriptor of /dev/fuse, or -errno with eb set; eb set in spite of a
 * descriptor: a warning. */
int unmounter_mount(uint32_t max_read, struct errbuf *eb);
/* The command ends before the mount is there (bg): from now on nobody reads what fusermount3 says, and who reads the
 * command's standard error is not to wait for its end. */
void unmounter_detach(void);
/* How much the kernel reads ahead. 0 or -errno. */
int unmounter_read_ahead(unsigned kib);
/* Makes the control socket. It listens. A descriptor, or -errno with eb set. */
int unmounter_control(struct errbuf *eb);
void unmounter_control_end(void);
/* The same of the rings' socket, which has this name. */
#define UNMOUNTER_NAME_MAX 108u
int unmounter_rings(char name[UNMOUNTER_NAME_MAX], struct errbuf *eb);
void unmounter_rings_end(void);
/* Lets the kernel write back what mappings have dirtied: fs_config.write_back. */
int unmounter_write_back(int device);
/* Unmounts lazily: fs_config.unmount. 0, or -errno; -ENOTCONN: the process is gone; -ENOENT: the mount is; -EBUSY: another
 * one covers it. */
int unmounter_ask(enum fs_unmount how, int device);
/* Ends the process, and waits for its end. */
void unmounter_end(void);
