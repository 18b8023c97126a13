# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# ctl's top: which files and which processes are busy, for people and as JSON.
watched_up 20195 timeo=600
listeners() { grep -c 'listens to single requests' "$LOG"; }
# watch FILE OPTION... - a top that listens when it returns.
watch() {
	local n
	n=$(listeners)
	ctl "$MNT" top --count 1 "${@:2}" >"$1" 2>&1 &
	watcher=$!
	heard() { (( $(listeners) > n )); }
	until_true "the listener" heard
}
dir=${WORK#"$MNT"}
odd=$'new\nline\xffand\\'
head -c 40960 /dev/zero >"$WORK/read" && head -c 4096 /dev/zero >"$WORK/$odd" || fail write

# 10 + 3 direct reads of one process, and 5 direct writes of another one, which has an odd name
ln "$(type -P dd)" "$TMPDIR/bu"$'\x1b'"sy" 2>/dev/null || cp "$(type -P dd)" "$TMPDIR/bu"$'\x1b'"sy" || fail cp
watch "$TMPDIR/json" --json --interval 3
dd if="$WORK/read" of=/dev/null bs=4k count=10 iflag=direct status=none || fail read
"$TMPDIR/bu"$'\x1b'"sy" if=/dev/zero of="$WORK/$odd" bs=4k count=5 oflag=direct conv=notrunc status=none || fail write
wait "$watcher" || fail "top: $(<"$TMPDIR/json")"
python3 - "$TMPDIR/json" "$dir" <<'END' || fail "top as JSON: $(<"$TMPDIR/json")"
import json, sys
lines = open(sys.argv[1], errors="strict").read().splitlines()
assert len(lines) == 1, "one line each time"
o, dir = json.loads(lines[0]), sys.argv[2]
files = {f["name"]: f for f in o["files"]}
f = files[dir + "/read"]
assert (f["reads"], f["writes"], f["bytes"]) == (10, 0, 40960), f
assert f["others"] >= 1 and f["latency_ns"] > 0, f
f = files[dir + "/new\\nline\\xffand\\\\"]
assert (f["reads"], f["writes"], f["bytes"]) == (0, 5, 20480), f
sums = [f["reads"] + f["writes"] + f["others"] for f in o["files"]]
assert sums == sorted(sums, reverse=True), sums
assert any((p["reads"], p["bytes"]) == (10, 40960) and p["pid"] for p in o["processes"]), o["processes"]
assert any((p["writes"], p["bytes"]) == (5, 20480) for p in o["processes"]), o["processes"]
assert (o["lost"], o["further_files"], o["further_processes"]) == (0, 0, 0)
END

# for people; a program that still runs has a name, and its threads are one process
cat >"$TMPDIR/threads.py" <<'END'
import os, sys, threading, time
open("/proc/self/comm", "wb").write(b"a\x1b\nb\xff")
def read():
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for i in range(4):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(fd, 1, 0)
    time.sleep(int(sys.argv[2]) + 2)
all = [threading.Thread(target=read) for _ in range(3)]
[t.start() for t in all]
print(os.getpid(), flush=True)
[t.join() for t in all]
END
# Python takes seconds to begin in an emulated guest.
amount 2 10; seconds=$REPLY
watch "$TMPDIR/text" --interval "$seconds"
python3 "$TMPDIR/threads.py" "$WORK/read" "$seconds" >"$TMPDIR/pid" &
threads=$!
wait "$watcher" || fail "top: $(<"$TMPDIR/text")"
wait "$threads" || fail "threads"
grep -qE "^ *[0-9]+ +[0-9]+ +[0-9.KM]+ +[0-9]+ +[0-9.]+(us|ms|s) $dir/read$" "$TMPDIR/text" || fail "no file: $(<"$TMPDIR/text")"
equal "$(grep -cF " $(<"$TMPDIR/pid") " "$TMPDIR/text")" 1 "lines of one process with three threads: $(<"$TMPDIR/text")"
# The name is that of the thread that has written it: python3's first one.
grep -qE " $(<"$TMPDIR/pid") a\\\\x1b\\\\nb\\\\xff$" "$TMPDIR/text" || fail "no name: $(<"$TMPDIR/text")"
LC_ALL=C grep -q '[^ -~]' "$TMPDIR/text" && fail "what is not printable: $(cat -v "$TMPDIR/text")"

# the end of the mount is its end
watch "$TMPDIR/last" --interval 600
mount_down
wait "$watcher"
equal $? 3 "top's status at the end of the mount"
gateway_down
