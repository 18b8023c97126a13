/* SPDX-License-Identifier: GPL-2.0-or-later */
/* xdr/rpcrdma.x against the headers of RFC 8166 as bytes. */
#include <criterion/criterion.h>

#include "rpcrdma.h"
#include "xdr_vector.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The fixed part: XID, version 1, 64 credits. */
#define FIXED "01020304 00000001 00000040 "
#define A_FIXED 0x01020304, RPCRDMA_VERSION, 64

/* A segment of 64 KiB. */
#define SEGMENT "000000aa 00010000 00007fff12345678"
#define A_SEGMENT { 0xaa, 65536, UINT64_C(0x7fff12345678) }

Test(xdr_rpcrdma, messages_without_chunks)
{
	const struct xdr_vector v[] = {
		XDR_VECTOR(rdma_msg, "RDMA_MSG",
			   FIXED "00000000 00000000 00000000 00000000",
			   A_FIXED, { .proc = RDMA_MSG }),
		XDR_VECTOR(rdma_msg, "RDMA_NOMSG",
			   FIXED "00000001 00000000 00000000 00000000",
			   A_FIXED, { .proc = RDMA_NOMSG }),
		XDR_VECTOR(rdma_msg, "RDMA_MSGP",
			   FIXED "00000002 00001000 00002000 00000000 00000000 00000000",
			   A_FIXED, { RDMA_MSGP, { .rdma_msgp = { 4096, 8192 } } }),
		XDR_VECTOR(rdma_msg, "RDMA_DONE", FIXED "00000003",
			   A_FIXED, { .proc = RDMA_DONE }),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_rpcrdma, chunk_lists)
{
	xdr_rdma_segment segs[2] = { A_SEGMENT, { 0xbb, 4, 8 } };
	xdr_read_list second = { { 140, { 0xbb, 4, 8 } }, NULL };
	xdr_read_list reads = { { 140, A_SEGMENT }, &second };
	xdr_write_list writes = { { { 2, segs } }, NULL };
	xdr_write_chunk reply = { { 1, segs } };
	const struct xdr_vector v[] = {
		XDR_VECTOR(rdma_msg, "a Read chunk of two segments",
			   FIXED "00000000"
			   " 00000001 0000008c " SEGMENT
			   " 00000001 0000008c 000000bb 00000004 0000000000000008"
			   " 00000000 00000000 00000000",
			   A_FIXED, { RDMA_MSG, { .rdma_msg = { .rdma_reads = &reads } } }),
		XDR_VECTOR(rdma_msg, "a Write chunk of two segments",
			   FIXED "00000000 00000000"
			   " 00000001 00000002 " SEGMENT
			   " 000000bb 00000004 0000000000000008"
			   " 00000000 00000000",
			   A_FIXED, { RDMA_MSG, { .rdma_msg = { .rdma_writes = &writes } } }),
		XDR_VECTOR(rdma_msg, "a Reply chunk",
			   FIXED "00000001 00000000 00000000"
			   " 00000001 00000001 " SEGMENT,
			   A_FIXED, { RDMA_NOMSG, { .rdma_nomsg = { .rdma_reply = &reply } } }),
	};

	check_xdr_vectors(v, COUNT(v));
}

Test(xdr_rpcrdma, errors)
{
	const struct xdr_vector v[] = {
		XDR_VECTOR(rdma_msg, "ERR_VERS",
			   FIXED "00000004 00000001 00000001 00000002",
			   A_FIXED, { RDMA_ERROR, { .rdma_error = {
				ERR_VERS, { { 1, 2 } } } } }),
		XDR_VECTOR(rdma_msg, "ERR_CHUNK", FIXED "00000004 00000002",
			   A_FIXED, { RDMA_ERROR, { .rdma_error = { .err = ERR_CHUNK } } }),
	};

	check_xdr_vectors(v, COUNT(v));
}
