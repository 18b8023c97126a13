/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which files and which processes a mount works for, from the lines of the command log: what top shows of them.
 * It is all on the side of the command; the daemon knows nothing of this. There are BUSY_MOST of each at most
 * between two looks: what comes for further ones is counted, and not told apart.
 */
#pragma once

#include <json-c/json.h>
#include <stdio.h>

#define BUSY_MOST  4096u
#define BUSY_SHOWN 10u

struct busy;

/* NULL: no memory. */
struct busy *busy_new(void);
void busy_free(struct busy *b);
/* A line of the log, also one that says what is lost. */
void busy_add(struct busy *b, struct json_object *line);
/*
 * Adds to the object `to`, and begins again:
 *
 *     "files":[{"name":..., "reads":N, "writes":N, "bytes":N, "others":N, "latency_ns":N}, ...],
 *     "processes":[{"pid":N, "name":..., the same}, ...],
 *     "further_files":N, "further_processes":N, "lost":N
 *
 * The lists have BUSY_SHOWN at most, those with most requests first. "bytes" are those that were asked for, without
 * error. "further_..." are requests, and so is "lost": those of which the daemon has dropped the line.
 */
void busy_take(struct busy *b, struct json_object *to);
/* Prints that for people, `most` of each list. */
void busy_print(FILE *f, struct json_object *from, unsigned most);
