/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of a mount waits for what is held, as long as the server is there. The server counts as
 * gone when no lane has had a connection for some seconds, or when nothing has come from it for
 * timeo and a minute; or when the mount has no more time (vfs.end_by_ns). Not a lane's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRAIN_STEP_MS 20u

struct vfs;

/* What the end knows of the server. */
struct drain {
	size_t left;                    /* bytes that are held */
	uint64_t begin_ns;
	uint64_t heard_ns;              /* its newest reply, or when `left` last became less */
	uint64_t up_ns;                 /* there was a connection */
	bool said;
};

struct drain drain_begins(const struct vfs *vfs);
void drain_look(struct drain *d, const struct vfs *vfs);
/* Has the server gone, or is it silent for too long? */
bool drain_is_silent(const struct drain *d, const struct vfs *vfs);
