/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of src/doctor share. One thread; but doctor_log() is called by any. */
#pragma once

#include <netdb.h>
#include <stdio.h>
#include "doctor/doctor.h"
#include "doctor/hide.h"

#define DOCTOR_FINDINGS_MAX 64u

struct doctor_finding {
	int mark;                       /* DOCTOR_GOOD .. DOCTOR_IN_THE_WAY */
	const char *about;              /* "locked memory" */
	char what[640];
	char remedy[384];               /* ""; one line, too */
};

struct doctor {
	const struct doctor_config *cfg;
	FILE *out;                      /* where findings are printed as they come; NULL: they are not */
	struct doctor_finding finding[DOCTOR_FINDINGS_MAX];
	unsigned n;
	bool devices;                   /* this machine has an RDMA device */
	bool iwarp;                     /* the mount is carried by iWARP in user space */
	bool has_chosen;
	struct nfs_chosen chosen;       /* of the client that was made */
	struct hide hide;
	char *log;                      /* what was logged meanwhile; NULL: nothing */
};

/* ---- doctor.c ---- */

/* "good", ... */
const char *doctor_mark(const struct doctor_finding *n);
/* Notes a finding, and prints it. remedy "": there is none. */
void doctor_note(struct doctor *d, int mark, const char *about, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The path of a file of this machine, below root. Returns out. */
#define DOCTOR_PATH_MAX 512u
const char *doctor_path(const struct doctor *d, char out[DOCTOR_PATH_MAX], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The first line of such a file, without its end. false: it cannot be read. */
bool doctor_line(const struct doctor *d, char *out, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- machine.c, devices.c ---- */

void doctor_fuse(struct doctor *d);
void doctor_kernel(struct doctor *d);
/* The plan of a mount by a device: so behind doctor_devices(), and the server. */
void doctor_memory(struct doctor *d);
void doctor_devices(struct doctor *d);
/* What the report has of them: a line each. */
void doctor_devices_put(const struct doctor *d, FILE *f);

/* ---- server.c, ports.c, links.c ---- */

/* The network interface by which iWARP in user space reaches the server. */
void doctor_link(struct doctor *d, const struct sockaddr_storage *server);
void doctor_server(struct doctor *d);
/* What the resolver says of the server's name, and what a mount makes of it. */
void doctor_addresses(struct doctor *d, const struct nfs_config *cfg, const struct addrinfo *all);
/* What answers at the server's TCP ports. */
struct doctor_ports {
	bool rdma_port;                 /* somebody listens at the RDMA port: iWARP */
	int rdma_err;                   /* else why not: -errno */
	bool nfs_port, nfs3, nfs4;      /* 2049: somebody listens; NULL of version 3, 4 is answered */
};
struct doctor_ports doctor_ports(const struct sockaddr_storage *server);
/* The server's clock less ours in seconds, by its rpcbind. false: it does not say. */
bool doctor_clock(const struct sockaddr_storage *server, long *skew);

/* ---- report.c ---- */

/* 0, or -errno. */
int doctor_report(struct doctor *d);
