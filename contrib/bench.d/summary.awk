# SPDX-License-Identifier: GPL-2.0-or-later
# summary.awk - of what values.awk says: medians, spread, and ratios to the base of the
# row (-v bases="ROW=CLIENT ..."), in CSV. A ratio is that of one round, where both were
# measured one soon after the other; then the median and the spread of these.

# spread(LIST, N) - sorts it; sets median, low and high.
function spread(list, n,   i, j, x) {
	for (i = 2; i <= n; i++) {
		x = list[i]
		for (j = i - 1; j > 0 && list[j] > x; j--)
			list[j + 1] = list[j]
		list[j + 1] = x
	}
	low = list[1]
	high = list[n]
	median = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}

function number(x) { return sprintf("%.6g", x) }

BEGIN {
	FS = "\t"
	OFS = ","
	n = split(bases, part, " ")
	for (i = 1; i <= n; i++) {
		split(part[i], word, "=")
		base[word[1]] = word[2]
	}
}

{
	what = $1 FS $2 FS $3 FS $5
	if (!(what in seen)) {
		seen[what] = 1
		order[++count] = what
	}
	value[what, $4] = $6 + 0
	if ($4 > rounds)
		rounds = $4
}

END {
	print "row", "variant", "client", "unit", "rounds", "median", "min", "max", "ratio", "ratio_min", "ratio_max"
	for (i = 1; i <= count; i++) {
		what = order[i]
		split(what, word, FS)
		other = word[1] FS word[2] FS base[word[1]] FS word[4]
		n = m = 0
		for (r = 1; r <= rounds; r++) {
			if (!((what, r) in value))
				continue
			list[++n] = value[what, r]
			if (what != other && (other, r) in value && value[other, r] > 0)
				ratio[++m] = value[what, r] / value[other, r]
		}
		spread(list, n)
		line = word[1] OFS word[2] OFS word[3] OFS word[4] OFS n OFS number(median) OFS number(low) OFS number(high)
		if (m && word[4] != "FAILED") {
			spread(ratio, m)
			print line, number(median), number(low), number(high)
		} else {
			print line, "", "", ""
		}
	}
}
