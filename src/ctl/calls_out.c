/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The last calls that lanes have kept (nfs/kept.h), as JSON. */
#include <stdlib.h>
#include <time.h>
#include "ctl/impl.h"

/* What a reply has room for, with more than any of them needs. */
#define CALLS_MOST 2048u

uint64_t ctl_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct json_object *calls_row(const struct nfs_client *cl, const struct nfs_kept_call *k, uint64_t age_ns)
{
	struct json_object *o = json_object_new_object();
	char xid[12], fh[12];

	if (!o)
		return NULL;
	snprintf(xid, sizeof(xid), "%08x", k->xid);
	snprintf(fh, sizeof(fh), "%08x", k->fh);
	ctl_add_number(o, "time_ns", ctl_wall_ns() - age_ns);
	ctl_add_text(o, "name", nfs_kept_name(cl, k));
	ctl_add_text(o, "xid", xid);
	ctl_add_text(o, "handle", fh);
	ctl_add_number(o, "lane", k->lane);
	ctl_add_number(o, "path", k->path);
	ctl_add_number(o, "sends", k->sends);
	ctl_add_number(o, "timeouts", k->timeouts);
	ctl_add_number(o, "tx_bytes", k->tx_bytes);
	ctl_add_number(o, "rx_bytes", k->rx_bytes);
	ctl_add_number(o, "queue_ns", k->queue_ns);
	ctl_add_number(o, "rtt_ns", k->rtt_ns);
	ctl_add_number(o, "all_ns", k->all_ns);
	json_object_object_add(o, "status", json_object_new_int(k->result));
	ctl_add_text(o, "result", nfs_kept_result(k->result));
	return o;
}

void ctl_command_calls(struct ctl_client *c, const struct ctl_request *q)
{
	struct nfs_client *cl = c->ctl->cfg.client;
	struct nfs_kept_call *k = calloc(CALLS_MOST, sizeof(*k));
	unsigned n = k ? nfs_kept_calls(cl, k, CALLS_MOST) : 0;
	uint64_t now = cl->cfg.clock ? cl->cfg.clock() : mono_ns();
	struct json_object *o = ctl_reply_new(c->ctl), *kept = json_object_new_array();

	for (unsigned i = 0; kept && i < n; i++)
		json_object_array_add(kept, calls_row(cl, &k[i], now > k[i].end_ns ? now - k[i].end_ns : 0));
	free(k);
	if (q->has_slower) {
		nfs_kept_change(cl, (uint64_t)q->slower * 1000u);
		log_info("control: uid %u keeps calls that take %u us or longer", c->uid, q->slower);
	}
	if (o && kept) {
		ctl_add_number(o, "slower_us", nfs_kept_from_ns(cl) / 1000u);
		json_object_object_add(o, "kept", kept);
	} else {
		json_object_put(kept);
	}
	ctl_reply(c, o);
}
