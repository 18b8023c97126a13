/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the objects under test refer to and the targets do not need: addresses in
 * words, and the checks of tests/unit/fake_fabric.c, which end the run here. And
 * AddressSanitizer's options.
 */
#include <criterion/criterion.h>
#include "fabric/fabric.h"
#include "fuzz.h"

const char *__asan_default_options(void);

const char *fab_addr_text(const struct sockaddr_storage *ss, char *buf, size_t len)
{
	(void)ss;
	snprintf(buf, len, "somewhere");
	return buf;
}

void standin_failed(const char *file, int line, const char *what, const char *fmt, ...)
{
	(void)fmt;
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

void standin_end(void)
{
	abort();
}

/* Memory that an input has freed is watched until the next one has long begun. With the default, 256 MiB, each
 * malloc() is of memory that is in no cache, or not even mapped. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=8";
}
