/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages: one write each, cut rather than lost, nothing smuggled in. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

static int out;         /* reads what went to standard error */
static int real_stderr;

static void capture(void)
{
	int fd[2];

	cr_assert_eq(pipe(fd), 0);
	out = fd[0];
	cr_assert_eq(fcntl(out, F_SETFL, O_NONBLOCK), 0);
	fcntl(out, F_SETPIPE_SZ, 1 << 20);
	real_stderr = dup(STDERR_FILENO);
	dup2(fd[1], STDERR_FILENO);
	close(fd[1]);
}

static void release(void)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(out);
}

static size_t captured(char *buf, size_t cap)
{
	size_t len = 0;
	ssize_t n;

	while (len < cap - 1 && (n = read(out, buf + len, cap - 1 - len)) > 0)
		len += (size_t)n;
	buf[len] = '\0';
	return len;
}

TestSuite(base_log, .init = capture, .fini = release);

Test(base_log, levels)
{
	char buf[512];

	log_set_level(LOG_LVL_WARN);
	log_info("dropped");
	log_warn("port %d is odd", 7);
	log_err("no");
	captured(buf, sizeof(buf));
	cr_assert_str_eq(buf, "nfsrdma-fuse: warning: port 7 is odd\nnfsrdma-fuse: no\n");
}

Test(base_log, another_name)
{
	char name[5000], buf[512];

	log_set_name("nfsrdma-gateway");
	log_err("no");
	log_warn("beware");
	log_set_name("");
	log_err("no");
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	log_set_name(name);
	log_err("no");
	log_set_name("nfsrdma-fuse");
	log_err("no");
	captured(buf, sizeof(buf));
	cr_assert_eq(strspn(strchr(buf, 'x'), "x"), 64);
	*strchr(buf, 'x') = '\0';
	cr_assert_str_eq(buf, "nfsrdma-gateway: no\nnfsrdma-gateway: warning: beware\n: no\n");
	cr_assert_str_eq(buf + strlen(buf) + 64, ": no\nnfsrdma-fuse: no\n");
}

static int evaluated;

static int evaluate(void)
{
	return ++evaluated;
}

Test(base_log, debug_arguments_are_lazy)
{
	char buf[256];

	log_debug("%d", evaluate());
	cr_assert_eq(evaluated, 0);
	cr_assert_eq(captured(buf, sizeof(buf)), 0);
	log_set_level(LOG_LVL_DEBUG);
	log_debug("%d", evaluate());
	cr_assert_eq(evaluated, 1);
	captured(buf, sizeof(buf));
	cr_assert_str_eq(buf, "nfsrdma-fuse: debug: 1\n");
}

static char taken[256];
static enum log_level taken_level;

static void take(enum log_level level, const char *text)
{
	taken_level = level;
	strcpy(taken, text);
}

Test(base_log, sink)
{
	char buf[256];

	log_to(take);
	log_warn("port %d\nis odd", 7);
	cr_assert_str_eq(taken, "warning: port 7\\nis odd");
	cr_assert_eq(taken_level, LOG_LVL_WARN);
	log_err("no");
	cr_assert_str_eq(taken, "no");
	cr_assert_eq(taken_level, LOG_LVL_ERR);
	log_debug("dropped");
	cr_assert_str_eq(taken, "no");
	cr_assert_eq(captured(buf, sizeof(buf)), 0);
	log_to(NULL);
	log_err("yes");
	captured(buf, sizeof(buf));
	cr_assert_str_eq(buf, "nfsrdma-fuse: yes\n");
	cr_assert_str_eq(taken, "no");
}

Test(base_log, one_line_and_no_control_characters)
{
	char buf[256];

	log_err("name 'a\nb\033[2J' is odd\n");
	captured(buf, sizeof(buf));
	cr_assert_str_eq(buf, "nfsrdma-fuse: name 'a\\nb\\x1b[2J' is odd\n");
}

Test(base_log, utf8_passes)
{
	char buf[256];

	log_err("name 'gr\xc3\xbc\xc3\x9f' is fine");
	captured(buf, sizeof(buf));
	cr_assert_str_eq(buf, "nfsrdma-fuse: name 'gr\xc3\xbc\xc3\x9f' is fine\n");
}

/* A journal takes a line with one of these for no text, and a terminal obeys some. */
Test(base_log, what_is_not_printable_is_shown)
{
	char buf[256];

	log_err("'a\xff" "b' '\xc2\x9b" "2J' 'caf\xe9' '\x7f' '\xed\xa0\x80' '\xe2\x82'\ta\\b");
	captured(buf, sizeof(buf));
	cr_assert_str_eq(buf, "nfsrdma-fuse: 'a\\xffb' '\\xc2\\x9b2J' 'caf\\xe9' '\\x7f' '\\xed\\xa0\\x80' "
			 "'\\xe2\\x82'\ta\\b\n");
}

/* Wherever the end is: no half of a character, nor of what stands for one. */
Test(base_log, cut_between_characters)
{
	static const char *const units[] = { "\xe2\x82\xac", "\x01" }, *const shown[] = { "\xe2\x82\xac", "\\x01" };
	char text[5000], buf[8000], *at;

	for (size_t u = 0; u < 2; u++) {
		for (size_t shift = 0; shift < 8; shift++) {
			memset(text, 'x', shift);
			for (at = text + shift; at + 4 < text + sizeof(text); )
				at = stpcpy(at, units[u]);
			log_err("%s", text);
			cr_assert_lt(captured(buf, sizeof(buf)), 2048);
			at = buf + strlen("nfsrdma-fuse: ") + shift;
			while (strncmp(at, shown[u], strlen(shown[u])) == 0)
				at += strlen(shown[u]);
			cr_assert_str_eq(at, "...\n", "unit %zu, shift %zu", u, shift);
			cr_assert_gt(at - buf, 2030);
		}
	}
}

Test(base_log, too_long_is_cut)
{
	char text[5000], buf[8000];
	size_t len;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	log_err("%s", text);
	len = captured(buf, sizeof(buf));
	cr_assert(len < 2048 && len > 1000, "%zu bytes", len);
	cr_assert_str_eq(buf + len - 5, "x...\n");
}

Test(base_log, keeps_errno)
{
	errno = ENOTTY;
	log_err("x");
	cr_assert_eq(errno, ENOTTY);
}

#define THREADS 4
#define LINES   200

static void *chatter(void *arg)
{
	for (int i = 0; i < LINES; i++)
		log_err("%s", (const char *)arg);
	return NULL;
}

Test(base_log, lines_do_not_mix)
{
	static char text[THREADS][300];
	static char buf[THREADS * LINES * 400];
	pthread_t th[THREADS];
	char *line, *save;
	int lines = 0;

	for (int i = 0; i < THREADS; i++) {
		memset(text[i], 'a' + i, sizeof(text[i]) - 1);
		pthread_create(&th[i], NULL, chatter, text[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	captured(buf, sizeof(buf));
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *body = strchr(line, ' ');

		cr_assert_not_null(body);
		body++;
		cr_assert_eq(strlen(body), sizeof(text[0]) - 1);
		cr_assert_eq(strspn(body, (char[]){ *body, 0 }), strlen(body));
		lines++;
	}
	cr_assert_eq(lines, THREADS * LINES);
}

Test(base_log, err_set)
{
	struct errbuf eb = { "" };
	char text[1000];

	cr_assert_eq(err_set(&eb, -EINVAL, "no %s", "way"), -EINVAL);
	cr_assert_str_eq(eb.text, "no way");
	cr_assert_eq(err_set(NULL, -EIO, "nobody reads this"), -EIO);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	err_set(&eb, -EIO, "what failed: '%s': why", text);
	cr_assert_eq(strlen(eb.text), sizeof(eb.text) - 1);
	cr_assert(strncmp(eb.text, "what failed: 'xxx", 17) == 0 && strstr(eb.text, "x ... x") &&
		  strcmp(eb.text + strlen(eb.text) - 9, "xxx': why") == 0, "both ends: %s", eb.text);
	/* What just fits is as it is. */
	text[sizeof(eb.text) - 1] = '\0';
	err_set(&eb, -EIO, "%s", text);
	cr_assert_str_eq(eb.text, text);
}

/* Readers of JSON refuse a line for half of a character. */
Test(base_log, err_set_cuts_no_character)
{
	const char letter[] = "\xe2\x82\xac"; /* three bytes: with one of the begins, or of the ends, a cut is inside of it */
	char text[1000] = "";
	struct errbuf eb;

	for (unsigned i = 0; i < 300; i++)
		memcpy(text + 3 * i, letter, 3);
	for (const char *begin = "xx"; *begin; begin++)
		for (const char *end = "yy"; *end; end++) {
			size_t n = 0;

			err_set(&eb, -EIO, "%s%s%s", begin, text, end);
			for (const char *c = eb.text; *c; c += n) {
				n = text_printable(c);
				cr_assert(n, "byte %zu of %s", (size_t)(c - eb.text), eb.text);
			}
			cr_assert_gt(strlen(eb.text), sizeof(eb.text) - 6);
		}
}
