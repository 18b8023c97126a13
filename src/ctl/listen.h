/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command log: prints requests as they end. */
#pragma once

#include <stdbool.h>
#include "ctl/client.h"

/* filters: op=, pid=, uid=, name=, slower=. json: lines as the daemon sends them. Returns an exit status with eb
 * set: CTL_USAGE, or why it does not go on. */
int ctl_listen_log(const struct ctl_peer *p, char **filters, unsigned n, bool json, struct errbuf *eb);
