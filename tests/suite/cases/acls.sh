# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Access control lists, as getfacl, setfacl, nfs4_getfacl and nfs4_setfacl use them, seen from both
# sides; and what is made under a default list.
for tool in getfacl setfacl; do command -v $tool >/dev/null || skip "no $tool"; done

# list PATH - in one line, without comments.
list() { getfacl --omit-header --absolute-names --numeric "$1" | tr -s '\n' ' '; }
there() { vm-root getfacl --omit-header --absolute-names --numeric "$SERVER_WORK/$1" | tr -s '\n' ' '; }

# nfs-ganesha with FSAL_VFS has none, whatever is asked. Without the option nobody asks the server, and getfacl shows the mode.
mount_up
cd "$WORK" || fail cd
echo data >f && chmod 640 f
equal "$(list f)" "user::rw- group::r-- other::--- " "the mode"
expect_error "not supported" setfacl -m u:1234:r f
cd / && mount_down

mount_up acl
cd "$WORK" || fail cd
if [[ $VERS == 3 ]] && setfacl -m u:1234:r f 2>/dev/null; then
	equal "$(list f)" "user::rw- user:1234:r-- group::r-- mask::r-- other::--- " "here"
	equal "$(there f)" "$(list f)" "on the server"
	setfacl -m g:77:rwx,m:rw f || fail "a group and a mask"
	equal "$(list f)" "$(there f)" "on the server"
	equal "$(stat -c %A f)" "-rw-rw----" "the mask is in the mode"
	vm-root setfacl -m u:99:rwx "$SERVER_WORK/f"
	[[ $(list f) == *"user:99:rwx"* ]] || fail "what the server's own have set: $(list f)"
	setfacl -b f && equal "$(list f)" "user::rw- group::r-- other::--- " "without"
	equal "$(there f)" "$(list f)" "without, on the server"
	# Both of a directory's: setting one leaves the other.
	mkdir -m 755 d && setfacl -m u:1234:rx d && setfacl -d -m u:77:rwx d || fail "a directory's"
	[[ $(list d) == *"user:1234:r-x"*"default:user:77:rwx"* ]] || fail "both: $(list d)"
	setfacl -m u:5:r d
	[[ $(list d) == *"default:user:77:rwx"* ]] || fail "the default one is gone: $(list d)"
	equal "$(there d)" "$(list d)" "a directory's, on the server"
	echo x >d/new && [[ $(list d/new) == *"user:77:rw"* ]] || fail "what is made there: $(list d/new)"
	mkdir d/sub && [[ $(list d/sub) == *"default:user:77:rwx"* ]] || fail "a directory there: $(list d/sub)"
	setfacl -k d && [[ $(list d) != *default* ]] || fail "the default list is there still: $(list d)"
	[[ $(list d) == *"user:1234:r-x"* ]] || fail "the other one has gone with it"
	cp -p f f2 && equal "$(list f2)" "$(list f)" "cp -p"
	# Many entries, and one that is none.
	rule=$(seq -s, -f 'u:%.0f:r' 10000 10300)
	setfacl -m "$rule" f && equal "$(list f | grep -o 'user:' | wc -l)" 302 "300 entries"
	equal "$(there f)" "$(list f)" "300 entries on the server"
	expect_error "" setfacl --set u::rw,u:5:r,o::r f
elif [[ $VERS == 3 ]]; then
	# nfs-ganesha speaks NFSACL, and its file systems have no lists.
	[[ $NFSRDMA_KERNEL == ganesha ]] || fail "setfacl: $(setfacl -m u:1234:r f 2>&1)"
	equal "$(list f)" "user::rw- group::r-- other::--- " "the mode"
else
	# By a draft, which knfsd can be built with from 7.0 on; no server here is. With one that is, all of the
	# above is for it, too.
	expect_error "not supported" setfacl -m u:1234:r f
fi
# Version 4's own lists.
if [[ $VERS != 3 && $NFSRDMA_KERNEL != ganesha ]]; then
	[[ $(type -P nfs4_getfacl) ]] || fail "no nfs4_getfacl"
	nfs4_getfacl f | grep -q 'A::OWNER@:' || fail "no owner in $(nfs4_getfacl f 2>&1)"
	nfs4_setfacl -a A::1234:r f || fail "nfs4_setfacl"
	nfs4_getfacl f | grep -q 'A::1234:r' || fail "not in $(nfs4_getfacl f)"
	[[ $(there f) == *"user:1234:r"* ]] || fail "not on the server: $(there f)"
	chmod 600 f && nfs4_getfacl f >/dev/null || fail chmod
	expect_error "Invalid argument" setfattr -n system.nfs4_acl -v 0x0000000200000000 f
	nfs4_getfacl f | grep -q 'A::OWNER@:' || fail "lost: $(nfs4_getfacl f)"
fi
# The umask: the server's, if it can (4.2); a default list replaces it then.
( umask 027 && echo x >u1 && mkdir u2 && mkfifo u3 ) || fail "made with a umask"
equal "$(stat -c %a u1 u2 u3 | tr '\n' ' ')" "640 750 640 " "modes by a umask of 027"
( umask 077 && set -C && echo x >u4 ) && equal "$(stat -c %a u4)" 600 "exclusively"
if [[ $VERS == 4.2 && $NFSRDMA_KERNEL != ganesha ]]; then
	mkdir dd && vm-root setfacl -d -m u::rwx,g::rwx,o::rx "$SERVER_WORK/dd" || fail "a default list"
	( umask 077 && echo x >dd/a && mkdir dd/b && set -C && echo x >dd/c )
	equal "$(stat -c %a dd/a dd/b dd/c | tr '\n' ' ')" "664 775 664 " "under a default list the umask counts for nothing"
fi
cd / && mount_down

# ---- who gets what: a user whom lists admit or forbid, and what others have brought into the caches ----
[[ $(id -u) == 0 && $NFSRDMA_KERNEL != ganesha ]] || return 0
chmod 755 "$TMPDIR"

# What user 1001, who is in group 77, may do: by the server, which goes by the list; by the mode bits.
rights='plain r- r-
shut -- --
admit rw --
reads r- --
group r- --
masked r- --
deny -- rw
nowrite r- rw
admits/f rw --
denies/f -- rw'
# shellcheck disable=SC2016 # the server's
vm-root bash -c 'cd "$1" && mkdir m m/admits m/denies && cd m &&
	for f in plain shut admit reads group masked deny nowrite admits/f denies/f; do echo text >$f || exit; done &&
	chmod 644 plain && chmod 600 shut admit reads group masked && chmod 666 deny nowrite */f && chmod 700 admits &&
	chown -R 1000:1000 . && setfacl -m u:1001:rw admit && setfacl -m u:1001:r reads nowrite && setfacl -m g:77:r group &&
	setfacl -m u:1001:rw,m:r masked && setfacl -m u:1001:- deny denies && setfacl -m u:1001:rx admits' - "$SERVER_WORK" || fail "files with lists"

as() { setpriv --reuid "$1" --regid "$2" --groups "$3" "${@:4}"; }
# tries UID GID GROUPS - each file's name and what the user gets: by open, truncate, readdir (of its folder), access(2).
tries() {
	cut -d' ' -f1 <<<"$rights" | ( cd "$WORK/m" && as "$@" perl -MPOSIX -MFcntl -ne '
		chomp; my ($f, $dir) = ($_, m{(.*)/}); my ($h, $d, $text);
		my $got = !sysopen($h, $f, O_RDONLY) ? "-" : sysread($h, $text, 9) == 5 && $text eq "text\n" ? "r" : "?";
		$got .= sysopen($h, $f, O_WRONLY | O_APPEND) ? "w" : "-";
		$got .= truncate($f, 5) ? "t" : "-";
		if ($dir) { $got .= opendir($d, $dir) && grep($_ eq "f", readdir($d)) ? "d" : "-" }
		else { $got .= POSIX::access($f, R_OK) ? "R" : "-"; $got .= POSIX::access($f, W_OK) ? "W" : "-" }
		print "$f $got\n"' )
}
# due kernel|server [warm] - what that has to be. Warm, the kernel passes by its mode bits through a folder that a
# list closes, as others have looked up what is there: then the file's own rights count.
due() {
	awk -v by="$1" -v warm="${2:-}" '{
		if ($1 == "denies/f" && by == "kernel" && warm) { print $1, "rwt-"; next }
		server = $2; mode = by == "kernel" ? $3 : "rw"
		r = server mode ~ /^r.r/ ? "r" : "-"; w = server mode ~ /^.w.w/ ? "wt" : "--"
		if (by == "kernel") { split($3, a, "") } else { split($2, a, "") }
		print $1, r w ($1 ~ /\// ? (r == "r" ? "d" : "-") : toupper(a[1] a[2]))
	}' <<<"$rights"
}
for by in kernel server; do
	[[ $by == kernel ]] && mount_up default_permissions || mount_up nodefault_permissions
	equal "$(tries 1001 1001 77)" "$(due $by)" "caches cold, the $by checks"
	for round in 1 2; do
		as 1000 1000 1000 bash -c 'cd "$1" && cat *[a-z] */f; ls . *; for f in *[a-z] */f; do : 1<>"$f"; done' - "$WORK/m" >/dev/null 2>&1
		cat "$WORK"/m/{plain,*/f} >/dev/null || fail "what root reads"
		equal "$(tries 1001 1001 77)" "$(due $by warm)" "caches warm, $round, the $by checks"
	done
	# Lists change: at once.
	vm-root bash -c "cd '$SERVER_WORK/m' && setfacl -m u:1001:- nowrite admit && setfacl -m u:1001:rw deny" || fail "other lists"
	before=$rights rights='admit -- --
nowrite -- rw
deny rw rw'
	equal "$(tries 1001 1001 77 | sed 's/..$//')" "$(due $by | sed 's/..$//')" "lists changed, the $by checks"
	vm-root bash -c "cd '$SERVER_WORK/m' && setfacl -m u:1001:rw admit && setfacl -m u:1001:r nowrite && setfacl -m u:1001:- deny" || fail "lists as before"
	rights=$before
	mount_down
done
