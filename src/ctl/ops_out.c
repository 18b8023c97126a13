/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel has asked for, and what the server was asked for, as JSON. */
#include "ctl/impl.h"

/* Of struct nfs_counted_sum, which have the same name everywhere. */
#define NUMBERS(X) X(made) X(again) X(timeouts) X(errors) X(tx_bytes) X(rx_bytes) X(queue_ns)

static struct json_object *ops_row(const char *name, const struct times_sum *t, const char *ns)
{
	struct json_object *o = json_object_new_object(), *histogram = json_object_new_array();

	if (!o || !histogram) {
		json_object_put(o);
		json_object_put(histogram);
		return NULL;
	}
	ctl_add_text(o, "name", name);
	ctl_add_number(o, "count", t->count);
	ctl_add_number(o, ns, t->ns);
	for (unsigned i = 0; i < TIMES_BUCKETS; i++)
		json_object_array_add(histogram, json_object_new_uint64(t->bucket[i]));
	json_object_object_add(o, "histogram", histogram);
	return o;
}

static void put_op(const struct times_op *op, void *to)
{
	struct json_object *o = ops_row(op->name, &op->times, "time_ns");

	if (!o)
		return;
	ctl_add_number(o, "errors", op->errors);
	ctl_add_number(o, "untimed", op->untimed);
	json_object_array_add(to, o);
}

static void put_call(const struct nfs_counted_sum *s, void *to)
{
	struct json_object *o = ops_row(s->name, &s->rtt, "rtt_ns");

	if (!o)
		return;
#define X(name) ctl_add_number(o, #name, s->name);
	NUMBERS(X)
#undef X
	json_object_array_add(to, o);
}

/* What is not in the lists, and mountstats wants. */
static struct json_object *ops_nfs(const struct ctl *ctl)
{
	const struct nfs_client *cl = ctl->cfg.client;
	const struct nfs_version *v = cl->server.version;
	struct json_object *o = json_object_new_object();

	if (!o)
		return NULL;
	ctl_add_number(o, "program", v->prog);
	ctl_add_number(o, "version", v->vers);
	ctl_add_number(o, "minor", v->minor);
	ctl_add_number(o, "age_s", (mono_ns() - ctl->since_ns) / 1000000000u);
	ctl_add_number(o, "rsize", atomic_load(&cl->rsize));
	ctl_add_number(o, "wsize", atomic_load(&cl->wsize));
	ctl_add_number(o, "dtsize", atomic_load(&cl->dtsize));
	ctl_add_number(o, "name_max", cl->name_max);
	ctl_add_number(o, "timeo_ds", cl->cfg.timeo_ms / 100);
	ctl_add_number(o, "retrans", cl->cfg.retrans);
	json_object_object_add(o, "soft", json_object_new_boolean(cl->cfg.soft));
	ctl_add_number(o, "flavor", cl->server.auth->flavor);
	return o;
}

void ctl_command_ops(struct ctl_client *c, const struct ctl_request *q)
{
	const struct ctl_config *cfg = &c->ctl->cfg;
	struct json_object *o = ctl_reply_new(c->ctl), *ops = json_object_new_array(),
		*calls = json_object_new_array();

	if (o && ops && calls) {
		if (cfg->each_op)
			cfg->each_op(put_op, ops, cfg->arg);
		nfs_counted_each(cfg->client, put_call, calls);
		json_object_object_add(o, "nfs", ops_nfs(c->ctl));
		json_object_object_add(o, "stats", ctl_stats_json(cfg));
		json_object_object_add(o, "ops", ops);
		json_object_object_add(o, "calls", calls);
	} else {
		json_object_put(ops);
		json_object_put(calls);
	}
	ctl_reply(c, o);
}
