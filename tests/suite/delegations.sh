# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# delegations.sh - for cases about delegations: what knfsd says that it has given, and calls by name. Sourced by
# the case, behind lib.sh.
clients=/proc/fs/nfsd/clients
[[ $VERS != 3 && $EUID == 0 && -d $clients ]] || skip "no delegations in version 3, and root's files in /proc"

# states TEXT [BUT] - how many of the server's states have this text in their line, without that one.
states() {
	local file line n=0
	for file in "$clients"/*/states; do
		while read -r line; do
			[[ $line != *"$1"* || ( ${2:-} && $line == *"${2:-}"* ) ]] || (( n += 1 ))
		done <"$file"
	done
	echo $n
}

# delegated [ACCESS] - how many delegations the server has given; of files: r or w.
delegated() { states "type: deleg${1:+, access: $1}"; }

# calls NAME... - of these operations.
calls() { stats_now; stat_sum "${@/#/rpc.}"; echo "$REPLY"; }

# gives_one_to_write - a file of the server's, file.$nr, that this mount opens to read and write, as descriptor 3.
# False: without a delegation. (Linux gives none in its grace period, nor of files that were recalled in the last
# half a minute.)
nr=0
gives_one_to_write() {
	local before
	before=$(delegated w)
	(( ++nr ))
	echo old >"$SERVER_WORK/file.$nr"
	exec 3<>"$WORK/file.$nr" || fail open
	(( $(delegated w) > before )) && return
	exec 3<&-
	return 1
}
