/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options_impl.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 16

static struct options o;
static struct errbuf eb;

static void cleanup(void)
{
	options_free(&o);
}

/* The words up to NULL, the program's name first. */
static int parse(const char *name, ...)
{
	char *argv[ARGS_MAX + 1] = { (char *)name };
	int argc = 1;
	va_list ap;

	va_start(ap, name);
	while (argc < ARGS_MAX && (argv[argc] = va_arg(ap, char *)))
		argc++;
	va_end(ap);
	options_free(&o);
	eb.text[0] = '\0';
	return options_parse(&o, argc, argv, &eb);
}

/* Row i of the table, as the names of options have it. false: i is beyond its end. */
static bool options_info(size_t i, struct row *info)
{
	if (i >= opt_rows)
		return false;
	*info = *opt_meaning(&opt_table[i]);
	info->name = opt_table[i].name;
	return true;
}

#define PARSE(...) parse("nfsrdma-fuse", __VA_ARGS__, NULL)
#define OPT(opts)  PARSE("srv:/e", "/mnt", "-o", opts)

#define OK(opts) \
	do { \
		int err_ = OPT(opts); \
		cr_assert_eq(err_, 0, "-o %s: %s", opts, eb.text); \
	} while (0)

/* One line that has all of the given words. */
static void expect_error(int err, const char *what, ...)
{
	const char *word;
	va_list ap;

	cr_assert_lt(err, 0, "%s was accepted", what);
	cr_assert_neq(eb.text[0], '\0', "%s: no text", what);
	cr_assert_null(strchr(eb.text, '\n'), "%s: more than one line", what);
	va_start(ap, what);
	while ((word = va_arg(ap, const char *)))
		cr_assert(strstr(eb.text, word), "%s: no '%s' in: %s", what, word, eb.text);
	va_end(ap);
}

#define BAD(opts, ...) expect_error(OPT(opts), opts, __VA_ARGS__, NULL)

TestSuite(options, .fini = cleanup, .timeout = 300);

Test(options, defaults)
{
	cpu_set_t set;
	unsigned lanes;

	cr_assert_eq(PARSE("srv:/export/a", "/mnt"), 0, "%s", eb.text);
	cr_assert_eq(o.action, OPT_MOUNT);
	cr_assert_str_eq(o.source, "srv:/export/a");
	cr_assert_str_eq(o.server, "srv");
	cr_assert_str_eq(o.export, "/export/a");
	cr_assert_str_eq(o.mountpoint, "/mnt");
	cr_assert_str_eq(o.fsname, "srv:/export/a");
	cr_assert_not(o.foreground || o.fake || o.sloppy || o.verbose || o.debug);
	cr_assert_eq(o.vers, OPT_VERS_42);
	cr_assert_eq(o.minorversion, 2);
	cr_assert_eq(o.family, AF_UNSPEC);
	cr_assert_eq(o.port, 20049);
	cr_assert_eq(o.mountport, 0);
	cr_assert_eq(o.nlmport, 0);
	cr_assert_eq(o.rsize, 1048576);
	cr_assert_eq(o.wsize, 1048576);
	cr_assert(o.rdirplus);
	cr_assert_not(o.acl);
	cr_assert(!o.nolock && !o.local_lock && o.deleg && o.delegflush);
	cr_assert_eq(o.fabric, NFS_PLAN_AUTO);
	cr_assert_eq(o.memreg, OPT_MEMREG_AUTO);
	cr_assert_eq(o.credits, 64);
	cr_assert_eq(o.remoteports.n + o.localports.n, 0);
	cr_assert_eq(o.policy, RR_MIN_INFLIGHT);
	cr_assert_eq(o.mdconnect, 0);
	cr_assert_eq(o.heartbeat, 5);
	cr_assert_eq(o.timeo, 600);
	cr_assert_eq(o.retrans, 2);
	cr_assert_not(o.soft);
	cr_assert_eq(o.retry, 0);
	cr_assert_eq(o.acregmin, 3);
	cr_assert_eq(o.acregmax, 60);
	cr_assert_eq(o.acdirmin, 30);
	cr_assert_eq(o.acdirmax, 60);
	cr_assert_not(o.noac);
	cr_assert_eq(o.writebehind, 12);
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_ALL);
	cr_assert_eq(o.consistency, OPT_CTO);
	cr_assert_not(o.ro || o.noexec || o.noatime || o.sync || o.dirsync || o.allow_root);
	cr_assert(o.nosuid && o.nodev);
	cr_assert_null(o.stats);

	sched_getaffinity(0, sizeof(set), &set);
	lanes = (unsigned)CPU_COUNT(&set);
	cr_assert_eq(o.lanes, lanes > NFS_LANES_MAX ? NFS_LANES_MAX : lanes);
}

/* ---- Sources and mount points ---------------------------------------------- */

static void source(const char *text, const char *server, const char *export)
{
	cr_assert_eq(PARSE(text, "/mnt"), 0, "%s: %s", text, eb.text);
	cr_assert_str_eq(o.server, server, "%s: %s", text, o.server);
	cr_assert_str_eq(o.export, export, "%s: %s", text, o.export);
	cr_assert_str_eq(o.source, text);
}

Test(options, sources)
{
	source("10.0.0.1:/", "10.0.0.1", "/");
	source("a.example:/x/y", "a.example", "/x/y");
	source("srv:/a:/b", "srv", "/a:/b");
	source("srv:/with space,comma", "srv", "/with space,comma");
	source("[fe80::1]:/export", "fe80::1", "/export");
	source("[fe80::1%eth0]:/export", "fe80::1%eth0", "/export");
	source("[::1]:/", "::1", "/");
	source("[::ffff:10.0.0.1]:/x", "::ffff:10.0.0.1", "/x");
}

#define BAD_SOURCE(text, ...) \
	expect_error(PARSE(text, "/mnt"), text, "'" text "'", __VA_ARGS__, NULL)

Test(options, bad_sources)
{
	char text[2000];

	BAD_SOURCE("srv", "SERVER:/EXPORT");
	BAD_SOURCE(":/x", "server", "missing");
	BAD_SOURCE("srv:", "begin with '/'");
	BAD_SOURCE("srv:x", "begin with '/'");
	BAD_SOURCE("fe80::1:/export", "brackets", "[fe80::1]:/export");
	BAD_SOURCE("::1:/export", "brackets", "[::1]:/export");
	BAD_SOURCE("[fe80::1:/export", "]");
	BAD_SOURCE("[fe80::1]/export", "':'");
	BAD_SOURCE("[fe80::1]", "':'");
	BAD_SOURCE("[fe80::1%]:/x", "not an IPv6 address");
	BAD_SOURCE("[10.0.0.1]:/x", "'10.0.0.1' is not an IPv6 address");
	BAD_SOURCE("[]:/x", "not an IPv6 address");

	memset(text, 'a', sizeof(text));
	strcpy(text + 256, ":/x");
	expect_error(PARSE(text, "/mnt"), "long host", "255", NULL);
	memset(text, 'a', sizeof(text));
	memcpy(text, "srv:/", 5);
	text[sizeof(text) - 1] = '\0';
	expect_error(PARSE(text, "/mnt"), "long path", "1023", NULL);
}

Test(options, mount_points)
{
	char *cwd = getcwd(NULL, 0), want[4096];

	snprintf(want, sizeof(want), "%s/no/such", strcmp(cwd, "/") == 0 ? "" : cwd);
	cr_assert_eq(PARSE("srv:/e", "no/such"), 0);
	cr_assert_str_eq(o.mountpoint, want);
	cr_assert_eq(PARSE("srv:/e", "."), 0);
	cr_assert_str_eq(o.mountpoint, cwd);
	cr_assert_eq(PARSE("srv:/e", "/no/such"), 0);
	cr_assert_str_eq(o.mountpoint, "/no/such");
	expect_error(PARSE("srv:/e", ""), "empty mount point", "mount point", NULL);
	free(cwd);
}

/* ---- Letters --------------------------------------------------------------- */

Test(options, letters)
{
	cr_assert_eq(PARSE("-fv", "srv:/e", "/mnt"), 0, "%s", eb.text);
	cr_assert(o.foreground && o.verbose);
	cr_assert_not(o.debug || o.fake);

	cr_assert_eq(PARSE("srv:/e", "/mnt", "-d"), 0);
	cr_assert(o.foreground && o.debug);

	cr_assert_eq(PARSE("srv:/e", "-oro,soft", "/mnt", "-oport=1", "-fn"), 0, "%s", eb.text);
	cr_assert(o.ro && o.soft && o.foreground);
	cr_assert_eq(o.port, 1);

	cr_assert_eq(PARSE("-r", "srv:/e", "/mnt"), 0);
	cr_assert(o.ro);
	cr_assert_eq(PARSE("-r", "srv:/e", "/mnt", "-w"), 0);
	cr_assert_not(o.ro);

	cr_assert_eq(PARSE("-o", "ro", "--", "srv:/e", "-m"), 0, "%s", eb.text);
	cr_assert(o.ro);
	cr_assert_str_eq(strrchr(o.mountpoint, '/'), "/-m");
}

Test(options, help_and_version_need_nothing_else)
{
	static const char *const help[] = { "-h", "--help", "-fh" };

	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(PARSE(help[i]), 0);
		cr_assert_eq(o.action, OPT_HELP, "%s", help[i]);
	}
	cr_assert_eq(PARSE("-V"), 0);
	cr_assert_eq(o.action, OPT_VERSION);
	cr_assert_eq(PARSE("--version", "junk"), 0);
	cr_assert_eq(o.action, OPT_VERSION);
}

Test(options, bad_command_lines)
{
	expect_error(parse("nfsrdma-fuse", NULL), "nothing", "missing", "usage:", NULL);
	expect_error(PARSE("srv:/e"), "no mount point", "mount point", "usage:", NULL);
	expect_error(PARSE("srv:/e", "/mnt", "more"), "three words", "'more'", "usage:", NULL);
	expect_error(PARSE("srv:/e", "/mnt", "-o"), "-o alone", "-o", "usage:", NULL);
	expect_error(PARSE("srv:/e", "/mnt", "-x"), "-x", "'-x'", "usage:", NULL);
	expect_error(PARSE("srv:/e", "/mnt", "--no"), "--no", "'--no'", "usage:", NULL);
	expect_error(PARSE("", "/mnt"), "empty source", "SERVER:/EXPORT", NULL);
}

/* As mount(8) calls a helper: /sbin/mount.nfsrdma SOURCE DIR [-sfnv] [-N NS] [-o OPTS] [-t TYPE] */
Test(options, mount_helper)
{
	cr_assert_eq(parse("/sbin/mount.nfsrdma", "srv:/e", "/mnt", "-fnv", "-o",
			   "rw,vers=3,_netdev,x-systemd.automount,user=me", "-t", "nfsrdma", NULL), 0,
		     "%s", eb.text);
	cr_assert(o.fake);
	cr_assert_not(o.foreground);
	cr_assert(o.verbose);
	cr_assert_eq(o.vers, OPT_VERS_3);

	/* -s comes last and holds for all. */
	cr_redirect_stderr();
	cr_assert_eq(parse("mount.nfsrdma", "srv:/e", "/mnt", "-o", "rw,sharecache", "-s", NULL), 0,
		     "%s", eb.text);
	cr_assert(o.sloppy);
	cr_assert_lt(parse("mount.nfsrdma", "srv:/e", "/mnt", "-o", "sharecache", NULL), 0);
	cr_assert_lt(parse("mount.nfsrdma", "srv:/e", "/mnt", "-o", "sharecache", "-N", "-s", NULL), 0);
	/* A bad value of a known option is no matter of taste. */
	cr_assert_lt(parse("mount.nfsrdma", "srv:/e", "/mnt", "-s", "-o", "port=x", NULL), 0);
}

/* mount(8) has defaults of its own, and says only what is not its default. */
Test(options, mount_helper_and_devices)
{
	static const struct { const char *opts; bool nosuid, nodev, noexec; } t[] = {
		{ "rw", false, false, false }, { "rw,nosuid", true, false, false },
		{ "rw,nodev", false, true, false }, { "rw,user", true, true, true },
		{ "rw,users,exec", true, true, false }, { "rw,user=me,suid", false, true, true },
		{ "rw,owner", true, true, false }, { "rw,group,dev", true, false, false },
		{ "rw,noexec,nosuid,nodev,user=me", true, true, true },
	};
	bool root = geteuid() == 0;

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_assert_eq(parse("/sbin/mount.nfsrdma", "srv:/e", "/mnt", "-o", t[i].opts, NULL), 0);
		cr_assert_eq(o.noexec, t[i].noexec, "%s", t[i].opts);
		/* Who is not root gets what fusermount3 gives him. */
		if (root)
			cr_assert(o.nosuid == t[i].nosuid && o.nodev == t[i].nodev, "%s", t[i].opts);
		/* Said to the program itself, these mean nothing. */
		cr_assert_eq(parse("nfsrdma-fuse", "srv:/e", "/mnt", "-o", "user,group", NULL), 0);
		cr_assert(o.nosuid && o.nodev && !o.noexec);
	}
	cr_assert_eq(parse("/sbin/mount.nfsrdma", "srv:/e", "/mnt", NULL), 0);
	cr_assert(o.nosuid == !root && o.nodev == !root);
}

/* As mount.fuse3 calls a file system: nfsrdma-fuse SOURCE DIR -o OPTS */
Test(options, mount_fuse3)
{
	cr_assert_eq(PARSE("srv:/e", "/mnt", "-o", "rw,noexec,nosuid,nodev,vers=3"), 0, "%s", eb.text);
	cr_assert(o.noexec && o.nosuid && o.nodev);
}

/* ---- Lists of options ------------------------------------------------------ */

Test(options, lists)
{
	OK("");
	OK(",,ro,");
	cr_assert(o.ro);
	OK("fsname=a\\,b\\\\c,ro");
	cr_assert_str_eq(o.fsname, "a,b\\c");
	cr_assert(o.ro);
	OK("fsname=a=b");
	cr_assert_str_eq(o.fsname, "a=b");
	OK("fsname=one,fsname=two");
	cr_assert_str_eq(o.fsname, "two");
}

Test(options, later_ones_win)
{
	OK("soft,hard");
	cr_assert_not(o.soft);
	OK("hard,soft");
	cr_assert(o.soft);
	OK("ro,rw");
	cr_assert_not(o.ro);
	OK("timeo=10,timeo=20");
	cr_assert_eq(o.timeo, 20);
	OK("noac,ac");
	cr_assert_eq(o.acregmax, 60);
	OK("vers=3,nfsvers=4.1");
	cr_assert_eq(o.vers, OPT_VERS_41);
	OK("actimeo=7,acdirmax=9");
	cr_assert_eq(o.acregmin, 7);
	cr_assert_eq(o.acdirmax, 9);
}

Test(options, unknown_with_suggestion)
{
	BAD("rsise=4096", "'rsise'", "'rsize'", "--help");
	BAD("tiemo=3", "'tiemo'", "'timeo'");
	BAD("allowother", "'allow_other'");
	BAD("ro,nconect=2", "'nconect'", "'nconnect'");
	BAD("hart", "'hard'");
}

Test(options, unknown_without_suggestion)
{
	BAD("completely_else", "'completely_else'", "--help");
	cr_assert_null(strstr(eb.text, "did you mean"), "%s", eb.text);
	/* Short, or more than a third is wrong: a guess would be a wild one. */
	BAD("q", "'q'");
	cr_assert_null(strstr(eb.text, "did you mean"), "%s", eb.text);
	BAD("fsc", "'fsc'");
	cr_assert_null(strstr(eb.text, "did you mean"), "%s", eb.text);
	BAD("soap", "'soap'");
	cr_assert_null(strstr(eb.text, "did you mean"), "%s", eb.text);
	BAD("=", "''");
	/* Longer than any buffer that compares words. */
	BAD("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	    "aaaa");
}

Test(options, what_fstab_and_mount_use_is_ignored)
{
	OK("defaults,auto,noauto,user,user=joe,nouser,users,owner,group,nofail,_netdev,"
	   "comment=x-gvfs,x-systemd.automount,x-systemd.idle-timeout=60,X-mount.mkdir,"
	   "rdma,intr,nointr,relatime,norelatime,strictatime,nostrictatime,diratime,nodiratime");
}

Test(options, access_control_lists)
{
	OK("acl");
	cr_assert(o.acl);
	OK("acl,noacl");
	cr_assert_not(o.acl);
	OK("noacl,acl");
	cr_assert(o.acl);
	BAD("acl=1", "acl");
	BAD("noacl=1", "noacl");
}

Test(options, nfs5_harmless_is_accepted)
{
	OK("fg,cto,resvport,noresvport,silent,loud,local_lock=all,mountproto=tcp,"
	   "mountproto=tcp6");
}

Test(options, nfs5_refused_with_the_reason)
{
	BAD("tcp", "tcp", "RDMA only", "mount -t nfs");
	BAD("udp", "udp", "RDMA only", "mount -t nfs");
	BAD("nocto", "nocto", "consistency=solo");
	BAD("softerr", "softerr", "EIO");
	BAD("local_lock=some", "'some'", "none", "flock", "posix", "all");
	BAD("mountproto=udp", "mountproto", "'udp'", "TCP");
	/* Known, so -s does not let them pass. */
	expect_error(PARSE("srv:/e", "/mnt", "-s", "-o", "softerr"), "-s softerr", "softerr", NULL);
}

Test(options, a_long_fsname)
{
	char opt[1400] = "fsname=";

	memset(opt + 7, 'x', 1300);
	OK(opt);
	opt[7 + 1300] = 'x';
	BAD(opt, "fsname", "longer than 1300 bytes");
}

/* ---- remount ---- */

/* o is the mount's. */
#define REMOUNT(list) options_remount(&o, list, &to, &kernel, &eb)
#define REMOUNT_BAD(list, ...) expect_error(REMOUNT(list), list, __VA_ARGS__, NULL)

Test(options, remount_changes_what_can_change)
{
	struct options to;
	bool kernel;

	OK("vers=4.2,rsize=65536,acregmin=5,fsname=x,remoteports=192.0.2.1~192.0.2.2,stats=/tmp/s,nconnect=3");
	cr_assert_eq(REMOUNT(""), 0);
	cr_assert(!kernel && memcmp(&to, &o, sizeof(o)) == 0);
	/* mount(8) hands on all that fstab has. */
	cr_assert_eq(REMOUNT("vers=4.2,nfsvers=4,minorversion=2,rsize=65536,fsname=x,remoteports=192.0.2.1~192.0.2.2,"
			     "stats=/tmp/s,nconnect=3,defaults,user_id=0,max_read=4096,remount,sloppy,noauto"), 0, "%s", eb.text);
	cr_assert(!kernel && memcmp(&to, &o, sizeof(o)) == 0);
	cr_assert_eq(REMOUNT("soft,timeo=50,retrans=1,heartbeat=2,readahead=0,writebehind=0,mp_policy=round-robin,actimeo=9"), 0);
	cr_assert(to.soft && to.timeo == 50 && to.retrans == 1 && to.heartbeat == 2 && !to.readahead && !to.writebehind);
	cr_assert(to.policy == RR_ROUND_ROBIN && to.acregmin == 9 && to.acregmax == 9 && to.acdirmin == 9 && to.acdirmax == 9);
	cr_assert(!kernel && to.rsize == 65536 && to.fsname == o.fsname && to.stats == o.stats);
	cr_assert_eq(REMOUNT("ro"), 0);
	cr_assert(kernel && to.ro && !o.ro);
	cr_assert_eq(REMOUNT("ro,rw"), 0);
	cr_assert(!kernel && !to.ro);
}

/* As the mount has settled it. */
Test(options, remount_with_what_was_settled)
{
	struct options to;
	bool kernel;

	OK("allow_other,nodefault_permissions,lookupcache=pos");
	cr_assert_eq(REMOUNT("allow_other,nodefault_permissions,lookupcache=pos,soft"), 0, "%s", eb.text);
	cr_assert(to.soft && to.lookupcache == FS_LOOKUPCACHE_NONE);
	/* The mount table has this for it. */
	OK("allow_root");
	cr_assert_eq(REMOUNT("allow_other,soft"), 0, "%s", eb.text);
	cr_assert(to.soft && to.allow_root && to.allow_other == OPT_NO);
	/* Or both come. That is what the command is given, too. */
	cr_assert_eq(REMOUNT("allow_other,soft,allow_root"), 0, "%s", eb.text);
	cr_assert(to.soft && to.allow_root && to.allow_other == OPT_NO);
	OK("remount,allow_other,soft,allow_root");
	OK("allow_other");
	REMOUNT_BAD("allow_other,soft,allow_root", "allow_root", "cannot be changed");
	OK("vers=4.2,minorversion=1");
	cr_assert_eq(REMOUNT("vers=4.2,minorversion=1,soft"), 0, "%s", eb.text);
	cr_assert(to.soft && to.vers == OPT_VERS_41 && to.minorversion == 1);
	REMOUNT_BAD("minorversion=2", "minorversion", "cannot be changed");
	REMOUNT_BAD("vers=4.2", "vers", "cannot be changed");
	OK("vers=3");
	REMOUNT_BAD("minorversion=1", "minorversion", "cannot be changed");
	REMOUNT_BAD("vers=4.1,minorversion=1", "cannot be changed");
}

/* The one that is not given gives way, as it does in a new mount. */
Test(options, remount_of_one_time)
{
	struct options to;
	bool kernel;

	OK("vers=3");
	cr_assert_eq(REMOUNT("acregmax=1,acdirmin=70"), 0, "%s", eb.text);
	cr_assert(to.acregmin == 1 && to.acregmax == 1 && to.acdirmin == 70 && to.acdirmax == 70);
	cr_assert_eq(REMOUNT("acregmax=50"), 0, "%s", eb.text);
	cr_assert(to.acregmin == 3 && to.acregmax == 50 && to.acdirmin == 30 && to.acdirmax == 60);
}

Test(options, remount_refuses_the_rest)
{
	static const char *const fixed[] = {
		"vers=3", "rsize=4096", "wsize=4096", "proto=rdma6", "port=7", "sec=none", "nordirplus", "nolock", "nodeleg",
		"nodelegflush", "local_lock=all", "acl", "fabric=iwarp", "nconnect=4", "credits=7", "mpacrc", "memreg=pool",
		"norings", "maxrings=3", "ringmem=3", "remoteports=192.0.2.3", "addr=192.0.2.1", "localports=192.0.2.3", "mdconnect=1",
		"retry=3", "noac", "consistency=solo", "lookupcache=none", "noallow_other", "allow_root", "nodefault_permissions",
		"sync", "dirsync", "fsname=y", "stats=/tmp/t", "debug",
	};
	struct options to;
	bool kernel;

	OK("remoteports=192.0.2.1~192.0.2.2,allow_other,nconnect=3");
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		REMOUNT_BAD(fixed[i], "cannot be changed", "mount it again");
	REMOUNT_BAD("timeo=0", "out of range");
	REMOUNT_BAD("acregmin=9,acregmax=8", "acregmax");
	REMOUNT_BAD("nonsense", "not known");
}

Test(options, sloppy_is_an_option_as_well)
{
	OK("nosuch,sloppy");
	cr_assert(o.sloppy);
	cr_assert_eq(PARSE("srv:/e", "/mnt", "-o", "nosuch", "-vosloppy,ro"), 0, "%s", eb.text);
	cr_assert(o.sloppy && o.ro);
	BAD("nosuch,fsname=sloppy", "'nosuch'");
	BAD("nosuch,sloppyx", "'nosuch'");
}

/* ---- Kinds ----------------------------------------------------------------- */

Test(options, versions)
{
	OK("vers=3");
	cr_assert_eq(o.vers, OPT_VERS_3);
	cr_assert_eq(o.minorversion, 0);
	OK("nfsvers=4.1");
	cr_assert_eq(o.vers, OPT_VERS_41);
	OK("vers=4,minorversion=1");
	cr_assert_eq(o.vers, OPT_VERS_41);
	cr_assert_eq(o.minorversion, 1);
	OK("minorversion=1");
	cr_assert_eq(o.vers, OPT_VERS_41);

	OK("vers=4.2");
	cr_assert_eq(o.vers, OPT_VERS_42);
	cr_assert_eq(o.minorversion, 2);
	OK("vers=4,minorversion=2");
	cr_assert_eq(o.vers, OPT_VERS_42);
	OK("vers=4.2,minorversion=1");
	cr_assert_eq(o.vers, OPT_VERS_41);

	OK("vers=4");
	cr_assert(o.vers == OPT_VERS_42 && o.minorversion == 2 && o.vers_may_fall);
	OK("nolock");
	cr_assert(o.vers == OPT_VERS_42 && o.minorversion == 2 && o.vers_may_fall);
	OK("vers=4.2");
	cr_assert_not(o.vers_may_fall);
	OK("minorversion=2");
	cr_assert(o.vers == OPT_VERS_42 && !o.vers_may_fall);
	BAD("vers=4.0", "'4.0'", "3", "4.1");
	BAD("nfsvers=2", "nfsvers", "'2'");
	BAD("vers=41", "'41'");
	BAD("vers=", "vers needs a value");
	BAD("vers", "vers needs a value", "4.1");
	BAD("vers=4,minorversion=3", "minorversion", "'3'", "1");
	BAD("vers=4,minorversion=0", "minorversion", "'0'");
	BAD("vers=3,minorversion=1", "minorversion", "vers=3");
}

Test(options, choices)
{
	OK("proto=rdma");
	cr_assert_eq(o.family, AF_UNSPEC);
	OK("proto=rdma6");
	cr_assert_eq(o.family, AF_INET6);
	BAD("proto=tcp", "proto", "'tcp'", "RDMA only", "rdma or rdma6");
	BAD("proto=rmda", "'rmda'", "rdma or rdma6");

	OK("fabric=verbs");
	cr_assert_eq(o.fabric, NFS_PLAN_VERBS);
	OK("fabric=auto");
	BAD("fabric=tcp", "fabric", "'tcp'", "auto, verbs or iwarp");

	OK("mp_policy=round-robin");
	cr_assert_eq(o.policy, RR_ROUND_ROBIN);
	OK("mp_policy=min-latency");
	cr_assert_eq(o.policy, RR_MIN_LATENCY);
	OK("mp_policy=min-inflight");
	cr_assert_eq(o.policy, RR_MIN_INFLIGHT);
	BAD("mp_policy=fastest", "mp_policy", "'fastest'", "round-robin, min-inflight or min-latency");

	OK("loop=epoll");
	BAD("loop=io_uring", "loop", "'io_uring'", "was removed");
	OK("memreg=auto");
	cr_expect_eq(o.memreg, OPT_MEMREG_AUTO);
	OK("memreg=pool");
	cr_expect_eq(o.memreg, OPT_MEMREG_POOL);
	OK("memreg=call");
	cr_expect_eq(o.memreg, OPT_MEMREG_CALL);
	OK("memreg=mw");
	cr_expect_eq(o.memreg, OPT_MEMREG_MW);
	BAD("memreg=cache", "memreg", "'cache'", "pool", "was removed");
	BAD("memreg=dynamic", "memreg", "'dynamic'", "call");
	BAD("memreg=all-physical", "memreg", "'all-physical'", "kernel");
	BAD("memreg=fmr", "memreg", "'fmr'", "pool");

	OK("sec=sys");
	BAD("sec=krb5p", "sec", "'krb5p'", "not supported", "sys");
	OK("sec=none");
	cr_assert_eq(o.sec, OPT_SEC_NONE);
	BAD("sec=ntlm", "'ntlm'", "sys or none");

	OK("consistency=solo");
	cr_assert_eq(o.consistency, OPT_SOLO);
	cr_assert(o.acregmin == 3600 && o.acregmax == 3600 && o.acdirmin == 3600 && o.acdirmax == 3600);
	OK("consistency=solo,acregmax=60,acdirmin=5");
	cr_assert(o.acregmin == 60 && o.acregmax == 60 && o.acdirmin == 5 && o.acdirmax == 3600);
	OK("consistency=solo,consistency=cto");
	cr_assert(o.consistency == OPT_CTO && o.acregmin == 3);
	BAD("consistency=nfs", "'nfs'", "cto", "solo");
	BAD("consistency=solo,noac", "noac", "solo");

	OK("lookupcache=none");
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_NONE);
	OK("lookupcache=pos");
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_POS);
	OK("lookupcache=positive");
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_POS);
	OK("lookupcache=none,lookupcache=all");
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_ALL);
	BAD("lookupcache=some", "'some'", "all", "none");

	OK("nolock");
	cr_assert(o.nolock);
	OK("nolock,lock");
	cr_assert(!o.nolock);
	OK("nodelegflush");
	cr_assert(o.deleg && !o.delegflush);
	OK("nodeleg");
	cr_assert(!o.deleg);
	OK("nodeleg,deleg");
	cr_assert(o.deleg);
	OK("local_lock=flock");
	cr_assert_eq(o.local_lock, OPT_LOCAL_FLOCK);
	OK("local_lock=all");
	cr_assert_eq(o.local_lock, OPT_LOCAL_FLOCK | OPT_LOCAL_POSIX);
}

/* Every number of the table: its ends are taken, what is beyond is not. */
Test(options, ranges_of_the_table)
{
	struct row info;
	char opt[128], number[32];
	unsigned n = 0;

	for (size_t i = 0; options_info(i, &info); i++) {
		if (info.kind != UINT)
			continue;
		n++;
		snprintf(opt, sizeof(opt), "%s=%u", info.name, info.min);
		OK(opt);
		snprintf(opt, sizeof(opt), "%s=%u", info.name, info.max);
		OK(opt);
		snprintf(number, sizeof(number), "'%lu'", (unsigned long)info.max + 1);
		snprintf(opt, sizeof(opt), "%s=%lu", info.name, (unsigned long)info.max + 1);
		BAD(opt, info.name, number, "out of range", "allowed");
		if (info.min > 0) {
			snprintf(number, sizeof(number), "'%u'", info.min - 1);
			snprintf(opt, sizeof(opt), "%s=%u", info.name, info.min - 1);
			BAD(opt, info.name, number, "out of range");
		}
		snprintf(opt, sizeof(opt), "%s=99999999999999999999999", info.name);
		BAD(opt, "'99999999999999999999999'", "out of range");

		static const char *const words[] = {
			"x", "-1", "+1", " 1", "1 ", "0x10", "1k",
		};
		for (size_t w = 0; w < sizeof(words) / sizeof(*words); w++) {
			snprintf(opt, sizeof(opt), "%s=%s", info.name, words[w]);
			snprintf(number, sizeof(number), "'%s'", words[w]);
			BAD(opt, info.name, number, "not a whole number", "allowed");
		}
		BAD(info.name, info.name, "needs a value");
		snprintf(opt, sizeof(opt), "%s=", info.name);
		BAD(opt, info.name, "needs a value");
	}
	cr_assert_geq(n, 15);
}

Test(options, numbers)
{
	OK("port=1,mountport=2,nlmport=8,timeo=3,retrans=4,retry=5,credits=6,nconnect=7");
	cr_assert_eq(o.port, 1);
	cr_assert_eq(o.mountport, 2);
	cr_assert_eq(o.nlmport, 8);
	cr_assert_eq(o.timeo, 3);
	cr_assert_eq(o.retrans, 4);
	cr_assert_eq(o.retry, 5);
	cr_assert_eq(o.credits, 6);
	cr_assert_eq(o.lanes, 7);
	OK("lanes=16");
	cr_assert_eq(o.lanes, 16);
	BAD("lanes=17", "lanes", "'17'", "1 to 16");
	OK("mdconnect=2,heartbeat=60");
	cr_assert_eq(o.mdconnect, 2);
	cr_assert_eq(o.heartbeat, 60);
	BAD("heartbeat=0", "heartbeat", "'0'", "1 to 3600");
	BAD("port=0", "port", "'0'", "1 to 65535");
	BAD("credits=1", "'1'", "2 to 128");
}

Test(options, sizes_are_rounded_down_with_a_notice)
{
	char line[512] = "";
	FILE *err;

	cr_redirect_stderr();
	OK("rsize=8191,wsize=1048575");
	cr_assert_eq(o.rsize, 4096);
	cr_assert_eq(o.wsize, 1048576 - 4096);
	fflush(stderr);
	err = cr_get_redirected_stderr();
	cr_assert(fgets(line, sizeof(line), err));
	cr_assert(strstr(line, "rsize") && strstr(line, "'8191'") && strstr(line, "4096"), "%s", line);
	cr_assert(fgets(line, sizeof(line), err));
	cr_assert(strstr(line, "wsize") && strstr(line, "'1048575'"), "%s", line);
	BAD("rsize=4095", "rsize", "'4095'", "4096 to 4194304", "steps of 4096");
	OK("rsize=4194304,wsize=4194304");
	cr_assert(o.rsize == 4194304 && o.wsize == 4194304);
	BAD("wsize=4198400", "wsize", "'4198400'", "4096 to 4194304");
}

Test(options, flags_take_no_value)
{
	BAD("hard=1", "hard", "no value", "hard=1");
	BAD("ro=", "ro", "no value");
}

Test(options, iwarp_frames)
{
	OK("mpacrc,mssfpdu");
	cr_expect(o.mpa_crc && o.mss_fpdu);
	OK("mpacrc,mssfpdu,nompacrc,nomssfpdu");
	cr_expect(!o.mpa_crc && !o.mss_fpdu);
}

Test(options, cache_times)
{
	OK("actimeo=0");
	cr_assert_eq(o.acregmin + o.acregmax + o.acdirmin + o.acdirmax, 0);
	OK("actimeo=600");
	cr_assert_eq(o.acregmin, 600);
	cr_assert_eq(o.acdirmax, 600);
	OK("noac");
	cr_assert(o.noac);
	cr_assert_eq(o.acregmin + o.acregmax + o.acdirmin + o.acdirmax, 0);
	OK("acregmin=5,acregmax=5,acdirmin=1,acdirmax=2");
	cr_assert_eq(o.acregmin, 5);
	cr_assert_eq(o.acdirmax, 2);

	/* What was not given makes room. */
	OK("acregmax=1");
	cr_assert_eq(o.acregmin, 1);
	OK("acdirmin=100");
	cr_assert_eq(o.acdirmax, 100);

	BAD("acregmin=9,acregmax=8", "acregmin", "'9'", "acregmax", "'8'");
	BAD("acdirmin=9,acdirmax=8", "acdirmin", "'9'", "acdirmax", "'8'");
}

Test(options, local_addresses)
{
	OK("localaddr=10.0.0.2");
	cr_assert_str_eq(o.localports.text[0], "10.0.0.2");
	OK("localaddr=fe80::1%eth0");
	cr_assert_str_eq(o.localports.text[0], "fe80::1%eth0");
	OK("localaddr=[::1]");
	cr_assert_str_eq(o.localports.text[0], "::1");
	BAD("localaddr=10.0.0", "localaddr", "'10.0.0'", "address");
	BAD("localaddr=fe80::1%", "'fe80::1%'");
	BAD("localaddr=a/b", "localaddr");
	BAD("localaddr=", "localaddr needs a value");
}

Test(options, paths_become_absolute)
{
	char *cwd = getcwd(NULL, 0), want[4096];

	snprintf(want, sizeof(want), "%s/st", strcmp(cwd, "/") == 0 ? "" : cwd);
	OK("stats=/tmp/st");
	cr_assert_str_eq(o.stats, "/tmp/st");
	OK("stats=st");
	cr_assert_str_eq(o.stats, want);
	BAD("stats=", "stats needs a value");
	BAD("stats", "stats needs a value", "stats=FILE");
	free(cwd);
}

/* ---- What FUSE gets -------------------------------------------------------- */

static bool fuse_has(const char *opt)
{
	char *list = strdup(o.fuse_opts), *save = NULL;
	bool found = false;

	for (char *w = strtok_r(list, ",", &save); w; w = strtok_r(NULL, ",", &save))
		found |= strcmp(w, opt) == 0;
	free(list);
	return found;
}

Test(options, fuse_options)
{
	OK("allow_other");
	cr_assert(fuse_has("rw") && fuse_has("nosuid") && fuse_has("nodev"), "%s", o.fuse_opts);
	cr_assert(fuse_has("allow_other") && fuse_has("default_permissions"), "%s", o.fuse_opts);
	cr_assert_not(fuse_has("noexec") || fuse_has("sync"), "%s", o.fuse_opts);

	OK("ro,suid,dev,noexec,noatime,sync,dirsync,noallow_other");
	cr_assert(fuse_has("ro") && fuse_has("suid") && fuse_has("dev") && fuse_has("noexec") &&
		  fuse_has("noatime") && fuse_has("sync") && fuse_has("dirsync"), "%s", o.fuse_opts);
	cr_assert_not(fuse_has("allow_other") || fuse_has("default_permissions"), "%s", o.fuse_opts);

	OK("allow_other,nodefault_permissions");
	cr_assert_not(fuse_has("default_permissions"), "%s", o.fuse_opts);
	OK("noallow_other,default_permissions");
	cr_assert(fuse_has("default_permissions"), "%s", o.fuse_opts);

	OK("allow_root");
	cr_assert(fuse_has("allow_root") && fuse_has("default_permissions"), "%s", o.fuse_opts);
	cr_assert_not(fuse_has("allow_other"), "%s", o.fuse_opts);
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_ALL);
	BAD("allow_root,allow_other", "'allow_root'", "'allow_other'");
}

Test(options, names_are_not_shared_unless_the_kernel_checks_modes)
{
	OK("allow_other,nodefault_permissions,lookupcache=all");
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_NONE);
	OK("allow_root,nodefault_permissions");
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_NONE);
	OK("noallow_other,nodefault_permissions");
	cr_assert_eq(o.lookupcache, FS_LOOKUPCACHE_ALL);
}

Test(options, allow_other_is_roots_default)
{
	OK("rw");
	cr_assert_eq(o.allow_other, geteuid() == 0 ? OPT_YES : OPT_NO);
	if (geteuid() != 0)
		return;
	cr_assert_eq(seteuid(65534), 0);
	OK("rw");
	cr_assert_eq(o.allow_other, OPT_NO);
	cr_assert_eq(o.default_permissions, OPT_NO);
	cr_assert_eq(seteuid(0), 0);
}

/* ---- Texts ----------------------------------------------------------------- */

static char *text_of(void (*print)(FILE *))
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	print(f);
	fclose(f);
	return text;
}

Test(options, help_lists_the_table)
{
	char *text = text_of(options_help), want[64];
	struct row info;

	for (size_t i = 0; options_info(i, &info); i++) {
		if (info.kind == REFUSE)
			continue;
		cr_assert(strstr(text, info.group), "group %s", info.group);
		snprintf(want, sizeof(want), "  %s", info.name);
		if (!strstr(text, want))
			snprintf(want, sizeof(want), ", %s", info.name);
		cr_assert(strstr(text, want), "--help does not list %s", info.name);
	}
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		cr_assert_leq(strlen(line), 100, "too long: %s", line);
	free(text);
}

/* The options whose value is one of a few words. */
static const struct {
	const char *name, *def;
	size_t at;                      /* an enum in struct options; 0: there is none */
} choices[] = {
	{ "vers", "4", offsetof(struct options, vers) },
	{ "nfsvers", NULL, 0 },         /* its line says that it is the same as another */
	{ "proto", "rdma", offsetof(struct options, family) },
	{ "mountproto", "tcp", 0 },
	{ "sec", "sys", offsetof(struct options, sec) },
	{ "local_lock", "none", offsetof(struct options, local_lock) },
	{ "idmap", "user", offsetof(struct options, idmap) },
	{ "fabric", "auto", offsetof(struct options, fabric) },
	{ "loop", NULL, 0 },
	{ "memreg", "auto", offsetof(struct options, memreg) },
	{ "mp_policy", "min-inflight", offsetof(struct options, policy) },
	{ "consistency", "cto", offsetof(struct options, consistency) },
	{ "lookupcache", "all", offsetof(struct options, lookupcache) },
};
#define N_CHOICES (sizeof(choices) / sizeof(choices[0]))

static int value_at(size_t at)
{
	int v;

	memcpy(&v, (const char *)&o + at, sizeof(v));
	return v;
}

/* The default that --help names is what the option is without being given. */
static void default_of_choice(const char *line, size_t i)
{
	const char *at = strstr(line, "; default ");
	char word[32] = "", opt[64];
	int without;

	cr_assert_eq(!at, !choices[i].def, "%s", line);
	if (!at)
		return;
	cr_assert_eq(sscanf(at, "; default %31[^)])", word), 1, "%s", line);
	cr_assert_str_eq(word, choices[i].def, "%s", line);
	if (!choices[i].at)
		return;
	cr_assert_eq(PARSE("srv:/e", "/mnt"), 0);
	without = value_at(choices[i].at);
	snprintf(opt, sizeof(opt), "%s=%s", choices[i].name, word);
	OK(opt);
	cr_assert_eq(value_at(choices[i].at), without, "%s", opt);
}

Test(options, help_names_the_default_of_a_choice)
{
	char *text = text_of(options_help), *rest;
	size_t n = 0;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *value = strstr(line, "=WORD");

		if (!value)
			continue;
		*value++ = '\0';
		cr_assert(n < N_CHOICES && !strcmp(line + strspn(line, " "), choices[n].name),
			  "'%s' is not in the test's list, or not at that place", line);
		default_of_choice(value, n++);
	}
	cr_assert_eq(n, N_CHOICES);
	free(text);
}

/* Not because it is the first of its words, or the first with that value. */
Test(options, the_default_of_a_choice_is_its_value)
{
	const struct choice words[] = {
		{ "no", 2, "not supported" }, { "one", 1, NULL }, { "two", 2, NULL },
		{ NULL, 0, NULL },
	};
	struct row r = { .name = "n", .kind = CHOICE, .choices = words, .value = 2 };

	cr_assert_str_eq(opt_default_word(&r), "two");
	r.value = 1;
	cr_assert_str_eq(opt_default_word(&r), "one");
}

Test(options, usage_has_the_letters_of_help)
{
	char *text = text_of(options_help);
	char letters[32] = "";
	unsigned n = 0;

	cr_assert_eq(sscanf(text, "usage: nfsrdma-fuse [-%31[^]]", letters), 1, "%s", text);
	for (char *p = text; (p = strstr(p, "\n  -")); p++) {
		/* "  -r, -w  ...": up to the gap before the text. */
		char *end = strstr(p + 3, "  ");

		for (char *c = p; (c = strchr(c + 1, '-')) && c < end; ) {
			if (c[1] == '-' || c[1] == 'o' || c[-1] != ' ')
				continue;
			n++;
			cr_assert(strchr(letters, c[1]), "usage lacks -%c: %s", c[1], letters);
		}
	}
	cr_assert_eq(n, 9);
	free(text);
}

Test(options, version)
{
	char *text = text_of(options_version);

	cr_assert_eq(strncmp(text, "nfsrdma-fuse ", 13), 0);
	free(text);
}

Test(options, names_are_unique)
{
	struct row a, b;

	for (size_t i = 0; options_info(i, &a); i++)
		for (size_t j = i + 1; options_info(j, &b); j++)
			cr_assert_str_neq(a.name, b.name);
}

/* ---- The man page ---------------------------------------------------------- */

static char *man_page(void)
{
	FILE *f = fopen(TOP_SRCDIR "/man/nfsrdma-fuse.8", "r");
	char *text = NULL;
	size_t len = 0;

	cr_assert(f, "no man page");
	cr_assert_gt(getdelim(&text, &len, '\0', f), 0);
	fclose(f);
	return text;
}

/*
 * Mount options stand in the man page between two comments, each as
 *     .TP (or .TQ for another name of the same entry)
 *     .BI name= value        or        .B name
 * Calls fn for each with the text of the line; counts them.
 */
static unsigned man_options(char *man, void (*fn)(const char *name, const char *entry, void *arg),
			    void *arg)
{
	char *from = strstr(man, ".\\\" mount options begin\n");
	char *to = strstr(man, ".\\\" mount options end\n");
	unsigned n = 0;

	cr_assert(from && to && from < to, "the man page lacks the marks of its mount options");
	*to = '\0';
	for (char *p = from; (p = strstr(p, "\n.T")); ) {
		char name[64];
		size_t len;

		p += 3;
		if (*p != 'P' && *p != 'Q')
			continue;
		p = strchr(p, '\n') + 1;
		cr_assert(*p == '.', "a tag of the man page is not bold: %.40s", p);
		p += strcspn(p, " ");
		p += strspn(p, " \"");
		len = strcspn(p, "=*\" \n");
		cr_assert(len > 0 && len < sizeof(name));
		memcpy(name, p, len);
		name[len] = '\0';
		n++;
		fn(name, p, arg);
	}
	*to = '.';
	return n;
}

struct find {
	const char *name;
	const char *entry;
};

static void find_name(const char *name, const char *entry, void *arg)
{
	struct find *f = arg;

	if (strcmp(name, f->name) == 0)
		f->entry = entry;
}

static void check_name(const char *name, const char *entry, void *arg)
{
	struct row info;
	bool found = false;

	for (size_t i = 0; !found && options_info(i, &info); i++)
		found = strcmp(info.name, name) == 0 && info.kind != REFUSE;
	cr_assert(found, "the man page has an option %s that does not exist", name);
}

Test(man_page, has_every_option_with_its_range)
{
	char *man = man_page(), number[16];
	struct row info;

	for (size_t i = 0; options_info(i, &info); i++) {
		struct find f = { .name = info.name };
		const char *end;

		if (info.kind == REFUSE)
			continue;
		man_options(man, find_name, &f);
		cr_assert(f.entry, "the man page lacks option %s", info.name);
		if (info.kind != UINT)
			continue;
		/* To the next entry that is not another name of this one. */
		end = strstr(f.entry, "\n.TP");
		cr_assert(end);
		snprintf(number, sizeof(number), "%u", info.max);
		cr_assert(memmem(f.entry, (size_t)(end - f.entry), number, strlen(number)),
			  "the man page does not say that %s is at most %u", info.name, info.max);
		if (!info.def_text) {
			snprintf(number, sizeof(number), "%u", info.def);
			cr_assert(memmem(f.entry, (size_t)(end - f.entry), number, strlen(number)),
				  "the man page does not say that the default of %s is %u",
				  info.name, info.def);
		}
	}
	free(man);
}

Test(man_page, has_no_option_that_does_not_exist)
{
	char *man = man_page();

	cr_assert_gt(man_options(man, check_name, NULL), 40);
	free(man);
}

Test(man_page, has_the_groups_of_the_table)
{
	char *man = man_page(), want[64];
	struct row info;

	for (size_t i = 0; options_info(i, &info); i++) {
		snprintf(want, sizeof(want), "\n.SS \"%s\"\n", info.group);
		cr_assert(strstr(man, want), "the man page lacks the heading \"%s\"", info.group);
	}
	free(man);
}
