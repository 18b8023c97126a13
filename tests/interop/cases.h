/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All cases and all constants as a table each, of whichever side includes this
 * after its side_*.h.
 * ARG and RES name a type that has a PLAY function; ARG4 and RES4 name an
 * operation of version 4 whose cases are <op>_arg and <op>_res.
 */
#pragma once

#include "constants.h"
#include "cases_mount3.h"
#include "cases_nfs3.h"
#include "cases_nfs4.h"
#include "cases_nfs4_fs.h"
#include "cases_nfs4_state.h"
#include "cases_nfs4_compound.h"
#include "cases_rpcb.h"

#define CASES CASES_RPCB CASES_MOUNT3 CASES_NFS3 \
	CASES_NFS4_FS CASES_NFS4_STATE CASES_NFS4_COMPOUND

/* One wrapper a type gives all codecs the same type. */
#define CODEC_FN(type, name)						\
	static bool codec_##name(void *stream, void *obj)		\
	{								\
		return CODEC(type)((STREAM *)stream, (type *)obj) != 0;	\
	}

#define ARG4(op) CODEC_FN(nfs_argop4, op##_arg)
#define RES4(op) CODEC_FN(nfs_resop4, op##_res)
#define ARG(type) CODEC_FN(type, type)
#define RES(type) CODEC_FN(type, type)
CASES
#undef ARG4
#undef RES4
#undef ARG
#undef RES

#define CASE(type, n, arg) {						\
	.name = #n, .size = sizeof(type), .play = play_any_##n,		\
	.codec = codec_##n, .is_arg = (arg),				\
},
#define ARG4(op) CASE(nfs_argop4, op##_arg, true)
#define RES4(op) CASE(nfs_resop4, op##_res, false)
#define ARG(type) CASE(type, type, true)
#define RES(type) CASE(type, type, false)
static const struct play_case cases[] = { CASES };

#define C(name) { #name, (uint64_t)(uint32_t)(name) },
#define SAME(ours, libnfs) { #ours, (uint64_t)(uint32_t)NAME_OF(ours, libnfs) },
static const struct play_constant constants[] = { CONSTANTS };
