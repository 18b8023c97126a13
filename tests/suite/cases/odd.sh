# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Odd input: each option of the table with odd values, long lists, odd mount points, a server with many addresses,
# odd names of files in what programs read. One clear line for each that is refused, no hang, nothing left behind.
[[ $NFSRDMA_KERNEL == ganesha ]] || skip "depends on no server"
# FUSE keeps fusermount3 out of a user's mount, so nothing can be mounted below it.
[[ $(id -u) == 0 ]] || skip "mounts below a mount take root"
type python3 >/dev/null 2>&1 || skip "no python3"
trap end_all EXIT
base="vers=$VERS,$MOUNT_OPTIONS,retry=0"

# one_line WHAT STATUS OUTPUT TEXT... - the program ended by itself, with one line that has these texts.
one_line() {
	local what=$1 got=$2 out=$3 text
	shift 3
	(( got == 1 || got == 32 )) || fail "$what: status $got: ${out:0:900}"
	[[ $out != *$'\n'* && $out == "nfsrdma-fuse: "* ]] || fail "$what: not one line: ${out:0:900}"
	(( ${#out} < 1500 )) || fail "$what: a line of ${#out} characters"
	for text; do [[ $out == *"$text"* ]] || fail "$what: no '$text' in: ${out:0:900}"; done
}
# refused WHAT OPTIONS TEXT... - of a mount.
refused() {
	local what=$1 options=$2 out
	shift 2
	out=$(timeout 30 "$BIN" "$REMOTE" "$MNT" -o "$options" 2>&1)
	one_line "$what" $? "$out" "$@"
	! is_mounted || fail "$what: it left a mount"
}

# Options, all that there are. Those with a value: nobody is asked while the list is wrong, and what is wrong is named.
huge=99999999999999999999
mapfile -t words < <("$BIN" --words)
declare -A values=()
for word in "${words[@]}"; do
	name=${word%%=*}
	[[ $word == *=* ]] || name=$word
	case $word in *=) : "${values[$name]:=number}" ;; *=*) values[$name]=word ;; *) values[$name]=flag ;; esac
done
(( ${#values[@]} > 70 )) || fail "options: ${!values[*]}"
long=$(printf '%65536s' '')
long=${long// /9}
ignored=$("$BIN" --help | sed -n '/^Accepted without effect/,/^$/p' | tr -d ',\n')
tried=0
for name in "${!values[@]}"; do
	[[ " $ignored " != *" $name "* ]] || continue
	case $name in
	# Text is good as it is, and so is whatever what is ignored has.
	fsname|stats|idmapfile) continue ;;
	remoteports|addr|localports|localaddr) odd=("" "$huge," " " "x y" "10.0.0.256" "~" "$long") ;;
	*) case ${values[$name]} in
		flag) odd=("=yes ") ;;
		*) odd=("=" "=$huge" "=-1" "=1 ") ;;
		esac ;;
	esac
	for value in "${odd[@]}"; do
		[[ $value == =* || ! $value ]] || value="=$value"
		[[ ${values[$name]} != flag || $value ]] || continue
		refused "$name${value:0:40}" "$base,$name$value" "option" "$name"
		(( tried++ ))
	done
done
refused "an unknown option of 64 KiB" "$base,$long" "is not known" "--help"
refused "a value of 64 KiB" "$base,rsize=$long" "option rsize" "allowed: "
refused "a name of 64 KiB" "$base,fsname=$long" fsname "longer than"
echo "# $tried odd values of ${#values[@]} options"

# A list of 64 KiB that is good: each option again and again, the last one counts.
many=$(printf 'timeo=600,%.0s' {1..6600})
mount_up "${many}ro,rw,actimeo=7,actimeo=3"
: >"$WORK/f" || fail "the last of two options does not count"
equal "$(<"$WORK/f")" "" "a file"

# Mount points. Here is a mount; nothing of what follows takes it away.
point() {
	local what=$1 where=$2 out
	shift 2
	out=$(timeout 30 "$BIN" "$REMOTE" "$where" -o "$base" 2>&1)
	one_line "$what" $? "$out" "cannot mount on" "$@"
	[[ -e $WORK/f ]] || fail "$what: the first mount is gone"
}
mkdir "$WORK/full" "$TMPDIR/full" && touch "$WORK/full/x" "$TMPDIR/full/x" "$TMPDIR/file" && ln -s none "$TMPDIR/dangling" && ln -s loop "$TMPDIR/loop"
point "a mount point that is taken" "$MNT" "busy"
point "a directory of a mount that is not empty" "$WORK/full" "not empty"
point "a file of a mount" "$WORK/f" "not a directory"
point "a file" "$TMPDIR/file" "not a directory"
point "a file with a slash" "$TMPDIR/file/" "ot a directory"
point "a link to nothing" "$TMPDIR/dangling" "No such file" "make the directory first"
point "a link to itself" "$TMPDIR/loop" "symbolic links"
point "a long name" "$TMPDIR/${long:0:300}" "File name too long"
point "a long path" "/${long:0:250}/${long:0:250}/${long:0:250}/${long:0:250}/${long:0:250}/${long:0:250}/x" "No such file"
point "a path of 64 KiB" "/$long" "File name too long"
point "no name" "$TMPDIR/"$'new\nline\xff' "No such file"

# Below a mount of ours, and by a link; the names of the mount table are those of fstab: \040 \011 \012 \134.
n=0
ln -s "$WORK/below" "$TMPDIR/link"
for where in "$WORK/below" "$TMPDIR/link" "$WORK/a b" "$WORK/"$'tab\there' "$WORK/"$'new\nline\\' "$WORK/"$'\xff\xfe' "$TMPDIR/,=\"'#"; do
	[[ $where == "$TMPDIR/link" ]] || mkdir "$where" || fail "mkdir '$where'"
	timeout 60 "$BIN" "$REMOTE" "$where" -o "$base" >"$TMPDIR/said" 2>&1 || fail "a mount on '$where': $(<"$TMPDIR/said")"
	[[ -e $where/$CASE/f ]] || fail "nothing is mounted on '$where'"
	timeout 60 "$BIN" ctl "$where" paths --json >"$TMPDIR/json" || fail "ctl on '$where'"
	python3 -m json.tool "$TMPDIR/json" >/dev/null || fail "paths of '$where': $(<"$TMPDIR/json")"
	for form in openmetrics mountstats; do
		timeout 60 "$BIN" ctl "$where" "${form/openmetrics/metrics}" >"$TMPDIR/$form" || fail "$form of '$where'"
		"${BASH_SOURCE[0]%/*}/../$form-form" "$TMPDIR/$form" >"$TMPDIR/form" 2>&1 || fail "$form of '$where': $(<"$TMPDIR/form")"
	done
	umount "$where" || fail "umount '$where'"
	(( n++ ))
done
echo "# $n odd mount points"

# Odd names of files in what is said of requests: each line is JSON, whatever the bytes.
timeout 60 "$BIN" ctl "$MNT" log --json op=LOOKUP >"$TMPDIR/requests" 2>"$TMPDIR/said" & listener=$!
heard() { [[ -s $TMPDIR/requests ]] || { [[ -e $WORK/before.$((++n)) ]]; [[ -s $TMPDIR/requests ]]; }; }
until_true "a line of the log" heard
for name in $'new\nline' $'tab\t"\\' $'\xff\xfe\xc3' $'\x01\x1b[31m' $'\xed\xa0\x80' $'\xf4\x90\x80\x80' "${long:0:255}"; do
	[[ ! -e $WORK/no-$name ]] || fail "'$name' is there"
done
: >"$WORK/last"
seen() { grep -q '/last"' "$TMPDIR/requests"; }
until_true "the last name in the log" seen
kill $listener
python3 - "$TMPDIR/requests" <<'END_OF_PYTHON' || fail "the log: $(<"$TMPDIR/requests")"
import json, sys
names = [line for line in open(sys.argv[1], encoding="utf-8", newline="\n").read().split("\n") if line]
odd = [json.loads(line) for line in names if "/no-" in line]
print("#", len(odd), "odd names")
sys.exit(len(odd) < 6)
END_OF_PYTHON
mount_down

# The mount point goes away under the mount: its directory gets another name.
mkdir -p "$TMPDIR/up/at"
timeout 60 "$BIN" "$REMOTE" "$TMPDIR/up/at" -o "$base" || fail "a mount below a directory"
rmdir "$TMPDIR/up/at" 2>/dev/null && fail "a mount point was removed"
mv "$TMPDIR/up" "$TMPDIR/moved" || fail mv
[[ -e $TMPDIR/moved/at/$CASE/f ]] || fail "the mount did not move"
pid=$(pgrep -f "^$BIN $REMOTE $TMPDIR/up/at") || fail "no daemon"
umount "$TMPDIR/moved/at" || fail "umount where it has moved to"
gone "$pid" || fail "the daemon outlives its mount that has moved"

# It can be removed, by who does not see the mount: that takes the mount away, and the daemon ends by itself.
mkdir -p "$TMPDIR/gone/at"
"$BIN" -f "$REMOTE" "$TMPDIR/gone/at" -o "$base" 2>"$TMPDIR/said" & pid=$!
until_true "the mount on a directory that is to be removed" grep -q 'is mounted on' "$TMPDIR/said"
unshare -m sh -c 'umount "$1" && rmdir "$1"' - "$TMPDIR/gone/at" || fail "the mount point was not removed"
gone "$pid" || fail "the daemon outlives its mount point"
wait "$pid" || fail "the daemon whose mount point was removed: status $?: $(<"$TMPDIR/said")"
grep -q " $TMPDIR/gone/at " /proc/mounts && fail "the mount outlives its mount point"
[[ ! -e /run/nfsrdma-fuse ]] || fail "its control socket is left: $(ls -la /run/nfsrdma-fuse)"

# A server with 50 addresses, of which a mount tries 8, in the resolver's order: that has the nearest first.
# at_many WHERE OUTPUT ADDRESS... - a mount of a server with these addresses, on WHERE. Sets got.
at_many() {
	local where=$1 out=$2
	shift 2
	printf '%s many.test\n' "$@" >"$TMPDIR/hosts"
	mount --bind "$TMPDIR/hosts" /etc/hosts || fail "a hosts file"
	timeout 60 "$BIN" "many.test:${REMOTE#*:}" "$where" -o "$base" >"$out" 2>&1
	got=$?
	umount /etc/hosts
}
others=(127.0.1.{1..50})
# None of them answers: a line for each that another one is tried behind, and at the end what is wrong with the first
# and what was not tried.
at_many "$MNT" "$TMPDIR/said" "${others[@]}"
out=$(<"$TMPDIR/said")
named=7
[[ $VERS != 3 ]] || named=1
one_line "50 addresses that do not answer" $got "${out##*$'\n'}" "cannot connect to 127.0.1." "port 20049" "refused" \
	"Of the 50 addresses of 'many.test' only the first" "with remoteports="
equal "$(grep -o 'connect to 127[.0-9]*' <<<"$out" | sort -u | wc -l)" $named "addresses that did not answer"
equal "$(grep -c 'Of the 50 addresses' <<<"$out")" 1 "lines of those that were not"
! is_mounted || fail "a mount is left"
# One that answers is among those that are tried, and not the first of them.
mkdir "$TMPDIR/many"
has_gateway
NFSRDMA_SERVER=127.0.1.5 gateway_up 20049 127.0.0.1
if [[ $VERS != 3 ]]; then
	at_many "$TMPDIR/many" "$TMPDIR/said" "${others[@]}"
	equal "$got" 0 "status of a mount whose server answers at one of 8 addresses: $(<"$TMPDIR/said")"
	[[ -d $TMPDIR/many/$CASE ]] || fail "nothing is mounted by one of 8 addresses"
	! grep -q 'Of the 50 addresses' "$TMPDIR/said" || fail "a mount that works: $(<"$TMPDIR/said")"
	umount "$TMPDIR/many" || fail "umount of a server with many addresses"
fi
# Only the last one answers.
at_many "$TMPDIR/many" "$TMPDIR/said" 127.0.0.{11..18} 127.0.1.5
out=$(<"$TMPDIR/said")
one_line "the 9th address answers" $got "${out##*$'\n'}" "cannot connect to 127.0.0.1" \
	"Of the 9 addresses of 'many.test' only the first" "remoteports="
timeout 60 "$BIN" "many.test:${REMOTE#*:}" "$TMPDIR/many" -o "$base,remoteports=127.0.1.5" || fail "that address, by remoteports="
umount "$TMPDIR/many" || fail "umount of that address"
gateway_down
