# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Options that change while the mount is there; what cannot change is refused, and nothing else is changed then.
has_gateway
PROGRAM=''
trap 'end_all; [[ ! $PROGRAM ]] || kill -KILL "$PROGRAM" 2>/dev/null' EXIT
options="vers=$VERS,$MOUNT_OPTIONS,port=20131,lanes=1,stats=$STATS,actimeo=600"

remount() { "$BIN" "$REMOTE" "$MNT" -o "remount,$1" || fail "remount,$1"; }
refused() { expect_error "$1" "$BIN" "$REMOTE" "$MNT" -o "remount,$2"; }
info() { "$BIN" ctl "$MNT" info --json | grep -oE "\"$1\":[^,}]*" | cut -d: -f2; }
# size_of FILE - here.
size_of() { stat -c %s "$WORK/$1"; }
# server_writes FILE BYTES
# shellcheck disable=SC2016 # the server's
server_writes() { vm-server bash -c 'head -c "$2" /dev/zero >"$NFSRDMA_EXPORT/remount/$1" && chmod 666 "$NFSRDMA_EXPORT/remount/$1"' - "$@"; }

gateway_up 20131 "$NFSRDMA_SERVER"
mount_up port=20131,lanes=1,actimeo=600,heartbeat=3600
for f in a b c; do server_writes $f 10; done

# The same again, as mount(8) hands it on, changes nothing.
remount "$options,defaults,_netdev,user_id=0,group_id=0,max_read=1048576"
equal "$(size_of a)" 10 "the size of a"
server_writes a 20
equal "$(size_of a)" 10 "a cached size"
# Times: what the kernel was told before holds.
remount actimeo=0
equal "$(size_of b)" 10 "the size of b"
server_writes b 20
equal "$(size_of b)" 20 "a size that is not cached"
remount acregmin=600,acregmax=600
equal "$(size_of c)" 10 "the size of c"
server_writes c 20
equal "$(size_of c)" 10 "a size that is cached again"

# What a mount is made with. Nothing else of such a list is done.
before=$(info text)
for option in rsize=65536 nconnect=7 vers=$([[ $VERS == 3 ]] && echo 4.1 || echo 3) memreg=pool noac sync \
	remoteports=192.0.2.1 fsname=other stats=/tmp/other; do
	refused "option ${option%%=*} cannot be changed" "readahead=0,$option"
done
refused "'nosuch' is not known" nosuch
refused "option acregmin: '700' is more than acregmax" acregmin=700,acregmax=600
refused "out of range" timeo=0
refused "switched off (0)" writebehind=7
equal "$(info text)" "$before" "what is said of the mount after lists that were refused"

# Read-ahead, write-behind.
remount readahead=0,writebehind=0
equal "$(info readahead) $(info write_behind)" "0 0" "read-ahead and write-behind"
held=$(stat_now behind.bytes) ahead=$(stat_now ahead.reads)
dd if=/dev/zero of="$WORK/through" bs=64k count=8 status=none &&
	dd if="$WORK/through" of=/dev/null bs=64k status=none || fail "data without them"
equal "$(stat_now behind.bytes) $(stat_now ahead.reads)" "$held $ahead" "bytes held, and READs ahead, without them"
remount writebehind=12,readahead=8388608
[[ $(info write_behind) != 0 && $(info readahead) == 8388608 ]] || fail "they are not back: $("$BIN" ctl "$MNT" info)"
dd if=/dev/zero of="$WORK/held" bs=64k count=8 status=none || fail "data with them"
at_least "$(( $(stat_now behind.bytes) - held ))" 1 "bytes held with write-behind"

# The policy of paths. Heartbeats: at half of the time, if nothing else is said.
remount mp_policy=round-robin
"$BIN" ctl "$MNT" policy | grep -q round-robin || fail "the policy: $("$BIN" ctl "$MNT" policy)"
remount mp_policy=min-inflight
"$BIN" ctl "$MNT" policy | grep -q min-inflight || fail "the policy: $("$BIN" ctl "$MNT" policy)"
# Also if ctl has changed it since.
"$BIN" ctl "$MNT" policy round-robin >/dev/null || fail "policy round-robin"
remount mp_policy=min-inflight
"$BIN" ctl "$MNT" policy | grep -q min-inflight || fail "the policy after ctl: $("$BIN" ctl "$MNT" policy)"
heartbeats() { "$BIN" ctl "$MNT" paths --json | grep -oE '"heartbeats":[0-9]+' | awk -F: '{ n += $2 } END { print n + 0 }'; }
equal "$(heartbeats)" 0 "heartbeats at first"
remount heartbeat=1
beats() { (( $(heartbeats) >= 2 )); }
until_true "heartbeats after heartbeat=1" beats
remount heartbeat=3600
nap 1
before=$(heartbeats)
nap 2
equal "$(heartbeats)" "$before" "heartbeats after heartbeat=3600"

# The kernel's flags. All of a list is done, or nothing: what the kernel refuses, and what the daemon does.
before=$(info readahead)
if [[ $(id -u) == 0 ]]; then
	flags=$(findmnt -no OPTIONS "$MNT")
	exec 8>"$WORK/open"
	refused "files are open for writing" ro,readahead=0
	equal "$(info readahead)" "$before" "read-ahead after a list that the kernel has refused"
	refused "option rsize cannot be changed" noexec,rsize=65536
	equal "$(findmnt -no OPTIONS "$MNT")" "$flags" "flags after a list that the daemon has refused"
	exec 8>&-
	remount ro,noexec
	[[ $(findmnt -no OPTIONS "$MNT") == ro,*noexec* ]] || fail "not read-only: $(findmnt -no OPTIONS "$MNT")"
	expect_error "Read-only file system" touch "$WORK/new"
	remount nosuid,nodev,noatime
	[[ ,$(findmnt -no OPTIONS "$MNT"), == *,nosuid,nodev,noexec,noatime,* ]] || fail "more flags: $(findmnt -no OPTIONS "$MNT")"
	remount suid,dev,atime
	[[ ,$(findmnt -no OPTIONS "$MNT"), =~ ,(nosuid|nodev|noatime), ]] && fail "flags are left: $(findmnt -no OPTIONS "$MNT")"
	remount rw
	[[ $(findmnt -no OPTIONS "$MNT") == rw,*noexec* ]] || fail "not what it was: $(findmnt -no OPTIONS "$MNT")"
	touch "$WORK/new" || fail "a file in a mount that is writable again"
else
	refused "only root" ro,readahead=0
	equal "$(info readahead)" "$before" "read-ahead after a list that takes root"
fi

# A program that waits for a server that is dead is let go by "soft".
vm-root kill -STOP "$GATEWAY"
cat "$WORK/a" >/dev/null 2>"$TMPDIR/cat" & PROGRAM=$!
nap 1
kill -0 $PROGRAM 2>/dev/null || fail "it does not wait: $(<"$TMPDIR/cat")"
remount soft,timeo=10,retrans=0
gone $PROGRAM || fail "it still waits"
PROGRAM=''
grep -q 'Input/output error' "$TMPDIR/cat" || fail "the error of a soft mount: $(<"$TMPDIR/cat")"
vm-root kill -CONT "$GATEWAY"
remount hard,timeo=600
until_true "the server is back" cat "$WORK/a" >/dev/null
mount_down

# The mount table has allow_other for allow_root, and mount(8) adds what it is told to that.
if [[ $(id -u) == 0 ]]; then
	mount_up port=20131,lanes=1,allow_root
	remount "$(findmnt -no OPTIONS "$MNT"),allow_root,readahead=0"
	equal "$(info readahead)" 0 "read-ahead of a mount with allow_root"
	mount_down
fi

# What this mount alone has comes again as well: a blank, letters of other languages, and more than a page of options.
STATS="$TMPDIR/nfs stats"
options="vers=$VERS,$MOUNT_OPTIONS,port=20131,lanes=1,stats=$STATS,fsname=grün Straße"
mount_up "port=20131,lanes=1,fsname=grün Straße"
remount "$options,readahead=0"
equal "$(info readahead)" 0 "read-ahead, behind a list with a blank"
remount "$(printf 'timeo=600,%.0s' {1..12000})$options,readahead=8388608"
equal "$(info readahead)" 8388608 "read-ahead, behind a long list"
(cd "$TMPDIR" && remount "stats=nfs stats,readahead=0") || fail "a path that is not absolute"
equal "$(info readahead)" 0 "read-ahead, before a path that is not absolute"
refused "option stats cannot be changed" "stats=$TMPDIR/nfs-stats"
refused "option fsname cannot be changed" "fsname=grun Straße"
refused "bytes that are not UTF-8" $'stats=/\xe9'
mount_down

# A mount whose daemon has gone is not asked for anything, and the remedy is named.
mount_up "port=20131,lanes=1"
kill -KILL "$DAEMON"; gone "$DAEMON"; DAEMON=''
refused "its daemon has ended" timeo=100
refused "its daemon has ended" ro
umount -l "$MNT" 2>/dev/null || fusermount3 -uz "$MNT" || fail "umount of a dead mount"
gateway_down
