/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many buffers a mount has, and by how much they may grow: as many as RLIMIT_MEMLOCK allows.
 * It runs before the client exists. A path that is added later may lock what is left
 * (nfs_path_add()). If the buffers can grow, that is enough for one.
 */
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/meminfo.h"
#include "rpcrdma/memreg.h"
#include "nfs/plan_impl.h"

/* The buffers do not grow by more than this. */
#define ROOM_MOST ((size_t)1 << 30)
/* arena_plan() plans for no fewer, unless the user wants fewer. */
#define CREDITS_LEAST 8u

static bool may_lock_all(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &h, d) == 0 &&
	       (d[0].effective & (1u << CAP_IPC_LOCK));
}

/* How many bytes may be pinned; SIZE_MAX: there is no limit. The hard limit is what the administrator allows,
 * and the soft one may be lower only because most programs lock nothing. */
static size_t memlock_limit(void)
{
	struct rlimit r;
	rlim_t soft;

	if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &r) < 0 || r.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	soft = r.rlim_cur;
	r.rlim_cur = r.rlim_max;
	if (soft < r.rlim_max && setrlimit(RLIMIT_MEMLOCK, &r) < 0)
		return soft;
	return r.rlim_max == RLIM_INFINITY ? SIZE_MAX : r.rlim_max;
}

/* How often a buffer may be registered at once. Each time counts. Without windows auto becomes
 * pool (but see call_bytes()), and mw becomes call. */
static unsigned times_locked(const struct nfs_config *cfg)
{
	return cfg->memreg == &rr_memreg_pool || cfg->memreg == &rr_memreg_auto ? 1 : 2;
}

/* The least that auto has to lock besides. While windows are in doubt it registers the buffers of
 * each call once more (memreg.h). A call that finds no room waits for others, which end; but if
 * there were no room for a single one, all would wait for ever. */
static size_t call_bytes(const struct nfs_config *cfg, const struct nfs_plan_in *in, uint32_t io)
{
	size_t n = (io + in->request_max - 1) / in->request_max;

	return cfg->memreg == &rr_memreg_auto ? n * ARENA_BIG_SIZE + ARENA_MID_SIZE : 0;
}

/* What the queues of a connection with 64 credits pin, where the hardware keeps them in the
 * process's memory: work requests of up to 256 bytes, completions of 64, doorbells. Windows
 * take places in them. */
#define QUEUE_BYTES  ((size_t)65536)
#define WINDOW_BYTES ((size_t)65536)

static size_t queue_bytes(const struct nfs_config *cfg, unsigned credits)
{
	size_t bytes = QUEUE_BYTES + (cfg->memreg->windows ? WINDOW_BYTES : 0);

	return bytes * ((credits + 63) / 64);
}

/* The connections of a lane. */
static unsigned plan_memory_connections(const struct nfs_config *cfg)
{
	return cfg->npaths * (1 + cfg->mdconnect);
}

/* What the connections of a lane pin besides its buffers: each has its queues, and receives in
 * memory of its own. */
static size_t connection_bytes(const struct nfs_config *cfg, unsigned credits)
{
	return plan_memory_connections(cfg) * (queue_bytes(cfg, credits) + rr_recv_bytes(credits));
}

/*
 * Plans so many lanes within the limit, with as many credits as possible. The fewer credits,
 * the fewer receives have to be kept back for the connections, so each number of credits has a
 * plan of its own. Returns 0, or -ENOMEM with what one lane needs at least in *need.
 */
static int plan_lanes(struct nfs_config *cfg, unsigned most, size_t limit, size_t *need)
{
	for (unsigned c = most; ; c--) {
		size_t reserve = connection_bytes(cfg, c);
		int rc;

		cfg->credits = c;
		rc = arena_plan(&cfg->buffers, &cfg->credits, cfg->lanes, limit, reserve, need);
		if (rc ? c <= CREDITS_LEAST : cfg->credits == c)
			return rc;
	}
}

/* By how much the buffers may grow: a share of the memory that there is. */
static size_t share_of_memory(const struct nfs_plan_in *in)
{
	struct meminfo m;
	size_t most;

	if (!in->growth)
		return 0;
	meminfo_open(&m, "");
	most = (size_t)(meminfo_total(&m) / 100 * in->growth);
	meminfo_close(&m);
	return most < ROOM_MOST ? most : ROOM_MOST;
}

static uint32_t plan_memory_longest(const struct nfs_config *cfg)
{
	return cfg->rsize > cfg->wsize ? cfg->rsize : cfg->wsize;
}

/* What the plan leaves of the limit: for growing, in whole extents, and for further paths. */
static void divide_rest(struct nfs_config *cfg, const struct nfs_plan_in *in, size_t limit,
			unsigned times)
{
	size_t connections = cfg->lanes * connection_bytes(cfg, cfg->credits), most = 0;
	size_t left = limit - cfg->lanes * arena_bytes(&cfg->buffers) * times - connections -
		      call_bytes(cfg, in, plan_memory_longest(cfg));

	cfg->room = share_of_memory(in);
	if (limit == SIZE_MAX)
		return;
	cfg->path_locks = connections / cfg->npaths;
	if (left > cfg->path_locks)
		most = (left - cfg->path_locks) / times / ARENA_EXTENT * ARENA_EXTENT;
	if (cfg->room > most)
		cfg->room = most;
	cfg->locks_left = left - cfg->room * times;
}

/* READs and WRITEs of more than a MiB take several large buffers each. Lowers rsize and wsize to
 * what there are buffers for, and room in what is left; `text` says so, or is empty. */
static void lower_sizes(struct nfs_config *cfg, const struct nfs_plan_in *in, size_t limit,
			char *text, size_t cap)
{
	size_t left = limit - cfg->lanes * (arena_bytes(&cfg->buffers) + connection_bytes(cfg, cfg->credits));
	uint32_t most = in->longest_io(cfg->lanes * cfg->buffers.n[ARENA_BIG]);

	while (most > in->request_max && call_bytes(cfg, in, most) > left)
		most -= in->request_max;
	text[0] = '\0';
	if (cfg->rsize > most || cfg->wsize > most)
		snprintf(text, cap, ", and rsize and wsize of at most %u", most);
	cfg->rsize = nfs_clamp_size(cfg->rsize, most);
	cfg->wsize = nfs_clamp_size(cfg->wsize, most);
}

/* Registered memory counts against RLIMIT_MEMLOCK. If the limit is too low we use fewer
 * buffers, then fewer lanes, until they fit. One message says so, and what to do. */
int plan_memory(struct nfs_config *cfg, const struct nfs_plan_in *in, struct errbuf *eb)
{
	/* iWARP in user space pins nothing. */
	size_t limit = cfg->paths[0].fabric == &fabric_iwarp ? SIZE_MAX : memlock_limit(), need = 0, wanted;
	size_t again = call_bytes(cfg, in, in->request_max);
	size_t again_all = call_bytes(cfg, in, plan_memory_longest(cfg));
	size_t planned = limit == SIZE_MAX ? limit : limit > again ? limit - again : 0;
	unsigned times = times_locked(cfg);
	struct arena_counts full = { 0 };
	unsigned credits = in->credits;
	char sizes[64];
	int rc;

	rc = arena_plan(&full, &credits, in->lanes, SIZE_MAX, 0, &need);
	if (rc)
		return err_set(eb, rc, "cannot plan the buffers: %s", strerror(-rc));
	wanted = (arena_bytes(&full) + connection_bytes(cfg, in->credits)) * in->lanes * times + again_all;
	cfg->locks_limit = limit;
	cfg->locks_wanted = cfg->paths[0].fabric == &fabric_iwarp ? 0 : wanted;
	for (cfg->lanes = in->lanes; ; cfg->lanes--) {
		rc = plan_lanes(cfg, in->credits, limit == SIZE_MAX ? limit : planned / times, &need);
		if (rc == 0)
			break;
		if (cfg->lanes == 1)
			return err_set(eb, rc, "%zu KiB of locked memory (RLIMIT_MEMLOCK) are not enough, "
				       "at least %zu KiB are needed%s: raise the limit with 'ulimit -l %zu', "
				       "in /etc/security/limits.conf, or with LimitMEMLOCK= in a unit",
				       limit / 1024, (need * times + again) / 1024 + 1,
				       plan_memory_connections(cfg) > 1 ? " for so many paths and connections" : "",
				       (need * times + again) / 1024 + 1);
	}
	lower_sizes(cfg, in, limit, sizes, sizeof(sizes));
	if (cfg->lanes < in->lanes || sizes[0] || arena_bytes(&cfg->buffers) < arena_bytes(&full))
		log_warn("RLIMIT_MEMLOCK is %zu KiB: using %u of %u connections on each path with %zu KiB "
			 "of buffers each%s; 'ulimit -l %zu' would allow all of them",
			 limit / 1024, cfg->lanes, in->lanes, arena_bytes(&cfg->buffers) / 1024, sizes,
			 wanted / 1024 + 1);
	divide_rest(cfg, in, limit, times);
	return 0;
}
