/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "priv.h"

#include <errno.h>
#include <linux/capability.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAP(n) (1ull << (n))

static bool proc_hides_processes(void)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *e;
	bool hides = false;
	char *opt;

	if (!f)
		return false;
	while ((e = getmntent(f))) {
		if (strcmp(e->mnt_dir, "/proc") != 0)
			continue;
		opt = hasmntopt(e, "hidepid");
		hides = opt && strncmp(opt, "hidepid=0", 9) && strncmp(opt, "hidepid=off", 11);
	}
	endmntent(f);
	return hides;
}

uint64_t priv_needed(bool v3)
{
	return CAP(CAP_IPC_LOCK) | (v3 ? CAP(CAP_NET_BIND_SERVICE) : 0) |
	       (proc_hides_processes() ? CAP(CAP_SYS_PTRACE) : 0);
}

int priv_drop(uint64_t keep)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t mask = (uint32_t)(keep >> (32 * i));

		d[i].permitted &= mask;
		d[i].effective &= mask;
		d[i].inheritable = 0;
	}
	/* Takes the ambient ones with it. */
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}
