/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is the server at the other end of a new connection the one that is mounted, and may the
 * connection join the session (RFC 8881, sections 2.10.4, 2.10.5, 2.10.5.1)?
 *
 *   WHO     EXCHANGE_ID           who are you? --another--> LEAVE   DESTROY_CLIENTID
 *    |                                                        +--> refused
 *   FORGET  DESTROY_CLIENTID      nothing is left there
 *    |
 *   JOIN    BIND_CONN_TO_SESSION  the newest session
 *    +--> used
 *
 * Threads: a check belongs to its lane. Any number of lanes check connections at a time, while
 * the control thread may be recovering state. So EXCHANGE_ID has an owner of its own for each
 * lane, and never touches the client id of the mount. Sent with the mount's owner, it would
 * replace a client id that the control thread has got and not confirmed yet. A client id that
 * is not confirmed has no state, and two checks of a lane may take it from each other.
 *
 * A server moves only if no lane has a connection to the old one. If two checks find two servers
 * then, the first one decides: nobody moves after another check has ended well, and a check ends
 * well only if the identity (nfs4_identity.c) has not changed since it was compared.
 *
 * Two servers may say the same names, a machine and its copy for example. They cannot both have
 * the session. So a server that does not know it is not believed while others are connected: if
 * it is the right one it has lost the session, others find that, and it will know the next one.
 * If no lane is connected, whatever is there is all there is, and recovery may need this very
 * connection.
 *
 * But the others may be connected only in name: the server has restarted, and their path is dead
 * without a word. Heartbeats find that as long as somebody else answers (heartbeat.c). So on a path
 * that has led to the server before, the check goes on asking for the time of two heartbeats.
 *
 * When the connection dies, the check ends. Then at most a client id is left on the server
 * that was never confirmed. The next check of the lane replaces it, or it ends with its lease.
 */
#include <stdio.h>
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

enum { STEP_WHO, STEP_FORGET, STEP_LEAVE, STEP_JOIN };

enum {
	WORD_CLIENTID,                  /* what EXCHANGE_ID has made */
	WORD_JOINS,                     /* STEP_WHO: identity.now.joins when it was sent */
	WORD_VERDICT = WORD_JOINS,      /* STEP_LEAVE: the -errno, positive */
	WORD_SESSION = WORD_JOINS,      /* STEP_JOIN, two words: the session id that was sent */
	WORD_SINCE = WORD_CLIENTID,     /* STEP_JOIN: when the session was first not known there */
	WORD_CHANGES = 3,               /* identity.now.changes as last seen */
};
_Static_assert(NFS4_SESSIONID_SIZE == 2 * sizeof(uint64_t), "it has two words");
_Static_assert(NFS4_CONTROL_MAX <= NFS_CHECK_RESULTS_MAX, "the replies are longer");

/* ---- steps ---- */

static bool is_recovering(struct nfs4_client *n)
{
	return atomic_load(&n->need_client) || atomic_load(&n->need_session);
}

/* The connection may be used if the server is still the one that it was compared with. */
static int nfs4_check_end(struct nfs_target *t, struct nfs_check *k)
{
	struct nfs4_client *n = t->server->vdata;

	return nfs4_identity_join(&n->identity, k->word[WORD_CHANGES], &k->why);
}

static int nfs4_check_join(struct nfs_target *t, struct nfs_check *k)
{
	struct nfs4_client *n = t->server->vdata;
	char id[NFS4_SESSIONID_SIZE];

	if (!nfs4_slots_session(&n->slots, id) || (is_recovering(n) && !nfs_server_is_up(t->server)))
		return nfs4_check_end(t, k);
	k->step = STEP_JOIN;
	k->word[WORD_SINCE] = 0;
	return NFS_NEXT;
}

/* ---- EXCHANGE_ID ---- */

static bool_t put_who(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	struct nfs4_client *n = t->server->vdata;
	char owner[sizeof(n->owner) + 32];
	struct nfs4_seen seen;
	EXCHANGE_ID4args a = {
		.eia_flags = EXCHGID4_FLAG_USE_NON_PNFS,
		.eia_state_protect.spa_how = SP4_NONE,
	};

	snprintf(owner, sizeof(owner), "%s path %u", n->owner, t->lane->index);
	a.eia_clientowner.co_ownerid = nfs_ref_str(owner);
	memcpy(a.eia_clientowner.co_verifier, n->verifier, NFS4_VERIFIER_SIZE);
	seen = nfs4_identity_look(&n->identity);
	k->word[WORD_CHANGES] = seen.changes;
	k->word[WORD_JOINS] = seen.joins;
	return nfs4_put_op(x, OP_EXCHANGE_ID) && xdr_EXCHANGE_ID4args(x, &a);
}

static int take_who(struct nfs_target *t, struct nfs_check *k, const EXCHANGE_ID4resok *ok)
{
	struct nfs4_client *n = t->server->vdata;
	struct nfs4_seen seen = { k->word[WORD_CHANGES], k->word[WORD_JOINS] };
	struct nfs4_names its;
	int rc;

	nfs4_names_of(&its, ok);
	rc = nfs4_identity_compare(&n->identity, &its, k->may_move && !nfs_server_is_up(t->server), &seen,
				   t->server->name, &k->why);
	k->word[WORD_CHANGES] = seen.changes;
	if (ok->eir_flags & EXCHGID4_FLAG_CONFIRMED_R)
		return rc ? rc : nfs4_check_join(t, k);
	k->word[WORD_CLIENTID] = ok->eir_clientid;
	k->word[WORD_VERDICT] = (uint64_t)-rc;
	k->step = rc ? STEP_LEAVE : STEP_FORGET;
	return NFS_NEXT;
}

static int nfs4_check_malformed(struct nfs_check *k, const char *op)
{
	return err_set(&k->why, -EBADMSG, "its answer to %s is malformed", op);
}

static int nfs4_check_refused(struct nfs_check *k, const char *op, nfsstat4 status)
{
	int rc = nfs4_errno(status);

	if (status == NFS4ERR_DELAY || status == NFS4ERR_GRACE)
		return NFS_LATER;
	/* -EXDEV would say that it is another server. */
	return err_set(&k->why, rc == -EXDEV ? -EIO : rc, "it refuses %s: %s (status %d)", op,
		       strerror(-rc), (int)status);
}

static int get_who(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	static const char name[] = "EXCHANGE_ID";
	EXCHANGE_ID4res r;
	int rc;

	memset(&r, 0, sizeof(r));
	if (nfs4_get_op(x, OP_EXCHANGE_ID) || !xdr_EXCHANGE_ID4res(x, &r))
		rc = nfs4_check_malformed(k, name);
	else if (r.eir_status)
		rc = nfs4_check_refused(k, name, r.eir_status);
	else
		rc = take_who(t, k, &r.EXCHANGE_ID4res_u.eir_resok4);
	xdr_free((xdrproc_t)xdr_EXCHANGE_ID4res, (char *)&r);
	return rc;
}

/* ---- DESTROY_CLIENTID ---- */

static bool_t put_forget(const struct nfs_check *k, XDR *x)
{
	DESTROY_CLIENTID4args a = { .dca_clientid = k->word[WORD_CLIENTID] };

	return nfs4_put_op(x, OP_DESTROY_CLIENTID) && xdr_DESTROY_CLIENTID4args(x, &a);
}

/* Whatever its status is: the client id ends with its lease, too. */
static int nfs4_check_forgotten(struct nfs_target *t, struct nfs_check *k)
{
	return k->step == STEP_LEAVE ? -(int)k->word[WORD_VERDICT] : nfs4_check_join(t, k);
}

static int get_forget(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	uint32_t op;
	nfsstat4 status;

	if (!xdr_uint32_t(x, &op) || (op != OP_DESTROY_CLIENTID && op != OP_ILLEGAL) ||
	    !xdr_nfsstat4(x, &status))
		return nfs4_check_malformed(k, "DESTROY_CLIENTID");
	return nfs4_check_forgotten(t, k);
}

/* ---- BIND_CONN_TO_SESSION ---- */

/* As for the mount's own connection (encode_create_session()): for both directions, if the session
 * has both, and RDMA from the beginning, not stepped up. */
static bool_t put_join(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	struct nfs4_client *n = t->server->vdata;
	BIND_CONN_TO_SESSION4args a = {
		.bctsa_dir = atomic_load(&n->back.has) ? CDFC4_FORE_OR_BOTH : CDFC4_FORE,
		.bctsa_use_conn_in_rdma_mode = FALSE,
	};

	nfs4_slots_session(&n->slots, a.bctsa_sessid);
	memcpy(&k->word[WORD_SESSION], a.bctsa_sessid, sizeof(a.bctsa_sessid));
	return nfs4_put_op(x, OP_BIND_CONN_TO_SESSION) && xdr_BIND_CONN_TO_SESSION4args(x, &a);
}

/* Is there a newer session than the one that was sent? Then the same step comes again. */
static bool is_replaced(struct nfs4_client *n, const struct nfs_check *k)
{
	char id[NFS4_SESSIONID_SIZE];

	nfs4_slots_session(&n->slots, id);
	return memcmp(id, &k->word[WORD_SESSION], sizeof(id));
}

static int nfs4_check_joined(struct nfs_target *t, struct nfs_check *k,
			     const BIND_CONN_TO_SESSION4resok *ok)
{
	if (memcmp(ok->bctsr_sessid, &k->word[WORD_SESSION], NFS4_SESSIONID_SIZE))
		return err_set(&k->why, -EPROTO, "it joined the connection to another session than asked for");
	if (ok->bctsr_dir != CDFS4_FORE && ok->bctsr_dir != CDFS4_BOTH)
		return err_set(&k->why, -EPROTO, "it joined the connection to the session for callbacks only");
	if (ok->bctsr_use_conn_in_rdma_mode)
		return err_set(&k->why, -EPROTO, "it steps the connection up to RDMA, which it is already");
	return is_replaced(t->server->vdata, k) ? NFS_NEXT : nfs4_check_end(t, k);
}

#define NS_PER_MS 1000000ull
/* Heartbeats that others have to prove that they are there. */
#define DOUBT_BEATS 2u

/* Are the other connections dead, perhaps, and not known to be yet? */
static bool may_be_alone(const struct nfs_target *t, struct nfs_check *k)
{
	uint64_t now = loop_now(t->lane->loop), beat = t->server->client->cfg.heartbeat_ms * NS_PER_MS;

	if (!k->word[WORD_SINCE])
		k->word[WORD_SINCE] = now;
	return k->known && now - k->word[WORD_SINCE] < DOUBT_BEATS * beat;
}

/* The names are those of the mounted server, and it does not know the session. */
static int no_session(struct nfs_target *t, struct nfs_check *k)
{
	struct nfs4_client *n = t->server->vdata;

	if (is_replaced(n, k))
		return NFS_NEXT;
	if (!nfs_server_is_up(t->server)) {
		/* It is known even if no call comes to find it. During a recovery the next
		 * session is on its way. */
		if (!t->lane->hold) {
			nfs4_belief_doubt(&n->belief);
			atomic_store(&n->need_session, true);
			nfs_control_recover(t->server->client);
		}
		return nfs4_check_end(t, k);
	}
	if (is_recovering(n) || t->lane->hold)
		return NFS_LATER;
	/* The recovery may have ended since the first look. */
	if (is_replaced(n, k))
		return NFS_NEXT;
	if (may_be_alone(t, k))
		return NFS_LATER;
	return err_set(&k->why, -EAGAIN, "it has the names of the mounted server and does not know the "
		       "session: it has just restarted, or is another server with the same host name");
}

static int not_joined(struct nfs_target *t, struct nfs_check *k, nfsstat4 status)
{
	switch (status) {
	case NFS4ERR_BADSESSION:
	case NFS4ERR_DEADSESSION:
		return no_session(t, k);
	/* The first SEQUENCE joins the connection (RFC 8881, section 2.10.3.1). */
	case NFS4ERR_NOTSUPP:
	case NFS4ERR_OP_ILLEGAL:
		log_debug("%s does not have BIND_CONN_TO_SESSION: SEQUENCE joins the connection",
			  t->server->name);
		return nfs4_check_end(t, k);
	default:
		return nfs4_check_refused(k, "BIND_CONN_TO_SESSION", status);
	}
}

static int get_join(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	static const char name[] = "BIND_CONN_TO_SESSION";
	BIND_CONN_TO_SESSION4res r;
	nfsstat4 status;
	uint32_t op;

	if (!xdr_uint32_t(x, &op))
		return nfs4_check_malformed(k, name);
	if (op == OP_ILLEGAL && xdr_nfsstat4(x, &status) && status == NFS4ERR_OP_ILLEGAL)
		return not_joined(t, k, status);
	if (op != OP_BIND_CONN_TO_SESSION || !xdr_BIND_CONN_TO_SESSION4res(x, &r))
		return nfs4_check_malformed(k, name);
	if (r.bctsr_status)
		return not_joined(t, k, r.bctsr_status);
	return nfs4_check_joined(t, k, &r.BIND_CONN_TO_SESSION4res_u.bctsr_resok4);
}

/* ---- all steps ---- */

uint32_t nfs4_check_proc(const struct nfs_check *k)
{
	return NFSPROC4_COMPOUND;
}

bool_t nfs4_check_encode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	compound4_args_head h = { .minorversion = t->server->version->minor, .numops = 1 };

	if (!xdr_compound4_args_head(x, &h))
		return FALSE;
	switch (k->step) {
	case STEP_WHO:
		return put_who(t, k, x);
	case STEP_JOIN:
		return put_join(t, k, x);
	default:
		return put_forget(k, x);
	}
}

int nfs4_check_decode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	int rc = nfs4_check_bare(x);

	if (rc == -EBADMSG)
		return nfs4_check_malformed(k, "the check of its identity");
	/* It failed before its only operation. */
	if (rc && (k->step == STEP_FORGET || k->step == STEP_LEAVE))
		return nfs4_check_forgotten(t, k);
	if (rc)
		return err_set(&k->why, rc, rc == -EPROTONOSUPPORT ? "it does not speak NFSv4.%u" :
			       "it refuses COMPOUNDs of NFSv4.%u", t->server->version->minor);
	switch (k->step) {
	case STEP_WHO:
		return get_who(t, k, x);
	case STEP_JOIN:
		return get_join(t, k, x);
	default:
		return get_forget(t, k, x);
	}
}
