# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What people get wrong: one clear line, a status, nothing left behind. Has a
# guest of its own: it takes the RDMA devices away.
# refused STATUS TEXT ARG... - the command ends so, and says TEXT.
refused() {
	local status=$1 text=$2 out got
	shift 2
	out=$(timeout 60 "$BIN" "$@" 2>&1); got=$?
	(( got == status )) || fail "'$*': status $got, not $status: $out"
	[[ $out == *"$text"* ]] || fail "'$*' said: $out -- without '$text'"
	(( $(wc -l <<<"$out") == 1 )) || fail "'$*' said more than one line: $out"
	mountpoint -q "$MNT" && fail "'$*' left a mount"
	pgrep -f "^$BIN" >/dev/null && fail "'$*' left a process"
	echo "  $out"
}
refused 32 "10.0.0.99" 10.0.0.99:/ "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,retry=0"              # nobody there
refused 32 "no-such-host" no-such-host.invalid:/ "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,retry=0"
refused 32 "port 20050" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,port=20050,retry=0,mountport=20048"
refused 32 "no RDMA route" 127.0.0.1:/ "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,retry=0"
# A signal ends the attempt, however long it may go on.
for how in INT TERM:-f; do
	sig=${how%:*} where=${how#"${how%:*}"}
	started=$SECONDS
	out=$(timeout --foreground --preserve-status -s "$sig" 3 "$BIN" ${where#:} 127.0.0.1:/ "$MNT" \
		-o "vers=$VERS,fabric=iwarp,port=9,retry=5" 2>&1); got=$?
	(( got == 32 )) || fail "SIG$how: status $got, not 32: $out"
	# Of five minutes; a busy guest takes its time for anything.
	(( SECONDS - started < 120 )) || fail "SIG$how did not end it: $out"
	[[ $out == *"given up"*"SIG$sig"* ]] || fail "SIG$how: $out"
	pgrep -f "^$BIN" >/dev/null && fail "SIG$how left a process"
done
echo "  ${out##*$'\n'}"
before=$(clients)
refused 32 "/nothing" "$NFSRDMA_SERVER:/nothing" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,retry=0"
equal "$(clients)" "$before" "clients that the server remembers after a refused mount"
refused 32 "/no/such/place" "$REMOTE" /no/such/place -o "vers=$VERS,$MOUNT_OPTIONS"
refused 32 "not a directory" "$REMOTE" /etc/passwd -o "vers=$VERS,$MOUNT_OPTIONS"
refused 32 "/no/such/place/stats" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,stats=/no/such/place/stats"
refused 32 "not a regular file" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,stats=/dev/null"
refused 32 "is a directory" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,stats=/tmp"
refused 1 "'nosuchoption'" "$REMOTE" "$MNT" -o "vers=$VERS,nosuchoption"
refused 32 "nothing is mounted" "$REMOTE" "$MNT" -o "vers=$VERS,remount"
refused 1 "'5000000'" "$REMOTE" "$MNT" -o "vers=$VERS,rsize=5000000"
refused 1 "'2'" "$REMOTE" "$MNT" -o vers=2
refused 1 "SERVER:/EXPORT" "$MNT"
install -d -o nobody /run/vm/nobody
out=$( (ulimit -l 256; ulimit -H -l 256; setpriv --reuid nobody --regid nogroup --clear-groups \
	timeout 60 "$BIN" "$REMOTE" /run/vm/nobody -o "vers=$VERS,$MOUNT_OPTIONS,retry=0") 2>&1) && fail "mounted with 256 KiB of locked memory"
[[ $out == *"ulimit -l"* ]] || fail "no remedy for RLIMIT_MEMLOCK in: $out"
echo "  $out"
# Not allowed by the server.
vm-root exportfs -u '*:/export'
refused 32 "$NFSRDMA_SERVER" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,retry=0"
vm-root exportfs -ra
# Busy: it is mounted already.
mount_up
out=$("$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS" 2>&1) && { fusermount3 -u "$MNT"; fail "mounted on top of itself"; }
[[ $out == *"$MNT"* ]] || fail "busy mountpoint: $out"
echo "  $out"
ls "$MNT" >/dev/null || fail "the first mount is gone"
mount_down
# nothing_ours - the kernel's RDMA has nothing of a program of ours. (Its own have
# their names in brackets.)
nothing_ours() {
	local kind
	for kind in cm_id qp pd mr; do
		vm-root rdma resource show $kind | grep -v 'comm \[' && return 1
	done
	return 0
}
nothing_ours || fail "left in the kernel by programs that have ended"
# The RDMA device is removed while it is in use. Removing waits for whoever has an
# identifier of a connection (in the kernel's cma_remove_one()), and then, for
# soft-RoCE, for the file that librdmacm keeps open until the process ends. All but
# that file is given back at once; the mount can be left, and then the device is gone.
mount_up
ls "$MNT" >/dev/null
nothing_ours >/dev/null && fail "the mount does without RDMA"
( in_time 240 vm-root rdma link delete "${NFSRDMA_FABRIC}1" ) & removal=$!
until_true "all is given back to the device that goes" nothing_ours
grep -q "the RDMA device was removed" "$LOG" || fail "the daemon does not say so: $(<"$LOG")"
mount_down
wait $removal || fail "the device is not gone after the daemon has ended"
# No RDMA device. The server, which has the other one, stops first: it is not what is
# tested here.
in_time 120 vm-root rpc.nfsd 0
in_time 120 vm-root rdma link delete "${NFSRDMA_FABRIC}0"
refused 32 "no RDMA device" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,retry=0"
