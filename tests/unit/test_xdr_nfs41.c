/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NFSv4.1 on the wire: sessions, state, pNFS (RFC 5662, RFC 8881, section 18). */
#include <criterion/criterion.h>

#include "nfs4.h"
#include "xdr_vector.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Rows: an operation's arguments, its result, a whole union each. */
#define ARG(op, field, what, bytes, ...)				\
	XDR_VECTOR(nfs_argop4, what, bytes, .argop = OP_##op,		\
		   .nfs_argop4_u.field = { __VA_ARGS__ })
#define RES(op, field, what, bytes, ...)				\
	XDR_VECTOR(nfs_resop4, what, bytes, .resop = OP_##op,		\
		   .nfs_resop4_u.field = { __VA_ARGS__ })

/* A result that is one status word. */
#define RES_STATUS(op, field, number)					\
	RES(op, field, #op " result", number " 00002718", NFS4ERR_DELAY)

#define STR(s) { sizeof(s) - 1, s }

#define SESSION "'0123456789abcdef'"
#define STATEID "00000001 'twelve bytes'"
#define A_SESSION "0123456789abcdef"
#define A_STATEID { 1, "twelve bytes" }

Test(xdr_nfs41, exchange_id)
{
	nfs_impl_id4 impl = {
		STR("example.org"), STR("client"), { INT64_C(0x100000002), 3 },
	};
	sec_oid4 algs[2] = { STR("oid1"), STR("oid") };
	const struct xdr_vector v[] = {
		ARG(EXCHANGE_ID, opexchange_id, "EXCHANGE_ID",
		    "0000002a"
		    " 'verifier' 00000006 'client'"
		    " 00010101 00000000 00000000",
		    { "verifier", STR("client") },
		    EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_BIND_PRINC_STATEID |
		    EXCHGID4_FLAG_USE_NON_PNFS),
		ARG(EXCHANGE_ID, opexchange_id, "EXCHANGE_ID with implementation id",
		    "0000002a"
		    " 'verifier' 00000006 'client'"
		    " 00000000"
		    " 00000001 00000001 00000200 00000002 00000000 00000004"
		    " 00000001 0000000b 'example.org' 00000006 'client'"
		    " 0000000100000002 00000003",
		    { "verifier", STR("client") }, 0,
		    { SP4_MACH_CRED,
		      { .spa_mach_ops = { { 1, { 0x200 } }, { 2, { 0, 4 } } } } },
		    { 1, &impl }),
		ARG(EXCHANGE_ID, opexchange_id, "EXCHANGE_ID with SSV",
		    "0000002a 'verifier' 00000000 00000000"
		    " 00000002 00000000 00000000"
		    " 00000002 00000004 'oid1' 00000003 'oid'"
		    " 00000001 00000004 'oid1'"
		    " 00000080 00000001 00000000",
		    { "verifier", { 0, NULL } }, 0,
		    { SP4_SSV,
		      { .spa_ssv_parms = { .ssp_hash_algs = { 2, algs },
					   .ssp_encr_algs = { 1, algs },
					   .ssp_window = 128,
					   .ssp_num_gss_handles = 1 } } }),
		RES(EXCHANGE_ID, opexchange_id, "EXCHANGE_ID result",
		    "0000002a 00000000"
		    " 0102030405060708 00000009 80010000 00000000"
		    " 0000000000000007 00000005 'major'"
		    " 00000005 'scope'"
		    " 00000001 0000000b 'example.org' 00000006 'client'"
		    " 0000000100000002 00000003",
		    NFS4_OK, { {
			.eir_clientid = UINT64_C(0x0102030405060708),
			.eir_sequenceid = 9,
			.eir_flags = EXCHGID4_FLAG_CONFIRMED_R |
				     EXCHGID4_FLAG_USE_NON_PNFS,
			.eir_server_owner = { 7, STR("major") },
			.eir_server_scope = STR("scope"),
			.eir_server_impl_id = { 1, &impl },
		    } }),
		RES(EXCHANGE_ID, opexchange_id, "EXCHANGE_ID result with SSV",
		    "0000002a 00000000"
		    " 0102030405060708 00000009 00000000"
		    " 00000002 00000000 00000000 00000001 00000002 00000003 00000004"
		    " 00000001 00000004 'oid1'"
		    " 0000000000000000 00000000 00000000 00000000",
		    NFS4_OK, { {
			.eir_clientid = UINT64_C(0x0102030405060708),
			.eir_sequenceid = 9,
			.eir_state_protect = { SP4_SSV, { .spr_ssv_info = {
				.spi_hash_alg = 1, .spi_encr_alg = 2,
				.spi_ssv_len = 3, .spi_window = 4,
				.spi_handles = { 1, algs } } } },
		    } }),
		RES_STATUS(EXCHANGE_ID, opexchange_id, "0000002a"),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs41, create_session)
{
	uint32_t ird = 16, gids[2] = { 4, 24 };
	callback_sec_parms4 sec[3] = {
		{ .cb_secflavor = AUTH_NONE },
		{ AUTH_SYS, { .cbsp_sys_cred = {
			1, STR("host"), 1000, 100, { 2, gids } } } },
		{ RPCSEC_GSS, { .cbsp_gss_handles = {
			1, STR("server"), STR("client") } } },
	};
	const channel_attrs4 fore = { 0, 1052672, 1052672, 2128, 8, 64, { 0, NULL } };
	const channel_attrs4 back = { 0, 4068, 4068, 0, 2, 1, { 1, &ird } };
	const struct xdr_vector v[] = {
		ARG(CREATE_SESSION, opcreate_session, "CREATE_SESSION",
		    "0000002b 0102030405060708 00000009 00000002"
		    " 00000000 00101000 00101000 00000850 00000008 00000040 00000000"
		    " 00000000 00000fe4 00000fe4 00000000 00000002 00000001"
		    " 00000001 00000010"
		    " 40000000 00000003"
		    " 00000000"
		    " 00000001 00000001 00000004 'host' 000003e8 00000064"
		    " 00000002 00000004 00000018"
		    " 00000006 00000001 00000006 'server' 00000006 'client'",
		    UINT64_C(0x0102030405060708), 9,
		    CREATE_SESSION4_FLAG_CONN_BACK_CHAN, fore, back, NFS4_CALLBACK,
		    { 3, sec }),
		RES(CREATE_SESSION, opcreate_session, "CREATE_SESSION result",
		    "0000002b 00000000 " SESSION " 00000009 00000002"
		    " 00000000 00101000 00101000 00000850 00000008 00000040 00000000"
		    " 00000000 00000fe4 00000fe4 00000000 00000002 00000001"
		    " 00000001 00000010",
		    NFS4_OK, { { A_SESSION, 9, CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
				 fore, back } }),
		RES_STATUS(CREATE_SESSION, opcreate_session, "0000002b"),
		ARG(BACKCHANNEL_CTL, opbackchannel_ctl, "BACKCHANNEL_CTL",
		    "00000028 40000001 00000001 00000000", 0x40000001, { 1, sec }),
		RES_STATUS(BACKCHANNEL_CTL, opbackchannel_ctl, "00000028"),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs41, session)
{
	const struct xdr_vector v[] = {
		ARG(SEQUENCE, opsequence, "SEQUENCE",
		    "00000035 " SESSION " 00000011 00000002 00000003 00000001",
		    A_SESSION, 17, 2, 3, TRUE),
		RES(SEQUENCE, opsequence, "SEQUENCE result",
		    "00000035 00000000 " SESSION
		    " 00000011 00000002 0000003f 0000001f 00000101",
		    NFS4_OK, { { A_SESSION, 17, 2, 63, 31,
				 SEQ4_STATUS_CB_PATH_DOWN |
				 SEQ4_STATUS_RESTART_RECLAIM_NEEDED } }),
		RES(SEQUENCE, opsequence, "SEQUENCE failure",
		    "00000035 00002744", NFS4ERR_BADSESSION),
		ARG(BIND_CONN_TO_SESSION, opbind_conn_to_session, "BIND_CONN_TO_SESSION",
		    "00000029 " SESSION " 00000007 00000000",
		    A_SESSION, CDFC4_BACK_OR_BOTH, FALSE),
		RES(BIND_CONN_TO_SESSION, opbind_conn_to_session,
		    "BIND_CONN_TO_SESSION result",
		    "00000029 00000000 " SESSION " 00000003 00000001",
		    NFS4_OK, { { A_SESSION, CDFS4_BOTH, TRUE } }),
		RES_STATUS(BIND_CONN_TO_SESSION, opbind_conn_to_session, "00000029"),
		ARG(DESTROY_SESSION, opdestroy_session, "DESTROY_SESSION",
		    "0000002c " SESSION, A_SESSION),
		RES_STATUS(DESTROY_SESSION, opdestroy_session, "0000002c"),
		ARG(DESTROY_CLIENTID, opdestroy_clientid, "DESTROY_CLIENTID",
		    "00000039 0102030405060708", UINT64_C(0x0102030405060708)),
		RES_STATUS(DESTROY_CLIENTID, opdestroy_clientid, "00000039"),
		ARG(RECLAIM_COMPLETE, opreclaim_complete, "RECLAIM_COMPLETE",
		    "0000003a 00000000", FALSE),
		RES_STATUS(RECLAIM_COMPLETE, opreclaim_complete, "0000003a"),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs41, stateids)
{
	stateid4 ids[2] = { A_STATEID, { 0, "another 12 b" } };
	nfsstat4 codes[2] = { NFS4_OK, NFS4ERR_EXPIRED };
	const struct xdr_vector v[] = {
		ARG(FREE_STATEID, opfree_stateid, "FREE_STATEID",
		    "0000002d " STATEID, A_STATEID),
		RES_STATUS(FREE_STATEID, opfree_stateid, "0000002d"),
		ARG(GET_DIR_DELEGATION, opget_dir_delegation, "GET_DIR_DELEGATION",
		    "0000002e 00000001 00000001 00000018"
		    " 0000000000000005 00000006 0000000000000007 00000008 00000001 00000002 00000000",
		    TRUE, { 1, { 0x18 } }, { 5, 6 }, { 7, 8 }, { 1, { 2 } }, { 0 }),
		RES(GET_DIR_DELEGATION, opget_dir_delegation, "GET_DIR_DELEGATION result",
		    "0000002e 00000000 00000000 'verifier' " STATEID " 00000001 00000010 00000000 00000001 00000004",
		    NFS4_OK, { { GDD4_OK, { { "verifier", A_STATEID, { 1, { 0x10 } }, { 0 }, { 1, { 4 } } } } } }),
		RES(GET_DIR_DELEGATION, opget_dir_delegation, "GET_DIR_DELEGATION later",
		    "0000002e 00000000 00000001 00000001",
		    NFS4_OK, { { GDD4_UNAVAIL, { .gddrnf_will_signal_deleg_avail = TRUE } } }),
		RES_STATUS(GET_DIR_DELEGATION, opget_dir_delegation, "0000002e"),
		ARG(TEST_STATEID, optest_stateid, "TEST_STATEID",
		    "00000037 00000002 " STATEID " 00000000 'another 12 b'",
		    { 2, ids }),
		RES(TEST_STATEID, optest_stateid, "TEST_STATEID result",
		    "00000037 00000000 00000002 00000000 0000271b",
		    NFS4_OK, { { { 2, codes } } }),
		RES_STATUS(TEST_STATEID, optest_stateid, "00000037"),
	};

	check_xdr_vectors(v, COUNT(v));
}

/* What 4.1 adds to OPEN. */
Test(xdr_nfs41, open)
{
	const fattr4 attrs = { { 2, { 0, 2 } }, { 4, "\0\0\1\244" } };
	const struct xdr_vector v[] = {
		ARG(OPEN, opopen, "OPEN with EXCLUSIVE4_1",
		    "00000012 00000000 00000403 00000000"
		    " 0000000000000000 00000005 'owner'"
		    " 00000001 00000003 'verifier'"
		    " 00000002 00000000 00000002 00000004 000001a4"
		    " 00000000 00000004 'file'",
		    0, OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
		    OPEN4_SHARE_DENY_NONE, { 0, STR("owner") },
		    { OPEN4_CREATE, { { EXCLUSIVE4_1, {
			.ch_createboth = { "verifier", attrs } } } } },
		    { CLAIM_NULL, { .file = STR("file") } }),
		ARG(OPEN, opopen, "OPEN with CLAIM_FH",
		    "00000012 00000000 00000401 00000000"
		    " 0000000000000000 00000005 'owner' 00000000 00000004",
		    0, OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
		    OPEN4_SHARE_DENY_NONE, { 0, STR("owner") },
		    { .opentype = OPEN4_NOCREATE }, { .claim = CLAIM_FH }),
		ARG(OPEN, opopen, "OPEN with CLAIM_DELEG_CUR_FH",
		    "00000012 00000000 00000001 00000000"
		    " 0000000000000000 00000005 'owner' 00000000 00000005 " STATEID,
		    0, OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_NONE,
		    { 0, STR("owner") }, { .opentype = OPEN4_NOCREATE },
		    { CLAIM_DELEG_CUR_FH, { .oc_delegate_stateid = A_STATEID } }),
		ARG(OPEN, opopen, "OPEN with CLAIM_DELEG_PREV_FH",
		    "00000012 00000000 00000001 00000000"
		    " 0000000000000000 00000000 00000000 00000006",
		    0, OPEN4_SHARE_ACCESS_READ, .claim.claim = CLAIM_DELEG_PREV_FH),
		RES(OPEN, opopen, "OPEN result without delegation, contention",
		    "00000012 00000000 " STATEID
		    " 00000001 0000000000000002 0000000000000003 00000024"
		    " 00000000 00000003 00000001 00000001",
		    NFS4_OK, { { A_STATEID, { TRUE, 2, 3 },
			OPEN4_RESULT_LOCKTYPE_POSIX | OPEN4_RESULT_MAY_NOTIFY_LOCK,
			{ .len = 0 }, { OPEN_DELEGATE_NONE_EXT, { .od_whynone = {
			WND4_CONTENTION, { .ond_server_will_push_deleg = TRUE } } } }
		    } }),
		RES(OPEN, opopen, "OPEN result without delegation, not wanted",
		    "00000012 00000000 " STATEID
		    " 00000000 0000000000000000 0000000000000000 00000000"
		    " 00000000 00000003 00000000",
		    NFS4_OK, { { .stateid = A_STATEID, .delegation = {
			.delegation_type = OPEN_DELEGATE_NONE_EXT } } }),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs41, secinfo)
{
	secinfo4 flavors[2] = {
		{ .flavor = AUTH_SYS },
		{ RPCSEC_GSS, { { STR("krb5-oid"), 0, 3 } } },
	};
	const struct xdr_vector v[] = {
		ARG(SECINFO, opsecinfo, "SECINFO", "00000021 00000003 'dir'", STR("dir")),
		RES(SECINFO, opsecinfo, "SECINFO result",
		    "00000021 00000000 00000002 00000001"
		    " 00000006 00000008 'krb5-oid' 00000000 00000003",
		    NFS4_OK, { { 2, flavors } }),
		RES_STATUS(SECINFO, opsecinfo, "00000021"),
		XDR_VECTOR(nfs_argop4, "SECINFO_NO_NAME", "00000034 00000001",
			   OP_SECINFO_NO_NAME,
			   { .opsecinfo_no_name = SECINFO_STYLE4_PARENT }),
		RES(SECINFO_NO_NAME, opsecinfo_no_name, "SECINFO_NO_NAME result",
		    "00000034 00000000 00000001 00000001",
		    NFS4_OK, { { 1, flavors } }),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs41, pnfs)
{
	layout4 layout = {
		1, 2, LAYOUTIOMODE4_RW, { LAYOUT4_FLEX_FILES, STR("body!") },
	};
	const struct xdr_vector v[] = {
		ARG(GETDEVICEINFO, opgetdeviceinfo, "GETDEVICEINFO",
		    "0000002f " SESSION " 00000001 00001000 00000001 00000006",
		    A_SESSION, LAYOUT4_NFSV4_1_FILES, 4096, { 1, { 6 } }),
		RES(GETDEVICEINFO, opgetdeviceinfo, "GETDEVICEINFO result",
		    "0000002f 00000000 00000001 00000004 'addr' 00000000",
		    NFS4_OK, { { { LAYOUT4_NFSV4_1_FILES, STR("addr") },
				 { .len = 0 } } }),
		RES(GETDEVICEINFO, opgetdeviceinfo, "GETDEVICEINFO too small",
		    "0000002f 00002715 00002000",
		    NFS4ERR_TOOSMALL, { .gdir_mincount = 8192 }),
		ARG(LAYOUTGET, oplayoutget, "LAYOUTGET",
		    "00000032 00000001 00000004 00000002 0000000000000001"
		    " ffffffffffffffff 0000000000001000 " STATEID " 00001000",
		    TRUE, LAYOUT4_FLEX_FILES, LAYOUTIOMODE4_RW, 1, UINT64_MAX, 4096,
		    A_STATEID, 4096),
		RES(LAYOUTGET, oplayoutget, "LAYOUTGET result",
		    "00000032 00000000 00000001 " STATEID " 00000001"
		    " 0000000000000001 0000000000000002 00000002 00000004"
		    " 00000005 'body!'",
		    NFS4_OK, { { TRUE, A_STATEID, { 1, &layout } } }),
		RES(LAYOUTGET, oplayoutget, "LAYOUTGET later",
		    "00000032 0000274a 00000001", NFS4ERR_LAYOUTTRYLATER,
		    { .logr_will_signal_layout_avail = TRUE }),
		ARG(LAYOUTCOMMIT, oplayoutcommit, "LAYOUTCOMMIT",
		    "00000031 0000000000000001 0000000000000002 00000000 " STATEID
		    " 00000001 0000000000000003"
		    " 00000001 0000000000000004 00000005"
		    " 00000001 00000003 'upd'",
		    1, 2, FALSE, A_STATEID, { TRUE, { 3 } }, { TRUE, { { 4, 5 } } },
		    { LAYOUT4_NFSV4_1_FILES, STR("upd") }),
		RES(LAYOUTCOMMIT, oplayoutcommit, "LAYOUTCOMMIT result",
		    "00000031 00000000 00000001 0000000000000009",
		    NFS4_OK, { { { TRUE, { 9 } } } }),
		ARG(LAYOUTRETURN, oplayoutreturn, "LAYOUTRETURN of a file",
		    "00000033 00000000 00000001 00000003 00000001"
		    " 0000000000000001 0000000000000002 " STATEID " 00000000",
		    FALSE, LAYOUT4_NFSV4_1_FILES, LAYOUTIOMODE4_ANY,
		    { LAYOUTRETURN4_FILE, { { 1, 2, A_STATEID, { 0, NULL } } } }),
		ARG(LAYOUTRETURN, oplayoutreturn, "LAYOUTRETURN of all",
		    "00000033 00000000 00000001 00000003 00000003",
		    FALSE, LAYOUT4_NFSV4_1_FILES, LAYOUTIOMODE4_ANY,
		    { .lr_returntype = LAYOUTRETURN4_ALL }),
		RES(LAYOUTRETURN, oplayoutreturn, "LAYOUTRETURN result",
		    "00000033 00000000 00000001 " STATEID,
		    NFS4_OK, { { TRUE, { A_STATEID } } }),
		RES(LAYOUTRETURN, oplayoutreturn, "LAYOUTRETURN result, none left",
		    "00000033 00000000 00000000", NFS4_OK),
	};

	check_xdr_vectors(v, COUNT(v));
}

/* The numbers beyond 4.0, at the ends of their ranges and where one is left out. */
Test(xdr_nfs41, numbers)
{
	cr_expect_eq(NFS4ERR_BADIOMODE, 10049);
	cr_expect_eq(NFS4ERR_CONN_NOT_BOUND_TO_SESSION, 10055);
	cr_expect_eq(NFS4ERR_SEQ_MISORDERED, 10063);
	cr_expect_eq(NFS4ERR_RETRY_UNCACHED_REP, 10068);
	cr_expect_eq(NFS4ERR_HASH_ALG_UNSUPP, 10072);
	cr_expect_eq(NFS4ERR_CLIENTID_BUSY, 10074);
	cr_expect_eq(NFS4ERR_DEADSESSION, 10078);
	cr_expect_eq(NFS4ERR_DELEG_REVOKED, 10087);
	cr_expect_eq(NFS4ERR_OFFLOAD_NO_REQS, 10094);
	cr_expect_eq(NFS4ERR_XATTR2BIG, 10096);
	cr_expect_eq(FATTR4_DIR_NOTIF_DELAY, 56);
	cr_expect_eq(FATTR4_LAYOUT_BLKSIZE, 65);
	cr_expect_eq(FATTR4_SUPPATTR_EXCLCREAT, 75);
	cr_expect_eq(FATTR4_CLONE_BLKSIZE, 77);
	cr_expect_eq(FATTR4_CHANGE_ATTR_TYPE, 79);
	cr_expect_eq(FATTR4_MODE_UMASK, 81);
	cr_expect_eq(FATTR4_XATTR_SUPPORT, 82);
}
