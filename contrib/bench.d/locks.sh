# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154,SC2034,SC2317 # what is not set here is inside's
# locks.sh - the row locks: a lock of a byte range that nobody else wants, and one that two clients
# want in turn. There are two mounts, which the server takes for two clients: of ours each daemon is
# one, and of the kernel's each minor version, because its name for itself has that in it.

# lock SECONDS FILE OTHER: locks and unlocks a second, and how often, with the file open by OTHER's
# name as well, or by nobody else ('').
#
# pass SECONDS FILE OTHER: one process for each name. Who has the lock says when it unlocks, and waits
# for it again when the other one has it. What is printed are the microseconds from then until the
# other one has it. Before that it has waited for HOLD seconds, and so has asked the server at least once.
readonly LOCKS_HOLD=0.1 LOCKS_TURNS=20
# shellcheck disable=SC2016 # perl's
readonly LOCKS_PERL='
	use Fcntl; use IO::Handle; use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC);
	my ($what, $seconds, $hold, $turns, @names) = @ARGV;
	sub file { sysopen(my $f, $_[0], O_RDWR | O_CREAT) or die "$_[0]: $!\n"; $f }
	sub now() { clock_gettime(CLOCK_MONOTONIC) }
	sub set {
		my ($f, $how, $type) = @_;
		fcntl($f, $how, pack("s s x4 q q l x4", $type, 0, 4096, 4096, 0)) or die "fcntl: $!\n";
	}
	if ($what eq "lock") {
		my $other = $names[1] ne "" ? file($names[1]) : undef;
		my ($f, $n, $begin) = (file($names[0]), -10, now);
		while (now - $begin < $seconds) {
			# The first ten are not counted.
			$begin = now if $n == 0;
			for (1 .. 10) { set($f, F_SETLK, F_WRLCK); set($f, F_SETLK, F_UNLCK) }
			$n += 10;
		}
		printf "%.1f %d\n", $n / (now - $begin), $n;
		exit;
	}
	pipe(my $here, my $to_here); pipe(my $there, my $to_there);
	$| = 1;
	my $child = fork // die "fork: $!\n";
	# Who ends is seen to have ended.
	if ($child == 0) { close $_ for $here, $to_there; ($here, $to_there) = ($there, $to_here) } else { close $_ for $there, $to_here }
	$to_there->autoflush(1);
	my ($f, $first, $begin) = (file($names[$child == 0]), $child != 0, now);
	if (!$first) { <$here> or die "the other one has ended\n" }
	while (1) {
		my $last = "";
		set($f, F_SETLKW, F_WRLCK);
		if (!$first) {
			my $got = now;
			(my $let, $last) = split " ", (<$here> // die "the other one has ended\n");
			printf "%.0f\n", ($got - $let) * 1e6;
		}
		if ($last eq "end") { set($f, F_SETLK, F_UNLCK); last }
		print $to_there "got\n";
		$first = 0;
		sleep $hold;
		$last = --$turns == 0 || now - $begin > $seconds ? "end" : "more";
		print $to_there now, " $last\n";
		set($f, F_SETLK, F_UNLCK);
		last if $last eq "end";
		<$here> or die "the other one has ended\n";
	}
	!$child or waitpid($child, 0) == $child && $? == 0 or die "the other one has failed\n";'

# locks_run WHAT SECONDS FILE OTHER
locks_run() {
	set -- "$1" "$2" "$LOCKS_HOLD" "$LOCKS_TURNS" "${@:3}"
	command_line "run $ROW $VARIANT" perl -e "'locks.sh: LOCKS_PERL'" "$@"
	limited perl -e "$LOCKS_PERL" "$@"
}

# locks_are_two - where the server can be asked.
locks_are_two() {
	local clients=(/proc/fs/nfsd/clients/*)
	[[ ! $VIEW || ! -e ${clients[0]} ]] || (( ${#clients[@]} == 2 )) ||
		fail "the server has ${#clients[@]} clients, not two"
}

# row_locks CLIENT alone|shared|hand-over
row_locks() {
	local rate n at=$MNT/$FOLDER/lock.$2 other=$TMP/mnt.other
	mount_up "$1" "$MNT" '' || return
	if [[ $2 == alone ]]; then other=''; else
		VERS=4.2 mount_up "$1" "$other" '' || return
		other+=/$FOLDER/lock.$2
		locks_are_two || return
	fi
	if [[ $2 == hand-over ]]; then
		timed "$1" locks_run pass $(( 4 * RUNTIME )) "$at" "$other" || return
		n=$(wc -l <"$TMP/said")
		VALUES=("$(sort -g "$TMP/said" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }') us-handover" "$n hand-overs")
		unmount_all
		return
	fi
	calls_so_far "$1" before && timed "$1" locks_run lock "$RUNTIME" "$at" "$other" && calls_so_far "$1" after &&
		calls_between && unmount_all && read -r rate n <"$TMP/said" || return
	VALUES=("$rate locks/s" "$(awk -v c="${COUNTED[0]%% *}" -v n="$n" 'BEGIN { print c / n }') calls/lock")
}
