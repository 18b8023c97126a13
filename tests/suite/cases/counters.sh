# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the project promises about chunks and copies, by its counters.
# Attributes that last: what was read ahead is not outdated by a machine that is busy.
mount_up acregmin=600,acregmax=600
# Planted under the name that the file gets before it is complete.
echo victim >"$TMPDIR/victim" && ln -s "$TMPDIR/victim" "$STATS.new"
n=32
dd if=/dev/zero of="$WORK/f" bs=1M count=$n oflag=direct status=none || fail write
equal "$(stat_now write.requests)" $n "WRITEs of 1 MiB"
equal "$(<"$TMPDIR/victim")" victim "a file that was linked to"
[[ -f $STATS && ! -L $STATS ]] || fail "$STATS is not a file"
equal "$(stat_last rdma.read_chunks)" $n "Read chunks: one for each"
equal "$(stat_last write.chunk_bytes)" $(( n << 20 )) "bytes that the server pulled"
equal "$(stat_last write.copied_bytes)" 0 write.copied_bytes
before=$(stat_last rdma.write_chunks)
dd if="$WORK/f" of=/dev/null bs=1M iflag=direct status=none || fail read
at_most "$(stat_now read.requests)" $(( n + 1 )) "READs of 1 MiB"
at_most $(( $(stat_last rdma.write_chunks) - before )) $(( n + 1 )) "Write chunks: one for each"
equal "$(stat_last read.placed_bytes)" $(( n << 20 )) "bytes that the server placed"
equal "$(stat_last read.copied_bytes)" 0 read.copied_bytes
# Read ahead of the kernel, which asks for less at a time: no copy, and hardly a byte twice.
before=$(stat_last read.placed_bytes)
dd if="$WORK/f" of=/dev/null bs=1M status=none || fail "read through the page cache"
(( $(stat_now ahead.hits) > 0 )) || fail "nothing was read ahead"
at_most $(( $(stat_last read.placed_bytes) + $(stat_last read.inline_bytes) - before )) $(( (n + 4) << 20 )) "bytes read"
equal "$(stat_last read.copied_bytes)" 0 "read.copied_bytes, read ahead"
# No copy either where offsets and sizes are odd.
dd if="$WORK/f" of=/dev/null bs=77777 iflag=direct status=none || fail "odd reads"
dd if=/dev/zero of="$WORK/g" bs=77777 count=100 oflag=direct status=none || fail "odd writes"
equal "$(stat_now read.copied_bytes)" 0 "read.copied_bytes, odd sizes"
# What a change costs: the call that makes it, and nothing that asks for what its reply has
# said. What nfs-ganesha says of a directory's change is not atomic with version 4.
before=$(stat_last rpc.calls)
# shellcheck disable=SC2016 # perl's
perl -e 'chdir $ARGV[0] or die; mkdir "a" or die; for (1 .. 20) { rename "a", "b" or die; rename "b", "a" or die; rmdir "a" or die; mkdir "a" or die }' "$WORK" || fail "changes"
at_most $(( $(stat_now rpc.calls) - before )) "$([[ $VERS != 3 && $NFSRDMA_KERNEL == ganesha ]] && echo 200 || echo 100)" "calls for 81 changes of names"
equal "$(stat_last write.copied_bytes)" 0 "write.copied_bytes, odd sizes"
equal "$(stat_last rpc.bad_replies)" 0 rpc.bad_replies
equal "$(stat_last rdma.errors)" 0 rdma.errors
equal "$(stat_last conn.downs)" 0 conn.downs
mount_down
