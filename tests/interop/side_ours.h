/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The macros of the cases for our types: every counted item is an nfs_ref. */
#pragma once

#include <string.h>
#include "nfs_lists.h"
#include "play.h"

#define CODEC(type) xdr_##type
#define STREAM XDR

/* Which of two names a constant has here. */
#define NAME_OF(ours, libnfs) (ours)

static inline void side_ref(struct play *p, struct nfs_ref *ref, uint32_t n,
		     unsigned seed, const char *what)
{
	const struct nfs_ref want = { n, play_bytes(n, seed) };

	if (!p->check)
		*ref = want;
	else if (!nfs_ref_equal(ref, &want))
		play_wrong(p, what);
}

static inline void side_bulk(struct play *p, nfs_bulk *bulk, uint32_t n, unsigned seed)
{
	const char *bytes = play_bytes(n, seed);

	if (!p->check) {
		*bulk = (nfs_bulk){ .len = n, .data = (void *)bytes };
	} else if (bulk->len != n || memcmp(bulk->data, bytes, n) != 0) {
		play_wrong(p, "bulk");
	}
	if (p->nbulks == sizeof(p->bulks) / sizeof(p->bulks[0])) {
		play_wrong(p, "too many bulks");
		return;
	}
	p->bulks[p->nbulks].bulk = bulk;
	p->bulks[p->nbulks].data = bulk->data;
	p->bulks[p->nbulks++].len = bulk->len;
}

static inline void side_bitmap(struct play *p, bitmap4 *map, uint32_t n, unsigned seed)
{
	I(map->len, n);
	for (uint32_t i = 0; i < map->len && i < NFS4_BITMAP_WORDS; i++)
		I(map->words[i], seed * 0x01010101u + i);
}

#define REF(lv, n) side_ref(p, &(lv), n, __LINE__, #lv)

#define FH3(lv, n) REF(lv, n)
#define FHANDLE3(lv, n) REF(lv, n)
#define STR(lv, n) REF(lv, n)
#define FH4(lv, n) REF(lv, n)
#define UTF8(lv, n) REF(lv, n)
#define ATTRLIST(lv, n) REF(lv, n)
#define OPAQUE(lv, member, n) REF((lv).member, n)
#define BULK(lv, n) side_bulk(p, &(lv), n, __LINE__)
#define LINK3(lv, n) BULK(lv, n)
#define LINK4(lv, n) BULK(lv, n)
#define BITMAP(lv, n) side_bitmap(p, &(lv), n, __LINE__)

/* The RFC has one arm for two discriminants where libnfs has two. */
#define ARM_GUARDED obj_attributes
#define ARM_BLK device
#define ARM_CHR device
#define ARM_SOCK pipe_attributes

/*
 * Lists: encoded from an array of `n` entries, read back with a cursor. `next` is
 * the typed reader, `max` the largest list of any case.
 */
enum { SIDE_LIST_MAX = 40 };

#define LIST(v_list, type, next, n)					\
	do {								\
		static type array_[SIDE_LIST_MAX];			\
		struct nfs_cursor cur_;					\
		type ent_;						\
		uint32_t i_ = 0;					\
									\
		if (!p->check) {					\
			for (; i_ < (n); i_++)				\
				play_entry_##type(p, &array_[i_], i_);	\
			(v_list) = (struct nfs_list){			\
				.count = (n), .array = array_,		\
			};						\
			break;						\
		}							\
		nfs_cursor_open(&cur_, &(v_list));			\
		while (next(&cur_, &ent_) > 0)				\
			play_entry_##type(p, &ent_, i_++);		\
		if (i_ != (n) || (v_list).count != (n))			\
			play_wrong(p, #v_list);				\
	} while (0)

#define ENTRIES3(v, n) LIST((v).entries, entry3, nfs_entry3_next, n)
#define ENTRIESPLUS3(v, n) LIST((v).entries, entryplus3, nfs_entryplus3_next, n)
#define ENTRIES4(v, n) LIST((v).entries, entry4, nfs_entry4_next, n)
#define EXPORTS3(v, n) LIST(v, exportnode, nfs_export3_next, n)
#define GROUPS3(v, n) LIST(v, groupnode, nfs_group3_next, n)
#define MOUNTS3(v, n) LIST(v, mountbody, nfs_mount3_next, n)

typedef exportlist3 exports_t;
typedef mountlist3 mounts_t;
#define xdr_exports_t xdr_exportlist3
#define xdr_mounts_t xdr_mountlist3

/* rpcbind */
typedef rpcb_mapping mapping3_t;
typedef rpcb_mapping mapping_node;
typedef rpcb_uaddr uaddr_t;
typedef rpcb_dumpres mappings_t;
#define xdr_mapping3_t xdr_rpcb_mapping
#define xdr_uaddr_t xdr_rpcb_uaddr
#define xdr_mappings_t xdr_rpcb_dumpres
#define MAPPING(member) r_##member
#define MAPPING_OF(node) (node)
#define UADDR(v) (v)
#define MAPPINGS(v, n) LIST(v, mapping_node, nfs_rpcbmap_next, n)
