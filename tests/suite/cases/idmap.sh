# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Users who have other numbers on the server, by a file: what they make is theirs on both sides, what others have
# there is nobody's here, and nobody gains anything.
[[ $(id -u) == 0 ]] || skip "several users take root"
map=$TMPDIR/map
as() { setpriv --reuid "$1" --regid "$2" --groups "${3:-$2}" "${@:4}"; }
# owner_there FILE, owner_here FILE
owner_there() { stat -c %u:%g "$SERVER_WORK/$1"; }
owner_here() { stat -c %u:%g "$WORK/$1"; }
chmod 755 "$TMPDIR"
printf '%s\n' '# root is root' 'u 0 0' 'u 1000 5000 2' 'g 0 0' 'g 1000 6000 2' >"$map"
mount_up "idmap=file,idmapfile=$map,allow_other"
vm-root chmod 1777 "$SERVER_WORK"

as 1000 1000 '' touch "$WORK/a" && as 1001 1001 '' mkdir "$WORK/d" || fail "files of users"
equal "$(owner_there a) $(owner_there d)" "5000:6000 5001:6001" "owners on the server"
equal "$(owner_here a) $(owner_here d)" "1000:1000 1001:1001" "owners here"
echo data | vm-root tee "$SERVER_WORK/b" >/dev/null && vm-root touch "$SERVER_WORK/c" && vm-root chown 5001:6000 "$SERVER_WORK/b" && vm-root chown 77:78 "$SERVER_WORK/c"
equal "$(owner_here b) $(owner_here c)" "1001:1000 65534:65534" "owners of what the server's users make"
equal "$(cd "$WORK" && find a b c -printf '%u ' | wc -w)" 3 "owners in a listing"
# chown: the server gets its numbers; there is none for 77.
chown 1001:1001 "$WORK/a" || fail "chown"
equal "$(owner_there a) $(owner_here a)" "5001:6001 1001:1001" "owners after chown"
expect_error "Invalid argument" chown 77 "$WORK/a"
expect_error "Invalid argument" chgrp 77 "$WORK/a"
chgrp 1000 "$WORK/a" && equal "$(owner_there a)" 5001:6000 "owners after chgrp"
# Permission: by the server's numbers, groups as well; also with what is cached.
vm-root chmod 640 "$SERVER_WORK/b"
for again in cold warm; do
	equal "$(as 1001 1001 '' cat "$WORK/b")" data "its owner reads, $again"
	equal "$(as 1000 1000 '' cat "$WORK/b")" data "its group reads, $again"
	equal "$(as 1001 1001 1000 cat "$WORK/b")" data "who is in its group reads, $again"
	expect_error "Permission denied" as 2000 2000 2000 cat "$WORK/b"
	expect_error "Permission denied" as 5001 6001 6000 cat "$WORK/b"
done
# Whom the server has no number for is nobody there, and not the user who has that number.
as 5000 6000 6000 mkdir "$WORK/n" || fail "a directory of somebody unknown"
equal "$(owner_there n) $(owner_here n)" "65534:65534 65534:65534" "whose it is"
mount_down

# What is wrong with a file is said.
refused() { expect_error "$1" "$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,$2"; }
echo 'u 1' >"$map"
refused "line 1 has not two whole numbers" "idmap=file,idmapfile=$map"
refused "No such file" "idmap=file,idmapfile=$TMPDIR/none"
refused "go together" idmap=file
refused "go together" "idmapfile=$map"
refused "exclude each other" "idmap=file,idmapfile=$map,acl"
