/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registration strategies; see memreg.h. */
#include <errno.h>
#include <string.h>
#include "rpcrdma/impl.h"

static bool is_in(const struct fab_mr *mr, const void *mem, uint32_t len)
{
	size_t at = (size_t)((const char *)mem - (char *)mr->base);

	return (const char *)mem >= (char *)mr->base && at <= mr->len && len <= mr->len - at;
}

/* An extent's, or that of a program's memory. iWARP registers for each call, and neither as a whole: what
 * stands for that is not used. */
static const struct fab_mr *__attribute__((noinline))
piece_mr(const struct rr_link *l, const void *mem, uint32_t len)
{
	int i = arena_piece_of(l->conn->mag->arena, mem, len);

	if (i < 0)
		return NULL;
	if (!l->extents)
		return &l->data;
	/* A device that came later may lack it (fabric.h). */
	return l->extents[i].len ? &l->extents[i] : NULL;
}

/* Memory outside the data buffers was never meant for the peer. Refuse it rather than
 * trust the caller. */
const struct fab_mr *rr_data_mr(const struct rr_link *l, const void *mem, uint32_t len)
{
	return is_in(&l->data, mem, len) ? &l->data : piece_mr(l, mem, len);
}

static void name_segment(struct rr_seg *out, const struct fab_mr *mr, const void *mem, uint32_t len)
{
	out->handle = mr->rkey;
	out->length = len;
	out->offset = mr->addr + (size_t)((const char *)mem - (char *)mr->base);
}

/*
 * The device has no room for a registration, or may lock no more memory. What other calls
 * have registered, on this lane or another one, ends with them. So the call waits. (The
 * lane tries again at each tick, because nobody else may tell it.)
 */
static int no_room(const struct rr_link *l, uint32_t len, int rc)
{
	if (rc != -ENOMEM && rc != -EAGAIN && rc != -ENOSPC)
		return rc;
	if (!l->conn->no_room)
		log_warn("cannot register %u bytes with %s now (%s): calls wait until others have ended",
			 len, l->fabric->describe(l->fab), strerror(-rc));
	l->conn->no_room = true;
	return RR_NO_BUFFER;
}

/* ---- pool ---- */

static int pool_map(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		    unsigned access, struct rr_seg *out)
{
	const struct fab_mr *mr = rr_data_mr(l, mem, len);

	if (!mr)
		return -EFAULT;
	name_segment(out, mr, mem, len);
	return 0;
}

static int pool_unmap(const struct rr_link *l, struct rr_call *call, const uint32_t *by_peer)
{
	return 0;
}

const struct rr_memreg rr_memreg_pool = {
	.name = "pool",
	.data_access = FAB_REMOTE_READ | FAB_REMOTE_WRITE,
	.map = pool_map,
	.unmap = pool_unmap,
};

/* ---- call ---- */

static int call_map(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		    unsigned access, struct rr_seg *out)
{
	const struct fab_mr *in = rr_data_mr(l, mem, len);
	struct fab_mr *mr = &call->mrs[call->nmrs];
	int rc;

	if (!in || call->nmrs == RR_CALL_MRS)
		return -EFAULT;
	rc = l->fabric->reg_part ? l->fabric->reg_part(l->fab, in, mem, len, access, mr, NULL) :
				   l->fabric->reg(l->fab, mem, len, access, mr, NULL);
	if (rc)
		return no_room(l, len, rc);
	stat_add(l->conn->st, STAT_RDMA_REGISTRATIONS, 1);
	call->nmrs++;
	name_segment(out, mr, mem, len);
	return 0;
}

static int call_unmap(const struct rr_link *l, struct rr_call *call, const uint32_t *by_peer)
{
	if (by_peer)
		stat_add(l->conn->st, STAT_RDMA_REMOTE_INVALS, 1);
	while (call->nmrs)
		l->fabric->dereg(l->fab, &call->mrs[--call->nmrs]);
	return 0;
}

const struct rr_memreg rr_memreg_call = {
	.name = "call",
	.map = call_map,
	.unmap = call_unmap,
};

/* ---- mw ---- */

static int mw_map(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		  unsigned access, struct rr_seg *out)
{
	const struct fab_mr *in = rr_data_mr(l, mem, len);
	struct fab_mr *mr = &call->mrs[call->nmrs];
	int rc;

	if (!in || call->nmrs == RR_CALL_MRS)
		return -EFAULT;
	rc = l->fabric->bind(l->fab, in, mem, len, access, mr);
	if (rc)
		return rc == -EAGAIN ? RR_NO_BUFFER : rc;
	call->nmrs++;
	name_segment(out, mr, mem, len);
	return 0;
}

static int mw_unmap(const struct rr_link *l, struct rr_call *call, const uint32_t *by_peer)
{
	unsigned n = call->nmrs;
	int rc;

	if (!n)
		return 0;
	call->nmrs = 0;
	rc = l->fabric->unbind(l->fab, call->mrs, n, by_peer, call);
	if (by_peer)
		stat_add(l->conn->st, STAT_RDMA_REMOTE_INVALS, 1);
	if (rc <= 0)
		return rc;
	stat_add(l->conn->st, STAT_RDMA_LOCAL_INVALS, by_peer ? n - 1 : n);
	return RR_UNMAPPING;
}

const struct rr_memreg rr_memreg_mw = {
	.name = "mw",
	.windows = true,
	.data_access = FAB_WINDOWS,
	.map = mw_map,
	.unmap = mw_unmap,
};

/* ---- choosing ---- */

const struct rr_memreg rr_memreg_auto = { .name = "auto", .windows = true };

const struct rr_memreg *rr_memreg_for(const struct rr_memreg *wanted, const struct fab_caps *caps,
				      const char **why)
{
	*why = NULL;
	if (caps->reg_per_call)
		return &rr_memreg_call;
	if (wanted == &rr_memreg_auto)
		return caps->windows ? &rr_memreg_mw : &rr_memreg_pool;
	if (wanted->windows && !caps->windows) {
		*why = "the device has not enough memory windows of type 2";
		return &rr_memreg_call;
	}
	return wanted;
}
