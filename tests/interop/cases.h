/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All cases as one table, of whichever side includes this after its side_*.h.
 * ARG and RES name a type that has a PLAY function, ARG_AS and RES_AS a PLAY_AS
 * function and its type.
 */
#ifndef INTEROP_CASES_H
#define INTEROP_CASES_H

#include "cases_mount3.h"
#include "cases_nfs3.h"

#define CASES CASES_MOUNT3 CASES_NFS3

/* One wrapper a type gives all codecs the same type. */
#define CODEC_FN(type, name)						\
	static bool codec_##name(void *stream, void *obj)		\
	{								\
		return CODEC(type)((STREAM *)stream, (type *)obj) != 0;	\
	}

#define ARG_AS(type, name) CODEC_FN(type, name)
#define RES_AS(type, name) CODEC_FN(type, name)
#define ARG(type) CODEC_FN(type, type)
#define RES(type) CODEC_FN(type, type)
CASES
#undef ARG_AS
#undef RES_AS
#undef ARG
#undef RES

#define CASE(type, n, arg) {						\
	.name = #n, .size = sizeof(type), .play = play_any_##n,		\
	.codec = codec_##n, .is_arg = (arg),				\
},
#define ARG_AS(type, name) CASE(type, name, true)
#define RES_AS(type, name) CASE(type, name, false)
#define ARG(type) CASE(type, type, true)
#define RES(type) CASE(type, type, false)
static const struct play_case cases[] = { CASES };

#endif
