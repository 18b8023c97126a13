/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lock manager's answers (NLM version 4), and what is held by them.
 *     input: jobs of 3 bytes: what is done, by which owner (2 bits); the first byte; how many (255: to the
 *            end). Each call takes what follows: 1 byte, its answer's length / 4, whether its cookie is put
 *            right (bit 6), and whether there is none (bit 7); and the answer's results.
 * The record and the RPC header are rpctcp.c's, which is not here.
 */
#include <errno.h>
#include <string.h>
#include "fuzz.h"
#include "nfs/nfs3/nlm.h"

static struct nfs_client client;
static struct nfs_server server = { .client = &client, .auth = &rpc_auth_sys, .name = "server" };
static const uint8_t *in;
static size_t left;
static struct nlm n;

static uint8_t take(void)
{
	return left ? left--, *in++ : 0;
}

/* ---- instead of rpctcp.c ---- */

struct rpctcp {
	uint8_t *reply;                 /* until the next call */
};

int rpctcp_open(struct rpctcp **out, const struct sockaddr_storage *addr, const struct sockaddr_storage *local,
		const char *what, unsigned timeout_ms, struct errbuf *eb)
{
	if (take() & 1)
		return err_set(eb, -ECONNREFUSED, "refused");
	*out = calloc(1, sizeof(**out));
	CHECK(*out);
	return 0;
}

void rpctcp_close(struct rpctcp *t)
{
	if (t)
		free(t->reply);
	free(t);
}

void rpctcp_local(const struct rpctcp *t, struct sockaddr_storage *out)
{
}

void rpctcp_set_timeout(struct rpctcp *t, unsigned timeout_ms)
{
	CHECK(t && timeout_ms);
}

struct sockaddr_storage rpctcp_with_port(const struct sockaddr_storage *addr, unsigned port)
{
	return *addr;
}

int rpcbind_tcp_port(const struct sockaddr_storage *addr, uint32_t prog, uint32_t vers, const char *what,
		     const char *option, unsigned timeout_ms, struct errbuf *eb)
{
	return 4045;
}

int rpctcp_call(struct rpctcp *t, uint32_t prog, uint32_t vers, uint32_t proc, const struct rpc_cred *cred,
		xdrproc_t args, void *argp, xdrproc_t res, void *resp, struct errbuf *eb)
{
	static char call[8192];
	uint8_t how = take();
	size_t len = (how & 63u) * 4;
	XDR x;
	int rc;

	CHECK(prog == NLM_PROGRAM && vers == NLM_V4);
	xdrmem_create(&x, call, sizeof(call), XDR_ENCODE);
	CHECK(args(&x, argp, 0));
	xdr_destroy(&x);
	if (how & 128)
		return err_set(eb, -ETIMEDOUT, "no reply");
	len = len < left ? len : left & ~(size_t)3;
	free(t->reply);
	t->reply = malloc(len + 1);
	CHECK(t->reply);
	memcpy(t->reply, in, len);
	in += len;
	left -= len;
	if (how & 64 && len >= 8)
		memcpy(t->reply + 4, &n.cookie, 4);
	xdrmem_create(&x, (char *)t->reply, (u_int)len, XDR_DECODE);
	rc = res(&x, resp, 0) ? 0 : -EBADMSG;
	xdr_destroy(&x);
	return rc ? err_set(eb, rc, "malformed") : 0;
}

/* ---- what nlm_run.c does with answers ---- */

static void reconnect(void)
{
	struct errbuf why;

	if (nlm_wire_open(&n, &why))
		return;
	nlm_held_outdated(&n);
	nlm_held_settle(&n, false, &why);
}

static void lock(const struct nlm_who *w, struct nfs_range r)
{
	struct nfs_lock_results res = { 0 };
	struct errbuf why = { "" };
	int stat = nlm_wire_lock(&n, w, r, false, &why);

	CHECK(stat >= 0 || why.text[0]);
	if (stat == NLM4_GRANTED)
		nlm_held_add(&n, w, r, &res);
	else if (stat < 0)
		nlm_held_doubt(&n, w, r);
}

static void ask(const struct nlm_who *w, struct nfs_range r)
{
	struct nfs_lock_results res = { 0 };
	struct errbuf why = { "" };
	int stat = nlm_held_test(&n, w, r, &res) ? NLM4_DENIED : nlm_wire_test(&n, w, r, &res, &why);

	CHECK(stat >= 0 || why.text[0]);
	if (stat == NLM4_DENIED)
		CHECK(nfs_range_last(res.offset, res.length) >= res.offset);
}

static void job(void)
{
	uint8_t what = take(), start = take(), length = take();
	struct nlm_who w = { .number = 1 + (what >> 6), .fh = { .len = 5, .data = "fhand" } };
	struct nfs_range r = { .start = start, .last = nfs_range_last(start, length == 255 ? UINT64_MAX : length + 1u),
			       .write = what & 8 };
	struct errbuf why;

	if (!n.tcp || (what & 7) == 4)
		reconnect();
	if ((what & 7) == 1) {
		nlm_held_leave(&n, &w, r);
		if (n.tcp)
			nlm_held_unlock(&n, w.number, &why);
	} else if (n.tcp && (what & 7) == 0) {
		lock(&w, r);
	} else if (n.tcp && (what & 7) == 2) {
		ask(&w, r);
	} else if (n.tcp && (what & 7) == 3) {
		nlm_held_settle(&n, true, &why);
	}
}

static void quiet(enum log_level level, const char *text)
{
	touch(text, strlen(text));
}

/* Nothing is held and leaving. */
static void check(void)
{
	unsigned owners = 0;

	for (unsigned i = 0; i < NLM_OWNERS; i++)
		for (struct hash_node *e = n.owners[i]; e; e = e->next) {
			struct nlm_owner *o = container_of(e, struct nlm_owner, node);

			CHECK(o->held.n || o->leaving.n);
			CHECK(n.pending || (!o->leaving.n && o->epoch == n.epoch) || !n.tcp);
			for (unsigned k = 0; k < o->held.n; k++)
				CHECK(!nfs_ranges_any(&o->leaving, o->held.r[k].start, o->held.r[k].last));
			owners++;
		}
	CHECK(owners == n.nowners);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	log_to(quiet);
	in = data;
	left = len;
	n = (struct nlm){ .server = &server, .limit_ms = NLM_LIMIT_MS, .id = 77, .host = "host",
			  .watches = len & 1 };
	pthread_mutex_init(&n.mu, NULL);
	while (left) {
		job();
		check();
	}
	nlm_held_end(&n);
	nlm_wire_close(&n);
	CHECK(!n.nowners);
	pthread_mutex_destroy(&n.mu);
	return 0;
}
