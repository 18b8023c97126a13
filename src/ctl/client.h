/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command: finds the daemon of a mount, and asks it. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include "ctl/where.h"

#define CTL_REPLY_MAX (1u << 20)

/* How long to wait: longer than any command takes. A variable for the tests. */
extern unsigned ctl_answer_s;

struct ctl_peer {
	struct ctl_mount mount;
	char *mountpoint;       /* absolute */
};

/* Finds the mount. Touches neither it nor the daemon. CTL_OK, CTL_REFUSED or CTL_GONE with eb
 * set; ctl_peer_free() in any case. */
int ctl_peer_find(struct ctl_peer *p, const char *mountpoint, struct errbuf *eb);
void ctl_peer_free(struct ctl_peer *p);
/* Connects, and asks nothing. CTL_OK: something takes connections there. CTL_GONE with eb set. */
int ctl_peer_there(const struct ctl_peer *p, struct errbuf *eb);
/* Who has made the socket: not the daemon, but a process of its. 0: there is none, or nobody takes connections. */
pid_t ctl_peer_pid(const struct ctl_peer *p);
/*
 * Sends the request and waits for the reply. Nothing is sent to a peer that is neither the
 * mount's owner nor root, and nothing is taken from the daemon of another mount. CTL_OK: *reply
 * is the caller's. CTL_REFUSED: eb has the daemon's error, and *reply may be there, too.
 * CTL_GONE.
 */
int ctl_ask(const struct ctl_peer *p, struct json_object *request, struct json_object **reply,
	    struct errbuf *eb);
/* The same with a request that has no member but "command", and one more text unless `member` is NULL. reply may be
 * NULL. */
int ctl_ask_command(const struct ctl_peer *p, const char *command, const char *member, const char *value,
		    struct json_object **reply, struct errbuf *eb);

/* The reply to a command that has many lines. */
#define CTL_LINES_ROOM 65536u           /* more than any line */
struct ctl_lines {
	const struct ctl_peer *peer;
	int fd;                         /* -1: closed */
	bool known;                     /* the first line was there: it is the mount's daemon */
	struct json_tokener *tokener;
	char *text;                     /* what has come of the next line */
	size_t len;
};
/* Sends the request, as ctl_ask(). CTL_OK, and ctl_lines_close() has to follow; or a status with eb set. */
int ctl_lines_open(struct ctl_lines *l, const struct ctl_peer *p, struct json_object *request, struct errbuf *eb);
/*
 * line(object, to) for each line that comes behind the first one, for so many milliseconds; negative: until the
 * daemon ends. CTL_OK: the time is over. CTL_REFUSED: the first line was an error, which eb has. CTL_GONE.
 */
int ctl_lines_take(struct ctl_lines *l, int ms, void (*line)(struct json_object *o, void *to), void *to,
		   struct errbuf *eb);
/* It may be closed. */
void ctl_lines_close(struct ctl_lines *l);

/*
 * Ends the mount, and waits until it is there no more: its daemon is asked, and if that does not answer
 * soon, refuses, or has ended, the mount is taken away from it. *reply: the daemon's, or NULL. CTL_OK, or as
 * above with eb set.
 */
int ctl_abort(const struct ctl_peer *p, struct json_object *request, struct json_object **reply,
	      struct errbuf *eb);
