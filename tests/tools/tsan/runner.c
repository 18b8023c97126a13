/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * main() of the test programs in the ThreadSanitizer build; see
 * criterion/criterion.h beside this file. Takes --tap=FILE as Criterion does.
 */
#include "criterion/criterion.h"
#include "criterion/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEST_SECONDS = 120, EXIT_FAILED = 101, EXIT_SKIPPED = 102 };

static struct tsan_test *tests;         /* newest first */
static int failures;                    /* of the running test */

void tsan_register(struct tsan_test *t)
{
	t->next = tests;
	tests = t;
}

void tsan_failed(const char *file, int line, const char *what, const char *fmt, ...)
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

void tsan_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(NULL);
	_exit(EXIT_SKIPPED);
}

/* exit(), not _exit(): ThreadSanitizer has its say at the end. */
void tsan_end(void)
{
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

static const struct tsan_opts *suite_opts(const char *suite)
{
	static const struct tsan_opts none;

	for (const struct tsan_test *t = tests; t; t = t->next)
		if (!t->fn && strcmp(t->suite, suite) == 0)
			return &t->opts;
	return &none;
}

static void __attribute__((noreturn)) run(const struct tsan_test *t, const struct tsan_opts *suite)
{
	double timeout = t->opts.timeout > 0 ? t->opts.timeout : suite->timeout;

	/* ThreadSanitizer makes everything about ten times slower. */
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
	tsan_end();
}

static void report(FILE *tap, const struct tsan_test *t, int wstatus)
{
	int sig = WIFSIGNALED(wstatus) ? WTERMSIG(wstatus) : 0;
	int code = WIFEXITED(wstatus) ? WEXITSTATUS(wstatus) : 0;
	bool ok = sig == t->opts.signal && code == t->opts.exit_code;

	if (code == EXIT_SKIPPED)
		fprintf(tap, "ok - %s::%s # SKIP not with ThreadSanitizer, or not here\n", t->suite, t->name);
	else if (sig && !ok)
		fprintf(tap, "not ok - %s::%s: signal %d\n", t->suite, t->name, sig);
	else
		fprintf(tap, "%s - %s::%s\n", ok ? "ok" : "not ok", t->suite, t->name);
	if (!ok && code != EXIT_SKIPPED)
		fprintf(stderr, "FAILED: %s::%s (status %d, signal %d)\n", t->suite, t->name, code, sig);
}

int main(int argc, char **argv)
{
	FILE *tap = stdout;
	unsigned n = 0;

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--tap=", 6) == 0)
			tap = fopen(argv[i] + 6, "we");
	if (!tap)
		return 2;
	for (const struct tsan_test *t = tests; t; t = t->next)
		n += t->fn && !t->opts.disabled;
	fprintf(tap, "1..%u\n", n);
	for (const struct tsan_test *t = tests; t; t = t->next) {
		int wstatus;
		pid_t pid;

		if (!t->fn || t->opts.disabled)
			continue;
		fflush(NULL);
		pid = fork();
		if (pid == 0)
			run(t, suite_opts(t->suite));
		if (pid < 0)
			return 2;
		while (waitpid(pid, &wstatus, 0) < 0)
			if (errno != EINTR)
				return 2;
		report(tap, t, wstatus);
	}
	return 0;
}
