/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which parts of a call may be in a Read chunk (RFC 8267, section 2.2). In version 3 these
 * are the data of WRITE and the target of SYMLINK, and nothing else. COMPOUNDs of version 4
 * may have several such items; the server judges those.
 *
 *     xid CALL rpcvers prog vers proc | credential | verifier | arguments
 */
#include "gateway/gateway.h"
#include "nfs3.h"

struct cursor {
	const char *m;
	uint32_t len, at;       /* at > len: read past the end */
};

static uint32_t word(struct cursor *c)
{
	uint32_t at = c->at;

	if (c->len - at < 4 || at > c->len) {
		c->at = c->len + 1;
		return 0;
	}
	c->at += 4;
	return gw_word(c->m + at);
}

static void skip(struct cursor *c, uint32_t n)
{
	if (c->at <= c->len)
		c->at = n > c->len - c->at ? c->len + 1 : c->at + n;
}

static void skip_opaque(struct cursor *c)
{
	uint32_t n = word(c);

	skip(c, n);
	skip(c, -n & 3u);
}

/* mode, uid, gid, size, atime, mtime: each is set or not. */
static void skip_sattr(struct cursor *c)
{
	static const uint32_t bytes[] = { 4, 4, 4, 8 };

	for (unsigned i = 0; i < 4; i++)
		if (word(c))
			skip(c, bytes[i]);
	for (unsigned i = 0; i < 2; i++)
		if (word(c) == SET_TO_CLIENT_TIME)
			skip(c, 8);
}

/* Moves to the item's length; past the end: the call has no item. */
static void find_item(struct cursor *c, uint32_t proc)
{
	skip(c, 6 * 4);
	word(c);
	skip_opaque(c);
	word(c);
	skip_opaque(c);
	skip_opaque(c);         /* the file's handle, or the directory's */
	if (proc == NFSPROC3_WRITE) {
		skip(c, 8 + 4 + 4);
	} else if (proc == NFSPROC3_SYMLINK) {
		skip_opaque(c);
		skip_sattr(c);
	} else {
		c->at = c->len + 1;
	}
}

bool args_reads_ok(const struct gw_call *k)
{
	struct cursor c = { k->call->mem + GW_MARK, k->call_len, 0 };
	uint64_t bytes = 0;
	uint32_t i = 0, len;

	while (i < k->h.nreads && k->h.reads[i].position == 0)
		i++;            /* the Long Call itself */
	if (i == k->h.nreads || (k->prog == NFS_PROGRAM && k->vers != NFS_V3))
		return true;
	if (k->prog != NFS_PROGRAM)
		return false;   /* MOUNT and the like have no such items */
	find_item(&c, k->proc);
	len = word(&c);
	for (; i < k->h.nreads; i++) {
		if (k->h.reads[i].position != c.at)
			return false;
		bytes += k->h.reads[i].seg.length;
	}
	/* Its pad may be there or not. */
	return c.at <= c.len && (bytes == len || bytes == (uint64_t)len + (-len & 3u));
}
