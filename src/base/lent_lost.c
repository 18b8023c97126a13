/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory of programs whose device has taken it away: see lent.h. */
#include "base/lent.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static struct lent *_Atomic lent_guarded;

/* The whole piece, because each page by itself would be a mapping, and of these a process may have some
 * ten thousand. Only calls that are safe in a handler. */
static bool lent_replace(struct lent *l, unsigned piece)
{
	void *at = lent_at(l, piece);

	/* First of all, so that nobody who finds the empty memory believes it. */
	atomic_store(&l->lost[piece], true);
	if (mmap(at, l->len[piece], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
		 -1, 0) == MAP_FAILED)
		return false;
	madvise(at, l->len[piece], MADV_DONTFORK);
	madvise(at, l->len[piece], MADV_DONTDUMP);
	return true;
}

/* The instruction is tried again: it finds the new memory, or SIGBUS does what it always does. */
static void lent_on_sigbus(int sig, siginfo_t *info, void *context)
{
	struct lent *l = atomic_load(&lent_guarded);
	int was = errno, piece = l && info->si_code > 0 ? lent_find(l, info->si_addr, 1) : -1;

	if (piece < 0 || !lent_replace(l, (unsigned)piece)) {
		signal(sig, SIG_DFL);
		if (info->si_code <= 0)
			raise(sig);             /* somebody has sent it */
	}
	errno = was;
}

int lent_guard(struct lent *l)
{
	struct sigaction sa = { .sa_sigaction = lent_on_sigbus, .sa_flags = SA_SIGINFO };

	atomic_store(&lent_guarded, l);
	return sigaction(SIGBUS, &sa, NULL) < 0 ? -errno : 0;
}

void lent_unguard(struct lent *l)
{
	struct lent *guarded = l;

	atomic_compare_exchange_strong(&lent_guarded, &guarded, NULL);
}

bool lent_holds(const void *mem)
{
	const struct lent *l = atomic_load_explicit(&lent_guarded, memory_order_relaxed);

	return l && lent_find(l, mem, 1) >= 0;
}

/* Touches each page, which is what raises SIGBUS. */
static bool lent_mend_one(struct lent *l, char *mem, size_t len)
{
	size_t page = (size_t)getpagesize();
	int piece = lent_find(l, mem, len);
	char *end = mem + len;

	if (piece < 0 || atomic_load(&l->lost[piece]))
		return false;
	while (mem < end && !atomic_load(&l->lost[piece])) {
		atomic_fetch_or((_Atomic char *)mem, 0);
		mem = (char *)(((uintptr_t)mem / page + 1) * page);
	}
	return atomic_load(&l->lost[piece]);
}

bool lent_mend(const struct iovec *iov, size_t n)
{
	struct lent *l = atomic_load(&lent_guarded);
	bool mended = false;

	for (size_t i = 0; l && i < n; i++)
		mended |= lent_mend_one(l, iov[i].iov_base, iov[i].iov_len);
	return mended;
}
