/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transport header by itself: what is decoded can be encoded, to the same.
 *     input: the header and what follows it
 */
#include <errno.h>
#include <string.h>
#include "fuzz.h"
#include "rpcrdma/header.h"
#include "rpcrdma/pdata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct rr_header h;
	static uint8_t buf[8192];
	struct rr_pdata pd;
	int n = rr_header_decode(&h, data, len);

	rr_pdata_decode(&pd, data, len < 256 ? len : 256);
	CHECK(pd.recv_size >= 1024 && pd.send_size >= 1024);
	if (n < 0) {
		CHECK(n == -EBADMSG || n == -EPROTONOSUPPORT);
		return 0;
	}
	CHECK((size_t)n <= len && h.nreads <= RR_READS_MAX && h.nwrites <= RR_WRITES_MAX);
	CHECK(rr_header_size(&h) == (size_t)n);
	CHECK(rr_header_encode(&h, buf, sizeof(buf)) == n);
	CHECK(!memcmp(buf, data, (size_t)n));
	CHECK(rr_header_encode(&h, buf, (size_t)n - 1) == -EMSGSIZE);
	return 0;
}
