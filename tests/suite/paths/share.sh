# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# share.sh - how calls are spread over paths that are both there.

# direct ARG... - fio with pieces of 256 KiB, 16 at a time, in one file.
direct() {
	amount 32m 8m
	( cd "$TMPDIR" && fio --directory="$WORK" --name=moved --bs=256k --size="$REPLY" --iodepth=16 --direct=1 --ioengine=libaio \
		--fallocate=none --output-format=terse "$@" ) >"$TMPDIR/moved" || fail "fio: $(<"$TMPDIR/moved")"
}

# moved - MB/s of direct writes or reads over paths that are the slow part.
moved() {
	amount 3 6
	direct --rw="$1" --time_based --runtime="$REPLY"
	awk -F ';' '{ print ($7 + $48) / 1024 }' "$TMPDIR/moved"
}

# doubled ONE BOTH
doubled() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && b >= 1.9 * a) }'; }

# limited - two paths of the same rate carry twice as much as one of them.
limited() {
	local rate=100mbit policy way one two n bad=''
	[[ $NFSRDMA_KERNEL == ganesha ]] || rate=16mbit
	# The kernel lets a file grow by one write at a time: it has its size before.
	mount_up "$BOTH"
	direct --rw=write
	mount_down
	for n in 0 1; do path limit $n $rate; done
	for way in write read; do
		mount_up "addr=${ADDRS[0]}"
		one=$(for n in 1 2 3; do moved $way; done | median)
		mount_down
		for policy in round-robin min-inflight; do
			# Other work on this machine makes two paths slower than they are, never faster.
			for n in 1 2 3; do
				mount_up "$BOTH,mp_policy=$policy"
				both_up
				two=$(for _ in 1 2 3; do moved $way; done | median)
				mount_down
				doubled "$one" "$two" && break
			done
			tell "$(awk -v a="$one" -v b="$two" -v w="$way, $policy" 'BEGIN { printf "%s %.2f x (%.1f to %.1f MB/s)", w, b / a, a, b }')"
			doubled "$one" "$two" || bad+=" $way/$policy"
		done
	done
	[[ ! $bad ]] || fail "less than 1.9 times as much as one path:$bad"
}

# small_calls DIRECTORY - for two seconds, by four.
small_calls() {
	local i pids=()
	for i in 1 2 3 4; do
		perl -e '
			my ($dir, $end) = ($ARGV[0], time + 3);
			while (time < $end) { mkdir "$dir/d" or die "mkdir: $!"; rmdir "$dir/d" or die "rmdir: $!"; }' "$1/$i" & pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || fail "small calls"; done
}

# learned SLOW FAST - more calls were made, and what is known of the paths is not of a moment when this machine
# had no time for the faster one.
learned() {
	small_calls "$WORK"
	(( $(path_value "$2" latency_ns) * 2 < $(path_value "$1" latency_ns) ))
}

# unequal - one path has a delay, which is far more than other work on this machine makes a call
# take on the other path.
unequal() {
	local slow=$1 fast=$(( !$1 )) calls=() n share
	path slow "$slow" 100
	mount_up "$BOTH,mp_policy=min-latency"
	both_up
	mkdir "$WORK"/{1,2,3,4} || fail mkdir
	until_true "it learns which path is slow" learned "$slow" "$fast"
	for n in 0 1; do calls[n]=$(path_value $n calls); done
	small_calls "$WORK"
	for n in 0 1; do calls[n]=$(( $(path_value $n calls) - calls[n] )); done
	share=$(( calls[fast] * 100 / (calls[fast] + calls[slow] + 1) ))
	tell "$share % of $(( calls[0] + calls[1] )) small calls over the faster path ($(path_value $fast latency_ns) ns, the other $(path_value "$slow" latency_ns) ns)"
	mount_down
	path slow "$slow" off
	at_least $share 80 "% of the calls over the faster path"
}

# by_command - the policy while it is mounted.
by_command() {
	local policy
	mount_up "$BOTH"
	for policy in min-latency round-robin min-inflight; do
		equal "$(ctl policy $policy)" $policy "what ctl policy says"
		equal "$(ctl policy)" $policy "the policy"
		ls "$WORK" >/dev/null || fail ls
	done
	expect_error "by-weight" ctl policy by-weight
	equal "$(ctl policy)" min-inflight "the policy after one that is not known"
	mount_down
}

share() {
	part "two limited paths" limited
	part "min-latency, 0 is slow" unequal 0
	part "min-latency, 1 is slow" unequal 1
	part "policy by command" by_command
}
