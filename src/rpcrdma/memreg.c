/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registration strategies; see memreg.h. */
#include <errno.h>
#include "rpcrdma/impl.h"

/* Memory outside the data buffers was never meant for the peer. Refuse it rather than
 * trust the caller. */
static bool in_data(const struct fab_mr *data, const void *mem, uint32_t len)
{
	size_t at = (size_t)((const char *)mem - (char *)data->base);

	return (const char *)mem >= (char *)data->base && at <= data->len && len <= data->len - at;
}

/* ---- pool ---- */

static int pool_map(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		    unsigned access, struct rr_seg *out)
{
	(void)call;
	(void)access;
	if (!in_data(&l->data, mem, len))
		return -EFAULT;
	out->handle = l->data.rkey;
	out->length = len;
	out->offset = l->data.addr + (size_t)((char *)mem - (char *)l->data.base);
	return 0;
}

static void pool_unmap(const struct rr_link *l, struct rr_call *call)
{
	(void)l;
	(void)call;
}

const struct rr_memreg rr_memreg_pool = {
	.name = "pool",
	.remote_inval = false,
	.data_access = FAB_REMOTE_READ | FAB_REMOTE_WRITE,
	.map = pool_map,
	.unmap = pool_unmap,
};

/* ---- call ---- */

static int call_map(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		    unsigned access, struct rr_seg *out)
{
	struct fab_mr *mr = &call->mrs[call->nmrs];
	int rc;

	if (!in_data(&l->data, mem, len) || call->nmrs == RR_CALL_MRS)
		return -EFAULT;
	rc = l->fabric->reg(l->fab, mem, len, access, mr, NULL);
	if (rc)
		return rc;
	call->nmrs++;
	out->handle = mr->rkey;
	out->length = len;
	out->offset = mr->addr;
	return 0;
}

static void call_unmap(const struct rr_link *l, struct rr_call *call)
{
	while (call->nmrs)
		l->fabric->dereg(l->fab, &call->mrs[--call->nmrs]);
}

const struct rr_memreg rr_memreg_call = {
	.name = "call",
	.remote_inval = true,
	.data_access = 0,
	.map = call_map,
	.unmap = call_unmap,
};
