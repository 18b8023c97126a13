# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Nothing at all from the server for more than 30 s, in the middle of verified
# writes: each connection is given up, with one line, and the work goes on when
# the network is back. (With 20 s, in "faults", a connection lives on.)
mount_up lanes=1
cd "$TMPDIR" || fail cd         # for fio's own files
fio --directory="$WORK" --name=cut --rw=randwrite --bsrange=4k-128k --size=16m --numjobs=2 --direct=1 \
	--ioengine=psync --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none --time_based --runtime=45 \
	--group_reporting --output="$TMPDIR/fio.out" & job=$!
for (( i = 0; i < 600; i++ )); do
	(( $(stat_now write.requests) >= 50 )) && break
	sleep 0.1
done
vm-root ip link set lo down
start=$SECONDS
while (( SECONDS - start < 120 )); do
	sleep 0.2
	(( $(stat_now conn.downs) > 0 )) && break
done
vm-root ip link set lo up
took=$(( SECONDS - start ))
at_least $took 25 "seconds until the connection was given up"
at_most $took 60 "seconds until the connection was given up"
wait $job || { cat "$TMPDIR/fio.out"; fail "fio"; }
equal "$(stat_now conn.downs)" 1 "connections given up"
equal "$(grep -c 'lost' "$LOG")" 1 "lines about it"
mount_down
