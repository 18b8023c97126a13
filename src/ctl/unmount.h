/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes a mount of this program away, and no other one: in the process nfsrdma-unmount (unmounter.h),
 * in the command (ctl MOUNTPOINT abort), and before a new mount where a dead one is. The daemon is
 * not asked, so that nothing here waits for it.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include "ctl/where.h"

/* Opens the root of that very mount, wherever it is by now. A descriptor, or -errno: -ENOENT: it is
 * not mounted any more; -EBUSY: another one covers it. */
int ctl_mount_open(const struct ctl_mount *m, int flags);
/* Right after it was found: from now on no later mount is taken for it that is given its numbers. Where the kernel
 * does not tell (before Linux 6.8) this does nothing. */
void ctl_mount_note(struct ctl_mount *m);
/* A mount of ours whose daemon has ended, and that is this user's: good for nothing, and to be replaced. Is one there, on
 * top? Then *out has it, noted. */
bool ctl_dead_find(const char *mountpoint, struct ctl_mount *out);
/* May that be why a look at the mount point has failed with -errno? The kernel may know its root's attributes still: so
 * it looks as one that is alive. */
static inline bool ctl_may_be_dead(int rc)
{
	return rc == -ENOTCONN || rc == -EBUSY;
}
/*
 * Unmounts lazily; as root by umount2(2), as an ordinary user by fusermount3. aborts: what waits for
 * the daemon ends before that, if this user may: or the unmount itself would wait. m NULL: it is not
 * known which mount it is; only an ordinary user's is then unmounted, by its name. 0, or -errno as
 * above.
 */
int ctl_unmount(const struct ctl_mount *m, const char *mountpoint, bool aborts);
