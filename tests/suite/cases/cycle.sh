# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A server that lists the same entries again and again: nfs-ganesha's cache of directory
# entries hands out cookies that go in a circle, when a directory is listed, changed and
# listed at once. Each listing ends, with all names or with an error.
[[ $NFSRDMA_KERNEL == ganesha ]] || skip "other servers do not do that"
trap 'end_all; vm-nfsd-restart' EXIT       # as others want it, however this ends
vm-root host-ganesha stop
DIR_CACHE=yes vm-root host-ganesha start || fail "no server with a cache of directory entries"
mount_up
cd "$WORK" || fail cd
ended=0 failed=0
# It depends on that server's moments whether its cookies go in a circle: often half of
# these listings, in a rare run none.
for i in {4..40} 3 {41..400}; do
	(( i <= 40 || failed == 0 )) || break
	# An end after 100,000 names is ours: then nothing would have ended it.
	perl -e '
		my $n = shift;
		my $dir = "d$n";
		sub names {
			my ($count, %seen) = (0);
			opendir(my $d, $dir) or die "opendir: $!\n";
			$! = 0;
			while (defined(my $e = readdir($d))) { $seen{$e}++; die "without end\n" if ++$count > 100000; }
			exit 5 if $! == 5;      # EIO
			die "readdir: $!\n" if $!;
			return %seen;
		}
		mkdir($dir) or die "mkdir: $!\n";
		for (1..$n) { open(my $f, ">", "$dir/$_") or die "$_: $!\n" }
		names();
		unlink("$dir/1") or die "unlink: $!\n";
		my %is = names();
		$is{$_} or die "not there: $_\n" for 2..$n;
	' "$i" 2>"$TMPDIR/said"
	case $? in
	0) (( ended++ )) ;;
	5) (( failed++ )) ;;
	*) fail "listing of $i names: $(<"$TMPDIR/said")" ;;
	esac
done
echo "$ended listings with all names, $failed with an error"
at_least $failed 1 "listings that go in a circle"
grep -q ELOOP "$LOG" || fail "the log does not say why"
cd / && mount_down
