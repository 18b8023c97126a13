/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a mount has come to, of what was wanted, of what this machine has, and of what the server
 * allows: for the log when it is made, for the command ctl, and for the command doctor. A copy;
 * the first path's last connection speaks for all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nfs_client;

struct nfs_chosen {
	const char *version;            /* "4.1" */
	const char *fabric;             /* "verbs", "iwarp" */
	const char *memreg;             /* the strategy in use; "" before there was a connection */
	unsigned paths, lanes, connections;     /* connections: of all lanes on all paths */
	unsigned credits;               /* of a connection: as many calls at once */
	unsigned slots;                 /* of the session; 0: the version has none */
	uint32_t rsize, wsize;
	uint32_t inline_send, inline_recv;
	bool remote_inval;              /* both ends can, by the server's word (RFC 8797) */
	uint64_t locked;                /* bytes of buffers and receives, as planned */
	/* The file system's, which nfs does not know: its owner fills them in. */
	uint32_t readahead;             /* bytes; 0: none */
	uint64_t write_behind;          /* bytes at most; 0: none */
};

/* Any thread but a lane's, when the mount is made. It waits for nobody. */
struct nfs_chosen nfs_chosen_of(struct nfs_client *cl);

#define NFS_CHOSEN_TEXT 384u
/* One line for people. Returns out. */
const char *nfs_chosen_text(const struct nfs_chosen *c, char out[NFS_CHOSEN_TEXT]);
