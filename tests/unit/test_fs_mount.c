/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A mount that fails at each of its steps. Everything is undone: no mount, no descriptor and
 * no memory is left (the sanitizers check that). A lane may complete what it has begun,
 * because the lanes live longer than the attempt.
 *
 * The linker's --wrap replaces the steps by functions here (see Makefile.am). The device is
 * a socket. The test has its other end, and plays the kernel.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fake_lane.h"
#include "fuse/fs_impl.h"

enum step { ROOT, SESSION, MOUNT, CUSTOM_IO, OPEN, CLONE, INIT, NONE };

static enum step fails;
static int device[2];           /* the mount's end, the kernel's */
static int mounts;              /* made and not undone */

/* ---- the steps ---- */

int __wrap_fuse_session_mount(struct fuse_session *se, const char *path);
void __wrap_fuse_session_unmount(struct fuse_session *se);
int __wrap_fuse_session_fd(struct fuse_session *se);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *ts);

/* The linked names of these two include the library's symbol version. */
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
#define SESSION_NEW(name) struct fuse_session *name(struct fuse_args *args, \
		const struct fuse_lowlevel_ops *op, size_t size, struct libfuse_version *v, \
		void *userdata)
#define SESSION_CUSTOM_IO(name) int name(struct fuse_session *se, \
		const struct fuse_custom_io *io, size_t size, int fd)

SESSION_NEW(__real_fuse_session_new_versioned);
SESSION_NEW(__wrap_fuse_session_new_versioned);
SESSION_CUSTOM_IO(__real_fuse_session_custom_io_317);
SESSION_CUSTOM_IO(__wrap_fuse_session_custom_io_317);

SESSION_NEW(__wrap_fuse_session_new_versioned)
{
	return fails == SESSION ? NULL :
		__real_fuse_session_new_versioned(args, op, size, v, userdata);
}

/* libfuse closes it with the session. */
SESSION_CUSTOM_IO(__wrap_fuse_session_custom_io_317)
{
	return fails == CUSTOM_IO ? -EINVAL :
		__real_fuse_session_custom_io_317(se, io, size, dup(fd));
}
#else
#define SESSION_NEW(name) struct fuse_session *name(struct fuse_args *args, \
		const struct fuse_lowlevel_ops *op, size_t size, void *userdata)
#define SESSION_CUSTOM_IO(name) int name(struct fuse_session *se, \
		const struct fuse_custom_io *io, int fd)

SESSION_NEW(__real_fuse_session_new);
SESSION_NEW(__wrap_fuse_session_new);
SESSION_CUSTOM_IO(__real_fuse_session_custom_io);
SESSION_CUSTOM_IO(__wrap_fuse_session_custom_io);

SESSION_NEW(__wrap_fuse_session_new)
{
	return fails == SESSION ? NULL : __real_fuse_session_new(args, op, size, userdata);
}

/* The same. */
SESSION_CUSTOM_IO(__wrap_fuse_session_custom_io)
{
	return fails == CUSTOM_IO ? -EINVAL : __real_fuse_session_custom_io(se, io, dup(fd));
}
#endif

int __wrap_fuse_session_mount(struct fuse_session *se, const char *path)
{
	(void)se;
	(void)path;
	if (fails == MOUNT)
		return -1;
	mounts++;
	return 0;
}

void __wrap_fuse_session_unmount(struct fuse_session *se)
{
	(void)se;
	mounts--;
}

int __wrap_fuse_session_fd(struct fuse_session *se)
{
	(void)se;
	return device[0];
}

int __wrap_open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	if (strcmp(path, "/dev/fuse") == 0) {
		errno = EACCES;
		return fails == OPEN ? -1 : dup(device[0]);
	}
	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return __real_open64(path, flags, mode);
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	if (request == FUSE_DEV_IOC_CLONE) {
		errno = ENOTTY;
		return fails == CLONE ? -1 : 0;
	}
	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return __real_ioctl(fd, request, arg);
}

static void request(uint32_t op, const void *arg, uint32_t len)
{
	struct fuse_in_header h = {
		.len = sizeof(h) + len, .opcode = op, .unique = op + 1, .nodeid = 1,
	};
	struct iovec iov[2] = { { &h, sizeof(h) }, { (void *)(uintptr_t)arg, len } };

	cr_assert_eq(writev(device[1], iov, 2), (ssize_t)h.len);
}

static void reply_to(uint32_t op, int error)
{
	char bytes[4096];
	struct fuse_out_header h;

	cr_assert_geq(read(device[1], bytes, sizeof(bytes)), (ssize_t)sizeof(h));
	memcpy(&h, bytes, sizeof(h));
	cr_assert_eq(h.unique, op + 1);
	cr_assert_eq(h.error, error);
}

static void see_calls(struct nfs_lane *l, void *arg)
{
	*(_Atomic bool *)arg = !list_empty(&l->running);
}

/* Until a call is under way, or none is. */
static void await_calls(bool some)
{
	_Atomic bool are;

	do {
		usleep(1000);
		nfs_each_lane(&fake_cl, see_calls, &are);
	} while (are != some);
}

/* The kernel starts to use the mount just too late, and a program uses it at once. */
int __wrap_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *ts)
{
	const struct fuse_init_in init = { .major = 7, .minor = 31 };

	(void)clock;
	(void)ts;
	request(FUSE_INIT, &init, sizeof(init));
	reply_to(FUSE_INIT, 0);
	if (fails != INIT)
		return sem_wait(sem);
	fake_lane_quiet = true;
	request(FUSE_STATFS, NULL, 0);
	await_calls(true);
	errno = ETIMEDOUT;
	return -1;
}

/* ---- the server ---- */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t op = c->op;

	return xdr_uint32_t(x, &op);
}

static int decode(struct nfs_call *c, XDR *x)
{
	uint32_t mode;

	if (!xdr_uint32_t(x, &mode))
		return -EBADMSG;
	if (c->op == NFS_OP_GETATTR)
		c->res.attr = (struct nfs_attr){ .mode = mode, .nlink = 2, .fileid = 1 };
	else
		c->res.statfs = (struct nfs_statfs){ .tbytes = 1 << 20, .name_max = 255 };
	return 0;
}

static const struct nfs_opdef op = {
	.name = "OP", .encode = encode, .decode = decode, .results_max = 4, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1,
	.ops = { [NFS_OP_GETATTR] = &op, [NFS_OP_STATFS] = &op },
};

static void execute(uint32_t proc, const uint32_t *w)
{
	(void)proc;
	(void)w;
	put((fails == ROOT ? S_IFREG : S_IFDIR) | 0755);
}

/* ---- mounts ---- */

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct fs *try_mount(int expect)
{
	static const struct fs_config cfg = { .vfs.place = "/nowhere", .fuse_opts = "fsname=test" };
	struct errbuf eb = { "" };
	struct fs *fs = NULL;
	int rc;

	rc = fs_new(&cfg, &fake_cl, &fs, &eb);
	if (!rc)
		rc = fs_mount(fs, &eb);
	cr_assert_eq(rc, expect, "%d: %s", rc, eb.text);
	cr_assert_eq(eb.text[0] != 0, rc != 0);
	return fs;
}

static void run(enum step step, int expect)
{
	unsigned before = descriptors();
	struct fs *fs;

	fails = step;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, device), 0);
	fcntl(device[1], F_SETFL, 0);
	fake_lane_start(&version, execute);
	fs = try_mount(expect);
	if (step == NONE) {
		cr_assert_eq(mounts, 1);
		fs_stop(fs);
		fs_wait(fs);
	}
	cr_assert_eq(mounts, 0, "a mount is left");
	if (step == INIT) {
		reply_to(FUSE_STATFS, -ENOTCONN);
		fake_lane_quiet = false;
		await_calls(false);
	}
	fake_lane_stop();
	fs_free(fs);
	close(device[0]);
	close(device[1]);
	cr_assert_eq(descriptors(), before, "descriptors");
}

TestSuite(fs_mount, .timeout = 300);

Test(fs_mount, good) { run(NONE, 0); }
Test(fs_mount, the_root_is_no_directory) { run(ROOT, -ENOTDIR); }
Test(fs_mount, no_session) { run(SESSION, -EINVAL); }
Test(fs_mount, the_kernel_refuses) { run(MOUNT, -EPERM); }
Test(fs_mount, libfuse_is_too_old) { run(CUSTOM_IO, -EINVAL); }
Test(fs_mount, no_device) { run(OPEN, -EACCES); }
Test(fs_mount, no_clone) { run(CLONE, -ENOTTY); }
Test(fs_mount, too_late_and_a_request_is_under_way) { run(INIT, -ETIMEDOUT); }
