# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The operations of a file system, seen from both sides.
mount_up
cd "$WORK" || fail cd
# rename, also onto an existing file and across directories
mkdir d1 d2 && echo one >d1/a && echo two >d2/b || fail setup
mv d1/a d2/a && mv d2/a d2/b || fail rename
equal "$(ls d1 d2 | tr '\n' ' ')" "d1:  d2: b " "after rename"
equal "$(cat "$SERVER_WORK/d2/b")" one "content after rename"
mv d2 d3 && [[ -f d3/b ]] || fail "rename of a directory"
expect_error "Directory not empty" rmdir d3
expect_error "No such file" mv nothing anything
# link
ln d3/b hard && equal "$(stat -c %h hard)" 2 "link count"
equal "$(stat -c %i hard)" "$(stat -c %i d3/b)" "inode numbers of both names"
equal "$(stat -c %i hard)" "$(stat -c %i "$SERVER_WORK/hard")" "inode number as on the server"
rm d3/b && equal "$(cat hard)" one "content by the other name"
# symlink
ln -s hard soft && equal "$(readlink soft)" hard "readlink"
equal "$(readlink "$SERVER_WORK/soft")" hard "readlink on the server"
equal "$(cat soft)" one "through the link"
long=$(printf 'x%.0s' {1..4000})
ln -s "$long" longlink && equal "$(readlink longlink)" "$long" "a target of 4000 bytes"
equal "$(readlink "$SERVER_WORK/longlink")" "$long" "the same on the server"
# truncate
head -c 100000 /dev/zero | tr '\0' z >t && truncate -s 50001 t && equal "$(stat -c %s "$SERVER_WORK/t")" 50001 "shrunk"
truncate -s 70000 t && equal "$(tail -c 19999 t | tr -d '\0' | wc -c)" 0 "grown with zeros"
equal "$(sha256sum <t)" "$(sha256sum <"$SERVER_WORK/t")" "truncated file"
: >t && equal "$(stat -c %s "$SERVER_WORK/t")" 0 "O_TRUNC"
# what NFS has not: refused, and both files stay as they were (renameat2: 316 and 276)
echo one >x1 && echo two >x2
perl -MPOSIX -MFcntl=O_DIRECTORY -e 'my $call = (uname())[4] eq "x86_64" ? 316 : 276;
	for ([1, "x2", EEXIST], [1, "free", EINVAL], [2, "x2", EINVAL]) {
		my ($flags, $to, $due) = @$_; my $from = "x1";
		syscall($call, -100, $from, -100, $to, $flags) == -1 && $! == $due or die "renameat2 to $to, flags $flags: $!\n";
	}
	# O_TMPFILE
	sysopen(my $f, ".", 020000000 | O_DIRECTORY | O_RDWR) and die "O_TMPFILE\n";
	$!{EOPNOTSUPP} or die "O_TMPFILE: $!\n"' || fail "what NFS has not"
equal "$(cat x1 x2 | tr '\n' ' ')" "one two " "after renames with flags"
# unlink while open: the data stays until the last close
echo kept >u && exec 5<>u && rm u || fail "unlink while open"
[[ ! -e u ]] || fail "the name is still there"
equal "$(cat <&5)" kept "read after unlink"
echo more >&5 && equal "$(stat -L -c %s /proc/self/fd/5)" 10 "size after unlink"
equal "$(find "$SERVER_WORK" -maxdepth 1 -name '.nfs*' | wc -l)" 1 "one silly name"
exec 5>&-
none_silly() { [[ ! $(find "$SERVER_WORK" -maxdepth 1 -name '.nfs*') ]]; }
until_true "it is gone after the close" none_silly
# the same when a rename takes the name away, and when an open file was renamed
echo old >r1 && exec 5<r1 && echo new >r2 && mv r2 r1 || fail "rename over an open file"
equal "$(cat <&5)$(cat r1)" oldnew "both contents"
exec 5<&-
echo x >m1 && exec 5<m1 && mv m1 m2 && rm m2 && equal "$(cat <&5)" x "renamed, then unlinked, open"
exec 5<&-
# hard links: whichever name is left is the one that counts
echo data >h1 && ln h1 h2 && rm h2 && exec 5<h1 && rm h1 && equal "$(cat <&5)" data "the last of two names unlinked, open"
exec 5<&-
echo data >h1 && ln h1 h2 && exec 5<h1 && rm h1 h2 && equal "$(cat <&5)" data "both names unlinked, open"
exec 5<&-
echo data >h1 && ln h1 h2 && rm h2 && exec 5<h1 && echo new >h3 && mv h3 h1 && equal "$(cat <&5)" data "replaced, open"
exec 5<&-
# a rename over an open file that the server refuses: both are where they were
mkdir full && echo old >r1 && exec 5<r1 && echo new >full/r2 && chmod 555 full
[[ $(id -u) == 0 ]] || expect_error "Permission denied" mv -f full/r2 r1
chmod 755 full && equal "$(cat r1)$(cat full/r2)" oldnew "after a rename that failed"
exec 5<&-
# rmdir right after the last close of what was unlinked, or replaced, in it: as often
# as it takes to meet the removal of the .nfs file that is under way: a client that did
# not wait for it failed in one round of 50 in a guest, of 100 over iWARP
amount 400 70
rounds=$REPLY perl -e '
	sub must { $_[0] or die "$_[1] number $i: $!\n" }
	for $i (1..$ENV{rounds}) {
		must(mkdir("rd"), "mkdir") && must(open(my $f, ">", "rd/f"), "open");
		if ($i % 2) {
			must(unlink("rd/f"), "unlink");
		} else {
			must(open(my $g, ">", "rd/g"), "open") && close($g);
			must(rename("rd/g", "rd/f"), "rename") && must(unlink("rd/f"), "unlink");
		}
		close($f);
		must(rmdir("rd"), "rmdir");
	}' || fail "rmdir after the last close"
# what is removed in the middle of a listing does not come back
mkdir going && touch going/{1..60} && perl -e '
	opendir(my $d, "going"); readdir($d) for 1..10;
	unlink map { "going/$_" } 1..60;
	while (defined(my $n = readdir($d))) { die "$n is there again\n" if $n !~ /^\.+$/ && -e "going/$n"; }' || fail "a listing and removals"
rmdir going || fail "rmdir of what is empty now"
# exclusive create
( set -C; echo 1 >excl ) || fail "O_EXCL create"
( set -C; echo 2 >excl ) 2>/dev/null && fail "O_EXCL on an existing file"
equal "$(cat excl)" 1 "after both"
# names
n=$(printf 'n%.0s' {1..255})
echo n >"$n" && equal "$(find "$SERVER_WORK" -maxdepth 1 -name "$n" | wc -l)" 1 "a name of 255 bytes"
expect_error "File name too long" touch "${n}x"
odd=$'a b\n"\'\\*\t\xc3\xa9'
echo odd >"$odd" && equal "$(cat "$SERVER_WORK/$odd")" odd "a name with everything in it"
# special files
mkfifo fifo && [[ -p $SERVER_WORK/fifo ]] || fail mkfifo
( echo through >fifo & ) ; equal "$(cat fifo)" through "a fifo works"
[[ $(id -u) != 0 ]] || { mknod null c 1 3 && equal "$(stat -c %t,%T "$SERVER_WORK/null")" 1,3 "device numbers"; }
# attributes
chmod 640 t && equal "$(stat -c %a "$SERVER_WORK/t")" 640 chmod
touch -d '2001-02-03 04:05:06.789' t && equal "$(stat -c %Y "$SERVER_WORK/t")" "$(date -d '2001-02-03 04:05:06' +%s)" "mtime"
touch -d '2040-01-01 00:00:00' t && equal "$(stat -c %Y t)" "$(date -d '2040-01-01 00:00:00' +%s)" "a time after 2038"
touch t && at_most "$(( $(date +%s) - $(stat -c %Y t) ))" 60 "touch sets now"
(umask 077; echo >private; mkdir pdir); equal "$(stat -c %a "$SERVER_WORK/private" "$SERVER_WORK/pdir" | tr '\n' ' ')" "600 700 " umask
[[ $(id -u) != 0 ]] || { chown 1234:5678 t && equal "$(stat -c %u:%g "$SERVER_WORK/t")" 1234:5678 chown; }
equal "$(stat -c %U . | head -1)" "$(id -un)" owner
# changes of others are seen at the next open (close-to-open)
echo first >cto && cat cto >/dev/null && vm-root bash -c "echo second >'$SERVER_WORK/cto'"
equal "$(cat cto)" second "close-to-open"
echo one >log && stat log >/dev/null && vm-root bash -c "echo two >>'$SERVER_WORK/log'" && echo three >>log
equal "$(tr '\n' ' ' <"$SERVER_WORK/log")" "one two three " "append to what others appended to"
# O_APPEND that is set after the open: at the end that the file had at the open
echo one >late && stat late >/dev/null && vm-root bash -c "echo two >>'$SERVER_WORK/late'"
"${BIN%/src/*}/tests/vm-clients/append" late three || fail "append"
equal "$(tr '\n' ' ' <"$SERVER_WORK/late")" "one two three" "O_APPEND set after the open"
# a file that was renamed while nobody had it open is kept when its new name goes
echo kept >tmp && mv tmp final && exec 7<final && rm final
equal "$(cat <&7)" kept "open, renamed before, removed"
exec 7<&-
# directories as people read them
mkdir many && touch many/{001..200} && equal "$(ls many | wc -l)" 200 "200 entries"
equal "$(ls -a many | head -2 | tr '\n' ' ')" ". .. " "dot and dot-dot"
rm -r many && [[ ! -e $SERVER_WORK/many ]] || fail "rm -r"
fsync=$(dd if=/dev/zero of=synced bs=4k count=10 conv=fsync 2>&1) || fail "fsync: $fsync"
cd / && mount_down
