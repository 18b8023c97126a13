# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The command doctor beside a real server: what it says of a good one, of one without RDMA, of a path
# that is dead, of an export that is not there, and of too little locked memory. Its report, also of a
# mount that runs. In a guest, where there is one: what it says of an RDMA device.
[[ $NFSRDMA_KERNEL == ganesha || $NFSRDMA_FABRIC == rxe ]] || skip "no RDMA device, and the server's ports are not played"
trap end_all EXIT

# doctor STATUS ARG... - what it says goes to $SAID, each finding a line.
SAID=$TMPDIR/doctor
doctor() {
	local status=$1 got
	shift
	timeout 120 "$BIN" doctor "$@" >"$SAID" 2>&1; got=$?
	(( got == status )) || fail "doctor $*: status $got, not $status: $(<"$SAID")"
}
# says TEXT... - a line has all of these; no_line TEXT - none has that.
says() {
	local line text
	while read -r line; do
		for text in "$@"; do [[ $line == *"$text"* ]] || continue 2; done
		return
	done <"$SAID"
	fail "no line with '$*' in: $(<"$SAID")"
}
no_line() { ! grep -qF -- "$1" "$SAID" || fail "'$1' is in: $(<"$SAID")"; }

# An RDMA device. The one that the server is behind keeps its link: one more has its own, and loses that.
if [[ $NFSRDMA_KERNEL != ganesha ]]; then
	doctor 0 "$REMOTE" -o "vers=$VERS,$MOUNT_OPTIONS"
	no_line "costs something:"
	no_line "in the way:"
	says "good: RDMA device: rxe1 port 1 is ACTIVE (Ethernet, " ", MTU 4096 in use)"
	says "good: RDMA driver: rdma_rxe"
	says "good: fabric: an RDMA device (verbs)"
	says "good: mount:" "version $VERS by verbs, 1 path,"
	says "good: path:" "(verbs, 2 connections)"
	says "good: locked memory:" "the mount locks up to"
	vm-root ip link add doctor0 type veth peer name doctor1 || fail "no more links"
	vm-root ip link set doctor0 up && vm-root ip link set doctor1 up || fail "the link does not come up"
	vm-root rdma link add rxe9 type rxe netdev doctor0 || fail "no more devices"
	doctor 0 -o "vers=$VERS,$MOUNT_OPTIONS"
	# An MTU of 1500 has room for 1024.
	says "good: RDMA device: rxe9 port 1 is ACTIVE (" ", MTU 1024 in use)"
	vm-root ip link set doctor1 down || fail "the link does not go down"
	doctor 1 -o "vers=$VERS,$MOUNT_OPTIONS"
	says "costs something: RDMA device: rxe9 port 1 is DOWN (" "nothing goes there"
	says "remedy: its cable or switch; 'ip link set up' its interface"
	says "good: RDMA device: rxe1 port 1 is ACTIVE"
	vm-root rdma link delete rxe9 && vm-root ip link delete doctor0 || fail "the device does not go"
	exit 0
fi

options=vers=$VERS,fabric=iwarp

# a good server
doctor 0 "$REMOTE" -o "$options"
no_line "costs something:"
no_line "in the way:"
says "good: mount:" "version $VERS by iwarp, 1 path," "remote invalidation, memreg=call"
says "good: link:" "is reached by the interface " " (MTU "
says "good: path:" "is connected"
says "good: versions:" "$VERS: yes, and it is used"
[[ $VERS == 4.1 ]] && says "good: versions:" "4.2: yes"
[[ $VERS == 4.2 ]] && says "good: versions:" "4.1: yes"
says "good: round trip:" " us (median of 20 calls"
says "good: clock:" "differ by no more than 2 s"

# without a server: this machine alone
doctor 0 -o "$options"
no_line "mount:"
doctor 2 -o "vers=$VERS,fabric=verbs"
says "in the way: RDMA device:" "fabric=verbs needs one"
doctor 1
says "costs something: RDMA device:" "this machine has none"

# what users get wrong
doctor 3 "$REMOTE" -o "$options,nosuchoption"
says "nosuchoption"
doctor 3 "$NFSRDMA_SERVER"
doctor 3 "$REMOTE" --report
doctor 2 no-such-host.invalid:/ -o "$options"
says "in the way: addresses:" "no-such-host.invalid"
doctor 2 "$NFSRDMA_SERVER:/nothing" -o "$options"
says "in the way: mount:" "/nothing"
no_line "RDMA port"

# only TCP; nothing at all
doctor 2 "$REMOTE" -o "$options,port=20191"
says "in the way: RDMA port:" "answers NFS over TCP (port 2049, versions 3 and 4), but nothing listens for RDMA by iWARP at" "20191"
says "remedy:" "rdma=y" "/etc/nfs.conf" nfsdctl "rpc.nfsd --rdma" nfsrdma-gateway
# Something else is at that port.
doctor 2 "$REMOTE" -o "$options,port=2049"
says "in the way: RDMA port:" "accepts TCP, and then does not answer" "(2049) is answered"

# Version 3 has services over TCP beside the RDMA port: nobody is at port 9.
if [[ $VERS == 3 ]]; then
	for service in mountport=9 mountport=9,nconnect=2 nlmport=9; do
		doctor 2 "$REMOTE" -o "$options,$service"
		says "in the way: mount:" "refused"
		says "good: RDMA port:" "connects for RDMA, and NFS over TCP (port 2049) is answered"
		equal "$(grep -c "in the way:" "$SAID")" 1 "what is in the way with $service"
		no_line "remedy: vers="
		no_line "listens"
	done
fi

# one path of two: 127.0.0.2 has no gateway
if [[ $VERS == 4.* ]]; then
	doctor 1 "$REMOTE" -o "$options,remoteports=127.0.0.1~127.0.0.2,port=20049"
	says "good: path:" "path 0 to 127.0.0.1 is connected"
	says "costs something: path:" "path 1 to 127.0.0.2 has 0 of" "refused"
	says "costs something: RDMA port:" "127.0.0.2"
fi

# locked memory
if [[ $(id -u) == 0 ]]; then
	chmod 755 "$TMPDIR"
	cp "$BIN" "$TMPDIR/program" && chmod 755 "$TMPDIR/program"
	nobody=(setpriv --reuid nobody --regid nogroup --clear-groups "$TMPDIR/program")
else
	nobody=("$BIN")
fi
small() { ( ulimit -l 64; timeout 60 "${nobody[@]}" doctor "$@" ) >"$SAID" 2>&1; equal $? "$STATUS" "status of doctor $*: $(<"$SAID")"; }
STATUS=2 small "$REMOTE" -o "vers=$VERS,fabric=verbs"
says "in the way: locked memory:" "64 KiB of locked memory (RLIMIT_MEMLOCK) are not enough"
says "remedy: 'ulimit -l "
STATUS=0 small "$REMOTE" -o "$options"
says "good: locked memory: a limit of 64 KiB, and iWARP in user space locks none"

# the report, of a mount that runs
mount_up
echo text >"$WORK/secretname" || fail write
doctor 0 "$REMOTE" -o "$options,stats=/var/tmp/secretstats,comment=secretword,x-secretname" --report "$TMPDIR/report"
equal "$(stat -c %a "$TMPDIR/report")" 600 "the report's mode"
for text in "program: nfsrdma-fuse" "library: libibverbs.so" "distribution:" "== findings" "good: mount:" \
	"chosen: version $VERS" "server-1" "== a mount that runs: " '"rpc.calls":' '"inline_send":'; do
	grep -qF -- "$text" "$TMPDIR/report" || fail "no '$text' in the report: $(<"$TMPDIR/report")"
done
for text in "$NFSRDMA_SERVER" "${NFSRDMA_EXPORT#/}" secretname secretstats secretword "$MNT" "/${MNT##*/}" "${TMPDIR#/}"; do
	grep -nF -- "$text" "$TMPDIR/report" && fail "'$text' is in the report"
done
mount_down
