# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2317
# A server that says owners as "name@domain": they are who they are, here as there,
# and may do what owners may.
[[ $VERS != 3 ]] || skip "version 3 has numbers"
[[ $(id -u) == 0 ]] || skip "needs root, for chown"
# Debian gives these the same numbers everywhere: www-data, daemon, bin and games.
for user in www-data:33 daemon:1 bin:2 games:5; do
	equal "$(id -u "${user%:*}" 2>/dev/null)" "${user#*:}" "the number of ${user%:*}"
done
as() { local u=$1; shift; setpriv --reuid "$u" --regid "$u" --clear-groups "$@"; }

# Server and client read the same file, so the domain is the same.
conf=/etc/idmapd.conf
[[ -e $conf ]] || skip "no $conf"
domain() {
	printf '[General]\nDomain = %s\n[Mapping]\nNobody-User = nobody\nNobody-Group = nogroup\n[Translation]\nMethod = nsswitch\n' "$1" >"$TMPDIR/idmapd.conf"
	mountpoint -q $conf || mount --bind "$TMPDIR/idmapd.conf" $conf || fail "cannot replace $conf"
}
if [[ ${HOST_GATEWAY:-} ]]; then
	[[ $NFSRDMA_KERNEL == ganesha ]] || skip "the guest's server has a machine of its own"
	server_down() { vm-server host-ganesha stop; }
	server_up() { vm-server env OWNERS=names host-ganesha start || fail "nfs-ganesha does not start"; }
	restore() { vm-server host-ganesha stop; vm-server host-ganesha start; }
else
	parameter=/sys/module/nfsd/parameters/nfs4_disable_idmapping
	[[ -w $parameter ]] || skip "no $parameter"
	command -v rpc.idmapd >/dev/null || skip "no rpc.idmapd"
	was=$(<$parameter)
	server_down() { :; }
	# Without it knfsd falls back to numbers.
	server_up() {
		echo N >"$parameter"
		rpc.idmapd -S -f >"$TMPDIR/idmapd.log" 2>&1 & IDMAPD=$!
		sleep 1
		[[ -d /proc/$IDMAPD ]] || fail "rpc.idmapd: $(<"$TMPDIR/idmapd.log")"
	}
	restore() { echo "$was" >"$parameter"; kill "$IDMAPD"; }
fi
trap 'restore >/dev/null 2>&1; umount $conf; [[ ${DAEMON:-} ]] && kill -KILL $DAEMON' EXIT

domain here.test
server_down
server_up
echo 1 >"$SERVER_WORK/web" && chown 33:5 "$SERVER_WORK/web" && chmod 600 "$SERVER_WORK/web"
mkdir "$SERVER_WORK/d" && touch "$SERVER_WORK/d"/{a,b,c} && chown 1:33 "$SERVER_WORK/d"/*
mkdir "$SERVER_WORK/own" && chown 33:33 "$SERVER_WORK/own" && chmod 700 "$SERVER_WORK/own"
touch "$SERVER_WORK/bin" && chown 2:2 "$SERVER_WORK/bin"
chmod 755 "$SERVER_WORK"
mount_up
equal "$(stat -c %u:%g "$WORK/web")" 33:5 "user and group of a file"
equal "$(stat -c %u:%g "$WORK")" "$(stat -c %u:%g "$SERVER_WORK")" "root's own"
equal "$(as 33 cat "$WORK/web")" 1 "its owner reads it"
as 33 bash -c "echo 2 >>'$WORK/web'" || fail "its owner may not write it"
as 33 chmod 640 "$WORK/web" || fail "its owner may not change its mode"
as 33 touch "$WORK/own/new" || fail "the owner of a folder may not use it"
equal "$(stat -c %u:%g "$WORK/own/new")" 33:33 "owner of a new file"
expect_error "Permission denied" as 1 cat "$WORK/web"
equal "$(find "$WORK/d" -type f -printf '%u:%g\n' | sort -u)" daemon:www-data "owners in a listing"
# The other way.
chown 1:5 "$WORK/web" || fail "chown"
equal "$(stat -c %u:%g "$SERVER_WORK/web")" 1:5 "the server's view after a chown"
equal "$(stat -c %u:%g "$WORK/web")" 1:5 "our view after a chown"
chgrp 33 "$WORK/web" || fail "chgrp"
equal "$(stat -c %u:%g "$SERVER_WORK/web")" 1:33 "the server's view after a chgrp"
mount_down
grep -q "unknown here" "$LOG" && fail "somebody was unknown: $(grep "unknown here" "$LOG")"

# A domain that is not the server's: nobody, and one warning.
: >"$LOG"
domain elsewhere.test
mount_up
# (Not one whose number it was told: nfs-ganesha says that number from then on.)
equal "$(stat -c %u:%g "$WORK/bin")" 65534:65534 "owners of another domain"
stat "$WORK/d/a" "$WORK/own" >/dev/null
equal "$(grep -c "unknown here" "$LOG")" 1 "warnings"
mount_down
exit 0
