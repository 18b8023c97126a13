/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command `abort`. It ends any mount within five seconds, whatever its daemon does. */
#include <errno.h>
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

/* eb has what the daemon has said, or why it says nothing. */
static int take_it_away(const struct ctl_peer *p, struct errbuf *eb)
{
	int rc = ctl_unmount(&p->mount, p->mountpoint, true);

	if (rc && is_there(p)) {
		struct errbuf why = *eb;

		return err_set(eb, CTL_REFUSED, "%s%scannot unmount '%s': %s", why.text, *why.text ? "; " : "",
			       p->mountpoint, strerror(-rc));
	}
	if (eb->text[0])
		log_warn("ctl: %s; '%s' was unmounted. If programs still wait for it, end its daemon: "
			 "pkill -KILL -f '%s'", eb->text, p->mountpoint, p->mountpoint);
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
