/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fs_play.h"

struct fs fs;
struct fs_lane *fl;
struct fs_play_dev fs_play_dev;
struct fs_play_answer answer;
struct fs_play_notice notice;
bool fs_play_refuse;
void (*fs_play_answered)(const struct fuse_out_header *h);

static int device[2];
static int drops[2];                    /* the kernel's end; the session's device */

/* ---- what the kernel gets ---- */

static void catch_notice(const struct fuse_out_header *h, const struct iovec *iov)
{
	cr_assert_eq(h->error, FUSE_NOTIFY_INVAL_INODE);
	cr_assert_eq(iov->iov_len, sizeof(notice.what));
	memcpy(&notice.what, iov->iov_base, sizeof(notice.what));
	notice.count++;
	notice.answers = answer.count;
}

static void catch_answer(const struct fuse_out_header *h, const struct iovec *iov, int count)
{
	answer.count++;
	answer.error = h->error;
	answer.at = count ? iov[0].iov_base : NULL;
	answer.len = 0;
	for (int i = 0; i < count; i++) {
		cr_assert_leq(answer.len + iov[i].iov_len, sizeof(answer.data));
		memcpy(answer.data + answer.len, iov[i].iov_base, iov[i].iov_len);
		answer.len += iov[i].iov_len;
	}
	if (fs_play_answered)
		fs_play_answered(h);
}

static ssize_t play_answer(struct fs_dev *d, const struct iovec *iov, int count)
{
	const struct fuse_out_header *h = iov[0].iov_base;

	(void)d;
	if (fs_play_refuse) {
		errno = ENOENT;
		return -1;
	}
	if (h->unique)
		catch_answer(h, iov + 1, count - 1);
	else
		catch_notice(h, iov + 1);
	return (ssize_t)h->len;
}

bool fs_play_drops(unsigned ms)
{
	struct pollfd p = { .fd = drops[0], .events = POLLIN };
	struct { struct fuse_out_header h; struct fuse_notify_inval_inode_out what; } said;

	if (poll(&p, 1, (int)ms) != 1)
		return false;
	cr_assert_eq(recv(drops[0], &said, sizeof(said), 0), sizeof(said));
	cr_assert_eq(said.h.error, FUSE_NOTIFY_INVAL_INODE);
	cr_assert(said.what.off == 0 && said.what.len == 0, "all pages");
	return true;
}

void fs_play_drops_wait(void)
{
	char none[4096] = "";

	while (send(drops[1], none, sizeof(none), MSG_DONTWAIT) > 0)
		;
}

void fs_play_drops_go_on(void)
{
	char none[4096];

	while (recv(drops[0], none, sizeof(none), MSG_DONTWAIT | MSG_PEEK) == sizeof(none))
		recv(drops[0], none, sizeof(none), MSG_DONTWAIT);
}

static ssize_t no_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)userdata;
	return -1;
}

/* ---- what it asks ---- */

void fs_play_buffers(void)
{
	op_data_buffers(&fl->vl, &fs_play_dev.mid, &fs_play_dev.big);
}

static bool play_take(struct fs_dev *d, struct fs_req *r, const void *data)
{
	(void)d;
	(void)data;
	op_data_take(&r->op, &fs_play_dev.mid, &fs_play_dev.big);
	return true;
}

static void play_close(struct fs_dev *d)
{
	(void)d;
}

/* It is never attached, so that the loop has nothing to do with it. */
static void play_tick(struct fs_dev *d, uint64_t now_ns)
{
	(void)d;
	(void)now_ns;
}

static void play_aside(struct fs_dev *d, bool aside)
{
	(void)d;
	(void)aside;
}

static const struct fs_dev_ops play_ops = {
	.close = play_close, .take = play_take, .answer = play_answer, .tick = play_tick,
	.step_aside = play_aside, .buffers_freed = play_close,
};

/* Whoever was told attributes of the node has taken them in (believed.h). */
static void taken_in(uint64_t node)
{
	struct inode *ino = node == FUSE_ROOT_ID ? fs.root : inode_by_id(&fs.vfs.inodes, node);

	if (!ino)
		return;
	atomic_store(&believed_of(ino)->first.tid, -1);
	for (unsigned i = 0; readback_reads(ino) && i < READBACK_READS; i++)
		atomic_store(&readback_reads(ino)[i].tid, -1);
	if (ino != fs.root)
		inode_put(&fs.vfs.inodes, ino, 1);
}

struct fuse_in_header fs_play_header(uint32_t opcode, uint64_t node, size_t len)
{
	static uint64_t unique = 1;

	taken_in(node);
	return (struct fuse_in_header){
		.len = (uint32_t)(sizeof(struct fuse_in_header) + len), .opcode = opcode,
		.unique = unique++, .nodeid = node,
	};
}

void fs_play_tell(struct inode *ino)
{
	struct nfs_attr attr = { .mode = S_IFREG, .change = ino->change, .size = ino->size, .mtime = ino->mtime };

	inode_lock(&fs.vfs.inodes, ino);
	believed_listed_locked(ino, &attr, mono_ns());
	inode_unlock(&fs.vfs.inodes, ino);
}

void fs_play_request(const struct fuse_in_header *h, const void *body, size_t len)
{
	struct fuse_buf buf = { .mem = fs_play_dev.head, .size = h->len };

	fs_play_buffers();
	cr_assert_leq(sizeof(*h) + len, FS_HEAD_ROOM);
	memcpy(buf.mem, h, sizeof(*h));
	if (len)
		memcpy((char *)buf.mem + sizeof(*h), body, len);
	answer.count = 0;
	fs_lane_request(fl, &buf);
}

void fs_play_ask(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	struct fuse_in_header h = fs_play_header(opcode, node, len);

	fs_play_request(&h, body, len);
}

uint32_t fs_play_minor = 38, fs_play_flags;
unsigned fs_play_has;

static void ask_init(void)
{
	struct fuse_init_in in = {
		.major = FUSE_KERNEL_VERSION, .minor = fs_play_minor,
		.max_readahead = 131072,
		.flags = FUSE_MAX_PAGES | FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS |
			 FUSE_HANDLE_KILLPRIV | FUSE_EXPORT_SUPPORT | fs_play_flags,
	};

	fs_play_ask(FUSE_INIT, FUSE_ROOT_ID, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
}

int fs_play_attach(void)
{
	static struct fs_dev_ops ops;
	int room = 1 << 20;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, device), 0);
	setsockopt(device[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	cr_assert_eq(fs_dev_clone_new(fl, device[0], &fl->dev), 0);
	ops = fs_dev_clone;
	ops.answer = play_answer;
	fl->dev->ops = &ops;
	fs_lane_attach(&lane, &fs);
	return device[1];
}

void fs_play_detach(void)
{
	fs_lane_detach(&lane, &fs);
	fl->dev->ops->close(fl->dev);   /* and device[0] */
	fl->dev = &fs_play_dev.dev;
	close(device[1]);
}

struct fs_file *fs_play_file(void)
{
	struct fs_file *f = calloc(1, sizeof(*f));

	atomic_init(&f->f.refs, 1);
	f->handle = handle_new(&fs.files, f);
	f->f.ino = fs.root;
	return f;
}

/* ---- life ---- */

void fs_play_start(const struct nfs_version *version, const struct nfs_fh *root,
		   const struct nfs_attr *attr)
{
	static const struct fuse_custom_io io = { .writev = fs_lane_writev, .read = no_read };
	struct errbuf eb = { "" };
	struct nfs_attr mine = *attr;
	struct nfs_client *cl = lane_play_start(version);

	cl->has = fs_play_has;
	fs.cfg.fuse_opts = "fsname=test";
	fs.cfg.vfs.rdirplus = true;
	fs.lanes = calloc(2, sizeof(*fs.lanes));        /* a test may use the second one */
	fs.vfs.lanes = calloc(2, sizeof(*fs.vfs.lanes));
	sem_init(&fs.inited, 0, 0);
	handles_init(&fs.files);
	handles_init(&fs.dirs);
	sentback_init(&fs.back);
	dropper_init(&fs.dropper);
	vfs_init(&fs.vfs, &(struct vfs_config){
		.acregmin = fs.vfs.inodes.acregmin, .acregmax = fs.vfs.inodes.acregmax,
		.acdirmin = fs.vfs.inodes.acdirmin, .acdirmax = fs.vfs.inodes.acdirmax,
		.negative_timeo = fs_negative_timeo(&fs.cfg), .write_behind = fs.cfg.vfs.write_behind,
		.solo = fs.cfg.vfs.solo, .place = fs.cfg.vfs.place, .rdirplus = true,
		.dirnames = fs.cfg.lookupcache != FS_LOOKUPCACHE_NONE,
	}, &fs_front, cl);
	fl = &fs.lanes[0];
	fs_lane_init(&fs, 0);
	fs_play_dev = (struct fs_play_dev){ .dev = { .ops = &play_ops, .fl = fl } };
	fl->dev = &fs_play_dev.dev;
	vfs_this_lane = &fl->vl;
	lane.front = &fl->vl;
	cl->cfg.front = &vfs_nfs_front;
	cr_assert_eq(fs_session_new(&fs, &eb), 0, "%s", eb.text);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, drops), 0);
	cr_assert_eq(fuse_session_custom_io(fs.se, &io, drops[1]), 0);
	fs.root = inode_get(&fs.vfs.inodes, root, &mine, 0, NULL, 0, mono_ns());
	fs.vfs.root_id = fs.root->id;
	ask_init();
}

void fs_play_end(void)
{
	dropper_stop(&fs.dropper, 60);
	fs_lane_fini(fl);
	fuse_session_destroy(fs.se);
	close(drops[0]);
	vfs_fini(&fs.vfs);
	handles_fini(&fs.files);
	handles_fini(&fs.dirs);
	sentback_fini(&fs.back);
	dropper_fini(&fs.dropper);
	free(fs.lanes);
	free(fs.vfs.lanes);
	lane_play_end();
}
