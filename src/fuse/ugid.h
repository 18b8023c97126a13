/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers of users and groups, where they differ here and on the server (option idmap). They are
 * changed at the front end's edge: what comes from the kernel becomes the server's before anything else
 * sees it, and what goes there becomes this side's at last. All between has the server's.
 *
 *     caller's uid, gid, groups  (cred.c)       here -> server
 *     chown()                    (getattr.c)    here -> server
 *     attributes                 (attr.c)       server -> here
 *
 * A table is made once, before the mount, and does not change: any thread reads it. A number that it does
 * not have is nobody's (65534), on either side; chown() to one fails.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/log.h"

#define UGID_NOBODY 65534u
#define UGID_RANGES 340u                /* as many as a user namespace has */

struct ugid_map {
	unsigned n;                     /* 0: the same on both sides */
	struct ugid_range {
		uint32_t here, there, count;
	} range[UGID_RANGES];
};
struct ugid {
	struct ugid_map user, group;
};

/* Of the user namespace of this process: here are its numbers, and there those outside of it. proc:
 * "/proc/self". 0, or -errno with eb set. */
int ugid_of_namespace(struct ugid *out, const char *proc, struct errbuf *eb);
/* Of a file with lines "u HERE THERE [COUNT]" and "g HERE THERE [COUNT]"; '#' begins a comment. 0, or -errno
 * with eb set to one line, with the number of the file's line if there is something wrong with that. */
int ugid_of_file(struct ugid *out, const char *path, struct errbuf *eb);

/* false: it is not in the table. */
bool ugid_find_there(const struct ugid_map *m, uint32_t here, uint32_t *there);
/* What is not in the table is nobody's. */
uint32_t ugid_there(const struct ugid_map *m, uint32_t here);
uint32_t ugid_here(const struct ugid_map *m, uint32_t there);
