/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recovery of lost state (RFC 8881, section 8.4). It runs on the control thread. During the
 * mount it runs on the mounting thread, when there is nothing else yet.
 *
 *   lanes hold:
 *     session lost     CREATE_SESSION with the client id that we have
 *          | STALE_CLIENTID, or any other error: the sequence id may be used up
 *     client id lost   EXCHANGE_ID, CREATE_SESSION
 *          | the server no longer knew us: it restarted, or our lease ended; or it is another one
 *     opens lost       OPEN, CLAIM_PREVIOUS for each (in the grace period); those that the
 *          |           server refuses to reclaim are marked; RECLAIM_COMPLETE. Delegations come
 *          |           with their opens, or are forgotten (nfs4_regain.c). Another scope: all are marked, see below
 *   lanes go on, also if the server says DELAY to that, or refuses it:
 *     opens revoked    TEST_STATEID; they are marked (nfs4_revoked.c)
 *     stateid lost     FREE_STATEID, OPEN, CLAIM_FH for those that are marked
 *
 * The order matters. Before RECLAIM_COMPLETE a server answers CLAIM_FH with GRACE, even if
 * there is no grace period (RFC 8881, section 18.51.3), and would do so for ever.
 *
 * All calls wait for what is reclaimed. So a server that says "later" to that has a lease period, since one that
 * always does must not stop the mount for ever. Then an open counts as one that is not reclaimed, and a lock is lost.
 *
 * While the lanes go on, calls with a marked open wait, and no others (nfs4_open_ready()). The
 * server may say DELAY to OPEN, for as long as it takes to recall a delegation from a client that
 * is dead; or to FREE_STATEID, or RECLAIM_COMPLETE. Then the others have their turn, the lanes
 * try what has been recovered, and the control thread begins again after a while, with what is
 * left.
 *
 * A lane reads the stateid when it encodes a call, without a lock. So before recovery writes it,
 * the open is marked, recovery has taken it (holder), and all lanes have run a message: after
 * that no lane is encoding a call that had seen it unmarked, and none begins to. What was sent
 * before is refused, which marks the open once more; to open it again does no harm. The mark goes
 * when the locks of the open are reclaimed, or known to be lost: an open that is good again, and
 * whose locks are not known to be lost yet, would let a WRITE pass.
 *
 * Who else acts in between:
 *   a CLOSE of that open     takes the open before recovery does, and it is left alone: the server
 *                            says BAD_STATEID, and it is closed. Or it waits until this OPEN
 *                            has its answer, DELAY included, and not until the file is open.
 *   another open of the file has an owner and a stateid of its own. It may be told DELAY, and
 *                            waits by itself.
 *   a lane that loses the stateid again  has it marked, and asks for another recovery. An open
 *                            that is marked too late for this one is not touched by it.
 *   a session that is lost   ends the control call under way with -EAGAIN: what recovery had
 *                            taken is free again, marked as before, and the next round holds.
 *   a soft mount's clock     ends calls that wait. CLOSE then leaves the open to the server, as
 *                            always; what recovery works on has a reference.
 *   the unmount              stops this thread (-ESHUTDOWN). What recovery had taken it keeps,
 *                            because the lane may still be at it; its CLOSE is never sent, and
 *                            the server forgets all with the client id.
 *
 * Another scope: "the client should not attempt to reclaim locks" (RFC 8881, section 8.4.2.1; opens are locks
 * there), since a server that grants a reclaim in its grace period takes our word for what another one had
 * granted. What was locked is lost, as where there is no grace period, and opens are opened again as those
 * that are revoked (nfs4_revoked.c). The server's name alone does not matter: "if the server scope is the
 * same, the client should attempt to reclaim locks, even if the eir_server_owner value is different".
 *
 * ACCESS is no end. A file that was made with mode 0444, or got it later, stays open on a local file system, and
 * has to here. But Linux judges a reclaim by the mode, as any OPEN. So the file is opened for less: for what the
 * program needs (nfs_open.needed), to read, to write, or not at all. The rest goes by the anonymous stateid
 * (nfs4_io_stateid()): a server judges each such READ and WRITE by itself, and Linux lets a file's owner do both
 * whatever the mode is. In its grace period it has them wait. If it refuses one, fsync() and close() say so, as
 * ever. Locks need an open: those to write are lost with one to write.
 *
 * An open that the server does not open again otherwise is lost: I/O on it fails with EIO, and the log
 * says so once. A reply that is no answer (cut, garbled, or ERR_CHUNK in its place) does not
 * say that. Then the OPEN is sent again, TRIES times in all, with pauses: it has the same
 * owner, so it does no harm that the server may have executed it. When all tries of one open
 * were in vain the server does this always, and the others have theirs without pauses.
 *
 * If the server or the connection fails during this, control calls take any lane that has a
 * connection, or wait for one. Executing them twice does no harm. -EAGAIN from one of them
 * means that more state was lost, and everything starts from the top. -ESHUTDOWN: the mount
 * ends.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include "nfs/nfs4/nfs4_impl.h"

/* Rounds before nfs4_recover() returns; the control thread then pauses and calls it
 * again. */
#define ROUNDS 4u
/* How often an OPEN is sent that gets no answer. */
#define TRIES  5u
#define NS_PER_S UINT64_C(1000000000)

bool nfs4_reclaims_too_long(struct nfs4_client *n)
{
	uint64_t now = mono_ns();

	n->later_ns = n->later_ns ? n->later_ns : now;
	return now - n->later_ns >= atomic_load(&n->lease_s) * NS_PER_S;
}

/* "Later": it has said so for too long. */
static bool no_reclaim(nfsstat4 status)
{
	return nfs4_is_later(status) || status == NFS4ERR_NO_GRACE || status == NFS4ERR_RECLAIM_BAD ||
	       status == NFS4ERR_RECLAIM_CONFLICT;
}

static int reopen_as(struct nfs_server *s, struct nfs_open *o, bool reclaim, nfsstat4 *status)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return -ENOMEM;
	k->cred = o->cred;
	k->reclaim = reclaim;
	k->c.open = o;
	/* The call's own reference: if the mount ends meanwhile, a lane still uses the
	 * open. */
	nfs4_open_get(o);
	rc = nfs4_run(s, k, NFS4_OP_REOPEN, 0, &k);
	if (!k)
		return rc;
	nfs4_open_put(o);
	*status = k->status;
	free(k);
	return rc;
}

/* The call has come to its end without the server's answer to the OPEN. */
static bool no_answer(int rc, nfsstat4 status)
{
	return rc == -EIO && status == NFS4_OK;
}

static int reopen_tries(struct nfs_server *s, struct nfs_open *o, bool reclaim, bool *in_vain,
			nfsstat4 *status)
{
	int rc;

	/* Each OPEN without an answer costs a slot. When the session has none left, recovery
	 * begins again with another session, and the count goes on. */
	do {
		if (o->unanswered && !*in_vain)
			nfs_control_nap(s->client, nfs_times_of(&s->client->cfg)->later_ms <<
					(o->unanswered - 1));
		*status = NFS4_OK;
		rc = reopen_as(s, o, reclaim, status);
		if (!no_answer(rc, *status)) {
			if (rc == 0 || *status != NFS4_OK)
				o->unanswered = 0;
			return rc;
		}
	} while (++o->unanswered < TRIES);
	o->unanswered = 0;
	*in_vain = true;
	return rc;
}

/* For less than before, or nothing at all; see the head of this file. */
static int reopen_narrower(struct nfs_server *s, struct nfs_open *o, bool reclaim, bool *in_vain,
			   nfsstat4 *status)
{
	const uint32_t had = o->access;
	const uint32_t less[] = { o->needed, OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE };
	int rc = reopen_tries(s, o, reclaim, in_vain, status);

	for (unsigned i = 0; i < 3 && rc && *status == NFS4ERR_ACCESS; i++) {
		if ((less[i] & had) != less[i] || less[i] == o->access || less[i] == had)
			continue;
		o->access = less[i];
		rc = reopen_tries(s, o, reclaim, in_vain, status);
	}
	if (rc && *status == NFS4ERR_ACCESS) {
		o->access = 0;
		rc = 0;
	}
	/* No answer to the last of these: the next time begins with all of it. */
	if (rc)
		o->access = had;
	if (!rc && (o->needed & ~o->access) && o->access != had)
		log_info("a file on %s is open there for less than before, because its mode does not let its user "
			 "open it again: the server decides about each read and write", s->name);
	return rc;
}

static bool may_not_go_on(int rc)
{
	return rc == -EAGAIN || rc == -ESHUTDOWN || rc == -ENOMEM;
}

/* It is opened again, after RECLAIM_COMPLETE, and somebody else may have had its locks. */
static int not_reclaimed(struct nfs_server *s, struct nfs_open *o)
{
	nfs4_locks_gone(s, o);
	atomic_store(&o->reopen, true);
	return 0;
}

/* Before the stateid is another one. What is reclaimed has lost the old one anyway. Not 0: NFS_LATER, or recovery
 * cannot go on. */
static int nfs4_recover_free(struct nfs_server *s, struct nfs_open *o, bool reclaim)
{
	int rc;

	if (!atomic_exchange(&o->to_free, false) || reclaim)
		return 0;
	rc = nfs4_free_stateid(s, &o->stateid);
	if (rc != NFS_LATER && !may_not_go_on(rc))
		return 0;
	atomic_store(&o->to_free, true);
	((struct nfs4_client *)s->vdata)->delayed += rc == NFS_LATER;
	return rc;
}

/* 0: the open is good again, marked for later, or lost for good. */
static int nfs4_recover_reopen(struct nfs_server *s, struct nfs_open *o, bool reclaim,
			       bool *in_vain)
{
	struct nfs4_client *n = s->vdata;
	stateid4 old = o->stateid;
	nfsstat4 status;
	int rc;

	if (!o->access) {
		atomic_store(&o->reopen, false);
		return 0;
	}
	rc = nfs4_recover_free(s, o, reclaim);
	if (rc)
		return rc == NFS_LATER ? 0 : rc;
	if (reclaim && n->opens_are == NFS4_OPENS_ELSEWHERE)
		return not_reclaimed(s, o);
	rc = reopen_narrower(s, o, reclaim, in_vain, &status);
	/* The status may be of an earlier answer, if its call ended with the session. */
	if (rc && reclaim && !may_not_go_on(rc) && no_reclaim(status))
		return not_reclaimed(s, o);
	if (rc && nfs4_is_later(status) && !reclaim) {
		n->delayed++;
		return 0;
	}
	if (rc == 0 && !o->access)
		nfs4_locks_gone(s, o);
	else if (rc == 0 && reclaim)
		rc = nfs4_locks_reclaim(s, o);
	/* The same stateid: the open was never gone. It may also be a call that has failed behind
	 * its OPEN that has brought another one. */
	else if (!reclaim && memcmp(old.other, o->stateid.other, NFS4_OTHER_SIZE))
		nfs4_locks_gone(s, o);
	/* A lane was told so while OPEN was on its way. */
	if (rc == 0 && !reclaim && memcmp(old.other, o->stateid.other, NFS4_OTHER_SIZE) &&
	    atomic_exchange(&o->to_free, false))
		nfs4_free_stateid(s, &old);
	/* Its I/O goes on, so not before its locks are settled. */
	if (rc == 0)
		atomic_store(&o->reopen, false);
	if (rc == 0 || may_not_go_on(rc))
		return rc;
	if (!atomic_exchange(&o->lost, true))
		log_err("an open file on %s was lost with the server's state and could not be "
			"opened again: %s; reads and writes on it fail", s->name, strerror(-rc));
	atomic_store(&o->reopen, false);
	return 0;
}

static void nfs4_recover_nothing(struct nfs_lane *l, void *arg)
{
}

/* Takes those that are to be opened again. After that no lane looks at them. False: there are
 * none. */
static bool take_opens(struct nfs_server *s, bool all)
{
	struct nfs_open *o = NULL;
	bool any = false;

	while ((o = nfs4_next_open(s->vdata, o))) {
		enum nfs4_holder was = NFS4_FREE;

		if (nfs4_is_ours(o) && (all || atomic_load(&o->reopen)) &&
		    atomic_compare_exchange_strong(&o->holder, &was, NFS4_RECOVERED))
			any = true;
	}
	if (any)
		nfs_each_lane(s->client, nfs4_recover_nothing, NULL);
	return any;
}

static int reopen_all(struct nfs_server *s, bool reclaim)
{
	struct nfs_open *o = NULL;
	bool in_vain = false;
	unsigned count = 0;
	int rc = 0;

	if (!take_opens(s, reclaim))
		return 0;
	while (rc != -ESHUTDOWN && (o = nfs4_next_open(s->vdata, o))) {
		if (atomic_load(&o->holder) != NFS4_RECOVERED)
			continue;
		if (!rc)
			rc = nfs4_recover_reopen(s, o, reclaim, &in_vain);
		if (rc != -ESHUTDOWN)
			atomic_store(&o->holder, NFS4_FREE);
		count += !rc && !atomic_load(&o->reopen) && !atomic_load(&o->lost);
	}
	if (o)
		nfs4_open_put(o);
	if (!rc && count && !s->client->control->quiet)
		log_info("%u open files recovered on %s", count, s->name);
	return rc;
}

int nfs4_reclaim_complete(struct nfs_server *s, bool once)
{
	struct nfs4_client *n = s->vdata;
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return -ENOMEM;
	k->once = once;
	rc = nfs4_run(s, k, NFS4_OP_RECLAIM_COMPLETE, 0, &k);
	if (!k)
		return rc;
	if (rc && nfs4_is_later(k->status))
		rc = NFS_LATER;
	free(k);
	if (rc)
		return rc;
	/* The flag was about this restart. If it comes again, it is about another one. */
	atomic_store(&n->reclaimed_ns, mono_ns());
	atomic_fetch_and(&n->said, ~(uint32_t)SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
	atomic_store(&n->need_complete, false);
	return 0;
}

static int new_clientid(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	nfsstat4 status = NFS4_OK;
	int rc;

	atomic_store(&n->need_client, false);
	rc = nfs4_new_clientid(s, &status);
	if (rc) {
		atomic_store(&n->need_client, true);
		return rc;
	}
	atomic_store(&n->need_session, true);
	return 0;
}

static int new_session(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	nfsstat4 status = NFS4_OK;
	int rc;

	atomic_store(&n->need_session, false);
	rc = nfs4_new_session(s, &status);
	if (!rc)
		return 0;
	atomic_store(&n->need_session, true);
	/* What the server has refused is answered the same for ever, as long as the sequence id is the same. */
	if (status)
		atomic_store(&n->need_client, true);
	/* A new EXCHANGE_ID cures each. CLID_INUSE: Linux takes a client id from the address only that has asked
	 * for it. */
	if (status == NFS4ERR_STALE_CLIENTID || status == NFS4ERR_SEQ_MISORDERED || status == NFS4ERR_CLID_INUSE) {
		nfs4_belief_doubt(&n->belief);
		return -EAGAIN;
	}
	return rc;
}

/* While all lanes hold. */
static int begin_again(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	bool session;
	int rc = 0;

	if (atomic_load(&n->need_client))
		rc = new_clientid(s);
	session = !rc && atomic_load(&n->need_session);
	if (session)
		rc = new_session(s);
	if (rc)
		return rc;
	if (atomic_exchange(&n->need_opens, false))
		n->opens_are = MAX(n->opens_are, NFS4_OPENS_FORGOTTEN);
	if (n->opens_are == NFS4_OPENS_KNOWN) {
		if (session)
			nfs4_delegs_drop_all(s);        /* some may have been wanted back meanwhile */
		return 0;
	}
	nfs4_regain_begins(&n->delegs);
	n->later_ns = 0;
	rc = reopen_all(s, true);
	if (rc)
		return rc;
	nfs4_regain_ends(&n->delegs);
	n->opens_are = NFS4_OPENS_KNOWN;
	atomic_store(&n->need_complete, true);
	return 0;
}

/* Without it the server may refuse other calls, with GRACE, but it need not: they do not wait here. */
static int tell_complete(struct nfs_server *s, bool first)
{
	int rc = nfs4_reclaim_complete(s, true);

	if (rc >= 0 || may_not_go_on(rc))
		return rc;
	if (first)
		log_warn("%s refuses RECLAIM_COMPLETE, which ends recovery: %s; trying again", s->name, strerror(-rc));
	return NFS_LATER;
}

/* Whose calls wait, although the server is there. */
static int say_delayed(struct nfs_server *s, unsigned before)
{
	struct nfs4_client *n = s->vdata;

	if (n->delayed && !before)
		log_warn("%s delays the recovery of %u open files (NFS4ERR_DELAY): reads and writes of "
			 "them wait", s->name, n->delayed);
	return n->delayed ? NFS_LATER : 0;
}

static bool is_about_more(struct nfs4_client *n)
{
	return n->opens_are != NFS4_OPENS_KNOWN || atomic_load(&n->need_client) || atomic_load(&n->need_session) ||
	       atomic_load(&n->need_opens);
}

/* NFS_LATER: some stateids could not be freed yet. */
static int test_stateids(struct nfs_server *s)
{
	int rc = nfs4_test_opens(s), later;

	if (rc)
		return rc;
	later = nfs4_locks_test(s);
	rc = later < 0 ? later : nfs4_test_delegs(s);
	return rc ? rc : later;
}

static int round_of(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	unsigned before = n->delayed;
	bool hold = is_about_more(n);
	int rc = 0, later = 0;

	if (hold) {
		n->lease_is_old = true;
		nfs_lanes_hold(s->client);
		rc = begin_again(s);
	}
	if (!rc && atomic_load(&n->need_complete))
		rc = tell_complete(s, hold);
	if (hold && rc >= 0)
		nfs_lanes_go_on(s->client);
	if (!rc && atomic_load(&n->need_test))
		later = test_stateids(s);
	if (rc || later < 0)
		return rc ? rc : later;
	n->delayed = 0;
	rc = reopen_all(s, false);
	if (!rc)
		rc = say_delayed(s, before);
	return rc ? rc : later;
}

int nfs4_recover(struct nfs_server *s)
{
	/* n->opens_are is kept from call to call: the opens must be reclaimed until that
	 * has succeeded. */
	struct nfs4_client *n = s->vdata;
	bool more_than_opens = false;
	int rc = -EAGAIN;

	for (unsigned i = 0; i < ROUNDS && rc == -EAGAIN; i++) {
		more_than_opens = more_than_opens || is_about_more(n);
		rc = round_of(s);
	}
	/* Single opens are lost only as often as calls use them, so that needs no
	 * pauses. */
	s->client->control->counts = more_than_opens;
	if (rc == 0 && more_than_opens && !s->client->control->quiet)
		log_info("state on %s recovered", s->name);
	return rc;
}
