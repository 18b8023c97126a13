/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/rates.h"

#include <string.h>

#include "base/stats.h"
#include "ctl/proto.h"
#include "ctl/text.h"

static double rates_one(struct json_object *before, struct json_object *after, const char *name,
			double seconds)
{
	uint64_t a = ctl_number_of(before, name), b = ctl_number_of(after, name);

	return b > a ? (double)(b - a) / seconds : 0;
}

static void add_rate(struct json_object *to, const char *as, double value)
{
	struct json_object *o = json_object_new_double(value);

	/* The default is 17 digits. */
	json_object_set_serializer(o, json_object_double_to_json_string, (void *)(uintptr_t)"%.3f", NULL);
	json_object_object_add(to, as, o);
}

/* "rpc.READ" is a kind, "rpc.replies" a counter. */
static const char *kind_of(const char *name)
{
	static const char *const counters[] = {
#define X(id, counter, help) counter,
		STATS_TABLE(X)
#undef X
	};

	if (strncmp(name, "rpc.", 4) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (strcmp(counters[i], name) == 0)
			return NULL;
	return name + 4;
}

static struct json_object *rates_kinds(struct json_object *before, struct json_object *after,
				       double seconds)
{
	struct json_object *out = json_object_new_object();

	if (!out || !after)
		return out;
	json_object_object_foreach(after, name, value) {
		const char *kind = kind_of(name);
		double r = rates_one(before, after, name, seconds);

		(void)value;
		if (kind && r > 0)
			add_rate(out, kind, r);
	}
	return out;
}

static struct json_object *same_path(struct json_object *paths, struct json_object *p)
{
	for (size_t i = 0; paths && i < json_object_array_length(paths); i++) {
		struct json_object *o = json_object_array_get_idx(paths, i);

		if (ctl_number_of(o, "id") == ctl_number_of(p, "id") &&
		    ctl_number_of(o, "generation") == ctl_number_of(p, "generation"))
			return o;
	}
	return NULL;
}

static struct json_object *path_rates(struct json_object *before, struct json_object *after,
				      double seconds)
{
	static const char *const texts[] = { "server", "state" };
	static const char *const same[] = {
		"id", "connections", "wanted", "in_flight", "credits", "latency_ns",
	};
	static const char *const rates[] = { "calls", "rx_bytes", "tx_bytes" };
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; o && i < sizeof(texts) / sizeof(texts[0]); i++)
		ctl_add_text(o, texts[i], ctl_text_of(after, texts[i]));
	for (size_t i = 0; o && i < sizeof(same) / sizeof(same[0]); i++)
		json_object_object_add(o, same[i], json_object_new_uint64(ctl_number_of(after, same[i])));
	for (size_t i = 0; o && i < sizeof(rates) / sizeof(rates[0]); i++)
		add_rate(o, rates[i], rates_one(before, after, rates[i], seconds));
	return o;
}

struct json_object *ctl_rates(struct json_object *before, struct json_object *after, double seconds)
{
	struct json_object *was = ctl_member_of(before, "stats", json_type_object),
		*is = ctl_member_of(after, "stats", json_type_object),
		*old = ctl_member_of(before, "paths", json_type_array),
		*new = ctl_member_of(after, "paths", json_type_array),
		*o = json_object_new_object(), *a = json_object_new_array();

	if (!o || !a) {
		json_object_put(o);
		json_object_put(a);
		return NULL;
	}
	add_rate(o, "seconds", seconds);
	add_rate(o, "calls", rates_one(was, is, "rpc.calls", seconds));
	add_rate(o, "read_bytes", rates_one(was, is, "read.placed_bytes", seconds) +
				  rates_one(was, is, "read.inline_bytes", seconds));
	add_rate(o, "written_bytes", rates_one(was, is, "write.chunk_bytes", seconds) +
				     rates_one(was, is, "write.inline_bytes", seconds));
	json_object_object_add(o, "kinds", rates_kinds(was, is, seconds));
	ctl_add_text(o, "policy", ctl_text_of(after, "policy"));
	for (size_t i = 0; new && i < json_object_array_length(new); i++) {
		struct json_object *p = json_object_array_get_idx(new, i);

		json_object_array_add(a, path_rates(same_path(old, p), p, seconds));
	}
	json_object_object_add(o, "paths", a);
	return o;
}
