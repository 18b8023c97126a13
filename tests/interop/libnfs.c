/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libnfs's side: its ZDR routines, file data inline. play.h has the picture. */
#include "side_libnfs.h"

#include <stdlib.h>

#include "cases.h"

static uint32_t encode_obj(const struct play_case *c, void *obj, void *buf,
			   uint32_t cap)
{
	uint32_t len = 0;
	ZDR zdr;

	zdrmem_create(&zdr, buf, cap, ZDR_ENCODE);
	if (c->codec(&zdr, obj))
		len = zdr_getpos(&zdr);
	zdr_destroy(&zdr);
	return len;
}

static uint32_t libnfs_encode(unsigned i, unsigned k, void *buf, uint32_t cap)
{
	void *obj = calloc(1, cases[i].size);
	struct play p;
	uint32_t len;

	play_start(&p, false, k);
	cases[i].play(&p, obj);
	len = encode_obj(&cases[i], obj, buf, cap);
	free(obj);
	return len;
}

static uint32_t libnfs_decode(unsigned i, unsigned k, const void *buf, uint32_t len,
			      void *again, uint32_t cap, const char **wrong)
{
	void *obj = calloc(1, cases[i].size);
	uint32_t outlen = 0;
	struct play p;
	ZDR zdr;

	play_start(&p, true, k);
	zdrmem_create(&zdr, (char *)buf, len, ZDR_DECODE);
	if (cases[i].codec(&zdr, obj)) {
		if (zdr_getpos(&zdr) != len)
			play_wrong(&p, "bytes left over");
		cases[i].play(&p, obj);
		outlen = encode_obj(&cases[i], obj, again, cap);
	}
	*wrong = p.wrong;
	zdr_destroy(&zdr);
	free(obj);
	return outlen;
}

static const char *libnfs_name(unsigned i)
{
	return cases[i].name;
}

const struct play_side libnfs_side = {
	.constants = constants,
	.nconstants = sizeof(constants) / sizeof(constants[0]),
	.ncases = sizeof(cases) / sizeof(cases[0]),
	.name = libnfs_name,
	.encode = libnfs_encode,
	.decode = libnfs_decode,
};
