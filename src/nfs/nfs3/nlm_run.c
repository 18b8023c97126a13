/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NLM's thread: one try of a job after the other. A job that has no answer goes to the end of the queue,
 * and is given more time the next time; so a file that the server cannot lock delays others, and does not
 * stop them. See nlm.h.
 */
#include <errno.h>
#include "nfs/nfs3/nfs3_impl.h"
#include "nfs/nfs3/nlm.h"

/* So often is the server asked whether it is there, while locks are held. Its grace period is longer. */
#define LOOK_MS      5000u
/* The first pause after a connection that has failed, and before the next try of what is left to do;
 * it doubles so many times. */
#define RETRY_MS     500u
#define RETRY_SHIFT  4u
/* A call's limit: 10, 20, 40 s, and then this. */
#define LIMIT_MAX_MS 60000u
#define LIMIT_SHIFT  3u
/* After so many answers in a row that say nothing about it a call ends with EIO. */
#define USELESS_MAX  3u

/* ---- what is said ---- */

/* The end of the mount breaks the connection. */
static void run_log_silence(struct nlm *n, bool silent, const char *why)
{
	if (silent && nlm_is_stopping(n))
		return;
	if (silent && !n->log_silent)
		log_warn("the lock manager of %s does not answer (%s); still trying", n->server->name, why);
	else if (!silent && n->log_silent)
		log_info("the lock manager of %s answers again", n->server->name);
	n->log_silent = silent;
}

static void run_log_refusal(struct nlm *n, int stat)
{
	bool refuses = stat == NLM4_FAILED || stat == NLM4_DENIED_NOLOCKS;

	if (refuses && !n->log_refuses)
		log_warn("the lock manager of %s gives no locks (NLM status %d)", n->server->name, stat);
	n->log_refuses = refuses;
}

static void run_log_nsm(struct nlm *n)
{
	if (!n->log_nsm)
		log_info("locks on %s: if %sthis daemon is killed, what was locked stays locked there, until "
			 "its lock manager is restarted (see Locks in the man page)", n->server->name,
			 n->monitored ? "" : "this host crashes, or ");
	n->log_nsm = true;
}

/* ---- answers ---- */

static int run_granted(struct nlm *n, struct nlm_job *j)
{
	switch (j->op) {
	case NFS_OP_LOCK:
		run_log_nsm(n);
		return nlm_held_add(n, &j->who, j->range, &j->res);
	case NFS_OP_LOCKU:
		j->res.held = nlm_held_any(n, j->who.number);
		return 0;
	default:
		return 0;
	}
}

/* The server has restarted, and the connection did not tell. If that fails, the next one does it. */
static int run_in_grace(struct nlm *n)
{
	struct errbuf why;

	if (!n->grace) {
		nlm_held_outdated(n);
		nlm_held_settle(n, false, &why);
	}
	n->grace = true;
	return NFS_LATER;
}

static int run_result(struct nlm *n, struct nlm_job *j, int stat)
{
	if (stat == NLM4_DENIED_GRACE_PERIOD)
		return run_in_grace(n);
	n->grace = false;
	run_log_refusal(n, stat);
	switch (stat) {
	case NLM4_GRANTED:
		return run_granted(n, j);
	case NLM4_DENIED:
		return j->op == NFS_OP_LOCKU ? -ENOLCK : -EAGAIN;
	case NLM4_DENIED_NOLOCKS:
	case NLM4_FAILED:
		return -ENOLCK;
	case NLM4_DEADLCK:
		return -EDEADLK;
	case NLM4_ROFS:
		return -EROFS;
	case NLM4_STALE_FH:
		return -ESTALE;
	case NLM4_FBIG:
		return -EOVERFLOW;
	default:
		/* BLOCKED: nobody has asked for that. */
		log_err("%s on %s: the lock manager's answer makes no sense (NLM status %d)",
			j->op == NFS_OP_LOCK ? "LOCK" : j->op == NFS_OP_LOCKU ? "LOCKU" : "LOCKT",
			n->server->name, stat);
		return -EIO;
	}
}

/* ---- a try ---- */

static int run_connect(struct nlm *n, struct errbuf *why)
{
	int rc;

	n->limit_ms = NLM_LIMIT_MS;
	rc = nlm_wire_open(n, why);
	if (rc)
		return rc;
	nlm_held_outdated(n);
	rc = nlm_held_settle(n, false, why);
	n->grace = n->nowners && n->reclaims;
	return rc;
}

static int run_call(struct nlm *n, struct nlm_job *j, struct errbuf *why)
{
	n->limit_ms = j->silent < LIMIT_SHIFT ? NLM_LIMIT_MS << j->silent : LIMIT_MAX_MS;
	switch (j->op) {
	case NFS_OP_LOCK:
		nlm_watch(n);
		return nlm_wire_lock(n, &j->who, j->range, false, why);
	case NFS_OP_LOCKU:
		return nlm_held_unlock(n, j->who.number, why);
	default:
		if (nlm_held_test(n, &j->who, j->range, &j->res))
			return NLM4_DENIED;
		return nlm_wire_test(n, &j->who, j->range, &j->res, why);
	}
}

/* Neither a status nor a connection that was lost. */
static bool run_is_useless(int rc)
{
	return rc == -EBADMSG || rc == -EMSGSIZE || nlm_wire_refused(rc);
}

/* The thread may do with it what changes something at the server. false: nobody waits for it, and nothing
 * has been done. */
static bool run_begins(struct nlm *n, struct nlm_job *j)
{
	bool wanted;

	pthread_mutex_lock(&n->mu);
	wanted = (j->call || j->op == NFS_OP_LOCKU) && !n->stopping;
	j->begun = j->begun || wanted;
	pthread_mutex_unlock(&n->mu);
	return wanted;
}

/* false: there was no answer. */
static bool run_try(struct nlm *n, struct nlm_job *j)
{
	bool fresh = !n->tcp, calls = false;
	struct errbuf why;
	int rc = 0;

	if (j->op == NFS_OP_LOCKU && !j->begun)
		nlm_held_leave(n, &j->who, j->range);
	j->status = -EIO;
	if (!run_begins(n, j))
		return true;
	if (fresh)
		rc = run_connect(n, &why);
	if (!rc) {
		calls = true;
		rc = run_call(n, j, &why);
	}
	if (rc >= 0) {
		n->shift = 0;
		run_log_silence(n, false, NULL);
		j->status = run_result(n, j, rc);
		return true;
	}
	j->lost = j->lost || calls;
	j->silent += calls && rc == -ETIMEDOUT;
	j->useless = calls && run_is_useless(rc) ? j->useless + 1 : 0;
	if (j->useless == USELESS_MAX) {
		log_err("%s", why.text);
		return true;
	}
	/* The server may have closed an old one because it was idle. */
	if (fresh)
		run_log_silence(n, true, why.text);
	return false;
}

/* ---- a job ---- */

static void run_pause(struct nlm *n)
{
	struct timespec ts;

	nfs_deadline(&ts, RETRY_MS << n->shift);
	n->shift += n->shift < RETRY_SHIFT;
	pthread_mutex_lock(&n->mu);
	while (!n->stopping && pthread_cond_timedwait(&n->cond, &n->mu, &ts) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&n->mu);
}

/* true: the thread has it still, because nobody waits for it any more. */
static bool run_is_left(struct nlm *n, struct nlm_job *j, bool again)
{
	bool left;

	pthread_mutex_lock(&n->mu);
	left = !j->call;
	j->done = !left && !again;
	if (again && !left)
		list_add_tail(&n->queue, &j->node);
	pthread_mutex_unlock(&n->mu);
	return left;
}

/* A LOCK that has failed. An earlier try may have been granted, unless this one was denied: one is not in
 * one's own way. */
static bool run_may_be_locked(const struct nlm_job *j)
{
	return j->op == NFS_OP_LOCK &&
	       (j->status == -EIO || (j->lost && j->status && j->status != -EAGAIN));
}

static void run_job(struct nlm *n, struct nlm_job *j)
{
	bool fresh = !n->tcp, answered = run_try(n, j);
	struct nfs_lane *lane = j->lane;
	struct errbuf why;

	if (answered && run_may_be_locked(j))
		nlm_held_doubt(n, &j->who, j->range);
	if (run_is_left(n, j, !answered)) {
		if (j->op == NFS_OP_LOCK && !j->status && !j->res.had)
			nlm_held_leave(n, &j->who, j->range);
		else if (j->op == NFS_OP_LOCK && !answered)
			nlm_held_doubt(n, &j->who, j->range);
		if (n->tcp)
			nlm_held_unlock(n, j->who.number, &why);
		nlm_job_free(j);
	} else if (answered) {
		loop_post(lane->loop, &j->m);
	}
	if (!answered && fresh)
		run_pause(n);
}

/* ---- its life ---- */

/* There is nothing to do, and something is held, or left to do. */
static void run_look(struct nlm *n)
{
	bool fresh = !n->tcp;
	struct errbuf why;
	int rc;

	n->limit_ms = NLM_LIMIT_MS;
	if (fresh)
		rc = run_connect(n, &why);
	else
		rc = n->pending ? nlm_held_settle(n, true, &why) : nlm_wire_null(n, &why);
	if (fresh)
		run_log_silence(n, rc, why.text);
	if (!rc && !n->pending)
		n->shift = 0;
	else
		n->shift += n->shift < RETRY_SHIFT;
}

/* NULL: it is time to look, or the end. */
static struct nlm_job *run_next_locked(struct nlm *n)
{
	struct timespec ts;
	struct list *first;
	int rc = 0;

	nfs_deadline(&ts, n->tcp && !n->pending ? LOOK_MS : RETRY_MS << n->shift);
	n->busy = false;
	while (!n->stopping && list_empty(&n->queue) && rc != ETIMEDOUT)
		rc = n->nowners ? pthread_cond_timedwait(&n->cond, &n->mu, &ts) :
				  pthread_cond_wait(&n->cond, &n->mu);
	n->busy = true;
	first = n->stopping ? NULL : list_pop(&n->queue);
	return first ? container_of(first, struct nlm_job, node) : NULL;
}

/* What is in the queue is not answered any more. */
static void run_end(struct nlm *n)
{
	pthread_mutex_lock(&n->mu);
	list_for_each_entry(struct nlm_job, j, &n->queue, node)
		if (j->op == NFS_OP_LOCKU && !j->begun)
			nlm_held_leave(n, &j->who, j->range);
		else if (j->op == NFS_OP_LOCK && j->begun)
			nlm_held_doubt(n, &j->who, j->range);
	pthread_mutex_unlock(&n->mu);
	nlm_held_end(n);
	nlm_wire_close(n);
}

void *nlm_run(void *nlm)
{
	struct nlm *n = nlm;

	pthread_mutex_lock(&n->mu);
	while (!n->stopping) {
		struct nlm_job *j = run_next_locked(n);
		bool look = !j && !n->stopping;

		pthread_mutex_unlock(&n->mu);
		if (j)
			run_job(n, j);
		else if (look)
			run_look(n);
		pthread_mutex_lock(&n->mu);
	}
	pthread_mutex_unlock(&n->mu);
	run_end(n);
	pthread_mutex_lock(&n->mu);
	n->ended = true;
	pthread_cond_broadcast(&n->cond);
	pthread_mutex_unlock(&n->mu);
	return NULL;
}
