# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the project promises about chunks, copies and memory, by its counters.
mount_up
n=32
dd if=/dev/zero of="$WORK/f" bs=1M count=$n oflag=direct status=none || fail write
equal "$(stat_now write.requests)" $n "WRITEs of 1 MiB"
equal "$(stat_last rdma.read_chunks)" $n "Read chunks: one for each"
equal "$(stat_last write.chunk_bytes)" $(( n << 20 )) "bytes that the server pulled"
equal "$(stat_last write.copied_bytes)" 0 write.copied_bytes
before=$(stat_last rdma.write_chunks)
dd if="$WORK/f" of=/dev/null bs=1M iflag=direct status=none || fail read
at_most "$(stat_now read.requests)" $(( n + 1 )) "READs of 1 MiB"
at_most $(( $(stat_last rdma.write_chunks) - before )) $(( n + 1 )) "Write chunks: one for each"
equal "$(stat_last read.placed_bytes)" $(( n << 20 )) "bytes that the server placed"
equal "$(stat_last read.copied_bytes)" 0 read.copied_bytes
# No copy either where offsets and sizes are odd.
dd if="$WORK/f" of=/dev/null bs=77777 iflag=direct status=none || fail "odd reads"
dd if=/dev/zero of="$WORK/g" bs=77777 count=100 oflag=direct status=none || fail "odd writes"
equal "$(stat_now read.copied_bytes)" 0 "read.copied_bytes, odd sizes"
equal "$(stat_last write.copied_bytes)" 0 "write.copied_bytes, odd sizes"
equal "$(stat_last rpc.bad_replies)" 0 rpc.bad_replies
equal "$(stat_last rdma.errors)" 0 rdma.errors
equal "$(stat_last conn.downs)" 0 conn.downs
# Memory over many lookups and forgets. The kernel forgets when its caches are
# dropped.
# shellcheck disable=SC2016 # the server's
vm-server bash -c 'mkdir "$NFSRDMA_EXPORT/counters/d" && touch "$NFSRDMA_EXPORT/counters/d"/{0001..2000}'
rss() { awk '/VmRSS/ { print $2 }' /proc/$DAEMON/status; }
round() { ls -l "$WORK/d" >/dev/null; vm-root bash -c 'echo 2 >/proc/sys/vm/drop_caches'; }
for i in {1..5}; do round; done
start=$(rss)
for i in {1..20}; do round; done
at_most $(( $(rss) - start )) 1024 "KiB that the daemon grew by over 40,000 lookups and forgets"
mount_down
