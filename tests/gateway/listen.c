/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which fabric to listen with. "auto" asks the devices first: verbs it is where
 * one has the address, iWARP in user space where none has it or none may be used.
 * A port that is taken or an address of another machine is an error with either,
 * and no reason to try the other one.
 */
#include <errno.h>
#include <string.h>
#include "gateway.h"

static bool no_device(int rc)
{
	return rc == -ENODEV || rc == -EACCES || rc == -EPERM;
}

int gw_listen(struct gateway *gw, const char *fabric, const struct fab_params *params,
	      struct errbuf *eb)
{
	static const struct fab_listen_events events = { .request = pair_request };
	bool any = !strcmp(fabric, "auto");
	int rc;

	gw->fab = any ? &fabric_verbs : fabric_by_name(fabric);
	if (!gw->fab)
		return err_set(eb, -EINVAL, "--fabric: '%s' is not auto, verbs or iwarp", fabric);
	rc = gw->fab->listen(params, gw->loop, &events, gw, &gw->listener, eb);
	if (rc && any && no_device(rc)) {
		log_info("--fabric auto: using iWARP in user space, because: %s", eb->text);
		gw->fab = &fabric_iwarp;
		rc = gw->fab->listen(params, gw->loop, &events, gw, &gw->listener, eb);
	}
	return rc;
}
