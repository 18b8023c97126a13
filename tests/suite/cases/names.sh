# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Names that the kernel has cached, and that somebody else has given to another file since: an
# open reaches what the name means now, however it is opened, and the old file stays as it is.
mount_up
cd "$WORK" || fail cd
vm-root chmod 777 "$SERVER_WORK"

# theirs COMMAND - done by somebody else, in the server's own directory, with modes that let everybody write.
theirs() {
	if (( EUID == 0 )); then ( cd "$SERVER_WORK" && umask 0 && eval "$1" ); else vm-root bash -c "umask 0; cd '$SERVER_WORK' && { $1; }"; fi ||
		fail "on the server: $1"
}

# replaced HOW - `conf` is looked up here, and becomes conf.bak; a new conf has its name.
replaced() {
	rm -f conf conf.bak
	( umask 0; echo "old text" >conf ) && equal "$(<conf)" "old text" "conf before $1"
	theirs 'mv conf conf.bak && echo new >conf'
}
# are HOW TEXT - what both files are.
are() {
	equal "$(<"$SERVER_WORK/conf.bak")" "old text" "the old file after $1"
	equal "$(tr "\n\0" " 0" <"$SERVER_WORK/conf")" "$2" "the new file after $1"
}

for (( round = 1; round <= 3; round++ )); do
	replaced append && echo mine >>conf && are append "new mine "
	replaced "O_TRUNC" && echo mine >conf && are "O_TRUNC" "mine "
	replaced "write" && echo mine 1<>conf >&1 && are "write" "mine "
	replaced "truncate" && perl -e 'truncate("conf", 2) or die "truncate: $!\n"' && are "truncate" "ne"
	replaced "O_CREAT" && dd if=/dev/zero of=conf bs=1 count=3 conv=notrunc status=none && are "O_CREAT" "000 "
	[[ $VERS == 3 ]] || { replaced "read" && equal "$(cat conf)" new "what is read"; }
done

# A name that the kernel believes not to exist, for a second at most, is that of a file by now that is
# open here by another name: what is written to it, and held, comes before O_CREAT | O_TRUNC.
for (( round = 1; round <= 5; round++ )); do
	echo "old text" >mine$round
	perl -MFcntl -e 'my ($mine, $free, $dir) = @ARGV;
		open(my $f, "+<", $mine) or die "$mine: $!\n";
		die "$free is there\n" if -e $free;
		system("vm-root", "mv", "$dir/$mine", "$dir/$free") == 0 or die "mv\n";
		syswrite($f, "more\n") == 5 or die "write: $!\n";
		sysopen(my $g, $free, O_RDWR | O_CREAT | O_TRUNC) or die "$free: $!\n";
		-s $g and die "$free has a size\n"' mine$round free$round "$SERVER_WORK" || fail "a name that was free"
	equal "$(stat -c %s "$SERVER_WORK/free$round")" 0 "truncated by a name that was believed to be free"
done

# A process opens a file by its new name, and truncates what has the old name by now: another file. The
# open was let through by its newest name alone, and the truncation must not be.
for size in 309039 5 0; do
	theirs "echo old >was$size"
	: <was$size
	theirs "mv was$size is$size"
	perl -MFcntl -e 'my ($was, $is, $dir, $size) = @ARGV;
		sysopen(my $f, $is, O_RDWR) or die "$is: $!\n";
		system("vm-root", "sh", "-c", "echo new >$dir/$was && chmod 666 $dir/$was") == 0 or die "new\n";
		truncate($was, $size) or die "$was: $!\n"' was$size is$size "$SERVER_WORK" $size || fail "by the old name"
	equal "$(stat -c %s "$SERVER_WORK/is$size") $(stat -c %s "$SERVER_WORK/was$size")" "4 $size" "its size and that of the other one"
done

# Several processes at once open a file by its new name, while the old one is another file's: all get it.
for (( round = 1; round <= 25; round++ )); do
	theirs "echo old >from$round"
	: <from$round
	theirs "mv from$round to$round && echo new >from$round"
	perl -MFcntl -e 'my ($name) = @ARGV;
		my @pids = map { my $flags = $_; fork() || do {
			for (1 .. 3) {
				sysopen(my $f, $name, $flags) or die "$name: $!\n";
				sysread($f, my $text, 10);
				$text eq "old\n" or die "$name: not its text\n";
			}
			exit 0 } } (O_RDONLY, O_RDWR) x 3;
		for (@pids) { waitpid($_, 0); $? == 0 or exit 1 }' to$round || fail "opened by several at once"
done

# The file is replaced, has no other name, and somebody on this mount still has it open.
echo "old text" >open && exec 5<open
theirs 'echo new >open.new && mv open.new open'
echo mine >>open && equal "$(tr '\n' ' ' <"$SERVER_WORK/open")" "new mine " "append while the old one is open"
exec 5<&-
# The name is gone.
echo text >gone && theirs 'mv gone gone.bak'
[[ $VERS == 3 ]] || expect_error "No such file" cat gone
perl -e 'exit(truncate("gone", 0) ? 1 : $!{ENOENT} ? 0 : 2)' || fail "truncate of a name that is gone: $?"
equal "$(cat "$SERVER_WORK/gone.bak")" text "a name that is gone, truncated"
# Another directory is between.
mkdir -p d/e && echo text >d/e/f && theirs 'mv d/e d/g'
echo more >>d/g/f && equal "$(tr '\n' ' ' <"$SERVER_WORK/d/g/f")" "text more " "below a directory that was renamed"
# One of two names is another file's now.
echo text >one && ln one two && cat one two >/dev/null
theirs 'echo new >one.new && mv one.new one'
echo more >>two && equal "$(tr '\n' ' ' <"$SERVER_WORK/two")" "text more " "by the name that is left"
echo more >>one && equal "$(tr '\n' ' ' <"$SERVER_WORK/one")" "new more " "by the name that was replaced"
# Without a name: the file that is open, whatever it is called.
echo text >held && exec 5<>held && theirs 'mv held held.bak && echo new >held'
equal "$(cat /proc/self/fd/5)" text "what is open, opened again"
echo more >>/proc/self/fd/5 && equal "$(tr '\n' ' ' <"$SERVER_WORK/held.bak")" "text more " "and appended to"
: >/proc/self/fd/5 && equal "$(stat -c %s "$SERVER_WORK/held.bak")" 0 "and truncated"
chmod 640 /proc/self/fd/5 && equal "$(stat -c %a "$SERVER_WORK/held.bak")" 640 "and its mode changed"
exec 5<&-
echo text >silly && exec 5<>silly && rm silly && echo more >>/proc/self/fd/5
equal "$(tr '\n' ' ' </proc/self/fd/5)" "text more " "unlinked, opened again"
exec 5<&-
# What runs is what the name means.
if [[ $VERS != 3 ]]; then
	printf '#!/bin/sh\necho old\n' >run && chmod 755 run && equal "$(./run)" old "a program"
	theirs 'mv run run.bak && printf "#!/bin/sh\necho new\n" >run && chmod 755 run'
	equal "$(./run)" new "the program that has its name now"
fi
cd / && mount_down
