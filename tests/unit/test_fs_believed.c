/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Appending (believed.h), against a model of the kernel's and the server's sizes. The model's
 * kernel does what Linux does: it takes a version when it asks, and ignores attributes if the
 * version has changed since; it locks the file for a WRITE or a SETATTR; it appends at the
 * size that it believes. Everything takes its time: a request is executed, answered and
 * taken in at any later step. Other clients append and truncate.
 *
 * The rules: an append never overwrites what was in the file when it was opened and has not
 * been cut off since. And once an open has been answered, the kernel believes no attributes that
 * are older than those which OPEN brought, or asks before it uses them. (But for the attributes
 * that it has before it takes in the answer to a SETATTR or a WRITE: believed.h.) And a read() by an
 * open file goes on with attributes that are no older than what its OPEN brought, or than when it got
 * its last lock; unless this mount's own write()s, SETATTRs or READs at the end made the kernel ignore
 * what it has asked for. And the page that it reads is no older than its lock, in any case. (What OPEN
 * promises of pages the kernel sees to by itself.) Pages are dropped some time after the attributes have
 * changed by which that is decided. And the kernel believes no size that is smaller than what write()s of
 * this mount have made it that have ended, if nobody has truncated the file since: a mapping behind such a
 * size is SIGBUS.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "believed_play.h"
#include "fuse/fs_impl.h"

#define TASKS 6u
#define FILES 3u

static struct fs whole;
#define table whole.vfs.inodes
static struct inode *ino;
static uint64_t server, change;         /* the file there: its size, and its change attribute */
static uint64_t own_end;                /* what is left of this mount's write()s that have ended */
static struct {
	uint64_t size, version;
	uint64_t change;                /* of the attributes that it has... */
	bool valid;                     /* ...and does not ask for before it uses them */
	bool locked, unstable;
	uint64_t page;                  /* it has the file's data as of that change; 0: no page */
} kernel;

static struct open_file {
	bool open;
	struct open_end end;
	uint64_t promised;              /* what an append must not touch */
	uint64_t change;                /* OPEN brought that change attribute */
	uint64_t locked;                /* the same, when it got a lock */
	unsigned number;
	bool excused;                   /* own changes came between, see above */
} files[FILES];

static struct task {
	enum { IDLE, QUEUED, ASKED, EXECUTED, FORGETS, DROPS, ANSWERED } state;
	enum { GETATTR, SETATTR, WRITE, READ, OPEN, LOCK } what;
	struct open_file *f;
	uint64_t version;               /* at the question */
	uint64_t since;                 /* the daemon has read it */
	uint64_t size;                  /* SETATTR: what is set */
	struct nfs_attr attr;           /* what the server said */
	uint64_t offset, end;           /* WRITE, READ */
	uint64_t left;                  /* WRITE: the end of it that has not been cut off since */
	bool killed, looking;           /* OPEN: the kernel looks the name up */
	bool believed;                  /* the answer holds for some time */
	bool opened;                    /* OPEN: it is not sent back... */
	bool keeps;                     /* ...and the kernel keeps its pages */
	unsigned number;                /* LOCK, read(): of the open file */
	bool excused;                   /* LOCK: an own change came before its answer */
	bool reads;                     /* GETATTR: a read() by f goes on then... */
	uint64_t promised;              /* ...with attributes of that change or later... */
	uint64_t locked;                /* ...and a page of that one */
	uint64_t asked;                 /* the server was asked for attr */
} tasks[TASKS];
static unsigned refused, appended, sent_back, young, forgotten, reads, waited, skipped, late, dropped, cached;
static bool cutting;                    /* other clients truncate as well */
static unsigned seed, seeded;

static pid_t tid_of(const struct task *t)
{
	return (pid_t)(t - tasks) + 1;
}

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

/* ---- the server ---- */

static struct nfs_attr attr_of(uint64_t size)
{
	return (struct nfs_attr){ .mode = S_IFREG | 0644, .size = size, .change = change,
				  .mtime.tv_sec = (time_t)change };
}

static void resize(uint64_t size)
{
	server = size;
	change++;
	if (own_end > size)
		own_end = size;
	for (unsigned i = 0; i < TASKS; i++)
		if (tasks[i].left > size)
			tasks[i].left = size;
	for (unsigned i = 0; i < FILES; i++)
		if (files[i].promised > size)
			files[i].promised = size;
	for (unsigned i = 0; i < TASKS; i++)
		if (tasks[i].what == OPEN && (tasks[i].state == EXECUTED || tasks[i].state == FORGETS) && tasks[i].end > size)
			tasks[i].end = size;
}

static void grow(uint64_t size)
{
	server = size;
	change++;
}

static void execute(struct task *t)
{
	t->state = EXECUTED;
	if (t->what == SETATTR)
		resize(t->size);
	if (t->what == WRITE) {
		grow(t->end > server ? t->end : server);
		t->left = t->end;
	}
	if (t->what == READ)
		t->end = t->end < server ? t->end : server > t->offset ? server : t->offset;
	if (t->what == OPEN)
		t->end = server;        /* what is left of it at the reply */
	t->attr = attr_of(server);
}

/* ---- the daemon ---- */

static void take_in(struct task *t);
static void read_request(struct task *t);

/* BELIEVED_TAKEN_NS are over, and everybody has gone on who was told attributes. */
static void time_passes(void)
{
	for (unsigned i = 0; i < TASKS; i++)
		if (tasks[i].state == ANSWERED && (tasks[i].what == GETATTR || tasks[i].what == SETATTR))
			take_in(&tasks[i]);
	if (believed_of(ino)->first.ns)
		believed_of(ino)->first.ns = 1;
	believed_of(ino)->set.ns = 0;
	for (unsigned i = 0; readback_reads(ino) && i < READBACK_READS; i++)
		readback_reads(ino)[i].ns = 0;
}

/* What is left, see believed.h, is not tried: nothing lies in the queue. */
static void read_queue(void)
{
	for (unsigned i = 0; i < TASKS; i++)
		if (tasks[i].state == QUEUED && tasks[i].reads)
			read_request(&tasks[i]);
}

/* As forget.c does it, and dropper.c. */
static enum believed_forget forget_or_wait(bool pages)
{
	enum believed_forget how;

	if (roll(3) == 0)
		time_passes();
	read_queue();
	how = pages ? believed_lock_begins(&table, ino, true, true) : believed_forget_begins(&table, ino, true);
	waited += how == FORGET_LATER;
	skipped += how == FORGET_DONE;
	if (how == FORGET_TELL) {
		kernel.version++;
		kernel.valid = false;
	}
	return how;
}

/* The test says when it has passed, however slow it is itself. */
static void time_stands(void)
{
	struct believed *b = believed_of(ino);

	if (b->first.ns > 1)
		b->first.ns = UINT64_MAX / 2;
	for (unsigned i = 0; readback_reads(ino) && i < READBACK_READS; i++)
		if (readback_reads(ino)[i].ns)
			readback_reads(ino)[i].ns = UINT64_MAX / 2;
}

/* Is the answer to an own change on its way to the kernel? */
static bool own_comes(void)
{
	for (unsigned i = 0; i < TASKS; i++)
		if ((tasks[i].what == SETATTR || tasks[i].what == WRITE) && tasks[i].state == ANSWERED)
			return true;
	return false;
}

/* As open.c does it. */
static bool is_sent_back(const struct task *t)
{
	pid_t pid = (pid_t)(t - tasks);

	if (sentback_came(&whole.back, ino, pid, false) || !believed_appends_elsewhere(ino, &t->attr))
		return false;
	sentback_note(&whole.back, ino, pid);
	return true;
}

/* It is answered. */
static void open_ends(struct task *t)
{
	struct open_file *f = t->f;

	t->state = IDLE;
	if (!t->opened) {
		sent_back++;
		*t = (struct task){ .state = QUEUED, .what = GETATTR, .looking = true, .f = f,
				    .version = kernel.version };
		return;
	}
	f->open = true;
	if (!t->keeps)
		kernel.page = 0;
	f->promised = t->end;
	f->change = own_comes() ? 0 : t->attr.change;
	f->locked = 0;
}

static void lock_ends(struct task *t)
{
	t->state = IDLE;
	atomic_fetch_sub(&believed_of(ino)->differing, 1);
	if (t->f->open && t->f->number == t->number && !t->excused && !own_comes() && t->f->locked < t->attr.change)
		t->f->locked = t->attr.change;
}

static void forget(struct task *t)
{
	enum believed_forget how = forget_or_wait(t->what == LOCK);

	if (how == FORGET_LATER)
		return;
	if (t->what == LOCK && how == FORGET_TELL) {
		t->state = DROPS;
		return;
	}
	if (how == FORGET_TELL)
		believed_forget_ends(ino);
	if (t->what == LOCK) {
		lock_ends(t);
		return;
	}
	atomic_fetch_sub(&believed_of(ino)->differing, 1);
	if (t->what == WRITE) {
		t->state = IDLE;        /* it is refused */
		return;
	}
	forgotten += t->opened;
	open_ends(t);
}

static void answer_open(struct task *t)
{
	bool differs;

	t->state = FORGETS;
	t->opened = !is_sent_back(t);
	if (!t->opened) {
		atomic_fetch_add(&believed_of(ino)->differing, 1);
		return;
	}
	differs = believed_differs(&table, ino, &t->attr);
	t->keeps = believed_open(&table, ino, &t->f->end, &t->attr, t->since);
	readback_asked(ino, 1);
	if (differs)
		atomic_fetch_add(&believed_of(ino)->differing, 1);
	else
		open_ends(t);
}

static void answer_getattr(struct task *t)
{
	bool again = believed_is_late(ino, &t->attr, t->since, t->asked);

	late += again;
	if (again) {
		t->state = ASKED;
		t->asked = mono_ns();
		return;
	}
	believed_answer(&table, ino, &t->attr, t->since, t->asked, 1e9);
	time_stands();
	t->believed = true;
	readback_asked(ino, 1);
	believed_tells(ino, tid_of(t), t->since, false);
	if (t->reads)
		believed_read_ends(&table, ino, tid_of(t));
	time_stands();
}

static void answer(struct task *t)
{
	t->state = ANSWERED;
	switch (t->what) {
	case GETATTR:
		answer_getattr(t);
		return;
	case SETATTR:
		t->believed = believed_set(&table, ino, &t->attr, t->since, t->since) > 0;
		time_stands();
		readback_asked(ino, 1);
		return;
	case WRITE:
		readback_there(ino, t->end);
		believed_wrote(ino, t->end);
		believed_forgets(ino);
		readback_wrote(ino, t->end, 1);
		atomic_fetch_sub(&believed_of(ino)->writing, 1);
		if (t->killed) {
			believed_unheard(ino);
			kernel.locked = false;  /* given_up.c holds the file so long */
			t->state = IDLE;
		}
		return;
	case READ:
		if (t->end < t->offset + 10)
			believed_read_short(&table, ino, t->end, t->since);
		return;
	case OPEN:
		answer_open(t);
		return;
	case LOCK:
		atomic_fetch_add(&believed_of(ino)->differing, 1);
		inode_lock(&table, ino);
		inode_note_locked(&table, ino, &t->attr);
		ownchange_newer_locked(ino);
		inode_unlock(&table, ino);
		believed_locked(ino);
		t->state = FORGETS;
	}
}

/* ---- the kernel ---- */

static void start(struct task *t, int what)
{
	*t = (struct task){ .state = QUEUED, .what = what, .version = kernel.version };
}

/* What a read() that starts now has to see. */
static uint64_t newest_promise(const struct open_file *f)
{
	return f->change > f->locked ? f->change : f->locked;
}

/* What the kernel has asked for is lost. */
static void own_change(void)
{
	for (unsigned i = 0; i < TASKS; i++)
		tasks[i].excused |= tasks[i].what == LOCK && tasks[i].state == DROPS;
	for (unsigned i = 0; i < FILES; i++)
		files[i].excused |= kernel.change < newest_promise(&files[i]);
}

/* The page that there is, or it brings one. */
static void reads_page(uint64_t locked)
{
	cached += kernel.page != 0;
	if (!kernel.page) {
		believed_paged(ino);
		kernel.page = change + 1;
	}
	cr_assert_gt(kernel.page, locked, "order %u: read() by a page of change %lu, its lock was granted at %lu",
		     seeded, (unsigned long)kernel.page - 1, (unsigned long)locked);
}

/* A read() goes on with the attributes that the kernel has. */
static void reads_on(const struct open_file *f, uint64_t promised, uint64_t locked)
{
	reads_page(locked);
	if (f->excused || kernel.unstable)
		return;
	cr_assert_geq(kernel.change, promised, "order %u: read() by attributes of change %lu, promised were %lu",
		      seeded, (unsigned long)kernel.change, (unsigned long)promised);
	reads++;
}

static void start_read(struct task *t, struct open_file *f)
{
	if (!f->open)
		return;
	believed_goes_on(ino, tid_of(t));
	if (kernel.valid) {
		reads_on(f, newest_promise(f), f->locked);
		return;
	}
	start(t, GETATTR);
	t->f = f;
	t->reads = true;
	t->promised = newest_promise(f);
	t->locked = f->locked;
	t->number = f->number;
}

static void start_lock(struct task *t, struct open_file *f)
{
	if (!f->open)
		return;
	believed_goes_on(ino, tid_of(t));
	start(t, LOCK);
	t->f = f;
	t->number = f->number;
}

static void start_open(struct task *t, struct open_file *f)
{
	start(t, OPEN);
	t->f = f;
}

static void start_write(struct task *t, struct open_file *f)
{
	start(t, WRITE);
	t->offset = kernel.size;
	t->end = t->offset + 1 + roll(10);
	if (t->offset < atomic_load(&f->end.end)) {
		cr_assert(cutting || t->offset < f->promised, "refused at %lu, and %lu was promised",
			  (unsigned long)t->offset, (unsigned long)f->promised);
		refused++;
		atomic_fetch_add(&believed_of(ino)->differing, 1);
		t->state = FORGETS;
		return;
	}
	cr_assert_geq(t->offset, f->promised, "an append at %lu overwrites, %lu was promised, end is %lu",
		      (unsigned long)t->offset, (unsigned long)f->promised,
		      (unsigned long)atomic_load(&f->end.end));
	appended++;
	kernel.locked = kernel.unstable = true;
	own_change();
}

static void take_size(uint64_t size)
{
	cr_assert_geq(size, own_end, "order %u: the kernel believes size %lu, write()s have made it %lu", seeded,
		      (unsigned long)size, (unsigned long)own_end);
	kernel.size = size;
}

static void take_attr(const struct task *t)
{
	take_size(t->attr.size);
	kernel.change = t->attr.change;
	kernel.valid = t->believed;
	kernel.version++;
	for (unsigned i = 0; i < FILES; i++)
		files[i].excused = false;
	if (t->what == SETATTR)
		own_change();
}

/* The thread that has asked for the attributes has them, and has dropped the pages if it saw to that. */
static void attr_taken(struct task *t)
{
	t->state = IDLE;
	if (t->looking)
		start_open(t, t->f);
	else if (t->reads && t->f->open && t->f->number == t->number)
		reads_on(t->f, t->promised, t->locked);
}

static void drop(struct task *t)
{
	kernel.page = 0;
	dropped++;
	if (t->what == LOCK) {
		believed_lock_ends(&table, ino);
		lock_ends(t);
	} else {
		attr_taken(t);
	}
}

static void take_in(struct task *t)
{
	bool newest = t->version == kernel.version && !kernel.unstable;
	bool drops = newest && t->attr.change != kernel.change;

	t->state = IDLE;
	switch (t->what) {
	case GETATTR:
		if (newest)
			take_attr(t);
		if (drops)
			t->state = DROPS;
		else
			attr_taken(t);
		return;
	case SETATTR:
		take_attr(t);
		kernel.locked = false;
		return;
	case WRITE:
		if (own_end < t->left)
			own_end = t->left;
		if (kernel.size < t->end)
			take_size(t->end);
		kernel.version++;
		own_change();
		kernel.valid = false;
		kernel.locked = kernel.unstable = false;
		return;
	case READ:
		if (newest && t->end < t->offset + 10 && t->end < kernel.size) {
			take_size(t->end);
			kernel.version++;
			own_change();
		}
		return;
	case OPEN:
	case LOCK:
		return;
	}
}

static void kill_writer(struct task *t)
{
	if (t->what != WRITE || t->killed || t->state == QUEUED || t->state == ANSWERED)
		return;
	t->killed = true;
	kernel.unstable = false;
}

/* A read() asks for the attributes (readback.h), or lseek(). */
static bool answers_readback(struct task *t)
{
	double timeo;

	if (t->what != GETATTR || t->looking || !roll(2) ||
	    !readback_attr(&table, ino, &t->attr, &timeo, t->since, false))
		return false;
	t->believed = timeo > 0;
	time_stands();
	believed_tells(ino, tid_of(t), t->since, false);
	young++;
	return true;
}

/* The daemon reads the request. Meanwhile anything may have happened. */
static void read_request(struct task *t)
{
	t->since = t->asked = mono_ns();
	if (t->what == GETATTR)
		believed_goes_on(ino, tid_of(t));
	t->state = answers_readback(t) ? ANSWERED : ASKED;
	if (t->reads)
		believed_read_begins(ino);
	if (t->reads && t->state == ANSWERED) {
		believed_read_ends(&table, ino, tid_of(t));
		time_stands();
	}
	if (t->what == WRITE)
		atomic_fetch_add(&believed_of(ino)->writing, 1);
}

/* ---- any order ---- */

static void some_start(struct task *t)
{
	struct open_file *f = &files[roll(FILES)];

	switch (roll(8)) {
	case 6:
		start_read(t, f);
		return;
	case 7:
		start_lock(t, f);
		return;
	case 0:
		start(t, GETATTR);
		return;
	case 1:
		start(t, READ);
		t->offset = roll(100);
		t->end = t->offset + 10;
		return;
	case 2:
		if (kernel.locked)
			return;
		start(t, SETATTR);
		t->size = roll(100);
		kernel.locked = true;
		return;
	case 3:
		if (!kernel.locked && f->open)
			start_write(t, f);
		return;
	case 4:
		if (!f->open)
			return;
		believed_end_ends(&table, ino, &f->end);
		opencount_close(&table, ino);
		atomic_fetch_sub(&ino->nfiles, 1);
		*f = (struct open_file){ .number = f->number + 1 };
		return;
	default:
		/* Each file is opened by a task of its own. */
		if (t < tasks + FILES && !files[t - tasks].open)
			start_open(t, &files[t - tasks]);
	}
}

static void go_on(struct task *t)
{
	if (t->state == IDLE)
		some_start(t);
	else if (!roll(20))
		kill_writer(t);
	else if (t->state == QUEUED)
		read_request(t);
	else if (t->state == ASKED)
		execute(t);
	else if (t->state == EXECUTED)
		answer(t);
	else if (t->state == FORGETS)
		forget(t);
	else if (t->state == DROPS)
		drop(t);
	else
		take_in(t);
}

/* The second rule. */
static void look(unsigned which, unsigned step)
{
	for (unsigned i = 0; kernel.valid && i < FILES; i++)
		cr_assert(!files[i].open || kernel.change >= files[i].change,
			  "order %u, step %u: the kernel believes change %lu, an open brought %lu", which, step,
			  (unsigned long)kernel.change, (unsigned long)files[i].change);
}

static void any_order(unsigned which)
{
	struct nfs_fh fh = { .len = 4, .data = "file" };
	struct nfs_attr attr;

	seed = seeded = which;
	cutting = which % 2;
	memset(tasks, 0, sizeof(tasks));
	memset(files, 0, sizeof(files));
	memset(&kernel, 0, sizeof(kernel));
	server = change = own_end = 0;
	attr = attr_of(0);
	inode_table_init(&table, &fs_front);
	table.acregmin = 100;
	ino = inode_get(&table, &fh, &attr, 0, NULL, 0, mono_ns());
	for (unsigned step = 0; step < 700; step++) {
		if (!roll(15))
			grow(server + 1 + roll(10));    /* another client appends */
		else if (cutting && !roll(40))
			resize(roll(100));
		else
			go_on(&tasks[roll(TASKS)]);
		look(which, step);
	}
	inode_table_fini(&table);
}

Test(fs_believed, any_order, .timeout = 120)
{
	for (unsigned i = 0; i < 10000; i++)
		any_order(i);
	cr_assert(refused > 100 && appended > 10000 && sent_back > 1000 && young > 1000 && forgotten > 1000 &&
		  reads > 10000 && waited > 1000 && skipped > 1000 && late > 1000 && dropped > 10000 && cached > 5000,
		  "refused %u, appended %u, sent back %u, young %u, forgotten %u, reads %u, waited %u, skipped %u, late %u, dropped %u, cached %u",
		  refused, appended, sent_back, young, forgotten, reads, waited, skipped, late, dropped, cached);
}

/* An OPEN was sent before a LOCK was granted, and its reply comes before that one's answer. */
Test(fs_believed, an_open_beside_a_lock)
{
	struct nfs_fh fh = { .len = 4, .data = "file" };
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .change = 1 };
	uint64_t asked;

	inode_table_init(&table, &fs_front);
	ino = inode_get(&table, &fh, &attr, 0, NULL, 0, mono_ns());
	asked = mono_ns();
	believed_locked(ino);
	believed_open(&table, ino, NULL, &attr, asked);
	believed_lock_begins(&table, ino, true, false);
	cr_assert(believed_is_late(ino, &attr, asked, asked), "the OPEN's attributes are older than the LOCK");
	asked = mono_ns();
	believed_open(&table, ino, NULL, &attr, asked);
	cr_assert_not(believed_is_late(ino, &attr, asked, asked), "this one's are not");
	inode_table_fini(&table);
}
