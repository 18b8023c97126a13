/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks of version 3: the calls on their lanes, and the beginning and the end. See nlm.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/thread.h"
#include "nfs/nfs3/nfs3_impl.h"
#include "nfs/nfs3/nlm.h"

/* So long is a call repeated because the server is in its grace period. */
#define GRACE_NS 180000000000ull
/* So long may it take to unlock what is held when the mount ends: nlm_held_end() takes less. */
#define END_MS   5000u

/* ---- calls ---- */

void nlm_job_free(struct nlm_job *j)
{
	struct nlm *n = j->nlm;

	pthread_mutex_lock(&n->mu);
	list_del(&j->all);
	pthread_mutex_unlock(&n->mu);
	free(j);
}

/* LOCKU has no limit: its lock would stay. */
static bool nlm_waited_enough(struct nfs_call *c)
{
	uint64_t *since = &nfs3_call(c)->grace_ns, now = loop_now(c->lane->loop);

	if (!*since)
		*since = now;
	return c->op != NFS_OP_LOCKU && now - *since > GRACE_NS;
}

static void nlm_on_answer(struct loop_msg *m)
{
	struct nlm_job *j = container_of(m, struct nlm_job, m);
	struct nfs_call *c = j->call;
	int rc = j->status;

	c->res.lock = j->res;
	nfs3_call(c)->job = NULL;
	nlm_job_free(j);
	if (rc == NFS_LATER && nlm_waited_enough(c))
		rc = -ENOLCK;
	if (!rc && c->op == NFS_OP_LOCK) {
		c->eng.step = 1;
		c->eng.sent = true;
		rc = NFS_NEXT;
	}
	nfs_elsewhere_done(c, rc);
}

static bool_t nlm_encode_getattr(struct nfs_call *c, XDR *x)
{
	return nfs3_encode_getattr(x, c->args.fh);
}

static int nlm_decode_getattr(struct nfs_call *c, XDR *x)
{
	int rc = nfs3_decode_getattr(c, x);

	return rc == NFS_LATER ? rc : 0;
}

/* The call is not marked as sent until it is granted: it can be given up at any time (nlm_forget()). */
static void nlm_begin(struct nfs_call *c)
{
	struct nlm *n = nfs3_nlm(c->target->server);
	struct nlm_job *j = n ? calloc(1, sizeof(*j)) : NULL;
	const struct nfs_lock_args *a = &c->args.lock;

	if (!j) {
		nfs_elsewhere_done(c, -ENOLCK);
		return;
	}
	*j = (struct nlm_job){
		.m.fn = nlm_on_answer, .nlm = n, .lane = c->lane, .call = c, .op = c->op,
		.who = { .number = a->owner, .fh = *c->args.fh,
			 .cred = c->cred ? *c->cred : c->lane->client->own },
		.range = { .start = a->all ? 0 : a->offset, .write = a->write,
			   .last = a->all ? UINT64_MAX : nfs_range_last(a->offset, a->length) },
	};
	nfs3_call(c)->job = j;
	pthread_mutex_lock(&n->mu);
	list_add_tail(&n->jobs, &j->all);
	list_add_tail(&n->queue, &j->node);
	pthread_cond_broadcast(&n->cond);
	pthread_mutex_unlock(&n->mu);
}

/* What the thread has begun, or has to do in any case (LOCKU), is its own from now on. It is before
 * whatever that owner asks for next. */
static bool nlm_forget(struct nfs_call *c)
{
	struct nlm_job *j = nfs3_call(c)->job;
	struct nlm *n = j ? j->nlm : NULL;
	bool done, unused;

	if (!j)
		return true;
	pthread_mutex_lock(&n->mu);
	done = j->done;
	if (!done)
		j->call = NULL;
	unused = !done && !j->begun && !list_empty(&j->node) && j->op != NFS_OP_LOCKU;
	if (unused)
		list_del(&j->node);
	pthread_mutex_unlock(&n->mu);
	if (!done)
		nfs3_call(c)->job = NULL;
	if (unused)
		nlm_job_free(j);
	return !done;
}

#define NLM_OPDEF(text, encodes, decodes, ...) \
	NFS_OPDEF(text, encodes, decodes, .begin = nlm_begin, .forget = nlm_forget, __VA_ARGS__)

const struct nfs_opdef nfs3_op_lock = NLM_OPDEF("LOCK", nlm_encode_getattr, nlm_decode_getattr,
	.counted = NFS3_COUNTED_LOCK, .results_max = NFS3_STATUS_XDR + NFS3_ATTR_XDR, .proc = NFSPROC3_GETATTR);
const struct nfs_opdef nfs3_op_lockt = NLM_OPDEF("LOCKT", NULL, NULL, .counted = NFS3_COUNTED_LOCKT);
const struct nfs_opdef nfs3_op_locku = NLM_OPDEF("LOCKU", NULL, NULL, .counted = NFS3_COUNTED_LOCKU);

/* ---- beginning and end ---- */

/* NFS itself answers, so the mount does not try again, and another version is not the remedy. */
static int nlm_no_manager(const struct nlm *n, int rc, const struct errbuf *why, struct errbuf *eb)
{
	if (rc == -ENOENT)
		return err_set(eb, -ENOLCK, "%s has no lock manager for version 3 (its rpcbind does not "
			       "know NLM version 4 over TCP): start it there, or mount with nolock, which "
			       "keeps locks local to this client", n->server->name);
	return err_set(eb, -ENOLCK, "the lock manager of %s cannot be reached (%s): let this host reach "
		       "it (nlmport= is its port), or mount with nolock, which keeps locks local to this client",
		       n->server->name, why->text);
}

static int nlm_start(struct nlm *n, struct errbuf *eb)
{
	struct errbuf why;
	int rc = nlm_wire_open(n, &why);

	if (!rc)
		rc = nlm_wire_null(n, &why);
	if (rc)
		return nlm_no_manager(n, rc, &why, eb);
	rc = thread_start(&n->tid, nlm_run, n);
	n->started = !rc;
	return rc ? err_set(eb, rc, "cannot start a thread: %s", strerror(-rc)) : 0;
}

int nlm_new(struct nfs_server *s, struct nlm **out, struct errbuf *eb)
{
	const struct fab_params *way = &s->path[s->first].way.params;
	struct nlm *n = calloc(1, sizeof(*n));
	pthread_condattr_t attr;
	int rc;

	if (!n)
		return err_set(eb, -ENOMEM, "out of memory");
	n->server = s;
	n->addr = way->server;
	n->local = way->local;
	n->limit_ms = NLM_LIMIT_MS;
	list_init(&n->queue);
	list_init(&n->jobs);
	if (getrandom(&n->id, sizeof(n->id), 0) != sizeof(n->id))
		n->id = mono_ns();
	if (gethostname(n->host, sizeof(n->host) - 1))
		strcpy(n->host, "localhost");
	pthread_mutex_init(&n->mu, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&n->cond, &attr);
	pthread_condattr_destroy(&attr);
	rc = nlm_start(n, eb);
	if (rc)
		nlm_free(n);
	else
		*out = n;
	return rc;
}

/* A call that has no answer yet would take too long. */
static void nlm_hurry_locked(struct nlm *n)
{
	n->stopping = true;
	if (n->busy && n->tcp)
		rpctcp_break(n->tcp);
	pthread_cond_broadcast(&n->cond);
}

bool nlm_stop(struct nlm *n, unsigned timeout_ms)
{
	struct timespec ts;
	unsigned left;
	bool ended;

	if (!n || !n->started)
		return true;
	pthread_mutex_lock(&n->mu);
	nfs_deadline(&ts, n->busy || n->nowners ? END_MS : timeout_ms);
	nlm_hurry_locked(n);
	while (!n->ended && pthread_cond_timedwait(&n->cond, &n->mu, &ts) != ETIMEDOUT)
		;
	ended = n->ended;
	left = ended ? 0 : n->nowners;
	pthread_mutex_unlock(&n->mu);
	if (ended)
		pthread_join(n->tid, NULL);
	if (left)
		log_warn("the lock manager of %s does not answer: locks of %u owners may stay there, until it is "
			 "restarted (see Locks in the man page)", n->server->name, left);
	n->started = !ended;
	return ended;
}

void nlm_free(struct nlm *n)
{
	if (!n)
		return;
	nlm_wire_close(n);
	list_for_each_safe(at, tmp, &n->jobs)
		free(container_of(at, struct nlm_job, all));
	pthread_cond_destroy(&n->cond);
	pthread_mutex_destroy(&n->mu);
	free(n);
}
