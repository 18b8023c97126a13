# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the daemon knows, and has allocated, after 100,000 lookups and forgets: as
# much as before, by its own count. (The size of the process says what the allocator
# keeps of the system's memory, and changes with its mood.) The kernel forgets when
# the mount is "remounted", which changes nothing else; dropping caches would be
# everybody's on this kernel.

# No chunks that each thread keeps for itself, which count as allocated.
export GLIBC_TUNABLES=glibc.malloc.tcache_count=0
files=10000 rounds=10
# shellcheck disable=SC2016 # the server's
vm-server bash -c 'mkdir "$NFSRDMA_EXPORT/lookups/d" && cd "$NFSRDMA_EXPORT/lookups/d" && seq "$1" | xargs touch' - $files || fail "files"
mount_up

# forget - has the kernel forget all that nobody uses; then the root is left.
forget() {
	local i known
	kernel_forgets
	for (( i = 0; i < 300; i++ )); do
		known=$(stat_now now.inodes)
		(( known > 1 )) || return 0
		sleep 0.1
	done
	fail "$known files and directories are known after the kernel has forgotten them all"
}

round() {
	find "$WORK/d" -size +1 >/dev/null || fail find
	at_least "$(stat_now now.inodes)" $files "files that are known after a find"
	forget
}

# What is allocated once: also the memory of as many requests as there ever are at a time, 4 KiB each, which stays.
for (( i = 0; i < 16; i++ )); do find "$WORK/d" -size +1 >/dev/null & finds[i]=$!; done
wait "${finds[@]}" || fail "16 finds at a time"
round; round
# Asked once more: what said that nothing is known had counted the forgets before it looked.
forgotten=$(stat_now fuse.forgets) heap=$(stat_last now.heap_bytes)
for (( i = 0; i < rounds; i++ )); do round; done
at_least $(( $(stat_now fuse.forgets) - forgotten )) $(( files * rounds )) "forgets"
# A file has some 300 bytes, so that one of 1,000 that stayed would be four times this.
grown=$(( $(stat_last now.heap_bytes) - heap ))
echo "$grown bytes more than before $(( files * rounds )) lookups"
at_most $grown 8192 "bytes more than before $(( files * rounds )) lookups"
mount_down
