/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rpcbind: GETPORT of version 2, GETADDR and DUMP of version 3 (RFC 1833). */

PLAY(pmap2_mapping)
{
	I(v->prog, 100005);
	I(v->vers, 3);
	I(v->prot, 6);
	I(v->port, 0xffff);
}

PLAY(mapping3_t)
{
	I(v->MAPPING(prog), 100003);
	I(v->MAPPING(vers), 3);
	STR(v->MAPPING(netid), play_len(p, 4));
	STR(v->MAPPING(addr), play_len(p, 128));
	STR(v->MAPPING(owner), play_len(p, 9));
}

PLAY(uaddr_t)
{
	STR(UADDR(*v), play_len(p, 128));
}

PLAY_ENTRY(mapping_node)
{
	mapping3_t *map = &MAPPING_OF(*v);

	I(map->MAPPING(prog), 100000 + i);
	I(map->MAPPING(vers), i);
	STR(map->MAPPING(netid), i % 7);
	STR(map->MAPPING(addr), 100 - i);
	STR(map->MAPPING(owner), i);
}

PLAY(mappings_t)
{
	MAPPINGS(*v, play_len(p, SIDE_LIST_MAX));
}

#define CASES_RPCB		\
	ARG(pmap2_mapping)	\
	ARG(mapping3_t)		\
	RES(uaddr_t)		\
	RES(mappings_t)
