/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Slots of the back channel, and the replies that are kept; see nfs4_back.h. */
#include <string.h>
#include "nfs/nfs4/nfs4_back.h"

void nfs4_back_init(struct nfs4_back *b)
{
	pthread_mutex_init(&b->mu, NULL);
}

void nfs4_back_fini(struct nfs4_back *b)
{
	pthread_mutex_destroy(&b->mu);
}

/* ---- with b->mu held ---- */

static struct nfs4_back_session *find_session(struct nfs4_back *b, const char *id)
{
	for (unsigned i = 0; i < 2; i++)
		if (b->session[i].used && !memcmp(b->session[i].id, id, NFS4_SESSIONID_SIZE))
			return &b->session[i];
	return NULL;
}

static nfsstat4 take_slot(struct nfs4_back_slot *s, uint32_t seqid, uint32_t nops, bool *again)
{
	*again = seqid == s->seqid && s->len;
	if (s->busy)
		return NFS4ERR_DELAY;
	if (*again)
		return NFS4_OK;
	if (seqid != s->seqid + 1)
		return NFS4ERR_SEQ_MISORDERED;
	if (nops > NFS4_BACK_OPS)
		return NFS4ERR_TOO_MANY_OPS;
	s->seqid = seqid;
	s->busy = true;
	s->len = 0;
	return NFS4_OK;
}

static nfsstat4 sequence_locked(struct nfs4_back *b, const CB_SEQUENCE4args *a, uint32_t nops,
				bool *again, char *kept, uint32_t *len)
{
	struct nfs4_back_session *session = find_session(b, a->csa_sessionid);
	struct nfs4_back_slot *s;
	nfsstat4 status;

	if (!session)
		return NFS4ERR_BADSESSION;
	if (a->csa_slotid >= NFS4_BACK_SLOTS)
		return NFS4ERR_BADSLOT;
	if (a->csa_highest_slotid >= NFS4_BACK_SLOTS || a->csa_highest_slotid < a->csa_slotid)
		return NFS4ERR_BAD_HIGH_SLOT;
	s = &session->slot[a->csa_slotid];
	status = take_slot(s, a->csa_sequenceid, nops, again);
	if (*again && !status) {
		*len = s->len;
		memcpy(kept, s->reply, s->len);
	}
	return status;
}

/* ---- any thread ---- */

void nfs4_back_enter(struct nfs4_back *b, const char *id)
{
	pthread_mutex_lock(&b->mu);
	if (!find_session(b, id)) {
		struct nfs4_back_session *session = &b->session[b->newest = !b->newest];

		memset(session, 0, sizeof(*session));
		session->used = true;
		memcpy(session->id, id, NFS4_SESSIONID_SIZE);
	}
	pthread_mutex_unlock(&b->mu);
}

nfsstat4 nfs4_back_sequence(struct nfs4_back *b, const CB_SEQUENCE4args *a, uint32_t nops, bool *again,
			    char *kept, uint32_t *len)
{
	nfsstat4 status;

	*again = false;
	pthread_mutex_lock(&b->mu);
	status = sequence_locked(b, a, nops, again, kept, len);
	pthread_mutex_unlock(&b->mu);
	return status;
}

void nfs4_back_answered(struct nfs4_back *b, const CB_SEQUENCE4args *a, const char *reply,
			uint32_t len)
{
	struct nfs4_back_session *session;
	struct nfs4_back_slot *s;

	pthread_mutex_lock(&b->mu);
	session = find_session(b, a->csa_sessionid);
	s = session ? &session->slot[a->csa_slotid] : NULL;
	if (s && s->busy && s->seqid == a->csa_sequenceid) {
		s->busy = false;
		s->len = len;
		memcpy(s->reply, reply, len);
	}
	pthread_mutex_unlock(&b->mu);
}
