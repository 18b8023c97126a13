/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <string.h>
#include "check4_play.h"

/* ---- one lane's check ---- */

struct nfs_check k, begun;

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

void sends(void)
{
	struct nfs_call c = call();

	play_args(&c, &def);
	begun = k;
}

int takes(void)
{
	struct nfs_call c = call();
	int rc = play_reply(&c, &def);

	cr_assert(rc >= 0 || k.why.text[0], "%d without a reason", rc);
	return rc;
}

void all_cuts(void)
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

void is_mounted(uint64_t minor, const char *major, const char *scope)
{
	struct nfs4_names n;

	names(&n, minor, major, scope);
	nfs4_identity_set(&n4.identity, &n);
}

void check4_setup(void)
{
	play4_setup();
	strcpy(n4.owner, "who");
	memcpy(n4.verifier, "verifier", 8);
	is_mounted(3, "name", "scope");
	k = begun = (struct nfs_check){ 0 };
}

/* ---- messages ---- */

void m_who_args(uint32_t minor)
{
	m_new();
	M(0, minor, 1, EXCHANGE_ID, 0x76657269, 0x66696572);
	m_str("who path 1");
	M(0x10000, 0, 0);               /* USE_NON_PNFS, SP4_NONE, no implementation id */
}

void m_who_bytes(uint32_t flags, uint64_t minor, const void *major, uint32_t major_len,
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

void m_who(uint32_t flags, uint64_t minor, const char *major, const char *scope)
{
	m_who_bytes(flags, minor, major, (uint32_t)strlen(major), scope);
}

void m_forget_args(void)
{
	m_new();
	M(0, 1, 1, DESTROY);
	m_u64(0x1122334455667788);
}

void m_status(uint32_t op, uint32_t status)
{
	m_new();
	M(status, 0, 1, op, status);
}

void m_join_args(void)
{
	m_new();
	M(0, 1, 1, BIND, SESSION_WORDS, 1, 0);  /* CDFC4_FORE, not stepped up */
}

void m_joined(void)
{
	m_new();
	M(0, 0, 1, BIND, 0, SESSION_WORDS, 1, 0);
}

int who(uint64_t minor, const char *major, const char *scope)
{
	k = (struct nfs_check){ .may_move = k.may_move, .known = k.known };
	m_who_args(1);
	sends();
	m_who(0, minor, major, scope);
	return takes();
}

int forget(uint32_t status)
{
	m_forget_args();
	sends();
	m_status(DESTROY, status);
	return takes();
}

void up_to_join(void)
{
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
}

void other_lane_is_up(bool up)
{
	atomic_store(&lanes[0].target.up, up);
}

bool asked_for_session(void)
{
	bool asked = ctl.recover;

	cr_assert_eq(atomic_load(&n4.need_session), asked);
	ctl.recover = false;
	atomic_store(&n4.need_session, false);
	return asked;
}
