# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Verified random writes by four jobs, buffered and direct.
mount_up
# Where fio puts its own files.
cd "$TMPDIR" || fail cd
for direct in 0 1; do
	fio --directory="$WORK" --name=v$direct --rw=randwrite --bsrange=512-256k --size=8m --numjobs=4 \
		--direct=$direct --ioengine=psync --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--fallocate=none --group_reporting --output="$TMPDIR/fio.out" || { cat "$TMPDIR/fio.out"; fail "fio direct=$direct"; }
done
fio --directory="$WORK" --name=aio --rw=randrw --bs=4k --size=1m --numjobs=4 --iodepth=16 --direct=1 --ioengine=libaio \
	--verify=crc32c --verify_fatal=1 --fallocate=none --group_reporting --output="$TMPDIR/fio.out" || { cat "$TMPDIR/fio.out"; fail "fio libaio"; }
mount_down
