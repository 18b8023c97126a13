/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tree: two processes at work in one mount, and what every answer promised. (Or more of
 * them, with nothing shared.)
 *
 *     DIR/a  DIR/b      one for each process: random operations. A model knows
 *                       what each has to say, and in the end what is there.
 *     DIR/shared        lock.0 ... made by mkdir, symlink, O_EXCL and link, whoever
 *                       is first: one holder at most. And a log that both append to.
 *
 * The processes share nothing but a piece of memory, in which they say who holds
 * what: it does not go through the mount.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../../cto/chance.h"

/* Prints what is wrong; after a few of them the process ends with status 1. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Is the result of a call what has to be? rc < 0: errno says. want: 0 or an errno. */
bool expect(int rc, int want, const char *what, const char *path);

/* ---- model.c: the tree of one process ---- */

/* Makes `dir`, where nothing is. */
void model_start(const char *dir);
/* One operation. */
void model_step(void);
/* Closes what is open, and writes what has to be there: as list() does. */
void model_end(const char *out);

/* ---- list.c ---- */

uint64_t list_sum(const void *data, size_t len);
/* A line for each name below dir, sorted, to standard output. 0 or 1. */
int list(const char *dir);

/* ---- locks.c: what both processes have ---- */

/* Before the processes are made. */
void locks_make(const char *dir);
/* One try, one release, or one record for the log. me: 0 or 1. */
void locks_step(unsigned me);
/* Releases all; says how many were had, and how many records were written. */
void locks_end(unsigned me, unsigned *holds, unsigned *records);
