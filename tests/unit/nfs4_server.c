/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "nfs4_server.h"
#include "rpcrdma/header.h"
#include "xdr_msg.h"

struct server4 server;

/* The first word behind the seqid of the stateids of locks. */
#define LOCK_WORD 0x6c6f636bu

static void note(char c)
{
	size_t n = strlen(server.log);

	cr_assert_lt(n, sizeof(server.log) - 1, "no end: %s", server.log);
	server.log[n] = c;
}

static void has_executed(void)
{
	if (server.executed)
		server.executed();
}

static void put_channel(void)
{
	puts_of(7, 0, server.maxreq, server.maxresp, 4096, server.maxops, server.slots, 0);
}

/* OPEN of a lane's, with ACCESS and GETATTR behind it. */
static uint32_t lane_open(void)
{
	note('O');
	return server.refuses;
}

static uint32_t do_open(const uint32_t *w, uint32_t numops)
{
	uint32_t claim, which, status;

	/* PUTFH: operation, length, handle of 4 bytes. */
	which = ntohl(w[2]);
	if (numops > 3)
		return lane_open();
	/* OPEN: seqid, access, deny, client id, owner of 8 bytes, no create, claim. */
	claim = ntohl(w[3 + 10]);
	note(claim == CLAIM_PREVIOUS ? 'P' : 'F');
	server.reopens = (struct server4_reopen){ ntohl(w[3 + 2]), claim == CLAIM_PREVIOUS ? ntohl(w[3 + 11]) : 0 };
	if (ntohl(w[3 + 2]) & server.forbids)
		return NFS4ERR_ACCESS;
	if (claim == CLAIM_PREVIOUS)
		status = server.complete ? NFS4ERR_NO_GRACE : server.reclaim[which];
	else
		status = server.complete ? server.open[which] : NFS4ERR_GRACE;
	has_executed();
	return status;
}

static void put_attrs(bool late)
{
	if (late)
		puts_of(2, OP_GETATTR, NFS4ERR_DELAY);
	else
		/* Type, change, size and fsid, which every server has. */
		puts_of(14, OP_GETATTR, 0, 1, 0x11a, 36, 1, 0, 1, 0, 0, 0, 1, 0, 1);
}

static void do_set(void)
{
	uint32_t status = server.set;

	note('s');
	if (!server.set_stays)
		server.set = 0;
	puts_of(5, OP_PUTFH, 0, OP_SETATTR, status, 0);
	if (!status)
		put_attrs(false);
}

/* ---- locks ---- */

static uint64_t hyper(const uint32_t *w)
{
	return (uint64_t)ntohl(w[0]) << 32 | ntohl(w[1]);
}

static void get_stateid(const uint32_t *w)
{
	for (unsigned i = 0; i < 4; i++)
		server.last_lock.stateid[i] = ntohl(w[i]);
}

static void put_denied(uint32_t status)
{
	server.status = status;
	for (unsigned i = 0; status == NFS4ERR_DENIED && i < server.ndenied; i++)
		put(server.denied[i]);
}

static void put_lock_stateid(void)
{
	puts_of(4, 1, LOCK_WORD, ++server.locks, 0);
}

static uint32_t lock_status(bool reclaim)
{
	uint32_t status = reclaim ? (server.complete ? NFS4ERR_NO_GRACE : server.relock) : server.lock;
	uint32_t *once = reclaim ? &server.relock_once : &server.lock_once;

	if (*once) {
		status = *once;
		*once = 0;
	}
	return status;
}

/* w: at the operation's number. */
static void do_lock(const uint32_t *w, uint32_t numops)
{
	bool reclaim = ntohl(w[2]), new = ntohl(w[7]);
	uint32_t status = lock_status(reclaim);

	note(new ? (reclaim ? 'K' : 'L') : (reclaim ? 'k' : 'l'));
	server.last_lock.type = ntohl(w[1]);
	server.last_lock.offset = hyper(w + 3);
	server.last_lock.length = hyper(w + 5);
	get_stateid(w + (new ? 9 : 8));
	if (new)
		memcpy(&server.last_lock.owner, w + 17, 8);
	has_executed();
	puts_of(2, OP_LOCK, status);
	put_denied(status);
	if (status)
		return;
	put_lock_stateid();
	if (numops > 3 && server.lock_attrs) {
		server.status = server.lock_attrs;
		puts_of(2, OP_GETATTR, server.lock_attrs);
		server.lock_attrs = 0;
	} else if (numops > 3) {
		put_attrs(false);
	}
}

static void do_lockt(const uint32_t *w)
{
	note('t');
	server.last_lock.type = ntohl(w[1]);
	server.last_lock.offset = hyper(w + 2);
	server.last_lock.length = hyper(w + 4);
	memcpy(&server.last_lock.owner, w + 9, 8);
	puts_of(2, OP_LOCKT, server.lock);
	put_denied(server.lock);
}

static void do_locku(const uint32_t *w, uint32_t numops)
{
	note('U');
	get_stateid(w + 3);
	server.last_lock.offset = hyper(w + 7);
	server.last_lock.length = hyper(w + 9);
	has_executed();
	puts_of(2, OP_LOCKU, server.locku);
	server.status = server.locku;
	if (server.locku)
		return;
	puts_of(4, 2, LOCK_WORD, server.locks, 0);
	if (numops > 3) {
		note('f');
		puts_of(2, OP_FREE_STATEID, 0);
	}
}

static bool locks(const uint32_t *w, uint32_t numops)
{
	uint32_t op = ntohl(w[3]);

	if (op != OP_LOCK && op != OP_LOCKT && op != OP_LOCKU)
		return false;
	puts_of(2, OP_PUTFH, 0);
	if (op == OP_LOCK)
		do_lock(w + 3, numops);
	else if (op == OP_LOCKT)
		do_lockt(w + 3);
	else
		do_locku(w + 3, numops);
	return true;
}

/* Change, flags and attrset; then the delegation. */
static void put_opened(uint32_t gives)
{
	puts_of(4, ++server.opens, 0x6e657773, 0x74617465, 0x69640000);
	puts_of(7, 0, 0, 0, 0, 0, 0, 0);
	put(gives);
	if (!gives)
		return;
	puts_of(4, 1, 0x64656c65, 0x67617465, 0x64000000);
	put(server.recalls);
	if (gives == OPEN_DELEGATE_WRITE)
		puts_of(3, NFS_LIMIT_SIZE, 0, 0);
	puts_of(4, 0, 0, 0, 0);         /* type, flag, mask and name of the ACE */
	server.gives = OPEN_DELEGATE_NONE;
}

/* GETFH and GETATTR: type, lease period. */
static void put_root(uint32_t status)
{
	puts_of(4, OP_GETFH, 0, 4, 0x726f6f74);
	puts_of(2, OP_GETATTR, status);
	if (!status)
		puts_of(5, 1, 1 << FATTR4_TYPE | 1 << FATTR4_LEASE_TIME, 8, 2, server.lease);
}

/* PUTFH and what comes with it. */
static void on_file(const uint32_t *w, uint32_t numops)
{
	uint32_t op = ntohl(w[3]), status = 0;

	if (numops == 2) {
		note('p');
		puts_of(2, OP_PUTFH, 0);
		return;
	}
	if (locks(w, numops))
		return;
	if (op == OP_GETFH) {
		note('R');
		puts_of(2, OP_PUTFH, 0);
		put_root(server.no_lease);
		return;
	}
	if (op == OP_OPEN) {
		status = do_open(w, numops);
		puts_of(4, OP_PUTFH, 0, op, status);
	} else if (op == OP_CLOSE) {
		note('c');
		server.closed = ntohl(w[6]);
		puts_of(4, OP_PUTFH, 0, op, server.close);
		if (!server.close)
			puts_of(4, 1, 0, 0, 0);
		return;
	} else if (op == OP_DELEGRETURN) {
		note('r');
		puts_of(4, OP_PUTFH, 0, op, server.delegreturn);
		return;
	} else if (op == OP_SETATTR) {
		do_set();
		return;
	} else if (server.refuses) {
		note('g');
		puts_of(4, OP_PUTFH, 0, op, server.refuses);
		return;
	} else {
		note('g');
		puts_of(2, OP_PUTFH, 0);
	}
	if (status)
		return;
	if (op == OP_ACCESS)
		puts_of(4, op, 0, 0x21, 0x21);
	if (op == OP_OPEN)
		put_opened(numops == 3 ? server.gives : OPEN_DELEGATE_NONE);
	if (op == OP_OPEN && numops > 3)
		puts_of(4, OP_ACCESS, 0, 0x21, 0x21);
	if (op == OP_GETATTR || numops > 3)
		put_attrs(server.late_attrs && server.late_attrs--);
}

/* w: seqid, and the 12 bytes, of which the first is the open's number. */
static uint32_t test_one(const uint32_t *w)
{
	uint8_t which = *(const uint8_t *)(w + 1);

	server.tested++;
	if (ntohl(w[1]) == LOCK_WORD)
		return server.test_lock;
	return which < SERVER_OPENS ? server.test[which] : 0;
}

static void do_test(const uint32_t *w)
{
	uint32_t n = ntohl(w[1]);

	note('T');
	if (server.cannot_test) {
		puts_of(2, OP_TEST_STATEID, NFS4ERR_NOTSUPP);
		return;
	}
	n -= server.tests_fewer;
	puts_of(3, OP_TEST_STATEID, 0, n);
	for (uint32_t i = 0; i < n; i++)
		put(test_one(w + 2 + 4 * i));
	has_executed();
}

static void do_free(const uint32_t *w)
{
	uint8_t which = *(const uint8_t *)(w + 2);
	bool left = server.flags_stay;

	if (server.free_delays) {
		server.free_delays--;
		note('d');
		puts_of(2, OP_FREE_STATEID, NFS4ERR_DELAY);
		return;
	}
	note('f');
	if (ntohl(w[2]) == LOCK_WORD) {
		server.test_lock = NFS4ERR_BAD_STATEID;
		server.flags = 0;
		puts_of(2, OP_FREE_STATEID, 0);
		return;
	}
	cr_assert_lt(which, SERVER_OPENS);
	server.freed |= 1u << which;
	server.test[which] = NFS4ERR_BAD_STATEID;
	for (unsigned i = 0; i < SERVER_OPENS; i++)
		left = left || nfs4_is_revoked(server.test[i]);
	if (!left)
		server.flags = 0;
	puts_of(2, OP_FREE_STATEID, 0);
}

/* The operations behind SEQUENCE. */
static void second(const uint32_t *w, uint32_t numops)
{
	if (numops == 1) {
		note('n');
		return;
	}

	switch (ntohl(w[0])) {
	case OP_RECLAIM_COMPLETE:
		if (server.complete_delays) {
			server.complete_delays--;
			note('d');
			puts_of(2, OP_RECLAIM_COMPLETE, server.complete_error ? server.complete_error : NFS4ERR_DELAY);
			return;
		}
		note('C');
		server.complete = true;
		puts_of(2, OP_RECLAIM_COMPLETE, 0);
		return;
	case OP_PUTROOTFH:
		note('R');
		if (server.no_root) {
			puts_of(2, OP_PUTROOTFH, NFS4ERR_ACCESS);
			return;
		}
		puts_of(2, OP_PUTROOTFH, 0);
		put_root(0);
		return;
	case OP_PUTFH:
		on_file(w, numops);
		return;
	case OP_TEST_STATEID:
		do_test(w);
		return;
	case OP_FREE_STATEID:
		do_free(w);
		return;
	default:
		note('?');
	}
}

/* The reply is there, and is not what the client gets. */
static void spoil(void)
{
	if (server.err_chunk) {
		server.err_chunk--;
		nout = 1;               /* the XID */
		puts_of(4, 1, 16, RR_ERROR, RR_ERR_CHUNK);
	} else if (server.cut) {
		server.cut--;
		nout -= 5;
	}
}

static bool reopens(void)
{
	char last = server.log[0] ? server.log[strlen(server.log) - 1] : 0;

	return last == 'P' || last == 'F';
}

/* Length, bytes, pad. */
static void put_str(const char *s)
{
	uint32_t len = (uint32_t)strlen(s), w = 0;

	put(len);
	for (uint32_t i = 0; i < len; i += 4) {
		w = 0;
		memcpy(&w, s + i, len - i < 4 ? len - i : 4);
		put(ntohl(w));
	}
}

/* The client ids of checks have owners of their own, and begin at PROBE. */
#define PROBE 0x1000u

/* The mount's. One that is not confirmed is replaced. */
static uint32_t owner_clientid(void)
{
	server.confirmed = server.confirmed && !server.stale;
	if (!server.confirmed) {
		server.clientid++;
		server.sequence = 0;
		server.complete = false;
	}
	server.stale = false;
	return server.clientid;
}

/* w: behind the operation's number. */
static void exchange_id(const uint32_t *w)
{
	const char *owner = (const char *)(w + 3);
	uint32_t len = ntohl(w[2]), id;
	bool probe = len > 7 && !memcmp(owner + len - 7, " path ", 6);

	if (probe) {
		note('x');
		id = PROBE + server.probes++;
		server.probes_left++;
	} else {
		note('X');
		id = owner_clientid();
	}
	puts_of(9, OP_EXCHANGE_ID, 0, 0, id, probe ? 1 : server.sequence + 1,
		!probe && server.confirmed ? EXCHGID4_FLAG_CONFIRMED_R : 0, 0, 0, 0);
	put_str(server.name);
	put_str(server.scope);
	put(0);
}

/* RFC 8881, section 18.36.4: the client id first, then the number, then all else. w: behind the operation's number. */
static uint32_t session_status(const uint32_t *w)
{
	uint32_t sequence = ntohl(w[2]), refused = ntohl(w[3]) ? server.refuses_back : 0;

	if (server.restarts) {
		server.restarts--;
		server.stale = true;
	}
	if (server.stale)
		return NFS4ERR_STALE_CLIENTID;
	if (sequence == server.sequence)
		return server.created;
	if (sequence != server.sequence + 1)
		return NFS4ERR_SEQ_MISORDERED;
	server.sequence = sequence;
	server.created = server.session_errors ? server.session_error : refused;
	server.session_errors -= server.session_errors != 0;
	return server.created;
}

static void create_session(const uint32_t *w)
{
	uint32_t status = session_status(w);

	note('S');
	puts_of(2, OP_CREATE_SESSION, status);
	if (status)
		return;
	puts_of(6, 0x73657373, 0x696f6e2e, 0x2e2e2e2e, ++server.sessions, ntohl(w[2]), server.back ? ntohl(w[3]) : 0);
	server.confirmed = true;
	server.joined = fake_opens;
	put_channel();
	put_channel();
}

static void destroy_clientid(const uint32_t *w)
{
	bool probe = ntohl(w[1]) >= PROBE;

	note(probe ? 'e' : 'E');
	server.probes_left -= probe;
	server.confirmed = server.confirmed && probe;
	puts_of(2, OP_DESTROY_CLIENTID, 0);
}

static void bind_conn(const uint32_t *w)
{
	bool known = ntohl(w[3]) == server.sessions && !server.badsession && !server.stale;

	if (server.bind_delays) {
		server.bind_delays--;
		note('d');
		puts_of(2, OP_BIND_CONN_TO_SESSION, NFS4ERR_DELAY);
		return;
	}
	note(known ? 'J' : 'j');
	puts_of(2, OP_BIND_CONN_TO_SESSION, known ? 0 : NFS4ERR_BADSESSION);
	if (!known)
		return;
	server.joined = fake_opens;
	for (unsigned i = 0; i < 4; i++)
		put(ntohl(w[i]));
	puts_of(2, server.back ? ntohl(w[4]) : CDFS4_FORE, 0);
}

/* One call: w is its COMPOUND. */
static void execute(uint32_t proc, const uint32_t *w)
{
	unsigned head = nout;
	uint32_t numops = ntohl(w[2]), op = ntohl(w[3]), status = 0;

	cr_assert_eq(proc, NFSPROC4_COMPOUND);
	puts_of(3, 0, 0, numops);
	switch (op) {
	case OP_EXCHANGE_ID:
		exchange_id(w + 4);
		break;
	case OP_CREATE_SESSION:
		create_session(w + 4);
		break;
	case OP_SEQUENCE:
		status = server.unbound || (server.strict && server.joined != fake_opens) ?
			 NFS4ERR_CONN_NOT_BOUND_TO_SESSION :
			 server.badsession ? NFS4ERR_BADSESSION : server.seq_delays && numops > 1 ? NFS4ERR_DELAY : 0;
		puts_of(2, op, status);
		if (status == NFS4ERR_CONN_NOT_BOUND_TO_SESSION) {
			server.unbound -= server.unbound != 0;
			note('u');
			break;
		}
		if (status == NFS4ERR_DELAY)
			break;
		if (status) {
			server.badsession--;
			note('B');
			break;
		}
		for (unsigned i = 0; i < 6; i++)
			put(ntohl(w[4 + i]));
		/* Session, sequence id and slot as they came; then ours. */
		puts_of(3, server.slots - 1, server.slots - 1, server.flags);
		second(w + 12, numops);
		break;
	case OP_DESTROY_SESSION:
		note('D');
		server.destroyed = ntohl(w[7]);
		puts_of(2, op, 0);
		break;
	case OP_DESTROY_CLIENTID:
		destroy_clientid(w + 4);
		break;
	case OP_BIND_CONN_TO_SESSION:
		bind_conn(w + 4);
		break;
	default:
		note('!');
		puts_of(2, op, 0);
	}
	if (server.status)
		out[head] = htonl(server.status);
	server.status = 0;
	/* The failed operation is the last one. */
	if (nout >= 2 && ntohl(out[nout - 1]) >= 10000 && ntohl(out[nout - 1]) < 10100)
		out[head] = out[nout - 1];
	if (op == OP_SEQUENCE && reopens())
		spoil();
}

/* ---- the client ---- */

void server4_start(void)
{
	fake_times.end_ms = 10000;
	fake_lane_start(&nfs_v41, execute);
	server.slots = 8;
	server.lease = 90;
	server.maxops = 16;
	server.maxreq = server.maxresp = 1 << 20;
	server.name = "server";
	server.scope = "scope";
}

void server4_stop(void)
{
	fake_lane_stop();
	if (fake_cl.server.vdata)
		nfs4_free(&fake_cl.server);
}

void have_open(unsigned i)
{
	const struct nfs_fh file = { .len = 4, .data = { 0, 0, 0, (uint8_t)i } };
	struct nfs_open *o = calloc(1, sizeof(*o));

	atomic_init(&o->settled, true);
	o->access = o->needed = OPEN4_SHARE_ACCESS_BOTH;
	o->owner = i;
	o->stateid.other[0] = (char)i;
	nfs4_open_list(&client4()->opens[0], o);
	o->file = fake_file(NULL, &file);
}

struct nfs_open *open_nr(unsigned i)
{
	struct list *l = client4()->opens[0].list.next;

	while (i--)
		l = l->next;
	return container_of(l, struct nfs_open, node);
}

uint64_t give_delegation(unsigned i, uint64_t kind, const stateid4 *stateid)
{
	struct nfs_call c = {
		.op = NFS_OP_OPEN, .lane = &fake_lanes[0], .target = &fake_lanes[0].target, .open = open_nr(i),
		.args.fh = &open_nr(i)->file->fh, .args.file.flags = nfs_delegation_writes(kind) ? O_RDWR : O_RDONLY,
	};

	fake_cl.cfg.delegations = true;
	nfs4_call(&c)->place.epoch = client4()->slots.epoch;
	cr_assert(nfs4_delegs_ask(&c) && nfs4_delegs_got(&c, stateid, kind, true));
	nfs4_delegs_ask_ends(&c);
	return open_nr(i)->file->delegation;
}

void expect_open(unsigned i, bool lost)
{
	const struct nfs_open *o = open_nr(i);

	cr_assert_eq(atomic_load(&o->lost), lost, "open %u", i);
	cr_assert(!atomic_load(&o->reopen));
	cr_assert_eq(o->stateid.seqid != 0, !lost);
}

void server4_mount(void)
{
	struct errbuf eb = { "" };

	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert_str_eq(server.log, "XSCR");
	memset(server.log, 0, sizeof(server.log));
	fake_ctl.mounted = true;
}

/* ---- checks ---- */

struct check_call {
	struct nfs_check *k;
	bool alone;
	int rc;
};

static void check_call(struct nfs_lane *l, void *arg)
{
	struct nfs_target *t = &l->target;
	const struct nfs_version *v = t->server->version;
	struct check_call *call = arg;
	bool up = atomic_load(&t->up);
	uint32_t w[256];
	XDR x;

	atomic_store(&t->up, up && !call->alone);
	xdr_msg_create(&x, (char *)w, sizeof(w), XDR_ENCODE);
	cr_assert(v->check_encode(t, call->k, &x));
	nout = 0;
	execute(v->check_proc(call->k), w);
	xdr_msg_create(&x, (char *)out, nout * 4, XDR_DECODE);
	call->rc = v->check_decode(t, call->k, &x);
	atomic_store(&t->up, up);
}

int server4_check(struct nfs_check *k, bool alone)
{
	struct check_call call = { .k = k, .alone = alone };

	nfs_each_lane(&fake_cl, check_call, &call);
	return call.rc;
}

/* ---- calls ---- */

static void *call_main(void *arg)
{
	struct one_call *o = arg;
	bool abandoned;

	o->rc = nfs_call_sync(&fake_lanes[0].target, &o->held->c, 0, &abandoned);
	if (abandoned)
		return NULL;
	o->open = o->held->c.open;
	free(o->held);
	return NULL;
}

void begin(struct one_call *o, enum nfs_op op, struct nfs_open *open)
{
	struct held *h = calloc(1, sizeof(*h));

	cr_assert_not_null(h);
	h->fh.len = 4;
	h->c = (struct nfs_call){ .op = op, .args.fh = &h->fh, .cred = &h->cred, .open = open,
				  .args.sattr.valid = NFS_SET_SIZE, .flags = NFS_CALL_NOW };
	if (op == NFS_OP_OPEN)
		h->c.args.file.get = fake_file;
	o->held = h;
	cr_assert_eq(pthread_create(&o->caller, NULL, call_main, o), 0);
}

static void lane_resume(struct nfs_lane *l, void *arg)
{
	(void)arg;
	l->hold = false;
	list_splice_tail(&l->waiting, &l->parked);
	nfs_lane_pump(l);
}

void resume(void)
{
	nfs_each_lane(&fake_cl, lane_resume, NULL);
}

void await(struct one_call *o, int rc)
{
	pthread_join(o->caller, NULL);
	cr_assert_eq(o->rc, rc, "%d", o->rc);
}

static void see_log(struct nfs_lane *l, void *arg)
{
	(void)l;
	*(_Atomic size_t *)arg = strlen(server.log);
}

static void see_sessions(struct nfs_lane *l, void *arg)
{
	(void)l;
	*(_Atomic size_t *)arg = server.sessions;
}

/* Until what `see` looks at, on the server's thread, is n. */
static void await_number(void (*see)(struct nfs_lane *l, void *arg), size_t n)
{
	_Atomic size_t is = 0;

	while (is < n) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		nfs_each_lane(&fake_cl, see, &is);
	}
}

void server4_await(size_t n)
{
	await_number(see_log, n);
}

void server4_await_sessions(size_t n)
{
	await_number(see_sessions, n);
}
