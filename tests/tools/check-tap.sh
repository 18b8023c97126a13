#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-tap.sh - criterion-tap with planted tests, in the build folder: a failure is one,
# wherever it is.
set -u

tap=${srcdir:-.}/tests/tools/criterion-tap
program=tests/tools/planted
n=0

say() { n=$((n + 1)); echo "$1 $n - $2"; }

# planted FILTER FAILS
planted() {
	if sh "$tap" "$program" --filter "$1" | grep -q '^not ok' ; then found=yes; else found=no; fi
	if [ "$found" = "$2" ]; then say ok "$1"; else say 'not ok' "$1: failure found: $found"; fi
}

if [ ! -x "$program" ]; then
	echo '1..0 # SKIP the tests are not built'
	exit 0
fi
planted good/passes no
planted in_test/fails yes
planted in_init/fails yes
planted in_fini/fails yes
planted in_fini/ends yes
planted in_fini/crashes yes
echo "1..$n"
