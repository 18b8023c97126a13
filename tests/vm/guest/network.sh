# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# network.sh - loopback, and a link between "client" and "server" in one guest.
#
#   client 10.0.0.2  v1 ======== v0  10.0.0.1 server
#             (rxe1)    veth      (rxe0)        or siw1, siw0
#
# With --paths there are more of the kind, path N between 10.0.N.2 and 10.0.N.1: v3 and v2
# (rxe3, rxe2) are path 1.
#
# Both ends are in one network namespace, because rxe works in no other. Left
# alone, the kernel would see that 10.0.0.1 is its own address and use a short
# cut inside one device: no packet could be captured, lost or delayed. So the
# rule that finds local addresses applies to what comes in, and what goes out
# to the other end takes the link. Without a route there (the link is down)
# packets must not fall back to the short cut: hence the unreachable routes.

# network_end N server|client - sets NET_DEV, OWN and OTHER to that end of path N.
network_end() {
	case $2 in
	server) NET_DEV=v$(( 2 * $1 )) OWN=10.0.$1.1 OTHER=10.0.$1.2 ;;
	client) NET_DEV=v$(( 2 * $1 + 1 )) OWN=10.0.$1.2 OTHER=10.0.$1.1 ;;
	esac
}

# network_route N server|client - it goes when the device does, and the unreachable one stays.
network_route() {
	network_end "$1" "$2"
	echo "route replace unreachable $OTHER metric 4000 table $(( 101 + ${NET_DEV#v} ))"
	echo "route replace $OTHER dev $NET_DEV src $OWN table $(( 101 + ${NET_DEV#v} ))"
}

# network_link N - for "ip -batch".
network_link() {
	local end
	echo "link add v$(( 2 * $1 )) mtu 4500 type veth peer name v$(( 2 * $1 + 1 )) mtu 4500"
	for end in server client; do
		network_end "$1" $end
		echo "addr add $OWN/24 dev $NET_DEV"
		echo "link set $NET_DEV up"
		echo "rule add pref $(( 10 + ${NET_DEV#v} )) iif lo to $OTHER lookup $(( 101 + ${NET_DEV#v} ))"
	done
	for end in server client; do network_route "$1" $end; done
}

network_up() {
	local net_if n
	ip link set lo up || return 1
	# Packets arrive with one of the machine's own addresses as source.
	for net_if in all default; do
		echo 0 >/proc/sys/net/ipv4/conf/$net_if/rp_filter
		echo 1 >/proc/sys/net/ipv4/conf/$net_if/accept_local
	done
	# 4500 bytes let rxe use its largest MTU, 4096.
	loaded veth && {
		echo "rule add pref 100 lookup local"
		for (( n = 0; n < JOB_PATHS; n++ )); do network_link $n; done
		echo "rule del pref 0"
	} >/run/vm/links && ip -batch /run/vm/links || return 1
	for (( n = 0; n < 2 * JOB_PATHS; n++ )); do
		(( JOB_PATHS == 1 )) || network_filters "v$n" || return 1
		network_rdma "$JOB_FABRIC$n" "v$n" || return 1
	done
	if [[ $JOB_HOSTFWD ]]; then network_host || return 1; fi
	# What udev does on a real system.
	chmod 0666 /dev/fuse /dev/infiniband/*
}

# network_filters NET_DEVICE - a place for vm-path's filters. To make it stops the device for a
# moment, and a packet that rxe cannot send breaks its queue pair for ever, the connection
# manager's as well. So it is made before there is any.
network_filters() { tc qdisc add dev "$1" clsact; }

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
