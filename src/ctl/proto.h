/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a client may ask for: one line with a JSON object. */
#pragma once

#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/log.h"

enum ctl_command {
	CTL_PATHS, CTL_ADD, CTL_REMOVE, CTL_POLICY, CTL_RECONNECT, CTL_STATS, CTL_RINGS, CTL_INFO, CTL_ABORT, CTL_REMOUNT,
	CTL_OPS, CTL_CALLS, CTL_LOG,
	CTL_COMMANDS
};

#define CTL_WORD_MAX 80u
/* A list of options: what Linux takes as one argument of a command, as that which mounts gets it, with its NUL. */
#define CTL_OPTIONS_MAX 131072u
#define CTL_PATTERN_MAX PATH_MAX   /* a pattern for names, with its NUL */

struct ctl_request {
	struct json_object *object;     /* what it was read from */
	enum ctl_command command;
	char server[CTL_WORD_MAX];      /* "": not given, and so are the others */
	char local[CTL_WORD_MAX];       /* an address or an interface */
	char path[CTL_WORD_MAX];        /* a number, the server's address, or "all" */
	char policy[CTL_WORD_MAX];
	const char *options;            /* in `object`; a needed one is not NULL */
	unsigned port;                  /* 0: not given */
	unsigned slower;                /* microseconds, if it is given */
	bool has_slower;
	char op[CTL_WORD_MAX];          /* filters of log: an operation, ... */
	const char *name;               /* ...a pattern in `object`; NULL: not given */
	unsigned pid, uid;
	bool has_pid, has_uid;
	bool force;
};

/* Adds a member. */
void ctl_add_text(struct json_object *o, const char *name, const char *text);
void ctl_add_number(struct json_object *o, const char *name, uint64_t value);

/*
 * Reads a line of `len` bytes without its newline, which is there, or any other byte. Members that the command does not have are
 * refused, and so is everything that is not exactly one object. 0: out->object is the caller's, to be put when
 * nothing needs the request any more. -EINVAL with eb set to a text for the client: nothing is to be put.
 */
int ctl_request_parse(const char *line, size_t len, struct ctl_request *out, struct errbuf *eb);
