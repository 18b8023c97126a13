/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How programs that use rings end when something fails. */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/nfsrdma.h"

static inline void __attribute__((format(printf, 1, 2), noreturn)) die(const char *text, ...)
{
	va_list ap;

	va_start(ap, text);
	vfprintf(stderr, text, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static inline int check(int rc, const char *what)
{
	if (rc < 0)
		die("%s: %s (%s)", what, strerror(-rc), nfsrdma_why());
	return rc;
}

static inline int check_errno(int rc, const char *what)
{
	if (rc < 0)
		die("%s: %s", what, strerror(errno));
	return rc;
}
