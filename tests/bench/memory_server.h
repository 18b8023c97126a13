/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of memory_server share: its file, and what NFS says of it. */
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include "mount3.h"
#include "nfs3.h"
#include "xdr_msg.h"

#define MEMORY_IO_MAX (1u << 20)

enum { MEMORY_ROOT = 1, MEMORY_DATA = 2 };      /* handles and file ids */

extern uint8_t *memory_file;
extern size_t memory_size;

/* Says so, and ends the program. */
_Noreturn void memory_die(const char *what);

/* ---- memory_nfs.c ---- */

post_op_attr memory_attr(uint32_t id);
nfs_fh3 memory_fh(const uint32_t *id);
/* A call's header; the arguments follow. w: xid, CALL, 2, program, version, procedure. */
bool_t memory_call_header(XDR *in, uint32_t w[6]);
bool_t memory_put_words(XDR *x, const uint32_t *w, unsigned n);
/* A READ's arguments, as far as the file goes. */
bool_t memory_read_args(XDR *in, READ3args *a);
/* Its result, up to the length of the data. */
bool_t memory_read_result(XDR *out, const READ3args *a);
/* Any other procedure that reads. FALSE: there is none, or the arguments are wrong. */
bool_t memory_execute(uint32_t proc, XDR *in, XDR *out);

/* ---- memory_tcp.c ---- */

/* Begins to serve MOUNT and NFS there, port 20048. */
void memory_tcp(struct in_addr address);
