# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# ctl's log: a line for each request, with the file's name; filters; a listener that does not read.
watched_up 20194 timeo=600
# listen FILE FILTER... - a listener that is there when it returns.
listen() {
	local n
	n=$(grep -c 'listens to single requests' "$LOG")
	"$BIN" ctl "$MNT" log "${@:2}" >"$1" 2>"$1.err" &
	listeners+=($!)
	heard() { (( $(grep -c 'listens to single requests' "$LOG") > n )); }
	until_true "the listener" heard
}
listeners=()
in_file() { grep -qE -- "$2" "$1"; }
# line FILE WHAT - there is such a line, or soon.
line() { until_true "$2 in $(<"$1")" in_file "$1" "$2"; }
listen "$TMPDIR/all"
listen "$TMPDIR/writes" op=write "name=*/deep/*"
listen "$TMPDIR/nobody" uid=4000000000
listen "$TMPDIR/slow" slower=50000
dir=${WORK#"$MNT"}
# Patterns of any text. What a line has finds its file, and so do its bytes.
odd=$'new\nline\xffand\\' shown='new\nline\xffand\\'
listen "$TMPDIR/blank" "name=*/My Documents/*"
listen "$TMPDIR/umlaut" "name=*/Gr*ü*"
patterns=("$dir/$shown" '*/*\nline*' '*\xffand*' $'*/new\nline*' $'*\xffand*')
for i in "${!patterns[@]}"; do listen "$TMPDIR/odd.$i" "name=${patterns[i]}"; done
listen "$TMPDIR/copied" "name=$dir/a[1] *?"
mkdir "$WORK/deep" && head -c 5000 /dev/zero >"$WORK/deep/f" && head -c 5000 /dev/zero >"$WORK/shallow" || fail write
mkdir "$WORK/My Documents" && : >"$WORK/My Documents/a b" && : >"$WORK/Grün" && : >"$WORK/a[1] *?" &&
	: >"$WORK/$odd" || fail "odd names"
stat "$WORK/none" >/dev/null 2>&1 && fail "it is there"
line "$TMPDIR/all" "^[0-9:.]{15} [0-9]+ MKDIR - [0-9]+us [1-9][0-9]*us OK $dir/deep$"
line "$TMPDIR/all" "^[0-9:.]{15} [0-9]+ CREATE - [0-9]+us [0-9]+us OK $dir/deep/f$"
line "$TMPDIR/all" " WRITE 0\+5000 [0-9]+us [0-9]+us OK $dir/deep/f$"
line "$TMPDIR/all" " WRITE 0\+5000 [0-9]+us [0-9]+us OK $dir/shallow$"
line "$TMPDIR/all" "/new\\\\nline\\\\xffand\\\\\\\\$"
line "$TMPDIR/all" " LOOKUP - .* $dir/none$"
line "$TMPDIR/writes" " WRITE 0\+5000 [0-9]+us [0-9]+us OK $dir/deep/f$"
line "$TMPDIR/blank" " CREATE .* $dir/My Documents/a b$"
line "$TMPDIR/umlaut" " CREATE .* $dir/Grün$"
line "$TMPDIR/copied" " CREATE .* $dir/a\[1\] \*\?$"
equal "$(cat "$TMPDIR"/{blank,umlaut,copied} | grep -vcE '/(My Documents/a b|Grün|a\[1\] \*\?)$')" 0 "lines of other names"
for i in "${!patterns[@]}"; do
	line "$TMPDIR/odd.$i" " CREATE .*/new\\\\nline\\\\xffand\\\\\\\\$"
	equal "$(grep -vcF "$dir/$shown" "$TMPDIR/odd.$i")" 0 "lines of others with ${patterns[i]@Q}"
done
equal "$(wc -l <"$TMPDIR/writes")" 1 "lines behind a filter"
equal "$(wc -c <"$TMPDIR/nobody")$(wc -c <"$TMPDIR/slow")" 00 "lines of nobody, and of what was slow"
kill "${listeners[@]}"
wait "${listeners[@]}" 2>/dev/null
"$BIN" ctl "$MNT" log slower=5000000 >"$TMPDIR/said" 2>&1
equal "$? $(<"$TMPDIR/said")" "2 nfsrdma-fuse: ctl: 'slower=5000000' is not a filter with a time from 0 to 3600000 milliseconds" \
	"a time that is too long"
"$BIN" ctl "$MNT" log op >"$TMPDIR/said" 2>&1
equal $? 2 "no filter: status"
# a program's own requests, as JSON
listen "$TMPDIR/json" --json op=LOOKUP
bash -c 'echo $$; [[ -e $1/none.2 ]]; :' - "$WORK" >"$TMPDIR/pid"
line "$TMPDIR/json" "\"pid\":$(<"$TMPDIR/pid"),.*none.2"

# one that does not read: nobody waits for it, and it is told
python3 - "$BIN" "$MNT" "$WORK" >"$TMPDIR/slowly" 2>&1 <<'END' || fail "a slow reader: $(<"$TMPDIR/slowly")"
import os, re, subprocess, sys, time
binary, mnt, work = sys.argv[1:]
r, w = os.pipe()
p = subprocess.Popen([binary, "ctl", mnt, "log", "op=LOOKUP"], stdout=w)
os.close(w)
time.sleep(1)
start, n = time.monotonic(), 0
while n < 30000 and time.monotonic() - start < 60:
    try:
        os.stat(f"{work}/missing.{n}")
    except FileNotFoundError:
        n += 1
took = time.monotonic() - start
f, seen, lost, more = os.fdopen(r, errors="replace"), 0, 0, 0
end = f"missing.last"
deadline = time.monotonic() + 60
import threading
stop = threading.Event()
def ask():
    i = 0
    while not stop.is_set() and time.monotonic() < deadline:
        i += 1
        try:
            os.stat(f"{work}/{end}.{i}")
        except FileNotFoundError:
            pass
        time.sleep(0.02)
threading.Thread(target=ask, daemon=True).start()
for line in f:
    m = re.fullmatch(r"# (\d+) lines are lost\n", line)
    if m:
        lost += int(m[1])
    elif end in line:
        break
    elif "missing." in line:
        seen += 1
stop.set()
p.kill()
print(n, "asked in", round(took, 1), "s;", seen, "seen,", lost, "lost")
if not lost or abs(seen + lost - n) > 20:
    sys.exit("these do not come to the same")
END
echo "# $(<"$TMPDIR/slowly")"
kill "${listeners[@]}" 2>/dev/null
# the end of the mount is the end of the log
listen "$TMPDIR/last"
last=${listeners[-1]}
mount_down
wait "$last"
equal $? 3 "the listener's status at the end of the mount"
grep -q 'has ended' "$TMPDIR/last.err" || fail "at the end: $(<"$TMPDIR/last.err")"
gateway_down
