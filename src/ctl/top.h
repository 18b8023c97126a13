/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command top: what the mount does, again and again. */
#pragma once

#include <stdio.h>
#include "ctl/client.h"

/* Prints what ctl_rates() and busy_take() have made, for people, no line longer than `width`
 * unless that is 0, and no more lines than `height`. */
void ctl_rates_print(FILE *f, struct json_object *rates, unsigned width, unsigned height);

/* Until there is an error, or `count` times (0: no end). json: a line for each time. Returns an
 * exit status, with eb set unless it is CTL_OK. */
int ctl_top(const struct ctl_peer *p, unsigned interval_ms, unsigned count, bool json,
	    struct errbuf *eb);
