#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-stalls.sh - tests/vm-clients/stalls without a mount: it finds an older write's bytes, with
# -i as well, and others; and with -i no block changes twice after the first signal.
[ "${BASH_VERSION:-}" ] || exec bash "$0" "$@"      # automake has its own shell
set -u

stalls=$PWD/tests/vm-clients/stalls
[[ -x $stalls ]] || { echo "1..0 # SKIP the program is not built"; exit 0; }
dir=$(mktemp -d "$PWD/check-stalls.XXXXXX") || exit 1
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
: >"$dir/direct"
dd if=/dev/zero of="$dir/direct" bs=4096 count=1 oflag=direct 2>/dev/null ||
	{ echo "1..0 # SKIP no O_DIRECT here"; exit 0; }

# begin ARG... - stalls, of one thread, for a minute at most.
begin() {
	local i
	rm -rf "$dir/load" && mkdir "$dir/load" && : >"$dir/said" || exit 1
	"$stalls" "$@" -t 1 "$dir/load" 60 >"$dir/said" 2>&1 & pid=$!
	for (( i = 0; i < 600; i++ )); do
		grep -q begins "$dir/said" && return
		sleep 0.1
	done
	echo "Bail out! stalls does not begin: $(<"$dir/said")"
	exit 1
}

# found WHAT [PID] - puts what blocks were before into them, or nonsense, until stalls says that it
# has found WHAT. PID: gets the signal when it is known what the blocks were.
found() {
	# shellcheck disable=SC2016 # perl's
	perl -e '
		my ($file, $said, $what, $pid) = @ARGV;
		my ($data, $now, %was, %put);
		open(my $f, "+<", $file) or die "$file: $!";
		my $n = (-s $f) / 4096;
		for (my $end = time + 30; time < $end;) {
			for my $i (0 .. $n - 1) {
				sysseek($f, $i * 4096, 0) && sysread($f, $now, 4096) == 4096 or die "read: $!";
				$data = $what =~ /older/ ? $was{$i} // $now : "x" x 4096;
				next if $now eq ($put{$i} // "");
				$was{$i} = $now;
				next if $data eq $now;
				sysseek($f, $i * 4096, 0) && syswrite($f, $data) == 4096 or die "write: $!";
				$put{$i} = $data;
			}
			kill "USR1", $pid if $pid;
			$pid = 0;
			open(my $s, "<", $said) or die;
			exit 0 if grep { /^wrong: .* not what was written, but $what/ } <$s>;
		}
		exit 1' "$dir/load/0/file" "$dir/said" "$@"
}

# result NAME COMMAND... - is it true? Ends stalls.
number=0
result() {
	if "${@:2}"; then
		echo "ok $(( ++number )) - $1"
	else
		echo "not ok $(( ++number )) - $1: $(head -n 3 "$dir/said" | tr '\n' ' ')"
	fi
	kill $pid; wait $pid 2>/dev/null
}

# changes_once - gives the signal. When stalls has heard of it, the first word of each block, which
# counts its writes, changes once more at most, but for the block whose write is under way.
changes_once() {
	# shellcheck disable=SC2016 # perl's
	perl -e '
		my ($file, $said, $pid) = @ARGV;
		open(my $f, "<", $file) or die "$file: $!";
		sub counts {
			sysseek($f, 0, 0);
			return map { sysread($f, my $block, 4096) == 4096 or die "read: $!"; unpack "L", $block } 1 .. (-s $f) / 4096;
		}
		sub cut { open(my $s, "<", $said) or die; return grep { /^cut/ } <$s> }
		my @before = counts();
		kill "USR1", $pid;
		for (my $end = time + 30; !cut(); select(undef, undef, undef, 0.01)) { exit 1 if time > $end }
		my @first = counts();
		my $changed = 0;
		for (my $end = time + 3; time < $end; select(undef, undef, undef, 0.05)) {
			my @now = counts();
			$changed ||= grep { $now[$_] != $before[$_] } 0 .. $#now;
			exit 1 if 1 < grep { $now[$_] > $first[$_] + 1 } 0 .. $#now;
		}
		exit !$changed' "$dir/load/0/file" "$dir/said" "$pid" && ! grep -q '^wrong' "$dir/said"
}

echo 1..4
begin
result "other bytes" found "something else"
begin -i
result "an older write, with -i" found "an older write"
begin -i
result "an older write, with -i and a signal" found "an older write" $pid
begin -i
result "no block changes twice, with -i and a signal" changes_once
exit 0
