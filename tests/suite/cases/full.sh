# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A file system without room: who writes is told, by whatever call has to tell.
mapped=${BIN%/src/*}/tests/vm-clients/mapped
[[ -x $mapped ]] || skip "no $mapped"
small_on_knfsd() {
	# shellcheck disable=SC2016 # the server's
	vm-server bash -ec 'fs=$NFSRDMA_EXPORT/full/fs
		mkdir "$fs" && mount -t tmpfs -o size=1m,mode=1777 full "$fs"
		exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=77 "*:$fs"' || fail "no small file system"
	# shellcheck disable=SC2016
	trap '[[ ${DAEMON:-} ]] && kill -KILL $DAEMON
		vm-server bash -c "exportfs -u \"*:\$NFSRDMA_EXPORT/full/fs\"; umount -l \"\$NFSRDMA_EXPORT/full/fs\""' EXIT
	REMOTE=${REMOTE%/}/full/fs
}
if [[ $NFSRDMA_KERNEL == ganesha ]]; then
	REMOTE=${REMOTE%/}/small        # tests/host/run has made it
else
	small_on_knfsd
fi
mount_up
cd "$MNT" || fail cd
full="No space left on device"
expect_error "$full" dd if=/dev/zero of=written bs=64k count=64
grep -q "has not stored .* of '$MNT/written', from byte .*: $full" "$LOG" || fail "the log does not say what was dropped"
rm written || fail rm
# The kernel writes mapped pages back when it likes, in close() at the latest.
equal "$("$mapped" mapped 2097152 close)" "close: $full" "a mapping that is written, unmapped and closed"
rm mapped || fail rm
# With consistency=solo FUSE writes all pages back in each close(), and tells the error there as well.
reader=Success
[[ $MOUNT_OPTIONS != *consistency=solo* ]] || reader=$full
equal "$("$mapped" mapped 2097152 reader | tr '\n' ',')" "reader: $reader,close: $full," "the same, with one who reads"
rm mapped || fail rm
equal "$("$mapped" mapped 2097152 msync | head -1)" "msync: $full" "msync"
rm mapped || fail rm
equal "$("$mapped" mapped 65536 close)" "close: Success" "a mapping that there is room for"
equal "$(tr -d m <mapped | wc -c)" 0 "its bytes"
# Asking once is enough: close() has nothing to say to the server.
before=$(stat_now rpc.calls)
for _ in {1..20}; do exec 5<>mapped; exec 5>&-; done
at_most "$(( $(stat_now rpc.calls) - before ))" 45 "RPCs of 20 times open and close"
# The kernel takes the size back that the file had for it before a direct write; not what others have added.
if [[ $NFSRDMA_KERNEL == ganesha && $MOUNT_OPTIONS != *consistency=solo* ]]; then
	rm mapped || fail rm
	: >direct
	python3 - "$NFSRDMA_EXPORT/small/direct" <<-'END' || fail "a direct write that fails: see above"
	import mmap, os, sys
	fd = os.open("direct", os.O_RDWR | os.O_DIRECT)
	with open(sys.argv[1], "wb") as others:
	    others.write(b"o" * 100000)
	try:
	    os.pwrite(fd, mmap.mmap(-1, 2 << 20), 200 << 10)
	    sys.exit("2 MiB had room")
	except OSError as e:
	    print(e)
	with open(sys.argv[1], "rb") as now:
	    sys.exit(now.read(100000) != b"o" * 100000 and "what others had written was cut off")
	END
	rm direct || fail rm
fi
cd / || fail cd
mount_down
