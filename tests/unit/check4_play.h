/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The check of a new connection, versions 4.1 and 4.2, step by step: the test says what each call
 * must look like and what the server answers. The server that is mounted has minor id 3, major id
 * "name", scope "scope".
 */
#pragma once

#include "nfs4_play.h"

enum { EXCHANGE_ID = 42, BIND = 41, DESTROY = 57, ILLEGAL = 10044 };
enum { DELAY = 10008, GRACE = 10013, BADSESSION = 10052, DEADSESSION = 10078 };

/* The lane's check; each decoding begins as `begun`. */
extern struct nfs_check k, begun;

void check4_setup(void);
/* The server that is mounted is another one from now on. */
void is_mounted(uint64_t minor, const char *major, const char *scope);
void other_lane_is_up(bool up);
/* Has the check asked for a new session? Then that is forgotten. */
bool asked_for_session(void);

/* ---- steps ---- */

/* Sends the next call: it is the message that was made last. */
void sends(void);
/* The message that was made last is the reply. Returns what the check makes of it. */
int takes(void);
/* That reply, cut and twisted at each place. */
void all_cuts(void);
/* From the beginning: EXCHANGE_ID is sent, and the server says who it is. */
int who(uint64_t minor, const char *major, const char *scope);
/* DESTROY_CLIENTID is sent, and ends with that status. */
int forget(uint32_t status);
/* From the beginning up to the last step, which is sent. */
void up_to_join(void);

/* ---- messages: calls (args) and replies ---- */

void m_who_args(uint32_t minor);
void m_who_bytes(uint32_t flags, uint64_t minor, const void *major, uint32_t major_len,
		 const char *scope);
void m_who(uint32_t flags, uint64_t minor, const char *major, const char *scope);
void m_forget_args(void);
void m_join_args(void);
void m_joined(void);
/* A reply of one operation that has that status. */
void m_status(uint32_t op, uint32_t status);
