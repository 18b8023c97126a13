/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that the daemon maps as well. Any thread. */
#include "lib/lib_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Newer kernels want it, and can refuse to do without; older ones do not know it. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

size_t lib_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return len > (size_t)PTRDIFF_MAX - page ? 0 : (len + page - 1) & ~(page - 1);
}

/* ---- a memfd, mapped ---- */

static int create(void)
{
	int fd = memfd_create("nfsrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("nfsrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

/* A child of fork() that touched it would disturb the parent. */
static bool map(int fd, size_t len, void **at)
{
	*at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*at == MAP_FAILED)
		return false;
	if (madvise(*at, len, MADV_DONTFORK) == 0)
		return true;
	munmap(*at, len);
	return false;
}

int lib_memfd(size_t len, void **at)
{
	int fd = create(), error;

	if (fd >= 0 && ftruncate(fd, (off_t)len) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 && map(fd, len, at))
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	return lib_fail(-error, "there are no %zu bytes of memory to be shared: %s", len, strerror(error));
}

/* ---- memory of a session ---- */

/* Tells the daemon. What is mapped at `at` is the new object's, if there is one. */
static int add(struct nfsrdma_session *s, int fd, void *at, size_t len, struct nfsrdma_memory **out)
{
	struct ring_request r = { .what = RING_MEMORY, .value = len };
	struct nfsrdma_memory *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return lib_fail(-ENOMEM, "there is no memory to remember memory in");
	*m = (struct nfsrdma_memory){ .session = s, .at = at, .len = len };
	rc = lib_request(s, &r, fd, &m->number, NULL);
	if (rc) {
		free(m);
		return rc;
	}
	pthread_mutex_lock(&s->lock);
	m->next = s->memories;
	s->memories = m;
	pthread_mutex_unlock(&s->lock);
	*out = m;
	return 0;
}

int nfsrdma_memory_new(struct nfsrdma_session *s, size_t len, struct nfsrdma_memory **out)
{
	void *at;
	int fd, rc;

	*out = NULL;
	if (!lib_pages(len))
		return lib_fail(-EINVAL, "there is no memory of %zu bytes", len);
	len = lib_pages(len);
	fd = lib_memfd(len, &at);
	if (fd < 0)
		return fd;
	rc = add(s, fd, at, len, out);
	close(fd);
	if (rc)
		munmap(at, len);
	return rc;
}

int nfsrdma_memory_add(struct nfsrdma_session *s, int fd, size_t len, struct nfsrdma_memory **out)
{
	*out = NULL;
	if (!len || lib_pages(len) != len)
		return lib_fail(-EINVAL, "%zu bytes are not whole pages", len);
	if (fd < 0)
		return lib_fail(-EBADF, "%d is no descriptor", fd);
	return add(s, fd, NULL, len, out);
}

void *nfsrdma_memory_at(const struct nfsrdma_memory *m)
{
	return m->at;
}

void lib_memory_end(struct nfsrdma_memory *m, bool owner)
{
	if (m->at && owner)
		munmap(m->at, m->len);
	free(m);
}

int nfsrdma_memory_free(struct nfsrdma_memory *m)
{
	struct ring_request r = { .what = RING_FORGET, .value = m->number };
	struct nfsrdma_session *s = m->session;
	struct nfsrdma_memory **at;
	int rc = lib_request(s, &r, -1, NULL, NULL);

	pthread_mutex_lock(&s->lock);
	for (at = &s->memories; *at != m; at = &(*at)->next)
		;
	*at = m->next;
	pthread_mutex_unlock(&s->lock);
	lib_memory_end(m, true);
	return rc;
}
