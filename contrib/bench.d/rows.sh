# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # for those that source this
# What contrib/bench can measure, as data: rows, their variants, clients and units.
# The front end makes the plan of it, inside has a function row_NAME for each row, and
# report takes titles and order from here.

readonly CLIENTS='kernel-rdma kernel-tcp ours-pool ours-call ours-mw ours-solo ours-nodeleg ours-ring'
readonly AGAINST_CLIENTS='ours-earlier ours-pool' # of --against
readonly IWARP_CLIENTS='libnfs-tcp ours-iwarp ours-iwarp-ring'

# NAME|PLACE|SECONDS|BASE|CLIENTS|WORDS|SENTENCE
#   PLACE     guest: a Linux server, in the guest or behind --server; host: tests/host/run;
#             waits: a guest whose clock does not wait (waits.sh)
#   SECONDS   that a measurement takes in an emulated guest besides fio's, for the first
#             estimates
#   BASE      the clients that ratios refer to: the first one in each table, the others
#             in tables of their own
#   WORDS     what the words of a variant's name mean
declare -A row_place row_seconds row_base row_clients row_words row_sentence
row_names=''
while IFS='|' read -r name place seconds base members words sentence; do
	row_names+="$name "
	row_place[$name]=$place row_seconds[$name]=$seconds row_base[$name]=$base
	row_clients[$name]=$members row_words[$name]=$words row_sentence[$name]=$sentence
done <<END
iozone|guest|2|kernel-rdma|kernel-rdma kernel-tcp ours-pool|operation, record, threads|sequential reads and writes, O_DIRECT, 1 to 8 threads with a file each, as iozone -I -t
strategies|guest|2|kernel-rdma ours-pool|kernel-rdma ours-pool ours-call ours-mw|operation, block, queue depth|random reads and writes, O_DIRECT, libaio, by registration strategy, and what was registered
oltp|guest|3|kernel-rdma|kernel-rdma kernel-tcp ours-pool ours-call ours-mw ours-solo|work|a data base: random reads (70 %) and writes of 64 to 192 KiB, beside a log of 16 KiB blocks with an fsync each
clients|guest|4|kernel-rdma|kernel-rdma kernel-tcp ours-pool|mounts|1 to 8 mounts of one server, sequential reads of 1 MiB in each, all together
iops|guest|2|kernel-rdma|kernel-rdma kernel-tcp ours-pool|operation, queue depth|random 4 KiB, O_DIRECT, libaio: operations a second, and how long half and 99 % of them take at most
everyday|guest|3|kernel-rdma|kernel-rdma kernel-tcp ours-pool|work|what people do with files, by the clock: cp, dd, tar, git status and checkout, ls -lR, rm -r, make, sqlite3
lanes|guest|2|kernel-rdma|ours-pool|operation, block, queue depth, lanes|our client with 1 to 8 connections: 4 KiB at queue depth 16, 1 MiB at queue depth 4, random, O_DIRECT
solo|guest|15|kernel-rdma|kernel-rdma ours-pool ours-solo|work|files that only this mount writes (consistency=solo): dd bs=4k with fsync, untar, PostgreSQL, and the calls
locks|guest|5|kernel-rdma|kernel-rdma ours-pool|who locks|locks of byte ranges by fcntl(): a lock and its end, of a file that nobody else has open, or that another client has open, too; and how long it takes from the end of one client's lock until another one has it that waits for it
headers|waits|8|kernel-rdma ours-nodeleg|kernel-rdma ours-nodeleg ours-pool|work|files that are read again and again: open + read 4 KiB + close of 100 that were read before, and 10 units that include 500 headers from the last of three folders, by gcc, and by a program that opens and reads them as cpp does. ours-nodeleg has the option nodeleg
disk|waits|30|kernel-rdma|kernel-rdma ours-pool|flush (ms), MiB of a file, block, files at once|a server whose disk takes time to flush: dd conv=fsync to ext4 on dm-delay, and the COMMITs
far|waits|8|kernel-rdma|kernel-rdma ours-pool|round trip (ms), work|a server that is far away: everyday work where each round trip takes time, and the calls
ring|guest|2|kernel-rdma ours-pool|kernel-rdma ours-pool ours-ring|operation, block, queue depth, programs|random reads and writes past the kernel: ours-ring reads and writes by rings (libnfsrdma) the same files of the same mount that the others read and write by O_DIRECT and libaio
ring_iwarp|host|1|libnfs-tcp ours-iwarp|libnfs-tcp ours-iwarp ours-iwarp-ring|operation, block, queue depth, programs|the same on this machine, without a guest: over iWARP in user space and the gateway, beside libnfs over TCP, to one nfs-ganesha
iwarp|host|1|libnfs-tcp|libnfs-tcp ours-iwarp|operation, MiB or block and queue depth|on this machine, without a guest: this client over iWARP in user space and the gateway, beside libnfs over TCP, to one nfs-ganesha by NFSv3. Copies in and out by cp and nfs-cp; random reads by fio and by a program of libnfs
END

# postgres_programs - the folder of PostgreSQL's programs, if it is installed.
postgres_programs() {
	local at
	for at in "$(type -P initdb)" /usr/lib/postgresql/*/bin/initdb; do
		[[ ! -x $at || ! -x ${at%/*}/pgbench ]] || { dirname "$(realpath "$at")"; return; }
	done
}

# sets_of ROW VALUES... - variants are combinations, the first word's values outermost.
# Values of a word are separated by commas.
sets_of() {
	local head values value
	(( $# )) || { echo; return; }
	IFS=, read -ra values <<<"$1"
	for value in "${values[@]}"; do
		while read -r head; do printf '%s\n' "$value${head:+ $head}"; done < <(sets_of "${@:2}")
	done
}

# variants ROW QUICK - a line each; fewer, if QUICK is not empty.
variants() {
	case $1${2:+-quick} in
	iozone) sets_of read,write 128k,256k,512k,1m 1,2,4,8 ;;
	iozone-quick) sets_of read 1m 4 ;;
	strategies) sets_of read,write 4k 1,16,64; sets_of read,write 64k 8; sets_of read,write 1m 1,4 ;;
	strategies-quick) sets_of read 4k 16; sets_of read,write 1m 1,4 ;;
	oltp|oltp-quick) echo mixed ;;
	clients) sets_of 1,2,4,8 ;;
	clients-quick) sets_of 4 ;;
	iops) sets_of read,write 1,4,16,64 ;;
	iops-quick) sets_of read,write 1,16,64 ;;
	everyday)
		printf '%s\n' 'cp-in 64m' 'cp-out 64m' 'dd-write 64k' 'dd-write 4k' 'dd-fsync 1m' 'dd-fsync 64k' \
			'dd-fsync 4k' 'dd-read 1m' 'dd-read 64k' 'dd-read 4k' create untar read-small \
			git-status git-checkout ls-lR rm-r compile
		! command -v sqlite3 >/dev/null || echo sqlite3 ;;
	everyday-quick)
		printf '%s\n' 'cp-out 64m' 'dd-read 1m' 'dd-fsync 1m' 'dd-fsync 64k' 'dd-fsync 4k' create untar \
			read-small ls-lR git-status git-checkout rm-r ;;
	lanes) sets_of read,write 4k 16 1,2,4,8; sets_of read,write 1m 4 1,2,4,8 ;;
	lanes-quick) sets_of read 4k 16 1,2 ;;
	solo)
		printf '%s\n' 'dd-fsync 4k' untar
		[[ ! $(postgres_programs) ]] || printf '%s\n' initdb pgbench-i ;;
	solo-quick) printf '%s\n' 'dd-fsync 4k' untar ;;
	locks) printf '%s\n' alone shared hand-over ;;
	locks-quick) echo shared ;;
	headers) printf '%s\n' again search compile ;;
	headers-quick) printf '%s\n' again search ;;
	ring) sets_of read,write 4k 1,16,64 1; sets_of read,write 1m 1,4 1 ;;
	ring-quick) sets_of read,write 4k 16 1; sets_of read 1m 4 1 ;;
	ring_iwarp) sets_of read 4k 1,16,64 1; sets_of read 4k 16,64 2; sets_of read 1m 4 1 ;;
	ring_iwarp-quick) sets_of read 4k 16 1; sets_of read 1m 4 1 ;;
	disk) sets_of 10,40 256 64k,1m 1; sets_of 10 1024 64k,1m 1; sets_of 10 256 64k,1m 4 ;;
	disk-quick) echo '10 256 1m 1' ;;
	far) sets_of 1,10 "trip,create,untar,rm-r,git-status,ls-lR,cp-in 64m,cp-out 64m,dd-read 1m,dd-fsync 1m" ;;
	far-quick) sets_of 10 "trip,create,ls-lR,dd-read 1m,dd-fsync 1m" ;;
	iwarp) sets_of in,out 256; sets_of read 4k 1,16,64; sets_of read 1m 4 ;;
	iwarp-quick) sets_of in,out 256; sets_of read 4k 16 ;;
	esac
}

# Fewer are compared in a quick run.
quick_clients() {
	case $1 in
	strategies) echo kernel-rdma ours-pool ours-mw ;;
	solo) echo kernel-rdma ours-solo ;;
	lanes|headers|iwarp|ring|ring_iwarp) echo "${row_clients[$1]}" ;;
	*) echo kernel-rdma ours-pool ;;
	esac
}

# clients_of ROW QUICK CHOSEN - in the row's order: all of the row, or those chosen. What
# was chosen by name is compared in each row that compares clients.
clients_of() {
	local may client of
	of=${row_clients[$1]}
	may=$of
	[[ ! $2 ]] || may=$(quick_clients "$1")
	[[ "$3" != "$AGAINST_CLIENTS" ]] || { printf '%s\n' $3; return; }
	[[ ! $3 ]] || case $1 in
	strategies) may=$of ;;
	lanes) may='ours-pool ours-call ours-mw' ;;
	ring|iwarp|ring_iwarp) may=$of ;;
	*) may=${CLIENTS/ ours-ring/} ;;       # what fio and others do goes by no ring
	esac
	for client in $may; do
		[[ ! $3 || $1 == *iwarp || " $3 " == *" $client "* ]] && echo "$client"
	done
	return 0
}

# plan ROWS QUICK CLIENTS ROUNDS - lines "row variant client round", separated by tabs, in
# the order of measurement. Each round has all of it, so that what is interrupted has
# rounds that are whole. Clients take turns at each variant, and begin one further on in
# each round: what drifts on the machine (heat, other work) is shared among them.
plan() {
	local round row variant turn i n
	for (( round = 1; round <= $4; round++ )); do
		for row in $1; do
			mapfile -t turn < <(clients_of "$row" "$2" "$3")
			n=${#turn[@]}
			while IFS= read -r variant; do
				for (( i = 0; i < n; i++ )); do
					printf '%s\t%s\t%s\t%s\n' "$row" "$variant" "${turn[(i + round - 1) % n]}" "$round"
				done
			done < <(variants "$row" "$2")
		done
	done
}

# ROW|UNIT|VARIANT|AT LEAST|WORK[|CLIENT[|BASE]] - what our client (ours-pool) is to reach beside the
# kernel's proto=rdma, or beside BASE: a ratio of rates.
targets() {
	cat <<-'END'
	everyday|s|cp-out 64m|1.0|buffered sequential read
	everyday|s|dd-read 1m|1.0|buffered sequential read
	everyday|s|dd-fsync 1m|1.0|buffered sequential write, fsync
	everyday|s|dd-fsync 64k|1.0|buffered sequential write, fsync
	everyday|s|dd-fsync 4k|0.5|buffered sequential write, fsync
	everyday|s|untar|0.8|1,000 small files unpacked
	everyday|s|create|0.8|small files: create, write, close
	everyday|s|read-small|1.0|small files read
	everyday|s|ls-lR|1.0|a listing of 1,000 files
	everyday|s|git-status|1.0|git status
	everyday|s|git-checkout|1.0|git checkout
	everyday|s|rm-r|1.0|1,000 small files removed
	strategies|MB/s|read 1m 1|1.0|O_DIRECT, 1 MiB
	strategies|MB/s|read 1m 4|1.0|O_DIRECT, 1 MiB
	strategies|MB/s|write 1m 1|1.0|O_DIRECT, 1 MiB
	strategies|MB/s|write 1m 4|1.0|O_DIRECT, 1 MiB
	iops|IOPS|read 16|1.0|O_DIRECT, random 4 KiB
	iops|IOPS|write 16|1.0|O_DIRECT, random 4 KiB
	iops|IOPS|read 64|0.9|O_DIRECT, random 4 KiB
	iops|IOPS|write 64|0.9|O_DIRECT, random 4 KiB
	iops|IOPS|read 1|0.8|O_DIRECT, random 4 KiB: latency
	iops|IOPS|write 1|0.8|O_DIRECT, random 4 KiB: latency
	solo|s|dd-fsync 4k|0.95|consistency=solo: sequential write, fsync|ours-solo
	solo|s|untar|0.95|consistency=solo: 1,000 small files unpacked|ours-solo
	solo|s|initdb|0.95|consistency=solo: PostgreSQL's initdb|ours-solo
	solo|s|pgbench-i|0.95|consistency=solo: PostgreSQL's pgbench -i|ours-solo
	locks|locks/s|alone|0.9|a lock and its end, by the only client
	locks|locks/s|shared|0.9|a lock and its end, with another client
	locks|us-handover|hand-over|0.67|a lock from one client to the next: 1.5 times as long
	ring|IOPS|read 4k 1 1|1.2|a ring: random 4 KiB|ours-ring
	ring|IOPS|read 4k 16 1|1.2|a ring: random 4 KiB|ours-ring
	ring|IOPS|read 4k 64 1|1.2|a ring: random 4 KiB|ours-ring
	ring|IOPS|write 4k 1 1|1.2|a ring: random 4 KiB|ours-ring
	ring|IOPS|write 4k 16 1|1.2|a ring: random 4 KiB|ours-ring
	ring|IOPS|write 4k 64 1|1.2|a ring: random 4 KiB|ours-ring
	ring|MB/s|read 1m 1 1|1.0|a ring: random 1 MiB|ours-ring
	ring|MB/s|read 1m 4 1|1.0|a ring: random 1 MiB|ours-ring
	ring|MB/s|write 1m 1 1|1.0|a ring: random 1 MiB|ours-ring
	ring|MB/s|write 1m 4 1|1.0|a ring: random 1 MiB|ours-ring
	headers|opens/s|again|5.0|open + read 4 KiB + close under a delegation|ours-pool|ours-nodeleg
	headers|s|search|1.0|500 headers searched and read as by cpp, 10 times
	headers|s|compile|1.0|500 headers read by gcc, 10 times
	END
	waits_targets
}

# Half of the kernel's rate in COMMITs is twice as many of them.
waits_targets() {
	local variant least
	while read -r variant; do
		echo "disk|MB/s|$variant|0.95|dd, fsync, a disk with a slow flush"
		echo "disk|COMMITs|$variant|0.5|COMMITs of it"
	done < <(variants disk '')
	while read -r variant; do
		case $variant in
		*trip*) continue ;;
		*dd-*) least=0.9 ;;
		*) least=0.95 ;;
		esac
		echo "far|s|$variant|$least|${variant#* }, round trip of ${variant%% *} ms"
	done < <(variants far '')
}

# UNIT|TITLE - the tables of a row are in this order. The last ones are computed from
# what was measured, see values.awk.
units() {
	cat <<-'END'
	MB/s|MB/s (a million bytes), more is better
	IOPS|operations a second, more is better
	locks/s|locks a second, each with its end, more is better
	opens/s|files a second, opened, read and closed, more is better
	us-handover|microseconds from the end of a lock until the other client has it, less is better
	hand-overs|how often that was
	s|seconds, less is better
	us-trip|microseconds for one call to the server, of 100 one after the other
	COMMITs|COMMITs
	calls|calls to the server
	calls/lock|calls to the server for each lock and its end
	calls/1000|calls to the server for 1,000 files
	us-p50|half of the operations took at most this many microseconds
	us-p99|99 % of the operations took at most this many microseconds
	log-writes/s|log records a second, each with its fsync
	busy-s/GB|seconds that the machine's processors were busy for a GB: client, server and load together
	cpu-s/GB|seconds of user and system time of the client's program for a GB
	busy|processors that were busy on average: client, server and load together
	cpu-%|user and system time of the client's program, in percent of one processor
	registrations/call|registrations for each RPC call
	bindings/call|memory windows bound for each RPC call
	local-invals/call|memory windows that the client unbound, for each RPC call
	remote-invals/call|memory windows that the server invalidated, for each RPC call
	END
}

# ROW UNIT... - what the report shows of each row, in tables of its own. UNIT:CLIENT is a
# table of the ratios to that client.
shown() {
	case $1 in
	iozone) echo 'MB/s busy-s/GB cpu-s/GB' ;;
	strategies) echo 'MB/s MB/s:ours-pool busy-s/GB cpu-s/GB registrations/call bindings/call local-invals/call remote-invals/call' ;;
	oltp) echo 'MB/s log-writes/s us-p50 us-p99 busy-s/GB cpu-s/GB' ;;
	clients) echo 'MB/s busy-s/GB cpu-s/GB' ;;
	iops) echo 'IOPS us-p50 us-p99 busy cpu-%' ;;
	everyday) echo 's busy cpu-%' ;;
	lanes) echo 'IOPS MB/s busy cpu-%' ;;
	disk) echo 'MB/s COMMITs calls busy' ;;
	solo) echo 's calls COMMITs busy cpu-%' ;;
	locks) echo 'locks/s calls/lock us-handover hand-overs busy cpu-%' ;;
	headers) echo 'opens/s opens/s:ours-pool calls/1000 s s:ours-pool calls busy cpu-%' ;;
	far) echo 'us-trip s MB/s calls busy' ;;
	ring) echo 'IOPS IOPS:ours-pool MB/s MB/s:ours-pool busy cpu-%' ;;
	ring_iwarp) echo 'IOPS IOPS:ours-iwarp MB/s MB/s:ours-iwarp busy cpu-%' ;;
	iwarp) echo 'MB/s IOPS us-p50 us-p99 busy-s/GB cpu-s/GB' ;;
	esac
}

# FILE|KIND|ROW|UNIT|VARIANTS|TITLE - the plots. VARIANTS is an extended regular
# expression. bars: a group for each variant, a bar for each client. logbars: the same,
# over several powers of ten. lines: over the variants' last word. ratios:CLIENT: bars of
# the ratios to that client, which is a line at 1.
plots() {
	cat <<-'END'
	iozone-read|bars|iozone|MB/s|^read |Sequential reads, O_DIRECT
	iozone-write|bars|iozone|MB/s|^write |Sequential writes, O_DIRECT
	iozone-ratio|ratios:kernel-rdma|iozone|MB/s|.|Sequential reads and writes, beside the kernel's client
	strategies-4k|bars|strategies|MB/s| 4k |Registration strategies: random 4 KiB
	strategies-64k|bars|strategies|MB/s| 64k |Registration strategies: random 64 KiB
	strategies-1m|bars|strategies|MB/s| 1m |Registration strategies: random 1 MiB
	strategies-ratio|ratios:kernel-rdma|strategies|MB/s|.|Registration strategies, beside the kernel's client
	strategies-pool|ratios:ours-pool|strategies|MB/s|.|Registration strategies, beside memreg=pool
	oltp|bars|oltp|MB/s|.|Data base: 70 % reads around 128 KiB, beside a log
	clients|lines|clients|MB/s|.|Sequential reads by several mounts
	iops-read|lines|iops|IOPS|^read |Random 4 KiB reads
	iops-write|lines|iops|IOPS|^write |Random 4 KiB writes
	iops-read-p99|lines|iops|us-p99|^read |Random 4 KiB reads: how long 99 % of them take at most
	iops-write-p99|lines|iops|us-p99|^write |Random 4 KiB writes: how long 99 % of them take at most
	iops-ratio|ratios:kernel-rdma|iops|IOPS|.|Random 4 KiB, beside the kernel's client
	everyday|logbars|everyday|s|.|Everyday work
	everyday-ratio|ratios:kernel-rdma|everyday|s|.|Everyday work, beside the kernel's client
	lanes-4k|bars|lanes|IOPS|.|Connections of one mount: random 4 KiB
	lanes-1m|bars|lanes|MB/s|.|Connections of one mount: random 1 MiB
	disk-ratio|ratios:kernel-rdma|disk|MB/s|.|A disk with a slow flush, beside the kernel's client
	disk-commits|logbars|disk|COMMITs|.|A disk with a slow flush: COMMITs
	far-ratio|ratios:kernel-rdma|far|s|.|A server far away, beside the kernel's client
	far-calls|logbars|far|calls|.|A server far away: calls
	solo-ratio|ratios:kernel-rdma|solo|s|.|Files that only this mount writes, beside the kernel's client
	ring-4k|bars|ring|IOPS|.|Past the kernel: random 4 KiB
	ring-1m|bars|ring|MB/s|.|Past the kernel: random 1 MiB
	ring-ratio|ratios:kernel-rdma|ring|IOPS|.|Past the kernel: random 4 KiB, beside the kernel's client
	ring-iwarp|bars|ring_iwarp|IOPS|.|Past the kernel over iWARP: random 4 KiB
	iwarp-copies|bars|iwarp|MB/s|^[io]|Copies over iWARP and TCP
	iwarp-random|bars|iwarp|IOPS|^read |Random reads over iWARP and TCP
	END
}
