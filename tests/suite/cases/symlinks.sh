# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Links of all lengths, made and read from both sides. Short targets travel inline. Those
# that do not fit there are pulled by the server as a Read chunk: no Long Call.
amount 1 61
step=$REPLY
amount 1 3500
dense=$REPLY            # from here on each length: the inline threshold is among them

# links SIDE - makes links of all those lengths on that side, and compares each on both.
# Prints how many there are.
links() {
	# shellcheck disable=SC2016 # perl's
	perl -e '
		my ($make, $mnt, $server, $step, $dense) = @ARGV;
		my $noise = join("", map { sprintf "%05d/", $_ } 0 .. 800);
		my $n = 0;
		for (my $len = 1; $len <= 4095; $len += $len < $dense ? $step : 1) {
			my $target = substr($noise, $len % 60, $len);
			my $name = "$make.$len";
			symlink($target, ($make eq "here" ? $mnt : $server) . "/$name") or die "symlink, $len bytes: $!";
			for my $side ($mnt, $server) {
				my $got = readlink("$side/$name") // die "readlink $side/$name: $!";
				$got eq $target or die "$side/$name is another link:\n$got\nnot\n$target";
			}
			$n++;
		}
		print $n' "$1" "$WORK" "$SERVER_WORK" "$step" "$dense" || fail "links made $1"
}

# Each text comes from the server: none is believed for any time.
mount_up acregmin=0,acregmax=0
made=$(links here) || exit
equal "$(stat_now rdma.long_calls)" 0 "Long Calls for links"
at_least "$(stat_last rdma.read_chunks)" 100 "targets that were pulled"
at_most "$(stat_last rdma.read_chunks)" 600 "targets that were pulled"
case $VERS in
3) equal "$(stat_last rdma.write_chunks)" "$made" "links whose text was to be placed"
   at_most "$(stat_last rdma.reply_chunks)" 2 "Reply chunks" ;;
esac
[[ $NFSRDMA_KERNEL == ganesha ]] || dense=4000
links there >/dev/null || exit
# An error: what was offered for the text is not used.
ln -s gone "$WORK/gone" && vm-root rm "$SERVER_WORK/gone" || fail "a link to be gone"
if readlink "$WORK/gone"; then fail "that link is gone"; fi
equal "$(stat_now rpc.bad_replies)" 0 rpc.bad_replies
equal "$(stat_last rdma.errors)" 0 rdma.errors
equal "$(stat_last conn.downs)" 0 conn.downs
mount_down

# A text is read once, and not at all if the link was made here.
texts() {
	for (( i = 0; i < 3; i++ )); do equal "$(readlink "$WORK/$1")" "$2" "text of $1"; done
}
vm-root ln -s there "$SERVER_WORK/seen" || fail "no link on the server"
mount_up acregmin=600,acregmax=600
texts seen there
equal "$(stat_now rpc.READLINK)" 1 "READLINKs of one link"
ln -s mine "$WORK/mine" || fail "no link"
texts mine mine
equal "$(stat_now rpc.READLINK)" 1 "READLINKs, with a link that was made here"
mount_down
