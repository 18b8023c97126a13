# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Programs that read and write past the kernel (tests/vm-clients/rings): against a model, beside reads and
# writes by the kernel, in turn with another program, under locks, and killed. With norings there are none.
# A dma-buf is taken as memory where the device has that, and refused in words elsewhere.
rings=${BIN%/src/*}/tests/vm-clients/rings
[[ -x $rings ]] || skip "no $rings"
mount_up
echo data >"$WORK/file" || fail write
equal "$("$rings" past "$WORK/file")" yes "a file of this mount"
equal "$("$rings" past "$BIN")" "Inappropriate ioctl for device" "a file elsewhere"

timeout 600 "$rings" model 6 3000000 "$RANDOM" "$WORK/model" || fail "model"
amount 1000 100
timeout 600 "$rings" turns "$REPLY" "$WORK/turns" || fail "turns"
amount 300 30
timeout 600 "$rings" mapped "$REPLY" "$WORK/mapped" || fail "mapped"
timeout 600 "$rings" append "$REPLY" "$WORK/append" || fail "append"
if [[ ,$MOUNT_OPTIONS, != *,nolock,* ]]; then
	amount 300 30
	timeout 600 "$rings" locks "$REPLY" "$WORK/locks" || fail "locks"
fi
at_least "$(stat_now ring.reads)" 100 "reads by rings"
at_least "$(stat_now ring.writes)" 100 "writes by rings"
# The server has all of it.
cat "$WORK/model" >"$TMPDIR/model"
same "$TMPDIR/model" "$SERVER_WORK/model"

# The mount says who has some.
programs() { in_time 60 "$BIN" ctl "$MNT" rings --json; grep -c '"pid":' "$TMPDIR/in_time" || true; }
equal "$(programs)" 0 "programs with rings, when all have ended"
"$rings" model 5 100000 1 "$WORK/shown" >/dev/null & shown=$!
sees_one() { (( $(programs) == 1 )); }
until_true "a program with rings is shown" sees_one
wait $shown || fail "model, while it is shown"

# A program that is killed leaves nothing behind.
random "$WORK/load" $(( 1 << 20 ))
open_files() { local all=("/proc/$DAEMON/fd/"*); echo ${#all[@]}; }
lends() { grep -q 'memfd:' "/proc/$DAEMON/maps"; }
lends_nothing() { ! lends; }
before=$(open_files)
amount 100 20
timeout 600 "$rings" die "$REPLY" "$WORK/load" || fail "die"
until_true "the daemon has given back all memory of programs" lends_nothing
at_most "$(open_files)" $(( before + 2 )) "files that the daemon has open"

# Memory of a device, as udmabuf plays one.
if [[ -e /dev/udmabuf ]]; then
	vm-root chmod a+rw /dev/udmabuf
	"${rings%/*}/dmabuf" "$WORK/dmabuf" >"$TMPDIR/dmabuf" || fail "dmabuf"
	case $(<"$TMPDIR/dmabuf") in
	works) ;;
	refused:*'takes no memory of other devices'*'use a memfd'*)
		[[ ,$MOUNT_OPTIONS, != *,fabric=iwarp,* ]] || fail "dmabuf by iWARP: $(<"$TMPDIR/dmabuf")" ;;
	*) fail "dmabuf: $(<"$TMPDIR/dmabuf")" ;;
	esac
	echo "# dmabuf: $(<"$TMPDIR/dmabuf")"
	lends_dmabuf() { grep -q 'dmabuf:' "/proc/$DAEMON/maps"; }
	lends_no_dmabuf() { ! lends_dmabuf; }
	until_true "the daemon has given back the dma-buf" lends_no_dmabuf
	at_most "$(open_files)" $(( before + 2 )) "files that the daemon has open"
else
	echo "skip rings: dmabuf: no /dev/udmabuf"
fi

mount_down
mount_up norings
equal "$("$rings" past "$WORK/file")" "Operation not supported" "with norings"
mount_down
