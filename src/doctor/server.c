/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server: its name, a client of it as the mount has one, and what that has come to. So what is found
 * is what a mount would find, by the same code. Other versions are tried with one connection. Nothing is
 * mounted, no file is opened, and there is no call but for what a mount begins and ends with, and GETATTR of
 * the export's root.
 */
#include "doctor/doctor_impl.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/loop.h"
#include "base/sock.h"
#include "nfs/paths.h"

/* A path that does not answer has three steps of five seconds. */
#define PATHS_NS (16 * 1000000000ull)
#define CALLS 20u
#define CALL_MS 10000u
/* Fewer calls than that at once hold a mount back. */
#define SLOTS_LEAST 16u
#define SKEW_S 2
#define NS_PER_US 1000.0
/* All that a client of ours sends inline. */
#define INLINE_FULL RR_INLINE

#define TELL_KNFSD "on a Linux server: an RDMA device (an adapter, soft-RoCE or siw), 'rdma=y' below [nfsd] in " \
	"/etc/nfs.conf and a restart of nfs-server ('rpc.nfsd --rdma=20049', or 'nfsdctl listener +rdma:0.0.0.0:20049'); " \
	"before any other: nfsrdma-gateway"

static void server_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

/* ---- its name ---- */

/* Of a numeric address that is the whole story; a resolver's answer may be more than the mount uses. */
void doctor_addresses(struct doctor *d, const struct nfs_config *cfg, const struct addrinfo *all)
{
	char text[400] = "", one[64], more[32] = "";    /* one: numeric, with a zone */
	unsigned n = 0, used = 0, shown = 0;
	size_t len = 0;

	for (const struct addrinfo *a = all; a; a = a->ai_next) {
		if (sock_addr_again(all, a) || getnameinfo(a->ai_addr, a->ai_addrlen, one, sizeof(one), NULL, 0, NI_NUMERICHOST))
			continue;
		used += a->ai_family == cfg->paths[0].params.server.ss_family;
		/* What does not fit is counted, and so is all behind it. */
		if (shown == n && len + strlen(one) + sizeof(", ") <= sizeof(text)) {
			len += (size_t)sprintf(text + len, "%s%s", n ? ", " : "", one);
			shown++;
		}
		n++;
	}
	if (shown < n)
		snprintf(more, sizeof(more), ", ... and %u more", n - shown);
	if (used > cfg->npaths && cfg->version == &nfs_v3)
		doctor_note(d, DOCTOR_COSTS, "addresses", "vers=4.1 or 4.2, or remoteports= if all are one server's",
			    "'%s' has %u: %s%s. With version 3 only the first is used: it cannot tell whether the others "
			    "are the same server's. With 4.1 they could be paths", d->cfg->server, n, text, more);
	else if (cfg->npaths > 1)
		doctor_note(d, DOCTOR_GOOD, "addresses", "", "'%s' has %u: %s%s; the mount has %u paths", d->cfg->server, n,
			    text, more, cfg->npaths);
	else
		doctor_note(d, DOCTOR_GOOD, "addresses", "", "'%s' has %u: %s%s", d->cfg->server, n, text, more);
}

static void server_name(struct doctor *d, const struct nfs_config *cfg)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME }, *all = NULL;

	if (getaddrinfo(d->cfg->server, NULL, &hints, &all))
		return;
	hide_add(&d->hide, HIDE_SERVER, all->ai_canonname);
	doctor_addresses(d, cfg, all);
	freeaddrinfo(all);
}

static void server_fabric(struct doctor *d, const struct nfs_config *cfg)
{
	d->iwarp = cfg->paths[0].fabric == &fabric_iwarp;
	if (d->iwarp && d->devices && d->cfg->fabric == NFS_PLAN_AUTO)
		doctor_note(d, DOCTOR_COSTS, "fabric", "a route to the server by the interface of an RDMA device "
			    "(localports= names one); fabric=verbs insists on it", "iWARP in user space: %s",
			    cfg->paths[0].params.hint ? cfg->paths[0].params.hint : "");
	else
		doctor_note(d, DOCTOR_GOOD, "fabric", "", "%s", d->iwarp ? "iWARP in user space, over TCP" :
			    "an RDMA device (verbs)");
	for (unsigned i = 0; d->iwarp && i < cfg->npaths; i++)
		doctor_link(d, &cfg->paths[i].params.server);
}

/* ---- ports ---- */

static const char *server_tcp(const struct doctor_ports *p)
{
	return p->nfs3 || p->nfs4 ? "" : "not ";
}

/* The way is there, and what has failed is behind it. Version 3 has mountd and a lock manager beside it, too. */
static void server_port_connects(struct doctor *d, const struct sockaddr_storage *server)
{
	struct doctor_ports p = doctor_ports(server);
	char at[80];

	doctor_note(d, DOCTOR_GOOD, "RDMA port", "", "%s connects for RDMA, and NFS over TCP (port 2049) is %sanswered",
		    fab_addr_text(server, at, sizeof(at)), server_tcp(&p));
}

/* Where no connection comes about: what is there instead. */
static void server_ports(struct doctor *d, const struct sockaddr_storage *server, int mark)
{
	struct doctor_ports p = doctor_ports(server);
	char at[80], port[32];

	fab_addr_text(server, at, sizeof(at));
	snprintf(port, sizeof(port), "port %u", d->cfg->port);
	if (p.rdma_port && d->iwarp)
		doctor_note(d, mark, "RDMA port", "the server's log; and port= has to be the port that RDMA is at, 20049 as a "
			    "rule", "%s accepts TCP, and then does not answer: the server is stuck, or does not speak iWARP "
			    "there. NFS over TCP (2049) is %sanswered", at, server_tcp(&p));
	else if (p.nfs_port && (p.nfs3 || p.nfs4))
		doctor_note(d, mark, "RDMA port", TELL_KNFSD, "the server answers NFS over TCP (port 2049, version%s%s%s), "
			    "but nothing listens for %s at %s", p.nfs3 && p.nfs4 ? "s" : "", p.nfs3 ? " 3" : "",
			    p.nfs4 ? p.nfs3 ? " and 4" : " 4" : "", d->iwarp ? "RDMA by iWARP" : "RDMA", at);
	else if (p.rdma_port)
		doctor_note(d, mark, "RDMA port", "fabric=iwarp, if that is iWARP in software (siw, nfsrdma-gateway)",
			    "%s accepts TCP, so iWARP may be there, and the RDMA device does not get a connection", at);
	else if (p.rdma_err == -ECONNREFUSED)
		doctor_note(d, mark, "RDMA port", TELL_KNFSD, "%s: the host is there, and refuses both %s and NFS over TCP "
			    "(2049)", at, port);
	else
		doctor_note(d, mark, "RDMA port", "the address, the cable, a route, or a firewall that lets that port "
			    "through", "%s does not answer: %s", at, strerror(-p.rdma_err));
}

/* ---- paths ---- */

static bool paths_settled(const struct nfs_path_info *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (p[i].connections < p[i].wanted && !p[i].why[0])
			return false;
	return true;
}

static void server_path(struct doctor *d, const struct nfs_client *cl, const struct nfs_path_info *p)
{
	if (p->connections == p->wanted) {
		doctor_note(d, DOCTOR_GOOD, "path", "", "path %u to %s is connected (%s, %u connection%s)", p->id, p->server,
			    p->fabric, p->connections, p->connections == 1 ? "" : "s");
		return;
	}
	doctor_note(d, DOCTOR_COSTS, "path", p->state == NFS_PATH_REFUSED ?
		    "leave that address out: it is another server's (remoteports=)" :
		    "mend that way, or leave its address out (remoteports=)",
		    "path %u to %s has %u of %u connections, so others carry its share and nothing takes over for "
		    "them: %s", p->id, p->server, p->connections, p->wanted, p->why[0] ? p->why : "no answer so far");
	if (!p->connections && p->state != NFS_PATH_REFUSED)
		server_ports(d, &cl->cfg.paths[p->id].params.server, DOCTOR_COSTS);
}

static void server_paths(struct doctor *d, struct nfs_client *cl)
{
	struct nfs_path_info p[NFS_PATHS_MAX];
	uint64_t end = mono_ns() + PATHS_NS;
	unsigned n = nfs_paths_info(cl, p);

	while (!paths_settled(p, n) && mono_ns() < end) {
		server_nap();
		n = nfs_paths_info(cl, p);
	}
	for (unsigned i = 0; i < n; i++)
		server_path(d, cl, &p[i]);
}

/* ---- what was agreed ---- */

static void server_sizes(struct doctor *d, const struct nfs_config *cfg)
{
	const struct nfs_chosen *c = &d->chosen;

	if (c->rsize < cfg->rsize || c->wsize < cfg->wsize)
		doctor_note(d, DOCTOR_COSTS, "sizes", "a larger limit at the server (Linux: /proc/fs/nfsd/max_block_size "
			    "before nfsd starts)", "the server takes rsize %u and wsize %u, and %u and %u are wanted: "
			    "more calls for the same data", c->rsize, c->wsize, cfg->rsize, cfg->wsize);
	else
		doctor_note(d, DOCTOR_GOOD, "sizes", "", "rsize %u, wsize %u", c->rsize, c->wsize);
	if (c->slots && c->slots < SLOTS_LEAST)
		doctor_note(d, DOCTOR_COSTS, "session", "more memory at the server, or fewer clients: Linux divides what it keeps for replies", "the server has "
			    "%u slots for this client: no more calls at once, whatever credits= says", c->slots);
	else if (c->slots)
		doctor_note(d, DOCTOR_GOOD, "session", "", "%u slots: so many calls at once", c->slots);
	if (c->inline_send < INLINE_FULL || c->inline_recv < INLINE_FULL)
		doctor_note(d, DOCTOR_COSTS, "inline thresholds", "a larger one at the server (Linux: 'sysctl "
			    "sunrpc.svc_rdma.max_req_size=4096')", "%u bytes to the server, %u from it: longer messages "
			    "cost a registration each", c->inline_send, c->inline_recv);
	else
		doctor_note(d, DOCTOR_GOOD, "inline thresholds", "", "%u bytes to the server, %u from it; %sremote "
			    "invalidation; memreg=%s", c->inline_send, c->inline_recv, c->remote_inval ? "" : "no ",
			    c->memreg);
}

/* ---- time ---- */

static int by_length(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* One GETATTR of the root, on heap memory that is the lane's if it is given up. */
static int server_ask(struct nfs_client *cl)
{
	struct nfs_call *c = calloc(1, sizeof(*c));
	bool abandoned;
	int rc;

	if (!c)
		return -ENOMEM;
	c->op = NFS_OP_GETATTR;
	c->cred = &cl->own;
	c->args.fh = &cl->root_fh;
	rc = nfs_call_any(&cl->server, c, CALL_MS, &abandoned);
	if (!abandoned)
		free(c);
	return rc;
}

static void server_trips(struct doctor *d, struct nfs_client *cl)
{
	uint64_t ns[CALLS], begin = mono_ns(), all, median;
	int rc = 0;

	for (unsigned i = 0; i < CALLS && !rc; i++) {
		uint64_t t = mono_ns();

		rc = server_ask(cl);
		ns[i] = mono_ns() - t;
	}
	all = mono_ns() - begin;
	if (rc) {
		doctor_note(d, DOCTOR_IN_THE_WAY, "the export's root", "its permissions at the server, or root_squash",
			    "its attributes cannot be read: %s", strerror(-rc));
		return;
	}
	qsort(ns, CALLS, sizeof(ns[0]), by_length);
	median = ns[CALLS / 2];
	doctor_note(d, DOCTOR_GOOD, "round trip", "", "%.0f us (median of %u calls for the root's attributes; the fastest "
		    "%.0f us, %.0f calls/s one after the other)", (double)median / NS_PER_US, CALLS,
		    (double)ns[0] / NS_PER_US, CALLS * 1e9 / (double)all);
}

static void server_clock(struct doctor *d, const struct sockaddr_storage *server)
{
	long skew;

	if (!doctor_clock(server, &skew))
		doctor_note(d, DOCTOR_GOOD, "clock", "", "not known: only rpcbind of the server would say it, and that does "
			    "not answer");
	else if (skew > SKEW_S || skew < -SKEW_S)
		doctor_note(d, DOCTOR_COSTS, "clock", "NTP on both (chrony, systemd-timesyncd)", "the server's is %ld s %s: "
			    "make and rsync compare times of files with this host's", skew < 0 ? -skew : skew,
			    skew < 0 ? "behind" : "ahead");
	else
		doctor_note(d, DOCTOR_GOOD, "clock", "", "the server's and this host's differ by no more than %d s", SKEW_S);
}

/* ---- versions ---- */

static void server_free(struct nfs_client *cl)
{
	for (unsigned i = 0; i < 20 && !nfs_client_free(cl); i++)
		;
}

/* It speaks that version, and has said what is wrong with the export. */
static bool server_has_answered(int rc)
{
	return rc == -ENOENT || rc == -EACCES || rc == -ENOTDIR;
}

/* A client of the least that there is, on a path that works. */
static void server_try(struct doctor *d, enum doctor_plan how, const struct rr_path *path, char *text, size_t cap)
{
	struct nfs_config cfg = { .npaths = 0 };
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	size_t len = strlen(text);
	int rc = d->cfg->plan(&cfg, how, d->cfg->arg, &eb);

	if (!rc && strcmp(cfg.version->name, d->chosen.version) == 0)
		return;
	cfg.npaths = 1;
	cfg.left_out = 0;
	cfg.paths[0] = *path;
	cfg.lanes = 1;
	cfg.front = NULL;
	cfg.idmapper = NULL;
	cfg.delegations = cfg.locks = cfg.lends = false;
	cfg.room = 0;
	if (!rc)
		rc = nfs_client_new(&cfg, 0, &cl, &eb);
	server_free(cl);
	snprintf(text + len, cap - len, "; %s: %s%s", cfg.version ? cfg.version->name : "?",
		 server_has_answered(rc) ? "yes, but not that export: " : rc ? "no: " : "yes", rc ? eb.text : "");
}

static void server_versions(struct doctor *d, const struct rr_path *path)
{
	char text[600];

	snprintf(text, sizeof(text), "%s: %s", d->chosen.version, d->has_chosen ? "yes, and it is used" : "no");
	for (int how = DOCTOR_V3; how <= DOCTOR_V42; how++)
		server_try(d, (enum doctor_plan)how, path, text, sizeof(text));
	doctor_note(d, DOCTOR_GOOD, "versions", "", "%s", text);
}

/* ---- all of it ---- */

/* If one path has connected, the others may not have been tried: then nothing is said of them. */
static void server_refused(struct doctor *d, const struct nfs_config *cfg, int rc, const char *why)
{
	const char *remedy = rc == -ENOENT ? "the path as the server exports it ('showmount -e SERVER' lists what version 3 "
					     "mounts)" :
			     rc == -EPROTONOSUPPORT ? "vers= with a version that the server has" : "";

	doctor_note(d, DOCTOR_IN_THE_WAY, "mount", remedy, "%s", why);
	if (rc == -EPROTONOSUPPORT) {
		d->chosen.version = cfg->version->name;
		server_versions(d, &cfg->paths[0]);
	}
	/* The server has answered, so it is not the way there. */
	if (server_has_answered(rc) || rc == -EPROTONOSUPPORT)
		return;
	for (unsigned i = 0; i < cfg->npaths; i++)
		if (!*cfg->connected)
			server_ports(d, &cfg->paths[i].params.server, DOCTOR_IN_THE_WAY);
		else if (*cfg->connected & 1u << i)
			server_port_connects(d, &cfg->paths[i].params.server);
}

static void server_connected(struct doctor *d, const struct nfs_config *cfg, struct nfs_client *cl)
{
	char text[NFS_CHOSEN_TEXT];

	d->chosen = d->cfg->chosen(cl, d->cfg->arg);
	d->has_chosen = true;
	doctor_note(d, DOCTOR_GOOD, "mount", "", "it would be made: %s", nfs_chosen_text(&d->chosen, text));
	if (cl->cfg.paths[0].fabric != cfg->paths[0].fabric)
		doctor_note(d, DOCTOR_COSTS, "fabric", "RDMA on the server's side, by a device of the same kind; fabric=verbs says "
			    "what is wrong", "the RDMA device gets no connection to the server, and iWARP in user space does");
	server_paths(d, cl);
	server_sizes(d, cfg);
	server_trips(d, cl);
	server_clock(d, &cfg->paths[cl->server.first].params.server);
}

void doctor_server(struct doctor *d)
{
	struct nfs_config cfg = { .npaths = 0 };
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	unsigned connected = 0;
	struct rr_path path;
	int rc = d->cfg->plan(&cfg, DOCTOR_AS_MOUNTED, d->cfg->arg, &eb);

	/* doctor_memory() says why. */
	if (rc == -ENOMEM && cfg.locks_wanted) {
		doctor_note(d, DOCTOR_IN_THE_WAY, "server", "", "it is not asked: without locked memory there is no "
			    "connection");
		return;
	}
	if (rc) {
		doctor_note(d, DOCTOR_IN_THE_WAY, "addresses", "", "%s", eb.text);
		return;
	}
	server_name(d, &cfg);
	server_fabric(d, &cfg);
	cfg.front = NULL;
	cfg.connected = &connected;
	rc = nfs_client_new(&cfg, 0, &cl, &eb);
	if (rc) {
		server_free(cl);
		server_refused(d, &cfg, rc, eb.text);
		return;
	}
	server_connected(d, &cfg, cl);
	path = cl->cfg.paths[cl->server.first];
	server_free(cl);
	server_versions(d, &path);
}
