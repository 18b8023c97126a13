/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Access control lists, between the form in which programs have them and that of the protocols.
 *
 *   system.nfs4_acl             the XDR of version 4's attribute acl, as Linux's client shows it
 *   system.posix_acl_access     a count of entries of tag, permissions and id, little-endian:
 *   system.posix_acl_default    linux/posix_acl_xattr.h
 *
 * What comes from a program or from a server is checked here. Lists are short: those of the kernel
 * have at most 509 entries, and NFSACL's 1,024.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum nfs_acl_kind { NFS_ACL_ACCESS, NFS_ACL_DEFAULT, NFS_ACL_V4 };

#define NFS_ACL_ENTRIES 1024u

/* An entry's tag and permissions are as in linux/posix_acl.h. */
struct nfs_ace {
	uint16_t tag, perm;
	uint32_t id;                    /* of a named user or group; else NFS_ACL_NO_ID */
};

#define NFS_ACL_NO_ID UINT32_MAX

/* n 0: there is none. */
struct nfs_acl {
	uint32_t n;
	struct nfs_ace e[NFS_ACL_ENTRIES];
};

/* The bytes of a list of so many entries in an extended attribute. */
#define NFS_ACL_XATTR(n) (4u + 8u * (size_t)(n))

/* Are the entries a list that means something? Puts them into the order that servers want. */
bool nfs_acl_sort(struct nfs_acl *acl);
/* Does it say no more than the mode does? */
bool nfs_acl_is_mode(const struct nfs_acl *acl);
/* 0; -EINVAL; -E2BIG: more entries than any protocol has. */
int nfs_acl_from_xattr(struct nfs_acl *acl, const void *value, size_t len);
/* Writes NFS_ACL_XATTR(acl->n) bytes, and returns how many. */
size_t nfs_acl_to_xattr(const struct nfs_acl *acl, void *value);

/* Is it the XDR of an nfsace4<>, to its last byte? */
bool nfs_acl_is_v4(const void *value, size_t len);
