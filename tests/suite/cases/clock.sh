# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The clock on the wall jumps under a mount, a day forward and two days back, while files are written, read and locked,
# and while nothing is done for longer than a lease: nothing is lost. Another mount, whose clock stays, sees it.
[[ $(id -u) == 0 ]] || skip "a second mount that others see takes root"
gcc -shared -fPIC -o "$TMPDIR/clock.so" "${BASH_SOURCE[0]%/*}/../jumping-clock.c" || fail "jumping-clock.c does not compile"
# There nobody may wait by that clock, which a machine's start sets while mounts are made.
# jumps SECONDS - from the right time. The file is mapped: it is never empty.
jumps() {
	perl -MFcntl -e 'sysopen(my $f, $ARGV[0], O_WRONLY | O_CREAT) or die; syswrite($f, pack("q", $ARGV[1])) == 8 or die' "$TMPDIR/off" "$1" ||
		fail "the clock"
}
jumps 0
other=$TMPDIR/other OTHER='' WRITER=''
mkdir "$other"
trap 'end_all; [[ ! $WRITER ]] || kill -KILL "$WRITER" 2>/dev/null
	[[ ! $OTHER ]] || kill -KILL "$OTHER" 2>/dev/null; umount -l "$other" 2>/dev/null' EXIT
JUMPING_CLOCK=$TMPDIR/off LD_PRELOAD=$TMPDIR/clock.so mount_up
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS" >>"$LOG.other" 2>&1 & OTHER=$!
until_true "the second mount" mountpoint -q "$other"

# Records, each on stable storage before the next one.
for (( n = 0; ; n++ )); do
	echo "record $n" >>"$WORK/records" && sync "$WORK/records" || break
	[[ $(tail -n 1 "$WORK/records") == "record $n" ]] || break
	echo "$n" >"$TMPDIR/written"
	nap 0.02
done 2>"$TMPDIR/writer" & WRITER=$!
goes_on() {
	local before
	kill -0 $WRITER 2>/dev/null || fail "$1: the writer ended: $(<"$TMPDIR/writer")"
	before=$(<"$TMPDIR/written")
	more() { (( $(<"$TMPDIR/written") > before + 20 )); }
	until_true "$1: records" more
}
exec 9>"$WORK/lock"
flock -n 9 || fail "a lock"
# off - by how many seconds the daemon's clock is, to a minute.
off() {
	local ns log
	rm -f "$TMPDIR/log" # the child empties it, and may be late
	"$BIN" ctl "$MNT" log --json >"$TMPDIR/log" 2>&1 & log=$!
	until_true "a line of its log" grep -q time_ns "$TMPDIR/log"
	kill $log; wait $log 2>/dev/null
	ns=$(grep -oEm1 '"time_ns": *[0-9]+' "$TMPDIR/log")
	echo $(( (${ns##*[: ]} / 1000000000 - $(date +%s) + 30 + 864000) / 60 * 60 - 864000 ))
}
still_locked() {
	equal "$(flock -n "$other/$CASE/lock" echo free)" "" "$1: the lock"
	flock -n "$WORK/mine" true || fail "$1: a new lock"
}
until_true "the first record" test -s "$TMPDIR/written"
for jump in 86400 -86400 0; do
	jumps $jump
	goes_on "by $jump s"
	equal "$(off)" "$jump" "seconds that the daemon's clock is off"
	still_locked "by $jump s"
	# Attributes are asked for again after their time, which is no day.
	stat "$WORK/mine" >/dev/null
	echo "$jump" >"$other/$CASE/mine"
	fresh() { [[ $(<"$WORK/mine") == "$jump" ]]; }
	until_true "by $jump s: what others have written" fresh
done
# Longer than a lease with nothing but the lock, and a jump in between.
kill -TERM $WRITER; wait $WRITER 2>/dev/null; WRITER=''
nap 6; jumps 86400; nap 12; still_locked "a day later"
jumps -86400; nap 12; still_locked "two days earlier"
equal "$(grep -ac "^record" "$other/$CASE/records")" "$(( $(tail -n 1 "$other/$CASE/records" | cut -d' ' -f2) + 1 ))" "records"
at_least "$(grep -ac "^record" "$other/$CASE/records")" "$(( $(<"$TMPDIR/written") + 1 ))" "records on the server"
[[ $(stat -c %y "$WORK/lock" ) == "$(stat -c %y "$SERVER_WORK/lock")" ]] || fail "the time of a file is this machine's"
grep -iE '(was|were) lost|recovered|not responding' "$LOG" >&2 && fail "what the log says"
exec 9>&-
equal "$(flock -w 20 "$other/$CASE/lock" echo free)" free "the lock that was given back"
mount_down
kill -TERM $OTHER; gone $OTHER; OTHER=''
