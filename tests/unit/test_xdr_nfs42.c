/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NFSv4.2 on the wire (RFC 7863), extended attributes (RFC 8276), mode_umask (RFC 8275). */
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

#define STATEID "00000001 'twelve bytes'"
#define STATEID2 "00000002 'another 12 b'"
#define A_STATEID { 1, "twelve bytes" }
#define A_STATEID2 { 2, "another 12 b" }

Test(xdr_nfs42, space)
{
	const struct xdr_vector v[] = {
		ARG(ALLOCATE, opallocate, "ALLOCATE",
		    "0000003b " STATEID " 0000000100000000 0000000000100000",
		    A_STATEID, UINT64_C(1) << 32, 1048576),
		RES_STATUS(ALLOCATE, opallocate, "0000003b"),
		ARG(DEALLOCATE, opdeallocate, "DEALLOCATE",
		    "0000003e " STATEID " 0000000000001000 ffffffffffffffff",
		    A_STATEID, 4096, UINT64_MAX),
		RES_STATUS(DEALLOCATE, opdeallocate, "0000003e"),
		ARG(SEEK, opseek, "SEEK",
		    "00000045 " STATEID " 0000000000001000 00000001",
		    A_STATEID, 4096, NFS4_CONTENT_HOLE),
		RES(SEEK, opseek, "SEEK result",
		    "00000045 00000000 00000001 0000000000002000",
		    NFS4_OK, { { TRUE, 8192 } }),
		RES(SEEK, opseek, "SEEK past the end", "00000045 00000006", NFS4ERR_NXIO),
		ARG(IO_ADVISE, opio_advise, "IO_ADVISE",
		    "0000003f " STATEID " 0000000000000000 0000000000010000 00000001 00000002",
		    A_STATEID, 0, 65536, { 1, { 2 } }),
		RES(IO_ADVISE, opio_advise, "IO_ADVISE result",
		    "0000003f 00000000 00000000", NFS4_OK),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs42, copy)
{
	netloc4 from[3] = {
		{ NL4_NAME, { .nl_name = STR("server") } },
		{ NL4_URL, { .nl_url = STR("nfs://s") } },
		{ NL4_NETADDR, { .nl_addr = { STR("tcp"), STR("10.0.0.1.8.1") } } },
	};
	stateid4 running = A_STATEID2;
	nfsstat4 done = NFS4ERR_NOSPC;
	const struct xdr_vector v[] = {
		ARG(COPY, opcopy, "COPY",
		    "0000003c " STATEID " " STATEID2
		    " 0000000000000001 0000000000000002 0000000000000003"
		    " 00000001 00000001 00000000",
		    A_STATEID, A_STATEID2, 1, 2, 3, TRUE, TRUE),
		ARG(COPY, opcopy, "COPY from other servers",
		    "0000003c " STATEID " " STATEID2
		    " 0000000000000000 0000000000000000 0000000000000000"
		    " 00000000 00000000 00000003"
		    " 00000001 00000006 'server'"
		    " 00000002 00000007 'nfs://s'"
		    " 00000003 00000003 'tcp' 0000000c '10.0.0.1.8.1'",
		    .ca_src_stateid = A_STATEID, .ca_dst_stateid = A_STATEID2,
		    .ca_source_server = { 3, from }),
		RES(COPY, opcopy, "COPY result, complete",
		    "0000003c 00000000 00000000 0000000000000003 00000002 'verifier'"
		    " 00000001 00000001",
		    NFS4_OK, { { { { 0, NULL }, 3, FILE_SYNC4, "verifier" },
				 { TRUE, TRUE } } }),
		RES(COPY, opcopy, "COPY result, running",
		    "0000003c 00000000 00000001 " STATEID2
		    " 0000000000000000 00000000 'verifier' 00000001 00000000",
		    NFS4_OK, { { { { 1, &running }, 0, UNSTABLE4, "verifier" },
				 { TRUE, FALSE } } }),
		RES(COPY, opcopy, "COPY result, requirements not met",
		    "0000003c 0000276e 00000000 00000001",
		    NFS4ERR_OFFLOAD_NO_REQS, { .cr_requirements = { FALSE, TRUE } }),
		RES_STATUS(COPY, opcopy, "0000003c"),
		ARG(COPY_NOTIFY, opcopy_notify, "COPY_NOTIFY",
		    "0000003d " STATEID " 00000001 00000006 'server'",
		    A_STATEID, { NL4_NAME, { .nl_name = STR("server") } }),
		RES(COPY_NOTIFY, opcopy_notify, "COPY_NOTIFY result",
		    "0000003d 00000000 000000000000005a 00000001 " STATEID
		    " 00000001 00000001 00000006 'server'",
		    NFS4_OK, { { { 90, 1 }, A_STATEID, { 1, from } } }),
		ARG(OFFLOAD_CANCEL, opoffload_cancel, "OFFLOAD_CANCEL",
		    "00000042 " STATEID2, A_STATEID2),
		RES_STATUS(OFFLOAD_CANCEL, opoffload_cancel, "00000042"),
		ARG(OFFLOAD_STATUS, opoffload_status, "OFFLOAD_STATUS",
		    "00000043 " STATEID2, A_STATEID2),
		RES(OFFLOAD_STATUS, opoffload_status, "OFFLOAD_STATUS result, running",
		    "00000043 00000000 0000000000001000 00000000",
		    NFS4_OK, { { 4096, { 0, NULL } } }),
		RES(OFFLOAD_STATUS, opoffload_status, "OFFLOAD_STATUS result, ended",
		    "00000043 00000000 0000000000001000 00000001 0000001c",
		    NFS4_OK, { { 4096, { 1, &done } } }),
		ARG(CLONE, opclone, "CLONE",
		    "00000047 " STATEID " " STATEID2
		    " 0000000000001000 0000000000002000 0000000000003000",
		    A_STATEID, A_STATEID2, 4096, 8192, 12288),
		RES_STATUS(CLONE, opclone, "00000047"),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs42, read_plus)
{
	read_plus_content contents[2] = {
		{ NFS4_CONTENT_DATA, { .rpc_data = { 4096, STR("abcde") } } },
		{ NFS4_CONTENT_HOLE, { .rpc_hole = { 8192, 4096 } } },
	};
	const struct xdr_vector v[] = {
		ARG(READ_PLUS, opread_plus, "READ_PLUS",
		    "00000044 " STATEID " 0000000000001000 00010000",
		    A_STATEID, 4096, 65536),
		RES(READ_PLUS, opread_plus, "READ_PLUS result",
		    "00000044 00000000 00000001 00000002"
		    " 00000000 0000000000001000 00000005 'abcde'"
		    " 00000001 0000000000002000 0000000000001000",
		    NFS4_OK, { { TRUE, { 2, contents } } }),
		RES_STATUS(READ_PLUS, opread_plus, "00000044"),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_nfs42, xattrs)
{
	xattrkey4 names[2] = { STR("a"), STR("longer") };
	const struct xdr_vector v[] = {
		ARG(GETXATTR, opgetxattr, "GETXATTR", "00000048 00000003 'key'", STR("key")),
		RES(GETXATTR, opgetxattr, "GETXATTR result",
		    "00000048 00000000 00000005 'value'",
		    NFS4_OK, { .gxr_value = STR("value") }),
		RES(GETXATTR, opgetxattr, "GETXATTR result, none",
		    "00000048 0000276f", NFS4ERR_NOXATTR),
		ARG(SETXATTR, opsetxattr, "SETXATTR",
		    "00000049 00000002 00000003 'key' 00000005 'value'",
		    SETXATTR4_REPLACE, STR("key"), STR("value")),
		RES(SETXATTR, opsetxattr, "SETXATTR result",
		    "00000049 00000000 00000001 0000000000000002 0000000000000003",
		    NFS4_OK, { .sxr_info = { TRUE, 2, 3 } }),
		RES(SETXATTR, opsetxattr, "SETXATTR result, too big",
		    "00000049 00002770", NFS4ERR_XATTR2BIG),
		ARG(LISTXATTRS, oplistxattrs, "LISTXATTRS",
		    "0000004a 0000000000000005 00001000", 5, 4096),
		RES(LISTXATTRS, oplistxattrs, "LISTXATTRS result",
		    "0000004a 00000000 0000000000000007 00000002"
		    " 00000001 'a' 00000006 'longer' 00000001",
		    NFS4_OK, { { 7, { 2, names }, TRUE } }),
		RES_STATUS(LISTXATTRS, oplistxattrs, "0000004a"),
		ARG(REMOVEXATTR, opremovexattr, "REMOVEXATTR",
		    "0000004b 00000003 'key'", STR("key")),
		RES(REMOVEXATTR, opremovexattr, "REMOVEXATTR result",
		    "0000004b 00000000 00000000 0000000000000002 0000000000000003",
		    NFS4_OK, { .rxr_info = { FALSE, 2, 3 } }),
		RES_STATUS(REMOVEXATTR, opremovexattr, "0000004b"),
	};

	check_xdr_vectors(v, COUNT(v));
}

/* Attribute values that have types of their own. */
Test(xdr_nfs42, attribute_values)
{
	nfsace4 aces[2] = {
		{ ACE4_ACCESS_ALLOWED_ACE_TYPE, ACE4_FILE_INHERIT_ACE, ACE4_READ_DATA,
		  STR("OWNER@") },
		{ ACE4_ACCESS_DENIED_ACE_TYPE, 0, ACE4_SYNCHRONIZE, STR("g@dom") },
	};
	component4 path[2] = { STR("export"), STR("a") };
	utf8str_cis servers[1] = { STR("10.0.0.1") };
	fs_location4 location = { { 1, servers }, { 1, path } };
	const struct xdr_vector v[] = {
		XDR_VECTOR(mode_umask4, "mode_umask", "000001a4 00000012", 0644, 022),
		XDR_VECTOR(sec_label4, "sec_label", "00000001 00000002 00000005 'label'",
			   1, 2, STR("label")),
		XDR_VECTOR(fattr4_acl, "acl",
			   "00000002"
			   " 00000000 00000001 00000001 00000006 'OWNER@'"
			   " 00000001 00000000 00100000 00000005 'g@dom'",
			   2, aces),
		XDR_VECTOR(fs_locations4, "fs_locations",
			   "00000002 00000006 'export' 00000001 'a'"
			   " 00000001 00000001 00000008 '10.0.0.1'"
			   " 00000001 00000006 'export'",
			   { 2, path }, { 1, &location }),
	};

	check_xdr_vectors(v, COUNT(v));
}
