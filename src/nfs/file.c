/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of files and their opens: see file.h. */
#include "nfs/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void nfs_files_init(struct nfs_files *t)
{
	*t = (struct nfs_files){ 0 };
	pthread_mutex_init(&t->mu, NULL);
	list_init(&t->opens);
}

void nfs_files_fini(struct nfs_files *t)
{
	pthread_mutex_destroy(&t->mu);
}

/* ---- the table; its lock is held ---- */

static struct nfs_file *find(struct nfs_files *t, const struct nfs_fh *fh, uint32_t hash)
{
	hash_for_each(n, hash_chain(t->by_fh, hash), hash) {
		struct nfs_file *f = container_of(n, struct nfs_file, by_fh);

		if (f->fh.len == fh->len && memcmp(f->fh.data, fh->data, fh->len) == 0)
			return f;
	}
	return NULL;
}

static struct nfs_file *add(struct nfs_files *t, const struct nfs_fh *fh, uint32_t hash)
{
	struct nfs_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->fh = *fh;
	list_init(&f->opens);
	hash_add(hash_chain(t->by_fh, hash), &f->by_fh, hash);
	return f;
}

static void drop_unused(struct nfs_file *f)
{
	if (!list_empty(&f->opens))
		return;
	hash_del(&f->by_fh);
	free(f);
}

/* ---- opens ---- */

void nfs_open_list(struct nfs_files *t, struct nfs_open_ref *o)
{
	o->refs = 1;
	o->file = NULL;
	list_init(&o->in_file);
	pthread_mutex_lock(&t->mu);
	list_add_tail(&t->opens, &o->node);
	pthread_mutex_unlock(&t->mu);
}

int nfs_open_of(struct nfs_files *t, struct nfs_open_ref *o, const struct nfs_fh *fh)
{
	uint32_t hash = (uint32_t)hash_bytes(fh->data, fh->len, 0);

	pthread_mutex_lock(&t->mu);
	o->file = find(t, fh, hash);
	if (!o->file)
		o->file = add(t, fh, hash);
	if (o->file)
		list_add_tail(&o->file->opens, &o->in_file);
	pthread_mutex_unlock(&t->mu);
	return o->file ? 0 : -ENOMEM;
}

void nfs_open_get(struct nfs_files *t, struct nfs_open_ref *o)
{
	pthread_mutex_lock(&t->mu);
	o->refs++;
	pthread_mutex_unlock(&t->mu);
}

bool nfs_open_put(struct nfs_files *t, struct nfs_open_ref *o)
{
	bool last;

	pthread_mutex_lock(&t->mu);
	last = --o->refs == 0;
	if (last) {
		list_del(&o->node);
		list_del(&o->in_file);
		if (o->file)
			drop_unused(o->file);
	}
	pthread_mutex_unlock(&t->mu);
	return last;
}

struct nfs_open_ref *nfs_open_next(struct nfs_files *t, struct nfs_open_ref *o)
{
	struct nfs_open_ref *next = NULL;
	struct list *at;

	pthread_mutex_lock(&t->mu);
	at = o ? o->node.next : t->opens.next;
	if (at != &t->opens) {
		next = container_of(at, struct nfs_open_ref, node);
		next->refs++;
	}
	pthread_mutex_unlock(&t->mu);
	return next;
}
