/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tokens: who has one may use an open file by his rings. A lane makes them, for who asks by the open
 * file itself, and the rings' thread takes them, from a socket of the same user. One that nobody has
 * taken for RING_TOKEN_S goes; and one whose file is closed goes at once (rings_closed()).
 *
 * A token has a reference to its file. That may be dropped on a lane only, so one that goes is sent to
 * the lane that has made it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "ring/impl.h"

/* Of a user. */
#define TOKENS_MAX 4096u

struct token {
	struct list node;               /* in rings->tokens, the oldest first */
	uint8_t bytes[RING_TOKEN_BYTES];
	struct file *file;              /* a reference */
	int access;
	struct user *user;
	uint64_t until_ns;
	struct vfs_lane *vl;
	struct loop_msg gone;
};

static void on_token_gone(struct loop_msg *m)
{
	struct token *t = container_of(m, struct token, gone);

	file_put(t->vl, t->file);
	free(t);
}

/* With the lock. */
static void token_unlist(struct rings *r, struct token *t)
{
	list_del(&t->node);
	t->user->tokens--;
	user_put(r, t->user);
}

static int token_add(struct rings *r, struct token *t, uid_t uid)
{
	int rc = 0;

	pthread_mutex_lock(&r->mu);
	t->user = user_get(r, uid);
	if (!t->user)
		rc = -ENOMEM;
	else if (!r->socket[0] || r->ending)
		rc = -EOPNOTSUPP;
	else if (t->user->tokens >= TOKENS_MAX)
		rc = -EDQUOT;
	if (!rc) {
		t->user->tokens++;
		list_add_tail(&r->tokens, &t->node);
	} else if (t->user) {
		user_put(r, t->user);
	}
	pthread_mutex_unlock(&r->mu);
	return rc;
}

int rings_token(struct rings *r, struct vfs_lane *vl, struct file *f, int access, uid_t uid,
		struct ring_token *out)
{
	struct token *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	*t = (struct token){ .file = f, .access = access, .vl = vl, .gone.fn = on_token_gone,
			     .until_ns = mono_ns() + RING_TOKEN_S * 1000000000ull };
	*out = (struct ring_token){ .version = RING_VERSION, .access = (uint32_t)access };
	rc = getrandom(t->bytes, sizeof(t->bytes), 0) == sizeof(t->bytes) ? 0 : -EAGAIN;
	memcpy(out->token, t->bytes, sizeof(out->token));
	memcpy(out->socket, r->socket, sizeof(out->socket));
	if (!rc) {
		file_ref(f);
		rc = token_add(r, t, uid);
		if (rc)
			file_put(vl, f);
	}
	if (rc)
		free(t);
	return rc;
}

/* With the lock. Compared as a whole, whatever differs first. */
static struct token *token_find(struct rings *r, const uint8_t bytes[RING_TOKEN_BYTES])
{
	list_for_each_entry(struct token, t, &r->tokens, node) {
		unsigned differs = 0;

		for (unsigned i = 0; i < RING_TOKEN_BYTES; i++)
			differs |= t->bytes[i] ^ bytes[i];
		if (!differs)
			return t;
	}
	return NULL;
}

int token_take(struct rings *r, const uint8_t bytes[RING_TOKEN_BYTES], uid_t uid, struct ring_file *a,
	       struct errbuf *eb)
{
	struct token *t;
	int rc = 0;

	pthread_mutex_lock(&r->mu);
	t = token_find(r, bytes);
	if (!t) {
		rc = err_set(eb, -EBADF, "there is no such token: it was used, or is older than %u s, or its file "
			     "is closed or on another mount", RING_TOKEN_S);
	} else if (t->user->uid != uid) {
		rc = err_set(eb, -EPERM, "the token is another user's");
	} else {
		/* At once, or rings_closed() would find it nowhere. */
		a->file = t->file;
		a->access = t->access;
		list_add_tail(&r->attached, &a->node);
		token_unlist(r, t);
	}
	pthread_mutex_unlock(&r->mu);
	if (!rc)
		free(t);
	return rc;
}

void tokens_expire(struct rings *r, bool all)
{
	uint64_t now = mono_ns();

	pthread_mutex_lock(&r->mu);
	list_for_each_entry_safe(struct token, t, tmp, &r->tokens, node) {
		if (!all && now < t->until_ns)
			break;
		token_unlist(r, t);
		loop_post(t->vl->lane->loop, &t->gone);
	}
	pthread_mutex_unlock(&r->mu);
}

/* Of who holds the lock: those of f. */
static void tokens_closed(struct rings *r, const struct file *f)
{
	list_for_each_entry_safe(struct token, t, tmp, &r->tokens, node) {
		if (t->file != f)
			continue;
		token_unlist(r, t);
		loop_post(t->vl->lane->loop, &t->gone);
	}
}

void rings_closed(struct rings *r, const struct file *f)
{
	pthread_mutex_lock(&r->mu);
	tokens_closed(r, f);
	list_for_each_entry(struct ring_file, a, &r->attached, node) {
		if (a->file != f || a->closing)
			continue;
		a->closing = true;
		loop_post(a->ring->vl->lane->loop, &a->closed);
	}
	pthread_mutex_unlock(&r->mu);
}
