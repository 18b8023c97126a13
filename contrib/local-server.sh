# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The server of contrib/quickstart on this machine, and its mount:
#
#   $state/mnt ---- iWARP, 127.0.0.1 ---- nfsrdma-gateway
#                                              | TCP, 127.0.0.1
#                  $state/export ---- nfs-ganesha (ganesha.nfsd)
#
# All they write is in $state. Their command lines name it, which is how they are
# found again: no pid file can be out of date.
#
# Back ends of nfs-ganesha:
#   VFS  files of a directory, for root: file handles need CAP_DAC_READ_SEARCH,
#        in the first user name space. The directory is a tmpfs of its own: any
#        local user can talk to the server, and could otherwise make up handles
#        of the whole file system behind it. (And overlayfs has no handles.)
#   MEM  for anybody else. Made for testing nfs-ganesha: of each file it keeps the
#        first Inode_Size bytes, at most 2 MiB. Writing more succeeds, and what is
#        read there later is not what was written.

readonly state=/tmp/nfsrdma-quickstart-$EUID   # does not depend on the session: --stop finds it
readonly mnt=$state/mnt

# The directory must be ours: /tmp is everybody's. 1: there is none.
state_exists() {
	[[ -e $state || -L $state ]] || return 1
	[[ -d $state && ! -L $state && -O $state ]] || die "$state is not ours: have it removed"
}

# Without touching the mount: its server may be gone.
is_mounted() { grep -qF " $1 " /proc/self/mountinfo; }

# processes NAME... - the ids of those programs that run with files in $state.
processes() {
	local file argv name
	for file in /proc/[0-9]*/cmdline; do
		argv=()                 # it may have ended; a kernel thread has none
		{ mapfile -d '' -t argv <"$file"; } 2>/dev/null
		(( ${#argv[@]} )) || continue
		for name; do
			[[ ${argv[0]##*/} == "$name" && "${argv[*]}" == *"$state/"* ]] || continue
			file=${file%/cmdline}
			printf '%s\n' "${file##*/}"
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
	if is_mounted "$state/export"; then umount "$state/export" || return 1; fi
}

# local_stop [lazy] - nothing of it is left.
local_stop() {
	local_unmount "${1:-}" || return 1
	servers_stop || return 1
	! is_mounted "$mnt" && rm -rf --one-file-system "$state"
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# ganesha_conf BACKEND PORT BIND
ganesha_conf() {
	local path=/ flusher=''
	[[ $1 == VFS ]] && path=$state/export
	# Since version 6 it ends where root has no CAP_SYS_RESOURCE, as in a container,
	# unless told not to; older ones do not know the word.
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
		Access_Type = RW;
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
	}
	MEM { Inode_Size = 0x200000; }
	LOG { Default_Log_Level = EVENT; }
	END
}

# ganesha_start BACKEND - sets nfs_port.
ganesha_start() {
	local try i pid bind=1
	for (( try = 0; try < 5; try++ )); do
		nfs_port=$(( 20100 + RANDOM % 12000 ))
		listens "$nfs_port" && continue
		ganesha_conf "$1" "$nfs_port" "$bind" >"$state/ganesha.conf"
		: >"$state/ganesha.log"
		# libblkid would otherwise leave a file in /run.
		BLKID_FILE=$state/recovery/blkid.tab setsid ganesha.nfsd -F -f "$state/ganesha.conf" \
			-L "$state/ganesha.log" -p "$state/ganesha.pid" >"$state/ganesha.out" 2>&1 </dev/null &
		pid=$!
		for (( i = 0; i < 400; i++ )); do
			kill -0 "$pid" 2>/dev/null || break
			listens "$nfs_port" && return 0
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
	local i pid
	rm -f "$state/gateway.port"
	setsid "$1" -v --fabric iwarp -l 127.0.0.1:0 --port-file "$state/gateway.port" "127.0.0.1:$nfs_port" \
		>"$state/gateway.log" 2>&1 </dev/null &
	pid=$!
	for (( i = 0; i < 200; i++ )); do
		rdma_port=$(cat "$state/gateway.port" 2>/dev/null)
		[[ $rdma_port ]] && return 0
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
		mount -t tmpfs -o mode=755,nosuid,nodev nfsrdma-quickstart "$state/export" || return 1
	fi
	ganesha_start "$1" && gateway_start "$2"
}

# state_make - an empty state directory, or none.
state_make() {
	mkdir -m 700 "$state" || die "cannot make $state"
	mkdir "$mnt" "$state/export" "$state/recovery" || die "cannot write to $state"
}
