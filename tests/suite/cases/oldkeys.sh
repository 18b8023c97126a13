# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A server that RDMA-Writes through handles whose call is over, and around those of calls
# under way: the gateway's fault "scribble" on the server's RDMA device. With memreg=mw and
# call the client's device stops it. The connection ends, the calls are sent again, and no
# byte is wrong. (With memreg=pool it is contained in the data buffers: case "hostile".)
[[ $NFSRDMA_FABRIC == rxe ]] || skip "no RDMA device whose handles end with a call"
has_gateway
trap 'end_all; grep -hv scribble "$GATEWAY_LOG" | tail -n 20' EXIT
stopped='refused access to its memory'

# stopped_often - the device has stopped it three times.
stopped_often() { (( $(grep -c "$stopped" "$GATEWAY_LOG") >= 3 )); }

cd "$TMPDIR" || fail cd
for memreg in mw call; do
	: >"$GATEWAY_LOG"
	# Not while mounting, and not so often that no call ever ends.
	gateway_up 20050 "$NFSRDMA_SERVER" -v --fault scribble@60/23=2
	mount_up "port=20050,memreg=$memreg"
	for round in {1..40}; do
		fio --directory="$WORK" --name="$memreg" --rw=randwrite --bsrange=4k-256k --size=1m \
			--numjobs=2 --direct=1 --ioengine=psync --verify=crc32c --verify_fatal=1 \
			--do_verify=1 --fallocate=none --group_reporting --output="$TMPDIR/fio.out" ||
			{ cat "$TMPDIR/fio.out"; fail "fio, memreg=$memreg, round $round"; }
		rm -f "$WORK/$memreg"*
		! stopped_often || break
	done
	stopped_often || fail "the device has stopped the server $(grep -c "$stopped" "$GATEWAY_LOG") times with memreg=$memreg"
	at_least "$(stat_now conn.downs)" 3 "connections that ended so"
	mount_down
	gateway_down
done
