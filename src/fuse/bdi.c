/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How far the kernel reads ahead by itself: read_ahead_kb of the mount's "backing device". FUSE
 * begins with 128 KiB, whatever the daemon says, and asks for no more at a time. With a READ's
 * size it asks for as much as one READ brings, and has two of them under way. It is no more than
 * that, because that much is also read around each page that a mapping misses. What else is to
 * be under way the daemon reads ahead (ahead.h): measured with replies that are 20 ms late, that
 * is faster than the kernel alone with 2 MiB, and where nothing is late it costs nothing.
 *
 * Only root may change it. So the process does it that mounts for the daemon (unmounter.h).
 *
 * The kernel takes a new value as it is, but with the answer to FUSE_INIT it lowers it to what
 * it has asked for. So that answer comes first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "fuse/fs_impl.h"

int fs_bdi_set(unsigned major, unsigned minor, unsigned kib)
{
	char path[64], text[16];
	int fd, len;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major, minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = snprintf(text, sizeof(text), "%u\n", kib);
	n = write(fd, text, (size_t)len);
	len = n < 0 ? -errno : 0;
	close(fd);
	return len;
}
