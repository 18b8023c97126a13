/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a mount tells of itself, and what the command ctl changes of it (ctl/ctl.h). */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include "main_impl.h"
#include "nfs/paths.h"
#include "setup.h"
#include "statfile.h"
#include "unmounter.h"

/* ---- statistics ---- */

/* After the counters come values of this moment. heap_bytes are the bytes in use; the
 * allocator may keep more of the system's memory. */
static void put_stats(const struct stats_out *out, const void *arg)
{
	const struct mount *m = arg;
	const struct stats *all[NFS_LANES_MAX + 1];
	struct mallinfo2 heap = mallinfo2();

	for (unsigned i = 0; i < m->client->nlanes; i++)
		all[i] = &m->client->lanes[i].stats;
	all[m->client->nlanes] = &m->client->arena.more.stats;
	stats_put_all(out, all, m->client->nlanes + 1);
	nfs_put_calls(out, m->client);
	ctl_put_paths(out, m->client);
	stats_put(out, fs_inode_count(m->fs), "now.inodes");
	stats_put(out, fs_held_bytes(m->fs), "now.held_bytes");
	stats_put(out, heap.uordblks + heap.hblkhd, "now.heap_bytes");
}

static void print_line(void *to, const char *name, uint64_t value)
{
	fprintf(to, "%s %" PRIu64 "\n", name, value);
}

static void print_stats(FILE *f, const void *arg)
{
	put_stats(&(struct stats_out){ print_line, f }, arg);
}

void mount_write_stats(void *mount)
{
	const struct mount *m = mount;

	if (m->opt.stats)
		statfile_write(m->opt.stats, print_stats, m);
}

/* ---- control ---- */

struct program_look {
	void (*look)(const struct ctl_program *p, void *to);
	void *to;
};

static void on_program(const struct rings_now *now, void *arg)
{
	const struct program_look *l = arg;
	const struct ctl_program p = {
		.pid = now->pid, .uid = now->uid, .rings = now->rings, .files = now->files, .memory_bytes = now->bytes,
		.reads = now->reads, .read_bytes = now->read_bytes, .writes = now->writes,
		.written_bytes = now->written_bytes,
	};

	l->look(&p, l->to);
}

static int on_remount(const char *list, void *mount, struct errbuf *eb)
{
	struct mount *m = mount;
	struct options to;
	struct nfs_config cfg;
	struct vfs_config vfs;
	int rc;

	/* The command policy may have changed it since. */
	m->now.policy = nfs_paths_policy(m->client);
	rc = options_remount(&m->now, list, &to, NULL, eb);
	if (rc)
		return rc;
	if (to.writebehind && to.writebehind != m->opt.writebehind)
		return err_set(eb, -EINVAL, "option writebehind can only be switched off (0) while the mount is there, and on "
			       "again with the value that it was mounted with (%u)", m->opt.writebehind);
	vfs = setup_vfs(&to);
	cfg = setup_times(&to);
	fs_change(m->fs, &vfs);
	nfs_client_change(m->client, &cfg);
	if (to.policy != m->now.policy)
		nfs_paths_set_policy(m->client, to.policy);
	m->now = to;
	return 0;
}

static void on_abort(void *mount)
{
	fs_abort(((struct mount *)mount)->fs);
}

static void each_program(void (*look)(const struct ctl_program *p, void *to), void *to, const void *arg)
{
	const struct mount *m = arg;

	fs_each_program(m->fs, on_program, &(struct program_look){ look, to });
}

static void each_op(void (*look)(const struct times_op *op, void *to), void *to, const void *arg)
{
	const struct mount *m = arg;

	fs_each_op(m->fs, look, to);
}

static int log_begin(void *mount)
{
	return fs_log_begin(((struct mount *)mount)->fs);
}

static void log_end(void *mount)
{
	fs_log_end(((struct mount *)mount)->fs);
}

static bool log_next(struct oprec *out, void *mount)
{
	return fs_log_next(((struct mount *)mount)->fs, out);
}

static uint64_t log_lost(void *mount)
{
	return fs_log_lost(((struct mount *)mount)->fs);
}

static struct nfs_chosen chosen(const void *arg)
{
	const struct mount *m = arg;

	return setup_chosen(m->client, &m->now);
}

void mount_say_chosen(const struct mount *m)
{
	struct nfs_chosen c = setup_chosen(m->client, &m->opt);
	char text[NFS_CHOSEN_TEXT];

	log_info("'%s' is mounted on '%s': %s", m->opt.source, m->opt.mountpoint, nfs_chosen_text(&c, text));
}

void mount_prepare_control(struct mount *m)
{
	const struct ctl_config cfg = {
		.client = m->client,
		.mountpoint = m->opt.mountpoint,
		.source = m->opt.source,
		.make_path = nfs_plan_path,
		.chosen = chosen,
		.each_program = each_program,
		.each_op = each_op,
		.log_begin = log_begin,
		.log_end = log_end,
		.log_next = log_next,
		.log_lost = log_lost,
		.remount = on_remount,
		.abort = on_abort,
		.put_stats = put_stats,
		.arg = m,
		.make_socket = unmounter_control,
		.remove_socket = unmounter_control_end,
	};
	struct errbuf eb;

	m->now = m->opt;
	if (ctl_new(&cfg, &m->ctl, &eb))
		log_warn("this mount cannot be controlled: %s", eb.text);
}

void mount_start_control(struct mount *m)
{
	struct errbuf eb;

	if (m->ctl && ctl_listen(m->ctl, &eb))
		log_warn("the mount on '%s' cannot be controlled: %s", m->opt.mountpoint, eb.text);
}
