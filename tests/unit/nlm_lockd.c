/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See nlm_lockd.h. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "nlm_lockd.h"

#define LAST 0x80000000u

struct lockd lockd = { .mu = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

int __wrap_rpcbind_tcp_port(const struct sockaddr_storage *addr, uint32_t prog, uint32_t vers,
			    const char *what, const char *option, unsigned timeout_ms, struct errbuf *eb);

int __wrap_rpcbind_tcp_port(const struct sockaddr_storage *addr, uint32_t prog, uint32_t vers,
			    const char *what, const char *option, unsigned timeout_ms, struct errbuf *eb)
{
	(void)addr;
	(void)what;
	(void)option;
	(void)timeout_ms;
	if (prog == 100024) {
		cr_assert_eq(vers, 1);
		return lockd.statd_port ? (int)lockd.statd_port : err_set(eb, -ENOENT, "no rpc.statd");
	}
	cr_assert(prog == 100021 && vers == 4);
	return lockd.port ? (int)lockd.port : err_set(eb, -ENOENT, "not registered");
}

static bool get(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

static uint64_t wide(const uint32_t *w)
{
	return (uint64_t)ntohl(w[0]) << 32 | ntohl(w[1]);
}

static const uint32_t *skip(const uint32_t *w)
{
	return w + 1 + (ntohl(*w) + 3) / 4;
}

/* "L10+5w ": NM_LOCK, M: LOCK, R: as a reclaim, U: UNLOCK, T: TEST, N: NULL. */
static char note(uint32_t proc, const uint32_t *w)
{
	bool locks = proc == NLM4PROC_NM_LOCK || proc == NLM4PROC_LOCK;
	const uint32_t *lock = skip(w) + (locks ? 2 : proc == NLM4PROC_TEST);
	const uint32_t *oh = skip(skip(lock)), *range = skip(oh) + 1;
	size_t n = strlen(lockd.log);
	char kind = proc == NLM4PROC_NULL ? 'N' : proc == NLM4PROC_TEST ? 'T' :
		    proc == NLM4PROC_UNLOCK ? 'U' : ntohl(range[4]) ? 'R' :
		    proc == NLM4PROC_LOCK ? 'M' : 'L';

	if (kind == 'N') {
		snprintf(lockd.log + n, sizeof(lockd.log) - n, "N ");
		return kind;
	}
	cr_assert_eq(ntohl(*oh), 16);
	memcpy(lockd.oh, oh + 1, 16);
	lockd.svid = ntohl(range[-1]);
	lockd.start = wide(range);
	if (locks)
		lockd.state = (int)ntohl(range[5]);
	snprintf(lockd.log + n, sizeof(lockd.log) - n, "%c%llu+%llu%s ", kind,
		 (unsigned long long)wide(range), (unsigned long long)wide(range + 2),
		 kind == 'U' ? "" : ntohl(lock[-1]) ? "w" : "r");
	return kind;
}

static uint32_t answer_of(char kind)
{
	if (kind == 'M' && lockd.no_statd)
		return NLM4_DENIED_NOLOCKS;
	if (kind == 'R')
		return lockd.grace ? NLM4_GRANTED : NLM4_DENIED_GRACE_PERIOD;
	if (lockd.grace) {
		lockd.grace--;
		return NLM4_DENIED_GRACE_PERIOD;
	}
	return lockd.stat;
}

/* The results of anything but NULL. */
static unsigned put_results(uint32_t *reply, unsigned n, uint32_t proc, uint32_t cookie, char kind)
{
	uint32_t stat = answer_of(kind);

	if (lockd.wrong == LONG_COOKIE) {
		reply[n] = htonl(1028);
		return n + 1 + 257;
	}
	reply[n++] = htonl(4);
	reply[n++] = lockd.wrong == WRONG_COOKIE ? ~cookie : cookie;
	reply[n++] = htonl(stat);
	for (unsigned i = 0; proc == NLM4PROC_TEST && stat == NLM4_DENIED && i < lockd.nholder; i++)
		reply[n++] = htonl(lockd.holder[i]);
	return n;
}

/* false: the connection ends. */
static bool answer(int fd)
{
	uint32_t w[512] = { 0 }, reply[512] = { 0 }, n = 7, len, proc;
	const uint32_t *args;
	char kind;

	if (!get(fd, w, 4) || (len = ntohl(w[0]) & ~LAST) > sizeof(w) - 64 || !get(fd, w + 1, len))
		return false;
	pthread_mutex_lock(&lockd.mu);
	proc = ntohl(w[6]);
	cr_assert(ntohl(w[4]) == 100021 && ntohl(w[5]) == 4);
	args = w + 9 + (ntohl(w[8]) + 3) / 4 + 2;
	if (ntohl(w[7]) == 1)
		lockd.uid = ntohl(*skip(w + 10));
	kind = note(proc, args);
	while (lockd.shut) {
		pthread_mutex_unlock(&lockd.mu);
		usleep(1000);
		pthread_mutex_lock(&lockd.mu);
	}
	reply[1] = w[1];
	reply[2] = htonl(1);
	if (proc != NLM4PROC_NULL)
		n = put_results(reply, n, proc, args[1], kind);
	if (lockd.wrong == WRONG_XID)
		reply[1] = ~reply[1];
	if (lockd.wrong == CUT)
		n = 1 + lockd.cut;
	reply[0] = htonl(LAST | (n - 1) * 4);
	if (lockd.wrong == LONG_RECORD)
		reply[0] = htonl(LAST | 70000);
	if (lockd.wrong == REFUSES) {
		reply[6] = htonl(5);            /* SYSTEM_ERR */
		reply[0] = htonl(LAST | 24);
		n = 7;
	}
	if (lockd.wrong == CLOSES)
		shutdown(fd, SHUT_RDWR);
	else if (lockd.wrong != SILENT && !(lockd.silent_at && lockd.start == 1))
		send(fd, reply, n * 4, MSG_NOSIGNAL);
	if (lockd.times && !--lockd.times)
		lockd.wrong = WELL;
	pthread_mutex_unlock(&lockd.mu);
	return true;
}

static void set_fd(int fd)
{
	pthread_mutex_lock(&lockd.mu);
	lockd.fd = fd;
	pthread_mutex_unlock(&lockd.mu);
}

static void *lockd_main(void *arg)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	int fd;

	(void)arg;
	while ((fd = accept(lockd.listener, (struct sockaddr *)&in, &len)) >= 0) {
		lockd.from = ntohl(in.sin_addr.s_addr);
		set_fd(fd);
		while (answer(fd))
			;
		set_fd(-1);
		close(fd);
	}
	return NULL;
}

/* The connection is lost. */
void lockd_cut(void)
{
	pthread_mutex_lock(&lockd.mu);
	if (lockd.fd >= 0)
		shutdown(lockd.fd, SHUT_RDWR);
	pthread_mutex_unlock(&lockd.mu);
}

void lockd_does(enum wrong wrong, unsigned times)
{
	pthread_mutex_lock(&lockd.mu);
	lockd.wrong = wrong;
	lockd.times = times;
	pthread_mutex_unlock(&lockd.mu);
}

/* Since it was last looked at. */
void lockd_expect_log(const char *text)
{
	pthread_mutex_lock(&lockd.mu);
	cr_assert_str_eq(lockd.log, text);
	lockd.log[0] = '\0';
	pthread_mutex_unlock(&lockd.mu);
}

/* ---- the client ---- */

struct nfs3_mounted *mounted;
static pthread_mutex_t said_mu = PTHREAD_MUTEX_INITIALIZER;
static char said[8192];

static void say(enum log_level level, const char *text)
{
	(void)level;
	pthread_mutex_lock(&said_mu);
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", text);
	pthread_mutex_unlock(&said_mu);
}

unsigned said_times(const char *text)
{
	unsigned n = 0;

	pthread_mutex_lock(&said_mu);
	for (const char *at = said; (at = strstr(at, text)); at++)
		n++;
	pthread_mutex_unlock(&said_mu);
	return n;
}

static void nfs_answers(uint32_t proc, const uint32_t *w)
{
	uint32_t status = lockd.getattr;

	(void)w;
	cr_assert_eq(proc, NFSPROC3_GETATTR);
	put(status);
	if (status)
		return;
	puts_of(7, 1, 0644, 1, 0, 0, 0, 4711);
	puts_of(8, 0, 4096, 0, 0, 0, 77, 0, 88);
	puts_of(6, 1, 0, 2, 0, 3, 0);
}

void lockd_start(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	struct errbuf eb = { "" };

	lockd.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(lockd.listener, (struct sockaddr *)&in, len), 0);
	cr_assert_eq(listen(lockd.listener, 5), 0);
	cr_assert_eq(getsockname(lockd.listener, (struct sockaddr *)&in, &len), 0);
	cr_assert_eq(pthread_create(&lockd.thread, NULL, lockd_main, NULL), 0);
	lockd.port = ntohs(in.sin_port);
	log_to(say);
	fake_lane_start(&nfs_v3, nfs_answers);
	fake_times.later_ms = 1;
	memcpy(&fake_cl.server.path[0].way.params.server, &in, sizeof(in));
	mounted = nfs3_mounted(&fake_cl.server);
	cr_assert_eq(nlm_new(&fake_cl.server, &mounted->nlm, &eb), 0, "%s", eb.text);
	lockd_expect_log("N ");
}

void lockd_stop(void)
{
	cr_assert(nfs3_stop(&fake_cl.server, 30000));
	fake_lane_stop();
	nfs3_free(&fake_cl.server);
	shutdown(lockd.listener, SHUT_RDWR);
	lockd_cut();
	pthread_join(lockd.thread, NULL);
	close(lockd.listener);
}

void lockd_mount_again(void)
{
	struct errbuf eb = { "" };

	cr_assert(nfs3_stop(&fake_cl.server, 30000));
	nlm_free(mounted->nlm);
	cr_assert_eq(nlm_new(&fake_cl.server, &mounted->nlm, &eb), 0, "%s", eb.text);
}

/* How the lock manager answers from now on. */
void lockd_answers(uint32_t stat, unsigned grace)
{
	pthread_mutex_lock(&lockd.mu);
	lockd.stat = stat;
	lockd.grace = grace;
	pthread_mutex_unlock(&lockd.mu);
}

void lockd_wait_for_log(const char *text)
{
	bool there = false;

	for (unsigned i = 0; i < 4000 && !there; i++) {
		usleep(5000);
		pthread_mutex_lock(&lockd.mu);
		there = strstr(lockd.log, text);
		pthread_mutex_unlock(&lockd.mu);
	}
	cr_assert(there, "no '%s' in: %s", text, lockd.log);
}

struct nfs_results res;
uint32_t uid = 1000;

int ask(enum nfs_op op, uint64_t owner, uint64_t offset, uint64_t length, bool write, bool all)
{
	static const struct nfs_fh fh = { .len = 5, .data = "fhand" };
	struct rpc_cred cred = { .uid = uid, .gid = 100 };
	struct nfs_call c = { .op = op, .args.fh = &fh, .cred = &cred };
	bool abandoned;
	int rc;

	c.args.lock = (struct nfs_lock_args){
		.owner = owner, .offset = offset, .length = length, .write = write, .all = all,
	};
	rc = nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);
	cr_assert_not(abandoned);
	res = c.res;
	return rc;
}

int lock(uint64_t offset, uint64_t length, bool write)
{
	return ask(NFS_OP_LOCK, OWNER, offset, length, write, false);
}

int unlock(uint64_t offset, uint64_t length)
{
	return ask(NFS_OP_LOCKU, OWNER, offset, length, false, false);
}

int test(void)
{
	return ask(NFS_OP_LOCKT, OWNER, 0, TO_EOF, true, false);
}

unsigned owners(void)
{
	return mounted->nlm->nowners;
}

void wait_for_owners(unsigned n)
{
	for (unsigned i = 0; i < 4000 && owners() != n; i++)
		usleep(5000);
	cr_assert_eq(owners(), n);
}

static void count_kinds(struct nfs_lane *l, void *arg)
{
	unsigned *n = arg;

	list_for_each_entry(struct nfs_call, c, &l->running, eng.run_node)
		n[c->op == NFS_OP_LOCKU]++;
}

void wait_for_calls(unsigned locks, unsigned unlocks)
{
	unsigned n[2] = { 0 };

	for (unsigned i = 0; i < 4000; i++) {
		n[0] = n[1] = 0;
		nfs_each_lane(&fake_cl, count_kinds, n);
		if (n[0] == locks && n[1] == unlocks)
			break;
		usleep(5000);
	}
	cr_assert(n[0] == locks && n[1] == unlocks, "%u LOCK, %u LOCKU", n[0], n[1]);
}

void lockd_shuts(bool shut)
{
	pthread_mutex_lock(&lockd.mu);
	lockd.shut = shut;
	pthread_mutex_unlock(&lockd.mu);
}

void begin_of(enum nfs_op op, uint64_t offset)
{
	static const struct nfs_fh fh = { .len = 5, .data = "fhand" };
	struct nfs_call *c = calloc(1, sizeof(*c));
	bool abandoned;

	c->op = op;
	c->args.fh = &fh;
	c->args.lock = (struct nfs_lock_args){ .owner = OWNER, .offset = offset, .length = 1 };
	cr_assert_eq(nfs_call_sync(&fake_lanes[0].target, c, 200, &abandoned), -ETIMEDOUT);
	cr_assert(abandoned);
}
