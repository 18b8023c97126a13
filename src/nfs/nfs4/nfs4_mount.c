/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From nothing to a session, and back: client id, session, lease. (nfs4_root.c walks to the
 * export.) It runs on the mounting thread, on the control thread, or on the unmounting
 * thread, never on two of them at a time (nfs/internal.h). All of them may block.
 *
 * If the session is lost before the mount is done, the mounting thread's calls end with
 * -EAGAIN, and it makes another session, a few times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "nfs/nfs4/nfs4_impl.h"

#define MOUNT_TIMEOUT_MS  60000u
/* How many sessions a mount makes because the one before was lost. */
#define MOUNT_SESSIONS    3u
#define NS_PER_S 1000000000ull

static unsigned end_ms(const struct nfs_server *s)
{
	return nfs_times_of(&s->client->cfg)->end_ms;
}

/* ---- control calls ---- */

struct nfs4_ctl *nfs4_ctl_new(void)
{
	struct nfs4_ctl *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->cred = (struct rpc_cred){ .uid = geteuid(), .gid = getegid() };
	k->c.flags = NFS_CALL_CONTROL;
	k->c.cred = &k->cred;
	k->c.args.version = k;
	return k;
}

int nfs4_run(struct nfs_server *s, struct nfs4_ctl *k, enum nfs_op op, unsigned timeout_ms,
	     struct nfs4_ctl **keep)
{
	bool abandoned;
	int rc;

	/* A mount that is done waits for its server for ever. A mount that is being made
	 * does not. */
	if (!timeout_ms && !s->client->control->mounted)
		timeout_ms = MOUNT_TIMEOUT_MS;
	k->c.op = op;
	rc = nfs_call_any(s, &k->c, timeout_ms, &abandoned);
	if (keep)
		*keep = abandoned ? NULL : k;
	else if (!abandoned)
		free(k);
	return rc;
}

/* Runs a control call without arguments or results. */
static int run_simple(struct nfs_server *s, enum nfs_op op, unsigned timeout_ms)
{
	struct nfs4_ctl *k = nfs4_ctl_new();

	return k ? nfs4_run(s, k, op, timeout_ms, NULL) : -ENOMEM;
}

int nfs4_new_clientid(struct nfs_server *s, bool *confirmed, nfsstat4 *status)
{
	const struct nfs_client *cl = s->client;
	struct nfs4_client *n = s->vdata;
	struct nfs4_ctl *k = nfs4_ctl_new();
	int rc;

	if (!k)
		return -ENOMEM;
	/* While mounting this is the first call. */
	rc = nfs4_run(s, k, NFS4_OP_EXCHANGE_ID, cl->control->mounted ? 0 : cl->answer_ms, &k);
	if (!k)
		return rc;
	*status = k->status;
	if (!rc) {
		n->clientid = k->clientid;
		n->sequence = k->sequence;
		*confirmed = k->flags & EXCHGID4_FLAG_CONFIRMED_R;
		nfs4_identity_set(&n->identity, &k->names);
	}
	free(k);
	return rc;
}

static int destroy_session(struct nfs_server *s, const char *id, bool once, unsigned timeout_ms)
{
	struct nfs4_ctl *k = nfs4_ctl_new();

	if (!k)
		return -ENOMEM;
	memcpy(k->sessionid, id, sizeof(k->sessionid));
	k->once = once;
	return nfs4_run(s, k, NFS4_OP_DESTROY_SESSION, timeout_ms, NULL);
}

static int check_session(const struct nfs_server *s, const struct nfs4_ctl *k)
{
	if (!k->nslots) {
		log_err("%s grants a session without slots, in which nothing can be sent: try vers=3",
			s->name);
		return -ENOSR;
	}
	if (k->maxops < NFS4_OPS_NEEDED) {
		log_err("%s takes only %u operations in a COMPOUND, and %u are needed: try vers=3",
			s->name, k->maxops, NFS4_OPS_NEEDED);
		return -ENOSR;
	}
	return 0;
}

/* Destroys the session before this one. The server has forgotten it, or else keeps it as
 * long as the client id lives. No call of that session may be left. */
static void destroy_old(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;

	if (!atomic_load(&n->have_old))
		return;
	if (nfs4_slots_left(&n->slots) || !atomic_exchange(&n->have_old, false))
		return;
	destroy_session(s, n->old, true, end_ms(s));
}

/* The data that a call or reply of the session may have. */
static uint32_t data_in(uint32_t message)
{
	return message > 8192 ? (message - 1024) & ~4095u : 4096;
}

static uint32_t lower(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The kernel knows the mount's sizes, and has requests of these under way. So a session with less
 * does less than a call asks for (nfs_machinery.most), and what we gather ourselves gets smaller. */
static void fit_sizes(struct nfs_server *s)
{
	struct nfs_client *cl = s->client;
	const struct nfs4_client *n = s->vdata;
	uint32_t r = lower(n->rsize, n->max_read), w = lower(n->wsize, n->max_write);

	if (cl->control->mounted && (r != cl->rsize || w != cl->wsize))
		log_info("%s has other limits now: rsize=%u, wsize=%u", s->name, r, w);
	cl->rsize = r;
	cl->wsize = w;
	cl->dtsize = lower(n->dtsize, n->max_read);
}

static void note_sizes(const struct nfs_client *cl, struct nfs4_client *n)
{
	n->rsize = cl->rsize;
	n->wsize = cl->wsize;
	n->dtsize = cl->dtsize;
}

/* A session that we cannot use is destroyed at once, because recovery may ask for many. */
static int take_session(struct nfs_server *s, const struct nfs4_ctl *k)
{
	struct nfs4_client *n = s->vdata;
	int rc = check_session(s, k);

	n->sequence++;
	if (rc) {
		destroy_session(s, k->sessionid, true, end_ms(s));
		return rc;
	}
	/* There are no ticks during recovery, so make room for this one here. */
	destroy_old(s);
	memcpy(n->old, n->sessionid, sizeof(n->old));
	atomic_store(&n->have_old, n->epoch && n->session_of == n->clientid);
	memcpy(n->sessionid, k->sessionid, sizeof(n->sessionid));
	n->session_of = n->clientid;
	n->maxops = k->maxops;
	n->nslots = k->nslots;
	n->max_cached = k->maxcached;
	n->max_read = data_in(k->maxresp);
	n->max_write = data_in(k->maxreq);
	fit_sizes(s);
	n->epoch++;
	nfs4_slots_install(s);
	return 0;
}

int nfs4_new_session(struct nfs_server *s, nfsstat4 *status)
{
	struct nfs4_client *n = s->vdata;
	struct nfs4_ctl *k = nfs4_ctl_new();
	int rc;

	if (!k)
		return -ENOMEM;
	k->clientid = n->clientid;
	k->sequence = n->sequence;
	rc = nfs4_run(s, k, NFS4_OP_CREATE_SESSION, 0, &k);
	if (!k)
		return rc;
	*status = k->status;
	if (!rc)
		rc = take_session(s, k);
	free(k);
	return rc;
}

/* ---- mount ---- */

static int client_init(struct nfs_server *s)
{
	struct nfs4_client *n = calloc(1, sizeof(*n));
	char host[128] = "";
	uint64_t unique = 0;

	if (!n)
		return -ENOMEM;
	pthread_mutex_init(&n->slots.mu, NULL);
	nfs4_identity_init(&n->identity);
	note_sizes(s->client, n);
	gethostname(host, sizeof(host) - 1);
	if (getrandom(&unique, sizeof(unique), 0) != sizeof(unique) ||
	    getrandom(n->verifier, sizeof(n->verifier), 0) != sizeof(n->verifier))
		unique = mono_ns();
	snprintf(n->owner, sizeof(n->owner), "nfsrdma-fuse %s %d %016llx", host, (int)getpid(),
		 (unsigned long long)unique);
	s->vdata = n;
	return 0;
}

void nfs4_free(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	struct nfs_open_ref *o;

	/* Opens without a CLOSE: the mount ended first. */
	while ((o = nfs_open_next(&s->files, NULL))) {
		o->refs = 1;
		nfs4_open_put(s, container_of(o, struct nfs_open, ref));
	}
	nfs4_identity_fini(&n->identity);
	pthread_mutex_destroy(&n->slots.mu);
	free(n);
}

static int start_error(struct nfs_server *s, int rc, nfsstat4 status, struct errbuf *eb)
{
	const char *server = s->name;

	if (rc == -EPROTONOSUPPORT || status == NFS4ERR_MINOR_VERS_MISMATCH)
		return err_set(eb, -EPROTONOSUPPORT, "%s does not speak NFSv4.1: try vers=3", server);
	if (rc == -ETIMEDOUT)
		return err_set(eb, rc, "%s accepts the connection but does not answer NFS calls: "
			       "is its NFS server running?", server);
	if (rc == -EAGAIN)
		return err_set(eb, -EIO, "%s makes NFSv4.1 sessions but does not know them afterwards: "
			       "see its log, or try vers=3", server);
	return err_set(eb, rc, "%s refuses an NFSv4.1 session: %s%s", server, strerror(-rc),
		       status ? " (see its log)" : "");
}

/* Inside the session: RECLAIM_COMPLETE, then finds the root. */
static int enter(struct nfs_server *s, struct errbuf *eb)
{
	int rc;

	for (unsigned i = 0; ; i++) {
		rc = nfs4_reclaim_complete(s, false);
		if (!rc) {
			rc = nfs4_find_root(s, eb);
			if (rc != -EAGAIN)
				return rc;
		}
		if (rc == -EAGAIN && i < MOUNT_SESSIONS)
			rc = nfs4_recover(s);
		if (rc < 0)
			return start_error(s, rc, NFS4_OK, eb);
	}
}

int nfs4_mount(struct nfs_server *s, struct errbuf *eb)
{
	nfsstat4 status = NFS4_OK;
	bool confirmed;
	int rc = client_init(s);

	if (rc)
		return err_set(eb, rc, "out of memory");
	rc = nfs4_new_clientid(s, &confirmed, &status);
	if (rc)
		return start_error(s, rc, status, eb);
	rc = nfs4_new_session(s, &status);
	if (rc) {
		if (rc != -ETIMEDOUT)
			run_simple(s, NFS4_OP_DESTROY_CLIENTID, end_ms(s));
		return start_error(s, rc, status, eb);
	}
	rc = enter(s, eb);
	if (!rc)
		note_sizes(s->client, s->vdata);
	if (rc && rc != -ETIMEDOUT)
		nfs4_umount(s);
	return rc;
}

void nfs4_umount(struct nfs_server *s)
{
	const struct nfs4_client *n = s->vdata;

	destroy_old(s);
	if (destroy_session(s, n->sessionid, false, end_ms(s)) == -ETIMEDOUT)
		return;
	run_simple(s, NFS4_OP_DESTROY_CLIENTID, end_ms(s));
}

/* Any SEQUENCE renews the lease (RFC 8881, section 8.3). Only an idle mount must send
 * one for that. */
void nfs4_tick(struct nfs_server *s)
{
	const struct nfs4_client *n = s->vdata;
	uint64_t now = mono_ns(), last = nfs_server_replied_ns(s);

	destroy_old(s);
	nfs4_test_again(s);
	if (now < last || now - last < n->lease_s * NS_PER_S / 3)
		return;
	run_simple(s, NFS4_OP_RENEW, 0);
}
