/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who the mounted server is; see nfs4_identity.h. */
#include <stdio.h>
#include <string.h>
#include "nfs/nfs4/nfs4_impl.h"

/* ---- identity ---- */

void nfs4_identity_init(struct nfs4_identity *id)
{
	pthread_mutex_init(&id->mu, NULL);
}

void nfs4_identity_fini(struct nfs4_identity *id)
{
	pthread_mutex_destroy(&id->mu);
}

void nfs4_names_of(struct nfs4_names *out, const EXCHANGE_ID4resok *ok)
{
	const struct nfs_ref *major = &ok->eir_server_owner.so_major_id;

	out->minor = ok->eir_server_owner.so_minor_id;
	out->major_len = major->len;
	out->scope_len = ok->eir_server_scope.len;
	if (major->len)
		memcpy(out->major, major->data, major->len);
	if (out->scope_len)
		memcpy(out->scope, ok->eir_server_scope.data, out->scope_len);
}

/* All are bytes; none of them, or a 0 among them, is like any other. */
static bool same_major(const struct nfs4_names *a, const struct nfs4_names *b)
{
	return a->major_len == b->major_len && !memcmp(a->major, b->major, a->major_len);
}

bool nfs4_identity_same_scope(const struct nfs4_names *a, const struct nfs4_names *b)
{
	return a->scope_len == b->scope_len && !memcmp(a->scope, b->scope, a->scope_len);
}

static bool nfs4_identity_same(const struct nfs4_names *a, const struct nfs4_names *b)
{
	return same_major(a, b) && nfs4_identity_same_scope(a, b) && a->minor == b->minor;
}

static void take_locked(struct nfs4_identity *id, const struct nfs4_names *names)
{
	id->names = *names;
	id->known = true;
	id->now.changes++;
}

void nfs4_identity_set(struct nfs4_identity *id, const struct nfs4_names *names)
{
	pthread_mutex_lock(&id->mu);
	if (!id->known || !nfs4_identity_same(&id->names, names))
		take_locked(id, names);
	pthread_mutex_unlock(&id->mu);
}

struct nfs4_seen nfs4_identity_look(struct nfs4_identity *id)
{
	struct nfs4_seen seen;

	pthread_mutex_lock(&id->mu);
	seen = id->now;
	pthread_mutex_unlock(&id->mu);
	return seen;
}

/* ---- another server ---- */

#define SHOWN_MAX 72u

/* A server's bytes for a message; \xNN for those that cannot be printed. */
struct shown {
	char text[SHOWN_MAX + sizeof("...")];
};

static struct shown nfs4_identity_show(const char *name, uint32_t len)
{
	struct shown s = { "" };
	size_t at = 0;

	for (uint32_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];
		bool plain = c >= ' ' && c <= '~' && c != '\\' && c != '\'';

		if (at + (plain ? 1 : 4) > SHOWN_MAX) {
			snprintf(s.text + at, sizeof(s.text) - at, "...");
			break;
		}
		at += (size_t)snprintf(s.text + at, sizeof(s.text) - at, plain ? "%c" : "\\x%02x", c);
	}
	return s;
}

static int nfs4_identity_refuse(struct errbuf *why, const struct nfs4_names *its,
				const struct nfs4_names *ours)
{
	if (!same_major(its, ours))
		return err_set(why, -EXDEV,
			       "it is another server (its name is '%s', that of the mounted one '%s')",
			       nfs4_identity_show(its->major, its->major_len).text,
			       nfs4_identity_show(ours->major, ours->major_len).text);
	if (!nfs4_identity_same_scope(its, ours))
		return err_set(why, -EXDEV,
			       "it is another server (its scope is '%s', that of the mounted one '%s')",
			       nfs4_identity_show(its->scope, its->scope_len).text,
			       nfs4_identity_show(ours->scope, ours->scope_len).text);
	return err_set(why, -EXDEV, "it is a part of the server that cannot share a session with the "
		       "mounted one (its minor id is %llu, that of the mounted one %llu)",
		       (unsigned long long)its->minor, (unsigned long long)ours->minor);
}

void nfs4_identity_say_scope(const char *server, const struct nfs4_names *before, const struct nfs4_names *now)
{
	log_warn("%s is another server than before (its scope is '%s', that of the one before '%s'): locks are "
		 "lost, and files are opened anew", server, nfs4_identity_show(now->scope, now->scope_len).text,
		 nfs4_identity_show(before->scope, before->scope_len).text);
}

static int nfs4_identity_changed(struct errbuf *why)
{
	return err_set(why, -EAGAIN, "another connection was there first, or has found another server");
}

int nfs4_identity_join(struct nfs4_identity *id, uint64_t changes, struct errbuf *why)
{
	int rc = 0;

	pthread_mutex_lock(&id->mu);
	if (id->now.changes == changes)
		id->now.joins++;
	else
		rc = nfs4_identity_changed(why);
	pthread_mutex_unlock(&id->mu);
	return rc;
}

int nfs4_identity_compare(struct nfs4_identity *id, const struct nfs4_names *its, bool moves,
			  struct nfs4_seen *seen, const char *server, struct errbuf *why)
{
	struct shown before = { "" };
	bool moved = false;
	int rc = 0;

	pthread_mutex_lock(&id->mu);
	if (id->known && !nfs4_identity_same(&id->names, its)) {
		if (!moves) {
			rc = nfs4_identity_refuse(why, its, &id->names);
		} else if (id->now.changes != seen->changes || id->now.joins != seen->joins) {
			rc = nfs4_identity_changed(why);
		} else {
			before = nfs4_identity_show(id->names.major, id->names.major_len);
			take_locked(id, its);
			moved = true;
		}
	}
	*seen = id->now;
	pthread_mutex_unlock(&id->mu);
	if (moved)
		log_warn("another server is at the address of %s now (its name is '%s', that of the one "
			 "before '%s'): this mount goes on there",
			 server, nfs4_identity_show(its->major, its->major_len).text, before.text);
	return rc;
}
