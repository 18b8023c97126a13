/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The last calls that lanes have kept, and what runs (nfs/kept.h), as JSON. */
#include <stdlib.h>
#include <time.h>
#include "ctl/impl.h"

/* What a reply has room for, with more than any of them needs. */
#define CALLS_MOST 2048u
/* Of each lane. */
#define RUNNING_MOST 64u

uint64_t ctl_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void add_code(struct json_object *o, const char *name, uint32_t value)
{
	char text[12];

	snprintf(text, sizeof(text), "%08x", value);
	ctl_add_text(o, name, text);
}

static struct json_object *running_row(const struct nfs_running_call *r)
{
	struct json_object *o = json_object_new_object();

	if (!o)
		return NULL;
	ctl_add_number(o, "time_ns", ctl_wall_ns() - r->all_ns);
	ctl_add_text(o, "name", r->name);
	add_code(o, "xid", r->xid);
	add_code(o, "handle", r->fh);
	ctl_add_number(o, "lane", r->lane);
	ctl_add_number(o, "path", r->path);
	ctl_add_number(o, "sends", r->sends);
	ctl_add_number(o, "timeouts", r->timeouts);
	ctl_add_number(o, "queue_ns", r->all_ns - r->rtt_ns);
	ctl_add_number(o, "rtt_ns", r->rtt_ns);
	ctl_add_number(o, "all_ns", r->all_ns);
	return o;
}

/* Each lane writes to a place of its own. */
struct running_look {
	struct nfs_running_call call[NFS_LANES_MAX][RUNNING_MOST];
	unsigned n[NFS_LANES_MAX];
};

static void running_look(struct nfs_lane *l, void *arg)
{
	struct running_look *look = arg;

	look->n[l->index] = nfs_kept_running(l, loop_now(l->loop), look->call[l->index], RUNNING_MOST);
}

static struct json_object *running_rows(struct nfs_client *cl)
{
	struct running_look *look = calloc(1, sizeof(*look));
	struct json_object *rows = json_object_new_array();

	if (look && rows) {
		nfs_each_lane(cl, running_look, look);
		for (unsigned i = 0; i < cl->nlanes; i++)
			for (unsigned k = 0; k < look->n[i]; k++)
				json_object_array_add(rows, running_row(&look->call[i][k]));
	}
	free(look);
	return rows;
}

static struct json_object *calls_row(const struct nfs_client *cl, const struct nfs_kept_call *k, uint64_t age_ns)
{
	struct json_object *o = json_object_new_object();

	if (!o)
		return NULL;
	ctl_add_number(o, "time_ns", ctl_wall_ns() - age_ns);
	ctl_add_text(o, "name", nfs_kept_name(cl, k));
	add_code(o, "xid", k->xid);
	add_code(o, "handle", k->fh);
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
	/* First, because a call that ends meanwhile is kept. */
	struct json_object *running = running_rows(cl);
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
		json_object_object_add(o, "running", running);
	} else {
		json_object_put(running);
		json_object_put(kept);
	}
	ctl_reply(c, o);
}
