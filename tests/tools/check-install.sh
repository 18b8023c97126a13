#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-install.sh [SOURCE-DIRECTORY] - contrib/common.sh installs packages, with a made-up apt-get: the file that keeps
# their services from being started is there meanwhile, and afterwards it is not, also of a run that was interrupted.
[ "${BASH_VERSION:-}" ] || exec bash "$0" "$@"      # automake has its own shell
set -u

top=$(cd "${1:-${srcdir:-.}}" && pwd) || exit 1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
export tree top PATH=$tree/bin:$PATH
mkdir "$tree/bin" || exit 1
stub() { { echo '#!/bin/sh'; cat; } >"$tree/bin/$1" && chmod 755 "$tree/bin/$1"; }
stub dpkg-query </dev/null
stub sudo <<<'shift 2; exec "$@"'
# SLEEPS: for so many seconds.
stub apt-get <<'END'
case $* in *install*) ;; *) exit 0 ;; esac
cp "$tree/policy" "$tree/seen"
: >"$tree/begun"
exec sleep "${SLEEPS:-0}"
END
cat >"$tree/script" <<'END'
. "$top/contrib/common.sh"
policy_file=$tree/policy
install_packages made-up
END

n=0
# ok WHAT COMMAND...
ok() {
	n=$((n + 1))
	if "${@:2}"; then echo "ok $n - $1"; else echo "not ok $n - $1"; fi
}
none_left() { [[ ! -e $tree/policy ]]; }
was_there() { grep -qx 'exit 101' "$tree/seen"; }
run() { rm -f "$tree"/{seen,begun}; bash "$tree/script" >/dev/null; }
# after WHAT... - in ten seconds.
after() {
	local i
	for (( i = 0; i < 100; i++ )); do ! "$@" || return 0; sleep 0.1; done
	return 1
}

ok "an installation" run
ok "no service is started meanwhile" was_there
ok "nothing is left" none_left
cp "$tree/seen" "$tree/policy"
ok "an installation after one that was killed" run
ok "nothing of either is left" none_left
echo '# the administrator has made this' >"$tree/policy"
ok "an installation where there is such a file" run
ok "it is left alone" grep -q administrator "$tree/policy"
rm "$tree/policy"
for signal in INT TERM HUP; do
	for whom in group script; do
		rm -f "$tree"/{seen,begun}
		# What a shell starts in the background ignores SIGINT.
		SLEEPS=2 env --default-signal=INT setsid bash "$tree/script" >/dev/null 2>&1 & pid=$!
		ok "an installation, for SIG$signal to its $whom" after test -e "$tree/begun"
		[[ $whom == script ]] || pid=-$pid
		kill -$signal -- "$pid"
		wait 2>/dev/null
		ok "nothing is left after SIG$signal to its $whom" after none_left
	done
done
echo "1..$n"
