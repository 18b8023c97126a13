# SPDX-License-Identifier: GPL-2.0-or-later
# verdicts.awk - the targets (rows.sh) beside what report.csv says, in Markdown.
#   awk -v client=NAME -v base=NAME -f verdicts.awk TARGETS report.csv
# A ratio is that of rates: 1.1 is faster by a tenth. Prints nothing if none was measured.

FNR == NR {
	split($0, field, "|")
	at[++n] = field[1] "," field[3] "," client "," field[2]
	text[n] = field[5] " | " field[1] ": " field[3]
	least[n] = field[4]
	next
}

BEGIN { FS = "," }

# row,variant,client,unit,rounds,median,min,max,base,ratio,ratio_min,ratio_max
$9 == base && $10 > 0 {
	slow = $4 == "s"
	ratio[$1 "," $2 "," $3 "," $4] = slow ? 1 / $10 : $10
}

function verdict(i,   have) {
	if (!(at[i] in ratio))
		return "- | not measured"
	have = ratio[at[i]]
	return sprintf("%.2f | %s", have, have >= least[i] ? "reached" : "missed")
}

END {
	for (i = 1; i <= n; i++)
		some += at[i] in ratio
	if (!some)
		exit
	print "| work | measured as | at least | " client " : " base " | |"
	print "|---|---|---|---|---|"
	for (i = 1; i <= n; i++)
		print "| " text[i] " | " least[i] " | " verdict(i) " |"
}
