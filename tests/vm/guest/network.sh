# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# network.sh - loopback, and a link between "client" and "server" in one guest.
#
#   client 10.0.0.2  v1 ======== v0  10.0.0.1 server
#             (rxe1)    veth      (rxe0)        or siw1, siw0
#
# Both ends are in one network name space, because rxe works in no other. Left
# alone, the kernel would see that 10.0.0.1 is its own address and use a short
# cut inside one device: no packet could be captured, lost or delayed. So the
# rule that finds local addresses applies to what comes in, and what goes out
# to the other end takes the link. Without a route there (the link is down)
# packets must not fall back to the short cut: hence the unreachable routes.

network_up() {
	local net_if
	ip link set lo up || return 1
	# Packets arrive with one of the machine's own addresses as source.
	for net_if in all default; do
		echo 0 >/proc/sys/net/ipv4/conf/$net_if/rp_filter
		echo 1 >/proc/sys/net/ipv4/conf/$net_if/accept_local
	done
	# 4500 bytes let rxe use its largest MTU, 4096.
	loaded veth && ip -batch - <<-END || return 1
	link add v0 mtu 4500 type veth peer name v1 mtu 4500
	addr add 10.0.0.1/24 dev v0
	addr add 10.0.0.2/24 dev v1
	link set v0 up
	link set v1 up
	rule add pref 10 iif lo to 10.0.0.1 lookup 101
	rule add pref 11 iif lo to 10.0.0.2 lookup 102
	rule add pref 100 lookup local
	rule del pref 0
	route add 10.0.0.1 dev v1 src 10.0.0.2 table 101
	route add 10.0.0.2 dev v0 src 10.0.0.1 table 102
	END
	network_rdma "${JOB_FABRIC}0" v0 && network_rdma "${JOB_FABRIC}1" v1 || return 1
	if [[ $JOB_HOSTFWD ]]; then network_host || return 1; fi
	# What udev does on a real system.
	chmod 0666 /dev/fuse /dev/infiniband/*
}

# network_rdma DEVICE NET_DEVICE
network_rdma() {
	local module=$JOB_FABRIC
	[[ $module == rxe ]] && module=rdma_rxe
	loaded "$module" rdma_ucm && rdma link add "$1" type "$JOB_FABRIC" netdev "$2"
}

# network_host - the way in for the host's programs: QEMU's user-mode network
# forwards one TCP port to here. RoCE cannot come this way.
network_host() {
	loaded virtio_net && ip -batch - <<-END || return 1
	addr add 10.0.2.15/24 dev eth0
	link set eth0 up
	END
	[[ $JOB_FABRIC != siw ]] || network_rdma siw2 eth0
}
