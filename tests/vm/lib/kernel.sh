# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# kernel.sh - a Debian kernel, unpacked into the cache without installing it.
#
# The "cloud" flavour has no InfiniBand; the "rt" flavour is not what servers
# run. apt-get download needs no privilege, only the package lists.

# kernel_packages SERIES - candidates, newest first: the packages of one kernel in a line.
kernel_packages() {
	if in_backports "$1"; then backports_packages "$1"; return; fi
	apt-cache pkgnames "linux-image-$1." |
		grep -E "^linux-image-${1//./\\.}\.[0-9][0-9a-z.+-]*-amd64(-unsigned)?\$" |
		grep -Ev -- '-(cloud|rt)-amd64' |
		# A signed image and its unsigned twin are the same kernel: the
		# signed one sorts first because it is the one people run.
		sed -E 's/^(.*-amd64)(-unsigned)?$/\1 \2/' | sort -k1,1Vr -k2,2 | tr -d ' '
}

# kernel_download SERIES - fetches into the current folder, prints the files.
# Package lists outlive packages on the mirrors, hence the second and third try.
kernel_download() {
	local packages package get=(apt-get) tries=0
	in_backports "$1" && get=(backports_apt apt-get)
	while read -ra packages; do
		(( tries++ < 3 )) || break
		say "fetching ${packages[*]}"
		"${get[@]}" -q -o APT::Sandbox::User=root download "${packages[@]}" >&2 || continue
		for package in "${packages[@]}"; do printf '%s\n' "${package}"_*.deb; done
		return 0
	done < <(kernel_packages "$1")
	say "no kernel package of Linux $1 could be fetched; remedy: apt-get update"
	return 1
}

# kernel_extract VMLINUZ VMLINUX - takes the ELF image out of the bzImage.
# QEMU starts it by its PVH entry, which saves both the firmware's and the
# self-extractor's time, seconds under emulation. Fails when it cannot.
kernel_extract() {
	local magic tool offset
	for magic in '\x28\xb5\x2f\xfd=zstd -dcq' '\xfd7zXZ\x00=xz -dcq'; do
		tool=${magic#*=}
		while read -r offset; do
			# Trailing bytes follow the payload: the tools complain
			# about them after they have written everything.
			tail -c "+$((offset + 1))" "$1" | $tool >"$2" 2>/dev/null
			[[ $(head -c 4 "$2" | tr -d '\0') == $'\x7fELF' ]] && return 0
		done < <(LC_ALL=C grep -obUaP "${magic%%=*}" "$1" | cut -d: -f1)
	done
	rm -f "$2"
	return 1
}

# kernel_unpack SERIES DIR - DIR gets vmlinuz, perhaps vmlinux, lib/modules, release.
kernel_unpack() {
	local series=$1 dir=$2 debs deb image
	need apt-get=apt apt-cache=apt dpkg-deb=dpkg depmod=kmod zstd=zstd xz=xz-utils
	cd "$dir" || return 1
	debs=$(kernel_download "$series") || return 1
	for deb in $debs; do
		dpkg-deb -x "$deb" . || { say "cannot unpack $deb"; return 1; }
	done
	# On a merged /usr the package may carry its modules in usr/lib.
	[[ -d lib/modules ]] || ln -s usr/lib lib
	basename "$(echo lib/modules/*)" >release
	# Since 7.2 the image is beside the modules.
	for image in boot/vmlinuz-* "lib/modules/$(<release)/vmlinuz"; do
		[[ ! -e $image ]] || mv "$image" vmlinuz || return 1
	done
	[[ -e vmlinuz ]] || { say "there is no kernel in $debs"; return 1; }
	dpkg-deb -f "$deb" Version >version   # siw is built from the same
	PATH=$PATH:/usr/sbin:/sbin depmod -b "$dir" "$(<release)" || return 1
	kernel_extract vmlinuz vmlinux || note "$deb: no ELF image found, booting the bzImage"
	rm -rf boot usr/share ./*.deb
}

# kernel_path SERIES - its folder, which need not be there.
kernel_path() {
	local files=("$VM_LIB/kernel.sh")
	in_backports "$1" && files+=("$VM_LIB/backports.sh")
	printf '%s/kernel-%s-%s\n' "$(cache_root)" "$1" "$(hash_of "${files[@]}")"
}

# kernel_dir SERIES - prints the folder; fetches the kernel the first time.
# What is cached is used as it is: a run must not depend on the network.
kernel_dir() {
	local dir
	dir=$(kernel_path "$1") || return 1
	build_once "$dir" kernel_unpack "$1" >&2
	[[ $(<"$dir/release") == "$1".* ]] || say "there is no Linux $1 any more; this is $(<"$dir/release")"
	printf '%s\n' "$dir"
}
