/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client from its first connection to its end. The mounting thread connects the first
 * lane here, so that errors are reported at once. The connector makes the other
 * connections, which may come later.
 *
 * If the mount fails then, because the server has fallen silent, the connector may be blocked
 * in another lane's connection attempt, with the arena registered and receives posted.
 * Nothing of the client can be freed before that attempt ends, and until then retry= must not
 * begin the next one: memory would pile up. So the client is handed back unfinished, and
 * nfs_client_free() is called until it is free, or the time of retry= is up. Signals end the
 * process meanwhile (src/signals.h, CONNECTING).
 *
 * With several paths, the next attempt begins on the path behind the one whose server was silent,
 * also if that one could not be freed in time and retry= begins another round. Each path has its
 * turn in a round, and as long as others are left, silence is soon believed.
 * What was sent there may still be executed. It does no harm: it changes nothing but a client ID and
 * a session, under an owner that no other attempt has (nfs4_mount.c), and these end with their lease.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nfs/internal.h"

/* How long nfs_client_free() waits for threads that are blocked in a connection attempt. At
 * the end of a mount the process is about to end, so they can do no harm. */
#define STOP_MS 500u
/* How long calls that the last close() started may take (CLOSE, removal of a .nfs file). */
#define DRAIN_MS 1000u
#define DRAIN_STEP_MS 5u
#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
/* How long a server may take for its first answer: while other paths are left, and on the last
 * one, where it may be just starting. */
#define ANSWER_NEXT_MS 10000u
#define ANSWER_LAST_MS 60000u

static struct nfs_control *control_new(void)
{
	struct nfs_control *ctl = calloc(1, sizeof(*ctl));
	pthread_condattr_t attr;

	if (!ctl)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&ctl->mu, NULL);
	pthread_cond_init(&ctl->cond, &attr);
	pthread_condattr_destroy(&attr);
	return ctl;
}

static void control_free(struct nfs_control *ctl)
{
	pthread_cond_destroy(&ctl->cond);
	pthread_mutex_destroy(&ctl->mu);
	free(ctl);
}

static int connect_on(struct nfs_client *cl, unsigned path, struct errbuf *eb)
{
	struct nfs_connection *k = &cl->server.targets[0]->conns[path][0];
	struct rr_link *link;
	int rc = nfs_connection_open(k, &link, eb);

	if (rc)
		return rc;
	/* The lane's thread does not run yet, so the lane is ours. */
	nfs_connection_up(k, link);
	if (!k->up) {
		/* It is not wanted before the mount is made: nobody would check where it leads. */
		pthread_mutex_lock(&cl->control->mu);
		k->wanted = false;
		pthread_mutex_unlock(&cl->control->mu);
		return err_set(eb, -EIO, "cannot use the new connection to %s", cl->cfg.server);
	}
	cl->server.first = path;
	if (cl->cfg.connected)
		*cl->cfg.connected |= 1u << path;
	return 0;
}

/* One attempt, and how far it came. */
struct attempt {
	unsigned first, left;           /* begins on this path, and may try so many: path 0 is behind
					 * the last one */
	unsigned tried;
	bool connects;                  /* the last of these does, or it did not come to that */
	bool silent;                    /* ... and has a server that does not answer: that is the
					 * error */
};

static unsigned next_path(const struct nfs_client *cl, struct attempt *a)
{
	return (a->first + a->tried++) % cl->cfg.npaths;
}

/* The first path that connects will do. If none does, the message is about the first one. */
static int connect_first(struct nfs_client *cl, struct attempt *a, struct errbuf *eb)
{
	struct errbuf other;
	const char *why = eb->text;
	int rc = connect_on(cl, next_path(cl, a), eb);

	a->connects = rc == 0;
	while (!a->connects && a->tried < a->left) {
		log_warn("%s; trying the next address", why);
		why = other.text;
		a->connects = connect_on(cl, next_path(cl, a), &other) == 0;
	}
	cl->answer_ms = a->tried < a->left ? ANSWER_NEXT_MS : ANSWER_LAST_MS;
	return a->connects ? 0 : rc;
}

/* The connections of all lanes. Those on other paths are checked, so they need a mount first. */
static int start_connectors(struct nfs_client *cl)
{
	int rc = 0;

	pthread_mutex_lock(&cl->control->mu);
	for (unsigned path = 0; path < cl->cfg.npaths && !rc; path++)
		rc = nfs_connector_start(&cl->server.path[path]);
	pthread_mutex_unlock(&cl->control->mu);
	if (!rc)
		nfs_connect_all(cl, cl->server.first);
	return rc;
}

static int client_start(struct nfs_client *cl, struct attempt *a, struct errbuf *eb)
{
	int rc;

	if (cl->server.auth->no_placement) {
		cl->rsize = nfs_clamp_size(cl->rsize, NFS_INSIDE_MAX);
		cl->wsize = nfs_clamp_size(cl->wsize, NFS_INSIDE_MAX);
	}
	rc = nfs_buffers_init(cl);
	if (rc)
		return err_set(eb, rc, "no memory for buffers: %s", strerror(-rc));
	for (unsigned i = 0; i < cl->nlanes; i++) {
		rc = nfs_lane_init(cl, i, eb);
		if (rc)
			return rc;
	}
	rc = connect_first(cl, a, eb);
	if (rc)
		return rc;
	for (unsigned i = 0; i < cl->nlanes; i++) {
		rc = nfs_lane_start(&cl->lanes[i]);
		if (rc)
			return err_set(eb, rc, "cannot start a thread: %s", strerror(-rc));
	}
	rc = start_connectors(cl);
	if (rc)
		return err_set(eb, rc, "cannot start a thread: %s", strerror(-rc));
	rc = cl->server.version->mount(&cl->server, eb);
	a->silent = rc == -ETIMEDOUT;
	if (rc)
		return rc;
	cl->control->mounted = true;
	cl->server.checks = true;
	for (unsigned path = 0; path < cl->cfg.npaths; path++)
		if (path != cl->server.first)
			nfs_connect_all(cl, path);
	rc = nfs_control_start(cl);
	return rc ? err_set(eb, rc, "cannot start a thread: %s", strerror(-rc)) : 0;
}

/* AUTH_SYS has one name of this host, and other clients may be using it. */
static pthread_once_t named = PTHREAD_ONCE_INIT;

static int client_make(const struct nfs_config *cfg, struct attempt *a, struct nfs_client **out,
		       struct errbuf *eb)
{
	struct nfs_client *cl = calloc(1, sizeof(*cl));
	int rc;

	*out = NULL;
	if (!cl)
		return err_set(eb, -ENOMEM, "out of memory");
	cl->cfg = *cfg;
	cl->own = cfg->own ? *cfg->own : (struct rpc_cred){ .uid = geteuid(), .gid = getegid() };
	fab_domain_init(&cl->domain);
	meminfo_open(&cl->meminfo, "");
	for (unsigned i = 0; i < cfg->npaths; i++)
		cl->cfg.paths[i].params.domain = &cl->domain;
	cl->rsize = cfg->rsize;
	cl->wsize = cfg->wsize;
	/* Lets a directory reply with its headers fit a MID buffer. */
	cl->dtsize = (uint32_t)ARENA_MID_SIZE - 4096;
	cl->name_max = NFS_NAME_MAX;
	cl->max_file_size = INT64_MAX;
	cl->nlanes = cfg->lanes;
	cl->control = control_new();
	cl->lanes = calloc(cfg->lanes, sizeof(*cl->lanes));
	if (cl->control)
		nfs_server_init(cl);
	if (cl->lanes && cfg->idmapper)
		cl->idmap = nfs_idmap_new(cl, cfg->idmapper);
	pthread_once(&named, rpc_auth_init);
	if (!cl->control || !cl->lanes || (cfg->idmapper && !cl->idmap))
		rc = err_set(eb, -ENOMEM, "out of memory");
	else
		rc = client_start(cl, a, eb);
	*out = rc && nfs_client_free(cl) ? NULL : cl;
	return rc;
}

/* ---- more attempts than one ---- */

bool nfs_client_may_pass(int rc)
{
	return rc == -ECONNREFUSED || rc == -ETIMEDOUT || rc == -EHOSTUNREACH || rc == -ENETUNREACH;
}

/* false: it cannot be freed until then. */
static bool free_until(struct nfs_client *cl, uint64_t end_ns)
{
	while (!nfs_client_free(cl))
		if (mono_ns() >= end_ns)
			return false;
	return true;
}

/* No path has a server that answers. There may be one at an address that is none of a path. */
static int none_answers(const struct nfs_config *cfg, int rc, struct errbuf *eb)
{
	struct errbuf why = *eb;
	char first[24] = " was";

	if (!cfg->left_out)
		return rc;
	if (cfg->addresses > 1)
		snprintf(first, sizeof(first), " %u were", cfg->addresses);
	return err_set(eb, rc, "%s. Of the %u addresses of '%s' only the first%s tried: name %s with remoteports=%s",
		       why.text, cfg->addresses + cfg->left_out, cfg->server, first, cfg->addresses > 1 ? "others" : "another",
		       cfg->addresses > 1 ? "A~B" : "A");
}

/* A round: each path has its turn, from *first on; the next round's first is there afterwards. If
 * no path behind a silent server connects, the error is what the silent one had: that may pass,
 * whatever is wrong with the others. */
static int try_paths(const struct nfs_config *cfg, unsigned *first, struct nfs_client **out,
		     struct errbuf *eb)
{
	struct errbuf before = { "" };
	unsigned left = cfg->npaths, silent;
	char addr[80];
	int rc;

	for (;;) {
		struct attempt a = { .first = *first, .left = left, .connects = true };

		rc = client_make(cfg, &a, out, eb);
		if (!a.connects && left < cfg->npaths) {
			/* Of several, the first one's is in the log already. */
			if (left == 1)
				log_warn("%s", eb->text);
			*eb = before;
			return none_answers(cfg, -ETIMEDOUT, eb);
		}
		if (!a.silent)
			return a.connects ? rc : none_answers(cfg, rc, eb);
		silent = (*first + a.tried - 1) % cfg->npaths;
		*first = (silent + 1) % cfg->npaths;
		left -= a.tried;
		if (!left || !free_until(*out, mono_ns() + nfs_times_of(cfg)->free_ms * NS_PER_MS))
			return none_answers(cfg, rc, eb);
		*out = NULL;
		before = *eb;
		fab_addr_text(&cfg->paths[silent].params.server, addr, sizeof(addr));
		log_warn("no answer from %s at %s (%s); trying the next address", cfg->server, addr,
			 eb->text);
	}
}

void nfs_client_tries_again(const struct nfs_config *cfg, unsigned seconds, const struct errbuf *eb)
{
	log_warn("%s; trying for %u minutes (retry=)", eb->text, seconds / 60);
	if (cfg->tries_again)
		cfg->tries_again(cfg->tries_again_arg);
}

static int client_new(const struct nfs_config *cfg, unsigned seconds, struct nfs_client **out, struct errbuf *eb)
{
	const struct timespec pause = {
		.tv_sec = nfs_times_of(cfg)->pause_ms / 1000,
		.tv_nsec = (long)(nfs_times_of(cfg)->pause_ms % 1000) * 1000000,
	};
	uint64_t end = mono_ns() + seconds * NS_PER_S;
	unsigned first = 0;
	bool said = false;
	int rc;

	for (;;) {
		rc = try_paths(cfg, &first, out, eb);
		if (!nfs_client_may_pass(rc) || mono_ns() >= end)
			return rc;
		if (!said)
			nfs_client_tries_again(cfg, seconds, eb);
		said = true;
		nanosleep(&pause, NULL);
		if (!free_until(*out, end))
			return rc;
	}
}

/* Has a server answered, with a mount or with what is wrong with it? */
static bool client_answered(int rc)
{
	return rc == 0 || rc == -EPROTONOSUPPORT || rc == -ENOLCK || rc == -ENOENT || rc == -EACCES;
}

/* One round by the paths' own fabric, one by the second; from then on by that of which a server has answered,
 * or else by their own. */
static int client_by_fabric(const struct nfs_config *cfg, unsigned seconds, struct nfs_client **out, struct errbuf *eb)
{
	uint64_t free_ns = nfs_times_of(cfg)->free_ms * NS_PER_MS;
	struct nfs_config second = *cfg;
	unsigned by_second = 0;
	struct errbuf why = { "" };
	int rc, rc_second;

	if (!cfg->second)
		return client_new(cfg, seconds, out, eb);
	rc = client_new(cfg, 0, out, eb);
	if (!nfs_client_may_pass(rc) || !free_until(*out, mono_ns() + free_ns))
		return rc;
	for (unsigned i = 0; i < cfg->npaths; i++)
		second.paths[i].fabric = cfg->second;
	second.connected = cfg->connected ? &by_second : NULL;  /* as its errors are not what is said in the end */
	rc_second = client_new(&second, 0, out, &why);
	if (client_answered(rc_second)) {
		if (cfg->connected)
			*cfg->connected |= by_second;
		log_warn("%s; by %s the server answers, which is used and may be slower; fabric=%s insists on the first", eb->text,
			 cfg->second->name, cfg->paths[0].fabric->name);
		*eb = why;
		return rc_second;
	}
	if (!seconds || !free_until(*out, mono_ns() + free_ns))
		return rc;
	return client_new(cfg, seconds, out, eb);
}

int nfs_client_new(const struct nfs_config *cfg, unsigned seconds, struct nfs_client **out,
		   struct errbuf *eb)
{
	struct nfs_config older = *cfg;
	int rc = client_by_fabric(cfg, seconds, out, eb);

	/* One that does not end keeps its configuration. */
	if (rc != -EPROTONOSUPPORT || !cfg->older || *out)
		return rc;
	log_info("%s; version %s is tried", eb->text, cfg->older->name);
	older.version = cfg->older;
	older.older = NULL;
	return client_by_fabric(&older, seconds, out, eb);
}

/* ---- the end ---- */

static void count_running(struct nfs_lane *l, void *arg)
{
	_Atomic bool *busy = arg;

	/* Without a connection these calls would take too long. Riders will be sent on one of
	 * the lanes before long. They are looked at here, on the lane: a call of this lane that
	 * leaves a rider behind is in `running` until it has. */
	if ((!list_empty(&l->running) && nfs_lane_up(l)) ||
	    atomic_load(&l->client->server.close_rides.nwaiting))
		atomic_store(busy, true);
}

static void client_drain(struct nfs_client *cl)
{
	const struct timespec step = { .tv_nsec = DRAIN_STEP_MS * 1000000 };
	_Atomic bool busy;

	for (unsigned ms = 0; ms < DRAIN_MS; ms += DRAIN_STEP_MS) {
		atomic_store(&busy, false);
		nfs_each_lane(cl, count_running, &busy);
		if (!atomic_load(&busy))
			return;
		nanosleep(&step, NULL);
	}
}

/* false: a thread still uses the client. When it is called again the lanes have ended, so
 * there is nobody who could tell the server anything. */
static bool client_stop(struct nfs_client *cl)
{
	bool mounted = cl->control->mounted && !cl->ending, ended;
	const struct nfs_version *v = cl->server.version;

	cl->ending = true;
	/* If the mount was never made, the server is told nothing. It forgets the client
	 * when its lease ends. */
	if (mounted && !atomic_load(&cl->hurries))
		client_drain(cl);
	ended = !v->stop || v->stop(&cl->server, STOP_MS);
	if (!nfs_control_stop(cl, STOP_MS))
		return false;
	if (mounted)
		v->umount(&cl->server);
	return nfs_connectors_stop(cl, STOP_MS) && ended;
}

void nfs_client_hurry(struct nfs_client *cl)
{
	atomic_store(&cl->hurries, true);
}

void nfs_client_change(struct nfs_client *cl, const struct nfs_config *cfg)
{
	atomic_store(&cl->cfg.timeo_ms, atomic_load(&cfg->timeo_ms));
	atomic_store(&cl->cfg.retrans, atomic_load(&cfg->retrans));
	atomic_store(&cl->cfg.soft, atomic_load(&cfg->soft));
	atomic_store(&cl->cfg.heartbeat_ms, atomic_load(&cfg->heartbeat_ms));
}

bool nfs_client_free(struct nfs_client *cl)
{
	bool all = true;

	if (!cl)
		return true;
	if (cl->control && cl->lanes)
		all = client_stop(cl);
	all = nfs_idmap_stop(cl->idmap, STOP_MS) && all;
	for (unsigned i = 0; cl->lanes && i < cl->nlanes; i++)
		nfs_lane_stop(&cl->lanes[i]);
	if (!all)
		return false;
	/* It tells lanes, and needs devices. */
	arena_stop_growing(&cl->arena);
	for (unsigned i = 0; cl->lanes && i < cl->nlanes; i++)
		nfs_lane_fini(&cl->lanes[i]);
	if (cl->server.vdata && cl->server.version->free)
		cl->server.version->free(&cl->server);
	if (cl->control) {
		nfs_server_fini(cl);
		control_free(cl->control);
	}
	nfs_idmap_free(cl->idmap);
	/* The arena is registered there. */
	fab_domain_fini(&cl->domain);
	arena_fini(&cl->arena);
	meminfo_close(&cl->meminfo);
	free(cl->lanes);
	free(cl);
	return true;
}
