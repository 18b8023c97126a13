/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why a function has failed, for each thread. */
#include "lib/lib_impl.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char why[320];

int lib_fail(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return status;
}

const char *nfsrdma_why(void)
{
	return why;
}
