# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Two mounts of one directory, in guests with the kernel's own client as a third, two processes in
# each: locks of all kinds, reads and writes with and without them, against a model (tests/cto,
# locks.c), with delegations that the server has back all the time, lost connections and restarts.
# NFSRDMA_CTO_SECONDS: for longer than a look.
[[ $VERS != 3 ]] || skip "it has not been tried with version 3"
cto=${BIN%/src/*}/tests/cto/cto
[[ -x $cto ]] || skip "no $cto"
other=$TMPDIR/other kernels=$TMPDIR/kernels
mkdir "$other" "$kernels"
trap 'end_all; vm-root umount -l "$other" "$kernels" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
: "${NFSRDMA_CTO_SECONDS:=40}"

# The second mount's connections go through a gateway that cuts them now and then.
port=''
if [[ $NFSRDMA_KERNEL == ganesha ]]; then
	has_gateway
	gateway_up 20060 "$NFSRDMA_SERVER" --fault drop-after@500/1997,drop-before@700/2999
	port=,port=20060
fi
mount_up deleg
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS,deleg,rsize=65536,wsize=65536$port" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"
among=("$WORK" "$other/$CASE")
more=()
# Of Linux's server 6.1 gives no delegations to write; 7.3 gives them to who only writes, too.
case $NFSRDMA_KERNEL in 7.*) more=(--beside w) ;; 6.12) more=(--beside rw) ;; esac
# It does not merge what ends with the file.
[[ $NFSRDMA_KERNEL != ganesha ]] || more=(--ends)
# Not that of Linux 7.3: after three minutes a new open of its mount read bytes that the server no longer had,
# which a lock of another mount had changed. Not understood; it is not this program that has read them.
if [[ $NFSRDMA_KERNEL != ganesha && $NFSRDMA_KERNEL != 7.* && $EUID == 0 ]]; then
	vm-root mount -t nfs -o "vers=$VERS,proto=rdma,port=20049" "$REMOTE" "$kernels" || fail "the kernel's mount"
	among+=("$kernels/$CASE")
	more+=(--old-names 2 --old-bytes 2)
fi
[[ ! -r $SERVER_WORK || $NFSRDMA_EXPORT == /run/vm/view ]] || more+=(--server "$SERVER_WORK")

reconnect=()
for at in "$MNT" "$other"; do reconnect+=(--event "'$BIN' ctl '$at' reconnect all >/dev/null 2>&1"); done
# Who waits for what, if an operation has no answer.
silence="for at in '$MNT' '$other'; do for what in calls info stats; do timeout 20 '$BIN' ctl \$at \$what; done; done
	grep -H . /proc/[0-9]*/stack 2>/dev/null | grep -E 'fuse|nfs|svc'
	vm-server bash -c 'grep -H . /proc/fs/nfsd/clients/*/info /proc/fs/nfsd/clients/*/states' 2>/dev/null; true"
# differs SECONDS ARGUMENT... - a difference fails the case.
differs() {
	"$cto" --locks --silence "$silence" --seconds "$@" "${more[@]}" "${among[@]}" >"$TMPDIR/cto.out" || fail "$(<"$TMPDIR/cto.out")"
	sed -n 's/^[0-9n].*/# &/p' "$TMPDIR/cto.out"
}
differs $(( NFSRDMA_CTO_SECONDS / 2 )) --size 65536
# both NAME... - the sum of these counters of both mounts.
both() {
	local at
	for at in "$MNT" "$other"; do timeout 60 "$BIN" ctl "$at" stats; done |
		awk -v names=" $* " 'index(names, " " $1 " ") { n += $2 } END { print n + 0 }'
}
# A wait for a lock may take all of a short time: then once more.
for (( round = 0; round < 4; round++ )); do
	differs $(( NFSRDMA_CTO_SECONDS / 2 )) --event "vm-nfsd-restart 1" --every $(( NFSRDMA_CTO_SECONDS < 100 ? 8 : 40 )) \
		"${reconnect[@]}"
	(( $(both conn.downs) == 0 )) || break
done

# It has been there, all that is to make no difference. (Which events there are in a short time is chance.)
echo "# $(both delegs.read) delegations to read, $(both delegs.write) to write, $(both rpc.DELEGRETURN) returned;" \
	"$(both conn.downs) connections lost, $(both state.recoveries) recoveries"
at_least "$(both conn.downs)" 1 "connections that were lost"
(( NFSRDMA_CTO_SECONDS < 100 )) || at_least "$(both state.recoveries)" 1 "recoveries"
if [[ $NFSRDMA_KERNEL != ganesha ]]; then
	at_least "$(both delegs.read delegs.write)" 1 "delegations"
	at_least "$(both rpc.DELEGRETURN)" 1 "DELEGRETURNs"
fi

[[ ! -d $kernels/$CASE ]] || vm-root umount "$kernels" || fail "unmount of the kernel's"
if [[ $(id -u) == 0 ]]; then umount "$other"; else fusermount3 -u "$other"; fi || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
wait $other_daemon || fail "the second daemon's status is $?"
other_daemon=''
mount_down
[[ ! $GATEWAY ]] || gateway_down
exit 0
