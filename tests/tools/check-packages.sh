#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-packages.sh - debian/, the RPMs' specification, NEWS and the manual pages have configure.ac's version.
set -u

cd "${srcdir:-.}" || exit 1
version=$(sed -n 's/^AC_INIT(\[nfsrdma-fuse\], \[\(.*\)\])$/\1/p' configure.ac)
n=0

# has FILE - it has the version, in its line that has one.
has() {
	n=$((n + 1))
	if sed -n "$2" "$1" | head -n 1 | grep -qxF "$version"; then
		echo "ok $n - $1"
	else
		echo "# the version is '$version', and not '$(sed -n "$2" "$1" | head -n 1)'"
		echo "not ok $n - $1"
	fi
}

has debian/changelog '1s/^nfsrdma-fuse (\(.*\)-[^-]*) .*/\1/p'
has contrib/rpm/nfsrdma-fuse.spec 's/^Version: *//p'
has NEWS 's/^\([0-9]*\.[0-9.]*\) - .*/\1/p'
for page in man/*.[1-8]; do
	has "$page" 's/^\.TH .*"nfsrdma-fuse \(.*\)" .*/\1/p'
done
echo "1..$n"
