# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2016,SC2034,SC2317
# The daemon is in a pid namespace of its own, as in a container beside the programs': FUSE
# does not say whose a request is. Signals that end no program end no request, however slow
# the server is, and what is not known of the programs is said.
[[ $(id -u) == 0 ]] || skip "root is needed, for a namespace"
has_gateway
trap end_all EXIT
gateway_up 20101 "$NFSRDMA_SERVER" --fabric iwarp

printf '#!/bin/sh\nexec unshare --pid --fork --kill-child -- "%s" "$@"\n' "$BIN" >"$TMPDIR/contained"
chmod 755 "$TMPDIR/contained"
BIN=$TMPDIR/contained mount_up "port=20101,heartbeat=600,timeo=6000"

# begin NAME OPERATION - a program that is ready to do it, and gets signals meanwhile.
pids=()
begin() {
	perl -MFcntl -MIO::Handle -MTime::HiRes=ualarm,sleep -e '
		my ($dir, $name, $operation) = @ARGV; my $signals = 0;
		$SIG{ALRM} = sub { $signals++ };
		sysopen(F, "$dir/$name", O_CREAT | O_RDWR | ($name eq "sync" ? O_SYNC : 0)) or die "$name: open: $!\n";
		syswrite(F, "x" x 100000) == 100000 or die "$name: write: $!\n";
		open(READY, ">", "$ENV{TMPDIR}/$name.ready"); close(READY);
		sleep 0.05 until -e "$ENV{TMPDIR}/go";
		ualarm(100000, 100000);
		eval($operation) or die "$name: $!\n";
		ualarm(0);
		$signals or die "$name: $signals signals\n";
	' "$WORK" "$1" "$2" 2>"$TMPDIR/$1.said" &
	pids+=($!)
}
begin fsync 'F->sync'
begin close 'close(F)'
begin sync 'syswrite(F, "y" x 4096) == 4096'
begin mkdir 'mkdir("$dir/new")'
begin truncate 'truncate(F, 10)'
begin read 'sysread(F, my $buf, 4096) >= 0 && open(G, "<", "$dir/sync")'
ready() { [[ $(find "$TMPDIR" -name '*.ready' | wc -l) == 6 ]]; }
until_true "six programs" ready
vm-root kill -STOP "$GATEWAY"
touch "$TMPDIR/go"
stat "$WORK/unknown" >/dev/null 2>&1 &
killed=$!
sleep 5         # a request is given up after two seconds
kill -KILL $killed
vm-root kill -CONT "$GATEWAY"
for pid in "${pids[@]}"; do wait "$pid" || fail "a signal that ends nothing: status $? $(cat "$TMPDIR"/*.said)"; done
[[ -d $SERVER_WORK/new ]] || fail "mkdir said that it was done"
equal "$(stat -c %s "$SERVER_WORK/truncate")" 10 "the file that was cut"
gone $killed || fail "the server is there, and a killed program still waits for it"
wait $killed 2>/dev/null

# What a group may read is refused, and the log says why, once.
echo hello >"$SERVER_WORK/groups"
chown root:4242 "$SERVER_WORK/groups"
chmod 040 "$SERVER_WORK/groups"
for i in 1 2; do
	expect_error "Permission denied" setpriv --reuid 1001 --regid 1001 --groups 4242 cat "$WORK/groups"
done
equal "$(grep -c 'in another pid namespace' "$LOG")" 1 "lines about groups"
mount_down
exit 0
