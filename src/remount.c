/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "remount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/unmount.h"
#include "daemon.h"

/* The mount's flags, as options. It is not asked for them: its daemon may be gone, or its server silent. */
static void flags_as_options(unsigned long flags, struct options *o)
{
	o->ro = flags & MS_RDONLY;
	o->nosuid = flags & MS_NOSUID;
	o->nodev = flags & MS_NODEV;
	o->noexec = flags & MS_NOEXEC;
	o->noatime = flags & MS_NOATIME;
}

static unsigned long with_options(unsigned long flags, const struct options *o)
{
	/* Without any flag of access times the kernel keeps those that are there. */
	if (flags & MS_NOATIME && !o->noatime)
		flags |= MS_RELATIME;
	flags &= ~(unsigned long)(MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME);
	return flags | (o->ro ? MS_RDONLY : 0) | (o->nosuid ? MS_NOSUID : 0) | (o->nodev ? MS_NODEV : 0) |
	       (o->noexec ? MS_NOEXEC : 0) | (o->noatime ? MS_NOATIME : 0);
}

/* fd: the mount's root. 0 or -errno. */
static int set_flags(int fd, unsigned long flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return mount("none", path, NULL, flags, NULL) < 0 ? -errno : 0;
}

/* fd: the mount's root, with these flags. *changed: it has others now. */
static int change_flags(int fd, unsigned long flags, const struct options *o, bool *changed, struct errbuf *eb)
{
	struct options is = *o, to;
	bool other;
	int rc;

	flags_as_options(flags, &is);
	rc = options_remount(&is, o->list, &to, &other, eb);
	if (rc || !other)
		return rc;
	if (geteuid() != 0)
		return err_set(eb, -EPERM, "only root may change ro, nosuid, nodev, noexec and noatime of a mount; "
			       "unmount '%s', and mount it again with the new options", o->mountpoint);
	rc = set_flags(fd, with_options(flags, &to));
	if (rc)
		return err_set(eb, rc, "cannot change the flags of the mount on '%s': %s%s", o->mountpoint,
			       strerror(-rc), rc == -EBUSY ? "; files are open for writing there" : "");
	*changed = true;
	return 0;
}

static void put_path(FILE *f, const char *name, const char *path)
{
	if (!path)
		return;
	fprintf(f, ",%s=", name);
	for (; *path; path++)
		fprintf(f, "%s%c", *path == ',' || *path == '\\' ? "\\" : "", *path);
}

/* The daemon's directory is another one: paths come once more, as this command has made them absolute. */
static char *list_for_daemon(const struct options *o)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	fputs(o->list, f);
	put_path(f, "idmapfile", o->idmapfile);
	put_path(f, "stats", o->stats);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* A daemon that has ended is the first that is said, before what only root may do: a new mount is the remedy
 * for everybody. Then the kernel, because only its flags can be put back: what the daemon's options were
 * nobody says. fd: the mount's root. */
static int change_both(const struct ctl_peer *p, int fd, const struct options *o, struct errbuf *eb)
{
	unsigned long flags = MS_REMOUNT | p->mount.flags;
	bool changed = false;
	int rc = ctl_peer_there(p, eb), back;
	char *list;

	if (!rc)
		rc = change_flags(fd, flags, o, &changed, eb);
	if (rc)
		return rc;
	list = list_for_daemon(o);
	rc = list ? ctl_ask_command(p, "remount", "options", list, NULL, eb) : err_set(eb, -ENOMEM, "out of memory");
	free(list);
	back = rc && changed ? set_flags(fd, flags) : 0;
	if (back)
		log_warn("remount: the flags of the mount on '%s' have changed, and cannot be put back: %s",
			 o->mountpoint, strerror(-back));
	return rc;
}

int remount_main(const struct options *o)
{
	struct errbuf eb = { "" };
	struct ctl_peer p;
	int rc = ctl_peer_find(&p, o->mountpoint, &eb), fd;

	if (!rc) {
		fd = ctl_mount_open(&p.mount, O_PATH);
		rc = fd < 0 ? err_set(&eb, fd, "cannot open the mount on '%s': %s", o->mountpoint, strerror(-fd)) :
		     change_both(&p, fd, o, &eb);
		if (fd >= 0)
			close(fd);
	}
	ctl_peer_free(&p);
	if (!rc)
		return 0;
	log_err("remount: %s", eb.text);
	return EXIT_MOUNT;
}
