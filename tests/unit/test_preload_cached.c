/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the preload takes for cached. On a tmpfs it is what has been written. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/preload.h"
#include "lib/preload_real.h"

#define MIB ((size_t)1 << 20)

struct preload_real preload_real;

Test(preload_cached, what_is_there)
{
	char path[] = "/dev/shm/preload-XXXXXX";
	int fd = mkstemp(path);
	struct preload_file f = { .access = O_RDWR };
	char *data = calloc(1, MIB);

	unlink(path);
	cr_assert_eq(write(fd, data, MIB), MIB);
	cr_assert_eq(ftruncate(fd, 3 * MIB), 0);
	errno = EXDEV;
	cr_expect(preload_cached(fd, &f, 0, 100));
	cr_expect(preload_cached(fd, &f, 0, MIB));
	cr_expect(preload_cached(fd, &f, 4097, 65536));
	cr_expect(preload_cached(fd, &f, MIB - 65536, 65536));
	cr_expect_not(preload_cached(fd, &f, MIB - 32768, 65536));
	cr_expect_not(preload_cached(fd, &f, 2 * MIB, MIB));
	cr_expect_not(preload_cached(-1, &f, 0, MIB));
	f.access = O_WRONLY;
	cr_expect_not(preload_cached(fd, &f, 0, MIB));
	cr_expect_eq(errno, EXDEV);
	free(data);
}
