/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_paths.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct fake_paths fake_paths = { .mu = PTHREAD_MUTEX_INITIALIZER };

void fake_path_put(unsigned id, enum nfs_path_state state, const char *server)
{
	struct nfs_path_info *p = &fake_paths.path[id];

	pthread_mutex_lock(&fake_paths.mu);
	*p = (struct nfs_path_info){
		.id = id, .generation = p->generation + 1, .state = state, .fabric = "iwarp",
		.local = "any", .wanted = 2,
	};
	snprintf(p->server, sizeof(p->server), "%s", server);
	pthread_mutex_unlock(&fake_paths.mu);
}

void fake_path_set(unsigned id, enum nfs_path_state state, const char *why)
{
	pthread_mutex_lock(&fake_paths.mu);
	fake_paths.path[id].state = state;
	snprintf(fake_paths.path[id].why, sizeof(fake_paths.path[id].why), "%s", why);
	pthread_mutex_unlock(&fake_paths.mu);
}

void fake_path_replace(unsigned id)
{
	pthread_mutex_lock(&fake_paths.mu);
	fake_paths.path[id].generation++;
	pthread_mutex_unlock(&fake_paths.mu);
}

bool fake_path_await(unsigned id, enum nfs_path_state state)
{
	const struct timespec step = { .tv_nsec = 5000000 };

	for (int i = 0; i < 1000; i++) {
		enum nfs_path_state is;

		pthread_mutex_lock(&fake_paths.mu);
		is = fake_paths.path[id].state;
		pthread_mutex_unlock(&fake_paths.mu);
		if (is == state)
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

unsigned nfs_paths_info(struct nfs_client *cl, struct nfs_path_info out[NFS_PATHS_MAX])
{
	unsigned n = 0;

	(void)cl;
	pthread_mutex_lock(&fake_paths.mu);
	for (unsigned i = 0; i < NFS_PATHS_MAX; i++)
		if (fake_paths.path[i].state != NFS_PATH_NONE)
			out[n++] = fake_paths.path[i];
	pthread_mutex_unlock(&fake_paths.mu);
	return n;
}

/* The server's address comes by way of hint. */
int nfs_path_add(struct nfs_client *cl, const struct rr_path *path, unsigned *id,
		 uint32_t *generation, struct errbuf *eb)
{
	int rc = err_set(eb, -ENOSPC, "all places are in use");
	unsigned at = NFS_PATHS_MAX;

	(void)cl;
	pthread_mutex_lock(&fake_paths.mu);
	fake_paths.adds++;
	for (unsigned i = NFS_PATHS_MAX; i-- > 0; )
		if (fake_paths.path[i].state == NFS_PATH_NONE)
			at = i;
		else if (strcmp(fake_paths.path[i].server, path->params.hint) == 0)
			rc = err_set(eb, -EEXIST, "path %u has these addresses", i);
	pthread_mutex_unlock(&fake_paths.mu);
	if (rc == -EEXIST || at == NFS_PATHS_MAX)
		return rc;
	fake_path_put(at, fake_paths.added, path->params.hint);
	*id = at;
	*generation = fake_paths.path[at].generation;
	return 0;
}

int nfs_path_remove(struct nfs_client *cl, unsigned id, bool force, struct errbuf *eb)
{
	struct nfs_path_info *p = &fake_paths.path[id];
	int rc = 0;

	(void)cl;
	pthread_mutex_lock(&fake_paths.mu);
	fake_paths.removes++;
	fake_paths.forced += force;
	if (id >= NFS_PATHS_MAX || p->state == NFS_PATH_NONE) {
		rc = err_set(eb, -ENOENT, "there is no path %u", id);
	} else if (fake_paths.busy && !force) {
		p->state = NFS_PATH_CONNECTED;
		rc = err_set(eb, -EBUSY, "path %u is the last one that is connected", id);
	} else if (fake_paths.only && !force) {
		rc = err_set(eb, -EBUSY, "path %u is the last one", id);
	} else {
		p->state = fake_paths.keeps ? NFS_PATH_REMOVING : NFS_PATH_NONE;
	}
	pthread_mutex_unlock(&fake_paths.mu);
	return rc;
}

int nfs_path_reconnect(struct nfs_client *cl, unsigned id, struct errbuf *eb)
{
	(void)cl;
	pthread_mutex_lock(&fake_paths.mu);
	fake_paths.reconnects++;
	pthread_mutex_unlock(&fake_paths.mu);
	if (id == 1 && fake_paths.reconnect_rc)
		return err_set(eb, fake_paths.reconnect_rc, "path 1 cannot do that");
	return 0;
}

void nfs_paths_set_policy(struct nfs_client *cl, enum rr_policy policy)
{
	(void)cl;
	fake_paths.policy = policy;
}

enum rr_policy nfs_paths_policy(const struct nfs_client *cl)
{
	(void)cl;
	return fake_paths.policy;
}
