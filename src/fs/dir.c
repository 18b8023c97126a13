/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Directory streams. The kernel asks for a page of entries at a time, but a server sends
 * hundreds in one reply. So an open directory keeps the entries of the newest reply, and
 * answers from them.
 *
 *     offset  0    1     2    cookie ...
 *             "."  ".."  1st entry, 2nd, ...
 *
 * The offset that the kernel gets with an entry is the server's cookie. So it stays valid
 * for as long as the cookie does, for any request at any time. "." and ".." are made here,
 * with offsets 1 and 2: version 4 does not send them and reserves these cookies. If version
 * 3 sends them, they are skipped. It reserves only cookie 0. An entry with a dot's offset is
 * told from the dot by where the stream is.
 *
 * Reading from offset 0 asks the server anew. So does an offset that is not among the
 * entries that are kept.
 *
 * When this mount has changed the directory, the kept entries may include names that are
 * gone. So they are returned without nodes and attributes, and the kernel looks a name up
 * before it uses it. (Asking again from the same cookie would be worse: with some servers
 * cookies are positions, and the entries behind a removed one move.)
 *
 * One request at a time uses a stream. The kernel sees to that, except for a request that
 * was interrupted and still runs. `busy` and the references keep such a request from
 * harming the next one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "fs/cookies.h"
#include "fs/fs_impl.h"

/* Larger answers are of no use. Kernels ask for 4 KiB, newer ones for more. */
#define REPLY_MAX 65536u
/* The inode number in a listing if the server sends none; libfuse uses the same. */
#define NO_FILEID 0xffffffffu
/* The same piece of a directory is asked for so often, see no_answer(). */
#define TRIES_MAX 128u
/* The least size of an entry: fuse_entry_out and fuse_dirent are 128 + 24 bytes. */
#define PLUS_ENTRY_MIN 152u

struct dent {                   /* in stream->data, 8-byte aligned, one after the other */
	uint64_t cookie, fileid;
	struct nfs_attr attr;
	struct nfs_fh fh;
	uint32_t size;          /* of this entry, name included */
	uint16_t namelen;
	bool has_attr, has_fh;
	char name[];
};

struct stream {
	pthread_mutex_t mu;             /* guards busy and refs */
	bool busy;
	unsigned refs;
	uint64_t handle;                /* fi->fh; in fs->dirs until FUSE's release */
	struct inode *ino;              /* a reference */
	uint64_t verf;
	uint64_t first;                 /* the kept entries come after this cookie */
	struct cookies seq;             /* seq.last: of the last entry received, kept or not */
	bool any, eof;                  /* a reply is kept; it had the end of the directory */
	uint64_t asked_ns, fetched_ns;  /* when the kept entries were requested; received */
	char *data;
	size_t len, cap;
	size_t pos;                     /* where the entry after pos_off begins */
	uint64_t pos_off;
	bool restarted;                 /* the cookie was stale, and was tried once more */
	bool syncs;                     /* the process of fs->syncs has opened it */
};

/* The answer that a request is filling. */
struct filler {
	struct fs_req *r;
	bool plus;
	char *buf;
	size_t len, cap;
	struct inode *given[REPLY_MAX / PLUS_ENTRY_MIN + 1];
	unsigned ngiven;
};

static bool stream_ref(void *obj)
{
	struct stream *s = obj;
	bool live;

	pthread_mutex_lock(&s->mu);
	live = s->refs;
	s->refs += live;
	pthread_mutex_unlock(&s->mu);
	return live;
}

static void stream_put(struct fs *fs, struct stream *s)
{
	bool last;

	pthread_mutex_lock(&s->mu);
	last = --s->refs == 0;
	pthread_mutex_unlock(&s->mu);
	if (!last)
		return;
	handle_del(&fs->dirs, s->handle);       /* if the kernel has not got it */
	inode_put(&fs->inodes, s->ino, 1);
	pthread_mutex_destroy(&s->mu);
	free(s->data);
	free(s);
}

/* ---- fetching ---- */

static bool is_dot(const struct nfs_dirent *e)
{
	return e->name[0] == '.' && (e->namelen == 1 || (e->namelen == 2 && e->name[1] == '.'));
}

/* Writes "/NAME" before *at, and returns the directory that has the name, with a reference. NULL:
 * none is known, or it does not fit. */
static struct inode *go_up(struct fs *fs, struct inode *ino, const char *begin, char **at)
{
	struct names_of names;
	size_t len;

	inode_names(&fs->inodes, ino, &names);
	for (unsigned i = 1; i < names.n; i++)
		inode_put(&fs->inodes, names.dir[i], 1);
	if (!names.n)
		return NULL;
	len = strlen(names.name[0]);
	if (len + 1 > (size_t)(*at - begin)) {
		inode_put(&fs->inodes, names.dir[0], 1);
		return NULL;
	}
	*at -= len + 1;
	**at = '/';
	memcpy(*at + 1, names.name[0], len);
	return names.dir[0];
}

void fs_path(struct fs *fs, struct inode *ino, char *out, size_t cap)
{
	char path[4 * (NFS_NAME_MAX + 1)] = "", *at = path + sizeof(path) - 1;
	struct inode *dir;

	inode_ref(ino);
	while (ino != fs->root && (dir = go_up(fs, ino, path, &at))) {
		inode_put(&fs->inodes, ino, 1);
		ino = dir;
	}
	snprintf(out, cap, "%s%s%s", fs->cfg.mountpoint, ino == fs->root ? "" : "/...", at);
	inode_put(&fs->inodes, ino, 1);
}

/* FUSE would take names of up to 1024 bytes. But programs rely on Linux's NAME_MAX, and many have
 * a buffer of that size for what readdir() returns. */
static void say_too_long(struct fs_req *r, uint32_t len)
{
	struct stream *s = r->extra;
	char path[1200];

	if (atomic_exchange(&r->fl->fs->long_name_said, true))
		return;
	fs_path(r->fl->fs, s->ino, path, sizeof(path));
	log_warn("a name in '%s' has %" PRIu32 " bytes, more than the 255 of this system: it is left out of "
		 "listings, and the directory cannot be removed (rm -r says that it is not empty). "
		 "Rename it on the server. There may be more such names", path, len);
}

static bool keep_entry(struct nfs_call *c, const struct nfs_dirent *e)
{
	struct fs_req *r = container_of(c, struct fs_req, call);
	struct stream *s = r->extra;
	size_t size = (sizeof(struct dent) + e->namelen + 7) & ~(size_t)7;
	struct dent *d;

	if (!cookies_entry(&s->seq, e->cookie, e->name, e->namelen)) {
		r->saved = -ELOOP;
		return false;
	}
	if (e->namelen > NFS_NAME_MAX)
		say_too_long(r, e->namelen);
	if (is_dot(e) || e->namelen > NFS_NAME_MAX)
		return true;
	/* From there on everything would come again. */
	if (!e->cookie) {
		r->saved = -ELOOP;
		return false;
	}
	if (s->len + size > s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 65536;
		char *data = realloc(s->data, cap);

		if (!data) {
			r->saved = -ENOMEM;
			return false;
		}
		s->data = data;
		s->cap = cap;
	}
	d = (struct dent *)(void *)(s->data + s->len);
	d->cookie = e->cookie;
	d->fileid = e->fileid;
	d->size = (uint32_t)size;
	d->namelen = (uint16_t)e->namelen;
	d->has_attr = e->attr != NULL;
	d->has_fh = e->fh != NULL;
	if (e->attr)
		d->attr = *e->attr;
	if (e->fh)
		d->fh = *e->fh;
	memcpy(d->name, e->name, e->namelen);
	s->len += size;
	return true;
}

static void fetch_done(struct fs_req *r);

/* Asks for the entries after the cookie. The entries that are kept then come after
 * s->first. That may be an earlier cookie, if nothing between the two is kept. */
static void ask(struct fs_req *r, uint64_t cookie)
{
	struct stream *s = r->extra;

	if (cookie == 0)
		s->verf = 0;
	cookies_ask(&s->seq, cookie);
	s->len = s->pos = 0;
	s->any = false;
	s->asked_ns = mono_ns();
	r->call.args.dir.cookie = cookie;
	r->call.args.dir.verf = s->verf;
	r->call.args.dir.count = r->fl->fs->cl->dtsize;
	r->call.args.dir.plus = r->fl->fs->cfg.rdirplus && !atomic_load(&r->fl->fs->cl->no_plus);
	r->call.args.dir.entry = keep_entry;
	r->saved = 0;
	fs_req_start(r, NFS_OP_READDIR, fetch_done);
}

static void fetch(struct fs_req *r, uint64_t cookie)
{
	struct stream *s = r->extra;

	s->first = s->pos_off = cookie;
	ask(r, cookie);
}

/* ---- filling ---- */

static double age(const struct stream *s)
{
	return (double)(mono_ns() - s->fetched_ns) / 1e9;
}

static double left(double timeo, double old)
{
	return timeo > old ? timeo - old : 0;
}

/* Adds one entry. false: there is no room for it. e is for READDIRPLUS, st for READDIR. */
static bool add(struct filler *f, const char *name, const struct fuse_entry_param *e,
		const struct stat *st, uint64_t off)
{
	fuse_req_t req = f->r->req;
	size_t n, room = f->cap - f->len;

	if (f->plus)
		n = fuse_add_direntry_plus(req, f->buf + f->len, room, name, e, (off_t)off);
	else
		n = fuse_add_direntry(req, f->buf + f->len, room, name, st, (off_t)off);
	if (n > room)
		return false;
	f->len += n;
	return true;
}

static bool add_dot(struct filler *f, const char *name, uint64_t off)
{
	struct fuse_entry_param e = { 0 };

	e.attr.st_mode = S_IFDIR;
	e.attr.st_ino = 1;      /* nobody can use the number: getcwd() asks the parent */
	return add(f, name, &e, &e.attr, off);
}

static bool add_entry(struct filler *f, struct stream *s, const struct dent *d)
{
	struct fs *fs = f->r->fl->fs;
	struct fuse_entry_param e = { 0 };
	char name[NFS_NAME_MAX + 1];
	struct inode *ino = NULL;
	bool ok;

	memcpy(name, d->name, d->namelen);
	name[d->namelen] = '\0';
	e.attr.st_ino = d->fileid;
	if (d->has_attr)
		fs_stat(fs, &e.attr, &d->attr);
	if (f->plus && fuse_add_direntry_plus(f->r->req, NULL, 0, name, NULL, 0) > f->cap - f->len)
		return false;
	if (f->plus && d->has_attr && d->has_fh &&
	    atomic_load(&s->ino->entries_ns) < s->asked_ns)
		ino = inode_get_listed(&fs->inodes, &d->fh, &d->attr, s->ino->id, name,
				       d->namelen, s->asked_ns);
	if (ino) {
		double old = age(s);

		fs_entry_node(fs, &e, ino);
		fs_stat_of(fs, ino, &e.attr, &d->attr);
		e.attr_timeout = left(inode_timeo(&fs->inodes, ino), old);
		e.entry_timeout = left(fs_entry_timeo(fs, s->ino), old);
	}
	/* readdir() of the C library skips entries with the number 0, and a server that cannot
	 * read an entry's attributes sends no number. */
	if (!e.attr.st_ino)
		e.attr.st_ino = NO_FILEID;
	ok = add(f, name, &e, &e.attr, d->cookie);
	if (ino && ok)
		f->given[f->ngiven++] = ino;
	else if (ino)
		inode_forget(&fs->inodes, ino, 1);
	return ok;
}

/* Sets pos to the entry after the one with that cookie. false: that one is not kept. */
static bool seek_to(struct stream *s, uint64_t off)
{
	if (!s->any)
		return false;
	if (s->pos_off == off)
		return true;
	if (s->first == off) {
		s->pos = 0;
		s->pos_off = off;
		return true;
	}
	for (size_t at = 0; at < s->len; ) {
		const struct dent *d = (const struct dent *)(void *)(s->data + at);

		at += d->size;
		if (d->cookie == off) {
			s->pos = at;
			s->pos_off = off;
			return true;
		}
	}
	return false;
}

static void serve(struct filler *f, struct stream *s)
{
	while (s->pos < s->len) {
		const struct dent *d = (const struct dent *)(void *)(s->data + s->pos);

		if (!add_entry(f, s, d))
			return;
		s->pos += d->size;
		s->pos_off = d->cookie;
	}
}

static void finish(struct fs_req *r, struct filler *f)
{
	struct fs *fs = r->fl->fs;
	struct stream *s = r->extra;

	pthread_mutex_lock(&s->mu);
	s->busy = false;
	pthread_mutex_unlock(&s->mu);
	if (f && fuse_reply_buf(r->req, f->buf, f->len))
		for (unsigned i = 0; i < f->ngiven; i++)        /* the answer did not arrive */
			inode_forget(&fs->inodes, f->given[i], 1);
	if (f)
		r->req = NULL;
	r->extra = NULL;
	stream_put(fs, s);
	fs_done_status(r);
}

/* Answers from offset r->filled on, with the kept entries; or fetches others. */
static void go_on(struct fs_req *r)
{
	struct stream *s = r->extra;
	uint64_t off = r->filled;
	bool behind_entry = off && s->any && s->pos_off == off;
	static _Thread_local char buf[REPLY_MAX];
	struct filler f = {
		.r = r, .plus = r->step, .buf = buf,
		.cap = r->size < REPLY_MAX ? r->size : REPLY_MAX,
	};

	if (!r->req) {                  /* interrupted meanwhile */
		finish(r, NULL);
		return;
	}
	r->call.res.status = 0;
	if (off == 0 && add_dot(&f, ".", 1))
		off = 1;
	if (off == 1 && !behind_entry && add_dot(&f, "..", 2))
		off = 2;
	if (off < 2 && !behind_entry) {
		finish(r, &f);
		return;
	}
	if (off == 2 && !behind_entry)
		off = 0;                /* the server's beginning */
	if (!seek_to(s, off)) {
		fetch(r, off);
		return;
	}
	serve(&f, s);
	if (f.len == 0 && s->pos == s->len && !s->eof) {
		fetch(r, s->seq.last);  /* all kept entries were returned before */
		return;
	}
	finish(r, &f);
}

/* An endless listing is worse than an error. */
static int no_end(void)
{
	log_warn("the server lists the same entries of a directory again and again (ELOOP); "
		 "giving up that listing. The server's directory cache may be at fault");
	return -EIO;
}

/*
 * Is the reply useless, so that the request is to be sent again?
 *
 * ENOENT is not an error of READDIR (RFC 8881, section 15.2; RFC 1813, section 3.3.16).
 * nfs-ganesha sends it when an entry is removed after ganesha has read the name and before
 * it looks the name up. Programs must not get it: glibc's readdir() takes it for the end of
 * the directory.
 *
 * A reply with no entry that is not the end is useless, too.
 */
static bool no_answer(const struct fs_req *r, int rc)
{
	return rc == -ENOENT || (!rc && !r->call.res.dir.entries && !r->call.res.dir.eof);
}

static int never_an_answer(int rc)
{
	log_warn("the server does not list a directory: it was asked %u times, and %s; giving "
		 "up that listing", TRIES_MAX, rc ? "says that there is no such file (ENOENT)" :
		 "sends neither an entry nor the end");
	return -EIO;
}

/* The result of the reply: 0 or -errno. */
static int reply_status(const struct fs_req *r, const struct stream *s)
{
	int rc = r->call.res.status ? r->call.res.status : r->saved;

	if (!rc && !r->call.res.dir.eof && r->call.res.dir.entries && !cookies_advance(&s->seq))
		rc = -ELOOP;
	return rc;
}

static void fetch_done(struct fs_req *r)
{
	struct stream *s = r->extra;
	int rc = reply_status(r, s);

	/* The server does not know the cookie any more. One more try without the verifier may
	 * show an entry twice, but an error would show none. */
	if (rc == -NFS_ECOOKIE && !s->restarted && r->call.args.dir.cookie) {
		s->restarted = true;
		s->verf = 0;
		log_debug("the server has forgotten a directory cookie; asking once more");
		ask(r, r->call.args.dir.cookie);
		return;
	}
	if (no_answer(r, rc)) {
		if (r->req && ++r->tries < TRIES_MAX) {
			ask(r, r->call.args.dir.cookie);
			return;
		}
		rc = r->req ? never_an_answer(rc) : -EINTR;
	}
	if (rc) {
		r->call.res.status = rc == -NFS_ECOOKIE ? -EIO : rc == -ELOOP ? no_end() : rc;
		s->len = 0;
		s->any = false;
		finish(r, NULL);
		return;
	}
	s->restarted = false;
	s->verf = r->call.res.dir.verf;
	s->eof = r->call.res.dir.eof;
	s->any = true;
	s->fetched_ns = mono_ns();
	/* The reply had only entries that are not kept, and is not the end: go on. */
	if (s->len == 0 && !s->eof && r->req)
		ask(r, s->seq.last);
	else
		go_on(r);
}

/* ---- handlers ---- */

/* No other process has that pid while it has the directory open. 0 is any process of another pid
 * name space. */
static bool is_syncs(struct fs *fs, pid_t pid)
{
	return pid && pid == atomic_load(&fs->syncs);
}

void fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct fs_req *r = fs_req_new(req, ino);
	struct stream *s;

	if (!r)
		return;
	s = calloc(1, sizeof(*s));
	if (s) {
		pthread_mutex_init(&s->mu, NULL);
		s->refs = 1;
		s->ino = r->ino;
		inode_ref(s->ino);
		s->syncs = is_syncs(fs, fuse_req_ctx(req)->pid);
		fi->fh = s->handle = handle_new(&fs->dirs, s);
	}
	if (!s || !s->handle)
		fs_reply_err(r, ENOMEM);
	if (s && (!s->handle || fuse_reply_open(req, fi)))
		stream_put(fs, s);
	r->req = NULL;
	fs_req_free(r);
}

void fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct stream *s = handle_del(&fs->dirs, fi->fh);

	(void)ino;
	if (s && s->syncs)
		atomic_store(&fs->synced, true);
	if (s)
		stream_put(fs, s);
	fuse_reply_err(req, s ? 0 : EBADF);
}

void fs_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	(void)fi;
	fuse_reply_err(req, 0);         /* a server replies when the change is stable */
}

static void read_dir(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi, bool plus)
{
	struct fs *fs = fs_of(req);
	struct stream *s = handle_get(&fs->dirs, fi->fh, stream_ref);
	struct fs_req *r;
	bool busy;

	if (!s) {
		fuse_reply_err(req, EBADF);
		return;
	}
	r = fs_req_on(req, s->ino);
	if (!r) {
		stream_put(fs, s);
		return;
	}
	pthread_mutex_lock(&s->mu);
	busy = s->busy;
	s->busy = true;
	pthread_mutex_unlock(&s->mu);
	if (busy) {                     /* an interrupted request still runs */
		stream_put(fs, s);
		fs_reply_err(r, EINTR);
		fs_req_free(r);
		return;
	}
	r->extra = s;
	r->size = size;
	r->filled = (size_t)off;
	r->step = plus;
	if (off == 0)                   /* rewinddir() shows what is new */
		s->any = false;
	go_on(r);
}

void fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)ino;
	read_dir(req, size, off, fi, false);
}

void fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	(void)ino;
	read_dir(req, size, off, fi, true);
}
