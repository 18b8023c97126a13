# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Somebody else writes to a file that is open here and has pages, and somebody here changes its
# mode, owner or times. The answer to that has the new mtime; the pages have to go all the same. And
# truncations beside appends.
mount_up acregmin=1,acregmax=1
cd "$WORK" || fail cd
vm-root chmod 777 "$SERVER_WORK"

# now TEXT WHAT - what the open file 5 has, before acregmax and a bit have passed.
now() {
	local i text
	for (( i = 0; i < 50; i++ )); do
		text=$(perl -e 'open(F, "<&=5"); sysseek(F, 0, 0); sysread(F, $b, 3); print $b')
		[[ $text == "$1" ]] && return
		sleep 0.1
	done
	fail "$2: '$text' is read five seconds later, and not '$1'"
}

for what in true 'chmod 640 f' 'touch f' "touch -d @1000000000 f"; do
	rm -f f
	echo old >f && chmod 666 f && exec 5<f
	now old "before"
	vm-root bash -c "echo new | dd of='$SERVER_WORK/f' conv=notrunc status=none" || fail "on the server"
	$what || fail "$what"
	now new "$what"
	exec 5<&-
done

# A process appends to a file, and another one truncates it again and again, in the same mount: what was
# appended after the last time is there, from the file's beginning, and nothing else.
perl -MFcntl -MTime::HiRes=sleep -e 'for my $round (1 .. 10) {
	open(my $new, ">", "log") or die "log: $!\n";
	my $pid = fork();
	unless ($pid) {
		sysopen(my $f, "log", O_WRONLY | O_APPEND) or die "to append: $!\n";
		for (1 .. 3000) { syswrite($f, sprintf("%09d\n", $_)) == 10 or die "append: $!\n" }
		exit 0;
	}
	do {
		sysopen(my $f, "log", O_WRONLY | O_TRUNC) or die "O_TRUNC: $!\n";
		close($f);
		sleep(0.003 * rand());
	} until waitpid($pid, 1) == $pid;
	$? == 0 or die "the one that appends: $?\n";
	open(my $f, "<", "log") or die "to read: $!\n";
	my ($before, @lines) = <$f>;
	for ($before // (), @lines) { /^\d{9}\n\z/ or die "round $round: a hole, or a line is overwritten\n" }
	for (@lines) { $_ == $before + 1 or die "round $round: $_ follows $before"; $before = $_ }
}' || fail "truncations beside a process that appends"
cd / && mount_down
