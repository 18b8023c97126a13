/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Callbacks of NFSv4.1 and 4.2 on the wire (RFC 8881, section 20; RFC 7862, section 16). */
#include <criterion/criterion.h>

#include "nfs4.h"
#include "xdr_vector.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Rows: an operation's arguments, its result, a whole union each. */
#define ARG(op, field, what, bytes, ...)				\
	XDR_VECTOR(nfs_cb_argop4, what, bytes, .argop = OP_CB_##op,	\
		   .nfs_cb_argop4_u.field = { __VA_ARGS__ })
#define RES(op, field, what, bytes, ...)				\
	XDR_VECTOR(nfs_cb_resop4, what, bytes, .resop = OP_CB_##op,	\
		   .nfs_cb_resop4_u.field = { __VA_ARGS__ })

/* A result that is one status word. */
#define RES_STATUS(op, field, number)					\
	RES(op, field, "CB_" #op " result", number " 00002718", NFS4ERR_DELAY)

#define STR(s) { sizeof(s) - 1, s }

#define SESSION "'0123456789abcdef'"
#define STATEID "00000001 'twelve bytes'"
#define A_SESSION "0123456789abcdef"
#define A_STATEID { 1, "twelve bytes" }

Test(xdr_nfs4cb, sequence)
{
	referring_call4 calls[2] = { { 5, 1 }, { 6, 2 } };
	referring_call_list4 lists[1] = { { A_SESSION, { 2, calls } } };
	const struct xdr_vector v[] = {
		ARG(SEQUENCE, opcbsequence, "CB_SEQUENCE",
		    "0000000b " SESSION " 00000009 00000000 00000001 00000001 00000000",
		    A_SESSION, 9, 0, 1, TRUE),
		ARG(SEQUENCE, opcbsequence, "CB_SEQUENCE with referring calls",
		    "0000000b " SESSION " 00000009 00000000 00000001 00000000"
		    " 00000001 " SESSION " 00000002 00000005 00000001 00000006 00000002",
		    A_SESSION, 9, 0, 1, FALSE, { 1, lists }),
		RES(SEQUENCE, opcbsequence, "CB_SEQUENCE result",
		    "0000000b 00000000 " SESSION " 00000009 00000000 00000001 00000002",
		    NFS4_OK, { { A_SESSION, 9, 0, 1, 2 } }),
		RES(SEQUENCE, opcbsequence, "CB_SEQUENCE failure",
		    "0000000b 0000274f", NFS4ERR_SEQ_MISORDERED),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs4cb, recalls)
{
	const struct xdr_vector v[] = {
		ARG(RECALL_ANY, opcbrecall_any, "CB_RECALL_ANY",
		    "00000008 00000064 00000001 00000003", 100, { 1, { 3 } }),
		RES_STATUS(RECALL_ANY, opcbrecall_any, "00000008"),
		ARG(RECALLABLE_OBJ_AVAIL, opcbrecallable_obj_avail, "CB_RECALLABLE_OBJ_AVAIL",
		    "00000009 00000001 00000000", 1),
		RES_STATUS(RECALLABLE_OBJ_AVAIL, opcbrecallable_obj_avail, "00000009"),
		ARG(RECALL_SLOT, opcbrecall_slot, "CB_RECALL_SLOT",
		    "0000000a 0000001f", 31),
		RES_STATUS(RECALL_SLOT, opcbrecall_slot, "0000000a"),
		ARG(LAYOUTRECALL, opcblayoutrecall, "CB_LAYOUTRECALL of a file",
		    "00000005 00000001 00000003 00000001 00000001"
		    " 00000002 'fh' 0000000000000000 ffffffffffffffff " STATEID,
		    LAYOUT4_NFSV4_1_FILES, LAYOUTIOMODE4_ANY, TRUE,
		    { LAYOUTRECALL4_FILE, { .lor_layout = {
			STR("fh"), 0, UINT64_MAX, A_STATEID } } }),
		ARG(LAYOUTRECALL, opcblayoutrecall, "CB_LAYOUTRECALL of a file system",
		    "00000005 00000001 00000003 00000000 00000002"
		    " 0000000000000007 0000000000000008",
		    LAYOUT4_NFSV4_1_FILES, LAYOUTIOMODE4_ANY, FALSE,
		    { LAYOUTRECALL4_FSID, { .lor_fsid = { 7, 8 } } }),
		ARG(LAYOUTRECALL, opcblayoutrecall, "CB_LAYOUTRECALL of all",
		    "00000005 00000001 00000003 00000000 00000003",
		    LAYOUT4_NFSV4_1_FILES, LAYOUTIOMODE4_ANY, FALSE,
		    { .lor_recalltype = LAYOUTRECALL4_ALL }),
		RES(LAYOUTRECALL, opcblayoutrecall, "CB_LAYOUTRECALL result",
		    "00000005 0000274c", NFS4ERR_NOMATCHING_LAYOUT),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs4cb, notifications)
{
	notify4 changes[1] = { { { 1, { 4 } }, STR("vals!") } };
	stateid4 copy = A_STATEID;
	const struct xdr_vector v[] = {
		ARG(NOTIFY, opcbnotify, "CB_NOTIFY",
		    "00000006 " STATEID " 00000002 'fh' 00000001"
		    " 00000001 00000004 00000005 'vals!'",
		    A_STATEID, STR("fh"), { 1, changes }),
		RES_STATUS(NOTIFY, opcbnotify, "00000006"),
		ARG(NOTIFY_DEVICEID, opcbnotify_deviceid, "CB_NOTIFY_DEVICEID",
		    "0000000e 00000001 00000001 00000004 00000005 'vals!'", { 1, changes }),
		RES_STATUS(NOTIFY_DEVICEID, opcbnotify_deviceid, "0000000e"),
		ARG(NOTIFY_LOCK, opcbnotify_lock, "CB_NOTIFY_LOCK",
		    "0000000d 00000002 'fh' 0102030405060708 00000005 'owner'",
		    STR("fh"), { UINT64_C(0x0102030405060708), STR("owner") }),
		RES_STATUS(NOTIFY_LOCK, opcbnotify_lock, "0000000d"),
		ARG(PUSH_DELEG, opcbpush_deleg, "CB_PUSH_DELEG",
		    "00000007 00000002 'fh' 00000001 " STATEID
		    " 00000000 00000000 00000000 00000001 00000006 'OWNER@'",
		    STR("fh"), { OPEN_DELEGATE_READ, { .read = { A_STATEID, FALSE,
			{ 0, 0, ACE4_READ_DATA, STR("OWNER@") } } } }),
		RES_STATUS(PUSH_DELEG, opcbpush_deleg, "00000007"),
		ARG(WANTS_CANCELLED, opcbwants_cancelled, "CB_WANTS_CANCELLED",
		    "0000000c 00000001 00000000", TRUE, FALSE),
		RES_STATUS(WANTS_CANCELLED, opcbwants_cancelled, "0000000c"),
		ARG(OFFLOAD, opcboffload, "CB_OFFLOAD",
		    "0000000f 00000002 'fh' " STATEID
		    " 00000000 00000001 " STATEID " 0000000000001000 00000002 'verifier'",
		    STR("fh"), A_STATEID, { NFS4_OK, { .coa_resok4 = {
			{ 1, &copy }, 4096, FILE_SYNC4, "verifier" } } }),
		ARG(OFFLOAD, opcboffload, "CB_OFFLOAD of a failed copy",
		    "0000000f 00000002 'fh' " STATEID " 0000001c 0000000000000800",
		    STR("fh"), A_STATEID, { NFS4ERR_NOSPC, { .coa_bytes_copied = 2048 } }),
		RES_STATUS(OFFLOAD, opcboffload, "0000000f"),
		RES(ILLEGAL, opcbillegal, "CB_ILLEGAL result",
		    "0000273c 0000273c", NFS4ERR_OP_ILLEGAL),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs4cb, compound_head)
{
	const struct xdr_vector v[] = {
		XDR_VECTOR(cb_compound4_args_head, "CB_COMPOUND arguments up to the operations",
			   "00000003 'tag' 00000001 00000007 00000002", STR("tag"), 1, 7, 2),
		XDR_VECTOR(compound4_res_head, "CB_COMPOUND result up to the operations",
			   "00002718 00000003 'tag' 00000002", NFS4ERR_DELAY, STR("tag"), 2),
	};

	check_xdr_vectors(v, COUNT(v));
}
