/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The report: everything that is to be known of an error, in one file that may be shown to others. All
 * of it goes through hide_put(): names of hosts and users, addresses and paths leave as placeholders. So
 * nothing is written but by report_line(), and names of devices. The file is the user's alone until he hands it on.
 */
#include "doctor/doctor_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libmount.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "ctl/client.h"
#include "ctl/ctl.h"

#include "config.h"

struct report {
	struct doctor *d;
	FILE *f;
};

static void report_line(const struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void report_line(const struct report *r, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	hide_put(&r->d->hide, r->f, text);
	fputc('\n', r->f);
	free(text);
}

/* ---- what is nobody's business ---- */

static void hide_host(struct hide *h)
{
	char name[256] = "", *dot;

	gethostname(name, sizeof(name) - 1);
	if (strcmp(name, "localhost") == 0)
		return;
	hide_add(h, HIDE_CLIENT, name);
	dot = strchr(name, '.');
	if (dot)
		*dot = '\0';
	hide_add(h, HIDE_CLIENT, name);
}

static void hide_user(struct hide *h, uid_t uid)
{
	const struct passwd *pw = uid ? getpwuid(uid) : NULL;

	if (!pw)
		return;
	hide_add(h, HIDE_USER, pw->pw_name);
	hide_add_path(h, pw->pw_dir);
}

/* Other lines may have it, too: as a whole, or what is between the '~' of several addresses. */
static void hide_option(void *to, const char *name, const char *value, bool is_free)
{
	struct hide *h = to;
	size_t len;

	if (!is_free || !value)
		return;
	if (strchr(value, '/')) {
		hide_add_path(h, value);
		return;
	}
	for (; *value; value += len + (value[len] == '~')) {
		char *piece;

		len = strcspn(value, "~");
		piece = strndup(value, len);
		/* A number is nobody's name, and may be any other line's. */
		if (piece && piece[strspn(piece, "0123456789")])
			hide_add(h, HIDE_NAME, piece);
		free(piece);
	}
}

static void report_hides(struct doctor *d)
{
	const struct doctor_config *cfg = d->cfg;
	struct hide *h = &d->hide;
	const char *dot = cfg->server ? strchr(cfg->server, '.') : NULL;

	hide_add(h, HIDE_SERVER, cfg->server);
	/* "srv" of srv.example.org; not the "10" of an address. */
	if (dot && (cfg->server[0] < '0' || cfg->server[0] > '9')) {
		char *first = strndup(cfg->server, (size_t)(dot - cfg->server));

		hide_add(h, HIDE_SERVER, first);
		hide_add(h, HIDE_NAME, dot + 1);
		free(first);
	}
	hide_add_path(h, cfg->export);
	cfg->options(cfg->arg, hide_option, h);
	hide_host(h);
	hide_user(h, cfg->uid);
	hide_user(h, getuid());
}

/* ---- sections ---- */

static void report_file(const struct report *r, const char *title, const char *name)
{
	char line[256];

	if (doctor_line(r->d, line, sizeof(line), "%s", name))
		report_line(r, "%s: %s", title, line);
}

/* PRETTY_NAME="Debian GNU/Linux 13 (trixie)" */
static void report_distribution(const struct report *r)
{
	char path[DOCTOR_PATH_MAX], line[256];
	FILE *f = fopen(doctor_path(r->d, path, "/etc/os-release"), "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "PRETTY_NAME=", 12) == 0)
			report_line(r, "distribution: %.*s", (int)strcspn(line + 12, "\n"), line + 12);
	if (f)
		fclose(f);
}

/* The files' names have the versions: libibverbs.so.1.14.50.0. */
static void report_libraries(const struct report *r)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], last[128] = "", *slash;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		slash = strrchr(line, '/');
		if (!slash || !strstr(slash, ".so") || strcmp(slash, last) == 0)
			continue;
		snprintf(last, sizeof(last), "%s", slash);
		report_line(r, "library: %s", slash + 1);
	}
	if (f)
		fclose(f);
}

static void report_limit(const struct report *r, const char *name, int which)
{
	struct rlimit l;

	if (getrlimit((__rlimit_resource_t)which, &l) == 0)
		report_line(r, "%s: %jd, hard %jd", name, (intmax_t)l.rlim_cur, (intmax_t)l.rlim_max);
}

static void report_machine(const struct report *r)
{
	struct utsname u;

	report_line(r, "== program and machine");
	report_line(r, "program: %s", r->d->cfg->program);
	report_line(r, "libfuse: %s", r->d->cfg->libfuse);
	if (uname(&u) == 0)
		report_line(r, "kernel: %s %s %s", u.sysname, u.release, u.machine);
	report_distribution(r);
	report_line(r, "processors: %ld", sysconf(_SC_NPROCESSORS_ONLN));
	report_file(r, "memory", "/proc/meminfo");
	report_limit(r, "RLIMIT_MEMLOCK (-1: none)", RLIMIT_MEMLOCK);
	report_limit(r, "RLIMIT_NOFILE", RLIMIT_NOFILE);
	report_line(r, "root: %s", r->d->cfg->uid ? "no" : "yes");
	report_file(r, "fs.fuse.max_pages_limit", "/proc/sys/fs/fuse/max_pages_limit");
	doctor_devices_put(r->d, r->f);
	report_libraries(r);
}

/* What may be anything leaves by no other way than as what it was noted as. */
static void report_option(void *to, const char *name, const char *value, bool is_free)
{
	const struct report *r = to;

	fprintf(r->f, "    %s%s", name ? name : "", name && value ? "=" : "");
	if (is_free && value)
		hide_put_whole(&r->d->hide, r->f, value);
	else if (value)
		fputs(value, r->f);
	fputc('\n', r->f);
}

static void report_findings(const struct report *r)
{
	char text[NFS_CHOSEN_TEXT];

	report_line(r, "== options");
	report_line(r, "source: %s", r->d->cfg->source ? r->d->cfg->source : "none");
	report_line(r, "options:");
	if (r->d->cfg->options(r->d->cfg->arg, report_option, (void *)r))
		report_line(r, "(out of memory)");
	report_line(r, "== findings");
	for (unsigned i = 0; i < r->d->n; i++) {
		const struct doctor_finding *f = &r->d->finding[i];

		report_line(r, "%s: %s: %s", doctor_mark(f), f->about, f->what);
	}
	if (r->d->has_chosen)
		report_line(r, "chosen: %s", nfs_chosen_text(&r->d->chosen, text));
	report_line(r, "== log");
	report_line(r, "%s", r->d->log ? r->d->log : "");
}

/* ---- a mount of that export, which runs ---- */

static void report_reply(const struct report *r, const struct ctl_peer *p, const char *command)
{
	struct json_object *request = json_object_new_object(), *reply = NULL;
	struct errbuf eb = { "" };

	json_object_object_add(request, "command", json_object_new_string(command));
	if (ctl_ask(p, request, &reply, &eb) == CTL_OK)
		report_line(r, "%s: %s", command, json_object_to_json_string_ext(reply, JSON_C_TO_STRING_PRETTY |
										  JSON_C_TO_STRING_NOSLASHESCAPE));
	else
		report_line(r, "%s: %s", command, eb.text);
	json_object_put(request);
	json_object_put(reply);
}

static void report_mount(const struct report *r, const char *mountpoint)
{
	struct errbuf eb = { "" };
	struct ctl_peer p;

	hide_add_path(&r->d->hide, mountpoint);
	report_line(r, "== a mount that runs: %s", mountpoint);
	if (ctl_peer_find(&p, mountpoint, &eb) == CTL_OK) {
		report_reply(r, &p, "info");
		/* The paths are in it. */
		report_reply(r, &p, "stats");
	} else {
		report_line(r, "%s", eb.text);
	}
	ctl_peer_free(&p);
}

static void report_mounts(const struct report *r)
{
	struct libmnt_table *table = r->d->cfg->source ? mnt_new_table_from_file("/proc/self/mountinfo") : NULL;
	struct libmnt_iter *i = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;

	while (table && i && mnt_table_next_fs(table, i, &fs) == 0) {
		const char *source = mnt_fs_get_source(fs);

		if (mnt_fs_match_fstype(fs, "fuse." PACKAGE_NAME) && source && strcmp(source, r->d->cfg->source) == 0)
			report_mount(r, mnt_fs_get_target(fs));
	}
	mnt_free_iter(i);
	mnt_unref_table(table);
}

/* In place of a file of this user's, whose mode, and who has it open, does not matter then. Nothing is written through
 * a link. A descriptor, or -1. */
static int report_open(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0) {
		errno = S_ISLNK(st.st_mode) ? ELOOP : S_ISDIR(st.st_mode) ? EISDIR : !S_ISREG(st.st_mode) ? EEXIST :
			st.st_uid != geteuid() ? EPERM : 0;
		if (errno || unlink(path) < 0)
			return -1;
	}
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int doctor_report(struct doctor *d)
{
	int fd = report_open(d->cfg->report), err;
	struct report r = { d, fd < 0 ? NULL : fdopen(fd, "w") };

	if (!r.f) {
		err = errno;
		if (fd >= 0)
			close(fd);
		return -err;
	}
	report_hides(d);
	report_machine(&r);
	report_findings(&r);
	report_mounts(&r);
	if (d->hide.full)
		report_line(&r, "== too many names: some addresses are \"address-?\"");
	err = ferror(r.f) ? EIO : 0;
	if (fclose(r.f))
		err = errno;
	return -err;
}
