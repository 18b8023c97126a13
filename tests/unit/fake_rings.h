/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libnfsrdma without a daemon: it reads and writes the descriptors that were attached. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fake_rings {
	int connect_error, attach_error;
	_Atomic unsigned queues;        /* so many have been made */
	_Atomic unsigned reads, writes; /* so many have been done */
	_Atomic int gone_after;         /* so many more are done, then it is ENOTCONN; -1: never */
	int write_error;                /* of each write from write_error_at on */
	uint64_t write_error_at;        /* its offset */
	void (*meanwhile)(void);        /* called once, while something is under way */
	void (*attaching)(void);        /* called once, when a file is attached */
	bool cached;                    /* what preload_cached() says */
	bool old_times;                 /* statx() says that no file has changed for long... */
	bool old_known;                 /* ...if it does not have to ask the server */
	unsigned behind_s;              /* the server's clock, which counts seconds */
};

extern struct fake_rings fake_rings;

/* The kernel has closed the file that was attached with that number: it is free, and nobody is told. */
void fake_rings_closed(uint32_t number);
