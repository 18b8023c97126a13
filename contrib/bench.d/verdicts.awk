# SPDX-License-Identifier: GPL-2.0-or-later
# verdicts.awk - the targets (rows.sh) beside what report.csv says, in Markdown.
#   awk -v client=NAME -v base=NAME -f verdicts.awk TARGETS [BEFORE.csv] report.csv
# BEFORE.csv is the report.csv of an earlier version: its ratios stand beside.
#   -v plain=1      data for gnuplot, of what was measured then and now: "WORK" THEN NOW
# A ratio is that of rates: 1.1 is faster by a tenth; of counts, 0.5 is twice as many. Prints nothing if none was measured.

BEGIN { FS = "," }
FNR == 1 { file++ }

file == 1 {
	split($0, field, "|")
	at[++n] = field[1] "," field[3] "," (field[6] ? field[6] : client) "," field[2] "," (field[7] ? field[7] : base)
	name[n] = field[1] ": " field[3] (field[6] ? ", " field[6] : "") (field[7] ? " : " field[7] : "")
	text[n] = field[5]
	least[n] = field[4]
	next
}

file == ARGC - 1 { has_row[$1] = 1 }
# row,variant,client,unit,rounds,median,min,max,base,ratio,ratio_min,ratio_max
$10 > 0 {
	slow = $4 ~ /^(s|COMMITs|us-handover)$/
	ratio[file, $1 "," $2 "," $3 "," $4 "," $9] = slow ? 1 / $10 : $10
}

function verdict(i,   have) {
	if (!((file, at[i]) in ratio))
		return "- | not measured"
	have = ratio[file, at[i]]
	return sprintf("%.2f | %s", have, have >= least[i] ? "reached" : "missed")
}

function earlier(i) { return (2, at[i]) in ratio ? sprintf("%.2f", ratio[2, at[i]]) : "-" }

END {
	for (i = 1; i <= n; i++)
		some += (file, at[i]) in ratio
	if (!some)
		exit
	for (i = 1; i <= n && plain; i++)
		if ((file, at[i]) in ratio && earlier(i) != "-")
			printf "\"%s\" %s %.2f\n", name[i], earlier(i), ratio[file, at[i]]
	if (plain)
		exit
	print "| work | measured as | at least |" (file == 3 ? " before |" : "") " " client " : " base " | |"
	print "|---|---|---|---|---|" (file == 3 ? "---|" : "")
	for (i = 1; i <= n; i++)
		if (substr(at[i], 1, index(at[i], ",") - 1) in has_row)
			print "| " text[i] " | " name[i] " | " least[i] " | " (file == 3 ? earlier(i) " | " : "") verdict(i) " |"
}
