/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RPC over TCP with record marking (RFC 5531, section 11). One call at a time; blocking,
 * with a time limit. Used for rpcbind and MOUNT while a mount is made, and for NLM.
 */
#pragma once

#include <sys/socket.h>
#include "base/log.h"
#include "rpc/rpcmsg.h"

struct rpctcp;

/*
 * Connects to the address and its port, from the address `local` (NULL, or AF_UNSPEC: any; its port is
 * ignored). `what` names the service in messages ("rpcbind", "mountd") and must stay valid. Root uses a
 * reserved port, as servers demand unless the export is `insecure`. 0, or -errno with eb set:
 * -EADDRNOTAVAIL: `local` is no address of this host.
 */
int rpctcp_open(struct rpctcp **out, const struct sockaddr_storage *addr,
		const struct sockaddr_storage *local, const char *what, unsigned timeout_ms,
		struct errbuf *eb);
/* The address that it goes from. */
void rpctcp_local(const struct rpctcp *t, struct sockaddr_storage *out);
/* Of the calls to come. */
void rpctcp_set_timeout(struct rpctcp *t, unsigned timeout_ms);
/* Another thread: the call that is being made fails. */
void rpctcp_break(struct rpctcp *t);
/* After a call without an answer, what is left of it in the socket is discarded. */
void rpctcp_close(struct rpctcp *t);

/*
 * Makes one call. `res` decodes the results from memory that stays valid until the next
 * call or rpctcp_close(). cred goes out by AUTH_SYS; NULL: AUTH_NONE. 0 or -errno.
 */
int rpctcp_call(struct rpctcp *t, uint32_t prog, uint32_t vers, uint32_t proc,
		const struct rpc_cred *cred, xdrproc_t args, void *argp,
		xdrproc_t res, void *resp, struct errbuf *eb);

/*
 * Asks rpcbind at addr (whose port is ignored) for the TCP port of prog/vers. Returns the
 * port, -ENOENT if it is not registered, or -errno. option: of the mount, for messages: it gives the port.
 */
int rpcbind_tcp_port(const struct sockaddr_storage *addr, uint32_t prog, uint32_t vers,
		     const char *what, const char *option, unsigned timeout_ms, struct errbuf *eb);

/* A copy of addr with that port. */
struct sockaddr_storage rpctcp_with_port(const struct sockaddr_storage *addr, unsigned port);
