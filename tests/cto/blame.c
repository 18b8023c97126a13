/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who is to blame for an old byte: once it was found, nothing else is under way, and the
 * process that found it is asked what there is now.
 *
 *     the server has    the same read    a new open
 *     old bytes                                        who wrote has not kept its promise
 *     new bytes         old bytes        new bytes     the older open's cache is old
 *     new bytes         old bytes        old bytes     the mount's cache is old, and an open does
 *                                                      not drop it
 *     new bytes         new bytes                      it was old for a moment
 */
#include <stdio.h>
#include <string.h>
#include "cto.h"

static const char *ask(struct op o, enum what what)
{
	const struct op asked = o;
	const uint8_t *data;
	struct answer a;

	o.what = (uint8_t)what;
	o.look = false;
	worker_begin(&o);
	if (!worker_answer(o.worker, &a, &data) || a.err)
		return "an error";
	return model_would_do(&asked, a.rc, data) ? "new bytes" : "old bytes";
}

void blame(const struct op *o, char *why, size_t size)
{
	struct op named = *o;
	const char *server = cfg.server ? "no name for it" : "not been asked", *same, *again;
	size_t n = strlen(why);

	if (cfg.server && model_names(o, &named.name))
		server = ask(named, SERVER);
	same = ask(*o, o->what);
	again = ask(*o, AGAIN);
	snprintf(why + n, size - n,
		 "; now the server has %s, the same read finds %s, a new open of mount %c %s",
		 server, same, "ABC"[mount_of(o)], again);
}
