/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Owners: the server's "name@domain" to uid and gid, and back.
 *
 *      lane                          idmap (table, one mutex)      mapper thread
 *      ----                          ------------------------      -------------
 *      decode: owner@domain   ---->  known: the id, at once
 *                                    unknown: an entry, asked ---> may block in NSS
 *      the call waits, its results                                 (files, LDAP, DNS)
 *      are there; other calls go on
 *      done, or after 5 s     <---------------------------------   the answer
 *
 * Lanes never block: a call whose answer has a name that is asked for the first
 * time is kept back with its results, at most 5 s (nfs_owner_wait_ms), and is then
 * given "nobody".
 * A name that is still being asked after that time keeps nobody waiting any more.
 * What is known is believed for ten minutes, that a name means nobody here for
 * one; after that the old answer goes on being given while it is asked anew.
 * A directory's entries do not wait: they are given without attributes.
 *
 * The mapper is the only thread that calls the library (which keeps its state in
 * globals, reads files and loads modules), and is started with the first name. A
 * server that says numbers, as with AUTH_SYS most do, never starts it.
 *
 * The other way is needed by servers only that refuse numbers (NFS4ERR_BADOWNER):
 * the id's name is asked for, and the call is sent again with it.
 *
 * Ownership: entries are the table's; a call that waits holds a reference. The
 * mapper works on a copy. The end: nfs_idmap_stop() before the lanes' loops go,
 * after that nothing is posted to them; a mapper that does not come back is left
 * alone with the table.
 *
 * The connection dies meanwhile: calls that wait here have their results, it is
 * none of their business.
 */
#ifndef NFS_IDMAP_H
#define NFS_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NFS_NOBODY    65534u
#define NFS_OWNER_MAX 256u              /* with its NUL; longer names are nobody's */

struct nfs_call;
struct nfs_client;
struct nfs_lane;
struct nfs_idmap;
struct nfs_idmap_entry;

/* Who knows. All of it is called on one thread, and may block. 0 or -errno. */
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
	bool send;                      /* it is to be sent when they are there */
	bool by_name;                   /* the server does not take numbers */
};

/* How long a call waits for a name; a variable for the tests. */
extern unsigned nfs_owner_wait_ms;
/* How long what the mapper has found is believed; a variable for the tests. */
extern unsigned nfs_owner_found_s;

/* NULL: no memory. */
struct nfs_idmap *nfs_idmap_new(struct nfs_client *cl, const struct nfs_idmapper *m);
/* False: the mapper is still at work, and the map must stay. */
bool nfs_idmap_stop(struct nfs_idmap *im, unsigned timeout_ms);
void nfs_idmap_free(struct nfs_idmap *im);

/* ---- on the lane's thread ---- */

/* A name in c's results, that is to go to c->attr. Known: so it is; otherwise c
 * has something to wait for. */
void nfs_owner_of_call(struct nfs_call *c, bool group, const char *name, uint32_t len);
/* The same for what cannot wait: false if it is not known yet. */
bool nfs_owner_known(struct nfs_client *cl, bool group, const char *name, uint32_t len,
		     uint32_t *id);
/* The server refuses the numbers of c->sattr: their names are asked for, and c is
 * to wait and be sent again. False: that has been done already. */
bool nfs_owner_names(struct nfs_call *c);
/* The name of an id for a server that wants names; false: the number has to do. */
bool nfs_owner_name(struct nfs_client *cl, bool group, uint32_t id, char name[NFS_OWNER_MAX]);

/* Has c to wait? Then it waits, and nfs_owner_done() is its end. */
bool nfs_owner_wait(struct nfs_call *c);
/* engine.c's: results are complete; or (send) it is to be sent again. */
void nfs_owner_done(struct nfs_call *c, bool send);
/* c ends for another reason. */
void nfs_owner_drop(struct nfs_call *c);

#endif
