/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <mntent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

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
	return o->source && o->server && o->export ? 0 : opt_no_memory(eb);
}

static int take_mountpoint(struct options *o, const char *text, struct errbuf *eb)
{
	if (!*text)
		return err_set(eb, -EINVAL, "the mount point is an empty string");
	/* fs_check_mountpoint() reports a mount point that does not exist. */
	o->mountpoint = realpath(text, NULL);
	if (!o->mountpoint)
		o->mountpoint = opt_absolute(text);
	if (!o->mountpoint)
		return err_set(eb, -errno, "cannot make the mount point '%s' an absolute path: %s",
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

	if (o->vers == OPT_VERS_3 && minor)
		return err_set(eb, -EINVAL, "option minorversion: '%u' does not go with vers=3, "
			       "which has none", o->minorversion);
	o->vers_may_fall = o->vers == OPT_VERS_4 && !minor;
	if (o->vers_may_fall)
		o->vers = OPT_VERS_42;
	if (minor)
		o->vers = o->minorversion == 2 ? OPT_VERS_42 : OPT_VERS_41;
	o->minorversion = minor_of(o->vers);
	return 0;
}

int opt_settle_times(unsigned *min, unsigned def_min, unsigned *max, unsigned def_max, const char *kind,
		     struct errbuf *eb)
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

/* consistency=solo: the default of all four cache times, in seconds. */
#define SOLO_S 3600

int opt_settle_caching(struct options *o, struct errbuf *eb)
{
	bool solo = o->consistency == OPT_SOLO;
	int err;

	if (solo && o->noac)
		return err_set(eb, -EINVAL, "options 'noac' and 'consistency=solo' exclude each other");
	/* A name that is cached is so for all users. If the kernel does not check the modes of the
	 * directories before it, the server has to be asked for each of them. */
	if (o->default_permissions == OPT_NO && (o->allow_other == OPT_YES || o->allow_root))
		o->lookupcache = FS_LOOKUPCACHE_NONE;
	if (o->noac)
		o->acregmin = o->acregmax = o->acdirmin = o->acdirmax = 0;
	err = opt_settle_times(&o->acregmin, solo ? SOLO_S : 3, &o->acregmax, solo ? SOLO_S : 60, "reg", eb);
	if (!err)
		err = opt_settle_times(&o->acdirmin, solo ? SOLO_S : 30, &o->acdirmax, solo ? SOLO_S : 60, "dir", eb);
	return err;
}

static unsigned options_cpus(void)
{
	cpu_set_t set;
	unsigned n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = (unsigned)CPU_COUNT(&set);
	return n < 1 ? 1 : n > NFS_LANES_MAX ? NFS_LANES_MAX : n;
}

/* The argument of libfuse's -o. Commas in fsname are escaped. */
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
	fprintf(f, "%s%s%s%s%s%s%s%s%s", o->ro ? ",ro" : ",rw", o->nosuid ? ",nosuid" : ",suid",
		o->nodev ? ",nodev" : ",dev", o->noexec ? ",noexec" : "", o->sync ? ",sync" : "",
		o->dirsync ? ",dirsync" : "", o->noatime ? ",noatime" : "",
		o->allow_root ? ",allow_root" : o->allow_other == OPT_YES ? ",allow_other" : "",
		o->default_permissions == OPT_YES ? ",default_permissions" : "");
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* All options of a mount have a page in the kernel; the longest source fits. */
#define FSNAME_MAX 1300u
/* In minutes: a week, as in nfs(5). */
#define RETRY_BG 10000u

static int options_settle(struct options *o, struct errbuf *eb)
{
	int err = settle_version(o, eb);

	if (err)
		return err;
	if (o->retry == UINT_UNSET)
		o->retry = o->bg ? RETRY_BG : 0;
	opt_settle_paths(o);
	if ((o->idmap == OPT_IDMAP_FILE) != (o->idmapfile != NULL))
		return err_set(eb, -EINVAL, "options 'idmap=file' and 'idmapfile=FILE' go together");
	if (o->idmap == OPT_IDMAP_FILE && o->acl)
		return err_set(eb, -EINVAL, "options 'acl' and 'idmap=file' exclude each other: lists have numbers, too");
	/* In the mount table, which a remount's list comes from, the one is there for the other. */
	if (o->allow_root && o->allow_other == OPT_YES && !o->remount)
		return err_set(eb, -EINVAL, "options 'allow_root' and 'allow_other' exclude each other");
	if (o->allow_other == OPT_UNSET)
		o->allow_other = geteuid() == 0 && !o->allow_root ? OPT_YES : OPT_NO;
	if (o->default_permissions == OPT_UNSET)
		o->default_permissions = o->allow_other == OPT_YES || o->allow_root ? OPT_YES : OPT_NO;
	err = opt_settle_caching(o, eb);
	if (err)
		return err;
	if (o->lanes == 0)
		o->lanes = options_cpus();
	if (!o->fsname && opt_store_string(&o->fsname, o->source))
		return opt_no_memory(eb);
	if (strlen(o->fsname) > FSNAME_MAX)
		return err_set(eb, -EINVAL, "option fsname: '%.40s...' is longer than %u bytes", o->fsname, FSNAME_MAX);
	o->fuse_opts = fuse_opts_text(o);
	return o->fuse_opts ? 0 : opt_no_memory(eb);
}

/* ---- The command line ------------------------------------------------------ */

static void set_defaults(struct options *o)
{
	memset(o, 0, sizeof(*o));
	for (size_t i = 0; i < opt_rows; i++) {
		const struct row *r = &opt_table[i];

		if (r->same_as || !r->off)
			continue;
		if (r->kind == FLAG && r->def)
			*(bool *)opt_field(o, r) = r->value;
		else if (r->kind == TRI)
			*(int *)opt_field(o, r) = OPT_UNSET;
		else if (r->kind == CHOICE)
			*(int *)opt_field(o, r) = r->value;
		else if (r->kind == UINT)
			*(unsigned *)opt_field(o, r) = r->def;
	}
}

/* What --words is called: it has no letter. */
#define LETTER_WORDS 2

/* The next option; 1: a word that is none is in optarg; -1: only such words follow. */
static int next_option(int argc, char *const *argv)
{
	static const struct option names[] = {
		{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' },
		{ "words", no_argument, NULL, LETTER_WORDS }, { 0 },
	};

	return getopt_long(argc, argv, "-:fdvrwsnVho:t:N:", names, NULL);
}

/* The argument of an -o, which is kept for a remount. */
static int take_options(struct options *o, const char *list, struct errbuf *eb)
{
	char *all = NULL;

	if (asprintf(&all, "%s%s%s", o->list ? o->list : "", o->list ? "," : "", list) < 0)
		return opt_no_memory(eb);
	free(o->list);
	o->list = all;
	return opt_take_list(o, list, eb);
}

/* `word` is the one that the option is in. */
static int take_letter(struct options *o, int letter, const char *word, struct errbuf *eb)
{
	switch (letter) {
	case 'f':
		/* mount(8) passes on its own -f, which means "fake". */
		*(o->helper ? &o->fake : &o->foreground) = true;
		return 0;
	case 'd':
		o->debug = o->foreground = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'r':
	case 'w':
		o->ro = letter == 'r';
		return 0;
	case 'V':
		o->action = OPT_VERSION;
		return 0;
	case 'h':
		o->action = OPT_HELP;
		return 0;
	case LETTER_WORDS:
		o->action = OPT_WORDS;
		return 0;
	case 'o':
		return take_options(o, optarg, eb);
	case ':':
		return err_set(eb, -EINVAL, "-%c needs an argument; %s", optopt, opt_usage_line);
	case '?':
		return err_set(eb, -EINVAL, "'%s' is not known; %s", word, opt_usage_line);
	default:
		/* "no mtab": there is none. mount(8) passes -t TYPE and -N NAMESPACE for information.
		 * -s was found before. */
		return 0;
	}
}

static int take_word(const char *words[2], const char *word, struct errbuf *eb)
{
	if (words[1])
		return err_set(eb, -EINVAL, "'%s' is one argument too many; %s", word, opt_usage_line);
	words[words[0] != NULL] = word;
	return 0;
}

/* mount(8) puts -s at the end, but it has to be known before the first -o is read. */
static bool has_sloppy(int argc, char *const *argv)
{
	bool found = false;

	optind = 0;
	for (int c; !found && (c = next_option(argc, argv)) != -1; )
		found = c == 's' ||
			(c == 'o' && hasmntopt(&(struct mntent){ .mnt_opts = optarg }, "sloppy"));
	return found;
}

int options_parse(struct options *o, int argc, char *const *argv, struct errbuf *eb)
{
	const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *words[2] = { NULL, NULL }, *word = argc > 0 ? argv[1] : NULL;
	int err = 0;

	name = name ? name + 1 : argc > 0 ? argv[0] : "";
	set_defaults(o);
	o->helper = strncmp(name, "mount.", 6) == 0;
	/* mount(8) does not pass on options that are its own defaults: not even "dev" and
	 * "suid", if somebody has written them. */
	if (o->helper && geteuid() == 0)
		o->nosuid = o->nodev = false;
	o->sloppy = has_sloppy(argc, argv);
	optind = 0;
	for (int c; !err && (c = next_option(argc, argv)) != -1; word = argv[optind]) {
		err = c == 1 ? take_word(words, optarg, eb) : take_letter(o, c, word, eb);
		if (o->action != OPT_MOUNT)
			return err;
	}
	for (; !err && optind < argc; optind++)
		err = take_word(words, argv[optind], eb);
	if (err)
		return err;
	if (!words[0])
		return err_set(eb, -EINVAL, "SERVER:/EXPORT and MOUNTPOINT are missing; %s", opt_usage_line);
	if (!words[1])
		return err_set(eb, -EINVAL, "the mount point is missing; %s", opt_usage_line);

	err = take_source(o, words[0], eb);
	if (!err)
		err = take_mountpoint(o, words[1], eb);
	if (!err)
		err = options_settle(o, eb);
	return err;
}

void options_free(struct options *o)
{
	free(o->source);
	free(o->server);
	free(o->export);
	free(o->mountpoint);
	free(o->fuse_opts);
	free(o->list);
	for (size_t i = 0; i < opt_rows; i++)
		if (opt_table[i].kind == STRING && !opt_table[i].same_as && opt_table[i].off)
			free(*(char **)opt_field(o, &opt_table[i]));
	memset(o, 0, sizeof(*o));
}
