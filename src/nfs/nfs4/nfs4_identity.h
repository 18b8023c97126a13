/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who the mounted server is: the names that it says in EXCHANGE_ID (RFC 8881, section 2.10.4).
 *
 * They are written by the control thread at each EXCHANGE_ID of the mount, and by a lane that
 * checks a connection and finds that the server has moved (nfs4_check.c). Lanes compare them. A
 * mutex guards them, which is held to compare or to copy two names of 1 KiB.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/log.h"
#include "nfs4.h"

/* Who a server says it is (RFC 8881, section 2.10.4). */
struct nfs4_names {
	uint64_t minor;                 /* so_minor_id */
	uint32_t major_len, scope_len;
	char major[NFS4_OPAQUE_LIMIT];  /* so_major_id */
	char scope[NFS4_OPAQUE_LIMIT];  /* eir_server_scope */
};

/* The mounted server's. */
struct nfs4_identity {
	pthread_mutex_t mu;             /* for everything here; lanes and control thread */
	bool known;                     /* it has said it */
	struct nfs4_seen {
		uint64_t changes;       /* how often it has become another one, from the first on */
		uint64_t joins;         /* how many connections were found to lead there */
	} now;
	struct nfs4_names names;
};

void nfs4_identity_init(struct nfs4_identity *id);
void nfs4_identity_fini(struct nfs4_identity *id);
/* What EXCHANGE_ID's result says of the server. */
void nfs4_names_of(struct nfs4_names *out, const EXCHANGE_ID4resok *ok);
/* Do they agree upon what a handle denotes, and who had which locks? Else they are two servers, whatever
 * else they are called. */
bool nfs4_identity_same_scope(const struct nfs4_names *a, const struct nfs4_names *b);
/* For the log: the mounted server has another one now. */
void nfs4_identity_say_scope(const char *server, const struct nfs4_names *before, const struct nfs4_names *now);
/* Control thread: the mounted server has said who it is. */
void nfs4_identity_set(struct nfs4_identity *id, const struct nfs4_names *names);
/*
 * Lane: the check of a connection looks first, asks the server for its names, compares them,
 * and joins in the end.
 *
 * compare: 0: it is the mounted server, or that one is not known yet, or it has become the
 * mounted one, because `moves` allows that (server: for the log). -EXDEV: it is another one, why
 * says so. -EAGAIN: it must not become the mounted one, because another lane has moved or joined
 * since *seen. *seen is as at that moment.
 *
 * join: 0, or -EAGAIN: it has become another server since it was compared.
 */
struct nfs4_seen nfs4_identity_look(struct nfs4_identity *id);
int nfs4_identity_compare(struct nfs4_identity *id, const struct nfs4_names *its, bool moves,
			  struct nfs4_seen *seen, const char *server, struct errbuf *why);
int nfs4_identity_join(struct nfs4_identity *id, uint64_t changes, struct errbuf *why);
