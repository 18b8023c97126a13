/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RPC over TCP with record marking (RFC 5531, section 11), one call at a time,
 * blocking with a time limit. For rpcbind and MOUNT when a mount is made, and
 * nothing else.
 */
#ifndef RPC_RPCTCP_H
#define RPC_RPCTCP_H

#include <sys/socket.h>
#include "base/log.h"
#include "rpc/rpcmsg.h"

struct rpctcp;

/*
 * Connects to the address's port. `what` names the service in messages
 * ("rpcbind", "mountd") and must stay valid. Root uses a reserved port, which
 * servers ask for unless the export is `insecure`. 0 or -errno, eb set.
 */
int rpctcp_open(struct rpctcp **out, const struct sockaddr_storage *addr, const char *what,
		unsigned timeout_ms, struct errbuf *eb);
void rpctcp_close(struct rpctcp *t);

/*
 * One call. The results are decoded by `res` from memory that stays valid
 * until the next call or rpctcp_close(). With cred by AUTH_SYS, with NULL by AUTH_NONE.
 * 0 or -errno.
 */
int rpctcp_call(struct rpctcp *t, uint32_t prog, uint32_t vers, uint32_t proc,
		const struct rpc_cred *cred, xdrproc_t args, void *argp,
		xdrproc_t res, void *resp, struct errbuf *eb);

/*
 * The TCP port where prog/vers listens, asked from rpcbind at addr (its port
 * is not used). Returns the port, -ENOENT if it is not registered, or -errno.
 */
int rpcbind_tcp_port(const struct sockaddr_storage *addr, uint32_t prog, uint32_t vers,
		     const char *what, unsigned timeout_ms, struct errbuf *eb);

/* A copy of addr with that port. */
struct sockaddr_storage rpctcp_with_port(const struct sockaddr_storage *addr, unsigned port);

#endif
