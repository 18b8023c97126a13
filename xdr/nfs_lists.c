/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The list types, by type of entry: each is an nfs_list with its routines. */
#include "nfs_lists.h"

_Static_assert(NFS3_FHSIZE == 64 && FHSIZE3 == 64, "nfs_ref64 holds a v3 handle");
_Static_assert(NFS4_FHSIZE == 128, "nfs_ref128 holds a v4 handle");
_Static_assert(MNTNAMLEN == 255, "nfs_ref255 holds a MOUNT name");
_Static_assert(NFS4_OPAQUE_LIMIT == 1024 && MNTPATHLEN == 1024,
	       "nfs_ref1024 holds owners and MOUNT paths");

/* xdrproc_t takes any routine; the detour over (void (*)(void)) avoids a warning. */
#define LIST(list, next, entry)							\
	bool_t xdr_##list(XDR *xdrs, list *l)					\
	{									\
		entry scratch;							\
										\
		return nfs_list_xdr(xdrs, l,					\
				    (xdrproc_t)(void (*)(void))xdr_##entry,	\
				    &scratch, sizeof(scratch));			\
	}									\
										\
	int next(struct nfs_cursor *cur, entry *item)				\
	{									\
		return nfs_cursor_next(cur,					\
				       (xdrproc_t)(void (*)(void))xdr_##entry,	\
				       item);					\
	}

LIST(entrylist3, nfs_entry3_next, entry3)
LIST(entrylistplus3, nfs_entryplus3_next, entryplus3)
LIST(entrylist4, nfs_entry4_next, entry4)
LIST(exportlist3, nfs_export3_next, exportnode)
LIST(grouplist3, nfs_group3_next, groupnode)
LIST(mountlist3, nfs_mount3_next, mountbody)
LIST(rpcbmaplist, nfs_rpcbmap_next, rpcb_mapping)
