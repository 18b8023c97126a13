# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# kernel.sh - a Debian kernel, unpacked into the cache without installing it.
#
# The "cloud" flavour has no InfiniBand; the "rt" flavour is not what servers
# run. apt-get download needs no privilege, only the package lists.

# kernel_packages SERIES - candidate packages, newest first.
kernel_packages() {
	apt-cache pkgnames "linux-image-$1." |
		grep -E "^linux-image-${1//./\\.}\.[0-9][0-9a-z.+-]*-amd64(-unsigned)?\$" |
		grep -Ev -- '-(cloud|rt)-amd64' |
		# A signed image and its unsigned twin are the same kernel: the
		# signed one sorts first because it is the one people run.
		sed -E 's/^(.*-amd64)(-unsigned)?$/\1 \2/' | sort -k1,1Vr -k2,2 | tr -d ' '
}

# kernel_download SERIES - fetches into the current folder, prints the file.
# Package lists outlive packages on the mirrors, hence the second and third try.
kernel_download() {
	local package tries=0
	while read -r package; do
		(( tries++ < 3 )) || break
		say "fetching $package"
		apt-get -q -o APT::Sandbox::User=root download "$package" >&2 || continue
		printf '%s\n' "${package}"_*.deb
		return 0
	done < <(kernel_packages "$1")
	say "no kernel package linux-image-$1.*-amd64 could be fetched; remedy: apt-get update"
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
	local series=$1 dir=$2 deb
	need apt-get=apt apt-cache=apt dpkg-deb=dpkg depmod=kmod zstd=zstd xz=xz-utils
	cd "$dir" || return 1
	deb=$(kernel_download "$series") || return 1
	dpkg-deb -x "$deb" . || { say "cannot unpack $deb"; return 1; }
	mv boot/vmlinuz-* vmlinuz && mv boot/config-* config || return 1
	# On a merged /usr the package may carry its modules in usr/lib.
	[[ -d lib/modules ]] || ln -s usr/lib lib
	basename "$(echo lib/modules/*)" >release
	dpkg-deb -f "$deb" Version >version   # siw is built from the same
	PATH=$PATH:/usr/sbin:/sbin depmod -b "$dir" "$(<release)" || return 1
	kernel_extract vmlinuz vmlinux || note "$deb: no ELF image found, booting the bzImage"
	rm -rf boot usr/share "$deb"
}

# kernel_dir SERIES - prints the folder; fetches the kernel the first time.
# What is cached is used as it is: a run must not depend on the network.
kernel_dir() {
	local dir
	dir=$(cache_root)/kernel-$1-$(hash_of "$VM_LIB/kernel.sh") || return 1
	build_once "$dir" kernel_unpack "$1" >&2
	printf '%s\n' "$dir"
}
