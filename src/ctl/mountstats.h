/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command mountstats: a mount's counters in the form that Linux has for its own NFS mounts. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

/* reply: of the daemon's command "ops". read_only: the mount is. */
void ctl_mountstats(FILE *f, struct json_object *reply, bool read_only);
