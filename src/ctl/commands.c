/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What clients ask for. nfs/paths.h returns at once, so add-path and remove-path look every
 * 50 ms what has come of it. Between two looks others may change the same path: another client
 * removes it, its place is used again, it connects at the moment when it is given up. So
 * a path is known by its place and generation. One that has failed is removed without force: if
 * it has become the only one that is connected, that is refused, and it stays. If it is the only
 * one at all, because the others were removed by force, it is removed by force as well: the mount
 * had no path before.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/impl.h"

/* ---- replies ---- */

struct json_object *ctl_reply_new(const struct ctl *ctl)
{
	struct json_object *o = json_object_new_object();

	if (o) {
		ctl_add_text(o, "mountpoint", ctl->cfg.mountpoint);
		ctl_add_text(o, "source", ctl->cfg.source);
	}
	return o;
}

void ctl_refuse(struct ctl_client *c, const char *fmt, ...)
{
	struct json_object *o = ctl_reply_new(c->ctl);
	char text[sizeof(struct errbuf) + 512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (o)
		ctl_add_text(o, "error", text);
	ctl_reply(c, o);
}

static void reply_paths(struct ctl_client *c, int id)
{
	struct json_object *o = ctl_reply_new(c->ctl);

	if (o) {
		ctl_add_text(o, "policy", nfs_policy_name(nfs_paths_policy(c->ctl->cfg.client)));
		json_object_object_add(o, "paths", ctl_paths_json(c->ctl->cfg.client, id));
		if (c->wait.warning.text[0])
			ctl_add_text(o, "warning", c->wait.warning.text);
	}
	ctl_reply(c, o);
}

static void show_paths(struct ctl_client *c, const struct ctl_request *q)
{
	reply_paths(c, -1);
}

/* ---- which path ---- */

static bool same_address(const char *a, const char *b)
{
	unsigned char x[sizeof(struct in6_addr)], y[sizeof(x)];

	if (strcasecmp(a, b) == 0)
		return true;
	return inet_pton(AF_INET6, a, x) == 1 && inet_pton(AF_INET6, b, y) == 1 &&
	       memcmp(x, y, sizeof(x)) == 0;
}

/* A number, or the address of a server. A path that is being removed is meant only if there is
 * no other one. */
static int find_path(const struct ctl_client *c, const char *text, struct nfs_path_info *out,
		     struct errbuf *eb)
{
	struct nfs_path_info p[NFS_PATHS_MAX];
	unsigned n = nfs_paths_info(c->ctl->cfg.client, p), found = 0, removing = 0;
	char *end;
	unsigned long id = strtoul(text, &end, 10);
	bool by_id = text[strspn(text, "0123456789")] == '\0';

	for (unsigned i = 0; i < n; i++) {
		if (by_id ? p[i].id != id : !same_address(p[i].server, text))
			continue;
		if (p[i].state == NFS_PATH_REMOVING)
			removing++;
		else
			found++;
		if (p[i].state != NFS_PATH_REMOVING || !found)
			*out = p[i];
	}
	if (found > 1)
		return err_set(eb, -EINVAL, "%u paths lead to %s: give the number of one", found, text);
	if (!found && !removing)
		return err_set(eb, -ENOENT, by_id ? "there is no path %s" : "no path leads to %s", text);
	return 0;
}

/* What the client waits for, by place and generation. */
static bool still_there(const struct ctl_client *c, struct nfs_path_info *out)
{
	struct nfs_path_info p[NFS_PATHS_MAX];
	unsigned n = nfs_paths_info(c->ctl->cfg.client, p);

	for (unsigned i = 0; i < n; i++) {
		if (p[i].id == c->wait.id && p[i].generation == c->wait.generation &&
		    p[i].state != NFS_PATH_NONE) {
			*out = p[i];
			return true;
		}
	}
	return false;
}

static void wait_for(struct ctl_client *c, bool adds, unsigned id, uint32_t generation,
		     const char *server)
{
	c->wait.waiting = true;
	c->wait.adds = adds;
	c->wait.id = id;
	c->wait.generation = generation;
	snprintf(c->wait.server, sizeof(c->wait.server), "%s", server);
	/* The first look comes at once. */
	loop_timer_set(c->ctl->loop, &c->timer, 0);
}

/* ---- add-path ---- */

static void add_path(struct ctl_client *c, const struct ctl_request *q)
{
	const struct ctl_config *cfg = &c->ctl->cfg;
	struct rr_path path = { 0 };
	struct errbuf eb = { "" }, *warning = &c->wait.warning;
	uint32_t generation = 0;
	unsigned id = 0;
	int rc = cfg->make_path(&path, &cfg->client->cfg, q->server, *q->local ? q->local : NULL,
				q->port, warning);

	if (rc)
		eb = *warning;
	else
		rc = nfs_path_add(cfg->client, &path, &id, &generation, &eb);
	if (rc) {
		ctl_refuse(c, "%s", eb.text[0] ? eb.text : strerror(-rc));
		return;
	}
	log_info("control: uid %u adds path %u to %s", c->uid, id, q->server);
	if (warning->text[0])
		log_warn("%s", warning->text);
	wait_for(c, true, id, generation, q->server);
}

static void not_added(struct ctl_client *c, const char *what, const char *why)
{
	log_warn("control: path %u to %s is removed again: %s%s%s", c->wait.id, c->wait.server, what,
		 *why ? ": " : "", why);
	ctl_refuse(c, "the path to %s was not added: %s%s%s", c->wait.server, what, *why ? ": " : "",
		   why);
}

/* false: it is connected by now, which the next look finds. */
static bool take_away(struct ctl_client *c, unsigned id)
{
	struct nfs_client *cl = c->ctl->cfg.client;
	struct nfs_path_info p;
	struct errbuf eb;

	if (nfs_path_remove(cl, id, false, &eb) != -EBUSY)
		return true;
	if (still_there(c, &p) && p.state == NFS_PATH_CONNECTED)
		return false;
	nfs_path_remove(cl, id, true, &eb);
	return true;
}

static void look_at_added(struct ctl_client *c)
{
	struct nfs_path_info p;
	char late[64];

	if (!still_there(c, &p) || p.state == NFS_PATH_REMOVING) {
		ctl_refuse(c, "the path to %s was removed before it was connected", c->wait.server);
	} else if (p.state == NFS_PATH_CONNECTED) {
		reply_paths(c, (int)p.id);
	} else if (p.state == NFS_PATH_REFUSED) {
		if (take_away(c, p.id))
			not_added(c, p.why[0] ? p.why : "another server is there", "");
	} else if (mono_ns() >= c->wait.until_ns) {
		snprintf(late, sizeof(late), "could not connect within %u ms", ctl_wait_ms);
		if (take_away(c, p.id))
			not_added(c, late, p.why[0] ? p.why : "the server does not answer");
	}
}

/* ---- remove-path, reconnect ---- */

static void remove_path(struct ctl_client *c, const struct ctl_request *q)
{
	struct nfs_path_info p = { 0 };
	struct errbuf eb = { "" };
	int rc = find_path(c, q->path, &p, &eb);

	if (!rc && p.state != NFS_PATH_REMOVING) {
		rc = nfs_path_remove(c->ctl->cfg.client, p.id, q->force, &eb);
		if (!rc)
			log_info("control: uid %u removes path %u to %s", c->uid, p.id, p.server);
	}
	if (rc)
		ctl_refuse(c, "%s", eb.text[0] ? eb.text : strerror(-rc));
	else
		wait_for(c, false, p.id, p.generation, p.server);
}

static void look_at_removed(struct ctl_client *c)
{
	struct nfs_path_info p;

	if (!still_there(c, &p))
		reply_paths(c, -1);
	else if (mono_ns() >= c->wait.until_ns)
		ctl_refuse(c, "path %u to %s is not removed yet after %u ms: calls are still under way",
			   p.id, c->wait.server, ctl_wait_ms);
}

void ctl_waiting(struct ctl_client *c)
{
	if (c->wait.adds)
		look_at_added(c);
	else
		look_at_removed(c);
}

static void command_reconnect(struct ctl_client *c, const struct ctl_request *q)
{
	struct nfs_path_info p[NFS_PATHS_MAX];
	struct errbuf eb = { "" };
	bool all = strcmp(q->path, "all") == 0;
	int rc = all ? 0 : find_path(c, q->path, &p[0], &eb);
	unsigned n = all ? nfs_paths_info(c->ctl->cfg.client, p) : 1;

	for (unsigned i = 0; i < n && !rc; i++) {
		rc = nfs_path_reconnect(c->ctl->cfg.client, p[i].id, &eb);
		if (!rc)
			log_info("control: uid %u reconnects path %u to %s", c->uid, p[i].id, p[i].server);
		/* One that ends just now is none of "all". */
		if (all && rc == -ENOENT)
			rc = 0;
	}
	if (rc)
		ctl_refuse(c, "%s", eb.text[0] ? eb.text : strerror(-rc));
	else
		reply_paths(c, -1);
}

/* ---- policy, stats ---- */

static void set_policy(struct ctl_client *c, const struct ctl_request *q)
{
	enum rr_policy policy;

	if (*q->policy && !nfs_policy_named(q->policy, &policy)) {
		ctl_refuse(c, "there is no policy \"%s\": %s, %s and %s are allowed", q->policy,
			   nfs_policy_name(RR_MIN_INFLIGHT), nfs_policy_name(RR_ROUND_ROBIN),
			   nfs_policy_name(RR_MIN_LATENCY));
		return;
	}
	if (*q->policy) {
		nfs_paths_set_policy(c->ctl->cfg.client, policy);
		log_info("control: uid %u sets the policy %s", c->uid, q->policy);
	}
	reply_paths(c, -1);
}

static void put_member(void *to, const char *name, uint64_t value)
{
	ctl_add_number(to, name, value);
}

struct json_object *ctl_stats_json(const struct ctl_config *cfg)
{
	struct json_object *counters = json_object_new_object();

	if (counters)
		cfg->put_stats(&(struct stats_out){ put_member, counters }, cfg->arg);
	return counters;
}

static void command_stats(struct ctl_client *c, const struct ctl_request *q)
{
	const struct ctl_config *cfg = &c->ctl->cfg;
	struct json_object *o = ctl_reply_new(c->ctl), *counters = ctl_stats_json(cfg);

	if (o && counters) {
		ctl_add_text(o, "policy", nfs_policy_name(nfs_paths_policy(cfg->client)));
		json_object_object_add(o, "paths", ctl_paths_json(cfg->client, -1));
		json_object_object_add(o, "stats", counters);
	} else {
		json_object_put(counters);
	}
	ctl_reply(c, o);
}

/* ---- rings ---- */

static void put_program(const struct ctl_program *p, void *to)
{
	struct json_object *o = json_object_new_object();

	if (!o)
		return;
	ctl_add_number(o, "pid", (uint64_t)p->pid);
	ctl_add_number(o, "uid", p->uid);
	ctl_add_number(o, "rings", p->rings);
	ctl_add_number(o, "files", p->files);
	ctl_add_number(o, "memory_bytes", p->memory_bytes);
	ctl_add_number(o, "reads", p->reads);
	ctl_add_number(o, "read_bytes", p->read_bytes);
	ctl_add_number(o, "writes", p->writes);
	ctl_add_number(o, "written_bytes", p->written_bytes);
	json_object_array_add(to, o);
}

static void command_rings(struct ctl_client *c, const struct ctl_request *q)
{
	const struct ctl_config *cfg = &c->ctl->cfg;
	struct json_object *o = ctl_reply_new(c->ctl), *programs = json_object_new_array();

	if (o && programs) {
		if (cfg->each_program)
			cfg->each_program(put_program, programs, cfg->arg);
		json_object_object_add(o, "programs", programs);
	} else {
		json_object_put(programs);
	}
	ctl_reply(c, o);
}

/* ---- info ---- */

static void command_info(struct ctl_client *c, const struct ctl_request *q)
{
	const struct ctl_config *cfg = &c->ctl->cfg;
	struct json_object *o = ctl_reply_new(c->ctl), *info = json_object_new_object();
	struct nfs_chosen n = cfg->chosen(cfg->arg);
	char text[NFS_CHOSEN_TEXT];

	if (o && info) {
		ctl_add_text(info, "text", nfs_chosen_text(&n, text));
		ctl_add_text(info, "version", n.version);
		ctl_add_text(info, "fabric", n.fabric);
		ctl_add_text(info, "memreg", n.memreg);
		ctl_add_text(info, "policy", nfs_policy_name(nfs_paths_policy(cfg->client)));
#define X(name) ctl_add_number(info, #name, n.name);
		X(paths) X(lanes) X(connections) X(credits) X(slots) X(rsize) X(wsize) X(readahead)
		X(write_behind) X(inline_send) X(inline_recv) X(locked)
#undef X
		json_object_object_add(info, "remote_inval", json_object_new_boolean(n.remote_inval));
		json_object_object_add(o, "info", info);
	} else {
		json_object_put(info);
	}
	ctl_reply(c, o);
}

/* ---- remount, abort ---- */

static void command_remount(struct ctl_client *c, const struct ctl_request *q)
{
	const struct ctl_config *cfg = &c->ctl->cfg;
	struct errbuf eb = { "" };
	int rc = cfg->remount(q->options, cfg->arg, &eb);

	if (rc) {
		ctl_refuse(c, "%s", eb.text[0] ? eb.text : strerror(-rc));
		return;
	}
	log_info("control: uid %u changes options of the mount: %s", c->uid, q->options);
	ctl_reply(c, ctl_reply_new(c->ctl));
}

/* The answer leaves first: the end of the mount ends this thread. */
static void command_abort(struct ctl_client *c, const struct ctl_request *q)
{
	const struct ctl_config cfg = c->ctl->cfg;

	log_warn("control: uid %u aborts the mount", c->uid);
	ctl_reply(c, ctl_reply_new(c->ctl));
	cfg.abort(cfg.arg);
}

static void (*const commands[CTL_COMMANDS])(struct ctl_client *c, const struct ctl_request *q) = {
	[CTL_PATHS] = show_paths, [CTL_ADD] = add_path, [CTL_REMOVE] = remove_path,
	[CTL_POLICY] = set_policy, [CTL_RECONNECT] = command_reconnect, [CTL_STATS] = command_stats,
	[CTL_RINGS] = command_rings, [CTL_INFO] = command_info, [CTL_ABORT] = command_abort,
	[CTL_REMOUNT] = command_remount, [CTL_OPS] = ctl_command_ops,
	[CTL_CALLS] = ctl_command_calls, [CTL_LOG] = ctl_command_log,
};

void ctl_command(struct ctl_client *c, const struct ctl_request *q)
{
	commands[q->command](c, q);
}
