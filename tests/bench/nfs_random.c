/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs_random - random reads of one file by libnfs over TCP, as fio does them in a mount:
 * for the row iwarp of contrib/bench. (Debian's fio has no engine for libnfs.)
 *
 *   nfs_random nfs://SERVER/PATH/FILE BLOCK DEPTH SECONDS
 *
 * DEPTH reads of BLOCK bytes are under way at any time. Each that ends begins another, until
 * SECONDS are over. Prints "READS SECONDS-TAKEN". One thread does all of it: libnfs's calls
 * come and go in nfs_service().
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <nfsc/libnfs.h>

#include "load.h"

struct run {
	struct nfs_context *nfs;
	struct nfsfh *fh;
	uint64_t blocks;        /* in the file */
	uint32_t block;
	unsigned under_way;
	uint64_t done;
	uint64_t state;         /* of the random numbers */
	double until;
};

/* One for each read that is under way. */
struct slot {
	struct run *run;
	void *buffer;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "nfs_random: %s: %s\n", what, why);
	exit(1);
}

static void read_done(int status, struct nfs_context *nfs, void *data, void *private_data);

static void read_begin(struct slot *s)
{
	struct run *r = s->run;
	uint64_t at = load_block(&r->state, r->blocks) * r->block;
	int failed;

#ifdef LIBNFS_API_V2
	failed = nfs_pread_async(r->nfs, r->fh, s->buffer, r->block, at, read_done, s);
#else
	failed = nfs_pread_async(r->nfs, r->fh, at, r->block, read_done, s);
#endif
	if (failed)
		die("read", nfs_get_error(r->nfs));
	r->under_way++;
}

static void read_done(int status, struct nfs_context *nfs, void *data, void *private_data)
{
	struct slot *s = private_data;
	struct run *r = s->run;

	if (status < 0)
		die("read", nfs_get_error(nfs));
	if ((uint32_t)status != r->block)
		die("read", "the server sent fewer bytes than the file has");
#ifndef LIBNFS_API_V2
	/* A program would have its bytes in a buffer of its own, as fio has them. */
	memcpy(s->buffer, data, r->block);
#else
	(void)data;
#endif
	r->under_way--;
	r->done++;
	if (load_now() < r->until)
		read_begin(s);
}

static void serve(struct run *r)
{
	while (r->under_way) {
		struct pollfd p = {.fd = nfs_get_fd(r->nfs), .events = (short)nfs_which_events(r->nfs)};
		int n = poll(&p, 1, 10000);

		if (n == 0)
			die("read", "the server says nothing for ten seconds");
		if (n < 0 && errno != EINTR)
			die("poll", strerror(errno));
		if (n > 0 && nfs_service(r->nfs, p.revents) < 0)
			die("connection", nfs_get_error(r->nfs));
	}
}

static void open_file(struct run *r, const char *text)
{
	struct nfs_stat_64 st;
	struct nfs_url *url;

	r->nfs = nfs_init_context();
	if (!r->nfs)
		die("libnfs", "no memory");
	url = nfs_parse_url_full(r->nfs, text);
	if (!url)
		die(text, nfs_get_error(r->nfs));
	if (nfs_mount(r->nfs, url->server, url->path) ||
	    nfs_open(r->nfs, url->file, O_RDONLY, &r->fh) ||
	    nfs_fstat64(r->nfs, r->fh, &st))
		die(text, nfs_get_error(r->nfs));
	nfs_destroy_url(url);
	r->blocks = st.nfs_size / r->block;
	if (!r->blocks)
		die(text, "the file is shorter than a block");
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n == 0 || n > max)
		die(text, "not a number that makes sense here");
	return n;
}

int main(int argc, char **argv)
{
	struct run r = {.state = LOAD_STATE};
	struct slot *slots;
	unsigned long depth;
	double start;

	if (argc != 5) {
		fprintf(stderr, "usage: nfs_random URL BLOCK DEPTH SECONDS\n");
		return 2;
	}
	r.block = (uint32_t)number(argv[2], 1U << 20);
	depth = number(argv[3], 1024);
	open_file(&r, argv[1]);
	slots = calloc(depth, sizeof(*slots));
	if (!slots)
		die("memory", strerror(errno));
	start = load_now();
	r.until = start + (double)number(argv[4], 86400);
	for (unsigned long i = 0; i < depth; i++) {
		slots[i] = (struct slot){.run = &r, .buffer = malloc(r.block)};
		if (!slots[i].buffer)
			die("memory", strerror(errno));
		read_begin(&slots[i]);
	}
	serve(&r);
	printf("%llu %.6f\n", (unsigned long long)r.done, load_now() - start);
	for (unsigned long i = 0; i < depth; i++)
		free(slots[i].buffer);
	free(slots);
	nfs_close(r.nfs, r.fh);
	nfs_destroy_context(r.nfs);
	return 0;
}
