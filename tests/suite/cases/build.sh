# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Unpacks a source tree inside the mount and compiles modules of it there.
tarball=$(ls -t "${BIN%/src/*}"/nfsrdma-fuse-*.tar.gz 2>/dev/null | head -1)
[[ $tarball ]] || fail "no dist tarball beside the binary: run 'make dist' first"
mount_up
cd "$WORK" && tar xzf "$tarball" || fail untar
cd nfsrdma-fuse-* || fail cd
tar tzf "$tarball" | grep -v '/$' | while read -r f; do [[ -f ../$f ]] || fail "$f is missing"; done || exit 1
mkdir "$TMPDIR/ref" && tar xzf "$tarball" -C "$TMPDIR/ref" && diff -r "$TMPDIR"/ref/nfsrdma-fuse-* . || fail "the trees differ"
for f in src/rpcrdma/header.c src/rpcrdma/plan.c src/rpcrdma/pdata.c src/base/stats.c; do
	gcc -std=gnu17 -O1 -D_GNU_SOURCE -Isrc -c "$f" -o "${f%.c}.o" || fail "compile $f"
done
ar rcs lib.a src/*/*.o && nm lib.a | grep -q rr_header_decode || fail "the archive"
equal "$(sha256sum <lib.a)" "$(sha256sum <"$SERVER_WORK/${PWD##*/}/lib.a")" "the archive on the server"
cd / && mount_down
