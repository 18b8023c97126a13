/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See front.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "front.h"
#include "setup.h"

struct inode *front_root;
static struct front_lane { struct vfs_lane vl; struct arena_buf *mid, *big; } *lanes;
static struct vfs vfs;
static struct options opt;
static struct nfs_config client;
static struct rpc_cred me;
static _Atomic unsigned turn;

/* ---- an operation, and who waits for it ---- */

struct front_op { struct vfs_op op; struct ask *ask; };

struct ask *front_ask(struct vfs_op *op)
{
	return container_of(op, struct front_op, op)->ask;
}

void front_end(struct vfs_op *op)
{
	struct ask *a = front_ask(op);

	a->status = op->call.res.status;
	a->attr = op->call.res.attr;
	vfs_op_free(op);
	sem_post(&a->ended);
}

static struct inode *front_ref(struct inode *ino)
{
	if (ino)
		inode_ref(ino);
	return ino;
}

static void front_begin(struct loop_msg *m)
{
	struct ask *a = container_of(m, struct ask, msg);
	struct vfs_op *op = vfs_op_new(vfs_this_lane);

	if (!op)
		abort();
	container_of(op, struct front_op, op)->ask = a;
	op->cred = me;
	op->waited = true;
	op->end = front_end;
	op->ino = front_ref(a->file ? a->file->f.ino : a->ino);
	op->ino2 = front_ref(a->ino2);
	if (a->file) {
		file_ref(&a->file->f);
		op->file = &a->file->f;
		op->call.open = op->file->open;
	}
	if (a->name)
		op->call.args.name = strcpy(op->name, a->name);
	if (a->name2)
		strcpy(op->name2, a->name2);
	a->begin(op);
}

int front_do(struct ask *a)
{
	sem_init(&a->ended, 0, 0);
	a->msg.fn = front_begin;
	loop_post(lanes[turn++ % vfs.nlanes].vl.lane->loop, &a->msg);
	while (sem_wait(&a->ended))
		;
	sem_destroy(&a->ended);
	return a->status;
}

/* ---- names ---- */

void front_put(struct inode *ino)
{
	inode_put(&vfs.inodes, ino, 1);
}

void front_put_stream(struct dirstream *s)
{
	dirstream_put(&vfs.inodes, s);
}

static void front_found(struct vfs_op *op)
{
	struct nfs_results *res = &op->call.res;

	if (!res->status)
		front_ask(op)->found = inode_get(&vfs.inodes, &res->fh, &res->attr, op->ino->id, op->name,
						 strlen(op->name), op->start_ns);
	front_end(op);
}

void front_lookup(struct vfs_op *op)
{
	op->end = front_found;
	vfs_lookup(op);
}

void front_list(struct vfs_op *op)
{
	op->list.stream = front_ask(op)->stream;
	vfs_list(op, front_ask(op)->off);
}

/* ---- open files ---- */

static void front_opened(struct vfs_op *op, struct inode *ino)
{
	struct front_file *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->flags = front_ask(op)->flags;
	f->fileid = op->call.res.attr.fileid;
	file_begins(&f->f, op, ino);
	front_ask(op)->opened = f;
}

static void front_open_ends(struct vfs_op *op)
{
	if (!op->call.res.status)
		front_opened(op, op->ino);
	front_end(op);
}

void front_open(struct vfs_op *op)
{
	op->end = front_open_ends;
	op->call.args.file.flags = front_ask(op)->flags & O_ACCMODE;
	op->call.args.file.exec = false;
	vfs_open(op, false);
}

static void front_created(struct vfs_op *op)
{
	struct nfs_results *res = &op->call.res;
	struct inode *ino;

	if (!res->status) {
		ino = inode_get_created(&vfs.inodes, &res->fh, &res->attr, op->ino->id, op->name,
					strlen(op->name), op->start_ns);
		front_opened(op, ino);
		front_put(ino);
	}
	front_end(op);
}

void front_create(struct vfs_op *op)
{
	op->call.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_MODE, .mode = 0644 };
	op->call.args.file.flags = front_ask(op)->flags;
	op->end = front_created;
	vfs_create(op);
}

static void front_closed(struct vfs_op *op)
{
	op->call.res.status = behind_error(op->file, true);
	file_put(op->vl, op->file);     /* the opener's; op has one */
	front_end(op);
}

void front_close(struct vfs_op *op)
{
	behind_settle(op, op->ino, true, front_closed);
}

/* ---- data ---- */

static void front_has_read(struct vfs_op *op)
{
	struct ask *a = front_ask(op);

	for (unsigned i = 0; !op->call.res.status && i < op->data.niov; i++) {
		memcpy((char *)a->mem + a->done, op->data.iov[i].iov_base, op->data.iov[i].iov_len);
		a->done += op->data.iov[i].iov_len;
	}
	front_end(op);
}

void front_read(struct vfs_op *op)
{
	struct ask *a = front_ask(op);

	op_data_begins(op);
	op->end = front_has_read;
	op->data.start = a->off;
	op->data.size = a->len;
	op->data.cached = !(a->file->flags & O_DIRECT);
	vfs_read(op);
}

static void front_has_written(struct vfs_op *op)
{
	front_ask(op)->done = op->data.filled;
	front_end(op);
}

static void front_writes_again(struct loop_timer *t)
{
	front_write(container_of(t, struct vfs_op, call.eng.timer));
}

void front_write(struct vfs_op *op)
{
	struct front_lane *fl = container_of(op->vl, struct front_lane, vl);
	struct ask *a = front_ask(op);

	op_data_begins(op);
	op->end = front_has_written;
	op->data.start = op->call.args.io.offset = a->off;
	op->data.size = a->len;
	op->data.quick = !(a->file->flags & (O_DIRECT | O_DSYNC));
	if (!op_data_buffers(op->vl, &fl->mid, &fl->big)) {
		loop_timer_init(&op->call.eng.timer, front_writes_again);
		vfs_wait_more(op);
		return;
	}
	op_data_copy(op, &fl->mid, &fl->big, a->mem);
	vfs_write(op);
}

/* ---- what vfs tells: nothing is kept that could be wrong ---- */

static void no_op(struct vfs_op *op) { (void)op; }
static void no_lane(struct vfs_lane *vl) { (void)vl; }
static bool no_tick(struct vfs_lane *vl, uint64_t ns) { return !vl && !ns; }
static bool is_told(struct vfs_op *op, double timeo) { return op && timeo >= 0; }
static void no_open(struct vfs_op *op, struct file *f, bool only) { (void)op, (void)f, (void)only; }
static void no_inode(struct inode *i) { (void)i; }
static void no_end(struct inode *i, uint64_t end) { (void)i, (void)end; }
static void no_attr(struct inode *i, const struct nfs_attr *a) { (void)i, (void)a; }
static void no_mark(struct inode *i, uint64_t before, uint64_t after) { (void)i, (void)before, (void)after; }
static void no_listed(struct inode *i, const struct nfs_attr *a, uint64_t ns) { (void)i, (void)a, (void)ns; }
static void no_file(struct vfs_lane *vl, struct file *f, bool silly) { (void)vl, (void)f, (void)silly; }
static bool may_list(const struct inode *i, uint64_t ns) { return i && ns; }
static bool begins(struct inode_table *t, struct inode *i, const struct nfs_attr *a) { return t && i && a; }
static bool end_known(struct inode_table *t, struct inode *i, uint64_t *end, uint64_t *there)
{
	return !t && !i && !end && !there;      /* not here */
}
static void no_found(struct inode_table *t, struct inode *i, const struct nfs_attr *a, uint64_t ns, bool created)
{
	(void)t, (void)i, (void)a, (void)ns, (void)created;
}

static const struct vfs_front front = {
	.op_size = sizeof(struct front_op), .inode_size = sizeof(struct inode), .op_ends = no_op,
	.inode_begins_locked = begins, .inode_ends = no_inode, .inode_found_locked = no_found,
	.may_list_locked = may_list, .inode_listed_locked = no_listed, .attr_spoilt = no_inode,
	.changed_locked = no_attr, .written = no_end, .data_lost = no_inode, .end_known = end_known,
	.attr_locked = is_told, .file_begins_locked = no_open, .file_ends = no_file,
	.marked_locked = no_mark, .lanes_changed = no_lane, .buffers_freed = no_lane, .tick = no_tick,
};

/* ---- life ---- */

static void front_attach(struct nfs_lane *l, void *arg)
{
	(void)arg;
	vfs_lane_attach(&lanes[l->index].vl);
}

static void front_detach(struct nfs_lane *l, void *arg)
{
	(void)arg;
	vfs_lane_detach(&lanes[l->index].vl);
}

static void front_root_found(struct vfs_op *op)
{
	front_root = inode_get(&vfs.inodes, &vfs.cl->root_fh, &op->call.res.attr, 0, NULL, 0, op->start_ns);
	front_end(op);
}

static void front_find_root(struct vfs_op *op)
{
	op->call.args.fh = &vfs.cl->root_fh;
	vfs_start(op, NFS_OP_GETATTR, front_root_found);
}

int front_start(const char *source, const char *options)
{
	char us[] = "cto", at[] = "/", o[] = "-o";
	char *argv[] = { us, (char *)(uintptr_t)source, at, o, (char *)(uintptr_t)options, NULL };
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	struct vfs_config cfg;
	int rc = options_parse(&opt, 5, argv, &eb);

	if (!rc)
		rc = setup_client(&client, &opt, &eb);
	if (!rc)
		rc = nfs_client_new(&client, 60, &cl, &eb);
	if (rc) {
		log_err("%s", eb.text);
		return rc;
	}
	cfg = setup_vfs(&opt);
	me = (struct rpc_cred){ .uid = geteuid(), .gid = getegid() };
	vfs_init(&vfs, &cfg, &front, cl);
	vfs.lanes = calloc(vfs.nlanes, sizeof(*vfs.lanes));
	lanes = calloc(vfs.nlanes, sizeof(*lanes));
	for (unsigned i = 0; i < vfs.nlanes; i++) {
		vfs.lanes[i] = &lanes[i].vl;
		vfs_lane_init(&lanes[i].vl, &vfs, i);
	}
	nfs_each_lane(cl, front_attach, NULL);
	rc = front_do(&(struct ask){ .begin = front_find_root });
	vfs.root_id = front_root->id;
	return rc;
}

void front_stop(void)
{
	vfs_drain(&vfs);
	nfs_each_lane(vfs.cl, front_detach, NULL);
	vfs_stop(&vfs);
	while (!nfs_client_free(vfs.cl))
		;
	for (unsigned i = 0; i < vfs.nlanes; i++)
		vfs_lane_fini(&lanes[i].vl);
	vfs_fini(&vfs);
	free(lanes);
	free(vfs.lanes);
	options_free(&opt);
}
