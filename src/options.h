/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line. One table of mount options (options_table.c) drives parsing, --help, and
 * the test that compares both with the man page. Names and defaults are those of nfs(5), for
 * options that nfs(5) has.
 *
 * The same program is the helper of mount(8). Called as mount.nfsrdma it takes the arguments
 * that mount(8) passes; there -f means "fake".
 */
#pragma once

#include <stdio.h>
#include "fuse/fs.h"
#include "nfs/plan.h"

enum opt_action { OPT_MOUNT, OPT_HELP, OPT_VERSION, OPT_WORDS };
enum opt_memreg { OPT_MEMREG_AUTO, OPT_MEMREG_POOL, OPT_MEMREG_CALL, OPT_MEMREG_MW };
enum opt_sec { OPT_SEC_SYS, OPT_SEC_NONE };
enum opt_idmap { OPT_IDMAP_USER, OPT_IDMAP_NONE, OPT_IDMAP_FILE };
enum opt_consistency { OPT_CTO, OPT_SOLO };
enum opt_local_lock { OPT_LOCAL_FLOCK = 1, OPT_LOCAL_POSIX = 2 };
/* 4: only while parsing; 4.2, or 4.1 if the server has no 4.2 */
enum opt_vers { OPT_VERS_4, OPT_VERS_3, OPT_VERS_41, OPT_VERS_42 };
enum opt_tri { OPT_UNSET = -1, OPT_NO, OPT_YES };       /* unset: only while parsing */

/* Room for a host's name and the NUL. */
#define OPT_END_SIZE 256u

/* Ends of paths, in the order given: numeric addresses without brackets, or names: in
 * remoteports= of hosts, in localports= of network interfaces. n 0: the option was not given. */
struct opt_ends {
	unsigned n;
	char text[NFS_PATHS_MAX][OPT_END_SIZE];
};

struct options {
	enum opt_action action; /* unless OPT_MOUNT, nothing else is filled in */

	/* Command line */
	char *source;           /* SERVER:/EXPORT as given */
	char *server;           /* the host in source, without brackets */
	char *export;           /* the path in source; begins with '/' */
	bool helper;            /* called by mount(8), as mount.nfsrdma */
	char *mountpoint;       /* absolute; may not exist */
	bool foreground;        /* -f, -d */
	bool fake;              /* check everything, mount nothing */
	bool sloppy;            /* -s: unknown options are ignored */
	bool verbose;           /* -v: say what is going on */
	bool debug;             /* -d, -o debug */
	bool remount;           /* the mount is there, and is to be changed */
	char *list;             /* what all -o have said, or NULL */

	/* Server and protocol */
	enum opt_vers vers;
	bool vers_may_fall;     /* from 4.2 to 4.1, because no minor version was given */
	unsigned minorversion;  /* 1 for OPT_VERS_41, 2 for OPT_VERS_42, 0 for OPT_VERS_3 */
	int family;             /* AF_UNSPEC or AF_INET6 */
	unsigned port, mountport, nlmport;      /* mountport, nlmport: 0: ask rpcbind */
	int sec;                /* enum opt_sec */
	unsigned rsize, wsize;
	unsigned readahead;     /* bytes; 0: off */
	bool rdirplus, acl;
	bool nolock, deleg, delegflush;
	enum opt_idmap idmap;
	char *idmapfile;        /* absolute path, or NULL */
	int local_lock;         /* enum opt_local_lock, several */

	/* RDMA */
	enum nfs_plan_fabric fabric;
	enum opt_memreg memreg;
	unsigned lanes;         /* 1 .. NFS_LANES_MAX; the default is filled in */
	unsigned credits;
	bool mpa_crc, mss_fpdu; /* FAB_CRC, FAB_MSS_FPDU */

	/* Rings: of one user */
	bool rings;
	unsigned maxrings, ringmem;     /* ringmem: MiB */

	/* Paths. */
	struct opt_ends remoteports, localports;
	enum rr_policy policy;
	unsigned mdconnect;
	unsigned heartbeat;     /* seconds */

	/* Time */
	unsigned timeo;         /* tenths of a second */
	unsigned retrans;
	bool soft;
	unsigned retry;         /* minutes */
	bool bg;                /* the command does not wait for further attempts */

	/* Caches; seconds */
	unsigned acregmin, acregmax, acdirmin, acdirmax;
	bool noac;
	unsigned writebehind;   /* percent */
	enum fs_lookupcache lookupcache;
	enum opt_consistency consistency;

	/* The mount itself */
	bool ro, nosuid, nodev, noexec, noatime, sync, dirsync;
	enum opt_tri allow_other;
	bool allow_root;
	enum opt_tri default_permissions;
	char *fsname;
	char *fuse_opts;        /* all of these, as the argument of libfuse's -o */

	char *stats;            /* absolute path, or NULL */
};

/*
 * Fills o. Returns 0, or -errno with eb set to one line: what is wrong with which word, and
 * what is allowed. o needs options_free() in either case. log_warn() tells of values that
 * are changed (rsize rounded down) and, with -s, of options that are ignored.
 */
int options_parse(struct options *o, int argc, char *const *argv, struct errbuf *eb);
void options_free(struct options *o);

/* One option of a list. is_free: the value may be anything, names of people and paths as well. name NULL: the
 * option has no row, so its name is free, too, and all of it is in value; else value NULL: there is none. */
typedef void options_fn(void *to, const char *name, const char *value, bool is_free);
/* Calls fn for each option of such a list. 0, or -ENOMEM. */
int options_each(const char *list, options_fn *fn, void *to);

/*
 * A remount: *to becomes o with what the list of options says, which may only change what can be changed
 * while the mount is there: what the daemon changes. Of what the kernel changes *to has what the list
 * says, if *kernel is not NULL, which becomes true if that is another one. 0, or -errno with eb set: what
 * cannot be changed. *to needs no options_free(): its strings are o's.
 */
int options_remount(const struct options *o, const char *list, struct options *to, bool *kernel, struct errbuf *eb);

void options_help(FILE *out);
void options_version(FILE *out);
/* What -o takes, for the shells' completion, one a line: "name"; "name=" if any value may follow;
 * "name=word" for each word that may. */
void options_words(FILE *out);
