/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NFS versions 4.1 (RFC 8881) and 4.2 (RFC 7862) as versions of the client. Both have the
 * same operations, and 4.2 some more. nfs4_impl.h says who owns what. nfs4_control.c makes and ends sessions,
 * nfs4_slots.c has their slots, nfs4_check.c looks at new connections, nfs4_state.c has the
 * opens, and nfs4_recover.c what happens when the server has lost any of that.
 */
#include "nfs/nfs4/nfs4_impl.h"

#define VERSION_4(minor_) { \
	.name = "4." #minor_, \
	.prog = NFS4_PROGRAM, \
	.vers = NFS_V4, \
	.minor = minor_, \
	.ops = { \
		[NFS_OP_NULL]     = &nfs4_op_null, \
		[NFS_OP_GETATTR]  = &nfs4_op_getattr, \
		[NFS_OP_SETATTR]  = &nfs4_op_setattr, \
		[NFS_OP_LOOKUP]   = &nfs4_op_lookup, \
		[NFS_OP_LOOKUPP]  = &nfs4_op_lookupp, \
		[NFS_OP_ACCESS]   = &nfs4_op_access, \
		[NFS_OP_READLINK] = &nfs4_op_readlink, \
		[NFS_OP_READ]     = &nfs4_op_read, \
		[NFS_OP_WRITE]    = &nfs4_op_write, \
		[NFS_OP_COMMIT]   = &nfs4_op_commit, \
		[NFS_OP_OPEN]     = &nfs4_op_open, \
		[NFS_OP_CREATE]   = &nfs4_op_create, \
		[NFS_OP_CLOSE]    = &nfs4_op_close, \
		[NFS_OP_MKDIR]    = &nfs4_op_mkdir, \
		[NFS_OP_SYMLINK]  = &nfs4_op_symlink, \
		[NFS_OP_MKNOD]    = &nfs4_op_mknod, \
		[NFS_OP_REMOVE]   = &nfs4_op_remove, \
		[NFS_OP_RMDIR]    = &nfs4_op_rmdir, \
		[NFS_OP_RENAME]   = &nfs4_op_rename, \
		[NFS_OP_LINK]     = &nfs4_op_link, \
		[NFS_OP_READDIR]  = &nfs4_op_readdir, \
		[NFS_OP_STATFS]   = &nfs4_op_statfs, \
		[NFS_OP_LOCK]     = &nfs4_op_lock, \
		[NFS_OP_LOCKT]    = &nfs4_op_lockt, \
		[NFS_OP_LOCKU]    = &nfs4_op_locku, \
		[NFS_OP_BIRTH]    = &nfs4_op_birth, \
		[NFS_OP_SEEK]     = (minor_) >= 2 ? &nfs4_op_seek : NULL, \
		[NFS_OP_ALLOCATE] = (minor_) >= 2 ? &nfs4_op_allocate : NULL, \
		[NFS_OP_DEALLOCATE] = (minor_) >= 2 ? &nfs4_op_deallocate : NULL, \
		[NFS_OP_COPY]     = (minor_) >= 2 ? &nfs4_op_copy : NULL, \
		[NFS_OP_CLONE]    = (minor_) >= 2 ? &nfs4_op_clone : NULL, \
		[NFS_OP_OFFLOAD_STATUS] = (minor_) >= 2 ? &nfs4_op_offload_status : NULL, \
		[NFS_OP_OFFLOAD_CANCEL] = (minor_) >= 2 ? &nfs4_op_offload_cancel : NULL, \
		[NFS_OP_GETXATTR] = (minor_) >= 2 ? &nfs4_op_getxattr : NULL, \
		[NFS_OP_SETXATTR] = (minor_) >= 2 ? &nfs4_op_setxattr : NULL, \
		[NFS_OP_LISTXATTRS] = (minor_) >= 2 ? &nfs4_op_listxattrs : NULL, \
		[NFS_OP_REMOVEXATTR] = (minor_) >= 2 ? &nfs4_op_removexattr : NULL, \
		[NFS_OP_GETACL]   = &nfs4_op_getacl, \
		[NFS_OP_SETACL]   = &nfs4_op_setacl, \
		[NFS_OP_GET_DIR_DELEGATION] = &nfs4_op_get_dir_delegation, \
		[NFS_OP_CLAIM]    = &nfs4_op_claim, \
		[NFS_OP_DELEGRETURN] = &nfs4_op_delegreturn, \
		[NFS4_OP_EXCHANGE_ID]      = &nfs4_op_exchange_id, \
		[NFS4_OP_CREATE_SESSION]   = &nfs4_op_create_session, \
		[NFS4_OP_BIND_CONN]        = &nfs4_op_bind_conn, \
		[NFS4_OP_DESTROY_SESSION]  = &nfs4_op_destroy_session, \
		[NFS4_OP_DESTROY_CLIENTID] = &nfs4_op_destroy_clientid, \
		[NFS4_OP_RECLAIM_COMPLETE] = &nfs4_op_reclaim_complete, \
		[NFS4_OP_RENEW]            = &nfs4_op_renew, \
		[NFS4_OP_ROOT]             = &nfs4_op_root, \
		[NFS4_OP_REOPEN]           = &nfs4_op_reopen, \
		[NFS4_OP_TEST_STATEID]     = &nfs4_op_test_stateid, \
		[NFS4_OP_FREE_STATEID]     = &nfs4_op_free_stateid, \
		[NFS4_OP_RELOCK]           = &nfs4_op_relock, \
	}, \
	.mount = nfs4_mount, \
	.umount = nfs4_umount, \
	.free = nfs4_free, \
	.open_free = nfs4_open_put, \
	.delegations_due = nfs4_delegs_any_due, \
	.delegation_take = nfs4_delegs_take, \
	.delegation_ends = nfs4_claim_or_return_ends, \
	.delegation_drop = nfs4_delegs_drop, \
	.delegations_drop = nfs4_delegs_drop_all, \
	.delegation_leaves = nfs4_delegation_leaves, \
	.delegated = nfs4_belief_delegation, \
	.open_stays = nfs4_kept_stays, \
	.open_again = nfs4_kept_again, \
	.delegation_open = nfs4_kept_take, \
	.lock_here = nfs4_granted_lock, \
	.delegation_locked = nfs4_claim_next, \
	.acquire = nfs4_acquire, \
	.release = nfs4_release, \
	.recover = nfs4_recover, \
	.tick = nfs4_tick, \
	.slots = nfs4_slots_now, \
	.check_proc = nfs4_check_proc, \
	.check_encode = nfs4_check_encode, \
	.check_decode = nfs4_check_decode, \
	.target_init = nfs4_target_init, \
	.target_fini = nfs4_target_fini, \
}

const struct nfs_version nfs_v41 = VERSION_4(1);
const struct nfs_version nfs_v42 = VERSION_4(2);
