/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each message is put together in a buffer on the stack and leaves with one write() or one call of
 * the sink. So no lock is needed, and lines of two threads never mix. Texts may quote
 * file names and what a server sent. What is not printable in them is shown as C has it (base/text.h), so
 * that nobody else can begin a line or control a terminal, and a journal takes the message for a text.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

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

/* What is shown of the first character. A tabulator does no harm. */
static size_t log_show(const char **text, char out[TEXT_SHOWN])
{
	if (**text != '\t')
		return text_show(text, out);
	out[0] = *(*text)++;
	return 1;
}

/* Puts `text` into the line from `at` on, as far as there is room, and ends it with \n\0. */
static size_t log_put(char line[LOG_LINE_MAX], size_t at, const char *text)
{
	static const char dots[] = "...";
	/* Room for the two characters that end it. */
	const size_t end = LOG_LINE_MAX - 2, ndots = sizeof(dots) - 1;
	size_t len = strlen(text), cut = at;
	const char *behind;

	while (len > 0 && text[len - 1] == '\n')
		len--;
	for (behind = text + len; text < behind; ) {
		char shown[TEXT_SHOWN];
		size_t n = log_show(&text, shown);

		if (at + n > end) {
			memcpy(line + cut, dots, ndots);
			at = cut + ndots;
			break;
		}
		memcpy(line + at, shown, n);
		at += n;
		if (at + ndots <= end)
			cut = at;
	}
	line[at++] = '\n';
	line[at] = '\0';
	return at;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	void (*sink)(enum log_level level, const char *text) = atomic_load(&log_sink);
	char line[LOG_LINE_MAX], text[LOG_LINE_MAX];
	int saved = errno, name, from, n;
	size_t len;
	va_list ap;

	if (level > log_get_level())
		return;
	name = snprintf(line, sizeof(line), "%.*s: ", LOG_NAME_MAX, atomic_load(&log_name));
	from = name + snprintf(line + name, sizeof(line) - (size_t)name, "%s", words[level]);
	va_start(ap, fmt);
	/* One that is cut here is longer than a line has room for. */
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		snprintf(text, sizeof(text), "(message that cannot be printed: %.64s)", fmt);
	len = log_put(line, (size_t)from, text);

	if (sink) {
		line[len - 1] = '\0';
		sink(level, line + name);
	} else {
		/* If standard error cannot be written, nobody can be told. */
		TEMP_FAILURE_RETRY(write(STDERR_FILENO, line, len));
	}
	errno = saved;
}

/* Of UTF-8; nothing is cut there. */
static bool inside_character(const char *text)
{
	return (*text & 0xc0) == 0x80;
}

/* Who gives a long word wants to be told the reason, too, and that is at the end: what is left out
 * of a text that does not fit is in its middle. Without memory for the text its end is. */
static void __attribute__((format(printf, 2, 0))) err_set_ends(struct errbuf *eb, const char *fmt, va_list ap)
{
	static const char gap[] = " ... ";
	char *whole, *tail;
	int half = sizeof(eb->text) / 2, n = vasprintf(&whole, fmt, ap);

	if (n < 0)
		return;
	tail = whole + n - (sizeof(eb->text) - sizeof(gap) - (size_t)half);
	while (inside_character(tail))
		tail++;
	while (half > 0 && inside_character(whole + half))
		half--;
	snprintf(eb->text, sizeof(eb->text), "%.*s%s%s", half, whole, gap, tail);
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
