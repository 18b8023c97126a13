/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Our XDR against libnfs's, byte for byte.
 *
 * Both define the same C types (LOOKUP3args, ...), so they meet in two
 * translation units only, ours.c and libnfs.c. Each value set is written down
 * once, in a cases_*.h that both of them include, as a function which plays the
 * values into a structure, or, when `check` is set, compares them with it:
 *
 *               cases_nfs3.h  cases_mount3.h  cases_nfs4_*.h
 *                     |                              |
 *          side_ours.h + ours.c          side_libnfs.h + libnfs.c
 *                     |                              |
 *                ours_side                      libnfs_side
 *                      \___________     ____________/
 *                                  \   /
 *                               test_interop.c
 *
 * The sides spell handles, names and lists differently; their side_*.h gives
 * the macros used in the cases both meanings. Case number i of one side is case
 * number i of the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Value sets per case; play_len() and the others derive values from the number. */
enum { PLAY_VARIANTS = 6 };

struct play {
	bool check;             /* compare instead of set */
	unsigned variant;
	const char *wrong;      /* first value that differed */
	struct {                /* our side: each nfs_bulk that was played, in their order */
		void *bulk;
		const void *data;
		uint32_t len;
	} bulks[8];
	unsigned nbulks;
};

/* One structure with its value sets, as one side implements it. */
struct play_case {
	const char *name;
	size_t size;
	void (*play)(struct play *p, void *obj);
	bool (*codec)(void *stream, void *obj);
	bool is_arg;            /* an argument, or a result */
};

/* A number that both sides define (constants.h), by our name for it. */
struct play_constant {
	const char *name;
	uint64_t value;
};

/*
 * One implementation. encode() plays variant `k` of case `i` and encodes it, 0
 * if it refuses. decode() decodes, compares with variant `k` unless that is
 * PLAY_VARIANTS, and encodes what it decoded into `again`; it returns the number of
 * bytes it encoded, 0 if it refused to decode, and sets *wrong to what differed.
 */
struct play_side {
	const struct play_constant *constants;
	unsigned nconstants;
	unsigned ncases;
	const char *(*name)(unsigned i);
	uint32_t (*encode)(unsigned i, unsigned k, void *buf, uint32_t cap);
	uint32_t (*decode)(unsigned i, unsigned k, const void *buf, uint32_t len,
			   void *again, uint32_t cap, const char **wrong);
};

extern const struct play_side ours_side;
extern const struct play_side libnfs_side;

/* Begins to play a variant; what play_bytes() gave out before is gone. */
void play_start(struct play *p, bool check, unsigned variant);

/* `n` letters that depend on `seed`, NUL-terminated; valid until play_start(). */
const char *play_bytes(uint32_t n, unsigned seed);

/* Notes that `what` differs; the first one is kept. */
void play_wrong(struct play *p, const char *what);

/* A length up to `max` that depends on the variant: 1, max, 5, 8, 0, 7. */
uint32_t play_len(const struct play *p, uint32_t max);

/* A status: 0 in the first four variants, then two different errors. */
int play_status(const struct play *p, int err, int err2);

/* Is an optional item there? In odd variants. */
static inline bool play_on(const struct play *p)
{
	return p->variant & 1;
}

/* Sets or compares an integer or enum. */
#define I(lv, val)						\
	do {							\
		const __typeof__(lv) want_ = (val);		\
								\
		if (!p->check)					\
			(lv) = want_;				\
		else if ((lv) != want_)				\
			play_wrong(p, #lv);			\
	} while (0)

/* Sets or compares a fixed opaque. */
#define FIXED(lv)						\
	play_fixed(p, (char *)(lv), sizeof(lv), __LINE__, #lv)

void play_fixed(struct play *p, char *at, uint32_t n, unsigned seed, const char *what);

/*
 * Points an array at static storage and sets its length, or compares its length; the
 * statement that follows plays the `n` elements, at most `max`.
 */
#define ARRAY(len, val, type, n, max)				\
	static type storage_[max];				\
								\
	if (!p->check)						\
		(val) = storage_;				\
	I(len, n);						\
	for (unsigned i = 0; i < (len) && i < (max); i++)

/* Attributes of the functions that play; a side may need some. */
#ifndef PLAY_ATTR
#define PLAY_ATTR
#endif

/* Defines how entry number `i` of a list is played. */
#define PLAY_ENTRY(type)					\
	PLAY_ATTR static void play_entry_##type(struct play *p, type *v, unsigned i)

/* Defines play_<name>(p, v), which plays a `type`. */
#define PLAY_AS(type, name)					\
	PLAY_ATTR static void play_##name(struct play *p, type *v);	\
	static void play_any_##name(struct play *p, void *obj)	\
	{							\
		play_##name(p, obj);				\
	}							\
	PLAY_ATTR static void play_##name(struct play *p, type *v)

/* The same for a part of other structures, which is no case by itself. */
#define PLAY_PART(type)						\
	PLAY_ATTR static void play_##type(struct play *p, type *v)

#define PLAY(type) PLAY_AS(type, type)
