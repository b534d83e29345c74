#!/usr/bin/env bash
# Installs what is missing of the Debian packages that the tour or the tests
# need, as root or by sudo; else says which command does it.
#
#   scripts/deps.sh run      for the tour: a C compiler, rpcgen, libtirpc
#   scripts/deps.sh test     for the tests: the C peers and the tools too
#   scripts/deps.sh bench    for the benchmarks beside other systems: redis-server
#   scripts/deps.sh have-c   0 when C programs can be built; installs nothing
set -euo pipefail

found() { # a command, in the sbin directories too, or a file
	case $1 in
	/*) [ -e "$1" ] ;;
	*) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
	esac
}

# netbase: clnt_create looks up the portmapper's port in /etc/services.
c_needs="gcc=gcc /usr/include/stdio.h=libc6-dev cpp=cpp rpcgen=rpcsvc-proto pkg-config=pkg-config \
/usr/include/tirpc/rpc/rpc.h=libtirpc-dev /etc/netconfig=libtirpc-common /etc/services=netbase"
run_needs="ip=iproute2"
test_needs="$run_needs git=git openssl=openssl rpcbind=rpcbind valgrind=valgrind strace=strace ps=procps mount=mount \
rpc.statd=nfs-common rpc.rusersd=rusersd rpc.rstatd=rstatd systemd-socket-activate=systemd \
unshare=util-linux nsenter=util-linux /usr/include/roaring/roaring.h=libroaring-dev \
rusers=rusers ganesha.nfsd=nfs-ganesha \
/usr/lib/$(uname -m)-linux-gnu/ganesha/libfsalmem.so=nfs-ganesha-mem"

missing() { # the packages of those "what=package" that are not there
	local need
	for need in "$@"; do
		found "${need%%=*}" || echo "${need##*=}"
	done | sort -u | xargs
}

install() {
	local sudo=() log
	command -v apt-get >/dev/null || return 1
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null || return 1
		sudo=(sudo -n)
	fi
	echo "installing: $*"
	log=$(mktemp)
	local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y)
	if "${apt[@]}" install --no-install-recommends "$@" >"$log" 2>&1 ||
		{ "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"; } >"$log" 2>&1; then
		rm -f "$log"
		return 0
	fi
	tail -n 5 "$log" >&2
	rm -f "$log"
	return 1
}

# shellcheck disable=SC2086 # the lists are split on purpose
case ${1:-} in
have-c)
	[ -z "$(missing $c_needs)" ]
	;;
run)
	lack=$(missing $c_needs $run_needs)
	if [ -n "$lack" ] && ! install $lack; then
		echo "missing: $lack"
		echo "  to install it: apt-get install -y $lack"
		echo "  (as root; without it the tour runs without what needs it)"
	fi
	;;
test)
	lack=$(missing $c_needs $test_needs)
	if [ -n "$lack" ] && ! install $lack; then
		echo "missing: $lack" >&2
		echo "  to install it: apt-get install -y $lack  (as root)" >&2
		if [ -n "$(missing $c_needs)" ]; then
			exit 1 # the race detector and the libtirpc binding need a C compiler
		fi
		echo "  without it, tests that need it are skipped" >&2
	fi
	;;
bench)
	lack=$(missing $run_needs redis-server=redis-server unshare=util-linux mount=mount)
	if [ -n "$lack" ] && ! install $lack; then
		echo "missing: $lack" >&2
		echo "  to install it: apt-get install -y $lack  (as root)" >&2
		exit 1
	fi
	;;
*)
	sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
