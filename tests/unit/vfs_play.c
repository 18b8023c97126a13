/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vfs_play.h"

struct vfs vfs;
struct vfs_lane *vl;
struct inode *root;
unsigned vfs_play_slow;
struct vfs_play_seen vfs_play_seen;
uint64_t vfs_play_next = 1;
struct vfs_play_answer vfs_answer;
void (*vfs_play_answered)(uint64_t nr);
bool (*vfs_play_end_known)(const struct inode *ino, uint64_t *end, uint64_t *there);
struct arena_buf *vfs_play_mid, *vfs_play_big;

static struct vfs_lane play_lanes[2];
static unsigned begun;                  /* inodes */

/* ---- operations ---- */

struct play_op {
	struct vfs_op op;
	uint64_t nr;                    /* 0: it has been answered, or is none of ours */
	bool ended;
	bool seen;                      /* vfs_play_settle() */
	struct list left;               /* in `left` */
};

static struct list left = { &left, &left };
static unsigned ends;

static struct play_op *play_op_of(struct vfs_op *op)
{
	return container_of(op, struct play_op, op);
}

static void play_free(struct play_op *p)
{
	list_del(&p->left);
	vfs_op_free(&p->op);
}

void vfs_play_catch_up_one(void)
{
	if (!list_empty(&left))
		play_free(container_of(left.next, struct play_op, left));
}

void vfs_play_catch_up(void)
{
	while (!list_empty(&left))
		vfs_play_catch_up_one();
}

static void play_answer(struct play_op *p, int status)
{
	uint64_t nr = p->nr;

	if (!nr)
		return;
	vfs_answer.status = status;
	vfs_answer.count++;
	p->nr = 0;
	if (vfs_play_answered)
		vfs_play_answered(nr);
	p->op.waited = false;
}

/* op has ended, and `vfs_answer` has what it has brought. */
static void play_end_with(struct vfs_op *op, int status)
{
	struct play_op *p = play_op_of(op);

	cr_assert_not(p->ended, "an operation ends once");
	p->ended = true;
	play_answer(p, status);
	if (vfs_play_slow && ++ends % vfs_play_slow == 0) {
		vfs_play_seen.left++;
		list_add_tail(&left, &p->left);
		return;
	}
	list_init(&p->left);
	play_free(p);
}

static void play_end(struct vfs_op *op)
{
	play_end_with(op, op->call.res.status);
}

uint64_t vfs_play_nr(const struct vfs_op *op)
{
	return container_of((uintptr_t)op, struct play_op, op)->nr;
}

bool vfs_play_give_up(struct vfs_op *op)
{
	if (vfs_give_up(op))
		return true;
	play_answer(play_op_of(op), -EINTR);
	return false;
}

/* Takes references to all of these. */
static struct vfs_op *play_begin(struct inode *ino, struct inode *ino2, struct file *f,
				 void (*end)(struct vfs_op *op))
{
	struct vfs_op *op = vfs_op_new(vfs_this_lane);
	struct play_op *p = play_op_of(op);

	vfs_play_buffers();
	vfs_answer.count = 0;
	p->nr = vfs_play_next++;
	p->ended = p->seen = false;
	op->waited = true;
	op->end = end;
	op->cred = f ? f->cred : (struct rpc_cred){ 0 };
	op->ino = ino;
	op->ino2 = ino2;
	op->file = f;
	inode_ref(ino);
	if (ino2)
		inode_ref(ino2);
	if (f)
		file_ref(f);
	return op;
}

static void play_name(char *to, const char *name)
{
	cr_assert_leq(strlen(name), NFS_NAME_MAX);
	strcpy(to, name);
}

/* ---- attributes ---- */

static void attr_end(struct vfs_op *op)
{
	if (!op->call.res.status && op->waited)
		vfs_answer.attr = op->call.res.attr;
	play_end(op);
}

uint64_t vfs_play_getattr(struct inode *ino)
{
	vfs_getattr(play_begin(ino, NULL, NULL, attr_end));
	return vfs_play_next - 1;
}

static void birth_end(struct vfs_op *op)
{
	if (!op->call.res.status && op->waited) {
		cr_assert(op->call.res.has_btime);
		vfs_answer.btime = op->call.res.btime;
	}
	attr_end(op);
}

uint64_t vfs_play_birth(struct inode *ino)
{
	vfs_birth(play_begin(ino, NULL, NULL, birth_end));
	return vfs_play_next - 1;
}

uint64_t vfs_play_truncate(struct inode *ino, uint64_t size)
{
	struct vfs_op *op = play_begin(ino, NULL, NULL, attr_end);

	op->call.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_SIZE, .size = size };
	vfs_setattr(op, false);
	return vfs_play_next - 1;
}

static void lookup_end(struct vfs_op *op)
{
	struct nfs_results *res = &op->call.res;

	if (res->status == 0 && op->waited)
		vfs_answer.ino = inode_get(&vfs.inodes, &res->fh, &res->attr, op->ino->id, op->name,
				       strlen(op->name), op->start_ns);
	play_end(op);
}

uint64_t vfs_play_lookup(struct inode *dir, const char *name)
{
	struct vfs_op *op = play_begin(dir, NULL, NULL, lookup_end);

	play_name(op->name, name);
	vfs_lookup(op);
	return vfs_play_next - 1;
}

/* ---- open files ---- */

static struct file *open_file(struct vfs_op *op)
{
	struct file *f = calloc(1, sizeof(*f));

	file_begins(f, op, op->ino);
	return f;
}

static void open_end(struct vfs_op *op)
{
	if (op->call.res.status == 0 && op->waited)
		vfs_answer.file = open_file(op);
	else if (op->call.res.status == 0)
		file_undo(op->vl, op->ino, op->call.open, &op->cred);
	play_end(op);
}

uint64_t vfs_play_open(struct inode *ino, int flags, bool named)
{
	struct vfs_op *op = play_begin(ino, NULL, NULL, open_end);

	op->call.args.file.flags = flags;
	op->call.args.file.exec = false;
	vfs_open(op, named);
	return vfs_play_next - 1;
}

void vfs_play_close(struct file *f)
{
	file_put(vfs_this_lane, f);
}

struct file *vfs_play_file(void)
{
	struct file *f = calloc(1, sizeof(*f));

	atomic_init(&f->refs, 1);
	f->ino = root;
	return f;
}

/* ---- data ---- */

bool vfs_play_buffers(void)
{
	return op_data_buffers(vl, &vfs_play_mid, &vfs_play_big);
}

static void read_end(struct vfs_op *op)
{
	const struct op_data *d = &op->data;

	vfs_answer.len = 0;
	for (unsigned i = 0; !op->call.res.status && op->waited && i < d->niov; i++) {
		vfs_answer.at = d->iov[0].iov_base;
		memcpy(vfs_answer.data + vfs_answer.len, d->iov[i].iov_base, d->iov[i].iov_len);
		vfs_answer.len += d->iov[i].iov_len;
	}
	play_end(op);
}

uint64_t vfs_play_read(struct file *f, uint64_t offset, size_t size, bool cached)
{
	struct vfs_op *op = play_begin(f->ino, NULL, f, read_end);

	op_data_begins(op);
	op->data.start = offset;
	op->data.size = size;
	op->data.cached = cached;
	vfs_read(op);
	return vfs_play_next - 1;
}

/* write() says how far it has come, if that is anywhere. Who writes a page back wants all of it. */
static void write_end(struct vfs_op *op)
{
	bool counts = op->data.filled && !op->data.writeback;

	vfs_answer.len = op->data.filled;
	vfs_answer.late_error = op->data.late_error;
	play_end_with(op, counts ? 0 : op->call.res.status);
}

uint64_t vfs_play_write(struct file *f, uint64_t offset, size_t size, bool quick, bool writeback)
{
	struct vfs_op *op = play_begin(f->ino, NULL, f, write_end);

	op_data_begins(op);
	op->data.start = op->call.args.io.offset = offset;
	op->data.size = size;
	op->data.quick = quick;
	op->data.writeback = writeback;
	op_data_take(op, &vfs_play_mid, &vfs_play_big);
	vfs_write(op);
	return vfs_play_next - 1;
}

static void settled(struct vfs_op *op)
{
	play_end_with(op, op->waited ? behind_error(op->file, play_op_of(op)->seen) : 0);
}

uint64_t vfs_play_settle(struct file *f, bool seen)
{
	struct vfs_op *op = play_begin(f->ino, NULL, f, play_end);

	play_op_of(op)->seen = seen;
	behind_settle(op, f->ino, true, settled);
	return vfs_play_next - 1;
}

/* ---- names ---- */

uint64_t vfs_play_unlink(struct inode *dir, const char *name)
{
	struct vfs_op *op = play_begin(dir, NULL, NULL, play_end);

	play_name(op->name, name);
	vfs_unlink(op);
	return vfs_play_next - 1;
}

uint64_t vfs_play_rmdir(struct inode *dir, const char *name)
{
	struct vfs_op *op = play_begin(dir, NULL, NULL, play_end);

	play_name(op->name, name);
	vfs_rmdir(op);
	return vfs_play_next - 1;
}

uint64_t vfs_play_rename(struct inode *dir, const char *name, struct inode *dir2, const char *name2)
{
	struct vfs_op *op = play_begin(dir, dir2, NULL, play_end);

	play_name(op->name, name);
	play_name(op->name2, name2);
	vfs_rename(op);
	return vfs_play_next - 1;
}

uint64_t vfs_play_link(struct inode *ino, struct inode *dir, const char *name)
{
	struct vfs_op *op = play_begin(ino, dir, NULL, attr_end);

	play_name(op->name, name);
	vfs_link(op);
	return vfs_play_next - 1;
}

/* ---- the front end's functions ---- */

static bool shard_is_locked(const struct inode *ino)
{
	pthread_mutex_t *mu = &inode_shard_of(&vfs.inodes, ino)->mu;

	if (pthread_mutex_trylock(mu))
		return true;
	pthread_mutex_unlock(mu);
	return false;
}

/* vfs tells something of ino. */
static struct vfs_play_inode *play_inode(const struct inode *ino, bool locked)
{
	struct vfs_play_inode *p = container_of((uintptr_t)ino, struct vfs_play_inode, ino);

	cr_assert(p->begun, "an inode that has not begun, or has ended");
	cr_assert_eq(shard_is_locked(ino), locked);
	return p;
}

/* The front end has just forgotten it. Whoever tells needs a reference of its own. */
static void play_forgets(struct vfs_play_inode *p)
{
	if (!p->drops)
		return;
	p->drops = false;
	vfs_play_seen.forgotten++;
	inode_put(&vfs.inodes, &p->ino, 1);
}

static void play_op_ends(struct vfs_op *op)
{
	play_op_of(op)->nr = 0;
}

static bool play_begins_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct vfs_play_inode *p = vfs_play_inode(ino);
	static const struct vfs_play_inode none;

	(void)attr;
	cr_assert(t == &vfs.inodes && shard_is_locked(ino));
	cr_assert_eq(memcmp(&p->begun, &none.begun, sizeof(*p) - offsetof(struct vfs_play_inode, begun)), 0);
	p->begun = true;
	begun++;
	return true;
}

static void play_ends(struct inode *ino)
{
	struct vfs_play_inode *p = vfs_play_inode(ino);

	cr_assert(p->begun && !p->drops);
	p->begun = false;
	begun--;
}

static void play_found_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
			      uint64_t since, bool created)
{
	(void)t, (void)attr, (void)since, (void)created;
	play_inode(ino, true);
}

static bool play_may_list_locked(const struct inode *ino, uint64_t since)
{
	(void)since;
	play_inode(ino, true);
	return true;
}

static void play_listed_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since)
{
	(void)attr, (void)since;
	play_inode(ino, true);
}

static void play_spoilt(struct inode *ino)
{
	struct vfs_play_inode *p = play_inode(ino, false);

	p->spoilt++;
	play_forgets(p);
}

static bool play_attr_locked(struct vfs_op *op, double timeo)
{
	cr_assert(op->waited && timeo >= 0);
	play_inode(op->ino, true);
	return true;
}

static void play_changed_locked(struct inode *ino, const struct nfs_attr *attr)
{
	(void)attr;
	play_inode(ino, true);
}

static void play_marked_locked(struct inode *ino, uint64_t before, uint64_t after)
{
	cr_assert_neq(before, after);
	play_inode(ino, true);
}

static void play_written(struct inode *ino, uint64_t end)
{
	struct vfs_play_inode *p = play_inode(ino, false);

	if (p->there < end)
		p->there = end;
	play_forgets(p);
}

static void play_data_lost(struct inode *ino)
{
	struct vfs_play_inode *p = play_inode(ino, false);

	p->lost++;
	play_forgets(p);
}

static bool play_end_known(struct inode_table *t, struct inode *ino, uint64_t *end, uint64_t *there)
{
	(void)t;
	play_inode(ino, false);
	return vfs_play_end_known && vfs_play_end_known(ino, end, there);
}

static void play_file_begins_locked(struct vfs_op *op, struct file *f, bool only)
{
	(void)op, (void)only;
	cr_assert_eq(atomic_load(&f->refs), 0);
	play_inode(f->ino, true);
}

static void play_file_ends(struct vfs_lane *l, struct file *f, bool silly)
{
	(void)l, (void)silly;
	cr_assert_eq(atomic_load(&f->refs), 0);
	play_inode(f->ino, false);
}

static void play_lanes_changed(struct vfs_lane *l)
{
	(void)l;
}

static bool play_tick(struct vfs_lane *l, uint64_t now_ns)
{
	(void)l, (void)now_ns;
	return false;
}

static const struct vfs_front play_front = {
	.op_size = sizeof(struct play_op),
	.inode_size = sizeof(struct vfs_play_inode),
	.op_ends = play_op_ends,
	.inode_begins_locked = play_begins_locked,
	.inode_ends = play_ends,
	.inode_found_locked = play_found_locked,
	.may_list_locked = play_may_list_locked,
	.inode_listed_locked = play_listed_locked,
	.attr_spoilt = play_spoilt,
	.attr_locked = play_attr_locked,
	.changed_locked = play_changed_locked,
	.marked_locked = play_marked_locked,
	.written = play_written,
	.data_lost = play_data_lost,
	.end_known = play_end_known,
	.file_begins_locked = play_file_begins_locked,
	.file_ends = play_file_ends,
	.lanes_changed = play_lanes_changed,
	.tick = play_tick,
	.buffers_freed = play_lanes_changed,
};

/* ---- life ---- */

void vfs_play_gone(void)
{
	for (unsigned i = 0; i < vfs.nlanes; i++) {
		list_for_each(n, &vfs.lanes[i]->active) {
			struct play_op *p = container_of(n, struct play_op, op.node);

			vfs_play_seen.waited += p->nr != 0;
			play_answer(p, -ENOTCONN);
		}
	}
	vfs_play_catch_up();
}

void vfs_play_start(const struct nfs_version *version, const struct nfs_fh *fh,
		    const struct nfs_attr *attr, unsigned write_behind)
{
	struct nfs_client *cl = lane_play_start(version);
	struct nfs_attr mine = *attr;

	vfs.lanes = calloc(2, sizeof(*vfs.lanes));
	vfs_init(&vfs, &(struct vfs_config){
		.acregmin = vfs.inodes.acregmin, .acregmax = vfs.inodes.acregmax,
		.acdirmin = vfs.inodes.acdirmin, .acdirmax = vfs.inodes.acdirmax,
		.write_behind = write_behind, .place = "/mnt", .rdirplus = true,
	}, &play_front, cl);
	memset(play_lanes, 0, sizeof(play_lanes));
	vl = vfs.lanes[0] = &play_lanes[0];
	vfs.lanes[1] = &play_lanes[1];
	vfs_lane_init(vl, &vfs, 0);
	vfs_this_lane = vl;
	lane.front = vl;
	cl->cfg.front = &vfs_nfs_front;
	root = inode_get(&vfs.inodes, fh, &mine, 0, NULL, 0, mono_ns());
	vfs.root_id = root->id;
	vfs_play_buffers();
}

void vfs_play_end(void)
{
	cr_assert(list_empty(&left));
	vfs_play_mid = vfs_play_big = NULL;
	vfs_lane_fini(vl);
	vfs_fini(&vfs);
	cr_assert_eq(begun, 0, "an inode has not ended");
	free(vfs.lanes);
	lane_play_end();
}
