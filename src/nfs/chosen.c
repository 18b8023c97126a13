/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The line for people. paths_info.c has nfs_chosen_of(). */
#include "nfs/chosen.h"

#include <stdio.h>

/* "8 MiB", or the bytes where it is no whole number of KiB; "off" for 0. */
static const char *chosen_size(uint64_t n, char out[32])
{
	if (!n)
		return "off";
	if (n % 1048576 == 0)
		snprintf(out, 32, "%ju MiB", (uintmax_t)n / 1048576);
	else if (n % 1024 == 0)
		snprintf(out, 32, "%ju KiB", (uintmax_t)n / 1024);
	else
		snprintf(out, 32, "%ju bytes", (uintmax_t)n);
	return out;
}

const char *nfs_chosen_text(const struct nfs_chosen *c, char out[NFS_CHOSEN_TEXT])
{
	char r[32], w[32], ahead[32], behind[32], slots[32] = "";

	if (c->slots)
		snprintf(slots, sizeof(slots), ", %u session slots", c->slots);
	snprintf(out, NFS_CHOSEN_TEXT, "version %s by %s, %u path%s, %u connection%s, %u credits each%s, "
		 "rsize %s, wsize %s, read-ahead %s, write-behind %s, inline %u/%u bytes, %sremote "
		 "invalidation, memreg=%s", c->version, c->fabric, c->paths, c->paths == 1 ? "" : "s",
		 c->connections, c->connections == 1 ? "" : "s", c->credits, slots,
		 chosen_size(c->rsize, r), chosen_size(c->wsize, w), chosen_size(c->readahead, ahead),
		 chosen_size(c->write_behind, behind), c->inline_send, c->inline_recv,
		 c->remote_inval ? "" : "no ", c->memreg);
	return out;
}
