/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of NFSv3 share: conversions, sizes, and the operations that nfs3.c puts
 * into the version's table.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include "nfs/nfs.h"
#include "nfs3.h"

/* Version 3 has no open state. The object only tells "open" from "not open". */
struct nfs_open {
	int unused;
};

/* XDR sizes of the parts of replies (RFC 1813, sections 2.5 and 2.6). */
#define NFS3_STATUS_XDR 4u
#define NFS3_ATTR_XDR   (4u + 84u)              /* post_op_attr */
#define NFS3_WCC_XDR    (4u + 24u + NFS3_ATTR_XDR)
#define NFS3_FH_XDR     (4u + 64u)              /* nfs_fh3 */
#define NFS3_POST_FH_XDR (4u + NFS3_FH_XDR)
#define NFS3_LOOKUP_XDR (NFS3_STATUS_XDR + NFS3_FH_XDR + 2u * NFS3_ATTR_XDR)

/* The version's own operations, for the mount. */
#define NFS3_OP_FSINFO   (NFS_OP_VERSION + 0)
#define NFS3_OP_PATHCONF (NFS_OP_VERSION + 1)

/* Other programs' procedures, behind those of NFS: NFSACL's. */
enum {
	NFS3_COUNTED_GETACL = NFSPROC3_COMMIT + 1, NFS3_COUNTED_SETACL,
	NFS3_COUNTED_LOCK, NFS3_COUNTED_LOCKT, NFS3_COUNTED_LOCKU,      /* NLM's */
};

struct nfs3_fsinfo {            /* args.version of both; gets the results */
	uint32_t rtmax, wtmax, dtpref;
	uint64_t max_file_size;
	uint32_t name_max;
	bool has_root;          /* FSINFO came with the root's attributes */
	struct nfs_attr root;
};

/* The version's part of a call. */
struct nfs3_call {
	union {
		struct {
			uint64_t fileid, fsid;  /* LINK: of the file that has the name already */
		};
		struct {                        /* LOCK, LOCKT, LOCKU */
			struct nlm_job *job;    /* NULL: the engine has the call */
			uint64_t grace_ns;      /* since when the server says that it is in its grace
						 * period; 0: it does not */
		};
	};
};
_Static_assert(sizeof(struct nfs3_call) <= NFS_CALL_VERSION, "struct nfs_call has no room");

static inline struct nfs3_call *nfs3_call(struct nfs_call *c)
{
	return (struct nfs3_call *)c->version_data;
}

/* ---- nfs3_attr.c ---- */

/* nfsstat3 to -errno, or NFS_LATER for JUKEBOX. */
int nfs3_error(nfsstat3 status);
nfs_fh3 nfs3_fh(const struct nfs_fh *fh);
/* false: empty, or longer than a handle can be. */
bool nfs3_get_fh(struct nfs_fh *out, const nfs_fh3 *in);
/* false: a type that version 3 does not have. */
bool nfs3_get_fattr(struct nfs_attr *out, const fattr3 *in);
/* Sets c->res.attr and has_attr, if there are attributes. -EBADMSG if they are bad. */
int nfs3_take_attr(struct nfs_call *c, const post_op_attr *in);
/* The same for c->res.dir_attr[i]: the directory's attributes after the change. */
int nfs3_take_dir(struct nfs_call *c, unsigned i, const wcc_data *in);
void nfs3_sattr(sattr3 *out, const struct nfs_sattr *in);
diropargs3 nfs3_dirop(const struct nfs_fh *dir, const char *name);

/* ---- the operations ---- */

extern const struct nfs_opdef nfs3_op_null, nfs3_op_getattr, nfs3_op_setattr,
	nfs3_op_lookup, nfs3_op_lookupp, nfs3_op_access, nfs3_op_readlink, nfs3_op_statfs,
	nfs3_op_fsinfo, nfs3_op_pathconf;                       /* nfs3_meta.c */
extern const struct nfs_opdef nfs3_op_read, nfs3_op_write, nfs3_op_commit,
	nfs3_op_open;                                           /* nfs3_io.c */
extern const struct nfs_opdef nfs3_op_create, nfs3_op_mkdir, nfs3_op_symlink,
	nfs3_op_mknod;                                          /* nfs3_create.c */
extern const struct nfs_opdef nfs3_op_remove, nfs3_op_rmdir, nfs3_op_rename,
	nfs3_op_link;                                           /* nfs3_dir.c */
extern const struct nfs_opdef nfs3_op_readdir;                  /* nfs3_readdir.c */
extern const struct nfs_opdef nfs3_op_getacl, nfs3_op_setacl;   /* nfs3_acl.c */
extern const struct nfs_opdef nfs3_op_lock, nfs3_op_lockt, nfs3_op_locku;       /* nlm.c */

/* Second steps of several operations, for replies that left something out, as they may. */
bool_t nfs3_encode_getattr(XDR *x, const struct nfs_fh *fh);
int nfs3_decode_getattr(struct nfs_call *c, XDR *x);
bool_t nfs3_encode_lookup(XDR *x, const struct nfs_fh *dir, const char *name);
/* Sets c->res.fh and, if the reply has attributes, c->res.attr. */
int nfs3_decode_lookup(struct nfs_call *c, XDR *x);
/* LOOKUP of the step's name in args.where, before the call's own procedure, and the next step if it
 * is fh, or cannot be looked at. -NFS_EMOVED: it is another file's. */
bool_t nfs3_encode_name(struct nfs_call *c, XDR *x);
int nfs3_decode_name(struct nfs_call *c, XDR *x);

/* ---- nfs3_check.c ---- */

/* What a mount has: server->vdata; NULL: nothing of that. */
struct nfs3_mounted {
	struct nlm *nlm;                /* NULL: locks are not the server's */
	pthread_mutex_t mu;             /* for these: */
	bool known;                     /* what the root is */
	uint64_t fsid, fileid;
};

/* Mounting thread: makes it, if need be. NULL: no memory. */
struct nfs3_mounted *nfs3_mounted(struct nfs_server *s);
/* Mounting thread: what the mounted root is. 0 or -ENOMEM. */
int nfs3_root_set(struct nfs_server *s, const struct nfs_attr *a);
/* Any thread, when the mount is made. */
static inline struct nlm *nfs3_nlm(const struct nfs_server *s)
{
	const struct nfs3_mounted *m = s->vdata;

	return m ? m->nlm : NULL;
}
/* Members of struct nfs_version. */
void nfs3_free(struct nfs_server *s);
bool nfs3_stop(struct nfs_server *s, unsigned timeout_ms);
uint32_t nfs3_check_proc(const struct nfs_check *k);
bool_t nfs3_check_encode(struct nfs_target *t, struct nfs_check *k, XDR *x);
int nfs3_check_decode(struct nfs_target *t, struct nfs_check *k, XDR *x);

/* ---- nfs3_mount.c ---- */

int nfs3_mount(struct nfs_server *s, struct errbuf *eb);
void nfs3_umount(struct nfs_server *s);
