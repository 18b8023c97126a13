# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Each registration strategy under verified work: pieces of 1 byte to 3 MiB, direct,
# buffered and mapped. The counters say what it has cost.
amount 8m 3m
size=$REPLY
amount 60 20
writes=$REPLY

# odd_pieces FILE COUNT - the same random writes here and in the mount; then reads.
odd_pieces() {
	perl -e '
		use Fcntl;
		my ($mnt, $copy, $n) = @ARGV;
		srand(42);
		my $noise = ""; $noise .= pack("N", rand(2 ** 32)) for 1 .. 2 ** 18; $noise x= 5;
		for my $direct (0, 1) {
			sysopen(my $m, $mnt, O_RDWR | O_CREAT | ($direct ? 040000 : 0)) or die "$mnt: $!";
			sysopen(my $c, $copy, O_RDWR | O_CREAT) or die "$copy: $!";
			for (1 .. $n) {
				my $len = 1 + int(2 ** rand(21.58));
				my $at = int(rand(4 << 20));
				my $data = substr($noise, int(rand(1 << 20)), $len);
				for ([$m, $mnt], [$c, $copy]) {
					sysseek($_->[0], $at, 0);
					(syswrite($_->[0], $data) // -1) == length($data) or die "$_->[1]: write $len at $at: $!";
				}
				sysseek($m, $at, 0);
				(sysread($m, my $back, $len) // -1) == $len or die "$mnt: read $len at $at: $!";
				$back eq $data or die "$mnt: other bytes in $len at $at";
			}
		}' "$1" "$TMPDIR/copy" "$2" || fail "pieces, memreg=$memreg"
	same "$1" "$TMPDIR/copy"
	rm -f "$TMPDIR/copy"
}

# verified ENGINE DIRECT
verified() {
	fio --directory="$WORK" --name="$memreg-$1-$2" --rw=randwrite --bsrange=512-3m --bs_unaligned \
		--size="$size" --numjobs=2 --direct="$2" --ioengine="$1" --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --fallocate=none --group_reporting --output="$TMPDIR/fio.out" ||
		{ cat "$TMPDIR/fio.out"; fail "fio $1, direct=$2, memreg=$memreg"; }
	rm -f "$WORK/$memreg-$1-$2"*
}

cd "$TMPDIR" || fail cd
for memreg in pool call mw; do
	mount_up "memreg=$memreg"
	odd_pieces "$WORK/odd" "$writes"
	verified psync 1
	verified psync 0
	verified mmap 0
	calls=$(( $(stat_now rdma.read_chunks) + $(stat_last rdma.write_chunks) ))
	made=$(stat_last rdma.registrations)
	remote=$(stat_last rdma.remote_invals)
	local=$(stat_last rdma.local_invals)
	case $memreg in
	pool) equal "$made $remote $local" "0 0 0" "registrations and invalidations of $calls calls with chunks" ;;
	call) at_least "$made" "$calls" "registrations of $calls calls with chunks"
	      equal "$remote $local" "0 0" "invalidations with memreg=call" ;;
	mw)   equal "$made" 0 "registrations with memreg=mw"
	      at_least "$(stat_last rdma.bindings)" "$calls" "windows bound for $calls calls with chunks"
	      equal $(( remote + local )) "$(stat_last rdma.bindings)" "windows that have ended"
	      at_least "$remote" 1 "windows that the server invalidated"
	      at_least "$local" 1 "windows that the client unbound" ;;
	esac
	equal "$(stat_last conn.downs)" 0 "connections lost with memreg=$memreg"
	rm -f "$WORK/odd"
	mount_down
done
