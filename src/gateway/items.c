/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the data in a reply. The reply is decoded with the client's XDR, which keeps
 * pointers into the record instead of copies.
 */
#include <string.h>
#include <rpc/rpc.h>
#include "gateway/gateway.h"
#include "nfs3.h"
#include "nfs4.h"
#include "rpc/rpcmsg.h"

struct found {
	struct gw_item *out;
	unsigned n;
};

/* An empty item counts, too: it uses up its chunk. */
static void add(struct found *f, const nfs_bulk *item)
{
	if (f->n < GW_ITEMS_MAX)
		f->out[f->n++] = (struct gw_item){ item->pos, item->len };
}

static void items3(struct found *f, const struct gw_call *k, XDR *x)
{
	if (k->proc == NFSPROC3_READ) {
		READ3res r = { 0 };

		if (xdr_READ3res(x, &r) && r.status == NFS3_OK)
			add(f, &r.READ3res_u.resok.data);
	} else if (k->proc == NFSPROC3_READLINK) {
		READLINK3res r = { 0 };

		if (xdr_READLINK3res(x, &r) && r.status == NFS3_OK)
			add(f, &r.READLINK3res_u.resok.data);
	}
}

static void item4(struct found *f, const nfs_resop4 *r)
{
	if (r->resop == OP_READ) {
		const READ4res *read = &r->nfs_resop4_u.opread;

		if (read->status == NFS4_OK)
			add(f, &read->READ4res_u.resok4.data);
	} else if (r->resop == OP_READLINK) {
		const READLINK4res *l = &r->nfs_resop4_u.opreadlink;

		if (l->status == NFS4_OK)
			add(f, &l->READLINK4res_u.resok4.link);
	}
}

static void items4(struct found *f, XDR *x)
{
	compound4_res_head head = { 0 };

	if (!xdr_compound4_res_head(x, &head))
		return;
	for (uint32_t i = 0; i < head.numres; i++) {
		nfs_resop4 r;
		bool_t ok;

		memset(&r, 0, sizeof(r));
		ok = xdr_nfs_resop4(x, &r);
		if (ok)
			item4(f, &r);
		xdr_free((xdrproc_t)xdr_nfs_resop4, (char *)&r);
		if (!ok)
			break;
	}
	xdr_free((xdrproc_t)xdr_compound4_res_head, (char *)&head);
}

unsigned gw_items(const struct gw_call *k, const char *reply, uint32_t len,
		  struct gw_item out[static GW_ITEMS_MAX])
{
	struct found f = { .out = out };
	uint32_t why;
	XDR x;

	if (k->prog != NFS_PROGRAM || !k->h.nwrites)
		return 0;
	xdr_msg_create(&x, (void *)(uintptr_t)reply, len, XDR_DECODE);
	if (rpcmsg_reply(&x, k->xid, NULL, &why) == 0) {
		if (k->vers == NFS_V3)
			items3(&f, k, &x);
		else if (k->vers == NFS_V4 && k->proc == NFSPROC4_COMPOUND)
			items4(&f, &x);
	}
	xdr_destroy(&x);
	return f.n;
}
