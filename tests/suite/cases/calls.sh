# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# ctl's calls: what is kept of single calls; and a server that is silent for longer than timeo, as calls, ops and the
# log have it.
watched_up 20193 timeo=20,lanes=1

# kept CONDITION - how many of the calls that were kept are so: of python, k is one of them.
kept() {
	ctl "$MNT" calls --json >"$TMPDIR/calls" || fail calls
	python3 -c 'import json, sys
print(sum(1 for k in json.load(open(sys.argv[1]))["kept"] if eval(sys.argv[2])))' "$TMPDIR/calls" "$1" || fail "calls: $1"
}
# counted MEMBER - of all calls of ops.
counted() {
	ctl "$MNT" ops --json | python3 -c 'import json, sys
print(sum(c[sys.argv[1]] for c in json.load(sys.stdin)["calls"]))' "$1" || fail "ops: $1"
}

# all calls, from now on
ctl "$MNT" calls --slower 0 >/dev/null || fail "calls --slower 0"
head -c 10000 /dev/zero >"$WORK/kept" || fail write
sync "$WORK/kept"
equal "$(kept 'k["name"] == "WRITE" and k["tx_bytes"] > 10000 and k["rtt_ns"] > 0 and not k["status"]')" 1 WRITE
equal "$(kept 'k["name"] == "WRITE" and k["rtt_ns"] + k["queue_ns"] > k["all_ns"] + 1000')" 0 "times that do not fit"
write=$(kept 'k["name"] in ("WRITE", "COMMIT") and k["handle"] != "00000000"')
at_least "$write" 1 "file handles"
(( $(kept 'abs(k["time_ns"] / 1e9 - __import__("time").time()) < 60') > 2 )) || fail "the time of day: $(<"$TMPDIR/calls")"
ctl "$MNT" calls >"$TMPDIR/table" || fail "the table"
grep -qE '^[0-9:.]{15} +0 [0-9a-f]{8} WRITE .* OK$' "$TMPDIR/table" || fail "the table: $(<"$TMPDIR/table")"
# what is not slow is not kept, but if it fails
ctl "$MNT" calls --slower 60000 >/dev/null || fail "calls --slower 60000"
missing=$(kept 'k["status"] == -2')
before=$(kept 'not k["status"]')
stat "$WORK/none.1" >/dev/null 2>&1 && fail "it is there"
mkdir "$WORK/full" && touch "$WORK/full/f" || fail mkdir
rmdir "$WORK/full" 2>/dev/null && fail "rmdir of what is not empty"
equal "$(kept 'not k["status"]')" "$before" "calls without an error that were kept"
equal "$(kept 'k["status"] == -2')" "$missing" "names that did not exist"
equal "$(kept 'k["status"] == -39 and "not empty" in k["result"]')" 1 "the one that failed"

# silence
equal "$(counted again) $(counted timeouts)" "0 0" "before"
vm-root kill -STOP "$GATEWAY"
stat "$WORK/none.2" >/dev/null 2>&1 & asks=$!
said() { grep -q 'lane 0: a call to .* had no answer in time' "$LOG"; }
until_true "the log says so" said
# what waits for it
ctl "$MNT" calls --json >"$TMPDIR/calls" || fail "calls, of a silent server"
python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))["running"]
assert any(k["all_ns"] > 1.9e9 and k["sends"] and k["rtt_ns"] and k["name"] and k["handle"] != "00000000" for k in r), r' "$TMPDIR/calls" ||
	fail "what is under way: $(<"$TMPDIR/calls")"
ctl "$MNT" calls >"$TMPDIR/table" || fail "the table, of a silent server"
tail -n 1 "$TMPDIR/table" | grep -qE '^[0-9:.]{15} +0 [0-9a-f]{8} .* under way$' || fail "the table: $(<"$TMPDIR/table")"
grep -qE 'lane 0: .*, runs for [0-9]+ ms, was sent [0-9]+ times by path 0' "$LOG" || fail "the log: $(tail -5 "$LOG")"
vm-root kill -CONT "$GATEWAY"
wait "$asks" && fail "it is there"
grep -qE 'lane 0: [0-9]+ ms ago: (RMDIR|REMOVE).*: Directory not empty' "$LOG" || fail "the log: $(tail -5 "$LOG")"
equal "$(grep -c 'had no answer in time' "$LOG")" 1 "how often the log says it"
at_least "$(counted timeouts)" 1 "calls whose time was up"
at_least "$(counted again)" 1 "calls that were sent again"
at_least "$(kept 'k["timeouts"] >= 1 and k["sends"] >= 2 and k["all_ns"] > 1.9e9')" 1 "such a call"
ctl "$MNT" ops >"$TMPDIR/ops" || fail ops
awk 'NF >= 9 && $4 ~ /^[0-9]+$/ { again += $4; late += $5 } END { exit again == 0 || late == 0 }' "$TMPDIR/ops" ||
	fail "ops: $(<"$TMPDIR/ops")"
mount_down
gateway_down
