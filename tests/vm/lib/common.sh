# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# common.sh - messages, the cache folder, and the check for missing tools.

# Exit status of the bench itself, as opposed to the command's: the values of
# timeout(1), of a guest that could not be started, of one that died, and of a test
# that is skipped because this Debian has no such kernel.
# shellcheck disable=SC2034 # used by the scripts that source this file
readonly EXIT_TIMEOUT=124 EXIT_GUEST=125 EXIT_DIED=123 EXIT_NO_KERNEL=77

say()  { printf 'vm: %s\n' "$*" >&2; }
note() { [[ ${VM_VERBOSE:-} ]] && say "$@"; return 0; }
die()  { say "$@"; exit "$EXIT_GUEST"; }

cache_root() {
	printf '%s/nfsrdma-fuse/vm\n' "${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}"
}

# hash_of FILE... - a short key that changes when one of the files does.
hash_of() { cat -- "$@" | sha256sum | cut -c1-12; }

# need TOOL=PACKAGE... - names everything that is missing in one line.
# Server tools live in sbin, which is not in an ordinary user's PATH.
need() {
	local pair missing=() packages=()
	for pair; do
		[[ -n $(PATH=$PATH:/usr/sbin:/sbin type -P "${pair%%=*}") ]] && continue
		missing+=("${pair%%=*}")
		[[ " ${packages[*]} " == *" ${pair#*=} "* ]] || packages+=("${pair#*=}")
	done
	(( ${#missing[@]} == 0 )) ||
		die "missing on this machine: ${missing[*]}; remedy: apt-get install ${packages[*]}"
}

# build_once DIR FUNCTION ARG... - runs FUNCTION ARG... NEWDIR when DIR is not
# there, and makes NEWDIR appear as DIR in one step. The lock lets several
# runs start at the same time; the rename lets readers do without it. What has
# not been used for a month (the bench has changed, or the kernel) goes.
build_once() {
	local dir=$1 tmp; shift
	[[ -d $dir ]] && { touch "$dir"; return 0; }
	mkdir -p "${dir%/*}" || die "cannot create ${dir%/*}; remedy: set XDG_CACHE_HOME to a folder that can be written"
	(
		flock 9 || die "cannot lock $dir.lock"
		[[ -d $dir ]] && exit 0
		tmp=$dir.tmp
		rm -rf "$tmp" && mkdir "$tmp" || exit 1
		"$@" "$tmp" && mv -T "$tmp" "$dir" || exit 1
		find "${dir%/*}" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
	) 9>"$dir.lock" || die "could not build $dir"
}
