/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the doctor finds on machines that are made up, below a directory, and what is in its report. The
 * plan of a mount is played. The server is the suite's (case doctor).
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/doctor_impl.h"
#include "options_impl.h"

static char root[] = "/tmp/doctor.XXXXXX";
static struct doctor_config cfg;
static struct doctor doctor;

/* ---- what is played ---- */

static struct play {
	size_t limit, wanted;
	unsigned lanes;
	int rc;
	const char *why;
	void (*log)(void);
	const char *options;            /* NULL: none */
} play;

static int play_options(const void *arg, doctor_option_fn *fn, void *to)
{
	return options_each(play.options ? play.options : "", fn, to);
}

static int play_plan(struct nfs_config *out, enum doctor_plan how, const void *arg, struct errbuf *eb)
{
	*out = (struct nfs_config){ .locks_limit = play.limit, .locks_wanted = play.wanted, .lanes = play.lanes };
	if (play.log)
		play.log();
	return play.rc ? err_set(eb, play.rc, "%s", play.why) : 0;
}

/* Makes the directories above, too. */
static void put(const char *name, const char *text, mode_t mode)
{
	char path[DOCTOR_PATH_MAX];
	FILE *f;

	doctor_path(&doctor, path, "%s", name);
	for (char *c = path + sizeof(root); (c = strchr(c, '/')); c++) {
		*c = '\0';
		mkdir(path, 0755);
		*c = '/';
	}
	f = fopen(path, "w");
	cr_assert(f, "%s: %s", path, strerror(errno));
	fputs(text, f);
	fclose(f);
	chmod(path, mode);
}

static void take(const char *name)
{
	char path[DOCTOR_PATH_MAX];

	cr_assert_eq(unlink(doctor_path(&doctor, path, "%s", name)), 0);
}

static void put_device(const char *name, const char *state)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/state", name);
	put(path, state, 0644);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/link_layer", name);
	put(path, "Ethernet\n", 0644);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/rate", name);
	put(path, "100 Gb/sec (4X EDR)\n", 0644);
}

/* An ordinary user's, with an adapter and no limits. */
static void begin(void)
{
	cr_assert(mkdtemp(root));
	setenv("PATH", "/usr/sbin:/usr/bin", 1);
	cfg = (struct doctor_config){
		.root = root, .uid = 1000, .program = "nfsrdma-fuse 1", .libfuse = "3", .options = play_options, .lanes = 2,
		.port = 20049, .plan = play_plan, .fabric = NFS_PLAN_AUTO,
	};
	play = (struct play){ .limit = SIZE_MAX, .wanted = 40 << 20, .lanes = 2 };
	doctor = (struct doctor){ .cfg = &cfg };
	put("/dev/fuse", "", 0666);
	put("/usr/bin/fusermount3", "", 04755);
	put("/etc/fuse.conf", "# mount_max = 1000\n#user_allow_other\n", 0644);
	put("/proc/sys/kernel/osrelease", "6.12.1-amd64\n", 0644);
	put("/proc/sys/fs/fuse/max_pages_limit", "256\n", 0644);
	put("/dev/infiniband/rdma_cm", "", 0666);
	put("/dev/infiniband/uverbs3", "", 0666);
	put("/sys/class/infiniband_verbs/abi_version", "6\n", 0644);
	put("/sys/class/infiniband_verbs/uverbs3/ibdev", "mlx5_0\n", 0644);
	put("/sys/module/rdma_ucm/refcnt", "1\n", 0644);
	put_device("mlx5_0", "4: ACTIVE\n");
}

static void end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "exec /bin/rm -rf %s", root);
	cr_expect_eq(system(command), 0);
}

TestSuite(doctor, .init = begin, .fini = end, .timeout = 60);

static void look(void)
{
	hide_free(&doctor.hide);
	doctor = (struct doctor){ .cfg = &cfg };
	doctor_fuse(&doctor);
	doctor_kernel(&doctor);
	doctor_devices(&doctor);
	doctor_memory(&doctor);
}

/* Of that name, with these words; it has a remedy unless it is good. */
static void expect(int mark, const char *about, const char *words)
{
	for (unsigned i = 0; i < doctor.n; i++) {
		const struct doctor_finding *f = &doctor.finding[i];

		if (strcmp(f->about, about) != 0 || f->mark != mark || !strstr(f->what, words))
			continue;
		cr_expect(f->mark == DOCTOR_GOOD || f->remedy[0], "%s has no remedy", about);
		cr_expect_null(strstr(f->what, root), "%s: %s", about, f->what);
		return;
	}
	for (unsigned i = 0; i < doctor.n; i++)
		fprintf(stderr, "# %d %s: %s\n", doctor.finding[i].mark, doctor.finding[i].about, doctor.finding[i].what);
	cr_expect(false, "there is no finding %d of '%s' with '%s'", mark, about, words);
}

static unsigned count(int mark)
{
	unsigned n = 0;

	for (unsigned i = 0; i < doctor.n; i++)
		n += doctor.finding[i].mark == mark;
	return n;
}

/* ---- this machine ---- */

Test(doctor, good_machine)
{
	/* Only root can make a program that is set-user-ID root. The lanes are this machine's affair. */
	unsigned bad = geteuid() ? 1 : 0;

	cfg.lanes = NFS_LANES_MAX;
	look();
	expect(DOCTOR_GOOD, "/dev/fuse", "may be opened");
	expect(DOCTOR_GOOD, "RDMA device", "mlx5_0 port 1 is ACTIVE (Ethernet, 100 Gb/sec (4X EDR))");
	expect(DOCTOR_GOOD, "kernel", "6.12.1-amd64");
	expect(DOCTOR_GOOD, "FUSE requests", "1 MiB");
	expect(DOCTOR_GOOD, "locked memory", "no limit, and the mount locks up to 40961 KiB");
	cr_expect_eq(count(DOCTOR_IN_THE_WAY), bad);
	cr_expect_eq(count(DOCTOR_COSTS), 0);
}

Test(doctor, no_device)
{
	take("/sys/class/infiniband/mlx5_0/ports/1/state");
	take("/sys/class/infiniband/mlx5_0/ports/1/link_layer");
	take("/sys/class/infiniband/mlx5_0/ports/1/rate");
	for (const char *const *dir = (const char *const[]){ "/mlx5_0/ports/1", "/mlx5_0/ports", "/mlx5_0", NULL }; *dir;
	     dir++) {
		char path[DOCTOR_PATH_MAX];

		cr_assert_eq(rmdir(doctor_path(&doctor, path, "/sys/class/infiniband%s", *dir)), 0);
	}
	look();
	expect(DOCTOR_COSTS, "RDMA device", "iWARP in user space");
	expect(DOCTOR_GOOD, "locked memory", "iWARP in user space locks none");
	cfg.fabric = NFS_PLAN_VERBS;
	look();
	expect(DOCTOR_IN_THE_WAY, "RDMA device", "fabric=verbs needs one");
	expect(DOCTOR_GOOD, "locked memory", "the mount locks up to");
	cfg.fabric = NFS_PLAN_IWARP;
	look();
	expect(DOCTOR_GOOD, "RDMA device", "needs none");
}

Test(doctor, devices)
{
	put_device("rxe0", "1: DOWN\n");
	put("/sys/module/rdma_rxe/refcnt", "1\n", 0644);
	look();
	expect(DOCTOR_COSTS, "RDMA device", "rxe0 port 1 is DOWN");
	expect(DOCTOR_GOOD, "RDMA device", "mlx5_0 port 1 is ACTIVE");
	expect(DOCTOR_GOOD, "RDMA driver", "rdma_rxe");
	take("/dev/infiniband/rdma_cm");
	look();
	expect(DOCTOR_COSTS, "RDMA for programs", "/dev/infiniband/rdma_cm cannot be opened: No such file or directory");
	cfg.fabric = NFS_PLAN_VERBS;
	take("/dev/infiniband/uverbs3");
	look();
	expect(DOCTOR_IN_THE_WAY, "RDMA for programs", "uverbs3 cannot be opened: No such file or directory (the kernel's "
	       "module is not loaded)");
}

Test(doctor, locked_memory)
{
	play = (struct play){ .limit = 64 << 10, .wanted = 40 << 20, .rc = -ENOMEM, .why = "64 KiB are not enough" };
	look();
	expect(DOCTOR_IN_THE_WAY, "locked memory", "64 KiB are not enough");
	cr_expect(strstr(doctor.finding[doctor.n - 1].remedy, "'ulimit -l 40961'"), "%s",
		  doctor.finding[doctor.n - 1].remedy);
	play = (struct play){ .limit = 8 << 20, .wanted = 40 << 20, .lanes = 1 };
	look();
	expect(DOCTOR_COSTS, "locked memory", "a limit of 8192 KiB (RLIMIT_MEMLOCK), and a good mount locks 40961 KiB: "
	       "there will be 1 of 2 connections");
	play.limit = 64 << 20;
	look();
	expect(DOCTOR_GOOD, "locked memory", "a limit of 65536 KiB, and the mount locks up to 40961 KiB");
}

Test(doctor, fuse)
{
	take("/dev/fuse");
	look();
	expect(DOCTOR_IN_THE_WAY, "/dev/fuse", "this machine has none (No such file or directory)");
	put("/usr/bin/fusermount3", "", 0755);
	look();
	expect(DOCTOR_IN_THE_WAY, "fusermount3", "'/usr/bin/fusermount3' is not set-user-ID root");
	take("/usr/bin/fusermount3");
	look();
	expect(DOCTOR_IN_THE_WAY, "fusermount3", "not in PATH");
	cfg.shared = true;
	look();
	expect(DOCTOR_IN_THE_WAY, "allow_other", "/etc/fuse.conf does not let users");
	put("/etc/fuse.conf", "# x\n  user_allow_other \n", 0644);
	look();
	expect(DOCTOR_GOOD, "allow_other", "has user_allow_other");
	cfg.uid = 0;
	look();
	expect(DOCTOR_GOOD, "fusermount3", "root mounts without it");
}

Test(doctor, kernel)
{
	put("/proc/sys/kernel/osrelease", "5.10.0-30-amd64\n", 0644);
	put("/proc/sys/fs/fuse/max_pages_limit", "32\n", 0644);
	cfg.lanes = 0;
	look();
	expect(DOCTOR_COSTS, "kernel", "extended attributes need Linux 5.11");
	expect(DOCTOR_COSTS, "FUSE requests", "fs.fuse.max_pages_limit is 32");
	expect(DOCTOR_COSTS, "processors", "want 0 connections");
	put("/proc/sys/kernel/osrelease", "6.1.0-13-amd64\n", 0644);
	look();
	expect(DOCTOR_GOOD, "kernel", "from Linux 6.6 on");
}

/* ---- the server's addresses ---- */

/* 10.0.0.<last> each: what the resolver says of fileserver, of which the mount uses one. */
static void look_at_addresses(const struct nfs_version *version, const unsigned *last, unsigned n)
{
	struct nfs_config by = { .version = version, .npaths = 1, .paths[0].params.server.ss_family = AF_INET };
	struct sockaddr_in at[64] = { 0 };
	struct addrinfo all[64] = { 0 };

	for (unsigned i = 0; i < n; i++) {
		at[i] = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + last[i]) };
		all[i] = (struct addrinfo){ .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&at[i],
					    .ai_addrlen = sizeof(at[i]), .ai_next = i + 1 < n ? &all[i + 1] : NULL };
	}
	cfg.server = "fileserver";
	doctor.n = 0;
	doctor_addresses(&doctor, &by, all);
	cr_assert_eq(doctor.n, 1);
}

/* That of iWARP in user space. No packet is sent: the interface is this machine's, and the kernel's files are played. */
Test(doctor, link)
{
	struct sockaddr_storage server = { 0 };

	*(struct sockaddr_in *)&server = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(20049),
							       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	doctor_link(&doctor, &server);
	cr_assert_eq(doctor.n, 0, "the kernel does not say how it is");
	put("/sys/class/net/lo/mtu", "1500\n", 0644);
	put("/sys/class/net/lo/speed", "-1\n", 0644);
	doctor_link(&doctor, &server);
	expect(DOCTOR_GOOD, "link", "127.0.0.1 port 20049 is reached by the interface lo (MTU 1500); with an MTU of 9000");
	put("/sys/class/net/lo/mtu", "1280\n", 0644);
	put("/sys/class/net/lo/speed", "100\n", 0644);
	doctor_link(&doctor, &server);
	expect(DOCTOR_COSTS, "link", "lo (MTU 1280, 100 Mbit/s): small frames");
	put("/sys/class/net/lo/mtu", "65536\n", 0644);
	doctor.n = 0;
	doctor_link(&doctor, &server);
	expect(DOCTOR_GOOD, "link", "lo (MTU 65536, 100 Mbit/s)");
	cr_assert_null(strstr(doctor.finding[0].what, "9000"));
}

Test(doctor, one_address_begins_like_another)
{
	const unsigned last[] = { 11, 1, 11, 1 };

	look_at_addresses(&nfs_v41, last, 4);
	expect(DOCTOR_GOOD, "addresses", "'fileserver' has 2: 10.0.0.11, 10.0.0.1");
	look_at_addresses(&nfs_v3, last, 4);
	expect(DOCTOR_COSTS, "addresses", "'fileserver' has 2: 10.0.0.11, 10.0.0.1. With version 3 only the first is used");
}

Test(doctor, many_addresses)
{
	unsigned last[50];
	const char *end;

	/* The first 33 are 388 characters. The last one is short: it would fit, and comes behind one that does not. */
	for (unsigned i = 0; i < 50; i++)
		last[i] = i < 3 ? 1 + i : 101 + i;
	last[49] = 4;
	look_at_addresses(&nfs_v41, last, 50);
	expect(DOCTOR_GOOD, "addresses", "'fileserver' has 50: 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.104, ");
	end = strstr(doctor.finding[0].what, ", 10.0.0.133");
	cr_assert(end, "%s", doctor.finding[0].what);
	cr_expect_str_eq(end, ", 10.0.0.133, ... and 17 more");
	look_at_addresses(&nfs_v3, last, 50);
	expect(DOCTOR_COSTS, "addresses", ", ... and 17 more. With version 3 only the first is used: it cannot tell");
	cr_expect(strstr(doctor.finding[0].what, "they could be paths"));
}

/* ---- the report ---- */

static char *report_text(void)
{
	char path[DOCTOR_PATH_MAX], *text = calloc(1, 1 << 20);
	FILE *f;

	cfg.report = doctor_path(&doctor, path, "/report");
	cr_assert_leq(doctor_run(&cfg), DOCTOR_IN_THE_WAY);
	f = fopen(path, "r");
	cr_assert(f);
	cr_assert_lt(fread(text, 1, (1 << 20) - 1, f), (size_t)(1 << 20) - 1);
	fclose(f);
	return text;
}

static void log_names(void)
{
	log_warn("cannot connect to fileserver.corp.example port 20049 from 192.168.17.5: refused");
	log_warn("FILESERVER at [fd00:17::25%%eth0]:20049, fd00:17::25, and 192.168.17.5:/secret/project");
	log_warn("'/secret/project/plans' and 'plans' of /var/log/counters.jane, jane's alpha.corp.example~192.168.17.6.");
	log_warn("the server's user 'dorothy@hr.example.org' is unknown here, and does 'getent passwd' know the name?");
	log_warn("it is another server (its name is 'nas7 of Acme', that of the mounted one 'dorothy@hr.example.org')");
	log_warn("cannot find an address for 'omega2'; '/srv/acme/x' ... and 'O'Brien's cut off");
	log_warn("from 00:1b:21:aa:bb:cc at 12:30:45, ratio 3.14, version 6.12.1, see a::b");
}

Test(doctor, nothing_of_the_user_is_in_the_report)
{
	static const char *const words[] = {
		"fileserver", "corp", "192.168", "fd00", "secret", "project", "counters.jane", "jane", "alpha",
		"1b:21", "volume9", "dorothy", "example", "nas7", "acme", "omega", "brien",
	};
	const char *const known[] = {
		"library: libibverbs.so", "program: nfsrdma-fuse 1", "in the way: addresses: cannot find",
		"server-1", "path-1", "12:30:45, ratio 3.14, version 6.12.1",
		"    vers=4.1\n", "is unknown here, and does 'getent passwd' know the name?",
		"that of the mounted one 'name-",
	};
	const struct passwd *pw = getpwuid(cfg.uid);
	char host[256] = "", *text;

	cr_redirect_stdout();
	cfg.source = "fileserver.corp.example:/secret/project/plans";
	cfg.server = "fileserver.corp.example";
	cfg.export = "/secret/project/plans";
	play.options = "stats=/var/log/counters.jane,remoteports=alpha.corp.example~192.168.17.6,fsname=volume9,"
		"remoteports=omega2~alpha.corp.example,vers=4.1,fsname=7";
	play.rc = -EHOSTUNREACH;
	play.wanted = 0;
	play.why = "cannot find an address for 'fileserver.corp.example': no such name";
	play.log = log_names;
	text = report_text();
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *at = strcasestr(text, words[i]);

		/* jane is nobody that the program could know, where she is not in a path. */
		if (at && strcmp(words[i], "jane") == 0)
			at = strstr(text, "counters.jane");
		cr_expect(!at, "'%s' is in the report: %.60s", words[i], at ? at : "");
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		cr_expect(strstr(text, known[i]), "'%s' is not in the report", known[i]);
	gethostname(host, sizeof(host) - 1);
	if (strlen(host) > 3)
		cr_expect(!strstr(text, host), "this host's name is in the report");
	if (pw && strlen(pw->pw_name) > 3)
		cr_expect(!strstr(text, pw->pw_name), "the user's name is in the report");
	free(text);
}

/* Each option of the table, and some that are not there, with a value that nobody else may see. */
Test(doctor, no_free_value_of_any_option_is_in_the_report)
{
	char options[16384] = "x-acme.secret,x-systemd.requires=secret,X-secret=1,unheard_secret=/a/secret", value[64], want[96];
	char *text;
	size_t n = strlen(options);
	unsigned kept = 0, hidden = 0;

	cr_redirect_stdout();
	for (size_t i = 0; i < opt_rows; i++) {
		const struct row *r = opt_meaning(&opt_table[i]);

		if (r->kind == CHOICE)
			snprintf(value, sizeof(value), "=%s", r->choices[0].word);
		else if (r->kind == UINT)
			snprintf(value, sizeof(value), "=%u", r->max);
		else
			snprintf(value, sizeof(value), "%s", r->kind == FLAG || r->kind == TRI ? "" : i % 2 ? "=secret" :
				 "=/srv/secret/x~secret\\,secret");
		n += (size_t)snprintf(options + n, sizeof(options) - n, ",%s%s", opt_table[i].name, value);
		cr_assert_lt(n, sizeof(options));
	}
	play.options = options;
	text = report_text();
	cr_expect_null(strstr(text, "secret"), "%.60s", strstr(text, "secret") ? strstr(text, "secret") : "");
	for (size_t i = 0; i < opt_rows; i++) {
		const struct row *r = opt_meaning(&opt_table[i]);
		bool is_free = r->kind == STRING || r->kind == IGNORE || r->kind == REFUSE;

		if (r->kind == CHOICE)
			snprintf(value, sizeof(value), "=%s\n", r->choices[0].word);
		else if (r->kind == UINT)
			snprintf(value, sizeof(value), "=%u\n", r->max);
		else
			snprintf(value, sizeof(value), "%s", is_free ? "=" : "\n");
		snprintf(want, sizeof(want), "\n    %s%s", opt_table[i].name, value);
		cr_expect(strstr(text, want), "'%s' is not in the report", want + 1);
		hidden += is_free;
		kept += !is_free;
	}
	cr_expect(hidden > 30 && kept > 50, "%u are hidden, and %u are not", hidden, kept);
	free(text);
}

Test(doctor, name_without_a_domain_is_not_in_the_report)
{
	char *text;

	cr_redirect_stdout();
	cfg.source = "fileserver:/";
	cfg.server = "fileserver";
	cfg.export = "/";
	play.rc = -EHOSTUNREACH;
	play.wanted = 0;
	play.why = "cannot find an address for 'fileserver'";
	text = report_text();
	cr_expect(!strstr(text, "fileserver"));
	cr_expect(strstr(text, "source: server-1:/\n"));
	cr_expect(strstr(text, "cannot find an address for 'server-1'"));
	free(text);
}

/* What was there before is not read by others, and nothing is written through a link. */
Test(doctor, report_in_a_place_that_is_taken)
{
	char path[DOCTOR_PATH_MAX], other[DOCTOR_PATH_MAX];
	struct stat st;
	int fd;

	doctor.cfg = &cfg;
	cfg.report = doctor_path(&doctor, path, "/report");
	doctor_path(&doctor, other, "/other");
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	cr_assert(fd >= 0 && fchmod(fd, 0644) == 0);
	cr_assert_eq(doctor_report(&doctor), 0);
	/* Who has the old one open does not see the new one. */
	cr_assert(fstat(fd, &st) == 0 && st.st_size == 0);
	close(fd);
	cr_assert(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600 && st.st_size > 0, "%o", st.st_mode);
	cr_assert(rename(path, other) == 0 && symlink(other, path) == 0 && truncate(other, 1) == 0);
	cr_assert_eq(doctor_report(&doctor), -ELOOP);
	cr_assert(stat(other, &st) == 0 && st.st_size == 1);
	cr_assert(unlink(path) == 0 && mkdir(path, 0700) == 0);
	cr_assert_eq(doctor_report(&doctor), -EISDIR);
	rmdir(path);
	unlink(other);
}

Test(doctor, report_that_cannot_be_written)
{
	cr_redirect_stdout();
	cr_redirect_stderr();
	cfg.report = "/proc/none/such";
	cr_expect_eq(doctor_run(&cfg), DOCTOR_FAILED);
}

static void expect_hidden(struct hide *h, const char *text, const char *want)
{
	char *got = NULL;
	size_t len;
	FILE *f = open_memstream(&got, &len);

	hide_put(h, f, text);
	fclose(f);
	cr_expect_str_eq(got, want);
	free(got);
}

Test(doctor_hide, words)
{
	struct hide h = { .n = 0 };

	hide_add(&h, HIDE_SERVER, "srv1");
	hide_add(&h, HIDE_SERVER, "SRV1");
	hide_add(&h, HIDE_SERVER, "srv1.example.org");
	hide_add(&h, HIDE_USER, "bo");
	hide_add(&h, HIDE_USER, "");
	hide_add_path(&h, "/");
	hide_add_path(&h, "/a1/house");
	expect_hidden(&h, "srv1, SRV1.example.org and xsrv1y", "server-1, server-2 and xserver-1y");
	/* A short one stands alone. */
	expect_hidden(&h, "bo, about bo's box", "user-1, about user-1's box");
	expect_hidden(&h, "/a1/house/x, 'house', /a1, a10", "path-1/x, 'path-3', /path-2, a10");
	expect_hidden(&h, "/", "/");
	hide_free(&h);
}

Test(doctor_hide, quoted)
{
	struct hide h = { .n = 0 };

	hide_add(&h, HIDE_SERVER, "srv1");
	hide_add_path(&h, "/export");
	expect_hidden(&h, "'srv1:/export' on '10.0.0.1'", "'server-1:path-1' on 'address-1'");
	expect_hidden(&h, "'bob', 'srv1:/x y', 'bob'; bob's 'O'Brien'", "'name-1', 'name-2', 'name-1'; name-1's 'name-3'");
	expect_hidden(&h, "with 'ulimit -l 64' and the server's, users' limit", "with 'ulimit -l 64' and the server's, users' limit");
	/* What was cut off, to the end of the line. */
	expect_hidden(&h, "a 'long one ... \nb", "a 'name-4\nb");
	expect_hidden(&h, "'' '/'", "'' '/'");
	/* What closes is no beginning, whatever stands before it. */
	expect_hidden(&h, "srv1 cannot mount '/': no such file; 'srv1.': needs 'insecure'; see '/export/': 'bob'",
		      "server-1 cannot mount '/': no such file; 'server-1.': needs 'insecure'; see 'path-1/': 'name-1'");
	hide_free(&h);
}

Test(doctor_hide, addresses)
{
	struct hide h = { .n = 0 };

	expect_hidden(&h, "10.0.0.1 port 1, [fe80::1%eth0]:2, 10.0.0.1:/x, 10.0.0.2.",
		      "address-1 port 1, [address-2%eth0]:2, address-1:/x, address-3.");
	expect_hidden(&h, "10.0.0.1:20049 ::1 :: 1:2:3:4", "address-1:20049 address-4 :: address-5");
	expect_hidden(&h, "6.12.1 12:30:45 good: bad: 3.5 ms, fade", "6.12.1 12:30:45 good: bad: 3.5 ms, fade");
	expect_hidden(&h, "1.2.3.4.5 x1.2.3.4", "1.2.3.4.5 x1.2.3.4");
	hide_free(&h);
}
