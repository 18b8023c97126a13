# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
# What contrib/check, contrib/quickstart and the tests' benches have in common:
# packages, builds and what nfs-ganesha exports.

TOP=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd) || exit 2
readonly TOP

# To build.
readonly BUILD_PACKAGES=(
	gcc libc6-dev make autoconf automake libtool pkg-config rpcsvc-proto
	libfuse3-dev libibverbs-dev librdmacm-dev libtirpc-dev libisal-dev
	libnfsidmap-dev libseccomp-dev libjson-c-dev libmount-dev libsmartcols-dev
)
# To run the tests on top of that; the guest's own are in tests/vm/packages.
readonly TEST_PACKAGES=(
	libnfs-dev libcriterion-dev diffutils fio git sqlite3 xz-utils
	clang libclang-rt-dev valgrind strace openssl gawk debootstrap debian-archive-keyring
	attr acl nfs4-acl-tools zsh python3 python3-prometheus-client systemtap-sdt-dev
	nfs-ganesha nfs-ganesha-vfs nfs-ganesha-mem nfs-common rpcbind iproute2 util-linux fuse3 procps psmisc
	bubblewrap podman runc autofs systemd
)

# PROGRAM=PACKAGE, or HEADER=PACKAGE: to measure, besides what is needed to build and the
# guest's own.
readonly BENCH_PROGRAMS=(
	fio=fio gnuplot=gnuplot-nox git=git sqlite3=sqlite3 mount.nfs=nfs-common
	nfs-cp=libnfs-utils nfsc/libnfs.h=libnfs-dev cc=gcc ganesha.nfsd=nfs-ganesha-vfs rpcbind=rpcbind
)

# To make packages, and to look at them.
readonly DEB_PACKAGES=(build-essential debhelper lintian locales rpm)

# What looks for faults in the sources.
readonly LINT_PACKAGES=(shellcheck clang clang-tidy mandoc rpmlint rpm)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 2; }

as_root() {
	if (( EUID == 0 )); then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo -n -- "$@"
	else
		return 1
	fi
}

# tree PID... - these and what they have started, parents first: a shell that is killed
# leaves what it waits for running.
tree() {
	local pid
	# shellcheck disable=SC2046 # process numbers are words
	for pid; do echo "$pid"; tree $(pgrep -P "$pid"); done
}

# The words of a package list file.
listed_packages() { sed 's/#.*//' "$1"; }

missing_packages() {
	local p
	for p; do
		[[ $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) == *' installed' ]] || printf '%s\n' "$p"
	done
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null; }

# Services that come with packages are not started while this file is there (invoke-rc.d).
policy_file=/usr/sbin/policy-rc.d
readonly POLICY_MARK='# by nfsrdma-fuse, while it installs packages'
# without_services COMMAND... - also if it is interrupted the file goes. One that has the mark is what a run has left that
# was killed, or another run's.
without_services() (
	if [[ ! -e $policy_file ]] || grep -qxF "$POLICY_MARK" "$policy_file"; then
		trap 'as_root rm -f "$policy_file"' EXIT
		trap 'exit 130' INT TERM HUP
		printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" | as_root tee "$policy_file" >/dev/null
		as_root chmod 755 "$policy_file"
	fi
	"$@"
)

lists_are_new='' # apt-get update has been run
# Installs what is missing, without starting the services that come with it: a
# test bench must not turn its host into a server.
install_packages() {
	local missing
	command -v dpkg-query >/dev/null || { say "not a Debian system: install the packages yourself"; return 0; }
	mapfile -t missing < <(missing_packages "$@")
	(( ${#missing[@]} )) || return 0
	say "installing: ${missing[*]}"
	if ! as_root true 2>/dev/null; then
		say "cannot become root (sudo without password); please install them:"
		say "    apt-get install ${missing[*]}"
		return 1
	fi
	[[ $lists_are_new ]] || apt_get update || return
	lists_are_new=1
	without_services apt_get install -y --no-install-recommends "${missing[@]}"
}

# debian_mirror - where this machine has its Debian from.
debian_mirror() {
	local uri suite component id='' codename=''
	eval "$(grep -E '^(ID|VERSION_CODENAME)=' /etc/os-release | sed 's/^ID=/id=/; s/^VERSION_CODENAME=/codename=/')"
	# shellcheck disable=SC2016 # apt-get's
	while read -r uri suite component; do
		[[ $id == debian && $component == main && ( $suite == "$codename" || $suite == stable || $suite == testing ) ]] || continue
		printf '%s\n' "$uri"
		return
	done < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' 2>/dev/null)
	echo http://deb.debian.org/debian
}

# Makes ./configure, unless there is one that is up to date.
make_configure() {
	if [[ ! -x $TOP/configure || $TOP/configure.ac -nt $TOP/configure ||
	      ! -f $TOP/Makefile.in || $TOP/Makefile.am -nt $TOP/Makefile.in ]]; then
		"$TOP/autogen.sh"
	fi
}

# configure_in SOURCES DIRECTORY ARG...
configure_in() {
	mkdir -p "$2" && cd "$2" && "$1/configure" --enable-silent-rules "${@:3}"
}

jobs_wanted() { nproc 2>/dev/null || echo 2; }

# takes_tmpfs - does this nfs-ganesha export a tmpfs? Since version 5 the list of file
# systems it makes from /etc/mtab has none of that type, and no setting brings them back.
takes_tmpfs() {
	[[ $(ganesha.nfsd -v 2>/dev/null) =~ V([0-9]+)\. ]] && (( BASH_REMATCH[1] < 5 ))
}

# mount_export DIRECTORY OPTION,... - a file system in memory, a tmpfs with these options,
# that nfs-ganesha's VFS back end exports. If that does not take a tmpfs, it is the upper
# layer of an overlay, which takes over its size limit and, by nfs_export=on, has file
# handles. The lower layer is empty. Both are mounted there, one over the other.
mount_export() {
	mount -t tmpfs -o "$2" nfsrdma-export "$1" || return 1
	! takes_tmpfs || return 0
	mkdir "$1"/{lower,upper,work} && chmod --reference="$1" "$1/upper" &&
		mount -t overlay -o "nosuid,nodev,lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work,index=on,nfs_export=on" \
			nfsrdma-export "$1" && return 0
	say "this nfs-ganesha exports no tmpfs, and no overlay can be laid on it: does this kernel have overlayfs?"
	umount "$1"
	return 1
}

# umount_export DIRECTORY
umount_export() {
	while grep -qF " $1 " /proc/self/mountinfo; do
		umount "$1" || return 1
	done
}
