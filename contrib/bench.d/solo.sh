# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154,SC2034,SC2317 # what is not set here is inside's
# solo.sh - the row solo: what consistency=solo is for. dd and untar are everyday.sh's, and the
# rest is PostgreSQL's, with its data in the mount: few names, and many small writes and fsyncs.
# It is skipped where PostgreSQL is not installed. The data base runs as nobody, not as root.

# ---- PostgreSQL ------------------------------------------------------------------

# as_nobody COMMAND... - without a search for the name of the time zone.
as_nobody() { limited setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ TZ=UTC "$@"; }

# postgres_prepare FOLDER - the data base from which pgbench begins. All is run once, because what
# the guest asks the host for takes a time like any other.
postgres_prepare() {
	POSTGRES=$(postgres_programs)
	# The guest's folder for such files is root's alone.
	[[ ! -d /run/vm ]] || chmod 711 "${TMP%/*}" || return
	chmod 711 "$TMP" "$1" && mkdir "$TMP/postgres" && chown nobody: "$TMP/postgres" || return
	tell about 'PostgreSQL' "$("$POSTGRES/postgres" --version)"
	ready_initdb "$1" && work_initdb "$1" && mv "$1/initdb" "$1/made" &&
		ready_pgbench_i "$1" && work_pgbench_i "$1"
}

ready_initdb() { rm -rf "$1/initdb" && mkdir "$1/initdb" && chown nobody: "$1/initdb"; }
work_initdb() { as_nobody "$POSTGRES/initdb" --data-checksums --auth=trust --username=bench -D "$1/initdb"; }
check_initdb() { checksums_are_right "$1/initdb"; }

ready_pgbench_i() { rm -rf "$1/pgbench" && cp -a "$1/made" "$1/pgbench"; }
# By the clock of pgbench alone. The server is started before, and stopped behind it.
work_pgbench_i() {
	local start status
	postgres_control start "$1/pgbench" || return
	start=${EPOCHREALTIME/./}
	SAID=$TMP/said.pgbench as_nobody "$POSTGRES/pgbench" -i --quiet -h "$TMP/postgres" -U bench postgres
	status=$?
	WORK_US=$(( ${EPOCHREALTIME/./} - start ))
	postgres_control stop "$1/pgbench" && (( status == 0 )) && return
	fail "pgbench: $(tail -n 2 "$TMP/said.pgbench")"
}
check_pgbench_i() { checksums_are_right "$1/pgbench"; }

# postgres_control start|stop DATA
postgres_control() {
	SAID=$TMP/said.control as_nobody "$POSTGRES/pg_ctl" "$1" --silent -D "$2" -l "$TMP/postgres/log" \
		-o "-c listen_addresses= -k $TMP/postgres" && return
	fail "pg_ctl $1: $(tail -qn 2 "$TMP/said.control" "$TMP/postgres/log" 2>/dev/null)"
}

# checksums_are_right DATA - of each page, as the server has it, of a data base that was shut
# down.
checksums_are_right() {
	quietly "$POSTGRES/pg_checksums" --check -D "$1" || return
	grep -q '^Bad checksums: *0$' "$TMP/said.besides" || fail "pg_checksums says: $(<"$TMP/said.besides")"
}

# ---- The row ---------------------------------------------------------------------

# row_solo CLIENT WHAT [HOW]
row_solo() {
	with_view far_ready "${@:2}" || return
	command_line "run $ROW $VARIANT" "$(declare -f "work_${2//-/_}" | tr -s '\n\t ' ' ')"
	WORK_US=''
	counted "$1" '' far_work "$MNT/$FOLDER" "${@:2}" || return
	ASKED=0         # once or twice at the start of a program, which is nothing beside the work
	with_view far_check "${@:2}" || return
	VALUES=("$(us_to_s "${WORK_US:-$RUN_US}") s" "${COUNTED[@]}")
}
