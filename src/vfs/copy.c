/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * copy_file_range: the server copies, and no data comes here.
 *
 *   what was written to both files is on stable storage
 *     |
 *   CLONE, if both offsets may be those of blocks ----------------------------------> all of it
 *     |  the server cannot
 *   COPY --its reply, or what follows that (offload.h)--> COPY of the rest ... (a second at most)
 *     |
 *   COMMIT, if some of it may not be on stable storage --the same verifier----------> so much of it
 *     +--another one: that is copied again
 *
 * What has been copied is no more than bytes in a cache of the server's, which nobody could send again
 * after it has restarted. So COMMIT comes before the answer, and not with fsync(). A server may copy
 * little at a time (Linux: 4 MiB), and COMMIT costs a flush of its disk: hence the second. It also lets
 * a program be killed, and others write the file, which the kernel has locked meanwhile. If COPY may be
 * the last one, COMMIT goes with it, and saves a call for each small file. An error of the two may be
 * COMMIT's, of what was copied before. A server says that once, and a second COMMIT would succeed.
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
 * A long copy may go on behind COPY's reply: one call instead of hundreds, none of which holds a slot, and
 * a thread of the server's, for long. A server may say of any other COPY, too, that it goes on. If it does
 * not say how far it has come, it has to say that it copies no more: or else it might replace, at any time,
 * what is written after this. Then what is not sure is copied again, by COPYs that do not go on. If it does
 * not say that either, the answer is EIO.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

/* The smallest block that a server shares between files, mostly. */
#define COPY_BLOCK 4096u
/* The most in one go: the length of an answer has 32 bits. */
#define COPY_MOST  (1u << 30)
uint64_t copy_commits_max = 4u << 20;
/* Shorter ones take few calls. Longer ones may take longer than a server lets a call take, or a client. */
uint64_t copy_goes_on_min = 16u << 20;
/* When COPY is not repeated any more. */
#define COPY_NS    1000000000ull
/* How often all is copied again, in a row. */
#define COPY_TRIES_MAX 8u

static void copy_more(struct vfs_op *op);

static void copy_release(struct vfs_op *op)
{
	offload_leave(op);
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
	a->copy.may_go_on = number == NFS_OP_COPY && !a->copy.commit && !p->plain &&
			    a->copy.count >= copy_goes_on_min;
	if (a->copy.may_go_on)
		offload_expect(op);
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

/* Nothing counts that was copied and is not on stable storage. */
static void copy_forget(struct op_copy *p)
{
	p->touched |= p->sure < p->done;
	p->done = p->sure;
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

	if (r->status || r->io.twice)
		behind_doubt(op);
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
	if (p->sure == p->done) {
		copy_end(op, status);
		return;
	}
	op->call.args.io.offset = 0;
	op->call.args.io.count = 0;             /* the whole file */
	vfs_start(op, NFS_OP_COMMIT, copy_committed);
}

/* ---- a copy that goes on ---- */

static void copy_got(struct vfs_op *op, uint64_t count, bool stable);

/* Some of it was written before the server has restarted, some after that. */
static bool copy_mixed(struct op_copy *p, uint64_t verf)
{
	bool mixed = p->sure < p->done && p->verf != verf;

	p->verf = verf;
	return mixed;
}

/* What was copied, or what was not: behind the source's end, as the server sees it, who reads will find
 * that. */
static void copy_refuses(struct vfs_op *op, int status)
{
	copy_commit(op, status == -EINVAL ? -EOPNOTSUPP : status);
}

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

static void copy_went(struct vfs_op *op)
{
	const struct nfs_copy_end *e = &op->copy.wait.end;
	struct op_copy *p = &op->copy;

	if (e->status) {
		p->touched = true;
		copy_refuses(op, e->status);
	} else if (e->count > op->call.args.copy.count) {
		log_err("COPY: %s says that it has copied more than it was asked to: EIO",
			op->vl->vfs->cl->cfg.server);
		p->touched = true;
		copy_failed(op, -EIO);
	} else if (!e->stable && copy_mixed(p, e->verf)) {
		copy_again(op, "sends another write verifier with a copy");
	} else {
		copy_got(op, e->count, e->stable);
	}
}

static void copy_offloaded(struct vfs_op *op, enum offload_fate fate)
{
	struct op_copy *p = &op->copy;

	copy_went_on(op);
	if (fate == OFFLOAD_RUNS) {
		log_err("COPY: %s copies on its own, and does not say whether it has ended: EIO",
			op->vl->vfs->cl->cfg.server);
		/* It may replace at any time what would be written behind what is sure. */
		p->sure = 0;
		copy_failed(op, -EIO);
	} else if (vfs_unwanted(op)) {
		copy_failed(op, -EINTR);
	} else if (fate == OFFLOAD_LOST) {
		p->plain = true;
		copy_again(op, "does not say what became of a copy");
	} else {
		copy_went(op);
	}
}

/* ---- COPY ---- */

/* Nothing: the source ends here. Or a server says so, and it does not: a program would take that for all
 * of the file. Who reads will find out. */
static int copy_nothing(const struct vfs_op *op)
{
	return !op->copy.done && op->copy.from_offset < atomic_load(&op->ino2->size) ? -EOPNOTSUPP : 0;
}

/* So much more has been copied. */
static void copy_got(struct vfs_op *op, uint64_t count, bool stable)
{
	struct op_copy *p = &op->copy;

	if (stable && p->sure == p->done)
		p->sure += count;
	p->done += count;
	if (vfs_unwanted(op))
		copy_failed(op, -EINTR);
	else if (count && p->done < p->len && mono_ns() - p->since_ns < COPY_NS)
		copy_more(op);
	else
		copy_commit(op, copy_nothing(op));
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

	if (!r->status && r->copy.running) {
		copy_goes_on(op);
		offload_wait(op, copy_offloaded);
		return;
	}
	offload_leave(op);
	if (op->call.args.copy.commit && (r->status ? !copy_refused(r->status) : r->copy.twice))
		behind_doubt(op);
	if (r->status == -EOPNOTSUPP && op->call.args.copy.may_go_on) {
		p->plain = true;
		copy_more(op);
	} else if (r->status) {
		p->touched |= !copy_refused(r->status);
		if (op->call.args.copy.commit && !copy_refused(r->status))
			copy_failed(op, r->status);
		else
			copy_refuses(op, r->status);
	} else if (r->copy.twice && p->sure < p->done) {
		copy_again(op, "may have failed to COMMIT before");
	} else if (!r->copy.stable && copy_mixed(p, r->copy.verf)) {
		copy_again(op, "sends another write verifier with COPY");
	} else {
		if (r->copy.committed && r->copy.verf == p->verf)
			p->sure = p->done;
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

	if (status && !copy_refused(status))
		behind_doubt(op);
	if (!status)
		op->copy.done = op->copy.len;
	op->copy.touched = status && vfs_maybe_done(status);
	if (!status || vfs_unwanted(op) || vfs_maybe_done(status))
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
