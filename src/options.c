/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

/*
 * The table
 * ---------
 * Where a row stores its value depends on its kind:
 *
 *   FLAG    bool    one of two values that the name stands for; no "=value"
 *   TRI     int     the same for what has a default that depends on others
 *   UINT    unsigned
 *   STRING  char *
 *   CHOICE  int     the number that belongs to the word
 *   IGNORE  -       words that fstab and mount(8) have for themselves
 *   REFUSE  -       known from nfs(5), but not there yet: says so
 *
 * Later options override earlier ones. What depends on several options
 * (version, allow_other) is worked out in settle() when all are read.
 */
enum kind { FLAG, TRI, UINT, STRING, CHOICE, IGNORE, REFUSE };

struct choice {
	const char *word;
	int value;
	const char *refuse;     /* not NULL: why the word cannot be had */
};

struct row {
	const char *name;
	enum kind kind;
	size_t off;
	unsigned min, max, def; /* UINT */
	unsigned multiple;      /* UINT: rounded down to it */
	const char *def_text;   /* what --help says instead of def */
	int value;              /* FLAG, TRI; CHOICE: the default */
	const struct choice *choices;
	const char *meta;       /* STRING, UINT: what --help writes after '=' */
	/* STRING: checks the value; UINT: further fields to set. */
	int (*apply)(struct options *o, const struct row *r, const char *value,
		     struct errbuf *eb);
	const char *group;
	const char *help;
	const char *same_as;    /* another name of that row: copied from it */
};

#define UINT_UNSET UINT_MAX

static const struct choice vers_words[] = {
	{ "4.1", OPT_VERS_41, NULL },
	{ "4.2", OPT_VERS_42, NULL },
	{ "3", OPT_VERS_3, NULL },
	/* Taken only together with minorversion=. */
	{ "4", OPT_VERS_4, "" },
	{ "4.0", 0, "NFSv4.0 has no sessions, which this client needs" },
	{ "2", 0, "NFSv2 is not supported" },
	{ NULL, 0, NULL },
};

static const char not_rdma[] = "this client speaks RDMA only; for TCP use mount -t nfs";
static const struct choice proto_words[] = {
	{ "rdma", OPT_FAMILY_ANY, NULL },
	{ "rdma6", OPT_FAMILY_INET6, NULL },
	{ "tcp", 0, not_rdma },
	{ "tcp6", 0, not_rdma },
	{ "udp", 0, not_rdma },
	{ "udp6", 0, not_rdma },
	{ NULL, 0, NULL },
};

static const struct choice fabric_words[] = {
	{ "auto", OPT_FABRIC_AUTO, NULL },
	{ "verbs", OPT_FABRIC_VERBS, NULL },
	{ "iwarp", OPT_FABRIC_IWARP, NULL },
	{ NULL, 0, NULL },
};

static const char pool_only[] = "not there yet; pool is";
static const struct choice memreg_words[] = {
	{ "pool", OPT_MEMREG_POOL, NULL },
	{ "mw", 0, pool_only },
	{ "dynamic", 0, pool_only },
	{ "cache", 0, pool_only },
	{ NULL, 0, NULL },
};

static const char no_kerberos[] = "Kerberos is not there yet; sys is";
static const struct choice sec_words[] = {
	{ "sys", 0, NULL },
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

static int apply_actimeo(struct options *o, const struct row *r, const char *value,
			 struct errbuf *eb);
static int apply_localaddr(struct options *o, const struct row *r, const char *value,
			   struct errbuf *eb);
static int apply_path(struct options *o, const struct row *r, const char *value,
		      struct errbuf *eb);

#define AT(field) .off = offsetof(struct options, field)

static const char g_server[] = "Server and protocol";
static const char g_rdma[]   = "RDMA";
static const char g_time[]   = "Time-outs";
static const char g_cache[]  = "Caching";
static const char g_mount[]  = "The mount";
static const char g_diag[]   = "Diagnostics";
static const char g_ignore[] = "Accepted without effect";

static const struct row table[] = {
	{ "vers", CHOICE, AT(vers), .choices = vers_words, .value = OPT_VERS_41,
	  .group = g_server, .help = "NFS version" },
	{ "nfsvers", .same_as = "vers" },
	{ "minorversion", UINT, AT(minorversion), .min = 1, .max = 2, .def = UINT_UNSET,
	  .def_text = "1", .meta = "N",
	  .group = g_server, .help = "minor version, whatever vers=4.x says" },
	{ "proto", CHOICE, AT(family), .choices = proto_words, .value = OPT_FAMILY_ANY,
	  .group = g_server, .help = "transport; rdma6 takes IPv6 addresses only" },
	{ "port", UINT, AT(port), .min = 1, .max = 65535, .def = 20049, .meta = "N",
	  .group = g_server, .help = "the server's RDMA port" },
	{ "mountport", UINT, AT(mountport), .min = 0, .max = 65535, .def = 0, .meta = "N",
	  .def_text = "0: ask rpcbind",
	  .group = g_server, .help = "TCP port of mountd, for vers=3" },
	{ "sec", CHOICE, AT(sec), .choices = sec_words, .value = 0,
	  .group = g_server, .help = "security: sys sends the caller's uid, gid and groups" },
	{ "rsize", UINT, AT(rsize), .min = 4096, .max = 1048576, .def = 1048576,
	  .multiple = 4096, .meta = "BYTES",
	  .group = g_server, .help = "most bytes of one READ" },
	{ "wsize", UINT, AT(wsize), .min = 4096, .max = 1048576, .def = 1048576,
	  .multiple = 4096, .meta = "BYTES",
	  .group = g_server, .help = "most bytes of one WRITE" },
	{ "rdirplus", FLAG, AT(rdirplus), .value = true, .def = true,
	  .group = g_server, .help = "read attributes along with directories" },
	{ "nordirplus", FLAG, AT(rdirplus), .value = false,
	  .group = g_server, .help = "read names only" },
	{ "nolock", FLAG, AT(nolock), .value = true, .def = true,
	  .group = g_server, .help = "file locks hold on this client only" },
	{ "lock", REFUSE, .group = g_server,
	  .help = "locks on the server are not there yet; nolock is" },

	{ "fabric", CHOICE, AT(fabric), .choices = fabric_words, .value = OPT_FABRIC_AUTO,
	  .group = g_rdma, .help = "what carries RDMA" },
	{ "nconnect", UINT, AT(lanes), .min = 1, .max = OPT_LANES_MAX, .def = 0, .meta = "N",
	  .def_text = "one per CPU", .group = g_rdma,
	  .help = "connections, each with a thread of its own" },
	{ "lanes", .same_as = "nconnect" },
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
	{ "memreg", CHOICE, AT(memreg), .choices = memreg_words, .value = OPT_MEMREG_POOL,
	  .group = g_rdma, .help = "how memory is registered" },
	{ "localaddr", STRING, AT(localaddr), .meta = "ADDR", .apply = apply_localaddr,
	  .def_text = "any", .group = g_rdma, .help = "local address to connect from" },

	{ "timeo", UINT, AT(timeo), .min = 1, .max = 36000, .def = 600, .meta = "N",
	  .group = g_time, .help = "tenths of a second to wait for a reply" },
	{ "retrans", UINT, AT(retrans), .min = 0, .max = 1000, .def = 2, .meta = "N",
	  .group = g_time, .help = "time-outs before a soft mount gives up" },
	{ "hard", FLAG, AT(soft), .value = false, .def = true,
	  .group = g_time, .help = "wait for a lost server as long as it takes" },
	{ "soft", FLAG, AT(soft), .value = true,
	  .group = g_time, .help = "fail with an I/O error after retrans time-outs" },
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
	  .apply = apply_actimeo, .def_text = "none",
	  .group = g_cache, .help = "sets all four to the same time" },
	{ "ac", FLAG, AT(noac), .value = false, .def = true,
	  .group = g_cache, .help = "cache attributes" },
	{ "noac", FLAG, AT(noac), .value = true,
	  .group = g_cache, .help = "do not cache attributes" },
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
	  .group = g_mount, .help = "only the user who mounted may" },
	{ "allow_root", FLAG, AT(allow_root), .value = true,
	  .group = g_mount, .help = "that user and root may" },
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
	  .group = g_mount, .help = "it is not" },
	{ "dirsync", FLAG, AT(dirsync), .value = true,
	  .group = g_mount, .help = "directory changes are synchronous" },
	{ "noatime", FLAG, AT(noatime), .value = true,
	  .group = g_mount, .help = "shown as noatime; the server keeps access times" },
	{ "atime", FLAG, AT(noatime), .value = false, .def = true,
	  .group = g_mount, .help = "not shown as noatime" },
	{ "fsname", STRING, AT(fsname), .meta = "NAME", .def_text = "SERVER:/EXPORT",
	  .group = g_mount, .help = "name of the source in mount tables" },

	{ "stats", STRING, AT(stats), .meta = "FILE", .apply = apply_path,
	  .def_text = "none", .group = g_diag,
	  .help = "write counters there on SIGUSR1 and when unmounted" },
	{ "debug", FLAG, AT(debug), .value = true,
	  .group = g_diag, .help = "log every step" },

	{ "defaults", IGNORE, .group = g_ignore },
	{ "auto", IGNORE, .group = g_ignore },
	{ "noauto", IGNORE, .group = g_ignore },
	{ "user", IGNORE, .group = g_ignore },
	{ "nouser", IGNORE, .group = g_ignore },
	{ "users", IGNORE, .group = g_ignore },
	{ "owner", IGNORE, .group = g_ignore },
	{ "group", IGNORE, .group = g_ignore },
	{ "nofail", IGNORE, .group = g_ignore },
	{ "_netdev", IGNORE, .group = g_ignore },
	{ "comment", IGNORE, .group = g_ignore },
	{ "x-", IGNORE, .group = g_ignore },
	{ "rdma", IGNORE, .group = g_ignore },
	{ "intr", IGNORE, .group = g_ignore },
	{ "nointr", IGNORE, .group = g_ignore },
	{ "relatime", IGNORE, .group = g_ignore },
	{ "norelatime", IGNORE, .group = g_ignore },
	{ "strictatime", IGNORE, .group = g_ignore },
	{ "nostrictatime", IGNORE, .group = g_ignore },
	{ "diratime", IGNORE, .group = g_ignore },
	{ "nodiratime", IGNORE, .group = g_ignore },
};

#define ROWS (sizeof(table) / sizeof(table[0]))

static const char usage_line[] =
	"usage: " PACKAGE_NAME " [-fdvVh] SERVER:/EXPORT MOUNTPOINT [-o OPTION[,OPTION...]]";

static const struct row *row_named(const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

/* The row that holds what `r` means: its own, or that of its other name. */
static const struct row *meaning(const struct row *r)
{
	return r->same_as ? row_named(r->same_as) : r;
}

static void *field(struct options *o, const struct row *r)
{
	return (char *)o + r->off;
}

/* ---- Texts about rows ------------------------------------------------------ */

/* "3 or 4.1": the words that can be had. */
static const char *words_text(const struct row *r, char *buf, size_t len)
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

/* "4096 to 1048576 in steps of 4096". */
static const char *range_text(const struct row *r, char *buf, size_t len)
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

/* Fewest insertions, deletions, replacements and swaps from a to b; both are
 * short (longer words are cut, which only makes a suggestion less apt). */
static unsigned distance(const char *a, const char *b)
{
	enum { MAX = 32 };
	unsigned d[MAX + 1][MAX + 1];
	size_t la = strnlen(a, MAX), lb = strnlen(b, MAX);

	for (size_t i = 0; i <= la; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++)
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[la][lb];
}

static const char *nearest(const char *name)
{
	const char *best = NULL;
	/* A third of the letters may be wrong; more is not a slip of the finger. */
	unsigned best_d = (unsigned)strlen(name) / 3 + 2;

	for (size_t i = 0; i < ROWS; i++) {
		unsigned d = distance(name, table[i].name);

		if (d < best_d) {
			best_d = d;
			best = table[i].name;
		}
	}
	return best;
}

/* ---- Storing one option ---------------------------------------------------- */

static int store_string(char **at, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*at);
	*at = copy;
	return 0;
}

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory while reading the options");
}

/* An absolute path for a daemon whose directory will be "/". NULL and errno. */
static char *absolute(const char *path)
{
	char *cwd, *abs = NULL;

	if (path[0] == '/')
		return strdup(path);
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return NULL;
	if (asprintf(&abs, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path) < 0)
		abs = NULL;
	free(cwd);
	return abs;
}

static int apply_path(struct options *o, const struct row *r, const char *value,
		      struct errbuf *eb)
{
	char **at = field(o, r);
	char *abs = absolute(value);

	if (!abs)
		return err_set(eb, -errno, "option %s: no absolute path for '%s': %s",
			       r->name, value, strerror(errno));
	free(*at);
	*at = abs;
	return 0;
}

static int apply_localaddr(struct options *o, const struct row *r, const char *value,
			   struct errbuf *eb)
{
	char **at = field(o, r);
	char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
	unsigned char addr[sizeof(struct in6_addr)];
	size_t len = strlen(value);
	char *scope;

	if (len >= 2 && value[0] == '[' && value[len - 1] == ']') {
		value++;
		len -= 2;
	}
	if (len < sizeof(host)) {
		memcpy(host, value, len);
		host[len] = '\0';
		if (inet_pton(AF_INET, host, addr) == 1)
			return store_string(at, host) ? no_memory(eb) : 0;
		scope = strchr(host, '%');
		if (scope)
			*scope = '\0';
		if (inet_pton(AF_INET6, host, addr) == 1 && (!scope || scope[1])) {
			if (scope)
				*scope = '%';
			return store_string(at, host) ? no_memory(eb) : 0;
		}
	}
	return err_set(eb, -EINVAL, "option %s: '%.*s' is not an IPv4 or IPv6 address of this host",
		       r->name, (int)len, value);
}

static int apply_actimeo(struct options *o, const struct row *r, const char *value,
			 struct errbuf *eb)
{
	unsigned sec = (unsigned)strtoul(value, NULL, 10);     /* has been checked */

	o->acregmin = o->acregmax = o->acdirmin = o->acdirmax = sec;
	return 0;
}

static int store_uint(struct options *o, const struct row *r, const char *value,
		      struct errbuf *eb)
{
	char range[64];
	unsigned long v;
	char *end;

	range_text(r, range, sizeof(range));
	if (!isdigit((unsigned char)value[0]))
		goto not_a_number;
	errno = 0;
	v = strtoul(value, &end, 10);
	if (*end)
		goto not_a_number;
	if (errno || v < r->min || v > r->max)
		return err_set(eb, -ERANGE, "option %s: '%s' is out of range (allowed: %s)",
			       r->name, value, range);
	if (r->multiple && v % r->multiple) {
		log_warn("option %s: '%s' is not a multiple of %u, rounded down to %lu",
			 r->name, value, r->multiple, v - v % r->multiple);
		v -= v % r->multiple;
	}
	if (r->off != SIZE_MAX)
		*(unsigned *)field(o, r) = (unsigned)v;
	return r->apply ? r->apply(o, r, value, eb) : 0;

not_a_number:
	return err_set(eb, -EINVAL, "option %s: '%s' is not a whole number (allowed: %s)",
		       r->name, value, range);
}

static int store_choice(struct options *o, const struct row *r, const char *value,
			struct errbuf *eb)
{
	char words[128];

	words_text(r, words, sizeof(words));
	for (const struct choice *c = r->choices; c->word; c++) {
		if (strcmp(c->word, value) != 0)
			continue;
		if (c->refuse && *c->refuse)
			return err_set(eb, -EINVAL, "option %s: '%s' cannot be had: %s (allowed: %s)",
				       r->name, value, c->refuse, words);
		*(int *)field(o, r) = c->value;
		return 0;
	}
	return err_set(eb, -EINVAL, "option %s: '%s' is not known (allowed: %s)",
		       r->name, value, words);
}

/* value: NULL when there was no '='. */
static int store(struct options *o, const struct row *r, const char *value, struct errbuf *eb)
{
	bool wants_value = r->kind == UINT || r->kind == STRING || r->kind == CHOICE;
	char text[128];

	if (wants_value && (!value || !*value)) {
		if (r->kind == UINT)
			range_text(r, text, sizeof(text));
		else if (r->kind == CHOICE)
			words_text(r, text, sizeof(text));
		else
			snprintf(text, sizeof(text), "%s", r->meta);
		return err_set(eb, -EINVAL, "option %s needs a value: %s=%s (allowed: %s)",
			       r->name, r->name, r->meta ? r->meta : "WORD", text);
	}
	if ((r->kind == FLAG || r->kind == TRI) && value)
		return err_set(eb, -EINVAL, "option %s takes no value, but '%s=%s' was given",
			       r->name, r->name, value);

	switch (r->kind) {
	case FLAG:
		*(bool *)field(o, r) = r->value;
		return 0;
	case TRI:
		*(int *)field(o, r) = r->value;
		return 0;
	case UINT:
		return store_uint(o, r, value, eb);
	case CHOICE:
		return store_choice(o, r, value, eb);
	case STRING:
		if (r->apply)
			return r->apply(o, r, value, eb);
		return store_string(field(o, r), value) ? no_memory(eb) : 0;
	case IGNORE:
		return 0;
	case REFUSE:
		return err_set(eb, -EINVAL, "option %s: %s", r->name, r->help);
	}
	return 0;
}

/* word: "name" or "name=value"; is taken apart in place. */
static int take_option(struct options *o, char *word, struct errbuf *eb)
{
	char *value = strchr(word, '=');
	const struct row *r;
	struct row named;
	const char *hint;

	/* What begins with x- is for programs that read fstab. */
	if (strncmp(word, "x-", 2) == 0 || strncmp(word, "X-", 2) == 0)
		return 0;
	if (value)
		*value++ = '\0';
	r = row_named(word);
	if (r) {
		/* The message names the option as the user did. */
		named = *meaning(r);
		named.name = r->name;
		return store(o, &named, value, eb);
	}
	if (o->sloppy) {
		log_warn("option '%s' is not known, ignored because of -s", word);
		return 0;
	}
	hint = nearest(word);
	if (hint)
		return err_set(eb, -EINVAL, "option '%s' is not known; did you mean '%s'? "
			       "(%s --help lists all)", word, hint, PACKAGE_NAME);
	return err_set(eb, -EINVAL, "option '%s' is not known (%s --help lists all)",
		       word, PACKAGE_NAME);
}

/* list: the argument of one -o. A backslash takes a comma into a value. */
static int take_options(struct options *o, const char *list, struct errbuf *eb)
{
	char *word = malloc(strlen(list) + 1);
	int err = 0;

	if (!word)
		return no_memory(eb);
	while (*list && !err) {
		size_t n = 0;

		for (; *list && *list != ','; list++) {
			if (*list == '\\' && (list[1] == ',' || list[1] == '\\'))
				list++;
			word[n++] = *list;
		}
		if (*list == ',')
			list++;
		word[n] = '\0';
		if (n > 0)
			err = take_option(o, word, eb);
	}
	free(word);
	return err;
}

/* ---- SERVER:/EXPORT -------------------------------------------------------- */

static bool is_ipv6(const char *text, size_t len)
{
	char buf[INET6_ADDRSTRLEN];
	unsigned char addr[sizeof(struct in6_addr)];

	if (len >= sizeof(buf))
		return false;
	memcpy(buf, text, len);
	buf[len] = '\0';
	return inet_pton(AF_INET6, buf, addr) == 1;
}

static int take_source(struct options *o, const char *text, struct errbuf *eb)
{
	const char *host = text, *end, *path;

	if (text[0] == '[') {
		host = text + 1;
		end = strchr(host, ']');
		if (!end)
			return err_set(eb, -EINVAL, "'%s': the ']' after the IPv6 address is missing "
				       "(write [ADDRESS]:/EXPORT)", text);
		size_t len = strcspn(host, "%]");

		if (!is_ipv6(host, len) || host + len + 1 == end)
			return err_set(eb, -EINVAL, "'%s': '%.*s' is not an IPv6 address",
				       text, (int)(end - host), host);
		path = end + 1;
		if (*path != ':')
			return err_set(eb, -EINVAL, "'%s': a ':' must follow the ']' "
				       "(write [ADDRESS]:/EXPORT)", text);
		path++;
	} else {
		end = strchr(text, ':');
		if (!end)
			return err_set(eb, -EINVAL, "'%s' does not name a server and its export "
				       "(write SERVER:/EXPORT)", text);
		/* fe80::1:/export? */
		path = strstr(text, ":/");
		if (path && path > end && is_ipv6(text, (size_t)(path - text)))
			return err_set(eb, -EINVAL, "'%s': an IPv6 address needs brackets "
				       "(write [%.*s]:%s)", text, (int)(path - text), text, path + 1);
		path = end + 1;
	}
	if (end == host)
		return err_set(eb, -EINVAL, "'%s': the server before the ':' is missing "
			       "(write SERVER:/EXPORT)", text);
	if (end - host > 255)
		return err_set(eb, -EINVAL, "'%.40s...': the server's name is longer than 255 bytes",
			       text);
	if (*path != '/')
		return err_set(eb, -EINVAL, "'%s': the export after the ':' must begin with '/' "
			       "(write SERVER:/EXPORT)", text);
	if (strlen(path) > 1023)
		return err_set(eb, -EINVAL, "'%.40s...': the export's path is longer than 1023 bytes",
			       text);
	o->source = strdup(text);
	o->server = strndup(host, (size_t)(end - host));
	o->export = strdup(path);
	return o->source && o->server && o->export ? 0 : no_memory(eb);
}

static int take_mountpoint(struct options *o, const char *text, struct errbuf *eb)
{
	if (!*text)
		return err_set(eb, -EINVAL, "the mount point is an empty word");
	/* What is not there is found out, and said, when it is to be mounted on. */
	o->mountpoint = realpath(text, NULL);
	if (!o->mountpoint)
		o->mountpoint = absolute(text);
	if (!o->mountpoint)
		return err_set(eb, -errno, "no absolute path for the mount point '%s': %s",
			       text, strerror(errno));
	return 0;
}

/* ---- What depends on several options --------------------------------------- */

static unsigned minor_of(enum opt_vers vers)
{
	return vers == OPT_VERS_3 ? 0 : vers == OPT_VERS_42 ? 2 : 1;
}

static int settle_version(struct options *o, struct errbuf *eb)
{
	bool minor = o->minorversion != UINT_UNSET;

	if (o->vers == OPT_VERS_4 && !minor)
		return err_set(eb, -EINVAL, "option vers: '4' does not say which minor version, "
			       "and there are two (allowed: 3, 4.1 or 4.2)");
	if (o->vers == OPT_VERS_3 && minor)
		return err_set(eb, -EINVAL, "option minorversion: '%u' does not go with vers=3, "
			       "which has none", o->minorversion);
	if (minor)
		o->vers = o->minorversion == 2 ? OPT_VERS_42 : OPT_VERS_41;
	o->minorversion = minor_of(o->vers);
	return 0;
}

/*
 * One of a pair of cache times. A time that was not given keeps out of the way
 * of one that was: acregmax=1 alone lowers acregmin, too.
 */
static int settle_times(unsigned *min, unsigned def_min, unsigned *max, unsigned def_max,
			const char *kind, struct errbuf *eb)
{
	if (*min == UINT_UNSET)
		*min = *max != UINT_UNSET && *max < def_min ? *max : def_min;
	if (*max == UINT_UNSET)
		*max = *min > def_max ? *min : def_max;
	if (*min > *max)
		return err_set(eb, -EINVAL, "option ac%smin: '%u' is more than ac%smax, "
			       "which is '%u'", kind, *min, kind, *max);
	return 0;
}

static int settle_caching(struct options *o, struct errbuf *eb)
{
	int err;

	if (o->noac)
		o->acregmin = o->acregmax = o->acdirmin = o->acdirmax = 0;
	err = settle_times(&o->acregmin, 3, &o->acregmax, 60, "reg", eb);
	if (!err)
		err = settle_times(&o->acdirmin, 30, &o->acdirmax, 60, "dir", eb);
	return err;
}

static unsigned cpus(void)
{
	cpu_set_t set;
	unsigned n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = (unsigned)CPU_COUNT(&set);
	return n < 1 ? 1 : n > OPT_LANES_MAX ? OPT_LANES_MAX : n;
}

/* The mount's options in libfuse's words. fsname needs its commas kept. */
static char *fuse_opts_text(const struct options *o)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	fputs("subtype=" PACKAGE_NAME ",fsname=", f);
	for (const char *c = o->fsname; *c; c++) {
		if (*c == ',' || *c == '\\')
			fputc('\\', f);
		fputc(*c, f);
	}
	fputs(o->ro ? ",ro" : ",rw", f);
	fputs(o->nosuid ? ",nosuid" : ",suid", f);
	fputs(o->nodev ? ",nodev" : ",dev", f);
	if (o->noexec)
		fputs(",noexec", f);
	if (o->sync)
		fputs(",sync", f);
	if (o->dirsync)
		fputs(",dirsync", f);
	if (o->noatime)
		fputs(",noatime", f);
	if (o->allow_root)
		fputs(",allow_root", f);
	else if (o->allow_other == OPT_YES)
		fputs(",allow_other", f);
	if (o->default_permissions == OPT_YES)
		fputs(",default_permissions", f);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int settle(struct options *o, struct errbuf *eb)
{
	int err = settle_version(o, eb);

	if (!err)
		err = settle_caching(o, eb);
	if (err)
		return err;
	if (o->allow_root && o->allow_other == OPT_YES)
		return err_set(eb, -EINVAL, "options 'allow_root' and 'allow_other' exclude each other");
	if (o->allow_other == OPT_UNSET)
		o->allow_other = geteuid() == 0 && !o->allow_root ? OPT_YES : OPT_NO;
	if (o->default_permissions == OPT_UNSET)
		o->default_permissions = o->allow_other == OPT_YES || o->allow_root ? OPT_YES : OPT_NO;
	if (o->lanes == 0)
		o->lanes = cpus();
	if (!o->fsname && store_string(&o->fsname, o->source))
		return no_memory(eb);
	o->fuse_opts = fuse_opts_text(o);
	return o->fuse_opts ? 0 : no_memory(eb);
}

/* ---- The command line ------------------------------------------------------ */

static void set_defaults(struct options *o)
{
	memset(o, 0, sizeof(*o));
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &table[i];

		if (r->same_as || r->off == SIZE_MAX)
			continue;
		if (r->kind == FLAG && r->def)
			*(bool *)field(o, r) = r->value;
		else if (r->kind == TRI)
			*(int *)field(o, r) = OPT_UNSET;
		else if (r->kind == CHOICE)
			*(int *)field(o, r) = r->value;
		else if (r->kind == UINT)
			*(unsigned *)field(o, r) = r->def;
	}
}

/* The argument of a letter: the rest of its word, or the next word. */
static const char *letter_arg(const char *rest, int argc, char *const *argv, int *i)
{
	if (*rest)
		return rest;
	return *i + 1 < argc ? argv[++*i] : NULL;
}

/* One word that begins with '-' and is more than that. */
static int take_letters(struct options *o, int argc, char *const *argv, int *i, bool helper,
			struct errbuf *eb)
{
	const char *word = argv[*i];
	const char *arg;

	if (strcmp(word, "--help") == 0) {
		o->action = OPT_HELP;
		return 0;
	}
	if (strcmp(word, "--version") == 0) {
		o->action = OPT_VERSION;
		return 0;
	}
	for (const char *c = word + 1; *c; c++) {
		switch (*c) {
		case 'f':
			/* mount(8)'s own -f, "fake", reaches its helpers. */
			if (helper)
				o->fake = true;
			else
				o->foreground = true;
			break;
		case 'd':
			o->debug = o->foreground = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		case 's':
			o->sloppy = true;
			break;
		case 'n':               /* "no mtab": there is none */
			break;
		case 'r':
			o->ro = true;
			break;
		case 'w':
			o->ro = false;
			break;
		case 'V':
			o->action = OPT_VERSION;
			return 0;
		case 'h':
			o->action = OPT_HELP;
			return 0;
		case 'o':
		case 't':
		case 'N':
			arg = letter_arg(c + 1, argc, argv, i);
			if (!arg)
				return err_set(eb, -EINVAL, "-%c needs an argument; %s", *c, usage_line);
			/* mount(8) passes -t TYPE and -N NAMESPACE for information. */
			return *c == 'o' ? take_options(o, arg, eb) : 0;
		default:
			return err_set(eb, -EINVAL, "'%s' is not known; %s", word, usage_line);
		}
	}
	return 0;
}

/* mount(8) puts -s behind: it has to be known before the first -o is read. */
static bool has_sloppy(int argc, char *const *argv)
{
	for (int i = 1; i < argc; i++) {
		const char *c = argv[i];

		if (strcmp(c, "--") == 0)
			return false;
		if (c[0] != '-' || c[1] == '-')
			continue;
		for (c++; *c; c++) {
			if (*c == 's')
				return true;
			if (strchr("otN", *c)) {
				i += !c[1];
				break;
			}
		}
	}
	return false;
}

int options_parse(struct options *o, int argc, char *const *argv, struct errbuf *eb)
{
	const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *source = NULL, *mountpoint = NULL;
	bool words_only = false, helper;
	int err;

	name = name ? name + 1 : argc > 0 ? argv[0] : "";
	helper = strncmp(name, "mount.", 6) == 0;
	set_defaults(o);
	o->sloppy = has_sloppy(argc, argv);
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];

		if (!words_only && strcmp(word, "--") == 0) {
			words_only = true;
			continue;
		}
		if (!words_only && word[0] == '-' && word[1]) {
			err = take_letters(o, argc, argv, &i, helper, eb);
			if (err || o->action != OPT_MOUNT)
				return err;
		} else if (!source) {
			source = word;
		} else if (!mountpoint) {
			mountpoint = word;
		} else {
			return err_set(eb, -EINVAL, "'%s' is one word too many; %s", word, usage_line);
		}
	}
	if (!source)
		return err_set(eb, -EINVAL, "SERVER:/EXPORT and MOUNTPOINT are missing; %s", usage_line);
	if (!mountpoint)
		return err_set(eb, -EINVAL, "the mount point is missing; %s", usage_line);

	err = take_source(o, source, eb);
	if (!err)
		err = take_mountpoint(o, mountpoint, eb);
	if (!err)
		err = settle(o, eb);
	return err;
}

void options_free(struct options *o)
{
	free(o->source);
	free(o->server);
	free(o->export);
	free(o->mountpoint);
	free(o->fuse_opts);
	for (size_t i = 0; i < ROWS; i++)
		if (table[i].kind == STRING && !table[i].same_as)
			free(*(char **)field(o, &table[i]));
	memset(o, 0, sizeof(*o));
}

const char *options_vers_text(const struct options *o)
{
	return o->vers == OPT_VERS_3 ? "3" : o->vers == OPT_VERS_42 ? "4.2" : "4.1";
}

/* ---- Help ------------------------------------------------------------------ */

static void help_row(FILE *out, const struct row *named)
{
	const struct row *r = meaning(named);
	char left[64], words[128], range[64];

	switch (r->kind) {
	case CHOICE:
		snprintf(left, sizeof(left), "%s=WORD", named->name);
		break;
	case UINT:
	case STRING:
		snprintf(left, sizeof(left), "%s=%s", named->name, r->meta);
		break;
	default:
		snprintf(left, sizeof(left), "%s", named->name);
	}
	fprintf(out, "  %-21s ", left);
	if (named->same_as) {
		fprintf(out, "the same as %s\n", named->same_as);
		return;
	}
	fputs(r->help, out);
	switch (r->kind) {
	case CHOICE:
		words_text(r, words, sizeof(words));
		if (strcmp(words, r->choices[0].word) == 0)
			fprintf(out, " (%s only)", words);
		else
			fprintf(out, " (%s; default %s)", words, r->choices[0].word);
		break;
	case UINT:
		fprintf(out, " (%s", range_text(r, range, sizeof(range)));
		if (r->min == r->max)
			fputc(')', out);
		else if (r->def_text)
			fprintf(out, "; default %s)", r->def_text);
		else
			fprintf(out, "; default %u)", r->def);
		break;
	case STRING:
	case TRI:
		if (r->def_text)
			fprintf(out, " (default %s)", r->def_text);
		break;
	case FLAG:
		if (r->def)
			fputs(" (default)", out);
		break;
	default:
		break;
	}
	fputc('\n', out);
}

void options_help(FILE *out)
{
	const char *group = NULL;
	size_t column = 0;

	fprintf(out, "%s\n\n"
		"Mounts an NFS export over RDMA. Unmount with: umount MOUNTPOINT (root) or\n"
		"fusermount3 -u MOUNTPOINT.\n\n"
		"  -f                    stay in the foreground\n"
		"  -d                    debug: -f, and log every step\n"
		"  -v                    say what is going on\n"
		"  -r, -w                the same as -o ro, -o rw\n"
		"  -s                    ignore options that are not known\n"
		"  -n                    accepted without effect\n"
		"  -V, --version         print the version\n"
		"  -h, --help            print this\n"
		"  -o OPTION[,OPTION...] options of the mount:\n", usage_line);
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &table[i];
		const char *g = meaning(r)->group;

		if (r->kind == REFUSE)
			continue;
		if (g != group) {
			fprintf(out, "\n%s:\n", g);
			group = g;
			column = 0;
		}
		if (r->kind != IGNORE) {
			help_row(out, r);
			continue;
		}
		if (column + strlen(r->name) > 70) {
			fputc('\n', out);
			column = 0;
		}
		column += (size_t)fprintf(out, "%s%s%s", column ? ", " : "  ", r->name,
					  strcmp(r->name, "x-") == 0 ? "*" : "");
	}
	fprintf(out, "\n\nSee " PACKAGE_NAME "(8) for more.\n");
}

void options_version(FILE *out)
{
	fprintf(out, "%s\n", PACKAGE_STRING);
}

bool options_info(size_t i, struct option_info *info)
{
	const struct row *r;

	if (i >= ROWS)
		return false;
	r = meaning(&table[i]);
	*info = (struct option_info) {
		.name = table[i].name, .group = r->group, .offered = r->kind != REFUSE,
		.has_range = r->kind == UINT, .min = r->min, .max = r->max,
		.def_text = r->def_text, .def = r->def,
	};
	return true;
}
