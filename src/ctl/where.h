/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which socket belongs to which mount.
 *
 *     DIR/MAJOR:MINOR     the device number of the mount, as in /proc/self/mountinfo
 *     DIR/MAJOR:MINOR.rings       the socket of its rings (src/ring). Those of root's mounts are in
 *                         /run/nfsrdma-fuse-rings, which others may search
 *
 *     DIR     /run/nfsrdma-fuse             root's mounts
 *             /run/user/UID/nfsrdma-fuse    others', if they have a /run/user/UID
 *             /tmp/nfsrdma-fuse-UID         otherwise; also of who is root in a user namespace only
 *
 * The kernel gives a device number to one mount at a time, so the daemon whose mount has it may
 * replace whatever is there: the socket of a daemon that was killed, or of one whose mount has
 * just gone and that has not ended yet.
 *
 * In /tmp anybody may have made something of that name before. So a directory is used only if
 * it is one, not a link, belongs to the owner, and is closed to all others. Nobody but the owner
 * and root can replace it then.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/log.h"

/* Variables for the tests. */
extern struct ctl_roots {
	const char *run, *run_user, *tmp;
} ctl_roots;
extern const char *ctl_mountinfo;

#define CTL_DIRS 2u             /* places where a user's sockets may be */
#define CTL_DIR_MAX 84u
#define CTL_NAME_MAX 108u       /* a socket's name: sun_path */

struct ctl_mount {
	int id;                 /* in this mount namespace; given again when the mount is gone, as is... */
	dev_t dev;
	uint64_t unique;        /* ctl_mount_note(): never given again; 0: not known */
	uid_t owner;            /* user_id= */
	bool read_only;
	unsigned long flags;    /* MS_ of mount(2), the mount's own, without asking it */
	bool ours;              /* its type is fuse.nfsrdma-fuse */
};

/* What is mounted on the absolute path `mountpoint`: the last one, which hides the others, goes
 * to *out. 0; -ENODEV: nothing; another -errno: the list of mounts cannot be read. */
int ctl_where_find(const char *mountpoint, struct ctl_mount *out);
/* Is that mount's device mounted on `mountpoint`, too (a bind mount)? */
bool ctl_where_mounted(const struct ctl_mount *m, const char *mountpoint);
/* Where is that very mount now? The directories above may have been renamed. NULL: nowhere, or no
 * memory. The caller frees it. */
char *ctl_where_now(const struct ctl_mount *m);
/*
 * The absolute path of a mount point, without links, and without asking the file system that is
 * mounted there. NULL: errno says why. The caller frees it.
 */
char *ctl_where_resolve(const char *path);

/* The user's directories, those that are preferred first. Returns how many. */
unsigned ctl_where_dirs(uid_t uid, char out[CTL_DIRS][CTL_DIR_MAX]);
/* May this directory be used? 0; -ENOENT: there is none; -EPERM: no; eb is set. */
int ctl_where_check(const char *dir, uid_t uid, struct errbuf *eb);
/* The name of the mount's socket. */
void ctl_where_name(const char *dir, const struct ctl_mount *m, char out[CTL_NAME_MAX]);
/* Chooses this process's directory, and makes it if need be. 0, or -errno with eb set. */
int ctl_where_make(char out[CTL_DIR_MAX], struct errbuf *eb);
/* The same for the rings' socket. */
int ctl_where_make_rings(char out[CTL_DIR_MAX], struct errbuf *eb);
