# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Exports that allow less than the mount: one that is read-only, one where root is nobody, and one that is taken away
# under the mount and comes back. They are nfs-ganesha's, which reads its configuration again on SIGHUP.
[[ $(id -u) == 0 && $NFSRDMA_KERNEL == ganesha ]] || skip "root and nfs-ganesha are needed"
conf=/run/vm/ganesha/conf
root=$REMOTE
cp "$conf" "$TMPDIR/conf" || fail "the server's configuration"
server_reads() { cat "$TMPDIR/conf" "$@" >"$conf" && kill -HUP "$(</run/vm/ganesha/ganesha.pid)" || fail "SIGHUP to the server"; }
trap 'end_all; server_reads; until_true "the exports go" not_exported readonly' EXIT

# export_block NUMBER NAME SETTING...
export_block() {
	mkdir -p "$SERVER_WORK/$2"
	cat >"$TMPDIR/$2" <<-END
	EXPORT {
		Export_Id = $1;
		Path = $SERVER_WORK/$2;
		Pseudo = /$CASE/$2;
		Attr_Expiration_Time = 0;
		FSAL { Name = VFS; }
		${@:3}
	}
	END
}
export_block 101 readonly 'Access_Type = RO;'
export_block 102 squashed 'Squash = Root_Squash; Anonymous_uid = 65534; Anonymous_gid = 65534;'
export_block 103 away
is_exported() { showmount -e --no-headers "$NFSRDMA_SERVER" | grep -q "^$SERVER_WORK/$1 "; }
not_exported() { ! is_exported "$1"; }
server_reads "$TMPDIR"/{readonly,squashed,away}
for name in readonly squashed away; do until_true "export $name" is_exported $name; done
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }

# ---- read-only ----

cd "$SERVER_WORK/readonly" && echo data >file && mkdir d && chmod -R a+rwX . && cd / || fail "files"
REMOTE=${root%/}/$CASE/readonly
mount_up
# The server's matter, of which the mount knows nothing.
[[ $(findmnt -no OPTIONS "$MNT") == rw,* ]] || fail "the mount is read-only: $(findmnt -no OPTIONS "$MNT")"
for user in 0 1000; do
	equal "$(as $user cat "$MNT/file")" data "a file of a read-only export, as $user"
	readonly="Read-only file system"
	expect_error "$readonly" as $user touch "$MNT/new"
	expect_error "$readonly" as $user rm "$MNT/file"
	expect_error "$readonly" as $user mkdir "$MNT/new"
	expect_error "$readonly" as $user rmdir "$MNT/d"
	expect_error "$readonly" as $user mv "$MNT/file" "$MNT/d/file"
	expect_error "$readonly" as $user ln "$MNT/file" "$MNT/d/file"
	expect_error "$readonly" as $user ln -s file "$MNT/new"
	expect_error "$readonly" as $user mkfifo "$MNT/new"
	# With version 3 there is no open, and ACCESS says no more than yes or no.
	[[ $VERS == 3 ]] && readonly="Permission denied"
	expect_error "$readonly" as $user bash -c "echo more >>'$MNT/file'"
	expect_error "$readonly" as $user truncate -s 0 "$MNT/file"
	expect_error "$readonly" as $user touch "$MNT/file"
done
expect_error "Read-only file system" chmod 600 "$MNT/file"
equal "$(ls "$MNT") $(<"$MNT/file")" "d
file data" "what is there"
mount_down
# Where the kernel looks at no mode bits, access(2) is the server's to answer.
mount_up nodefault_permissions
test -r "$MNT/file" || fail "access says that root may not read"
test -w "$MNT/file" && fail "access says that root may write"
as 1000 test -w "$MNT/d" && fail "access says that an ordinary user may write"
mount_down

# ---- root is nobody ----

cd "$SERVER_WORK/squashed" && mkdir closed open && echo secret >closed/file && echo secret >open/file &&
	echo public >closed/all && chmod 600 */file && chmod 700 closed && chown -R 1000:1000 closed open/file && chmod 1777 open && cd / || fail "files"
REMOTE=${root%/}/$CASE/squashed
mount_up
refused() {
	denied="Permission denied"
	expect_error "$denied" ls "$MNT/closed"
	expect_error "$denied" cat "$MNT/closed/file"
	expect_error "$denied" cat "$MNT/open/file"
	expect_error "$denied" bash -c "echo more >>'$MNT/open/file'"
	expect_error "$denied" touch "$MNT/closed/new"
	expect_error "$denied" rm -f "$MNT/closed/file"
	expect_error "$denied" touch "$MNT/new"
	expect_error "Operation not permitted" chmod 777 "$MNT/open/file"
	expect_error "Operation not permitted" rm -f "$MNT/open/file"
}
refused
# Also of what its owner has in the caches.
equal "$(as 1000 cat "$MNT"/{closed,open}/file | tr '\n' ' ')" "secret secret " "what its owner reads"
equal "$(as 1000 ls "$MNT/closed" | tr '\n' ' ')" "all file " "what its owner lists"
refused
# What root makes is nobody's, and root may do with it what nobody may.
touch "$MNT/open/new" && mkdir "$MNT/open/d" && echo more >>"$MNT/open/new" && chmod 600 "$MNT/open/new" || fail "files of nobody"
equal "$(stat -c %u:%g "$MNT"/open/{new,d} "$SERVER_WORK"/squashed/open/{new,d} | sort -u)" 65534:65534 "whose they are"
expect_error "Operation not permitted" chown 1000 "$MNT/open/new"
rm -r "$MNT"/open/{new,d} || fail "removal"
mount_down
# Where the kernel keeps no names, root does not even pass a folder behind its owner.
mount_up nodefault_permissions
equal "$(as 1000 cat "$MNT/closed/all")" public "a file for all in a closed folder, as its owner"
expect_error "Permission denied" cat "$MNT/closed/all"
expect_error "Permission denied" stat "$MNT/closed/all"
test -r "$MNT/closed" && fail "access says that root may list"
mount_down

# ---- taken away ----

sync_7() { python3 -c 'import os; os.fsync(7)'; }
echo data >"$SERVER_WORK/away/file" && echo other >"$SERVER_WORK/away/other" && mkdir "$SERVER_WORK/away/d" || fail "files"
REMOTE=${root%/}/$CASE/away
mount_up
equal "$(<"$MNT/file")" data "a file"
exec 6<"$MNT/other" 7>"$MNT/open"
echo first >&7
sync "$MNT/open" && cd "$MNT/d" || fail "the mount"
server_reads "$TMPDIR"/{readonly,squashed}
until_true "export away is gone" not_exported away
gone="Stale file handle"
expect_error "$gone" ls "$MNT"
expect_error "$gone" cat "$MNT/file"
expect_error "$gone" cat "$MNT/other"
expect_error "$gone" stat "$MNT/file"
expect_error "$gone" touch "$MNT/new"
expect_error "$gone" touch new
expect_error "$gone" df "$MNT"
expect_error "$gone" cat <&6
cd / || fail cd
# What is held behind a write is lost. An fsync says so.
echo second >&7
expect_error "$gone" sync_7
server_reads "$TMPDIR"/{readonly,squashed,away}
until_true "export away" is_exported away
equal "$(ls "$MNT" | tr '\n' ' ')" "d file open other " "files"
equal "$(cat "$MNT/file" "$MNT/other" | tr '\n' ' ')" "data other " "what is read"
equal "$(cat <&6)" other "a file that was open"
touch "$MNT/d/new" && df "$MNT" >/dev/null || fail "the mount is not what it was"
# Behind a hole, where the lost bytes were to go.
echo third >&7 && sync_7 && exec 6<&- 7>&- ||
	fail "a file that was open for writing"
echo fourth >>"$MNT/open"
equal "$(tr '\n\0' ' .' <"$SERVER_WORK/away/open")" "first .......third fourth " "what is written"
mount_down
