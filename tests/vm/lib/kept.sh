# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# kept.sh - guests that --keep left running: leave, attach, exec, stop.
#
# Such a guest has a root shell on a console whose two directions are FIFOs in
# the run's folder. The shell's end is the guest's end.

kept_dir() {
	local dir=/tmp/nfsrdma-vm.$1
	if ! [[ $1 =~ ^[A-Za-z0-9]+$ && -e $dir/pid ]] || ! kill -0 "$(<"$dir/pid")" 2>/dev/null; then
		die "no guest '$1' is running"
	fi
	printf '%s\n' "$dir"
}

# kept_leave - run's last act with --keep.
kept_leave() {
	local id=${dir##*.}
	echo "$qemu_pid" >"$dir/pid"
	# The guest has sent all output before the status, see command_drain.
	sleep 0.3
	# shellcheck disable=SC2154 # run's
	kill "${pumps[@]}" 2>/dev/null
	say "the guest keeps running as $id; for a root shell: $0 --attach $id; to end it: $0 --stop $id"
	[[ $opt_hostfwd ]] && say "its server is at 127.0.0.1:${opt_hostfwd%%[:,]*}"
	dir='' qemu_pid=''
}

kept_attach() {
	local dir tty='' input
	dir=$(kept_dir "$1") || exit
	if [[ -t 0 ]]; then
		tty=$(stty -g)
		say "the shell's end ends the guest; to leave it running, close this terminal"
		stty raw -echo
	fi
	cat >"$dir/console.in" <&0 & input=$!
	echo >"$dir/console.in"   # a new prompt
	cat "$dir/console.out"
	kill "$input" 2>/dev/null
	[[ $tty ]] && stty "$tty"
	rm -rf "$dir"
}

# kept_exec ID COMMAND ARG... - by the shell on the console: what COMMAND says
# stands between two lines that no echo of what is typed contains.
kept_exec() {
	local dir mark="vm-exec-$$-$RANDOM" line inside=''
	dir=$(kept_dir "$1") || exit
	shift
	exec 3<>"$dir/console.out"
	printf "printf '%%s-begin\\\\n' %s; %s; printf '%%s-end %%s\\\\n' %s \$?\n" "$mark" "$(printf '%q ' "$@")" "$mark" \
		>"$dir/console.in"
	while IFS= read -r line <&3; do
		line=${line%$'\r'}
		[[ $line =~ $mark-end\ ([0-9]+)$ ]] && exit "${BASH_REMATCH[1]}"
		[[ ! $inside ]] || printf '%s\n' "$line"
		[[ $line != *"$mark-begin" ]] || inside=1
	done
}

kept_stop() {
	local dir
	dir=$(kept_dir "$1") || exit
	kill -KILL "$(<"$dir/pid")"
	rm -rf "$dir"
}
