#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-completion.sh - what bash offers where somebody presses the tabulator, with the program of
# the build folder, and zsh with a terminal of its own, where it is installed.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0"
set -u

completion=$(realpath "${srcdir:-.}")/contrib/completion
n=0
if [[ ! -x src/nfsrdma-fuse ]]; then
	echo '1..0 # SKIP the program is not built'
	exit 0
fi
export PATH=$PWD/src:$PATH

# result NAME - of the command before.
result() { if (( $? == 0 )); then echo "ok $(( ++n )) - $1"; else echo "not ok $(( ++n )) - $1"; fi; }

# offers LINE WORD... - bash has the words for the end of LINE, and possibly others.
offers() {
	local line=$1 word missing='' COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
	shift
	_nfsrdma_fuse "$PWD/src/nfsrdma-fuse"
	for word; do [[ " ${COMPREPLY[*]} " == *" $word "* ]] || missing+=" $word"; done
	[[ ! $missing ]] || { echo "# '$line', no$missing: ${COMPREPLY[*]:-nothing}"; false; }
	result "bash: $line"
}
# offers_only LINE WORD... - these, and no others.
offers_only() {
	local COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
	_nfsrdma_fuse "$PWD/src/nfsrdma-fuse"
	[[ ${COMPREPLY[*]} == "${*:2}" ]] || { echo "# '$1': ${COMPREPLY[*]}"; false; }
	result "bash: only $1"
}

. "$completion/nfsrdma-fuse"
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
complete -p nfsrdma-fuse >/dev/null
result 'bash: it is registered'
offers 'nfsrdma-fuse ' ctl doctor
offers 'nfsrdma-fuse s:/e /mnt -o ' ro rsize= vers= fabric= nodeleg localports= _netdev
offers_only 'nfsrdma-fuse s:/e /mnt -o nconn' nconnect=
offers_only 'nfsrdma-fuse s:/e /mnt -o ro,fab' ro,fabric=
# Behind the last '=' or ':', as bash puts it in.
offers_only 'nfsrdma-fuse s:/e /mnt -o ro,fabric=' auto verbs iwarp
offers_only 'nfsrdma-fuse s:/e /mnt -o fabric=iwarp,vers=4.' 4.2 4.1
offers_only 'nfsrdma-fuse s:/e /mnt -o tc'
offers 'nfsrdma-fuse s:/e /mnt -' -o --help
offers 'nfsrdma-fuse doctor s:/e ' -o --report
offers 'nfsrdma-fuse doctor s:/e -o nomp' nompacrc
offers_only 'nfsrdma-fuse ctl /mnt remo' remove-path
offers 'nfsrdma-fuse ctl /mnt add-path 10.0.0.1 --' --local --port --json
offers_only 'nfsrdma-fuse ctl /mnt paths --' --json
offers_only 'nfsrdma-fuse ctl /mnt policy min-' min-inflight min-latency

# Mount points, as findmnt has them and as a command line needs them.
bin=$(mktemp -d) || exit 99
trap 'rm -r "$bin"' EXIT
cat >"$bin/findmnt" <<'END'
#!/bin/sh
printf '%s\n' /mnt/plain '/mnt/a\x20b' '/mnt/back\x5cx20' /mnt/c:d,e
END
chmod +x "$bin/findmnt"
PATH=$bin:$PATH
offers_only 'nfsrdma-fuse ctl ' /mnt/plain '/mnt/a\ b' '/mnt/back\\x20' '/mnt/c:d\,e' --help
offers_only 'nfsrdma-fuse ctl /mnt/a' '/mnt/a\ b'
offers_only 'nfsrdma-fuse ctl /mnt/a\' '/mnt/a\ b'
offers_only 'nfsrdma-fuse ctl /mnt/a\ ' '/mnt/a\ b'
offers_only 'nfsrdma-fuse ctl /mnt/back' '/mnt/back\\x20'
offers_only 'nfsrdma-fuse ctl /mnt/c:d,' 'd\,e'
offers_only 'nfsrdma-fuse ctl /mnt/a\ b remo' remove-path
offers_only 'nfsrdma-fuse ctl /mnt/a\ b policy min-' min-inflight min-latency

# Each name of --help, and each command.
COMP_LINE='nfsrdma-fuse s:/e /mnt -o ' COMP_POINT=${#COMP_LINE}
_nfsrdma_fuse "$PWD/src/nfsrdma-fuse"
missing=''
for word in $(src/nfsrdma-fuse --help | sed -n '/^Server and/,$s/^  \([a-z_0-9]*=\{0,1\}\)[A-Z-]* .*/\1/p'); do
	[[ " ${COMPREPLY[*]} " == *" $word "* ]] || missing+=" $word"
done
[[ ! $missing ]] || { echo "# missing:$missing"; false; }
result 'bash: all options of --help'
COMP_LINE='nfsrdma-fuse ctl /mnt ' COMP_POINT=${#COMP_LINE}
_nfsrdma_fuse "$PWD/src/nfsrdma-fuse"
[[ ${COMPREPLY[*]} == "$(src/nfsrdma-fuse ctl --help | sed -n 's/^  \([a-z][a-z-]*\).*/\1/p' | xargs)" ]] ||
	{ echo "# ${COMPREPLY[*]}"; false; }
result 'bash: all commands of ctl --help'

# zsh_offers LINE WORD... - zsh lists the words.
zsh_offers() {
	local line=$1 word said missing=''
	shift
	if ! command -v zsh >/dev/null; then
		echo "ok $(( ++n )) - zsh: $line # SKIP there is no zsh"
		return
	fi
	# shellcheck disable=SC2016 # zsh's
	said=$(timeout 120 zsh -f -c 'zmodload zsh/zpty && zpty z zsh -f -i
		zpty -w z "PROMPT=; fpath=($1 \$fpath); autoload -U compinit && compinit -u -D; LISTMAX=1000; stty columns 200; print READY\$((1+1))"
		zpty -r z said "*READY2*"
		zpty -n -w z "$2"$'"'\\t\\t'"'
		shift 2
		for (( i = 0; i < 300; i++ )); do
			while zpty -r -t z said; do all+=$said; done
			left=($@)
			for word; do [[ $all != *$word* ]] || shift left; done
			(( $#left )) || break
			sleep 0.1
		done
		print -r -- $all
		zpty -d z' - "$completion" "$line" "$@" 2>&1 </dev/null)
	for word; do [[ $said == *"$word"* ]] || missing+=" $word"; done
	[[ ! $missing ]] || { echo "# zsh, '$line', no$missing: ${said//$'\n'/ }"; false; }
	result "zsh: $line"
}
zsh_offers 'nfsrdma-fuse s:/e /mnt -o ro,fabric=' auto verbs iwarp
zsh_offers 'nfsrdma-fuse s:/e /mnt -o rem' remount remoteports
zsh_offers 'nfsrdma-fuse ctl /mnt re' reconnect remove-path
zsh_offers 'nfsrdma-fuse ctl /mnt/' plain '/mnt/a\ b' '/mnt/back\\x20'
zsh_offers 'nfsrdma-fuse ctl /mnt/a' '/mnt/a\ b'
zsh_offers 'nfsrdma-fuse ctl /mnt/a\ b re' reconnect remove-path
echo "1..$n"
