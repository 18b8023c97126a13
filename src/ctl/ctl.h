/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Control of a mount while it runs: nfsrdma-fuse ctl MOUNTPOINT COMMAND.
 *
 *   command (ctl_client.c)                    daemon (ctl_server.c)
 *   ------------------                        -----------------
 *   mount point -> device number, owner
 *     -> DIR/MAJOR:MINOR (where.c)
 *   connects; is the peer the owner? -------> accepts; is the peer the owner?
 *   {"command":"paths"}\n ------------------> parses (proto.c), does it (commands.c)
 *   shows it (text.c, top.c) <--------------- {"mountpoint":...,"paths":[...]}\n, closes
 *
 * One line with a JSON object goes each way, the request has CTL_LINE_MAX bytes at most, and
 * what follows its line is ignored. doc/control.md lists the members.
 *
 * The command never touches the mount itself, because that may wait for a dead server.
 * Neither does the daemon, which would ask itself. Both find the device number in
 * /proc/self/mountinfo.
 *
 * Who may: root and the user who mounted. Directory (0700) and socket (0600) keep others out,
 * and both ends look at who the peer is (SO_PEERCRED).
 *
 * Threads of the daemon: one with a loop of its own serves all clients. It is started by the
 * thread that talks to the server, because a connection of a path that is added may be used
 * only with that thread's credentials (src/main.c). The socket is made later, when the kernel
 * has the mount, by the main thread or by another process for it (make_socket). The thread
 * blocks for nobody: at most CTL_CLIENTS clients are served at once, one more is told so, and
 * each has five seconds to send its line and to take the answer.
 *
 * A command that has begun goes on when its client hangs up. A path that was added stays if it
 * gets connected, and is removed again if not, whether or not anybody waits for the answer.
 * When the mount ends all clients are told, and nothing is undone.
 */
#pragma once

#include <sys/types.h>
#include "base/log.h"
#include "base/oprec.h"
#include "nfs/chosen.h"
#include "nfs/nfs.h"

/* With the newline. JSON has up to six bytes for one of the longest text (CTL_OPTIONS_MAX). */
#define CTL_LINE_MAX 1048576u
#define CTL_CLIENTS  32u
/* Of these: clients of log, which may stay for ever. */
#define CTL_STREAMS  24u

struct ctl;

/* What a program has, and has done, by its rings. */
struct ctl_program {
	pid_t pid;                      /* as this process sees it; 0: it cannot */
	uid_t uid;
	unsigned rings, files;
	uint64_t memory_bytes;          /* that it has lent */
	uint64_t reads, read_bytes, writes, written_bytes;
};

struct ctl_config {
	struct nfs_client *client;
	const char *mountpoint;         /* absolute */
	const char *source;
	/* Command thread: a path to the numeric address `server`. local is numeric, an interface,
	 * or NULL: any. port 0: the mount's. 0, or -errno with eb set; 0 with eb set: a warning. */
	int (*make_path)(struct rr_path *out, const struct nfs_config *cfg, const char *server,
			 const char *local, unsigned port, struct errbuf *eb);
	/* Any thread: what the mount has come to, complete. */
	struct nfs_chosen (*chosen)(const void *arg);
	/* Any thread: look(p, to) for each program that has rings (src/ring). NULL: there are none. */
	void (*each_program)(void (*look)(const struct ctl_program *p, void *to), void *to, const void *arg);
	/* Command thread: the mount gets what this list of options says. 0, or -errno with eb set. */
	int (*remount)(const char *options, void *arg, struct errbuf *eb);
	/* Any thread: the mount ends at once (fs_abort()). */
	void (*abort)(void *arg);
	/* Any thread: look(op, to) for each kind of request that the kernel has sent. NULL: not known. */
	void (*each_op)(void (*look)(const struct times_op *op, void *to), void *to, const void *arg);
	/* Command thread: single requests are collected from now on, and no more; the next of them; how many were
	 * lost so far (fs.h). NULL: there are none. */
	int (*log_begin)(void *arg);
	void (*log_end)(void *arg);
	bool (*log_next)(struct oprec *out, void *arg);
	uint64_t (*log_lost)(void *arg);
	/* Any thread. */
	void (*put_stats)(const struct stats_out *out, const void *arg);
	void *arg;
	/* Main thread: the socket is made, and its file removed, by a process that still may.
	 * make_socket: a descriptor, or -errno with eb set. NULL: this process does both. */
	int (*make_socket)(struct errbuf *eb);
	void (*remove_socket)(void);
};

/* The file of a socket (ctl_socket.c): of the mount's control, for its owner and root; or of its rings
 * (src/ring), for all who may use the mount: they have to know a secret from an open file. */
enum ctl_socket_kind { CTL_SOCKET_CONTROL, CTL_SOCKET_RINGS, CTL_SOCKETS };
struct ctl_socket {
	int fd;                 /* -1: none, or handed on */
	char name[108];         /* ""; or there is one, and it may have to be removed */
	dev_t dev;              /* which file it is */
	ino_t ino;
};

/* Makes the socket of what is mounted there, and listens. 0, or -errno with eb set. */
int ctl_socket_make(struct ctl_socket *s, enum ctl_socket_kind kind, const char *mountpoint, struct errbuf *eb);
/* Removes the file, if it is still this socket's, and the directory if that is empty then. */
void ctl_socket_remove(struct ctl_socket *s);
void ctl_socket_close(struct ctl_socket *s);

/*
 * Starts the command thread, with the calling thread's credentials; nobody can reach it yet.
 * What cfg points to must outlive it. 0, or -errno with eb set.
 */
int ctl_new(const struct ctl_config *cfg, struct ctl **out, struct errbuf *eb);
/*
 * The main thread, with the mount in place: makes the socket, and the command thread begins to
 * answer. 0, or -errno with eb set.
 */
int ctl_listen(struct ctl *ctl, struct errbuf *eb);
/* The main thread: removes the socket and ends the thread. ctl may be NULL. */
void ctl_free(struct ctl *ctl);

/* Any thread: "path.N.NAME", for each path in use. */
void ctl_put_paths(const struct stats_out *out, struct nfs_client *cl);

/* Exit statuses of the command. */
enum {
	CTL_OK = 0,
	CTL_REFUSED = 1,        /* by the daemon, or the user may not */
	CTL_USAGE = 2,
	CTL_GONE = 3,           /* no such mount, or no daemon that answers for it */
};

/* The command; argv[0] is "ctl". Returns the exit status. */
int ctl_main(int argc, char **argv);

/* In milliseconds; variables for the tests. How long a client may take for its line or for the
 * answer, and how long a path may take to be connected or removed. */
extern unsigned ctl_line_ms, ctl_wait_ms;
