# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# 100,000 entries (in a guest 20,000); the price of ls -l in RPCs; offsets that stay true.
# shellcheck disable=SC2016 # the server's
amount 100000 20000
many=$REPLY
vm-server bash -c 'mkdir -p "$NFSRDMA_EXPORT"/bigdir/{big,ten,gone} && cd "$NFSRDMA_EXPORT/bigdir/big" &&
	seq -f "entry-number-%06.0f" 1 "$1" | xargs touch &&
	cd ../ten && seq -f "file%05.0f" 1 10000 | xargs touch &&
	cd ../gone && seq -f "file%05.0f" 1 800 | xargs touch && chmod -R a+rwX .' - "$many" || fail "files on the server"
mount_up
# ls -l of 10,000: at most one RPC for 100 entries
before=$(stat_now rpc.calls)
equal "$(ls -l "$WORK/ten" | wc -l)" 10001 "ls -l, 10,000 files"
rpcs=$(( $(stat_now rpc.calls) - before ))
echo "ls -l of 10,000 files: $rpcs RPCs"
at_most $rpcs 100 "RPCs for ls -l of 10,000 files"
# all of them, each once
find "$WORK/big" -type f -printf '%f\n' | sort >"$TMPDIR/seen"
seq -f 'entry-number-%06.0f' 1 "$many" >"$TMPDIR/want"
cmp "$TMPDIR/seen" "$TMPDIR/want" || fail "$many entries: $(wc -l <"$TMPDIR/seen") seen"
# telldir and seekdir
perl -e '
	opendir(my $d, $ARGV[0]) or die; my (@pos, @name);
	while (1) { my $p = telldir($d); my $n = readdir($d); last if !defined $n; push @pos, $p; push @name, $n; }
	for my $i (map { int($_ * $#pos / 50) } reverse 0..50) {
		seekdir($d, $pos[$i]); my $n = readdir($d);
		die "seek to entry $i gives $n, not $name[$i]\n" if $n ne $name[$i];
	}
	rewinddir($d); my $c = 0; $c++ while defined readdir($d);
	die "after rewind: $c, not " . @name . "\n" if $c != @name;
' "$WORK/ten" || fail "seekdir"
# removing while reading, as rm -r does
rm -r "$WORK/gone" || fail "rm -r of 800 files"
[[ ! -e $SERVER_WORK/gone ]] || fail "the directory is still there"
mount_down
