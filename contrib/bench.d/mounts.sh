# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # what is not set here is inside's
# mounts.sh - the export, mounted by each client; the server's own view; counters.

MOUNTS=() DAEMONS=()    # what is there now
VERS=4.1                # of NFS, but for iWARP

# is_mounted DIRECTORY - without a process, which costs a lot where it is emulated.
is_mounted() {
	local at
	while read -r _ _ _ _ at _; do [[ $at != "$1" ]] || return 0; done </proc/self/mountinfo
	return 1
}

# mount_up CLIENT DIRECTORY OPTIONS
mount_up() {
	mkdir -p "$2"
	case $1 in
	kernel-*) kernel_up "${1#kernel-}" "$2" "$3" "mount $1" ;;
	# By version 3, as nfs-cp: libnfs's version 4 does not write to every server.
	ours-iwarp|ours-iwarp-ring) daemon_up "${REMOTE%%:*}:$VIEW" "$2" "vers=3,nolock,fabric=iwarp${3:+,$3}" "mount $1" ;;
	ours-ring) daemon_up "$REMOTE" "$2" "vers=$VERS,memreg=pool${3:+,$3}" "mount $1" ;;
	ours-nodeleg) daemon_up "$REMOTE" "$2" "vers=$VERS,memreg=pool,nodeleg${3:+,$3}" "mount $1" ;;
	ours-solo) daemon_up "$REMOTE" "$2" "vers=$VERS,consistency=solo${3:+,$3}" "mount $1" ;;
	ours-earlier) BIN=${PLAN%/*}/earlier daemon_up "$REMOTE" "$2" "vers=$VERS,memreg=pool${3:+,$3}" "mount $1" ;;
	ours-*) daemon_up "$REMOTE" "$2" "vers=$VERS,memreg=${1#ours-}${3:+,$3}" "mount $1" ;;
	esac
}

# kernel_up rdma|tcp DIRECTORY OPTIONS KEY
kernel_up() {
	local options=vers=$VERS,proto=$1
	[[ $1 != rdma ]] || options+=,port=20049
	[[ ! $3 ]] || options+=,$3
	command_line "$4${3:+ $3}" mount -t nfs -o "$options" "$REMOTE" "$2"
	quietly mount -t nfs -o "$options" "$REMOTE" "$2" || return
	MOUNTS+=("$2")
	# mount(8) may try what it was not told to.
	grep -F " $2 nfs4 " /proc/self/mounts | grep -q "[ ,]proto=$1[, ]" || fail "$2 is not proto=$1"
}

# daemon_up REMOTE DIRECTORY OPTIONS KEY - in the foreground, as a child: its end can be seen.
daemon_up() {
	local i pid options=$3,stats=$TMP/stats.${#DAEMONS[@]}
	command_line "$4" "$BIN" -f "$1" "$2" -o "$options"
	"$BIN" -f "$1" "$2" -o "$options" >"$TMP/daemon.log" 2>&1 </dev/null 9<&- &
	pid=$!
	DAEMONS+=("$pid")
	for (( i = 0; i < 1200; i++ )); do
		if is_mounted "$2"; then MOUNTS+=("$2"); return 0; fi
		[[ -d /proc/$pid ]] || break
		sleep 0.05
	done
	fail "nfsrdma-fuse does not mount: $(tail -n 3 "$TMP/daemon.log")"
}

# ended PID - waits until a daemon is gone: it says good-bye to the server behind umount.
ended() {
	local i
	for (( i = 0; i < 600; i++ )); do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.05
	done
	return 1
}

unmount_all() {
	local at pid
	for at in "${MOUNTS[@]}"; do quietly umount "$at" || return; done
	MOUNTS=()
	for pid in "${DAEMONS[@]}"; do
		ended "$pid" || { fail "the daemon still runs half a minute after its unmount"; return; }
		wait "$pid" || { fail "the daemon ended with status $?: $(tail -n 3 "$TMP/daemon.log")"; return; }
	done
	DAEMONS=()
}

# clean_up - after a failure: what is there must not harm the next one. The mounts are
# not asked, because a request that is stuck would hold us, too.
clean_up() {
	local at pid
	for at in "${MOUNTS[@]}"; do ! is_mounted "$at" || umount -l "$at"; done
	for pid in "${DAEMONS[@]}"; do kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
	# One that mounted too late.
	while is_mounted "$MNT"; do umount -l "$MNT" || break; done
	MOUNTS=() DAEMONS=()
}

# with_view_root COMMAND... - runs it with the export's folder, as the server sees it, or
# else in a mount of its own, which the kernel's TCP client makes and ends: it is none
# of those that are measured at that time, and nothing of it stays in a cache.
with_view_root() {
	local status
	if [[ $VIEW ]]; then "$@" "$VIEW"; return; fi
	mkdir -p "$TMP/view"
	quietly mount -t nfs -o vers=4.1,proto=tcp,nosharecache "$REMOTE" "$TMP/view" || return
	"$@" "$TMP/view"
	status=$?
	quietly umount "$TMP/view" || return
	return $status
}

# with_view COMMAND ARG... - COMMAND FOLDER ARG...
with_view() { with_view_root in_folder "$@"; }
in_folder() {
	local root=${*: -1}
	"$1" "$root/$FOLDER" "${@:2:$#-2}"
}

# daemon_stats - what our daemon has counted so far, in $TMP/stats.0.
daemon_stats() {
	local i
	rm -f "$TMP/stats.0"
	kill -USR1 "${DAEMONS[0]}"
	for (( i = 0; i < 400; i++ )); do
		[[ -s $TMP/stats.0 ]] && return
		sleep 0.05
	done
	fail "the daemon writes no counters"
}

# counters before|after CLIENT - of our daemon: leaves what has come in between in
# COUNTED. They are asked for outside of the time that is measured.
counters() {
	local name value
	[[ $2 == ours-* ]] || return 0
	daemon_stats || return
	while read -r name value; do
		case $name in
		rpc.calls|rdma.registrations|rdma.bindings|rdma.local_invals|rdma.remote_invals) ;;
		*) continue ;;
		esac
		if [[ $1 == before ]]; then was[$name]=$value
		else COUNTED+=("$(( value - ${was[$name]:-0} )) ${name#*.}"); fi
	done <"$TMP/stats.0"
}
declare -A was=()
