/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The operations of the NFS client, and what each does to what its caller keeps of files: a new
 * operation is one row here. A row has the name, the effects, and in a comment the members of
 * struct nfs_call that go in -> and come out.
 */
#pragma once

/* Effects. A change is announced before the call is sent, because it may be executed whatever its
 * result says. */
enum nfs_effects {
	NFS_CHANGES_FH   = 1 << 0,      /* fh: its data and attributes, or its names */
	NFS_CHANGES_FH2  = 1 << 1,      /* fh2: its names */
	NFS_CHANGES_DATA = 1 << 2,      /* what changes of fh is not names */
	NFS_ADDS_NAME    = 1 << 3,      /* `name`, in the last directory that changes */
	NFS_ADDS_NAME2   = 1 << 4,      /* name2, in fh2 */
	NFS_DROPS_NAME   = 1 << 5,      /* `name`, in fh */
	/* What was written to a file, and is not on the server yet, has to be there before: */
	NFS_AFTER_HELD   = 1 << 6,      /* of fh */
	NFS_AFTER_HELD_OF_NAME = 1 << 7,        /* of the file that has `name` */
	NFS_AFTER_STABLE = 1 << 8,      /* and on stable storage: a WRITE that is sent again after a
					 * restart of the server must not follow the call */
	NFS_AFTER_HELD2  = 1 << 9,      /* of fh2, which is ino2 */
};

#define NFS_CHANGES (NFS_CHANGES_FH | NFS_CHANGES_FH2)
#define NFS_MAKES   (NFS_CHANGES_FH | NFS_ADDS_NAME)
#define NFS_REMOVES (NFS_CHANGES_FH | NFS_DROPS_NAME)
#define NFS_MOVES   (NFS_CHANGES | NFS_DROPS_NAME | NFS_ADDS_NAME2)
/* A change of its metadata alone, which needs nothing of what was written. */
#define NFS_MARKS   (NFS_CHANGES_FH | NFS_CHANGES_DATA)
#define NFS_SETS    (NFS_CHANGES_FH | NFS_CHANGES_DATA | NFS_AFTER_HELD | NFS_AFTER_STABLE)

#define NFS_OPS(OP) \
	OP(NULL, 0)             /* none; a ping */ \
	OP(GETATTR, NFS_AFTER_HELD)     /* fh, open? -> attr */ \
	OP(SETATTR, NFS_SETS)   /* fh, sattr, open?, where -> attr */ \
	OP(LOOKUP, 0)           /* fh, name -> fh, attr */ \
	OP(LOOKUPP, 0)          /* fh -> fh, attr of the parent (v3: looks up "..") */ \
	OP(ACCESS, 0)           /* fh, access.mask -> access.mask */ \
	OP(READLINK, 0)         /* fh -> link */ \
	OP(READ, 0)             /* fh, open, io.offset, count, sink -> io.ptr, len, eof */ \
	OP(WRITE, NFS_CHANGES_FH | NFS_CHANGES_DATA) \
				/* fh, open, io.offset, data -> io.len, stable, verf */ \
	OP(COMMIT, 0)           /* fh, io.offset, count -> io.verf */ \
	OP(OPEN, NFS_AFTER_HELD)        /* fh of the file, file.flags, where -> open, attr */ \
	OP(CREATE, NFS_MAKES)   /* fh of the directory, name, file.flags, sattr -> open, fh, attr */ \
	OP(CLOSE, 0)            /* open, fh; frees open whatever the status. Without NFS_CALL_NOW it \
				 * may be done before the server is told (close_ride.h) */ \
	OP(MKDIR, NFS_MAKES)    /* fh, name, sattr -> fh, attr */ \
	OP(SYMLINK, NFS_MAKES)  /* fh, name, mk.target, sattr -> fh, attr */ \
	OP(MKNOD, NFS_MAKES)    /* fh, name, sattr, mk.type, major, minor -> fh, attr */ \
	OP(REMOVE, NFS_REMOVES | NFS_AFTER_HELD_OF_NAME) \
				/* fh, name; not for directories */ \
	OP(RMDIR, NFS_REMOVES)  /* fh, name */ \
	OP(RENAME, NFS_MOVES)   /* fh, name, fh2, name2, ren.moved */ \
	OP(LINK, NFS_CHANGES | NFS_ADDS_NAME | NFS_AFTER_HELD) \
				/* fh: the file, fh2: the directory, name -> attr */ \
	OP(READDIR, 0)          /* fh, dir.cookie, verf, count, plus, entry() -> dir.eof, verf */ \
	OP(STATFS, 0)           /* fh -> statfs */ \
	OP(LOCK, NFS_AFTER_HELD | NFS_AFTER_STABLE)     /* fh, open, lock -> lock, attr. -EAGAIN: a lock is in \
				 * the way, and lock says which. (Version 3: not which). It may make a \
				 * lock weaker, so others may read then */ \
	OP(LOCKT, 0)            /* fh, lock -> 0: it could be had; -EAGAIN, and lock: as LOCK */ \
	OP(LOCKU, NFS_AFTER_HELD | NFS_AFTER_STABLE)    /* fh, open, lock -> lock */ \
	OP(BIRTH, NFS_AFTER_HELD)       /* fh -> attr, btime. Not in version 3 */ \
	/* Those that follow are of version 4.2. nfs_lacks() says whether a server has one. */ \
	OP(SEEK, NFS_AFTER_HELD | NFS_AFTER_STABLE) \
				/* fh, open, seek.offset, hole -> seek.offset; -ENXIO: there is no \
				 * data any more, or the offset is behind the end */ \
	OP(ALLOCATE, NFS_SETS)  /* fh, open, space.offset, length -> attr */ \
	OP(DEALLOCATE, NFS_SETS) /* fh, open, space.offset, length, refill -> attr */ \
	OP(COPY, NFS_SETS | NFS_AFTER_HELD2) \
				/* fh2: from, fh: to, open, copy.from, from_offset, offset, count, commit, \
				 * may_go_on -> copy.count, stable, verf, committed; or running, told, id, \
				 * verf; attr */ \
	OP(CLONE, NFS_SETS | NFS_AFTER_HELD2) \
				/* the same -> attr; all of it, and on stable storage */ \
	OP(OFFLOAD_STATUS, 0)   /* fh: to, copy.id, count -> copy.running, count; the copy's error, and \
				 * copy.running false */ \
	OP(OFFLOAD_CANCEL, 0)   /* fh: to, copy.id; 0 also if it has ended */ \
	/* Extended attributes, whose names are here without "user." */ \
	OP(GETXATTR, 0)         /* fh, name -> xattr.value, len */ \
	OP(SETXATTR, NFS_MARKS) /* fh, name, xattr.value, len, flags -> attr, dir_change[0] of fh */ \
	OP(LISTXATTRS, 0)       /* fh, xattr.len, cookie, entry() -> xattr.cookie, eof */ \
	OP(REMOVEXATTR, NFS_MARKS)      /* fh, name -> attr, dir_change[0] of fh */ \
	OP(GETACL, 0)           /* fh, acl.kinds, lists -> xattr.value, len of NFS_ACL_V4, or the lists */ \
	OP(SETACL, NFS_SETS)    /* fh, acl.kinds, value, len, lists -> attr */ \
	/* Of versions 4.1 and 4.2: */ \
	OP(GET_DIR_DELEGATION, 0)       /* fh, which is a struct nfs_file's -> that file's delegation. -EAGAIN: \
				 * the server gives none now */ \
	OP(CLAIM, 0)            /* fh, open, delegation: the server gets the locks that were granted by that open \
				 * without it. open is gone then; the delegation with -ENOTCONN or -ESHUTDOWN */ \
	OP(DELEGRETURN, NFS_AFTER_HELD | NFS_AFTER_STABLE) \
				/* fh, delegation, which is gone then, or due again, whatever the status */

enum nfs_op {
#define NFS_OPS_NUMBER(name, effects) NFS_OP_##name,
	NFS_OPS(NFS_OPS_NUMBER)
#undef NFS_OPS_NUMBER
	NFS_OP_VERSION,         /* the first of the version's own operations (session, state) */
	NFS_OP_MAX = NFS_OP_VERSION + 16,
};

/* Of op, which is none of a version's own. */
static inline unsigned nfs_effects(enum nfs_op op)
{
	static const unsigned short effects[NFS_OP_VERSION] = {
#define NFS_OPS_EFFECTS(name, effects) [NFS_OP_##name] = effects,
		NFS_OPS(NFS_OPS_EFFECTS)
#undef NFS_OPS_EFFECTS
	};

	return effects[op];
}
