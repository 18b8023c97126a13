# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The server of contrib/quickstart on this machine, and its mount:
#
#   $state/mnt ---- iWARP, 127.0.0.1 ---- nfsrdma-gateway
#                                              | TCP, 127.0.0.1
#                  $state/export ---- nfs-ganesha (ganesha.nfsd)
#
# All they write is in $state. What was started from there has the directory's own
# number ($state/id) in its environment, which is how it is found again: no pid file
# can be out of date, and what another state directory started, of the same name in
# another root or container, has another number.
#
# Nobody but its owner reaches any of it: NFS with AUTH_SYS believes whoever connects.
#   root       all of it in a network namespace of its own, with a loopback only
#   others     nfs-ganesha in a user and network namespace of its own, which the
#              gateway enters; it listens outside, for its user only (--allow)
#   neither    where namespaces cannot be had, the gateway is as above, and
#              nfs-ganesha takes what comes from 127.0.0.1: quickstart says so
#
# Back ends of nfs-ganesha:
#   VFS  files of a directory, for root: file handles need CAP_DAC_READ_SEARCH,
#        in the first user namespace. The directory is a file system of its own, in
#        memory, of $export_size (mount_export): who can talk to the server could
#        otherwise make up handles of the whole file system behind it. (And a
#        container's overlayfs has no handles.)
#   MEM  for anybody else. Made for testing nfs-ganesha: of each file it keeps the
#        first Inode_Size bytes, at most 2 MiB. Writing more succeeds, and what is
#        read there later is not what was written.

readonly state=/tmp/nfsrdma-quickstart-$EUID   # does not depend on the session: --stop finds it
readonly mnt=$state/mnt
readonly export_size=1g
# shellcheck disable=SC2034 # used by quickstart
in_ns=()        # what a command of ours has before it to be where the gateway is

# The directory must be ours: /tmp is everybody's. 1: there is none.
state_exists() {
	[[ -e $state || -L $state ]] || return 1
	[[ -d $state && ! -L $state && -O $state ]] || die "$state is not ours: have it removed"
}

# Without touching the mount: its server may be gone.
is_mounted() { grep -qF " $1 " /proc/self/mountinfo; }

# processes NAME... - the ids of those programs that were started from $state.
processes() {
	local file argv name id
	id=$(cat "$state/id" 2>/dev/null) && [[ $id ]] || return 0
	for file in /proc/[0-9]*/cmdline; do
		argv=()                 # it may have ended; a kernel thread has none
		{ mapfile -d '' -t argv <"$file"; } 2>/dev/null
		(( ${#argv[@]} )) || continue
		for name; do
			[[ ${argv[0]##*/} == "$name" ]] || continue
			file=${file%/cmdline}
			grep -qsxzF "NFSRDMA_QUICKSTART=$id" "$file/environ" && printf '%s\n' "${file##*/}"
			break
		done
	done
}

# Its command line is the first thing that an ending process loses, so that does
# not say whether it has ended. A zombie without threads has.
has_ended() {
	local state_line tasks
	state_line=$(grep -s '^State:' "/proc/$1/status") || return 0
	tasks=("/proc/$1/task/"*)
	[[ $state_line == *Z* ]] && (( ${#tasks[@]} <= 1 ))
}

# await_end ID... - for 5 seconds.
await_end() {
	local i pid
	for pid; do
		for (( i = 0; i < 100; i++ )); do
			has_ended "$pid" && break
			sleep 0.05
		done
		has_ended "$pid" || return 1
	done
}

# end_processes NAME - asks, then kills.
end_processes() {
	local pids
	mapfile -t pids < <(processes "$1")
	(( ${#pids[@]} )) || return 0
	kill "${pids[@]}" 2>/dev/null
	await_end "${pids[@]}" && return 0
	kill -KILL "${pids[@]}" 2>/dev/null
	await_end "${pids[@]}" && return 0
	say "$1 (process ${pids[*]}) does not end"
	return 1
}

local_runs() {
	local pids
	mapfile -t pids < <(processes ganesha.nfsd nfsrdma-gateway nfsrdma-fuse)
	(( ${#pids[@]} )) || is_mounted "$mnt"
}

# dead_servers - the names of those that were started and are not there any more.
dead_servers() {
	[[ ! -s $state/ganesha.conf || $(processes ganesha.nfsd) ]] || echo ganesha.nfsd
	[[ ! -s $state/gateway.port || $(processes nfsrdma-gateway) ]] || echo nfsrdma-gateway
}

# VFS or MEM, of what runs.
ganesha_backend() { sed -n 's/.*FSAL { Name = \([A-Z]*\);.*/\1/p' "$state/ganesha.conf"; }

# 124: it takes too long.
unmount() { if (( EUID == 0 )); then timeout 10 umount "$@"; else timeout 10 fusermount3 -u "$@"; fi; }

# local_unmount [lazy] - fails if somebody uses the mount, and it is not lazy.
local_unmount() {
	local pids option=() status=0
	mapfile -t pids < <(processes nfsrdma-fuse)
	[[ ${1:-} ]] && { (( EUID == 0 )) && option=(-l) || option=(-z); }
	if is_mounted "$mnt"; then
		unmount "${option[@]}" "$mnt"
		status=$?
		(( status == 0 || status == 124 )) || return 1
	fi
	# It sends the server a good-bye. Without a server it, and umount, wait for it.
	if (( status == 124 )) || ! await_end "${pids[@]}"; then
		end_processes nfsrdma-fuse || return 1
	fi
	! is_mounted "$mnt" || unmount "${option[@]}" "$mnt"
}

servers_stop() {
	end_processes nfsrdma-gateway && end_processes ganesha.nfsd || return 1
	umount_export "$state/export"
}

# local_stop [lazy] - nothing of it is left.
local_stop() {
	local_unmount "${1:-}" || return 1
	servers_stop || return 1
	! is_mounted "$mnt" && rm -rf --one-file-system "$state"
}

# listens PORT [COMMAND...] - COMMAND...: what goes before another one, to look there.
listens() {
	# shellcheck disable=SC2016 # the inner shell's
	"${@:2}" bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"' - "$1" 2>/dev/null
}

# ---- Name spaces ---------------------------------------------------------------

# The words that make one: own_ns COMMAND... Its loopback has to be set up.
if (( EUID == 0 )); then own_ns=(unshare --net --); else own_ns=(unshare --user --map-root-user --net --); fi
has_own_ns() { "${own_ns[@]}" ip link set lo up 2>/dev/null; }

# inside PID - sets inside: the words before a command that is to run where PID does.
inside() {
	inside=()
	[[ $(readlink "/proc/$1/ns/net") == "$(readlink /proc/self/ns/net)" ]] && return
	if (( EUID == 0 )); then inside=(nsenter -t "$1" -n --); else inside=(nsenter -t "$1" -U -n --preserve-credentials --); fi
}

# The gateway's, for those that mount: an ordinary user's listens outside.
find_ns() {
	local pid inside
	in_ns=()
	pid=$(processes nfsrdma-gateway | head -n 1)
	(( EUID == 0 )) && [[ $pid ]] || return 0
	inside "$pid"
	# shellcheck disable=SC2034 # used by quickstart
	in_ns=("${inside[@]}")
}

# ---- Servers ---------------------------------------------------------------------

# ganesha_conf BACKEND PORT BIND
ganesha_conf() {
	local path=/ flusher='' chunk=''
	# Without its cache of directory entries, which hands out cycles of cookies; the
	# MEM back end lists nothing without it.
	[[ $1 == VFS ]] && path=$state/export chunk='Dir_Chunk = 0;'
	# Since version 6 it ends where root has no CAP_SYS_RESOURCE, unless told not to;
	# older ones do not know the word.
	grep -qa allow_set_io_flusher_fail "$(command -v ganesha.nfsd)" && flusher='allow_set_io_flusher_fail = true;'
	cat <<-END
	NFS_CORE_PARAM {
		Protocols = 4;           # version 3 would want rpcbind
		NFS_Port = $2;
		${3:+Bind_addr = 127.0.0.1;}
		$flusher
		Enable_UDP = false;
		Enable_RQUOTA = false;
		Enable_NLM = false;
		MaxRPCSendBufferSize = 2097152;
		MaxRPCRecvBufferSize = 2097152;
	}
	NFSv4 {
		Graceless = true;
		Only_Numeric_Owners = true;
		RecoveryBackend = fs;
		RecoveryRoot = $state/recovery;
	}
	NFS_KRB5 { Active_krb5 = false; CCacheDir = $state/recovery; }
	EXPORT_DEFAULTS {
		Access_Type = None;
		Squash = No_Root_Squash;
		SecType = sys;
		Protocols = 4;
		Transports = TCP;
	}
	EXPORT {
		Export_Id = 1;
		Path = $path;
		Pseudo = /;
		Attr_Expiration_Time = 0;
		FSAL { Name = $1; }
		CLIENT { Clients = 127.0.0.1; Access_Type = RW; }
	}
	MDCACHE { $chunk }
	MEM { Inode_Size = 0x200000; }
	LOG { Default_Log_Level = EVENT; }
	END
}

# ganesha_start BACKEND - sets nfs_port, nfs_pid.
ganesha_start() {
	local try i pid bind=1 start=() inside=()
	if has_own_ns; then
		# shellcheck disable=SC2016 # the inner shell's
		start=("${own_ns[@]}" bash -c 'ip link set lo up && exec "$@"' -) bind=''
	fi
	for (( try = 0; try < 5; try++ )); do
		nfs_port=$(( 20100 + RANDOM % 12000 ))
		(( ${#start[@]} )) || ! listens "$nfs_port" || continue
		ganesha_conf "$1" "$nfs_port" "$bind" >"$state/ganesha.conf"
		: >"$state/ganesha.log"
		# libblkid would otherwise leave a file in /run.
		BLKID_FILE=$state/recovery/blkid.tab setsid "${start[@]}" ganesha.nfsd -F -f "$state/ganesha.conf" \
			-L "$state/ganesha.log" -p "$state/ganesha.pid" >"$state/ganesha.out" 2>&1 </dev/null &
		pid=$!
		for (( i = 0; i < 400; i++ )); do
			kill -0 "$pid" 2>/dev/null || break
			nfs_pid=$(processes ganesha.nfsd | head -n 1)
			[[ $nfs_pid ]] && inside "$nfs_pid"
			[[ $nfs_pid ]] && listens "$nfs_port" "${inside[@]}" && return 0
			sleep 0.05
		done
		end_processes ganesha.nfsd
		# It does not find 127.0.0.1 on a machine that has no other address.
		grep -qs 'No IP address found' "$state/ganesha.log" "$state/ganesha.out" && bind=''
	done
	say "ganesha.nfsd does not start:"
	tail -n 8 "$state/ganesha.log" | cut -c 1-200
	return 1
}

# gateway_start PROGRAM - sets rdma_port.
gateway_start() {
	local i pid inside=() enter=()
	rm -f "$state/gateway.port"
	inside "$nfs_pid"
	if (( EUID )) && (( ${#inside[@]} )); then enter=(--enter "$nfs_pid") inside=(); fi
	setsid "${inside[@]}" "$1" -v --fabric iwarp -l 127.0.0.1:0 --allow "$EUID" "${enter[@]}" \
		--port-file "$state/gateway.port" "127.0.0.1:$nfs_port" \
		>"$state/gateway.log" 2>&1 </dev/null &
	pid=$!
	for (( i = 0; i < 200; i++ )); do
		rdma_port=$(cat "$state/gateway.port" 2>/dev/null)
		[[ $rdma_port ]] && find_ns && return 0
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	say "nfsrdma-gateway does not start:"
	tail -n 8 "$state/gateway.log"
	return 1
}

# servers_start BACKEND GATEWAY-PROGRAM
servers_start() {
	if [[ $1 == VFS ]]; then
		mount_export "$state/export" "mode=755,nosuid,nodev,size=$export_size" || return 1
	fi
	ganesha_start "$1" && gateway_start "$2"
}

# state_make - an empty state directory, or none.
state_make() {
	mkdir -m 700 "$state" || die "cannot make $state"
	mkdir "$mnt" "$state/export" "$state/recovery" || die "cannot write to $state"
	od -An -N16 -tx8 /dev/urandom | tr -d ' \n' >"$state/id"
	[[ -s $state/id ]] || die "cannot write to $state"
	state_enter
}

# What is started from here on belongs to $state.
state_enter() { NFSRDMA_QUICKSTART=$(cat "$state/id") && export NFSRDMA_QUICKSTART; }
