/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that makes a request: its credentials, and whether it is about to be killed.
 * uid and gid come with each request, but the supplementary groups have to be read from
 * /proc. They are remembered for half a second for each (process, uid, gid). So a process
 * that changes only its groups keeps the old ones for that long.
 *
 * FUSE gives 0 as the number of a process that is in no pid namespace of ours (this process
 * in one container, the program in another): nothing is known of it but uid and gid. So it is if
 * /proc is not that of our pid namespace: its numbers are other processes'. The log says so,
 * once. The kernel's own requests have 0, too, with uid and gid 0.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fuse/fs_impl.h"

#define GROUPS_NS 500000000ull
#define GROUPS_MAX 256

/* /proc may be that of another pid namespace than ours, where the number is somebody else's. */
static bool is_seen(pid_t pid)
{
	char self[16] = "";

	return pid && readlink("/proc/self", self, sizeof(self) - 1) > 0 && atoi(self) == getpid();
}

static void say_unseen(const struct fuse_ctx *ctx)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if ((ctx->uid || ctx->gid) && !atomic_flag_test_and_set(&said))
		log_warn("a program of user %u runs in another pid namespace (container), or /proc belongs to "
			 "another one: its supplementary groups are unknown and not sent, so what only "
			 "they permit is denied, and a killed program waits for the server. Remedy: run "
			 "this process in the host's pid namespace (--pid=host, hostPID), or let the "
			 "server look groups up (mountd --manage-gids)", ctx->uid);
}

static void say_no_files(int err)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if ((err == EMFILE || err == ENFILE) && !atomic_flag_test_and_set(&said))
		log_warn("cannot read /proc: %s. So the supplementary groups of programs are not sent, and "
			 "what only they permit is denied. Remedy: raise the limit of open "
			 "files (ulimit -n, LimitNOFILE=)", strerror(err));
}

/* A group that the server has no number for is left out. */
static void read_groups(fuse_req_t req, const struct ugid_map *map, struct rpc_cred *cred)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	gid_t all[GROUPS_MAX];
	int n = -ESRCH;

	if (is_seen(ctx->pid)) {
		errno = 0;
		n = fuse_req_getgroups(req, GROUPS_MAX, all);
		/* It returns one error for all reasons. */
		if (n < 0)
			say_no_files(errno);
	} else {
		say_unseen(ctx);
	}
	/* If the process is gone already, it has no groups. AUTH_SYS has room for 16; further
	 * ones are left out. */
	if (n > GROUPS_MAX)
		n = GROUPS_MAX;
	cred->ngids = 0;
	for (int i = 0; i < n && cred->ngids < RPC_GIDS_MAX; i++)
		if (!map || ugid_find_there(map, all[i], &all[i]))
			cred->gids[cred->ngids++] = all[i];
}

void fs_cred(struct fs_lane *fl, fuse_req_t req, uint64_t now, struct rpc_cred *out)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct fs_cred_slot *s = &fl->creds[(unsigned)ctx->pid & (FS_CRED_CACHE - 1)];

	if (s->pid != ctx->pid || s->uid != ctx->uid || s->gid != ctx->gid || now >= s->until_ns) {
		const struct ugid *map = fl->fs->cfg.ugid;

		s->pid = ctx->pid;
		s->uid = ctx->uid;
		s->gid = ctx->gid;
		s->cred.uid = map ? ugid_there(&map->user, ctx->uid) : ctx->uid;
		s->cred.gid = map ? ugid_there(&map->group, ctx->gid) : ctx->gid;
		read_groups(req, map ? &map->group : NULL, &s->cred);
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

/* PF_EXITING of the kernel, which is in the field "flags" of proc_pid_stat(5). */
#define EXITING 0x4u
#define FLAGS_BEHIND_NAME 7

static bool is_exiting(pid_t pid)
{
	char path[64], text[512], *at;
	unsigned flags = 0;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');        /* a program's name may have one, too */
	for (int i = 0; at && i < FLAGS_BEHIND_NAME; i++)
		at = strchr(at + 1, ' ');
	if (at)
		flags = (unsigned)strtoul(at, NULL, 10);
	return flags & EXITING;
}

enum fs_fate fs_fate(pid_t pid)
{
	uint64_t pending = 0, other = HARMLESS;
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = is_seen(pid) ? fopen(path, "re") : NULL;
	if (!f)
		return FS_UNSEEN;
	while (getline(&line, &size, f) > 0)
		if (!is_line(line, "SigPnd:", &pending) && !is_line(line, "ShdPnd:", &pending) &&
		    !is_line(line, "SigBlk:", &other) && !is_line(line, "SigIgn:", &other))
			is_line(line, "SigCgt:", &other);
	free(line);
	fclose(f);
	return pending & ~other ? FS_DIES : is_exiting(pid) ? FS_EXITS : FS_LIVES;
}
