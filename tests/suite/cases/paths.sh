# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A mount over two paths: cuts of one of them, how work is spread, paths that come and go,
# and fail-overs without end. On the benches with two paths, host2 and rxe2. A line for each
# part, and a table in the end. NFSRDMA_PARTS: only some of cuts, share, change, storms, brief;
# NFSRDMA_FAILOVERS, NFSRDMA_CYCLES, NFSRDMA_CHAOS: more of that.
[[ ${NFSRDMA_PATHS:-} == *' '* ]] || skip "this bench has one path"
home=${BASH_SOURCE[0]%/*}/../paths
for piece in lib cuts share change storms; do
	# shellcheck source=/dev/null
	. "$home/$piece.sh"
done
for program in "$STALLS" "$TREE" "$LOCKS"; do [[ -x $program ]] || skip "no $program"; done
# Nobody knows the server's address yet, which is that of this machine, and answers before anybody waits
# for that. This guest's clock counts instructions, so it can be asked how long a mount took: 5.5 s, when
# the address was looked at again only when its time was up, and 1.3 now.
first_mount() {
	local start=${EPOCHREALTIME/./}
	[[ ! $(ip neigh show 10.0.0.1) ]] || fail "the server's address is known"
	mount_up
	at_most $(( (${EPOCHREALTIME/./} - start) / 1000 )) 4000 "ms for the first mount"
	mount_down
}
# The server ends its client, whose paths take turns. Linux takes a new client id from the address only that
# has asked for it.
expired() {
	local ctl
	[[ $VERS != 3 && -d /proc/fs/nfsd/clients ]] || return 0
	mount_up "$BOTH,mp_policy=round-robin"
	both_up
	for (( i = 0; i < 3; i++ )); do
		for ctl in /proc/fs/nfsd/clients/*/ctl; do echo expire >"$ctl"; done
		in_time 30 ls "$WORK" || fail "the mount has not come back"
		in_time 30 touch "$WORK/$i" || fail "nothing is written"
	done
	grep -q 'CLID_INUSE\|not responding' "$LOG" && fail "what the log says"
	mount_down
}
# A guest is emulated: all of it takes half an hour there, and is for those who ask for it.
brief() {
	part "the first mount" first_mount
	part "drop, path 0" one_cut drop 0
	part "kill, path 1" one_cut kill 1
	part "the last path" last
	part "expired" expired
}
[[ $NFSRDMA_KERNEL == ganesha ]] && all="cuts share change storms" || all=brief
for piece in ${NFSRDMA_PARTS:-$all}; do "$piece"; done
echo "# the parts of $CASE, vers=$VERS:"
sed 's/^/# /' "$TABLE"
# shellcheck disable=SC2154 # of lib.sh
(( failures == 0 )) || fail "$failures parts failed"
exit 0
