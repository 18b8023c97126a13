/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount and unmount of version 3: a mountd on 127.0.0.1 that answers every call
 * with the same words, and a server that knows FSINFO and PATHCONF.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fake_lane.h"
#include "mount3.h"
#include "nfs/nfs3/nfs3_impl.h"
#include "xdr_msg.h"

#define LAST 0x80000000u
#define WORDS 40

/* ---- mountd ---- */

static struct {
	int listener;
	struct sockaddr_in addr;
	pthread_t thread;
	uint32_t results[WORDS];        /* set before a call, in host order */
	unsigned n;
	uint32_t prog, vers, proc;      /* the last call's */
	char path[64];
	_Atomic unsigned calls;         /* counted when it has been read */
} mountd;

static bool get(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

static void answer_mount(int fd)
{
	uint32_t w[256], reply[7 + WORDS], at, len;

	if (!get(fd, w, 4) || (len = ntohl(w[0]) & ~LAST) > sizeof(w) - 4 || !get(fd, w + 1, len))
		return;
	mountd.prog = ntohl(w[4]);
	mountd.vers = ntohl(w[5]);
	mountd.proc = ntohl(w[6]);
	/* Behind the credential and the empty verifier. */
	at = 9 + (ntohl(w[8]) + 3) / 4 + 2;
	len = ntohl(w[at]);
	cr_assert_lt(len, sizeof(mountd.path));
	memcpy(mountd.path, &w[at + 1], len);
	mountd.path[len] = '\0';
	mountd.calls++;
	memset(reply, 0, sizeof(reply));
	reply[0] = htonl(LAST | (6 + mountd.n) * 4);
	reply[1] = w[1];
	reply[2] = htonl(1);
	for (unsigned i = 0; i < mountd.n; i++)
		reply[7 + i] = htonl(mountd.results[i]);
	send(fd, reply, (7 + mountd.n) * 4, MSG_NOSIGNAL);
}

static void *mountd_main(void *arg)
{
	int fd;

	(void)arg;
	while ((fd = accept(mountd.listener, NULL, NULL)) >= 0) {
		answer_mount(fd);
		close(fd);
	}
	return NULL;
}

/* What mountd says to everything from now on. */
#define SAYS(...) do { \
	static const uint32_t says_w[] = { __VA_ARGS__ }; \
	mountd.n = sizeof(says_w) / 4; \
	memcpy(mountd.results, says_w, sizeof(says_w)); \
} while (0)

/* ---- the server ---- */

static struct {
	uint32_t rtmax, wtmax, name_max, status, pathconf, getattr;
	bool tells;                     /* FSINFO comes with attributes */
	uint32_t type;                  /* in those */
	unsigned calls;
	uint32_t last;                  /* the last call's procedure */
} nfsd;

static void put_attr(uint32_t type, uint32_t fileid)
{
	puts_of(5, type, 0755, 2, 0, 0);
	puts_of(10, 0, 4096, 0, 4096, 0, 0, 0, 77, 0, fileid);
	puts_of(6, 1, 0, 2, 0, 3, 0);
}

static void execute(uint32_t proc, const uint32_t *w)
{
	nfsd.calls++;
	nfsd.last = proc;
	cr_assert(ntohl(w[0]) == 8 && ntohl(w[1]) == 0x726f6f74, "not the root's handle");
	if (proc == NFSPROC3_PATHCONF && nfsd.pathconf) {
		puts_of(2, nfsd.pathconf, 0);
		return;
	}
	if (proc == NFSPROC3_GETATTR) {
		put(nfsd.getattr);
		if (!nfsd.getattr)
			put_attr(2, 99);
		return;
	}
	puts_of(2, nfsd.status, nfsd.tells && proc == NFSPROC3_FSINFO);
	if (nfsd.status)
		return;
	if (proc == NFSPROC3_FSINFO) {
		if (nfsd.tells)
			put_attr(nfsd.type, 88);
		puts_of(7, nfsd.rtmax, nfsd.rtmax, 4096, nfsd.wtmax, nfsd.wtmax, 4096, 65536);
		puts_of(5, 0x7fffffff, 0xffffffff, 0, 1, 0x1b);
	} else {
		cr_assert_eq(proc, NFSPROC3_PATHCONF);
		puts_of(6, 255, nfsd.name_max, 0, 1, 0, 1);
	}
}

/* ---- both ---- */

static void start(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	mountd.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(mountd.listener, (struct sockaddr *)&in, len), 0);
	cr_assert_eq(listen(mountd.listener, 5), 0);
	cr_assert_eq(getsockname(mountd.listener, (struct sockaddr *)&in, &len), 0);
	cr_assert_eq(pthread_create(&mountd.thread, NULL, mountd_main, NULL), 0);
	nfsd.rtmax = nfsd.wtmax = 1 << 20;
	nfsd.type = 2;
	nfsd.name_max = 255;
	fake_lane_start(&nfs_v3, execute);
	fake_cl.cfg.export = "/export";
	fake_cl.cfg.mountport = ntohs(in.sin_port);
	memcpy(&fake_cl.server.path[0].way.params.server, &in, sizeof(in));
	/* A handle of 8 bytes, for AUTH_NONE and AUTH_SYS. */
	SAYS(0, 8, 0x726f6f74, 0x66683333, 2, 0, 1);
}

static void mountd_ends(void)
{
	shutdown(mountd.listener, SHUT_RDWR);
	pthread_join(mountd.thread, NULL);
	close(mountd.listener);
	mountd.listener = -1;
}

static void stop(void)
{
	fake_lane_stop();
	if (mountd.listener >= 0)
		mountd_ends();
	if (fake_cl.server.vdata)
		nfs3_free(&fake_cl.server);
}

TestSuite(nfs3_mount, .init = start, .fini = stop, .timeout = 300);

/* Fails with `rc`, and the message has `words`. */
static void refused(int rc, const char *words)
{
	struct errbuf eb = { "" };

	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), rc, "%s", eb.text);
	cr_assert(strstr(eb.text, words), "no '%s' in: %s", words, eb.text);
}

Test(nfs3_mount, what_is_asked_and_kept)
{
	struct errbuf eb = { "" };

	nfsd.rtmax = 65536 + 100;
	nfsd.wtmax = 4 << 20;
	nfsd.name_max = 100;
	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert(mountd.prog == MOUNT_PROGRAM && mountd.vers == MOUNT_V3);
	cr_assert(mountd.calls == 1 && mountd.proc == MOUNTPROC3_MNT && nfsd.calls == 3);
	cr_assert_str_eq(mountd.path, "/export");
	cr_assert(fake_cl.root_fh.len == 8 && !memcmp(fake_cl.root_fh.data, "rootfh33", 8));
	cr_assert_eq(fake_cl.rsize, 65536, "whole pages");
	cr_assert_eq(fake_cl.wsize, 1 << 20, "no more than was asked for");
	cr_assert_eq(fake_cl.name_max, 100);
	cr_assert_eq(fake_cl.max_file_size, 0x7fffffffffffffffull);
}

/* What the server says is what is used, up to 4 MiB. */
Test(nfs3_mount, large_sizes)
{
	struct errbuf eb = { "" };

	fake_cl.rsize = fake_cl.wsize = 4u << 20;
	nfsd.rtmax = 64u << 20;
	nfsd.wtmax = (3u << 20) + 5000;
	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert_eq(fake_cl.rsize, 4u << 20);
	cr_assert_eq(fake_cl.wsize, (3u << 20) + 4096);
}

Test(nfs3_mount, statuses)
{
	static const struct { uint32_t status; int rc; const char *words; } t[] = {
		{ MNT3ERR_PERM, -EACCES, "/etc/exports" },
		{ MNT3ERR_ACCES, -EACCES, "insecure" },
		{ MNT3ERR_NOENT, -ENOENT, "showmount" },
		{ MNT3ERR_NOTDIR, -ENOTDIR, "not a directory" },
		{ MNT3ERR_NAMETOOLONG, -ENAMETOOLONG, "too long" },
		{ MNT3ERR_IO, -EIO, "error 5" },
		{ MNT3ERR_SERVERFAULT, -EIO, "error 10006" },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		mountd.results[0] = t[i].status;
		mountd.n = 1;
		refused(t[i].rc, t[i].words);
		refused(t[i].rc, "/export");
	}
	cr_assert_eq(nfsd.calls, 0);
}

/* ---- what comes with the handle ---- */

Test(nfs3_mount, flavors)
{
	struct errbuf eb = { "" };

	SAYS(0, 8, 0x726f6f74, 0x66683333, 2, 390003, 390004);
	refused(-EACCES, "sec=sys");
	/* One list has what the mount asks for, the other has not. */
	fake_cl.server.auth = &rpc_auth_none;
	SAYS(0, 8, 0x726f6f74, 0x66683333, 1, 1);
	refused(-EACCES, "sec=none");
	SAYS(0, 8, 0x726f6f74, 0x66683333, 2, 1, 0);
	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	fake_cl.server.auth = &rpc_auth_sys;
	/* Older servers say nothing of flavors. */
	SAYS(0, 8, 0x726f6f74, 0x66683333, 0);
	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
}

Test(nfs3_mount, bad_handles)
{
	struct errbuf eb = { "" };

	SAYS(0, 0, 1, 1);
	refused(-EBADMSG, "handle");
	SAYS(0, 65, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1);
	cr_assert_lt(nfs3_mount(&fake_cl.server, &eb), 0);
	cr_assert(eb.text[0]);
	cr_assert_eq(nfsd.calls, 0);
}

/* Every reply that ends too soon, and one that promises too many flavors. */
Test(nfs3_mount, short_replies)
{
	for (unsigned n = 0; n < 7; n++) {
		struct errbuf eb = { "" };

		mountd.n = n;
		cr_assert_lt(nfs3_mount(&fake_cl.server, &eb), 0, "%u words", n);
		cr_assert(eb.text[0] && !strchr(eb.text, '\n'));
	}
	SAYS(0, 8, 0x726f6f74, 0x66683333, 33, 1, 1);
	refused(-EBADMSG, "mountd");
}

/* ---- the server behind it ---- */

Test(nfs3_mount, server_of_small_requests)
{
	nfsd.wtmax = 2048;
	refused(-EOPNOTSUPP, "2048 bytes");
}

Test(nfs3_mount, server_that_refuses)
{
	nfsd.status = 70;               /* NFS3ERR_STALE */
	refused(-ESTALE, "answers MOUNT but not NFSv3");
}

/* It is about the length of names only. */
Test(nfs3_mount, server_without_pathconf)
{
	static const uint32_t says[] = { 10004, 10006, 13 };    /* NOTSUPP, SERVERFAULT, ACCES */
	struct errbuf eb = { "" };

	for (unsigned i = 0; i < 3; i++) {
		nfsd.pathconf = says[i];
		cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
		cr_assert_eq(fake_cl.name_max, 255);
	}
}

Test(nfs3_mount, server_without_locks)
{
	fake_cl.cfg.locks = true;
	fake_cl.cfg.nlmport = 1;
	refused(-ENOLCK, "nolock");
}

/* ---- what the root is ---- */

/* Is this the mounted root to the check of a connection? */
static bool is_root(uint32_t fileid)
{
	struct nfs_check k = { 0 };
	XDR x;

	nout = 0;
	put(0);
	put_attr(2, fileid);
	xdr_msg_create(&x, (char *)out, nout * 4, XDR_DECODE);
	return nfs3_check_decode(&fake_lanes[0].target, &k, &x) == 0;
}

Test(nfs3_mount, root_from_getattr)
{
	struct errbuf eb = { "" };

	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert(nfsd.last == NFSPROC3_GETATTR && is_root(99) && !is_root(88));
}

Test(nfs3_mount, root_from_fsinfo)
{
	struct errbuf eb = { "" };

	nfsd.tells = true;
	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert(nfsd.last == NFSPROC3_PATHCONF && is_root(88) && !is_root(99));
	/* Attributes of no type are none. */
	nfsd.type = 8;
	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert(nfsd.last == NFSPROC3_GETATTR && is_root(99) && !is_root(88));
}

/* It is mounted all the same, and any directory is its root. */
Test(nfs3_mount, root_is_not_told)
{
	struct errbuf eb = { "" };

	nfsd.getattr = 13;              /* ACCES */
	cr_assert_eq(nfs3_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert(is_root(88) && is_root(99));
	cr_assert_null(fake_cl.server.vdata);
}

/* ---- nobody there ---- */

Test(nfs3_mount, no_mountd)
{
	uint64_t start_ns;

	mountd_ends();
	refused(-ECONNREFUSED, "mountd");
	start_ns = mono_ns();
	nfs3_umount(&fake_cl.server);               /* its courtesy call fails at once */
	cr_assert_lt(mono_ns() - start_ns, 5000000000ull);
}

Test(nfs3_mount, unmount_says_so)
{
	mountd.n = 0;
	/* It waits for the answer only for a moment. */
	nfs3_umount(&fake_cl.server);
	for (unsigned ms = 0; ms < 10000 && !mountd.calls; ms++)
		usleep(1000);
	cr_assert(mountd.calls == 1 && mountd.proc == MOUNTPROC3_UMNT);
	cr_assert_str_eq(mountd.path, "/export");
}
