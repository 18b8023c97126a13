/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the table of paths share: paths.c (places, states, a connection's life),
 * paths_change.c (control commands), paths_info.c (what is reported of it). All of it with
 * control->mu held.
 */
#pragma once

#include "nfs/internal.h"
#include "nfs/paths.h"

#define NS_PER_MS 1000000ull

/* ---- paths.c ---- */

/* How many paths there are, without those that are being removed. */
unsigned paths_count(const struct nfs_server *s);
/* All lanes want their connections on that path at once, whatever was before. */
void paths_begin_anew(struct nfs_server *s, unsigned path);
/* No lane wants one any more. */
void paths_forget_wishes(struct nfs_server *s, unsigned path);
/* If that path is being removed and nothing is left of it, its place is free. */
void paths_free_place(struct nfs_server *s, unsigned path);
