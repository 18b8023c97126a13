/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "priv.h"

#include <errno.h>
#include <linux/capability.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAP(n) (1ull << (n))

static bool priv_has(const struct mntent *e, const char *opt, const char *const *values)
{
	const char *at = hasmntopt(e, opt), *end;

	if (!at)
		return false;
	at += strlen(opt);
	if (*at++ != '=')
		return false;
	end = at + strcspn(at, ",");
	for (; *values; values++)
		if (strlen(*values) == (size_t)(end - at) && !strncmp(at, *values, strlen(*values)))
			return true;
	return false;
}

/* From anybody. */
static bool priv_hides(const char *options)
{
	static const char *const off[] = { "0", "off", NULL };
	const struct mntent e = { .mnt_opts = (char *)(uintptr_t)options };

	return hasmntopt(&e, "hidepid") && !priv_has(&e, "hidepid", off);
}

bool priv_proc_is_hidden(const char *options)
{
	static const char *const ptraceable[] = { "4", "ptraceable", NULL },
		*const root[] = { "0", NULL };
	const struct mntent e = { .mnt_opts = (char *)(uintptr_t)options };

	if (!priv_hides(options))
		return false;
	/* With other values members of group gid= see all processes, and root is in group 0. */
	return priv_has(&e, "hidepid", ptraceable) ||
	       (hasmntopt(&e, "gid") && !priv_has(&e, "gid", root));
}

static bool proc_has(bool (*is)(const char *options))
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *e;
	bool yes = false;

	if (!f)
		return false;
	while ((e = getmntent(f)))
		if (!strcmp(e->mnt_dir, "/proc"))
			yes = is(e->mnt_opts);
	endmntent(f);
	return yes;
}

bool priv_needs_ptrace(void)
{
	return proc_has(geteuid() == 0 ? priv_proc_is_hidden : priv_hides);
}

uint64_t priv_needed(bool v3)
{
	return CAP(CAP_IPC_LOCK) | (v3 ? CAP(CAP_NET_BIND_SERVICE) : 0) |
	       (proc_has(priv_proc_is_hidden) ? CAP(CAP_SYS_PTRACE) : 0);
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
	/* The kernel drops ambient capabilities that are not inheritable any more. */
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}
