/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each message is put together in a buffer on the stack and leaves with one write() or one call of
 * the sink. So no lock is needed, and lines of two threads never mix. Texts may quote
 * file names and what a server sent. Control characters in them are replaced, so that
 * nobody else can begin a line or control a terminal.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* At most so much of the program's name is printed. */
#define LOG_NAME_MAX 64
/* The longest message is an errbuf's text with a path (PATH_MAX), and that is cut.
 * Everything else fits. */
#define LOG_LINE_MAX 2048

static const char *_Atomic log_name = "nfsrdma-fuse";
static _Atomic int max_level = LOG_LVL_INFO;
static void (*_Atomic log_sink)(enum log_level level, const char *text);

/* After the program's name; an error needs none. */
static const char *const words[] = {
	[LOG_LVL_ERR] = "", [LOG_LVL_WARN] = "warning: ", [LOG_LVL_INFO] = "", [LOG_LVL_DEBUG] = "debug: ",
};

void log_set_level(enum log_level max)
{
	atomic_store_explicit(&max_level, (int)max, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load_explicit(&max_level, memory_order_relaxed);
}

void log_set_name(const char *name)
{
	atomic_store(&log_name, name);
}

void log_to(void (*sink)(enum log_level level, const char *text))
{
	atomic_store(&log_sink, sink);
}

/* Makes `text` (of cap bytes) printable from `from` on, and ends it with \n\0. */
static size_t finish_line(char *text, size_t cap, size_t from, size_t len)
{
	/* Keep room for the two characters that end it. */
	if (len > cap - 2) {
		len = cap - 2;
		memcpy(text + len - 3, "...", 3);
	}
	while (len > from && text[len - 1] == '\n')
		len--;
	for (size_t i = from; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			text[i] = '?';
	}
	text[len++] = '\n';
	text[len] = '\0';
	return len;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	void (*sink)(enum log_level level, const char *text) = atomic_load(&log_sink);
	char line[LOG_LINE_MAX];
	int saved = errno, name, from, n;
	size_t len;
	va_list ap;

	if (level > log_get_level())
		return;
	name = snprintf(line, sizeof(line), "%.*s: ", LOG_NAME_MAX, atomic_load(&log_name));
	from = name + snprintf(line + name, sizeof(line) - (size_t)name, "%s", words[level]);
	va_start(ap, fmt);
	n = vsnprintf(line + from, sizeof(line) - (size_t)from, fmt, ap);
	va_end(ap);
	if (n < 0)
		n = snprintf(line + from, sizeof(line) - (size_t)from,
			     "(message that cannot be printed: %.64s)", fmt);
	len = finish_line(line, sizeof(line), (size_t)from, (size_t)from + (size_t)n);

	if (sink) {
		line[len - 1] = '\0';
		sink(level, line + name);
	} else {
		/* If standard error cannot be written, nobody can be told. */
		TEMP_FAILURE_RETRY(write(STDERR_FILENO, line, len));
	}
	errno = saved;
}

/* Who gives a long word wants to be told the reason, too, and that is at the end: what is left out
 * of a text that does not fit is in its middle. Without memory for the text its end is. */
static void __attribute__((format(printf, 2, 0))) err_set_ends(struct errbuf *eb, const char *fmt, va_list ap)
{
	static const char gap[] = " ... ";
	const size_t half = sizeof(eb->text) / 2, tail = half - (sizeof(gap) - 1);
	char *whole;
	int n = vasprintf(&whole, fmt, ap);

	if (n < 0)
		return;
	memcpy(eb->text + half, gap, sizeof(gap) - 1);
	memcpy(eb->text + sizeof(eb->text) - tail, whole + n + 1 - tail, tail);
	free(whole);
}

int err_set(struct errbuf *eb, int err, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (eb) {
		va_start(ap, fmt);
		n = vsnprintf(eb->text, sizeof(eb->text), fmt, ap);
		va_end(ap);
		if (n >= (int)sizeof(eb->text)) {
			va_start(ap, fmt);
			err_set_ends(eb, fmt, ap);
			va_end(ap);
		}
	}
	return err;
}
