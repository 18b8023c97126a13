/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FUSE, kernel, processors and locked memory of this machine. */
#include "doctor/doctor_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The kernel takes requests of 1 MiB when it may have so many pages in one. */
#define FUSE_PAGES 256u
/* What /etc/security/limits.conf, systemd and the shell call it. */
#define RAISE_MEMLOCK "'ulimit -l %zu', memlock in /etc/security/limits.conf, or LimitMEMLOCK=%zuK in a unit"

/* ---- /dev/fuse ---- */

static void machine_device(struct doctor *d)
{
	char path[DOCTOR_PATH_MAX];
	int fd = open(doctor_path(d, path, "/dev/fuse"), O_RDWR | O_CLOEXEC), err = errno;

	if (fd >= 0) {
		close(fd);
		doctor_note(d, DOCTOR_GOOD, "/dev/fuse", "", "it is there and may be opened");
	} else if (err == ENOENT || err == ENODEV || err == ENXIO) {
		doctor_note(d, DOCTOR_IN_THE_WAY, "/dev/fuse", "'modprobe fuse'; a container has to be given the "
			    "device (docker: --device /dev/fuse)", "this machine has none (%s)", strerror(err));
	} else {
		doctor_note(d, DOCTOR_IN_THE_WAY, "/dev/fuse", "'chmod 666 /dev/fuse'; a container has to be allowed "
			    "the device, too", "it may not be opened for reading and writing: %s", strerror(err));
	}
}

/* ---- fusermount3, fuse.conf ---- */

/* Where libfuse finds it: in PATH. false: nowhere. */
static bool machine_find(const struct doctor *d, const char *program, char out[DOCTOR_PATH_MAX], struct stat *st)
{
	const char *dir = getenv("PATH");
	size_t len;

	for (dir = dir ? dir : "/usr/bin:/bin"; ; dir += len + 1) {
		len = strcspn(dir, ":");
		doctor_path(d, out, "%.*s/%s", (int)len, dir, program);
		if (len && stat(out, st) == 0 && S_ISREG(st->st_mode))
			return true;
		if (!dir[len])
			return false;
	}
}

static void machine_helper(struct doctor *d)
{
	char path[DOCTOR_PATH_MAX];
	struct stat st;

	if (d->cfg->uid == 0)
		doctor_note(d, DOCTOR_GOOD, "fusermount3", "", "root mounts without it");
	else if (!machine_find(d, "fusermount3", path, &st))
		doctor_note(d, DOCTOR_IN_THE_WAY, "fusermount3", "install the package fuse3, or mount as root",
			    "it is not in PATH, and only by it an ordinary user can mount");
	else if (!(st.st_mode & S_ISUID) || st.st_uid != 0)
		doctor_note(d, DOCTOR_IN_THE_WAY, "fusermount3", "as root, 'chown root' and 'chmod 4755' it, or install "
			    "the package fuse3 again", "'%s' is not set-user-ID root, so it cannot mount",
			    path + strlen(d->cfg->root));
	else
		doctor_note(d, DOCTOR_GOOD, "fusermount3", "", "'%s' is set-user-ID root", path + strlen(d->cfg->root));
}

static bool machine_allows_other(const struct doctor *d)
{
	char path[DOCTOR_PATH_MAX], line[256], word[32];
	FILE *f = fopen(doctor_path(d, path, "/etc/fuse.conf"), "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, " %31s", word) == 1 && strcmp(word, "user_allow_other") == 0;
	if (f)
		fclose(f);
	return found;
}

static void machine_others(struct doctor *d)
{
	if (d->cfg->uid == 0 || !d->cfg->shared)
		return;
	if (machine_allows_other(d))
		doctor_note(d, DOCTOR_GOOD, "allow_other", "", "/etc/fuse.conf has user_allow_other");
	else
		doctor_note(d, DOCTOR_IN_THE_WAY, "allow_other", "write the line user_allow_other into /etc/fuse.conf, or "
			    "leave allow_other and allow_root out", "the options let other users use the mount, and "
			    "/etc/fuse.conf does not let users do that");
}

void doctor_fuse(struct doctor *d)
{
	machine_device(d);
	machine_helper(d);
	machine_others(d);
}

/* ---- kernel, processors ---- */

static void machine_requests(struct doctor *d)
{
	char line[32];

	/* Linux 6.13 and later; before, 256 is a constant. */
	if (!doctor_line(d, line, sizeof(line), "/proc/sys/fs/fuse/max_pages_limit"))
		return;
	if (strtoul(line, NULL, 10) < FUSE_PAGES)
		doctor_note(d, DOCTOR_COSTS, "FUSE requests", "'sysctl fs.fuse.max_pages_limit=256'",
			    "fs.fuse.max_pages_limit is %s: the kernel makes requests of less than 1 MiB, so more of "
			    "them", line);
	else
		doctor_note(d, DOCTOR_GOOD, "FUSE requests", "", "of up to 1 MiB (fs.fuse.max_pages_limit is %s)", line);
}

/* What needs a later one than Debian 12 has is none of these: its kernel is 6.1. */
static void machine_kernel(struct doctor *d)
{
	char release[65];
	unsigned major = 0, minor = 0;
	bool has_statx, has_xattrs;

	if (!doctor_line(d, release, sizeof(release), "/proc/sys/kernel/osrelease") ||
	    sscanf(release, "%u.%u", &major, &minor) != 2)
		return;
	has_statx = major > 6 || (major == 6 && minor >= 6);
	has_xattrs = major > 5 || (major == 5 && minor >= 11);
	if (has_xattrs)
		doctor_note(d, DOCTOR_GOOD, "kernel", "", "Linux %s%s", release, has_statx ? "" :
			    ": times when files were made are shown from Linux 6.6 on");
	else
		doctor_note(d, DOCTOR_COSTS, "kernel", "Linux 5.11 or later", "Linux %s: extended attributes need Linux "
			    "5.11, and times when files were made 6.6", release);
}

static void machine_processors(struct doctor *d)
{
	cpu_set_t set;
	int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	if ((unsigned)cpus > NFS_LANES_MAX && d->cfg->lanes == NFS_LANES_MAX)
		doctor_note(d, DOCTOR_GOOD, "processors", "", "%d for this process; %u connections on each path, the most "
			    "that there are", cpus, d->cfg->lanes);
	else if (d->cfg->lanes < (unsigned)cpus)
		doctor_note(d, DOCTOR_COSTS, "processors", "leave nconnect= out", "%d for this process, and the options "
			    "want %u connection%s on each path: a thread each, so the other processors do no work "
			    "for this mount", cpus, d->cfg->lanes, d->cfg->lanes == 1 ? "" : "s");
	else
		doctor_note(d, DOCTOR_GOOD, "processors", "", "%d for this process, and %u connection%s on each path",
			    cpus, d->cfg->lanes, d->cfg->lanes == 1 ? "" : "s");
}

void doctor_kernel(struct doctor *d)
{
	machine_kernel(d);
	machine_requests(d);
	machine_processors(d);
}

/* ---- locked memory ---- */

static const char *machine_limit(size_t limit, char out[48])
{
	if (limit == SIZE_MAX)
		return "no limit";
	snprintf(out, 48, "a limit of %zu KiB", limit / 1024);
	return out;
}

/* The plan of a mount says it: how much may be locked (RLIMIT_MEMLOCK, or any for who has
 * CAP_IPC_LOCK), how much would be good, and what came out. */
void doctor_memory(struct doctor *d)
{
	struct nfs_config cfg = { .npaths = 0 };
	struct errbuf eb = { "" };
	int rc = d->cfg->plan(&cfg, DOCTOR_BY_DEVICE, d->cfg->arg, &eb);
	size_t want = cfg.locks_wanted / 1024 + 1;
	char limit[48], remedy[192];

	/* Then the name of the server has no address, which is said already. */
	if (rc && !cfg.locks_wanted)
		return;
	machine_limit(cfg.locks_limit, limit);
	snprintf(remedy, sizeof(remedy), RAISE_MEMLOCK, want, want);
	if (d->iwarp)
		doctor_note(d, DOCTOR_GOOD, "locked memory", "", "%s, and iWARP in user space locks none (with an RDMA "
			    "device it would be up to %zu KiB)", machine_limit(cfg.locks_limit, limit), want);
	else if (rc)
		doctor_note(d, DOCTOR_IN_THE_WAY, "locked memory", remedy, "%s", eb.text);
	else if (cfg.locks_wanted > cfg.locks_limit)
		doctor_note(d, DOCTOR_COSTS, "locked memory", remedy, "%s (RLIMIT_MEMLOCK), and a good mount locks %zu KiB: "
			    "there will be %u of %u connections on each path, with fewer buffers",
			    machine_limit(cfg.locks_limit, limit), want, cfg.lanes, d->cfg->lanes);
	else
		doctor_note(d, DOCTOR_GOOD, "locked memory", "", "%s, and the mount locks up to %zu KiB",
			    machine_limit(cfg.locks_limit, limit), want);
}
