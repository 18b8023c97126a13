/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mount: what we request from the kernel, a device for each lane, the root. Its end:
 * ending.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include "fuse/fs_impl.h"
#include "ring/rings.h"

#define INIT_TIMEOUT_S 20
/* The most background requests (read-ahead, asynchronous direct I/O) that the kernel has
 * under way. Its default of 12 would leave lanes idle. */
#define BACKGROUND 128u
/* From this minor version on (Linux 6.6) a direct write of an open file that is not O_DIRECT drops
 * the pages in its way. */
#define DROPS_PAGES 39u

/* ---- libfuse ---- */

/* libfuse's last message. If mounting fails it says why. */
static _Thread_local struct errbuf fuse_said;

static void __attribute__((format(printf, 2, 0)))
on_fuse_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
	char text[sizeof(fuse_said.text)];
	size_t len;

	vsnprintf(text, sizeof(text), fmt, ap);
	len = strlen(text);
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	if (level >= FUSE_LOG_DEBUG)
		log_debug("%s", text);
	else
		memcpy(fuse_said.text, text, len + 1);
}

static ssize_t no_read(int fd, void *buf, size_t len, void *userdata)
{
	errno = ENOSYS;         /* lanes read from their own clones */
	return -1;
}

static void session_want(struct fuse_conn_info *conn, unsigned cap, bool on)
{
	if (on && (conn->capable & cap))
		conn->want |= cap;
	else
		conn->want &= ~cap;
}

static void fs_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	session_want(conn, FUSE_CAP_ASYNC_READ, true);
	/* After an asynchronous direct write the kernel keeps pages that were filled meanwhile.
	 * With the write-back cache no attribute makes it drop them (believed.h). */
	session_want(conn, FUSE_CAP_ASYNC_DIO, !fs->cfg.vfs.solo);
	session_want(conn, FUSE_CAP_PARALLEL_DIROPS, true);
	session_want(conn, FUSE_CAP_READDIRPLUS, fs->cfg.vfs.rdirplus);
	/* Without AUTO the kernel always sends READDIRPLUS: attributes come with the names at
	 * no further cost, and then stat() costs nothing. */
	session_want(conn, FUSE_CAP_READDIRPLUS_AUTO, false);
	/* The kernel drops a file's pages when it sees that the file has changed. */
	session_want(conn, FUSE_CAP_AUTO_INVAL_DATA, !fs->cfg.vfs.solo);
	/* With it the kernel ignores the server's size and times. */
	session_want(conn, FUSE_CAP_WRITEBACK_CACHE, fs->cfg.vfs.solo);
	/* Off: data has to be in registered memory. */
	session_want(conn, FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE,
		     false);
	/* Off: for a SETATTR of its own after the open the kernel locks the file. With it OPEN would
	 * truncate, and the kernel takes the size for 0 some time later: who appends meanwhile does
	 * so at the old end, leaves a hole, and then overwrites what is there. */
	session_want(conn, FUSE_CAP_ATOMIC_O_TRUNC, false);
	/* The server clears set-id bits: see fs_lane.c. */
	session_want(conn, FUSE_CAP_HANDLE_KILLPRIV, true);
	/* Off: the kernel handles locks, local to this machine. */
	session_want(conn, FUSE_CAP_POSIX_LOCKS, fs->cfg.posix_locks);
	session_want(conn, FUSE_CAP_FLOCK_LOCKS, fs->cfg.flock_locks);
	/* The kernel looks up "." and ".." for handles of name_to_handle_at(2). */
	session_want(conn, FUSE_CAP_EXPORT_SUPPORT, true);
	/* The kernel applies the caller's umask. A server that can do so knows, too, where there is a
	 * default access control list, which replaces the umask. */
	session_want(conn, FUSE_CAP_DONT_MASK, atomic_load(&fs->vfs.cl->has) & NFS_HAS_UMASK);
	fs->tells_umask = conn->want & FUSE_CAP_DONT_MASK;
	conn->max_write = fs_request_most(fs->vfs.cl->wsize);
	conn->max_read = fs_request_most(fs->vfs.cl->rsize);
	conn->max_readahead = fs_request_most(fs->vfs.cl->rsize);
	conn->max_background = BACKGROUND;
	conn->congestion_threshold = BACKGROUND * 3 / 4;
	conn->time_gran = 1;
	/* With the write-back cache the pages are what is written. */
	fs->writes_past = conn->proto_minor >= DROPS_PAGES && !fs->cfg.vfs.solo;
	sem_post(&fs->inited);
}

static const struct fuse_lowlevel_ops fs_ops = {
	.init = fs_init,
	.lookup = fs_lookup,
	.forget = fs_forget,
	.forget_multi = fs_forget_multi,
	.getattr = fs_getattr,
	.setattr = fs_setattr,
	.readlink = fs_readlink,
	.access = fs_access,
	.statfs = fs_statfs,
	.getxattr = fs_getxattr,
	.listxattr = fs_listxattr,
	.setxattr = fs_setxattr,
	.removexattr = fs_removexattr,
	.mknod = fs_mknod,
	.mkdir = fs_mkdir,
	.symlink = fs_symlink,
	.link = fs_link,
	.create = fs_create,
	.unlink = fs_unlink,
	.rmdir = fs_rmdir,
	.rename = fs_rename,
	.open = fs_open,
	.read = fs_read,
	.write_buf = fs_write_buf,
	.flush = fs_flush,
	.fsync = fs_fsync,
	.lseek = fs_lseek,
	.fallocate = fs_fallocate,
	.copy_file_range = fs_copy_file_range,
	.release = fs_release,
	.opendir = fs_opendir,
	.readdir = fs_readdir,
	.readdirplus = fs_readdirplus,
	.releasedir = fs_releasedir,
	.fsyncdir = fs_fsyncdir,
	.getlk = fs_getlk,
	.setlk = fs_setlk,
	.flock = fs_flock,
	.ioctl = fs_ioctl,
};

static struct fuse_session *new_session(const char *fuse_opts, uint32_t max_read, bool debug,
					const struct fuse_lowlevel_ops *ops, void *arg,
					struct errbuf *eb)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *se = NULL;
	char *opts = NULL;

	fuse_set_log_func(on_fuse_log);
	if (asprintf(&opts, "%s,max_read=%u", fuse_opts, max_read) < 0) {
		err_set(eb, -ENOMEM, "out of memory");
		return NULL;
	}
	if (!fuse_opt_add_arg(&args, "nfsrdma-fuse") && !fuse_opt_add_arg(&args, "-o") &&
	    !fuse_opt_add_arg(&args, opts) && (!debug || !fuse_opt_add_arg(&args, "-d")))
		se = fuse_session_new(&args, ops, sizeof(*ops), arg);
	if (!se)
		err_set(eb, -EINVAL, "libfuse refuses the mount options '%s': %s", opts, fuse_said.text);
	fuse_opt_free_args(&args);
	free(opts);
	return se;
}

int fs_session_new(struct fs *fs, struct errbuf *eb)
{
	fs->se = new_session(fs->cfg.fuse_opts, fs_request_most(fs->vfs.cl->rsize), fs->cfg.debug,
			     &fs_ops, fs, eb);
	return fs->se ? 0 : -EINVAL;
}

/* fusermount3, which mounts for ordinary users, has written its reason to standard error itself. */
static const char *fusermount_remedy(void)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return "fusermount3 is not allowed to become root here (no_new_privs, as in a sandbox or container); "
		       "remedy: be root in its user namespace, with CAP_SYS_ADMIN "
		       "(bwrap --uid 0 --cap-add CAP_SYS_ADMIN), or mount outside and share the mount";
	return "fusermount3 refused, for the reason in the line above (in the background, with bg, there is none: "
	       "mount without bg to see it); else: is it installed (package fuse3), and is /dev/fuse there (modprobe fuse)?";
}

/* If mount(2) has failed, the reason is in fuse_said. */
static int libfuse_mount(struct fuse_session *se, const char *mountpoint, struct errbuf *eb)
{
	if (fuse_session_mount(se, mountpoint) == 0)
		return 0;
	return err_set(eb, -EPERM, "cannot mount on '%s': %s", mountpoint,
		       fuse_said.text[0] ? fuse_said.text : fusermount_remedy());
}

int fs_kern_mount(const char *fuse_opts, uint32_t max_read, const char *mountpoint,
		  struct errbuf *eb)
{
	static const struct fuse_lowlevel_ops none;
	struct fuse_session *se = new_session(fuse_opts, max_read, false, &none, NULL, eb);
	int rc = se ? libfuse_mount(se, mountpoint, eb) : -EINVAL;

	if (!rc) {
		rc = fcntl(fuse_session_fd(se), F_DUPFD_CLOEXEC, 0);
		if (rc < 0)
			rc = err_set(eb, -errno, "cannot mount on '%s': %s", mountpoint, strerror(errno));
	}
	if (se)
		fuse_session_destroy(se);       /* its descriptor; the mount stays */
	return rc;
}

/* With "/dev/fd/N" libfuse takes what is mounted already. */
static int get_device(struct fs *fs, struct errbuf *eb)
{
	char name[32];
	int fd;

	if (!fs->cfg.mount)
		return libfuse_mount(fs->se, fs->cfg.vfs.place, eb);
	fd = fs->cfg.mount(fs_request_most(fs->vfs.cl->rsize), eb);
	if (fd < 0)
		return fd;
	if (eb->text[0])
		log_warn("%s", eb->text);
	eb->text[0] = '\0';
	snprintf(name, sizeof(name), "/dev/fd/%d", fd);
	return libfuse_mount(fs->se, name, eb);
}

static int session_mount(struct fs *fs, struct errbuf *eb)
{
	struct fuse_custom_io io = { .writev = fs_lane_writev, .read = no_read };
	int rc = get_device(fs, eb);

	if (rc)
		return rc;
	rc = fuse_session_custom_io(fs->se, &io, fuse_session_fd(fs->se));
	if (!rc)
		return 0;
	fs_take_away(fs, FS_UNMOUNT_LAZY);
	return err_set(eb, rc, "libfuse refuses custom I/O: it is older than 3.14");
}

/* ---- lanes ---- */

static int lanes_init(struct fs *fs, struct errbuf *eb)
{
	for (unsigned i = 0; i < fs->vfs.nlanes; i++) {
		struct fs_lane *fl = &fs->lanes[i];
		int rc;

		fs_lane_init(fs, i);
		rc = fs_dev_clone.open(fl, fuse_session_fd(fs->se), &fl->dev, eb);
		if (rc)
			return rc;
	}
	return 0;
}

static int wait_init(struct fs *fs, struct errbuf *eb)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += INIT_TIMEOUT_S;
	while (sem_clockwait(&fs->inited, CLOCK_MONOTONIC, &ts) < 0)
		if (errno != EINTR)
			return err_set(eb, -ETIMEDOUT, "the kernel sent no FUSE_INIT for '%s' within %d s",
				       fs->cfg.vfs.place, INIT_TIMEOUT_S);
	return 0;
}

/* ---- the root ---- */

struct root_call {
	struct nfs_call c;
	struct rpc_cred cred;
};

static int root_init(struct fs *fs, struct errbuf *eb)
{
	struct root_call *q = calloc(1, sizeof(*q));
	struct nfs_call *c = &q->c;
	bool abandoned;
	int rc;

	if (!q)
		return err_set(eb, -ENOMEM, "out of memory");
	q->cred = fs->vfs.cl->own;
	c->cred = &q->cred;
	c->args.fh = &fs->vfs.cl->root_fh;
	c->op = NFS_OP_GETATTR;
	rc = nfs_call_any(&fs->vfs.cl->server, c, 0, &abandoned);
	if (!rc && !S_ISDIR(c->res.attr.mode))
		rc = -ENOTDIR;
	if (!rc) {
		fs->root = inode_get(&fs->vfs.inodes, &fs->vfs.cl->root_fh, &c->res.attr, 0, NULL, 0,
				     mono_ns());
		fs->vfs.root_id = fs->root ? fs->root->id : 0;
		rc = fs->root ? 0 : -ENOMEM;
		fs->fsid_major = c->res.attr.fsid_major;
		fs->fsid_minor = c->res.attr.fsid_minor;
	}
	/* For silent_answer(). If the server refuses STATFS we do without it. */
	for (unsigned i = 0; i < fs->vfs.nlanes && !rc; i++)
		fs_stat(fs, &fs->lanes[i].root, &c->res.attr);
	c->op = NFS_OP_STATFS;
	if (!rc && nfs_call_any(&fs->vfs.cl->server, c, 0, &abandoned) == 0)
		for (unsigned i = 0; i < fs->vfs.nlanes; i++)
			fs_statfs_keep(&fs->lanes[i], &c->res.statfs);
	if (!abandoned)
		free(q);
	if (rc)
		return err_set(eb, rc, "cannot use '%s' on %s as a root directory: %s",
			       fs->vfs.cl->cfg.export, fs->vfs.cl->cfg.server, strerror(-rc));
	return 0;
}

/* ---- read-ahead ---- */

static void session_nothing(struct nfs_lane *l, void *arg)
{
}

/* Lets the kernel read a whole READ ahead, if this process may. */
static void let_kernel_read_ahead(struct fs *fs)
{
	int rc;

	if (!fs->cfg.vfs.readahead || !fs->cfg.read_ahead)
		return;
	/* Then FUSE_INIT has been answered. */
	nfs_each_lane(fs->vfs.cl, session_nothing, NULL);
	rc = fs->cfg.read_ahead(fs_request_most(fs->vfs.cl->rsize) / 1024);
	log_debug("the kernel's read-ahead: %s", rc ? strerror(-rc) : "set");
}

/* ---- life ---- */

int fs_new(const struct fs_config *cfg, struct nfs_client *cl, struct fs **out,
	   struct errbuf *eb)
{
	struct fs *fs = calloc(1, sizeof(*fs));
	int rc;

	if (!fs)
		return err_set(eb, -ENOMEM, "out of memory");
	*out = fs;
	fs->cfg = *cfg;
	sem_init(&fs->ended, 0, 0);
	sem_init(&fs->inited, 0, 0);
	handles_init(&fs->files);
	handles_init(&fs->dirs);
	sentback_init(&fs->back);
	dropper_init(&fs->dropper);
	fs->cfg.vfs.negative_timeo = fs_negative_timeo(cfg);
	fs->cfg.vfs.dirnames = cfg->lookupcache != FS_LOOKUPCACHE_NONE;
	vfs_init(&fs->vfs, &fs->cfg.vfs, &fs_front, cl);
	fs->vfs.lanes = calloc(cl->nlanes, sizeof(struct vfs_lane *));
	fs->lanes = calloc(cl->nlanes, sizeof(*fs->lanes));
	rc = fs->lanes && fs->vfs.lanes ? root_init(fs, eb) : err_set(eb, -ENOMEM, "out of memory");
	if (!rc)
		rc = fs_session_new(fs, eb);
	if (!rc && cl->arena.lent.base && !cfg->vfs.solo && rings_new(&fs->rings, &fs->vfs, &cfg->rings))
		log_warn("this mount has no rings: out of memory");
	return rc;
}

void fs_listen(struct fs *fs, int fd, const char *name)
{
	if (fs->rings)
		rings_listen(fs->rings, fd, name);
	else
		close(fd);
}

void fs_each_program(struct fs *fs, void (*look)(const struct rings_now *now, void *arg), void *arg)
{
	if (fs->rings)
		rings_each(fs->rings, look, arg);
}

bool fs_has_rings(const struct fs *fs)
{
	return fs->rings;
}

int fs_mount(struct fs *fs, struct errbuf *eb)
{
	int rc = session_mount(fs, eb);

	if (rc)
		return rc;
	rc = lanes_init(fs, eb);
	if (!rc) {
		nfs_each_lane(fs->vfs.cl, fs_lane_attach, fs);
		rc = wait_init(fs, eb);
		if (rc)
			nfs_each_lane(fs->vfs.cl, fs_lane_detach, fs);
	}
	if (rc)
		fs_take_away(fs, FS_UNMOUNT_LAZY);
	else
		let_kernel_read_ahead(fs);
	return rc;
}

void fs_change(struct fs *fs, const struct vfs_config *cfg)
{
	struct vfs_config vfs = *cfg;

	vfs.negative_timeo = fs_negative_timeo(&(struct fs_config){ .vfs = vfs, .lookupcache = fs->cfg.lookupcache });
	vfs_change(&fs->vfs, &vfs);
}

uint64_t fs_inode_count(const struct fs *fs)
{
	return atomic_load(&fs->vfs.inodes.count);
}

uint64_t fs_held_bytes(const struct fs *fs)
{
	return atomic_load(&fs->vfs.behind.bytes);
}

void fs_free(struct fs *fs)
{
	if (!fs || fs->dropper.abandoned)
		return;
	for (unsigned i = 0; fs->lanes && i < fs->vfs.nlanes; i++)
		fs_lane_fini(&fs->lanes[i]);
	rings_free(fs->rings);
	if (fs->se)
		fuse_session_destroy(fs->se);
	vfs_fini(&fs->vfs);
	handles_fini(&fs->files);
	handles_fini(&fs->dirs);
	sentback_fini(&fs->back);
	dropper_fini(&fs->dropper);
	sem_destroy(&fs->ended);
	sem_destroy(&fs->inited);
	free(fs->lanes);
	free(fs->vfs.lanes);
	free(fs);
}
