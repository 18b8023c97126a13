# SPDX-License-Identifier: GPL-2.0-or-later
# summary.awk - of what values.awk says: medians, spread, and ratios to the bases of the
# row (-v bases="ROW=CLIENT ..."; a row may have several), in CSV: a line for each base.
# A ratio is that of one round, where both were measured one soon after the other; then
# the median and the spread of these.

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
		base[word[1], ++bases_of[word[1]]] = word[2]
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

# ratios(WHAT, OTHER) - the number of those in "ratio", one for each round that has both.
function ratios(what, other,   r, m) {
	m = 0
	for (r = 1; r <= rounds && what != other; r++)
		if ((what, r) in value && (other, r) in value && value[other, r] > 0)
			ratio[++m] = value[what, r] / value[other, r]
	return m
}

# summary(WHAT) - its lines; one without a ratio, if there is nothing to compare it with.
function summary(what,   word, r, n, m, b, line, lines) {
	n = lines = 0
	split(what, word, FS)
	for (r = 1; r <= rounds; r++)
		if ((what, r) in value)
			list[++n] = value[what, r]
	spread(list, n)
	line = word[1] OFS word[2] OFS word[3] OFS word[4] OFS n OFS number(median) OFS number(low) OFS number(high)
	for (b = 1; b <= bases_of[word[1]] && word[4] != "FAILED"; b++) {
		m = ratios(what, word[1] FS word[2] FS base[word[1], b] FS word[4])
		if (!m)
			continue
		spread(ratio, m)
		print line, base[word[1], b], number(median), number(low), number(high)
		lines++
	}
	if (!lines)
		print line, "", "", "", ""
}

END {
	print "row", "variant", "client", "unit", "rounds", "median", "min", "max", "base", "ratio", "ratio_min", "ratio_max"
	for (i = 1; i <= count; i++)
		summary(order[i])
}
