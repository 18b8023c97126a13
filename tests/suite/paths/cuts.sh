# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# cuts.sh - one path fails under verified work: no error, and how long programs wait.

STALL_MS=200                                            # told at once
BUSY_MS=50                                              # longer without a cut: see limit_of
SILENT_MS=$(( (HEARTBEAT + 1) * 1000 ))                 # found by a heartbeat

# In a guest, which is emulated, not all that one processor can do: what has to wait for it
# would be taken for a stall.
RATE=() THREADS=4
[[ $NFSRDMA_KERNEL == ganesha ]] || RATE=(--rate_iops=60) THREADS=2

verified() {
	( cd "$TMPDIR" && fio --directory="$WORK" --name=verify --rw=randwrite --bs=16k --size=8m --iodepth=16 --direct=1 \
		--ioengine=libaio --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none --time_based --runtime="$1" \
		"${RATE[@]}" --output="$TMPDIR/fio.out" ) || { cat "$TMPDIR/fio.out"; return 1; }
}

# of_load NAME - a line of what stalls has said.
of_load() { awk -v name="$1" '$1 == name { print $2 }' "$TMPDIR/stalls"; }

# limit_of KIND CALM - for how many ms programs may wait, if without a cut they do for CALM ms. On
# a machine that has other work the client, the server and the gateways wait for a processor, and
# a time says little about the client. Then it is only seen that no heartbeat was needed, beside what
# everything takes, twice: what was cut does more than what was not. A guest's
# clock goes on with its own work alone, so there the time always counts.
limit_of() {
	if silently "$1"; then
		echo $SILENT_MS
	elif [[ $NFSRDMA_KERNEL == ganesha ]] && (( ${2%.*} > BUSY_MS )); then
		echo $(( HEARTBEAT * 1000 + 2 * ${2%.*} ))
	else
		echo $STALL_MS
	fi
}

# one_cut KIND N - after 5 s, in which it is seen how long programs wait without a cut, for 3 s.
# What breaks visibly has its effect at once: what an operation takes much later has other causes.
one_cut() {
	local kind=$1 n=$2 options=${3:-} limit fio stalls around=cut_ms made missed
	mount_up "$BOTH,mp_policy=round-robin$options"
	both_up
	made=$(path_value "$n" reconnects) missed=$(path_value "$n" missed)
	mkdir "$WORK/stalls" || fail mkdir
	verified 12 & fio=$!
	"$STALLS" "${ONCE[@]}" -t $THREADS "$WORK/stalls" 11 >"$TMPDIR/stalls" 2>&1 & stalls=$!
	until_true "the load" grep -q begins "$TMPDIR/stalls"
	sleep 5
	kill -USR1 $stalls
	path cut "$n" "$kind"
	kill -USR1 $stalls
	sleep 3
	[[ $kind == down ]] || path heal "$n"
	wait $stalls || fail "stalls: $(<"$TMPDIR/stalls")"
	wait $fio || fail "fio"
	limit=$(limit_of "$kind" "$(of_load before_ms)")
	! silently "$kind" || around=longest_ms
	tell "longest stall $(of_load $around) ms of $limit (without a cut $(of_load before_ms), machine's own $(of_load jitter_ms))"
	tell "$(of_load operations) operations"
	if [[ $kind == down ]]; then
		equal "$(path_value "$n" connections)" 0 "connections of a path that is down"
		made=1
	else
		both_up
		made=$(( $(path_value "$n" reconnects) - made ))
	fi
	missed=$(( $(path_value "$n" missed) - missed ))
	tell "$made connections made anew, $missed heartbeats missed, failovers $(( $(path_value 0 failovers) + $(path_value 1 failovers) ))"
	mount_down
	path heal "$n"
	at_least "$made" 1 "connections made anew: the cut was not noticed"
	# Neither what broke nor what was made anew may be silent.
	(( limit != STALL_MS )) || equal "$missed" 0 "heartbeats missed on path $n"
	# What else the machine does keeps programs waiting, too. A program that only sleeps has
	# seen how long.
	awk -v l="$(of_load $around)" -v o="$(of_load jitter_ms)" -v m="$limit" 'BEGIN { exit !(l <= m + o) }' ||
		fail "an operation took longer than $limit ms and the machine's own: $(<"$TMPDIR/stalls")"
}

# throughput DIRECTORY - MB/s of direct reads and writes by four.
throughput() {
	amount "--size=16m --runtime=1" "--size=1m --runtime=4"
	# shellcheck disable=SC2086 # two options
	( cd "$TMPDIR" && fio --directory="$1" --name=speed --rw=randrw --bs=256k --numjobs=4 --iodepth=4 --direct=1 \
		--ioengine=libaio --fallocate=none --time_based $REPLY --group_reporting --output-format=terse ) >"$TMPDIR/speed" ||
		fail "fio: $(<"$TMPDIR/speed")"
	awk -F ';' '{ print ($7 + $48) / 1024 }' "$TMPDIR/speed"
}

# after_cut KIND - with one path left it is as fast as a mount that never had another. The path
# is the slow part, and not what else the machine does. In turns all the same, and each is compared
# with the one just before it.
after_cut() {
	local kind=$1 i other=$TMPDIR/other other_daemon one=() two=() ratios=() ratio
	mkdir -p "$other"
	amount 200mbit 16mbit
	path limit 0 "$REPLY"
	mount_up "$BOTH"
	both_up
	"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS,addr=${ADDRS[0]}" >>"$LOG" 2>&1 & other_daemon=$!
	until_true "the second mount" mountpoint -q "$other"
	path cut 1 "$kind"
	sleep $(( HEARTBEAT + 2 ))
	# Five pairs, and more of them if those were not enough: fifteen have the same median, with less noise.
	for (( i = 0; i < 15; i++ )); do
		(( i != 5 && i != 10 )) || awk -v r="$ratio" 'BEGIN { exit r >= 0.9 }' || break
		one+=("$(throughput "$other/$CASE")")
		two+=("$(throughput "$WORK")")
		ratios+=("$(awk -v o="${one[i]}" -v t="${two[i]}" 'BEGIN { print t / o }')")
		ratio=$(printf '%s\n' "${ratios[@]}" | median)
	done
	path heal 1
	tell "$ratio of a mount with one path ($(printf '%s\n' "${two[@]}" | median) MB/s, $(printf '%s\n' "${one[@]}" | median) MB/s)"
	if [[ $(id -u) == 0 ]]; then umount "$other"; else fusermount3 -u "$other"; fi
	gone $other_daemon || fail "the second daemon still runs"
	mount_down
	path limit 0 off
	awk -v r="$ratio" 'BEGIN { exit !(r >= 0.9) }' || fail "after a cut $ratio of the speed, less than 0.9: one ${one[*]}, two ${two[*]}"
}

cuts() {
	local kind n=0
	for kind in "${KINDS[@]}"; do
		part "$kind, path $n" one_cut "$kind" "$n"
		n=$(( !n ))
	done
	# Soft-RoCE takes auto for pool. What the server was doing when the packets were lost comes late,
	# when the buffers have other data.
	if [[ $NFSRDMA_KERNEL != ganesha ]]; then
		for kind in call mw; do part "drop, memreg=$kind" one_cut drop 1 ",memreg=$kind"; done
		# It can be healed when nobody uses it any more, see vm-path.
		part "down, path 0" one_cut down 0
	fi
	for kind in listener drop; do part "speed after $kind" after_cut $kind; done
}
