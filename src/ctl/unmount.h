/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes a mount of this program away, and no other one: in the process nfsrdma-unmount (unmounter.h),
 * in the command (ctl MOUNTPOINT abort), and before a new mount where a dead one is. The daemon is
 * not asked, so that nothing here waits for it.
 */
#pragma once

#include <stdbool.h>
#include "ctl/where.h"

/* Opens the root of that very mount, wherever it is by now. A descriptor, or -errno: -ENOENT: it is
 * not mounted any more; -EBUSY: another one covers it. */
int ctl_mount_open(const struct ctl_mount *m, int flags);
/* Right after it was found: from now on no later mount is taken for it that is given its numbers. Where the kernel
 * does not tell (before Linux 6.8) this does nothing. */
void ctl_mount_note(struct ctl_mount *m);
/*
 * Unmounts lazily; as root by umount2(2), as an ordinary user by fusermount3. aborts: what waits for
 * the daemon ends before that, if this user may: or the unmount itself would wait. m NULL: it is not
 * known which mount it is; only an ordinary user's is then unmounted, by its name. 0, or -errno as
 * above.
 */
int ctl_unmount(const struct ctl_mount *m, const char *mountpoint, bool aborts);
