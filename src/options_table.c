/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options_impl.h"

#include <stdint.h>
#include <string.h>

#include "config.h"

static const struct choice vers_words[] = {
	{ "4.1", OPT_VERS_41, NULL },
	{ "4.2", OPT_VERS_42, NULL },
	{ "3", OPT_VERS_3, NULL },
	/* Allowed only together with minorversion=, so it is not listed. */
	{ "4", OPT_VERS_4, "" },
	{ "4.0", 0, "NFSv4.0 has no sessions, which this client needs" },
	{ "2", 0, "NFSv2 is not supported" },
	{ NULL, 0, NULL },
};

static const char not_rdma[] = "this client supports RDMA only; for TCP use mount -t nfs";
static const struct choice proto_words[] = {
	{ "rdma", OPT_FAMILY_ANY, NULL },
	{ "rdma6", OPT_FAMILY_INET6, NULL },
	{ "tcp", 0, not_rdma },
	{ "tcp6", 0, not_rdma },
	{ "udp", 0, not_rdma },
	{ "udp6", 0, not_rdma },
	{ NULL, 0, NULL },
};

/* local_lock and mountproto have no field, because there is no choice. */
static const char no_server_locks[] = "locks on the server are not supported yet; use nolock";
static const struct choice local_lock_words[] = {
	{ "all", 0, NULL },
	{ "none", 0, no_server_locks },
	{ "flock", 0, no_server_locks },
	{ "posix", 0, no_server_locks },
	{ NULL, 0, NULL },
};

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
	{ "auto", OPT_FABRIC_AUTO, NULL },
	{ "verbs", OPT_FABRIC_VERBS, NULL },
	{ "iwarp", OPT_FABRIC_IWARP, NULL },
	{ NULL, 0, NULL },
};

static const struct choice loop_words[] = {
	{ "epoll", 0, NULL },
	{ "io_uring", 0, "it was slower than epoll with many requests, and is gone" },
	{ NULL, 0, NULL },
};

static const struct choice memreg_words[] = {
	{ "auto", OPT_MEMREG_AUTO, NULL },
	{ "pool", OPT_MEMREG_POOL, NULL },
	{ "call", OPT_MEMREG_CALL, NULL },
	{ "mw", OPT_MEMREG_MW, NULL },
	{ "cache", 0, "pool keeps all buffers registered, so there is nothing to look up, and it is gone" },
	{ "dynamic", 0, "the word here is call" },
	{ "fast", 0, "the word here is mw" },
	{ "all-physical", 0, "only a kernel can do that" },
	{ NULL, 0, NULL },
};

static const struct choice policy_words[] = {
	{ "round-robin", OPT_POLICY_ROBIN, NULL },
	{ "min-inflight", OPT_POLICY_INFLIGHT, NULL },
	{ "min-latency", OPT_POLICY_LATENCY, NULL },
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

static const struct choice lookupcache_words[] = {
	{ "all", OPT_LOOKUP_ALL, NULL },
	{ "pos", OPT_LOOKUP_POS, NULL },
	{ "positive", OPT_LOOKUP_POS, NULL },
	{ "none", OPT_LOOKUP_NONE, NULL },
	{ NULL, 0, NULL },
};

static const struct choice consistency_words[] = {
	{ "cto", OPT_CTO, NULL },
	{ "solo", OPT_SOLO, NULL },
	{ NULL, 0, NULL },
};

#define AT(field) .off = offsetof(struct options, field)

#define FURTHER(name) { name, REFUSE, .group = g_paths, .help = one_list }

static const char one_list[] =
	"several addresses of the server are one list: remoteports=ADDR~ADDR2~..";

static const char g_server[] = "Server and protocol";
static const char g_rdma[]   = "RDMA";
static const char g_paths[]  = "Several paths";
static const char g_time[]   = "Time-outs";
static const char g_cache[]  = "Caching";
static const char g_mount[]  = "The mount";
static const char g_diag[]   = "Diagnostics";
static const char g_ignore[] = "Accepted without effect";

const struct row opt_table[] = {
	{ "vers", CHOICE, AT(vers), .choices = vers_words, .value = OPT_VERS_41,
	  .group = g_server, .help = "NFS version" },
	{ "nfsvers", .same_as = "vers" },
	{ "minorversion", UINT, AT(minorversion), .min = 1, .max = 2, .def = UINT_UNSET,
	  .def_text = "1", .meta = "N",
	  .group = g_server, .help = "minor version; overrides the one in vers=4.x" },
	{ "proto", CHOICE, AT(family), .choices = proto_words, .value = OPT_FAMILY_ANY,
	  .group = g_server, .help = "transport; rdma6 takes IPv6 addresses only" },
	{ "port", UINT, AT(port), .min = 1, .max = 65535, .def = 20049, .meta = "N",
	  .group = g_server, .help = "the server's RDMA port" },
	{ "mountport", UINT, AT(mountport), .min = 0, .max = 65535, .def = 0, .meta = "N",
	  .def_text = "0: ask rpcbind",
	  .group = g_server, .help = "TCP port of mountd, for vers=3" },
	{ "mountproto", CHOICE, .off = SIZE_MAX, .choices = mountproto_words,
	  .group = g_server, .help = "how mountd is asked, for vers=3" },
	{ "tcp", REFUSE, .group = g_server, .help = not_rdma },
	{ "udp", REFUSE, .group = g_server, .help = not_rdma },
	{ "sec", CHOICE, AT(sec), .choices = sec_words, .value = OPT_SEC_SYS,
	  .group = g_server, .help = "sys sends uid, gid and groups; none sends nothing" },
	{ "rsize", UINT, AT(rsize), .min = 4096, .max = 4194304, .def = 1048576,
	  .multiple = 4096, .meta = "BYTES",
	  .group = g_server, .help = "most bytes of one READ" },
	{ "wsize", UINT, AT(wsize), .min = 4096, .max = 4194304, .def = 1048576,
	  .multiple = 4096, .meta = "BYTES",
	  .group = g_server, .help = "most bytes of one WRITE" },
	{ "readahead", UINT, AT(readahead), .min = 0, .max = 64u << 20, .def = 8u << 20,
	  .meta = "BYTES",
	  .group = g_server, .help = "most bytes read ahead of a reader; 0: none" },
	{ "rdirplus", FLAG, AT(rdirplus), .value = true, .def = true,
	  .group = g_server, .help = "read attributes along with names" },
	{ "nordirplus", FLAG, AT(rdirplus), .value = false,
	  .group = g_server, .help = "read names only" },
	{ "nolock", FLAG, AT(nolock), .value = true, .def = true,
	  .group = g_server, .help = "file locks hold on this client only" },
	{ "lock", REFUSE, .group = g_server, .help = no_server_locks },
	{ "local_lock", CHOICE, .off = SIZE_MAX, .choices = local_lock_words,
	  .group = g_server, .help = "which locks hold on this client only" },
	{ "acl", REFUSE, .group = g_server,
	  .help = "access control lists are not supported yet; use noacl" },

	{ "fabric", CHOICE, AT(fabric), .choices = fabric_words, .value = OPT_FABRIC_AUTO,
	  .group = g_rdma, .help = "what carries RDMA" },
	{ "nconnect", UINT, AT(lanes), .min = 1, .max = OPT_LANES_MAX, .def = 0, .meta = "N",
	  .def_text = "one per CPU", .group = g_rdma,
	  .help = "threads, each with a connection on each path" },
	{ "lanes", .same_as = "nconnect" },
	{ "loop", CHOICE, .off = SIZE_MAX, .choices = loop_words, .group = g_rdma,
	  .help = "how such a thread waits" },
	{ "credits", UINT, AT(credits), .min = 2, .max = 128, .def = 64, .meta = "N",
	  .group = g_rdma, .help = "most calls in flight on one connection" },
	{ "mpacrc", FLAG, AT(mpa_crc), .value = true,
	  .group = g_rdma, .help = "iwarp: ask for a CRC32c on every frame" },
	{ "nompacrc", FLAG, AT(mpa_crc), .value = false, .def = true,
	  .group = g_rdma, .help = "iwarp: only if the server asks for it" },
	{ "mssfpdu", FLAG, AT(mss_fpdu), .value = true,
	  .group = g_rdma, .help = "iwarp: frames fit TCP segments, as adapters want" },
	{ "nomssfpdu", FLAG, AT(mss_fpdu), .value = false, .def = true,
	  .group = g_rdma, .help = "iwarp: frames of up to 64 KiB" },
	{ "memreg", CHOICE, AT(memreg), .choices = memreg_words, .value = OPT_MEMREG_AUTO,
	  .group = g_rdma, .help = "how memory is registered" },

	{ "remoteports", STRING, .off = SIZE_MAX, .meta = "A-B~C", .apply = opt_apply_remoteports,
	  .def_text = "SERVER's",
	  .group = g_paths, .help = "the server's addresses: ranges, names" },
	{ "addr", .same_as = "remoteports" },
	FURTHER("addr2"), FURTHER("addr3"), FURTHER("addr4"), FURTHER("addr5"), FURTHER("addr6"),
	FURTHER("addr7"), FURTHER("addr8"),
	{ "localports", STRING, .off = SIZE_MAX, .meta = "A-B~C", .apply = opt_apply_localports,
	  .def_text = "any",
	  .group = g_paths, .help = "local addresses to connect from, or interfaces" },
	{ "localaddr", .same_as = "localports" },
	{ "mp_policy", CHOICE, AT(policy), .choices = policy_words, .value = OPT_POLICY_INFLIGHT,
	  .group = g_paths, .help = "which path" },
	{ "mdconnect", UINT, AT(mdconnect), .min = 0, .max = 4, .def = 0, .meta = "N",
	  .group = g_paths, .help = "further connections for calls without file data" },
	{ "heartbeat", UINT, AT(heartbeat), .min = 1, .max = 3600, .def = UINT_UNSET,
	  .def_text = "5", .meta = "SEC",
	  .group = g_paths, .help = "a connection silent for so long is dead" },

	{ "timeo", UINT, AT(timeo), .min = 1, .max = 36000, .def = 600, .meta = "N",
	  .group = g_time, .help = "tenths of a second to wait for a reply" },
	{ "retrans", UINT, AT(retrans), .min = 0, .max = 1000, .def = 2, .meta = "N",
	  .group = g_time, .help = "time-outs before a soft mount gives up" },
	{ "hard", FLAG, AT(soft), .value = false, .def = true,
	  .group = g_time, .help = "wait for a lost server as long as it takes" },
	{ "soft", FLAG, AT(soft), .value = true,
	  .group = g_time, .help = "fail with an I/O error after retrans time-outs" },
	{ "softerr", REFUSE, .group = g_time,
	  .help = "failing with ETIMEDOUT is not supported yet; soft fails with EIO" },
	{ "bg", REFUSE, .group = g_time,
	  .help = "retrying in the background is not supported; retry=MINUTES retries in the "
		  "foreground, and nofail lets a machine start without the mount" },
	{ "retry", UINT, AT(retry), .min = 0, .max = 10000, .def = 0, .meta = "N",
	  .group = g_time, .help = "minutes to go on trying to mount; 0: try once" },

	{ "acregmin", UINT, AT(acregmin), .min = 0, .max = 86400, .def = UINT_UNSET,
	  .def_text = "3", .meta = "SEC",
	  .group = g_cache, .help = "least time that a file's attributes are cached" },
	{ "acregmax", UINT, AT(acregmax), .min = 0, .max = 86400, .def = UINT_UNSET,
	  .def_text = "60", .meta = "SEC",
	  .group = g_cache, .help = "most time that a file's attributes are cached" },
	{ "acdirmin", UINT, AT(acdirmin), .min = 0, .max = 86400, .def = UINT_UNSET,
	  .def_text = "30", .meta = "SEC",
	  .group = g_cache, .help = "the same for directories" },
	{ "acdirmax", UINT, AT(acdirmax), .min = 0, .max = 86400, .def = UINT_UNSET,
	  .def_text = "60", .meta = "SEC",
	  .group = g_cache, .help = "the same for directories" },
	{ "actimeo", UINT, .off = SIZE_MAX, .min = 0, .max = 86400, .meta = "SEC",
	  .apply = opt_apply_actimeo, .def_text = "none",
	  .group = g_cache, .help = "sets all four to the same time" },
	{ "ac", FLAG, AT(noac), .value = false, .def = true,
	  .group = g_cache, .help = "cache attributes" },
	{ "noac", FLAG, AT(noac), .value = true,
	  .group = g_cache, .help = "do not cache attributes" },
	{ "nocto", REFUSE, .group = g_cache,
	  .help = "an open that does not ask the server misses what others write; where nobody else "
		  "writes, use consistency=solo" },
	{ "consistency", CHOICE, AT(consistency), .choices = consistency_words, .value = OPT_CTO,
	  .group = g_cache,
	  .help = "close-to-open, or for one writer" },
	{ "writebehind", UINT, AT(writebehind), .min = 0, .max = 75, .def = 12, .meta = "PERCENT",
	  .group = g_cache, .help = "share of memory for write-behind, up to 1 GiB" },
	{ "lookupcache", CHOICE, AT(lookupcache), .choices = lookupcache_words,
	  .value = OPT_LOOKUP_ALL,
	  .group = g_cache, .help = "which name look-ups are cached" },

	{ "ro", FLAG, AT(ro), .value = true,
	  .group = g_mount, .help = "read-only" },
	{ "rw", FLAG, AT(ro), .value = false, .def = true,
	  .group = g_mount, .help = "read and write" },
	{ "allow_other", TRI, AT(allow_other), .value = OPT_YES,
	  .def_text = "when root mounts",
	  .group = g_mount, .help = "all users may use the mount" },
	{ "noallow_other", TRI, AT(allow_other), .value = OPT_NO,
	  .group = g_mount, .help = "only the user who mounted may use it" },
	{ "allow_root", FLAG, AT(allow_root), .value = true,
	  .group = g_mount, .help = "only that user and root may use it" },
	{ "default_permissions", TRI, AT(default_permissions), .value = OPT_YES,
	  .def_text = "with allow_other, allow_root",
	  .group = g_mount, .help = "the kernel checks file modes as well" },
	{ "nodefault_permissions", TRI, AT(default_permissions), .value = OPT_NO,
	  .group = g_mount, .help = "only the server checks" },
	{ "suid", FLAG, AT(nosuid), .value = false,
	  .group = g_mount, .help = "set-user-ID programs work (root only)" },
	{ "nosuid", FLAG, AT(nosuid), .value = true, .def = true,
	  .group = g_mount, .help = "they do not" },
	{ "dev", FLAG, AT(nodev), .value = false,
	  .group = g_mount, .help = "device files work (root only)" },
	{ "nodev", FLAG, AT(nodev), .value = true, .def = true,
	  .group = g_mount, .help = "they do not" },
	{ "exec", FLAG, AT(noexec), .value = false, .def = true,
	  .group = g_mount, .help = "programs can be run" },
	{ "noexec", FLAG, AT(noexec), .value = true,
	  .group = g_mount, .help = "they cannot" },
	{ "sync", FLAG, AT(sync), .value = true,
	  .group = g_mount, .help = "every write is synchronous" },
	{ "async", FLAG, AT(sync), .value = false, .def = true,
	  .group = g_mount, .help = "writes need not be synchronous" },
	{ "dirsync", FLAG, AT(dirsync), .value = true,
	  .group = g_mount, .help = "directory changes are synchronous" },
	{ "noatime", FLAG, AT(noatime), .value = true,
	  .group = g_mount, .help = "shown as noatime; the server keeps access times" },
	{ "atime", FLAG, AT(noatime), .value = false, .def = true,
	  .group = g_mount, .help = "not shown as noatime" },
	{ "remount", REFUSE, .group = g_mount,
	  .help = "the options of a mount cannot be changed; unmount it, and mount it again "
		  "with the new options" },
	{ "sloppy", FLAG, AT(sloppy), .value = true,
	  .group = g_mount, .help = "the same as -s" },
	{ "fsname", STRING, AT(fsname), .meta = "NAME", .def_text = "SERVER:/EXPORT",
	  .group = g_mount, .help = "name of the source in mount tables" },

	{ "stats", STRING, AT(stats), .meta = "FILE", .apply = opt_apply_path,
	  .def_text = "none", .group = g_diag,
	  .help = "write counters to FILE on SIGUSR1 and when unmounted" },
	{ "debug", FLAG, AT(debug), .value = true,
	  .group = g_diag, .help = "log every step" },

	{ "defaults", IGNORE, .group = g_ignore },
	{ "auto", IGNORE, .group = g_ignore },
	{ "noauto", IGNORE, .group = g_ignore },
	{ "user", IGNORE, .apply = opt_apply_user, .group = g_ignore },
	{ "nouser", IGNORE, .group = g_ignore },
	{ "users", IGNORE, .apply = opt_apply_user, .group = g_ignore },
	{ "owner", IGNORE, .apply = opt_apply_group, .group = g_ignore },
	{ "group", IGNORE, .apply = opt_apply_group, .group = g_ignore },
	{ "nofail", IGNORE, .group = g_ignore },
	{ "_netdev", IGNORE, .group = g_ignore },
	{ "comment", IGNORE, .group = g_ignore },
	{ "x-", IGNORE, .group = g_ignore },
	{ "rdma", IGNORE, .group = g_ignore },
	{ "fg", IGNORE, .group = g_ignore },
	{ "cto", IGNORE, .group = g_ignore },
	{ "resvport", IGNORE, .group = g_ignore },
	{ "noresvport", IGNORE, .group = g_ignore },
	{ "noacl", IGNORE, .group = g_ignore },
	{ "silent", IGNORE, .group = g_ignore },
	{ "loud", IGNORE, .group = g_ignore },
	{ "intr", IGNORE, .group = g_ignore },
	{ "nointr", IGNORE, .group = g_ignore },
	{ "relatime", IGNORE, .group = g_ignore },
	{ "norelatime", IGNORE, .group = g_ignore },
	{ "strictatime", IGNORE, .group = g_ignore },
	{ "nostrictatime", IGNORE, .group = g_ignore },
	{ "diratime", IGNORE, .group = g_ignore },
	{ "nodiratime", IGNORE, .group = g_ignore },
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
	int n;

	if (r->min == r->max)
		n = snprintf(buf, len, "%u only", r->min);
	else
		n = snprintf(buf, len, "%u to %u", r->min, r->max);
	if (r->multiple)
		snprintf(buf + n, len - (size_t)n, " in steps of %u", r->multiple);
	return buf;
}
