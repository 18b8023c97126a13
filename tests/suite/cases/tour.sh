# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# doc/tour.md is what this case says: first use, a server that dies, a daemon that dies, and repair.
# TOUR=FILE: writes it there, when something has changed that people see.
[[ $NFSRDMA_KERNEL == ganesha && $(id -u) == 0 && $VERS == 4.1 ]] || skip "the tour is of one server, and root's"
tour=$TMPDIR/tour.md
mkdir -p "$TMPDIR/bin" && ln -sf "$BIN" "$TMPDIR/bin/nfsrdma-fuse" && PATH=$TMPDIR/bin:$PATH || fail "the program's name"
export LC_ALL=C
trap 'end_all; vm-link up; [[ ! $(daemon) ]] || kill -KILL "$(daemon)"' EXIT

# Names that people have, for those of this bench; numbers that differ from run to run, and what depends on the
# machine.
as_people() {
	sed -E -e "s#$MNT#/mnt#g; s#$NFSRDMA_SERVER#nas#g" \
		-e 's/port [0-9]+/port N/g; s/connection [0-9]+ to/connection N to/; s/\b[0-9.]+ ?(us|ms|s)\b/N \1/g' \
		-e 's/write-behind [0-9]+ MiB/write-behind N MiB/; s/ +[0-9.]+[KM]? +[0-9.]+[KM]? +N us /  ...  ...   N us /'
}
say() { printf '%s\n' "$@" "" >>"$tour"; }
# see COMMAND [FILTER] - runs it as people would; what it says; and its status, if that is not 0. FILTER: which
# lines are worth reading here.
see() {
	local command=$1 status
	command=${command//nas:\//$NFSRDMA_SERVER:/}
	command=${command//\/mnt/$MNT}
	eval "$command" >"$TMPDIR/said" 2>&1 </dev/null; status=$?
	{
		printf '    $ %s\n' "$1"
		as_people <"$TMPDIR/said" | { [[ ! ${2:-} ]] && cat || grep -E "$2"; } | sed 's/^/    /'
		(( status == 0 )) || printf '    (status %d)\n' $status
		echo
	} >>"$tour"
}
daemon() { pgrep -f "^[^ ]*nfsrdma-fuse .*$MNT" | head -n 1; }
no_daemon() { [[ ! $(daemon) ]]; }
# Of the log: that of the daemon in the foreground.
begin() {
	"$TMPDIR/bin/nfsrdma-fuse" -f "$NFSRDMA_SERVER:/" "$MNT" -o "nconnect=2,timeo=30" 2>>"$LOG" & DAEMON=$!
	until_true "the mount" is_mounted
}

say '# A tour'
say 'Made by the case `tour` of tests/suite, which fails when the program says something else: from the first
mount to a server that dies, and what to do then. Times and ports are shown as N.'
say '## What stands in the way?'
see 'nfsrdma-fuse doctor nas:/ -o fabric=iwarp' '^(good: (addresses|fabric|mount|path|sizes)|A mount|All)'
say '`doctor` looks at device, limits, ports and server, and says what costs something, and how to mend it. Here the
server is reached by iWARP in user space, because there is no RDMA device.'

say '## A mount'
see 'nfsrdma-fuse nas:/ /mnt -o nconnect=2'
see 'findmnt -no SOURCE,FSTYPE /mnt'
see 'cp /etc/services /mnt/tour/file && cmp /etc/services /mnt/tour/file && echo equal'
see 'nfsrdma-fuse ctl /mnt info'
see "nfsrdma-fuse ctl /mnt paths | awk '{ print \$1, \$2, \$4, \$5 }'"
see 'nfsrdma-fuse nas:/ /mnt'
see 'nfsrdma-fuse nas:/ /mnt -o remount,actimeo=10,readahead=1048576'
see 'nfsrdma-fuse nas:/ /mnt -o remount,rsize=4096'
see 'umount /mnt'
until_true "the end" no_daemon

say '## The server falls silent'
say 'The mount is there again, with a file of 1 MiB, and the server is cut off. A program waits, as with every NFS
mount. But nothing else does, and it can be killed.'
begin
head -c 1M /dev/zero >"$EXPORT/tour/big"
vm-link down
see 'timeout 3 cat /mnt/tour/big >/dev/null'
see 'df --output=target /mnt | tail -n 1'
until_true "it is said" grep -q 'is not responding' "$LOG"
say 'The log says so once:'
grep -m 1 'is not responding' "$LOG" | as_people | sed 's/^/    /' >>"$tour"
say ''
say 'A mount that is `soft` for a while lets all go that wait, with an error:'
cat "$MNT/tour/big" >/dev/null 2>"$TMPDIR/cat" & waiter=$!
nap 1
see 'nfsrdma-fuse nas:/ /mnt -o remount,soft,timeo=10,retrans=0'
wait $waiter
sed 's/^/    /' <(as_people <"$TMPDIR/cat") >>"$tour"
say ''
say 'When the server is back, everything goes on:'
vm-link up
see 'nfsrdma-fuse nas:/ /mnt -o remount,hard,timeo=600'
until_true "the server is back" cmp "$EXPORT/tour/big" "$MNT/tour/big"
see 'stat -c %s /mnt/tour/big'

say '## It does not come back'
vm-link down
exec 7<"$MNT/"
see 'nfsrdma-fuse ctl /mnt abort'
exec 7<&-
see 'mountpoint /mnt'
until_true "the end" no_daemon
# shellcheck disable=SC2034 # of lib.sh
DAEMON=''
vm-link up
say '`umount -f /mnt` does the same. SEMANTICS.md says what each system call does meanwhile.'

say '## The daemon dies'
see 'nfsrdma-fuse nas:/ /mnt -o nconnect=2'
say 'Somebody kills it (`kill -KILL`).'
kill -KILL "$(daemon)"
until_true "the daemon is gone" no_daemon
see 'ls /mnt'
say 'The next mount in the same place replaces what is left of it:'
see 'nfsrdma-fuse nas:/ /mnt -o nconnect=2'
see 'ls /mnt/tour/file'
see 'umount /mnt'
until_true "the end" no_daemon

if [[ ${TOUR:-} ]]; then cp "$tour" "$TOUR"; fi
wanted=${BASH_SOURCE[0]%/*}/../../../doc/tour.md
diff -u "$wanted" "$tour" >"$TMPDIR/diff" || fail "it says something else than doc/tour.md (TOUR=FILE writes it anew): $(<"$TMPDIR/diff")"
