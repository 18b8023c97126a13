# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Delegations of files that are read: the server gives them, nothing is asked for or opened under them, the
# server has them back at once when somebody else changes the file, and at the end none is left. Linux gives
# none in its grace period, nor of files that were recalled in the last half a minute: it knows these by a few
# bits of their hashes, and so some others get none either.
# shellcheck source-path=SCRIPTDIR source=../delegations.sh
. "${BASH_SOURCE[0]%/*}/../delegations.sh"
other=$TMPDIR/other
mkdir "$other"
trap 'end_all; umount -l "$other" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
# This mount's of files: the other one asks for none. (A directory's path is one from the root.)
delegations() { states 'type: deleg' 'filename: "/'; }
none() { (( $(delegations) == 0 )); }
gives() { echo "$1" >"$SERVER_WORK/file.$1"; cat "$WORK/file.$1" >"$TMPDIR/read" && (( $(delegations) > 0 )); }
gives_one() { gives "$(( ++nr ))"; }

write_to() { echo "$2" >"$1"; }
append_to() { echo "$2" >>"$1"; }

# ---- opens make no call ----

# all - sets REPLY to the calls of the kinds that a program waits for. (What is idle for long goes back meanwhile.)
all() { stats_now; stat_sum rpc.{LOOKUP,OPEN,READ,GETATTR,ACCESS}; }
# The kernel tells of a close() later: what came before is over.
quiet() {
	local last i
	all
	for (( i = 0; i < 100; i++ )); do
		last=$REPLY
		nap 0.6
		all
		[[ $REPLY != "$last" ]] || break
	done
}
# does COMMAND... - sets `took` to how many calls it takes, and `kinds` to all counters before it.
does() {
	local before
	quiet
	before=$REPLY
	mapfile -t kinds <"$STATS"
	"$@" >/dev/null || fail "$*"
	all
	took=$(( REPLY - before ))
}
# costs CALLS COMMAND...
# What is believed, and a delegation that nobody uses, end with the lease, which is 10 s here; a guest among others
# may take as long for the question. So what costs nothing may cost something at first.
costs() {
	local took kinds i
	for (( i = 0; i < 5; i++ )); do
		does "${@:2}"
		(( $1 != 0 || took == 0 )) || continue
		break
	done
	has_cost "$1" "${@:2}"
}
# has_cost CALLS COMMAND...
has_cost() { (( took == $1 )) || fail "'${*:2}' took $took calls, not $1: $(printf '%s\n' "${kinds[@]}" | diff - "$STATS" | grep '[<>] rpc')"; }
# This mount's OPENs at the server.
opens() { states 'type: open'; }

mount_up deleg,acregmin=600,acregmax=600,acdirmin=600,acdirmax=600
printf %4096s '' >"$TMPDIR/4k"
reads() { local all; read -rN 4096 all <"$1" && (( ${#all} == 4096 )); }
has_one() {
	local before
	before=$(delegations)
	cp "$TMPDIR/4k" "$SERVER_WORK/open.$(( ++nr ))" && cp /bin/true "$SERVER_WORK/run.$nr" &&
		cat "$WORK/open.$nr" "$WORK/run.$nr" >"$TMPDIR/read" && (( $(delegations) == before + 2 ))
}
nr=0
until_true "delegations of two files" has_one
file=$WORK/open.$nr
costs 0 reads "$file"
costs 0 stat -c %s "$file"
# It asks for attributes; after a READ that may be a call, because of the time of access.
cat "$file" >/dev/null || fail cat
costs 0 cat "$file"
costs 0 cat "$file"
# Nor is it closed. (What was closed before may be on its way still.)
before=$(calls CLOSE)
for (( i = 0; i < 5; i++ )); do costs 0 reads "$file"; done
at_most $(( $(calls CLOSE) - before )) 3 "CLOSEs of a file that is opened five times"
# At the same time: one OPEN more, if not two have been open at a time before. (The kernel tells of a close() later.)
exec 3<"$file" || fail open
does cat "$file"
at_most "$took" 1 "calls of a second open"
exec 3<&-
costs 0 cat "$file"
costs 0 cat "$file"
# (The kernel tells of the end of an open later: who opens the file at once may come before that.)
before=$(calls OPEN)
cat "$file" "$file" "$file" "$file" >/dev/null || fail cat
at_most $(( $(calls OPEN) - before )) 2 "OPENs of a file that is opened four times at once"
# The first OPEN has asked whether its user may execute it as well.
"$WORK/run.$nr" || fail "run"
costs 0 "$WORK/run.$nr"
# A new file: LOOKUP; and then OPEN and READ. If it gets a delegation, the rest is for nothing.
uncached() {
	local took kinds has
	cp "$TMPDIR/4k" "$SERVER_WORK/new.$(( ++nr ))"
	has=$(delegations)
	costs 1 stat -c %s "$WORK/new.$nr"
	does reads "$WORK/new.$nr"
	(( $(delegations) > has )) || return
	has_cost 2 "a first open"
}
until_true "a delegation of a new file" uncached
costs 0 reads "$WORK/new.$nr"
costs 0 reads "$WORK/new.$nr"
# Its data or its name are another's, although the kernel would not ask for ten minutes; who has the file open
# has that one still.
for (( i = 0; i < 6; i++ )); do
	until_true "delegations of two files" has_one
	file=open.$nr
	costs 0 reads "$WORK/$file"
	exec 3<"$WORK/$file"
	case $(( i % 3 )) in
	0) in_time 30 write_to "$SERVER_WORK/$file" new ;;
	1) echo new >"$SERVER_WORK/tmp" && in_time 30 mv "$SERVER_WORK/tmp" "$SERVER_WORK/$file" ;;
	2) in_time 30 mv "$SERVER_WORK/$file" "$SERVER_WORK/moved" && echo new >"$SERVER_WORK/$file" ;;
	esac || fail "$i"
	equal "$(<"$WORK/$file")" new "what others have made of $file"
	(( i % 3 == 0 )) || cmp - "$TMPDIR/4k" <&3 || fail "what was opened before"
	exec 3<&-
	in_time 30 rm "$SERVER_WORK/$file" || fail rm
	[[ ! $(cat "$WORK/$file" 2>/dev/null) ]] || fail "a file that was removed is opened"
done
# Those that nobody uses are closed when the server wants the delegations back.
for (( i = 0; i < 50; i++ )); do echo $i >"$SERVER_WORK/kept.$i"; done
cat "$WORK"/kept.* >/dev/null || fail "cat of fifty files"
at_least "$(opens)" 20 "OPENs that stay"
in_time 60 rm "$SERVER_WORK"/kept.* || fail "rm"
rm -f "$WORK"/{open,run,new}.* || fail "rm of the others"
nothing_open() { (( $(opens) == 0 )); }
until_true "all closed" nothing_open
for (( i = 0; i < 50; i++ )); do echo $i >"$SERVER_WORK/kept.$i"; done
cat "$WORK"/kept.* >/dev/null || fail "cat of fifty files"
mount_down
equal "$(grep -l nfsrdma-fuse "$clients"/*/info 2>/dev/null | wc -l)" 0 "clients after an unmount with OPENs that stay"
rm -f "$SERVER_WORK"/kept.*

# ---- attributes ----

mount_up deleg,acregmin=1,acregmax=1
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS,nodeleg" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"
nr=0
until_true "a delegation" gives_one

# ---- nothing is asked for ----

file=$WORK/file.$nr there=$other/$CASE/file.$nr
exec 3<"$file" || fail open
stat - <&3 >/dev/null || fail stat
stat - <&3 >/dev/null
# (A guest among others that did not run for some seconds may have to ask again what it believes.)
asks_nothing() {
	local before i
	before=$(calls GETATTR)
	for (( i = 0; i < 10; i++ )); do nap 0.5; stat - <&3 >/dev/null || fail stat; done
	(( $(calls GETATTR) == before ))
}
for (( n = 0; n < 5; n++ )); do ! asks_nothing || break; done
at_most "$n" 4 "times five seconds in which a file with a delegation was asked for"
cat <&3 >/dev/null
nap 1.1
equal "$(stat -c %X - <&3)" "$(stat -c %X "$SERVER_WORK/file.$nr")" "atime"

# ---- somebody else changes it ----

in_time 30 append_to "$there" more
equal "$(delegations)" 0 "delegations that the server has after a recall"
same "$file" "$there"
nap 1.1
equal "$(stat -c %s - <&3)" "$(stat -c %s "$SERVER_WORK/file.$nr")" "size after others have written"
exec 3<&-
# Each other's data, at once, and the server's own programs' as well.
for (( i = 0; i < 10; i++ )); do
	until_true "a delegation" gives_one
	file=file.$nr by=$other/$CASE
	(( i % 2 )) || by=$SERVER_WORK
	in_time 30 write_to "$by/$file" new
	equal "$(<"$WORK/$file")" new "what is read after $by has written"
	in_time 30 chmod 600 "$by/$file"
done
at_least "$(calls DELEGRETURN)" 10 "DELEGRETURNs"
# Many, and their files are removed by the server, and here.
for (( i = 0; i < 100; i++ )); do echo $i >"$SERVER_WORK/many.$i"; done
cat "$WORK"/many.* >/dev/null || fail "cat"
at_least "$(delegations)" 50 "delegations of a hundred files"
in_time 60 rm -f "$SERVER_WORK"/many.{0..49}
cat "$WORK"/many.{50..99} >/dev/null || fail "cat of the others"
rm "$WORK"/many.{50..99} "$WORK"/file.* || fail rm
until_true "none of a file that is gone" none

# ---- the server wants some back, or restarts ----

for (( i = 0; i < 30; i++ )); do echo $i >"$SERVER_WORK/any.$i"; done
cat "$WORK"/any.* >/dev/null || fail "cat"
at_least "$(delegations)" 5 "delegations of thirty files"
# Its shrinker sends CB_RECALL_ANY, to a client once in five seconds.
recalled() { echo 2 >/proc/sys/vm/drop_caches; none; }
until_true "all of closed files, when memory is short" recalled
# One that is reclaimed with its open file, and recalled. The server may want it back before that: what its shrinker asks
# for comes seconds later.
holds_one() { gives_one && exec 3<"$WORK/file.$nr" && (( $(delegations) > 0 )); }
keeps_one() {
	exec 3<&-
	until_true "a delegation after that" holds_one
	in_time 120 vm-nfsd-restart 1
	equal "$(<"$WORK/file.$nr")" "$nr" "a file after the restart"
	(( $(delegations) > 0 ))
}
for (( i = 0; i < 5; i++ )); do ! keeps_one || break; done
at_least "$(delegations)" 1 "delegations that were reclaimed, at the last of $(( i + 1 )) restarts"
in_time 30 write_to "$other/$CASE/file.$nr" newer
equal "$(<"$WORK/file.$nr")" newer "what is read of a file whose delegation was reclaimed"
exec 3<&-
until_true "a delegation of the server that has restarted" gives_one
in_time 30 write_to "$other/$CASE/file.$nr" new
equal "$(<"$WORK/file.$nr")" new "what is read then"

# ---- the end ----

until_true "a delegation at the end" gives_one
umount "$other" || fail "unmount of the second mount"
gone "$other_daemon" || fail "the second daemon still runs"
other_daemon=
mount_down
equal "$(grep -l nfsrdma-fuse "$clients"/*/info 2>/dev/null | wc -l)" 0 "clients that the server still has"
