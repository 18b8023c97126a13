/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's privileges, step by step.
 *
 *   unmounter.h     a separate process, forked first, keeps the privileges that mounting and
 *                   unmounting need
 *   signal thread   priv_drop() and landlock_enter() at its start
 *   main thread     looks at the mount point, then the same, before anything is heard of the
 *                   server. The server thread, all lanes and other threads are started after
 *                   that and inherit it
 *   all threads     sandbox_enter() when the mount is there
 *
 * These are kept, if the daemon has them at all (an ordinary user has none):
 *
 *   CAP_IPC_LOCK          memory is registered anew on each new connection (verbs)
 *   CAP_NET_BIND_SERVICE  version 3: mountd may want a privileged port, also for UMNT, and so may
 *                         the lock manager
 *   CAP_SYS_PTRACE        only where /proc hides processes from root as well
 *                         (hidepid=ptraceable, or hidepid and gid). There we read the groups
 *                         of a process that makes a request, and whether it is being killed
 *
 * Root without CAP_DAC_OVERRIDE is like an ordinary user who owns root's files: the file of
 * stats= has to be where that user may write.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The capabilities that a mount needs while it runs, as a mask. */
uint64_t priv_needed(bool v3);

/* Does /proc show programs' groups only to who may trace them: to root with CAP_SYS_PTRACE, to
 * an ordinary user those of his own programs? */
bool priv_needs_ptrace(void);

/* Does a /proc with these mount options hide other users' processes from root without
 * capabilities? See proc(5). */
bool priv_proc_is_hidden(const char *options);

/* The calling thread keeps these capabilities and no others; so do threads that it starts
 * from now on. 0 or -errno. */
int priv_drop(uint64_t keep);
