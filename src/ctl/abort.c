/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command `abort`. It ends any mount within five seconds, whatever its daemon does. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/unmount.h"

/* The daemon answers at once, if it can. */
#define ANSWER_S 1u
/* It unmounts then. */
#define UNMOUNT_MS 2500u
#define STEP_MS 20u

static bool is_there(const struct ctl_peer *p)
{
	return ctl_where_mounted(&p->mount, p->mountpoint);
}

static bool goes_by_itself(const struct ctl_peer *p)
{
	for (unsigned ms = 0; ms < UNMOUNT_MS; ms += STEP_MS) {
		if (!is_there(p))
			return true;
		usleep(STEP_MS * 1000);
	}
	return !is_there(p);
}

struct process {
	char name[17];
	int parent;
	unsigned uid;
};

static bool process_read(pid_t pid, struct process *out)
{
	char path[64], line[256];
	unsigned found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof(line), f))
		found += sscanf(line, "Name: %16s", out->name) == 1 || sscanf(line, "PPid: %d", &out->parent) == 1 ||
			 sscanf(line, "Uid: %u", &out->uid) == 1;
	if (f)
		fclose(f);
	return found == 3;
}

/* The process that serves the mount, whose child has made the socket (unmounter.h). 0: it is not known, or not certain.
 * To be asked while the mount is there: its socket may be that of a later one then. */
static pid_t daemon_of(const struct ctl_peer *p)
{
	struct process child, parent;

	if (!process_read(ctl_peer_pid(p), &child) || strcmp(child.name, "nfsrdma-unmount") != 0 ||
	    !process_read(child.parent, &parent) || parent.uid != p->mount.owner)
		return 0;
	return strcmp(parent.name, "nfsrdma-fuse") == 0 || strcmp(parent.name, "mount.nfsrdma") == 0 ? child.parent : 0;
}

static void say_unmounted(const struct ctl_peer *p, pid_t server, const char *why)
{
	char how[32] = " with SIGKILL";

	if (server)
		snprintf(how, sizeof(how), ": kill -KILL %d", (int)server);
	log_warn("ctl: %s; '%s' was unmounted. If programs still wait for it, end its daemon%s", why, p->mountpoint, how);
}

/* eb has what the daemon has said, or why it says nothing. */
static int take_it_away(const struct ctl_peer *p, struct errbuf *eb)
{
	pid_t server = daemon_of(p);
	int rc = ctl_unmount(&p->mount, p->mountpoint, true);

	if (rc && is_there(p)) {
		struct errbuf why = *eb;

		return err_set(eb, CTL_REFUSED, "%s%scannot unmount '%s': %s", why.text, *why.text ? "; " : "",
			       p->mountpoint, strerror(-rc));
	}
	if (eb->text[0])
		say_unmounted(p, server, eb->text);
	return CTL_OK;
}

/* asked: what the daemon said to it. Who may end the mount is known already (ctl_peer_find()): that its daemon has no
 * place for one more client, or does not know the command, does not keep it. */
static int abort_by_any_way(const struct ctl_peer *p, int asked, struct errbuf *eb)
{
	/* It may be gone before the answer has been looked at. */
	if (!is_there(p) || (!asked && goes_by_itself(p)))
		return CTL_OK;
	if (!asked)
		err_set(eb, 0, "the daemon of '%s' has agreed, and has not unmounted it", p->mountpoint);
	return take_it_away(p, eb);
}

int ctl_abort(const struct ctl_peer *p, struct json_object *request, struct json_object **reply,
	      struct errbuf *eb)
{
	int asked, status;

	ctl_answer_s = ANSWER_S;
	asked = ctl_ask(p, request, reply, eb);
	status = abort_by_any_way(p, asked, eb);
	/* The daemon's error is not the command's. */
	if (asked && !status) {
		json_object_put(*reply);
		*reply = NULL;
	}
	return status;
}
