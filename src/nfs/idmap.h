/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Owners: maps the server's "name@domain" to uid and gid, and back.
 *
 *      lane                          idmap (table, one mutex)      mapper thread
 *      ----                          ------------------------      -------------
 *      decode: owner@domain   ---->  known: the id, at once
 *                                    unknown: an entry, asked ---> may block in NSS
 *      the call waits, its results                                 (files, LDAP, DNS)
 *      are there; other calls go on
 *      done, or after 5 s     <---------------------------------   the answer
 *
 * Lanes never block. When a reply has a name that is asked for the first time, the call is
 * kept back with its results for at most 5 s (nfs_times.owner_ms). Then it gets "nobody". If
 * the mapper is still busy with a name after that time, no further call waits for it. What
 * was found is believed for ten minutes, and that a name is unknown here for one. After
 * that the old answer is used while the mapper asks again. Directory entries do not wait:
 * they are returned without attributes.
 *
 * Only the mapper thread calls the library, which keeps its state in globals, reads files
 * and loads modules. The first name starts the thread. A server that sends numbers, as most
 * do with AUTH_SYS, never starts it.
 *
 * The other direction is only for servers that refuse numbers (NFS4ERR_BADOWNER). The
 * mapper looks up the id's name, and the call is sent again with the name.
 *
 * Ownership: entries belong to the table. A waiting call holds a reference. The mapper
 * works on a copy. nfs_idmap_stop() comes before the lanes' loops end, and nothing is
 * posted to them afterwards. A mapper that does not come back is left behind together with
 * the table.
 *
 * A lost connection does not matter here: the calls that wait have their results.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NFS_NOBODY    65534u
#define NFS_OWNER_MAX 256u              /* with its NUL; a longer name is nobody */

struct nfs_call;
struct nfs_client;
struct nfs_lane;
struct nfs_idmap;
struct nfs_idmap_entry;

/* Who knows the names. All of it is called on one thread and may block. 0 or -errno. */
struct nfs_idmapper {
	int (*to_id)(bool group, const char *name, uint32_t *id);
	int (*to_name)(bool group, uint32_t id, char *name, size_t len);
};
/* libnfsidmap: idmapd.conf and NSS. */
extern const struct nfs_idmapper nfs_idmapper_lib;

/* What a call waits for; part of struct nfs_call. */
struct nfs_owner_wait {
	struct nfs_idmap_entry *of[2];  /* references: user, group; NULL: nothing */
	bool waits;                     /* in the lane's list, with a timer */
	bool send;                      /* to be sent again when the names are there */
	bool by_name;                   /* the server does not take numbers */
};

/* Has the call any of that? */
static inline bool nfs_owner_any(const struct nfs_owner_wait *w)
{
	return w->of[0] || w->of[1] || w->send;
}

/* NULL: no memory. */
struct nfs_idmap *nfs_idmap_new(struct nfs_client *cl, const struct nfs_idmapper *m);
/* False: the mapper is still at work, and the map must not be freed. */
bool nfs_idmap_stop(struct nfs_idmap *im, unsigned timeout_ms);
void nfs_idmap_free(struct nfs_idmap *im);

/* ---- on the lane's thread ---- */

/* A name in c's results, for c->res.attr. If the id is known it is set at once;
 * otherwise c has something to wait for. */
void nfs_owner_of_call(struct nfs_call *c, bool group, const char *name, uint32_t len);
/* The same for results that cannot wait. false: not known yet. */
bool nfs_owner_known(struct nfs_client *cl, bool group, const char *name, uint32_t len,
		     uint32_t *id);
/* The server refuses the numbers of c->args.sattr. Asks for their names; c is to wait,
 * and to be sent again. false: that has been done already. */
bool nfs_owner_names(struct nfs_call *c);
/* The name of an id, for a server that wants names. false: send the number. */
bool nfs_owner_name(struct nfs_client *cl, bool group, uint32_t id, char name[NFS_OWNER_MAX]);

/* true: c waits, and nfs_owner_done() will end that. false: nothing to wait for. */
bool nfs_owner_wait(struct nfs_call *c);
/* Defined in engine.c: the results are complete, or (send) c is to be sent again. */
void nfs_owner_done(struct nfs_call *c, bool send);
/* c, which has any, ends for another reason. */
void nfs_owner_drop(struct nfs_call *c);
