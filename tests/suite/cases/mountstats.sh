# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What a mount has done, by operations: ctl's ops, and mountstats in the form of Linux's, for mountstats(8) and
# for what reads it as Prometheus does.
watched_up 20191 timeo=600

# number NAME - of the last look.
number() { awk -v name="$1" '$1 == name { print $2 }' "$TMPDIR/form"; }
look() {
	ctl "$MNT" mountstats >"$TMPDIR/mountstats" || fail mountstats
	"${BASH_SOURCE[0]%/*}/../mountstats-form" "$TMPDIR/mountstats" >"$TMPDIR/form" || fail "the form of mountstats"
}

look
equal "$(number vers)" "$VERS" "version"
opens=$(number opens) releases=$(number releases) written=$(number bytes.written) calls=$(number op.WRITE)
for i in 1 2 3 4 5; do head -c 300000 /dev/zero >"$WORK/f.$i" || fail write; done
sync "$WORK/f.5"
for i in 1 2 3; do
	stat "$WORK/none.$i" >/dev/null 2>&1 && fail "it is there"
done
# RELEASE comes behind close().
released() { look; (( $(number releases) - releases >= 6 )); }
until_true "all are closed" released
equal $(( $(number opens) - opens )) 6 "files opened: five written, one synced"
equal $(( $(number releases) - releases )) 6 "files closed"
equal $(( $(number bytes.written) - written )) 1500000 "bytes written"
(( $(number op.WRITE) - calls >= 2 )) || fail "WRITEs: $(number op.WRITE) after $calls"
(( $(number sent.WRITE) >= 1500000 )) || fail "bytes sent by WRITE: $(number sent.WRITE)"
(( $(number errors.LOOKUP) >= 3 )) || fail "errors of LOOKUP: $(number errors.LOOKUP)"
(( $(number sends) >= $(number replies) && $(number replies) > 10 && $(number connects) > 0 )) ||
	fail "the transport: $(grep xprt "$TMPDIR/mountstats")"
# Each kind is as often in ctl's stats, but for what is under way just now (SEQUENCE).
equal "$(number op.WRITE)" "$(ctl "$MNT" stats | awk '$1 == "rpc.WRITE" { print $2 }')" "WRITEs that were counted"

ctl "$MNT" ops >"$TMPDIR/ops" || fail ops
grep -qE '^CREATE +5 +0 +0 +' "$TMPDIR/ops" || fail "ops: $(<"$TMPDIR/ops")"
grep -qE '^LOOKUP +[0-9]+ +[1-9]' "$TMPDIR/ops" || fail "ops, errors: $(<"$TMPDIR/ops")"
grep -qE '^WRITE .* [0-9.]+(us|ms|s)$' "$TMPDIR/ops" || fail "ops, calls: $(<"$TMPDIR/ops")"
[[ $(ctl "$MNT" ops --json) == *'"calls":[{"name":'* ]] || fail "ops --json"

# the program of nfs-utils
if type mountstats >/dev/null 2>&1; then
	mountstats --file "$TMPDIR/mountstats" >"$TMPDIR/shown" 2>&1 || fail "mountstats: $(<"$TMPDIR/shown")"
	grep -q "^Stats for .* mounted on $MNT:" "$TMPDIR/shown" || fail "mountstats: $(<"$TMPDIR/shown")"
	grep -q '^WRITE:' "$TMPDIR/shown" || fail "mountstats, WRITE: $(<"$TMPDIR/shown")"
	mountstats iostat --file "$TMPDIR/mountstats" >"$TMPDIR/shown" 2>&1 || fail "mountstats iostat: $(<"$TMPDIR/shown")"
fi

# Prometheus's node_exporter, whose /proc is a folder with that file
if type prometheus-node-exporter >/dev/null 2>&1; then
	mkdir -p "$TMPDIR/proc/1" && ln -s 1 "$TMPDIR/proc/self" && cp "$TMPDIR/mountstats" "$TMPDIR/proc/1/mountstats" &&
		cp /proc/self/mountinfo "$TMPDIR/proc/1/mountinfo"
	prometheus-node-exporter --path.procfs "$TMPDIR/proc" --collector.disable-defaults --collector.mountstats \
		--web.listen-address 127.0.0.1:20193 >"$TMPDIR/exporter" 2>&1 & exporter=$!
	scraped() { python3 -c 'import urllib.request as u; print(u.build_opener(u.ProxyHandler({})).open("http://127.0.0.1:20193/metrics", timeout=10).read().decode())' \
		>"$TMPDIR/scraped" 2>/dev/null; }
	until_true "node_exporter answers" scraped
	kill "$exporter"; wait "$exporter" 2>/dev/null
	if grep -q 'invalid NFS protocol ."rdma' "$TMPDIR/exporter"; then
		echo "# this node_exporter reads no mount over RDMA, the kernel's neither"
	else
		grep -q '^node_scrape_collector_success{collector="mountstats"} 1' "$TMPDIR/scraped" || fail "node_exporter: $(tail -n 2 "$TMPDIR/exporter")"
		equal "$(sed -n 's/^node_mountstats_nfs_operations_requests_total{.*operation="WRITE".*} //p' "$TMPDIR/scraped")" \
			"$(number op.WRITE)" "node_exporter's WRITEs"
	fi
fi
mount_down
gateway_down
