# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Verified random writes by four jobs: buffered, direct, by mappings, O_SYNC, and all of
# these at once; and small ones in order, with an fsync() now and then.
mount_up
# Where fio puts its own files.
cd "$TMPDIR" || fail cd
# verified NAME SIZE OPTION... - what is behind a further --name=JOB is that job's alone.
verified() {
	fio --directory="$WORK" --size="$2" --ioengine=psync --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none \
		--group_reporting --output="$TMPDIR/fio.out" --numjobs=4 --rw=randwrite --bsrange=512-256k --name="$1" "${@:3}" ||
		{ cat "$TMPDIR/fio.out"; fail "fio $1"; }
}
amount 8m 2m
verified buffered "$REPLY"
verified direct "$REPLY" --direct=1
amount 2m 512k
verified mapped "$REPLY" --ioengine=mmap
verified synced "$REPLY" --sync=1
verified in-order "$REPLY" --rw=write --bsrange=512-8k --fsync=100
verified mixed "$REPLY" --numjobs=1 --name=mixed-direct --numjobs=1 --direct=1 --name=mixed-mapped --numjobs=1 --ioengine=mmap \
	--name=mixed-synced --numjobs=1 --sync=1 --name=mixed-in-order --numjobs=1 --rw=write --bs=4k
amount 1m 256k
fio --directory="$WORK" --name=aio --rw=randrw --bs=4k --size="$REPLY" --numjobs=4 --iodepth=16 --direct=1 --ioengine=libaio \
	--verify=crc32c --verify_fatal=1 --fallocate=none --group_reporting --output="$TMPDIR/fio.out" || { cat "$TMPDIR/fio.out"; fail "fio libaio"; }
mount_down
