/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters of one lane, or of the arena. Only one thread writes them. Any thread may read them; each
 * counter is read whole, but not all at the same instant.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* X(identifier, name in reports, what it counts) */
#define STATS_TABLE(X) \
	X(FUSE_REQUESTS,      "fuse.requests",       "requests read from the FUSE device") \
	X(FUSE_EMPTY_READS,   "fuse.empty_reads",    "reads of the FUSE device that found no request") \
	X(FUSE_FORGETS,       "fuse.forgets",        "lookup counts that the kernel gave back") \
	X(FUSE_WAITS,         "fuse.buffer_waits",   "requests that had to wait for a buffer") \
	X(RPC_CALLS,          "rpc.calls",           "RPC calls sent for the first time") \
	X(RPC_REPLIES,        "rpc.replies",         "RPC replies matched to a call") \
	X(RPC_REPLAYS,        "rpc.replays",         "calls sent again after a lost connection") \
	X(RPC_RETRIES,        "rpc.retries",         "calls the server asked to repeat later") \
	X(RPC_BAD_REPLIES,    "rpc.bad_replies",     "replies dropped or failed as malformed") \
	X(RPC_BACK_CALLS,     "rpc.back_calls",      "calls from the server (back channel)") \
	X(RPC_CREDIT_WAITS,   "rpc.credit_waits",    "calls that waited for a credit") \
	X(RDMA_READ_CHUNKS,   "rdma.read_chunks",    "calls with a Read chunk") \
	X(RDMA_WRITE_CHUNKS,  "rdma.write_chunks",   "calls with a Write chunk") \
	X(RDMA_REPLY_CHUNKS,  "rdma.reply_chunks",   "calls with a Reply chunk") \
	X(RDMA_LONG_CALLS,    "rdma.long_calls",     "calls sent as a Position-Zero Read chunk") \
	X(RDMA_REGISTRATIONS, "rdma.registrations",  "registrations made for calls") \
	X(RDMA_BINDINGS,      "rdma.bindings",       "memory windows bound for calls") \
	X(RDMA_LOCAL_INVALS,  "rdma.local_invals",   "memory windows that the client unbound") \
	X(RDMA_REMOTE_INVALS, "rdma.remote_invals",  "segments that the server invalidated by its reply") \
	X(RDMA_ERRORS,        "rdma.errors",         "RDMA_ERROR messages received") \
	X(READ_REQUESTS,      "read.requests",       "READ procedures completed") \
	X(READ_PLACED_BYTES,  "read.placed_bytes",   "file bytes the server placed by RDMA Write") \
	X(READ_INLINE_BYTES,  "read.inline_bytes",   "file bytes that came inside a reply message") \
	X(READ_COPIED_BYTES,  "read.copied_bytes",   "file bytes copied in the daemon while reading") \
	X(AHEAD_READS,        "ahead.reads",         "READ procedures sent before the kernel asked") \
	X(AHEAD_HITS,         "ahead.hits",          "requests answered from what was read ahead") \
	X(AHEAD_WAITS,        "ahead.waits",         "requests that waited for a READ that was under way already") \
	X(AHEAD_WASTED,       "ahead.wasted_bytes",  "file bytes read ahead that no request wanted") \
	X(WRITE_REQUESTS,     "write.requests",      "WRITE procedures completed") \
	X(WRITE_CHUNK_BYTES,  "write.chunk_bytes",   "file bytes the server pulled by RDMA Read") \
	X(WRITE_INLINE_BYTES, "write.inline_bytes",  "file bytes sent inside a call message") \
	X(WRITE_COPIED_BYTES, "write.copied_bytes",  "file bytes copied in the daemon while writing, above the inline threshold") \
	X(BEHIND_BYTES,       "behind.bytes",        "file bytes answered before they were sent") \
	X(BEHIND_GATHERED,    "behind.gathered_bytes", "of these, bytes copied into an earlier WRITE") \
	X(BEHIND_READS,       "behind.reads",        "READs answered from what was held, without the server") \
	X(READBACK_ATTRS,        "young.attrs",         "GETATTRs for read() answered without the server") \
	X(BEHIND_COMMITS,     "behind.commits",      "COMMIT procedures of write-behind") \
	X(SOLO_CHANGED,       "solo.changed",        "files that somebody else has changed with consistency=solo") \
	X(RING_READS,         "ring.reads",          "reads by rings that have ended") \
	X(RING_READ_BYTES,    "ring.read_bytes",     "file bytes read by rings") \
	X(RING_WRITES,        "ring.writes",         "writes by rings that have ended") \
	X(RING_WRITTEN_BYTES, "ring.written_bytes",  "file bytes written by rings") \
	X(DIR_RPCS,           "dir.rpcs",            "READDIR and READDIRPLUS procedures") \
	X(DIR_ENTRIES,        "dir.entries",         "directory entries received") \
	X(CONN_UPS,           "conn.ups",            "connections set up") \
	X(CONN_DOWNS,         "conn.downs",          "connections lost") \
	X(RECOVERIES,         "state.recoveries",    "recoveries of session or client id") \
	X(DELEGS_READ,        "delegs.read",         "delegations to read that the server has given") \
	X(DELEGS_WRITE,       "delegs.write",        "delegations to write that the server has given") \
	X(DELEGS_ASKED,       "delegs.asked",        "questions of the server about a file with one to write, answered") \
	X(LOCKS_FREED,        "locks.freed",         "times that the server said a lock may be free") \
	X(LOCKS_GRANTED,      "locks.granted",       "locks that needed no call, under delegations to write") \
	X(COPIES_ENDED,       "copies.ended",        "times that the server said a copy has ended") \
	X(ARENA_BYTES,        "arena.bytes",         "memory that all buffers use now") \
	X(ARENA_MOST,         "arena.most_bytes",    "memory that they may use") \
	X(ARENA_GROWN,        "arena.grown",         "pieces of 16 MiB added to them") \
	X(ARENA_GIVEN_BACK,   "arena.given_back",    "pieces of 16 MiB given back") \
	X(ARENA_REFUSED,      "arena.refused",       "pieces of 16 MiB that could not be added") \
	X(BEHIND_ROOM,        "behind.room_bytes",   "file bytes that may wait for COMMIT now")

enum stat_id {
#define X(id, name, help) STAT_##id,
	STATS_TABLE(X)
#undef X
	STAT_COUNT
};

struct stats {
	_Atomic uint64_t v[STAT_COUNT];
};

static inline void stat_add_to(_Atomic uint64_t *to, uint64_t n)
{
	/* There is one writer, so a relaxed load and store suffice for an add. */
	uint64_t v = atomic_load_explicit(to, memory_order_relaxed);

	atomic_store_explicit(to, v + n, memory_order_relaxed);
}

static inline void stat_add(struct stats *s, enum stat_id id, uint64_t n)
{
	stat_add_to(&s->v[id], n);
}

/* For what is not counted, but is so now. */
static inline void stat_set(struct stats *s, enum stat_id id, uint64_t n)
{
	atomic_store_explicit(&s->v[id], n, memory_order_relaxed);
}

static inline uint64_t stat_get_from(const _Atomic uint64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

static inline uint64_t stat_get(const struct stats *s, enum stat_id id)
{
	return stat_get_from(&s->v[id]);
}

/* Where values are put, one by one: a file, or an object of JSON. */
struct stats_out {
	void (*put)(void *to, const char *name, uint64_t value);
	void *to;
};

void stats_put(const struct stats_out *out, uint64_t value, const char *name, ...)
	__attribute__((format(printf, 3, 4)));
/* Each counter, summed over the n lanes. */
void stats_put_all(const struct stats_out *out, const struct stats *const *lanes, unsigned n);
