# SPDX-License-Identifier: GPL-2.0-or-later
# table.awk - of report.csv: the table of one row and unit, in Markdown or, with -v
# plain=1, what gnuplot reads: median, min and max of each client.
#   -v row= unit= base= words= clients="NAME ..." in the order of columns
#   -v ratios=1     ratios to the base alone
#   -v only=        a regular expression of variants
#   -v names=1      only the names of the columns
# Prints nothing if there is nothing of that unit.

# Three digits or so, which is more than most of these figures have.
function short(x) {
	if (x >= 100) return sprintf("%.0f", x)
	if (x >= 10) return sprintf("%.1f", x)
	if (x >= 0.1 || x == 0) return sprintf("%.2f", x)
	return sprintf("%.4f", x)
}

function with_spread(n, middle, low, high) {
	return short(middle) (n > 1 ? " (" short(low) ".." short(high) ")" : "")
}

function cell(variant, client,   at, text, fails) {
	at = variant SUBSEP client
	fails = failed[at]
	if (!(at in middle))
		return fails ? "failed" : "-"
	text = with_spread(n[at], middle[at], low[at], high[at])
	return fails ? text ", " fails " failed" : text
}

function shown_ratio(variant, client,   at) {
	at = variant SUBSEP client
	return with_spread(n[at], ratio[at], ratio_low[at], ratio_high[at])
}

function markdown(   i, v, line, rule) {
	line = "| " words
	rule = "|---"
	for (i = 1; i <= columns; i++) {
		line = line " | " column[i]
		rule = rule "|---"
	}
	for (i = 1; i <= compared; i++) {
		line = line " | " ours[i] " : " base
		rule = rule "|---"
	}
	print line " |\n" rule "|"
	for (v = 1; v <= variants; v++) {
		line = "| " variant[v]
		for (i = 1; i <= columns; i++)
			line = line " | " cell(variant[v], column[i])
		for (i = 1; i <= compared; i++)
			line = line " | " (((variant[v], ours[i]) in ratio) ? shown_ratio(variant[v], ours[i]) : "-")
		print line " |"
	}
}

function for_gnuplot(   i, v, at, line) {
	for (v = 1; v <= variants; v++) {
		line = "\"" variant[v] "\" " last_word[v]
		for (i = 1; i <= columns; i++) {
			at = variant[v] SUBSEP column[i]
			if (ratios)
				line = line ((at in ratio) ? " " ratio[at] " " ratio_low[at] " " ratio_high[at] : " - - -")
			else
				line = line ((at in middle) ? " " middle[at] " " low[at] " " high[at] : " - - -")
		}
		print line
	}
}

BEGIN {
	FS = ","
	if (only == "")
		only = "."
}

$1 != row || $2 !~ only { next }
$4 == "FAILED" { failed[$2, $3] = $5 }
# Who has failed at all has a column, but not where the kernel's clients have no figures.
$4 == unit || ($4 == "FAILED" && !($3 ~ /^kernel/ && unit ~ /^cpu|call$/)) { has_client[$3] = 1 }
# A variant is of a unit if anybody has a figure of it.
$4 == unit {
	if (!($2 in has_variant)) {
		has_variant[$2] = 1
		variant[++variants] = $2
		last_word[variants] = $2
		sub(/.* /, "", last_word[variants])
	}
	n[$2, $3] = $5
	middle[$2, $3] = $6
	low[$2, $3] = $7
	high[$2, $3] = $8
	if ($9 == base && $10 != "") {
		ratio[$2, $3] = $10
		ratio_low[$2, $3] = $11
		ratio_high[$2, $3] = $12
		has_ratio[$3] = 1
	}
}

END {
	if (!variants)
		exit
	k = split(clients, name, " ")
	for (i = 1; i <= k; i++) {
		if (!(name[i] in has_client))
			continue
		if (name[i] ~ /^ours/ && name[i] in has_ratio)
			ours[++compared] = name[i]
		if (!ratios || (plain && name[i] in has_ratio))
			column[++columns] = name[i]
	}
	if (ratios && !(plain ? columns : compared))
		exit
	if (names)
		for (i = 1; i <= columns; i++)
			print column[i]
	else if (plain)
		for_gnuplot()
	else
		markdown()
}
