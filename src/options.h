/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line. One table of mount options in options.c drives parsing,
 * --help, and the test that compares both with the man page; names and
 * defaults are nfs(5)'s wherever nfs(5) has them.
 *
 * The same program is mount(8)'s helper: called as mount.nfsrdma it takes the
 * arguments as mount(8) passes them, where -f means "fake".
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "base/log.h"

enum opt_action { OPT_MOUNT, OPT_HELP, OPT_VERSION };
enum opt_family { OPT_FAMILY_ANY, OPT_FAMILY_INET6 };
enum opt_fabric { OPT_FABRIC_AUTO, OPT_FABRIC_VERBS, OPT_FABRIC_IWARP };
enum opt_memreg { OPT_MEMREG_POOL };
enum opt_sec { OPT_SEC_SYS, OPT_SEC_NONE };
enum opt_lookupcache { OPT_LOOKUP_ALL, OPT_LOOKUP_POS, OPT_LOOKUP_NONE };
enum opt_vers { OPT_VERS_4, OPT_VERS_3, OPT_VERS_41, OPT_VERS_42 };  /* 4: not after parsing */
enum opt_tri { OPT_UNSET = -1, OPT_NO, OPT_YES };       /* unset: not after parsing */

#define OPT_LANES_MAX 16u

struct options {
	enum opt_action action; /* other than OPT_MOUNT: nothing else is filled in */

	/* Command line */
	char *source;           /* SERVER:/EXPORT as given */
	char *server;           /* the host in it, without brackets */
	char *export;           /* the path in it; begins with '/' */
	bool helper;            /* called by mount(8), as mount.nfsrdma */
	char *mountpoint;       /* absolute; not checked for existence */
	bool foreground;        /* -f, -d */
	bool fake;              /* check everything, mount nothing */
	bool sloppy;            /* -s: unknown options are ignored */
	bool verbose;           /* -v: say what is going on */
	bool debug;             /* -d, -o debug */

	/* Server and protocol */
	enum opt_vers vers;
	unsigned minorversion;  /* 1 for OPT_VERS_41, otherwise 0 */
	enum opt_family family;
	unsigned port, mountport;       /* mountport 0: ask rpcbind */
	int sec;                /* enum opt_sec */
	unsigned rsize, wsize;
	bool rdirplus;
	bool nolock;            /* always */

	/* RDMA */
	enum opt_fabric fabric;
	enum opt_memreg memreg;
	unsigned lanes;         /* 1 .. OPT_LANES_MAX, the default already worked out */
	unsigned credits;
	bool mpa_crc, mss_fpdu; /* FAB_CRC, FAB_MSS_FPDU */
	char *localaddr;        /* numeric address, or NULL: any */

	/* Time */
	unsigned timeo;         /* tenths of a second */
	unsigned retrans;
	bool soft;
	unsigned retry;         /* minutes */

	/* Caches; seconds */
	unsigned acregmin, acregmax, acdirmin, acdirmax;
	bool noac;
	enum opt_lookupcache lookupcache;

	/* The mount itself */
	bool ro, nosuid, nodev, noexec, noatime, sync, dirsync;
	enum opt_tri allow_other;
	bool allow_root;
	enum opt_tri default_permissions;
	char *fsname;
	char *fuse_opts;        /* all of these as libfuse's -o wants them */

	char *stats;            /* absolute path, or NULL */
};

/*
 * Fills o. Returns 0, or -errno with eb saying in one line what is wrong, on
 * which word, and what is allowed. o needs options_free() in either case.
 * Values that are changed (rsize rounded down) and, with -s, ignored options
 * are mentioned through log_warn().
 */
int options_parse(struct options *o, int argc, char *const *argv, struct errbuf *eb);
void options_free(struct options *o);

void options_help(FILE *out);
void options_version(FILE *out);

/* "3" or "4.1". */
const char *options_vers_text(const struct options *o);

/* The table as the man page test sees it. false: i is beyond its end. */
struct option_info {
	const char *name;       /* without value: "timeo" */
	const char *group;      /* heading in --help and in the man page */
	bool offered;           /* false: is refused with a reason */
	bool has_range;
	unsigned min, max;
	const char *def_text;   /* the default in words, or NULL: it is def */
	unsigned def;
};
bool options_info(size_t i, struct option_info *info);

#endif
