# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The daemon is told to end while a program's data is still here: a server that takes its time
# gets all of it; one that has gone does not keep the daemon from ending.
has_gateway
WRITER=''
trap 'end_all; [[ ! $WRITER ]] || kill -KILL $WRITER' EXIT

# begin PORT TIMEO - 512 KiB are held, the gateway stands still, and the daemon is told to end.
begin() {
	gateway_up "$1" "$NFSRDMA_SERVER"
	mount_up "port=$1,timeo=$2,lanes=1"
	mkdir -p "$WORK" && : >"$WORK/$1" || fail "$WORK"
	head -c 512K /dev/urandom >"$TMPDIR/written"
	# It closes nothing: that would wait for the server.
	perl -e 'my ($from, $to, $sign) = @ARGV; local $/; open(my $in, "<", $from); my $data = <$in>;
		sub sign { open(my $f, ">", "$sign.$_[0]"); close($f); }
		open(my $f, ">>", $to) or die; sign("open"); select(undef, undef, undef, 0.05) until -e "$sign.go";
		syswrite($f, $data) == length($data) or die "write: $!"; sign("done"); sleep(1000)' \
		"$TMPDIR/written" "$WORK/$1" "$TMPDIR/$1" &
	WRITER=$!
	until_true "open" test -e "$TMPDIR/$1.open"
	vm-root kill -STOP "$GATEWAY"
	: >"$TMPDIR/$1.go"
	until_true "write" test -e "$TMPDIR/$1.done"
	kill -TERM "$DAEMON"
}

# Longer than such a daemon waits for a server without a connection, or used to wait.
begin 20111 600
sleep 13
kill -0 "$DAEMON" 2>/dev/null || fail "given up: $(tail -n 2 "$LOG")"
vm-root kill -CONT "$GATEWAY"
gone "$DAEMON" || fail "still there a minute after the server has answered"
DAEMON=''
kill $WRITER; WRITER=''
cmp "$TMPDIR/written" "$SERVER_WORK/20111" || fail "not all of it is there: $(tail -n 2 "$LOG")"
gateway_down

# timeo ends the connection, and no other one comes.
begin 20112 30
gone "$DAEMON" || fail "still there after a minute without a server"
DAEMON=''
kill $WRITER; WRITER=''
grep -q 'bytes of written data were lost' "$LOG" || fail "nobody says what was lost: $(tail -n 2 "$LOG")"
gateway_down KILL

# The same for what a mapping has dirtied, and nothing holds: with noac, or in the write-back cache.
unheld=,noac
[[ $MOUNT_OPTIONS != *consistency=solo* ]] || unheld=''
mapped=${BIN%/src/*}/tests/vm-clients/mapped
# begin_mapped PORT TIMEO [BYTES scatter]
begin_mapped() {
	gateway_up "$1" "$NFSRDMA_SERVER"
	mount_up "port=$1,timeo=$2,lanes=1$unheld"
	: >"$TMPDIR/said"
	"$mapped" "$WORK/$1" "${3-$(( 4 << 20 ))}" "${4-hold}" >"$TMPDIR/said" & WRITER=$!
	until_true "a mapping is written" grep -q written "$TMPDIR/said"
	vm-root kill -STOP "$GATEWAY"
	kill -TERM "$DAEMON"
}
# The kernel has begun to send it all.
is_clean() { ! sed -n "\\|$WORK|,/VmFlags/p" /proc/$WRITER/smaps | grep -qE '_Dirty: +[1-9]'; }
if [[ -x $mapped ]]; then
	begin_mapped 20113 600
	sleep 3         # longer than the client waits for calls when it is taken down
	vm-root kill -CONT "$GATEWAY"
	gone "$DAEMON" || fail "still there a minute after the server has answered"
	DAEMON=''
	kill $WRITER; WRITER=''
	equal "$(tr -d -c m <"$SERVER_WORK/20113" | wc -c)" $(( 4 << 20 )) "bytes of a mapping"
	gateway_down

	begin_mapped 20114 30
	gone "$DAEMON" || fail "still there after a minute without a server, with dirty pages"
	DAEMON=''
	kill $WRITER; WRITER=''
	said="written through mappings may be lost.*(.*: no answer).* one is '$WORK/20114'"
	[[ $unheld ]] || said="$(( 4 << 20 )) bytes of written data were lost"
	grep -q "$said" "$LOG" || fail "nobody says what a mapping has lost: $(tail -n 2 "$LOG")"
	gateway_down KILL

	# Somebody aborts the connection: what stands in the kernel's queue never comes, the end of it neither.
	begin_mapped 20115 6000 $(( 2 * 6000 * $(getconf PAGESIZE) )) scatter
	until_true "the kernel sends what the mapping has dirtied" is_clean
	vm-root umount -f "$MNT"        # it is busy
	vm-root kill -CONT "$GATEWAY"
	gone "$DAEMON" || fail "still there a minute after umount -f"
	DAEMON=''
	kill $WRITER; WRITER=''
	said="written through mappings may be lost.*(.*: its connection was aborted).* one is '$WORK/20115'"
	[[ ! $unheld ]] || grep -q "$said" "$LOG" || fail "nobody says what umount -f has lost: $(tail -n 2 "$LOG")"
	gateway_down
fi
