# shellcheck shell=bash
# ci/common.sh: what the scripts in ci/ share.  Sourced, not run.
#
# Sets	root		the top folder of the repository
#	PG_MAJOR	PostgreSQL major version (15)
#	PG_CONFIG	pg_config of that version; a value from outside wins
#	OSUSER		who runs servers when we are root (postgres): the server
#			refuses to run as root
# Exported, so that make and prove below us see the same server.

# shellcheck disable=SC2034	# used by the scripts that source this file
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PG_MAJOR=${PG_MAJOR:-15}
OSUSER=${OSUSER:-postgres}

# Debian's /usr/bin/pg_config is that of the newest installed version, which
# need not be the wanted one.
if [ -z "${PG_CONFIG:-}" ]; then
	PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config
	[ -x "$PG_CONFIG" ] || PG_CONFIG=pg_config
fi
export PG_MAJOR PG_CONFIG

# die MESSAGE...: print each argument on a line of its own and leave.
die() {
	printf '%s\n' "${0##*/}: $1" >&2
	shift
	[ $# -eq 0 ] || printf '  %s\n' "$@" >&2
	exit 1
}

# as_server_user COMMAND...: run a command as a user the server accepts.
as_server_user() {
	if [ "$(id -u)" -eq 0 ]; then
		runuser -u "$OSUSER" -- "$@"
	else
		"$@"
	fi
}

# pick_work_dir KILOBYTES: a folder for short-lived clusters; memory is much
# faster than disk for initdb and fsync, so /dev/shm if it has the room.
pick_work_dir() {
	local dir free
	for dir in /dev/shm /tmp; do
		[ -w "$dir" ] || continue
		free=$(df -Pk "$dir" | awk 'NR == 2 { print $4 }')
		if [ "$free" -gt "$1" ]; then
			echo "$dir"
			return
		fi
	done
	die "neither /dev/shm nor /tmp has $(($1 / 1024)) MB free"
}
