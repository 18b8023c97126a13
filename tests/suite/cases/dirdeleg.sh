# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Delegations of directories: names that are there or not are asked for once, until somebody else changes the
# directory; this mount's own changes are seen at once. Linux has them from 6.19 on; others are asked once, or
# less and less often.
# shellcheck source-path=SCRIPTDIR source=../delegations.sh
. "${BASH_SOURCE[0]%/*}/../delegations.sh"

mount_up deleg
mkdir "$SERVER_WORK/d" "$SERVER_WORK/d/sub" "$SERVER_WORK/other"
for (( i = 0; i < 10; i++ )); do echo "$i" >"$SERVER_WORK/d/file.$i"; done
absent() { [[ ! -e $WORK/d/none.$1 ]]; }
asks() {
	for (( i = 0; i < 4; i++ )); do absent "$(( nr++ ))"; done
	(( $(calls GET_DIR_DELEGATION) > 0 ))
}
nr=100
until_true "a directory's delegation is asked for" asks
nap 1
if (( $(delegated) == 0 )); then
	for (( j = 0; j < 10; j++ )); do
		for (( i = 0; i < 10; i++ )); do absent "$(( nr++ ))"; done
		nap 0.5
	done
	at_most "$(calls GET_DIR_DELEGATION)" 4 "GET_DIR_DELEGATIONs of a server that gives none"
	mount_down
	[[ $NFSRDMA_KERNEL != 7.* ]] || fail "Linux $NFSRDMA_KERNEL gives delegations of directories, and has given none"
	skip "this server gives no delegations of directories"
fi

# What is not there is asked for once. (The kernel asks every second.) The first delegation may be another
# directory's, above this one.
once() {
	local before
	absent 1 && absent 2 || fail "names that are not there"
	before=$(calls LOOKUP)
	nap 1.2
	absent 1 && absent 2 && (( $(calls LOOKUP) == before ))
}
until_true "names that are not there are asked for once" once
# (A guest among others that did not run for some seconds may have to ask again what it believes.)
asks_none() {
	local before i
	before=$(calls LOOKUP)
	for (( i = 0; i < 3; i++ )); do
		nap 1.2
		absent 1 && absent 2 || fail "names that are not there"
	done
	(( $(calls LOOKUP) == before ))
}
for (( n = 0; n < 5; n++ )); do ! asks_none || break; done
at_most "$n" 4 "times in which the server was asked for names that were not there"

# Others' changes are seen as soon as the kernel asks.
appears() { [[ -e $WORK/d/none.1 ]]; }
echo new >"$SERVER_WORK/d/none.1"
nap 1.2
appears || fail "a name that another client has made is not there"
equal "$(<"$WORK/d/none.1")" new "what another client has made"
at_most "$(delegated)" 1 "delegations after a recall"

# Own changes: of the directory with the delegation.
for (( round = 0; round < 5; round++ )); do
	absent 3 || fail "a name that was removed is there"
	echo mine >"$WORK/d/none.3" || fail "create"
	[[ -e $WORK/d/none.3 && $(<"$SERVER_WORK/d/none.3") == mine ]] || fail "a name that this mount has made is not there"
	mv "$WORK/d/none.3" "$WORK/d/none.4" || fail "rename"
	absent 3 || fail "a name that was renamed is there"
	[[ -e $WORK/d/none.4 ]] || fail "the new name is not there"
	mv "$WORK/d/none.4" "$WORK/other/x" || fail "rename to another directory"
	absent 4 || fail "a name that was moved away is there"
	rm "$WORK/other/x" || fail "rm"
done

# A model: another client makes and removes names all the time, and each is seen within the second that the kernel
# believes a name not to exist for.
for (( round = 0; round < 10; round++ )); do
	name=flip.$(( round % 3 ))
	[[ ! -e $WORK/d/$name ]] || fail "$name is there"
	in_time 30 touch "$SERVER_WORK/d/$name" || fail touch
	nap 1.1
	[[ -e $WORK/d/$name ]] || fail "$name is not there, round $round"
	in_time 30 rm "$SERVER_WORK/d/$name" || fail rm
	! cat "$WORK/d/$name" 2>/dev/null || fail "$name is opened after its end, round $round"
done
mount_down
equal "$(grep -l nfsrdma-fuse "$clients"/*/info 2>/dev/null | wc -l)" 0 "clients after an unmount"
