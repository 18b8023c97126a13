/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See acl.h. */
#include "nfs/acl.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>
#include "xdr_msg.h"
#include "nfs_types.h"

_Static_assert(sizeof(struct posix_acl_xattr_header) == 4 && sizeof(struct posix_acl_xattr_entry) == 8,
	       "NFS_ACL_XATTR()");

/* ---- POSIX ---- */

static bool is_named(const struct nfs_ace *e)
{
	return e->tag == ACL_USER || e->tag == ACL_GROUP;
}

/* Tags are numbered in the order that lists have. */
static int ace_order(const void *va, const void *vb)
{
	const struct nfs_ace *a = va, *b = vb;

	if (a->tag != b->tag)
		return a->tag < b->tag ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static unsigned acl_count(const struct nfs_acl *acl, uint16_t tag)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < acl->n; i++)
		n += acl->e[i].tag == tag;
	return n;
}

bool nfs_acl_sort(struct nfs_acl *acl)
{
	unsigned named = acl_count(acl, ACL_USER) + acl_count(acl, ACL_GROUP);
	unsigned mask = acl_count(acl, ACL_MASK);

	if (!acl->n)
		return true;
	for (uint32_t i = 0; i < acl->n; i++) {
		if (acl->e[i].perm > (ACL_READ | ACL_WRITE | ACL_EXECUTE))
			return false;
		if (!is_named(&acl->e[i]))
			acl->e[i].id = NFS_ACL_NO_ID;
	}
	qsort(acl->e, acl->n, sizeof(acl->e[0]), ace_order);
	for (uint32_t i = 1; i < acl->n; i++)
		if (!ace_order(&acl->e[i - 1], &acl->e[i]))
			return false;
	return acl_count(acl, ACL_USER_OBJ) && acl_count(acl, ACL_GROUP_OBJ) && acl_count(acl, ACL_OTHER) &&
	       acl->n == 3 + named + mask && (mask || !named);
}

bool nfs_acl_is_mode(const struct nfs_acl *acl)
{
	return acl->n <= 3;
}

int nfs_acl_from_xattr(struct nfs_acl *acl, const void *value, size_t len)
{
	struct posix_acl_xattr_header h;
	struct posix_acl_xattr_entry e;
	const char *at = value;
	size_t n;

	if (len < sizeof(h) || (len - sizeof(h)) % sizeof(e))
		return -EINVAL;
	n = (len - sizeof(h)) / sizeof(e);
	if (n > NFS_ACL_ENTRIES)
		return -E2BIG;
	memcpy(&h, at, sizeof(h));
	if (le32toh(h.a_version) != POSIX_ACL_XATTR_VERSION)
		return -EINVAL;
	acl->n = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		memcpy(&e, at + NFS_ACL_XATTR(i), sizeof(e));
		acl->e[i] = (struct nfs_ace){ le16toh(e.e_tag), le16toh(e.e_perm), le32toh(e.e_id) };
	}
	return nfs_acl_sort(acl) ? 0 : -EINVAL;
}

size_t nfs_acl_to_xattr(const struct nfs_acl *acl, void *value)
{
	struct posix_acl_xattr_header h = { .a_version = htole32(POSIX_ACL_XATTR_VERSION) };
	char *at = value;

	memcpy(at, &h, sizeof(h));
	for (uint32_t i = 0; i < acl->n; i++) {
		struct posix_acl_xattr_entry e = {
			.e_tag = htole16(acl->e[i].tag), .e_perm = htole16(acl->e[i].perm),
			.e_id = htole32(acl->e[i].id),
		};

		memcpy(at + NFS_ACL_XATTR(i), &e, sizeof(e));
	}
	return NFS_ACL_XATTR(acl->n);
}

/* ---- version 4 ---- */

static uint32_t acl_word(const char *at)
{
	uint32_t w;

	memcpy(&w, at, sizeof(w));
	return be32toh(w);
}

/* type, flag, access_mask, and the length of `who` */
#define V4_ACE 16u
#define V4_WHO 1024u

bool nfs_acl_is_v4(const void *value, size_t len)
{
	const char *at = value;
	uint32_t n;

	if (len < 4 || acl_word(at) > NFS_ACL_ENTRIES)
		return false;
	n = acl_word(at);
	at += 4, len -= 4;
	while (n--) {
		uint32_t who;

		if (len < V4_ACE)
			return false;
		who = acl_word(at + V4_ACE - 4);
		if (who > V4_WHO || len - V4_ACE < who + nfs_xdr_pad(who))
			return false;
		at += V4_ACE + who + nfs_xdr_pad(who);
		len -= V4_ACE + who + nfs_xdr_pad(who);
	}
	return len == 0;
}
