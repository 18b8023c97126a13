# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# ctl's metrics: the form of OpenMetrics, the numbers of ops and stats, and the same by HTTP.
watched_up 20192 timeo=600

# metric NAME - of the last look, with its labels.
metric() { awk -v name="$1" '$1 == name { print $2 }' "$TMPDIR/form"; }
form() { "${BASH_SOURCE[0]%/*}/../openmetrics-form" "$1" >"$TMPDIR/form" || fail "the form of metrics"; }
look() {
	ctl "$MNT" metrics >"$TMPDIR/metrics" || fail metrics
	form "$TMPDIR/metrics"
}

look
lookups=$(metric 'nfsrdma_call_errors_total{call="LOOKUP"}')
for i in 1 2 3; do head -c 200000 /dev/zero >"$WORK/m.$i" || fail write; done
sync "$WORK/m.3"
stat "$WORK/none.1" >/dev/null 2>&1 && fail "it is there"
look
equal "$(metric 'nfsrdma_request_duration_seconds_count{op="CREATE"}')" 3 "files made"
equal $(( $(metric 'nfsrdma_call_errors_total{call="LOOKUP"}') - ${lookups:-0} )) 4 "names that did not exist"
equal "$(metric 'nfsrdma_call_duration_seconds_count{call="WRITE"}')" \
	"$(ctl "$MNT" stats | awk '$1 == "rpc.WRITE" { print $2 }')" WRITEs
equal "$(metric 'nfsrdma_write_chunk_bytes_total{}')" "$(ctl "$MNT" stats | awk '$1 == "write.chunk_bytes" { print $2 }')" \
	"bytes written"
grep -q '^nfsrdma_path_connections{fabric=.*,path="0",server=.*} [1-9]' "$TMPDIR/form" || fail "path 0: $(<"$TMPDIR/form")"
grep -q "^nfsrdma_mount_info{.*,vers=\"$VERS\"} 1$" "$TMPDIR/form" || fail "the version: $(<"$TMPDIR/form")"
# Others' parsers: OpenMetrics by Prometheus's library for Python; promtool reads the older form (status 3: it has
# remarks, as it knows no names without _total; 1: it cannot read it).
if /usr/bin/python3 -c 'import prometheus_client.openmetrics.parser' 2>/dev/null; then
	samples=$(/usr/bin/python3 -c 'import sys, prometheus_client.openmetrics.parser as p
print(sum(len(f.samples) for f in p.text_string_to_metric_families(sys.stdin.read())))' <"$TMPDIR/metrics") || fail "Prometheus's parser"
	equal "$samples" "$(grep -c '^[^#]' "$TMPDIR/metrics")" "samples that Prometheus's parser finds"
fi
if type promtool >/dev/null 2>&1; then
	promtool check metrics <"$TMPDIR/metrics" >"$TMPDIR/promtool" 2>&1
	(( $? != 1 )) || fail "promtool: $(head -n 3 "$TMPDIR/promtool")"
fi

# by HTTP. ask REQUEST - the answer is in $TMPDIR/answer.
ask() {
	printf '%b' "$1" | python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(sys.argv[1])
try:
	s.sendall(sys.stdin.buffer.read())
except BrokenPipeError:
	pass
while True:
	try:
		b = s.recv(65536)
	except ConnectionResetError:
		break
	if not b:
		break
	sys.stdout.buffer.write(b)
' "$TMPDIR/http" >"$TMPDIR/answer" || fail "no answer to $1"
}
answered() { [[ $(head -1 "$TMPDIR/answer") == "HTTP/1.1 $1 "* ]] || fail "$2: $(head -1 "$TMPDIR/answer")"; }
"$BIN" ctl "$MNT" metrics --listen "$TMPDIR/http" & server=$!
until_true "the socket for HTTP" test -S "$TMPDIR/http"
equal "$(stat -c %a "$TMPDIR/http")" 600 "the socket's mode"
ask 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
answered 200 "GET /metrics"
grep -q '^Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8' "$TMPDIR/answer" || fail "its type"
sed '1,/^\r$/d' "$TMPDIR/answer" >"$TMPDIR/body"
equal "$(wc -c <"$TMPDIR/body")" "$(tr -d '\r' <"$TMPDIR/answer" | awk '/^Content-Length:/ { print $2; exit }')" "its length"
form "$TMPDIR/body"
[[ $(metric 'nfsrdma_request_duration_seconds_count{op="CREATE"}') == 3 ]] || fail "files made, by HTTP"
ask 'GET / HTTP/1.1\r\n\r\n' && answered 404 "another path"
ask 'POST /metrics HTTP/1.1\r\n\r\n' && answered 405 "another method"
ask '\x16\x03\x01\r\n\r\n' && answered 400 "no HTTP"
ask "GET /metrics HTTP/1.1\r\nX: $(printf 'x%.0s' {1..5000})" && answered 431 "a long request"
"$BIN" ctl "$MNT" metrics --listen "$TMPDIR/http" >"$TMPDIR/said" 2>&1
equal $? 1 "a second one at the same place: status"
grep -q "another process listens" "$TMPDIR/said" || fail "a second one: $(<"$TMPDIR/said")"
# one that was killed leaves its socket, which the next one takes
kill -9 "$server"
wait "$server" 2>/dev/null
[[ -S $TMPDIR/http ]] || fail "the socket has gone"
"$BIN" ctl "$MNT" metrics --listen "$TMPDIR/http" --mode 666 & server=$!
got() { [[ $(stat -c %a "$TMPDIR/http" 2>/dev/null) == 666 ]]; }
until_true "the next one's socket" got
mount_down
ask 'GET /metrics HTTP/1.1\r\n\r\n' && answered 503 "no mount"
kill "$server"
wait "$server" 2>/dev/null
[[ ! -e $TMPDIR/http ]] || fail "the socket is left"
gateway_down
