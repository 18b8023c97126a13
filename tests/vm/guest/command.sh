# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# command.sh - runs the job's command, as root or as an ordinary user.

readonly COMMAND_MEMLOCK_KIB=8192   # what an ordinary user has by default

command_prepare() {
	local user=${JOB_USER:-root} dir=$JOB_CWD folders=()
	COMMAND_GROUP=$(id -g "$user") || return 1
	# The source tree may lie below somebody's private home folder. This
	# changes the overlay, not the host.
	while [[ $JOB_USER && $dir == /?* ]]; do folders+=("$dir"); dir=${dir%/*}; done
	(( ${#folders[@]} )) && chmod a+rx "${folders[@]}"
	mkfifo /run/vm/out/{stdout,stderr} &&
	mount -t tmpfs -o mode=700 vm-tmp /run/vm/tmp &&
	chown "$user:" /run/vm/{mnt,home,tmp} /run/vm/out/{stdout,stderr} &&
	ln -s "$JOB_GUEST"/bin/* /run/vm/bin/ || return 1

	COMMAND_ENV=(
		LANG=C.UTF-8
		"${JOB_ENV[@]}"
		PATH="/run/vm/bin:$JOB_PATH:/usr/sbin:/sbin"
		HOME=/run/vm/home TMPDIR=/run/vm/tmp USER="$user" LOGNAME="$user" SHELL=/bin/bash
		NFSRDMA_SERVER=10.0.0.1 NFSRDMA_MNT=/run/vm/mnt NFSRDMA_EXPORT="$SERVER_EXPORT"
		NFSRDMA_FABRIC="$JOB_FABRIC" NFSRDMA_KERNEL="$JOB_KERNEL"
	)
	[[ $JOB_PATHS == 1 ]] || COMMAND_ENV+=(NFSRDMA_PATHS="10.0.0.1 10.0.1.1")
}

# command_exec COMMAND... - with the job's environment, folder, user and limits.
command_exec() {
	local as_user=()
	cd "$JOB_CWD" || exit 127
	exec 3>&-
	if [[ $JOB_USER ]]; then
		ulimit -l "$COMMAND_MEMLOCK_KIB"
		as_user=(setpriv --reuid "$JOB_USER" --regid "$COMMAND_GROUP" --init-groups)
	fi
	exec env -i "${COMMAND_ENV[@]}" "${as_user[@]}" "$@"
}

# What goes into a capture. RoCE: only what is a message, that is, no RDMA Read
# and Write, which would be a thousand times as much: Send (opcodes 0 to 5),
# Send With Invalidate (0x16, 0x17), and the connection manager's (0x64). iWARP
# is a stream, of which nothing may be missing.
capture_filter() {
	case $JOB_FABRIC in
	rxe) echo 'udp port 4791 and (udp[8] <= 5 or udp[8] == 0x16 or udp[8] == 0x17 or udp[8] == 0x64)' ;;
	siw) echo 'tcp port 20049' ;;
	esac
}

capture_start() {
	port capture || return
	tcpdump -i v1 -n -Z root -U -B 32768 -w - "$(capture_filter)" >"$REPLY" 2>/run/vm/capture &
	CAPTURE=$!
	until grep -q listening /run/vm/capture; do
		kill -0 "$CAPTURE" || return
		read -rt 0.05 <>/run/vm/never
	done
	return 0
}

capture_stop() {
	read -rt 0.2 <>/run/vm/never
	kill -INT "$CAPTURE" && wait "$CAPTURE"
	grep -q '^0 packets dropped' /run/vm/capture || cat /run/vm/capture
}

command_run() {
	local status name seconds rest pumps=()
	[[ ! $JOB_CAPTURE ]] || capture_start || fail "cannot capture: $(</run/vm/capture)"
	# The command gets pipes, not the ports themselves: a port cannot be
	# opened twice, so that "echo >/dev/stderr" would fail.
	for name in stdout stderr; do
		port $name && cat /run/vm/out/$name >"$REPLY" & pumps+=($!)
	done
	read -r seconds rest </proc/uptime
	tell up "$seconds"
	if [[ $JOB_SHELL ]]; then
		# shellcheck disable=SC2086 # rows and columns
		[[ $JOB_TTY == [1-9]* ]] && stty rows ${JOB_TTY% *} cols ${JOB_TTY#* } </dev/hvc0
		(command_exec setsid -c "${JOB_COMMAND[@]}") </dev/hvc0 >/dev/hvc0 2>&1 &
	else
		(command_exec "${JOB_COMMAND[@]}") </dev/null >/run/vm/out/stdout 2>/run/vm/out/stderr &
	fi
	wait $!
	status=$?
	[[ ! $JOB_CAPTURE ]] || capture_stop
	[[ $JOB_SHELL ]] || command_drain "${pumps[@]}"
	tell exit "$status"
	[[ $JOB_KEEP ]] && command_console
}

# command_drain PID... - waits until all output is out. A daemon that the
# command has left behind may hold the pipes open: give up after a second.
command_drain() {
	local tries=0
	while kill -0 "$1" 2>/dev/null || kill -0 "$2" 2>/dev/null; do
		(( tries++ < 20 )) || return
		read -rt 0.05 <>/run/vm/never
	done
}

# command_console - the root shell of "run --attach".
command_console() {
	(
		cd "$JOB_CWD" || cd /
		exec env -i "${COMMAND_ENV[@]}" setsid -c bash -i
	) </dev/hvc0 >/dev/hvc0 2>&1
	tell exit 0
	echo o >/proc/sysrq-trigger
}
