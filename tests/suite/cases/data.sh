# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Random files of many sizes up to 300 MiB, both directions, against the server's own view;
# a sparse file with data beyond 4 GiB; odd offsets and lengths.
mount_up
# Sizes around the limits of pages, of inline messages, of one request.
mkdir "$TMPDIR/src"
for s in 0 1 3 4095 4096 4097 65455 65456 65457 131073 1048575 1048576 1048577 5000001; do
	random "$TMPDIR/src/$s" $s
done
cp -r "$TMPDIR/src" "$WORK/up" || fail "cp up"
vm-root cp -r "$TMPDIR/src" "$SERVER_WORK/down" && vm-root chmod -R a+rwX "$SERVER_WORK/down"
for dir in "$SERVER_WORK/up" "$WORK/up" "$WORK/down"; do
	diff -r "$TMPDIR/src" "$dir" || fail "the files in $dir"
done
rm -r "$TMPDIR/src" "$WORK/up" "$WORK/down" || fail "rm"
# One large file, of 300 MiB unless another one is given: up, and what the server
# wrote itself down; each end reads it once.
if [[ ! ${NFSRDMA_NOISE:-} ]]; then
	NFSRDMA_NOISE=$TMPDIR/noise
	random "$NFSRDMA_NOISE" 314572800
fi
cp "$NFSRDMA_NOISE" "$WORK/up" || fail "cp up, the large file"
# shellcheck disable=SC2016 # the server's
vm-server bash -c 'cmp "$1" "$NFSRDMA_EXPORT/data/up"' - "$NFSRDMA_NOISE" || fail "the large file as the server has it"
rm "$WORK/up" || fail "rm"
vm-root cp "$NFSRDMA_NOISE" "$SERVER_WORK/down"
cmp "$NFSRDMA_NOISE" "$WORK/down" || fail "a large file that the server wrote"
rm "$WORK/down" || fail "rm"
# O_DIRECT with blocks that are not aligned in the file.
random "$TMPDIR/src" 9000011
dd if="$TMPDIR/src" of="$WORK/direct" bs=1000003 oflag=direct status=none || fail "O_DIRECT write"
same "$TMPDIR/src" "$SERVER_WORK/direct"
dd if="$WORK/direct" of="$TMPDIR/back" bs=777777 iflag=direct status=none || fail "O_DIRECT read"
same "$TMPDIR/src" "$TMPDIR/back"
# Beyond 4 GiB, with holes.
for at in 0 4294967290 4294967296 6442450941; do
	printf 'data at %s' $at | dd of="$WORK/sparse" bs=1 seek=$at conv=notrunc status=none || fail "sparse write"
done
equal "$(stat -c %s "$WORK/sparse")" 6442450959 "size of the sparse file"
for at in 0 4294967290 4294967296 6442450941; do
	equal "$(tail -c +$(( at + 1 )) "$SERVER_WORK/sparse" | head -c 6)" "$(printf 'data at %s' $at | head -c 6)" "server's bytes at $at"
	equal "$(tail -c +$(( at + 1 )) "$WORK/sparse" | head -c 6)" "$(printf 'data at %s' $at | head -c 6)" "our bytes at $at"
done
cmp <(dd if="$WORK/sparse" bs=1M skip=4090 count=12 status=none) \
	<(dd if="$SERVER_WORK/sparse" bs=1M skip=4090 count=12 status=none) || fail "sparse file around 4 GiB"
at_most "$(vm-root stat -c %b "$SERVER_WORK/sparse")" 200 "blocks of the sparse file on the server"
# Appends, and a write in the middle.
for i in 1 2 3 4 5; do echo "line $i" >>"$WORK/append" || fail append; done
printf 'LINE' | dd of="$WORK/append" bs=1 seek=7 conv=notrunc status=none
equal "$(tr '\n' '|' <"$SERVER_WORK/append")" "line 1|LINE 2|line 3|line 4|line 5|" "appended file"
mount_down
