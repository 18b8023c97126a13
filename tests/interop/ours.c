/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Our side: rpcgen's routines with nfs_types. play.h has the picture. */
#include "side_ours.h"

#include <stdlib.h>

#include "cases.h"

/* Encodes what was played, and puts the bulk data where it belongs: the last one first, so
 * that the others' positions stay what they are. */
static uint32_t encode_obj(const struct play_case *c, const struct play *p,
			   void *obj, void *buf, uint32_t cap)
{
	uint32_t len;
	XDR xdrs;

	xdrmem_create(&xdrs, buf, cap, XDR_ENCODE);
	if (!c->codec(&xdrs, obj))
		return 0;
	len = XDR_GETPOS(&xdrs);
	for (unsigned i = p->nbulks; i-- > 0; ) {
		const nfs_bulk *bulk = p->bulks[i].bulk;

		if (nfs_bulk_insert(buf, &len, cap, bulk->pos, p->bulks[i].data, p->bulks[i].len) != 0)
			return 0;
	}
	return len;
}

static uint32_t ours_encode(unsigned i, unsigned k, void *buf, uint32_t cap)
{
	void *obj = calloc(1, cases[i].size);
	struct play p;
	uint32_t len;

	play_start(&p, false, k);
	cases[i].play(&p, obj);
	len = encode_obj(&cases[i], &p, obj, buf, cap);
	free(obj);
	return len;
}

static uint32_t ours_decode(unsigned i, unsigned k, const void *buf, uint32_t len,
			    void *again, uint32_t cap, const char **wrong)
{
	void *obj = calloc(1, cases[i].size);
	uint32_t outlen = 0;
	struct play p;
	XDR xdrs;

	play_start(&p, true, k % PLAY_VARIANTS);
	xdrmem_create(&xdrs, (char *)buf, len, XDR_DECODE);
	if (cases[i].codec(&xdrs, obj)) {
		outlen = XDR_GETPOS(&xdrs);
		if (k < PLAY_VARIANTS) {
			cases[i].play(&p, obj);
			if (outlen != len)
				play_wrong(&p, "bytes left over");
			outlen = encode_obj(&cases[i], &p, obj, again, cap);
		}
	}
	*wrong = p.wrong;
	xdrs.x_op = XDR_FREE;
	cases[i].codec(&xdrs, obj);
	free(obj);
	return outlen;
}

static const char *ours_name(unsigned i)
{
	return cases[i].name;
}

const struct play_side ours_side = {
	.constants = constants,
	.nconstants = sizeof(constants) / sizeof(constants[0]),
	.ncases = sizeof(cases) / sizeof(cases[0]),
	.name = ours_name,
	.encode = ours_encode,
	.decode = ours_decode,
};
