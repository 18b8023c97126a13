/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "nfs/idmap_impl.h"

/* ---- for the version's codec ---- */

/* Only such names go to the library and into the log. */
static bool idmap_is_sane(const char *name, uint32_t len, char out[NFS_OWNER_MAX])
{
	if (len == 0 || len >= NFS_OWNER_MAX)
		return false;
	for (uint32_t i = 0; i < len; i++)
		if ((uint8_t)name[i] < ' ' || name[i] == 0x7f)
			return false;
	memcpy(out, name, len);
	out[len] = '\0';
	return true;
}

bool nfs_owner_known(struct nfs_client *cl, bool group, const char *name, uint32_t len,
		     uint32_t *id)
{
	struct nfs_idmap *im = cl->idmap;
	struct nfs_idmap_entry *e;
	char text[NFS_OWNER_MAX];
	bool known;

	*id = NFS_NOBODY;
	if (!im || !idmap_is_sane(name, len, text))
		return true;
	pthread_mutex_lock(&im->mu);
	e = nfs_idmap_look_up(im, TO_ID, group, text, 0);
	if (e)
		*id = e->id;
	known = !nfs_idmap_is_open(im, e);
	pthread_mutex_unlock(&im->mu);
	return known;
}

bool nfs_owner_name(struct nfs_client *cl, bool group, uint32_t id, char name[NFS_OWNER_MAX])
{
	struct nfs_idmap *im = cl->idmap;
	struct nfs_idmap_entry *e;
	bool found = false;

	if (!im)
		return false;
	pthread_mutex_lock(&im->mu);
	if (im->names_wanted) {
		/* An old name is asked for again; meanwhile the old answer is used. */
		e = nfs_idmap_look_up(im, TO_NAME, group, NULL, id);
		found = e && e->found;
		if (found)
			memcpy(name, e->name, NFS_OWNER_MAX);
	}
	pthread_mutex_unlock(&im->mu);
	return found;
}

static void idmap_set_owner(struct nfs_call *c, bool group, uint32_t id)
{
	if (group)
		c->res.attr.gid = id;
	else
		c->res.attr.uid = id;
}

static void idmap_drop(struct nfs_call *c, bool group)
{
	struct nfs_idmap_entry *e = c->eng.owners.of[group];

	if (e)
		e->refs--;
	c->eng.owners.of[group] = NULL;
}

static void idmap_wait_for(struct nfs_call *c, bool group, struct nfs_idmap_entry *e)
{
	idmap_drop(c, group);
	if (nfs_idmap_is_open(c->lane->client->idmap, e)) {
		e->refs++;
		c->eng.owners.of[group] = e;
	}
}

void nfs_owner_of_call(struct nfs_call *c, bool group, const char *name, uint32_t len)
{
	struct nfs_idmap *im = c->lane->client->idmap;
	struct nfs_idmap_entry *e;
	char text[NFS_OWNER_MAX];

	if (!im || !idmap_is_sane(name, len, text)) {
		idmap_set_owner(c, group, NFS_NOBODY);
		return;
	}
	pthread_mutex_lock(&im->mu);
	e = nfs_idmap_look_up(im, TO_ID, group, text, 0);
	idmap_set_owner(c, group, e ? e->id : NFS_NOBODY);
	idmap_wait_for(c, group, e);
	pthread_mutex_unlock(&im->mu);
}

bool nfs_owner_names(struct nfs_call *c)
{
	struct nfs_idmap *im = c->lane->client->idmap;

	if (!im || c->eng.owners.by_name)
		return false;
	c->eng.owners.by_name = c->eng.owners.send = true;
	pthread_mutex_lock(&im->mu);
	im->names_wanted = true;
	for (int group = 0; group < 2; group++) {
		struct nfs_idmap_entry *e;

		if (!(c->args.sattr.valid & (group ? NFS_SET_GID : NFS_SET_UID)))
			continue;
		e = nfs_idmap_look_up(im, TO_NAME, group, NULL,
				      group ? c->args.sattr.gid : c->args.sattr.uid);
		idmap_wait_for(c, group, e);
	}
	pthread_mutex_unlock(&im->mu);
	return true;
}

/* ---- calls that wait ---- */

/* With the lock held: gives c the answers that are there. true: that was all of them. */
static bool idmap_take_answers(struct nfs_call *c, bool late)
{
	bool all = true;

	for (int group = 0; group < 2; group++) {
		struct nfs_idmap_entry *e = c->eng.owners.of[group];

		if (!e)
			continue;
		if (!e->answered && !late) {
			all = false;
			continue;
		}
		if (e->way == TO_ID)
			idmap_set_owner(c, group, e->id);
		idmap_drop(c, group);
	}
	return all;
}

/* Takes c off the lane's list. Its references have been dropped. */
static void idmap_go_on(struct nfs_call *c)
{
	bool send = c->eng.owners.send;

	c->eng.owners.waits = c->eng.owners.send = false;
	loop_timer_clear(&c->eng.timer);
	list_del(&c->eng.node);
	nfs_owner_done(c, send);
}

static void idmap_on_late(struct loop_timer *t)
{
	struct nfs_call *c = container_of(t, struct nfs_call, eng.timer);
	struct nfs_idmap *im = c->lane->client->idmap;

	pthread_mutex_lock(&im->mu);
	idmap_take_answers(c, true);
	pthread_mutex_unlock(&im->mu);
	idmap_go_on(c);
}

void nfs_idmap_answered(struct loop_msg *m)
{
	struct nfs_idmap_lane *w = container_of(m, struct nfs_idmap_lane, m);
	struct list ready;

	list_init(&ready);
	pthread_mutex_lock(&w->im->mu);
	w->posted = false;
	list_for_each_safe(n, tmp, &w->lane->mapping) {
		struct nfs_call *c = container_of(n, struct nfs_call, eng.node);

		if (!idmap_take_answers(c, false))
			continue;
		list_del(n);
		list_add_tail(&ready, n);
	}
	pthread_mutex_unlock(&w->im->mu);
	/* One at a time, because what follows may change the rest of the list. */
	while (!list_empty(&ready))
		idmap_go_on(container_of(ready.next, struct nfs_call, eng.node));
}

bool nfs_owner_wait(struct nfs_call *c)
{
	struct nfs_idmap *im = c->lane->client->idmap;
	bool all;

	if (!nfs_owner_any(&c->eng.owners))
		return false;
	pthread_mutex_lock(&im->mu);
	all = idmap_take_answers(c, false);
	pthread_mutex_unlock(&im->mu);
	if (all && !c->eng.owners.send)
		return false;
	c->eng.owners.waits = true;
	loop_timer_init(&c->eng.timer, idmap_on_late);
	loop_timer_set(c->lane->loop, &c->eng.timer, all ? 0 : nfs_times_of(&im->cl->cfg)->owner_ms);
	list_add_tail(&c->lane->mapping, &c->eng.node);
	return true;
}

void nfs_owner_drop(struct nfs_call *c)
{
	struct nfs_idmap *im = c->lane->client->idmap;

	if (c->eng.owners.waits)
		loop_timer_clear(&c->eng.timer);
	c->eng.owners.waits = c->eng.owners.send = false;
	pthread_mutex_lock(&im->mu);
	idmap_drop(c, false);
	idmap_drop(c, true);
	pthread_mutex_unlock(&im->mu);
}
