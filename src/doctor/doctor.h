/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsrdma-fuse doctor [SERVER:/EXPORT]: what stands in the way of a good mount, what it costs, and
 * how it is mended. It changes nothing, here and at the server, and reads no file of the export.
 *
 *     machine.c, devices.c    this machine, by files below `root`
 *     server.c, ports.c       the server: a client as a mount has it (nfs_client_new()), and its TCP
 *                             ports where that comes to nothing
 *     report.c, hide.c        all of it in one file for a report of an error, without names
 *
 * One thread, which blocks, and takes as long as a mount that fails: seconds for each address that is
 * silent. The client is freed before the next one is made. If it is cut off, or the process is killed,
 * the server forgets the client when its lease ends.
 */
#pragma once

#include <sys/types.h>
#include "nfs/chosen.h"
#include "nfs/nfs.h"
#include "nfs/plan.h"

/* Whose configuration is planned. */
enum doctor_plan {
	DOCTOR_AS_MOUNTED,      /* the mount's */
	DOCTOR_BY_DEVICE,       /* the same, as if a device carried it: how much memory would be locked */
	DOCTOR_V3, DOCTOR_V41, DOCTOR_V42,      /* the mount's, with that version */
};

/* An option as it was given. is_free: the value may be anything, so it is not in the report; value NULL: there is
 * none. name NULL: all of it is in value. */
typedef void doctor_option_fn(void *to, const char *name, const char *value, bool is_free);

struct doctor_config {
	const char *root;               /* /sys, /proc, /dev and /etc are below it; "" */
	uid_t uid;                      /* who would mount */
	const char *program;            /* its name and version; libfuse's version */
	const char *libfuse;
	/* NULL: no server is asked. source: SERVER:/EXPORT. */
	const char *source, *server, *export;
	bool shared;                    /* the options let other users use the mount */
	enum nfs_plan_fabric fabric;    /* by the options */
	unsigned lanes;                 /* wanted */
	unsigned port;                  /* the server's, for RDMA */
	/* What the options make of a mount. Blocks in the resolver. 0, or -errno with eb set. */
	int (*plan)(struct nfs_config *out, enum doctor_plan how, const void *arg, struct errbuf *eb);
	struct nfs_chosen (*chosen)(struct nfs_client *cl, const void *arg);
	/* Calls fn for each option. 0, or -errno. */
	int (*options)(const void *arg, doctor_option_fn *fn, void *to);
	const void *arg;
	const char *report;             /* a file to write; NULL: none */
};

/* Exit statuses: the worst that was found. DOCTOR_FAILED: the command line is wrong, or the report could
 * not be written. */
enum { DOCTOR_GOOD = 0, DOCTOR_COSTS = 1, DOCTOR_IN_THE_WAY = 2, DOCTOR_FAILED = 3 };

/* Looks at everything, prints what was found to standard output, and writes the report. Returns the exit
 * status. It takes the log's messages meanwhile (log_to()). */
int doctor_run(const struct doctor_config *cfg);
