# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Somebody else writes to a file that is open here and has pages, and somebody here changes its
# mode, owner or times. The answer to that has the new mtime; the pages have to go all the same.
mount_up acregmin=1,acregmax=1
cd "$WORK" || fail cd
vm-root chmod 777 "$SERVER_WORK"

# now TEXT WHAT - what the open file 5 has, before acregmax and a bit have passed.
now() {
	local i text
	for (( i = 0; i < 50; i++ )); do
		text=$(perl -e 'open(F, "<&=5"); sysseek(F, 0, 0); sysread(F, $b, 3); print $b')
		[[ $text == "$1" ]] && return
		sleep 0.1
	done
	fail "$2: '$text' is read five seconds later, and not '$1'"
}

for what in true 'chmod 640 f' 'touch f' "touch -d @1000000000 f"; do
	rm -f f
	echo old >f && chmod 666 f && exec 5<f
	now old "before"
	vm-root bash -c "echo new | dd of='$SERVER_WORK/f' conv=notrunc status=none" || fail "on the server"
	$what || fail "$what"
	now new "$what"
	exec 5<&-
done
cd / && mount_down
