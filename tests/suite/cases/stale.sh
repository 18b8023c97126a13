# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Asynchronous direct writes beside buffered readers: no page stays old.
stale=${BIN%/src/*}/tests/vm-clients/stale
[[ -x $stale ]] || skip "no $stale"
mount_up
equal "$("$stale" "$WORK/mixed" 250)" "0 of 64 blocks stayed old" "direct writes beside buffered readers"
cmp "$WORK/mixed" <(dd if="$WORK/mixed" bs=1M iflag=direct status=none) || fail "both ways to read it"
# The server's time, but for what its clock cannot tell apart.
equal "$(stat -c %Y "$WORK/mixed")" "$(stat -c %Y "$SERVER_WORK/mixed")" "mtime"
touch -d '2001-02-03 04:05:06.789' "$WORK/mixed"
equal "$(stat -c %y "$WORK/mixed")" "$(stat -c %y "$SERVER_WORK/mixed")" "mtime that was set"
mount_down
