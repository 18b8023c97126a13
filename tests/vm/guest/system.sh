# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# system.sh - files and small services of the guest. What is written to the
# root goes to the overlay, that is, to memory.

# port NAME - device of the virtio serial port with that name. In a variable,
# REPLY, because under emulation each $() costs milliseconds.
port() {
	local file name
	for file in /sys/class/virtio-ports/*/name; do
		name=; read -r name <"$file"
		[[ $name == "$1" ]] || continue
		file=${file%/name}
		REPLY=/dev/${file##*/}
		return 0
	done
	REPLY=/dev/null
	return 1
}

# loaded MODULE... - waits for what init loads in the background.
loaded() {
	local module state tries=0
	for module; do
		until { read -r state <"/sys/module/$module/initstate"; } 2>/dev/null && [[ $state == live ]]; do
			(( tries++ < 600 )) || { echo "vm: module $module is not there"; return 1; }
			read -rt 0.05 <>/run/vm/never
		done
	done
	return 0
}

system_files() {
	mkfifo /run/vm/never || return 1
	printf '%s\n' '127.0.0.1 localhost nfsrdma-vm' '::1 localhost' '10.0.0.1 server' '10.0.0.2 client' >/etc/hosts
	# No name server: a name that is not in /etc/hosts fails at once.
	rm -f /etc/resolv.conf; : >/etc/resolv.conf
	echo user_allow_other >/etc/fuse.conf
	# Modules that are asked for later (nfsv4, sch_netem) come from the cache.
	mkdir -p /lib/modules && ln -sfn "$JOB_KERNEL_DIR/lib/modules/$KERNEL_RELEASE" "/lib/modules/$KERNEL_RELEASE"
}

# system_control - answers the host while a command hangs.
system_control() {
	local word
	port control || return 0
	while read -r word; do
		case $word in
		report)
			# Processes first, then the kernel stacks of those in D state.
			ps -eo pid,ppid,user:8,stat,wchan:24,args --cols 200 >/dev/console
			echo w >/proc/sysrq-trigger
		esac
	done <"$REPLY"
}
