/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Of the process: how it begins, forks, and ends. */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"
#include "lib/preload_real.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int report = -1;

/* In the parent. What the child has as well, its offset may be moved by. */
static void before_fork(void)
{
	if (preload_here())
		preload_fd_inherited(false);
}

/* The rings are the parent's. The child's numbers are unknown, and those that it opens are not. */
static void in_child(void)
{
	int kept = report;

	preload_is_here(false);
	preload_inside = true;
	if (kept >= 0)
		preload_fd_unkeep(kept);
	preload_lanes_forget();
	preload_mounts_forget();
	preload_mapped_forget();
	preload_forget_all();
	preload_counts = (struct preload_counts){ 0 };
	preload_inside = false;
	report = preload_fd_keep(kept);
	preload_is_here(true);
}

/* Programs close their stderr before this is called: so it has one of its own. */
static void begin_report(void)
{
	const char *wanted = getenv("NFSRDMA_PRELOAD_REPORT");

	if (wanted && *wanted && *wanted != '0')
		report = preload_fd_keep(PRELOAD_REAL(fcntl, 2, F_DUPFD_CLOEXEC, 3));
}

static void read_size(const char *variable, size_t *size)
{
	const char *said = getenv(variable);

	if (said && strtoul(said, NULL, 0))
		*size = strtoul(said, NULL, 0);
}

__attribute__((constructor)) static void begin(void)
{
	preload_real_find();
	read_size("NFSRDMA_PRELOAD_MIN", &preload_min);
	read_size("NFSRDMA_PRELOAD_WRITE_MIN", &preload_write_min);
	preload_lanes_init();
	pthread_atfork(before_fork, NULL, in_child);
	begin_report();
	preload_is_here(true);
}

__attribute__((destructor)) static void say(void)
{
	const struct preload_counts *c = &preload_counts;

	if (report < 0 || !preload_here())
		return;
	dprintf(report, "nfsrdma-preload: %s: %" PRIu64 " reads (%" PRIu64 " bytes), %" PRIu64 " writes (%"
		PRIu64 " bytes) past the kernel; %" PRIu64 " descriptors left to it\n",
		program_invocation_short_name, atomic_load(&c->reads), atomic_load(&c->read_bytes),
		atomic_load(&c->writes), atomic_load(&c->written_bytes), atomic_load(&c->left));
}
