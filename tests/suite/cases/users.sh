# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Users, modes and caches: what each of five users may do on the mount is what he may do in a local file system,
# whatever others have brought into the caches. Also where the kernel does not check modes.
[[ $(id -u) == 0 ]] || skip "several users take root"
[[ $NFSRDMA_KERNEL == ganesha ]] || skip "the server's folder is another file system here"
type python3 >/dev/null 2>&1 || skip "no python3"
chmod 755 "$TMPDIR"

# compare OPTIONS EVERY [server] - with a mount of these options.
compare() {
	mount_up "$1"
	mkdir "$TMPDIR/local" "$SERVER_WORK/trials" || fail mkdir
	"${BASH_SOURCE[0]%/*}/../users" "$SERVER_WORK/trials" "$WORK/trials" "$TMPDIR/local" "${@:2}" >"$TMPDIR/said" 2>&1 ||
		fail "with '$1': $(head -n 60 "$TMPDIR/said")"
	echo "# ${1:-as it is}: $(tail -n 1 "$TMPDIR/said")"
	mount_down
	rm -rf "$TMPDIR/local" "$SERVER_WORK/trials"
}
compare '' 2
compare nodefault_permissions 7 server
