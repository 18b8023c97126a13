# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2120 # for the cases
# lib.sh - what every case has: a mount, comparisons that say what differs,
# counters. Sourced by in-guest before the case.

# fail MESSAGE - ends the case.
fail() { echo "FAIL: $*" >&2; exit 1; }
skip() { echo "SKIP: $*" >&2; exit 77; }

MNT=$NFSRDMA_MNT
EXPORT=$NFSRDMA_EXPORT          # the server's own view
STATS=$TMPDIR/stats
LOG=$TMPDIR/daemon.log
[[ $VERS == 3 ]] && REMOTE=$NFSRDMA_SERVER:${NFSRDMA_V3_PATH:-$NFSRDMA_EXPORT} || REMOTE=$NFSRDMA_SERVER:/
# Where the case works, on both sides. Every case has its own folder.
WORK=$MNT/$CASE
SERVER_WORK=$EXPORT/$CASE

: "${MOUNT_OPTIONS:=lanes=2}"

# Limits are a guard against what never comes: on a busy machine anything takes its time.

# amount HERE GUEST - sets REPLY to how much is to be done: with a guest, which is
# emulated, everything takes ten times as long.
amount() { case $NFSRDMA_KERNEL in ganesha) REPLY=$1 ;; *) REPLY=$2 ;; esac; }

# nap SECONDS - without a program, which takes a guest longer to start than to sleep.
[[ -p $HOME/never ]] || mkfifo "$HOME/never"
nap() { read -rt "$1" <>"$HOME/never"; }

# gone PID - waits until a process has ended. False: not in a minute.
gone() {
	local i
	for (( i = 0; i < 1200; i++ )); do
		kill -0 "$1" 2>/dev/null || return 0
		nap 0.05
	done
	return 1
}

# until_true WHAT TEST... - waits until a command succeeds.
until_true() {
	local i what=$1
	shift
	for (( i = 0; i < 1200; i++ )); do
		"$@" && return
		nap 0.1
	done
	fail "$what: not in two minutes"
}

# in_time SECONDS COMMAND... - a command that may wait in the kernel, where no signal
# ends it: then the case fails and says for what, and who has RDMA devices. It holds
# none of our files open, because who reads them would wait, too.
in_time() {
	local limit=$1 said=$TMPDIR/in_time pid i kind
	shift
	"$@" >"$said" 2>&1 & pid=$!
	for (( i = 0; i < limit * 10; i++ )); do
		kill -0 $pid 2>/dev/null || break
		nap 0.1
	done
	if ! kill -0 $pid 2>/dev/null; then
		wait $pid || fail "'$*': status $?: $(<"$said")"
		return
	fi
	for kind in cm_id qp pd; do rdma resource show $kind >"$said.$kind" 2>&1 & done
	# shellcheck disable=SC2016 # of that shell
	vm-root bash -c 'for task in /proc/[0-9]*; do
			stack=$(cat "$task/stack" 2>/dev/null)
			case $stack in *rdma*|*cma_*|*ib_*|*svc*) printf "%s %s:\n%s\n" "${task#/proc/}" "$(<"$task/comm")" "$stack" ;; esac
		done
		echo w >/proc/sysrq-trigger' >&2
	grep -H . "$said".* >&2
	fail "'$*' does not end in $limit s: it waits in the kernel, for what is said above"
}

# is_mounted - the mount is in this process's table.
is_mounted() {
	local mounts
	mapfile -t mounts </proc/self/mountinfo
	[[ "${mounts[*]}" == *" $MNT "* ]]
}

# mount_up [OPTIONS] - mounts; the daemon stays in the foreground, as our
# child, so that its messages and its end can be seen. It says when all of it is there, ctl
# and rings, too: a little later than the mount.
mounts_said() { grep -c "' is mounted on '" "$LOG" 2>/dev/null; }
mount_up() {
	local before
	before=$(mounts_said)
	"$BIN" -f "$REMOTE" "$MNT" -o "vers=$VERS,stats=$STATS,$MOUNT_OPTIONS${1:+,$1}" \
		>>"$LOG" 2>&1 &
	DAEMON=$!
	local i
	for (( i = 0; i < 2400; i++ )); do
		is_mounted && break
		kill -0 $DAEMON 2>/dev/null || { cat "$LOG" >&2; fail "the daemon ended before the mount was there"; }
		nap 0.05
	done
	mountpoint -q "$MNT" || fail "no mount after two minutes"
	says_more() { (( $(mounts_said) > ${before:-0} )); }
	until_true "the daemon says that it is mounted" says_more
}

# unmount [-l] - as the user can; -l: lazily.
unmount() {
	if [[ $(id -u) == 0 ]]; then umount ${1:+-l} "$MNT"; else fusermount3 -u ${1:+-z} "$MNT"; fi
}

# mount_down - unmounts, and sees that the daemon ends well.
mount_down() {
	local status
	unmount || fail "cannot unmount: $(vm-root fuser -vm "$MNT" 2>&1)"
	gone $DAEMON || { kill -ABRT $DAEMON; fail "the daemon still runs a minute after the unmount"; }
	wait $DAEMON; status=$?
	DAEMON=
	(( status == 0 )) || { cat "$LOG" >&2; fail "the daemon ended with status $status"; }
	if grep -E 'ERROR: (Address|Leak|Thread)Sanitizer|runtime error' "$LOG" >&2; then fail "a sanitizer complained"; fi
	# The program's list of system calls is kept by this: see src/sandbox.h.
	if grep -E 'system call .* was refused|keeps privileges' "$LOG" >&2; then fail "the list of system calls"; fi
}

# ---- A gateway of the case's own ----

GATEWAY=''                              # the one that was started last
GATEWAY_LOG=$TMPDIR/gateway.log         # what they say, one behind the other

# has_gateway - or the case is skipped.
has_gateway() {
	GATEWAY_BIN=${HOST_GATEWAY:-${BIN%/src/*}/src/gateway/nfsrdma-gateway}
	[[ -x $GATEWAY_BIN ]] || skip "no $GATEWAY_BIN"
	: >"$GATEWAY_LOG"
}

# gateway_up PORT SERVER [ARG...] - it listens at that port of $NFSRDMA_SERVER, by iWARP if the mounts
# do, without a --fabric of its own. Root's, who has no limit of locked memory.
gateway_up() {
	local i lines fabric=()
	[[ ${HOST_GATEWAY:-} || $MOUNT_OPTIONS == *fabric=iwarp* ]] && fabric=(--fabric iwarp)
	lines=$(grep -c 'listening on' "$GATEWAY_LOG")
	vm-root "$GATEWAY_BIN" -v -l "$NFSRDMA_SERVER:$1" "${fabric[@]}" "${@:3}" "$2" 2>>"$GATEWAY_LOG" &
	GATEWAY=$!
	for (( i = 0; i < 1200; i++ )); do
		(( $(grep -c 'listening on' "$GATEWAY_LOG") > lines )) && return
		[[ -d /proc/$GATEWAY ]] || break
		nap 0.05
	done
	fail "the gateway does not start: $(tail -n 3 "$GATEWAY_LOG")"
}

# gateway_down [KILL] - it ends well when it is told to; KILL: it may be stopped, and is
# not asked.
gateway_down() {
	local status
	vm-root kill -s "${1:-TERM}" "$GATEWAY"
	wait "$GATEWAY" 2>/dev/null; status=$?
	GATEWAY=
	[[ ${1:-} == KILL ]] || (( status == 0 )) ||
		fail "the gateway ended with status $status: $(tail -n 3 "$GATEWAY_LOG")"
}

# watched_up PORT [OPTIONS] - a mount by such a gateway, for a case that looks at it by ctl and python3.
ctl() { timeout 60 "$BIN" ctl "$@"; }
watched_up() {
	has_gateway
	trap end_all EXIT
	type python3 >/dev/null 2>&1 || skip "no python3"
	gateway_up "$1" "$NFSRDMA_SERVER"
	mount_up "port=$1${2:+,$2}"
}

# end_all - what the case has started, however it ends: for a trap on EXIT.
end_all() {
	[[ ! $GATEWAY ]] || vm-root kill -KILL "$GATEWAY" 2>/dev/null
	[[ ! ${DAEMON:-} ]] || kill -KILL "$DAEMON" 2>/dev/null
}

# stats_now - the running daemon writes its counters. (It makes the file anew.)
stats_now() {
	local i
	[[ ! -s $STATS ]] || { : >"$STATS"; } 2>/dev/null || rm -f "$STATS"
	kill -USR1 "$DAEMON"
	for (( i = 0; i < 1200; i++ )); do
		[[ -s $STATS ]] && return
		nap 0.05
	done
	fail "no statistics in a minute"
}

# stat_now NAME - a counter of the running daemon.
stat_now() { stats_now; stat_last "$1"; }

# stat_sum NAME... - sets REPLY to the sum of these, as written last; 0 where there is none.
stat_sum() {
	local name value sum=0
	while read -r name value _; do
		[[ " $* " != *" $name "* ]] || (( sum += value ))
	done <"$STATS"
	REPLY=$sum
}

# stat_last NAME - a counter as written last.
stat_last() {
	local name value
	while read -r name value _; do
		[[ $name != "$1" ]] || { echo "$value"; return; }
	done <"$STATS"
	fail "no counter $1 in the statistics"
}

# same FILE FILE - same bytes. (A guest takes 30 times as long for SHA-256.)
same() {
	local said
	said=$(cmp "$1" "$2" 2>&1) || fail "$said; sizes $(stat -c %s "$1" "$2" | tr '\n' ' ')"
}

# random FILE BYTES - repeatable noise that does not compress, made quickly.
random() {
	openssl enc -aes-128-ctr -pass "pass:$2$1" -nosalt -pbkdf2 -iter 1 </dev/zero 2>/dev/null |
		head -c "$2" >"$1"
}

# expect_error TEXT COMMAND... - it fails and says so.
expect_error() {
	local text=$1 out status
	shift
	out=$(LC_ALL=C "$@" 2>&1); status=$?
	(( status != 0 )) || fail "'$*' succeeded, '$text' was expected"
	[[ $out == *"$text"* ]] || fail "'$*' said '$out', not '$text'"
}

# clients - those of version 4 that knfsd remembers, where it is this machine's.
clients() { vm-root ls /proc/fs/nfsd/clients 2>/dev/null; }

# equal GOT WANT WHAT
equal() { [[ $1 == "$2" ]] || fail "$3: '$1', not '$2'"; }
# at_most GOT LIMIT WHAT
at_most() { (( $1 <= $2 )) || fail "$3: $1, more than $2"; }
at_least() { (( $1 >= $2 )) || fail "$3: $1, less than $2"; }

# kernel_forgets - of the mount, all files that nobody has open: a remount that
# changes nothing empties the caches of names and inodes, of this mount alone. Not
# by mount(8): its later versions say more than the kernel wants to hear.
kernel_forgets() {
	local call
	case $(uname -m) in x86_64) call=165 ;; *) call=40 ;; esac
	vm-root perl -e '
		my ($call, $at) = @ARGV; my $none = "";
		# MS_REMOUNT | MS_NOSUID | MS_NODEV
		syscall($call + 0, $none, $at, $none, 32 | 2 | 4, $none) == 0 or die "remount of $at: $!\n";
	' "$call" "$MNT" || fail "the kernel cannot be made to forget"
}
