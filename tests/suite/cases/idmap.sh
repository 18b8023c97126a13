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
refused "line 1 has not two whole numbers" "idmap=file,idmapfile=/dev/fd/9" 9<"$map"
refused "No such file" "idmap=file,idmapfile=$TMPDIR/none"
refused "go together" idmap=file
refused "go together" "idmapfile=$map"
refused "exclude each other" "idmap=file,idmapfile=$map,acl"

# In a user namespace with several ranges, as a container with several users has one: idmap=user, the default.
unshare -Um sleep infinity & space=$!
trap 'kill -KILL $space; end_all' EXIT
has_space() { [[ $(readlink "/proc/$space/ns/mnt") != "$(readlink /proc/self/ns/mnt)" ]]; }
until_true "a user namespace" has_space
# In one write(2) each, which the shell does not do.
cat <<<$'0 0 1\n1000 6000 2\n3000 9000 1' >"/proc/$space/uid_map" && cat <<<$'0 0 1\n1000 7000 2' >"/proc/$space/gid_map" ||
	fail "the ranges of a user namespace"
# in_space UID GID COMMAND...
in_space() { nsenter -t "$space" -U -m -S 0 -G 0 -- setpriv --reuid "$1" --regid "$2" --clear-groups "${@:3}"; }
owner_here() { in_space 0 0 stat -c %u:%g "$WORK/$1"; }
options=vers=$VERS,$MOUNT_OPTIONS,actimeo=0,allow_other
expect_error "users have other numbers than outside" in_space 0 0 "$BIN" "$REMOTE" "$MNT" -o "$options,acl"
in_space 0 0 "$BIN" "$REMOTE" "$MNT" -o "$options" || fail "a mount"
mountpoint -q "$MNT" && fail "it is not in the namespace alone"

in_space 1000 1000 touch "$WORK/v" && in_space 1001 1001 mkdir "$WORK/w" && in_space 3000 1001 ln -s v "$WORK/x" || fail "files of users"
equal "$(owner_there v) $(owner_there w) $(owner_there x)" "6000:7000 6001:7001 9000:7001" "owners on the server"
equal "$(owner_here v) $(owner_here w) $(owner_here x)" "1000:1000 1001:1001 3000:1001" "owners in the namespace"
# Nobody's: who is outside of all ranges, also by a number that somebody has in the namespace.
echo data >"$SERVER_WORK/y" && chmod 640 "$SERVER_WORK/y" && chown 6001:7000 "$SERVER_WORK/y" && touch "$SERVER_WORK"/z{1,2} &&
	chown 77:78 "$SERVER_WORK/z1" && chown 1000:7002 "$SERVER_WORK/z2" || fail "files of the server's users"
equal "$(owner_here y) $(owner_here z1) $(owner_here z2)" "1001:1000 65534:65534 65534:65534" "owners of what the server's users make"
equal "$(in_space 1001 1001 cat "$WORK/y")$(in_space 1000 1000 cat "$WORK/y")" datadata "its owner and its group read"
expect_error "Permission denied" in_space 3000 1001 cat "$WORK/y"
in_space 0 0 chown 1001:1001 "$WORK/v" && equal "$(owner_there v) $(owner_here v)" "6001:7001 1001:1001" "owners after chown there"
chown 9000:7000 "$SERVER_WORK/v" && equal "$(owner_here v)" 3000:1000 "owners after the server's chown"
for who in 77 6000 65534; do
	expect_error "Invalid argument" in_space 0 0 chown "$who" "$WORK/v"
	expect_error "Invalid argument" in_space 0 0 chgrp "$who" "$WORK/v"
done
equal "$(owner_there v)" 9000:7000 "owners after chown that failed"
in_space 0 0 umount "$MNT" || fail "umount"
