# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# network.sh - loopback, the veth pair, and an RDMA device on it.

network_up() {
	ip link set lo up || return 1
	loaded veth && ip -batch - <<-END || return 1
	link add v0 mtu 4500 type veth peer name v1 mtu 4500
	addr add 10.0.0.1/24 dev v0
	link set v0 up
	link set v1 up
	END
	loaded rdma_rxe rdma_ucm && rdma link add rxe0 type rxe netdev v0 || return 1
	# What udev does on a real system.
	chmod 0666 /dev/fuse /dev/infiniband/*
}
