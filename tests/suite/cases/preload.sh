# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Programs that know nothing of rings, with libnfsrdma-preload.so and without (tests/host/preload): what they
# make is the same, and with it their large reads and writes go past the kernel.
preload=${BIN%/src/*}/.libs/libnfsrdma-preload.so
[[ -e $preload ]] || skip "no $preload"
mount_up
timeout 800 "${BASH_SOURCE[0]%/*}/../../host/preload" --preload "$preload" "$WORK" >"$TMPDIR/preloaded" 2>&1 ||
	fail "with the preload: $(<"$TMPDIR/preloaded")"
sed 's/^/# /' "$TMPDIR/preloaded"
at_least "$(grep -c '^ok ' "$TMPDIR/preloaded")" 12 "kinds of programs"
at_least "$(stat_now ring.reads)" 500 "reads past the kernel"
at_least "$(stat_now ring.writes)" 500 "writes past the kernel"

# Others see what was written past.
random "$TMPDIR/data" $(( 8 << 20 ))
writes=$(stat_now ring.writes)
LD_PRELOAD=$preload dd if="$TMPDIR/data" of="$WORK/past" bs=1M oflag=dsync status=none || fail "dd"
more_writes() { (( $(stat_now ring.writes) >= writes + 8 )); }
until_true "8 writes past the kernel" more_writes
same "$TMPDIR/data" "$WORK/past"
same "$TMPDIR/data" "$SERVER_WORK/past"
# What the mount may hold does not go past.
writes=$(stat_now ring.writes)
LD_PRELOAD=$preload dd if="$TMPDIR/data" of="$WORK/held" bs=1M status=none || fail "dd"
same "$TMPDIR/data" "$WORK/held"
equal "$(stat_now ring.writes)" "$writes" "writes past the kernel, of those that the mount may hold"

# Without rings, all of it goes through the kernel.
mount_down
mount_up norings
LD_PRELOAD=$preload dd if="$TMPDIR/data" of="$WORK/kernel" bs=1M status=none || fail "dd with norings"
LD_PRELOAD=$preload cat "$WORK/kernel" >"$TMPDIR/back" || fail "cat with norings"
same "$TMPDIR/data" "$TMPDIR/back"
mount_down
