#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes ./configure from configure.ac. Needed once in a git checkout; a release
# tarball comes with it. Names everything that is missing before it gives up.
set -eu
cd "$(dirname "$0")"

missing=
need() # COMMAND DEBIAN-PACKAGE
{
	command -v "$1" >/dev/null 2>&1 || missing="$missing
  $1  (Debian package: $2)"
}
need autoconf autoconf
need automake automake
need aclocal automake
need libtoolize libtool
need pkg-config pkg-config
if [ -n "$missing" ]; then
	echo "autogen.sh: cannot make configure, these programs are missing:$missing" >&2
	exit 1
fi

mkdir -p build-aux/m4
exec autoreconf --install --force --warnings=all,no-portability
