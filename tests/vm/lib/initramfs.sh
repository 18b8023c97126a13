# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# initramfs.sh - busybox, the modules, guest/init and guest/vm-root.c, in one cpio archive.
#
# It is not compressed: QEMU hands it over by DMA, while decompressing would
# be the emulated processor's work. The kernel's own NFS client is not in it,
# because loading it takes two seconds: mount(8) has it loaded when it is used.

# In load order; modprobe adds what each one needs. "early" is needed to reach
# the root file system, "late" is loaded while the first programs start.
# Without crc32_generic, "rdma link add ... type rxe" fails with ENOENT, as long as it is
# a module: later kernels have these checksums within.
readonly INITRAMFS_EARLY=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
readonly INITRAMFS_LATE=(veth virtio_net fuse crc32_generic crc32c_generic
	ib_uverbs rdma_ucm rdma_rxe libcrc32c rpcrdma nfsd)
readonly INITRAMFS_OLD='crc32_generic|crc32c_generic|libcrc32c'

# initramfs_modules KERNEL_DIR OUT_DIR MODULE... - unpacked modules and "order".
initramfs_modules() {
	local kernel=$1 out=$2 module verb file rest; shift 2
	for module; do
		PATH=$PATH:/usr/sbin:/sbin modprobe -q -d "$kernel" -S "$(<"$kernel/release")" --show-depends "$module" ||
			[[ $module =~ ^($INITRAMFS_OLD)$ ]] || say "kernel $(<"$kernel/release") has no module $module"
	done |
	while read -r verb file rest; do
		[[ $verb == insmod ]] || continue   # "builtin NAME"
		module=${file##*/}; module=${module%%.ko*}.ko
		[[ -e $out/$module ]] && continue
		case $file in
		*.xz)  xz -dc "$file" ;;
		*.zst) zstd -dcq "$file" ;;
		*)     cat "$file" ;;
		esac >"$out/$module" || return 1
		echo "$module $rest"
	done >"$out/order"
}

# initramfs_build KERNEL_DIR SIW_DIR DIR - SIW_DIR may be empty.
initramfs_build() {
	local kernel=$1 siw=$2 dir=$3 root=$3/root busybox
	busybox=$(type -P busybox)
	ldd "$busybox" >/dev/null 2>&1 &&
		die "$busybox is not static; remedy: apt-get install busybox-static"
	need xz=xz-utils zstd=zstd gcc=gcc
	mkdir -p "$root"/{bin,dev,proc,sys,early,late,ro,rw,new} &&
	cp "$busybox" "$root/bin/busybox" && cp "$VM_GUEST/init" "$root/init" &&
	gcc -static -Os -o "$root/vm-root" "$VM_GUEST/vm-root.c" &&
	initramfs_modules "$kernel" "$root/early" "${INITRAMFS_EARLY[@]}" &&
	initramfs_modules "$kernel" "$root/late" "${INITRAMFS_LATE[@]}" || return 1
	# Behind all others, so behind those that it needs.
	if [[ $siw ]]; then
		cp "$siw/siw.ko" "$root/late/" && echo siw.ko >>"$root/late/order" || return 1
	fi
	(cd "$root" && find . -print0 | cpio -0 -o -H newc --owner=0:0 --quiet) >"$dir/initrd" || return 1
	rm -rf "$root"
}

# initramfs_dir KERNEL_DIR SIW_DIR - prints the folder that holds "initrd".
initramfs_dir() {
	local dir
	dir=$1-${2:+siw-}initramfs-$(hash_of "$VM_LIB/initramfs.sh" "$VM_GUEST"/{init,vm-root.c} ${2:+"$2/siw.ko"}) || return 1
	build_once "$dir" initramfs_build "$1" "$2" >&2
	printf '%s\n' "$dir"
}
