/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An engine for fio: reads and writes of files on a mount of nfsrdma-fuse past the kernel.
 *
 *     fio --ioengine=external:PATH/nfsrdma.so --directory=MOUNT --iodepth=16 --rw=randread ...
 *
 * `build`, beside this file, makes it for the fio that is installed.
 *
 * A job (a process, or a thread with --thread) has a session, a queue of its iodepth and one piece of
 * memory, which is where all its buffers are: nothing is copied, and --verify sees what the server sent.
 *
 *     iomem_alloc   a memfd, mapped here: fio's buffers          before any file is open
 *     open_file     the first one: session, queue; the memfd becomes the session's
 *                   each one: attached to the queue
 *     queue         an entry; its user_data is the io_u
 *     commit        sends them
 *     getevents     waits
 *     cleanup       the session ends
 *
 * sync and trim are system calls, when nothing is waiting to be sent. If the daemon ends, the job fails
 * with ENOTCONN. A job's thread does all of that but iomem_free, which comes after cleanup.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fio.h"
#include "nfsrdma.h"

/* What nfsrdma_queue_new() takes. */
#define ENTRIES_MIN 2u
#define ENTRIES_MAX 4096u

struct nfsrdma_job {
	struct nfsrdma_session *session;
	struct nfsrdma_queue *queue;
	struct nfsrdma_memory *memory;
	int memfd;
	char *at;
	size_t len;
	unsigned entries, waiting;      /* waiting: to be sent */
	struct nfsrdma_done *done;      /* what the last getevents() has brought */
};

static int failed(struct thread_data *td, int rc, const char *what)
{
	log_err("fio: nfsrdma: %s: %s (%s)\n", what, strerror(-rc), nfsrdma_why());
	td_verror(td, -rc, what);
	return 1;
}

/* ---- a job ---- */

static int job_init(struct thread_data *td)
{
	struct nfsrdma_job *j;
	enum fio_ddir d;

	for (d = DDIR_READ; d <= DDIR_WRITE; d++)
		if (td->o.max_bs[d] > NFSRDMA_IO_MAX) {
			log_err("fio: nfsrdma: a block has at most %u bytes\n", NFSRDMA_IO_MAX);
			return 1;
		}
	j = calloc(1, sizeof(*j));
	if (!j)
		return 1;
	j->memfd = -1;
	j->entries = ENTRIES_MIN;
	while (j->entries < td->o.iodepth && j->entries < ENTRIES_MAX)
		j->entries *= 2;
	j->done = calloc(j->entries, sizeof(*j->done));
	if (!j->done) {
		free(j);
		return 1;
	}
	td->io_ops_data = j;
	return 0;
}

static void job_disconnect(struct nfsrdma_job *j)
{
	if (j->queue)
		nfsrdma_queue_free(j->queue);
	if (j->session)
		nfsrdma_disconnect(j->session);
	j->queue = NULL;
	j->session = NULL;
	j->memory = NULL;
}

/* fio gives the memory back after this, or before: whichever is last, frees the rest. */
static void job_cleanup(struct thread_data *td)
{
	struct nfsrdma_job *j = td->io_ops_data;

	if (!j)
		return;
	job_disconnect(j);
	if (j->memfd >= 0)
		close(j->memfd);
	if (j->at)
		munmap(j->at, j->len);
	td->orig_buffer = NULL;
	td->io_ops_data = NULL;
	free(j->done);
	free(j);
}

/* ---- memory ---- */

static int memory_alloc(struct thread_data *td, size_t len)
{
	struct nfsrdma_job *j = td->io_ops_data;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	j->len = (len + page - 1) / page * page;
	j->memfd = memfd_create("fio", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (j->memfd < 0 || ftruncate(j->memfd, (off_t)j->len) < 0 ||
	    fcntl(j->memfd, F_ADD_SEALS, F_SEAL_SHRINK) < 0) {
		td_verror(td, errno, "memfd");
		return 1;
	}
	j->at = mmap(NULL, j->len, PROT_READ | PROT_WRITE, MAP_SHARED, j->memfd, 0);
	if (j->at == MAP_FAILED) {
		j->at = NULL;
		td_verror(td, errno, "mmap");
		return 1;
	}
	td->orig_buffer = j->at;
	return 0;
}

/* A queue may still know it: that ends first. */
static void memory_free(struct thread_data *td)
{
	struct nfsrdma_job *j = td->io_ops_data;

	td->orig_buffer = NULL;
	if (!j || !j->at)
		return;
	job_disconnect(j);
	munmap(j->at, j->len);
	j->at = NULL;
}

/* ---- files ---- */

static int job_connect(struct thread_data *td, struct nfsrdma_job *j, int fd)
{
	int rc = nfsrdma_connect(fd, &j->session);

	if (rc)
		return failed(td, rc, "the file is on no mount with rings");
	rc = nfsrdma_memory_add(j->session, j->memfd, j->len, &j->memory);
	if (rc)
		return failed(td, rc, "memory");
	rc = nfsrdma_queue_new(j->session, j->entries, &j->queue);
	if (rc)
		return failed(td, rc, "queue");
	return 0;
}

static int file_open(struct thread_data *td, struct fio_file *f)
{
	struct nfsrdma_job *j = td->io_ops_data;
	uint32_t number;
	int rc = generic_open_file(td, f);

	if (rc)
		return rc;
	if (!j->queue && job_connect(td, j, f->fd)) {
		job_disconnect(j);      /* the next file connects anew */
		goto close;
	}
	rc = nfsrdma_attach(j->queue, f->fd, &number);
	if (rc) {
		failed(td, rc, "attach");
		goto close;
	}
	FILE_SET_ENG_DATA(f, (void *)(uintptr_t)number);
	return 0;
close:
	rc = generic_close_file(td, f);
	return rc ? rc : 1;
}

static int file_close(struct thread_data *td, struct fio_file *f)
{
	struct nfsrdma_job *j = td->io_ops_data;

	if (j && j->queue)
		nfsrdma_detach(j->queue, (uint32_t)(uintptr_t)FILE_ENG_DATA(f));
	FILE_SET_ENG_DATA(f, NULL);
	return generic_close_file(td, f);
}

/* ---- reads and writes ---- */

static enum fio_q_status by_system_call(struct thread_data *td, struct io_u *io_u)
{
	struct nfsrdma_job *j = td->io_ops_data;

	if (j->waiting)
		return FIO_Q_BUSY;
	if (io_u->ddir == DDIR_TRIM)
		do_io_u_trim(td, io_u);
	else
		do_io_u_sync(td, io_u);
	return FIO_Q_COMPLETED;
}

static enum fio_q_status job_queue(struct thread_data *td, struct io_u *io_u)
{
	struct nfsrdma_job *j = td->io_ops_data;
	uint32_t file = (uint32_t)(uintptr_t)FILE_ENG_DATA(io_u->file), len = (uint32_t)io_u->xfer_buflen;
	uint64_t at = (uint64_t)((char *)io_u->xfer_buf - j->at), me = (uint64_t)(uintptr_t)io_u;
	int rc;

	fio_ro_check(td, io_u);
	if (!ddir_rw(io_u->ddir))
		return by_system_call(td, io_u);
	if (io_u->ddir == DDIR_READ)
		rc = nfsrdma_read(j->queue, file, j->memory, at, len, io_u->offset, me);
	else
		rc = nfsrdma_write(j->queue, file, j->memory, at, len, io_u->offset, me);
	if (rc == -EAGAIN)
		return FIO_Q_BUSY;
	if (rc) {
		io_u->error = (unsigned)-rc;
		return FIO_Q_COMPLETED;
	}
	j->waiting++;
	return FIO_Q_QUEUED;
}

static int job_commit(struct thread_data *td)
{
	struct nfsrdma_job *j = td->io_ops_data;
	int rc;

	if (!j->waiting)
		return 0;
	rc = nfsrdma_submit(j->queue);
	if (rc < 0)
		return rc;
	io_u_mark_submit(td, j->waiting);
	j->waiting = 0;
	return 0;
}

/* Signals are for fio's main thread; this one goes on, as with other engines. */
static int job_getevents(struct thread_data *td, unsigned min, unsigned max, const struct timespec *t)
{
	struct nfsrdma_job *j = td->io_ops_data;
	int ms = t ? (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000) : -1, n;

	if (max > j->entries)
		max = j->entries;
	do
		n = nfsrdma_wait(j->queue, j->done, min, max, ms);
	while (n == -EINTR && !td->terminate);
	return n == -EINTR ? 0 : n;
}

static struct io_u *job_event(struct thread_data *td, int event)
{
	struct nfsrdma_job *j = td->io_ops_data;
	struct nfsrdma_done *done = &j->done[event];
	struct io_u *io_u = (struct io_u *)(uintptr_t)done->user_data;

	io_u->error = done->result < 0 ? (unsigned)-done->result : 0;
	if (done->result >= 0)
		io_u->resid = io_u->xfer_buflen - (uint64_t)done->result;
	return io_u;
}

/* fio finds it by this name. */
struct ioengine_ops ioengine = {
	.name = "nfsrdma",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_NODISKUTIL,
	.init = job_init,
	.cleanup = job_cleanup,
	.iomem_alloc = memory_alloc,
	.iomem_free = memory_free,
	.open_file = file_open,
	.close_file = file_close,
	.get_file_size = generic_get_file_size,
	.queue = job_queue,
	.commit = job_commit,
	.getevents = job_getevents,
	.event = job_event,
};
