/* SPDX-License-Identifier: GPL-2.0-or-later */
/* States and policies by their names: paths.h. Any thread. */
#include <string.h>
#include "nfs/paths.h"

static const char *const states[] = {
	[NFS_PATH_NONE] = "none", [NFS_PATH_CONNECTING] = "connecting",
	[NFS_PATH_CONNECTED] = "connected", [NFS_PATH_RECONNECTING] = "reconnecting",
	[NFS_PATH_REFUSED] = "refused", [NFS_PATH_REMOVING] = "removing",
};

const char *nfs_path_state_name(enum nfs_path_state s)
{
	return states[s];
}

static const char *const policies[] = {
	[RR_MIN_INFLIGHT] = "min-inflight", [RR_ROUND_ROBIN] = "round-robin",
	[RR_MIN_LATENCY] = "min-latency",
};

const char *nfs_policy_name(enum rr_policy policy)
{
	return policies[policy];
}

bool nfs_policy_named(const char *name, enum rr_policy *out)
{
	for (unsigned i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (strcmp(policies[i], name) == 0) {
			*out = (enum rr_policy)i;
			return true;
		}
	}
	return false;
}
