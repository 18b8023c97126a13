/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See sentback.h. */
#include "fuse/sentback.h"

/* In a note. No id has it, because no handle has so great an index. */
#define UNNAMED (1ull << 31)
#define NEWEST  (1ull << 30)
/* So long a thread without a number may take to come back: for a LOOKUP and an OPEN. */
#define UNSEEN_NS 10000000000ull
_Static_assert(HANDLE_CHUNK * HANDLE_CHUNKS < NEWEST, "indices of handles");

static _Atomic uint64_t *note_of(struct sent_back *s, pid_t pid)
{
	return &s->back[(unsigned)pid % SENT_BACK];
}

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

/* ---- sent back ---- */

void sentback_note(struct sent_back *s, const struct inode *ino, pid_t pid)
{
	if (pid)
		atomic_store(note_of(s, pid), ino->id);
	else
		unseen_add(&s->unseen, ino->id);
}

void sentback_note_unnamed(struct sent_back *s, const struct inode *ino, pid_t pid, bool newest)
{
	uint64_t note = ino->id | (newest ? NEWEST : UNNAMED);

	if (pid)
		atomic_store(note_of(s, pid), note);
	else
		unseen_add(&s->unseen, note);
}

void sentback_looked_up(struct sent_back *s, const struct inode *ino, pid_t pid)
{
	uint64_t note = pid ? atomic_load(note_of(s, pid)) : 0;

	if (note)
		atomic_store(note_of(s, pid), ino && !(note & (UNNAMED | NEWEST)) ? ino->id : 0);
}

enum came_back sentback_came(struct sent_back *s, const struct inode *ino, pid_t pid, bool truncates)
{
	_Atomic uint64_t *at = note_of(s, pid);
	uint64_t note;

	if (!pid)
		return unseen_came_back(&s->unseen, ino->id, truncates);
	note = atomic_load(at) ? atomic_exchange(at, 0) : 0;
	if (note == ino->id || (truncates && note == (ino->id | UNNAMED)))
		return BY_HANDLE;
	return truncates && note == (ino->id | NEWEST) ? BY_NEWEST : NOT_BACK;
}

/* ---- life ---- */

void sentback_init(struct sent_back *s)
{
	pthread_mutex_init(&s->unseen.mu, NULL);
}

void sentback_fini(struct sent_back *s)
{
	pthread_mutex_destroy(&s->unseen.mu);
}
