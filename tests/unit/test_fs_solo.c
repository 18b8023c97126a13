/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * consistency=solo (solo.h), with the kernel and the server played (fs_play.h). The server has one
 * file: what matters of it is its size, its mtime and its change attribute. It executes a call
 * when it is sent, and the test says when the replies come.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fs_play.h"
#include "nfs/common.h"

enum { OWNER = 500 };

/* ---- the server ---- */

static struct {
	uint64_t size, change;
	struct timespec mtime;
	uid_t uid;
	bool unreadable, full;
	mode_t mode;
	uint64_t creator;               /* the verifier of the exclusive CREATE that made it */
} file;

static struct sent {
	struct nfs_call *c;
	uint32_t xid, len;
	struct nfs_attr attr;           /* when it was executed */
	int rc;
} sent[16];
static unsigned nsent;

/* What was sent, a letter each, since it was cleared. */
static char calls[64];
static struct nfs_sattr set;            /* the newest SETATTR's */
static int opened_for;                  /* the newest OPEN's or CREATE's flags */
static bool widened;                    /* ...and that is more than the program wants */

static void touched(void)
{
	file.mtime = (struct timespec){ 1000, (long)++file.change };
}

static void server_write(uint64_t size)
{
	file.size = size;
	touched();
}

static void server_set(const struct nfs_sattr *s)
{
	set = *s;
	if (s->valid & NFS_SET_SIZE)
		server_write(s->size);
	if (s->valid & NFS_SET_MTIME) {
		file.mtime = s->mtime;
		file.change++;
	}
}

static int server_open(const struct nfs_args *a)
{
	opened_for = a->file.flags & O_ACCMODE;
	widened = a->file.widened;
	return file.unreadable && opened_for != O_WRONLY ? -EACCES : 0;
}

/* An exclusive CREATE makes the file, and finds only then that it may not be opened so. */
static int server_create(struct nfs_call *c)
{
	char verf[8];

	if (c->args.file.flags & O_EXCL) {
		nfs_create_verifier(c, verf);
		if (file.creator && file.creator != nfs_verifier(verf))
			return -EEXIST;
		file.creator = nfs_verifier(verf);
	}
	return server_open(&c->args);
}

static char execute(struct sent *s)
{
	const struct nfs_args *a = &s->c->args;

	switch (s->c->op) {
	case NFS_OP_OPEN:
		s->rc = server_open(a);
		return 'o';
	case NFS_OP_CREATE:
		s->rc = server_create(s->c);
		return 'c';
	case NFS_OP_SETATTR:
		server_set(&a->sattr);
		return 's';
	case NFS_OP_WRITE:
		for (uint32_t i = 0; i < a->io.ndata; i++)
			s->len += a->io.data[i].len;
		s->rc = file.full ? -ENOSPC : 0;
		if (!s->rc)
			server_write(a->io.offset + s->len > file.size ? a->io.offset + s->len : file.size);
		return 'w';
	case NFS_OP_CLOSE:
		return 'x';
	case NFS_OP_LOOKUP:
		return 'l';
	case NFS_OP_RENAME:
		file.change++;
		return 'r';
	default:
		return '?';
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;
	struct sent *s = &sent[nsent++];
	size_t n = strlen(calls);

	cr_assert(nsent <= 16 && n < sizeof(calls) - 1);
	*s = (struct sent){ .c = c, .xid = c->eng.rr.xid };
	calls[n] = execute(s);
	s->attr = (struct nfs_attr){
		.mode = S_IFREG | file.mode, .nlink = 1, .size = file.size, .change = file.change,
		.mtime = file.mtime, .uid = file.uid,
	};
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
{
	unsigned i = 0;
	struct sent s;

	(void)x;
	while (sent[i].c != c || sent[i].xid != c->eng.rr.xid)
		cr_assert_lt(++i, nsent);
	s = sent[i];
	memmove(&sent[i], &sent[i + 1], (--nsent - i) * sizeof(sent[0]));
	if (s.rc)
		return s.rc;
	if (c->op == NFS_OP_WRITE) {
		c->res.io = (struct nfs_io_results){ .len = s.len, .stable = true };
		return 0;
	}
	c->res.attr = s.attr;
	c->res.has_attr = true;
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "f" };
	if (c->op == NFS_OP_OPEN || c->op == NFS_OP_CREATE)
		c->open = calloc(1, 8);
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

static void done(void)
{
	for (unsigned i = 0; i < 20; i++) {
		lane_play_flush();
		if (nsent)
			lane_play_reply(sent[0].xid);
		lane_play_run(0);
	}
	cr_assert_eq(nsent, 0);
}

static void sent_only(const char *what)
{
	cr_assert_str_eq(calls, what);
	memset(calls, 0, sizeof(calls));
}

/* ---- the kernel ---- */

static uint64_t node;
static uint32_t user;

static void begin(uint32_t opcode, uint64_t to, const void *body, size_t len)
{
	struct fuse_in_header h = fs_play_header(opcode, to, len);

	h.pid = 10;
	h.uid = user;
	fs_play_request(&h, body, len);
	lane_play_flush();
}

static void ask(uint32_t opcode, uint64_t to, const void *body, size_t len)
{
	begin(opcode, to, body, len);
	done();
	cr_assert_eq(answer.count, 1);
}

static uint64_t lookup(void)
{
	const struct fuse_entry_out *out = (const void *)answer.data;

	ask(FUSE_LOOKUP, FUSE_ROOT_ID, "f", 2);
	cr_assert_eq(answer.error, 0);
	return out->nodeid;
}

static const struct fuse_open_out *try_open(uint32_t flags)
{
	struct fuse_open_in in = { .flags = flags };

	ask(FUSE_OPEN, node, &in, sizeof(in));
	return (const void *)answer.data;
}

static uint64_t open_(uint32_t flags)
{
	const struct fuse_open_out *out = try_open(flags);

	cr_assert_eq(answer.error, 0);
	return out->fh;
}

static void write_with(uint64_t fh, uint64_t at, uint32_t n, uint32_t flags, uint32_t write_flags)
{
	struct fuse_write_in in = {
		.fh = fh, .offset = at, .size = n, .flags = flags, .write_flags = write_flags,
	};
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, node, sizeof(in) + n);

	h.pid = 10;
	fs_play_buffers();
	memset(fs_play_dev.mid->mem, 'a', n);
	fs_play_request(&h, &in, sizeof(in));
	done();
}

static void write_back(uint64_t fh, uint64_t at, uint32_t n)
{
	write_with(fh, at, n, O_RDWR, FUSE_WRITE_CACHE);
	cr_assert_eq(answer.error, 0);
}

/* fh 0: by name. */
static void set_times(uint64_t fh, uint32_t valid, unsigned mtime, unsigned ctime)
{
	struct fuse_setattr_in in = {
		.valid = FATTR_MTIME | FATTR_CTIME | valid | (fh ? FATTR_FH : 0), .fh = fh,
		.mtime = mtime, .ctime = ctime, .mtimensec = 7, .ctimensec = 7,
	};

	begin(FUSE_SETATTR, node, &in, sizeof(in));
}

static void flush_(uint64_t fh)
{
	struct fuse_flush_in in = { .fh = fh };

	ask(FUSE_FLUSH, node, &in, sizeof(in));
}

static void release(uint64_t fh)
{
	struct fuse_release_in in = { .fh = fh };

	begin(FUSE_RELEASE, node, &in, sizeof(in));
	cr_assert_eq(answer.count, 1);
}

/* As the kernel closes a file that was written at that time. */
static void close_at(uint64_t fh, unsigned mtime)
{
	set_times(fh, 0, mtime, mtime);
	flush_(fh);
	release(fh);
	done();
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "dir" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };

	file.uid = user = OWNER;
	file.mode = 0644;
	fs.cfg.vfs.solo = true;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs.cfg.vfs.write_behind = 60;
	fs_play_start(&version, &root, &attr);
	node = lookup();
	sent_only("l");
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_solo, .init = setup, .fini = teardown, .timeout = 300);

/* ---- opening ---- */

Test(fs_solo, who_writes_reads_the_rest_of_a_page)
{
	uint64_t fh = open_(O_WRONLY);

	cr_assert(opened_for == O_RDWR && widened);
	sent_only("o");
	release(fh);
	done();
}

Test(fs_solo, who_may_not_read_writes_past_the_pages)
{
	const struct fuse_open_out *out;

	file.unreadable = true;
	out = try_open(O_WRONLY);
	cr_assert(answer.error == 0 && out->open_flags & FOPEN_DIRECT_IO);
	cr_assert(opened_for == O_WRONLY && !widened);
	sent_only("oo");
	release(out->fh);
	done();
	try_open(O_RDWR);
	cr_assert(answer.error == -EACCES && !widened);
	sent_only("xo");
}

static void creates_what_it_may_not_read(uint32_t flags)
{
	struct fuse_create_in in = { .flags = O_WRONLY | O_CREAT | flags, .mode = S_IFREG | 0644 };
	const struct fuse_entry_out *e = (const void *)answer.data;
	const struct fuse_open_out *out = (const void *)(e + 1);
	char body[sizeof(in) + 2] = "";

	file.unreadable = true;
	memcpy(body, &in, sizeof(in));
	body[sizeof(in)] = 'f';
	ask(FUSE_CREATE, FUSE_ROOT_ID, body, sizeof(body));
	cr_assert_eq(answer.error, 0);
	cr_assert(out->open_flags & FOPEN_DIRECT_IO);
	sent_only("cc");
	release(out->fh);
	done();
}

Test(fs_solo, the_same_for_a_file_that_create_finds)
{
	creates_what_it_may_not_read(0);
}

/* It has made the file with the first one already: the second one has the same verifier. */
Test(fs_solo, the_same_for_an_exclusive_create)
{
	creates_what_it_may_not_read(O_EXCL);
}

/* ---- times ---- */

Test(fs_solo, the_mtime_is_sent_when_the_file_is_released)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	set_times(fh, 0, 2000, 2000);
	cr_assert(answer.count == 1 && answer.error == 0, "nobody waits for it");
	sent_only("o");
	flush_(fh);
	sent_only("w");
	release(fh);
	done();
	sent_only("sx");
	cr_assert(set.valid == NFS_SET_MTIME && file.mtime.tv_sec == 2000 && file.mtime.tv_nsec == 7);
}

Test(fs_solo, the_mtime_that_a_program_sets_replaces_it)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	set_times(fh, 0, 2000, 2000);
	set_times(0, FATTR_ATIME, 1500, 2001);
	done();
	sent_only("ows");
	cr_assert_eq(file.mtime.tv_sec, 1500);
	flush_(fh);
	release(fh);
	done();
	sent_only("x");
}

/* After a rename the kernel sends what it has. */
Test(fs_solo, the_mtime_that_the_server_has_is_not_sent)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	close_at(fh, 2000);
	sent_only("owsx");
	set_times(0, 0, 2000, 2005);
	cr_assert(answer.count == 1 && answer.error == 0);
	sent_only("");
	set_times(0, 0, 1999, 2005);
	done();
	sent_only("s");
	cr_assert_eq(file.mtime.tv_sec, 1999);
}

/* An explicit time is for owners. */
Test(fs_solo, who_may_only_write_sets_no_time)
{
	uint64_t fh;

	user = OWNER + 1;
	fh = open_(O_RDWR);
	write_back(fh, 0, 100);
	close_at(fh, 2000);
	sent_only("owx");
	set_times(0, FATTR_ATIME | FATTR_ATIME_NOW, 2001, 2001);
	done();
	sent_only("s");
	cr_assert_eq(set.valid, NFS_SET_ATIME_NOW | NFS_SET_MTIME_NOW, "touch(1)");
}

Test(fs_solo, the_owner_and_root_set_the_time_that_the_kernel_has)
{
	uint64_t fh;

	set_times(0, FATTR_ATIME | FATTR_ATIME_NOW, 2001, 2001);
	done();
	cr_assert(set.valid == (NFS_SET_ATIME_NOW | NFS_SET_MTIME) && file.mtime.tv_sec == 2001, "touch(1)");
	user = 0;
	fh = open_(O_RDWR);
	write_back(fh, 0, 100);
	close_at(fh, 2002);
	cr_assert_eq(file.mtime.tv_sec, 2002);
}

/* The kernel sends the mtime after a rename, and it is the one that is owed. */
Test(fs_solo, a_mtime_that_is_owed_is_not_sent_for_a_rename)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	set_times(fh, 0, 2000, 2000);
	set_times(0, 0, 2000, 2005);
	cr_assert(answer.count == 1 && answer.error == 0);
	sent_only("o");
	flush_(fh);
	release(fh);
	done();
	sent_only("wsx");
}

Test(fs_solo, who_truncates_need_not_be_the_owner)
{
	uint64_t fh = open_(O_RDWR);

	set_times(fh, FATTR_SIZE, 2000, 2000);
	done();
	sent_only("os");
	cr_assert_eq(set.valid, NFS_SET_SIZE);
	release(fh);
	done();
	sent_only("sx");
	cr_assert_eq(file.mtime.tv_sec, 2000);
}

Test(fs_solo, a_newer_mtime_is_not_overtaken)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	set_times(fh, 0, 2000, 2000);
	flush_(fh);
	release(fh);
	lane_play_flush();
	sent_only("owsx");
	set_times(0, FATTR_ATIME, 1500, 2001);
	cr_assert_eq(answer.count, 0);
	lane_play_run(50);
	lane_play_flush();
	sent_only("");
	done();
	lane_play_run(50);
	done();
	cr_assert_eq(answer.count, 1);
	sent_only("s");
	cr_assert_eq(file.mtime.tv_sec, 1500);
}

/* The release waits for what another open has written. A time that a program sets meanwhile is the
 * newer one. */
Test(fs_solo, a_program_sets_the_mtime_before_it_is_sent)
{
	uint64_t fh = open_(O_RDWR), other = open_(O_RDWR);

	write_back(other, 0, 100);
	set_times(fh, 0, 2000, 2000);
	release(fh);
	lane_play_flush();
	sent_only("oowx");
	set_times(0, FATTR_ATIME, 1500, 2001);
	done();
	lane_play_run(50);
	done();
	cr_assert_eq(answer.count, 1);
	sent_only("s");
	cr_assert_eq(file.mtime.tv_sec, 1500);
	release(other);
	done();
}

/* With each FLUSH the kernel forgets the number of blocks. */
Test(fs_solo, stat_after_close_asks_nobody)
{
	struct fuse_getattr_in in = { 0 };
	uint64_t fh = open_(O_RDONLY);

	flush_(fh);
	memset(calls, 0, sizeof(calls));
	ask(FUSE_GETATTR, node, &in, sizeof(in));
	cr_assert_eq(answer.error, 0);
	sent_only("");
	release(fh);
	done();
}

/* ---- changes by others ---- */

/* Opens and closes. The pages stay. */
static void reads_on(void)
{
	const struct fuse_open_out *out;

	notice.count = 0;
	out = try_open(O_RDONLY);
	cr_assert(answer.error == 0 && out->open_flags & FOPEN_KEEP_CACHE);
	cr_assert_eq(notice.count, 0, "the kernel has to ask for nothing");
	release(out->fh);
	done();
	memset(calls, 0, sizeof(calls));
}

Test(fs_solo, own_changes_are_no_news)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	close_at(fh, 2000);
	reads_on();
	fh = open_(O_RDWR);
	write_back(fh, 100, 100);       /* WRITE brings no attributes, and no mtime follows */
	flush_(fh);
	release(fh);
	done();
	reads_on();
	set_times(0, FATTR_SIZE, 2001, 2001);
	done();
	reads_on();
}

/* Others' mtime makes the kernel drop pages. Here it keeps them, and its own mtime, which no
 * program is to see changed. */
Test(fs_solo, an_own_mtime_after_chmod_is_believed)
{
	struct fuse_setattr_in in = { .valid = FATTR_MODE, .mode = 0600 };
	const struct fuse_attr_out *out = (const void *)answer.data;
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	flush_(fh);
	release(fh);
	done();
	ask(FUSE_SETATTR, node, &in, sizeof(in));
	cr_assert_eq(answer.error, 0);
	cr_assert_gt(out->attr_valid, 0);
	cr_assert(out->attr.mtime == (uint64_t)file.mtime.tv_sec &&
		  out->attr.mtimensec == (uint32_t)file.mtime.tv_nsec);
}

/* The kernel has dropped the pages in the way. */
Test(fs_solo, a_direct_write_is_no_news)
{
	uint64_t fh = open_(O_RDWR | O_DIRECT);

	write_with(fh, 0, 4096, O_RDWR | O_DIRECT, 0);
	cr_assert_eq(answer.error, 0);
	flush_(fh);
	release(fh);
	done();
	reads_on();
}

/* What another open writes meanwhile is in the size that the kernel has, and not in OPEN's. */
Test(fs_solo, an_open_beside_a_write_that_is_held_says_nothing)
{
	struct fuse_open_in in = { .flags = O_RDONLY };
	const struct fuse_open_out *out = (const void *)answer.data;
	uint64_t fh = open_(O_RDWR);

	begin(FUSE_OPEN, node, &in, sizeof(in));
	sent_only("oo");
	write_back(fh, 0, 100);
	cr_assert_eq(answer.len, sizeof(*out), "OPEN's answer is the last one");
	cr_assert(out->open_flags & FOPEN_KEEP_CACHE);
	sent_only("");
	release(out->fh);
	close_at(fh, 2000);
	reads_on();
}

/* Whoever writes, and the server says nothing of it: what the next OPEN finds is this mount's. */
Test(fs_solo, the_own_change_is_known_after_the_next_open)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	flush_(fh);
	release(fh);
	done();
	reads_on();
	server_write(file.size);
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE);
}

Test(fs_solo, the_own_change_is_known_by_its_reply)
{
	set_times(0, FATTR_SIZE, 2001, 2001);
	done();
	server_write(file.size);
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE);
}

/* The kernel does not keep these itself, and believes them for an hour. */
Test(fs_solo, a_new_mode_is_told)
{
	const struct fuse_open_out *out;

	file.mode = 0600;
	out = try_open(O_RDONLY);
	cr_assert(answer.error == 0 && out->open_flags & FOPEN_KEEP_CACHE);
	cr_assert_eq(notice.count, 1);
	cr_assert_eq(notice.what.ino, node);
	cr_assert_eq(notice.what.off, -1);
	release(out->fh);
	done();
}

Test(fs_solo, another_change_makes_another_node)
{
	uint64_t was = node;

	reads_on();
	server_write(50);
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE);
	cr_assert_eq(notice.count, 1, "of the attributes");
	sent_only("ox");
	node = lookup();
	cr_assert_neq(node, was);
	cr_assert_neq(fs.solo_said_ns, 0, "the log says so");
	reads_on();
	node = was;
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE, "by another hard link");
	sent_only("");
}

/* Somebody else writes the file; this mount opens it, and looks it up again. */
static void is_changed(void)
{
	server_write(file.size);
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE);
	node = lookup();
}

/* One message names a file; the next one, a second later, says how many there were. */
Test(fs_solo, each_change_is_heard_of)
{
	int real = dup(STDERR_FILENO), out = memfd_create("log", 0);
	char text[2000] = "";

	dup2(out, STDERR_FILENO);
	for (unsigned i = 0; i < 4; i++)
		is_changed();
	cr_assert_eq(stat_get(&lane.stats, STAT_SOLO_CHANGED), 4);
	fs.solo_said_ns = 1;
	loop_timer_set(lane.loop, &fl->vl.tick, 0);
	while (atomic_load(&fs.solo_unsaid))
		lane_play_run(50);
	loop_timer_clear(&fl->vl.tick);
	fs_solo_say_rest(&fs, UINT64_MAX);
	dup2(real, STDERR_FILENO);
	cr_assert_gt(pread(out, text, sizeof(text) - 1, 0), 0);
	cr_assert_not_null(strstr(text, "somebody else has changed the file 'f'"), "%s", text);
	cr_assert_not_null(strstr(text, "3 more files"), "%s", text);
	cr_assert_null(strstr(strstr(text, "more files") + 1, "more files"), "%s", text);
	close(real);
	close(out);
}

Test(fs_solo, the_same_size_as_well)
{
	server_write(file.size);
	try_open(O_RDWR);
	cr_assert_eq(answer.error, -ESTALE);
}

/* The mtime that is sent after close() hides theirs, but not the size. */
Test(fs_solo, a_change_just_after_the_own_one)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	set_times(fh, 0, 2000, 2000);
	flush_(fh);
	server_write(150);
	release(fh);
	done();
	cr_assert_eq(file.mtime.tv_sec, 2000);
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE);
}

/* Two inodes for one file would not see each other's pages. */
Test(fs_solo, a_file_that_is_open_keeps_its_node)
{
	uint64_t fh = open_(O_RDWR), other;
	const struct fuse_open_out *out;

	server_write(50);
	out = try_open(O_RDWR);
	other = out->fh;
	cr_assert(answer.error == 0 && !(out->open_flags & FOPEN_KEEP_CACHE));
	cr_assert_neq(fs.solo_said_ns, 0, "the log says so");
	fs.solo_said_ns = 0;
	release(open_(O_RDWR));
	cr_assert_eq(fs.solo_said_ns, 0, "and not twice");
	write_back(fh, 0, 100);
	release(other);
	close_at(fh, 2000);
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE);
	node = lookup();
	reads_on();
}

/* OPEN was executed before an own change, and is answered after it. */
Test(fs_solo, an_open_beside_an_own_change_says_nothing)
{
	struct fuse_open_in in = { .flags = O_RDONLY };
	const struct fuse_open_out *out = (const void *)answer.data;

	begin(FUSE_OPEN, node, &in, sizeof(in));
	set_times(0, FATTR_ATIME, 1500, 2001);
	lane_play_reply(sent[1].xid);
	lane_play_run(0);
	done();
	cr_assert_eq(answer.error, 0);
	release(out->fh);
	done();
	reads_on();
}

static void is_read_anew(void)
{
	try_open(O_RDONLY);
	cr_assert_eq(answer.error, -ESTALE);
	cr_assert_eq(fs.solo_said_ns, 0, "nobody else is blamed");
	node = lookup();
	reads_on();
}

Test(fs_solo, what_was_lost_is_read_anew)
{
	const struct fuse_attr_out *out = (const void *)answer.data;
	struct fuse_getattr_in in = { 0 };
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	file.full = true;
	flush_(fh);
	cr_assert_eq(answer.error, -ENOSPC);
	release(fh);
	done();
	ask(FUSE_GETATTR, node, &in, sizeof(in));
	cr_assert(out->attr.mtime == (uint64_t)file.mtime.tv_sec &&
		  out->attr.mtimensec == (uint32_t)file.mtime.tv_nsec, "the time is the server's");
	is_read_anew();
}

/*
 *     close() ---> RELEASE: the mtime is sent ..................... executed
 *     open() ----------------> ESTALE, LOOKUP: a new node, its mtime   |   OPEN: another mtime
 *
 * So the second OPEN took the own mtime for somebody else's change, and open() failed.
 */
Test(fs_solo, the_mtime_of_what_was_lost_is_not_sent)
{
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	set_times(fh, 0, 2000, 2000);
	file.full = true;
	flush_(fh);
	cr_assert_eq(answer.error, -ENOSPC);
	sent_only("ow");
	release(fh);
	done();
	sent_only("x");
	is_read_anew();
}

/* It would meet what is written by the next node. */
Test(fs_solo, what_was_lost_is_not_left_while_a_call_may_change_it)
{
	struct fuse_open_in in = { .flags = O_RDONLY };
	const struct fuse_open_out *out = (const void *)answer.data;
	uint64_t fh = open_(O_RDWR);

	write_back(fh, 0, 100);
	file.full = true;
	flush_(fh);
	release(fh);
	done();
	set_times(0, FATTR_SIZE, 2000, 2000);
	begin(FUSE_OPEN, node, &in, sizeof(in));
	cr_assert_eq(nsent, 2);
	lane_play_reply(sent[1].xid);
	lane_play_run(0);
	cr_assert_eq(answer.error, 0);
	release(out->fh);
	done();
	is_read_anew();
}

/* At the end of a mount, and where there is no room for it, nothing is held. */
Test(fs_solo, what_was_lost_without_write_behind_as_well)
{
	uint64_t fh = open_(O_RDWR);

	file.full = true;
	atomic_store(&fs.vfs.behind.closed, true);
	write_with(fh, 0, 100, O_RDWR, FUSE_WRITE_CACHE);
	cr_assert_eq(answer.error, -ENOSPC);
	release(fh);
	done();
	is_read_anew();
}
