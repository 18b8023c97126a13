# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# By autofs: who looks into a folder of the example's map gets the mount, by mount.nfsrdma; it goes when nobody uses it.
[[ $(id -u) == 0 ]] || skip "automount takes root"
command -v automount >/dev/null || skip "no automount (Debian: autofs)"
[[ -c /dev/autofs ]] || skip "this kernel has no autofs"
at=$TMPDIR/net
AUTOMOUNT=''
# shellcheck disable=SC2317 # a trap's
end_automount() {
	[[ ! $AUTOMOUNT ]] || kill -KILL "$AUTOMOUNT" 2>/dev/null
	grep -oE " ${at}[^ ]* " /proc/self/mountinfo | sort -r | xargs -rn1 umount -l
	umount -l /sbin
}
# This /sbin is the case's own.
mkdir -p "$TMPDIR/sbin" "$TMPDIR/work" "$at"
ln -s "$BIN" "$TMPDIR/sbin/mount.nfsrdma"
mount -t overlay -o "lowerdir=$(realpath /sbin),upperdir=$TMPDIR/sbin,workdir=$TMPDIR/work" overlay /sbin ||
	fail "no overlay on /sbin"
trap 'end_all; end_automount' EXIT

mkdir "$SERVER_WORK"/{projects,archive} && chmod 1777 "$SERVER_WORK/projects" || fail "folders"
echo old >"$SERVER_WORK/archive/file"
options="vers=$VERS,$MOUNT_OPTIONS"
sed "s|-fstype=nfsrdma|&,$options|; s|server:|${REMOTE%/}/$CASE|" "${BASH_SOURCE[0]%/*}/../../../contrib/systemd/auto.example" >"$TMPDIR/map"
echo "nosuch -fstype=nfsrdma,$options ${REMOTE%/}/$CASE/nosuch" >>"$TMPDIR/map"
echo "dead -fstype=nfsrdma,$options,port=9,retry=0 ${REMOTE%/}/$CASE/projects" >>"$TMPDIR/map"
printf '%s\n' "$at $TMPDIR/map --timeout=600" "/- $TMPDIR/direct" >"$TMPDIR/master"
# A direct map has whole paths.
echo "$at.direct/data -fstype=nfsrdma,$options ${REMOTE%/}/$CASE/archive" >"$TMPDIR/direct"
# The kernel lets those of its process group pass.
setsid automount -f -v "$TMPDIR/master" >"$LOG" 2>&1 & AUTOMOUNT=$!
is_there() { grep -q " $at/$1 .* fuse" /proc/self/mountinfo; }
is_gone() { ! is_there "$1"; }
until_true "automount" grep -q " $at .* autofs" /proc/self/mountinfo

# Many at once, users of this machine among them, get one mount.
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }
chmod 711 "$TMPDIR"
programs=()
for i in {1..8}; do as $(( 1000 + i )) touch "$at/projects/file$i" & programs+=($!); done
for i in {1..8}; do wait "${programs[i - 1]}" || fail "touch, number $i: $(<"$LOG")"; done
equal "$(stat -c %u "$SERVER_WORK"/projects/file3)" 1003 "whose file it is"
equal "$(grep -c " $at/projects .* fuse.nfsrdma-fuse" /proc/self/mountinfo)" 1 "mounts"
equal "$(<"$at/archive/file")" old "a file of another mount"
expect_error "Read-only file system" touch "$at/archive/new"
"$BIN" ctl "$at/archive" info | grep -q "^version" || fail "ctl info"

equal "$(<"$at.direct/data/file")" old "a file by a direct map"
grep -q " $at.direct/data .* fuse.nfsrdma-fuse" /proc/self/mountinfo || fail "no mount by a direct map: $(</proc/self/mountinfo)"

# What cannot be mounted is an error, soon, and of that folder alone.
expect_error "No such file" ls "$at/nosuch"
expect_error "No such file" ls "$at/dead"
grep -q "nfsrdma-fuse: .*nosuch" "$LOG" && grep -q "nfsrdma-fuse: .*port 9 " "$LOG" || fail "its log does not say why: $(<"$LOG")"

# Unused, it goes, and not what is in use; it is there again for who looks.
exec 7<"$at/archive/file"
kill -USR1 $AUTOMOUNT
until_true "an unused mount goes" is_gone projects
no_daemon() { ! pgrep -f "^[^ ]*mount.nfsrdma ${REMOTE%/}/$CASE/projects" >/dev/null; }
until_true "its daemon ends" no_daemon
is_there archive || fail "a mount in use is gone"
equal "$(cat <&7)" old "a file of it"
exec 7<&-
equal "$(ls "$at/projects" | wc -l)" 8 "files when it is mounted again"

# At the end all go.
kill -TERM $AUTOMOUNT
gone $AUTOMOUNT || fail "automount still runs"
AUTOMOUNT=''
equal "$(grep -c " ${at}[./ ]" /proc/self/mountinfo)" 0 "mounts behind automount"
