# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The daemon's memory over 1,000,000 lookups and forgets. The kernel forgets when
# its caches are dropped. Compared is what the daemon has while it knows all of the
# files: how much of it free() gives back to the system afterwards is chance.
# shellcheck disable=SC2016 # the server's
vm-server bash -c 'mkdir "$NFSRDMA_EXPORT/lookups/d" && cd "$NFSRDMA_EXPORT/lookups/d" && seq 10000 | xargs touch' || fail "files"
mount_up
rss() { awk '/VmRSS/ { print $2 }' /proc/$DAEMON/status; }
# round - sets RSS.
round() {
	find "$WORK/d" -size +1 >/dev/null || fail find
	RSS=$(rss)
	vm-root bash -c 'echo 2 >/proc/sys/vm/drop_caches'
}
for i in {1..5}; do round; done
start=$RSS
forgotten=$(stat_now fuse.forgets)
for i in {1..100}; do round; done
at_most $(( RSS - start )) 1024 "KiB that the daemon grew by over 1,000,000 lookups and forgets"
at_least $(( $(stat_now fuse.forgets) - forgotten )) 900000 "forgets"
mount_down
