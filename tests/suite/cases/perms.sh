# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Two users: what the server refuses is refused, also after the other one has
# filled the caches.
if [[ $(id -u) == 0 ]]; then
	as() { local u=$1; shift; setpriv --reuid "$u" --regid "$u" --clear-groups "$@"; }
	mount_up
	mkdir "$WORK/closed" "$WORK/open" && chmod 700 "$WORK/closed" && chmod 1777 "$WORK/open"
	chmod 755 "$WORK"
	echo secret >"$WORK/closed/s" && echo secret >"$WORK/open/s" && chmod 600 "$WORK/open/s" && cat "$WORK"/*/s >/dev/null
	echo all >"$WORK/open/all" && chmod 644 "$WORK/open/all"
	equal "$(as 1001 cat "$WORK/open/all")" all "a file for all"
	expect_error "Permission denied" as 1001 cat "$WORK/open/s"
	expect_error "Permission denied" as 1001 cat "$WORK/closed/s"
	expect_error "Permission denied" as 1001 ls "$WORK/closed"
	expect_error "Permission denied" as 1001 touch "$WORK/new"
	as 1001 touch "$WORK/open/mine" || fail "create in a sticky directory"
	equal "$(stat -c %u "$SERVER_WORK/open/mine")" 1001 "owner of a new file"
	expect_error "not permitted" as 1002 rm -f "$WORK/open/mine"
	expect_error "not permitted" as 1002 chmod 777 "$WORK/open/mine"
	as 1001 rm "$WORK/open/mine" || fail "rm of one's own"
	# supplementary groups
	echo group >"$WORK/open/g" && chown 0:4242 "$WORK/open/g" && chmod 640 "$WORK/open/g"
	equal "$(setpriv --reuid 1001 --regid 1001 --groups 7,4242 cat "$WORK/open/g")" group "by a supplementary group"
	expect_error "Permission denied" setpriv --reuid 1001 --regid 1001 --groups 7 cat "$WORK/open/g"
	# a file opened while it was allowed stays readable
	as 1001 bash -c "echo before >'$WORK/open/own'; exec 5<'$WORK/open/own'; chmod 0 '$WORK/open/own'; cat <&5" | grep -qx before || fail "read after chmod 0"
	# who may write, but does not own it, may write a set-id file; it loses the bit
	echo 1 >"$WORK/open/sgid" && chown 1002:4242 "$WORK/open/sgid" && chmod 2775 "$WORK/open/sgid"
	# Without O_CREAT: a kernel with fs.protected_regular, as Debian sets it, refuses that in such a directory.
	echo 2 | setpriv --reuid 1001 --regid 1001 --groups 4242 dd of="$WORK/open/sgid" conv=nocreat,notrunc oflag=append status=none || fail "append to a set-id file by another than its owner"
	setpriv --reuid 1001 --regid 1001 --groups 4242 truncate -c -s 1 "$WORK/open/sgid" || fail "truncate a set-id file"
	equal "$(stat -c %a "$SERVER_WORK/open/sgid")" 775 "its mode after that"
	equal "$(stat -c %a "$WORK/open/sgid")" 775 "its mode as seen here"
	mount_down
else
	vm-root bash -c "cd '$SERVER_WORK' && echo secret >s && chmod 600 s && mkdir closed && chmod 700 closed && echo all >all && chmod 644 all && mkdir r && chmod 755 r"
	mount_up
	equal "$(cat "$WORK/all")" all "a file for all"
	expect_error "Permission denied" cat "$WORK/s"
	expect_error "Permission denied" ls "$WORK/closed"
	expect_error "Permission denied" touch "$WORK/r/new"
	expect_error "Permission denied" bash -c "echo x >>'$WORK/all'"
	expect_error "not permitted" chmod 777 "$WORK/all"
	# who may run it only may not read it, and the kernel runs it
	vm-root bash -c "cp /bin/cat '$SERVER_WORK/run' && chmod 711 '$SERVER_WORK/run'"
	equal "$("$WORK/run" "$WORK/all")" all "a program that others may only run"
	expect_error "Permission denied" cat "$WORK/run"
	touch "$WORK/mine" && equal "$(stat -c %u "$SERVER_WORK/mine")" "$(id -u)" "owner of a new file"
	# FUSE keeps others out of an ordinary user's mount, root included.
	vm-root ls "$MNT" >/dev/null 2>&1 && fail "root can look into a user's mount"
	mount_down
fi
