/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Control calls, and what they make and end: client id and session. All of it may block, and runs
 * on the thread that nfs4_mount.c names.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>
#include "nfs/nfs4/nfs4_impl.h"

#define MOUNT_TIMEOUT_MS 60000u
#define NS_PER_MS 1000000ull

static unsigned end_ms(const struct nfs_server *s)
{
	return nfs_times_of(&s->client->cfg)->end_ms;
}

struct nfs4_ctl *nfs4_ctl_new(const struct nfs_server *s)
{
	struct nfs4_ctl *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->cred = s->client->own;
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
	struct nfs4_ctl *k = nfs4_ctl_new(s);

	return k ? nfs4_run(s, k, op, timeout_ms, NULL) : -ENOMEM;
}

/* Confirmed means that the server knows us and our opens. */
static enum nfs4_opens_state opens_at(const struct nfs4_client *n, const struct nfs4_ctl *k)
{
	if (k->flags & EXCHGID4_FLAG_CONFIRMED_R)
		return NFS4_OPENS_KNOWN;
	return nfs4_identity_same_scope(&n->clientid_by, &k->names) ? NFS4_OPENS_FORGOTTEN :
	       NFS4_OPENS_ELSEWHERE;
}

/* A mount that is being made has no opens. */
static void take_clientid(struct nfs_server *s, const struct nfs4_ctl *k)
{
	struct nfs4_client *n = s->vdata;
	enum nfs4_opens_state opens = s->client->control->mounted ? opens_at(n, k) : NFS4_OPENS_KNOWN;

	n->clientid = k->clientid;
	n->sequence = k->sequence;
	n->opens_are = MAX(n->opens_are, opens);
	if (opens == NFS4_OPENS_ELSEWHERE)
		nfs4_identity_say_scope(s->name, &n->clientid_by, &k->names);
	n->clientid_by = k->names;
	nfs4_identity_set(&n->identity, &k->names);
}

int nfs4_new_clientid(struct nfs_server *s, nfsstat4 *status)
{
	const struct nfs_client *cl = s->client;
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return -ENOMEM;
	/* While mounting this is the first call. */
	rc = nfs4_run(s, k, NFS4_OP_EXCHANGE_ID, cl->control->mounted ? 0 : cl->answer_ms, &k);
	if (!k)
		return rc;
	*status = k->status;
	if (!rc)
		take_clientid(s, k);
	free(k);
	return rc;
}

int nfs4_destroy_session(struct nfs_server *s, const char *id, bool once)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);

	if (!k)
		return -ENOMEM;
	memcpy(k->sessionid, id, sizeof(k->sessionid));
	k->once = once;
	return nfs4_run(s, k, NFS4_OP_DESTROY_SESSION, end_ms(s), NULL);
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

void nfs4_destroy_old(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;

	if (!atomic_load(&n->have_old))
		return;
	if (nfs4_slots_left(&n->slots) || !atomic_exchange(&n->have_old, false))
		return;
	nfs4_destroy_session(s, n->old, true);
}

/* The data that a call or reply of the session may have. */
static uint32_t data_in(uint32_t message)
{
	return message > 8192 ? (message - 1024) & ~4095u : 4096;
}

/* The kernel knows the mount's sizes, and has requests of these under way. So a session with less
 * does less than a call asks for (nfs_machinery.most), and what we gather ourselves gets smaller. */
static void fit_sizes(struct nfs_server *s)
{
	struct nfs_client *cl = s->client;
	const struct nfs4_client *n = s->vdata;
	uint32_t r = MIN(n->rsize, n->max_read), w = MIN(n->wsize, n->max_write);

	if (cl->control->mounted && (r != cl->rsize || w != cl->wsize))
		log_info("%s has other limits now: rsize=%u, wsize=%u", s->name, r, w);
	cl->rsize = r;
	cl->wsize = w;
	cl->dtsize = MIN(n->dtsize, n->max_read);
}

void nfs4_note_sizes(const struct nfs_client *cl, struct nfs4_client *n)
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
		nfs4_destroy_session(s, k->sessionid, true);
		return rc;
	}
	/* There are no ticks during recovery, so make room for this one here. */
	nfs4_destroy_old(s);
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
	atomic_store(&n->back.has, k->flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
	atomic_store(&n->back.need, false);
	atomic_store(&n->back.bound_ns, mono_ns());
	n->back.delays = 0;
	n->back.later_ns = 0;
	log_debug("%s: a session of %u slots, %s back channel", s->name, k->nslots,
		  atomic_load(&n->back.has) ? "with a" : "without");
	n->epoch++;
	nfs4_slots_install(s);
	return 0;
}

static int ask_session(struct nfs_server *s, uint32_t flags, nfsstat4 *status)
{
	struct nfs4_client *n = s->vdata;
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return -ENOMEM;
	k->clientid = n->clientid;
	k->sequence = n->sequence;
	k->flags = flags;
	n->back.downs = atomic_load(&s->lost);
	rc = nfs4_run(s, k, NFS4_OP_CREATE_SESSION, 0, &k);
	if (!k)
		return rc;
	*status = k->status;
	if (!rc)
		rc = take_session(s, k);
	free(k);
	return rc;
}

/* May the server refuse the session for what it says of the back channel? Then the session has
 * none. */
static bool is_about_back(nfsstat4 status)
{
	return status == NFS4ERR_TOOSMALL || status == NFS4ERR_INVAL || status == NFS4ERR_NOTSUPP ||
	       status == NFS4ERR_ENCR_ALG_UNSUPP;
}

int nfs4_new_session(struct nfs_server *s, nfsstat4 *status)
{
	int rc = ask_session(s, CREATE_SESSION4_FLAG_CONN_BACK_CHAN, status);

	if (!rc || !is_about_back(*status))
		return rc;
	/* Some servers have used up the number, and answer the same to it for ever (RFC 8881, section 18.36.4).
	 * Others have not, and take no other one. EXCHANGE_ID tells. */
	rc = nfs4_new_clientid(s, status);
	return rc ? rc : ask_session(s, 0, status);
}

/* Nothing is bound yet, and nothing refused. The pauses double; a tick ends them. */
static void bind_later(const struct nfs_client *cl, struct nfs4_back *b)
{
	b->later_ns = mono_ns() + ((uint64_t)nfs_times_of(&cl->cfg)->later_ms << b->delays) * NS_PER_MS;
	b->delays += b->delays < NFS_LATER_SHIFT_MAX;
	atomic_store(&b->need, true);
}

static void bind_back(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	nfsstat4 status;
	int rc;

	if (!k)
		return;
	n->back.downs = atomic_load(&s->lost);
	k->once = true;
	rc = nfs4_run(s, k, NFS4_OP_BIND_CONN, 0, &k);
	if (!k)
		return;
	status = k->status;
	free(k);
	if (rc && nfs4_is_later(status)) {
		bind_later(s->client, &n->back);
		return;
	}
	n->back.delays = 0;
	atomic_store(&n->back.bound_ns, mono_ns());
	/* Of what was wanted back meanwhile nobody has heard, and may never hear (nfs4_delegs.h). */
	nfs4_delegs_drop_all(s);
	if (status == NFS4ERR_BADSESSION || status == NFS4ERR_DEADSESSION) {
		nfs4_belief_doubt(&n->belief);
		atomic_store(&n->need_session, true);
		nfs_control_recover(s->client);
	} else if (rc) {
		log_debug("%s takes no connection for its own calls: %s", s->name, strerror(-rc));
	}
}

/* Not all servers say that their last one is gone (nfs-ganesha does not). So one is bound whenever a
 * connection was lost that was in use: nobody here knows which ones had it. */
void nfs4_look_back(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;

	if (!atomic_load(&n->back.has) || !nfs_server_is_up(s) || mono_ns() < n->back.later_ns)
		return;
	if (atomic_exchange(&n->back.need, false) || atomic_load(&s->lost) != n->back.downs)
		bind_back(s);
}

void nfs4_destroy_clientid(struct nfs_server *s)
{
	run_simple(s, NFS4_OP_DESTROY_CLIENTID, end_ms(s));
}

void nfs4_renew(struct nfs_server *s)
{
	run_simple(s, NFS4_OP_RENEW, 0);
}
