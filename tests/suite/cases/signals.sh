# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2317
# SIGINT and SIGTERM before the mount is there: whoever falls silent, and at which
# step, the command ends, says so, and leaves nothing behind. Each step has a peer
# that is there and says nothing.
has_gateway
out=$TMPDIR/said COMMAND=''
trap 'end_all; [[ $COMMAND ]] && vm-root kill -KILL $COMMAND 2>/dev/null' EXIT

# next_gateway [FAULT] - one for a step, at a port of its own.
port=20100
next_gateway() {
	: >"$GATEWAY_LOG"
	gateway_up $(( ++port )) "$NFSRDMA_SERVER" ${1:+--fault "$1"}
}

# begin COMMAND... - as from a terminal: a shell's children in the background
# ignore SIGINT.
begin() {
	env --default-signal=INT,TERM "$@" >"$out" 2>&1 &
	COMMAND=$!
}

# wait_until WHAT TEST... - while COMMAND runs.
wait_until() {
	local i what=$1
	shift
	for (( i = 0; i < 600; i++ )); do
		"$@" && return
		[[ -d /proc/$COMMAND ]] || { "$@" && return; fail "$what: the command ended: $(<"$out")"; }
		nap 0.05
	done
	fail "$what: not reached in 30 s: $(<"$out")"
}

# stopped SIGNAL STEP - COMMAND is sent the signal, and has to end by it. Without,
# each of these steps goes on for a minute and longer.
stopped() {
	local i status sig=$1 step=$2
	kill -s "$sig" $COMMAND || fail "$step: no command: $(<"$out")"
	for (( i = 0; i < 400; i++ )); do [[ -d /proc/$COMMAND ]] || break; nap 0.05; done
	[[ -d /proc/$COMMAND ]] && fail "$step: still there 20 s after SIG$sig: $(<"$out")"
	wait $COMMAND; status=$?
	COMMAND=
	# The mount was there before the signal.
	[[ $status == 0 && ${3:-} == may-mount ]] && return 1
	(( status == 32 )) || fail "$step: status $status after SIG$sig: $(<"$out")"
	grep -q "given up before it was ready: SIG$sig" "$out" || fail "$step, SIG$sig: $(<"$out")"
	mountpoint -q "$MNT" && fail "$step: a mount is left"
	pgrep -f "^$BIN" >/dev/null && fail "$step: a process is left: $(pgrep -af "^$BIN")"
	echo "  $step: SIG$sig ends it"
}

options="vers=$VERS,$MOUNT_OPTIONS,retry=5,timeo=600,lanes=1"
sigs=(INT TERM) n=0
next_sig() { sig=${sigs[n++ % 2]}; }

# ---- The server's name and address (root: a network of their own) ----------------

silent=192.0.2.2
# in_silence COMMAND... - whatever is sent to $silent gets lost on the way.
in_silence() {
	# shellcheck disable=SC2016
	begin unshare --mount --net bash -c '
		ip link set lo up && ip link add v9 type veth peer name v8 && ip addr add 192.0.2.1/24 dev v9 &&
			ip link set v8 up && ip link set v9 up && ip neigh add "$1" lladdr 02:00:00:00:00:02 dev v9 || exit 99
		printf "nameserver %s\noptions timeout:30 attempts:5\n" "$1" >"$2/resolv.conf"
		printf "hosts: dns\n" >"$2/nsswitch.conf"
		for f in resolv.conf nsswitch.conf; do mount --bind "$2/$f" "/etc/$f" || exit 98; done
		shift 2
		exec "$@"' - $silent "$TMPDIR" "$@"
}
# asks PROTOCOL PORT STATE, in hexadecimal - has the command a socket to there?
asks() { grep -q ":$2 $3 " "/proc/$COMMAND/net/$1" 2>/dev/null; }
if [[ $(id -u) == 0 && -e /etc/resolv.conf ]]; then
	for mode in '' -f; do
		next_sig
		in_silence "$BIN" $mode server.example:/ "$MNT" -o "$options,fabric=iwarp"
		wait_until "name" asks udp 0035 01
		stopped "$sig" "a name server that is silent $mode"
	done
	next_sig
	in_silence "$BIN" $silent:/ "$MNT" -o "$options,fabric=iwarp"
	wait_until "address" asks tcp 4E51 02
	stopped "$sig" "an address where nobody is"
fi

# ---- The connection --------------------------------------------------------------

for mode in '' -f; do
	next_gateway
	vm-root kill -STOP $GATEWAY
	next_sig
	begin "$BIN" $mode "$REMOTE" "$MNT" -o "$options,port=$port"
	wait_until "connect" pgrep -f "^$BIN" >/dev/null
	sleep 1
	# Whoever answers there: no thread has more privileges than the mount keeps.
	[[ ! $mode ]] || for status in /proc/$COMMAND/task/*/status; do
		caps=$(awk '$1 == "CapPrm:" { print $2 }' "$status")
		(( (16#$caps & ~16#4400) == 0 )) || fail "a thread that waits for the server has capabilities: $caps"
	done
	stopped "$sig" "a server that does not accept $mode"
	gateway_down KILL
done

# ---- MOUNT over TCP --------------------------------------------------------------

if [[ $VERS == 3 && $MOUNT_OPTIONS == *fabric=iwarp* ]]; then
	next_gateway
	mountd=$port silenced=$GATEWAY
	vm-root kill -STOP $silenced
	next_gateway
	next_sig
	begin "$BIN" "$REMOTE" "$MNT" -o "$options,port=$port,mountport=$mountd"
	wait_until "mountd" asks tcp "$(printf '%04X' $mountd)" 01
	stopped "$sig" "a mountd that is silent"
	vm-root kill -KILL $silenced
	gateway_down KILL
fi

# ---- Each call of the mount, from the first on -----------------------------------

faulted() { grep -q 'fault delay at call' "$GATEWAY_LOG" || [[ ! -d /proc/$COMMAND ]]; }
for (( call = 1; call < 40; call++ )); do
	next_gateway "delay@$call/1=3600000"
	next_sig
	begin "$BIN" "$REMOTE" "$MNT" -o "$options,port=$port"
	wait_until "call $call" faulted
	if [[ -d /proc/$COMMAND ]]; then
		stopped "$sig" "a server that is silent from call $call on" may-mount || break
	else
		wait $COMMAND || fail "call $call: $(<"$out")"
		break
	fi
	gateway_down KILL
done
(( call > 3 && call < 40 )) || fail "the mount was there with call $call: $(<"$out")"
# The mount is through: the signal came too late, or there was none.
mountpoint -q "$MNT" || fail "status 0 and no mount"
unmount -l || fail "cannot unmount"
wait_gone() { ! pgrep -f "^$BIN" >/dev/null; }
for (( i = 0; i < 400; i++ )); do wait_gone && break; nap 0.05; done
wait_gone || fail "the daemon is still there 20 s after the unmount"
gateway_down KILL

# ---- The mount itself ------------------------------------------------------------

# What fusermount3 does in a directory that hangs.
if [[ $(id -u) == 0 && -x /usr/bin/fusermount3 ]]; then
	printf '#!/bin/sh\nexec sleep 600\n' >"$TMPDIR/fusermount3"
	chmod 755 "$TMPDIR" "$TMPDIR/fusermount3"
	mkdir -p "$TMPDIR/mnt"
	chown nobody "$TMPDIR/mnt"
	next_gateway
	next_sig
	# shellcheck disable=SC2016
	begin unshare --mount bash -c 'mount --bind "$1/fusermount3" /usr/bin/fusermount3 || exit 99; shift
		exec setpriv --reuid nobody --regid nogroup --clear-groups "$@"' - "$TMPDIR" \
		"$BIN" "$REMOTE" "$TMPDIR/mnt" -o "$options,port=$port"
	wait_until "fusermount3" pgrep -f '^sleep 600$' >/dev/null
	stopped "$sig" "a fusermount3 that hangs"
	pkill -f '^sleep 600$'
	gateway_down KILL
fi
exit 0
