# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# consistency=solo: what close() and fsync() promise, times, and what somebody else changes.
mount_up consistency=solo
cd "$WORK" || fail cd
# has_time FILE - waits until the server has the mtime that this mount shows: it is sent after
# close() has returned.
has_time() {
	local want i
	want=$(stat -c %y "$1")
	for (( i = 0; i < 300; i++ )); do
		[[ $(stat -c %y "$SERVER_WORK/$1") != "$want" ]] || return 0
		sleep 0.1
	done
	fail "mtime of $1: $(stat -c %y "$SERVER_WORK/$1") at the server, not $want"
}
# 8,192 times write(2) of 4 KiB are few WRITEs; after fsync() the server has them.
random "$TMPDIR/src" 33554432
exec 7<>big
dd if="$TMPDIR/src" bs=4k conv=fsync status=none >&7 || fail dd
same "$TMPDIR/src" "$SERVER_WORK/big"
exec 7>&-
at_most "$(stat_now rpc.WRITE)" 600 "WRITEs for 32 MiB"
has_time big
# After close() as well, and without fsync(). Small files, written in pieces.
perl -e 'for $i (1 .. 50) { open(F, ">", "f$i") or die; for (1 .. 20) { syswrite(F, "$i $_\n") } close(F) or die }' || fail perl
for i in 1 25 50; do
	equal "$(wc -l <"$SERVER_WORK/f$i") $(tail -n 1 "$SERVER_WORK/f$i")" "20 $i 20" "a small file on the server"
done
# An open for writing alone: the rest of the page is kept. An append.
printf 'MIDDLE' | dd of=big bs=1 seek=5000 conv=notrunc status=none || fail "a write into a page"
printf 'MIDDLE' | dd of="$TMPDIR/src" bs=1 seek=5000 conv=notrunc status=none
echo more | tee -a big "$TMPDIR/src" >/dev/null
same "$TMPDIR/src" "$SERVER_WORK/big"
# A time that a program has set is the server's.
touch -d '2001-02-03 04:05:06' f1 && equal "$(stat -c %Y "$SERVER_WORK/f1")" "$(date -d '2001-02-03 04:05:06' +%s)" "a time that was set"
mv f1 g1 && equal "$(stat -c %Y "$SERVER_WORK/g1")" "$(date -d '2001-02-03 04:05:06' +%s)" "after a rename"
# Who may write and not read.
if [[ $(id -u) != 0 ]]; then
	echo secret >blind && chmod 200 blind
	echo more >>blind || fail "an append to what may not be read"
	printf S | dd of=blind bs=1 conv=notrunc status=none || fail "a write into what may not be read"
	chmod 600 blind
	equal "$(tr '\n' ' ' <blind)" "Secret more " "what may only be written"
fi
# Names in a directory that this mount has made. Somebody else's is seen after the next change here.
mkdir new && true >new/a && mv f2 new/f2 && ln f3 new/f3 && mv new/f2 f2 || fail "names in a new directory"
for i in a f3; do [[ -e new/$i ]] || fail "new/$i is not found"; done
for i in b f2 A; do [[ ! -e new/$i ]] || fail "new/$i is found"; done
sleep 0.1 && vm-root bash -c "true >'$SERVER_WORK/new/theirs'"
true >new/c && [[ -e new/theirs ]] || fail "somebody else's name is not found"
# Somebody else: noticed at open, with the name in the log.
# The clock ticks once more: where the server is this machine, a write within the tick in which
# the file was made leaves the time as it was, and then the kernel has none to send.
true >shared && sleep 0.1 && echo first >shared && has_time shared
cat shared >/dev/null || fail cat
vm-root bash -c "echo other >'$SERVER_WORK/shared'"
equal "$(cat shared)" other "a change of the same length"
grep -q "somebody else has changed the file 'shared'" "$LOG" || fail "the log does not say who was changed"
has_time shared
# The log names one file a second, and says how many more there were: of the last ones when the
# mount ends. The counter has all.
vm-root bash -c "for i in 2 3 4; do echo other >'$SERVER_WORK/f'\$i; done"
for i in 2 3 4; do equal "$(cat f$i)" other "a change of f$i"; done
cd / && mount_down
equal "$(stat_last solo.changed)" 4 solo.changed
equal "$(awk '/somebody else has changed the file/ { n++ } / more files .* changed by somebody else/ { n += $3 } END { print n }' "$LOG")" \
	4 "files in the log"
# The log names one file a second, so this is a mount of its own.
mount_up consistency=solo
cd "$WORK" || fail cd
# Somebody else, while there is a page here that is not written: that page is written over theirs,
# as a whole; the rest is theirs, and so is the size. A program that opens the file meanwhile sees
# the page. After the last close() the file is read anew.
true >both && sleep 0.1 && head -c 8192 /dev/zero | tr '\0' a >both && has_time both
cat >"$TMPDIR/both.pl" <<'END'
my ($here, $there, $root) = @ARGV;
# Before the file is open: each close(), of a child as well, would send the page.
open(my $other, '|-', $root, 'perl', '-e',
	'<STDIN>; open(F, "+<", $ARGV[0]) && syswrite(F, "o" x 12288) && close(F) or die "$!\n"', $there) or die "fork: $!\n";
open(my $f, '+<', $here) or die "open: $!\n";
sysseek($f, 4096, 0) && syswrite($f, 'X' x 100) or die "write: $!\n";
print $other "go\n";
close($other) or die "somebody else cannot write\n";
open(my $g, '<', $here) or die "a second open: $!\n";
my $n = sysread($g, my $all, 20000);
my $page = substr($all, 4096, 101);
$n == 8192 && $page eq 'X' x 100 . 'a' or die "what was written here is not seen: $n bytes, $page\n";
close($g) && close($f) or die "close: $!\n";
END
said=$(wc -l <"$LOG")
perl "$TMPDIR/both.pl" both "$SERVER_WORK/both" "$(type -P vm-root)" || fail "a file that both write"
{ printf 'o%.0s' {1..4096}; printf 'X%.0s' {1..100}; printf 'a%.0s' {1..3996}; printf 'o%.0s' {1..4096}; } >"$TMPDIR/both"
same "$TMPDIR/both" "$SERVER_WORK/both"
same "$TMPDIR/both" both
tail -n +"$(( said + 1 ))" "$LOG" | grep -q "somebody else has changed the file 'both'" || fail "the log does not say who was changed"
cd / && mount_down
# The daemon is killed: the server has what fsync(), O_SYNC and close() have promised.
mount_up consistency=solo
random "$TMPDIR/kept" 1000000
cat >"$TMPDIR/kept.pl" <<'END'
use Fcntl;
use IO::Handle;
my ($from, $in) = @ARGV;
open(my $r, '<', $from) or die "open: $!\n";
sysread($r, my $all, 1000000) == 1000000 or die "read: $!\n";
sub put { my ($to) = @_; (syswrite($to, $all) // 0) == 1000000 or die "write: $!\n" }
open(my $fsynced, '>', "$in/fsynced") or die "open: $!\n";
put($fsynced);
$fsynced->sync or die "fsync: $!\n";
sysopen(my $osync, "$in/osync", O_WRONLY | O_CREAT | O_SYNC) or die "open: $!\n";
put($osync);
open(my $closed, '>', "$in/closed") or die "open: $!\n";
put($closed);
close($closed) or die "close: $!\n";
# Not promised: it may be there or not.
open(my $written, '>', "$in/written") or die "open: $!\n";
put($written);
open(my $done, '>', "$from.done") or die "open: $!\n";
sleep(600);
END
perl "$TMPDIR/kept.pl" "$TMPDIR/kept" "$WORK" & WRITER=$!
for (( i = 0; i < 1200; i++ )); do
	[[ ! -e $TMPDIR/kept.done ]] || break
	kill -0 $WRITER 2>/dev/null || fail "the writer has ended"
	sleep 0.1
done
kill -KILL "$DAEMON"
wait "$DAEMON" 2>/dev/null
DAEMON=''
kill -KILL $WRITER
for file in fsynced osync closed; do same "$TMPDIR/kept" "$SERVER_WORK/$file"; done
unmount -l
