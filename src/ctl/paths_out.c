/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of the paths: as JSON, and as statistics. */
#include "ctl/impl.h"

/* Numbers of struct nfs_path_info, which have the same name everywhere. */
#define NUMBERS(X) \
	X(connections) X(wanted) X(calls) X(tx_bytes) X(rx_bytes) X(in_flight) X(credits) \
	X(reconnects) X(failovers) X(heartbeats) X(missed) X(registrations) X(latency_ns)

static struct json_object *path_json(const struct nfs_path_info *p)
{
	struct json_object *o = json_object_new_object(), *histogram = json_object_new_array();

	if (!o || !histogram) {
		json_object_put(o);
		json_object_put(histogram);
		return NULL;
	}
	json_object_object_add(o, "id", json_object_new_uint64(p->id));
	json_object_object_add(o, "generation", json_object_new_uint64(p->generation));
	ctl_add_text(o, "state", nfs_path_state_name(p->state));
	ctl_add_text(o, "fabric", p->fabric);
	ctl_add_text(o, "server", p->server);
	json_object_object_add(o, "port", json_object_new_int64(p->port));
	ctl_add_text(o, "local", p->local);
	ctl_add_text(o, "why", p->why);
#define X(name) json_object_object_add(o, #name, json_object_new_uint64(p->name));
	NUMBERS(X)
#undef X
	for (unsigned i = 0; i < TIMES_BUCKETS; i++)
		json_object_array_add(histogram, json_object_new_uint64(p->histogram[i]));
	json_object_object_add(o, "histogram", histogram);
	return o;
}

struct json_object *ctl_paths_json(struct nfs_client *cl, int id)
{
	struct nfs_path_info p[NFS_PATHS_MAX];
	unsigned n = nfs_paths_info(cl, p);
	struct json_object *a = json_object_new_array();

	for (unsigned i = 0; a && i < n; i++)
		if (id < 0 || p[i].id == (unsigned)id)
			json_object_array_add(a, path_json(&p[i]));
	return a;
}

void ctl_put_paths(const struct stats_out *out, struct nfs_client *cl)
{
	struct nfs_path_info p[NFS_PATHS_MAX];
	unsigned n = nfs_paths_info(cl, p);

	for (unsigned i = 0; i < n; i++) {
#define X(name) stats_put(out, p[i].name, "path.%u." #name, p[i].id);
		NUMBERS(X)
#undef X
		/* Named by the least time that is counted there, in microseconds. */
		for (unsigned b = 0; b < TIMES_BUCKETS; b++)
			if (p[i].histogram[b])
				stats_put(out, p[i].histogram[b], "path.%u.from_us.%u", p[i].id,
					  b ? 1u << b : 0);
	}
}
