/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The option remount, by mount(8) or by hand: the daemon of the mount takes what it can change
 * (options_remount()), and then the kernel what it can: ro, nosuid, nodev, noexec, noatime, for which root
 * is needed. If the kernel refuses (files are open for writing, and it is to be read-only), the rest
 * has changed.
 */
#pragma once

#include "options.h"

/* o has source, mountpoint, and the list of options. Returns the exit status. */
int remount_main(const struct options *o);
