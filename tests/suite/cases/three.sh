# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Three clients of one directory: two mounts of this one, and the kernel's own client. Two processes
# in each, against a model of close-to-open (tests/cto), with renames, links and removals.
# NFSRDMA_CTO_SECONDS: for longer than a look. Its last mount may find old files by cached names,
# and old bytes of what it writes itself, because the kernel's client does: --old-bytes, see
# tests/cto/model.h. What this client's mounts promise is looked for at the server itself, so an
# fsync() of theirs that ends too early is found.
cto=${BIN%/src/*}/tests/cto/cto
[[ -x $cto ]] || skip "no $cto"
[[ $NFSRDMA_KERNEL != ganesha ]] || skip "the kernel's own client is in a guest"
other=$TMPDIR/other kernels=$TMPDIR/kernels
mkdir "$other" "$kernels"
trap 'end_all; vm-root umount -l "$other" "$kernels" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
mount_up
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"
vm-root mount -t nfs -o "vers=$VERS,proto=rdma,port=20049" "$REMOTE" "$kernels" || fail "the kernel's mount"
more=()
[[ $VERS != 3 ]] || more=(--old-reads)
"$cto" --seconds "${NFSRDMA_CTO_SECONDS:-30}" "${more[@]}" --old-names 2 --old-bytes 2 \
	--server "$SERVER_WORK" "$WORK" "$other/$CASE" "$kernels/$CASE" >"$TMPDIR/cto.out" || fail "$(<"$TMPDIR/cto.out")"
cat "$TMPDIR/cto.out"
vm-root umount "$kernels" || fail "unmount of the kernel's"
umount "$other" || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
other_daemon=''
mount_down
exit 0
