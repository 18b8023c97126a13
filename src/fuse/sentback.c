/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See sentback.h. */
#include "fuse/sentback.h"

/* In a note. No id has it, because no handle has so great an index. */
#define UNNAMED (1ull << 31)
#define NEWEST  (1ull << 30)
/* How long a thread without a number may take to come back: for a LOOKUP and an OPEN. */
#define UNSEEN_NS 10000000000ull
_Static_assert(HANDLE_CHUNK * HANDLE_CHUNKS < NEWEST, "indices of handles");

/* ---- threads without a number ---- */

static struct unseen_note *unseen_of(struct unseen *u, uint64_t id)
{
	return &u->note[(id ^ id >> 30) % UNSEEN];
}

static void unseen_add(struct unseen *u, uint64_t id)
{
	struct unseen_note *n = unseen_of(u, id);
	uint64_t now = mono_ns();

	pthread_mutex_lock(&u->mu);
	if (n->id != id || now >= n->until_ns)
		n->count = 0;
	n->id = id;
	n->count++;
	n->until_ns = now + UNSEEN_NS;
	atomic_store(&u->until_ns, n->until_ns);
	pthread_mutex_unlock(&u->mu);
}

static bool unseen_take(struct unseen *u, uint64_t id)
{
	struct unseen_note *n = unseen_of(u, id);
	uint64_t until = atomic_load(&u->until_ns), now = until ? mono_ns() : 0;
	bool there;

	if (now >= until)               /* mostly nobody was sent back */
		return false;
	pthread_mutex_lock(&u->mu);
	there = n->id == id && n->count && now < n->until_ns;
	n->count -= there;
	pthread_mutex_unlock(&u->mu);
	return there;
}

static enum came_back unseen_came_back(struct unseen *u, uint64_t id, bool truncates)
{
	if (unseen_take(u, id) || (truncates && unseen_take(u, id | UNNAMED)))
		return BY_HANDLE;
	return truncates && unseen_take(u, id | NEWEST) ? BY_NEWEST : NOT_BACK;
}

/* ---- threads with a number ---- */

static struct sent_note *sentback_note_of(struct sent_back *s, pid_t pid)
{
	return &s->note[(unsigned)pid % SENT_BACK];
}

static void sentback_set(struct sent_back *s, pid_t pid, uint64_t id)
{
	struct sent_note *n = sentback_note_of(s, pid);

	pthread_mutex_lock(&s->mu);
	n->id = id;
	atomic_store(&n->pid, pid);
	pthread_mutex_unlock(&s->mu);
}

/* Takes pid's note; 0: there is none. */
static uint64_t sentback_take(struct sent_back *s, pid_t pid)
{
	struct sent_note *n = sentback_note_of(s, pid);
	uint64_t id = 0;

	if (!pid || atomic_load(&n->pid) != pid)        /* mostly nobody was sent back */
		return 0;
	pthread_mutex_lock(&s->mu);
	if (atomic_load(&n->pid) == pid) {
		id = n->id;
		atomic_store(&n->pid, 0);
	}
	pthread_mutex_unlock(&s->mu);
	return id;
}

/* ---- sent back ---- */

static void sentback_put(struct sent_back *s, pid_t pid, uint64_t id)
{
	if (pid)
		sentback_set(s, pid, id);
	else
		unseen_add(&s->unseen, id);
}

void sentback_note(struct sent_back *s, const struct inode *ino, pid_t pid)
{
	sentback_put(s, pid, ino->id);
}

void sentback_note_unnamed(struct sent_back *s, const struct inode *ino, pid_t pid, bool newest)
{
	sentback_put(s, pid, ino->id | (newest ? NEWEST : UNNAMED));
}

void sentback_looked_up(struct sent_back *s, const struct inode *ino, pid_t pid)
{
	uint64_t note = sentback_take(s, pid);

	if (note && ino && !(note & (UNNAMED | NEWEST)))
		sentback_set(s, pid, ino->id);
}

enum came_back sentback_came(struct sent_back *s, const struct inode *ino, pid_t pid, bool truncates)
{
	uint64_t note;

	if (!pid)
		return unseen_came_back(&s->unseen, ino->id, truncates);
	note = sentback_take(s, pid);
	if (note == ino->id || (truncates && note == (ino->id | UNNAMED)))
		return BY_HANDLE;
	return truncates && note == (ino->id | NEWEST) ? BY_NEWEST : NOT_BACK;
}

/* ---- life ---- */

void sentback_init(struct sent_back *s)
{
	pthread_mutex_init(&s->mu, NULL);
	pthread_mutex_init(&s->unseen.mu, NULL);
}

void sentback_fini(struct sent_back *s)
{
	pthread_mutex_destroy(&s->unseen.mu);
	pthread_mutex_destroy(&s->mu);
}
