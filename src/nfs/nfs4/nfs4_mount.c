/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From nothing to a session, and back: client id, session, lease (nfs4_control.c). nfs4_root.c
 * walks to the export. It runs on the mounting thread, on the control thread, or on the unmounting
 * thread, never on two of them at a time (nfs/internal.h). All of them may block.
 *
 * If the session is lost before the mount is done, the mounting thread's calls end with
 * -EAGAIN, and it makes another session, a few times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/random.h>
#include <unistd.h>
#include "nfs/nfs4/nfs4_impl.h"

/* How many sessions a mount makes because the one before was lost. */
#define MOUNT_SESSIONS 3u
#define NS_PER_S 1000000000ull
/* For so long delegations are returned one by one at the end; the rest is left to the lease. */
#define RETURN_NS (2 * NS_PER_S)

static int client_init(struct nfs_server *s)
{
	struct nfs4_client *n = calloc(1, sizeof(*n));
	char host[128] = "";
	uint64_t unique = 0;

	if (!n)
		return -ENOMEM;
	pthread_mutex_init(&n->slots.mu, NULL);
	nfs4_opens_init(n);
	nfs4_delegs_init(&n->delegs);
	nfs4_belief_init(&n->belief);
	nfs4_back_init(&n->back);
	nfs4_identity_init(&n->identity);
	nfs4_note_sizes(s->client, n);
	gethostname(host, sizeof(host) - 1);
	if (getrandom(&unique, sizeof(unique), 0) != sizeof(unique) ||
	    getrandom(n->verifier, sizeof(n->verifier), 0) != sizeof(n->verifier))
		unique = mono_ns();
	snprintf(n->owner, sizeof(n->owner), "nfsrdma-fuse %s %d %016llx", host, (int)getpid(),
		 (unsigned long long)unique);
	s->vdata = n;
	atomic_store(&s->program, &nfs4_callback);
	return 0;
}

void nfs4_free(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;

	/* Delegations have opens that stay with them: they go first. */
	nfs4_delegs_fini(&n->delegs);
	nfs4_opens_fini(n);
	nfs4_identity_fini(&n->identity);
	nfs4_back_fini(&n->back);
	pthread_mutex_destroy(&n->slots.mu);
	free(n);
}

static int start_error(struct nfs_server *s, int rc, nfsstat4 status, struct errbuf *eb)
{
	const char *server = s->name;

	if (rc == -EPROTONOSUPPORT || status == NFS4ERR_MINOR_VERS_MISMATCH)
		return err_set(eb, -EPROTONOSUPPORT, "%s does not speak NFSv%s: try vers=%s", server,
			       s->version->name, s->version->minor > 1 ? "4.1" : "3");
	if (rc == -ETIMEDOUT)
		return err_set(eb, rc, "%s accepts the connection but does not answer NFS calls: "
			       "is its NFS server running?", server);
	if (rc == -EAGAIN)
		return err_set(eb, -EIO, "%s creates NFSv%s sessions but then rejects them: "
			       "see its log, or try vers=3", server, s->version->name);
	return err_set(eb, rc, "%s refuses an NFSv%s session: %s%s", server, s->version->name, strerror(-rc),
		       status ? " (see its log)" : "");
}

/* Inside the session: RECLAIM_COMPLETE, then finds the root. */
static int nfs4_mount_enter(struct nfs_server *s, struct errbuf *eb)
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
	int rc = client_init(s);

	if (rc)
		return err_set(eb, rc, "out of memory");
	rc = nfs4_new_clientid(s, &status);
	if (rc)
		return start_error(s, rc, status, eb);
	rc = nfs4_new_session(s, &status);
	if (rc) {
		if (rc != -ETIMEDOUT)
			nfs4_destroy_clientid(s);
		return start_error(s, rc, status, eb);
	}
	rc = nfs4_mount_enter(s, eb);
	if (!rc)
		nfs4_note_sizes(s->client, s->vdata);
	if (rc && rc != -ETIMEDOUT)
		nfs4_umount(s);
	return rc;
}

static int return_one(struct nfs_server *s, struct nfs_delegation *d)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);

	if (!k)
		return -ENOMEM;
	k->cred = d->cred;
	k->c.args.fh = &d->file->fh;
	k->c.args.delegation = d;
	return nfs4_run(s, k, NFS_OP_DELEGRETURN, nfs_times_of(&s->client->cfg)->end_ms, NULL);
}

/* What the lanes have not returned. The server would keep the client id as long as there are any. */
static void return_rest(struct nfs_server *s)
{
	uint64_t begin = mono_ns();
	struct nfs_delegation *d;
	int rc = 0;

	nfs4_delegs_drop_all(s);
	while (rc != -ETIMEDOUT && mono_ns() - begin < RETURN_NS && (d = nfs4_delegs_take(s)))
		rc = return_one(s, d);
}

void nfs4_umount(struct nfs_server *s)
{
	const struct nfs4_client *n = s->vdata;

	return_rest(s);
	nfs4_destroy_old(s);
	if (nfs4_destroy_session(s, n->sessionid, false) != -ETIMEDOUT)
		nfs4_destroy_clientid(s);
}

/* When the newest SEQUENCE was encoded that was executed, on any lane. */
static uint64_t newest_renewal_ns(const struct nfs_server *s)
{
	uint64_t newest = 0;

	for (unsigned i = 0; i < s->client->nlanes; i++) {
		const struct nfs4_lane *l4 = s->targets[i]->vdata;
		uint64_t ns = atomic_load_explicit(&l4->renewed_ns, memory_order_relaxed);

		newest = MAX(newest, ns);
	}
	return newest;
}

/* Any SEQUENCE that is executed renews the lease (RFC 8881, section 8.3), and tells which slots are in use
 * (20.8). Only an idle mount must send one for that. One whose calls are all refused is idle in that sense. */
void nfs4_tick(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	uint64_t now = mono_ns(), last = newest_renewal_ns(s), lease;

	nfs4_destroy_old(s);
	if (n->lease_is_old)
		nfs4_read_lease(s);
	lease = atomic_load(&n->lease_s) * NS_PER_S;
	nfs4_idle_sweep(&n->delegs, now, lease);
	nfs4_granted_look(s);
	nfs4_look_again(s);
	nfs4_look_back(s);
	if (nfs4_slots_are_untold(&n->slots) || (now >= last && now - last >= lease / 3))
		nfs4_renew(s);
}
