# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Verified reads and writes by rings, of 1 byte to 1 MiB, with each way to register memory, and by fio, 4 KiB to
# 4 MiB, if NFSRDMA_FIO_ENGINE names the engine (contrib/fio/build). Meanwhile the server is silent for 20 s, or
# each of two paths fails, and then the server restarts. No error, no wrong byte, nothing that hangs.
rings=${BIN%/src/*}/tests/vm-clients/rings
[[ -x $rings ]] || skip "no $rings"
cd "$TMPDIR" || fail cd         # for fio's own files

# by_model NAME, by_fio NAME - until there is $TMPDIR/enough.
by_model() {
	while [[ ! -e $TMPDIR/enough ]]; do
		timeout 600 "$rings" model 3 3000000 "$RANDOM" "$WORK/$1.model" || return
	done
}
by_fio() {
	local size
	amount 24m 12m
	size=$REPLY
	while [[ ! -e $TMPDIR/enough ]]; do
		timeout 600 fio --directory="$WORK" --name="$1" --rw=randwrite --bsrange=4k-4m --size="$size" --numjobs=2 --direct=1 --thread=0 \
			--ioengine=external:"$NFSRDMA_FIO_ENGINE" --iodepth=8 --verify=crc32c --verify_fatal=1 --do_verify=1 \
			--fallocate=none --group_reporting --output="$TMPDIR/fio.out" || { cat "$TMPDIR/fio.out"; return 1; }
	done
}

more_calls() { (( $(stat_now ring.writes) >= $1 )); }
under_way() { until_true "writes by rings" more_calls $(( $(stat_now ring.writes) + 50 )); }

# verified MEMREG WORK EVENT... - the event comes in the middle of the work.
verified() {
	local job
	rm -f "$TMPDIR/enough"
	"by_$2" "$1" & job=$!
	under_way
	"${@:3}" || fail "${*:3}"
	under_way
	touch "$TMPDIR/enough"
	wait $job || fail "$2, memreg=$1, ${*:3}"
}

# path_fails KIND N - for 3 s, while the other one works.
path_fails() {
	both_up
	path cut "$2" "$1"
	sleep 3
	path heal "$2"
}
two=''
if [[ ${NFSRDMA_PATHS:-} == *' '* ]]; then
	# shellcheck source=/dev/null
	. "${BASH_SOURCE[0]%/*}/../paths/lib.sh"
	two=$BOTH,mp_policy=round-robin
fi

works=(model)
[[ ! ${NFSRDMA_FIO_ENGINE:-} ]] || works+=(fio)
for memreg in ${NFSRDMA_MEMREGS:-pool call mw auto}; do
	mount_up "memreg=$memreg${two:+,$two}"
	for work in "${works[@]}"; do
		lost=$(stat_now conn.downs)
		if [[ $two ]]; then
			verified "$memreg" "$work" path_fails drop 0
			verified "$memreg" "$work" path_fails kill 1
			at_least "$(( $(path_value 0 failovers) + $(path_value 1 failovers) ))" 1 "calls that moved to the other path"
		elif [[ $memreg == pool ]]; then
			verified "$memreg" "$work" vm-link flap 20
		fi
		verified "$memreg" "$work" vm-nfsd-restart 2
		at_least "$(stat_now conn.downs)" $(( lost + 1 )) "connections lost when the server restarted"
	done
	mount_down
done
