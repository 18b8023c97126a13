/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What tests of versions 4.1 and 4.2 share: a client of two lanes, the second of which a test may
 * use, with a session of ten slots; and the first operations of COMPOUNDs.
 */
#pragma once

#include "nfs/nfs4/nfs4_compound.h"
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
/* The server has restarted, and gives none of them again. */
static inline void forget_delegations4(struct nfs4_delegs *t)
{
	nfs4_regain_begins(t);
	nfs4_regain_ends(t);
}
/* How many opens there are. */
unsigned nopen4(void);
/* How many slots are free, and how many will never be used again. */
unsigned nfree4(void);
unsigned nretired4(void);
/* A new session. */
void new_session4(void);
/* The operation's row: of version 4.1, or of 4.2 if only that has it. */
const struct nfs_opdef *def4(enum nfs_op op);
/* A call with a slot, if its operation takes one. From here on the client has the version
 * that def4() takes the row from. */
struct nfs_call call4(enum nfs_op op);
/* before: gives a copied call a slot in a new session. after: frees it. */
extern const struct play_hooks hooks4;
/* An open of that file, which is the caller's. */
struct nfs_open *open4(const struct nfs_fh *of);
/* An OPEN of that file, which asks if it has none, has brought it a delegation with that stateid, 12
 * bytes. false: OPEN has to return it. The same of one to write. */
bool delegate4(struct nfs_open *o, const char *other);
bool delegate4_write(struct nfs_open *o, const char *other);

/* Appends arguments: up to SEQUENCE's; up to PUTFH's. The minor version is 1. */
void m_seq_args(uint32_t nops, bool cache);
void m_args(uint32_t nops, bool cache);
/* Makes it the one of the newest call. */
void m_minor(void);

/* Appends results: the COMPOUND's header, and SEQUENCE with slot 0 and sequence id 1; the
 * same with PUTFH. */
void m_seq_res(void);
void m_res(void);
/* Appends the next operation's number and the status OK. */
void m_op(uint32_t op);
unsigned m_nops(void);
/* Where the result of operation k begins. */
uint32_t m_op_at(unsigned k);
/* Changes the message as if operation k had failed. */
void m_fail_at(unsigned k, uint32_t status);
/* Appends GETATTR's fattr4; only its values. */
void m_stat_fattr(void);
void m_stat_values(void);
/* Fills in the length of an opaque that begins at byte `at` and is complete now. */
void m_end_opaque(uint32_t at);
void expect_stat(const struct nfs_attr *a);
