# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Files by their handles (name_to_handle_at(2), open_by_handle_at(2)) after the kernel has forgotten
# them: found, with what the server has by now, wherever they are; and ESTALE when they are no more.
# In a guest the same with the kernel's own client, as far as it does not remount.
[[ $(id -u) == 0 ]] || skip "open_by_handle_at(2) is for root"
handle=${BIN%/src/*}/tests/vm-clients/handle
[[ -x $handle ]] || skip "no $handle"

# theirs COMMAND - done by somebody else, in the server's own directory.
theirs() { vm-root bash -c "cd '$SERVER_WORK' && { $1; }" || fail "on the server: $1"; }

# forget - has the kernel forget all files of $MNT; then the daemon has the root alone.
only_root() { (( $(stat_now now.inodes) == 1 )); }
forget() {
	kernel_forgets
	until_true "the kernel has forgotten all files" only_root
}
# The kernel's own client says of nothing what it knows.
forget_all() { echo 2 >/proc/sys/vm/drop_caches || fail drop_caches; }

# follow WHO MOUNT FORGET - what is true of both clients.
follow() {
	local who=$1 at=$2 forget=$3 here=$2/$CASE f e g two gone
	theirs 'rm -rf ./* && mkdir -p d/e && echo file >f && echo two >two && ln two 2 && echo gone >gone'
	theirs 'seq 100000 >d/e/g && chmod -R a+rwX .'
	read -r -d '' f e g two gone < <("$handle" of "$here"/{f,d/e,d/e/g,two,gone} | tr '\n' ' '; printf '\0')
	[[ $gone ]] || fail "$who: handles"
	$forget
	equal "$("$handle" cat "$at" "$f")" file "$who: a forgotten file"
	"$handle" cat "$at" "$g" | cmp - "$SERVER_WORK/d/e/g" || fail "$who: the bytes of a forgotten file"
	$forget
	equal "$("$handle" path "$at" "$e")" "$here/d/e" "$who: a forgotten directory"
	equal "$("$handle" cat "$at" "$g" | tail -n 1)" 100000 "$who: a file below it"
	$forget
	# What others have done meanwhile.
	theirs 'echo more >>f && mv f d/e/f2 && mv d/e d/e2 && rm gone two'
	equal "$("$handle" cat "$at" "$f" | tr '\n' ' ')" "file more " "$who: a file that others have renamed"
	equal "$("$handle" path "$at" "$e")" "$here/d/e2" "$who: a directory that others have renamed"
	equal "$("$handle" cat "$at" "$two")" two "$who: a file with another name left"
	expect_error "Stale file handle" "$handle" cat "$at" "$gone"
	echo mine | "$handle" append "$at" "$f" || fail "$who: append by handle"
	equal "$(tr '\n' ' ' <"$SERVER_WORK/d/e2/f2")" "file more mine " "$who: what was appended"
	# By a name that is another file's, and by handle at the same time.
	equal "$(tail -n 1 "$here/d/e2/f2")" mine "$who: by name"
	theirs 'mv d/e2/f2 d/e2/f3 && echo other >d/e2/f2'
	equal "$("$handle" cat "$at" "$f" | tail -n 1)" mine "$who: its name is another file's"
	$forget
	rm "$here/d/e2/f3" || fail "$who: rm"
	expect_error "Stale file handle" "$handle" cat "$at" "$f"
}

mount_up
vm-root chmod 777 "$SERVER_WORK"
follow "this client" "$MNT" forget
if [[ $NFSRDMA_KERNEL != ganesha ]]; then
	kernels=$TMPDIR/kernels
	mkdir "$kernels"
	trap 'end_all; vm-root umount -l "$kernels" 2>/dev/null' EXIT
	mount -t nfs -o "vers=$VERS,proto=rdma,port=20049" "$REMOTE" "$kernels" || fail "the kernel's mount"
	follow "the kernel's client" "$kernels" forget_all
	umount "$kernels" || fail "unmount of the kernel's"
fi

# Of the mount before this one: not this one's, although the files are still there.
theirs 'rm -rf ./* && seq 50 | xargs touch'
mapfile -t old < <("$handle" of "$WORK"/*)
(( ${#old[@]} == 50 )) || fail "${#old[@]} handles"
mount_down
mount_up
ls -l "$WORK" >/dev/null || fail ls
for one in "${old[@]}"; do expect_error "Stale file handle" "$handle" cat "$MNT" "$one"; done
mount_down
