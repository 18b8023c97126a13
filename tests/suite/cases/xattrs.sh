# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Extended attributes of users, as getfattr and setfattr use them, seen from both sides. knfsd has
# them with version 4.2, nfs-ganesha (up to 4) not.
for tool in getfattr setfattr; do command -v $tool >/dev/null || skip "no $tool"; done
mount_up
cd "$WORK" || fail cd

# value FILE NAME - its value, as the mount has it, to standard output.
value() { getfattr --absolute-names --only-values -n "$2" "$1"; }
# there NAME - the value of f's, as the server has it.
there() { vm-root getfattr --absolute-names --only-values -n "$1" "$SERVER_WORK/f"; }

echo data >f && mkdir d || fail setup
if [[ $VERS != 4.2 || $NFSRDMA_KERNEL == ganesha ]]; then
	expect_error "not supported" setfattr -n user.a -v x f
	expect_error "not supported" getfattr -n user.a f
	expect_error "not supported" setfattr -x user.a f
	cd / && mount_down
	exit 0
fi

setfattr -n user.a -v hello f || fail "set"
equal "$(value f user.a)" hello "here"
equal "$(there user.a)" hello "on the server"
setfattr -n user.b f || fail "an empty value"
equal "$(value f user.b | wc -c)" 0 "an empty value"
vm-root setfattr -n user.c/d -v 'from there' "$SERVER_WORK/f" || fail "set on the server"
equal "$(value f user.c/d)" "from there" "what the server's own have set is seen at once"
equal "$(getfattr --absolute-names f | grep -c '^user\.')" 3 "names"
vm-root setfattr -n user.a -v other "$SERVER_WORK/f" || fail "set on the server"
equal "$(value f user.a)" other "nothing is kept here"
expect_error "No such attribute" getfattr -n user.none f
expect_error "No such attribute" setfattr -x user.none f
setfattr -x user.a f || fail "remove"
expect_error "No such attribute" getfattr -n user.a f
! there user.a 2>/dev/null || fail "it is still there"
# directories have them, and so has what was renamed
setfattr -n user.dir -v 1 d && equal "$(value d user.dir)" 1 "of a directory"
mv f g && equal "$(value g user.c/d)" "from there" "after a rename" && mv g f || fail rename
# other namespaces
expect_error "not supported" setfattr -n user -v x f
[[ $(id -u) != 0 ]] || expect_error "not supported" setfattr -n trusted.a -v x f

# Sizes, up to what the server's file system has; and one byte more than Linux has. A name of 255.
perl -e '
	require "syscall.ph";
	sub set { my ($f, $name, $v, $flags) = @_; syscall(&SYS_setxattr, $f, $name, $v, length($v), $flags || 0) }
	sub get { my ($f, $name, $room) = @_; my $b = "\0" x 65536;
		my $n = syscall(&SYS_getxattr, $f, $name, $b, $room // 65536);
		return $n < 0 ? "error $!" : substr($b, 0, $n) }
	sub size { my ($f, $name) = @_; syscall(&SYS_getxattr, $f, $name, 0, 0) }
	for my $n (1, 3000, 3400, 3500, 3600, 3700, 3800, 3900, 4000, 4200, 8000, 20000, 65535, 65536) {
		my $v = join("", map { chr(33 + ($n * 7 + $_) % 90) } 1 .. $n);
		if (set("f", "user.long", $v)) {
			$n > 3000 && $!{ENOSPC} || $!{E2BIG} || $!{EDQUOT} or die "$n bytes: $!\n";
			print "the server has no $n bytes: $!\n";
			next;
		}
		get("f", "user.long") eq $v or die "$n bytes are not what was set\n";
		size("f", "user.long") == $n or die "another size than $n\n";
		$n == 1 || get("f", "user.long", $n - 1) =~ /^error.*(range|large)/i or die "no ERANGE at $n\n";
	}
	set("f", "user.long", "x" x 65537) && $!{E2BIG} or die "65537 bytes: $!\n";
	set("f", "user." . "n" x 250, "v") == 0 && get("f", "user." . "n" x 250) eq "v" or die "a name of 255: $!\n";
	set("f", "user." . "n" x 251, "v") or die "a name of 256\n";
	set("f", "user.new", "1", 1) == 0 or die "create: $!\n";
	set("f", "user.new", "2", 1) && $!{EEXIST} or die "create again: $!\n";
	set("f", "user.new", "3", 2) == 0 && get("f", "user.new") eq "3" or die "replace: $!\n";
	set("f", "user.no", "3", 2) && $!{ENODATA} or die "replace what is not there: $!\n";
	for my $i (1 .. 300) { set("d", sprintf("user.%0150d", $i), "v") == 0 or die "number $i: $!\n" }
	my ($b, $dir) = ("\0" x 65536, "d");
	my $n = syscall(&SYS_listxattr, $dir, $b, 65536);
	my @names = grep { /^user\.0*[1-9]/ } split(/\0/, substr($b, 0, $n));
	@names == 300 or die scalar(@names), " names of 300\n";
' || fail "sizes"

# The kernel does not ask the daemon at each write(), and nothing of this is a call: 1,000 writes
# through the page cache.
before=$(stat_now fuse.requests)
perl -e 'open(my $f, "+<", "f") or die; sysseek($f, 0, 0), syswrite($f, "x" x 10) == 10 || die for 1 .. 1000' || fail "writes"
at_most $(( $(stat_now fuse.requests) - before )) 1050 "requests for 1,000 writes"

# An own change leaves the pages: to read again takes no READ.
head -c 100000 /dev/zero >p && cat p >/dev/null && cat p >/dev/null || fail "a file with pages"
before=$(stat_now read.requests)
setfattr -n user.a -v x p && cat p >/dev/null || fail "read after an attribute was set"
equal "$(stat_now read.requests)" "$before" "READs after an attribute was set"
cd / && mount_down

# A value may be longer than the data of a READ or WRITE.
mount_up rsize=4096,wsize=4096
cd "$WORK" || fail cd
long=$(head -c 40000 /dev/zero | tr '\0' v)
if setfattr -n user.long -v "$long" f 2>"$TMPDIR/said"; then
	equal "$(value f user.long)" "$long" "a value longer than rsize"
else
	grep -q 'No space\|too long\|quota' "$TMPDIR/said" || fail "a value longer than wsize: $(<"$TMPDIR/said")"
	echo "the server has no 40000 bytes"
fi
cd / && mount_down
