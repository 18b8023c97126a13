/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registration strategies; see memreg.h. */
#include <errno.h>
#include "rpcrdma/memreg.h"

static int pool_map(const struct fab_mr *slab, void *mem, uint32_t len, struct rr_seg *out)
{
	size_t at = (size_t)((char *)mem - (char *)slab->base);

	/* A buffer of anyone else's would let the peer into memory that was
	 * never meant for it: refuse rather than trust the caller. */
	if ((char *)mem < (char *)slab->base || at > slab->len || len > slab->len - at)
		return -EFAULT;
	out->handle = slab->rkey;
	out->length = len;
	out->offset = slab->addr + at;
	return 0;
}

const struct rr_memreg rr_memreg_pool = {
	.name = "pool",
	.remote_inval = false,
	.map = pool_map,
};
