# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Long copies, which the server goes on with behind COPY's reply (RFC 7862, section 4): one call, and one
# callback at the end.
[[ $VERS == 4.2 ]] || skip "the server copies with version 4.2 only"
# It answers when all of the 4 MiB is copied that one call may have, whatever it is asked for.
[[ $NFSRDMA_KERNEL != 6.12 ]] || skip "knfsd 6.12 makes every copy synchronous"
# shellcheck source-path=SCRIPTDIR source=../disk.sh
. "${BASH_SOURCE[0]%/*}/../disk.sh"
readonly MIB=128
readonly CALLS="COPY READ WRITE COMMIT OFFLOAD_STATUS OFFLOAD_CANCEL"

declare -A HAD
count() { stat_sum "$1"; echo "$REPLY"; }
sent_none() { local c; stat_now rpc.calls >/dev/null; for c in $CALLS; do HAD[rpc.$c]=$(count "rpc.$c"); done; HAD[copies.ended]=$(count copies.ended); }
# sent NAME - how much a counter has grown since sent_none.
sent() { stat_now rpc.calls >/dev/null; echo $(( $(count "$1") - ${HAD[$1]} )); }
all_sent() { local c; for c in $CALLS; do printf '%s %s, ' "$(sent "rpc.$c")" "$c"; done; echo "$(sent copies.ended) callbacks"; }

# The server's own write: nothing of the file is known here.
perl -e 'open(my $f, ">", $ARGV[0]) or die; for my $i (1 .. $ARGV[1]) { print $f pack("N", $i) x 262144 or die } close($f) or die' "$disk/big" $MIB && sync "$disk/big" ||
	fail "a file"
mount_up

# ---- one call, one callback ----
sent_none
cp "$MNT/big" "$MNT/copy" || fail cp
said=$(all_sent)
equal "$(sent rpc.READ) $(sent rpc.WRITE) $(sent rpc.COPY)" "0 0 1" "READs, WRITEs, COPYs ($said)"
equal "$(sent copies.ended)" 1 "callbacks ($said)"
whole copy $MIB "cp had ended"
echo "# cp of $MIB MiB: $said"
mount_down
