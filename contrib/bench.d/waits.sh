# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154,SC2034,SC2317 # what is not set here is inside's
# waits.sh - rows whose server takes time: its disk for a flush, or its network for a round
# trip. (And headers.sh: what is believed for a second should be believed as long as elsewhere.) They are measured in a guest whose clock goes to the next timer when all wait for one
# (tests/vm/README, --accel waits).
#
# That clock means nothing while the guest waits for the host. So all programs are taken home
# into the guest's memory before, and a measurement in which the host was asked for anything
# is done again.

# What rows disk and far start, besides the client.
readonly HOME_PROGRAMS="bash timeout cat cp dd find git ls perl rm tar"
readonly TRIPS=100      # of the variants trip

# ---- The clock -------------------------------------------------------------------

# host_requests - sets REPLY: what the guest has asked the host's file system for so far.
host_requests() {
	local irq count rest
	REPLY=0
	while read -r irq count rest; do
		[[ $rest != *virtio*-requests ]] || (( REPLY += count ))
	done </proc/interrupts
}

# take_home PROGRAM... - the guest's root is an overlay in memory, and what changes there
# (here: nothing but its time of change) is copied into it: programs, their libraries, what
# the C library and git read, and links on the way there, which are otherwise read anew each
# time.
take_home() {
	local path files=() links=(/bin /sbin /lib /lib64 /var/run)
	while IFS= read -r path; do
		path_links "$path"
		path=$(realpath "$path") && [[ -f $path ]] && files+=("$path")
	done < <(printf '%s\n' /etc/{ld.so.cache,passwd,group,localtime,gitconfig}
		for path; do
			path=$(type -P "$path") || continue
			echo "$path"
			ldd "$path" 2>/dev/null | grep -o '/[^ ]*'
		done)
	chmod u+r "${files[@]}" && chown -h root: "${links[@]}" &&
		# Nobody looks for other modules.
		printf '%s: files\n' passwd group hosts >/etc/nsswitch.conf
}

# path_links PATH - adds to links those that are on the way to it.
path_links() {
	local part at='' to
	while IFS= read -rd / part; do
		at+=${part:+/$part}
		[[ -L $at ]] || continue
		links+=("$at")
		to=$(readlink "$at")
		[[ $to == /* ]] || to=${at%/*}/$to
		path_links "$to"
	done <<<"$1/"
}

# keep_awake on|off - off only while something is measured. While there is always something to
# compute the clock cannot run on to the next timer, and what the host is asked for takes a time
# like any other.
AWAKE=''
keep_awake() {
	if [[ $1 == on ]]; then
		[[ ! $AWAKE ]] || return 0
		chrt --idle 0 bash -c 'while :; do :; done' 9<&- &
		AWAKE=$!
	elif [[ $AWAKE ]]; then
		kill "$AWAKE" && wait "$AWAKE" 2>/dev/null
		AWAKE=''
	fi
}

# waits_prepare FOLDER - and everything is run once.
waits_prepare() {
	local variant words row far=''
	# No folder of it may be a link that nobody has thought of.
	PATH=/run/vm/bin:/usr/bin:/usr/sbin
	# shellcheck disable=SC2086 # words
	take_home $HOME_PROGRAMS "$BIN" || { fail "the programs cannot be copied into the guest's memory"; return; }
	while IFS=$'\t' read -r row variant _ <&8; do
		[[ $row == far ]] || continue
		[[ $far ]] || { everyday_prepare "$1" || return; }
		far=1
		read -ra words <<<"$variant"
		# On the server's own file system.
		far_ready "$1" "${words[@]:1}" && far_work "$1" "${words[@]:1}" || return
	done 8< <(sort -u -k 1,2 "$PLAN")
	if grep -q ^headers "$PLAN"; then headers_prepare "$1" || return; fi
	if grep -q ^disk "$PLAN"; then disk_prepare || return; fi
	return 0
}

# ---- disk ------------------------------------------------------------------------

# disk_prepare - and the disk waits as long as it is to: on average, because its time goes by
# ticks of 4 ms.
disk_prepare() {
	local device ms i start took
	# The client's pages and the server's, which are not on the disk yet, share one limit here,
	# and the kernel's client stops at it: with two machines each has its own.
	echo $(( 3 << 30 )) >/proc/sys/vm/dirty_bytes || { fail "no vm.dirty_bytes"; return; }
	for ms in $(grep ^disk "$PLAN" | cut -f 2 | cut -d ' ' -f 1 | sort -un); do
		device=$(vm-disk "$ms" 2>"$TMP/said") || { fail "$(<"$TMP/said")"; return; }
		# A block of the device itself, in its last MiB, where there is no file.
		set -- dd if=/dev/zero of="$device" bs=4k count=1 seek=$(( $(blockdev --getsz "$device") / 8 - 8 )) conv=notrunc,fsync
		quietly "$@" || return
		start=${EPOCHREALTIME/./}
		for i in {1..10}; do quietly "$@" || return; done
		took=$(( (${EPOCHREALTIME/./} - start) / 10000 ))
		tell about "disk: dd of a block and a flush of $ms ms" "$took ms, the mean of ten"
		(( took >= ms - 2 && took <= ms + 20 )) || { fail "the disk's flush of $ms ms takes $took ms"; return; }
	done
	mkdir -p "$VIEW/disk/$FOLDER"
}

# disk_dd FOLDER MIB BLOCK FILES - that many programs at once.
disk_dd() {
	local i pids=() pid status=0 count=$2
	[[ $3 == 1m ]] || (( count *= 16 ))
	for (( i = 0; i < $4; i++ )); do
		SAID=$TMP/said.$i limited dd if=/dev/zero of="$1/file.$i" bs="${3^^}" count="$count" conv=fsync &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || status=1; done
	(( status == 0 )) || fail "dd: $(tail -qn 1 "$TMP"/said.[0-9])"
}

# row_disk CLIENT FLUSH MIB BLOCK FILES
row_disk() {
	local i here=$VIEW/disk/$FOLDER
	keep_awake on
	# The row far may have been before this one.
	quietly vm-delay off && quietly vm-disk "$2" || return
	rm -f "$here"/* && quietly sync -f "$here" || return
	command_line "run $ROW $VARIANT" "$5 x" dd if=/dev/zero of=FILE bs="${4^^}" count="$3M / $4" conv=fsync
	REMOTE=${REMOTE%/}/disk counted "$1" '' disk_dd "$MNT/$FOLDER" "${@:3}" || return
	for (( i = 0; i < $5; i++ )); do size_is "$here/file.$i" "$3" || return; done
	VALUES=("$(awk -v mib=$(( $3 * $5 )) -v us="$RUN_US" 'BEGIN { print mib * 1048576 / us }') MB/s"
		"$(( $3 * $5 * 1048576 / 1000000 )) MB" "${COUNTED[@]}")
}

# ---- far -------------------------------------------------------------------------

# A call and nothing else, as a program sees it: names that nobody knows yet.
ready_trip() {
	local i
	rm -rf "$1/trip" && mkdir "$1/trip" || return
	for (( i = 0; i <= TRIPS; i++ )); do : >"$1/trip/$i"; done
}
# Without a program: a shell's test is a stat(). The first one takes the folders' calls along.
work_trip() {
	local i start
	[[ -e $1/trip/0 ]] || { fail "the mount does not show what the server has"; return; }
	start=${EPOCHREALTIME/./}
	for (( i = 1; i <= TRIPS; i++ )); do [[ -e $1/trip/$i ]] || { fail "a file is not there"; return; }; done
	TRIP_US=$(( (${EPOCHREALTIME/./} - start) / TRIPS ))
}

# far_ready, far_work, far_check FOLDER WHAT [HOW] - as in row_everyday.
far_ready() { far_step ready "$@"; }
far_work() { far_step work "$@"; }
far_check() { far_step check "$@"; }
far_step() {
	local step=$1_${3//-/_}
	if declare -F "$step" >/dev/null; then "$step" "$2" "${4:-}"; fi
}

# row_far CLIENT TRIP WHAT [HOW] - WHAT is of everyday.sh, or trip.
row_far() {
	keep_awake on
	quietly vm-delay "$2" || return
	with_view far_ready "${@:3}" || return
	command_line "run $ROW $VARIANT" "$(declare -f "work_${3//-/_}" | tr -s '\n\t ' ' ')"
	counted "$1" '' far_work "$MNT/$FOLDER" "${@:3}" || return
	if [[ $3 == trip ]]; then
		(( TRIP_US >= $2 * 1000 )) || { fail "a round trip of $2 ms takes $TRIP_US us"; return; }
		VALUES=("$TRIP_US us-trip")
		return
	fi
	with_view far_check "${@:3}" || return
	VALUES=("$(us_to_s "$RUN_US") s")
	case $3 in cp-*|dd-*) VALUES+=("$(awk -v us="$RUN_US" 'BEGIN { print 64 * 1048576 / us }') MB/s") ;; esac
	VALUES+=("${COUNTED[@]}")
}

# ---- Calls -----------------------------------------------------------------------

# counted CLIENT OPTIONS COMMAND... - a measurement with one mount, as mounted, in which $WARM_UP CLIENT
# was done before. Leaves the calls in COUNTED. What comes of a close() after the program has ended is counted, and is
# not in the time.
counted() {
	local requests
	mount_up "$1" "$MNT" "$2" && "${WARM_UP:-true}" "$1" && calls_so_far "$1" before || return
	keep_awake off
	host_requests; requests=$REPLY
	timed "$1" "${@:3}" || return
	host_requests; ASKED=$(( REPLY - requests ))
	read -rt 1 <>"$TMP/never"
	! of_waits || keep_awake on
	calls_so_far "$1" after && calls_between && unmount_all
}

# calls_so_far CLIENT before|after - lines "KIND N" in $TMP/calls.before and .after.
calls_so_far() {
	if [[ $1 == ours-* ]]; then
		daemon_stats && sed -n 's/^rpc\.\([A-Z]\)/\1/p' "$TMP/stats.0" >"$TMP/calls.$2"
		return
	fi
	awk -v at="$MNT" '$1 == "device" { mine = $5 == at; ops = 0 }
		mine && ops && $2 > 0 { sub(":", "", $1); print $1, $2 }
		$1 == "per-op" { ops = 1 }' /proc/self/mountstats >"$TMP/calls.$2"
}

# calls_between - "N calls" and "N COMMITs" in COUNTED. A SEQUENCE by itself renews a lease,
# by the clock.
calls_between() {
	mapfile -t COUNTED < <(awk 'FNR == NR { was[$1] = $2; next } $1 == "SEQUENCE" || $1 == "RENEW" { next }
		{ all += $2 - was[$1] } $1 == "COMMIT" { commits = $2 - was[$1] }
		END { print all + 0 " calls"; print commits + 0 " COMMITs" }' "$TMP/calls.before" "$TMP/calls.after")
}
