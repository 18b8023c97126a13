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
for program in "$STALLS" "$TREE"; do [[ -x $program ]] || skip "no $program"; done
# A guest is emulated: all of it takes half an hour there, and is for those who ask for it.
brief() {
	part "drop, path 0" one_cut drop 0
	part "kill, path 1" one_cut kill 1
	part "the last path" last
}
[[ $NFSRDMA_KERNEL == ganesha ]] && all="cuts share change storms" || all=brief
for piece in ${NFSRDMA_PARTS:-$all}; do "$piece"; done
echo "# the parts of $CASE, vers=$VERS:"
sed 's/^/# /' "$TABLE"
# shellcheck disable=SC2154 # of lib.sh
(( failures == 0 )) || fail "$failures parts failed"
exit 0
