/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of stats=. The directory may be one where others may write, and then
 * anything may be there under our names: a link to somebody's file, a pipe that
 * nobody reads, a file of another's.
 *
 *   FILE.new   what is there is taken away, never opened; a new file (O_EXCL), with
 *              the modes that the umask leaves
 *   FILE       replaced as a whole by renaming: a reader sees the old or the new.
 *              It must be a regular file of ours, or not there.
 *
 * Any thread may write; they take turns.
 */
#ifndef STATFILE_H
#define STATFILE_H

#include <stdio.h>
#include "base/log.h"

/* What statfile_write() will need, while there is somebody to tell. What is in the
 * file stays; one that is not there is not made. 0, or -errno with eb set. */
int statfile_check(const char *path, struct errbuf *eb);

/* print() writes the contents. Failures are logged. */
void statfile_write(const char *path, void (*print)(FILE *f, const void *arg), const void *arg);

#endif
