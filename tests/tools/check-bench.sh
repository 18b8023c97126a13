#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-bench.sh [SOURCE-DIRECTORY] - contrib/bench without anything that is measured: its
# plan, what it refuses, and, with a made-up tests/vm/run that says figures, how results
# are kept, resumed and reported.
#
# Made-up figures: of client number C, in round R, 100 * C + R MB/s. So the median of three
# rounds is 100 * C + 2.
[ "${BASH_VERSION:-}" ] || exec bash "$0" "$@"      # automake has its own shell
set -u

top=$(cd "${1:-${srcdir:-.}}" && pwd) || exit 1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
bench=$tree/contrib/bench
out=$tree/out

mkdir -p "$tree"/{contrib,tests/vm,bin,build/src} && cp -r "$top"/contrib/{bench,bench.d,common.sh} "$tree/contrib" &&
	chmod -R u+w "$tree/contrib" && : >"$tree/tests/vm/packages" || exit 1
# gnuplot is a stub like the others: it may not be there, and takes more time than all of this.
for program in gnuplot fio git sqlite3 mount.nfs nfs-cp ganesha.nfsd rpcbind; do
	printf '#!/bin/sh\n[ $# = 0 ] || echo made-up\n' >"$tree/bin/$program"
done
: >"$tree/build/src/nfsrdma-fuse"
chmod 755 "$tree/bin"/* "$tree/build/src/nfsrdma-fuse"
export PATH=$tree/bin:$PATH

# It says what inside would say, of the plan that it is given. $DIES_AT: the number of the
# measurement in which it ends; $FAILS: the client that fails in round 1.
cat >"$tree/tests/vm/run" <<'END'
#!/bin/bash
[[ $1 != --prepare ]] || exit 0
echo "$*" >>"${0%/*}/started"
plan=${*: -3:1}
printf 'about\temulated\tyes\nabout\trun oltp mixed\tfio --made-up\n'
while IFS=$'\t' read -r row variant client round; do
	case $client in kernel-rdma) c=1 cpu=- ;; kernel-tcp) c=2 cpu=- ;; *) c=3 cpu=1.5 ;; esac
	key=$row$'\t'$variant$'\t'$client$'\t'$round
	printf 'begin\t%s\n' "$key"
	if [[ ${FAILS:-} == "$client" && $round == 1 ]]; then
		printf 'result\t%s\tFAILED\tmade-up reason\t-\nend\tFAILED\n' "$key"
		continue
	fi
	printf "result\t%s\t%s\t%s\t$cpu\n" "$key" $(( 100 * c + round )) MB/s
	(( ++done != ${DIES_AT:-0} )) || exit 123
	printf "result\t%s\t%s\t%s\t$cpu\n" "$key" 500 MB "$key" 3 busy-s "$key" 2 run-s
	printf 'end\tok\n'
done <"$plan"
END
chmod 755 "$tree/tests/vm/run"

n=0
# result NAME COMMAND... - passes if the command succeeds.
result() {
	local name=$1
	shift
	(( ++n ))
	if "$@"; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		sed 's/^/# /' <<<"$said"
	fi
}
# run ARG... - sets said and status.
run() {
	said=$("$bench" --no-install --build "$tree/build" --out "$out" --only oltp \
		--clients kernel,ours-pool --rounds 3 "$@" 2>&1)
	status=$?
}
# refused WORDS ARG...
refused() {
	said=$("$bench" --out "$out" --no-install "${@:2}" 2>&1) && return 1
	(( $? == 2 )) && [[ $said == *"$1"* && ! -e $out ]]
}
says() { [[ $said == *"$1"* ]]; }
ended() { (( status == $1 )); }
raw_lines() { (( $(wc -l <"$out/raw.tsv") == $1 )); }
reported() { grep -qF -- "$1" "$out/report.md"; }

echo 1..49
said=''
result "a row that is not there is refused" refused "there is no row 'foo'" --only oltp,foo
result "a client that is not there is refused" refused "there is no client 'foo'" --clients foo
result "a number of rounds that is none is refused" refused "from 1 to 99" --rounds 0
result "a kernel that is not there is refused" refused "6.1, 6.12 or 7.3" --kernel 5.4
result "a clock that is not there is refused" refused "time or instructions" --clock foo
result "a server that is none is refused" refused "SERVER:/EXPORT" --server foo
result "a row with a slow server needs a guest" refused "the row disk is measured without one" --server there:/ --only disk
result "an earlier build that is not there is refused" refused "there is no /nowhere/src" --against /nowhere
result "an earlier build is beside ours-pool alone" refused "goes without --clients" --against "$tree/build" --clients kernel
result "a build that is not there is refused" refused "run make there" --build /nowhere

run --dry-run
result "clients take turns" says "mixed	kernel-rdma	1
oltp	mixed	kernel-tcp	1
oltp	mixed	ours-pool	1
oltp	mixed	kernel-tcp	2"

run
result "a run succeeds" ended 0
result "all is kept" raw_lines 36
result "medians, spread and ratios" reported "| mixed | 102 (101..103) | 202 (201..203) | 302 (301..303) | 2.96 (2.94..2.98) |"
result "processor time of the daemon" reported "| mixed | 3.00 (3.00..3.00) |"
result "a plot" [ -s "$out/oltp.png" ]
result "the command line" reported 'fio --made-up'
result "what emulation means" reported 'emulated processors'
result "figures for other programs" grep -q '^oltp,mixed,ours-pool,MB/s,3,302,301,303,kernel-rdma,2.96' "$out/report.csv"
run
result "results are not overwritten" says "there are results in"

DIES_AT=5 run --resume
result "nothing is done twice" raw_lines 36
rm -rf "$out"
DIES_AT=5 run
result "a guest that dies is a failure" ended 1
result "and is told" reported 'ended with status 123'
run --resume
result "what failed is done again" raw_lines 36
rm -rf "$out"
BENCH_QUICK_SECONDS=0 run --quick --rounds 3
result "behind the twelve minutes nothing is begun" raw_lines 4
result "and what is left out is told" says "8 of 9 measurements are left out"
run --only strategies --clients ours-pool,ours-mw --rounds 1 --out "$out.2"
out+=.2
result "a row may have ratios to several clients" reported "| operation, block, queue depth | ours-mw : ours-pool |"
result "and their plots" [ -s "$out/strategies-pool.png" ]
out=${out%.2}
run --only far --clients kernel-rdma,ours-pool --rounds 1 --out "$out.4"
result "a row with a slow server has a guest whose clock does not wait" grep -q -- '--accel waits' "$tree/tests/vm/started"
result "and others do not" [ "$(grep -c -- '--accel icount' "$tree/tests/vm/started")" -ge 1 ]
out+=.4
result "what that clock is" reported 'the clock went to it at once'
out=${out%.4}
rm -rf "$out"
FAILS=ours-pool run
result "a failure is told, the other rounds count" reported '302 (302..303), 1 failed'

# Work that takes 2 s with the kernel's client and 4 s with ours, which may be half as fast in
# blocks of 4 KiB only.
mkdir -p "$out.3"
for block in 64k 4k; do
	for client in kernel-rdma=2 ours-pool=4; do
		printf 'everyday\tdd-fsync %s\t%s\t1\t%s\n' "$block" "${client%=*}" "${client#*=}"$'\ts\t1' "$block" "${client%=*}" "1"$'\trun-s\t1'
	done
done >"$out.3/raw.tsv"
out+=.3
said=$("$tree/contrib/bench.d/report" "$out" 2>&1)
result "a target that is missed" reported 'everyday: dd-fsync 64k | 1.0 | 0.50 | missed |'
result "a target that is reached" reported 'everyday: dd-fsync 4k | 0.5 | 0.50 | reached |'
printf '%s\n' row,variant,client,unit,rounds,median,min,max,base,ratio,ratio_min,ratio_max \
	'everyday,dd-fsync 64k,ours-pool,s,1,8,8,8,kernel-rdma,4,4,4' \
	'everyday,dd-fsync 4k,ours-pool,s,1,8,8,8,kernel-tcp,4,4,4' >"$out/before.csv"
said=$("$tree/contrib/bench.d/report" "$out" 2>&1)
result "before and now" reported 'everyday: dd-fsync 64k | 1.0 | 0.25 | 0.50 | missed |'
result "a ratio to another client is not compared" reported 'everyday: dd-fsync 4k | 0.5 | - | 0.50 | reached |'
result "and their plot" [ -s "$out/before.png" ]
result "a target that was not measured" reported 'everyday: untar | 0.8 | - | - | not measured |'

# A disk: two thirds of the kernel's rate; twice, and three times, as many COMMITs.
mkdir -p "$out.5"
for block in 64k 1m; do
	for client in kernel-rdma=60=6 ours-pool=40=$([ $block = 64k ] && echo 12 || echo 18); do
		IFS='=' read -r name rate commits <<<"$client"
		for value in "$rate"$'\t'MB/s "$commits"$'\t'COMMITs 1$'\t'run-s; do
			printf 'disk\t10 256 %s 1\t%s\t1\t%s\t1\n' "$block" "$name" "$value"
		done
	done
done >"$out.5/raw.tsv"
out+=.5
said=$("$tree/contrib/bench.d/report" "$out" 2>&1)
result "a rate that is missed" reported 'disk: 10 256 64k 1 | 0.95 | 0.67 | missed |'
result "twice as many COMMITs may be" reported 'disk: 10 256 64k 1 | 0.5 | 0.50 | reached |'
result "and no more" reported 'disk: 10 256 1m 1 | 0.5 | 0.33 | missed |'
result "rows of which nothing was measured are not judged" [ "$(grep -c 'everyday: ' "$out/report.md")" = 0 ]

# An earlier build, which took 10 s where this one takes 9 and 11.
mkdir -p "${out%.5}.7"
out=${out%.5}.7
for client in ours-earlier=10=10 ours-pool=9=11; do
	IFS='=' read -r name untar create <<<"$client"
	printf 'everyday\t%s\t'"$name"'\t1\t%s\t1\n' untar "$untar"$'\ts' untar $'1\trun-s' create "$create"$'\ts' create $'1\trun-s'
done >"$out/raw.tsv"
said=$("$tree/contrib/bench.d/report" "$out" 2>&1)
result "what is slower than in the earlier build" reported '- everyday create: 0.909 (1 rounds)'
result "and how much was compared" reported '1 of 2 below 0.98'
result "its table" reported '| ours-pool : ours-earlier |'
out=${out%.7}.5

# The row solo is about ours-solo.
mkdir -p "${out%.5}.6"
out=${out%.5}.6
for client in kernel-rdma=19 ours-pool=40 ours-solo=20; do
	printf 'solo\tuntar\t%s\t1\t%s\n' "${client%=*}" "${client#*=}"$'\ts\t1' "${client%=*}" "1"$'\trun-s\t1'
done >"$out/raw.tsv"
said=$("$tree/contrib/bench.d/report" "$out" 2>&1)
result "the row solo judges ours-solo" reported 'solo: untar, ours-solo | 0.95 | 0.95 | reached |'

# Hand-overs that take 1.6 times as long; opens that are 4 times as many as without delegations, and
# half of the kernel's.
out=${out%.6}.8
mkdir -p "$out"
for client in kernel-rdma=100=8000 ours-pool=160=4000 ours-nodeleg=0=1000; do
	IFS='=' read -r name us opens <<<"$client"
	printf '%s\t'"$name"'\t1\t%s\t1\n' $'locks\thand-over' "$us"$'\tus-handover' $'locks\thand-over' $'1\trun-s' \
		$'headers\tagain' "$opens"$'\topens/s' $'headers\tagain' $'1\trun-s'
done | grep -v $'^locks.*ours-nodeleg' >"$out/raw.tsv"
said=$("$tree/contrib/bench.d/report" "$out" 2>&1)
result "longer hand-overs are worse" reported 'locks: hand-over | 0.67 | 0.62 | missed |'
result "a target beside another client of ours" reported 'headers: again, ours-pool : ours-nodeleg | 5.0 | 4.00 | missed |'
result "and the ratio to the kernel's" reported '| again | 8000 | 4000 | 1000 | 0.50 | 0.12 |'
