# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The daemon in one container, programs in another: it sees no process of theirs. It says so once, sends no
# supplementary groups, because it cannot know them, and everything else works; a program that is killed while the
# server is dead ends with the mount.
has_gateway
[[ $(id -u) == 0 ]] || skip "a pid namespace and several users take root"
unshare -pf true 2>/dev/null || skip "no pid namespaces here"
PROGRAM=''
trap 'end_all; [[ ! $PROGRAM ]] || kill -KILL "$PROGRAM" 2>/dev/null' EXIT
gateway_up 20151 "$NFSRDMA_SERVER"
: >"$LOG"
unshare -pf --kill-child "$BIN" -f "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,port=20151,lanes=1,allow_other" >>"$LOG" 2>&1 &
DAEMON=$!
until_true "the mount" is_mounted
as() { setpriv --reuid "$1" --regid "$1" --groups "$2" "${@:3}"; }

echo own >"$WORK/f" && chown 1000:4242 "$WORK/f" && chmod 640 "$WORK/f" || fail "a file"
equal "$(as 1000 1000 cat "$WORK/f")" own "its owner reads"
expect_error "Permission denied" as 1001 4242 cat "$WORK/f"     # who it is for is not known
equal "$(setpriv --reuid 1001 --regid 4242 --clear-groups cat "$WORK/f")" own "its group reads"
cp /etc/services "$WORK/copy" && same /etc/services "$WORK/copy"
equal "$(grep -c 'runs in another pid namespace' "$LOG")" 1 "how often the log says that programs are not seen"
flock "$WORK/copy" true || fail "a lock"

# Nobody can tell a signal that kills from one that does not: the mount is what ends.
head -c 1M /dev/zero >"$SERVER_WORK/big"
vm-root kill -STOP "$GATEWAY"
cat "$WORK/big" >/dev/null 2>&1 & PROGRAM=$!
nap 1
kill -KILL $PROGRAM
"$BIN" ctl "$MNT" abort || fail "abort"
gone $PROGRAM || fail "it still waits"
PROGRAM=''
gone $DAEMON || fail "the daemon is still there"
DAEMON=''
is_mounted && fail "a mount after abort"
vm-root kill -CONT "$GATEWAY"
gateway_down
