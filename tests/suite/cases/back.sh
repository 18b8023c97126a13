# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The server's back channel: it is up, and up again when the connection that carried it is gone.
[[ $VERS != 3 ]] || skip "version 3 has none"
clients=/proc/fs/nfsd/clients
# What knfsd says of its channel to us. No other server says anything.
is_up() {
	local info
	[[ -d $clients ]] || return 0
	for info in "$clients"/*/info; do
		! grep -q nfsrdma-fuse "$info" || { grep -q '^callback state: UP' "$info" && return; }
	done
	return 1
}
binds() { stats_now; stat_sum rpc.BIND_CONN_TO_SESSION; echo "$REPLY"; }
is_bound() { (( $(binds) > $1 )); }

mount_up lanes=1,deleg
until_true "a back channel" is_up
nap 3
at_most "$(binds)" 1 "connections that were bound while all was well: the server may not have heard in a second"
first=$(binds)
for i in 0 1 2; do
	before=$(binds)
	timeout 60 "$BIN" ctl "$MNT" reconnect all >/dev/null || fail reconnect
	until_true "another connection for the back channel" is_bound "$before"
	until_true "the back channel is up again" is_up
done
nap 3
at_least $(( $(binds) - first )) 3 "connections that were bound"
echo works >"$WORK/file" || fail write
equal "$(<"$SERVER_WORK/file")" works "what was written"
# nfs-ganesha is allowed to give delegations (host-ganesha), and its FSAL_VFS has none.
if [[ $NFSRDMA_KERNEL == ganesha ]]; then
	for (( i = 0; i < 20; i++ )); do
		echo old >"$SERVER_WORK/file.$i"
		cat "$WORK/file.$i" >/dev/null && exec 3<>"$WORK/file.$i" && exec 3<&- || fail open
	done
	equal "$(stat_now delegs.read) $(stat_last delegs.write)" "0 0" "delegations of nfs-ganesha"
fi
rm "$WORK"/file*
mount_down
