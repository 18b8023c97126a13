/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NFS version 3 (RFC 1813) as a version of the client. It has no state on the server, so
 * there is nothing to acquire, to renew or to recover. A server that has restarted just
 * answers again. (Locks are another protocol's, with a connection of its own: nlm.h.)
 */
#include "nfs/nfs3/nfs3_impl.h"

static const char *const procs[] = {
	[NFSPROC3_NULL] = "NULL", [NFSPROC3_GETATTR] = "GETATTR", [NFSPROC3_SETATTR] = "SETATTR",
	[NFSPROC3_LOOKUP] = "LOOKUP", [NFSPROC3_ACCESS] = "ACCESS",
	[NFSPROC3_READLINK] = "READLINK", [NFSPROC3_READ] = "READ", [NFSPROC3_WRITE] = "WRITE",
	[NFSPROC3_CREATE] = "CREATE", [NFSPROC3_MKDIR] = "MKDIR",
	[NFSPROC3_SYMLINK] = "SYMLINK", [NFSPROC3_MKNOD] = "MKNOD",
	[NFSPROC3_REMOVE] = "REMOVE", [NFSPROC3_RMDIR] = "RMDIR",
	[NFSPROC3_RENAME] = "RENAME", [NFSPROC3_LINK] = "LINK",
	[NFSPROC3_READDIR] = "READDIR", [NFSPROC3_READDIRPLUS] = "READDIRPLUS",
	[NFSPROC3_FSSTAT] = "FSSTAT", [NFSPROC3_FSINFO] = "FSINFO",
	[NFSPROC3_PATHCONF] = "PATHCONF", [NFSPROC3_COMMIT] = "COMMIT",
	[NFS3_COUNTED_GETACL] = "GETACL", [NFS3_COUNTED_SETACL] = "SETACL",
	[NFS3_COUNTED_LOCK] = "LOCK", [NFS3_COUNTED_LOCKT] = "LOCKT", [NFS3_COUNTED_LOCKU] = "LOCKU",
};

const struct nfs_version nfs_v3 = {
	.name = "3",
	.prog = NFS_PROGRAM,
	.vers = NFS_V3,
	.ops = {
		[NFS_OP_NULL]     = &nfs3_op_null,
		[NFS_OP_GETATTR]  = &nfs3_op_getattr,
		[NFS_OP_SETATTR]  = &nfs3_op_setattr,
		[NFS_OP_LOOKUP]   = &nfs3_op_lookup,
		[NFS_OP_LOOKUPP]  = &nfs3_op_lookupp,
		[NFS_OP_ACCESS]   = &nfs3_op_access,
		[NFS_OP_READLINK] = &nfs3_op_readlink,
		[NFS_OP_READ]     = &nfs3_op_read,
		[NFS_OP_WRITE]    = &nfs3_op_write,
		[NFS_OP_COMMIT]   = &nfs3_op_commit,
		[NFS_OP_OPEN]     = &nfs3_op_open,
		[NFS_OP_CREATE]   = &nfs3_op_create,
		[NFS_OP_CLOSE]    = NULL,       /* the engine frees the object */
		[NFS_OP_MKDIR]    = &nfs3_op_mkdir,
		[NFS_OP_SYMLINK]  = &nfs3_op_symlink,
		[NFS_OP_MKNOD]    = &nfs3_op_mknod,
		[NFS_OP_REMOVE]   = &nfs3_op_remove,
		[NFS_OP_RMDIR]    = &nfs3_op_rmdir,
		[NFS_OP_RENAME]   = &nfs3_op_rename,
		[NFS_OP_LINK]     = &nfs3_op_link,
		[NFS_OP_READDIR]  = &nfs3_op_readdir,
		[NFS_OP_STATFS]   = &nfs3_op_statfs,
		[NFS_OP_LOCK]     = &nfs3_op_lock,
		[NFS_OP_LOCKT]    = &nfs3_op_lockt,
		[NFS_OP_LOCKU]    = &nfs3_op_locku,
		[NFS_OP_GETACL]   = &nfs3_op_getacl,
		[NFS_OP_SETACL]   = &nfs3_op_setacl,
		[NFS3_OP_FSINFO]  = &nfs3_op_fsinfo,
		[NFS3_OP_PATHCONF] = &nfs3_op_pathconf,
	},
	.procs = procs,
	.nprocs = sizeof(procs) / sizeof(procs[0]),
	.mount = nfs3_mount,
	.umount = nfs3_umount,
	.stop = nfs3_stop,
	.free = nfs3_free,
	.check_proc = nfs3_check_proc,
	.check_encode = nfs3_check_encode,
	.check_decode = nfs3_check_decode,
};
