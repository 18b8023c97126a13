/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * main() of the test programs in builds with sanitizers; see criterion/criterion.h beside this
 * file. Takes --tap=FILE, and --filter SUITE/NAME, as Criterion does.
 *
 * A test that makes no thread has nothing that ThreadSanitizer could find. So one build says which
 * do, and another one runs those alone:
 *
 *   STANDIN_NOTES=FOLDER     tests that have made a thread are written to FOLDER/PROGRAM, a line each
 *   STANDIN_NOTED=FOLDER     only the tests that are named there are run
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "criterion/criterion.h"
#include "criterion/redirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEST_SECONDS = 120, EXIT_FAILED = 101, EXIT_SKIPPED = 102 };

static struct standin_test *tests;         /* newest first */
static int failures;                    /* of the running test */
/* Of the running test, in memory that its process and those that it forks have as well. */
static struct {
	bool was_ended;                 /* it came to its end */
	_Atomic bool made_thread;
} *seen;

/* Instead of the C library's and the sanitizer's, which does the work. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	if (seen)
		seen->made_thread = true;
	return next(thread, attr, fn, arg);
}

void standin_register(struct standin_test *t)
{
	t->next = tests;
	tests = t;
}

void standin_failed(const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list ap;

	failures++;
	fprintf(stderr, "%s:%d: failed: %s", file, line, what);
	if (fmt) {
		fputs(": ", stderr);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
	}
	fputc('\n', stderr);
}

void standin_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(NULL);
	_exit(EXIT_SKIPPED);
}

/* exit(), not _exit(): sanitizers have their say at the end. */
void standin_end(void)
{
	seen->was_ended = true;
	exit(failures ? EXIT_FAILED : 0);
}

static int redirected[3] = { -1, -1, -1 };

static void redirect(int fd)
{
	redirected[fd] = memfd_create("redirected", MFD_CLOEXEC);
	if (redirected[fd] < 0 || dup2(redirected[fd], fd) < 0)
		abort();
}

/* A description of its own, which reads from the beginning. */
static FILE *reader(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", redirected[fd]);
	return fopen(path, "re");
}

void cr_redirect_stderr(void) { redirect(STDERR_FILENO); }
void cr_redirect_stdout(void) { redirect(STDOUT_FILENO); }
FILE *cr_get_redirected_stderr(void) { return reader(STDERR_FILENO); }
FILE *cr_get_redirected_stdout(void) { return reader(STDOUT_FILENO); }

static const struct standin_opts *suite_opts(const char *suite)
{
	static const struct standin_opts none;

	for (const struct standin_test *t = tests; t; t = t->next)
		if (!t->fn && strcmp(t->suite, suite) == 0)
			return &t->opts;
	return &none;
}

static void __attribute__((noreturn)) run(const struct standin_test *t, const struct standin_opts *suite)
{
	double timeout = t->opts.timeout > 0 ? t->opts.timeout : suite->timeout;

	/* Sanitizers make everything up to ten times slower. */
	alarm(timeout > 0 ? (unsigned)timeout * 10 : TEST_SECONDS);
	if (suite->init)
		suite->init();
	if (t->opts.init)
		t->opts.init();
	t->fn();
	if (t->opts.fini)
		t->opts.fini();
	if (suite->fini)
		suite->fini();
	standin_end();
}

static void report(FILE *tap, const struct standin_test *t, int wstatus)
{
	int sig = WIFSIGNALED(wstatus) ? WTERMSIG(wstatus) : 0;
	int code = WIFEXITED(wstatus) ? WEXITSTATUS(wstatus) : 0;
	bool ok = sig == t->opts.signal && code == t->opts.exit_code &&
		(seen->was_ended || t->opts.signal || t->opts.exit_code);

	if (code == EXIT_SKIPPED)
		fprintf(tap, "ok - %s::%s # SKIP not with sanitizers, or not here\n", t->suite, t->name);
	else if (sig && !ok)
		fprintf(tap, "not ok - %s::%s: signal %d\n", t->suite, t->name, sig);
	else
		fprintf(tap, "%s - %s::%s\n", ok ? "ok" : "not ok", t->suite, t->name);
	if (!ok && code != EXIT_SKIPPED)
		fprintf(stderr, "FAILED: %s::%s (status %d, signal %d)\n", t->suite, t->name, code, sig);
}

/* What the variable has, as a file of that folder for this program; or NULL. */
static FILE *notes(const char *variable, const char *mode)
{
	const char *folder = getenv(variable);
	char path[4096];

	if (!folder)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", folder, program_invocation_short_name);
	return fopen(path, mode);
}

static bool is_noted(const char *name)
{
	FILE *f = notes("STANDIN_NOTED", "re");
	char line[256];
	bool found = !getenv("STANDIN_NOTED");

	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		found = strcmp(line, name) == 0;
	}
	if (f)
		fclose(f);
	return found;
}

static bool is_wanted(const struct standin_test *t, const char *filter)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", t->suite, t->name);
	return t->fn && !t->opts.disabled && fnmatch(filter, name, 0) == 0 && is_noted(name);
}

int main(int argc, char **argv)
{
	const char *filter = "*";
	FILE *tap = stdout;
	FILE *threads = notes("STANDIN_NOTES", "we");
	unsigned n = 0;

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--tap=", 6) == 0)
			tap = fopen(argv[i] + 6, "we");
		else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
			filter = argv[++i];
	}
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!tap || seen == MAP_FAILED)
		return 2;
	for (const struct standin_test *t = tests; t; t = t->next)
		n += is_wanted(t, filter);
	fprintf(tap, "1..%u\n", n);
	for (const struct standin_test *t = tests; t; t = t->next) {
		int wstatus;
		pid_t pid;

		if (!is_wanted(t, filter))
			continue;
		fflush(NULL);
		seen->was_ended = seen->made_thread = false;
		pid = fork();
		if (pid == 0)
			run(t, suite_opts(t->suite));
		if (pid < 0)
			return 2;
		while (waitpid(pid, &wstatus, 0) < 0)
			if (errno != EINTR)
				return 2;
		report(tap, t, wstatus);
		if (threads && seen->made_thread)
			fprintf(threads, "%s/%s\n", t->suite, t->name);
	}
	return 0;
}
