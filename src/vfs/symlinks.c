/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See symlinks.h. */
#include <stdlib.h>
#include <string.h>
#include "vfs/inode_impl.h"
#include "vfs/symlinks.h"

struct symlink_ask symlink_ask(const struct inode *ino)
{
	return (struct symlink_ask){ .nr = atomic_load(&ino->data_nr), .ns = mono_ns() };
}

static struct symlink_text *text_new(const char *text, size_t len)
{
	struct symlink_text *l;

	/* The kernel takes a page, less a NUL; and no path leads through an empty text. */
	if (!len || len >= NFS_PATH_MAX)
		return NULL;
	l = malloc(sizeof(*l) + len);
	if (!l)
		return NULL;
	l->len = (uint32_t)len;
	memcpy(l->text, text, len);
	return l;
}

/* With the shard's lock held. Returns what is to be freed without it. */
static struct symlink_text *keep_locked(struct inode *ino, struct symlink_text *l)
{
	struct symlink_text *old = ino->link;

	if (l->nr != atomic_load(&ino->data_nr) || (old && old->nr == l->nr && old->asked_ns > l->asked_ns))
		return l;
	ino->link = l;
	return old;
}

void symlink_keep(struct inode_table *t, struct inode *ino, const struct symlink_ask *ask,
	       const char *text, size_t len)
{
	struct symlink_text *l = text_new(text, len);

	if (!l)
		return;
	l->nr = ask->nr;
	l->asked_ns = ask->ns;
	inode_lock(t, ino);
	l = keep_locked(ino, l);
	inode_unlock(t, ino);
	free(l);
}

void symlink_made(struct inode_table *t, struct inode *ino, uint64_t change, uint64_t asked_ns,
	       const char *text)
{
	struct symlink_text *l = text_new(text, strlen(text));

	if (!l)
		return;
	l->asked_ns = asked_ns;
	inode_lock(t, ino);
	if (ino->change == change) {
		l->nr = atomic_load(&ino->data_nr);
		l = keep_locked(ino, l);
	}
	inode_unlock(t, ino);
	free(l);
}

/* With the shard's lock held. */
static bool is_good(const struct inode *ino)
{
	const struct symlink_text *l = ino->link;
	uint64_t fresh = atomic_load(&ino->noted_ns), now = mono_ns();

	if (!l || l->nr != atomic_load(&ino->data_nr))
		return false;
	if (fresh < l->asked_ns)
		fresh = l->asked_ns;
	return now < fresh || (double)(now - fresh) < ino->timeo * 1e9;
}

bool symlink_get(struct inode_table *t, struct inode *ino, char out[static NFS_PATH_MAX])
{
	bool good;

	inode_lock(t, ino);
	good = is_good(ino);
	if (good) {
		memcpy(out, ino->link->text, ino->link->len);
		out[ino->link->len] = '\0';
	}
	inode_unlock(t, ino);
	return good;
}
