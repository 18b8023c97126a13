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

static uint32_t hash_of(const struct nfs_fh *fh)
{
	uint32_t h = 2166136261u;

	for (uint32_t i = 0; i < fh->len; i++)
		h = (h ^ fh->data[i]) * 16777619u;
	return h ^ h >> 15;
}

static struct nfs_file **bucket_of(struct nfs_files *t, uint32_t hash)
{
	return &t->bucket[hash % NFS_FILE_BUCKETS];
}

static struct nfs_file *find(struct nfs_files *t, const struct nfs_fh *fh, uint32_t hash)
{
	struct nfs_file *f = *bucket_of(t, hash);

	while (f && (f->hash != hash || f->fh.len != fh->len ||
		     memcmp(f->fh.data, fh->data, fh->len)))
		f = f->hash_next;
	return f;
}

static struct nfs_file *add(struct nfs_files *t, const struct nfs_fh *fh, uint32_t hash)
{
	struct nfs_file **b = bucket_of(t, hash), *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->hash = hash;
	f->fh = *fh;
	list_init(&f->opens);
	f->hash_next = *b;
	*b = f;
	return f;
}

static void drop_unused(struct nfs_files *t, struct nfs_file *f)
{
	struct nfs_file **p = bucket_of(t, f->hash);

	if (!list_empty(&f->opens))
		return;
	while (*p != f)
		p = &(*p)->hash_next;
	*p = f->hash_next;
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
	uint32_t hash = hash_of(fh);

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
			drop_unused(t, o->file);
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
