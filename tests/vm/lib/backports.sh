# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# backports.sh - the newest kernels, from package lists of our own.
#
# Debian has them in trixie-backports, which few machines have among their sources. These
# lists are in the cache: neither /etc/apt nor apt's own state is written to, nothing is
# installed, and no privilege is needed.

readonly BACKPORTS=trixie-backports

# in_backports SERIES
in_backports() { [[ $1 == 7.* ]]; }

# backports_apt apt-get|apt-cache ARG... - with these lists. What this machine's settings
# say of proxies and certificates counts here, too; what they say of versions does not.
backports_apt() {
	local dir
	dir=$(cache_root)/$BACKPORTS
	"$1" -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::State::lists="$dir/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$dir/cache" \
		-o APT::Architecture=amd64 -o APT::Sandbox::User=root "${@:2}"
}

# backports_mirrors - where this machine has its Debian from, and where everybody can: not
# every mirror has backports.
backports_mirrors() {
	# shellcheck source=/dev/null
	(. "$VM_HOME/../../contrib/common.sh" && debian_mirror; echo http://deb.debian.org/debian) | sed 's|/*$||' | awk '!seen[$0]++'
}

# backports_update - fetches the lists anew. False: sets REPLY to why there are none.
backports_update() {
	local dir keys uri
	dir=$(cache_root)/$BACKPORTS
	mkdir -p "$dir"/{lists,cache/archives}/partial || die "cannot create $dir; remedy: set XDG_CACHE_HOME to a folder that can be written"
	for keys in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do [[ ! -r $keys ]] || break; done
	exec 8>"$dir.lock" && flock 8 || die "cannot lock $dir.lock"
	REPLY=
	while read -r uri; do
		echo "deb [arch=amd64 signed-by=$keys] $uri $BACKPORTS main" >"$dir/sources.list"
		if backports_apt apt-get -q -o APT::Update::Error-Mode=any -o Acquire::Languages=none update >"$dir/log" 2>&1; then
			exec 8>&-
			return 0
		fi
		REPLY+="${REPLY:+; }no $BACKPORTS from $uri: $(grep -m1 '^[EW]:' "$dir/log" || tail -n 1 "$dir/log")"
	done < <(backports_mirrors)
	exec 8>&-
	return 1
}

# The packages of one kernel, which has three since 7.2: the image, the modules, and which
# modules are built in.
readonly BACKPORTS_PARTS=(binary modules base)

# backports_releases - those that have them all, newest first.
backports_releases() {
	backports_apt apt-cache pkgnames linux- |
		sed -nE "s/^linux-($(IFS='|'; echo "${BACKPORTS_PARTS[*]}"))-([0-9.]+[0-9a-z.+-]*-amd64)\$/\2/p" |
		grep -Ev -- '-(cloud|rt)-amd64' | sort | uniq -c |
		awk -v all=${#BACKPORTS_PARTS[@]} '$1 == all { print $2 }' | sort -Vr
}

# backports_packages SERIES - candidates, newest first. Backports keep a series only until
# Linux's next one: when 7.3 is no longer there, a later 7.x stands in for it.
backports_packages() {
	local releases series release
	releases=$(backports_releases)
	for series in "$1" $(grep -oE '^7\.[0-9]+' <<<"$releases" | sort -Vru); do
		[[ $(printf '%s\n' "$1" "$series" | sort -V | head -n 1) == "$1" ]] || continue
		while read -r release; do
			[[ $release != "$series".* ]] || echo "${BACKPORTS_PARTS[@]/%/-$release}" | sed -E 's/(^| )/\1linux-/g'
		done <<<"$releases" | grep . && return
	done
	return 1
}
