# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A link that is down for 20 s (which a connection may survive), and a server that
# restarts, each in the middle of verified writes: no error, no wrong byte.
#
# verified NAME DIRECT - writes and verifies, again and again until there is $TMPDIR/enough:
# what is to happen meanwhile may take its time on a busy machine. fio begins anew now and
# then, so dd is beside it: there is always something in flight.
verified() {
	local steady size
	amount 6m 2m
	size=$REPLY
	rm -f "$TMPDIR/enough"
	while [[ ! -e $TMPDIR/enough ]]; do
		dd if=/dev/zero of="$WORK/$1.steady" bs=16k count=100 oflag=direct conv=notrunc 2>"$TMPDIR/dd.$1" ||
			{ cat "$TMPDIR/dd.$1"; fail "dd, $1"; }
	done & steady=$!
	while [[ ! -e $TMPDIR/enough ]]; do
		fio --directory="$WORK" --name="$1" --rw=randwrite --bsrange=4k-128k --size="$size" --numjobs=4 --direct="$2" \
			--ioengine=psync --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none \
			--group_reporting --output="$TMPDIR/fio.$1" || { cat "$TMPDIR/fio.$1"; fail "fio, $1"; }
	done
	wait "$steady" || fail "dd, $1"
}
# under_way - waits until the work has begun, however busy the machine is.
more_writes() { (( $(stat_now write.requests) >= $1 )); }
under_way() { until_true "writes" more_writes $(( $(stat_now write.requests) + 50 )); }
mount_up
cd "$TMPDIR" || fail cd         # for fio's own files
verified link 1 & job=$!
under_way
vm-link flap 20
touch "$TMPDIR/enough"
wait $job || fail "link down for 20 s"
rm -f "$WORK"/link*

restart() {
	local lost
	lost=$(stat_now conn.downs)
	verified restart 0 & job=$!
	under_way
	vm-nfsd-restart 2 || fail "restart of knfsd"
	touch "$TMPDIR/enough"
	wait $job || fail "restart of knfsd"
	at_least "$(stat_now conn.downs)" $(( lost + 1 )) "connections lost when the server restarted"
}
exec 6>"$WORK/held"; echo before >&6
restart
# Version 4's calls may all be waiting for a recovery when the connection goes: the
# gateway can be the one that tells them of the restart. With version 3 a guest's one processor may
# have been with the server from its last reply until the connection was closed, so that nothing was
# under way.
if [[ $VERS == 3 ]]; then
	for _ in 1 2; do (( $(stat_now rpc.replays) )) || restart; done
	at_least "$(stat_last rpc.replays)" 1 "calls sent again"
else
	at_least "$(stat_last state.recoveries)" 1 "recoveries of state"
fi
# A file that was open all the time is still open.
echo after >&6 && exec 6>&- || fail "the open file is lost"
equal "$(tr '\n' ' ' <"$SERVER_WORK/held")" "before after " "the file that was held open"
mount_down
