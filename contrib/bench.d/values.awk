# SPDX-License-Identifier: GPL-2.0-or-later
# values.awk - of raw.tsv: the measurements that are whole, with what follows from them.
# Lines "row variant client round unit value"; of a failure, the unit FAILED and a 1.

function tell(unit, value) { print $1, $2, $3, $4, unit, value }

BEGIN { FS = OFS = "\t" }

# A line that was cut off: the run was killed while it was written.
NF < 7 { next }

$5 == "FAILED" { tell("FAILED", 1); next }

# What belongs to a measurement stands together, and run-s is its last line.
$1 FS $2 FS $3 FS $4 != key {
	key = $1 FS $2 FS $3 FS $4
	split("", v)
}
{ v[$6] = $5 }
$6 != "run-s" { next }

{
	for (unit in v)
		tell(unit, v[unit])
	tell("busy", v["busy-s"] / v["run-s"])
	if ($7 != "-")
		tell("cpu-%", 100 * $7 / v["run-s"])
	if (v["MB"] > 0) {
		tell("busy-s/GB", 1000 * v["busy-s"] / v["MB"])
		if ($7 != "-")
			tell("cpu-s/GB", 1000 * $7 / v["MB"])
	}
	if (v["calls"] > 0) {
		tell("registrations/call", v["registrations"] / v["calls"])
		tell("bindings/call", v["bindings"] / v["calls"])
		tell("local-invals/call", v["local_invals"] / v["calls"])
		tell("remote-invals/call", v["remote_invals"] / v["calls"])
	}
	key = ""
}
