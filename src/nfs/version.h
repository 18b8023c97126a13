/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a protocol version has for the client: its operations, and how it keeps state. */
#pragma once

#include "base/log.h"
#include "nfs/call.h"

struct nfs_server;

/* What a version's decode() returns for a reply; 0 or -errno ends the operation. */
enum {
	NFS_NEXT = 1,           /* send the next RPC (decode has advanced step) */
	NFS_LATER = 2,          /* the server is busy: send the same again after a delay */
	NFS_RECOVER = 3,        /* state is lost: send the same again after recovery; a control
				 * call ends with -EAGAIN instead */
	NFS_AGAIN = 4,          /* send the same again at once (decode has mended the state) */
	NFS_DELAYED = 5,        /* send the very same message again after a delay; the call keeps
				 * its slot and counts as in flight */
	NFS_ALONE = 6,          /* CLOSE, which it carried, has failed before it: send it again at
				 * once, and by itself (close_ride.h) */
	NFS_REOPEN = 7,         /* the state of its open is lost: as NFS_RECOVER, but only calls with
				 * that open wait */
};

struct nfs_opdef {
	const char *name;               /* for messages: "READ" */
	/* Writes the arguments behind the RPC header. FALSE when the stream is full. */
	bool_t (*encode)(struct nfs_call *c, XDR *x);
	/* Reads the results behind the RPC header. */
	int (*decode)(struct nfs_call *c, XDR *x);
	/* Upper bound of the results without data that may be placed, and RPC header. If
	 * it depends on the call, results_max_of is set and gives it. */
	uint32_t results_max;
	uint32_t (*results_max_of)(const struct nfs_call *c);
	/* The same of the arguments, of those that may be too long for a message buffer; NULL: they
	 * never are. */
	uint32_t (*args_max_of)(const struct nfs_call *c);
	uint32_t proc;                  /* v3; v4: 1 (COMPOUND) */
	uint32_t prog;                  /* of another program than the version's; 0: it is that one's */
	uint32_t counted;               /* such a procedure's place among the names */
	bool placed_text;               /* READLINK: the text may come in a Write chunk */
	/* See close_ride.h. May this CLOSE ride? If so, recovery leaves its open alone from now on.
	 * And may this call carry one in its first step? NULL: never. */
	bool (*rides)(const struct nfs_call *c);
	bool (*carries)(const struct nfs_call *c);
	bool unnames;                   /* takes a name away: starts after all that would ride */
	/* The first step not by the server's connections, but in some other way: begins, and ends by
	 * nfs_elsewhere_done(). forget: the call is given up before that; false: it is too late, and
	 * nfs_elsewhere_done() comes. NULL: by the connections; otherwise encode() and decode() are for
	 * later steps, and `counted` is the first one's place. */
	void (*begin)(struct nfs_call *c);
	bool (*forget)(struct nfs_call *c);
	/* The procedure of this step, where the steps differ; NULL: proc. */
	uint32_t (*proc_of)(const struct nfs_call *c);
};

/* What all have, and further members. */
#define NFS_OPDEF(text, encodes, decodes, ...) \
	{ .name = text, .encode = encodes, .decode = decodes, __VA_ARGS__ }

static inline uint32_t nfs_results_max(const struct nfs_opdef *def, const struct nfs_call *c)
{
	return def->results_max_of ? def->results_max_of(c) : def->results_max;
}

/*
 * A new connection is being checked before calls go there: is the server at its other end the
 * one that is mounted, and may the connection join the session? The check is some calls of the
 * version, one after the other, on that connection. They take no slot, and are sent while state
 * is recovered, too. If the connection is lost, the check ends with it, and leaves nothing.
 */
struct nfs_check {
	unsigned step;          /* which call; 0 at first */
	bool may_move;          /* in: no other connection is there, and this path has led to the
				 * server before: another identity means that the server has
				 * moved */
	bool known;             /* in: this path has led to the server before */
	uint64_t word[4];       /* the version's own, from step to step */
	struct errbuf why;      /* what was wrong */
};

/* The results of such a call are no longer. */
#define NFS_CHECK_RESULTS_MAX 3500u

struct nfs_version {
	const char *name;               /* "3", "4.1", "4.2" */
	uint32_t prog, vers, minor;
	/* NULL: there is nothing to send. The call succeeds at once, and the caller takes
	 * nothing from its results. */
	const struct nfs_opdef *ops[NFS_OP_MAX];
	/* The names of procedures, by which calls are counted. NULL: they are counted by
	 * operations, because all are COMPOUNDs. */
	const char *const *procs;
	unsigned nprocs;

	/* Called by the mounting thread before there is a control thread; may block; one
	 * connection is up. Sets root_fh and the sizes. An error leaves nothing on the
	 * server. */
	int (*mount)(struct nfs_server *s, struct errbuf *eb);
	/* Called by the unmounting thread after the control thread has ended, and after stop(). Gives
	 * server state back. Must not take long. */
	void (*umount)(struct nfs_server *s);
	/* Unmounting thread: ends the version's own threads, if it has any (else it is NULL). May take
	 * longer than timeout_ms while there is something to give back. false: one is still blocked, and
	 * it has to be called again. */
	bool (*stop)(struct nfs_server *s, unsigned timeout_ms);
	/* Any thread, when all others are gone: frees the rest of the server's vdata.
	 * May be NULL. */
	void (*free)(struct nfs_server *s);
	/* Lane thread: frees an open that nobody uses any more, closed or not. NULL:
	 * free(). */
	void (*open_free)(struct nfs_open *o);
	/* Delegations: called only if nfs_config.delegations is set, or there is one. Lane thread: is one
	 * due, because the server wants it back, or nobody needs it? It is the caller's from now on, for
	 * DELEGRETURN (NULL: there is none). And the end of that operation, or of CLAIM, before done(). */
	bool (*delegations_due)(const struct nfs_server *s);
	struct nfs_delegation *(*delegation_take)(struct nfs_server *s);
	void (*delegation_ends)(struct nfs_call *c);
	/* Any thread: the file's is due now; all are. */
	void (*delegation_drop)(struct nfs_server *s, const struct nfs_file *f);
	void (*delegations_drop)(struct nfs_server *s);
	/* Any thread: is one to read of that file on its way back? */
	bool (*delegation_leaves)(struct nfs_server *s, const struct nfs_file *f);
	/* Any thread: the number of the file's delegation, which no other one has; 0: there is none, or it
	 * may have been revoked. */
	uint64_t (*delegated)(const struct nfs_server *s, struct nfs_file *f);
	/* An OPEN that stays at the server when its file is closed (nfs4_delegs.h); called only if the file
	 * has a delegation. Lane thread: the caller has closed its file. true: CLOSE is not to be sent. One
	 * of that user, to be used as if OPEN had brought it now, if the file still has that delegation;
	 * flags: O_ACCMODE; exec: to execute. NULL: OPEN is to be sent. And one that stayed with a delegation that the caller
	 * has taken, and who has opened it: CLOSE is to be sent; NULL: there is none any more. */
	bool (*open_stays)(struct nfs_server *s, struct nfs_open *o);
	struct nfs_open *(*open_again)(struct nfs_server *s, const struct nfs_file *f, uint64_t delegation,
				       const struct rpc_cred *cred, int flags, bool exec);
	struct nfs_open *(*delegation_open)(struct nfs_server *s, struct nfs_delegation *d,
					    struct rpc_cred *cred);
	/* LOCK, LOCKT or LOCKU is going to be sent: if it needs no server, it has its results now. NULL: always sent. */
	enum nfs_lock_here (*lock_here)(struct nfs_server *s, struct nfs_call *c);
	/* An open with locks that were granted so under a delegation that the caller has taken, and who has opened
	 * it: CLAIM is to be sent; NULL: there is none any more. With -ENOTCONN or -ESHUTDOWN of that the delegation is
	 * not the caller's any more. */
	struct nfs_open *(*delegation_locked)(struct nfs_server *s, struct nfs_delegation *d,
					      struct rpc_cred *cred);
	/* Lane thread: gets the call a slot. 1: it has one. 0: it must wait, and the
	 * version calls nfs_lane_pump() when one is free. NFS_REOPEN: it must wait until
	 * recovery is done with its open. -EAGAIN: there is none until
	 * state is recovered; a control call ends with that error. Another -errno: the call
	 * ends with it. NULL: every call may go. */
	int (*acquire)(struct nfs_target *t, struct nfs_call *c);
	void (*release)(struct nfs_target *t, struct nfs_call *c);
	/* Control thread: after a decode returned NFS_RECOVER or NFS_REOPEN. It lets the lanes
	 * hold (nfs_lanes_hold()) for what concerns all calls. 0; NFS_LATER: the server wants the
	 * rest to be asked for later; or -errno. */
	int (*recover)(struct nfs_server *s);
	/* Control thread, every few seconds: keeps the lease. */
	void (*tick)(struct nfs_server *s);
	/*
	 * Lane thread: a new connection of that target is being checked, when the mount is done.
	 * All NULL: there is nothing to check. Until the check is over the connection does not
	 * count in target->up of any lane, which tells whether others are there.
	 *
	 * encode writes the arguments behind the RPC header of step's call, each time that it is
	 * sent; FALSE when the stream is full. The credential is the daemon's own, or none.
	 *
	 * decode reads the results behind the RPC header. 0: the connection may be used.
	 * NFS_NEXT: the next call (step says which). NFS_LATER: the same again, after a delay.
	 * -EXDEV: another server, why says how that is known. Another -errno: the connection
	 * cannot be used now, why says why.
	 */
	uint32_t (*check_proc)(const struct nfs_check *k);
	bool_t (*check_encode)(struct nfs_target *t, struct nfs_check *k, XDR *x);
	int (*check_decode)(struct nfs_target *t, struct nfs_check *k, XDR *x);
	/* Any thread: how many slots the session has now. NULL: there is no session. */
	unsigned (*slots)(struct nfs_server *s);
	/* The version's part of each target. May be NULL. */
	int (*target_init)(struct nfs_target *t);
	void (*target_fini)(struct nfs_target *t);
};

extern const struct nfs_version nfs_v3, nfs_v41, nfs_v42;
