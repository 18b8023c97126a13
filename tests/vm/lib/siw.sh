# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# siw.sh - the iWARP driver, which Debian's kernels leave out, built from
# Debian's source of the same kernel against its headers. Nothing is installed.

# siw_fetch KERNEL_DIR SERIES - packages into the current folder, headers
# unpacked. The version must be the image's: symbols carry checksums.
siw_fetch() {
	local release version series=$2 kbuild=linux-kbuild-$2 common
	release=$(<"$1/release") version=$(<"$1/version")
	common=linux-headers-${release%-amd64}-common
	# Since 6.12, linux-kbuild is named after the whole version.
	[[ $series == 6.1 ]] || kbuild=linux-kbuild-${release%-amd64}
	say "fetching the source and the headers of $release"
	apt-get -qq -o APT::Sandbox::User=root download "linux-headers-$release=$version" \
		"$common=$version" "$kbuild=$version" "linux-source-$series=$version" >&2 || {
		say "the packages for siw could not be fetched; remedy: apt-get update, or remove $(cache_root) for a newer kernel"
		return 1
	}
	for package in linux-headers-*.deb linux-kbuild-*.deb; do
		dpkg-deb -x "$package" . || return 1
	done
	# The only absolute path in them.
	sed -i "s|/usr/src|$PWD/usr/src|" "usr/src/linux-headers-$release/Makefile"
}

# siw_build KERNEL_DIR SERIES DIR
siw_build() {
	local kernel=$1 series=$2 dir=$3 release
	release=$(<"$kernel/release")
	need make=make gcc=gcc apt-get=apt dpkg-deb=dpkg xz=xz-utils
	cd "$dir" && siw_fetch "$kernel" "$series" || return 1
	dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO "./usr/src/linux-source-$series.tar.xz" |
		xz -dc | tar -x --strip-components=4 "linux-source-$series/drivers/infiniband/sw/siw" || return 1
	say "building siw for $release"
	# Not in the kernel's configuration: siw. Not wanted: type information
	# for BPF, which would need pahole.
	make -s -C "usr/src/linux-headers-$release" M="$dir/siw" CONFIG_RDMA_SIW=m \
		CONFIG_DEBUG_INFO_BTF_MODULES= modules >make.log 2>&1 || {
		cat make.log >&2
		return 1
	}
	mv siw/siw.ko siw.ko && rm -rf usr siw lib ./*.deb
}

# siw_dir KERNEL_DIR SERIES - prints the folder that holds siw.ko.
siw_dir() {
	local dir
	dir=$1-siw-$(hash_of "$VM_LIB/siw.sh") || return 1
	build_once "$dir" siw_build "$1" "$2" >&2
	printf '%s\n' "$dir"
}
