/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The option remount, by mount(8) or by hand: the kernel takes what it can change (ro, nosuid, nodev, noexec,
 * noatime, for which root is needed), and then the daemon of the mount what it can (options_remount()). If the
 * kernel refuses (files are open for writing, and it is to be read-only), the daemon is not asked; if the daemon
 * refuses, the kernel's flags are put back. So all of a list is done, or nothing.
 */
#pragma once

#include "options.h"

/* o has source, mountpoint, and the list of options. Returns the exit status. */
int remount_main(const struct options *o);
