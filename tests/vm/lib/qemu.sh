# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # opt_* are run's
# qemu.sh - QEMU's command line, and whether KVM works.

# norandmaps: an emulator keeps translated code by address; with addresses that
# differ from process to process an exec takes three times as long (52 against
# 17 ms). no_timer_check: on a busy host the timer seems not to work. notests: those of
# ciphers are a tenth of the boot. An oops is a panic: a half-dead guest would only waste the
# time limit. So is a soft lock-up, if it lasts for two minutes: tests of this bench stop a
# guest for half a minute.
readonly QEMU_APPEND='console=ttyS0 panic=-1 oops=panic softlockup_panic=1 watchdog_thresh=60 mitigations=off nokaslr norandmaps apparmor=0 selinux=0 audit=0 sysrq_always_enabled no_timer_check cryptomgr.notests'

# icount: 8 ns for each instruction, which is about what an emulator on an idle machine
# needs. So guests are as long in the boot as with tcg.
readonly ICOUNT_SHIFT=3

# waits: 1 ns for each instruction, as with a real processor, so that a wait of a millisecond
# weighs as much beside what is computed. sleep=off: when all processors wait for a timer, the
# clock goes to it at once.
readonly WAITS_SHIFT=0

# Without erms and fsrm: with them the kernel and libc copy by "rep movsb", which is emulated
# byte by byte: a cp takes twice as long.
# tcg goes without smap, smep, pku and avx as well: each access of the kernel to a program's memory
# would end a piece of translated code and have another TLB, and each switch of programs would have more
# registers. Suites take a seventh less of a processor. (icount and waits keep them, so that what was
# measured before can be compared.)
qemu_accel() {
	case $1 in
	tcg) printf '%s\n' -accel tcg,thread=multi -cpu max,la57=off,erms=off,fsrm=off,smap=off,smep=off,pku=off,avx=off,avx2=off ;;
	kvm) printf '%s\n' -accel kvm -cpu host ;;
	icount) printf '%s\n' -accel tcg,thread=single -icount "shift=$ICOUNT_SHIFT" -cpu max,la57=off,erms=off,fsrm=off ;;
	waits) printf '%s\n' -accel tcg,thread=single -icount "shift=$WAITS_SHIFT,sleep=off" -cpu max,la57=off,erms=off,fsrm=off ;;
	esac
}

# qemu_machine KERNEL INITRD APPEND
qemu_machine() {
	local image=vmlinuz
	[[ -e $1/vmlinux ]] && image=vmlinux
	printf '%s\n' -nodefaults -no-user-config -no-reboot -display none \
		-kernel "$1/$image" -initrd "$2/initrd" -append "$QEMU_APPEND $3"
}

# qemu_hostfwd PORT[:GUESTPORT]...
qemu_hostfwd() {
	local pair guest
	for pair; do
		[[ $pair == *:* ]] && guest=${pair#*:} || guest=20049
		printf ',hostfwd=tcp:127.0.0.1:%s-10.0.2.15:%s' "${pair%:*}" "$guest"
	done
}

# qemu_args KERNEL INITRD DIR - the arguments, one a line, after run's options.
# The ports go by their names (guest/system.sh); their chardevs are FIFOs in DIR.
qemu_args() {
	local dir=$3 port
	qemu_accel "$opt_accel"
	qemu_machine "$1" "$2" "vm.dir=$dir"
	# security_model=none is passthrough that does not insist on chown, so
	# that QEMU can run as an ordinary user; nothing is written anyway.
	printf '%s\n' -smp "$opt_cpus" -m "$opt_mem" \
		-chardev "file,id=log,path=$dir/log" -serial chardev:log \
		-virtfs local,path=/,mount_tag=rootfs,security_model=none,readonly=on,multidevs=remap \
		-device virtio-serial
	for port in stdout stderr status; do
		printf '%s\n' -chardev "file,id=$port,path=$dir/$port" -device "virtserialport,chardev=$port,name=$port"
	done
	printf '%s\n' -chardev "pipe,id=control,path=$dir/control" -device virtserialport,chardev=control,name=control
	[[ $opt_capture ]] && printf '%s\n' -chardev "file,id=capture,path=$opt_capture" \
		-device virtserialport,chardev=capture,name=capture
	[[ $opt_shell ]] && printf '%s\n' -chardev stdio,id=tty,signal=off -device virtconsole,chardev=tty
	[[ $opt_keep ]] && printf '%s\n' -chardev "pipe,id=tty,path=$dir/console" -device virtconsole,chardev=tty
	[[ $opt_hostfwd ]] && printf '%s\n' -device virtio-net,netdev=user \
		-netdev "user,id=user$(qemu_hostfwd ${opt_hostfwd//,/ })"
	return 0
}

# qemu_probe_kvm KERNEL INITRD - prints kvm or tcg. The device file proves
# nothing: nested virtualisation may be missing or broken, so a guest must boot.
qemu_probe_kvm() {
	local args
	mapfile -t args < <(qemu_accel kvm; qemu_machine "$1" "$2" vm.probe)
	if [[ -w /dev/kvm ]] && timeout -s KILL 20 qemu-system-x86_64 "${args[@]}" -m 512M \
		-serial stdio </dev/null 2>/dev/null | grep -aq 'vm: probe succeeded'
	then echo kvm; else echo tcg; fi
}
