/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What answers at the server's TCP ports: at the RDMA port (iWARP is there by TCP), at NFS's own, and
 * rpcbind, which is the only one that tells its clock without a file being changed. Each has two
 * seconds.
 */
#include "doctor/doctor_impl.h"

#include <netinet/in.h>
#include <time.h>
#include <unistd.h>
#include <rpc/rpc.h>
#include "base/loop.h"
#include "base/sock.h"
#include "rpc/rpctcp.h"

#define PORTS_MS 2000u
#define NFS_TCP_PORT 2049u
#define NFS_TCP_PROGRAM 100003u
/* RFC 1833: GETTIME of versions 3 and 4 says the seconds since 1970. */
#define RPCBIND_TCP_PORT 111u
#define RPCBIND_TCP_PROGRAM 100000u
#define RPCBIND_GETTIME 6u

static bool_t ports_nothing(XDR *x, void *arg, ...)
{
	return TRUE;
}

static bool_t ports_seconds(XDR *x, uint32_t *out, ...)
{
	return xdr_uint32_t(x, out);
}

static int ports_connect(const struct sockaddr_storage *to)
{
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	rc = sock_connect(fd, to, mono_ns() + PORTS_MS * 1000000ull);
	close(fd);
	return rc;
}

static bool ports_null(struct rpctcp *t, uint32_t version)
{
	struct errbuf eb;

	return rpctcp_call(t, NFS_TCP_PROGRAM, version, 0, NULL, (xdrproc_t)ports_nothing, NULL,
			   (xdrproc_t)ports_nothing, NULL, &eb) == 0;
}

struct doctor_ports doctor_ports(const struct sockaddr_storage *server)
{
	struct sockaddr_storage nfs = rpctcp_with_port(server, NFS_TCP_PORT);
	struct doctor_ports p = { .rdma_err = ports_connect(server) };
	struct rpctcp *t;
	struct errbuf eb;

	p.rdma_port = p.rdma_err == 0;
	if (rpctcp_open(&t, &nfs, NULL, "NFS", PORTS_MS, &eb))
		return p;
	p.nfs_port = true;
	p.nfs3 = ports_null(t, 3);
	p.nfs4 = ports_null(t, 4);
	rpctcp_close(t);
	return p;
}

bool doctor_clock(const struct sockaddr_storage *server, long *skew)
{
	struct sockaddr_storage at = rpctcp_with_port(server, RPCBIND_TCP_PORT);
	uint32_t there = 0;
	struct rpctcp *t;
	struct errbuf eb;
	int rc;

	if (rpctcp_open(&t, &at, NULL, "rpcbind", PORTS_MS, &eb))
		return false;
	rc = rpctcp_call(t, RPCBIND_TCP_PROGRAM, 3, RPCBIND_GETTIME, NULL, (xdrproc_t)ports_nothing, NULL,
			 (xdrproc_t)ports_seconds, &there, &eb);
	rpctcp_close(t);
	*skew = (long)there - (long)time(NULL);
	return rc == 0;
}
