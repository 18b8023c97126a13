/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages for people. Every message says what failed, on what (server, path, option,
 * device), why in words, and what to do about it.
 *
 * They go to standard error, or to the sink that log_to() has set. Any thread may log. A message
 * leaves with one write, so lines never mix. Each begins with the program's name.
 */
#pragma once

#include <stddef.h>

enum log_level { LOG_LVL_ERR, LOG_LVL_WARN, LOG_LVL_INFO, LOG_LVL_DEBUG };

/* Messages above this level are dropped; LOG_LVL_INFO until changed. */
void log_set_level(enum log_level max);
enum log_level log_get_level(void);

/* The program's name: "nfsrdma-fuse" until changed. `name` is kept, not copied. */
void log_set_name(const char *name);

/* From now on messages go to the sink (a daemon has no terminal, a library no right to it); NULL:
 * to standard error. text: one line, without its end and the program's name, printable; a warning
 * begins with "warning: ". Any thread calls it, and several at once. It must not log. */
void log_to(void (*sink)(enum log_level level, const char *text));

void log_msg(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_err(...)   log_msg(LOG_LVL_ERR, __VA_ARGS__)
#define log_warn(...)  log_msg(LOG_LVL_WARN, __VA_ARGS__)
#define log_info(...)  log_msg(LOG_LVL_INFO, __VA_ARGS__)
/* The arguments of a debug message are not evaluated when it is dropped. */
#define log_debug(...) \
	do { \
		if (log_get_level() >= LOG_LVL_DEBUG) \
			log_msg(LOG_LVL_DEBUG, __VA_ARGS__); \
	} while (0)

/*
 * Text of one failure. It is filled where the reason is known, and printed once at the top.
 * An empty text means "no failure yet".
 */
struct errbuf {
	char text[512];
};

/* Sets the text and returns err (as a rule a negative errno), so that callers can
 * `return err_set(eb, -EINVAL, "...")`. eb may be NULL. Of a text that is too long both
 * ends are kept, with " ... " between them. */
int err_set(struct errbuf *eb, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
