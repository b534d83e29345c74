#!/usr/bin/env bash
# The tour: a cluster of a master and three slaves as processes on loopback,
# the chemical elements as its table, queries in both versions of the protocol,
# a plain C client, and a slave killed in mid-service. Every answer is compared
# with the table itself; a difference ends the tour with exit status 1.
# shellcheck disable=SC2016 # the conditions on the table are awk
set -euo pipefail
cd "$(dirname "$0")/.."

table=examples/elements/elements.csv
slaves=(127.0.0.2 127.0.0.3 127.0.0.4)
version1=(bin/c/client 127.0.0.1 1 tcp P:1 P:2 P:3 P:4 R:1-4)
export STARFISH_MASTER=127.0.0.1
export STARFISH_PORTMAP=${STARFISH_PORTMAP:-10111} # where ours is when 111 is not to be had

work=$(mktemp -d)
declare -A pid_of=()
added=() # addresses that we gave to lo

cleanup() {
	local pid addr
	trap - EXIT INT TERM
	for pid in "${pid_of[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
	for pid in "${pid_of[@]}"; do
		for _ in {1..50}; do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	for addr in "${added[@]}"; do ip addr del "$addr/8" dev lo || true; done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

title() { printf '\n== %s\n' "$*"; }
die() {
	printf '\ntour: %s\n' "$*" >&2
	exit 1
}
show() { # a command as one would type it
	local word line='$'
	for word in "$@"; do
		case $word in *[!A-Za-z0-9_./:=,-]*) word="'$word'" ;; esac
		line+=" $word"
	done
	printf '%s\n' "$line"
}
run() {
	show "$@"
	"$@"
}

start() { # NAME COMMAND...: in the background, its output in a log
	local name=$1
	shift
	show "$@"
	"$@" >"$work/$name.log" 2>&1 &
	pid_of[$name]=$!
}

alive() { # every process that we started is there; else why it is not
	local name
	for name in "${!pid_of[@]}"; do
		if ! kill -0 "${pid_of[$name]}" 2>/dev/null; then
			cat "$work/$name.log" >&2
			die "$name ended (a cluster that runs already? its ports are taken)"
		fi
	done
}

serving() { bin/starfish status --json 2>/dev/null | grep -o '"state":"serving"' | wc -l; }

port_open() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# The symbols of the elements whose numbers are on stdin, one a line.
symbols() {
	awk -F, 'NR == FNR { symbol[$1] = $2; next } { printf "%s ", symbol[$1] }' "$table" -
}

# The numbers of the elements that the awk condition holds for, from the table
# alone. The columns are number ($1), symbol, name, period ($4), group ($5),
# block ($6), state ($7), year ($8).
expected() { awk -F, "NR > 1 && ($1) { print \$1 }" "$table"; }

# ask QUERY CONDITION TEXT: a query, its answer, and whether the table says so.
ask() {
	local rows
	printf '\n%s\n' "$3"
	show bin/starfish query "$1" --rows
	rows=$(bin/starfish query "$1" --rows) || die "the query failed"
	printf '%s rows: %s\n' "$(grep -c . <<<"$rows" || true)" "$(tr '\n' ' ' <<<"$rows")"
	printf '  that is: %s\n' "$(symbols <<<"$rows")"
	[ "$rows" = "$(expected "$2")" ] || die "the table says otherwise: $(expected "$2" | tr '\n' ' ')"
}

# answers FILE: the answers of many queries, one a line.
answers() {
	local text answer
	for text in P:1 P:118 P:204 P:400 'R:1-4' 'R:1-7' 'R:*' 'R:101-118&303' 'R:{1,4,6}&301,302' \
		'R:[1,4]&[201,203]' 'R:1800-1890&204' 'R:302' 'R:5-7&113-118&301' 'R:9999'; do
		answer=$(bin/starfish query "$text" --json) || die "$text failed"
		printf '%s %s\n' "$text" "${answer%,\"seed\"*}" # chance differs, the answer must not
	done >"$1"
}

# --- begin -------------------------------------------------------------------

title "A cluster: a master and three slaves, two copies of every vector"
if [ -e /run/rpcbind.sock ] || port_open 127.0.0.1 111; then
	echo "(a portmapper runs on this host: the cluster registers with it)"
	for addr in "${slaves[@]}"; do
		# It answers with addresses of the interface, so the slaves' must be some.
		if [ "$(id -u)" = 0 ] && command -v ip >/dev/null &&
			! ip -o addr show dev lo | grep -q "inet $addr/" && ip addr add "$addr/8" dev lo; then
			added+=("$addr")
		fi
	done
fi
start master bin/master --data "$work/master" --replicas 2
for addr in "${slaves[@]}"; do
	start "$addr" bin/slave --master 127.0.0.1 --addr "$addr" --data "$work/$addr"
done
for _ in {1..300}; do
	alive
	[ "$(serving)" = 3 ] && break
	sleep 0.1
done
[ "$(serving)" = 3 ] || { bin/starfish status || true; die "the slaves do not serve after 30 s"; }

grep '^portmapper' "$work/master.log" || true

title "The table: 118 elements, a vector for each period, group, block ..."
run bin/starfish load examples/elements/elements.index
echo
echo "What the ids stand for:"
sed -n '4,/^[^#]/s/^# \{0,1\}//p' examples/elements/elements.index

title "Queries: a row is an atomic number, so you can check by eye"
ask P:118 '$5 == 18' "P:118 is one vector, group 18: the noble gases"
ask 'R:1-4&303' '$4 <= 4 && $7 == "gas"' "R: is an AND of ORs. Periods 1 to 4, and gas at room temperature:"
ask 'R:302' '$7 == "liquid"' "The liquid elements"
ask 'R:{101,117}&301' '($5 == 1 || $5 == 17) && $7 == "solid"' "Group 1 or 17, and solid"
ask 'R:1800-1890&204' '$8 >= 1800 && $8 < 1900 && $6 == "f"' "What the 19th century found of block f (an id is a decade)"
ask 'R:400' '$8 == ""' "Known before 1600"

title "Where the vectors come from"
run bin/starfish explain 'R:1-4&303'
echo
run bin/starfish status

title "The same cluster for a plain C program: rpcgen's stubs of structs.x, clnt_create"
c_part=
if [ ! -x bin/c/client ]; then
	echo "skipped: no C compiler, rpcgen or libtirpc here (scripts/deps.sh run says what to install)"
elif ! port_open 127.0.0.1 111; then
	echo "skipped: clnt_create asks the portmapper on port 111, which we may not serve. As root it works, or after"
	echo "  sudo setcap cap_net_bind_service=+ep bin/master     or     apt-get install -y rpcbind"
else
	c_part=yes
fi
if [ -n "$c_part" ]; then
	echo "Version 1 answers in one 64-bit word. Periods 1 to 4 are the rows 1 to 36, which fit:"
	show "${version1[@]}"
	"${version1[@]}" | tee "$work/c1" || die "the C client failed"
	[ "$(tail -n 1 "$work/c1")" = "rows $(seq -s ' ' 1 36)" ] || die "the C client's answer is wrong"
	echo
	echo "Block f begins at row 57, and ends beyond 63. A word cut short would be wrong, so version 1 refuses:"
	if run bin/c/client 127.0.0.1 1 tcp P:204 2>&1; then die "version 1 answered what it cannot hold"; fi
	echo
	echo "Version 2 has bitmaps of any length:"
	show bin/c/client 127.0.0.1 2 tcp P:204 'R:1-7&302'
	bin/c/client 127.0.0.1 2 tcp P:204 'R:1-7&302' | tee "$work/c2" || die "the C client failed"
	[ "$(sed -n 2p "$work/c2")" = "rows $(expected '$6 == "f"' | paste -sd ' ')" ] || die "the C client's answer is wrong"
	show bin/c/client 127.0.0.1 2 udp 'R:*'
	bin/c/client 127.0.0.1 2 udp 'R:*' | tee "$work/c3" || die "the C client failed"
	[ "$(head -n 1 "$work/c3")" = "count 118" ] || die "the C client's answer is wrong"
	echo
	echo "A C program puts and deletes too, and reads in pages (cgo/examples/index):"
	run bin/c/index 127.0.0.1 put 9001 1-10,26,79 || die "the put failed"
	show bin/c/index -p 5 127.0.0.1 query 'R:9001&301'
	bin/c/index -p 5 127.0.0.1 query 'R:9001&301' | tee "$work/c4" || die "the C program failed"
	[ "$(head -n 1 "$work/c4")" = "rows 3 4 5 6 26 79" ] || die "the C program's answer is wrong"
	run bin/c/index 127.0.0.1 delete 9001 || die "the delete failed"
fi

title "A slave is killed"
answers "$work/before"
victim=$(bin/starfish explain 'R:1-4&303' --json | grep -o '"from":"[^"]*"' | head -n 1 | cut -d '"' -f 4)
[ -n "${pid_of[$victim]:-}" ] || die "explain names no slave of ours: $victim"
echo "explain takes vectors from $victim: SIGKILL to that process, without a word to the master"
kill -KILL "${pid_of[$victim]}"
wait "${pid_of[$victim]}" 2>/dev/null || true
unset "pid_of[$victim]"

answers "$work/after"
if ! diff "$work/before" "$work/after"; then
	die "an answer changed when $victim died"
fi
echo "$(wc -l <"$work/after") queries, asked before and after: the same answers"
if [ -n "$c_part" ]; then
	"${version1[@]}" >"$work/c1.after" || die "the C client failed"
	cmp "$work/c1" "$work/c1.after" || die "the C client's answer changed"
	echo "The C client too: the same words."
fi
echo
run bin/starfish explain 'R:1-4&303'
echo
run bin/starfish status
alive

title "That was it"
cat <<'END'
Go on with: bin/starfish up          a cluster to try things with, in one process
            bin/starfish --help      all commands, with examples
            docs/query.md            the query language
            docs/c-clients.md        for C programmers, from structs.x to a handler
END
