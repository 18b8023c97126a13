#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-messages.sh [SOURCE-DIRECTORY]
#
# Each message in doc/troubleshooting.md, **"between these"**, is one that the sources have, or that strerror() has:
# what is between the words in CAPITALS, if it is long enough to mean something.
#
# The last test plants one that does not exist in a copy and sees that it is found.
set -u

top=${1:-${srcdir:-.}}

# Prints the messages in text $1 that the tree $2 does not have. Literals that C joins are joined.
missing() # TEXT TOP
{
	find "$2/src" -name '*.c' -exec perl -0777 -e '
		my ($text, @sources) = @ARGV;
		my $all = join(" ", map { open(my $f, "<", $_) or die "$_: $!\n"; <$f> } @sources);
		$all =~ s/"\s*\n\s*"//g;
		$all =~ s/\s+/ /g;
		$all .= join("\n", map { local $! = $_; "$!" } 1..130);
		open(my $f, "<", $text) or die "$text: $!\n";
		my $doc = <$f>;
		while ($doc =~ /\*\*"([^"]+)"\*\*/g) {
			(my $message = $1) =~ s/\s+/ /g;
			for my $part (split(/\b(?:[A-Z]{3,}|N)\b|\d\.\d/, $message)) {
				$part =~ s/^\s+|\s+$//g;
				print "$text: no message \"$part\"\n" if length($part) > 9 && index($all, $part) < 0;
			}
		}' "$1" {} +
}

echo 1..2
out=$(LC_ALL=C missing "$top/doc/troubleshooting.md" "$top")
if [ -z "$out" ]; then
	echo "ok 1 - the messages that the help quotes are there"
else
	echo "$out" | sed 's/^/# /'
	echo "not ok 1 - the messages that the help quotes are there"
fi
copy=$(mktemp) || exit 1
trap 'rm -f "$copy"' EXIT
{ cat "$top/doc/troubleshooting.md"; echo '**"server SERVER has gone fishing"**'; } >"$copy"
if LC_ALL=C missing "$copy" "$top" | grep -q 'has gone fishing'; then
	echo "ok 2 - one that is not there is found"
else
	echo "not ok 2 - one that is not there is found"
fi
