# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# storms.sh - connections are cut again and again: everything is done exactly once, and in
# the end nothing is different, stuck or left.
#
# NFSRDMA_FAILOVERS: how many (30; 8 in a guest); NFSRDMA_CHAOS: for how many seconds (20).

SEED=${NFSRDMA_SEED:-$RANDOM}

# same_trees DIRECTORY N - what each process of the storm has made, as the server has it.
same_trees() {
	local w i=0
	for w in {a..p}; do
		(( i++ < $2 )) || break
		vm-server "$TREE" list "$1/$w" >"$TMPDIR/there" || fail "cannot list what the server has of $w"
		LC_ALL=C sort "$TMPDIR/model.$w" >"$TMPDIR/want"
		LC_ALL=C sort "$TMPDIR/there" | diff "$TMPDIR/want" - >"$TMPDIR/diff" ||
			fail "the server has another tree of $w: $(head -n 5 "$TMPDIR/diff")"
	done
}

# storm_failed - what the storm has said, and how the server has the file that it names.
storm_failed() {
	local name
	name=$(grep -oP "wrong: .* \\Q$WORK\\E/\\K[^:]*" "$TMPDIR/storm" | head -n 1)
	[[ ! $name ]] || { vm-server stat -c 'on the server: %n: inode %i, %h links, %s bytes' "$SERVER_WORK/$name"
		stat -c 'in the mount: %n: inode %i, %h links, %s bytes' "$WORK/$name"; }
	fail "seed $SEED: $(<"$TMPDIR/storm")"
}

# lock_calls NAME
lock_calls() { ctl stats | awk -v name="rpc.$1" '$1 == name { n += $2 } END { print n + 0 }'; }

# counts KIND - adds one to a number under a lock, again and again, and says how often.
counts() {
	local n=0
	until [[ -e $TMPDIR/enough ]]; do
		"$LOCKS" count "$1" 20 "$WORK/count.$1" || return
		(( n += 20 ))
	done
	echo $n
}

# recalls - the server's own programs want to know, now and then: delegations of the files go back, and their
# locks to the server. (Linux gives none of a file for half a minute after that.)
recalls() {
	local i
	until [[ -e $TMPDIR/enough ]]; do
		for (( i = 0; i < 20; i++ )); do [[ -e $TMPDIR/enough ]] || sleep 1; done
		vm-server bash -c 'cat "$1"/count.*' - "$SERVER_WORK" >/dev/null 2>&1
		sleep 20
	done
}

# exactly_once deleg|nodeleg - with nodeleg each lock is a call.
exactly_once() {
	local n=4 storm kind pid pids=()
	[[ $VERS != 3 ]] || skip "version 3 does not promise that, see ONCE"
	rm -f "$TMPDIR/enough"
	mount_up "$BOTH,mp_policy=round-robin,$1"
	both_up
	mkdir "$WORK/storm" || fail mkdir
	"$TREE" storm "$WORK/storm" "$TMPDIR/enough" "$SEED" "$TMPDIR/model" $n >"$TMPDIR/storm" 2>&1 & storm=$!
	for kind in posix ofd flock; do
		counts $kind >"$TMPDIR/counts.$kind.1" 2>&1 & pids+=($!)
		counts $kind >"$TMPDIR/counts.$kind.2" 2>&1 & pids+=($!)
	done
	[[ $1 != deleg ]] || { recalls & pids+=($!); }
	amount 30 8
	"${BASH_SOURCE[0]%/*}/../failovers" "$BIN" "$MNT" "${NFSRDMA_FAILOVERS:-$REPLY}" "$SEED" "${KINDS[@]}" >"$TMPDIR/cuts" 2>&1 ||
		fail "seed $SEED: $(<"$TMPDIR/cuts")"
	tell "$(<"$TMPDIR/cuts")"
	touch "$TMPDIR/enough"
	wait $storm || storm_failed
	for pid in "${pids[@]}"; do wait "$pid" || fail "seed $SEED: a counter: $(cat "$TMPDIR"/counts.*)"; done
	for kind in posix ofd flock; do
		equal "$(( 10#$(<"$SERVER_WORK/count.$kind") ))" $(( $(<"$TMPDIR/counts.$kind.1") + $(<"$TMPDIR/counts.$kind.2") )) "counted under locks, $kind"
		equal "$("$LOCKS" try $kind w 0 0 "$WORK/count.$kind")" yes "no lock is left, $kind"
	done
	tell "$(awk '/operations/ { n += $2 } END { print n }' "$TMPDIR/storm") operations, counted under locks $(awk '{ n += $1 } END { print n }' "$TMPDIR"/counts.*)," \
		"LOCKs $(lock_calls LOCK), by DELEGRETURN $(lock_calls 'LOCK(delegation)'), failovers $(( $(path_value 0 failovers) + $(path_value 1 failovers) )), replays $(stat_now rpc.replays)"
	[[ $1 != deleg ]] || at_least "$(lock_calls 'LOCK(delegation)')" 1 "locks that the server got with a delegation"
	mount_down
	same_trees "$SERVER_WORK/storm" $n
}

# git_work - clones, changes and packs, again and again.
git_work() {
	local i=0
	export GIT_CONFIG_GLOBAL=$TMPDIR/gitconfig GIT_CONFIG_NOSYSTEM=1
	git config --global user.name tester && git config --global user.email tester@example.org &&
		git config --global init.defaultBranch main && git config --global --add safe.directory '*' || return
	mkdir "$WORK/git" && cd "$WORK/git" && git init -q one || return
	until [[ -e $TMPDIR/enough ]]; do
		(( i++ ))
		echo "$i" >"one/f$i" && mkdir -p one/d && echo "$i" >one/d/all && git -C one add . && git -C one commit -qm "$i" || return
		(( i % 5 )) || { rm -rf two && git clone -q --no-hardlinks one two && git -C two fsck --full --strict && git -C one repack -qad; } || return
	done
	git -C one fsck --full --strict || return
	[[ $(git -C one rev-list --count HEAD) == "$i" && ! $(git -C one status --porcelain) ]] && echo "$i commits"
}

fio_work() {
	until [[ -e $TMPDIR/enough ]]; do
		( cd "$TMPDIR" && fio --directory="$WORK" --name=chaos --rw=randwrite --bsrange=4k-64k --size=2m --numjobs=2 --iodepth=8 --direct=1 \
			--ioengine=libaio --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none --output="$TMPDIR/fio.out" ) ||
			{ cat "$TMPDIR/fio.out"; return 1; }
	done
}

nothing_in_flight() { [[ $(path_value 0 in_flight) == 0 && $(path_value 1 in_flight) == 0 ]]; }

chaos() {
	local n=2 storm git fio fds
	[[ $VERS != 3 ]] || skip "version 3 does not promise that, see ONCE"
	rm -f "$TMPDIR/enough"
	mount_up "$BOTH,mp_policy=round-robin"
	both_up
	fds=$(files_open)
	mkdir "$WORK/storm" || fail mkdir
	"$TREE" storm "$WORK/storm" "$TMPDIR/enough" "$SEED" "$TMPDIR/model" $n >"$TMPDIR/storm" 2>&1 & storm=$!
	git_work >"$TMPDIR/git" 2>&1 & git=$!
	fio_work >"$TMPDIR/chaos" 2>&1 & fio=$!
	"${BASH_SOURCE[0]%/*}/../failovers" "$BIN" "$MNT" "${NFSRDMA_CHAOS:-20}s" "$SEED" "${KINDS[@]}" >"$TMPDIR/cuts" 2>&1 ||
		fail "seed $SEED: $(<"$TMPDIR/cuts")"
	tell "$(<"$TMPDIR/cuts")"
	touch "$TMPDIR/enough"
	wait $storm || fail "seed $SEED: $(<"$TMPDIR/storm")"
	wait $git || fail "seed $SEED: git: $(<"$TMPDIR/git")"
	wait $fio || fail "seed $SEED: $(<"$TMPDIR/chaos")"
	tell "$(tail -n 1 "$TMPDIR/git"), $(awk '/operations/ { n += $2 } END { print n }' "$TMPDIR/storm") operations"
	until_true "the end of all calls" nothing_in_flight
	leak_free "open files" "$fds" "$(files_open)" 0
	mount_down
	same_trees "$SERVER_WORK/storm" $n
	equal "$(vm-server git -c safe.directory='*' -C "$SERVER_WORK/git/one" rev-list --count HEAD) commits" "$(tail -n 1 "$TMPDIR/git")" "commits, as the server has them"
}

storms() {
	part "exactly once" exactly_once nodeleg
	[[ $NFSRDMA_KERNEL == ganesha ]] || part "exactly once, delegations" exactly_once deleg
	part "chaos" chaos
}
