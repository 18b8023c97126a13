/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * copy_file_range: the server copies, and no data comes here.
 *
 *   what was written to both files is on stable storage
 *     |
 *   CLONE, if both offsets may be those of blocks ----------------------------------> all of it
 *     |  the server cannot
 *   COPY --its reply, or OFFLOAD_STATUS until it is done--> COPY of the rest ... (a second at most)
 *     |
 *   COMMIT, if some of it may not be on stable storage --the same verifier----------> so much of it
 *     +--another one: all is copied again
 *
 * What has been copied is no more than bytes in a cache of the server's, which nobody could send again
 * after it has restarted. So COMMIT comes before the answer, and not with fsync(). A server may copy
 * little at a time (Linux: 4 MiB), and COMMIT costs a flush of its disk: hence the second. It also lets
 * a program be killed, and others write the file, which the kernel has locked meanwhile. If COPY may be
 * the last one, COMMIT goes with it, and saves a call for each small file.
 *
 * The source: what is not on stable storage would be missing if the server restarted before it copies.
 * So it is waited for, too. Who writes the source from now on does so beside the copy, and may be in
 * the copy or not.
 *
 * Once more. A COPY may be executed twice: its reply was lost, or a verifier has changed. Both copies are
 * of the same bytes, unless the ranges overlap. The kernel refuses that for one of its inodes, and this
 * does for one file. After the first COPY the operation holds the destination if it is given up
 * (start.c), so no late copy replaces what is written after it.
 *
 * COPY asks for a synchronous copy. A server may say all the same that it goes on behind the reply. Then
 * it is asked from time to time, and told to stop if nobody waits any more. If it does not say how far it
 * has come, it has to say that it copies no more: or else it might replace, at any time, what is written
 * after this. If it does not say that either, the answer is EIO.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

/* The smallest block that a server shares between files, mostly. */
#define COPY_BLOCK 4096u
/* The most in one go: the length of an answer has 32 bits. */
#define COPY_MOST  (1u << 30)
uint64_t copy_commits_max = 4u << 20;
/* When COPY is not repeated any more. */
#define COPY_NS    1000000000ull
/* How often all is copied again, in a row. */
#define COPY_TRIES_MAX 8u
/* The first wait for a copy that goes on, and how often it doubles. */
#define COPY_ASK_MS    10u
#define COPY_ASK_SHIFT 6u

static void copy_more(struct vfs_op *op);

/* Nobody waits for it. */
static bool copy_unwanted(const struct vfs_op *op)
{
	return op->given_up || !op->waited;
}

static void copy_release(struct vfs_op *op)
{
	file_put(op->vl, op->copy.from);
}

/* The call's arguments are those of COPY or CLONE. */
static void copy_start(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op))
{
	struct op_copy *p = &op->copy;
	struct nfs_args *a = &op->call.args;

	op->call.open = op->file->open;
	a->fh2 = &op->ino2->file.fh;
	a->copy.from = p->from->open;
	a->copy.from_offset = p->from_offset + p->done;
	a->copy.offset = p->offset + p->done;
	a->copy.count = p->len - p->done;
	a->copy.commit = a->copy.count <= copy_commits_max;
	vfs_start(op, number, done);
}

/* What was copied until `done` is on stable storage. An error comes with the next call, if this one has
 * come somewhere. */
static void copy_end(struct vfs_op *op, int status)
{
	struct op_copy *p = &op->copy;

	p->status = status;
	if (p->done) {
		op->vl->vfs->front->written(op->ino, p->offset + p->done);
		status = 0;
	}
	op->vl->vfs->front->attr_spoilt(op->ino);
	vfs_end_with(op, status);
}

/* Nothing counts that was copied. */
static void copy_forget(struct op_copy *p)
{
	p->touched |= p->done;
	p->done = 0;
	p->loose = false;
}

static void copy_failed(struct vfs_op *op, int status)
{
	copy_forget(&op->copy);
	copy_end(op, status);
}

/* The server has lost it, or may have. */
static void copy_again(struct vfs_op *op, const char *why)
{
	struct op_copy *p = &op->copy;

	if (++p->tries > COPY_TRIES_MAX) {
		log_err("COPY: %s %s each time: EIO after %u tries", op->vl->vfs->cl->cfg.server, why,
			p->tries);
		copy_failed(op, -EIO);
		return;
	}
	copy_forget(p);
	copy_more(op);
}

/* ---- COMMIT ---- */

static void copy_committed(struct vfs_op *op)
{
	const struct nfs_results *r = &op->call.res;

	if (r->status)
		copy_failed(op, r->status);
	else if (r->io.verf != op->copy.verf || r->io.twice)
		copy_again(op, "sends another write verifier with COMMIT");
	else
		copy_end(op, op->copy.status);
}

/* No more is copied, because of status, or because it is enough (0). */
static void copy_commit(struct vfs_op *op, int status)
{
	struct op_copy *p = &op->copy;

	p->status = status;
	if (!p->loose || !p->done) {
		copy_end(op, status);
		return;
	}
	op->call.args.io.offset = 0;
	op->call.args.io.count = 0;             /* the whole file */
	vfs_start(op, NFS_OP_COMMIT, copy_committed);
}

/* ---- a copy that goes on ---- */

/* The change that COPY has begun ends with the copy. So what is read meanwhile is not kept, nor are the
 * attributes in COPY's reply. */
static void copy_goes_on(struct vfs_op *op)
{
	ahead_change_begins(op->ino);
	ownchange_change_begins(&op->vl->vfs->inodes, op->ino);
}

static void copy_went_on(struct vfs_op *op)
{
	ahead_change_ends(op->ino);
	ownchange_change_ends(&op->vl->vfs->inodes, op->ino, 0, &(struct ownchange_after){ 0 });
}

static void copy_ask(struct vfs_op *op);
static void copy_got(struct vfs_op *op, uint64_t count, bool stable);

static void copy_cancelled(struct vfs_op *op)
{
	copy_went_on(op);
	if (op->call.res.status)
		log_err("COPY: %s copies on its own, and does not say whether it has ended: EIO",
			op->vl->vfs->cl->cfg.server);
	if (op->call.res.status || copy_unwanted(op))
		copy_failed(op, op->call.res.status ? -EIO : -EINTR);
	else
		copy_again(op, "does not say what became of a copy");
}

/* The stateid is not that of an open: nothing is to be recovered. */
static void copy_offload(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op))
{
	op->call.open = NULL;
	vfs_start(op, number, done);
}

static void copy_stop(struct vfs_op *op)
{
	op->copy.touched = true;
	copy_offload(op, NFS_OP_OFFLOAD_CANCEL, copy_cancelled);
}

static void copy_asked(struct vfs_op *op)
{
	const struct nfs_results *r = &op->call.res;

	if (r->copy.running && !r->status && !copy_unwanted(op)) {
		copy_ask(op);
	} else if (r->copy.running) {
		copy_stop(op);
	} else {
		copy_went_on(op);
		op->copy.touched |= r->status;
		if (r->status)
			copy_commit(op, r->status);
		else
			copy_got(op, r->copy.count, false);
	}
}

static void on_copy_ask(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);

	/* Until the server says that it has ended. */
	op->call.res.copy.running = true;
	if (copy_unwanted(op))
		copy_stop(op);
	else
		copy_offload(op, NFS_OP_OFFLOAD_STATUS, copy_asked);
}

static void copy_ask(struct vfs_op *op)
{
	struct op_copy *p = &op->copy;

	loop_timer_init(&op->call.eng.timer, on_copy_ask);
	loop_timer_set(op->vl->lane->loop, &op->call.eng.timer, COPY_ASK_MS << p->shift);
	p->shift += p->shift < COPY_ASK_SHIFT;
}

/* ---- COPY ---- */

/* So much more has been copied; 0: the source ends here. */
static void copy_got(struct vfs_op *op, uint64_t count, bool stable)
{
	struct op_copy *p = &op->copy;

	p->loose |= !stable;
	p->done += count;
	if (copy_unwanted(op))
		copy_failed(op, -EINTR);
	else if (count && p->done < p->len && mono_ns() - p->since_ns < COPY_NS)
		copy_more(op);
	else
		copy_commit(op, 0);
}

/* Some of it was written before the server has restarted, some after that. */
static bool copy_mixed(struct op_copy *p, const struct nfs_results *r)
{
	bool mixed = p->loose && p->verf != r->copy.verf;

	p->verf = r->copy.verf;
	return mixed;
}

/* Nothing was copied. */
static bool copy_refused(int status)
{
	return status == -EOPNOTSUPP || status == -EXDEV || status == -EINVAL || status == -EINTR;
}

static void copy_done(struct vfs_op *op)
{
	const struct nfs_results *r = &op->call.res;
	struct op_copy *p = &op->copy;

	if (r->status) {
		p->touched |= !copy_refused(r->status);
		/* Behind the source's end, as the server sees it: who reads will find that. */
		copy_commit(op, r->status == -EINVAL ? -EOPNOTSUPP : r->status);
	} else if (r->copy.running) {
		op->call.args.copy.id = r->copy.id;
		p->shift = 0;
		copy_goes_on(op);
		if (copy_mixed(p, r))
			copy_stop(op);
		else
			copy_ask(op);
	} else if (!r->copy.stable && copy_mixed(p, r)) {
		copy_again(op, "sends another write verifier with COPY");
	} else {
		p->loose &= !r->copy.committed || r->copy.verf != p->verf;
		copy_got(op, r->copy.count, r->copy.stable || r->copy.committed);
	}
}

static void copy_more(struct vfs_op *op)
{
	if (nfs_lacks(&op->vl->vfs->cl->server, NFS_OP_COPY))
		copy_commit(op, -EOPNOTSUPP);
	else
		copy_start(op, NFS_OP_COPY, copy_done);
}

/* ---- CLONE ---- */

/* May these be whole blocks, or all up to the source's end? The server knows. */
static bool copy_may_clone(const struct vfs_op *op)
{
	const struct op_copy *p = &op->copy;

	return !nfs_lacks(&op->vl->vfs->cl->server, NFS_OP_CLONE) &&
	       p->from_offset % COPY_BLOCK == 0 && p->offset % COPY_BLOCK == 0 &&
	       (p->len % COPY_BLOCK == 0 || p->from_offset + p->len >= atomic_load(&op->ino2->size));
}

/* If it was refused, COPY's answer is the one that counts. */
static void copy_cloned(struct vfs_op *op)
{
	int status = op->call.res.status;

	if (!status)
		op->copy.done = op->copy.len;
	op->copy.touched = status && vfs_maybe_done(status);
	if (!status || copy_unwanted(op) || vfs_maybe_done(status))
		copy_end(op, status);
	else
		copy_more(op);
}

void vfs_copy(struct vfs_op *op, struct file *from, uint64_t from_offset, uint64_t offset, uint64_t len)
{
	struct op_copy *p = &op->copy;

	if (len > COPY_MOST)
		len = COPY_MOST;
	*p = (struct op_copy){ from, from_offset, offset, len, .since_ns = mono_ns() };
	op->release = copy_release;
	if (op->ino == op->ino2 && from_offset < offset + len && offset < from_offset + len)
		vfs_end_with(op, -EINVAL);
	else if (copy_may_clone(op))
		copy_start(op, NFS_OP_CLONE, copy_cloned);
	else
		copy_more(op);
}
