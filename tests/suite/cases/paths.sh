# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A mount over two paths: cuts of one of them, how work is spread, paths that come and go,
# and fail-overs without end. On the benches with two paths, host2 and rxe2. A line for each
# part, and a table in the end. NFSRDMA_PARTS: only some of cuts, share, change, storms;
# NFSRDMA_FAILOVERS, NFSRDMA_CYCLES, NFSRDMA_CHAOS: more of that.
[[ ${NFSRDMA_PATHS:-} == *' '* ]] || skip "this bench has one path"
home=${BASH_SOURCE[0]%/*}/../paths
for piece in lib cuts share change storms; do
	# shellcheck source=/dev/null
	. "$home/$piece.sh"
done
for program in "$STALLS" "$TREE"; do [[ -x $program ]] || skip "no $program"; done
for piece in ${NFSRDMA_PARTS:-cuts share change storms}; do "$piece"; done
echo "# the parts of $CASE, vers=$VERS:"
sed 's/^/# /' "$TABLE"
# shellcheck disable=SC2154 # of lib.sh
(( failures == 0 )) || fail "$failures parts failed"
exit 0
