/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Has the mapping that `at` lies in this flag of the kernel's? */
static inline bool has_flag(const void *at, const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from, to, addr = (unsigned long)at;
	char line[1024];
	bool here = false, found = false;

	cr_assert(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= addr && addr < to;
		if (here && !strncmp(line, "VmFlags:", 8))
			found = strstr(line, flag) != NULL;
	}
	fclose(f);
	return found;
}

/* Is there memory at that page? */
static inline bool is_mapped(void *page)
{
	unsigned char in_core;

	return mincore(page, 1, &in_core) == 0 || errno != ENOMEM;
}
