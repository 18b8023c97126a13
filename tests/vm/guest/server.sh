# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# server.sh - knfsd with /export, over RDMA port 20049 and TCP port 2049.

readonly SERVER_EXPORT=/export

# server_prepare - all that needs no network.
server_prepare() {
	: >/var/lib/nfs/etab; : >/var/lib/nfs/rmtab
	cat >/etc/nfs.conf <<-END
	[general]
	pipefs-directory=/var/lib/nfs/rpc_pipefs
	[nfsdcld]
	storagedir=/var/lib/nfs/nfsdcld
	[mountd]
	threads=1
	port=20048
	END
	# insecure: an ordinary user has no reserved port.
	# fsid=0: "/" for NFSv4, while NFSv3 mounts it as "/export".
	echo "$SERVER_EXPORT *(rw,no_root_squash,insecure,no_subtree_check,fsid=0)" >/etc/exports
	for file in /etc/exports.d/*; do [[ -e $file ]] && rm -f "$file"; done
	loaded sunrpc && mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs || return 1
	# nfsdcld remembers the NFSv4 clients across a restart: without it
	# nobody could reclaim what was open. It wants to find nfsd.
	loaded nfsd && mount -t nfsd nfsd /proc/fs/nfsd && nfsdcld || return 1
	# The lock manager of version 3: at a port that can be forwarded, and with nfsd's grace period.
	{ echo 20046 >/proc/sys/fs/nfs/nlm_tcpport && echo 10 >/proc/sys/fs/nfs/nlm_grace_period; } || return 1
	exportfs -r
}

server_start() {
	loaded rpcrdma && rpcbind -w && server_threads '' && rpc.mountd || return 1
	# The first start has no client to wait for; knfsd may know that itself.
	{ echo Y >/proc/fs/nfsd/v4_end_grace; } 2>/dev/null || :
}

# server_threads BLOCK - also part of bin/vm-nfsd-restart. BLOCK: knfsd's largest READ and WRITE;
# '': 1 MiB. A lease and a grace period of 10 s: with the default of 90 s each test of recovery
# would take minutes.
server_threads() {
	# Only while no thread runs; the default depends on the memory size.
	echo "${1:-1048576}" >/proc/fs/nfsd/max_block_size &&
	rpc.nfsd -L 10 -G 10 8 &&
	echo 'rdma 20049' >/proc/fs/nfsd/portlist
}
