/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A list of files, by Linux's Landlock. Root's daemon keeps uid 0 when it has given up its
 * capabilities, and root owns most of a machine's files. With the list it may
 *
 *   read    /etc, /usr and wherever else libraries and their settings are, /proc, /sys: late
 *           on the C library, NSS and libibverbs load modules, and the groups of programs
 *           are in /proc
 *   write   the devices of /dev/infiniband, /dev/fuse, /dev/null
 *           the directory of stats=, with all that is in it: files are made and replaced there
 *
 * and nothing else, whoever it is: an ordinary user's files are out of reach as well. Programs
 * cannot be started. Since Linux 6.12 nobody's abstract sockets can be connected to. Not covered
 * is what is open already, and what goes by a socket, also by a local one that is a file. No core
 * dump can be written, unless core_pattern starts a program.
 *
 * A thread binds itself, and those that it starts from then on: the signal thread does at its
 * start, and the main thread before it starts the one that hears the server, from which all
 * others come. A bound process may not mount, so another process does that (unmounter.h).
 */
#pragma once

/*
 * Binds the calling thread, and sets its no_new_privs. stats_dir: a descriptor, or -1. 0, or
 * -errno: -ENOSYS and -EOPNOTSUPP if this kernel has no Landlock, or has it switched off.
 */
int landlock_enter(int stats_dir);
