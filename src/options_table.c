/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options_impl.h"

#include <string.h>

#include "config.h"

static const struct choice vers_words[] = {
	{ "4", OPT_VERS_4, NULL },
	{ "4.2", OPT_VERS_42, NULL },
	{ "4.1", OPT_VERS_41, NULL },
	{ "3", OPT_VERS_3, NULL },
	{ "4.0", 0, "NFSv4.0 has no sessions, which this client needs" },
	{ "2", 0, "NFSv2 is not supported" },
	{ NULL, 0, NULL },
};

static const char not_rdma[] = "this client supports RDMA only; for TCP use mount -t nfs";
static const struct choice proto_words[] = {
	{ "rdma", AF_UNSPEC, NULL },
	{ "rdma6", AF_INET6, NULL },
	{ "tcp", 0, not_rdma },
	{ "tcp6", 0, not_rdma },
	{ "udp", 0, not_rdma },
	{ "udp6", 0, not_rdma },
	{ NULL, 0, NULL },
};

static const struct choice local_lock_words[] = {
	{ "none", 0, NULL },
	{ "flock", OPT_LOCAL_FLOCK, NULL },
	{ "posix", OPT_LOCAL_POSIX, NULL },
	{ "all", OPT_LOCAL_FLOCK | OPT_LOCAL_POSIX, NULL },
	{ NULL, 0, NULL },
};

/* mountproto has no field, because there is no choice. */
static const char mountd_tcp[] = "mountd is asked over TCP only, and the mount itself is RDMA";
static const struct choice mountproto_words[] = {
	{ "tcp", 0, NULL },
	{ "tcp6", 0, NULL },
	{ "udp", 0, mountd_tcp },
	{ "udp6", 0, mountd_tcp },
	{ "rdma", 0, mountd_tcp },
	{ NULL, 0, NULL },
};

static const struct choice fabric_words[] = {
	{ "auto", NFS_PLAN_AUTO, NULL },
	{ "verbs", NFS_PLAN_VERBS, NULL },
	{ "iwarp", NFS_PLAN_IWARP, NULL },
	{ NULL, 0, NULL },
};

static const struct choice loop_words[] = {
	{ "epoll", 0, NULL },
	{ "io_uring", 0, "it was slower than epoll with many requests, and was removed" },
	{ NULL, 0, NULL },
};

static const struct choice memreg_words[] = {
	{ "auto", OPT_MEMREG_AUTO, NULL },
	{ "pool", OPT_MEMREG_POOL, NULL },
	{ "call", OPT_MEMREG_CALL, NULL },
	{ "mw", OPT_MEMREG_MW, NULL },
	{ "cache", 0, "pool keeps all buffers registered, so there is nothing to cache; it was removed" },
	{ "dynamic", 0, "use call" },
	{ "fast", 0, "use mw" },
	{ "all-physical", 0, "only a kernel can do that" },
	{ NULL, 0, NULL },
};

static const struct choice policy_words[] = {
	{ "round-robin", RR_ROUND_ROBIN, NULL },
	{ "min-inflight", RR_MIN_INFLIGHT, NULL },
	{ "min-latency", RR_MIN_LATENCY, NULL },
	{ NULL, 0, NULL },
};

static const char no_kerberos[] = "Kerberos is not supported yet; use sys or none";
static const struct choice sec_words[] = {
	{ "sys", OPT_SEC_SYS, NULL },
	{ "none", OPT_SEC_NONE, NULL },
	{ "krb5", 0, no_kerberos },
	{ "krb5i", 0, no_kerberos },
	{ "krb5p", 0, no_kerberos },
	{ NULL, 0, NULL },
};

static const struct choice idmap_words[] = {
	{ "user", OPT_IDMAP_USER, NULL },
	{ "none", OPT_IDMAP_NONE, NULL },
	{ "file", OPT_IDMAP_FILE, NULL },
	{ NULL, 0, NULL },
};

static const struct choice lookupcache_words[] = {
	{ "all", FS_LOOKUPCACHE_ALL, NULL },
	{ "pos", FS_LOOKUPCACHE_POS, NULL },
	{ "positive", FS_LOOKUPCACHE_POS, NULL },
	{ "none", FS_LOOKUPCACHE_NONE, NULL },
	{ NULL, 0, NULL },
};

static const struct choice consistency_words[] = {
	{ "cto", OPT_CTO, NULL },
	{ "solo", OPT_SOLO, NULL },
	{ NULL, 0, NULL },
};

#define AT(field) .off = offsetof(struct options, field)
#define SETS(field, v) .kind = FLAG, AT(field), .value = (v)
#define DEFAULT(field, v) SETS(field, v), .def = true
#define NUMBER(unit, field, least, most, unless_given) \
	.kind = UINT, AT(field), .min = (least), .max = (most), .def = (unless_given), .meta = (unit)
#define WORD(field, words, unless_given) \
	.kind = CHOICE, AT(field), .choices = (words), .value = (unless_given)
#define FURTHER(name) { name, g_paths, one_list, .kind = REFUSE }
#define IGNORED(name) { name, g_ignore, .kind = IGNORE }
#define BY_DAEMON .remount = OPT_BY_DAEMON
#define BY_KERNEL .remount = OPT_BY_KERNEL

static const char one_list[] =
	"several addresses of the server are one list: remoteports=ADDR~ADDR2~..";

static const char g_server[] = "Server and protocol";
static const char g_rdma[]   = "RDMA";
static const char g_rings[]  = "Rings (programs that read and write past FUSE)";
static const char g_paths[]  = "Several paths";
static const char g_time[]   = "Time-outs";
static const char g_cache[]  = "Caching";
static const char g_mount[]  = "The mount";
static const char g_diag[]   = "Diagnostics";
static const char g_ignore[] = "Accepted without effect";

const struct row opt_table[] = {
	{ "vers", g_server, "NFS version; 4 is 4.2, or 4.1", WORD(vers, vers_words, OPT_VERS_4) },
	{ "nfsvers", .same_as = "vers" },
	{ "minorversion", g_server, "minor version; overrides the one in vers=4.x",
	  NUMBER("N", minorversion, 1, 2, UINT_UNSET), .def_text = "the newest" },
	{ "proto", g_server, "transport; rdma6 takes IPv6 addresses only",
	  WORD(family, proto_words, AF_UNSPEC) },
	{ "port", g_server, "the server's RDMA port", NUMBER("N", port, 1, 65535, 20049) },
	{ "mountport", g_server, "TCP port of mountd, for vers=3",
	  NUMBER("N", mountport, 0, 65535, 0), .def_text = "0: ask rpcbind" },
	{ "nlmport", g_server, "TCP port of lockd, for vers=3",
	  NUMBER("N", nlmport, 0, 65535, 0), .def_text = "0: ask rpcbind" },
	{ "mountproto", g_server, "transport to mountd, for vers=3", .kind = CHOICE,
	  .choices = mountproto_words },
	{ "tcp", g_server, not_rdma, .kind = REFUSE },
	{ "udp", g_server, not_rdma, .kind = REFUSE },
	{ "sec", g_server, "sys sends uid, gid and groups; none sends nothing",
	  WORD(sec, sec_words, OPT_SEC_SYS) },
	{ "rsize", g_server, "most bytes of one READ",
	  NUMBER("BYTES", rsize, 4096, 4194304, 1048576), .multiple = 4096 },
	{ "wsize", g_server, "most bytes of one WRITE",
	  NUMBER("BYTES", wsize, 4096, 4194304, 1048576), .multiple = 4096 },
	{ "readahead", g_server, "most bytes read ahead of a reader; 0: none",
	  NUMBER("BYTES", readahead, 0, 64u << 20, 8u << 20), BY_DAEMON },
	{ "rdirplus", g_server, "read attributes along with names", DEFAULT(rdirplus, true) },
	{ "nordirplus", g_server, "read names only", SETS(rdirplus, false) },
	{ "lock", g_server, "file locks are the server's (consistency=solo: local)",
	  DEFAULT(nolock, false) },
	{ "nolock", g_server, "file locks are local to this client", SETS(nolock, true) },
	{ "deleg", g_server, "ask for delegations of files that are opened",
	  DEFAULT(deleg, true) },
	{ "nodeleg", g_server, "ask for none", SETS(deleg, false) },
	{ "delegflush", g_server, "close() waits for the server under a delegation, too", DEFAULT(delegflush, true) },
	{ "nodelegflush", g_server, "close() does not wait for the server while the file has a write delegation",
	  SETS(delegflush, false) },
	{ "local_lock", g_server, "kinds of locks that stay local", WORD(local_lock, local_lock_words, 0) },
	{ "acl", g_server, "the server's access control lists", SETS(acl, true) },
	{ "noacl", g_server, "the server is not asked for them", DEFAULT(acl, false) },

	{ "idmap", g_server, "how uids and gids become the server's", WORD(idmap, idmap_words, OPT_IDMAP_USER) },
	{ "idmapfile", g_server, "for idmap=file", .kind = STRING, AT(idmapfile), .def_text = "none", .meta = "FILE",
	  .apply = opt_apply_path },

	{ "fabric", g_rdma, "what carries RDMA", WORD(fabric, fabric_words, NFS_PLAN_AUTO) },
	{ "nconnect", g_rdma, "threads, each with a connection on each path",
	  NUMBER("N", lanes, 1, NFS_LANES_MAX, 0), .def_text = "one per CPU" },
	{ "lanes", .same_as = "nconnect" },
	{ "loop", g_rdma, "how a thread waits for events", .kind = CHOICE, .choices = loop_words },
	{ "credits", g_rdma, "most calls in flight on one connection",
	  NUMBER("N", credits, 2, 128, 64) },
	{ "mpacrc", g_rdma, "iwarp: ask for a CRC32c on every frame", SETS(mpa_crc, true) },
	{ "nompacrc", g_rdma, "iwarp: CRC32c only if the server asks for it", DEFAULT(mpa_crc, false) },
	{ "mssfpdu", g_rdma, "iwarp: frames fit TCP segments, as adapters want",
	  SETS(mss_fpdu, true) },
	{ "nomssfpdu", g_rdma, "iwarp: frames of up to 64 KiB", DEFAULT(mss_fpdu, false) },
	{ "memreg", g_rdma, "how memory is registered",
	  WORD(memreg, memreg_words, OPT_MEMREG_AUTO) },

	{ "rings", g_rings, "programs may have some (not with consistency=solo)", DEFAULT(rings, true) },
	{ "norings", g_rings, "they may not", SETS(rings, false) },
	{ "maxrings", g_rings, "most rings of one user", NUMBER("N", maxrings, 1, 4096, 256) },
	{ "ringmem", g_rings, "most memory of one user's programs", NUMBER("MIB", ringmem, 1, 65536, 4096) },

	{ "remoteports", g_paths, "the server's addresses: ranges, names", .kind = STRING,
	  .def_text = "SERVER's", .meta = "A-B~C", .apply = opt_apply_remoteports },
	{ "addr", .same_as = "remoteports" },
	FURTHER("addr2"), FURTHER("addr3"), FURTHER("addr4"), FURTHER("addr5"), FURTHER("addr6"),
	FURTHER("addr7"), FURTHER("addr8"),
	{ "localports", g_paths, "local addresses to connect from, or interfaces", .kind = STRING,
	  .def_text = "any", .meta = "A-B~C", .apply = opt_apply_localports },
	{ "localaddr", .same_as = "localports" },
	{ "mp_policy", g_paths, "path choice", WORD(policy, policy_words, RR_MIN_INFLIGHT), BY_DAEMON },
	{ "mdconnect", g_paths, "additional connections for calls without file data",
	  NUMBER("N", mdconnect, 0, 4, 0) },
	{ "heartbeat", g_paths, "silence after which a connection is given up",
	  NUMBER("SEC", heartbeat, 1, 3600, UINT_UNSET), .def_text = "5", BY_DAEMON },

	{ "timeo", g_time, "tenths of a second to wait for a reply",
	  NUMBER("N", timeo, 1, 36000, 600), BY_DAEMON },
	{ "retrans", g_time, "further time-outs before a soft mount fails",
	  NUMBER("N", retrans, 0, 1000, 2), BY_DAEMON },
	{ "hard", g_time, "retry until the server is back", DEFAULT(soft, false), BY_DAEMON },
	{ "soft", g_time, "fail with an I/O error after retrans+1 time-outs", SETS(soft, true), BY_DAEMON },
	{ "softerr", g_time, "failing with ETIMEDOUT is not supported yet; soft fails with EIO",
	  .kind = REFUSE },
	{ "fg", g_time, "wait for further attempts (retry=)", DEFAULT(bg, false) },
	{ "bg", g_time, "make them in the background", SETS(bg, true) },
	{ "retry", g_time, "minutes to retry; 0: try once",
	  NUMBER("N", retry, 0, 10000, UINT_UNSET), .def_text = "0; bg: 10000" },

	{ "acregmin", g_cache, "least time that a file's attributes are cached",
	  NUMBER("SEC", acregmin, 0, 86400, UINT_UNSET), .def_text = "3", BY_DAEMON },
	{ "acregmax", g_cache, "most time that a file's attributes are cached",
	  NUMBER("SEC", acregmax, 0, 86400, UINT_UNSET), .def_text = "60", BY_DAEMON },
	{ "acdirmin", g_cache, "the same for directories",
	  NUMBER("SEC", acdirmin, 0, 86400, UINT_UNSET), .def_text = "30", BY_DAEMON },
	{ "acdirmax", g_cache, "the same for directories",
	  NUMBER("SEC", acdirmax, 0, 86400, UINT_UNSET), .def_text = "60", BY_DAEMON },
	{ "actimeo", g_cache, "sets these four to one value", .kind = UINT, .min = 0,
	  .max = 86400, .def_text = "none", .meta = "SEC", .apply = opt_apply_actimeo, BY_DAEMON },
	{ "ac", g_cache, "cache attributes", DEFAULT(noac, false) },
	{ "noac", g_cache, "do not cache attributes", SETS(noac, true) },
	{ "nocto", g_cache,
	  "an open that does not ask the server misses what others write; where nobody else "
	  "writes, use consistency=solo", .kind = REFUSE },
	{ "consistency", g_cache, "close-to-open, or for one writer",
	  WORD(consistency, consistency_words, OPT_CTO) },
	{ "writebehind", g_cache, "share of memory for write-behind, up to 1 GiB",
	  NUMBER("PERCENT", writebehind, 0, 75, 12), BY_DAEMON },
	{ "lookupcache", g_cache, "which name look-ups are cached",
	  WORD(lookupcache, lookupcache_words, FS_LOOKUPCACHE_ALL) },

	{ "ro", g_mount, "read-only", SETS(ro, true), BY_KERNEL },
	{ "rw", g_mount, "read and write", DEFAULT(ro, false), BY_KERNEL },
	{ "allow_other", g_mount, "all users may use the mount",
	  .kind = TRI, AT(allow_other), .value = OPT_YES, .def_text = "when root mounts" },
	{ "noallow_other", g_mount, "only the user who mounted may use it",
	  .kind = TRI, AT(allow_other), .value = OPT_NO },
	{ "allow_root", g_mount, "only that user and root may use it", SETS(allow_root, true) },
	{ "default_permissions", g_mount, "the kernel checks file modes as well",
	  .kind = TRI, AT(default_permissions), .value = OPT_YES,
	  .def_text = "with allow_other, allow_root" },
	{ "nodefault_permissions", g_mount, "only the server checks",
	  .kind = TRI, AT(default_permissions), .value = OPT_NO },
	{ "suid", g_mount, "set-user-ID programs work (root only)", SETS(nosuid, false), BY_KERNEL },
	{ "nosuid", g_mount, "set-user-ID programs do not work", DEFAULT(nosuid, true), BY_KERNEL },
	{ "dev", g_mount, "device files work (root only)", SETS(nodev, false), BY_KERNEL },
	{ "nodev", g_mount, "device files do not work", DEFAULT(nodev, true), BY_KERNEL },
	{ "exec", g_mount, "programs can be run", DEFAULT(noexec, false), BY_KERNEL },
	{ "noexec", g_mount, "programs cannot be run", SETS(noexec, true), BY_KERNEL },
	{ "sync", g_mount, "every write is synchronous", SETS(sync, true) },
	{ "async", g_mount, "writes need not be synchronous", DEFAULT(sync, false) },
	{ "dirsync", g_mount, "directory changes are synchronous", SETS(dirsync, true) },
	{ "noatime", g_mount, "shown as noatime; the server keeps access times",
	  SETS(noatime, true), BY_KERNEL },
	{ "atime", g_mount, "not shown as noatime", DEFAULT(noatime, false), BY_KERNEL },
	{ "remount", g_mount, "change the options of a mount that is there", SETS(remount, true) },
	{ "sloppy", g_mount, "the same as -s", SETS(sloppy, true) },
	{ "fsname", g_mount, "name of the source in mount tables", .kind = STRING, AT(fsname),
	  .def_text = "SERVER:/EXPORT", .meta = "NAME" },

	{ "stats", g_diag, "write counters to FILE on SIGUSR1 and when unmounted", .kind = STRING,
	  AT(stats), .def_text = "none", .meta = "FILE", .apply = opt_apply_path },
	{ "debug", g_diag, "log every step", SETS(debug, true) },

	IGNORED("defaults"), IGNORED("auto"), IGNORED("noauto"),
	{ "user", g_ignore, .kind = IGNORE, .apply = opt_apply_user },
	IGNORED("nouser"),
	{ "users", g_ignore, .kind = IGNORE, .apply = opt_apply_user },
	{ "owner", g_ignore, .kind = IGNORE, .apply = opt_apply_group },
	{ "group", g_ignore, .kind = IGNORE, .apply = opt_apply_group },
	IGNORED("nofail"), IGNORED("_netdev"), IGNORED("comment"), IGNORED("x-"), IGNORED("rdma"),
	IGNORED("cto"), IGNORED("resvport"), IGNORED("noresvport"),
	IGNORED("silent"), IGNORED("loud"), IGNORED("intr"), IGNORED("nointr"),
	/* Those of mount tables, which mount(8) hands on for a remount. */
	IGNORED("user_id"), IGNORED("group_id"), IGNORED("max_read"),
	IGNORED("relatime"), IGNORED("norelatime"), IGNORED("strictatime"),
	IGNORED("nostrictatime"), IGNORED("diratime"), IGNORED("nodiratime"),
};

const size_t opt_rows = sizeof(opt_table) / sizeof(opt_table[0]);

const char opt_usage_line[] =
	"usage: " PACKAGE_NAME " [-fdvrwsnVh] SERVER:/EXPORT MOUNTPOINT [-o OPTION[,OPTION...]]";

const struct row *opt_row_named(const char *name)
{
	for (size_t i = 0; i < opt_rows; i++)
		if (strcmp(opt_table[i].name, name) == 0)
			return &opt_table[i];
	return NULL;
}

const struct row *opt_meaning(const struct row *r)
{
	return r->same_as ? opt_row_named(r->same_as) : r;
}

const char *opt_words_text(const struct row *r, char *buf, size_t len)
{
	const struct choice *last = NULL;
	size_t n = 0;

	for (const struct choice *c = r->choices; c->word; c++)
		if (!c->refuse)
			last = c;
	buf[0] = '\0';
	for (const struct choice *c = r->choices; c->word && n < len; c++)
		if (!c->refuse)
			n += (size_t)snprintf(buf + n, len - n, "%s%s",
					      n == 0 ? "" : c == last ? " or " : ", ", c->word);
	return buf;
}

const char *opt_range_text(const struct row *r, char *buf, size_t len)
{
	int n = snprintf(buf, len, "%u to %u", r->min, r->max);

	if (r->multiple)
		snprintf(buf + n, len - (size_t)n, " in steps of %u", r->multiple);
	return buf;
}
