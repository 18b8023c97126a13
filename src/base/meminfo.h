/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory this process may have: the machine's, or that of the control group (version 2)
 * with the lowest limit of those that it is in. The files are opened once, because later there
 * may be no privilege for that, and read each time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct meminfo {
	int machine;                    /* /proc/meminfo; -1: it cannot be read */
	int current, stat;              /* memory.current and memory.stat; -1: there is no limit */
	uint64_t total, limit;          /* bytes; limit: the group's, or UINT64_MAX */
};

/* root: where proc and sys are, "" but for tests. */
void meminfo_open(struct meminfo *m, const char *root);
void meminfo_close(struct meminfo *m);
/* Bytes that there are. 0: not known. */
uint64_t meminfo_total(const struct meminfo *m);
/* Bytes that can be allocated without swapping others out, or killing a process. */
uint64_t meminfo_available(const struct meminfo *m);
