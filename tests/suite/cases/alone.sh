# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A server that takes one connection and no more: the other lanes' connections
# cannot be made, and the mount works all the same, by the one that is there.
port=21049
perl -MIO::Socket::INET -MIO::Select -e '
	my ($port, $server) = @ARGV;
	my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 16, ReuseAddr => 1) or die "listen: $!";
	my $c = $l->accept or die;
	my $s = IO::Socket::INET->new(PeerAddr => $server, PeerPort => 20049) or die "connect: $!";
	my %to = ($c => $s, $s => $c);
	my $all = IO::Select->new($l, $c, $s);
	while (1) {
		for my $f ($all->can_read) {
			if ($f == $l) { close($l->accept); next; }
			my $n = sysread($f, my $d, 1 << 16);
			exit 0 unless $n;
			for (my $at = 0; $at < $n; ) { $at += syswrite($to{$f}, $d, $n - $at, $at) // exit 1; }
		}
	}' $port "$NFSRDMA_SERVER" & proxy=$!
until_true "the proxy" bash -c "ss -tln | grep -q ':$port '"
mount_up "port=$port"
files=()
for i in {1..40}; do timeout 120 touch "$WORK/f$i" & files+=($!); done
for (( i = 0; i < 40; i++ )); do wait "${files[i]}" || fail "touch, number $i: it waited for a connection that cannot be made"; done
equal "$(ls "$SERVER_WORK" | wc -l)" 40 "files"
at_most "$(stat_now conn.ups)" 1 "connections"
mount_down
kill $proxy 2>/dev/null || :
