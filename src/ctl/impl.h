/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's side, between ctl_server.c (clients, their lines), commands.c (what they ask
 * for) and ctl_socket.c. What is not said to be the main thread's belongs to the command
 * thread. */
#pragma once

#include <json-c/json.h>
#include <pthread.h>
#include "base/list.h"
#include "base/loop.h"
#include "ctl/ctl.h"
#include "ctl/proto.h"
#include "ctl/where.h"
#include "nfs/paths.h"

struct ctl_client {
	struct ctl *ctl;
	struct list node;               /* in ctl->clients */
	struct loop_watch watch;        /* its socket */
	struct loop_timer timer;        /* the end of its time; while `waiting`, the next look */
	uid_t uid;
	char *line;                     /* the request, as far as it has come; NULL: no byte of it */
	size_t len, room;               /* bytes that have come, and that it has room for */
	struct ctl_wait {               /* for what add-path and remove-path have begun */
		bool waiting, adds;
		unsigned id;
		uint32_t generation;
		uint64_t until_ns;
		char server[CTL_WORD_MAX];
		struct errbuf warning;  /* for the reply; empty: none */
	} wait;
	struct ctl_stream *stream;      /* it gets lines until it hangs up (stream.c); NULL: it does not */
	char *reply;                    /* with its newline, or NULL: there is none so far */
	size_t reply_len, sent;
};

struct ctl {
	struct ctl_config cfg;
	struct loop *loop;
	uint64_t since_ns;              /* when it was made, as the mount is */
	pthread_t thread;
	struct list clients;
	unsigned nclients;
	struct loop_watch listener;
	struct loop_timer pause;        /* of accepting, when there are no descriptors */
	struct loop_timer streaming;    /* the next round of lines, while there are streams */
	unsigned nstreams;
	uint64_t stream_lost;           /* what lanes had lost at the last round */
	/* The main thread's. */
	struct loop_msg hand_over;      /* `socket` is there */
	struct ctl_socket socket;
};

/* ---- ctl_server.c ---- */

/* Sends the object, which it takes over, and closes the client when that has left or its time
 * is up. The client may be gone when it returns. */
void ctl_reply(struct ctl_client *c, struct json_object *o);

/* Closes it, whatever it waits for. */
void ctl_client_free(struct ctl_client *c);

/* ---- stream.c ---- */

/* It gets lines from now on. */
void ctl_command_log(struct ctl_client *c, const struct ctl_request *q);
/* Its socket has room, or it has hung up: then it is gone. */
void ctl_stream_ready(struct ctl_client *c);
/* The client goes; it may have no stream. */
void ctl_stream_end(struct ctl_client *c);

/* ---- commands.c ---- */

/* Does what is asked, and replies, or begins to wait. */
void ctl_command(struct ctl_client *c, const struct ctl_request *q);
/* Looks at what the client waits for. */
void ctl_waiting(struct ctl_client *c);
/* An object with what each reply has. NULL: no memory. */
struct json_object *ctl_reply_new(const struct ctl *ctl);
/* Replies with an error. */
void ctl_refuse(struct ctl_client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* All counters; NULL: no memory. */
struct json_object *ctl_stats_json(const struct ctl_config *cfg);

/* ---- ops_out.c ---- */

/* Replies with what the kernel has asked for, and what the server was asked for. */
void ctl_command_ops(struct ctl_client *c, const struct ctl_request *q);

/* ---- calls_out.c ---- */

/* Replies with the calls that were kept, and keeps others from now on. */
void ctl_command_calls(struct ctl_client *c, const struct ctl_request *q);
/* Nanoseconds since 1970. */
uint64_t ctl_wall_ns(void);

/* ---- paths_out.c ---- */

/* All paths as an array of objects; only the one with this id if it is not negative. */
struct json_object *ctl_paths_json(struct nfs_client *cl, int id);
