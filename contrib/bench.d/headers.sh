# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154,SC2034,SC2317 # what is not set here is inside's
# headers.sh - the row headers: files that are opened and read again and again, and that nobody changes,
# as a compiler's headers. What a delegation is worth. It is measured where an instruction is 1 ns, as with
# a real processor (waits.sh): with 8 ns what is believed for a second is old before the next unit begins.

readonly HEADERS=500 HEADERS_UNITS=10 HEADERS_FILES=100 HEADERS_SECONDS=1

# By system calls, because open() of perl asks for attributes, and whether it is a terminal. Without
# modules, which the host would be asked for.
#
# opens SECONDS FILES FOLDER: opens a second, of files of 4 KiB, each read and closed.
# search HEADERS UNITS FOLDER: what cpp does for UNITS files that include all headers, one process for
# each: it looks into three folders, and what it wants is in the last one.
# shellcheck disable=SC2016 # perl's
readonly HEADERS_PERL='
	my ($arch, $what, $many, $n, $dir) = @ARGV;
	my ($openat, $read, $close, $fstat, $gettime) = $arch eq "x86_64" ? (257, 0, 3, 5, 228) : (56, 63, 57, 80, 113);
	my ($data, $attributes, $empty) = ("x" x 4096, "x" x 256, "");
	sub now() { my $t = "x" x 16; syscall($gettime, 1, $t); my ($s, $ns) = unpack("qq", $t); $s + $ns / 1e9 }
	sub from { syscall($openat, -100, $_[0], 0, 0) }
	sub get { my ($fd, $name) = @_; syscall($read, $fd, $data, 4096) > 0 or die "$name: $!\n"; syscall($close, $fd) }
	if ($what eq "opens") {
		my ($opened, $begin, @names) = (0, now, map { "$dir/f$_\0" } 1 .. $n);
		while (now - $begin < $many) {
			for my $name (@names) { my $fd = from($name); $fd >= 0 or die "$name: $!\n"; get($fd, $name) }
			$opened += $n;
		}
		printf "%.1f %d\n", $opened / (now - $begin), $opened;
		exit;
	}
	for (1 .. $n) {
		my $child = fork // die "fork: $!\n";
		if ($child) { waitpid($child, 0); $? == 0 or die "a unit has failed\n"; next }
		for my $i (1 .. $many) {
			for my $folder (qw(a b)) { from("$dir/$folder/h$i.h\0") < 0 && $! == 2 or die "$folder: $!\n" }
			my $fd = from("$dir/c/h$i.h\0");
			$fd >= 0 && syscall($fstat, $fd, $attributes) == 0 or die "h$i.h: $!\n";
			get($fd, "h$i.h");
		}
		exit;
	}'

# headers_perl WHAT ARG... - of HEADERS_PERL.
headers_perl() {
	[[ ! $ROW ]] || command_line "run $ROW $VARIANT" perl -e "'headers.sh: HEADERS_PERL'" "$HOSTTYPE" "$@"
	limited perl -e "$HEADERS_PERL" "$HOSTTYPE" "$@"
}

# headers_prepare FOLDER - all is run once there: what it needs of the host is in memory then.
headers_prepare() {
	local i at=$1/headers text
	printf -v text '/* %2000s */' ''
	mkdir -p "$at"/{a,b,c,again} || return
	: >"$at/a/other.h" && : >"$at/b/another.h"
	for (( i = 1; i <= HEADERS; i++ )); do
		printf '#ifndef H%d\n#define H%d\n%s\nextern int h%d(int);\n#endif\n' $i $i "$text" $i >"$at/c/h$i.h" || return
		printf '#include <h%d.h>\n' $i
	done >"$at/unit.c"
	for (( i = 1; i <= HEADERS_FILES; i++ )); do head -c 4096 /dev/zero >"$at/again/f$i" || return; done
	HEADERS_CC1=$(gcc -print-prog-name=cc1) && take_home "$HEADERS_CC1" || return
	headers_compile "$at" && headers_perl search "$HEADERS" 1 "$at" && headers_perl opens 0.1 "$HEADERS_FILES" "$at/again"
}

# headers_compile FOLDER - one unit after the other, by the compiler proper.
headers_compile() {
	local i command=("$HEADERS_CC1" -quiet -fsyntax-only -nostdinc -I "$1/a" -I "$1/b" -I "$1/c" "$1/unit.c")
	[[ ! $ROW ]] || command_line "run $ROW $VARIANT" "$HEADERS_UNITS x" "${command[@]}"
	for (( i = 0; i < HEADERS_UNITS; i++ )); do limited "${command[@]}" || return; done
}

# headers_warm CLIENT - until nothing more is asked for: Linux gives no delegations in its grace
# period. Without delegations once is enough.
headers_warm() {
	local i
	for (( i = 0; i < 30; i++ )); do
		calls_so_far "$1" before && ROW='' headers_perl opens 0.1 "$HEADERS_FILES" "$MNT/$FOLDER/headers/again" && calls_so_far "$1" after &&
			calls_between || return
		if [[ $1 == ours-nodeleg ]] || (( ${COUNTED[0]%% *} <= 10 )); then return 0; fi
		sleep 1
	done
	fail "the server gives no delegations"
}

# row_headers CLIENT again|search|compile
row_headers() {
	local rate n WARM_UP='' at=$MNT/$FOLDER/headers
	keep_awake on
	# The row far may have been before this one.
	quietly vm-delay off || return
	case $2 in
	search) counted "$1" '' headers_perl search "$HEADERS" "$HEADERS_UNITS" "$at" ;;
	compile) counted "$1" '' headers_compile "$at" ;;
	again) WARM_UP=headers_warm counted "$1" '' headers_perl opens "$HEADERS_SECONDS" "$HEADERS_FILES" "$at/again" ;;
	esac || return
	VALUES=("$(us_to_s "$RUN_US") s" "${COUNTED[@]}")
	[[ $2 == again ]] && read -r rate n <"$TMP/said" || return 0
	VALUES=("$rate opens/s" "$(awk -v c="${COUNTED[0]%% *}" -v n="$n" 'BEGIN { print 1000 * c / n }') calls/1000")
}
