# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The server dies while a program waits in one system call, for each of many: see
# doc/SEMANTICS.md. By turns it falls silent, or is gone. Then
#   - other mounts answer as ever,
#   - SIGKILL ends the program within 5 s,
#   - `umount -f`, or "ctl MOUNT abort", ends the mount and the daemon within 5 s,
#     and what waited for it,
#   - nothing is left, and a new mount on the same directory is made.
# WEDGE_ONLY: words; only these situations, of which one is "mount"; a guest, which is slow, has a few by itself, and
# so has consistency=solo.
# WEDGE_ALL=1: each in all ways, not in one.
has_gateway
waits=${BIN%/src/*}/tests/vm-clients/waits
[[ -x $waits ]] || skip "no $waits: make clients"
other=$TMPDIR/other PROGRAM='' other_daemon=''
trap 'end_all; [[ ! $PROGRAM ]] || kill -KILL "$PROGRAM" 2>/dev/null
	[[ ! $other_daemon ]] || kill -KILL "$other_daemon" 2>/dev/null
	vm-root umount -l "$other" 2>/dev/null' EXIT
amount 5000 15000
readonly port=20121 limit=$REPLY silences=(silent silent gone)
root=''; [[ $(id -u) != 0 ]] || root=1

now() { local t=${EPOCHREALTIME/./}; REPLY=$(( t / 1000 )); }
# wait_for WHAT TEST... - sets REPLY to the milliseconds that it took; a case that takes four times the limit
# has failed.
wait_for() {
	local what=$1 from
	shift
	now; from=$REPLY
	until "$@"; do
		now
		(( REPLY - from < 4 * limit )) || fail "$situation: $what: not in $(( REPLY - from )) ms; $(tail -n 2 "$LOG")"
		nap 0.02
	done
	now; REPLY=$(( REPLY - from ))
}
# A zombie may have threads that still have its files open.
ended() {
	local tasks
	kill -0 "$1" || return 0
	tasks=(/proc/"$1"/task/*)
	[[ $(<"/proc/$1/stat") == *") Z "* && ${#tasks[@]} == 1 ]]
} 2>/dev/null
# One thread of a busy machine's may still run when another one has stopped.
stopped() { ! grep -L '^State:.*T (stopped)' /proc/"$1"/task/*/status | grep -q .; }
no_mount() { ! is_mounted; }
no_daemon() { ! pgrep -f "^$BIN .*port=$port" >/dev/null; }

# What is there is the server's doing, so that no cache of ours knows it.
files_anew() {
	# shellcheck disable=SC2016 # the server's
	vm-server bash -c 'cd "$NFSRDMA_EXPORT/wedge" && rm -rf -- * && mkdir d && touch d/{from,gone,1,2,3} &&
		head -c 2M /dev/zero >big && echo x >small && ln -s small link && cp /bin/true prog && chmod -R a+rwX . && chmod 755 prog' ||
		fail "files on the server"
}

# The other mount's server is well. Sets others.
other_answers() {
	local from
	now; from=$REPLY
	ls "$other" >/dev/null && df "$other" >/dev/null || fail "$situation: the other mount"
	now; others=$(( REPLY - from ))
	(( others <= most[other] )) || most[other]=$others
}

# Nobody used the mount any more: then umount -f ends it as umount does, and what was written and is not on
# the server's disk waits for the server, of which the log speaks.
ends_or_saves() {
	ended "$DAEMON" && return
	[[ $1 == force ]] && tail -n 1 "$LOG" | grep -q 'waiting until .* has stored' || return
	kill -KILL "$DAEMON"
	saves=1
}

# end_mount HOW - and nothing is left. Sets took.
end_mount() {
	local from
	saves=''
	now; from=$REPLY
	case $1 in
	force) vm-root umount -f "$MNT" 2>/dev/null ;;      # busy: it says so, and the rest is the daemon's
	abort) "$BIN" ctl "$MNT" abort >"$TMPDIR/aborted" 2>&1 || fail "$situation: abort: $(<"$TMPDIR/aborted")" ;;
	esac
	wait_for "no mount after $1" no_mount
	now; took=$(( REPLY - from ))
	wait_for "no daemon after $1" ends_or_saves "$1"
	now; [[ $saves ]] || took=$(( REPLY - from ))
	wait "$DAEMON" 2>/dev/null; DAEMON=''
	(( took <= limit )) || fail "$situation: the mount has ended $took ms after $1: $(tail -n 2 "$LOG")"
	(( took <= most[$1] )) || most[$1]=$took
}

# one SITUATION HOW SILENCE END - HOW the mount ends: force or abort; SILENCE: the server is stopped, or gone;
# END: the program is killed before, or stays.
one() {
	situation="$1, $2, $3" killed=-
	files_anew
	mount_up "port=$port,lanes=1"
	exec {to}> >(exec "$waits" "$WORK" "$1" >"$TMPDIR/waits" 2>&1) || fail "no program"
	PROGRAM=$!
	until_true "$1: ready" grep -q ready "$TMPDIR/waits"
	case $3 in
	silent) vm-root kill -STOP "$GATEWAY" ;;
	gone) gateway_down KILL ;;
	esac
	echo >&"$to"
	exec {to}>&-
	nap 0.7
	other_answers
	if [[ $4 == kill ]]; then
		# With its children: who waits for a lock of the kernel's that another one has waits for that one.
		pkill -KILL -P "$PROGRAM"; kill -KILL "$PROGRAM" 2>/dev/null
		wait_for "SIGKILL" ended "$PROGRAM"
		killed=$REPLY
		(( killed <= limit )) || fail "$situation: it has ended $killed ms after SIGKILL"
		(( killed <= most[kill] )) || most[kill]=$killed
	fi
	end_mount "$2"
	[[ $4 == kill ]] || wait_for "the program's end" ended "$PROGRAM"
	PROGRAM=''
	printf '# %-13s %-6s %-5s: another mount %4d ms, SIGKILL %5s ms, end %5d ms, %s\n' "$1" "$3" "$2" "$others" "$killed" "$took" \
		"$(tail -n 1 "$TMPDIR/waits")"
	case $3 in
	silent) vm-root kill -CONT "$GATEWAY" ;;
	gone) gateway_up $port "$NFSRDMA_SERVER" ;;
	esac
}

# tell WHAT MS - a line of the table.
tell() {
	(( $2 <= limit )) || fail "$1: $2 ms"
	printf '# %s: %d ms\n' "$1" "$2"
}

# Who looks up a name, or lists a directory, while another program that stays does the same there, is ended
# by SIGKILL all the same.
beside() {
	local pair at stay=() killed=() longest=0
	vm-server bash -c 'cd "$NFSRDMA_EXPORT/wedge" && for n in 0 1 2 3; do mkdir -p n$n && touch n$n/{a,b} || exit; done; chmod -R a+rwX n?' ||
		fail "directories on the server"
	mount_up "port=$port,lanes=1"
	for at in 0 1 2 3; do stat "$WORK/n$at" >/dev/null || fail stat; done
	vm-root kill -STOP "$GATEWAY"
	at=0
	for pair in "stat a:stat b" "stat a:ls" "ls:stat b" "ls:ls"; do
		look "$WORK/n$at" "${pair%:*}" & stay+=($!)
		nap 0.5
		look "$WORK/n$at" "${pair#*:}" & killed+=($!)
		(( at++ )) || true
	done
	nap 0.5
	for at in "${!killed[@]}"; do
		! ended "${stay[at]}" && ! ended "${killed[at]}" || fail "$situation, $at: one does not wait for the server"
		kill -KILL "${killed[at]}"
		wait_for "SIGKILL, $at" ended "${killed[at]}"
		(( REPLY <= longest )) || longest=$REPLY
		! ended "${stay[at]}" || fail "$situation, $at: the other one has ended, too"
	done
	tell "SIGKILL, beside another in its directory" "$longest"
	kill -KILL "${stay[@]}"
	end_mount abort
	vm-root kill -CONT "$GATEWAY"
}
# look DIRECTORY WHAT... - as this process.
look() {
	cd / || exit
	case $2 in
	ls) exec ls -U "$1" ;;
	*) exec stat "$1/${2#stat }" ;;
	esac >/dev/null 2>&1
}

# The mount's own begin and end.
the_mount() {
	local from
	situation='mount'
	vm-root kill -STOP "$GATEWAY"
	"$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,port=$port" >/dev/null 2>&1 & PROGRAM=$!
	nap 0.7
	kill -KILL "$PROGRAM"
	wait_for "its daemon ends" no_daemon
	tell "mount, SIGKILL" "$REPLY"
	vm-root kill -CONT "$GATEWAY"

	situation='umount'
	mount_up "port=$port,lanes=1"
	ls "$MNT" >/dev/null
	vm-root kill -STOP "$GATEWAY"
	now; from=$REPLY
	unmount || fail "umount, of a silent server's"
	wait_for "the daemon's end" ended "$DAEMON"
	now; tell "umount" $(( REPLY - from ))
	vm-root kill -CONT "$GATEWAY"

	situation='beside another in its directory'
	beside

	situation='a daemon that is killed'
	mount_up "port=$port,lanes=1"
	perl -e 'chdir($ARGV[0]) or die; open(my $f, ">", $ARGV[1]); close($f); sleep(1000)' "$WORK" "$TMPDIR/inside" & PROGRAM=$!
	until_true "a program is inside" test -e "$TMPDIR/inside"
	kill -KILL "$DAEMON"
	wait_for "the daemon's end" ended "$DAEMON"
	expect_error "Transport endpoint is not connected" ls "$MNT"
	"$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,port=$port" 2>"$TMPDIR/again" || fail "the new mount: $(<"$TMPDIR/again")"
	ls "$WORK" >/dev/null || fail "the new mount"
	grep -q 'had no daemon any more' "$TMPDIR/again" || fail "nobody says what was there: $(<"$TMPDIR/again")"
	equal "$(grep -c " $MNT " /proc/self/mountinfo)" 1 "mounts on $MNT"
	kill -KILL "$PROGRAM"; PROGRAM=''
	DAEMON=$(pgrep -f "^$BIN .*$MNT") || fail "no daemon of the new mount"

	situation='a daemon that is stopped'
	kill -STOP "$DAEMON"
	wait_for "it has stopped" stopped "$DAEMON"
	now; from=$REPLY
	"$BIN" ctl "$MNT" abort 2>"$TMPDIR/aborted" || fail "abort: $(<"$TMPDIR/aborted")"
	wait_for "no mount" no_mount
	now; tell "abort, of a daemon that is stopped" $(( REPLY - from ))
	grep -q 'has not answered' "$TMPDIR/aborted" || fail "nobody says that the daemon does not answer: $(<"$TMPDIR/aborted")"
	grep -q "end its daemon: kill -KILL $DAEMON\$" "$TMPDIR/aborted" || fail "nobody says which process it is ($DAEMON): $(<"$TMPDIR/aborted")"
	kill -KILL "$DAEMON"
	DAEMON=''
}

[[ $NFSRDMA_KERNEL == ganesha ]] || : "${WEDGE_ONLY:=read fsync-behind munmap lock rename statfs mount}"
# What is another's with the kernel's write-back cache.
[[ $MOUNT_OPTIONS != *consistency=solo* ]] || : "${WEDGE_ONLY:=read write-direct close fsync exit-written exit-mapped munmap truncate}"
declare -A most=([other]=0 [kill]=0 [force]=0 [abort]=0)
mkdir -p "$other"
"$BIN" "$REMOTE" "$other" -o "vers=$VERS,${MOUNT_OPTIONS/,consistency=solo},noac" || fail "another mount"
other_daemon=$(pgrep -f "^$BIN .*$other") || fail "no daemon of the other mount"
gateway_up $port "$NFSRDMA_SERVER"
hows=(force abort) ends=(kill stay) n=0
# The rows of run-all do all ways together.
case $VERS,$MOUNT_OPTIONS in *consistency=solo*) turn=3 ;; 3,*) turn=1 ;; 4.2,*) turn=2 ;; *) turn=0 ;; esac
[[ $root ]] || hows=(abort abort)
for name in $("$waits" --list); do
	[[ ! ${WEDGE_ONLY:-} || " $WEDGE_ONLY " == *" $name "* ]] || continue
	for m in ${WEDGE_ALL:+0 1 2} $(( (n + turn) % 4 )); do
		# Such a mount's locks are the kernel's: who waits for one waits for its holder, mount or none.
		[[ $name != lock-wait || $MOUNT_OPTIONS != *consistency=solo* ]] || (( m &= 2 ))
		one "$name" "${hows[m / 2 % 2]}" "${silences[n % 3]}" "${ends[m % 2]}"
	done
	(( n++ ))
done
[[ " ${WEDGE_ONLY:-mount} " != *" mount "* ]] || the_mount
echo "# the longest: another mount ${most[other]} ms, SIGKILL ${most[kill]} ms, umount -f ${most[force]} ms, ctl abort ${most[abort]} ms"
at_most "${most[other]}" 2000 "ms that another mount was held up"
