# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A disk whose flush takes its time: what a mount holds at its end gets there. "There" means: on the
# disk of a server that has lost its memory since (EXT4_IOC_SHUTDOWN).
# shellcheck source-path=SCRIPTDIR source=../disk.sh
. "${BASH_SOURCE[0]%/*}/../disk.sh"

let_go() { kill "${WRITERS[@]}" 2>/dev/null; wait "${WRITERS[@]}" 2>/dev/null; WRITERS=(); }
ended() { gone "$DAEMON" || fail "the daemon still runs a minute after $1"; DAEMON=''; }

# A signal ends the mount.
# Longer than this takes to look at what is held, however busy the machine is.
vm-disk 500 >/dev/null
mount_up
write_blocks term 200 hold
until_true "200 MiB are written" has_said term written
held=$(stat_now now.held_bytes)
at_least "$held" 1 "bytes that are held"
kill -TERM "$DAEMON"
ended SIGTERM
lose_memory
whole term 200 "SIGTERM with $held bytes held"
vm-nfsd-restart
let_go

# umount -l, and the program ends.
vm-disk 40 >/dev/null
mount_up
write_blocks lazy 32 hold
until_true "32 MiB are written" has_said lazy written
lazy=$(stat_now now.held_bytes)
unmount -l || fail "umount -l"
let_go
ended "umount -l, and the program's end"
lose_memory
whole lazy 32 "umount -l with $lazy bytes held"
vm-nfsd-restart
echo "# held at SIGTERM $(( held >> 20 )) MiB, at umount -l $(( lazy >> 20 )) MiB"
