/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's side of the control socket, for tests that play its clients. The paths are played as
 * well (fake_paths.h): what is linked with this has nothing of src/nfs/paths*.c.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ctl/ctl.h"
#include "fake_paths.h"

extern struct ctl_play {
	char dir[32];                   /* all files are here, closed to strangers */
	char sockets[64], socket[72];   /* the daemon's directory in it, and the socket */
	struct ctl *ctl;                /* the daemon; ctl_play_end() frees it. NULL: there is none */
	unsigned stat_lines;            /* so many lines of statistics more */
	_Atomic unsigned aborts;        /* how often a client has aborted the mount */
	_Atomic unsigned listens;       /* single requests are collected */
	struct oprec logged[4];         /* they are these, one after the other and again... */
	_Atomic unsigned nlogged;       /* ...so many, and... */
	_Atomic unsigned taken;         /* ...the command thread has had so many */
	_Atomic uint64_t log_lost;
	char *remounted;                /* the options of the last remount, or NULL: there was none */
	struct errbuf eb;
} ctl_play;
extern const struct ctl_config ctl_play_config;

/* A daemon with one path. */
void ctl_play_begin(void);
void ctl_play_end(void);
/* The next daemon of the same mount. */
void ctl_play_start(void);
/* What the kernel says of the mounts: their type and owner. */
void write_mountinfo(const char *type, uid_t owner);

/* ---- a client ---- */

int dial(void);
void say(int fd, const void *text, size_t len);
void say_line(int fd, const char *text);
/* All that comes until the end, which has to be one line, parsed. The caller's. Closes fd, like all
 * that listen. */
struct json_object *hear(int fd);
struct json_object *ask(const char *request);
const char *text_in(struct json_object *o, const char *member);
struct json_object *in(struct json_object *o, const char *member);
/* The reply is an error that has these words. */
void expect_error_at(int fd, const char *part);
void expect_error(const char *request, const char *part);
/* The reply has no error. Returns how many paths it has. */
size_t expect_paths_at(int fd);
size_t expect_paths(const char *request);
/* Nothing comes for a moment. */
bool is_silent(int fd);
/* How many files this process has open. */
unsigned descriptors(void);
/* Waits until it has n: the daemon closes its ends a little later than the clients notice. */
void expect_descriptors(unsigned n);
