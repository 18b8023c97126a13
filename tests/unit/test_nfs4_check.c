/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * New connections of versions 4.1 and 4.2: whether another server is found, what a server may
 * say to the calls of a check, and who else may act meanwhile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "nfs4_play.h"

enum { EXCHANGE_ID = 42, BIND = 41, DESTROY = 57, ILLEGAL = 10044 };
enum { DELAY = 10008, GRACE = 10013, BADSESSION = 10052, DEADSESSION = 10078 };

/* ---- one lane's check ---- */

static struct nfs_check k, begun;      /* each decoding begins as `begun` */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	return c->target->server->version->check_encode(c->target, &k, x);
}

static int decode(struct nfs_call *c, XDR *x)
{
	k = begun;
	return c->target->server->version->check_decode(c->target, &k, x);
}

static const struct nfs_opdef def = {
	.name = "check", .encode = encode, .decode = decode, .results_max = NFS_CHECK_RESULTS_MAX,
};

static struct nfs_call call(void)
{
	return (struct nfs_call){ .op = NFS_OP_NULL, .lane = lane4(), .target = target4() };
}

/* Sends the next call: the message is what it must be. */
static void sends(void)
{
	struct nfs_call c = call();

	play_args(&c, &def);
	begun = k;
}

/* The reply is the message. */
static int takes(void)
{
	struct nfs_call c = call();
	int rc = play_reply(&c, &def);

	cr_assert(rc >= 0 || k.why.text[0], "%d without a reason", rc);
	return rc;
}

static void all_cuts(void)
{
	struct nfs_call c = call();
	struct nfs_check was = k;

	play_all_cuts(&c, &def, NULL);
	cr_assert(strstr(k.why.text, "malformed"), "%s", k.why.text);
	play_twists(&c, &def, NULL);
	k = was;
}

static void names(struct nfs4_names *n, uint64_t minor, const char *major, const char *scope)
{
	*n = (struct nfs4_names){
		.minor = minor, .major_len = (uint32_t)strlen(major), .scope_len = (uint32_t)strlen(scope),
	};
	memcpy(n->major, major, n->major_len);
	memcpy(n->scope, scope, n->scope_len);
}

static void is_mounted(uint64_t minor, const char *major, const char *scope)
{
	struct nfs4_names n;

	names(&n, minor, major, scope);
	nfs4_identity_set(&n4.identity, &n);
}

static void setup(void)
{
	play4_setup();
	strcpy(n4.owner, "who");
	memcpy(n4.verifier, "verifier", 8);
	is_mounted(3, "name", "scope");
	k = begun = (struct nfs_check){ 0 };
}

TestSuite(nfs4_check, .init = setup, .fini = play4_teardown);

/* ---- messages ---- */

static void m_who_args(uint32_t minor)
{
	m_new();
	M(0, minor, 1, EXCHANGE_ID, 0x76657269, 0x66696572);
	m_str("who path 1");
	M(0x10000, 0, 0);               /* USE_NON_PNFS, SP4_NONE, no implementation id */
}

static void m_who_bytes(uint32_t flags, uint64_t minor, const void *major, uint32_t major_len,
			const char *scope)
{
	m_new();
	M(0, 0, 1, EXCHANGE_ID, 0);
	m_u64(0x1122334455667788);
	M(7, flags, 0);
	m_u64(minor);
	m_opaque(major, major_len);
	m_str(scope);
	M(1);
	m_str("domain");
	m_str("implementation");
	M(0, 5, 6);
}

static void m_who(uint32_t flags, uint64_t minor, const char *major, const char *scope)
{
	m_who_bytes(flags, minor, major, (uint32_t)strlen(major), scope);
}

static void m_forget_args(void)
{
	m_new();
	M(0, 1, 1, DESTROY);
	m_u64(0x1122334455667788);
}

static void m_status(uint32_t op, uint32_t status)
{
	m_new();
	M(status, 0, 1, op, status);
}

static void m_join_args(void)
{
	m_new();
	M(0, 1, 1, BIND, SESSION_WORDS, 1, 0);  /* CDFC4_FORE, not stepped up */
}

static void m_joined(void)
{
	m_new();
	M(0, 0, 1, BIND, 0, SESSION_WORDS, 1, 0);
}

/* From the beginning: it is sent, and the server says who it is. */
static int who(uint64_t minor, const char *major, const char *scope)
{
	k = (struct nfs_check){ .may_move = k.may_move };
	m_who_args(1);
	sends();
	m_who(0, minor, major, scope);
	return takes();
}

static int forget(uint32_t status)
{
	m_forget_args();
	sends();
	m_status(DESTROY, status);
	return takes();
}

/* Up to the last step, which is sent. */
static void up_to_join(void)
{
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
}

static void other_lane_is_up(bool up)
{
	atomic_store(&lanes[0].target.up, up);
}

static bool asked_for_session(void)
{
	bool asked = ctl.recover;

	cr_assert_eq(atomic_load(&n4.need_session), asked);
	ctl.recover = false;
	atomic_store(&n4.need_session, false);
	return asked;
}

/* ---- the same server ---- */

Test(nfs4_check, from_the_beginning_to_the_end)
{
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	all_cuts();
	cr_assert_eq(forget(0), NFS_NEXT);
	all_cuts();
	m_join_args();
	sends();
	m_joined();
	cr_assert_eq(takes(), 0);
	all_cuts();
	cr_assert(n4.identity.now.changes == 1);
	cr_assert_eq(nfs_v41.check_proc(&k), NFSPROC4_COMPOUND);
}

Test(nfs4_check, minor_version_2)
{
	cl4.server.version = &nfs_v42;
	m_who_args(2);
	sends();
}

/* A client id that the server has confirmed is not one of ours to destroy. */
Test(nfs4_check, confirmed)
{
	m_who_args(1);
	sends();
	m_who(0x80000000, 3, "name", "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	m_join_args();
	sends();
	begun = (struct nfs_check){ .word[3] = 1 };
	m_who(0x80000000, 3, "other", "scope");
	cr_assert_eq(takes(), -EXDEV);
}

/* What comes of the client id does not matter. */
Test(nfs4_check, probe_cannot_be_destroyed)
{
	static const uint32_t says[] = { DELAY, 10022, 10074, 10004, 1, 10006 };

	for (unsigned i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
		cr_assert_eq(forget(says[i]), NFS_NEXT);
		m_join_args();
		sends();
	}
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	m_forget_args();
	sends();
	m_status(ILLEGAL, ILLEGAL);
	cr_assert_eq(takes(), NFS_NEXT);
	m_new();
	M(10018, 0, 0);                 /* RESOURCE, before the first operation */
	cr_assert_eq(takes(), NFS_NEXT);
}

Test(nfs4_check, not_now)
{
	static const uint32_t says[] = { DELAY, GRACE };

	for (unsigned i = 0; i < 2; i++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_status(EXCHANGE_ID, says[i]);
		cr_assert_eq(takes(), NFS_LATER);
		m_who_args(1);
		sends();
		up_to_join();
		m_status(BIND, says[i]);
		cr_assert_eq(takes(), NFS_LATER);
		m_join_args();
		sends();
	}
}

/* ---- other servers ---- */

/* It is left as it was, and then refused. */
static void refuses(const char *words)
{
	cr_assert_eq(forget(0), -EXDEV);
	cr_assert(strstr(k.why.text, words), "no '%s' in: %s", words, k.why.text);
	cr_assert(strlen(k.why.text) < 256, "%s", k.why.text);
	cr_assert(n4.identity.now.changes == 1 && n4.identity.now.joins == 0);
}

Test(nfs4_check, another_server)
{
	static const struct { uint64_t minor; const char *major, *scope, *words; } t[] = {
		{ 3, "other", "scope", "(its name is 'other', that of the mounted one 'name')" },
		{ 3, "nam", "scope", "its name is 'nam'," },
		{ 3, "name2", "scope", "its name is 'name2'," },
		{ 3, "", "scope", "its name is ''," },
		{ 3, "name", "elsewhere", "(its scope is 'elsewhere', that of the mounted one 'scope')" },
		{ 3, "name", "", "its scope is ''," },
		{ 4, "name", "scope", "(its minor id is 4, that of the mounted one 3)" },
		{ 3ull << 32, "name", "scope", "minor id" },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_assert_eq(who(t[i].minor, t[i].major, t[i].scope), NFS_NEXT);
		refuses(t[i].words);
	}
}

/* A server without names is compared all the same. */
Test(nfs4_check, empty_names)
{
	is_mounted(0, "", "");
	cr_assert_eq(who(0, "", ""), NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
	cr_assert_eq(who(0, "a", ""), NFS_NEXT);
	cr_assert_eq(forget(0), -EXDEV);
	cr_assert_eq(who(0, "", "a"), NFS_NEXT);
	cr_assert_eq(forget(0), -EXDEV);
}

Test(nfs4_check, names_for_the_log)
{
	static const char odd[] = "a\n\0\x1b'\\\xff z";
	char longest[1024];

	m_who_args(1);
	sends();
	m_who_bytes(0, 3, odd, sizeof(odd) - 1, "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	refuses("'a\\x0a\\x00\\x1b\\x27\\x5c\\xff z'");
	/* A 0 among the bytes ends nothing. */
	k = (struct nfs_check){ 0 };
	m_who_args(1);
	sends();
	m_who_bytes(0, 3, "name\0x", 6, "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	refuses("'name\\x00x'");
	memset(longest, 0xee, sizeof(longest));
	k = (struct nfs_check){ 0 };
	m_who_args(1);
	sends();
	m_who_bytes(0, 3, longest, sizeof(longest), "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	refuses("\\xee...'");
}

/* The longest names, and longer ones. */
Test(nfs4_check, bounds)
{
	char longest[1026] = "";

	memset(longest, 'x', 1025);
	for (unsigned more = 0; more < 2; more++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_who_bytes(0, 3, longest, 1024 + more, "scope");
		cr_assert_eq(takes(), more ? -EBADMSG : NFS_NEXT);
		m_who_bytes(0, 3, "name", 4, longest + 1 - more);
		cr_assert_eq(takes(), more ? -EBADMSG : NFS_NEXT);
	}
}

/* ---- a server that has moved ---- */

Test(nfs4_check, moved)
{
	k.may_move = true;
	cr_assert_eq(who(9, "new", "place"), NFS_NEXT);
	cr_assert(n4.identity.now.changes == 2 && n4.identity.names.minor == 9);
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	m_status(BIND, BADSESSION);
	cr_assert_eq(takes(), 0);
	cr_assert(asked_for_session());
	/* The others find it there, and the log says it once. */
	for (unsigned i = 0; i < 2; i++) {
		k.may_move = i;
		cr_assert_eq(who(9, "new", "place"), NFS_NEXT);
		cr_assert_eq(forget(0), NFS_NEXT);
		cr_assert_eq(n4.identity.now.changes, 2);
	}
	k.may_move = false;
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	cr_assert_eq(forget(0), -EXDEV);
}

/* Since the check began another lane has connected to the server that was mounted. */
Test(nfs4_check, moves_only_if_nobody_is_connected)
{
	k.may_move = true;
	other_lane_is_up(true);
	cr_assert_eq(who(3, "new", "scope"), NFS_NEXT);
	refuses("another server");
}

/* Two lanes find two servers. */
static struct nfs_check two_lanes(bool second_asks_later, const char *second_finds, int *rc)
{
	struct nfs_check first;

	k = (struct nfs_check){ .may_move = true };
	if (!second_asks_later) {
		m_who_args(1);
		sends();
		first = k;
		cr_assert_eq(who(3, "new", "scope"), NFS_NEXT);
		begun = first;
		first = k;
	} else {
		cr_assert_eq(who(3, "new", "scope"), NFS_NEXT);
		first = k;
		k = (struct nfs_check){ .may_move = true };
		m_who_args(1);
		sends();
	}
	m_who(0, 3, second_finds, "scope");
	*rc = takes();
	return first;
}

Test(nfs4_check, first_one_decides_who_the_server_is)
{
	struct nfs_check first;
	int rc;

	/* It asked before the first one had moved. */
	first = two_lanes(false, "newer", &rc);
	cr_assert_eq(rc, NFS_NEXT);
	cr_assert_eq(forget(0), -EAGAIN);
	cr_assert_eq(n4.identity.now.changes, 2);
	k = first;
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	m_joined();
	cr_assert_eq(takes(), 0);
}

Test(nfs4_check, overtaken_before_the_end)
{
	struct nfs_check first;
	int rc;

	/* It asked later, so the first one has not ended: it must not end well any more. */
	first = two_lanes(true, "newer", &rc);
	cr_assert_eq(rc, NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
	k = first;
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	m_joined();
	cr_assert_eq(takes(), -EAGAIN);
}

/* A lane has just been told that it may use its connection, and is not up yet. */
Test(nfs4_check, nobody_moves_after_a_check_has_ended_well)
{
	struct nfs_check second;

	k.may_move = true;
	m_who_args(1);
	sends();
	second = k;
	up_to_join();
	m_joined();
	cr_assert_eq(takes(), 0);
	begun = second;
	m_who(0, 3, "new", "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	cr_assert_eq(forget(0), -EAGAIN);
	cr_assert_eq(n4.identity.now.changes, 1);
	/* But one that finds the same server joins as well. */
	k = second;
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
}

/* ---- joining ---- */

Test(nfs4_check, what_the_server_says_of_the_connection)
{
	static const struct { uint32_t at, word; int rc; const char *words; } t[] = {
		{ 36, 3, 0, "" },                       /* fore and back channel */
		{ 36, 2, -EPROTO, "callbacks" },
		{ 36, 0, -EPROTO, "callbacks" },        /* no such direction */
		{ 36, 5, -EPROTO, "callbacks" },
		{ 40, 1, -EPROTO, "RDMA" },
		{ 20, 1, -EPROTO, "another session" },
		{ 32, 1, -EPROTO, "another session" },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		up_to_join();
		m_joined();
		m_set(t[i].at, t[i].word);
		cr_assert_eq(takes(), t[i].rc, "row %u", i);
		cr_assert(strstr(k.why.text, t[i].words), "%s", k.why.text);
	}
	cr_assert_not(asked_for_session());
}

/* The first SEQUENCE joins it. */
Test(nfs4_check, server_without_bind_conn_to_session)
{
	up_to_join();
	m_status(BIND, 10004);
	cr_assert_eq(takes(), 0);
	m_status(ILLEGAL, ILLEGAL);
	cr_assert_eq(takes(), 0);
	all_cuts();
	/* That operation has one status only. */
	m_status(ILLEGAL, DELAY);
	cr_assert_eq(takes(), -EBADMSG);
}

Test(nfs4_check, session_is_lost)
{
	static const uint32_t says[] = { BADSESSION, DEADSESSION };

	for (unsigned i = 0; i < 2; i++) {
		/* Nobody else is there: it is the server, and has restarted. */
		up_to_join();
		m_status(BIND, says[i]);
		cr_assert_eq(takes(), 0);
		cr_assert(asked_for_session());
		/* The next session is on its way. */
		lane4()->hold = true;
		cr_assert_eq(takes(), 0);
		cr_assert_not(asked_for_session());
		lane4()->hold = false;
	}
}

/* A copy of the mounted server's machine says the same names. */
Test(nfs4_check, same_names_without_the_session)
{
	up_to_join();
	other_lane_is_up(true);
	m_status(BIND, BADSESSION);
	cr_assert_eq(takes(), -EAGAIN);
	cr_assert(strstr(k.why.text, "does not know the session"), "%s", k.why.text);
	cr_assert_not(asked_for_session(), "the session is good");
	/* Others have found that it is lost. */
	atomic_store(&n4.need_session, true);
	cr_assert_eq(takes(), NFS_LATER);
	atomic_store(&n4.need_session, false);
	lane4()->hold = true;
	cr_assert_eq(takes(), NFS_LATER);
	lane4()->hold = false;
}

/* While it was sent, recovery has made another one. */
Test(nfs4_check, session_is_replaced)
{
	for (unsigned ok = 0; ok < 2; ok++) {
		memcpy(n4.sessionid, "0123456789abcdef", 16);
		new_session4();
		up_to_join();
		memcpy(n4.sessionid, "fedcba9876543210", 16);
		new_session4();
		if (ok)
			m_joined();
		else
			m_status(BIND, BADSESSION);
		cr_assert_eq(takes(), NFS_NEXT);
		m_new();
		M(0, 1, 1, BIND, 0x66656463, 0x62613938, 0x37363534, 0x33323130, 1, 0);
		sends();
		m_new();
		M(0, 0, 1, BIND, 0, 0x66656463, 0x62613938, 0x37363534, 0x33323130, 1, 0);
		cr_assert_eq(takes(), 0);
	}
	cr_assert_not(asked_for_session());
}

/* Recovery needs the connection: it makes the session on it. */
Test(nfs4_check, recovery_in_between)
{
	_Atomic bool *const lost[] = { &n4.need_session, &n4.need_client };

	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
		atomic_store(lost[i], true);
		cr_assert_eq(forget(0), 0);
		/* Another connection is there for that. */
		other_lane_is_up(true);
		cr_assert_eq(forget(0), NFS_NEXT);
		other_lane_is_up(false);
		atomic_store(lost[i], false);
	}
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	slots4()->epoch = 0;
	cr_assert_eq(forget(0), 0, "there is no session yet");
}

/* It has a new client id in the mean time; the server is the same. */
Test(nfs4_check, recovery_asks_who_it_is)
{
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	is_mounted(3, "name", "scope");
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	is_mounted(3, "new", "scope");
	m_joined();
	cr_assert_eq(takes(), -EAGAIN);
	cr_assert_eq(n4.identity.now.changes, 2);
}

Test(nfs4_check, nothing_known_yet)
{
	n4.identity = (struct nfs4_identity){ .known = false };
	nfs4_identity_init(&n4.identity);
	cr_assert_eq(who(3, "any", "thing"), NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
}

/* ---- what servers should not say ---- */

Test(nfs4_check, other_operations)
{
	static const uint32_t ops[] = { 0, 9, 43, 44, 53 };

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_who(0, 3, "name", "scope");
		m_set(12, ops[i]);
		cr_assert_eq(takes(), -EBADMSG);
		m_set(12, EXCHANGE_ID);
		cr_assert_eq(takes(), NFS_NEXT);
		m_forget_args();
		sends();
		m_status(ops[i], 0);
		cr_assert_eq(takes(), -EBADMSG);
		up_to_join();
		m_joined();
		m_set(12, ops[i]);
		cr_assert_eq(takes(), -EBADMSG);
	}
}

/* Only names that differ say that it is another server. */
Test(nfs4_check, statuses)
{
	for (uint32_t status = 1; status < 10200; status = status == 100 ? 10000 : status + 1) {
		int rc;

		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_status(EXCHANGE_ID, status);
		rc = takes();
		cr_assert(rc == NFS_LATER || (rc < 0 && rc != -EXDEV), "%u: %d", status, rc);
		up_to_join();
		m_status(BIND, status);
		rc = takes();
		asked_for_session();
		cr_assert_eq(rc == 0, status == 10004 || status == ILLEGAL || status == BADSESSION ||
			     status == DEADSESSION, "%u", status);
		cr_assert(rc == NFS_LATER || (rc <= 0 && rc != -EXDEV), "%u: %d", status, rc);
	}
}

Test(nfs4_check, compound_fails)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 10021, -EPROTONOSUPPORT }, { 10018, -EIO }, { 0, -EBADMSG },
	};

	for (unsigned i = 0; i < 3; i++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_new();
		M(t[i].status, 0, 0);
		cr_assert_eq(takes(), t[i].rc);
		cr_assert(!t[i].status || strstr(k.why.text, "NFSv4.1"), "%s", k.why.text);
		up_to_join();
		m_new();
		M(t[i].status, 0, 0);
		cr_assert_eq(takes(), t[i].rc);
	}
}
