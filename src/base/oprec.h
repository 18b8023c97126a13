/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One request of a program to the mount, as the one who listens gets it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OPREC_NAME 768u

struct oprec {
	const char *op;                 /* "WRITE"; NULL: it has no name */
	uint64_t begin_ns, end_ns;      /* by mono_ns() */
	uint64_t server_ns;             /* of these, at the server with the last call that it took; 0: it took none */
	uint64_t offset, size;          /* if has_range */
	uint64_t node;                  /* the kernel's number of the file, or of the directory */
	pid_t pid;
	uid_t uid;
	int32_t result;                 /* 0 or -errno */
	bool has_range;
	char name[OPREC_NAME];          /* from the mount point on; "?" in front: where that is, is not known */
};
