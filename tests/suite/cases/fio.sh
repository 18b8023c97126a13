# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Verified random writes by four jobs, buffered and direct.
mount_up
# Where fio puts its own files.
cd "$TMPDIR" || fail cd
amount 8m 2m
size=$REPLY
for direct in 0 1; do
	fio --directory="$WORK" --name=v$direct --rw=randwrite --bsrange=512-256k --size=$size --numjobs=4 \
		--direct=$direct --ioengine=psync --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--fallocate=none --group_reporting --output="$TMPDIR/fio.out" || { cat "$TMPDIR/fio.out"; fail "fio direct=$direct"; }
done
amount 1m 256k
fio --directory="$WORK" --name=aio --rw=randrw --bs=4k --size=$REPLY --numjobs=4 --iodepth=16 --direct=1 --ioengine=libaio \
	--verify=crc32c --verify_fatal=1 --fallocate=none --group_reporting --output="$TMPDIR/fio.out" || { cat "$TMPDIR/fio.out"; fail "fio libaio"; }
mount_down
