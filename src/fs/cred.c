/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that makes a request: its credentials, and whether it is about to be killed.
 * uid and gid come with each request, but the supplementary groups have to be read from
 * /proc. They are remembered for half a second for each (process, uid, gid). So a process
 * that changes only its groups keeps the old ones for that long.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/fs_impl.h"

#define GROUPS_NS 500000000ull
#define GROUPS_MAX 256

static void read_groups(fuse_req_t req, struct rpc_cred *cred)
{
	gid_t all[GROUPS_MAX];
	int n = fuse_req_getgroups(req, GROUPS_MAX, all);

	/* If the process is gone already, it has no groups. AUTH_SYS has room for 16; further
	 * ones are left out. */
	if (n > GROUPS_MAX)
		n = GROUPS_MAX;
	cred->ngids = 0;
	for (int i = 0; i < n && cred->ngids < RPC_GIDS_MAX; i++)
		cred->gids[cred->ngids++] = all[i];
}

void fs_cred(struct fs_lane *fl, fuse_req_t req, struct rpc_cred *out)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct fs_cred_slot *s = &fl->creds[(unsigned)ctx->pid & (FS_CRED_CACHE - 1)];
	uint64_t now = mono_ns();

	if (s->pid != ctx->pid || s->cred.uid != ctx->uid || s->cred.gid != ctx->gid ||
	    now >= s->until_ns) {
		s->pid = ctx->pid;
		s->cred.uid = ctx->uid;
		s->cred.gid = ctx->gid;
		read_groups(req, &s->cred);
		s->until_ns = now + GROUPS_NS;
	}
	*out = s->cred;
}

#define SIG(n) (1ull << ((n) - 1))
/* By default these do not end the process. */
#define HARMLESS (SIG(SIGCHLD) | SIG(SIGCONT) | SIG(SIGURG) | SIG(SIGWINCH) | SIG(SIGSTOP) | \
		  SIG(SIGTSTP) | SIG(SIGTTIN) | SIG(SIGTTOU))

static bool is_line(const char *line, const char *key, uint64_t *mask)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len) != 0)
		return false;
	*mask |= strtoull(line + len, NULL, 16);
	return true;
}

bool fs_dies(pid_t pid, bool unknown)
{
	uint64_t pending = 0, other = HARMLESS;
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = pid ? fopen(path, "re") : NULL;
	if (!f)
		return unknown;
	while (getline(&line, &size, f) > 0)
		if (!is_line(line, "SigPnd:", &pending) && !is_line(line, "ShdPnd:", &pending) &&
		    !is_line(line, "SigBlk:", &other) && !is_line(line, "SigIgn:", &other))
			is_line(line, "SigCgt:", &other);
	free(line);
	fclose(f);
	return pending & ~other;
}
