/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A session with the played daemon (ring_daemon_play.h), for the tests of libnfsrdma. */
#pragma once

#include <criterion/criterion.h>
#include <string.h>

#include "lib/lib_impl.h"
#include "ring_daemon_play.h"

#define ENTRIES 8u
#define MEMORY 65536u

static struct nfsrdma_session *session;
static struct nfsrdma_memory *memory;
static struct nfsrdma_queue *queue;
static uint32_t file;

/* One of each. */
static inline void connect_all(void)
{
	cr_assert_eq(nfsrdma_connect(0, &session), 0, "%s", nfsrdma_why());
	cr_assert_eq(nfsrdma_memory_new(session, MEMORY, &memory), 0, "%s", nfsrdma_why());
	cr_assert_eq(nfsrdma_queue_new(session, ENTRIES, &queue), 0, "%s", nfsrdma_why());
	cr_assert_eq(nfsrdma_attach(queue, 0, &file), 0, "%s", nfsrdma_why());
}

static inline void expect_why(const char *words)
{
	cr_expect(strstr(nfsrdma_why(), words), "\"%s\" does not say \"%s\"", nfsrdma_why(), words);
}
