/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon may do, step by step.
 *
 *   main thread     everything, until the kernel has the mount (mount(2) or
 *                   fusermount3); then priv_drop() and sandbox_enter()
 *   server thread   priv_drop() first, then all that talks to the server; every
 *                   lane and other thread is its child and inherits that; it lives
 *                   until it takes them down again
 *   unmounter.h     a process of its own keeps what unmounting needs
 *
 * What is kept, of what there is (an ordinary user has none of it):
 *
 *   CAP_IPC_LOCK          memory is registered anew on each new connection (verbs)
 *   CAP_NET_BIND_SERVICE  version 3: mountd may want a privileged port, at the end, too
 *   CAP_SYS_PTRACE        only where /proc hides processes from root as well
 *                         (hidepid=ptraceable, or hidepid and gid): whose request it
 *                         is, its groups, and whether it is being killed, is read there
 *
 * Root without CAP_DAC_OVERRIDE is an ordinary user who owns root's files: the file
 * of stats= has to be where that user may write.
 */
#ifndef PRIV_H
#define PRIV_H

#include <stdbool.h>
#include <stdint.h>

/* The capabilities that a mount needs while it runs, as a mask. */
uint64_t priv_needed(bool v3);

/* Does a /proc with these mount options hide the processes of others from root without
 * capabilities? See proc(5). */
bool priv_proc_is_hidden(const char *options);

/* This thread keeps these and no others, nor what it makes from now on.
 * 0 or -errno. */
int priv_drop(uint64_t keep);

#endif
