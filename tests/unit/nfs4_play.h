/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What tests of version 4.1 share: a client of two lanes, the second of which is
 * the test's, and a session of ten slots; and the beginnings of COMPOUNDs.
 */
#ifndef TESTS_NFS4_PLAY_H
#define TESTS_NFS4_PLAY_H

#include "nfs/nfs4/nfs4_impl.h"
#include "op_play.h"

#define SESSION_WORDS 0x30313233, 0x34353637, 0x38396162, 0x63646566    /* 0..9a..f */
#define STATEID_WORDS 0x6f706e31, 0x6f706e32, 0x6f706e33                /* its 12 bytes */
#define NLANES 2u
#define LANE   1u
#define SLOTS  10u

/* nfs4_stat_mask, and the values that m_stat_values() writes. */
#define STAT_MASK 2, 0x0010011a, 0x0030a23a

extern struct nfs_client cl4;
extern struct nfs_lane lanes[NLANES];
extern struct nfs_control ctl;
extern struct nfs4_client n4;
extern struct nfs_open open_file;       /* an open of the test's, never freed */
extern const struct nfs_fh fh, fh2;

void play4_setup(void);
void play4_teardown(void);
static inline struct nfs_lane *lane4(void)
{
	return &lanes[LANE];
}
static inline struct nfs_target *target4(void)
{
	return &lanes[LANE].target;
}
static inline struct nfs4_slots *slots4(void)
{
	return &n4.slots;
}
/* Slots that are free, and those that will never be again. */
unsigned nfree4(void);
unsigned nretired4(void);
/* A new session. */
void new_session4(void);
/* A call with a slot, if its operation takes one. */
struct nfs_call call4(enum nfs_op op);
/* A slot for a copied call in a session that starts anew; and what to free. */
extern const struct play_hooks hooks4;

/* Arguments: up to SEQUENCE's, and PUTFH's. */
void m_seq_args(uint32_t nops, bool cache);
void m_args(uint32_t nops, bool cache);

/* Results: head, and SEQUENCE with slot 0 and sequence 1; PUTFH. */
void m_seq_res(void);
void m_res(void);
/* The next operation's number and its status: OK. */
void m_op(uint32_t op);
unsigned m_nops(void);
/* Where the result of operation k begins. */
uint32_t m_op_at(unsigned k);
/* The message as if operation k had failed. */
void m_fail_at(unsigned k, uint32_t status);
/* GETATTR's fattr4. */
void m_stat_fattr(void);
void m_stat_values(void);
/* The length of an opaque that began at byte `at`, now that it is written. */
void m_end_opaque(uint32_t at);
void expect_stat(const struct nfs_attr *a);

#endif
