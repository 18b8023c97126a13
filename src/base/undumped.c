/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sys/mman.h>
#include "base/undumped.h"

void *undumped_alloc(size_t len)
{
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return NULL;
	if (madvise(mem, len, MADV_DONTDUMP) == 0)
		return mem;
	munmap(mem, len);
	return NULL;
}

void undumped_free(void *mem, size_t len)
{
	if (mem)
		munmap(mem, len);
}
