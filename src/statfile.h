/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of stats=. Others may be able to write to its directory. Then anything may be
 * there under our names: a link to somebody's file, a pipe that nobody reads, another
 * user's file.
 *
 *   FILE.new   an old one is removed, never opened. Then the file is created (O_EXCL), with
 *              the mode that the umask leaves
 *   FILE       is replaced by renaming FILE.new, so a reader sees the old contents or the
 *              new. It must be a regular file of ours, or not exist.
 *
 * Any thread may write; a lock makes them take turns.
 */
#pragma once

#include <stdio.h>
#include "base/log.h"

/* Checks that statfile_write() will work, while there is somebody to tell. Neither changes
 * the file nor creates it. 0, or -errno with eb set. */
int statfile_check(const char *path, struct errbuf *eb);

/* Writes the file; print() writes the contents. Failures are logged. */
void statfile_write(const char *path, void (*print)(FILE *f, const void *arg), const void *arg);
