# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A server that comes late: the command waits (retry=), or goes to the background (bg); and what will never be is
# said at once.
has_gateway
options="vers=$VERS,$MOUNT_OPTIONS,port=20141"
now() { REPLY=$(( ${EPOCHREALTIME/./} / 1000 )); }
daemon_of() { pgrep -f "^$BIN .*port=20141" | head -n 1; }
no_daemon() { [[ ! $(daemon_of) ]]; }
trap 'end_all; pkill -KILL -f "^$BIN .*port=20141"' EXIT

# Without: at once. With retry=: when the server is there.
expect_error "" "$BIN" "$REMOTE" "$MNT" -o "$options"
"$BIN" "$REMOTE" "$MNT" -o "$options,retry=2" 2>"$TMPDIR/said" & command=$!
until_true "the first attempt" grep -q 'trying for 2 minutes' "$TMPDIR/said"
gateway_up 20141 "$NFSRDMA_SERVER"
wait $command || fail "a mount with retry=: $(<"$TMPDIR/said")"
is_mounted || fail "no mount with retry="
unmount && until_true "the end" no_daemon
gateway_down

# bg: the command ends, and the mount comes with the server.
now; from=$REPLY
"$BIN" "$REMOTE" "$MNT" -o "$options,bg" 2>"$TMPDIR/said" || fail "a mount with bg: $(<"$TMPDIR/said")"
now; at_most $(( REPLY - from )) 30000 "ms until the command with bg has ended"
grep -q 'trying for 10000 minutes' "$TMPDIR/said" || fail "it does not say that it tries again: $(<"$TMPDIR/said")"
is_mounted && fail "a mount without a server"
[[ $(daemon_of) ]] || fail "nobody is in the background"
gateway_up 20141 "$NFSRDMA_SERVER"
until_true "the mount in the background" is_mounted
ls "$MNT" >/dev/null || fail "the mount in the background"
unmount && until_true "the end" no_daemon
# It is there already: no difference. And what a script holds by a file that it has open does not stay for the mount.
exec 9>"$TMPDIR/lock"
flock 9
"$BIN" "$REMOTE" "$MNT" -o "$options,bg" || fail "bg, with a server"
exec 9>&-
flock -n "$TMPDIR/lock" true || fail "a script's lock is held by the mount"
is_mounted || fail "no mount with bg when the command had ended"
unmount && until_true "the end" no_daemon
# What will never be.
expect_error "/no/such/export" "$BIN" "${REMOTE%%:*}:/no/such/export" "$MNT" -o "$options,bg"
expect_error "/no/such/place" "$BIN" "$REMOTE" /no/such/place -o "$options,bg"
gateway_down

# What a daemon that was killed has left keeps programs off the directory below: it stays, until there is a mount to
# take its place.
gateway_up 20141 "$NFSRDMA_SERVER"
"$BIN" "$REMOTE" "$MNT" -o "$options" || fail "a mount whose daemon is to be killed"
kill -KILL "$(daemon_of)"
until_true "the end of the daemon" no_daemon
gateway_down
# is_dead WHEN
is_dead() { expect_error "Transport endpoint is not connected" ls "$MNT"; is_mounted || fail "the dead mount is gone after $1"; }
"$BIN" "$REMOTE" "$MNT" -o "$options" 2>"$TMPDIR/said" && fail "a mount without a server, in place of a dead one"
is_dead "a mount that has failed"
! grep -q 'had no daemon any more' "$TMPDIR/said" || fail "what was not done is said: $(<"$TMPDIR/said")"
"$BIN" "$REMOTE" "$MNT" -o "$options,bg" 2>/dev/null || fail "bg, in place of a dead mount"
is_dead "the command with bg"
gateway_up 20141 "$NFSRDMA_SERVER"
# For a moment there is none: the directory below can be listed.
is_alive() { ls "$MNT" >/dev/null 2>&1 && is_mounted; }
until_true "the mount in place of a dead one" is_alive
equal "$(grep -c " $MNT .* - fuse" /proc/self/mountinfo)" 1 "mounts after the replacement"
unmount && until_true "the end" no_daemon
gateway_down

# Who reads what the command says is not kept waiting until the server comes. In the background it ends by a signal.
# shellcheck disable=SC2016 # the shell's that reads
timeout 40 bash -c '"$@" 2>&1 | cat' bash "$BIN" "$REMOTE" "$MNT" -o "$options,bg" >"$TMPDIR/said"
equal $? 0 "the status of who reads what a command with bg says"
grep -q 'trying for' "$TMPDIR/said" || fail "what is read of a command with bg: $(<"$TMPDIR/said")"
kill -TERM "$(daemon_of)"
until_true "the end in the background" no_daemon
"$BIN" "$REMOTE" "$MNT" -o "$options,bg" 2>/dev/null || fail "a mount with bg"
kill -TERM "$(daemon_of)"
until_true "the end in the background" no_daemon

# Two commands for one place, as of a `mount -a` that is said twice, and for a directory that is removed while
# they wait.
mkdir "$TMPDIR/place"
commands=()
for n in 1 2 3; do
	place=$MNT
	(( n < 3 )) || place=$TMPDIR/place
	"$BIN" -f "$REMOTE" "$place" -o "$options,bg" 2>"$TMPDIR/said.$n" & commands+=($!)
	until_true "the attempt of command $n" grep -q 'trying for 10000 minutes' "$TMPDIR/said.$n"
done
rmdir "$TMPDIR/place"
# A file that somebody has put there meanwhile does not keep the mount away: nobody would try again.
echo hidden >"$MNT/file"
gateway_up 20141 "$NFSRDMA_SERVER"
# mounts_here - how many there are, one upon the other.
mounts_here() { grep -c " $MNT fuse" /proc/mounts; }
# all_but_one PID... - these have ended.
all_but_one() {
	local pid left=0
	for pid; do [[ ! -d /proc/$pid ]] || (( left++ )); done
	(( left <= 1 ))
}
# refused_by FILE TEXT - beside what is said of attempts and connections, that is one line with this text.
refused_by() {
	local said
	said=$(grep -vE 'trying for|: connection [0-9]|is not empty any more' "$1")
	[[ $said == "nfsrdma-fuse: $2"* && $said != *$'\n'* ]] || fail "no '$2', or more than that: $(<"$1")"
}
# one_of FILE... - one of these commands has mounted, and each of the others has said why it has not.
one_of() {
	local file mounted=0
	until_true "one mount" is_mounted
	until_true "a command says so" grep -q "is mounted on '$MNT'" "$@"
	for file; do
		if grep -q "is mounted on '$MNT'" "$file"; then (( mounted++ ));
		else refused_by "$file" "cannot mount on '$MNT': it is busy"; fi
	done
	equal "$mounted $(mounts_here)" "1 1" "commands that have mounted, and mounts"
	ls "$MNT" >/dev/null || fail "the mount of several commands"
	unmount && until_true "the end" no_daemon
	is_mounted && fail "a mount is left"
}
wait "${commands[2]}"; equal $? 32 "the status of the command whose directory was removed"
refused_by "$TMPDIR/said.3" "cannot mount on '$TMPDIR/place': No such file"
until_true "one of two commands with bg ends" all_but_one "${commands[@]}"
grep -q "'$MNT' is not empty any more" "$TMPDIR"/said.[12] || fail "nobody says that a file is hidden"
one_of "$TMPDIR"/said.[12]
equal "$(<"$MNT/file")" hidden "the file that was hidden"
rm "$MNT/file"
# At the same time.
for _ in {1..5}; do
	commands=()
	for n in 1 2 3 4; do "$BIN" -f "$REMOTE" "$MNT" -o "$options" 2>"$TMPDIR/said.$n" & commands+=($!); done
	until_true "all but one of the commands end" all_but_one "${commands[@]}"
	one_of "$TMPDIR"/said.[1-4]
done
# The look and the mount are one step for others of this program: who looks waits while another one is at it.
if [[ $(id -u) == 0 ]] && type flock >/dev/null 2>&1; then
	mkdir -m 700 /run/nfsrdma-fuse
	exec 7</run/nfsrdma-fuse
	flock 7
	"$BIN" -f "$REMOTE" "$MNT" -o "$options" 2>"$TMPDIR/said.1" 7<&- & command=$!
	until_true "it has heard the server" grep -q ': connection [0-9]' "$TMPDIR/said.1"
	nap 1
	is_mounted && fail "it does not wait for its turn"
	mount -t tmpfs none "$MNT" || fail "a mount of another kind"
	exec 7<&-
	wait $command; equal $? 32 "the status of the mount whose place was taken"
	refused_by "$TMPDIR/said.1" "cannot mount on '$MNT': it is busy"
	umount "$MNT" || fail "umount of the other kind"
	[[ ! -e /run/nfsrdma-fuse ]] || fail "its directory is left: $(ls -la /run/nfsrdma-fuse)"
fi
gateway_down
