/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of Linux 5.19 and 6.2; not in all headers. */
#define REFER    (1ull << 13)
#define TRUNCATE (1ull << 14)

#define READ  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE)
/* Files are made in a directory, and replaced. */
#define KEEP  (READ | WRITE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE)
/* What a rule for a file may have. */
#define OF_FILES (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE)

static const struct {
	const char *path;
	uint64_t access;
} files[] = {
	/* libraries, their modules and settings, where distributions have them */
	{ "/etc", READ }, { "/usr", READ }, { "/lib", READ }, { "/lib32", READ }, { "/lib64", READ },
	{ "/opt", READ }, { "/nix/store", READ }, { "/gnu/store", READ },
	/* what NSS modules and the resolver read */
	{ "/etc/resolv.conf", LANDLOCK_ACCESS_FS_READ_FILE },
	{ "/etc/nsswitch.conf", LANDLOCK_ACCESS_FS_READ_FILE },
	{ "/run/systemd", READ }, { "/run/resolvconf", READ }, { "/run/NetworkManager", READ },
	{ "/run/nscd", READ }, { "/var/cache/nscd", READ }, { "/var/lib/sss", READ },
	{ "/var/lib/extrausers", READ }, { "/var/db", READ }, { "/var/lib/misc", READ },
	/* the kernel and devices */
	{ "/proc", READ }, { "/sys", READ }, { "/dev/infiniband", READ | WRITE },
	{ "/dev/fuse", READ | WRITE }, { "/dev/null", READ | WRITE }, { "/dev/zero", READ },
	{ "/dev/random", READ }, { "/dev/urandom", READ },
	/* for who looks at this process in a debugger or a sanitizer's report */
	{ "/proc/self/exe", LANDLOCK_ACCESS_FS_READ_FILE },
};

/* struct landlock_ruleset_attr, of which older headers have the beginning only. */
struct ruleset {
	uint64_t fs, net, scoped;
};
#define SCOPE_ABSTRACT 1ull     /* of Linux 6.12 */

static int landlock_create(const struct ruleset *attr, size_t size, uint32_t flags)
{
	long rc = syscall(SYS_landlock_create_ruleset, attr, size, flags);

	return rc < 0 ? -errno : (int)rc;
}

/* All rights that this version of the kernel's Landlock knows, of those that are known here. */
static uint64_t landlock_handled(int version)
{
	uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

	return all | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0);
}

static int allow_fd(int ruleset, int fd, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };

	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0)
		return 0;
	/* It is no directory. */
	rule.allowed_access &= OF_FILES;
	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ?
	       -errno : 0;
}

/* What is not there needs no rule. */
static void landlock_allow(int ruleset, const char *path, uint64_t access)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return;
	allow_fd(ruleset, fd, access);
	close(fd);
}

/* Where a file is by now, so that it may be replaced: a rule is for the file that is there, or for
 * a directory. Not a whole /run. */
static void allow_around(int ruleset, const char *path, uint64_t access)
{
	char *real = realpath(path, NULL), *slash = real ? strrchr(real, '/') : NULL;

	if (slash) {
		*slash = '\0';
		if (strrchr(real, '/') > real)
			landlock_allow(ruleset, real, access);
	}
	free(real);
}

struct rules {
	int ruleset;
	uint64_t known;         /* rights that the kernel has, for each rule */
};

/* Modules are mostly beside the library that loads them, or below. */
static int on_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct rules *r = arg;
	char dir[PATH_MAX], *slash;

	if (snprintf(dir, sizeof(dir), "%s", info->dlpi_name) >= (int)sizeof(dir))
		return 0;
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	landlock_allow(r->ruleset, dir, READ & r->known);
	return 0;
}

static int restrict_self(int ruleset)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return -errno;
	return 0;
}

int landlock_enter(int stats_dir)
{
	int version = landlock_create(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), rc = 0;
	struct ruleset attr = { .scoped = SCOPE_ABSTRACT };
	struct rules r;

	if (version < 0)
		return version;
	attr.fs = r.known = landlock_handled(version);
	r.ruleset = landlock_create(&attr, version >= 6 ? sizeof(attr) : sizeof(attr.fs), 0);
	if (r.ruleset < 0)
		return r.ruleset;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		landlock_allow(r.ruleset, files[i].path, files[i].access & r.known);
	/* It is made anew for each network, and most distributions have it in /run. */
	allow_around(r.ruleset, "/etc/resolv.conf", READ & r.known);
	dl_iterate_phdr(on_library, &r);
	if (stats_dir >= 0)
		rc = allow_fd(r.ruleset, stats_dir, KEEP & r.known);
	if (!rc)
		rc = restrict_self(r.ruleset);
	close(r.ruleset);
	return rc;
}
