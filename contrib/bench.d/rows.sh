# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # for those that source this
# What contrib/bench can measure, as data: rows, their variants, clients and units.
# The front end makes the plan of it, inside has a function row_NAME for each row, and
# report takes titles and order from here.

readonly CLIENTS='kernel-rdma kernel-tcp ours-pool ours-call ours-mw ours-cache'
readonly IWARP_CLIENTS='libnfs-tcp ours-iwarp'

# NAME|PLACE|SECONDS|BASE|CLIENTS|WORDS|SENTENCE
#   PLACE     guest: a Linux server, in the guest or behind --server; host: tests/host/run
#   SECONDS   that a measurement takes in an emulated guest, for the first estimates
#   BASE      the client that ratios refer to
#   WORDS     what the words of a variant's name mean
declare -A row_place row_seconds row_base row_clients row_words row_sentence
row_names=''
while IFS='|' read -r name place seconds base members words sentence; do
	row_names+="$name "
	row_place[$name]=$place row_seconds[$name]=$seconds row_base[$name]=$base
	row_clients[$name]=$members row_words[$name]=$words row_sentence[$name]=$sentence
done <<END
iozone|guest|8|kernel-rdma|$CLIENTS|operation, record, threads|sequential reads and writes, O_DIRECT, 1 to 8 threads with a file each, as iozone -I -t
strategies|guest|8|kernel-rdma|kernel-rdma ours-pool ours-call ours-mw ours-cache|operation, block|random reads and writes, O_DIRECT, queue depth 8, by registration strategy, and what was registered
oltp|guest|8|kernel-rdma|$CLIENTS|work|a data base: random reads (70 %) and writes of 64 to 192 KiB, beside a log of 16 KiB blocks with an fsync each
clients|guest|10|kernel-rdma|kernel-rdma kernel-tcp ours-pool|mounts|1 to 8 mounts of one server, sequential reads of 1 MiB in each, all together
iops|guest|8|kernel-rdma|kernel-rdma kernel-tcp ours-pool|operation, queue depth|random 4 KiB, O_DIRECT, libaio: operations a second, and how long half and 99 % of them take at most
everyday|guest|12|kernel-rdma|kernel-rdma kernel-tcp ours-pool|work|what people do with files, by the clock: cp, dd, tar, git status, ls -lR, rm -r, make, sqlite3
lanes|guest|8|kernel-rdma|ours-pool|operation, block, queue depth, lanes|our client with 1 to 8 connections: 4 KiB at queue depth 16, 1 MiB at queue depth 4, random, O_DIRECT
iwarp|host|5|libnfs-tcp|$IWARP_CLIENTS|direction, MiB|on this machine, without a guest: copies by this client over iWARP in user space and the gateway, beside libnfs's nfs-cp over TCP, to one nfs-ganesha
END

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

# Of a run without --only.
rows_by_default() { if [[ $1 ]]; then echo iozone strategies oltp iops everyday; else echo "$row_names"; fi; }

# variants ROW QUICK - a line each; fewer, if QUICK is not empty.
variants() {
	case $1${2:+-quick} in
	iozone) sets_of read,write 128k,256k,512k,1m 1,2,4,8 ;;
	iozone-quick) sets_of read,write 1m 1,4 ;;
	strategies) sets_of read,write 4k,64k,1m ;;
	strategies-quick) sets_of read 4k; sets_of write 64k ;;
	oltp|oltp-quick) echo mixed ;;
	clients) sets_of 1,2,4,8 ;;
	clients-quick) sets_of 1,4 ;;
	iops) sets_of read,write 1,4,16,64 ;;
	iops-quick) sets_of read 1,16; sets_of write 16 ;;
	everyday)
		printf '%s\n' 'cp 64m' 'dd-write 64k' 'dd-write 4k' 'dd-read 64k' 'dd-read 4k' \
			untar git-status ls-lR rm-r compile
		! command -v sqlite3 >/dev/null || echo sqlite3 ;;
	everyday-quick) printf '%s\n' 'cp 64m' 'dd-read 64k' ls-lR ;;
	lanes) sets_of read,write 4k 16 1,2,4,8; sets_of read,write 1m 4 1,2,4,8 ;;
	lanes-quick) sets_of read 4k 16 1,2; sets_of read 1m 4 1,2 ;;
	iwarp) sets_of in,out 256 ;;
	iwarp-quick) sets_of in,out 64 ;;
	esac
}

# Strategies are compared with less in a quick run.
quick_clients() {
	case $1 in
	strategies) echo "${row_clients[$1]}" ;;
	*) echo kernel-rdma kernel-tcp ours-pool ;;
	esac
}

# clients_of ROW QUICK CHOSEN - in the row's order: all of the row, or those chosen. What
# was chosen by name is compared in each row that compares clients.
clients_of() {
	local may client of
	of=${row_clients[$1]}
	may=$of
	[[ ! $2 ]] || may=$(quick_clients "$1")
	[[ ! $3 ]] || case $1 in
	strategies) may=$of ;;
	lanes) may='ours-pool ours-call ours-mw ours-cache' ;;
	iwarp) may=$of ;;
	*) may=$CLIENTS ;;
	esac
	for client in $may; do
		[[ ! $3 || $1 == iwarp || " $3 " == *" $client "* ]] && echo "$client"
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

# UNIT|TITLE - the tables of a row are in this order. The last ones are computed from
# what was measured, see values.awk.
units() {
	cat <<-'END'
	MB/s|MB/s (a million bytes), more is better
	IOPS|operations a second, more is better
	s|seconds, less is better
	us-p50|half of the operations took at most this many microseconds
	us-p99|99 % of the operations took at most this many microseconds
	log-writes/s|log records a second, each with its fsync
	busy-s/GB|seconds that the machine's processors were busy for a GB: client, server and load together
	cpu-s/GB|seconds of user and system time of the client's program for a GB
	busy|processors that were busy on average: client, server and load together
	cpu-%|user and system time of the client's program, in percent of one processor
	registrations/call|registrations for each RPC call
	local-invals/call|calls whose windows the client unbound, for each RPC call
	remote-invals/call|calls whose memory the server invalidated, for each RPC call
	END
}

# ROW UNIT... - what the report shows of each row, in tables of its own.
shown() {
	case $1 in
	iozone) echo 'MB/s busy-s/GB cpu-s/GB' ;;
	strategies) echo 'MB/s busy-s/GB cpu-s/GB registrations/call local-invals/call remote-invals/call' ;;
	oltp) echo 'MB/s log-writes/s us-p50 us-p99 busy-s/GB cpu-s/GB' ;;
	clients) echo 'MB/s busy-s/GB cpu-s/GB' ;;
	iops) echo 'IOPS us-p50 us-p99 busy cpu-%' ;;
	everyday) echo 's busy cpu-%' ;;
	lanes) echo 'IOPS MB/s busy cpu-%' ;;
	iwarp) echo 'MB/s busy-s/GB cpu-s/GB' ;;
	esac
}

# FILE|KIND|ROW|UNIT|VARIANTS|TITLE - the plots. VARIANTS is an extended regular
# expression. bars: a group for each variant, a bar for each client. logbars: the same,
# over several powers of ten. lines: over the variants' last word.
plots() {
	cat <<-'END'
	iozone-read|bars|iozone|MB/s|^read |sequential reads: record size, threads
	iozone-write|bars|iozone|MB/s|^write |sequential writes: record size, threads
	strategies|bars|strategies|MB/s|.|random reads and writes by registration strategy
	oltp|bars|oltp|MB/s|.|data base: 70 % reads around 128 KiB
	clients|lines|clients|MB/s|.|sequential reads: mounts
	iops-read|lines|iops|IOPS|^read |random 4 KiB reads: queue depth
	iops-write|lines|iops|IOPS|^write |random 4 KiB writes: queue depth
	everyday|logbars|everyday|s|.|everyday work: less is better
	lanes-4k|bars|lanes|IOPS|.|4 KiB at queue depth 16: lanes
	lanes-1m|bars|lanes|MB/s|.|1 MiB at queue depth 4: lanes
	iwarp|bars|iwarp|MB/s|.|copies on this machine
	END
}
