/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The macros of the cases for libnfs's types: rpcgen's length and pointer pairs. */
#pragma once

#include <string.h>
#include <nfsc/libnfs-zdr.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw-nfs4.h>
#include <nfsc/libnfs-raw-portmap.h>

/* What libnfs allocates on decode is not always aligned for its type. */
#define PLAY_ATTR __attribute__((no_sanitize("alignment")))
#include "play.h"

#define CODEC(type) zdr_##type
#define STREAM ZDR

/* Which of two names a constant has here. */
#define NAME_OF(ours, libnfs) (libnfs)

PLAY_ATTR static inline void side_opaque(struct play *p, u_int *len, char **val, uint32_t n,
			unsigned seed, const char *what)
{
	const char *bytes = play_bytes(n, seed);

	if (!p->check) {
		*len = n;
		*val = (char *)bytes;
	} else if (*len != n || memcmp(*val, bytes, n) != 0) {
		play_wrong(p, what);
	}
}

PLAY_ATTR static inline void side_string(struct play *p, char **s, uint32_t n, unsigned seed,
			const char *what)
{
	const char *bytes = play_bytes(n, seed);

	if (!p->check)
		*s = (char *)bytes;
	else if (strcmp(*s, bytes) != 0)
		play_wrong(p, what);
}

PLAY_ATTR static inline void side_bitmap(struct play *p, bitmap4 *map, uint32_t n, unsigned seed)
{
	static uint32_t words[64][8];
	static unsigned turn;

	if (!p->check)
		map->bitmap4_val = words[turn++ % 64];
	I(map->bitmap4_len, n);
	for (uint32_t i = 0; i < map->bitmap4_len && i < 8; i++)
		I(map->bitmap4_val[i], seed * 0x01010101u + i);
}

#define PAIR(lv, member, n) \
	side_opaque(p, &(lv).member##_len, &(lv).member##_val, n, __LINE__, #lv)

#define FH3(lv, n) PAIR((lv).data, data, n)
#define FHANDLE3(lv, n) PAIR(lv, fhandle3, n)
#define STR(lv, n) side_string(p, &(lv), n, __LINE__, #lv)
#define FH4(lv, n) PAIR(lv, nfs_fh4, n)
#define UTF8(lv, n) PAIR(lv, utf8string, n)
#define ATTRLIST(lv, n) PAIR(lv, attrlist4, n)
#define OPAQUE(lv, member, n) PAIR((lv).member, member, n)
#define BULK(lv, n) PAIR(lv, data, n)
#define LINK3(lv, n) STR(lv, n)
#define LINK4(lv, n) UTF8(lv, n)
#define BITMAP(lv, n) side_bitmap(p, &(lv), n, __LINE__)

#define ARM_GUARDED g_obj_attributes
#define ARM_BLK blk_device
#define ARM_CHR chr_device
#define ARM_SOCK sock_attributes

/* Lists are linked: static nodes when set, followed when compared. */
enum { SIDE_LIST_MAX = 40 };

#define LIST(head, type, link, n)					\
	do {								\
		static type node_[SIDE_LIST_MAX];			\
		type *at_ = (head);					\
		uint32_t i_ = 0;					\
									\
		if (!p->check) {					\
			(head) = (n) != 0 ? node_ : NULL;		\
			for (; i_ < (n); i_++) {			\
				play_entry_##type(p, &node_[i_], i_);	\
				node_[i_].link = i_ + 1 < (n) ?		\
					&node_[i_ + 1] : NULL;		\
			}						\
			break;						\
		}							\
		for (; at_ != NULL; at_ = at_->link)			\
			play_entry_##type(p, at_, i_++);		\
		if (i_ != (n))						\
			play_wrong(p, #head);				\
	} while (0)

#define ENTRIES3(v, n) LIST((v).entries, entry3, nextentry, n)
#define ENTRIESPLUS3(v, n) LIST((v).entries, entryplus3, nextentry, n)
#define ENTRIES4(v, n) LIST((v).entries, entry4, nextentry, n)
#define EXPORTS3(v, n) LIST(v, exportnode, ex_next, n)
#define GROUPS3(v, n) LIST(v, groupnode, gr_next, n)
#define MOUNTS3(v, n) LIST(v, mountbody, ml_next, n)

typedef exports exports_t;
typedef mountlist mounts_t;
#define zdr_exports_t zdr_exports
#define zdr_mounts_t zdr_mountlist

/* rpcbind */
typedef pmap3_mapping mapping3_t;
typedef pmap3_mapping_list mapping_node;
typedef pmap3_string_result uaddr_t;
typedef pmap3_dump_result mappings_t;
#define zdr_mapping3_t zdr_pmap3_mapping
#define zdr_uaddr_t zdr_pmap3_string_result
#define zdr_mappings_t zdr_pmap3_dump_result
#define MAPPING(member) member
#define MAPPING_OF(node) (node).map
#define UADDR(v) (v).addr
#define MAPPINGS(v, n) LIST((v).list, mapping_node, next, n)
