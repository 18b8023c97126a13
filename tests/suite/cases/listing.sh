# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Names come and go on the server while a directory is listed: those that stay are in
# each listing, once. nfs-ganesha ends a READDIR with ENOENT when it does not find a name
# any more that it has just read, and ENOENT is the end of a directory to readdir().
# shellcheck disable=SC2016 # the server's
vm-server bash -c 'cd "$NFSRDMA_EXPORT/listing" && mkdir d && touch d/stays{1..20} && chmod -R a+rwX d' ||
	fail "files on the server"
mount_up
# shellcheck disable=SC2016 # perl's, on the server
vm-server perl -e '
	my $dir = "$ENV{NFSRDMA_EXPORT}/listing";
	for (my $i = 0; !-e "$dir/stop"; $i++) {
		my $name = "$dir/d/goes" . $i % 10;
		open(my $f, ">", $name) or die "$name: $!\n";
		unlink($name) or die "$name: $!\n";
	}
' & changer=$!
perl -e '
	for (1..1000) {
		my %seen;
		opendir(my $d, $ARGV[0]) or die "opendir: $!\n";
		$! = 0;
		while (defined(my $e = readdir($d))) { $seen{$e}++ }
		die "listing $_: $!\n" if $!;
		for my $n (map { "stays$_" } 1..20) {
			die "listing $_: $n ", $seen{$n} || 0, " times\n" if ($seen{$n} || 0) != 1;
		}
	}
' "$WORK/d" >"$TMPDIR/said" 2>&1
status=$?
touch "$WORK/stop"
wait $changer || fail "the server's files do not change"
(( status == 0 )) || fail "$(<"$TMPDIR/said")"
mount_down
