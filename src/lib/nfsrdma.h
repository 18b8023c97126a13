/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libnfsrdma: reads and writes open files of an nfsrdma-fuse mount past FUSE. A program opens a file
 * as usual; what it reads comes straight into memory that it has told the mount's daemon of, and no
 * byte is copied in between.
 *
 *     fd = open("/mnt/data", O_RDONLY);
 *     nfsrdma_connect(fd, &session);
 *     nfsrdma_memory_new(session, 64 << 20, &memory);
 *     nfsrdma_queue_new(session, 64, &queue);
 *     nfsrdma_attach(queue, fd, &file);
 *     nfsrdma_read(queue, file, memory, at, len, offset, user_data);      as many as there is room for
 *     nfsrdma_wait(queue, done, 1, 64, -1);                               sends them, and waits for one
 *
 * What it means for the file: reads and writes are as with O_DIRECT, but that nothing has to be
 * aligned. What was written before by write() is read; what a mapping has dirtied is not, before
 * msync(). A write is on the server's disk when it is done. Another open of the file on this mount
 * sees it at once with O_DIRECT, and by the page cache from its open on. Offsets are as with pread():
 * the descriptor's own does not move. Locks are the descriptor's, as ever.
 *
 * Threads: a session, its memory and its attachments may be used by any, by one at a time for each queue;
 * a queue is of one thread. fork(): the parent goes on; in the child only nfsrdma_disconnect() may be
 * called, and it does nothing to the parent's session. exec() ends it.
 *
 * Functions return 0 or what they say, or -errno. ENOTCONN: the daemon has ended, or the mount; it
 * stays so, and what was under way is not completed. nfsrdma_why() tells more of the others.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nfsrdma_session;
struct nfsrdma_memory;
struct nfsrdma_queue;

/* What has become of a read or write. */
struct nfsrdma_done {
	uint64_t user_data;             /* what it was given */
	int64_t result;                 /* bytes; fewer than wanted at the end of the file; or -errno */
};

/* The longest that one read or write may be. */
#define NFSRDMA_IO_MAX (4u << 20)

/* A session with the mount that fd, an open regular file, is on. Environment: NFSRDMA_RINGS names
 * the mount's socket, if it is not where the daemon says (in a container).
 * -ENOTTY: it is not on such a mount. -EOPNOTSUPP: that has no rings, or not for this file. */
int nfsrdma_connect(int fd, struct nfsrdma_session **out);
/* Ends it, with all its queues and memory. What is under way may or may not be executed. */
void nfsrdma_disconnect(struct nfsrdma_session *s);
/* Why the last function of this thread has failed, in a sentence. Valid until the next one. */
const char *nfsrdma_why(void);

/* len bytes of new memory, zeroed, whole pages; where it is: nfsrdma_memory_at(). */
int nfsrdma_memory_new(struct nfsrdma_session *s, size_t len, struct nfsrdma_memory **out);
/* Memory that the caller has: the first len bytes of a memfd that is sealed against shrinking
 * (F_SEAL_SHRINK), or of a dma-buf. It is not mapped here, and fd may be closed. -EOPNOTSUPP: an RDMA device
 * of the mount takes no dma-buf. One has to be mappable by processors, and its user brackets reads and writes
 * with DMA_BUF_IOCTL_SYNC (START before they are begun, END when they are done): the daemon does not. */
int nfsrdma_memory_add(struct nfsrdma_session *s, int fd, size_t len, struct nfsrdma_memory **out);
/* NULL: nfsrdma_memory_add() */
void *nfsrdma_memory_at(const struct nfsrdma_memory *m);
/* Waits for reads and writes that use it. It is freed whatever this returns. */
int nfsrdma_memory_free(struct nfsrdma_memory *m);

/* A queue with room for so many reads and writes, a power of two from 2 to 4096. */
int nfsrdma_queue_new(struct nfsrdma_session *s, unsigned entries, struct nfsrdma_queue **out);
/* What is under way is given up; its memory may be written to until nfsrdma_memory_free(). */
void nfsrdma_queue_free(struct nfsrdma_queue *q);
/* An open file of the same mount (-EXDEV: it is of another one) is one of the queue's from now on. *file:
 * its number. Until the last descriptor of it is closed, or detached; then it may be the next file's. */
int nfsrdma_attach(struct nfsrdma_queue *q, int fd, uint32_t *file);
int nfsrdma_detach(struct nfsrdma_queue *q, uint32_t file);

/* Adds a read or write: of len bytes at `at` in the memory, and at `offset` in the file. The memory's
 * bytes are the daemon's until it is done. -EAGAIN: there is no room, before nfsrdma_wait() has
 * returned some. -EFAULT: the memory is not so long. -EINVAL: len is 0 or too long, or no file has
 * such an offset. Nothing is sent before nfsrdma_submit() or nfsrdma_wait(). */
int nfsrdma_read(struct nfsrdma_queue *q, uint32_t file, const struct nfsrdma_memory *m, uint64_t at,
		 uint32_t len, uint64_t offset, uint64_t user_data);
int nfsrdma_write(struct nfsrdma_queue *q, uint32_t file, const struct nfsrdma_memory *m, uint64_t at,
		  uint32_t len, uint64_t offset, uint64_t user_data);
int nfsrdma_submit(struct nfsrdma_queue *q);
/* Submits, and waits until at least `min` are done, or as many as are under way if that is less, for
 * timeout_ms milliseconds at most (-1: for ever). Takes up to `max` of them into done[]; returns how
 * many. -EINTR: a signal came before that. Fewer than `min` before the time is over: the daemon has
 * ended, and the next call says so. */
int nfsrdma_wait(struct nfsrdma_queue *q, struct nfsrdma_done *done, unsigned min, unsigned max,
		 int timeout_ms);

#ifdef __cplusplus
}
#endif
