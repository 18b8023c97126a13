/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The findings, their order, and how they are printed. */
#include "doctor/doctor_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the log says meanwhile ---- */

static pthread_mutex_t log_mu = PTHREAD_MUTEX_INITIALIZER;
static char *log_text;
static size_t log_len;

#define LOG_MOST 65536u

/* The threads of a client log as well. */
static void doctor_log(enum log_level level, const char *text)
{
	size_t len = strlen(text);
	char *more;

	pthread_mutex_lock(&log_mu);
	more = log_len + len + 2 < LOG_MOST ? realloc(log_text, log_len + len + 2) : NULL;
	if (more) {
		snprintf(more + log_len, len + 2, "%s\n", text);
		log_text = more;
		log_len += len + 1;
	}
	pthread_mutex_unlock(&log_mu);
}

/* ---- findings ---- */

const char *doctor_mark(const struct doctor_finding *n)
{
	static const char *const marks[] = { "good", "costs something", "in the way" };

	return marks[n->mark];
}

/* At once, because a server that is silent takes its time. */
static void doctor_print(FILE *f, const struct doctor_finding *n)
{
	fprintf(f, "%s: %s: %s\n", doctor_mark(n), n->about, n->what);
	if (n->remedy[0])
		fprintf(f, "    remedy: %s\n", n->remedy);
	fflush(f);
}

void doctor_note(struct doctor *d, int mark, const char *about, const char *remedy, const char *fmt, ...)
{
	struct doctor_finding *f = &d->finding[d->n];
	va_list ap;

	if (d->n == DOCTOR_FINDINGS_MAX)
		return;
	d->n++;
	f->mark = mark;
	f->about = about;
	va_start(ap, fmt);
	vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
	/* A server's words may be in it. */
	for (char *c = f->what; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	snprintf(f->remedy, sizeof(f->remedy), "%s", remedy);
	if (d->out)
		doctor_print(d->out, f);
}

const char *doctor_path(const struct doctor *d, char out[DOCTOR_PATH_MAX], const char *fmt, ...)
{
	int n = snprintf(out, DOCTOR_PATH_MAX, "%s", d->cfg->root);
	va_list ap;

	if (n < 0 || n >= (int)DOCTOR_PATH_MAX)
		n = 0;
	va_start(ap, fmt);
	vsnprintf(out + n, DOCTOR_PATH_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return out;
}

bool doctor_line(const struct doctor *d, char *out, size_t cap, const char *fmt, ...)
{
	char name[DOCTOR_PATH_MAX], path[DOCTOR_PATH_MAX];
	va_list ap;
	FILE *f;
	bool ok;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	f = fopen(doctor_path(d, path, "%s", name), "re");
	ok = f && fgets(out, (int)cap, f);
	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = '\0';
	else
		out[0] = '\0';
	return ok;
}

/* ---- what is printed ---- */

static int doctor_worst(const struct doctor *d)
{
	int worst = DOCTOR_GOOD;

	for (unsigned i = 0; i < d->n; i++)
		if (d->finding[i].mark > worst)
			worst = d->finding[i].mark;
	return worst;
}

static void doctor_conclude(const struct doctor *d)
{
	static const char *const last[] = {
		"Nothing is in the way of a good mount.",
		"A mount is possible. It would be better without what costs something.",
		"A mount is not possible, or not as wanted, before what is in the way is mended.",
	};

	puts(last[doctor_worst(d)]);
}

int doctor_run(const struct doctor_config *cfg)
{
	struct doctor *d = calloc(1, sizeof(*d));
	int status, rc = 0;

	if (!d) {
		log_err("doctor: out of memory");
		return DOCTOR_FAILED;
	}
	d->cfg = cfg;
	d->out = stdout;
	log_to(doctor_log);
	doctor_fuse(d);
	doctor_kernel(d);
	doctor_devices(d);
	if (cfg->source)
		doctor_server(d);
	doctor_memory(d);
	log_to(NULL);
	d->log = log_text;
	doctor_conclude(d);
	status = doctor_worst(d);
	if (cfg->report)
		rc = doctor_report(d);
	if (rc) {
		log_err("doctor: cannot write the report '%s': %s", cfg->report, strerror(-rc));
		status = DOCTOR_FAILED;
	} else if (cfg->report) {
		printf("The report is in '%s'. Names and addresses are replaced in it; look at it before you "
		       "send it.\n", cfg->report);
	}
	hide_free(&d->hide);
	free(log_text);
	log_text = NULL;
	log_len = 0;
	free(d);
	return status;
}
