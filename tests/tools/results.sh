# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# For check-circles.sh and check-layers.sh: results in the Test Anything Protocol.

n=0
result() # NAME TEXT: passes if the text is empty
{
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		echo "$2" | sed 's/^/# /'
	fi
}

planted() # NAME FOUND EXPECTED
{
	if [ "$2" = "$3" ]; then
		result "planted: $1" ""
	else
		result "planted: $1" "found: \"$2\", expected: \"$3\""
	fi
}
